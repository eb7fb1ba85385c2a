"""Soft partitions as users have them: one matrix of memberships a partition, read and checked.

A soft partition v gives point i the shares π_ivc ≥ 0, c = 1 … K_v, with labelled mass
m_iv = Σ_c π_ivc ≤ 1: a row of zeros is a missing label, what a row lacks to one is missing mass.
Labels are the special case in which every row is a unit vector, or zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from coterie.errors import InvalidLabelsError
from coterie.labels.label_matrix import MISSING, LabelMatrix, are_memberships, as_label_matrix

__all__ = ["Memberships", "as_memberships", "hard_labels", "memberships_like", "slots_of"]

#: How far from one a sum may be by rounding, and is then taken to be one.
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Memberships:
    """n points × V soft partitions, side by side.

    Attributes
    ----------
    shares : (n, m) sparse
        Memberships in the m columns that have any, without stored zeros.
    columns : (m,) int
        Which of the W = Σ widths columns of the user's matrices each of them is, rising.
    widths : (V,) int
        Columns of each of the user's matrices.
    names : tuple of V str
        The number of each matrix, for messages and reports.
    column_names : tuple
        Names of the columns of each matrix that had them, None for the others.
    """

    shares: sp.csr_array
    columns: NDArray[np.int64]
    widths: NDArray[np.int64]
    names: tuple[str, ...]
    column_names: tuple[tuple[str, ...] | None, ...]

    @property
    def n_points(self) -> int:
        """Number of points n."""
        return int(self.shares.shape[0])

    @property
    def n_partitions(self) -> int:
        """Number of partitions V."""
        return len(self.widths)

    @property
    def n_labels(self) -> NDArray[np.int64]:
        """How many clusters of each partition have any members, shape (V,)."""
        return np.bincount(self._partition_of_columns(), minlength=self.n_partitions)

    @property
    def is_hard(self) -> bool:
        """Whether every point lies wholly in one cluster of a partition, or in none."""
        return bool((self.shares.data == 1.0).all())

    def labels(self) -> LabelMatrix:
        """The label matrix that memberships are which are hard; labels are numbers of columns."""
        return as_label_matrix(_most_likely(self), allow_unlabelled_rows=True)

    def codes(self) -> NDArray[np.int64]:
        """Labels 0..K_v − 1 among the columns there are, −1 missing, (n, V), of hard rows."""
        codes = np.full((self.n_points, self.n_partitions), MISSING, dtype=np.int64)
        starts, entries = np.cumsum(self.n_labels) - self.n_labels, self.shares.tocoo()
        partition = self._partition_of_columns()[entries.col]
        codes[entries.row, partition] = entries.col - starts[partition]
        return codes

    def rows(self, chosen: NDArray[np.bool_]) -> Memberships:
        """Some of the points, without the columns that have no members among them."""
        shares = self.shares[chosen]
        used = np.flatnonzero(np.bincount(shares.indices, minlength=shares.shape[1]))
        return replace(self, shares=shares[:, used], columns=self.columns[used])

    def without_rows(self) -> Memberships:
        """Which matrices and columns there are, without the points."""
        return replace(self, shares=sp.csr_array((0, len(self.columns))))

    def joined(self, more: Memberships) -> Memberships:
        """More partitions of the same points, after these."""
        V = self.n_partitions + more.n_partitions
        return Memberships(
            sp.hstack([self.shares, more.shares], format="csr"),
            np.concatenate([self.columns, more.columns + self.widths.sum()]),
            np.concatenate([self.widths, more.widths]),
            tuple(str(v) for v in range(V)),
            (*self.column_names, *more.column_names),
        )

    def _partition_of_columns(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(self.n_partitions), self.widths)[self.columns]


def as_memberships(P: Any, *, allow_unlabelled_rows: bool = False) -> Memberships:
    """Read soft partitions: a list of matrices, one row a point, one column a cluster.

    Parameters
    ----------
    P : list or tuple of V matrices, the v-th of shape (n, K_v)
        Arrays, pandas, polars or arrow tables, or scipy's sparse matrices. Entries ≥ 0, rows that
        sum to at most one. A sum within 1e-6 of one is taken to be one, and the row scaled.
    allow_unlabelled_rows : bool
        Accept points without any membership: other partitions have them.

    Raises
    ------
    InvalidLabelsError
        Naming the matrix, and the row, of what cannot be a membership.

    Examples
    --------
    >>> soft = as_memberships([np.array([[0.9, 0.1], [0.25, 0.25]]), np.eye(2)])
    >>> soft.shares.toarray()
    array([[0.9 , 0.1 , 1.  , 0.  ],
           [0.25, 0.25, 0.  , 1.  ]])
    >>> as_memberships([np.array([[0.9, 0.2]])])
    Traceback (most recent call last):
    ...
    coterie.errors.InvalidLabelsError: row 0 of membership matrix 0 sums to 1.1; ...
    """
    if not are_memberships(P):
        raise InvalidLabelsError(
            "soft partitions are a list of membership matrices, one (n, K_v) a partition; a single "
            "matrix M is the list [M]"
        )
    named = [_matrix(given, v) for v, given in enumerate(P)]
    parts = [_checked(part, v) for v, (part, _) in enumerate(named)]
    _refuse_unequal_lengths(parts)
    rows = sp.hstack(parts, format="csr")
    widths = np.array([part.shape[1] for part in parts], dtype=np.int64)
    if not allow_unlabelled_rows:
        _refuse_bare_rows(rows)
    whole = Memberships(
        rows,
        np.arange(widths.sum()),
        widths,
        tuple(str(v) for v in range(len(parts))),
        tuple(names for _, names in named),
    )
    return whole.rows(np.ones(whole.n_points, dtype=bool))


def memberships_like(P: Any, fitted: Memberships) -> Memberships:
    """Memberships of new rows in the columns of fitted ones; in columns of no members, missing.

    >>> fitted = as_memberships([np.array([[0.5, 0.0, 0.5]])])
    >>> memberships_like([np.array([[0.2, 0.7, 0.1]])], fitted).shares.toarray()
    array([[0.2, 0.1]])
    """
    if not are_memberships(P):
        raise InvalidLabelsError(
            f"the consensus was fitted on {fitted.n_partitions} membership matrices, and these "
            "are none; give a list of matrices with the same columns"
        )
    new = as_memberships(P, allow_unlabelled_rows=True)
    if not np.array_equal(new.widths, fitted.widths):
        raise InvalidLabelsError(
            f"the membership matrices have {_listed(new.widths)} columns, those of the fit had "
            f"{_listed(fitted.widths)}; give the same matrices in the same order"
        )
    for v, (here, there) in enumerate(zip(new.column_names, fitted.column_names, strict=True)):
        if here is not None and there is not None and here != there:
            raise InvalidLabelsError(
                f"the columns of membership matrix {v} are not those of the fit: "
                f"{', '.join(here)} instead of {', '.join(there)}; give the same in the same order"
            )
    place = np.searchsorted(fitted.columns, new.columns)
    seen = np.isin(new.columns, fitted.columns)
    entries = new.shares[:, seen].tocoo()
    rows = sp.csr_array(
        (entries.data, (entries.row, place[seen][entries.col])),
        shape=(new.n_points, len(fitted.columns)),
    )
    return replace(fitted, shares=rows)


def hard_labels(P: Any) -> NDArray[np.int64]:
    """Most likely label of every point in every soft partition, for what needs labels.

    Parameters
    ----------
    P : list of V membership matrices (n, K_v)
        As :class:`~coterie.RobustConsensus` takes them.

    Returns
    -------
    labels : (n, V) int
        Column of the largest membership, the first of equals; −1 where a row is zero.

    Examples
    --------
    >>> import numpy as np
    >>> from coterie.labels.soft_memberships import hard_labels
    >>> hard_labels([np.array([[0.7, 0.3], [0.5, 0.5], [0, 0]]), np.eye(3)])
    array([[ 0,  0],
           [ 0,  1],
           [-1,  2]])
    """
    return _most_likely(as_memberships(P, allow_unlabelled_rows=True))


def slots_of(rows: sp.csr_array) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Sparse rows as slots of equal number: columns (n, S), rising and then −1, and values.

    >>> slots_of(sp.csr_array([[0.5, 0, 0.5], [0, 1, 0]]))[0].tolist()
    [[0, 2], [1, -1]]
    """
    rows.sort_indices()
    counts = np.diff(rows.indptr)
    slot = np.arange(rows.nnz) - np.repeat(rows.indptr[:-1], counts)
    point = np.repeat(np.arange(rows.shape[0]), counts)
    shape = (rows.shape[0], max(1, int(counts.max(initial=0))))
    dtype = np.int16 if rows.shape[1] <= np.iinfo(np.int16).max else np.int32
    columns, values = np.full(shape, MISSING, dtype=dtype), np.zeros(shape)
    columns[point, slot] = rows.indices
    values[point, slot] = rows.data
    return columns, values


