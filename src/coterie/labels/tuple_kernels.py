"""Compiled loops behind :mod:`coterie.labels.tuples`: grouping equal rows, colouring tuples."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from coterie.runtime.devices import map_row_blocks

__all__ = ["group_equal_rows", "recoded_rows", "refine_colours", "slot_keys"]

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_ROWS_OF_A_THREAD = 4_096
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


def recoded_rows(
    codes: NDArray[Any],
    rows: NDArray[Any],
    columns: NDArray[Any],
    starts: NDArray[Any],
    lookup: NDArray[Any],
) -> NDArray[Any]:
    """``lookup[starts[j] + codes[rows[i], columns[j]]]`` for all i, j; −1 where the code is.

    On all cores, in one pass and without a copy on the way.

    >>> codes = np.array([[0, 1], [1, -1]])
    >>> recoded_rows(codes, [1, 0], [1, 0], [0, 2], np.array([5, 6, 7, 8])).tolist()
    [[-1, 8], [6, 7]]
    """
    rows, columns, starts = (np.asarray(x, dtype=np.int64) for x in (rows, columns, starts))
    recoded = np.empty((len(rows), len(columns)), dtype=lookup.dtype)
    map_row_blocks(
        lambda a, b: _recode_rows(codes, rows, columns, starts, lookup, a, b, recoded),
        len(rows),
        at_least=_ROWS_OF_A_THREAD,
    )
    return recoded


def slot_keys(codes: NDArray[Any], memberships: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rows of whole numbers (n, 2S) that are equal where columns and memberships are."""
    return np.hstack([codes.astype(np.int64), memberships.view(np.int64)])


def refine_colours(
    codes: NDArray[Any],
    offsets: NDArray[np.int64],
    weights: NDArray[np.uint64],
    most_rounds: int,
    memberships: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
    """Colours of tuples (u,), clusters (m,) and partitions (V,) that no reordering changes.

    Rounds go on until all tuples differ in colour or no round tells more of them apart. Clusters
    are coloured last: where the tuples differ, so do the clusters of a partition. Memberships of
    soft partitions count to the last bit.
    """
    u, V = len(codes), len(offsets) - 1
    tuples = np.zeros(u, np.uint64)
    clusters = np.zeros(offsets[-1], np.uint64)
    partitions = np.zeros(V, np.uint64)
    colour_tuples: Callable[..., None] = _colour_tuples
    colour_clusters: Callable[..., None] = _colour_clusters
    if memberships is not None:
        bits = memberships.view(np.uint64)
        partition_of = np.repeat(np.arange(V), np.diff(offsets))
        colour_tuples = partial(_colour_soft_tuples, bits, partition_of)
        colour_clusters = partial(_colour_soft_clusters, bits)
    colour_clusters(codes, offsets, weights, tuples, clusters, partitions)
    n_colours = 0
    for _ in range(most_rounds):
        colour_tuples(codes, weights, clusters, partitions, tuples)
        colour_clusters(codes, offsets, weights, tuples, clusters, partitions)
        told_apart = 1 + int(np.count_nonzero(np.diff(np.sort(tuples))))
        if told_apart in (n_colours, u):
            break
        n_colours = told_apart
    return tuples, clusters, partitions


@nb.njit(cache=True, nogil=True)
def _recode_rows(
    codes: Any, rows: Any, columns: Any, starts: Any, lookup: Any, start: Any, stop: Any,
    recoded: Any,
) -> None:  # fmt: skip
    for i in range(start, stop):
        row = rows[i]
        for j in range(len(columns)):
            c = codes[row, columns[j]]
            recoded[i, j] = lookup[starts[j] + c] if c >= 0 else -1


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
    _fold_into_partitions(offsets, gathered, clusters, partitions)


@nb.njit(cache=True, nogil=True)
def _fold_into_partitions(offsets: Any, gathered: Any, clusters: Any, partitions: Any) -> None:
    for v in range(len(partitions)):
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


@nb.njit(cache=True, nogil=True)
def _colour_soft_clusters(
    bits: Any, codes: Any, offsets: Any, weights: Any, tuples: Any, clusters: Any, partitions: Any
) -> None:
    """The same of slots, ``bits`` being their memberships."""
    gathered = np.zeros(len(clusters), np.uint64)
    for a in range(codes.shape[0]):
        colour = _mix(tuples[a], weights[a])
        for s in range(codes.shape[1]):
            if codes[a, s] >= 0:
                gathered[codes[a, s]] += _mix(colour, bits[a, s]) * weights[a]
    _fold_into_partitions(offsets, gathered, clusters, partitions)


@nb.njit(cache=True, nogil=True)
def _colour_soft_tuples(
    bits: Any, partition_of: Any, codes: Any, weights: Any, clusters: Any, partitions: Any,
    tuples: Any,
) -> None:  # fmt: skip
    """The same of slots, ``bits`` being their memberships."""
    for a in range(codes.shape[0]):
        total = np.uint64(0)
        for s in range(codes.shape[1]):
            c = codes[a, s]
            if c >= 0:
                place = _mix(partitions[partition_of[c]], clusters[c])
                total += _mix(place, bits[a, s])
        tuples[a] = _mix(weights[a], total)
