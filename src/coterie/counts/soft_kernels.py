"""Compiled loops over soft tuples: what the loops over label tuples do, with memberships.

Tuple a lies in the indicator columns ``codes[a]`` (rising, −1 at the end) to the shares
``memberships[a]``; ``partition_of[c]`` is the partition of column c. With π_v the shares of a row
in partition v and m_v their sum, all of the search rests on

    same[b] = Σ_v α_v Σ_c π_vc N[c, b]     votes that put the row together with points of cluster b
    both[b] = Σ_v α_v m_v present_v[b]     votes on those pairs at all

and on the part the row itself has in them where it lies in b: Σ_v α_v |π_v|² and Σ_v α_v m_v².
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from coterie.counts.cluster_kernels import first_largest, two_best_shares

__all__ = [
    "add_contingencies",
    "add_to_tables",
    "assign_rows",
    "bound_rows",
    "move_rows",
    "share_rows",
    "silhouette_rows",
    "sum_over_clusters",
]

#: Of a row's own part in its cluster: less than this beside it is rounding, and nobody.
_NOBODY = 1e-9


@nb.njit(cache=True, nogil=True)
def add_to_tables(
    codes: Any, memberships: Any, weights: Any, labels: Any, start: Any, stop: Any, table: Any,
    size: Any,
) -> None:  # fmt: skip
    """Add the labelled tuples among start..stop to the sums over base clusters (m, K) and (K,)."""
    for a in range(start, stop):
        b = labels[a]
        if b < 0:
            continue
        size[b] += weights[a]
        for s in range(codes.shape[1]):
            c = codes[a, s]
            if c >= 0:
                table[c, b] += weights[a] * memberships[a, s]


@nb.njit(cache=True, nogil=True)
def move_rows(
    codes: Any, memberships: Any, partition_of: Any, weights: Any, alpha: Any, threshold: Any,
    labels: Any, table: Any, present: Any, size: Any,
) -> Any:  # fmt: skip
    """Move each tuple, in turn, to the cluster where it gains most; how many moved.

    The gain in cluster b is same[b] − τ both[b], the tuple's own part left out where b is its
    cluster. On a tie it stays. Labels and tables change in place after every move.
    """
    K = len(size)
    same = np.empty(K)
    both = np.empty(K)
    moved = 0
    for a in range(codes.shape[0]):
        w = weights[a]
        row, shares = codes[a], memberships[a]
        total, own_same, own_both = _votes(
            row, shares, partition_of, alpha, table, present, same, both
        )
        for b in range(K):
            same[b] -= threshold * both[b]
        old = labels[a]
        if old >= 0:
            same[old] -= w * (own_same - threshold * own_both)
        new = first_largest(same)
        if old >= 0 and same[new] <= same[old] + 1e-9 * (abs(same[old]) + total):
            continue
        moved += 1
        labels[a] = new
        _add_to_cluster(row, shares, partition_of, w, new, table, present, size)
        if old >= 0:
            _add_to_cluster(row, shares, partition_of, -w, old, table, present, size)
    return moved


@nb.njit(cache=True, nogil=True)
def assign_rows(
    codes: Any, memberships: Any, partition_of: Any, alpha: Any, threshold: Any, table: Any,
    present: Any, start: Any, stop: Any, given: Any, labels: Any, confidence: Any,
) -> None:  # fmt: skip
    """Cluster of largest gain for rows start..stop, and how clear it is; the tables stay.

    As :func:`coterie.counts.cluster_kernels.assign_rows`.
    """
    K = table.shape[1]
    same = np.empty(K)
    both = np.empty(K)
    gains = np.empty(K)
    for i in range(start, stop):
        total, _, _ = _votes(
            codes[i], memberships[i], partition_of, alpha, table, present, same, both
        )
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
    codes: Any, memberships: Any, partition_of: Any, alpha: Any, table: Any, present: Any,
    labels: Any, start: Any, stop: Any, silhouettes: Any,
) -> None:  # fmt: skip
    """Silhouette of a point of each of the rows start..stop, under the distance 1 − share of votes.

    Its own vote for itself is left out; alone in its cluster, or without any label, it has 0.
    """
    K = table.shape[1]
    same = np.empty(K)
    both = np.empty(K)
    for i in range(start, stop):
        own = labels[i]
        _, own_same, own_both = _votes(
            codes[i], memberships[i], partition_of, alpha, table, present, same, both
        )
        same[own] -= own_same
        both[own] -= own_both
        if both[own] <= _NOBODY * own_both:
            silhouettes[i] = 0.0
            continue
        share, other = two_best_shares(same, both, own)
        farther = max(1.0 - share, 1.0 - other)
        silhouettes[i] = (share - other) / farther if farther > 0.0 else 0.0


@nb.njit(cache=True, nogil=True)
def add_contingencies(
    codes: Any, memberships: Any, weights: Any, start: Any, stop: Any, out: Any
) -> None:
    """Add Zᵀ diag(w) Z of rows start..stop to the upper triangle of out, shape (m, m)."""
    S = codes.shape[1]
    for a in range(start, stop):
        row, shares = codes[a], memberships[a]
        for s in range(S):
            if row[s] < 0:
                break
            x = weights[a] * shares[s]
            into = out[row[s]]
            for t in range(s, S):
                if row[t] >= 0:
                    into[row[t]] += x * shares[t]


@nb.njit(cache=True, nogil=True)
def share_rows(
    turned: Any, mass: Any, start: Any, stop: Any, same: Any, both: Any, out: Any
) -> None:
    """Rows of Σ_v α_v ⟨π_av, π_bv⟩ / Σ_v α_v m_av m_bv, 0 where that is 0 / 0.

    Parameters
    ----------
    turned : (m, u)
        √α_v π, turned so that a column of the indicator is contiguous.
    mass : (V, u)
        √α_v m_v.
    same, both : (u,), work space
    """
    u = turned.shape[1]
    for a in range(start, stop):
        _pairs_of_row(turned, a, 0, same)
        _pairs_of_row(mass, a, 0, both)
        for b in range(u):
            out[a, b] = min(same[b] / both[b], 1.0) if both[b] > 0.0 else 0.0


@nb.njit(cache=True, nogil=True)
def bound_rows(
    turned: Any, mass: Any, weights: Any, start: Any, stop: Any, same: Any, both: Any
) -> Any:
    """Σ over pairs of different points, the first of rows start..stop, of min(together, apart).

    A pair of different tuples is counted both ways round with the first of the two.
    """
    u = turned.shape[1]
    total = 0.0
    for a in range(start, stop):
        _pairs_of_row(turned, a, a, same)
        _pairs_of_row(mass, a, a, both)
        apart = max(both[a] - same[a], 0.0)
        # the points of a tuple are together in every answer; of less than one point there are
        # fewer pairs than none
        row = (weights[a] - 1.0) * (min(same[a], apart) if weights[a] > 1.0 else apart)
        for b in range(a + 1, u):
            row += 2.0 * weights[b] * max(min(same[b], both[b] - same[b]), 0.0)
        total += weights[a] * row
    return total


@nb.njit(cache=True, nogil=True)
def sum_over_clusters(
    codes: Any, memberships: Any, values: Any, start: Any, stop: Any, sums: Any
) -> None:
    """Rows start..stop of Z·values, values (m, k)."""
    k = values.shape[1]
    for a in range(start, stop):
        for j in range(k):
            sums[a, j] = 0.0
        for s in range(codes.shape[1]):
            c = codes[a, s]
            if c >= 0:
                for j in range(k):
                    sums[a, j] += memberships[a, s] * values[c, j]


@nb.njit(cache=True, nogil=True)
def _votes(
    row: Any, shares: Any, partition_of: Any, alpha: Any, table: Any, present: Any, same: Any,
    both: Any,
) -> Any:  # fmt: skip
    """Fill ``same`` and ``both`` (K,); Σ_v α_v m_v, and the row's own part in each of the two."""
    K = len(same)
    S = len(row)
    total = own_same = own_both = 0.0
    for b in range(K):
        same[b] = both[b] = 0.0
    s = 0
    while s < S and row[s] >= 0:
        v = partition_of[row[s]]
        x = alpha[v]
        mass = 0.0
        while s < S and row[s] >= 0 and partition_of[row[s]] == v:
            c, share = row[s], shares[s]
            mass += share
            own_same += x * share * share
            y = x * share
            for b in range(K):
                same[b] += y * table[c, b]
            s += 1
        y = x * mass
        total += y
        own_both += y * mass
        for b in range(K):
            both[b] += y * present[v, b]
    return total, own_same, own_both


@nb.njit(cache=True, nogil=True)
def _add_to_cluster(
    row: Any, shares: Any, partition_of: Any, w: Any, b: Any, table: Any, present: Any, size: Any
) -> None:
    size[b] += w
    for s in range(len(row)):
        c = row[s]
        if c >= 0:
            table[c, b] += w * shares[s]
            present[partition_of[c], b] += w * shares[s]


@nb.njit(cache=True, nogil=True)
def _pairs_of_row(turned: Any, a: Any, first: Any, out: Any) -> None:
    """Σ_c turned[c, a] turned[c, b] for all b from ``first`` on."""
    m, u = turned.shape
    for b in range(first, u):
        out[b] = 0.0
    for c in range(m):
        x = turned[c, a]
        if x != 0.0:
            column = turned[c]
            for b in range(first, u):
                out[b] += x * column[b]
