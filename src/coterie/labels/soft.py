"""Membership matrices of soft partitions: reading and checking.

A soft partition v gives point i the shares π_ivc ≥ 0, c = 1 … K_v, with labelled mass
m_iv = Σ_c π_ivc ≤ 1. The rest 1 − m_iv is missing; a row of zeros is a missing label. The
memberships are *hard*, and equivalent to labels, if every row is a unit vector or zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from coterie.arrays import AnyArray, Bools, Floats, Ints
from coterie.errors import InvalidLabelsError
from coterie.labels.encode import (
    MISSING,
    SOFT_HINT,
    LabelMatrix,
    are_memberships,
    as_label_matrix,
    code_dtype,
    numbered,
)
from coterie.runtime.wording import short_repr

#: A row sum is treated as one if it differs from one by at most this.
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Memberships:
    """The concatenated membership matrices of n points in V soft partitions."""

    shares: sp.csr_array  # (n, m): the m columns that have members, without stored zeros
    columns: Ints  # (m,) their positions in the user's matrices, increasing
    widths: Ints  # (V,) numbers of columns of the user's matrices
    names: tuple[str, ...]  # numbers of the matrices, for messages and reports
    column_names: tuple[tuple[str, ...] | None, ...]  # of each matrix, None if it has none

    __repr__ = short_repr

    @property
    def n_points(self) -> int:
        return int(self.shares.shape[0])

    @property
    def n_partitions(self) -> int:
        return len(self.widths)

    @property
    def partition_of(self) -> Ints:
        """Return the partition of each column, (m,)."""
        return np.repeat(np.arange(self.n_partitions), self.widths)[self.columns]

    @property
    def n_labels(self) -> Ints:
        """Return the number of clusters with members in each partition, (V,)."""
        return np.bincount(self.partition_of, minlength=self.n_partitions)

    @property
    def is_hard(self) -> bool:
        return bool((self.shares.data == 1.0).all())

    @property
    def labelled_rows(self) -> Bools:
        """Return which points have a membership in any partition, (n,)."""
        return np.diff(self.shares.indptr) > 0

    def labels(self) -> LabelMatrix:
        """Return the label matrix of hard memberships; labels are column numbers."""
        return as_label_matrix(_most_likely(self), allow_unlabelled_rows=True)

    def codes(self) -> AnyArray:
        """Return the codes 0..K_v − 1 of hard memberships, −1 missing, (n, V)."""
        shape = (self.n_points, self.n_partitions)
        codes = np.full(shape, MISSING, dtype=code_dtype(int(self.n_labels.max())))
        starts, entries = np.cumsum(self.n_labels) - self.n_labels, self.shares.tocoo()
        partition = self.partition_of[entries.col]
        codes[entries.row, partition] = entries.col - starts[partition]
        return codes

    def rows(self, chosen: Bools) -> Memberships:
        """Return the chosen points (a mask); columns without members among them are dropped."""
        shares = self.shares[chosen]
        used = np.flatnonzero(np.bincount(shares.indices, minlength=shares.shape[1]))
        return replace(self, shares=shares[:, used], columns=self.columns[used])

    def without_rows(self) -> Memberships:
        """Return memberships without points that keep the names of matrices and columns."""
        return replace(self, shares=sp.csr_array((0, len(self.columns))))

    def joined(self, more: Memberships) -> Memberships:
        """Append ``more`` partitions of the same points."""
        return Memberships(
            sp.hstack([self.shares, more.shares], format="csr"),
            np.concatenate([self.columns, more.columns + self.widths.sum()]),
            np.concatenate([self.widths, more.widths]),
            numbered(self.n_partitions + more.n_partitions),
            (*self.column_names, *more.column_names),
        )


def as_memberships(P: Any, *, allow_unlabelled_rows: bool = False) -> Memberships:
    """Read and check soft partitions.

    Parameters
    ----------
    P : list or tuple of V matrices, the v-th of shape (n, K_v)
        Arrays, pandas, polars or arrow tables, or sparse matrices of scipy, with one row for each
        point and one column for each cluster. Entries are ≥ 0, and rows sum to at most one. If a
        sum is within 1e-6 of one, the row is scaled to sum to one.
    allow_unlabelled_rows : bool
        Accept points without any membership.

    Raises
    ------
    InvalidLabelsError
        If an entry cannot be a membership; the message names the matrix and the row.

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
        raise InvalidLabelsError(f"{SOFT_HINT}; for a single matrix M give the list [M]")
    parts, column_names = zip(*(_read_matrix(given, v) for v, given in enumerate(P)), strict=True)
    for v, part in enumerate(parts):
        if part.shape[0] != parts[0].shape[0]:
            raise InvalidLabelsError(
                f"membership matrix {v} has {part.shape[0]} rows (points), but matrix 0 has "
                f"{parts[0].shape[0]}; give the same points in the same order"
            )
    widths = np.array([part.shape[1] for part in parts], dtype=np.int64)
    rows = sp.hstack(parts, format="csr")
    soft = Memberships(rows, np.arange(widths.sum()), widths, numbered(len(parts)), column_names)
    unlabelled = ~soft.labelled_rows
    if unlabelled.any() and not allow_unlabelled_rows:
        raise InvalidLabelsError(
            f"row {int(np.argmax(unlabelled))} has no membership in any partition "
            f"({int(unlabelled.sum())} such rows in all); leave it out"
        )
    return soft.rows(np.ones(soft.n_points, dtype=bool))


