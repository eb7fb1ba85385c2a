"""Compiled loops on cluster tables: counting, assignment of rows, silhouettes.

Names of arrays and indices in all kernels:

- ``codes[a, v]`` is the base cluster c of tuple a in partition v, −1 if the label is missing;
- ``table[c, b]`` = N[c, b] is the number of points of base cluster c in cluster b, (m, K);
- ``present[v, b]`` is the number of points of cluster b that partition v labels, (V, K);
- ``size[b]`` is the number of points of cluster b, ``alpha[v]`` the weight α_v of partition v;
- ``start`` and ``stop`` bound the rows that one thread works on.

Most kernels need two sums for a row with codes c_v, over the partitions v that label it:

    same[b] = Σ_v α_v N[c_v, b]        votes that put the row together with points of cluster b
    both[b] = Σ_v α_v present_v[b]     all votes on pairs of the row and a point of cluster b

Sums are in double precision, so counts of points are exact. Functions of one row are inlined
(``forceinline``), because a call with eight arrays takes as long as its loop over clusters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.runtime.compiled_code import njit

__all__ = [
    "add_to_tables",
    "assign_row",
    "assign_rows",
    "first_largest",
    "silhouette_of_row",
    "silhouette_rows",
    "sum_votes",
    "vote_share_rows",
]


@njit(nogil=True)
def add_to_tables(
    codes: Any, weights: Any, labels: Any, start: Any, stop: Any, table: Any, size: Any
) -> None:
    """Add the weights of tuples start..stop to ``table`` and ``size``; skip the label −1.

    ``present`` needs no counting: it is the sum of ``table`` over the clusters of a partition.
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


@njit(nogil=True)
def assign_rows(
    codes: Any, alpha: Any, complete: Any, table: Any, present: Any, size: Any, threshold: Any,
    given: Any, start: Any, stop: Any, labels: Any, confidence: Any,
) -> None:  # fmt: skip
    """Write label and confidence of rows start..stop; see :func:`assign_row`."""
    same, both, gains = np.empty(len(size)), np.empty(len(size)), np.empty(len(size))
    for i in range(start, stop):
        total = sum_votes(codes[i], alpha, complete, table, present, size, same, both)
        labels[i], confidence[i] = assign_row(same, both, total, threshold, given[i], gains)


@njit(nogil=True)
def vote_share_rows(
    codes: Any, alpha: Any, complete: Any, table: Any, present: Any, size: Any, start: Any,
    stop: Any, shares: Any,
) -> None:  # fmt: skip
    """Write the shares of votes (K,) of rows start..stop; 0 for clusters without common votes."""
    same, both = np.empty(len(size)), np.empty(len(size))
    for i in range(start, stop):
        sum_votes(codes[i], alpha, complete, table, present, size, same, both)
        for b in range(len(size)):
            shares[i, b] = same[b] / both[b] if both[b] > 0 else 0.0


@njit(nogil=True)
def silhouette_rows(
    codes: Any, alpha: Any, complete: Any, table: Any, present: Any, size: Any, labels: Any,
    start: Any, stop: Any, silhouettes: Any,
) -> None:  # fmt: skip
    """Write the silhouette of a point of each tuple start..stop; the distance is 1 − M."""
    same, both = np.empty(len(size)), np.empty(len(size))
    for a in range(start, stop):
        total = sum_votes(codes[a], alpha, complete, table, present, size, same, both)
        silhouettes[a] = silhouette_of_row(same, both, labels[a], total, total, 0.0)


@njit(nogil=True, forceinline=True)
def sum_votes(
    row: Any, alpha: Any, complete: Any, table: Any, present: Any, size: Any, same: Any, both: Any
) -> Any:
    """Fill ``same`` and ``both`` (K,) of one row, and return the weight of its partitions.

    ``complete`` means that no tuple in the tables has a missing label, so that every row of
    ``present`` equals ``size``. The row itself may have missing labels (gaps).
    """
    gaps = 0
    if complete:
        for v in range(len(row)):
            gaps += row[v] < 0
    if complete and gaps == 0:
        return _sum_votes_without_gaps(row, alpha, table, size, same, both)
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


@njit(nogil=True, forceinline=True)
def _sum_votes_without_gaps(
    row: Any, alpha: Any, table: Any, size: Any, same: Any, both: Any
) -> Any:
    K = len(same)
    V = len(row)
    total = 0.0
    for b in range(K):
        same[b] = 0.0
    # The inner loop runs over clusters, which are contiguous in memory. Four partitions at a time
    # reduce the loads and stores of ``same`` to a quarter.
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


@njit(nogil=True, forceinline=True)
def assign_row(same: Any, both: Any, total: Any, threshold: Any, given: Any, gains: Any) -> Any:
    """Return the cluster of largest gain same[b] − τ both[b], and the confidence in it.

    A label ``given`` ≥ 0 is kept. The confidence is the share same / both of the cluster minus the
    largest share of another cluster, at least 0. A row without votes gets ``given`` and 0.
    ``gains`` (K,) is work space; ``same`` is overwritten.
    """
    label = given
    if total == 0.0:
        return label, 0.0
    if label < 0:
        for b in range(len(same)):
            gains[b] = same[b] - threshold * both[b]
        label = first_largest(gains)
    share, other = _two_best_shares(same, both, label)
    return label, max(share - other, 0.0)


@njit(nogil=True, forceinline=True)
def silhouette_of_row(
    same: Any, both: Any, own: Any, own_same: Any, own_both: Any, negligible: Any
) -> Any:
    """Return the silhouette of a point in cluster ``own``, without the pair with itself.

    ``own_same`` and ``own_both`` are what this pair adds to ``same[own]`` and ``both[own]``. If the
    rest of ``both[own]`` is at most ``negligible``, the point is alone in its cluster and gets 0.
    """
    same[own] -= own_same
    both[own] -= own_both
    if both[own] <= negligible:
        return 0.0
    share, other = _two_best_shares(same, both, own)
    # the silhouette (b − a) / max(a, b) of the distances a = 1 − share and b = 1 − other
    farther = max(1.0 - share, 1.0 - other)
    return (share - other) / farther if farther > 0.0 else 0.0


@njit(nogil=True)
def first_largest(values: Any) -> Any:
    """Return the index of the largest value, the first one on ties."""
    best = 0
    for b in range(1, len(values)):
        if values[b] > values[best]:
            best = b
    return best


@njit(nogil=True)
def _two_best_shares(same: Any, both: Any, own: Any) -> Any:
    """Return same / both of cluster ``own``, and its largest value in other clusters.

    ``same`` is overwritten.
    """
    for b in range(len(same)):
        # rounding may put the ratio slightly above one
        same[b] = min(same[b] / both[b], 1.0) if both[b] > 0.0 else 0.0
    share = same[own]
    same[own] = other = 0.0
    for b in range(len(same)):
        other = max(other, same[b])
    return share, other
