"""The distinct labels of a column, and the code of each row, from any library of tables.

pandas, polars and arrow find distinct values themselves. Other cells are keys of a dictionary.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.labels.label_values import (
    MISSING,
    integers_or_texts,
    kind_of,
    refuse_several_kinds,
    unknown_type,
)

__all__ = ["as_numbers", "code_dtype", "distinct_labels", "drop_categories"]

Column = tuple[NDArray[Any], NDArray[Any]]

_POLARS_TEXTS = ("String", "Categorical", "Enum")
_SINGLE_PRECISION = ("float32", "float", "float[pyarrow]")  # pandas and polars, arrow, both
_TRUTH_VALUES = {bool, np.bool_}


def as_numbers(column: Any) -> NDArray[Any] | None:
    """Return a column of numbers or truth values without nulls as an array, or None for others.

    >>> as_numbers(np.array([3, 7])), as_numbers(np.array(["a"])) is None
    (array([3, 7]), True)
    """
    if _is_arrow(column):
        return None
    if hasattr(column, "null_count"):  # polars: with nulls, integers would become floats
        if column.null_count() or not (column.dtype.is_numeric() or column.dtype == bool):
            return None
        if str(column.dtype).endswith("128"):  # numpy has no such integers
            return None
        column = column.to_numpy()
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "iufb":
        return np.asarray(column)
    return None


def distinct_labels(column: Any, name: str) -> Column:
    """Return codes (n,) and categories of a column; −1, null, NaN and empty text are missing.

    Parameters
    ----------
    column : array, pandas or polars Series, arrow array
    name : str
        For messages.

    >>> codes, labels = distinct_labels(np.array(["y", None, "x"], dtype=object), "a")
    >>> codes.tolist(), labels.tolist()
    ([0, -1, 1], ['y', 'x'])
    """
    codes, labels = _coded(column, name)
    missing = np.array([not kind_of(label) for label in labels], dtype=bool)
    codes, labels = drop_categories(codes.astype(code_dtype(len(labels))), labels, missing)
    if str(getattr(column, "dtype", "") or column.type).lower() in _SINGLE_PRECISION:
        labels = labels.astype(np.float32)
    values = integers_or_texts(labels, name, lambda code: int(np.argmax(codes == code)))
    codes, values = _merged(codes, values)
    return drop_categories(codes, values, values == (MISSING if values.dtype.kind != "U" else ""))


def drop_categories(codes: NDArray[Any], categories: NDArray[Any], missing: NDArray[Any]) -> Column:
    """Set the codes of the ``missing`` categories to −1, and renumber the others without gaps."""
    if not missing.any():
        return codes, categories
    lookup = np.where(missing, MISSING, np.cumsum(~missing) - 1)
    return np.append(lookup, MISSING).astype(codes.dtype)[codes], categories[~missing]


def code_dtype(n_labels: int) -> type[np.int16] | type[np.int32]:
    """Return int16 if it can hold the codes of this many labels, else int32."""
    return np.int16 if n_labels <= np.iinfo(np.int16).max else np.int32


def _merged(codes: NDArray[Any], values: NDArray[Any]) -> Column:
    """Give equal categories one code: to arrow, the floats 0.0 and −0.0 are two values."""
    place_of = {value: place for place, value in enumerate(dict.fromkeys(values.tolist()))}
    if len(place_of) == len(values):
        return codes, values
    lookup = np.array([*(place_of[value] for value in values.tolist()), MISSING], codes.dtype)
    return lookup[codes], np.array(list(place_of), values.dtype)


def _coded(column: Any, name: str) -> Column:
    """Return codes (n,) and distinct values, which are not checked yet; nulls may be −1."""
    if _is_arrow(column):
        return _from_arrow(column, name)
    if hasattr(column, "factorize") and column.dtype != object:  # pandas
        codes, labels = column.factorize()
        return codes, np.asarray(labels, dtype=object)
    if hasattr(column, "replace_strict") and str(column.dtype).startswith(_POLARS_TEXTS):
        labels = column.unique(maintain_order=True)
        codes = column.replace_strict(labels, np.arange(len(labels)))
        return codes.to_numpy(), np.fromiter(labels.to_list(), object, len(labels))
    if hasattr(column, "to_list"):
        return _from_cells(column.to_list(), name)
    if column.dtype.kind not in "OSUT":
        raise unknown_type(column.dtype, name)
    return _from_cells(column.tolist(), name)


def _from_cells(cells: list[Any], name: str) -> Column:
    types = set(map(type, cells))
    # the numbers 1 and 0 are equal to truth values, and one key of a dictionary with them
    if types & _TRUTH_VALUES and types - _TRUTH_VALUES:
        refuse_several_kinds(cells, name)
    if bytes in types:
        cells = [integers_or_texts([c], name, int)[0] if type(c) is bytes else c for c in cells]
    try:
        code_of = {label: code for code, label in enumerate(dict.fromkeys(cells))}
    except TypeError:  # lists cannot be keys
        raise unknown_type(" or ".join(sorted(kind.__name__ for kind in types)), name) from None
    codes = np.fromiter(map(code_of.__getitem__, cells), np.int32, len(cells))
    return codes, np.fromiter(code_of, object, len(code_of))


def _is_arrow(column: Any) -> bool:
    return hasattr(column, "dictionary_encode")


def _from_arrow(column: Any, name: str) -> Column:
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):  # its dictionary may have unused values, or some twice
        column = column.dictionary_decode()
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    try:
        encoded = column.dictionary_encode()
    except pa.ArrowNotImplementedError:
        raise unknown_type(column.type, name) from None
    indices = encoded.indices.fill_null(MISSING) if encoded.null_count else encoded.indices
    labels = encoded.dictionary.to_pylist()
    return indices.to_numpy(zero_copy_only=False), np.fromiter(labels, object, len(labels))
