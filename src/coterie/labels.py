"""Label matrices as users have them (arrays, frames, text, blanks) made into small integer codes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie.errors import InvalidLabelsError

__all__ = ["MISSING", "LabelMatrix", "as_label_matrix", "encode_like"]

MISSING = -1
_CHUNK_CELLS = 1 << 18
_LARGEST_LOOKUP = 1 << 16
_LARGEST_EXACT_FLOAT = 2.0**53


@dataclass(frozen=True)
class LabelMatrix:
    """n points × V partitions, coded.

    Attributes
    ----------
    codes : (n, V) array of int16 or int32
        ``codes[i, v]`` in ``0..K_v - 1``, or −1 where point i has no label in partition v.
    categories : tuple of V arrays
        ``categories[v][c]`` is the label the user gave to code c of partition v.
    names : tuple of V str
        Column names, for messages and reports.
    """

    codes: NDArray[Any]
    categories: tuple[NDArray[Any], ...]
    names: tuple[str, ...]

    @property
    def n_points(self) -> int:
        """Number of points n."""
        return int(self.codes.shape[0])

    @property
    def n_partitions(self) -> int:
        """Number of partitions V."""
        return int(self.codes.shape[1])

    @property
    def n_labels(self) -> NDArray[np.int64]:
        """K_v, the number of clusters of each partition, shape (V,)."""
        return np.array([len(c) for c in self.categories], dtype=np.int64)

    def without_rows(self) -> LabelMatrix:
        """The names of partitions and labels alone."""
        codes = np.empty((0, self.n_partitions), dtype=self.codes.dtype)
        return LabelMatrix(codes, self.categories, self.names)

    @property
    def has_missing(self) -> bool:
        """Whether any label is missing."""
        return bool((self.codes == MISSING).any())


def as_label_matrix(P: Any) -> LabelMatrix:
    """Read a label matrix: any names of labels, −1 or a blank where there is none.

    Parameters
    ----------
    P : array, list of rows, pandas or polars DataFrame, or pyarrow Table, shape (n, V)
        Column v is a partition of the n points. Labels are integers ≥ 0, texts, booleans or
        categories; −1, NaN, None and empty text are missing. Whole numbers stored as floats
        are welcome.

    Raises
    ------
    InvalidLabelsError
        Naming the row and the column of the first cell that cannot be a label, or a row
        or column that has no label at all.

    Examples
    --------
    >>> as_label_matrix([["a", 7], ["b", 7], ["a", -1]]).codes
    Traceback (most recent call last):
    ...
    coterie.errors.InvalidLabelsError: a row mixes texts and numbers...
    >>> as_label_matrix([[10, 7], [20, 7], [10, -1]]).codes.tolist()
    [[0, 0], [1, 0], [0, -1]]
    """
    if isinstance(P, LabelMatrix):
        return P
    if hasattr(P, "__arrow_c_stream__") or isinstance(P, pa.Table):
        matrix = _from_columns(*_frame_columns(P))
    else:
        matrix = _from_array(_as_two_dimensional(P))
    _refuse_unlabelled(matrix)
    return matrix


def encode_like(P: Any, fitted: LabelMatrix) -> NDArray[Any]:
    """Codes of new rows under the categories of a fitted matrix; unseen labels are missing.

    >>> fitted = as_label_matrix([[10, 7], [20, 7]])
    >>> encode_like([[20, 8]], fitted).tolist()
    [[1, -1]]
    """
    new = (
        _from_columns(*_frame_columns(P))
        if hasattr(P, "__arrow_c_stream__") or isinstance(P, pa.Table)
        else _from_array(_as_two_dimensional(P))
    )
    if new.n_partitions != fitted.n_partitions:
        raise InvalidLabelsError(
            f"the new labels have {new.n_partitions} partitions (columns), "
            f"the consensus was fitted on {fitted.n_partitions}"
        )
    codes = np.full(new.codes.shape, MISSING, dtype=fitted.codes.dtype)
    for v, (seen, given) in enumerate(zip(fitted.categories, new.categories, strict=True)):
        position = _positions(given, seen, fitted.names[v])
        # one slot more, so that the code -1 looks up "missing"
        lookup = np.append(position, MISSING).astype(codes.dtype)
        codes[:, v] = lookup[new.codes[:, v]]
    return codes


def _positions(given: NDArray[Any], seen: NDArray[Any], name: str) -> NDArray[np.int64]:
    """Index of each given category among the seen ones, −1 where it is new."""
    numeric = [np.issubdtype(a.dtype, np.number) for a in (given, seen)]
    if given.size and numeric[0] != numeric[1]:
        kinds = ["numbers" if n else "texts" for n in numeric]
        raise InvalidLabelsError(
            f"partition '{name}' has {kinds[0]} for labels, it had {kinds[1]} when fitted"
        )
    place = {value: code for code, value in enumerate(seen.tolist())}
    return np.array([place.get(value, MISSING) for value in given.tolist()], dtype=np.int64)


def _as_two_dimensional(P: Any) -> NDArray[Any]:
    if hasattr(P, "toarray"):
        raise InvalidLabelsError("labels must be a dense (n, V) table, not a sparse matrix")
    try:
        array = np.asarray(P)
    except ValueError:
        raise InvalidLabelsError(_ragged_message(P)) from None
    if array.dtype.kind in "US" and _mixes_texts_and_numbers(P):
        raise InvalidLabelsError(
            "a row mixes texts and numbers; give a frame, or an array with dtype=object, "
            "so that each partition keeps its own kind of label"
        )
    if array.ndim != 2:
        hint = "; one partition is a single column: P.reshape(-1, 1)" if array.ndim == 1 else ""
        raise InvalidLabelsError(
            f"labels must have two dimensions (n points × V partitions), got {array.ndim}{hint}"
        )
    if 0 in array.shape:
        raise InvalidLabelsError(
            f"labels are empty: {array.shape[0]} points × {array.shape[1]} partitions"
        )
    return array


def _ragged_message(P: Any) -> str:
    lengths = [len(row) if isinstance(row, Sequence | np.ndarray) else 1 for row in P]
    odd = next((i for i, length in enumerate(lengths) if length != lengths[0]), 0)
    return (
        f"labels must form a table: row {odd} has {lengths[odd]} labels where row 0 has "
        f"{lengths[0]}; fill the gaps with -1"
    )


def _mixes_texts_and_numbers(P: Any) -> bool:
    if isinstance(P, np.ndarray):
        return False
    cells = [cell for row in P for cell in (row if isinstance(row, Iterable) else [row])]
    return any(not isinstance(cell, str | bytes) for cell in cells if cell is not None)


def _from_array(array: NDArray[Any]) -> LabelMatrix:
    names = tuple(str(v) for v in range(array.shape[1]))
    kind = array.dtype.kind
    if kind == "f":
        array = _whole_numbers(array)
    elif kind == "b":
        array = array.astype(np.int8)
    elif kind not in "iu":
        return _from_columns([_arrow_column(array[:, v], v) for v in range(len(names))], names)
    _refuse_negative(array)
    largest = int(array.max())
    if largest < _LARGEST_LOOKUP:
        return _by_lookup(array, largest, names)
    columns = [pa.array(np.ascontiguousarray(array[:, v])) for v in range(len(names))]
    return _from_columns(columns, names)


def _by_lookup(array: NDArray[Any], largest: int, names: tuple[str, ...]) -> LabelMatrix:
    """Codes of small non-negative integers, by table: one pass to see them, one to write."""
    n, V = array.shape
    width = largest + 2  # slot 0 is the missing label
    base = np.arange(V, dtype=np.int64) * width + 1
    seen = np.zeros(V * width, dtype=bool)
    rows = max(1, _CHUNK_CELLS // V)
    for start in range(0, n, rows):
        seen[array[start : start + rows].astype(np.int64) + base] = True
    seen = seen.reshape(V, width)
    categories = tuple(np.flatnonzero(row[1:]) for row in seen)
    codes = np.empty((n, V), dtype=_code_dtype(max(len(c) for c in categories)))
    lookup = (np.cumsum(seen[:, 1:], axis=1) - 1).astype(codes.dtype)
    lookup = np.column_stack([np.full(V, MISSING, dtype=codes.dtype), lookup]).ravel()
    for start in range(0, n, rows):
        np.take(
            lookup,
            array[start : start + rows].astype(np.int64) + base,
            out=codes[start : start + rows],
        )
    return LabelMatrix(codes, categories, names)


def _from_columns(columns: Sequence[Any], names: Sequence[str]) -> LabelMatrix:
    """Codes of arrow columns, by arrow's hash table."""
    coded = [_encode(column, name) for column, name in zip(columns, names, strict=True)]
    codes = np.empty(
        (len(coded[0][0]), len(coded)), dtype=_code_dtype(max(len(c) for _, c in coded))
    )
    for v, (column_codes, _) in enumerate(coded):
        codes[:, v] = column_codes
    return LabelMatrix(codes, tuple(c for _, c in coded), tuple(names))


