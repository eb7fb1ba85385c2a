"""Compiled loops behind :mod:`coterie.label_tuples`: grouping equal rows, colouring tuples."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

__all__ = ["group_equal_rows", "refine_colours"]

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_MISSING_COLOUR = np.uint64(0x5851F42D4C957F2D)


def group_equal_rows(
    codes: NDArray[Any],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """First row of each group of equal rows, group of each row, size of each group.

    Open addressing on a 64-bit hash of the row; rows with equal hashes are compared cell
    by cell, so a collision costs time and never correctness. Groups are numbered in the
    order in which they appear.
    """
    n = len(codes)
    slots = 1 << max(4, int(2 * n - 1).bit_length())
    first, inverse, counts = _group_equal_rows(np.ascontiguousarray(codes), slots)
    return first, inverse, counts


def refine_colours(
    codes: NDArray[Any],
    offsets: NDArray[np.int64],
    weights: NDArray[np.uint64],
    most_rounds: int,
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
    """Colours of tuples (u,), clusters (m,) and partitions (V,) that no reordering changes.

    Rounds go on until all tuples differ in colour or no round tells more of them apart. Clusters
    are coloured last: where the tuples differ, so do the clusters of a partition.
    """
    u, V = codes.shape
    tuples = np.zeros(u, np.uint64)
    clusters = np.zeros(offsets[-1], np.uint64)
    partitions = np.zeros(V, np.uint64)
    _colour_clusters(codes, offsets, weights, tuples, clusters, partitions)
    n_colours = 0
    for _ in range(most_rounds):
        _colour_tuples(codes, weights, clusters, partitions, tuples)
        _colour_clusters(codes, offsets, weights, tuples, clusters, partitions)
        told_apart = 1 + int(np.count_nonzero(np.diff(np.sort(tuples))))
        if told_apart in (n_colours, u):
            break
        n_colours = told_apart
    return tuples, clusters, partitions


@nb.njit(cache=True, nogil=True, inline="always")
def _mix(a: Any, b: Any) -> Any:
    """One step of a 64-bit hash: fold b into a."""
    h = (a ^ b) * _MULTIPLIER
    return h ^ (h >> _SHIFT)


@nb.njit(cache=True, nogil=True)
def _hash_row(row: Any) -> Any:
    h = np.uint64(len(row))
    for cell in row:
        h = _mix(h, np.uint64(cell + 2))
    return h


@nb.njit(cache=True, nogil=True)
def _same(a: Any, b: Any) -> Any:
    for v in range(len(a)):  # noqa: SIM110 (numba compiles no generator)
        if a[v] != b[v]:
            return False
    return True


@nb.njit(cache=True, nogil=True)
def _group_equal_rows(codes: Any, slots: Any) -> Any:
    n = codes.shape[0]
    mask = np.uint64(slots - 1)
    table = np.full(slots, -1, np.int32)
    tags = np.zeros(slots, np.uint8)
    inverse = np.empty(n, np.int32)
    first = np.empty(n, np.int64)
    counts = np.empty(n, np.int64)
    n_groups = 0
    for i in range(n):
        h = _hash_row(codes[i])
        tag = np.uint8(h >> np.uint64(56))
        slot = h & mask
        while True:
            group = table[slot]
            if group < 0:
                table[slot] = n_groups
                tags[slot] = tag
                first[n_groups] = i
                counts[n_groups] = 1
                inverse[i] = n_groups
                n_groups += 1
                break
            if tags[slot] == tag and _same(codes[first[group]], codes[i]):
                counts[group] += 1
                inverse[i] = group
                break
            slot = (slot + np.uint64(1)) & mask
    return first[:n_groups].copy(), inverse, counts[:n_groups].copy()


@nb.njit(cache=True, nogil=True)
def _colour_clusters(
    codes: Any, offsets: Any, weights: Any, tuples: Any, clusters: Any, partitions: Any
) -> None:
    """Fold the colours of its tuples into each cluster, those of its clusters into a partition."""
    u, V = codes.shape
    gathered = np.zeros(len(clusters), np.uint64)
    for a in range(u):
        colour = _mix(tuples[a], weights[a]) * weights[a]
        for v in range(V):
            if codes[a, v] >= 0:
                gathered[codes[a, v]] += colour
    for v in range(V):
        total = np.uint64(0)
        for c in range(offsets[v], offsets[v + 1]):
            clusters[c] = _mix(clusters[c], gathered[c])
            total += _mix(clusters[c], _MULTIPLIER)
        partitions[v] = _mix(partitions[v], total)


@nb.njit(cache=True, nogil=True)
def _colour_tuples(codes: Any, weights: Any, clusters: Any, partitions: Any, tuples: Any) -> None:
    """Colour each tuple by the clusters it lies in, and by its weight."""
    u, V = codes.shape
    for a in range(u):
        total = np.uint64(0)
        for v in range(V):
            c = codes[a, v]
            own = clusters[c] if c >= 0 else _MISSING_COLOUR
            total += _mix(partitions[v], own)
        tuples[a] = _mix(weights[a], total)
