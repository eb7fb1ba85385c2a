"""Reprs of dataclasses in one line: arrays by type and shape."""

from __future__ import annotations

import dataclasses
from collections.abc import Sized
from typing import Any

import numpy as np

__all__ = ["short_repr"]

_MOST_ENTRIES = 6
_MOST_CHARACTERS = 60


def short_repr(record: Any) -> str:
    """Return the repr of a dataclass in one line.

    Large arrays are shown by type and shape, long containers by length, and fields that are None
    are left out. In the body of a dataclass: ``__repr__ = short_repr``.

    >>> @dataclasses.dataclass
    ... class Counts:
    ...     table: np.ndarray
    ...     size: np.ndarray
    ...     history: dict
    ...     __repr__ = short_repr
    >>> Counts(np.zeros((40, 2)), np.array([30, 10]), {"objective": [0.5] * 300})
    Counts(table=float64 (40, 2), size=[30, 10], history={'objective': list of 300})
    """
    values = {
        field.name: getattr(record, field.name)
        for field in dataclasses.fields(record)
        if field.repr
    }
    shown = [f"{name}={_short(value)}" for name, value in values.items() if value is not None]
    return f"{type(record).__name__}({', '.join(shown)})"


def _short(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return _short_array(value)
    if isinstance(value, Sized) and not isinstance(value, str):
        return _short_container(value)
    if hasattr(value, "get_params"):
        return f"{type(value).__name__}(…)"
    return repr(value) if dataclasses.is_dataclass(value) else _cut(repr(value))


def _short_array(array: Any) -> str:
    if isinstance(array, np.generic):
        return repr(array.item())
    if isinstance(array, np.ndarray) and array.ndim == 1 and len(array) <= _MOST_ENTRIES:
        # three digits are enough to recognise a value
        return _cut(np.array2string(array, precision=3, separator=", "))
    kind = "" if isinstance(array, np.ndarray) else f"{type(array).__name__} of "
    return f"{kind}{array.dtype} {tuple(array.shape)}"


def _short_container(items: Sized) -> str:
    if len(items) > _MOST_ENTRIES:
        return f"{type(items).__name__} of {len(items):,}"
    if type(items) is dict:
        return "{" + ", ".join(f"{key!r}: {_short(item)}" for key, item in items.items()) + "}"
    if type(items) is list:
        return f"[{', '.join(map(_short, items))}]"
    if type(items) is tuple:
        return f"({', '.join(map(_short, items))}{',' if len(items) == 1 else ''})"
    return _cut(repr(items))


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