def _encode(column: Any, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Codes and categories of one arrow column; −1, null, NaN and empty text are missing."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return np.full(len(column), MISSING), np.empty(0, dtype=np.int64)
    if pa.types.is_floating(column.type):
        values = column.to_numpy(zero_copy_only=False)[:, None]
        column = pa.array(_whole_numbers(values, [name])[:, 0])
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    encoded = column.dictionary_encode()
    codes = encoded.indices.fill_null(MISSING).to_numpy(zero_copy_only=False)
    categories = encoded.dictionary.to_numpy(zero_copy_only=False)
    if pa.types.is_integer(column.type):
        _refuse_negative(categories[:, None], [name], rows=lambda c: int(np.argmax(codes == c)))
        missing = categories == MISSING
    else:
        if categories.dtype == object:
            categories = categories.astype(str)
        missing = np.array([text == "" for text in categories.tolist()], dtype=bool)
    return _drop_categories(codes, categories, missing)


def _drop_categories(
    codes: NDArray[Any], categories: NDArray[Any], missing: NDArray[np.bool_]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Turn the categories that stand for "no label" into −1 and close the ranks."""
    if not missing.any():
        return codes, categories
    lookup = np.where(missing, MISSING, np.cumsum(~missing) - 1)
    return np.append(lookup, MISSING)[codes], categories[~missing]


def _frame_columns(frame: Any) -> tuple[list[Any], list[str]]:
    columns = frame.columns
    names = list(frame.column_names) if isinstance(frame, pa.Table) else [str(c) for c in columns]
    if not names or len(frame) == 0:
        raise InvalidLabelsError(f"labels are empty: {len(frame)} points × {len(names)} partitions")
    if isinstance(frame, pa.Table):
        return list(columns), names
    # column by column: one odd column must not spoil the message for the others
    return [
        _arrow_column(frame[c] if hasattr(frame, "iloc") else frame.get_column(c), c)
        for c in columns
    ], names


def _arrow_column(values: Any, name: object) -> Any:
    try:
        if hasattr(values, "to_arrow"):
            return values.to_arrow()
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidLabelsError(
            f"partition '{name}' mixes kinds of labels, or has labels that are neither numbers "
            f"nor texts ({str(error).splitlines()[0]}); make them one kind"
        ) from None


def _whole_numbers(array: NDArray[Any], names: Sequence[str] | None = None) -> NDArray[np.int64]:
    """Floats that are whole numbers as int64; NaN becomes −1."""
    with np.errstate(invalid="ignore"):
        fraction = (array != np.floor(array)) & ~np.isnan(array)
        inexact = np.abs(array) > _LARGEST_EXACT_FLOAT
    if (wrong := fraction | inexact).any():
        row, column = np.argwhere(wrong)[0]
        name = names[column] if names else column
        reason = (
            "is not a whole number; labels are names of clusters, not measurements"
            if fraction[row, column]
            else "is too large for a float to tell from its neighbours; give integers or texts"
        )
        raise InvalidLabelsError(
            f"label {array[row, column]!s} at row {row}, partition '{name}' {reason}"
        )
    return np.where(np.isnan(array), MISSING, array).astype(np.int64)


def _refuse_negative(
    array: NDArray[Any], names: Sequence[str] | None = None, rows: Any = int
) -> None:
    if array.dtype.kind == "u" or array.min(initial=0) >= MISSING:
        return
    row, column = np.argwhere(array < MISSING)[0]
    name = names[column] if names else column
    raise InvalidLabelsError(
        f"label {array[row, column]} at row {rows(row)}, partition '{name}' is negative; "
        "labels are 0 or larger, and -1 means missing"
    )


def _refuse_unlabelled(matrix: LabelMatrix) -> None:
    for v, categories in enumerate(matrix.categories):
        if len(categories) == 0:
            raise InvalidLabelsError(
                f"partition '{matrix.names[v]}' (column {v}) has no label at all; leave it out"
            )
    labelled = (matrix.codes >= 0).any(axis=1)
    if not labelled.all():
        row = int(np.argmin(labelled))
        raise InvalidLabelsError(
            f"row {row} has no label in any partition ({int((~labelled).sum())} such rows in all); "
            "leave it out, or give it a label"
        )


def _code_dtype(n_labels: int) -> type[np.int16] | type[np.int32]:
    return np.int16 if n_labels <= np.iinfo(np.int16).max else np.int32
