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
from dataclasses import dataclass, replace

import numpy as np

import coterie.search.kernels as kernels
from coterie.arrays import AnyArray, Floats, Ints
from coterie.counts.cluster_tables import ClusterTables
from coterie.labels.tuples import LabelTuples
from coterie.runtime.devices import map_in_threads, map_row_blocks
from coterie.runtime.sampling import evenly_spaced_points
from coterie.runtime.wording import short_repr

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
#: Tuples in the first block of a sweep, in the largest, and in the smallest part for one thread.
_FIRST_BLOCK = 1 << 12
_LARGEST_BLOCK = 1 << 17
_SMALLEST_THREAD_PART = 1 << 12
#: If more than this share of a block moves, the next block is small and is not marked: the marks
#: would soon be out of date.
_MANY_MOVES = 1 / 4


@dataclass(frozen=True)
class Start:
    """A start of the search: its name, and labels of the tuples (u,), −1 for no cluster."""

    name: str
    labels: Ints

    __repr__ = short_repr


@dataclass(frozen=True)
class SearchResult:
    """The best clustering found."""

    labels: Ints  # (u,) of the tuples
    tables: ClusterTables
    threshold: float  # the last τ: 1/2, or the calibrated value
    start: str  # name of the start that led to this clustering
    n_starts: int
    n_sweeps: int  # total over all starts

    __repr__ = short_repr


def median_search(
    tuples: LabelTuples,
    partition_weights: Floats,
    n_clusters: int | None,
    starts: Sequence[Start],
    threshold: float | None = None,
) -> SearchResult:
    """Search for the clustering with at most K clusters that minimises the ℓ1 objective.

    If K = ``n_clusters`` is None, the objective determines the number of clusters. The best result
    of all ``starts`` is returned, the first one on ties. Without starts, no tuple is in a cluster
    at first. ``threshold`` is τ. By default it is :func:`calibrated_majority` of the clustering
    found with τ = 1/2, and the search is repeated until τ converges.
    """
    if not starts:
        starts = [Start("nothing", np.full(tuples.n_tuples, -1))]
    if tuples.n_tuples > _SAMPLE_ABOVE and len(starts) > 1:
        # compare them on evenly spaced points; every tuple joins its best cluster found there
        chosen, counts = evenly_spaced_points(tuples.weights, _SAMPLE_POINTS)
        sample = tuples.subset(chosen, counts)
        sampled = [Start(start.name, start.labels[chosen]) for start in starts]
        found = median_search(sample, partition_weights, n_clusters, sampled, threshold)
        labels, _ = found.tables.assign(
            tuples.codes, found.threshold, memberships=tuples.memberships
        )
        starts = [Start(found.start, labels)]
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
        found = _best_of(tuples, partition_weights, n_clusters, again, tau)
        best = replace(found, n_sweeps=best.n_sweeps + found.n_sweeps)
        # a calibrated τ never returns to 1/2, because it could alternate forever
        previous, tau = tau, sum(best.tables.mean_coassociation()) / 2
    return best


def calibrated_majority(tables: ClusterTables) -> float:
    """Return the share of votes τ above which two points belong together, given a clustering.

    It is 1/2. If the mean of M inside clusters is below 0.55, it is the mid-point between the means
    of M inside and between clusters.
    """
    inside, between = tables.mean_coassociation()
    return MAJORITY if inside >= _CLEAR_MAJORITY else (inside + between) / 2


def partition_starts(
    tuples: LabelTuples,
    contingencies: Floats,
    partition_weights: Floats,
    n_clusters: int | None,
) -> list[Start]:
    """Return the given partitions as starts, best score first, merged down to K clusters.

    All of them are starts for few tuples, the best four for many. Merges and scores need only the
    contingency tables C (m, m).
    """
    most = max(_FEWEST_STARTS, _CELLS_OF_ALL_STARTS // tuples.codes.size)
    scored: list[tuple[float, int, int, Ints]] = []
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
        for _, _, v, mapping in scored[:most]
    ]


