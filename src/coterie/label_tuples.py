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
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from coterie import label_tuple_kernels as kernels
from coterie.labels import MISSING, LabelMatrix, as_label_matrix

__all__ = ["LabelTuples", "as_label_tuples", "compress_labels"]

_ROWS_AT_ONCE = 1 << 14
_MOST_ROUNDS = 30
_FEW_TUPLES = 2_000
_MOST_SINGLED_OUT = 200
_SINGLED_OUT = np.uint64(0xD1B54A32D192ED03)


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
    """

    codes: NDArray[Any]
    offsets: NDArray[np.int64]
    weights: NDArray[np.float64]
    inverse: NDArray[Any]
    partition_order: NDArray[np.int64]
    recode: NDArray[np.int64]

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
        return int(self.codes.shape[1])

    @property
    def n_columns(self) -> int:
        """Number of clusters of all partitions together, m."""
        return int(self.offsets[-1])

    @property
    def n_labels(self) -> NDArray[np.int64]:
        """K_v, the number of clusters of each partition, shape (V,)."""
        return np.diff(self.offsets)

    @property
    def has_missing(self) -> bool:
        """Whether any label is missing."""
        return bool((self.codes == MISSING).any())

    def expand(self, of_tuples: NDArray[Any]) -> NDArray[Any]:
        """Values of the n points from values of the u tuples."""
        return of_tuples[self.inverse]

    def labels_of_partition(self, v: int) -> NDArray[np.int64]:
        """Labels that partition v gives to the tuples, 0..K_v − 1 or −1, shape (u,)."""
        column = self.codes[:, v].astype(np.int64)
        return np.where(column == MISSING, MISSING, column - self.offsets[v])

    def indicator(self, values: NDArray[Any]) -> csr_array:
        """Z (u, m), sparse: ``values`` where a tuple lies in a base cluster, of their type.

        Parameters
        ----------
        values : array that broadcasts to (u, V)
            One a partition, of shape (V,); one a tuple, of shape (u, 1); or one for each label.

        >>> as_label_tuples([[0, 0], [0, 1]]).indicator(np.array([2, 3])).toarray().sum(axis=1)
        array([5, 5])
        """
        present = self.codes != MISSING
        rows, _ = np.nonzero(present)
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
        lookup = self.recode.astype(self.codes.dtype)
        columns = np.where(codes == MISSING, self.codes.dtype.type(MISSING), lookup[codes + starts])
        return np.ascontiguousarray(columns[:, self.partition_order])

    def restricted_to(self, partitions: NDArray[np.bool_]) -> tuple[LabelTuples, NDArray[Any]]:
        """The tuples of some partitions alone (a mask over columns), of which fewer are distinct.

        Also returned, for every tuple here, which of those it becomes.
        """
        if partitions.all():
            return self, np.arange(self.n_tuples)
        n_labels = self.n_labels[partitions]
        offsets = np.concatenate([[0], np.cumsum(n_labels)])
        shift = (self.offsets[:-1][partitions] - offsets[:-1]).astype(self.codes.dtype)
        codes = self.codes[:, partitions]
        codes = np.where(codes == MISSING, codes, codes - shift)
        first, group, _ = kernels.group_equal_rows(codes)
        weights = np.bincount(group, weights=self.weights).astype(np.float64)
        kept = np.repeat(partitions, self.n_labels)
        recode = np.where(kept, np.cumsum(kept) - 1, MISSING)[self.recode]
        restricted = LabelTuples(
            codes[first],
            offsets,
            weights,
            group[self.inverse],
            self.partition_order[partitions],
            recode[recode != MISSING],
        )
        return restricted, group

    def without_points(self) -> LabelTuples:
        """The tuples without the way back to the n points, which new rows do not need."""
        return replace(self, inverse=np.empty(0, dtype=self.inverse.dtype))

    def without_compression(self) -> LabelTuples:
        """The same points, one tuple each: what the compressed answer must agree with."""
        n = len(self.inverse)
        return replace(
            self, codes=self.codes[self.inverse], weights=np.ones(n), inverse=np.arange(n)
        )


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
    offsets = np.concatenate([[0], np.cumsum(matrix.n_labels)])
    codes = _indicator_columns(matrix.codes[first], offsets)
    tuple_colours, cluster_colours, partition_colours = _colours(codes, offsets, weights)
    order = np.argsort(tuple_colours, kind="stable")
    partition_order = np.argsort(partition_colours, kind="stable")
    recode, new_offsets = _recode(cluster_colours, offsets, partition_order)
    rank = np.empty(len(order), dtype=inverse.dtype)
    rank[order] = np.arange(len(order), dtype=inverse.dtype)
    return LabelTuples(
        _reordered(codes, order, partition_order, np.append(recode, MISSING)),
        new_offsets,
        weights[order],
        rank[inverse],
        partition_order,
        recode,
    )


def as_label_tuples(P: Any) -> LabelTuples:
    """Label tuples of whatever the caller has: tuples already, or anything of labels."""
    return P if isinstance(P, LabelTuples) else compress_labels(as_label_matrix(P))


def _colours(
    codes: NDArray[Any], offsets: NDArray[np.int64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
    """Colours of tuples, clusters and partitions by which they are put in order.

    Colour refinement: a cluster's colour starts as the weights of its tuples; a partition's is
    the multiset of its clusters' colours, a tuple's that of the clusters it lies in, a cluster's
    again that of its tuples. Multisets are hashed by sums, which no order changes. Tuples that
    share a colour to the end are interchangeable but for rare coincidences; but which of them comes
    first must fit with which cluster and which partition does. So one of them is singled out, as
    if it had a weight of its own, and the colours spread again, until all tuples differ.
    """
    whole = bool((weights == np.floor(weights)).all())
    seeds = weights.astype(np.uint64) if whole else weights.view(np.uint64).copy()
    turn = np.full(len(codes), _MOST_SINGLED_OUT, dtype=np.uint64)
    shared = colours = kernels.refine_colours(codes, offsets, seeds, _MOST_ROUNDS)
    for step in range(_MOST_SINGLED_OUT if len(codes) <= _FEW_TUPLES else 0):
        values, members = np.unique(colours[0], return_counts=True)
        tied = np.flatnonzero(members > 1)
        if not len(tied):
            break
        chosen = int(np.argmax(colours[0] == values[tied[0]]))
        turn[chosen], seeds[chosen] = step, _SINGLED_OUT + np.uint64(step)
        colours = kernels.refine_colours(codes, offsets, seeds, _MOST_ROUNDS)
    if colours is shared:
        return colours
    return (
        _ranks(shared[0], turn, colours[0]),
        _ranks(shared[1], colours[1]),
        _ranks(shared[2], colours[2]),
    )


def _ranks(*keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Ranks by the first key, and by the next where that is equal."""
    ranks = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)[1]
    return ranks.ravel().astype(np.uint64)


def _indicator_columns(codes: NDArray[Any], offsets: NDArray[np.int64]) -> NDArray[Any]:
    dtype = np.dtype(np.int16 if offsets[-1] <= np.iinfo(np.int16).max else np.int32)
    columns: NDArray[Any] = codes + offsets[:-1].astype(dtype)
    columns[codes == MISSING] = MISSING
    return columns


def _reordered(
    codes: NDArray[Any],
    order: NDArray[np.int64],
    partition_order: NDArray[np.int64],
    lookup: NDArray[np.int64],
) -> NDArray[Any]:
    """Rows, columns and codes in their new order, a block of rows at a time: no whole copies."""
    result = np.empty_like(codes)
    lookup = lookup.astype(codes.dtype)
    for start in range(0, len(order), _ROWS_AT_ONCE):
        rows = order[start : start + _ROWS_AT_ONCE]
        result[start : start + len(rows)] = lookup[codes[rows[:, None], partition_order]]
    return result


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
