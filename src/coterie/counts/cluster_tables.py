"""A clustering seen through the partitions: one table of counts that answers everything in O(m·K).

For a clustering G of the tuples into K clusters, N[c, b] is the number of points of base cluster c
that lie in cluster b; where partitions are soft, the sum of their memberships. From N follow the
objective J, the distance and the information each partition shares with G, the gain of merging two
clusters, and the place of new points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.counts import cluster_kernels as kernels
from coterie.counts import soft_kernels
from coterie.labels.tuples import LabelTuples
from coterie.runtime.devices import map_in_threads, map_row_blocks

__all__ = ["ClusterTables"]

Array = NDArray[np.float64]

_ROWS_AT_ONCE = 1 << 17


@dataclass
class ClusterTables:
    """Counts of a clustering against V partitions.

    Attributes
    ----------
    table : (m, K)
        N[c, b], points of base cluster c in cluster b.
    present : (V, K)
        Points of cluster b that have a label in partition v.
    size : (K,)
    alpha : (V,)
        Partition weights; sums over partitions are divided by their total.
    offsets : (V + 1,)
        Rows of ``table`` that belong to each partition.
    complete : bool
        No label is missing, so every row of ``present`` equals ``size``.
    own_together, own_pairs : (V,), or None for labels
        Of soft partitions: Σ_i |π_iv|² and Σ_i m_iv², what the pairs i = j have in the sums over
        all pairs. Of labels both are the number of points that v labels.
    """

    table: Array
    present: Array
    size: Array
    alpha: Array
    offsets: NDArray[np.int64]
    complete: bool
    own_together: Array | None = None
    own_pairs: Array | None = None

    @classmethod
    def of(
        cls, tuples: LabelTuples, labels: NDArray[Any], alpha: Array, n_clusters: int | None = None
    ) -> ClusterTables:
        """Tables of tuple labels (u,), −1 for a tuple in no cluster yet."""
        K = int(labels.max()) + 1 if n_clusters is None else n_clusters
        table, size = _count(tuples, labels, K)
        if tuples.memberships is not None:
            present = np.add.reduceat(table, tuples.offsets[:-1], axis=0)
            weights = np.where(labels >= 0, tuples.weights, 0.0)
            own = weights @ tuples.squares, weights @ tuples.mass**2
            return cls(table, present, size, alpha, tuples.offsets, False, *own)
        if tuples.has_missing:
            present = np.add.reduceat(table, tuples.offsets[:-1], axis=0)
        else:
            present = np.tile(size, (tuples.n_partitions, 1))
        return cls(table, present, size, alpha, tuples.offsets, not tuples.has_missing)

    @property
    def n_clusters(self) -> int:
        """Clusters with at least one point."""
        return int((self.size > 0).sum())

    def pairs_within(self) -> tuple[Array, Array, Array]:
        """Ordered pairs, i = j among them, that each partition sees together, three (V,) arrays.

        In one base cluster and one cluster; in one base cluster; in one cluster. Only points
        that the partition labels count.
        """
        starts = self.offsets[:-1]
        both = np.add.reduceat((self.table**2).sum(axis=1), starts)
        label = np.add.reduceat(self.table.sum(axis=1) ** 2, starts)
        cluster = (self.present**2).sum(axis=1)
        return both, label, cluster

    def distances(self) -> Array:
        """Mirkin distance of each partition to the clustering, over the points it labels, (V,).

        Where the partition is soft, Σ_{i≠j} of m_i m_j − ⟨π_i, π_j⟩ for pairs that the clustering
        puts together, and of ⟨π_i, π_j⟩ for the others.
        """
        both, label, cluster = self.pairs_within()
        together, pairs = self._own()
        return label + cluster - 2 * both - (pairs - together)

    def objective(self) -> float:
        """J(G) = Σ_v α_v d(v, G) / Σ α: the mean number of pairs on which a partition differs."""
        return float(self.distances() @ self.alpha / self.alpha.sum())

    def score(self, threshold: float) -> float:
        """What the search maximises: Σ_{same cluster} (M_ij − τ), over labelled pairs."""
        both, _, cluster = self.pairs_within()
        return float((both - threshold * cluster) @ self.alpha / self.alpha.sum())

    def mean_agreement(self) -> tuple[float, float]:
        """Mean of M over pairs i ≠ j inside clusters, and over pairs between clusters."""
        both, label, cluster = (x @ self.alpha for x in self.pairs_within())
        labelled = self.present.sum(axis=1)
        own_together, own = (x @ self.alpha for x in self._own())
        all_pairs = (labelled**2) @ self.alpha
        others = cluster - own > (0.0 if self.own_pairs is None else 1e-9 * own)
        inside = (both - own_together) / (cluster - own) if others else 1.0
        between = (label - both) / (all_pairs - cluster) if all_pairs > cluster else 0.0
        return float(inside), float(between)

    def agreement(self) -> Array:
        """Adjusted Rand index of each partition with the clustering, over what it labels, (V,)."""
        both, label, cluster = self.pairs_within()
        n = self.present.sum(axis=1)
        together, pairs = self._own()
        both, label, cluster = both - together, label - together, cluster - pairs
        all_pairs = n * (n - 1) if self.own_pairs is None else n**2 - pairs
        expected = label * cluster / np.maximum(all_pairs, 1.0)
        span = (label + cluster) / 2 - expected
        same = label + cluster - 2 * both == 0
        return np.where(span > 0, (both - expected) / _positive(span), same * 1.0)

    def information(self) -> Array:
        """Mutual information (nats) of each partition with the clustering, (V,)."""
        return _information(self.table, self.offsets)

    def silhouettes(self, tuples: LabelTuples, labels: NDArray[Any]) -> Array:
        """Silhouette of a point of each tuple under the distance 1 − M, (u,); O(u·V·K).

        (b − a) / max(a, b), with a its mean distance to the *other* points of its cluster and b
        that to the nearest other cluster; 0 for a point alone in its cluster. Where labels are
        missing, a mean is over all votes on all pairs together.
        """
        silhouettes = np.zeros(tuples.n_tuples)
        if tuples.memberships is not None:
            soft = (tuples.codes, tuples.memberships, tuples.partition_of)
            counts = (self.alpha, self.table, self.present, labels)
            map_row_blocks(
                lambda a, b: soft_kernels.silhouette_rows(*soft, *counts, a, b, silhouettes),
                tuples.n_tuples,
            )
            return silhouettes
        tables = (self.alpha, self.complete, self.table, self.present, self.size, labels)
        map_row_blocks(
            lambda a, b: kernels.silhouette_rows(tuples.codes, *tables, a, b, silhouettes),
            tuples.n_tuples,
        )
        return silhouettes

    def merge_gains(self, threshold: float) -> Array:
        """What the score gains by merging clusters a and b, (K, K); −inf on the diagonal.

        Each unordered pair of clusters counts once.
        """
        affinity, pairs = self.cluster_affinity()
        gains = affinity - threshold * pairs
        np.fill_diagonal(gains, -np.inf)
        return gains

    def cluster_affinity(self) -> tuple[Array, Array]:
        """Σ of M over pairs (i in a, j in b), and the number of labelled pairs, both (K, K)."""
        share = self.alpha / self.alpha.sum()
        root = np.sqrt(np.repeat(share, np.diff(self.offsets)))[:, None] * self.table
        seen = np.sqrt(share)[:, None] * self.present
        return root.T @ root, seen.T @ seen

    def assign(
        self,
        codes: NDArray[Any],
        threshold: float,
        given: NDArray[np.int64] | None = None,
        memberships: Array | None = None,
    ) -> tuple[NDArray[np.int64], Array]:
        """Labels and confidences of rows of indicator columns (n', V), the tables unchanged.

        A row joins the cluster of largest gain Σ_v α_v (N_v[row_v, b] − τ present_v[b]); where
        ``given`` ≥ 0 the label is that one and only the confidence is computed. With memberships,
        both (n', S), the rows are soft ones.
        """
        n = len(codes)
        labels, confidence = np.empty(n, dtype=np.int64), np.empty(n)
        fixed = np.full(n, -1, dtype=np.int64) if given is None else given
        if memberships is not None:
            partition_of = np.repeat(np.arange(len(self.alpha)), np.diff(self.offsets))
            soft = (codes, memberships, partition_of, self.alpha, threshold)
            map_row_blocks(
                lambda a, b: soft_kernels.assign_rows(
                    *soft, self.table, self.present, a, b, fixed, labels, confidence
                ),
                n,
            )
            return labels, confidence
        tables = (self.alpha, threshold, self.complete, self.table, self.present, self.size)
        map_row_blocks(
            lambda a, b: kernels.assign_rows(codes, *tables, a, b, fixed, labels, confidence), n
        )
        return labels, confidence

    def _own(self) -> tuple[Array, Array]:
        """What the pairs i = j have in the sums over pairs of points together, and over all."""
        if self.own_together is None or self.own_pairs is None:
            labelled = self.present.sum(axis=1)
            return labelled, labelled
        return self.own_together, self.own_pairs


def _count(tuples: LabelTuples, labels: NDArray[Any], K: int) -> tuple[Array, Array]:
    """Points of each base cluster in each cluster (m, K), and of each cluster (K,)."""
    u, m = tuples.n_tuples, tuples.n_columns
    rows = max(_ROWS_AT_ONCE, m * K)

    def count(start: int) -> tuple[Array, Array]:
        table, size = np.zeros((m, K)), np.zeros(K)
        rest = (tuples.weights, labels, start, min(start + rows, u), table, size)
        if tuples.memberships is None:
            kernels.add_to_tables(tuples.codes, *rest)
        else:
            soft_kernels.add_to_tables(tuples.codes, tuples.memberships, *rest)
        return table, size

    # blocks do not depend on the number of threads, nor do sums of fractional weights then
    (table, size), *others = map_in_threads(count, range(0, u, rows))
    for more_table, more_size in others:
        table += more_table
        size += more_size
    return table, size


def _information(table: Array, offsets: NDArray[np.int64]) -> Array:
    """Mutual information of the rows of each partition with the columns, from counts (m, K)."""
    starts, n_labels = offsets[:-1], np.diff(offsets)
    columns = np.add.reduceat(table, starts, axis=0)
    total = _positive(columns.sum(axis=1))
    joint = table / np.repeat(total, n_labels)[:, None]
    rows = joint.sum(axis=1, keepdims=True)
    expected = rows * np.repeat(columns / total[:, None], n_labels, axis=0)
    ratio = np.divide(joint, expected, out=np.ones_like(joint), where=joint > 0)
    return np.add.reduceat((joint * np.log(ratio)).sum(axis=1), starts)


def _positive(values: Array) -> Array:
    return np.where(values > 0, values, 1.0)
