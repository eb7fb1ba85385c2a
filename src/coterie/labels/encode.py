"""Label matrices: read from arrays, lists and tables, checked, and encoded as small integers.

:func:`as_label_matrix` takes the columns from any kind of table. Small integers are encoded by a
lookup table, large ones by sorting; of other columns, pandas, polars and arrow find the distinct
values themselves, and other cells are keys of a dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Rational, Real
from typing import Any

import numpy as np

from coterie.arrays import AnyArray, Bools, Floats, Ints
from coterie.errors import InvalidLabelsError, LabelWarning
from coterie.runtime.devices import map_in_threads
from coterie.runtime.imports import require_extra
from coterie.runtime.messages import warn_user
from coterie.runtime.wording import short_repr

MISSING = -1
#: Parts of error messages: how to pass soft partitions, and what clusters features.
SOFT_HINT = "soft partitions are a list of membership matrices, one (n, K_v) for each partition"
FEATURES_HINT = (
    "labels are names of clusters, not measurements; to cluster features use ConsensusClusterer"
)
#: With fewer rows, a different number in every row, or more columns than rows, is not odd.
FEWEST_ROWS = 20
_SHARE_OF_AN_ID = 0.9

#: Number of cells that are encoded together, so that they stay in the cache between two passes.
_CHUNK_CELLS = 1 << 18
#: Largest number of cells of a lookup table; integers that need more are sorted.
_LARGEST_LOOKUP_CELLS = 1 << 22
_SAMPLED_ROWS = 1 << 12
_FIRST_INEXACT_FLOAT = 2.0**53
_POLARS_TEXTS = ("String", "Categorical", "Enum")
_SINGLE_PRECISION = ("float32", "float", "float[pyarrow]")  # pandas and polars, arrow, both
_TRUTH_VALUES = {bool, np.bool_}

Categories = tuple[AnyArray, ...]
RowOf = Callable[[int], int]  # from a row of an array, or a code, to a row that the user gave


@dataclass(frozen=True)
class LabelMatrix:
    """The encoded labels of n points in V partitions."""

    codes: AnyArray  # (n, V) int8 to int32: 0..K_v − 1, or −1 if the label is missing
    categories: Categories  # categories[v][c] is the user's label of code c
    names: tuple[str, ...]  # of the partitions, for messages and reports
    empty: tuple[int, ...] = ()  # columns of the input without any label, which are left out

    __repr__ = short_repr

    @property
    def n_points(self) -> int:
        return int(self.codes.shape[0])

    @property
    def n_partitions(self) -> int:
        return int(self.codes.shape[1])

    @property
    def n_labels(self) -> Ints:
        """Return the number of clusters K_v of each partition, (V,)."""
        return np.array([len(c) for c in self.categories], dtype=np.int64)

    @property
    def has_missing(self) -> bool:
        return bool(self.codes.min(initial=0) < 0)

    @property
    def labelled_rows(self) -> Bools:
        """Return which points have a label in any partition, (n,)."""
        if not self.has_missing:
            return np.ones(self.n_points, dtype=np.bool_)
        return np.any(self.codes >= 0, axis=1)

    def without_rows(self) -> LabelMatrix:
        """Return a matrix without rows that keeps the names of partitions and labels."""
        return replace(self, codes=np.empty((0, self.n_partitions), dtype=self.codes.dtype))

    def rows(self, chosen: Bools) -> LabelMatrix:
        """Return the chosen rows (a mask); labels that do not occur in them are dropped."""
        codes = self.codes[chosen]
        categories = list(self.categories)
        for v, names in enumerate(self.categories):
            unused = np.ones(len(names) + 1, dtype=bool)
            unused[codes[:, v]] = False  # the code −1 selects the last entry
            codes[:, v], categories[v] = _drop_categories(codes[:, v], names, unused[:-1])
        return replace(self, codes=codes, categories=tuple(categories))

    def without_columns(self, empty: Sequence[int]) -> LabelMatrix:
        """Return the matrix without the columns ``empty``."""
        kept = [v for v in range(self.n_partitions) if v not in empty]
        return LabelMatrix(
            self.codes[:, kept],
            tuple(self.categories[v] for v in kept),
            tuple(self.names[v] for v in kept),
            tuple(empty),
        )


def as_label_matrix(
    P: Any, *, allow_unlabelled_rows: bool = False, names: Sequence[str] | None = None
) -> LabelMatrix:
    """Read and check a label matrix; ``names`` (V,) are those of the columns of an array.

    P (n, V) is an array, a list of rows, or a table of pandas, polars or arrow. A list of V arrays
    or Series (n,), or a mapping of names to V vectors (n,), gives the columns. Labels are integers
    ≥ 0, whole floats, texts, booleans or categories, of one kind in a column. The values −1, NaN,
    None, masked cells and empty texts are missing labels. A column without any label is left out,
    with a warning.

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
    if names is not None:
        matrix = replace(matrix, names=tuple(names))
    if empty := [v for v, categories in enumerate(matrix.categories) if len(categories) == 0]:
        if len(empty) == matrix.n_partitions:
            raise InvalidLabelsError("no cell has a label; every label is missing")
        shown = ", ".join(f"'{matrix.names[v]}' (column {v})" for v in empty[:10])
        warn_user(
            f"partitions without any label are left out: {shown}{', …' if len(empty) > 10 else ''}",
            LabelWarning,
        )
        matrix = matrix.without_columns(empty)
    unlabelled = ~matrix.labelled_rows
    if unlabelled.any() and not allow_unlabelled_rows:
        raise InvalidLabelsError(
            f"row {int(np.argmax(unlabelled))} has no label in any partition "
            f"({int(unlabelled.sum())} such rows in all); leave it out, or give it a label"
        )
    return matrix


