"""Label matrices: read from arrays, lists and tables, checked, and coded as small integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.errors import InvalidLabelsError, LabelWarning
from coterie.labels.coding import code_array, code_columns
from coterie.labels.distinct_labels import drop_categories
from coterie.labels.label_values import MISSING, SOFT_HINT
from coterie.labels.row_index import row_index_of
from coterie.runtime.imports import require_extra
from coterie.runtime.messages import warn_user
from coterie.runtime.wording import short_repr

__all__ = [
    "MISSING",
    "LabelMatrix",
    "are_memberships",
    "as_label_matrix",
    "encode_like",
    "warn_if_transposed",
    "warn_of_ids",
]

#: With fewer points, a different label in every row, or more partitions than points, is not odd.
_FEWEST_POINTS = 20
#: A column with more different labels than this share of the rows may be an id.
_SHARE_OF_AN_ID = 0.9


@dataclass(frozen=True)
class LabelMatrix:
    """The coded labels of n points in V partitions."""

    codes: NDArray[Any]  # (n, V) int8 to int32: 0..K_v − 1, or −1 if the label is missing
    categories: tuple[NDArray[Any], ...]  # categories[v][c] is the user's label of code c
    names: tuple[str, ...]  # of the partitions, for messages and reports
    empty: tuple[int, ...] = ()  # columns of the input without any label, which are left out

    __repr__ = short_repr

    @property
    def n_points(self) -> int:
        """Return the number of points n."""
        return int(self.codes.shape[0])

    @property
    def n_partitions(self) -> int:
        """Return the number of partitions V."""
        return int(self.codes.shape[1])

    @property
    def n_labels(self) -> NDArray[np.int64]:
        """Return the number of clusters K_v of each partition, (V,)."""
        return np.array([len(c) for c in self.categories], dtype=np.int64)

    def without_rows(self) -> LabelMatrix:
        """Return a matrix without rows that keeps the names of partitions and labels."""
        codes = np.empty((0, self.n_partitions), dtype=self.codes.dtype)
        return LabelMatrix(codes, self.categories, self.names, self.empty)

    def rows(self, chosen: NDArray[np.bool_]) -> LabelMatrix:
        """Return the chosen rows (a mask); labels that do not occur in them are dropped."""
        codes = self.codes[chosen]
        categories = list(self.categories)
        for v, names in enumerate(self.categories):
            unused = np.ones(len(names) + 1, dtype=bool)
            unused[codes[:, v]] = False  # the code −1 selects the last entry
            codes[:, v], categories[v] = drop_categories(codes[:, v], names, unused[:-1])
        return LabelMatrix(codes, tuple(categories), self.names, self.empty)

    def without_columns(self, empty: Sequence[int]) -> LabelMatrix:
        """Return the matrix without the columns ``empty``."""
        kept = [v for v in range(self.n_partitions) if v not in empty]
        return LabelMatrix(
            self.codes[:, kept],
            tuple(self.categories[v] for v in kept),
            tuple(self.names[v] for v in kept),
            tuple(empty),
        )

    @property
    def labelled_rows(self) -> NDArray[np.bool_]:
        """Return which points have a label in any partition, (n,)."""
        if not self.has_missing:
            return np.ones(self.n_points, dtype=np.bool_)
        return np.any(self.codes >= 0, axis=1)

    @property
    def has_missing(self) -> bool:
        """Return whether any label is missing."""
        return bool(self.codes.min(initial=0) < 0)


def are_memberships(P: Any) -> bool:
    """Return whether P is a list of matrices, so that it holds memberships and not labels.

    >>> are_memberships([np.eye(2), np.eye(2)]), are_memberships([[0, 1], [1, 1]])
    (True, False)
    """
    are_matrices = _items_that_are_matrices(P)
    return bool(are_matrices) and all(are_matrices)


def as_label_matrix(
    P: Any, *, allow_unlabelled_rows: bool = False, names: Sequence[str] | None = None
) -> LabelMatrix:
    """Read and check a label matrix.

    Parameters
    ----------
    P : array, list of rows, pandas or polars DataFrame, or arrow table, (n, V)
        Column v is a partition of the n points. A list of V arrays or Series (n,), or a mapping
        of names to V vectors (n,), gives the columns. Labels are integers ≥ 0, whole floats,
        texts, booleans or categories, of one kind in a column. The values −1, NaN, None, masked
        cells and empty texts are missing labels.
    allow_unlabelled_rows : bool
        Accept rows without any label.
    names : sequence of V str, optional
        Names of the columns of an array.

    Raises
    ------
    InvalidLabelsError
        If a cell cannot be a label, or if a row has no label; the message names the row and the
        column.

    Warns
    -----
    LabelWarning
        If a column has no label; it is left out.

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
    matrix = _read(P)[0]
    matrix = _without_empty_columns(
        matrix if names is None else replace(matrix, names=tuple(names))
    )
    unlabelled = ~matrix.labelled_rows
    if unlabelled.any() and not allow_unlabelled_rows:
        raise InvalidLabelsError(
            f"row {int(np.argmax(unlabelled))} has no label in any partition "
            f"({int(unlabelled.sum())} such rows in all); leave it out, or give it a label"
        )
    return matrix


