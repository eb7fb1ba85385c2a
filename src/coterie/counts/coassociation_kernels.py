"""Compiled loops over label tuples: contingency tables, co-association counts, lower bounds.

``codes[a, v]`` is the cluster of tuple a in partition v, −1 if the label is missing. Its transpose
``transposed`` (V, u) makes the inner loop over tuples b read contiguous memory. ``weights[a]`` is
the number of points of tuple a, ``alpha[v]`` the weight of partition v. ``same`` and ``both`` (u,)
are work space: the weight of the partitions that put a and b together, and of those that label
both. ``start`` and ``stop`` bound the rows a of one thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.runtime.compiled_code import njit

__all__ = ["add_contingencies", "bound_count_rows", "bound_rows", "count_rows", "share_rows"]

#: Rows that are transposed together; V × 2048 codes of 2 bytes fit in the second-level cache.
_TILE = 2048


@njit(nogil=True)
def add_contingencies(codes: Any, weights: Any, start: Any, stop: Any, out: Any) -> None:
    """Add Zᵀ diag(w) Z of tuples start..stop to the upper triangle of ``out``, (m, m).

    A tile of rows is transposed first. Then each pair of partitions reads two short contiguous
    columns and adds to one small block of ``out``, which stays in the first-level cache.
    """
    V = codes.shape[1]
    transposed = np.empty((V, _TILE), codes.dtype)
    for t0 in range(start, stop, _TILE):
        t1 = min(t0 + _TILE, stop)
        for a in range(t0, t1):
            for v in range(V):
                transposed[v, a - t0] = codes[a, v]
        for v in range(V):
            for w in range(v, V):
                for a in range(t1 - t0):
                    c, d = transposed[v, a], transposed[w, a]
                    if c >= 0 and d >= 0:
                        out[c, d] += weights[t0 + a]


@njit(nogil=True)
def count_rows(transposed: Any, start: Any, stop: Any, out: Any) -> None:
    """Write rows start..stop of the counts #{v : same label}, (u, u); no label is missing."""
    for a in range(start, stop):
        _count_votes(transposed, a, out[a])


@njit(nogil=True)
def share_rows(
    transposed: Any, alpha: Any, start: Any, stop: Any, same: Any, both: Any, out: Any
) -> None:
    """Write rows start..stop of Σ_v α_v [same label] / Σ_v α_v [both labelled], 0 for 0 / 0."""
    for a in range(start, stop):
        _sum_votes(transposed, alpha, a, same, both)
        for b in range(transposed.shape[1]):
            out[a, b] = same[b] / both[b] if both[b] > 0 else 0.0


@njit(nogil=True)
def bound_rows(
    transposed: Any, alpha: Any, weights: Any, start: Any, stop: Any, same: Any, both: Any
) -> Any:
    """Return Σ w_a w_b min(share together, share apart) over a in start..stop and all b."""
    total = 0.0
    for a in range(start, stop):
        _sum_votes(transposed, alpha, a, same, both)
        row = 0.0
        for b in range(transposed.shape[1]):
            row += weights[b] * min(same[b], both[b] - same[b])
        total += weights[a] * row
    return total


@njit(nogil=True)
def bound_count_rows(transposed: Any, weights: Any, start: Any, stop: Any, same: Any) -> Any:
    """Return V times :func:`bound_rows` for equal weights and no missing label.

    ``same`` holds counts of partitions.
    """
    V, u = transposed.shape
    total = 0.0
    for a in range(start, stop):
        _count_votes(transposed, a, same)
        row = 0.0
        for b in range(u):
            row += weights[b] * min(same[b], V - same[b])
        total += weights[a] * row
    return total


@njit(nogil=True)
def _count_votes(transposed: Any, a: Any, same: Any) -> None:
    """Fill ``same`` with #{v : same label} of tuple a and every tuple b."""
    same[:] = 0
    for v in range(transposed.shape[0]):
        c = transposed[v, a]
        for b in range(transposed.shape[1]):
            same[b] += transposed[v, b] == c


@njit(nogil=True)
def _sum_votes(transposed: Any, alpha: Any, a: Any, same: Any, both: Any) -> None:
    """Fill ``same`` and ``both`` for tuple a and every tuple b."""
    V, u = transposed.shape
    same[:] = 0
    both[:] = 0
    for v in range(V):
        c = transposed[v, a]
        if c >= 0:
            column, weight = transposed[v], alpha[v]
            for b in range(u):
                # the compiler vectorises a choice between two numbers, not a product with a bool
                same[b] += weight if column[b] == c else 0.0
                both[b] += weight if column[b] >= 0 else 0.0
