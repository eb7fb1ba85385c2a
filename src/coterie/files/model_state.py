"""The state of an estimator as a JSON tree and a list of arrays, without pickle."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from coterie.errors import CoterieWarning, ModelFileError
from coterie.files.known_attributes import is_record, known_attributes
from coterie.files.size_bounds import refuse_nested_text
from coterie.files.storable_types import STORABLE_TYPES, class_of, stable_name

__all__ = ["OutlineReader", "SparseOutline", "StateReader", "StateWriter"]

_ARRAY_KINDS = "biufcUSmM"
# every integer of so many bits is within the range of a float
_MOST_BITS = 1023
#: How often matrices and indexes may use the bytes of all arrays together.
_MOST_COPIES = 8
_SCALARS = {
    np.dtype(kind).name: np.dtype(kind).type
    for kind in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
} | {"str": np.str_}
_SPARSE = {"csr_array": sp.csr_array, "csr_matrix": sp.csr_matrix}
_STORABLE = (
    "None, numbers, text, lists, tuples, dicts, arrays of numbers or text, CSR matrices, pandas "
    "indexes and the types in coterie.files.storable_types.STORABLE_TYPES"
)


class StateWriter:
    """Encoder of values as a JSON tree; arrays are collected separately, each of them once.

    A value that JSON lacks becomes an object with one key, which begins with ``$``.

    Attributes
    ----------
    arrays : list of ndarray
        The arrays found so far; ``{"$array": 3}`` refers to the one at index 3.

    Examples
    --------
    >>> writer = StateWriter()
    >>> writer.encode({"shape": (2, None), "bound": float("inf"), "w": np.ones(2)}, "state")
    {'shape': {'$tuple': [2, None]}, 'bound': {'$float': 'inf'}, 'w': {'$array': 0}}
    >>> StateReader(writer.arrays).decode({"$tuple": [1, {"$array": 0}]})
    (1, array([1., 1.]))
    """

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []
        self._numbers: dict[int, int] = {}

    def encode(self, value: Any, place: str) -> Any:
        """Return the tree of a value; ``place`` names the value in error messages."""
        kind = type(value)
        if kind in self._BY_TYPE:
            return self._BY_TYPE[kind](self, value, place)
        if isinstance(value, np.generic):
            return self._scalar(value, place)
        if hasattr(value, "get_level_values"):
            return self._index(value, place)
        return self._object(value, place)

    def _int(self, value: int, place: str) -> Any:
        if value.bit_length() > _MOST_BITS:
            raise ModelFileError(f"{place} is an integer too large to store")
        return value

    def _float(self, value: float, _place: str) -> Any:
        return value if math.isfinite(value) else {"$float": repr(value)}

    def _list(self, value: list[Any], place: str) -> Any:
        return [self.encode(item, f"{place}[{index}]") for index, item in enumerate(value)]

    def _tuple(self, value: tuple[Any, ...], place: str) -> Any:
        return {"$tuple": self._list(list(value), place)}

    def _dict(self, value: dict[Any, Any], place: str) -> Any:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: self.encode(item, f"{place}[{key!r}]") for key, item in value.items()}
        pairs = [
            [self.encode(key, f"a key of {place}"), self.encode(item, f"{place}[{key!r}]")]
            for key, item in value.items()
        ]
        return {"$dict": pairs}

    def _scalar(self, value: np.generic, place: str) -> Any:
        name = "str" if isinstance(value, np.str_) else value.dtype.name
        if name not in _SCALARS:
            raise _not_storable(value, place)
        return {"$scalar": [name, self.encode(value.item(), place)]}

    def _array(self, value: NDArray[Any], place: str) -> Any:
        if value.dtype.kind == "O" and all(type(item) is str for item in value.flat):
            return {"$strings": [list(value.shape), value.ravel().tolist()]}
        if value.dtype.kind not in _ARRAY_KINDS:
            raise _not_storable(value, place)
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.arrays)
            self.arrays.append(value)
        return {"$array": self._numbers[id(value)]}

    def _csr(self, value: Any, place: str) -> Any:
        if value.ndim != 2:
            raise _not_storable(value, place)
        parts = [self._array(part, place) for part in (value.data, value.indices, value.indptr)]
        return {"$csr": [type(value).__name__, [int(size) for size in value.shape], parts]}

    def _index(self, value: Any, place: str) -> Any:
        """Encode a pandas index by the names and values of its levels."""
        names = [None if name is None else str(name) for name in value.names]
        levels = [np.asarray(value.get_level_values(level)) for level in range(value.nlevels)]
        return {"$index": [names, [self._level(level, place) for level in levels]]}

    def _level(self, values: NDArray[Any], place: str) -> Any:
        if values.dtype.kind in _ARRAY_KINDS:
            return self._array(values, place)
        # an array of bytes, because the size of the tree is limited; what JSON lacks becomes text
        text = json.dumps(values.tolist(), default=_as_json)
        return {"$json": self._array(np.frombuffer(text.encode(), dtype=np.uint8), place)}

    def _object(self, value: Any, place: str) -> Any:
        name = stable_name(type(value))
        if name is None:
            raise _not_storable(value, place)
        state = {
            attribute: self.encode(item, f"{place}.{attribute}")
            for attribute, item in _state_of(value, place).items()
        }
        return {"$object": {"type": name, "state": state}}

    _BY_TYPE: ClassVar[dict[type, Callable[..., Any]]] = {
        type(None): lambda _self, value, _place: value,
        bool: lambda _self, value, _place: value,
        str: lambda _self, value, _place: value,
        int: _int,
        float: _float,
        list: _list,
        tuple: _tuple,
        dict: _dict,
        np.ndarray: _array,
        np.memmap: _array,
        sp.csr_array: _csr,
        sp.csr_matrix: _csr,
    }


class StateReader:
    """Decoder of the trees of :class:`StateWriter`.

    It creates only the types in :data:`~coterie.files.storable_types.STORABLE_TYPES`, and only sets
    attributes that they know: no constructor and no other code runs. Other attributes, those of a
    newer version of a class or of a forged file, are dropped unread. An invalid tree raises
    ModelFileError, KeyError, TypeError, ValueError or a similar exception.

    Parameters
    ----------
    arrays : sequence of ndarray
        The arrays of the writer.
    classes : mapping of str to type, optional
        Classes to create for some of the listed names instead of those listed.

    Attributes
    ----------
    types : set of str
        The names of the types read so far.
    """

    def __init__(
        self, arrays: list[NDArray[Any]], classes: Mapping[str, type] | None = None
    ) -> None:
        self.arrays = arrays
        self._classes = classes or {}
        self.types: set[str] = set()
        self._copied_bytes = 0

    def decode(self, tree: Any) -> Any:
        """Return the value of a tree."""
        if isinstance(tree, list):
            return [self.decode(item) for item in tree]
        if not isinstance(tree, dict):
            if type(tree) is int and tree.bit_length() > _MOST_BITS:
                raise ModelFileError(f"it holds an integer of {tree.bit_length():,} bits")
            return tree
        if len(tree) == 1:
            ((tag, body),) = tree.items()
            if tag.startswith("$"):
                return self._BY_TAG[tag](self, body)
        return {key: self.decode(item) for key, item in tree.items()}

    def _dict(self, body: list[Any]) -> dict[Any, Any]:
        return {self.decode(key): self.decode(item) for key, item in body}

    def _scalar(self, body: list[Any]) -> Any:
        name, value = body
        return _SCALARS[name](self.decode(value))

    def _strings(self, body: list[Any]) -> NDArray[np.object_]:
        shape, values = body
        strings = np.empty(len(values), dtype=object)
        strings[:] = values
        return strings.reshape(shape)

    def _csr(self, body: list[Any]) -> Any:
        name, shape, parts = body
        data = tuple(self._copied(part) for part in parts)
        matrix = _SPARSE[name](data, shape=tuple(shape))
        matrix.check_format(full_check=True)
        return matrix

    def _index(self, body: list[Any]) -> Any:
        """Return a pandas index, or without pandas the names of the rows as a list or array."""
        names, levels = body[0], [self._copied(level) for level in body[1]]
        try:
            import pandas as pd
        except ImportError:
            return levels[0] if len(levels) == 1 else list(zip(*levels, strict=True))
        if len(levels) == 1:
            return pd.Index(levels[0], name=names[0])
        return pd.MultiIndex.from_arrays(levels, names=names)

    def _json(self, body: Any) -> Any:
        text = self._copied(body).tobytes()
        refuse_nested_text(text)
        return json.loads(text)

    def _copied(self, tree: Any) -> Any:
        """Decode an array from which another value is made, which takes memory each time."""
        value = self.decode(tree)
        self._copied_bytes += getattr(value, "nbytes", 0)
        if self._copied_bytes > self._most_copied_bytes:
            raise ModelFileError("it refers to its arrays more often than save_model does")
        return value

    @cached_property
    def _most_copied_bytes(self) -> int:
        return _MOST_COPIES * sum(array.nbytes for array in self.arrays)

    def _object(self, body: Mapping[str, Any]) -> Any:
        name = body["type"]
        if name not in STORABLE_TYPES:
            raise ModelFileError(
                f"it holds a {str(name)[:80]}, which this version of coterie does not know"
            )
        kind: Any = self._classes.get(name) or class_of(name)
        self.types.add(name)
        value = kind.__new__(kind)
        known = known_attributes(kind)
        state = {
            attribute: self.decode(item)
            for attribute, item in body["state"].items()
            if attribute in known
        }
        if not is_record(kind):
            value.__dict__.update(state)
            return value
        fields = {field.name: field.default for field in dataclasses.fields(kind)}
        # fields added later have defaults that describe objects of older files
        later = {key: fields[key] for key in fields.keys() - state.keys()}
        if dataclasses.MISSING in later.values():
            raise ModelFileError(f"it holds a {name} of another version of coterie")
        state |= later
        for attribute, item in state.items():
            object.__setattr__(value, attribute, item)  # the class may be frozen
        return value

    _BY_TAG: ClassVar[dict[str, Callable[..., Any]]] = {
        "$float": lambda _self, body: float(body),
        "$tuple": lambda self, body: tuple(self.decode(body)),
        "$dict": _dict,
        "$scalar": _scalar,
        "$array": lambda self, body: self.arrays[body],
        "$strings": _strings,
        "$csr": _csr,
        "$json": _json,
        "$index": _index,
        "$object": _object,
    }


@dataclass(frozen=True)
class SparseOutline:
    """The outline of a CSR matrix."""

    shape: tuple[int, ...]
    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[Any]


class OutlineReader(StateReader):
    """Decoder before the arrays are read: the values have shapes and types, but no numbers.

    ``arrays`` are outlines (:meth:`~coterie.files.size_bounds.ArrayHeader.outline`). A matrix
    becomes a :class:`SparseOutline`, a pandas index None.
    """

    def _sparse(self, body: list[Any]) -> SparseOutline:
        _, shape, parts = body
        return SparseOutline(tuple(shape), *self.decode(parts))

    _BY_TAG: ClassVar[dict[str, Callable[..., Any]]] = StateReader._BY_TAG | {
        "$csr": _sparse,
        "$json": lambda _self, _body: None,
        "$index": lambda _self, _body: None,
    }


def _state_of(value: Any, place: str) -> dict[str, Any]:
    """Return the attributes to store, without cached properties.

    Optional fields of a record that are None are left out, so that adding such a field to a class
    does not change the files of objects without it.
    """
    if is_record(type(value)):
        return {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(value)
            if field.default is not None or getattr(value, field.name) is not None
        }
    known = known_attributes(type(value))
    unknown = sorted(vars(value).keys() - known)
    if unknown:
        warnings.warn(
            f"{place} has attributes that {type(value).__name__} does not know, and which are not "
            f"saved: {', '.join(unknown)}",
            CoterieWarning,
            stacklevel=2,
        )
    return {name: item for name, item in vars(value).items() if name in known}


def _as_json(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def _not_storable(value: Any, place: str) -> ModelFileError:
    kind = type(value).__name__
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return ModelFileError(
            f"{place} holds a {kind}, which cannot be stored; use an int as the seed and fit again"
        )
    of = f" of {value.dtype} values" if isinstance(value, np.ndarray) else ""
    return ModelFileError(f"{place} holds a {kind}{of}; only {_STORABLE} can be stored")