def encode_like(P: Any, fitted: LabelMatrix) -> NDArray[Any]:
    """Return codes (n', V) of new rows in the categories of a fitted matrix.

    Labels that the fitted matrix does not have become −1.

    >>> fitted = as_label_matrix([[10, 7], [20, 7]])
    >>> encode_like([[20, 8]], fitted).tolist()
    [[1, -1]]
    """
    new, named = _read(P)
    if new.n_partitions == fitted.n_partitions + len(fitted.empty):
        new = new.without_columns(fitted.empty)
    if new.n_partitions != fitted.n_partitions:
        raise InvalidLabelsError(
            f"the new labels have {new.n_partitions} partitions (columns), "
            f"the consensus was fitted on {fitted.n_partitions}"
        )
    if named and fitted.names != _numbered(fitted.n_partitions) and new.names != fitted.names:
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


def warn_if_transposed(matrix: LabelMatrix) -> None:
    """Warn if there are more columns than rows: rows may be the partitions."""
    n, V = matrix.n_points, matrix.n_partitions
    if V > n and V >= _FEWEST_POINTS:
        warn_user(
            f"the labels have {n} rows and {V} columns; rows are points and columns are "
            f"partitions: if these are {n} partitions of {V} points, pass P.T",
            LabelWarning,
        )


def warn_of_ids(matrix: LabelMatrix) -> None:
    """Warn of columns with a different label in nearly every row: they may name the rows."""
    n = matrix.n_points
    if matrix.n_partitions == 1 or n < _FEWEST_POINTS:
        return
    for name, n_labels in zip(matrix.names, matrix.n_labels.tolist(), strict=True):
        if n_labels >= _SHARE_OF_AN_ID * n:
            warn_user(
                f"column '{name}' has {n_labels:,} different labels in {n:,} rows; if it names "
                "the rows, leave it out (in the program: --id)",
                LabelWarning,
            )


def _without_empty_columns(matrix: LabelMatrix) -> LabelMatrix:
    """Leave out the columns without any label, with a warning."""
    empty = [v for v, categories in enumerate(matrix.categories) if len(categories) == 0]
    if not empty:
        return matrix
    names = ", ".join(f"'{matrix.names[v]}' (column {v})" for v in empty[:10])
    if len(empty) == matrix.n_partitions:
        raise InvalidLabelsError("no cell has a label; every label is missing")
    warn_user(
        f"partitions without any label are left out: {names}{', …' if len(empty) > 10 else ''}",
        LabelWarning,
    )
    return matrix.without_columns(empty)


