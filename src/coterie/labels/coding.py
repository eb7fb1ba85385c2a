"""Coding of labels as small integers: by a lookup table, or by hashing in arrow."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie.errors import InvalidLabelsError
from coterie.runtime.devices import map_in_threads

__all__ = [
    "MISSING",
    "SOFT_HINT",
    "arrow_column",
    "code_array",
    "code_columns",
    "code_dtype",
    "drop_categories",
]

Codes = NDArray[Any]
Categories = tuple[NDArray[Any], ...]

MISSING = -1
#: Part of error messages: how to pass soft partitions.
SOFT_HINT = "soft partitions are a list of membership matrices, one (n, K_v) for each partition"

#: Number of cells that are coded together, so that they stay in the cache between two passes.
_CHUNK_CELLS = 1 << 18
#: Largest number of cells of a lookup table; integers that need more are coded by hashing.
_LARGEST_LOOKUP_CELLS = 1 << 22
_FIRST_INEXACT_FLOAT = 2.0**53


def code_array(array: NDArray[Any], names: Sequence[str]) -> tuple[Codes, Categories]:
    """Return codes (n, V) and the V categories of a two-dimensional array of labels.

    Labels 0, 1, … without gaps of a small integer type are their own codes; they are not copied.

    >>> code_array(np.array([[3, 0], [7, -1]]), ["a", "b"])[0].tolist()
    [[0, 0], [1, -1]]
    """
    kind = array.dtype.kind
    if kind == "f":
        array = _whole_numbers(array, names)
    elif kind == "b":
        array = array.astype(np.int8)
    elif kind not in "iu":
        return code_columns(
            [arrow_column(array[:, v], name) for v, name in enumerate(names)], names
        )
    _refuse_negative(array, names)
    largest = int(array.max())
    if (largest + 2) * len(names) <= _LARGEST_LOOKUP_CELLS:
        return _by_lookup(array, largest)
    native = array.dtype.newbyteorder("=")  # arrow does not read other byte orders
    columns = [pa.array(array[:, v].astype(native)) for v in range(len(names))]
    return code_columns(columns, names)


def code_columns(columns: Sequence[Any], names: Sequence[str]) -> tuple[Codes, Categories]:
    """Return codes (n, V) and the V categories of arrow columns, found by hashing."""
    named = list(zip(columns, names, strict=True))
    coded = map_in_threads(lambda column: _encode(*column), named)
    n, V = len(coded[0][0]), len(coded)
    codes = np.empty((n, V), dtype=code_dtype(max(len(c) for _, c in coded)))
    rows = max(1, _CHUNK_CELLS // V)
    for start in range(0, n, rows):
        for v, (column_codes, _) in enumerate(coded):
            codes[start : start + rows, v] = column_codes[start : start + rows]
    return codes, tuple(categories for _, categories in coded)


def arrow_column(values: Any, name: str) -> Any:
    """Return a column of labels as an arrow array."""
    if getattr(getattr(values, "dtype", None), "kind", "") == "U":
        values = values.tolist()  # arrow would cut numpy texts at a null character
    try:
        if hasattr(values, "to_arrow"):
            return values.to_arrow()
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, OverflowError, TypeError, UnicodeEncodeError) as error:
        raise InvalidLabelsError(_unreadable_message(values, name, error)) from None


def drop_categories(
    codes: NDArray[Any], categories: NDArray[Any], missing: NDArray[np.bool_]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Set the codes of the ``missing`` categories to −1, and renumber the others without gaps."""
    if not missing.any():
        return codes, categories
    lookup = np.where(missing, MISSING, np.cumsum(~missing) - 1)
    return np.append(lookup, MISSING).astype(codes.dtype)[codes], categories[~missing]


def code_dtype(n_labels: int) -> type[np.int16] | type[np.int32]:
    """Return int16 if it can hold the codes of this many labels, else int32."""
    return np.int16 if n_labels <= np.iinfo(np.int16).max else np.int32


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