def encode_like(P: Any, fitted: LabelMatrix) -> AnyArray:
    """Return codes (n', V) of new rows in the categories of a fitted matrix.

    Labels that the fitted matrix does not have become −1.
    """
    new, named = _read(P)
    if new.n_partitions == fitted.n_partitions + len(fitted.empty):
        new = new.without_columns(fitted.empty)
    if new.n_partitions != fitted.n_partitions:
        raise InvalidLabelsError(
            f"the new labels have {new.n_partitions} partitions (columns), "
            f"the consensus was fitted on {fitted.n_partitions}"
        )
    if named and fitted.names != numbered(fitted.n_partitions) and new.names != fitted.names:
        raise InvalidLabelsError(
            f"the partitions (columns) are not those of the fit: {', '.join(new.names)} instead "
            f"of {', '.join(fitted.names)}; give the same columns in the same order"
        )
    codes = np.full(new.codes.shape, MISSING, dtype=fitted.codes.dtype)
    for v, (seen, given) in enumerate(zip(fitted.categories, new.categories, strict=True)):
        numeric = [np.issubdtype(a.dtype, np.number) for a in (given, seen)]
        if given.size and numeric[0] != numeric[1]:
            kinds = ["numbers" if n else "texts" for n in numeric]
            raise InvalidLabelsError(
                f"partition '{fitted.names[v]}' has {kinds[0]} as labels, but it was fitted with "
                f"{kinds[1]}"
            )
        code_of = {label: code for code, label in enumerate(seen.tolist())}
        # the code −1 of a missing label selects the last entry
        lookup = [*(code_of.get(label, MISSING) for label in given.tolist()), MISSING]
        codes[:, v] = np.array(lookup, dtype=codes.dtype)[new.codes[:, v]]
    return codes


def are_memberships(P: Any) -> bool:
    """Return whether P is a list of matrices, so that it holds memberships and not labels."""
    are_matrices = _which_are_matrices(P)
    return bool(are_matrices) and all(are_matrices)


def warn_if_transposed(matrix: LabelMatrix) -> None:
    """Warn if there are more columns than rows: rows may be the partitions."""
    n, V = matrix.n_points, matrix.n_partitions
    if V > n and V >= FEWEST_ROWS:
        warn_user(
            f"the labels have {n} rows and {V} columns; rows are points and columns are "
            f"partitions: if these are {n} partitions of {V} points, pass P.T",
            LabelWarning,
        )


def warn_of_ids(
    names: Sequence[str], n_labels: Sequence[int], n_rows: int, remedy: str = "leave it out"
) -> None:
    """Warn of columns with a different label in nearly every row: they may name the rows."""
    if len(names) == 1 or n_rows < FEWEST_ROWS:
        return
    for name, n in zip(names, n_labels, strict=True):
        if n >= fewest_values_of_ids(n_rows):
            warn_user(
                f"column '{name}' has {n:,} different labels in {n_rows:,} rows; if it names the "
                f"rows, {remedy} (in the program: --id)",
                LabelWarning,
            )


def fewest_values_of_ids(n_rows: int) -> float:
    """Return how many different values a column that names the rows has at least."""
    return n_rows if n_rows < FEWEST_ROWS else _SHARE_OF_AN_ID * n_rows


