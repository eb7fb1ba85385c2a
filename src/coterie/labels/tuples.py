"""Exact compression: points with the same labels in every partition are one point with a weight.

Rows i and j of the label matrix with ``P[i, :] == P[j, :]`` have identical rows in the
co-association matrix and stay identical through every method of this library. So each method
works on the u ≤ n distinct tuples with their multiplicities and carries its answer back.

Tuples, partitions and clusters are put into an order that depends on neither the order of points,
nor that of partitions, nor the names of labels. Every later step sees that order alone and
breaks ties by it, so the answer does not depend on any of the three either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from coterie.labels import tuple_kernels as kernels
from coterie.labels.label_matrix import MISSING, LabelMatrix, are_memberships, as_label_matrix
from coterie.labels.soft_memberships import Memberships, as_memberships, slots_of
from coterie.labels.tuple_order import order_colours

__all__ = [
    "LabelTuples",
    "as_label_tuples",
    "compress_labels",
    "compress_memberships",
    "tuples_of_groups",
]

_WHOLE = 1 - 1e-9


@dataclass(frozen=True)
class LabelTuples:
    """The u distinct label tuples of n points in V partitions.

    Attributes
    ----------
    codes : (u, V) array of int16 or int32, row by row in memory
        Column of the cluster indicator Z in which tuple a has its one for partition v:
        ``offsets[v] <= codes[a, v] < offsets[v + 1]``; −1 where the label is missing.
    offsets : (V + 1,) array
        First indicator column of each partition; ``offsets[V]`` = m, all clusters together.
    weights : (u,) float array
        How many points have this tuple; what the rows weigh together where they have weights.
    inverse : (n,) array
        Tuple of each row.
    partition_order : (V,) array
        Which of the user's partitions each column is.
    recode : (m,) array
        Indicator column of each cluster as the user's matrix has it: cluster c of the user's
        partition v is ``recode[K_0 + … + K_{v-1} + c]``.
    memberships : (u, S) float array, or None for labels
        Of soft partitions: tuple a lies in the S indicator columns ``codes[a]``, which then is
        (u, S), rising and with −1 at the end where they are fewer, to these shares.
    """

    codes: NDArray[Any]
    offsets: NDArray[np.int64]
    weights: NDArray[np.float64]
    inverse: NDArray[Any]
    partition_order: NDArray[np.int64]
    recode: NDArray[np.int64]
    memberships: NDArray[np.float64] | None = None

    @property
    def n_points(self) -> int:
        """Number of points n: what all rows weigh together, to the next whole number."""
        return round(self.weights.sum())

    @property
    def n_tuples(self) -> int:
        """Number of distinct tuples u."""
        return int(self.codes.shape[0])

    @property
    def n_partitions(self) -> int:
        """Number of partitions V."""
        return len(self.offsets) - 1

    @property
    def n_columns(self) -> int:
        """Number of clusters of all partitions together, m."""
        return int(self.offsets[-1])

    @property
    def n_labels(self) -> NDArray[np.int64]:
        """K_v, the number of clusters of each partition, shape (V,)."""
        return np.diff(self.offsets)

    @property
    def partition_of(self) -> NDArray[np.int64]:
        """Partition of each indicator column, shape (m,)."""
        return np.repeat(np.arange(self.n_partitions), self.n_labels)

    @cached_property
    def mass(self) -> NDArray[np.float64]:
        """Share of each partition's label that the tuples have, (u, V): 0 or 1 where not soft."""
        if self.memberships is None:
            return (self.codes >= 0).astype(np.float64)
        rows = np.broadcast_to(np.arange(self.n_tuples)[:, None], self.codes.shape)
        # padding adds nothing to the last partition
        cell = rows * self.n_partitions + self.partition_of[self.codes]
        mass = np.bincount(
            cell.ravel(), self.memberships.ravel(), self.n_tuples * self.n_partitions
        )
        # what rounding leaves of a whole is a whole
        whole = np.where(mass >= _WHOLE, 1.0, mass)
        return whole.reshape(self.n_tuples, self.n_partitions)

    @cached_property
    def squares(self) -> NDArray[np.float64]:
        """Σ_c π² of the tuples' shares in the clusters of each partition, (u, V)."""
        if self.memberships is None:
            return self.mass
        return replace(self, memberships=self.memberships**2).mass

    @cached_property
    def has_missing(self) -> bool:
        """Whether any label, or part of one, is missing."""
        if self.memberships is None:
            return bool(self.codes.min(initial=0) < 0)
        return bool(self.mass.min(initial=1.0) < _WHOLE)

    def has_weighted_label(self, partition_weights: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which tuples a partition of positive weight labels, (u,)."""
        if self.memberships is None:
            return np.any((self.codes >= 0) & (partition_weights > 0), axis=1)
        return np.any(self.mass[:, partition_weights > 0] > 0, axis=1)

    def is_complete(self, partition_weights: NDArray[np.float64]) -> bool:
        """Whether every partition of positive weight labels every tuple, wholly."""
        if self.memberships is None:
            return bool((self.codes[:, partition_weights > 0] >= 0).all())
        return bool(self.mass[:, partition_weights > 0].min(initial=1.0) >= _WHOLE)

    def expand(self, of_tuples: NDArray[Any]) -> NDArray[Any]:
        """Values of the n points from values of the u tuples."""
        return of_tuples[self.inverse]

    def labels_of_partition(self, v: int) -> NDArray[np.int64]:
        """Labels that partition v gives to the tuples, 0..K_v − 1 or −1, shape (u,).

        The most likely ones where it is soft, the first of equals.
        """
        if self.memberships is not None:
            own = np.append(self.partition_of == v, False)[self.codes]
            best = np.argmax(np.where(own, self.memberships, 0.0), axis=1)[:, None]
            column = np.take_along_axis(self.codes, best, axis=1)[:, 0].astype(np.int64)
            return np.where(own.any(axis=1), column - self.offsets[v], MISSING)
        column = self.codes[:, v].astype(np.int64)
        return np.where(column == MISSING, MISSING, column - self.offsets[v])

    def indicator(self, values: NDArray[Any]) -> csr_array:
        """Z (u, m), sparse: ``values`` where a tuple lies in a base cluster, of their type.

        Where partitions are soft, times the memberships.

        Parameters
        ----------
        values : array of shape (V,) or (u, 1)
            One a partition, or one a tuple.

        >>> as_label_tuples([[0, 0], [0, 1]]).indicator(np.array([2, 3])).toarray().sum(axis=1)
        array([5, 5])
        """
        present = self.codes != MISSING
        rows, _ = np.nonzero(present)
        if self.memberships is not None:
            if values.ndim == 1:
                values = values[self.partition_of[self.codes]]
            values = values * self.memberships
        entries = np.broadcast_to(values, self.codes.shape)[present]
        return csr_array(
            (entries, (rows, self.codes[present])), shape=(self.n_tuples, self.n_columns)
        )

    def in_given_order(self, of_partitions: NDArray[Any]) -> NDArray[Any]:
        """Values of the V partitions (along the first axis) in the order the user gave them."""
        given = np.empty_like(of_partitions)
        given[self.partition_order] = of_partitions
        return given

    def columns_of(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Indicator columns (n', V) of rows coded as the user's matrix is."""
        n_labels = self.in_given_order(self.n_labels)
        starts = np.concatenate([[0], np.cumsum(n_labels)[:-1]])
        order, lookup = self.partition_order, self.recode.astype(self.codes.dtype)
        return kernels.recoded_rows(codes, np.arange(len(codes)), order, starts[order], lookup)

    def slots(self) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """The tuples as soft ones, which they may be already: columns (u, S) and memberships."""
        if self.memberships is not None:
            return self.codes, self.memberships
        return slots_of(self.indicator(np.ones(self.n_partitions)))

    def slots_of(self, soft: Memberships) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Indicator columns and memberships, both (n', S), of rows of the fitted columns."""
        return slots_of(soft.shares[:, np.argsort(self.recode)])

    def subset(
        self, chosen: NDArray[Any], weights: NDArray[np.float64] | None = None
    ) -> LabelTuples:
        """Some of the tuples (a mask or indices), without the way back to the points.

        They may be given other weights.
        """
        return replace(
            self.without_points(),
            codes=self.codes[chosen],
            weights=self.weights[chosen] if weights is None else weights,
            memberships=None if self.memberships is None else self.memberships[chosen],
        )

    def restricted_to(self, partitions: NDArray[np.bool_]) -> tuple[LabelTuples, NDArray[Any]]:
        """The tuples of some partitions alone (a mask over columns), of which fewer are distinct.

        Also returned, for every tuple here, which of those it becomes.
        """
        if partitions.all():
            return self, np.arange(self.n_tuples)
        n_labels = self.n_labels[partitions]
        offsets = np.concatenate([[0], np.cumsum(n_labels)])
        kept = np.repeat(partitions, self.n_labels)
        lookup = np.where(kept, np.cumsum(kept) - 1, MISSING)
        memberships = None
        if self.memberships is None:
            every, columns = np.arange(self.n_tuples), np.flatnonzero(partitions)
            codes = _reordered(self.codes, every, columns, lookup)
            first, group, _ = kernels.group_equal_rows(codes)
        else:
            codes, memberships = slots_of(self.indicator(np.ones(self.n_partitions))[:, kept])
            first, group, _ = kernels.group_equal_rows(kernels.slot_keys(codes, memberships))
            memberships = memberships[first]
        weights = np.bincount(group, weights=self.weights).astype(np.float64)
        recode = lookup[self.recode]
        restricted = LabelTuples(
            codes[first],
            offsets,
            weights,
            group[self.inverse],
            self.partition_order[partitions],
            recode[recode != MISSING],
            memberships,
        )
        return restricted, group

    def without_points(self) -> LabelTuples:
        """The tuples without the way back to the n points, which new rows do not need."""
        return replace(self, inverse=np.empty(0, dtype=self.inverse.dtype))

    def without_compression(self) -> LabelTuples:
        """The same points, one tuple each: what the compressed answer must agree with."""
        n = len(self.inverse)
        return replace(self.subset(self.inverse, np.ones(n)), inverse=np.arange(n))


def compress_labels(
    matrix: LabelMatrix, row_weights: NDArray[np.float64] | None = None
) -> LabelTuples:
    """Distinct tuples of a label matrix, by hashing: time and memory linear in n·V.

    Parameters
    ----------
    matrix : n rows × V partitions
    row_weights : (n,), all positive, optional
        How many points a row stands for; one each by default. Whole numbers give what
        repeating the rows would give.

    Examples
    --------
    >>> tuples = compress_labels(as_label_matrix([[0, 5], [1, 5], [0, 5], [0, 6]]))
    >>> tuples.n_tuples, sorted(tuples.weights.tolist())
    (3, [1.0, 1.0, 2.0])
    >>> bool((tuples.expand(tuples.codes)[0] == tuples.expand(tuples.codes)[2]).all())
    True
    """
    first, inverse, counts = kernels.group_equal_rows(matrix.codes)
    weights = counts.astype(np.float64)
    if row_weights is not None:
        weights = np.bincount(inverse, weights=row_weights).astype(np.float64)
    return tuples_of_groups(matrix.codes[first], matrix.n_labels, inverse, weights)


def compress_memberships(
    soft: Memberships, row_weights: NDArray[np.float64] | None = None
) -> LabelTuples:
    """Distinct rows of soft partitions: those of labels where every row is a unit vector, or zero.

    Rows are equal if their memberships are, to the last bit.

    >>> soft = as_memberships([np.array([[0.9, 0.1], [0.5, 0.5], [0.9, 0.1]])])
    >>> tuples = compress_memberships(soft)
    >>> tuples.n_tuples, sorted(tuples.weights.tolist())
    (2, [1.0, 2.0])
    """
    if soft.is_hard:
        return compress_labels(soft.labels(), row_weights)
    codes, memberships = slots_of(soft.shares)
    first, inverse, counts = kernels.group_equal_rows(kernels.slot_keys(codes, memberships))
    weights = counts.astype(np.float64)
    if row_weights is not None:
        weights = np.bincount(inverse, weights=row_weights).astype(np.float64)
    offsets = np.concatenate([[0], np.cumsum(soft.n_labels)])
    return _in_order(codes[first], offsets, inverse, weights, memberships[first])


def tuples_of_groups(
    codes: NDArray[Any],
    n_labels: NDArray[np.int64],
    inverse: NDArray[Any],
    weights: NDArray[np.float64],
) -> LabelTuples:
    """Label tuples, put in their order, of rows that are grouped already.

    Parameters
    ----------
    codes : (u, V), 0..K_v − 1 or −1
        The distinct rows of a label matrix.
    n_labels : (V,)
    inverse : (n,)
        Which of them each row is.
    weights : (u,)
        How many points each stands for.
    """
    offsets = np.concatenate([[0], np.cumsum(n_labels)])
    return _in_order(_indicator_columns(codes, offsets), offsets, inverse, weights)


def as_label_tuples(P: Any) -> LabelTuples:
    """Label tuples of whatever the caller has: tuples already, memberships, or labels."""
    if isinstance(P, LabelTuples):
        return P
    if are_memberships(P):
        return compress_memberships(as_memberships(P))
    return compress_labels(as_label_matrix(P))


def _in_order(
    codes: NDArray[Any],
    offsets: NDArray[np.int64],
    inverse: NDArray[Any],
    weights: NDArray[np.float64],
    memberships: NDArray[np.float64] | None = None,
) -> LabelTuples:
    """Tuples, partitions and clusters put into the order of their colours."""
    tuple_colours, cluster_colours, partition_colours = order_colours(
        codes, offsets, weights, memberships
    )
    order = np.argsort(tuple_colours, kind="stable")
    partition_order = np.argsort(partition_colours, kind="stable")
    recode, new_offsets = _recode(cluster_colours, offsets, partition_order)
    rank = np.empty(len(order), dtype=inverse.dtype)
    rank[order] = np.arange(len(order), dtype=inverse.dtype)
    if memberships is None:
        codes = _reordered(codes, order, partition_order, recode)
    else:
        codes, memberships = _reordered_slots(codes[order], memberships[order], recode)
    return LabelTuples(
        codes, new_offsets, weights[order], rank[inverse], partition_order, recode, memberships
    )


def _indicator_columns(codes: NDArray[Any], offsets: NDArray[np.int64]) -> NDArray[Any]:
    dtype = np.dtype(np.int16 if offsets[-1] <= np.iinfo(np.int16).max else np.int32)
    lookup = np.arange(offsets[-1], dtype=dtype)
    u, V = codes.shape
    return kernels.recoded_rows(codes, np.arange(u), np.arange(V), offsets[:-1], lookup)


def _reordered(
    codes: NDArray[Any],
    order: NDArray[np.int64],
    partition_order: NDArray[np.int64],
    lookup: NDArray[np.int64],
) -> NDArray[Any]:
    """Rows, columns and indicator columns in their new order."""
    no_shift = np.zeros(len(partition_order))
    return kernels.recoded_rows(codes, order, partition_order, no_shift, lookup.astype(codes.dtype))


def _reordered_slots(
    codes: NDArray[Any], memberships: NDArray[np.float64], recode: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Slots under the new numbers of the columns, rising again."""
    last = len(recode)
    columns = np.append(recode, last)[codes]
    order = np.argsort(columns, axis=1, kind="stable")
    columns = np.take_along_axis(columns, order, axis=1)
    renamed = np.where(columns == last, MISSING, columns).astype(codes.dtype)
    return renamed, np.take_along_axis(memberships, order, axis=1)


def _recode(
    cluster_colours: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    partition_order: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """New column of each cluster when partitions and, within them, clusters are reordered."""
    recode = np.empty(offsets[-1], dtype=np.int64)
    new_offsets = np.concatenate([[0], np.cumsum(np.diff(offsets)[partition_order])])
    for place, v in enumerate(partition_order):
        own = slice(offsets[v], offsets[v + 1])
        by_colour = np.argsort(cluster_colours[own], kind="stable")
        recode[own][by_colour] = np.arange(new_offsets[place], new_offsets[place + 1])
    return recode, new_offsets
