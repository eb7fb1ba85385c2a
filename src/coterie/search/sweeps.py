"""Sweeps of the discrete search: mark candidates on all cores, then move them one by one.

A sweep moves every tuple to the cluster of its largest gain. It works on blocks of tuples. In each
block, all threads first mark the tuples that may gain by a move. The marked tuples are then moved
one by one if they gain in the current tables. So every move raises the score, and after a sweep
without moves no single move gains. Blocks do not depend on the number of threads, and so results do
not either.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import coterie.search.kernels as kernels
from coterie.counts.cluster_tables import ClusterTables
from coterie.labels.tuples import LabelTuples
from coterie.runtime.devices import map_row_blocks

__all__ = ["sweep"]

#: Tuples in the first block, in the largest block, and in the smallest part for one thread.
_FIRST_BLOCK = 1 << 12
_LARGEST_BLOCK = 1 << 17
_SMALLEST_THREAD_PART = 1 << 12
#: If more than this share of a block moves, the next block is small and is not marked: the marks
#: would soon be out of date.
_MANY_MOVES = 1 / 4


def sweep(
    tuples: LabelTuples, labels: NDArray[np.int64], tables: ClusterTables, threshold: float
) -> int:
    """Move every tuple that gains to its best cluster, and return the number of moves.

    The gain of tuple a (weight w_a) in cluster b is Σ_v α_v (N[c_av, b] − τ present_v[b]) over the
    partitions that label a, minus its own part (1 − τ) w_a Σ_v α_v if it is in b. On a tie it
    stays. The labels (u,), −1 for none, and their tables change in place; ``threshold`` is τ.

    >>> from coterie.labels.tuples import as_label_tuples
    >>> tuples = as_label_tuples([[0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 0]])
    >>> labels = np.full(4, -1)
    >>> tables = ClusterTables.of(tuples, labels, np.ones(3), 2)
    >>> sweep(tuples, labels, tables, 0.5) >= 4, sweep(tuples, labels, tables, 0.5)
    (True, 0)
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
            _mark_tuples_that_may_move(tuples, labels, tables, threshold, start, stop, may_move)
        moves = kernels.move_rows(
            tuples.codes, tuples.memberships, tuples.partition_of, tuples.weights, tables.alpha,
            threshold, tables.complete, start, stop, may_move, labels, tables.table,
            tables.present, tables.size,
        )  # fmt: skip
        share = moves / (stop - start)
        block = smallest if share > _MANY_MOVES else min(2 * block, max(smallest, _LARGEST_BLOCK))
        moved, start = moved + moves, stop
    return moved


def _mark_tuples_that_may_move(
    tuples: LabelTuples,
    labels: NDArray[np.int64],
    tables: ClusterTables,
    threshold: float,
    start: int,
    stop: int,
    may_move: NDArray[np.uint8],
) -> None:
    """Mark the tuples of start..stop that may gain by a move; the tables are unchanged."""
    scores = _scores(tables, threshold)
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


def _scores(tables: ClusterTables, threshold: float) -> NDArray[np.float32]:
    """Return the scores (m, K + 1) for ``find_tuples_that_may_move``.

    The partition weights are scaled to sum to one, so that they fit in single precision.
    """
    n_labels = np.diff(tables.offsets)
    m, K = tables.table.shape
    # the row before the scores is that of a missing label
    scores = np.zeros((m + 1, K + 1), dtype=np.float32)[1:]
    alpha = np.repeat(tables.alpha / tables.alpha.sum(), n_labels)
    expected = np.repeat(threshold * tables.present, n_labels, axis=0)
    scores[:, :-1] = alpha[:, None] * (tables.table - expected)
    scores[:, -1] = alpha
    return scores
