"""Linear-time search for the median partition by single moves and merges.

The search maximises the score Σ_{same cluster} (M_ij − τ) of a clustering G. With the threshold
τ = 1/2 this minimises the ℓ1 objective J. The gain of putting tuple a into cluster b is

    g_a(b) = Σ_v α_v N_v[P_av, b] − τ·size[b]     (without the pairs of a with itself)

with N_v the contingency table of partition v and G. So a sweep over all tuples takes O(u·V·K), and
no matrix over points is needed. A partition that does not label both points of a pair adds nothing
to either term. Sweeps alternate with merges of clusters until neither raises the score. The search
runs from several starts, because it finds local optima. Above 100,000 tuples the starts are
compared on a sample, and only the best one continues.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.counts.cluster_tables import ClusterTables
from coterie.labels.tuples import LabelTuples
from coterie.runtime.devices import map_in_threads
from coterie.runtime.sampling import evenly_spaced_points
from coterie.runtime.wording import short_repr
from coterie.search.sweeps import sweep

__all__ = [
    "SearchResult",
    "Start",
    "calibrated_majority",
    "learn_partition_weights",
    "max_partition_starts",
    "median_search",
    "partition_starts",
]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

_log = logging.getLogger(__name__)

MAJORITY = 0.5
#: The threshold 1/2 is replaced if the mean agreement inside clusters is below this.
_CLEAR_MAJORITY = 0.55
_MAX_SWEEPS = 100
_CALIBRATION_ROUNDS = 6
_WEIGHT_ROUNDS = 10
#: Partitions with more clusters are not merged to a start: merging K_v clusters takes O(K_v³).
_LARGEST_MERGE_DOWN = 300
#: Number of codes that one sweep from all starts may visit.
_CELLS_OF_ALL_STARTS = 2_000_000
_FEWEST_STARTS = 4
_SAMPLE_ABOVE = 100_000
_SAMPLE_POINTS = 50_000


@dataclass(frozen=True)
class Start:
    """A start of the search: its name, and labels of the tuples (u,), −1 for no cluster."""

    name: str
    labels: Labels

    __repr__ = short_repr


@dataclass(frozen=True)
class SearchResult:
    """The best clustering found."""

    labels: Labels  # (u,) of the tuples
    tables: ClusterTables
    threshold: float  # the last τ: 1/2, or the calibrated value
    start: str  # name of the start that led to this clustering
    n_starts: int
    n_sweeps: int  # total over all starts

    __repr__ = short_repr


def median_search(
    tuples: LabelTuples,
    partition_weights: Array,
    n_clusters: int | None,
    starts: Sequence[Start],
    threshold: float | None = None,
) -> SearchResult:
    """Search for the clustering with at most K clusters that minimises the ℓ1 objective.

    If K = ``n_clusters`` is None, the objective determines the number of clusters. The best result
    of all ``starts`` is returned, the first one on ties. Without starts, no tuple is in a cluster
    at first. ``threshold`` is τ. By default it is :func:`calibrated_majority` of the clustering
    found with τ = 1/2, and the search is repeated until τ converges.

    >>> from coterie.labels.tuples import as_label_tuples
    >>> tuples = as_label_tuples([[0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 0]])
    >>> result = median_search(tuples, np.ones(3), 2, [Start("alone", np.arange(4))])
    >>> result.tables.n_clusters
    2
    """
    if not starts:
        starts = [Start("nothing", np.full(tuples.n_tuples, -1))]
    if tuples.n_tuples > _SAMPLE_ABOVE and len(starts) > 1:
        starts = [_best_on_a_sample(tuples, partition_weights, n_clusters, starts, threshold)]
    tau = MAJORITY if threshold is None else threshold
    best = _best_of(tuples, partition_weights, n_clusters, starts, tau)
    if threshold is not None:
        return best
    previous, tau = tau, calibrated_majority(best.tables)
    for _ in range(_CALIBRATION_ROUNDS):
        if abs(tau - previous) < 0.005:
            break
        _log.info("calibrating the majority: threshold %.3f", tau)
        again = [Start(best.start, best.labels), *starts]
        best = _best_of(tuples, partition_weights, n_clusters, again, tau, best.n_sweeps)
        # a calibrated τ never returns to 1/2, because it could alternate forever
        previous, tau = tau, sum(best.tables.mean_agreement()) / 2
    return best


def calibrated_majority(tables: ClusterTables) -> float:
    """Return the share of votes τ above which two points belong together, given a clustering.

    It is 1/2. If the mean of M inside clusters is below 0.55, it is the mid-point between the means
    of M inside and between clusters.
    """
    inside, between = tables.mean_agreement()
    return MAJORITY if inside >= _CLEAR_MAJORITY else (inside + between) / 2


def partition_starts(
    tuples: LabelTuples,
    contingencies: Array,
    partition_weights: Array,
    n_clusters: int | None,
    at_most: int | None = None,
) -> list[Start]:
    """Return the given partitions as starts, best score first.

    If a partition has more than K clusters, the two clusters of highest mean co-association are
    merged until K are left. Merges and scores need only the contingency tables C (m, m).
    """
    scored: list[tuple[float, int, int, Labels]] = []
    for v in range(tuples.n_partitions):
        if partition_weights[v] == 0:
            continue
        own = slice(tuples.offsets[v], tuples.offsets[v + 1])
        tables = _tables_of_columns(tuples, contingencies[:, own], partition_weights)
        mapping = np.arange(tables.table.shape[1])
        if n_clusters is not None and len(mapping) > n_clusters:
            if len(mapping) > _LARGEST_MERGE_DOWN:
                continue
            mapping = _merge_down(*tables.cluster_affinity(), n_clusters)
            merged = contingencies[:, own] @ np.eye(n_clusters)[mapping]
            tables = _tables_of_columns(tuples, merged, partition_weights)
        scored.append((-tables.score(MAJORITY), len(scored), v, mapping))
    scored.sort()
    return [
        Start(
            f"partition {tuples.partition_names[v]}",
            np.append(mapping, -1)[tuples.labels_of_partition(v)],
        )
        for _, _, v, mapping in scored[:at_most]
    ]


def max_partition_starts(tuples: LabelTuples) -> int:
    """Return how many partitions are used as starts: all for few tuples, the best four for many."""
    return max(_FEWEST_STARTS, _CELLS_OF_ALL_STARTS // tuples.codes.size)


def learn_partition_weights(
    tuples: LabelTuples, n_clusters: int | None, starts: Sequence[Start]
) -> tuple[Array, SearchResult]:
    """Minimise Σ_v √d(v, G) over clusterings G; return the weights and the search result.

    The weights w_v ∝ 1/√d(v, G) and the search for G are updated in turn until the weights
    converge. So partitions far from the consensus have little influence.
    """
    weights = np.ones(tuples.n_partitions)
    result = median_search(tuples, weights, n_clusters, starts)
    for _ in range(_WEIGHT_ROUNDS):
        # adding n pairs limits the weight of a partition that equals the consensus
        new = 1.0 / np.sqrt(result.tables.distances() + tuples.n_points)
        new *= len(new) / new.sum()
        change = np.abs(new - weights).max()
        weights = new
        if change < 1e-3:
            break
        again = [Start(result.start, result.labels), *starts]
        result = median_search(tuples, weights, n_clusters, again)
    return weights, result


def _best_of(
    tuples: LabelTuples,
    alpha: Array,
    n_clusters: int | None,
    starts: Sequence[Start],
    tau: float,
    sweeps_before: int = 0,
) -> SearchResult:
    """Search from every start and return the best result."""
    ends = map_in_threads(lambda start: _descend(tuples, alpha, n_clusters, start, tau), starts)
    sweeps = sweeps_before + sum(n for _, _, n in ends)
    scores = [tables.score(tau) for _, tables, _ in ends]
    # the first start whose score equals the best one up to rounding
    first = int(np.argmax(np.array(scores) >= max(scores) - 1e-9 * abs(max(scores))))
    labels, tables, _ = ends[first]
    return SearchResult(labels, tables, tau, starts[first].name, len(starts), sweeps)


def _best_on_a_sample(
    tuples: LabelTuples,
    alpha: Array,
    n_clusters: int | None,
    starts: Sequence[Start],
    threshold: float | None,
) -> Start:
    """Search on evenly spaced points, and assign every tuple to its best cluster found there."""
    chosen, counts = evenly_spaced_points(tuples.weights, _SAMPLE_POINTS)
    sample = tuples.subset(chosen, counts)
    sampled = [Start(start.name, start.labels[chosen]) for start in starts]
    result = median_search(sample, alpha, n_clusters, sampled, threshold)
    labels, _ = result.tables.assign(tuples.codes, result.threshold, memberships=tuples.memberships)
    return Start(result.start, labels)


def _descend(
    tuples: LabelTuples, alpha: Array, n_clusters: int | None, start: Start, tau: float
) -> tuple[Labels, ClusterTables, int]:
    """Alternate sweeps and merges from one start until neither changes the clustering."""
    labels = start.labels.copy()
    n_sweeps = 0
    while True:
        tables = _tables_with_room(tuples, labels, alpha, n_clusters)
        moved = 1
        while moved and n_sweeps < _MAX_SWEEPS:
            moved = sweep(tuples, labels, tables, tau)
            n_sweeps += 1
            if n_clusters is None and tables.size.min() > 0:
                break  # no empty cluster is left; allocate more
        if n_sweeps >= _MAX_SWEEPS:
            break
        if not moved and not _merge_while_better(labels, tables, tau):
            break
    labels = _without_empty_clusters(labels)
    return labels, ClusterTables.of(tuples, labels, alpha), n_sweeps


def _tables_with_room(
    tuples: LabelTuples, labels: Labels, alpha: Array, n_clusters: int | None
) -> ClusterTables:
    """Return tables of K clusters, or with some empty clusters if K is None."""
    labels[:] = _without_empty_clusters(labels)
    used = int(labels.max()) + 1
    room = used + max(8, used // 2) if n_clusters is None else max(n_clusters, used)
    return ClusterTables.of(tuples, labels, alpha, min(room, tuples.n_tuples + 1))


def _merge_while_better(labels: Labels, tables: ClusterTables, tau: float) -> bool:
    """Merge pairs of clusters, best first, while the score rises; labels ≥ 0 change in place."""
    gains = tables.merge_gains(tau)
    empty = tables.size == 0
    gains[empty] = gains[:, empty] = -np.inf
    target = np.arange(len(gains))
    merged = False
    while True:
        a, b = np.unravel_index(np.argmax(gains), gains.shape)
        if not gains[a, b] > 1e-9 * max(1.0, tables.size[a] ** 2):
            break
        merged = True
        target[target == b] = a
        # gains are sums over pairs of points, so those of a union are the sums of both clusters
        gains[a] += gains[b]
        gains[:, a] += gains[:, b]
        gains[b] = gains[:, b] = -np.inf
        gains[a, a] = -np.inf
    labels[:] = target[labels]
    return merged


def _merge_down(affinity: Array, pairs: Array, n_clusters: int) -> Labels:
    """Merge clusters of highest mean co-association until K are left; return the new labels.

    ``affinity`` and ``pairs`` (K_v, K_v) are those of :meth:`ClusterTables.cluster_affinity`.
    """
    affinity, pairs = affinity.copy(), pairs.copy()
    target = np.arange(len(affinity))
    mean = np.divide(affinity, pairs, out=np.zeros_like(affinity), where=pairs > 0)
    np.fill_diagonal(mean, -np.inf)
    for _ in range(len(affinity) - n_clusters):
        a, b = sorted(np.unravel_index(np.argmax(mean), mean.shape))
        target[target == b] = a
        for sums in (affinity, pairs):
            sums[a] += sums[b]
            sums[:, a] += sums[:, b]
        mean[a] = np.divide(affinity[a], pairs[a], out=np.zeros(len(mean)), where=pairs[a] > 0)
        mean[a, mean[b] == -np.inf] = -np.inf
        mean[a, a] = -np.inf
        mean[:, a] = mean[a]
        mean[b] = mean[:, b] = -np.inf
    return _without_empty_clusters(target)


def _tables_of_columns(tuples: LabelTuples, columns: Array, alpha: Array) -> ClusterTables:
    """Return the tables of a clustering, given its contingency with every partition, (m, K)."""
    present = np.add.reduceat(columns, tuples.offsets[:-1], axis=0)
    return ClusterTables(columns, present, present.max(axis=0), alpha, tuples.offsets, False)


def _without_empty_clusters(labels: Labels) -> Labels:
    """Renumber the clusters without gaps; −1 stays."""
    used = np.zeros(int(labels.max()) + 2, dtype=np.int64)
    used[labels[labels >= 0]] = 1
    return np.append(np.cumsum(used[:-1]) - 1, -1)[labels]
