"""Known attributes: the names that the attributes of an object in a model file may have.

They follow from the class itself, so that there is no second list to maintain.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import inspect
from types import FunctionType
from typing import Any

__all__ = ["is_record", "known_attributes"]

#: Set by the validation of scikit-learn, in functions outside the classes.
_SET_BY_VALIDATION = frozenset({"n_features_in_", "feature_names_in_"})


def known_attributes(kind: type) -> frozenset[str]:
    """Return the attributes that a class knows.

    Those of a record are its fields. Those of another class are the names that its methods assign
    and the names that it annotates, without a value or with None, which older files may lack. The
    name of a method or property is never among them.

    Examples
    --------
    >>> class Mean:
    ...     mean_: float
    ...     def fit(self, X):
    ...         self.n_, self.mean_ = len(X), sum(X) / len(X)
    >>> sorted(known_attributes(Mean) - {"n_features_in_", "feature_names_in_"})
    ['mean_', 'n_']
    """
    return _names_of(kind)


def is_record(kind: type) -> bool:
    """Return whether the fields of a class are its whole state; estimators have attributes too."""
    return dataclasses.is_dataclass(kind) and not hasattr(kind, "get_params")


@functools.cache
def _names_of(kind: Any) -> frozenset[str]:
    if is_record(kind):
        return frozenset(field.name for field in dataclasses.fields(kind))
    names = set(_SET_BY_VALIDATION)
    for base in kind.__mro__:
        names.update(*(_assigned_names(member) for member in vars(base).values()))
        names.update(
            name for name in inspect.get_annotations(base) if getattr(kind, name, None) is None
        )
    return frozenset(name for name in names if not _is_computed(kind, name))


def _assigned_names(member: object) -> set[str]:
    """Return the names x of the statements ``self.x = …`` in a method, also of other objects.

    From Python 3.13 on, ``__static_attributes__`` of the class holds the same names.
    """
    function = inspect.unwrap(member) if callable(member) else member
    if not isinstance(function, FunctionType):
        return set()
    return {code.argval for code in dis.get_instructions(function) if code.opname == "STORE_ATTR"}


def _is_computed(kind: type, name: str) -> bool:
    """Return whether the class defines the name as a method or property."""
    hidden = inspect.getattr_static(kind, name, None)
    return hasattr(type(hidden), "__get__") or name.startswith("__")