def _numbered(n_partitions: int) -> tuple[str, ...]:
    """Return the numbers 0, 1, … as names of unnamed columns."""
    return tuple(str(v) for v in range(n_partitions))


def _items_that_are_matrices(P: Any) -> list[bool]:
    """Return for each item of a list whether it has two dimensions."""
    return (
        [len(getattr(item, "shape", ())) == 2 for item in P] if isinstance(P, list | tuple) else []
    )


def _read(P: Any) -> tuple[LabelMatrix, bool]:
    """Return the coded matrix, and whether its columns have names."""
    if isinstance(P, LabelMatrix):
        return P, False
    if are_memberships(P):
        raise InvalidLabelsError(
            "labels are needed here, but these are membership matrices; coterie.hard_labels(P) "
            "gives the most likely labels"
        )
    is_matrix = _items_that_are_matrices(P)
    if any(is_matrix):
        raise InvalidLabelsError(
            f"item {is_matrix.index(True)} of the list is a matrix, but item "
            f"{is_matrix.index(False)} is not: {SOFT_HINT}; labels y ≥ 0 become a matrix by "
            "np.eye(y.max() + 1)[y]"
        )
    frame = _frame_columns(P)
    if frame is None:
        array = _as_two_dimensional(P)
        names = _numbered(array.shape[1])
        return LabelMatrix(*code_array(array, names), names), False
    columns, names = frame
    if not columns or len(columns[0]) == 0:
        raise InvalidLabelsError("labels are empty: the table has no rows or no columns")
    return LabelMatrix(*code_columns(columns, names), names), not isinstance(P, list | tuple)


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


def _ragged_message(P: Any) -> str:
    """Say why nested lists do not form a table."""
    lengths = [len(row) if isinstance(row, Sequence | np.ndarray) else 1 for row in P]
    odd = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
    if odd is None:
        return "labels must form a table with one label in each cell; a cell contains a list"
    return (
        f"labels must form a table: row {odd} has {lengths[odd]} labels, but row 0 has "
        f"{lengths[0]}; use -1 for missing labels"
    )


def _frame_columns(P: Any) -> tuple[list[Any], tuple[str, ...]] | None:
    """Return columns and names of a pandas, polars or arrow table, or None for other types."""
    if isinstance(P, Mapping) or _are_vectors(P):
        return _vector_columns(P)
    # pandas: select by position, because names may occur twice
    if hasattr(P, "iloc") and P.ndim == 2:
        names = tuple(str(name) for name in P.columns)
        return [P.iloc[:, v] for v in range(len(names))], names
    if hasattr(P, "get_columns"):  # polars
        return P.get_columns(), tuple(P.columns)
    if hasattr(P, "__arrow_c_stream__") and (hasattr(P, "schema") or hasattr(P, "columns")):
        require_extra("tables", "tables of arrow need", "pyarrow")
        import pyarrow as pa

        table = pa.table(P)
        return table.columns, tuple(table.column_names)
    return None


def _are_vectors(P: Any) -> bool:
    """Return whether P is a list of arrays or Series with one dimension."""
    if not isinstance(P, list | tuple) or not P:
        return False
    return all(len(getattr(item, "shape", ())) == 1 for item in P)


def _vector_columns(P: Any) -> tuple[list[Any], tuple[str, ...]]:
    """Return the vectors of a list or a mapping as columns, and their names."""
    row_index_of(P)  # refuses Series of different rows
    names = tuple(map(str, P)) if isinstance(P, Mapping) else _numbered(len(P))
    vectors = [np.asarray(item) for item in (P.values() if isinstance(P, Mapping) else P)]
    for name, vector in zip(names, vectors, strict=True):
        if vector.ndim != 1 or len(vector) != len(vectors[0]):
            raise InvalidLabelsError(
                f"partition '{name}' has shape {vector.shape}, partition '{names[0]}' has "
                f"{vectors[0].shape}; give one label for each point in every partition"
            )
    return vectors, names