def numbered(n_partitions: int) -> tuple[str, ...]:
    """Return the numbers 0, 1, … as names of unnamed columns."""
    return tuple(str(v) for v in range(n_partitions))


def renumber_by_appearance(labels: AnyArray) -> Ints:
    """Renumber clusters as 0, 1, … in the order in which they first appear."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def renumber_by_size(labels: AnyArray, weights: Floats | None = None) -> Ints:
    """Renumber clusters by decreasing size; equal sizes are in order of appearance."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    size = np.bincount(inverse, weights=weights)
    return np.argsort(np.lexsort((first, -size)))[inverse]


# From any kind of input to columns


def _read(P: Any) -> tuple[LabelMatrix, bool]:
    """Return the encoded matrix, and whether its columns have names."""
    if isinstance(P, LabelMatrix):
        return P, False
    is_matrix = _which_are_matrices(P)
    if is_matrix and all(is_matrix):
        raise InvalidLabelsError(
            "labels are needed here, but these are membership matrices; coterie.hard_labels(P) "
            "gives the most likely labels"
        )
    if any(is_matrix):
        raise InvalidLabelsError(
            f"item {is_matrix.index(True)} of the list is a matrix, but item "
            f"{is_matrix.index(False)} is not: {SOFT_HINT}; labels y ≥ 0 become a matrix by "
            "np.eye(y.max() + 1)[y]"
        )
    is_named = not isinstance(P, list | tuple)
    is_vectors = not is_named and all(len(getattr(item, "shape", ())) == 1 for item in P)
    columns: Sequence[Any]
    if isinstance(P, Mapping) or (is_vectors and P):
        row_index_of(P)  # refuses Series of different rows
        names = tuple(map(str, P)) if is_named else numbered(len(P))
        columns = [np.asarray(item) for item in (P.values() if is_named else P)]
        for name, vector in zip(names, columns, strict=True):
            if vector.ndim != 1 or len(vector) != len(columns[0]):
                raise InvalidLabelsError(
                    f"partition '{name}' has shape {vector.shape}, partition '{names[0]}' has "
                    f"{columns[0].shape}; give one label for each point in every partition"
                )
    elif hasattr(P, "iloc") and P.ndim == 2:  # pandas: by position, as names may occur twice
        names = tuple(map(str, P.columns))
        columns = [P.iloc[:, v] for v in range(len(names))]
    elif hasattr(P, "get_columns"):  # polars
        columns, names = P.get_columns(), tuple(P.columns)
    elif hasattr(P, "__arrow_c_stream__") and (hasattr(P, "schema") or hasattr(P, "columns")):
        require_extra("tables", "tables of arrow need", "pyarrow")
        import pyarrow as pa

        table = pa.table(P)
        columns, names = table.columns, tuple(table.column_names)
    else:
        array = _as_two_dimensional(P)
        names = numbered(array.shape[1])
        return LabelMatrix(*encode_array(array, names), names), False
    if not columns or len(columns[0]) == 0:
        raise InvalidLabelsError("labels are empty: the table has no rows or no columns")
    return LabelMatrix(*encode_columns(columns, names), names), is_named


def _which_are_matrices(P: Any) -> list[bool]:
    """Return for each item of a list whether it has two dimensions; nothing for other types."""
    items = P if isinstance(P, list | tuple) else ()
    return [len(getattr(item, "shape", ())) == 2 for item in items]


def _as_two_dimensional(P: Any) -> AnyArray:
    if hasattr(P, "toarray"):
        raise InvalidLabelsError("labels must be a dense (n, V) table, not a sparse matrix")
    if isinstance(P, np.ma.MaskedArray):
        mask, P = np.ma.getmaskarray(P), P.data.astype(object)
        P[mask] = None
    try:
        array = np.asarray(P)
    except ValueError:  # nested lists that do not form a table
        lengths = [len(row) if isinstance(row, Sequence | np.ndarray) else 1 for row in P]
        odd = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
        if odd is None:
            reason = " with one label in each cell; a cell contains a list"
        else:
            reason = (
                f": row {odd} has {lengths[odd]} labels, but row 0 has {lengths[0]}; use -1 for "
                "missing labels"
            )
        raise InvalidLabelsError(f"labels must form a table{reason}") from None
    if array.dtype.kind in "US" and not hasattr(P, "dtype"):
        # numpy converts all cells to texts if one is a text; in an object array numbers stay
        array = np.asarray(P, dtype=object)
    if array.size == 0:
        raise InvalidLabelsError(f"labels are empty: their shape is {array.shape}")
    if array.ndim != 2:
        hints = {
            1: "; one partition is a single column: P.reshape(-1, 1)",
            3: f"; {SOFT_HINT}: [np.asarray(M) for M in P]",
        }
        raise InvalidLabelsError(
            "labels must have two dimensions (n points × V partitions), got "
            f"{array.ndim}{hints.get(array.ndim, '')}"
        )
    return array


