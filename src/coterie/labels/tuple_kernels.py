"""Compiled loops for label tuples: groups of equal rows, and a sort order.

``codes[a, v]`` is the indicator column of tuple a in partition v, −1 if the label is missing. For
soft partitions ``codes[a]`` holds the columns of S slots, −1 if a slot is unused, and ``bits[a]``
the memberships in these slots, read as 64-bit integers. Tuples are sorted by their *colours*. These
are 64-bit hashes that depend neither on the order of points and partitions nor on label names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.runtime.compiled_code import njit
from coterie.runtime.devices import map_row_blocks

__all__ = ["group_equal_rows", "order_colours", "recoded_rows", "refine_colours", "slot_keys"]

Array = NDArray[np.float64]
Colours = NDArray[np.uint64]

#: 2⁶⁴ divided by the golden ratio, and a shift: the usual constants of multiplicative hashing.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_MISSING_COLOUR = np.uint64(0x5851F42D4C957F2D)
_SINGLED_OUT = np.uint64(0xD1B54A32D192ED03)
_MIN_THREAD_ROWS = 4_096
_MAX_ROUNDS = 30
#: Ties are broken one by one only up to this number of tuples, and this number of times.
_FEW_TUPLES = 2_000
_MAX_SINGLED_OUT = 200


def group_equal_rows(
    codes: NDArray[Any],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Return the first row of each group of equal rows, the group of each row, and group sizes.

    Groups are numbered in the order of their first rows. They are found with a hash table; rows
    with equal hashes are compared cell by cell, so collisions of hashes cause no errors.

    >>> [x.tolist() for x in group_equal_rows(np.array([[7, 1], [0, 0], [7, 1]]))]
    [[0, 1], [0, 1, 0], [2, 1]]
    """
    # at least twice as many slots as rows, and a power of two, so that a mask replaces a division
    slots = 1 << max(4, int(2 * len(codes) - 1).bit_length())
    first, inverse, counts = _group_equal_rows(np.ascontiguousarray(codes), slots)
    return first, inverse, counts


def recoded_rows(
    codes: NDArray[Any],
    rows: NDArray[Any],
    columns: NDArray[Any],
    starts: NDArray[Any],
    lookup: NDArray[Any],
) -> NDArray[Any]:
    """Return ``lookup[starts[j] + codes[rows[i], columns[j]]]`` for all i, j; −1 stays −1.

    It reads the codes once, on all cores, without intermediate copies.

    >>> codes = np.array([[0, 1], [1, -1]])
    >>> recoded_rows(codes, [1, 0], [1, 0], [0, 2], np.array([5, 6, 7, 8])).tolist()
    [[-1, 8], [6, 7]]
    """
    rows, columns, starts = (np.asarray(x, dtype=np.int64) for x in (rows, columns, starts))
    recoded = np.empty((len(rows), len(columns)), dtype=lookup.dtype)
    map_row_blocks(
        lambda a, b: _recode_rows(codes, rows, columns, starts, lookup, a, b, recoded),
        len(rows),
        at_least=_MIN_THREAD_ROWS,
    )
    return recoded


def slot_keys(codes: NDArray[Any], memberships: Array) -> NDArray[np.int64]:
    """Return integer rows (n, 2S), equal exactly where columns and memberships are equal."""
    return np.hstack([codes.astype(np.int64), memberships.view(np.int64)])


def order_colours(
    codes: NDArray[Any],
    offsets: NDArray[np.int64],
    weights: Array,
    memberships: Array | None = None,
) -> tuple[Colours, Colours, Colours]:
    """Return the colours of tuples, clusters and partitions by which they are sorted.

    Tuples with equal colours after :func:`refine_colours` are interchangeable, except in rare
    cases. But the order of tied tuples must be consistent with the order of their clusters and
    partitions. So one of them gets a unique weight, and the colours are refined again. This is
    repeated until all tuples have different colours.
    """
    whole = bool((weights == np.floor(weights)).all())
    seeds = weights.astype(np.uint64) if whole else weights.view(np.uint64).copy()
    # turn[a] is the step in which tuple a got a unique weight
    turn = np.full(len(codes), _MAX_SINGLED_OUT, dtype=np.uint64)
    shared = colours = refine_colours(codes, offsets, seeds, _MAX_ROUNDS, memberships)
    for step in range(_MAX_SINGLED_OUT if len(codes) <= _FEW_TUPLES else 0):
        values, members = np.unique(colours[0], return_counts=True)
        tied = np.flatnonzero(members > 1)
        if not len(tied):
            break
        chosen = int(np.argmax(colours[0] == values[tied[0]]))
        turn[chosen], seeds[chosen] = step, _SINGLED_OUT + np.uint64(step)
        colours = refine_colours(codes, offsets, seeds, _MAX_ROUNDS, memberships)
    if colours is shared:
        return colours
    # sort by the first colours; the later ones only break ties
    return (
        _ranks(shared[0], turn, colours[0]),
        _ranks(shared[1], colours[1]),
        _ranks(shared[2], colours[2]),
    )