def memberships_like(P: Any, fitted: Memberships) -> Memberships:
    """Read memberships of new points in the same matrices as in a fit.

    Columns that had no members in the fit are left out.
    """
    if not are_memberships(P):
        raise InvalidLabelsError(
            f"the consensus was fitted on {fitted.n_partitions} membership matrices, but these "
            "are labels; give a list of matrices with the same columns"
        )
    new = as_memberships(P, allow_unlabelled_rows=True)
    if not np.array_equal(new.widths, fitted.widths):
        raise InvalidLabelsError(
            f"the membership matrices have {new.widths.tolist()} columns, those of the fit had "
            f"{fitted.widths.tolist()}; give the same matrices in the same order"
        )
    for v, (here, there) in enumerate(zip(new.column_names, fitted.column_names, strict=True)):
        if here is not None and there is not None and here != there:
            raise InvalidLabelsError(
                f"the columns of membership matrix {v} are not those of the fit: "
                f"{', '.join(here)} instead of {', '.join(there)}; give the same columns in the "
                "same order"
            )
    place = np.searchsorted(fitted.columns, new.columns)
    seen = np.isin(new.columns, fitted.columns)
    entries = new.shares[:, seen].tocoo()
    rows = sp.csr_array(
        (entries.data, (entries.row, place[seen][entries.col])),
        shape=(new.n_points, len(fitted.columns)),
    )
    return replace(fitted, shares=rows)


def hard_labels(P: Any) -> Ints:
    """Return the most likely label of every point in every soft partition.

    Parameters
    ----------
    P : list of V membership matrices (n, K_v)
        As for :class:`~coterie.RobustConsensus`.

    Returns
    -------
    labels : (n, V) int
        Column of the largest membership (the first one on ties); −1 if the row is zero.

    Examples
    --------
    >>> import numpy as np
    >>> from coterie import hard_labels
    >>> hard_labels([np.array([[0.7, 0.3], [0.5, 0.5], [0, 0]]), np.eye(3)])
    array([[ 0,  0],
           [ 0,  1],
           [-1,  2]])
    """
    return _most_likely(as_memberships(P, allow_unlabelled_rows=True))


