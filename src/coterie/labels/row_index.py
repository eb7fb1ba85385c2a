"""The index of a pandas table: the names of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.errors import InvalidLabelsError


def row_index_of(X: Any) -> Any:
    """Return the index of the rows of pandas tables, or None if the rows have only numbers.

    X is any input of an estimator: a table, or a list or mapping of columns, matrices or views.
    Arrays and tables of polars and arrow have no index, nor have tables with the index 0, 1, 2, …
    without a name. The parts of a list or mapping need equal indexes.
    """
    if not isinstance(X, Mapping | list | tuple):
        return _index_of(X)
    parts = X.items() if isinstance(X, Mapping) else enumerate(X)
    indexes = ((name, _index_of(part)) for name, part in parts)
    known = [(name, index) for name, index in indexes if index is not None]
    if not known:
        return None
    first, expected = known[0]
    for name, index in known[1:]:
        refuse_other_rows(index, expected, f"item {name!r}", f"item {first!r}")
    return expected


def refuse_other_rows(index: Any, expected: Any, owner: str, expected_owner: str) -> None:
    """Refuse rows whose index is not the expected one; either may be None, for no index."""
    if index is None or expected is None or len(index) != len(expected):
        return  # other checks refuse a wrong number of rows
    if index.equals(expected):
        return
    row = next((row for row, name in enumerate(index) if name != expected[row]), None)
    if row is not None:
        raise InvalidLabelsError(
            f"the rows of {owner} are not those of {expected_owner}: row {row} is {index[row]!r} "
            f"instead of {expected[row]!r}; give the same rows in the same order, or arrays "
            "without an index"
        )


def _index_of(X: Any) -> Any:
    index: Any = getattr(X, "index", None)
    if not hasattr(index, "get_level_values"):  # lists and tuples have a method of this name
        return None
    is_count = type(index).__name__ == "RangeIndex" and index.name is None
    return None if is_count and (index.start, index.step) == (0, 1) else index