def _most_likely(soft: Memberships) -> NDArray[np.int64]:
    labels = np.full((soft.n_points, soft.n_partitions), MISSING, dtype=np.int64)
    entries = soft.shares.tocoo()
    partition = soft._partition_of_columns()[entries.col]
    # the last written stays: by rising value, and of equals by falling column
    order = np.lexsort((-entries.col, entries.data))
    starts = np.cumsum(soft.widths) - soft.widths
    column = soft.columns[entries.col] - starts[partition]
    labels[entries.row[order], partition[order]] = column[order]
    return labels


def _matrix(given: Any, v: int) -> tuple[sp.csr_array, tuple[str, ...] | None]:
    """One matrix in sparse rows of doubles, and the names of its columns if it has any."""
    names = None
    if hasattr(given, "column_names"):  # arrow
        names = tuple(given.column_names)
        given = np.column_stack([column.to_numpy() for column in given.columns])
    elif hasattr(given, "columns") and hasattr(given, "to_numpy"):
        names = tuple(str(name) for name in given.columns)
        given = given.to_numpy()
    if isinstance(given, np.ma.MaskedArray):
        given = np.ma.filled(given.astype(np.float64), np.nan)
    rows = _in_doubles(given, v)
    if not all(rows.shape):
        raise InvalidLabelsError(f"membership matrix {v} is empty: its shape is {rows.shape}")
    if rows.shape[1] == 1 and given.dtype.kind in "iu":
        raise InvalidLabelsError(
            f"membership matrix {v} is one column of whole numbers: if these are labels, put them "
            "side by side in one table, np.hstack(P); if not, give them as floats"
        )
    rows.sum_duplicates()
    return rows, names


