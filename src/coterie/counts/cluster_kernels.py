"""Compiled loops of the discrete search: cluster tables, moves of tuples, assignment of rows.

All of them rest on two sums over the partitions v that label a row, whose codes are c_v:

    same[b] = Σ_v α_v N[c_v, b]        votes that put the row together with points of cluster b
    both[b] = Σ_v α_v present_v[b]     votes on those pairs at all

Loops run over clusters innermost, where memory is contiguous, and over four partitions at a time,
so that ``same`` is read and written a fourth as often. Counts and sums are in double precision, so
counts of points are exact; only what merely proposes moves (:func:`find_restless`) is in single.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

__all__ = [
    "add_to_tables",
    "assign_rows",
    "find_restless",
    "first_largest",
    "move_rows",
    "silhouette_rows",
    "two_best_shares",
]


@nb.njit(cache=True, nogil=True)
def add_to_tables(
    codes: Any, weights: Any, labels: Any, start: Any, stop: Any, table: Any, size: Any
) -> None:
    """Add the labelled tuples among start..stop to the counts of base clusters (m, K) and to (K,).

    Points that partition v labels need no count of their own: they are the sums over its
    base clusters.
    """
    for a in range(start, stop):
        b = labels[a]
        if b < 0:
            continue
        w = weights[a]
        size[b] += w
        for v in range(codes.shape[1]):
            c = codes[a, v]
            if c >= 0:
                table[c, b] += w


@nb.njit(cache=True, nogil=True)
def find_restless(
    codes: Any, weights: Any, labels: Any, scores: Any, own_part: Any, doubt: Any, start: Any,
    stop: Any, restless: Any,
) -> None:  # fmt: skip
    """Which of the tuples start..stop may gain by a move, the clustering being what it is.

    Parameters
    ----------
    scores : (m + 1, K + 1) float32
        α_v (N[c, b] − τ present_v[b]) for column c of partition v, and α_v in the last column.
        The last row is zero: it is what the code −1 finds.
    own_part : what a tuple of weight 1 adds to the gain of its own cluster, for each α: 1 − τ
    doubt : by how much single precision can be wrong; a tuple this close to a gain is restless
    restless : (u,) bool, written
    """
    V = codes.shape[1]
    K = scores.shape[1] - 1
    sums = np.empty(K + 1, scores.dtype)
    for a in range(start, stop):
        old = labels[a]
        if old < 0:
            restless[a] = True
            continue
        row = codes[a]
        for b in range(K + 1):
            sums[b] = 0
        for v in range(0, V - 3, 4):
            c0, c1, c2, c3 = row[v], row[v + 1], row[v + 2], row[v + 3]
            for b in range(K + 1):
                sums[b] += (scores[c0, b] + scores[c1, b]) + (scores[c2, b] + scores[c3, b])
        for v in range(V - V % 4, V):
            for b in range(K + 1):
                sums[b] += scores[row[v], b]
        own = sums[old] - weights[a] * own_part * sums[K]
        bar = np.float32(own - doubt)
        sums[old] = sums[K] = -np.inf
        above = 0
        for b in range(K + 1):
            above += sums[b] > bar
        restless[a] = above > 0


@nb.njit(cache=True, nogil=True)
def move_rows(
    codes: Any, weights: Any, alpha: Any, threshold: Any, complete: Any, start: Any, stop: Any,
    restless: Any, labels: Any, table: Any, present: Any, size: Any,
) -> Any:  # fmt: skip
    """Move each restless tuple among start..stop, in turn, to where it gains most; how many moved.

    Its gain in cluster b is same[b] − τ both[b], its own weight left out where b is its cluster. A
    tuple stays where it is on a tie. Labels and tables change in place after every
    move, so each move is a gain in the clustering as it then is.
    """
    K = len(size)
    same = np.empty(K)
    both = np.empty(K)
    moved = 0
    for a in range(start, stop):
        if not restless[a]:
            continue
        w = weights[a]
        row = codes[a]
        if complete and not _has_gaps(row):
            total = _votes_of_all(row, alpha, table, size, same, both)
        else:
            total = _votes_of_some(row, alpha, table, present, same, both)
        for b in range(K):
            same[b] -= threshold * both[b]
        old = labels[a]
        if old >= 0:
            same[old] -= w * (1.0 - threshold) * total
        new = first_largest(same)
        if old >= 0 and same[new] <= same[old] + 1e-9 * (abs(same[old]) + total):
            continue
        moved += 1
        labels[a] = new
        _add_to_cluster(row, w, new, table, present, size)
        if old >= 0:
            _add_to_cluster(row, -w, old, table, present, size)
    return moved


@nb.njit(cache=True, nogil=True)
def assign_rows(
    codes: Any, alpha: Any, threshold: Any, complete: Any, table: Any, present: Any, size: Any,
    start: Any, stop: Any, given: Any, labels: Any, confidence: Any,
) -> None:  # fmt: skip
    """Cluster of largest gain for rows start..stop, and how clear it is; the tables stay.

    ``given[i]`` ≥ 0 fixes the label, and only the confidence is computed: the mean share of
    votes with which the row stands beside members of its cluster, less that of the next best
    cluster, never below 0. A row without any label gets −1 and 0.
    """
    K = len(size)
    same = np.empty(K)
    both = np.empty(K)
    gains = np.empty(K)
    for i in range(start, stop):
        row = codes[i]
        if complete and not _has_gaps(row):
            total = _votes_of_all(row, alpha, table, size, same, both)
        else:
            total = _votes_of_some(row, alpha, table, present, same, both)
        own = given[i]
        if total == 0.0:
            labels[i] = own
            confidence[i] = 0.0
            continue
        if own < 0:
            for b in range(K):
                gains[b] = same[b] - threshold * both[b]
            own = first_largest(gains)
        labels[i] = own
        share, other = two_best_shares(same, both, own)
        confidence[i] = max(share - other, 0.0)


@nb.njit(cache=True, nogil=True)
def silhouette_rows(
    codes: Any, alpha: Any, complete: Any, table: Any, present: Any, size: Any, labels: Any,
    start: Any, stop: Any, silhouettes: Any,
) -> None:  # fmt: skip
    """Silhouette of a point of each of the rows start..stop, under the distance 1 − share of votes.

    Its own vote for itself is left out; alone in its cluster, or without any label, it has 0.
    """
    K = len(size)
    same = np.empty(K)
    both = np.empty(K)
    for i in range(start, stop):
        own = labels[i]
        row = codes[i]
        if complete and not _has_gaps(row):
            total = _votes_of_all(row, alpha, table, size, same, both)
        else:
            total = _votes_of_some(row, alpha, table, present, same, both)
        same[own] -= total
        both[own] -= total
        if both[own] <= 0.0:
            silhouettes[i] = 0.0
            continue
        share, other = two_best_shares(same, both, own)
        farther = max(1.0 - share, 1.0 - other)
        silhouettes[i] = (share - other) / farther if farther > 0.0 else 0.0


@nb.njit(cache=True, nogil=True)
def _votes_of_all(row: Any, alpha: Any, table: Any, size: Any, same: Any, both: Any) -> Any:
    """Fill ``same`` and ``both`` (K,) where no label is missing, here or anywhere; Σ_v α_v."""
    K = len(same)
    V = len(row)
    total = 0.0
    for b in range(K):
        same[b] = 0.0
    for v in range(0, V - 3, 4):
        x0, x1, x2, x3 = alpha[v], alpha[v + 1], alpha[v + 2], alpha[v + 3]
        c0, c1, c2, c3 = row[v], row[v + 1], row[v + 2], row[v + 3]
        total += (x0 + x1) + (x2 + x3)
        for b in range(K):
            same[b] += (x0 * table[c0, b] + x1 * table[c1, b]) + (
                x2 * table[c2, b] + x3 * table[c3, b]
            )
    for v in range(V - V % 4, V):
        x0, c0 = alpha[v], row[v]
        total += x0
        for b in range(K):
            same[b] += x0 * table[c0, b]
    for b in range(K):
        both[b] = total * size[b]
    return total


@nb.njit(cache=True, nogil=True)
def _votes_of_some(row: Any, alpha: Any, table: Any, present: Any, same: Any, both: Any) -> Any:
    """Fill ``same`` and ``both`` (K,) for any row; the weight of the partitions that label it."""
    K = len(same)
    total = 0.0
    for b in range(K):
        same[b] = both[b] = 0.0
    for v in range(len(row)):
        c = row[v]
        if c >= 0:
            x = alpha[v]
            total += x
            for b in range(K):
                same[b] += x * table[c, b]
                both[b] += x * present[v, b]
    return total


@nb.njit(cache=True, nogil=True)
def _has_gaps(row: Any) -> Any:
    gaps = 0
    for v in range(len(row)):
        gaps += row[v] < 0
    return gaps > 0


@nb.njit(cache=True, nogil=True)
def _add_to_cluster(row: Any, w: Any, b: Any, table: Any, present: Any, size: Any) -> None:
    size[b] += w
    for v in range(len(row)):
        if row[v] >= 0:
            table[row[v], b] += w
            present[v, b] += w


@nb.njit(cache=True, nogil=True)
def two_best_shares(same: Any, both: Any, own: Any) -> Any:
    """Share of votes with which a row stands beside cluster ``own``, and beside the best other.

    ``same`` is used up.
    """
    for b in range(len(same)):
        # the two sums are rounded each in its own way
        same[b] = min(same[b] / both[b], 1.0) if both[b] > 0.0 else 0.0
    share = same[own]
    same[own] = other = 0.0
    for b in range(len(same)):
        other = max(other, same[b])
    return share, other


@nb.njit(cache=True, nogil=True)
def first_largest(values: Any) -> Any:
    """Place of the largest value, the first of equals."""
    best = 0
    for b in range(1, len(values)):
        if values[b] > values[best]:
            best = b
    return best
