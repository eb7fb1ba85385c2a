"""Compiled loops of the discrete search: cluster tables, sweeps over tuples, assignment of rows."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

__all__ = ["add_to_tables", "assign_rows", "silhouette_rows", "sweep"]


@nb.njit(cache=True, nogil=True)
def add_to_tables(
    codes: Any, weights: Any, labels: Any, table: Any, present: Any, size: Any
) -> None:
    """Add every labelled tuple to the tables: clusters (m, K), presence (V, K), sizes (K,)."""
    u, V = codes.shape
    for a in range(u):
        b = labels[a]
        if b < 0:
            continue
        size[b] += weights[a]
        for v in range(V):
            c = codes[a, v]
            if c >= 0:
                table[c, b] += weights[a]
                present[v, b] += weights[a]


@nb.njit(cache=True, nogil=True)
def _gains(
    row: Any,
    alpha: Any,
    threshold: Any,
    complete: Any,
    table: Any,
    present: Any,
    size: Any,
    gains: Any,
) -> Any:
    """g(b) = Σ_v α_v (N_v[row_v, b] − τ present_v[b]) over the partitions that label the row.

    Returns the weight of those partitions.
    """
    K = len(size)
    total = 0.0
    for b in range(K):
        gains[b] = 0.0
    for v in range(len(row)):
        c = row[v]
        if c >= 0:
            total += alpha[v]
            for b in range(K):
                gains[b] += alpha[v] * table[c, b]
            if not complete:
                for b in range(K):
                    gains[b] -= alpha[v] * threshold * present[v, b]
    if complete:
        for b in range(K):
            gains[b] -= total * threshold * size[b]
    return total


@nb.njit(cache=True, nogil=True)
def sweep(
    codes: Any,
    weights: Any,
    alpha: Any,
    threshold: Any,
    complete: Any,
    labels: Any,
    table: Any,
    present: Any,
    size: Any,
) -> Any:
    """Move every tuple, in turn, to the cluster where it gains most; the number that moved.

    A tuple stays where it is on a tie. Labels and tables change in place.
    """
    u, V = codes.shape
    gains = np.empty(len(size))
    moved = 0
    for a in range(u):
        row = codes[a]
        w = weights[a]
        total = _gains(row, alpha, threshold, complete, table, present, size, gains)
        old = labels[a]
        if old >= 0:
            gains[old] -= w * (1.0 - threshold) * total
        new = np.argmax(gains)
        if old >= 0 and gains[new] <= gains[old] + 1e-9 * (abs(gains[old]) + total):
            continue
        moved += 1
        labels[a] = new
        size[new] += w
        if old >= 0:
            size[old] -= w
        for v in range(V):
            c = row[v]
            if c >= 0:
                table[c, new] += w
                present[v, new] += w
                if old >= 0:
                    table[c, old] -= w
                    present[v, old] -= w
    return moved


@nb.njit(cache=True, nogil=True)
def assign_rows(
    codes: Any,
    alpha: Any,
    threshold: Any,
    complete: Any,
    table: Any,
    present: Any,
    size: Any,
    start: Any,
    stop: Any,
    given: Any,
    labels: Any,
    confidence: Any,
) -> None:
    """Cluster of largest gain for rows start..stop, and how clear it is; the tables stay.

    ``given[i]`` ≥ 0 fixes the label, and only the confidence is computed: the mean share of
    votes with which the row stands beside members of its cluster, less that of the next best
    cluster, never below 0. A row without any label gets −1 and 0.
    """
    K = len(size)
    gains = np.empty(K)
    for i in range(start, stop):
        row = codes[i]
        total = _gains(row, alpha, threshold, complete, table, present, size, gains)
        if total == 0.0:
            labels[i] = given[i]
            confidence[i] = 0.0
            continue
        best = np.argmax(gains) if given[i] < 0 else given[i]
        labels[i] = best
        own = 0.0
        other = 0.0
        for b in range(K):
            same = 0.0
            both = 0.0
            for v in range(len(row)):
                c = row[v]
                if c >= 0:
                    same += alpha[v] * table[c, b]
                    both += alpha[v] * present[v, b]
            share = same / both if both > 0 else 0.0
            if b == best:
                own = share
            elif share > other:
                other = share
        confidence[i] = max(own - other, 0.0)


@nb.njit(cache=True, nogil=True)
def silhouette_rows(
    codes: Any,
    alpha: Any,
    table: Any,
    present: Any,
    size: Any,
    labels: Any,
    start: Any,
    stop: Any,
    silhouettes: Any,
) -> None:
    """Silhouette of a point of each of the rows start..stop, under the distance 1 − share of votes.

    Its own vote for itself is left out; alone in its cluster, or without any label, it has 0.
    """
    K = len(size)
    for i in range(start, stop):
        row = codes[i]
        own = -1.0
        other = 0.0
        for b in range(K):
            same = 0.0
            both = 0.0
            for v in range(len(row)):
                c = row[v]
                if c >= 0:
                    itself = 1.0 if b == labels[i] else 0.0
                    same += alpha[v] * (table[c, b] - itself)
                    both += alpha[v] * (present[v, b] - itself)
            if both > 0.0:
                if b == labels[i]:
                    own = same / both
                elif same / both > other:
                    other = same / both
        farther = max(1.0 - own, 1.0 - other)
        silhouettes[i] = (own - other) / farther if own >= 0.0 and farther > 0.0 else 0.0
