"""Label matrices as users have them (arrays, frames, texts, blanks) made into small integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie.errors import InvalidLabelsError
from coterie.runtime.devices import map_in_threads

__all__ = ["MISSING", "LabelMatrix", "are_memberships", "as_label_matrix", "encode_like"]

MISSING = -1
_CHUNK_CELLS = 1 << 18
_LARGEST_LOOKUP_CELLS = 1 << 22
_FIRST_INEXACT_FLOAT = 2.0**53
_SOFT = "soft partitions are a list of membership matrices, one (n, K_v) a partition"


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

    def rows(self, chosen: NDArray[np.bool_]) -> LabelMatrix:
        """Some of the rows, without the labels that occur in none of them."""
        codes = self.codes[chosen]
        categories = list(self.categories)
        for v, names in enumerate(self.categories):
            used = np.zeros(len(names) + 1, dtype=bool)
            used[codes[:, v]] = True  # the last slot is that of −1
            used = used[:-1]
            codes[:, v], categories[v] = _drop_categories(codes[:, v], names, ~used)
        return LabelMatrix(codes, tuple(categories), self.names)

    @property
    def has_missing(self) -> bool:
        """Whether any label is missing."""
        return bool(self.codes.min(initial=0) < 0)


def are_memberships(P: Any) -> bool:
    """Whether P is a list of matrices, and so not labels but memberships of soft partitions.

    >>> are_memberships([np.eye(2), np.eye(2)]), are_memberships([[0, 1], [1, 1]])
    (True, False)
    """
    return (
        isinstance(P, list | tuple)
        and len(P) > 0
        and all(len(getattr(matrix, "shape", ())) == 2 for matrix in P)
    )


def as_label_matrix(P: Any, *, allow_unlabelled_rows: bool = False) -> LabelMatrix:
    """Read a label matrix: any names of labels, −1 or a blank where there is none.

    Parameters
    ----------
    P : array, list of rows, pandas or polars DataFrame, or arrow table, shape (n, V)
        Column v is a partition of the n points. Labels are integers ≥ 0, texts, booleans or
        categories, of one kind in a column; −1, NaN, None, masked cells and empty text are
        missing. Whole numbers stored as floats are welcome.
    allow_unlabelled_rows : bool
        Accept rows without any label: of points that other partitions label.

    Raises
    ------
    InvalidLabelsError
        Naming the row and the column of the first cell that cannot be a label, or a row
        or column that has no label at all.

    Examples
    --------
    >>> as_label_matrix([["a", 7], ["b", 7], ["a", -1]]).codes.tolist()
    [[0, 0], [1, 0], [0, -1]]
    >>> as_label_matrix([["a", 7], [3, 7], ["a", -1]])
    Traceback (most recent call last):
    ...
    coterie.errors.InvalidLabelsError: partition '0' mixes kinds of labels: 'a' at row 0, 3 at...
    """
    if isinstance(P, LabelMatrix):
        return P
    matrix, _ = _read(P)
    _refuse_unlabelled_columns(matrix)
    if not allow_unlabelled_rows:
        _refuse_unlabelled_rows(matrix)
    return matrix


def encode_like(P: Any, fitted: LabelMatrix) -> NDArray[Any]:
    """Codes of new rows under the categories of a fitted matrix; unseen labels are missing.

    >>> fitted = as_label_matrix([[10, 7], [20, 7]])
    >>> encode_like([[20, 8]], fitted).tolist()
    [[1, -1]]
    """
    new, named = _read(P)
    if new.n_partitions != fitted.n_partitions:
        raise InvalidLabelsError(
            f"the new labels have {new.n_partitions} partitions (columns), "
            f"the consensus was fitted on {fitted.n_partitions}"
        )
    if named and fitted.names != _numbered(fitted.n_partitions) and new.names != fitted.names:
        raise InvalidLabelsError(
            f"the partitions (columns) are not those of the fit: {', '.join(new.names)} instead "
            f"of {', '.join(fitted.names)}; give the same in the same order"
        )
    codes = np.full(new.codes.shape, MISSING, dtype=fitted.codes.dtype)
    for v, (seen, given) in enumerate(zip(fitted.categories, new.categories, strict=True)):
        position = _positions(given, seen, fitted.names[v])
        # one slot more, so that the code -1 looks up "missing"
        lookup = np.append(position, MISSING).astype(codes.dtype)
        codes[:, v] = lookup[new.codes[:, v]]
    return codes


def _numbered(n_partitions: int) -> tuple[str, ...]:
    """Names of columns that came without: their numbers."""
    return tuple(str(v) for v in range(n_partitions))


def _read(P: Any) -> tuple[LabelMatrix, bool]:
    """The coded matrix, and whether its columns came with names."""
    if are_memberships(P):
        raise InvalidLabelsError(
            "labels are wanted here, and these are membership matrices; coterie.hard_labels(P) "
            "gives the most likely labels"
        )
    _refuse_mixed(P)
    frame = _frame_columns(P)
    if frame is None:
        return _from_array(_as_two_dimensional(P)), False
    columns, names = frame
    if not columns or len(columns[0]) == 0:
        raise InvalidLabelsError("labels are empty: the table has no rows, or no columns")
    return _from_columns(columns, names), True


def _refuse_mixed(P: Any) -> None:
    """Refuse a list in which some are membership matrices and others are not."""
    are = [len(getattr(one, "shape", ())) == 2 for one in P] if isinstance(P, list | tuple) else []
    if any(are):
        raise InvalidLabelsError(
            f"item {are.index(False)} of the list is not a matrix, and item {are.index(True)} is: "
            f"{_SOFT}; labels y from 0 up are the matrix np.eye(y.max() + 1)[y]"
        )


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
    if isinstance(P, np.ma.MaskedArray):
        mask, P = np.ma.getmaskarray(P), P.data.astype(object)
        P[mask] = None
    try:
        array = np.asarray(P)
    except ValueError:
        raise InvalidLabelsError(_ragged_message(P)) from None
    if array.dtype.kind in "US" and not hasattr(P, "dtype"):
        # numpy makes texts of all cells when one is; as objects the numbers among them stay numbers
        array = np.asarray(P, dtype=object)
    if array.size == 0:
        raise InvalidLabelsError(f"labels are empty: their shape is {array.shape}")
    if array.ndim != 2:
        hints = {1: "; one partition is a single column: P.reshape(-1, 1)"}
        hints[3] = f"; {_SOFT}: [np.asarray(M) for M in P]"
        raise InvalidLabelsError(
            "labels must have two dimensions (n points × V partitions), got "
            f"{array.ndim}{hints.get(array.ndim, '')}"
        )
    return array


def _ragged_message(P: Any) -> str:
    lengths = [len(row) if isinstance(row, Sequence | np.ndarray) else 1 for row in P]
    odd = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
    if odd is None:
        return "labels must form a table with one label a cell; a cell holds a list of its own"
    return (
        f"labels must form a table: row {odd} has {lengths[odd]} labels where row 0 has "
        f"{lengths[0]}; fill the gaps with -1"
    )


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
    if (largest + 2) * len(names) <= _LARGEST_LOOKUP_CELLS:
        return _by_lookup(array, largest, names)
    native = array.dtype.newbyteorder("=")  # arrow reads no other
    columns = [pa.array(array[:, v].astype(native)) for v in range(len(names))]
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
    named = list(zip(columns, names, strict=True))
    coded = map_in_threads(lambda column: _encode(*column), named)
    n, V = len(coded[0][0]), len(coded)
    codes = np.empty((n, V), dtype=_code_dtype(max(len(c) for _, c in coded)))
    # a block of rows stays in cache while its columns are written
    rows = max(1, _CHUNK_CELLS // V)
    for start in range(0, n, rows):
        for v, (column_codes, _) in enumerate(coded):
            codes[start : start + rows, v] = column_codes[start : start + rows]
    return LabelMatrix(codes, tuple(c for _, c in coded), tuple(names))


def _encode(column: Any, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Codes and categories of one arrow column; −1, null, NaN and empty text are missing."""
    encoded = _integers_or_texts(column, name).dictionary_encode()
    indices = encoded.indices.fill_null(MISSING) if encoded.null_count else encoded.indices
    codes = indices.to_numpy(zero_copy_only=False)
    categories = encoded.dictionary.to_numpy(zero_copy_only=False)
    codes = codes.astype(_code_dtype(len(categories)), copy=False)
    if categories.dtype == object:
        categories = categories.astype(str)
        return _drop_categories(codes, categories, categories == "")
    _refuse_negative(categories[:, None], [name], rows=lambda c: int(np.argmax(codes == c)))
    return _drop_categories(codes, categories, categories == MISSING)


