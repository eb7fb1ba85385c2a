"""Compiled loops over tuples of soft partitions; each has a counterpart for labels.

Tuple a has the S slots ``codes[a]``: the base clusters in which it has a share, increasing, with
−1 in unused slots at the end. ``memberships[a]`` holds the shares, and ``partition_of[c]`` is the
partition of base cluster c. The other arrays are those of :mod:`coterie.counts.cluster_kernels`.
With π_v the shares of a row in partition v and m_v their sum,

    same[b] = Σ_v α_v Σ_c π_vc N[c, b]     votes that put the row together with points of cluster b
    both[b] = Σ_v α_v m_v present_v[b]     all votes on pairs of the row and a point of cluster b

If the row is in cluster b, it adds Σ_v α_v |π_v|² to same[b] and Σ_v α_v m_v² to both[b].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.counts.cluster_kernels import assign_row, silhouette_of_row
from coterie.runtime.compiled_code import njit

__all__ = [
    "add_contingencies",
    "add_to_tables",
    "assign_rows",
    "bound_rows",
    "share_rows",
    "silhouette_rows",
    "sum_over_clusters",
    "sum_votes",
    "vote_share_rows",
]

#: A row is alone in its cluster if the votes of others are below this share of its own votes.
_ROUNDING = 1e-9


@njit(nogil=True)
def add_to_tables(
    codes: Any, memberships: Any, weights: Any, labels: Any, start: Any, stop: Any, table: Any,
    size: Any,
) -> None:  # fmt: skip
    """Add the shares of tuples start..stop to ``table`` and ``size``; skip the label −1."""
    for a in range(start, stop):
        b = labels[a]
        if b < 0:
            continue
        size[b] += weights[a]
        for s in range(codes.shape[1]):
            c = codes[a, s]
            if c >= 0:
                table[c, b] += weights[a] * memberships[a, s]


@njit(nogil=True)
def assign_rows(
    codes: Any, memberships: Any, partition_of: Any, alpha: Any, table: Any, present: Any,
    threshold: Any, given: Any, start: Any, stop: Any, labels: Any, confidence: Any,
) -> None:  # fmt: skip
    """Write label and confidence of rows start..stop; ``given[i]`` ≥ 0 fixes the label of row i."""
    K = table.shape[1]
    same, both, gains = np.empty(K), np.empty(K), np.empty(K)
    for i in range(start, stop):
        total, _, _ = sum_votes(
            codes[i], memberships[i], partition_of, alpha, table, present, same, both
        )
        labels[i], confidence[i] = assign_row(same, both, total, threshold, given[i], gains)


@njit(nogil=True)
def vote_share_rows(
    codes: Any, memberships: Any, partition_of: Any, alpha: Any, table: Any, present: Any,
    start: Any, stop: Any, shares: Any,
) -> None:  # fmt: skip
    """Write the shares of votes (K,) of rows start..stop; 0 for clusters without common votes."""
    K = table.shape[1]
    same, both = np.empty(K), np.empty(K)
    for i in range(start, stop):
        sum_votes(codes[i], memberships[i], partition_of, alpha, table, present, same, both)
        for b in range(K):
            shares[i, b] = same[b] / both[b] if both[b] > 0 else 0.0


@njit(nogil=True)
def silhouette_rows(
    codes: Any, memberships: Any, partition_of: Any, alpha: Any, table: Any, present: Any,
    labels: Any, start: Any, stop: Any, silhouettes: Any,
) -> None:  # fmt: skip
    """Write the silhouette of a point of each tuple start..stop; the distance is 1 − M."""
    K = table.shape[1]
    same, both = np.empty(K), np.empty(K)
    for a in range(start, stop):
        _, own_same, own_both = sum_votes(
            codes[a], memberships[a], partition_of, alpha, table, present, same, both
        )
        silhouettes[a] = silhouette_of_row(
            same, both, labels[a], own_same, own_both, _ROUNDING * own_both
        )


@njit(nogil=True)
def sum_votes(
    row: Any, shares: Any, partition_of: Any, alpha: Any, table: Any, present: Any, same: Any,
    both: Any,
) -> Any:  # fmt: skip
    """Fill ``same`` and ``both`` (K,); return Σ_v α_v m_v, Σ_v α_v |π_v|² and Σ_v α_v m_v²."""
    K = len(same)
    S = len(row)
    total = own_same = own_both = 0.0
    for b in range(K):
        same[b] = both[b] = 0.0
    s = 0
    while s < S and row[s] >= 0:
        # the slots of one partition are consecutive, because base clusters increase
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


@njit(nogil=True)
def add_contingencies(
    codes: Any, memberships: Any, weights: Any, start: Any, stop: Any, out: Any
) -> None:
    """Add Zᵀ diag(w) Z of tuples start..stop to the upper triangle of ``out``, (m, m)."""
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


@njit(nogil=True)
def share_rows(
    transposed: Any, mass: Any, start: Any, stop: Any, same: Any, both: Any, out: Any
) -> None:
    """Write rows start..stop of M = Σ_v α_v ⟨π_av, π_bv⟩ / Σ_v α_v m_av m_bv, 0 for 0 / 0.

    ``transposed[c, a]`` is √α_v π_ac for base cluster c of partition v, (m, u), and ``mass[v, a]``
    is √α_v m_av, (V, u). ``same`` and ``both``, (u,), are work space.
    """
    u = transposed.shape[1]
    for a in range(start, stop):
        _products_with_row(transposed, a, 0, same)
        _products_with_row(mass, a, 0, both)
        for b in range(u):
            out[a, b] = min(same[b] / both[b], 1.0) if both[b] > 0.0 else 0.0


@njit(nogil=True)
def bound_rows(
    transposed: Any, mass: Any, weights: Any, start: Any, stop: Any, same: Any, both: Any
) -> Any:
    """Return Σ min(together, apart) over pairs of points whose first tuple is in start..stop.

    A pair of tuples a < b is counted twice, for both orders. Arrays as in :func:`share_rows`;
    ``weights[a]`` is the number of points of tuple a.
    """
    u = transposed.shape[1]
    total = 0.0
    for a in range(start, stop):
        _products_with_row(transposed, a, a, same)
        _products_with_row(mass, a, a, both)
        apart = max(both[a] - same[a], 0.0)
        # Points of one tuple are together in every clustering. For a weight w below one, w (w − 1)
        # is negative, so the lower bound needs the larger cost.
        row = (weights[a] - 1.0) * (min(same[a], apart) if weights[a] > 1.0 else apart)
        for b in range(a + 1, u):
            row += 2.0 * weights[b] * max(min(same[b], both[b] - same[b]), 0.0)
        total += weights[a] * row
    return total


@njit(nogil=True)
def sum_over_clusters(
    codes: Any, memberships: Any, values: Any, start: Any, stop: Any, sums: Any
) -> None:
    """Write rows start..stop of Z·values, (u, k), where ``values`` is (m, k)."""
    k = values.shape[1]
    for a in range(start, stop):
        for j in range(k):
            sums[a, j] = 0.0
        for s in range(codes.shape[1]):
            c = codes[a, s]
            if c >= 0:
                for j in range(k):
                    sums[a, j] += memberships[a, s] * values[c, j]


@njit(nogil=True)
def _products_with_row(transposed: Any, a: Any, first: Any, out: Any) -> None:
    """Write Σ_c transposed[c, a] transposed[c, b] to ``out[b]`` for all b ≥ first."""
    m, u = transposed.shape
    for b in range(first, u):
        out[b] = 0.0
    for c in range(m):
        x = transposed[c, a]
        if x != 0.0:
            column = transposed[c]
            for b in range(first, u):
                out[b] += x * column[b]
