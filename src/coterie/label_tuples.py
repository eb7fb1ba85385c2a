"""Exact compression: points with the same labels in every partition are one point with a weight.

Rows i and j of the label matrix with ``P[i, :] == P[j, :]`` have identical rows in the
co-association matrix and stay identical through every method of this library. So each method
works on the u ≤ n distinct tuples with their multiplicities and carries its answer back.

Tuples are put into an order that depends on neither the order of points, nor that of
partitions, nor the names of labels. Every later step breaks ties by that order, so the
answer does not depend on any of the three either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie import label_tuple_kernels as kernels
from coterie.labels import MISSING, LabelMatrix, as_label_matrix

__all__ = ["LabelTuples", "as_label_tuples", "compress_labels"]

_REFINEMENT_ROUNDS = 3


@dataclass(frozen=True)
class LabelTuples:
    """The u distinct label tuples of n points in V partitions.

    Attributes
    ----------
    codes : (u, V) array of int16 or int32
        Column of the cluster indicator Z in which tuple a has its one for partition v:
        ``offsets[v] <= codes[a, v] < offsets[v + 1]``; −1 where the label is missing.
    offsets : (V + 1,) array
        First indicator column of each partition; ``offsets[V]`` = m, all clusters together.
    weights : (u,) float array
        How many points have this tuple.
    inverse : (n,) array
        Tuple of each point.
    partition_order : (V,) array
        The partitions in an order that does not depend on how they were given.
    """

    codes: NDArray[Any]
    offsets: NDArray[np.int64]
    weights: NDArray[np.float64]
    inverse: NDArray[Any]
    partition_order: NDArray[np.int64]

    @property
    def n_points(self) -> int:
        """Number of points n."""
        return len(self.inverse)

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

    def without_compression(self) -> LabelTuples:
        """The same points, one tuple each: what the compressed answer must agree with."""
        n = self.n_points
        return replace(
            self, codes=self.codes[self.inverse], weights=np.ones(n), inverse=np.arange(n)
        )


def compress_labels(matrix: LabelMatrix) -> LabelTuples:
    """Distinct tuples of a label matrix, by hashing: time and memory linear in n·V.

    Examples
    --------
    >>> tuples = compress_labels(as_label_matrix([[0, 5], [1, 5], [0, 5], [0, 6]]))
    >>> tuples.n_tuples, sorted(tuples.weights.tolist())
    (3, [1.0, 1.0, 2.0])
    >>> bool((tuples.expand(tuples.codes)[0] == tuples.expand(tuples.codes)[2]).all())
    True
    """
    first, inverse, counts = kernels.group_equal_rows(matrix.codes)
    offsets = np.concatenate([[0], np.cumsum(matrix.n_labels)])
    codes = _indicator_columns(matrix.codes[first], offsets)
    weights = counts.astype(np.float64)
    order, partition_order = _order_free_of_names(codes, offsets, weights)
    rank = np.empty(len(order), dtype=inverse.dtype)
    rank[order] = np.arange(len(order), dtype=inverse.dtype)
    return LabelTuples(codes[order], offsets, weights[order], rank[inverse], partition_order)


def as_label_tuples(P: Any) -> LabelTuples:
    """Label tuples of whatever the caller has: tuples already, or anything of labels."""
    return P if isinstance(P, LabelTuples) else compress_labels(as_label_matrix(P))


def _indicator_columns(codes: NDArray[Any], offsets: NDArray[np.int64]) -> NDArray[Any]:
    dtype = np.int16 if offsets[-1] <= np.iinfo(np.int16).max else np.int32
    columns = codes.astype(dtype, copy=False)
    shift = offsets[:-1].astype(dtype)
    return np.where(codes == MISSING, dtype(MISSING), columns + shift)


def _order_free_of_names(
    codes: NDArray[Any], offsets: NDArray[np.int64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Order of tuples and of partitions by what they are, not by how they are called.

    Colour refinement: a cluster's colour starts as its size; a partition's colour is the
    multiset of its clusters' colours, a tuple's the multiset of the clusters it lies in,
    a cluster's again that of its tuples; multisets are hashed by sums, which no order
    changes. Tuples that still share a colour (they are interchangeable but for rare
    coincidences) stay in the order in which they came.
    """
    tuple_colours, partition_colours = kernels.refine_colours(
        codes, offsets, weights.astype(np.uint64), _REFINEMENT_ROUNDS
    )
    return (
        np.argsort(tuple_colours, kind="stable"),
        np.argsort(partition_colours, kind="stable"),
    )
