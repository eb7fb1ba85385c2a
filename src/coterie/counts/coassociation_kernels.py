"""Compiled loops over label tuples: contingency tables, co-association counts, their bound."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

__all__ = ["add_contingencies", "bound_count_rows", "bound_rows", "count_rows", "share_rows"]

_TILE = 2048


@nb.njit(cache=True, nogil=True)
def add_contingencies(codes: Any, weights: Any, start: Any, stop: Any, out: Any) -> None:
    """Add Zᵀ diag(w) Z of rows start..stop to the upper triangle of out, shape (m, m).

    A tile of rows is turned so that each pair of partitions reads two short contiguous
    columns and adds into one small table, which stays in the nearest cache.
    """
    V = codes.shape[1]
    turned = np.empty((V, _TILE), codes.dtype)
    for t0 in range(start, stop, _TILE):
        t1 = min(t0 + _TILE, stop)
        for a in range(t0, t1):
            for v in range(V):
                turned[v, a - t0] = codes[a, v]
        for v in range(V):
            for w in range(v, V):
                for a in range(t1 - t0):
                    c, d = turned[v, a], turned[w, a]
                    if c >= 0 and d >= 0:
                        out[c, d] += weights[t0 + a]


@nb.njit(cache=True, nogil=True)
def count_rows(turned: Any, start: Any, stop: Any, out: Any) -> None:
    """Rows start..stop of the matrix of counts #{v : same label}; turned is (V, u)."""
    V, u = turned.shape
    for a in range(start, stop):
        row = out[a]
        row[:] = 0
        for v in range(V):
            c = turned[v, a]
            if c >= 0:
                for b in range(u):
                    row[b] += turned[v, b] == c


@nb.njit(cache=True, nogil=True)
def share_rows(
    turned: Any, alpha: Any, start: Any, stop: Any, same: Any, both: Any, out: Any
) -> None:
    """Rows of Σ_v α_v [same label in v] / Σ_v α_v [both labelled in v], 0 where that is 0 / 0.

    ``same`` and ``both`` are work space, (u,) floats.
    """
    V, u = turned.shape
    for a in range(start, stop):
        same[:] = 0
        both[:] = 0
        for v in range(V):
            c = turned[v, a]
            if c >= 0:
                column, weight = turned[v], alpha[v]
                for b in range(u):
                    # a choice between two numbers is vectorised where a product is not
                    same[b] += weight if column[b] == c else 0.0
                    both[b] += weight if column[b] >= 0 else 0.0
        for b in range(u):
            out[a, b] = same[b] / both[b] if both[b] > 0 else 0.0


@nb.njit(cache=True, nogil=True)
def bound_rows(
    turned: Any, alpha: Any, weights: Any, start: Any, stop: Any, same: Any, both: Any
) -> Any:
    """Σ over rows a in start..stop and all b of w_a w_b min(share together, share apart).

    ``same`` and ``both`` are work space, (u,) floats.
    """
    V, u = turned.shape
    total = 0.0
    for a in range(start, stop):
        same[:] = 0
        both[:] = 0
        for v in range(V):
            c = turned[v, a]
            if c >= 0:
                for b in range(u):
                    d = turned[v, b]
                    same[b] += alpha[v] * (d == c)
                    both[b] += alpha[v] * (d >= 0)
        row = 0.0
        for b in range(u):
            row += weights[b] * min(same[b], both[b] - same[b])
        total += weights[a] * row
    return total


@nb.njit(cache=True, nogil=True)
def bound_count_rows(turned: Any, weights: Any, start: Any, stop: Any, same: Any) -> Any:
    """The same for V equal weights and no missing labels, times V; ``same`` holds (u,) counts."""
    V, u = turned.shape
    total = 0.0
    for a in range(start, stop):
        same[:] = 0
        for v in range(V):
            c = turned[v, a]
            for b in range(u):
                same[b] += turned[v, b] == c
        row = 0.0
        for b in range(u):
            row += weights[b] * min(same[b], V - same[b])
        total += weights[a] * row
    return total
