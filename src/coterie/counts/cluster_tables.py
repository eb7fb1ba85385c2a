"""Contingency tables of a clustering against all partitions, and scores computed from them.

For a clustering G of the tuples into K clusters, N[c, b] is the number of points of base cluster c
in cluster b, or the sum of their memberships if partitions are soft. The m × K counts give the
objective J, the distance and mutual information of each partition to G, the gain of merging two
clusters, and the cluster of new points.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import coterie.counts.kernels as kernels
from coterie.arrays import AnyArray, Floats, Ints
from coterie.labels.tuples import LabelTuples
from coterie.runtime.devices import map_in_threads, map_row_blocks
from coterie.runtime.wording import short_repr

_ROWS_AT_ONCE = 1 << 17
_CELLS_A_BLOCK = 1 << 22  # of the shares of votes that are in memory together


@dataclass
class ClusterTables:
    """Contingency tables of a clustering against V partitions.

    Sums over all pairs of points include the pairs i = j. For soft partitions these contribute
    ``own_together`` Σ_i |π_iv|² and ``own_pairs`` Σ_i m_iv²; for labels, both are the number of
    labelled points.

    >>> from coterie.labels.tuples import as_label_tuples
    >>> tuples = as_label_tuples([[0, 0], [0, 1], [1, 1]])
    >>> tables = ClusterTables.of(tuples, np.zeros(3, dtype=int), np.ones(2))
    >>> tables.size, tables.objective()
    (array([3.]), 4.0)
    """

    table: Floats  # (m, K): N[c, b], the number of points of base cluster c in cluster b
    present: Floats  # (V, K): the number of points of cluster b that partition v labels
    size: Floats  # (K,)
    alpha: Floats  # (V,) partition weights; sums over partitions are divided by their total
    offsets: Ints  # (V + 1,): rows offsets[v] to offsets[v + 1] are of partition v
    complete: bool  # no label is missing, so every row of present equals size
    own_together: Floats | None = None  # (V,), None for labels
    own_pairs: Floats | None = None  # (V,), None for labels

    __repr__ = short_repr

    @classmethod
    def of(
        cls, tuples: LabelTuples, labels: AnyArray, alpha: Floats, n_clusters: int | None = None
    ) -> ClusterTables:
        """Count the tables of tuple labels (u,); −1 is a tuple in no cluster."""
        K = int(labels.max()) + 1 if n_clusters is None else n_clusters
        u, m = tuples.n_tuples, tuples.n_columns
        rows = max(_ROWS_AT_ONCE, m * K)

        def count(start: int) -> tuple[Floats, Floats]:
            table, size = np.zeros((m, K)), np.zeros(K)
            stop = min(start + rows, u)
            kernels.add_to_tables(
                tuples.codes, tuples.memberships, tuples.weights, labels, start, stop, table, size
            )
            return table, size

        # blocks, and so the rounding of fractional weights, do not depend on the number of threads
        (table, size), *others = map_in_threads(count, range(0, u, rows))
        for more_table, more_size in others:
            table += more_table
            size += more_size
        present = np.add.reduceat(table, tuples.offsets[:-1], axis=0)
        if tuples.memberships is not None:
            weights = np.where(labels >= 0, tuples.weights, 0.0)
            own = weights @ tuples.squares, weights @ tuples.mass**2
            return cls(table, present, size, alpha, tuples.offsets, False, *own)
        if not tuples.has_missing:
            # exactly equal, although sums of fractional weights are rounded
            present[:] = size
        return cls(table, present, size, alpha, tuples.offsets, not tuples.has_missing)

    @property
    def n_clusters(self) -> int:
        """Return the number of clusters with at least one point."""
        return int((self.size > 0).sum())

    def pairs_within(self) -> tuple[Floats, Floats, Floats]:
        """Count ordered pairs of labelled points, including i = j, for each partition, (V,) each.

        Return the pairs together in a base cluster and in a cluster, the pairs together in a base
        cluster, and the pairs together in a cluster.
        """
        starts = self.offsets[:-1]
        both = np.add.reduceat((self.table**2).sum(axis=1), starts)
        label = np.add.reduceat(self.table.sum(axis=1) ** 2, starts)
        cluster = (self.present**2).sum(axis=1)
        return both, label, cluster

    def distances(self) -> Floats:
        """Return the Mirkin distance of each partition over the points it labels, (V,).

        For soft partitions it is the sum over i ≠ j of m_i m_j − ⟨π_i, π_j⟩ for pairs in one
        cluster, and of ⟨π_i, π_j⟩ for the others.
        """
        both, label, cluster = self.pairs_within()
        together, pairs = self._own()
        return label + cluster - 2 * both - (pairs - together)

    def objective(self) -> float:
        """Return J(G) = Σ_v α_v d(v, G) / Σ α, the mean distance of the partitions to G."""
        return float(self.distances() @ self.alpha / self.alpha.sum())

    def score(self, threshold: float) -> float:
        """Return the score that the search maximises: Σ_{same cluster} (M_ij − τ)."""
        both, _, cluster = self.pairs_within()
        return float((both - threshold * cluster) @ self.alpha / self.alpha.sum())

    def mean_coassociation(self) -> tuple[float, float]:
        """Return the mean of M over pairs i ≠ j inside clusters, and over pairs between them."""
        both, label, cluster = (x @ self.alpha for x in self.pairs_within())
        labelled = self.present.sum(axis=1)
        own_together, own = (x @ self.alpha for x in self._own())
        all_pairs = (labelled**2) @ self.alpha
        # sums of memberships are rounded, so a difference of 1e-9 counts as no pair
        has_pairs = cluster - own > (0.0 if self.own_pairs is None else 1e-9 * own)
        inside = (both - own_together) / (cluster - own) if has_pairs else 1.0
        between = (label - both) / (all_pairs - cluster) if all_pairs > cluster else 0.0
        return float(inside), float(between)

    def agreement(self) -> Floats:
        """Return the adjusted Rand index of each partition over the points it labels, (V,)."""
        both, label, cluster = self.pairs_within()
        n = self.present.sum(axis=1)
        together, pairs = self._own()
        both, label, cluster = both - together, label - together, cluster - pairs
        all_pairs = n * (n - 1) if self.own_pairs is None else n**2 - pairs
        expected = label * cluster / np.maximum(all_pairs, 1.0)
        span = (label + cluster) / 2 - expected
        same = label + cluster - 2 * both == 0
        return np.where(span > 0, (both - expected) / _positive(span), same * 1.0)

    def coverage(self) -> Floats:
        """Return the share of the points that each partition labels, (V,)."""
        return self.present.sum(axis=1) / self.size.sum()

    def information(self) -> Floats:
        """Return the mutual information (nats) of each partition with the clustering, (V,)."""
        starts, n_labels = self.offsets[:-1], np.diff(self.offsets)
        columns = np.add.reduceat(self.table, starts, axis=0)
        total = _positive(columns.sum(axis=1))
        joint = self.table / np.repeat(total, n_labels)[:, None]
        rows = joint.sum(axis=1, keepdims=True)
        expected = rows * np.repeat(columns / total[:, None], n_labels, axis=0)
        ratio = np.divide(joint, expected, out=np.ones_like(joint), where=joint > 0)
        return np.add.reduceat((joint * np.log(ratio)).sum(axis=1), starts)

    def silhouettes(self, tuples: LabelTuples, labels: AnyArray) -> Floats:
        """Return the silhouette of a point of each tuple for the distance 1 − M, (u,), in O(u·V·K).

        It is (b − a) / max(a, b), with a the mean distance to the other points of its cluster and
        b the smallest mean distance to the points of another cluster. A point alone in its cluster
        gets 0. Means are over the votes of all partitions that label both points.
        """
        silhouettes = np.zeros(tuples.n_tuples)
        arrays = tuples.codes, tuples.memberships, *self._arrays()
        map_row_blocks(
            lambda start, stop: kernels.silhouette_rows(*arrays, labels, start, stop, silhouettes),
            tuples.n_tuples,
        )
        return silhouettes

    def merge_gains(self, threshold: float) -> Floats:
        """Return the gain of merging clusters a and b, (K, K); −inf on the diagonal.

        The score rises by twice the gain, because it counts ordered pairs.
        """
        affinity, pairs = self.cluster_affinity()
        gains = affinity - threshold * pairs
        np.fill_diagonal(gains, -np.inf)
        return gains

    def cluster_affinity(self) -> tuple[Floats, Floats]:
        """Return Σ M over pairs (i in a, j in b), and the number of labelled pairs, both (K, K)."""
        share = self.alpha / self.alpha.sum()
        root = np.sqrt(np.repeat(share, np.diff(self.offsets)))[:, None] * self.table
        seen = np.sqrt(share)[:, None] * self.present
        return root.T @ root, seen.T @ seen

    def assign(
        self,
        codes: AnyArray,
        threshold: float,
        given: Ints | None = None,
        memberships: Floats | None = None,
    ) -> tuple[Ints, Floats]:
        """Return labels (n',) and margins (n',) of rows; the tables do not change.

        ``codes`` (n', V) are columns of Z. With ``memberships``, both arrays are (n', S). A row
        joins the cluster b of largest gain Σ_v α_v (N[codes_v, b] − τ present_v[b]). A label
        ``given`` ≥ 0 is kept, and only its margin is computed.
        """
        n = len(codes)
        labels, margin = np.empty(n, dtype=np.int64), np.empty(n)
        fixed = np.full(n, -1, dtype=np.int64) if given is None else given
        arrays = codes, memberships, *self._arrays()
        map_row_blocks(
            lambda a, b: kernels.assign_rows(*arrays, threshold, fixed, a, b, labels, margin), n
        )
        return labels, margin

    def vote_shares(self, codes: AnyArray, memberships: Floats | None = None) -> Floats:
        """Return the mean share of votes that put rows together with points of a cluster, (n', K).

        ``codes`` and ``memberships`` are as in :meth:`assign`. The row is compared with all points
        of a cluster, also with itself. A row without a label gets 0.
        """
        shares = np.empty((len(codes), len(self.size)))
        arrays = codes, memberships, *self._arrays()
        map_row_blocks(lambda a, b: kernels.vote_share_rows(*arrays, a, b, shares), len(codes))
        return shares

    def vote_share_blocks(
        self, codes: AnyArray, memberships: Floats | None
    ) -> Iterator[tuple[slice, Floats]]:
        """Yield blocks of rows, and their :meth:`vote_shares`."""
        step = max(_CELLS_A_BLOCK // max(len(self.size), codes.shape[1]), 1)
        for start in range(0, len(codes), step):
            rows = slice(start, start + step)
            soft = None if memberships is None else memberships[rows]
            yield rows, self.vote_shares(codes[rows], soft)

    def _arrays(self) -> tuple[Any, ...]:
        """Return what the kernels need besides the rows."""
        partition_of = np.repeat(np.arange(len(self.alpha)), np.diff(self.offsets))
        return partition_of, self.alpha, self.complete, self.table, self.present, self.size

    def _own(self) -> tuple[Floats, Floats]:
        """Return ``own_together`` and ``own_pairs``; for labels, the numbers of labelled points."""
        if self.own_together is None or self.own_pairs is None:
            labelled = self.present.sum(axis=1)
            return labelled, labelled
        return self.own_together, self.own_pairs


def _positive(values: Floats) -> Floats:
    return np.where(values > 0, values, 1.0)