def _in_doubles(given: Any, v: int) -> sp.csr_array:
    """Sparse rows of real numbers; numpy would read a text, and drop what is imaginary."""
    array = given if sp.issparse(given) else np.asarray(given)
    kind = array.dtype.kind
    if kind == "O" and any(isinstance(cell, str | bytes | complex) for cell in array.flat):
        kind = "U"
    try:
        if kind not in "biufO":
            raise TypeError
        return sp.csr_array(array if sp.issparse(given) else array.astype(np.float64)).astype(
            np.float64
        )
    except (TypeError, ValueError):
        what = "complex numbers" if kind == "c" else "something that is not a number"
        raise InvalidLabelsError(
            f"membership matrix {v} holds {what}; memberships are numbers from 0 to 1"
        ) from None


def _checked(rows: sp.csr_array, v: int) -> sp.csr_array:
    """The matrix without stored zeros, its sums at most one."""
    wrong = ~(np.isfinite(rows.data) & (rows.data >= 0))
    if wrong.any():
        entry = int(np.argmax(wrong))
        row = int(np.searchsorted(rows.indptr, entry, side="right")) - 1
        raise InvalidLabelsError(
            f"membership {rows.data[entry]} at row {row}, column {rows.indices[entry]} of "
            f"membership matrix {v}: memberships are numbers from 0 to 1; a row of zeros is a "
            "missing label"
        )
    rows.eliminate_zeros()
    if not rows.nnz:
        raise InvalidLabelsError(f"membership matrix {v} is zero everywhere; leave it out")
    point = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    # summed by rising value, so that the order of columns does not change the last digit
    order = np.lexsort((rows.data, point))
    sums = np.bincount(point, weights=rows.data[order], minlength=rows.shape[0])
    if (too_much := sums > 1 + _TOLERANCE).any():
        row = int(np.argmax(too_much))
        raise InvalidLabelsError(
            f"row {row} of membership matrix {v} sums to {sums[row]:.9g}; memberships sum to at "
            "most 1: divide each row by its sum"
        )
    near = np.abs(sums - 1) <= _TOLERANCE
    rows.data /= np.where(near, sums, 1.0)[point]
    return rows


def _refuse_unequal_lengths(parts: Sequence[sp.csr_array]) -> None:
    for v, part in enumerate(parts):
        if part.shape[0] != parts[0].shape[0]:
            raise InvalidLabelsError(
                f"membership matrix {v} has {part.shape[0]} rows (points), matrix 0 has "
                f"{parts[0].shape[0]}; all must be of the same points in the same order"
            )


def _refuse_bare_rows(rows: sp.csr_array) -> None:
    bare = np.diff(rows.indptr) == 0
    if bare.any():
        raise InvalidLabelsError(
            f"row {int(np.argmax(bare))} has no membership in any partition ({int(bare.sum())} "
            "such rows in all); leave it out"
        )


def _listed(widths: NDArray[np.int64]) -> str:
    return ", ".join(map(str, widths.tolist()))