def slots_of(rows: sp.csr_array) -> tuple[AnyArray, Floats]:
    """Return columns (n, S) and values (n, S) of the entries of n sparse rows.

    S is the largest number of entries in a row. The columns of a row increase; unused slots at the
    end have column −1 and value 0.
    """
    rows.sort_indices()
    counts = np.diff(rows.indptr)
    slot = np.arange(rows.nnz) - np.repeat(rows.indptr[:-1], counts)
    point = np.repeat(np.arange(rows.shape[0]), counts)
    shape = (rows.shape[0], max(1, int(counts.max(initial=0))))
    columns = np.full(shape, MISSING, dtype=code_dtype(rows.shape[1]))
    values = np.zeros(shape)
    columns[point, slot] = rows.indices
    values[point, slot] = rows.data
    return columns, values


def _most_likely(soft: Memberships) -> Ints:
    labels = np.full((soft.n_points, soft.n_partitions), MISSING, dtype=np.int64)
    entries = soft.shares.tocoo()
    partition = soft.partition_of[entries.col]
    # later entries overwrite earlier ones, so the largest value stays, or on ties the first column
    order = np.lexsort((-entries.col, entries.data))
    starts = np.cumsum(soft.widths) - soft.widths
    column = soft.columns[entries.col] - starts[partition]
    labels[entries.row[order], partition[order]] = column[order]
    return labels


def _read_matrix(given: Any, v: int) -> tuple[sp.csr_array, tuple[str, ...] | None]:
    """Return one matrix as checked rows without stored zeros, and its column names if any."""
    names = None
    if hasattr(given, "column_names"):  # arrow
        names = tuple(given.column_names)
        given = np.column_stack([column.to_numpy() for column in given.columns])
    elif hasattr(given, "columns") and hasattr(given, "to_numpy"):
        names = tuple(str(name) for name in given.columns)
        given = given.to_numpy()
    if isinstance(given, np.ma.MaskedArray):
        given = np.ma.filled(given.astype(np.float64), np.nan)
    array = given if sp.issparse(given) else np.asarray(given)
    # texts and complex numbers are refused, because numpy would convert them to floats
    kind = array.dtype.kind
    if kind == "O" and any(isinstance(cell, str | bytes | complex) for cell in array.flat):
        kind = "U"
    try:
        if kind not in "biufO":
            raise TypeError
        rows = sp.csr_array(array.astype(np.float64))
    except (TypeError, ValueError):
        content = "complex numbers" if kind == "c" else "a value that is not a number"
        raise InvalidLabelsError(
            f"membership matrix {v} contains {content}; memberships are numbers from 0 to 1"
        ) from None
    if not all(rows.shape):
        raise InvalidLabelsError(f"membership matrix {v} is empty: its shape is {rows.shape}")
    if rows.shape[1] == 1 and kind in "iu":
        raise InvalidLabelsError(
            f"membership matrix {v} is one column of integers; give labels as one table, "
            "np.hstack(P), and memberships as floats"
        )
    rows.sum_duplicates()
    point = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    wrong = ~(np.isfinite(rows.data) & (rows.data >= 0))
    if wrong.any():
        entry = int(np.argmax(wrong))
        raise InvalidLabelsError(
            f"membership {rows.data[entry]} at row {point[entry]}, column {rows.indices[entry]} of "
            f"membership matrix {v}: memberships are numbers from 0 to 1; a row of zeros is a "
            "missing label"
        )
    if not rows.data.any():
        raise InvalidLabelsError(f"membership matrix {v} has only zeros; leave it out")
    # added by increasing value, the sums do not depend on the order of the columns
    sums = np.bincount(point, weights=rows.data[np.lexsort((rows.data, point))])
    if (too_much := sums > 1 + _TOLERANCE).any():
        row = int(np.argmax(too_much))
        raise InvalidLabelsError(
            f"row {row} of membership matrix {v} sums to {sums[row]:.9g}; memberships sum to at "
            "most 1: divide each row by its sum"
        )
    rows.data /= np.where(np.abs(sums - 1) <= _TOLERANCE, sums, 1.0)[point]
    rows.eliminate_zeros()
    return rows, names