def learn_partition_weights(
    tuples: LabelTuples, n_clusters: int | None, starts: Sequence[Start]
) -> tuple[Floats, SearchResult]:
    """Minimise Σ_v √d(v, G) over clusterings G; return the weights and the search result.

    The weights w_v ∝ 1/√d(v, G) and the search for G are updated in turn.
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
    alpha: Floats,
    n_clusters: int | None,
    starts: Sequence[Start],
    tau: float,
) -> SearchResult:
    """Search from every start and return the best result."""
    ends = map_in_threads(lambda start: _descend(tuples, alpha, n_clusters, start, tau), starts)
    sweeps = sum(n for _, _, n in ends)
    scores = [tables.score(tau) for _, tables, _ in ends]
    # the first start whose score equals the best one up to rounding
    first = int(np.argmax(np.array(scores) >= max(scores) - 1e-9 * abs(max(scores))))
    labels, tables, _ = ends[first]
    return SearchResult(labels, tables, tau, starts[first].name, len(starts), sweeps)


def _descend(
    tuples: LabelTuples, alpha: Floats, n_clusters: int | None, start: Start, tau: float
) -> tuple[Ints, ClusterTables, int]:
    """Alternate sweeps and merges from one start until neither changes the clustering."""
    labels = start.labels.copy()
    n_sweeps = 0
    while True:
        labels[:] = _without_empty_clusters(labels)
        used = int(labels.max()) + 1
        # tables of K clusters, or with some empty clusters if K is None
        room = used + max(8, used // 2) if n_clusters is None else max(n_clusters, used)
        tables = ClusterTables.of(tuples, labels, alpha, min(room, tuples.n_tuples + 1))
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


def sweep(tuples: LabelTuples, labels: Ints, tables: ClusterTables, threshold: float) -> int:
    """Move every tuple that gains to its best cluster, and return the number of moves.

    The gain of tuple a (weight w_a) in cluster b is Σ_v α_v (N[c_av, b] − τ present_v[b]) over the
    partitions that label a, minus its own part (1 − τ) w_a Σ_v α_v if it is in b. On a tie it
    stays. The labels (u,), −1 for none, and their tables change in place; ``threshold`` is τ.

    Tuples are taken in blocks. In each block, all threads first mark the tuples that may gain by a
    move. The marked tuples are then moved one by one if they gain in the current tables. So every
    move raises the score, and after a sweep without moves no single move gains. Blocks do not
    depend on the number of threads, and so results do not either.
    """
    u, moved = tuples.n_tuples, 0
    may_move = np.ones(u, dtype=np.uint8)
    # for fewer tuples than base clusters, the table of scores would cost more than the block
    smallest = block = max(_FIRST_BLOCK, tuples.n_columns)
    start, share = 0, 0.0 if u > smallest else 1.0
    if tuples.memberships is not None:  # usually few, so they are not marked
        block, share = u, 1.0
    while start < u:
        stop = min(start + block, u)
        if share <= _MANY_MOVES:
            mark_candidates(tuples, labels, tables, threshold, start, stop, may_move)
        moves = kernels.move_rows(
            tuples.codes, tuples.memberships, tuples.partition_of, tuples.weights, tables.alpha,
            threshold, tables.complete, start, stop, may_move, labels, tables.table,
            tables.present, tables.size,
        )  # fmt: skip
        share = moves / (stop - start)
        block = smallest if share > _MANY_MOVES else min(2 * block, max(smallest, _LARGEST_BLOCK))
        moved, start = moved + moves, stop
    return moved


def mark_candidates(
    tuples: LabelTuples,
    labels: Ints,
    tables: ClusterTables,
    threshold: float,
    start: int,
    stop: int,
    may_move: AnyArray,
) -> None:
    """Mark the tuples of start..stop that may gain by a move; the tables are unchanged."""
    n_labels = np.diff(tables.offsets)
    m, K = tables.table.shape
    # scores (m, K + 1), and before them the row of a missing label; the partition weights are
    # scaled to sum to one, so that they fit in single precision
    scores = np.zeros((m + 1, K + 1), dtype=np.float32)[1:]
    alpha = np.repeat(tables.alpha / tables.alpha.sum(), n_labels)
    expected = np.repeat(threshold * tables.present, n_labels, axis=0)
    scores[:, :-1] = alpha[:, None] * (tables.table - expected)
    scores[:, -1] = alpha
    # A gain is at most the size of the largest cluster and is rounded V + 1 times; so is the weight
    # of the partitions. Two gains together have three such errors of half an epsilon per rounding.
    roundings = 2 * (len(tables.alpha) + 2)
    tolerance = np.float32(roundings * np.finfo(np.float32).eps * tables.size.max())
    own_part = np.float32(1.0 - threshold)

    def mark(a: int, b: int) -> None:
        kernels.find_tuples_that_may_move(
            tuples.codes, tuples.weights, labels, scores, own_part, tolerance, start + a,
            start + b, may_move,
        )  # fmt: skip

    map_row_blocks(mark, stop - start, at_least=_SMALLEST_THREAD_PART)


def _merge_while_better(labels: Ints, tables: ClusterTables, tau: float) -> bool:
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


def _merge_down(affinity: Floats, pairs: Floats, n_clusters: int) -> Ints:
    """Merge clusters of highest mean co-association until K are left; return the new labels."""
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


def _tables_of_columns(tuples: LabelTuples, columns: Floats, alpha: Floats) -> ClusterTables:
    """Return the tables of a clustering, given its contingency with every partition, (m, K)."""
    present = np.add.reduceat(columns, tuples.offsets[:-1], axis=0)
    return ClusterTables(columns, present, present.max(axis=0), alpha, tuples.offsets, False)


def _without_empty_clusters(labels: Ints) -> Ints:
    """Renumber the clusters without gaps; −1 stays."""
    used = np.zeros(int(labels.max()) + 2, dtype=np.int64)
    used[labels[labels >= 0]] = 1
    return np.append(np.cumsum(used[:-1]) - 1, -1)[labels]
