"""Compiled loops that move tuples between clusters.

Arrays are those of :mod:`coterie.counts.cluster_kernels` and :mod:`coterie.counts.soft_kernels`;
``labels[a]`` is the cluster of tuple a, −1 for none. The gain of tuple a in cluster b is
same[b] − τ both[b], without the pairs of the tuple with itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.counts.cluster_kernels import first_largest, sum_votes
from coterie.counts.soft_kernels import sum_votes as sum_soft_votes
from coterie.runtime.compiled_code import njit

__all__ = ["find_tuples_that_may_move", "move_rows", "move_soft_rows"]


@njit(nogil=True)
def find_tuples_that_may_move(
    codes: Any, weights: Any, labels: Any, scores: Any, own_part: Any, tolerance: Any, start: Any,
    stop: Any, may_move: Any,
) -> None:  # fmt: skip
    """Set ``may_move[a]`` for the tuples start..stop that may gain by a move.

    Gains are computed in single precision, which halves the memory to read. Tuples whose gain is
    zero within ``tolerance`` are marked too; :func:`move_rows` decides in double precision.

    Parameters
    ----------
    scores : (m + 1, K + 1) float32
        ``scores[c, b]`` = α_v (N[c, b] − τ present_v[b]) for base cluster c of partition v, and
        α_v in the last column. The last row is zero: the code −1 of a missing label selects it.
    own_part : 1 − τ
        A tuple of weight 1 adds α_v times this to the gain of its own cluster.
    tolerance : bound of the rounding error of a gain
    """
    V = codes.shape[1]
    K = scores.shape[1] - 1
    # sums[b] is the gain in cluster b; sums[K] is the weight of the partitions that label tuple a
    sums = np.empty(K + 1, scores.dtype)
    for a in range(start, stop):
        old = labels[a]
        if old < 0:
            may_move[a] = True
            continue
        row = codes[a]
        for b in range(K + 1):
            sums[b] = 0
        # four partitions at a time reduce the loads and stores of ``sums`` to a quarter
        for v in range(0, V - 3, 4):
            c0, c1, c2, c3 = row[v], row[v + 1], row[v + 2], row[v + 3]
            for b in range(K + 1):
                sums[b] += (scores[c0, b] + scores[c1, b]) + (scores[c2, b] + scores[c3, b])
        for v in range(V - V % 4, V):
            for b in range(K + 1):
                sums[b] += scores[row[v], b]
        own = sums[old] - weights[a] * own_part * sums[K]
        bar = np.float32(own - tolerance)
        sums[old] = sums[K] = -np.inf
        # counting all clusters is faster than stopping at the first, because it has no branches
        above = 0
        for b in range(K + 1):
            above += sums[b] > bar
        may_move[a] = above > 0


@njit(nogil=True)
def move_rows(
    codes: Any, weights: Any, alpha: Any, threshold: Any, complete: Any, start: Any, stop: Any,
    may_move: Any, labels: Any, table: Any, present: Any, size: Any,
) -> Any:  # fmt: skip
    """Move each marked tuple of start..stop to its best cluster; return the number of moves.

    Labels and tables are updated after every move, so each move raises the current score.
    """
    K = len(size)
    same, both = np.empty(K), np.empty(K)
    moved = 0
    for a in range(start, stop):
        if not may_move[a]:
            continue
        w = weights[a]
        row = codes[a]
        total = sum_votes(row, alpha, complete, table, present, size, same, both)
        old = labels[a]
        new = _best_cluster(same, both, total, threshold, old, w * (1.0 - threshold) * total)
        if new == old:
            continue
        moved += 1
        labels[a] = new
        _add_to_cluster(row, w, new, table, present, size)
        if old >= 0:
            _add_to_cluster(row, -w, old, table, present, size)
    return moved


@njit(nogil=True)
def move_soft_rows(
    codes: Any, memberships: Any, partition_of: Any, weights: Any, alpha: Any, threshold: Any,
    labels: Any, table: Any, present: Any, size: Any,
) -> Any:  # fmt: skip
    """Move each tuple of soft partitions to its best cluster; return the number of moves."""
    K = len(size)
    same, both = np.empty(K), np.empty(K)
    moved = 0
    for a in range(codes.shape[0]):
        w = weights[a]
        row, shares = codes[a], memberships[a]
        total, own_same, own_both = sum_soft_votes(
            row, shares, partition_of, alpha, table, present, same, both
        )
        old = labels[a]
        own_part = w * (own_same - threshold * own_both)
        new = _best_cluster(same, both, total, threshold, old, own_part)
        if new == old:
            continue
        moved += 1
        labels[a] = new
        _add_soft_to_cluster(row, shares, partition_of, w, new, table, present, size)
        if old >= 0:
            _add_soft_to_cluster(row, shares, partition_of, -w, old, table, present, size)
    return moved


@njit(nogil=True, forceinline=True)
def _best_cluster(same: Any, both: Any, total: Any, threshold: Any, old: Any, own_part: Any) -> Any:
    """Return the cluster of largest gain, or ``old`` on a tie; ``same`` is overwritten.

    ``old`` is the tuple's cluster, −1 for none; ``own_part`` is what the tuple adds to its gain.
    """
    for b in range(len(same)):
        same[b] -= threshold * both[b]
    if old < 0:
        return first_largest(same)
    same[old] -= own_part
    new = first_largest(same)
    # a difference within rounding is a tie, or the search might never end
    return new if same[new] > same[old] + 1e-9 * (abs(same[old]) + total) else old


@njit(nogil=True)
def _add_to_cluster(row: Any, w: Any, b: Any, table: Any, present: Any, size: Any) -> None:
    size[b] += w
    for v in range(len(row)):
        if row[v] >= 0:
            table[row[v], b] += w
            present[v, b] += w


@njit(nogil=True)
def _add_soft_to_cluster(
    row: Any, shares: Any, partition_of: Any, w: Any, b: Any, table: Any, present: Any, size: Any
) -> None:
    size[b] += w
    for s in range(len(row)):
        c = row[s]
        if c >= 0:
            table[c, b] += w * shares[s]
            present[partition_of[c], b] += w * shares[s]