def refine_colours(
    codes: NDArray[Any],
    offsets: NDArray[np.int64],
    weights: Colours,
    max_rounds: int,
    memberships: Array | None = None,
) -> tuple[Colours, Colours, Colours]:
    """Compute colours of tuples (u,), clusters (m,) and partitions (V,) by colour refinement.

    First, the colour of a cluster is a hash of the weights of its tuples. Then every round computes
    the colours of tuples from those of their clusters, the colours of clusters from those of their
    tuples, and the colours of partitions from those of their clusters. Sets of colours are hashed
    by sums, which do not depend on the order. The rounds end when all tuples have different
    colours, or when a round adds no new colour. ``memberships`` (u, S) are compared bit by bit.
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
    previous = 0
    for _ in range(max_rounds):
        colour_tuples(codes, weights, clusters, partitions, tuples)
        colour_clusters(codes, offsets, weights, tuples, clusters, partitions)
        n_colours = 1 + int(np.count_nonzero(np.diff(np.sort(tuples))))
        if n_colours in (previous, u):
            break
        previous = n_colours
    return tuples, clusters, partitions


def _ranks(*keys: Colours) -> Colours:
    """Return the rank of each item by the first key; later keys break ties."""
    ranks = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)[1]
    return ranks.ravel().astype(np.uint64)


@njit(nogil=True)
def _recode_rows(
    codes: Any, rows: Any, columns: Any, starts: Any, lookup: Any, start: Any, stop: Any,
    recoded: Any,
) -> None:  # fmt: skip
    """Write rows start..stop of :func:`recoded_rows`."""
    for i in range(start, stop):
        row = rows[i]
        for j in range(len(columns)):
            c = codes[row, columns[j]]
            recoded[i, j] = lookup[starts[j] + c] if c >= 0 else -1


@njit(nogil=True, inline="always")
def _mix(a: Any, b: Any) -> Any:
    """Combine two 64-bit hashes."""
    h = (a ^ b) * _MULTIPLIER
    return h ^ (h >> _SHIFT)


@njit(nogil=True)
def _hash_row(row: Any) -> Any:
    h = np.uint64(len(row))
    for cell in row:
        h = _mix(h, np.uint64(cell + 2))
    return h


@njit(nogil=True)
def _same(a: Any, b: Any) -> Any:
    for v in range(len(a)):  # noqa: SIM110 (numba compiles no generator)
        if a[v] != b[v]:
            return False
    return True


@njit(nogil=True)
def _group_equal_rows(codes: Any, slots: Any) -> Any:
    """Group equal rows with a hash table of ``slots`` entries and open addressing.

    ``table[slot]`` is a group, −1 if the slot is empty; ``tags[slot]`` are 8 bits of its hash.
    """
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
        # The slot uses the low bits of the hash, the tag the high bits. Different rows in one
        # slot usually differ in the tag, which is cheaper to compare than the rows.
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


@njit(nogil=True)
def _colour_clusters(
    codes: Any, offsets: Any, weights: Any, tuples: Any, clusters: Any, partitions: Any
) -> None:
    """Update the colours of clusters from their tuples, and of partitions from their clusters.

    ``gathered[c]`` is the sum of hashes over the tuples of cluster c, times their weights.
    """
    u, V = codes.shape
    gathered = np.zeros(len(clusters), np.uint64)
    for a in range(u):
        colour = _mix(tuples[a], weights[a]) * weights[a]
        for v in range(V):
            if codes[a, v] >= 0:
                gathered[codes[a, v]] += colour
    _fold_into_partitions(offsets, gathered, clusters, partitions)


@njit(nogil=True)
def _fold_into_partitions(offsets: Any, gathered: Any, clusters: Any, partitions: Any) -> None:
    """Mix ``gathered[c]`` into the colour of cluster c, and clusters into their partition v."""
    for v in range(len(partitions)):
        total = np.uint64(0)
        for c in range(offsets[v], offsets[v + 1]):
            clusters[c] = _mix(clusters[c], gathered[c])
            total += _mix(clusters[c], _MULTIPLIER)
        partitions[v] = _mix(partitions[v], total)


@njit(nogil=True)
def _colour_tuples(codes: Any, weights: Any, clusters: Any, partitions: Any, tuples: Any) -> None:
    """Colour each tuple by its clusters and by its weight."""
    u, V = codes.shape
    for a in range(u):
        total = np.uint64(0)
        for v in range(V):
            c = codes[a, v]
            colour = clusters[c] if c >= 0 else _MISSING_COLOUR
            total += _mix(partitions[v], colour)
        tuples[a] = _mix(weights[a], total)


@njit(nogil=True)
def _colour_soft_clusters(
    bits: Any, codes: Any, offsets: Any, weights: Any, tuples: Any, clusters: Any, partitions: Any
) -> None:
    """Update colours as :func:`_colour_clusters`, with the memberships of soft partitions."""
    gathered = np.zeros(len(clusters), np.uint64)
    for a in range(codes.shape[0]):
        colour = _mix(tuples[a], weights[a])
        for s in range(codes.shape[1]):
            if codes[a, s] >= 0:
                gathered[codes[a, s]] += _mix(colour, bits[a, s]) * weights[a]
    _fold_into_partitions(offsets, gathered, clusters, partitions)


@njit(nogil=True)
def _colour_soft_tuples(
    bits: Any, partition_of: Any, codes: Any, weights: Any, clusters: Any, partitions: Any,
    tuples: Any,
) -> None:  # fmt: skip
    """Colour each tuple of soft partitions by its clusters, memberships and weight."""
    for a in range(codes.shape[0]):
        total = np.uint64(0)
        for s in range(codes.shape[1]):
            c = codes[a, s]
            if c >= 0:
                place = _mix(partitions[partition_of[c]], clusters[c])
                total += _mix(place, bits[a, s])
        tuples[a] = _mix(weights[a], total)