# From columns to codes


def encode_array(array: AnyArray, names: Sequence[str]) -> tuple[AnyArray, Categories]:
    """Return codes (n, V) and the V categories of a two-dimensional array of labels.

    Labels 0, 1, … without gaps of a small integer type are their own codes; they are not copied.
    """
    if array.dtype.kind not in "iufb":
        return encode_columns(list(array.T), names)
    array = _whole_numbers(array, names)
    largest = int(array.max())
    if (largest + 2) * len(names) <= _LARGEST_LOOKUP_CELLS:
        return _by_lookup(array, largest)
    return _side_by_side(map_in_threads(_by_sorting, array.T))


def encode_columns(columns: Sequence[Any], names: Sequence[str]) -> tuple[AnyArray, Categories]:
    """Return codes (n, V) and the V categories of columns: arrays, Series, or arrow arrays."""
    named = zip(columns, names, strict=True)
    return _side_by_side(map_in_threads(lambda column: _encode_column(*column), named))


def code_dtype(n_labels: int) -> type[np.int16] | type[np.int32]:
    """Return int16 if it can hold the codes of this many labels, else int32."""
    return np.int16 if n_labels <= np.iinfo(np.int16).max else np.int32


def _by_lookup(array: AnyArray, largest: int) -> tuple[AnyArray, Categories]:
    """Encode small integers by a lookup table: one pass finds the labels, one writes the codes."""
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
    flags, dtype = array.flags, array.dtype
    are_codes = all(len(c) == 0 or c[-1] == len(c) - 1 for c in categories)
    # kernels need a contiguous array of small integers
    small = dtype.kind == "i" and dtype.itemsize <= np.dtype(np.int32).itemsize and dtype.isnative
    if are_codes and small and flags.c_contiguous and flags.writeable:
        return array, categories
    codes = np.empty((n, V), dtype=code_dtype(max(len(c) for c in categories)))
    lookup = (np.cumsum(seen[:, 1:], axis=1) - 1).astype(codes.dtype)
    lookup = np.column_stack([np.full(V, MISSING, dtype=codes.dtype), lookup]).ravel()
    for start in range(0, n, rows):
        chunk = slice(start, start + rows)
        np.take(lookup, array[chunk].astype(np.int64) + base, out=codes[chunk])
    return codes, categories