def _integers_or_texts(column: Any, name: str) -> Any:
    """An arrow column of whatever labels as one arrow array of integers or of texts."""
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
                f"partition '{name}' has bytes for labels that are not UTF-8 text; give texts"
            ) from None
    if types.is_integer(kind) or kind in (pa.string(), pa.large_string(), pa.string_view()):
        return column
    raise InvalidLabelsError(
        f"partition '{name}' has labels of type {kind}; turn them into whole numbers or texts"
    )


def _drop_categories(
    codes: NDArray[Any], categories: NDArray[Any], missing: NDArray[np.bool_]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Turn the categories that stand for "no label" into −1 and close the ranks."""
    if not missing.any():
        return codes, categories
    lookup = np.where(missing, MISSING, np.cumsum(~missing) - 1)
    return np.append(lookup, MISSING).astype(codes.dtype)[codes], categories[~missing]


def _frame_columns(P: Any) -> tuple[list[Any], list[str]] | None:
    """Columns and names of a pandas, polars or arrow table; None if P is something else."""
    # column by column: one odd column must not spoil the message for the others
    if hasattr(P, "iloc") and P.ndim == 2:  # pandas, by position: names may occur twice
        names = [str(name) for name in P.columns]
        columns = [P.iloc[:, v] for v in range(len(names))]
    elif hasattr(P, "get_columns"):  # polars
        names, columns = list(P.columns), P.get_columns()
    elif hasattr(P, "__arrow_c_stream__") and (hasattr(P, "schema") or hasattr(P, "columns")):
        table = pa.table(P)
        return table.columns, table.column_names
    else:
        return None
    return [_arrow_column(c, name) for c, name in zip(columns, names, strict=True)], names


def _arrow_column(values: Any, name: object) -> Any:
    if getattr(getattr(values, "dtype", None), "kind", "") == "U":
        values = values.tolist()  # arrow would end numpy's texts at the first null character
    try:
        if hasattr(values, "to_arrow"):
            return values.to_arrow()
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise InvalidLabelsError(_unreadable_message(values, name, error)) from None


def _unreadable_message(values: Any, name: object, error: Exception) -> str:
    kinds = [(row, cell, kind) for row, cell in enumerate(values) if (kind := _kind(cell))]
    odd = next((cell for cell in kinds if cell[2] != kinds[0][2]), None)
    if odd is not None:
        return (
            f"partition '{name}' mixes kinds of labels: {kinds[0][1]!r} at row {kinds[0][0]}, "
            f"{odd[1]!r} at row {odd[0]}; make them one kind"
        )
    return (
        f"partition '{name}' has labels that cannot be read as whole numbers or texts "
        f"({str(error).splitlines()[0]}); give integers of at most 64 bits, or texts"
    )


def _kind(cell: Any) -> str:
    """What kind of label a cell holds; empty where it holds none."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(cell, str | bytes):
        return "text"
    if isinstance(cell, bool | np.bool_):
        return "truth value"
    if isinstance(cell, Real):
        return "" if np.isnan(float(cell)) else "number"
    return type(cell).__name__


def _whole_numbers(array: NDArray[Any], names: Sequence[str] | None = None) -> NDArray[np.int64]:
    """Floats that are whole numbers as int64; NaN becomes −1."""
    # from here on the neighbours of a whole number are not all floats of this precision
    inexact_from = min(_FIRST_INEXACT_FLOAT, 2.0 ** (np.finfo(array.dtype).nmant + 1))
    fraction = np.isinf(array) | ((array != np.floor(array)) & ~np.isnan(array))
    inexact = np.abs(array) >= inexact_from
    if (wrong := fraction | inexact).any():
        row, column = np.argwhere(wrong)[0]
        name = names[column] if names else column
        are_shares = array.shape[1] > 1 and (array >= 0).all() and array.sum(axis=1).max() < 1.001
        meant = _SOFT if are_shares else "labels are names of clusters, not measurements"
        reason = (
            f"is not a whole number; {meant}"
            if fraction[row, column]
            else "is too large for a float to tell from its neighbours; "
            "give texts, or an array of integers"
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


def _refuse_unlabelled_columns(matrix: LabelMatrix) -> None:
    for v, categories in enumerate(matrix.categories):
        if len(categories) == 0:
            raise InvalidLabelsError(
                f"partition '{matrix.names[v]}' (column {v}) has no label at all; leave it out"
            )


def _refuse_unlabelled_rows(matrix: LabelMatrix) -> None:
    if matrix.has_missing and not (labelled := (matrix.codes >= 0).any(axis=1)).all():
        row = int(np.argmin(labelled))
        raise InvalidLabelsError(
            f"row {row} has no label in any partition ({int((~labelled).sum())} such rows in all); "
            "leave it out, or give it a label"
        )


def _code_dtype(n_labels: int) -> type[np.int16] | type[np.int32]:
    return np.int16 if n_labels <= np.iinfo(np.int16).max else np.int32