def _encode(column: Any, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return codes and categories of an arrow column; −1, null, NaN and empty text are missing."""
    encoded = _integers_or_texts(column, name).dictionary_encode()
    indices = encoded.indices.fill_null(MISSING) if encoded.null_count else encoded.indices
    codes = indices.to_numpy(zero_copy_only=False)
    categories = encoded.dictionary.to_numpy(zero_copy_only=False)
    codes = codes.astype(code_dtype(len(categories)), copy=False)
    if categories.dtype == object:
        categories = categories.astype(str)
        return drop_categories(codes, categories, categories == "")
    _refuse_negative(categories[:, None], [name], row_of=lambda c: int(np.argmax(codes == c)))
    return drop_categories(codes, categories, categories == MISSING)


def _integers_or_texts(column: Any, name: str) -> Any:
    """Return an arrow column as one arrow array of integers or texts."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind, types = column.type, pa.types
    if types.is_null(kind) or types.is_boolean(kind):
        return column.cast(pa.int8())
    if types.is_floating(kind):
        values = column.to_numpy(zero_copy_only=False)[:, None]
        return pa.array(_whole_numbers(values, [name])[:, 0])
    if types.is_binary(kind) or types.is_large_binary(kind):
        try:
            return column.cast(pa.large_string())
        except pa.ArrowInvalid:
            raise InvalidLabelsError(
                f"partition '{name}' has bytes that are not UTF-8 text; give texts as labels"
            ) from None
    if types.is_integer(kind) or kind in (pa.string(), pa.large_string(), pa.string_view()):
        return column
    raise InvalidLabelsError(
        f"partition '{name}' has labels of type {kind}; turn them into whole numbers or texts"
    )


def _unreadable_message(values: Any, name: str, error: Exception) -> str:
    """Say why a column cannot be read: it mixes kinds of labels, or the kind is unknown."""
    kinds = [(row, cell, kind) for row, cell in enumerate(values) if (kind := _kind(cell))]
    odd = next((cell for cell in kinds if cell[2] != kinds[0][2]), None)
    if odd is not None:
        return (
            f"partition '{name}' mixes kinds of labels: {kinds[0][1]!r} at row {kinds[0][0]}, "
            f"{odd[1]!r} at row {odd[0]}; use one kind"
        )
    return (
        f"partition '{name}' has labels that cannot be read as whole numbers or texts "
        f"({str(error).splitlines()[0]}); give integers of at most 64 bits, or texts"
    )


def _kind(cell: Any) -> str:
    """Return the kind of label in a cell, or an empty text for a missing label."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(cell, str | bytes):
        return "text"
    if isinstance(cell, bool | np.bool_):
        return "truth value"
    if isinstance(cell, np.timedelta64):
        return type(cell).__name__  # numpy counts its spans of time among the integers
    if isinstance(cell, Real):
        return "" if np.isnan(float(cell)) else "number"
    return type(cell).__name__


def _whole_numbers(array: NDArray[Any], names: Sequence[str]) -> NDArray[np.int64]:
    """Return whole floats as int64; NaN becomes −1."""
    # above this bound, not every whole number is a float of this precision
    inexact_from = min(_FIRST_INEXACT_FLOAT, 2.0 ** (np.finfo(array.dtype).nmant + 1))
    fraction = np.isinf(array) | ((array != np.floor(array)) & ~np.isnan(array))
    inexact = np.abs(array) >= inexact_from
    if (wrong := fraction | inexact).any():
        row, column = np.argwhere(wrong)[0]
        reason = "is too large to be exact as a float; give texts, or an array of integers"
        if fraction[row, column]:
            shares = array.shape[1] > 1 and (array >= 0).all() and array.sum(axis=1).max() < 1.001
            hint = SOFT_HINT if shares else "labels are names of clusters, not measurements"
            reason = f"is not a whole number; {hint}"
        raise InvalidLabelsError(
            f"label {array[row, column]!s} at row {row}, partition '{names[column]}' {reason}"
        )
    return np.where(np.isnan(array), MISSING, array).astype(np.int64)


def _refuse_negative(array: NDArray[Any], names: Sequence[str], row_of: Any = int) -> None:
    """Raise an error for a label below −1; ``row_of`` returns the user's row of a row of array."""
    if array.dtype.kind == "u" or array.min(initial=0) >= MISSING:
        return
    row, column = np.argwhere(array < MISSING)[0]
    raise InvalidLabelsError(
        f"label {array[row, column]} at row {row_of(row)}, partition '{names[column]}' is "
        "negative; labels are 0 or larger, and -1 means missing"
    )
