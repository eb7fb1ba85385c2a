"""Coding of labels as small integers: by a lookup table, or by their distinct values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.labels.distinct_labels import (
    as_numbers,
    code_dtype,
    distinct_labels,
    drop_categories,
)
from coterie.labels.label_values import MISSING, whole_numbers
from coterie.runtime.devices import map_in_threads

__all__ = ["code_array", "code_columns"]

Codes = NDArray[Any]
Categories = tuple[NDArray[Any], ...]

#: Number of cells that are coded together, so that they stay in the cache between two passes.
_CHUNK_CELLS = 1 << 18
#: Largest number of cells of a lookup table; integers that need more are sorted.
_LARGEST_LOOKUP_CELLS = 1 << 22
_SAMPLED_ROWS = 1 << 12


def code_array(array: NDArray[Any], names: Sequence[str]) -> tuple[Codes, Categories]:
    """Return codes (n, V) and the V categories of a two-dimensional array of labels.

    Labels 0, 1, … without gaps of a small integer type are their own codes; they are not copied.

    >>> code_array(np.array([[3, 0], [7, -1]]), ["a", "b"])[0].tolist()
    [[0, 0], [1, -1]]
    """
    if array.dtype.kind not in "iufb":
        return code_columns(list(array.T), names)
    array = whole_numbers(array, names)
    largest = int(array.max())
    if (largest + 2) * len(names) <= _LARGEST_LOOKUP_CELLS:
        return _by_lookup(array, largest)
    return _side_by_side(map_in_threads(_by_sorting, array.T))


def code_columns(columns: Sequence[Any], names: Sequence[str]) -> tuple[Codes, Categories]:
    """Return codes (n, V) and the V categories of columns: arrays, Series, or arrow arrays."""
    named = zip(columns, names, strict=True)
    return _side_by_side(map_in_threads(lambda column: _encode(*column), named))


def _by_lookup(array: NDArray[Any], largest: int) -> tuple[Codes, Categories]:
    """Code small integers with a lookup table: one pass finds the labels, one writes the codes."""
    n, V = array.shape
    # seen[v * width + label + 1]: does the label occur in partition v? Entry 0 is for label −1.
    width = largest + 2
    base = np.arange(V, dtype=np.int64) * width + 1
    seen = np.zeros(V * width, dtype=bool)
    rows = max(1, _CHUNK_CELLS // V)
    for start in range(0, n, rows):
        seen[array[start : start + rows].astype(np.int64) + base] = True
    seen = seen.reshape(V, width)
    categories = tuple(np.flatnonzero(row[1:]) for row in seen)
    if _are_codes(array, categories):
        return array, categories
    codes = np.empty((n, V), dtype=code_dtype(max(len(c) for c in categories)))
    lookup = (np.cumsum(seen[:, 1:], axis=1) - 1).astype(codes.dtype)
    lookup = np.column_stack([np.full(V, MISSING, dtype=codes.dtype), lookup]).ravel()
    for start in range(0, n, rows):
        chunk = slice(start, start + rows)
        np.take(lookup, array[chunk].astype(np.int64) + base, out=codes[chunk])
    return codes, categories


def _are_codes(array: NDArray[Any], categories: Categories) -> bool:
    """Return whether labels can be used as codes, in kernels too: 0, 1, … in a small type."""
    flags = array.flags
    usable = flags.c_contiguous and flags.writeable and array.dtype.isnative
    small = array.dtype.kind == "i" and array.dtype.itemsize <= np.dtype(np.int32).itemsize
    return usable and small and all(len(c) == 0 or c[-1] == len(c) - 1 for c in categories)


def _by_sorting(column: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Code integers of any size."""
    # most partitions have few labels: all are in a sample, and no other row need be sorted
    categories = np.unique(column[:: max(1, len(column) // _SAMPLED_ROWS)])
    codes = np.minimum(np.searchsorted(categories, column), len(categories) - 1)
    if not np.array_equal(categories[codes], column):
        categories, codes = np.unique(column, return_inverse=True)
    codes = codes.astype(code_dtype(len(categories)))
    return drop_categories(codes, categories, categories == MISSING)


def _encode(column: Any, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return codes (n,) and categories of one column."""
    numbers = as_numbers(column)
    if numbers is None:
        return distinct_labels(column, name)
    codes, (categories,) = code_array(numbers[:, None], [name])
    return codes[:, 0], categories


def _side_by_side(
    coded: Sequence[tuple[NDArray[Any], NDArray[Any]]],
) -> tuple[Codes, Categories]:
    """Return the codes of V columns as one array (n, V), and their categories."""
    n, V = len(coded[0][0]), len(coded)
    codes = np.empty((n, V), dtype=code_dtype(max(len(c) for _, c in coded)))
    rows = max(1, _CHUNK_CELLS // V)
    for start in range(0, n, rows):
        for v, (column_codes, _) in enumerate(coded):
            codes[start : start + rows, v] = column_codes[start : start + rows]
    return codes, tuple(categories for _, categories in coded)