def _by_sorting(column: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Encode integers of any size."""
    # most partitions have few labels: all are in a sample, and no other row need be sorted
    categories = np.unique(column[:: max(1, len(column) // _SAMPLED_ROWS)])
    codes = np.minimum(np.searchsorted(categories, column), len(categories) - 1)
    if not np.array_equal(categories[codes], column):
        categories, codes = np.unique(column, return_inverse=True)
    codes = codes.astype(code_dtype(len(categories)))
    return _drop_categories(codes, categories, categories == MISSING)


def _encode_column(column: Any, name: str) -> tuple[AnyArray, AnyArray]:
    """Return codes (n,) and categories of an array, a Series, or an array of arrow."""
    numbers = _as_numbers(column)
    if numbers is not None:
        codes, (values,) = encode_array(numbers[:, None], [name])
        return codes[:, 0], values
    codes, labels = _distinct_values(column, name)
    missing = np.array([not _kind_of(label) for label in labels], dtype=bool)
    codes, labels = _drop_categories(codes.astype(code_dtype(len(labels))), labels, missing)
    if str(getattr(column, "dtype", "") or column.type).lower() in _SINGLE_PRECISION:
        labels = labels.astype(np.float32)
    values = _integers_or_texts(labels, name, lambda code: int(np.argmax(codes == code)))
    # equal values get one code: to arrow, the floats 0.0 and −0.0 are two values
    place_of = {value: place for place, value in enumerate(dict.fromkeys(values.tolist()))}
    if len(place_of) < len(values):
        lookup = np.array([*(place_of[value] for value in values.tolist()), MISSING], codes.dtype)
        codes, values = lookup[codes], np.array(list(place_of), values.dtype)
    return _drop_categories(codes, values, values == (MISSING if values.dtype.kind != "U" else ""))


def _as_numbers(column: Any) -> AnyArray | None:
    """Return a column of numbers or truth values without nulls as an array, or None for others."""
    if hasattr(column, "dictionary_encode"):  # arrow
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


def _distinct_values(column: Any, name: str) -> tuple[AnyArray, AnyArray]:
    """Return codes (n,) and distinct values, which are not checked yet; nulls may be −1."""
    if hasattr(column, "dictionary_encode"):
        import pyarrow as pa

        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if pa.types.is_dictionary(column.type):  # it may have unused values, or some twice
            column = column.dictionary_decode()
        if pa.types.is_float16(column.type):
            column = column.cast(pa.float32())
        try:
            encoded = column.dictionary_encode()
        except pa.ArrowNotImplementedError:
            raise _unknown_type(column.type, name) from None
        indices = encoded.indices.fill_null(MISSING) if encoded.null_count else encoded.indices
        labels = encoded.dictionary.to_pylist()
        return indices.to_numpy(zero_copy_only=False), np.fromiter(labels, object, len(labels))
    if hasattr(column, "factorize") and column.dtype != object:  # pandas
        codes, labels = column.factorize()
        return codes, np.asarray(labels, dtype=object)
    if hasattr(column, "replace_strict") and str(column.dtype).startswith(_POLARS_TEXTS):
        labels = column.unique(maintain_order=True)
        codes = column.replace_strict(labels, np.arange(len(labels)))
        return codes.to_numpy(), np.fromiter(labels.to_list(), object, len(labels))
    if hasattr(column, "to_list"):
        cells = column.to_list()
    elif column.dtype.kind in "OSUT":
        cells = column.tolist()
    else:
        raise _unknown_type(column.dtype, name)
    types = set(map(type, cells))
    # the numbers 1 and 0 are equal to truth values, and one key of a dictionary with them
    if types & _TRUTH_VALUES and types - _TRUTH_VALUES:
        _refuse_several_kinds(cells, name, int)
    if bytes in types:
        cells = [_text(cell, name) if type(cell) is bytes else cell for cell in cells]
    try:
        code_of = {label: code for code, label in enumerate(dict.fromkeys(cells))}
    except TypeError:  # lists cannot be keys
        raise _unknown_type(" or ".join(sorted(kind.__name__ for kind in types)), name) from None
    codes = np.fromiter(map(code_of.__getitem__, cells), np.int32, len(cells))
    return codes, np.fromiter(code_of, object, len(code_of))


def _drop_categories(
    codes: AnyArray, categories: AnyArray, missing: AnyArray
) -> tuple[AnyArray, AnyArray]:
    """Set the codes of the ``missing`` categories to −1, and renumber the others without gaps."""
    if not missing.any():
        return codes, categories
    lookup = np.where(missing, MISSING, np.cumsum(~missing) - 1)
    return np.append(lookup, MISSING).astype(codes.dtype)[codes], categories[~missing]


def _side_by_side(encoded: Sequence[tuple[AnyArray, AnyArray]]) -> tuple[AnyArray, Categories]:
    """Return the codes of V columns as one array (n, V), and their categories."""
    n, V = len(encoded[0][0]), len(encoded)
    codes = np.empty((n, V), dtype=code_dtype(max(len(c) for _, c in encoded)))
    rows = max(1, _CHUNK_CELLS // V)
    for start in range(0, n, rows):
        for v, (column_codes, _) in enumerate(encoded):
            codes[start : start + rows, v] = column_codes[start : start + rows]
    return codes, tuple(categories for _, categories in encoded)


# What may be a label


def _whole_numbers(array: AnyArray, names: Sequence[str], row_of: RowOf = int) -> AnyArray:
    """Return booleans, integers or floats (n, V) as integers ≥ −1; NaN becomes −1."""
    if array.dtype.kind == "b":
        return array.astype(np.int8)
    if array.dtype.kind == "f":
        # above this bound, not every whole number is a float of this precision
        inexact_from = min(_FIRST_INEXACT_FLOAT, 2.0 ** (np.finfo(array.dtype).nmant + 1))
        fraction = np.isinf(array) | ((array != np.floor(array)) & ~np.isnan(array))
        if (wrong := fraction | (np.abs(array) >= inexact_from)).any():
            row, column = np.argwhere(wrong)[0]
            reason = "is too large to be exact as a float; give texts, or an array of integers"
            if fraction[row, column]:
                # large numbers are excluded first, because their sums can overflow
                within = array.shape[1] > 1 and ((array >= 0) & (array <= 1)).all()
                shares = within and array.sum(axis=1).max() < 1.001
                reason = f"is not a whole number; {SOFT_HINT if shares else FEATURES_HINT}"
            raise InvalidLabelsError(
                f"label {array[row, column]!s} at row {row_of(row)}, partition '{names[column]}' "
                f"{reason}"
            )
        array = np.where(np.isnan(array), MISSING, array).astype(np.int64)
    if array.dtype.kind != "u" and array.min(initial=0) < MISSING:
        row, column = np.argwhere(array < MISSING)[0]
        raise InvalidLabelsError(
            f"label {array[row, column]} at row {row_of(row)}, partition '{names[column]}' is "
            "negative; labels are 0 or larger, and -1 means missing"
        )
    return array


def _integers_or_texts(labels: Sequence[Any] | AnyArray, name: str, row_of: RowOf) -> AnyArray:
    """Return labels that are not missing as an array of integers or of texts."""
    _refuse_several_kinds(labels, name, row_of)
    kind = _kind_of(labels[0]) if len(labels) else "number"
    if kind == "text":
        texts = [_text(label, name) for label in labels]
        try:
            "".join(texts).encode()
        except UnicodeEncodeError as error:  # half of a character
            raise _unreadable(name, str(error)) from None
        return np.array(texts, dtype=np.str_)
    if kind not in ("number", "truth value"):
        raise _unknown_type(kind, name)
    if all(isinstance(label, Integral | np.bool_) for label in labels):
        integers = [int(label) for label in labels]
        # numpy refuses what does not fit
        fits_signed = max(integers, default=0) <= np.iinfo(np.int64).max
        try:
            numbers = np.array(integers, dtype=np.int64 if fits_signed else np.uint64)
        except OverflowError:
            raise _unreadable(name, f"{max(integers, key=abs)} is too large") from None
    else:
        # fewer whole numbers are exact in single precision
        precision = np.float32 if isinstance(labels[0], np.float32) else np.float64
        numbers = np.array([float(label) for label in labels], precision)
    return _whole_numbers(numbers[:, None], [name], row_of)[:, 0]


def _refuse_several_kinds(cells: Sequence[Any] | AnyArray, name: str, row_of: RowOf) -> None:
    """Refuse a column with, for example, numbers and texts; missing labels are of any kind."""
    kinds = [(row, cell, kind) for row, cell in enumerate(cells) if (kind := _kind_of(cell))]
    odd = next((cell for cell in kinds if cell[2] != kinds[0][2]), None)
    if odd is not None:
        raise InvalidLabelsError(
            f"partition '{name}' mixes kinds of labels: {kinds[0][1]!r} at row "
            f"{row_of(kinds[0][0])}, {odd[1]!r} at row {row_of(odd[0])}; use one kind"
        )


def _kind_of(cell: Any) -> str:
    """Return the kind of label in a cell, or an empty text for a missing label."""
    if isinstance(cell, str | bytes):
        return "text"
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(cell, bool | np.bool_):
        return "truth value"
    # a time difference of numpy is an integer, too
    if isinstance(cell, Real) and not type(cell).__name__.startswith("timedelta"):
        return "number" if isinstance(cell, Rational) or not np.isnan(float(cell)) else ""
    return type(cell).__name__


def _text(label: str | bytes, name: str) -> str:
    if isinstance(label, str):
        return label
    try:
        return label.decode()
    except UnicodeDecodeError:
        raise InvalidLabelsError(
            f"partition '{name}' has bytes that are not UTF-8 text; give texts as labels"
        ) from None


def _unknown_type(kind: Any, name: str) -> InvalidLabelsError:
    return InvalidLabelsError(
        f"partition '{name}' has labels of type {kind}; turn them into whole numbers or texts"
    )


def _unreadable(name: str, reason: str) -> InvalidLabelsError:
    return InvalidLabelsError(
        f"partition '{name}' has labels that cannot be read as whole numbers or texts ({reason}); "
        "give integers of at most 64 bits, or texts"
    )


# Names of rows


def column_names_of(table: Any) -> AnyArray | None:
    """Return the names of the columns of a table, None unless all of them are texts."""
    names = list(getattr(table, "columns", ()))
    texts = names and all(isinstance(name, str) for name in names)
    return np.asarray(names, dtype=object) if texts else None


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
