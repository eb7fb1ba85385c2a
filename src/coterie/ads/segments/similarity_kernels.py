"""Similarity kernels: compiled loops over pairs of curves and over the graph of similar pairs.

Curves F (A, G) are compared as integers round(F · scale), for which the compiler uses wide vector
instructions. The *gap* of a pair (i, j) is max_g |F_ig − F_jg|, in integer steps. Rounding changes
a gap by at most one step, so most pairs are decided by integers; the few pairs within one step of
their threshold are decided in float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from coterie.runtime.compiled_code import njit

__all__ = [
    "FINE",
    "STEPS",
    "TILE",
    "WIDE",
    "count_both",
    "fill_both",
    "fill_distances",
    "first_fault",
    "keep_near",
    "level_of",
    "pair_distances",
    "sieve_gaps",
    "similar_pairs",
    "widest_fine",
]

#: Scales of the integer curves: 15 bits to decide pairs, 24 bits to measure distances.
STEPS = 2**15 - 1
FINE = 2**24

#: Allows for float32 rounding of the bound in :func:`keep_near`.
WIDE = 1.0 + 1e-5
#: Columns j per tile: their part of the sieve stays in the cache.
TILE = 512

_MARGIN = 1.01  # rounding of two curves is at most one step; the rest is for float32
_SQUARE = 64  # columns per square: mirrored writes stay close together
_SLIP = 1e-9  # allowed rounding of c.d.f. values


@njit(nogil=True)
def similar_pairs(
    curves: Any,
    coarse: Any,
    sieve: Any,
    inverse: Any,
    criticals: Any,
    tolerance: Any,
    start: Any,
    stop: Any,
) -> Any:
    """Find the similar pairs i < j with start ≤ i < stop.

    Parameters
    ----------
    curves, coarse : (A, G) float64 and int16 arrays
        The curves, and round(curves · ``STEPS``).
    sieve : (S, A) int16 array
        S of the G columns of ``coarse``, transposed. Most pairs already differ too much in these.
    inverse : (A,) float64 array
        1/m, m being the observations of each curve.
    criticals : (L,) float64 array
        Critical values, descending. The level of a pair is the number of thresholds
        max(c·√(1/m_i + 1/m_j), tolerance) that its distance does not exceed; at level 0 it is
        not similar.
    tolerance : float
    start, stop : int
        The range of rows i.

    Returns
    -------
    counts : (stop − start,) int64 array
        Number of pairs of each row.
    columns, levels : (counts.sum(),) int32 and uint8 arrays
        j, ascending in each row, and the level of each pair, row by row.
    """
    A = len(curves)
    counts = np.zeros(stop - start, np.int64)
    # row r = i − start of these has counts[r] entries
    columns = np.empty((stop - start, A - start), np.int32)
    levels = np.empty((stop - start, A - start), np.uint8)
    # entry j − j0 of these is the gap in the sieve of (i, j), and whether the pair may be similar
    gaps = np.empty(TILE, np.int16)
    kept = np.empty(TILE, np.bool_)
    # bound[i] + bound[j] is the square of the largest threshold of (i, j), in steps
    largest = np.float32((criticals[0] * STEPS) ** 2 * WIDE)
    bound = largest * inverse.astype(np.float32)
    for first in range(start, A, TILE):
        last = min(first + TILE, A)
        for i in range(start, min(stop, last - 1)):
            j0 = max(first, i + 1)
            sieve_gaps(sieve, i, j0, last, gaps)
            keep_near(gaps, bound[i], bound[j0:last], np.float32(tolerance * STEPS), kept)
            row = i - start
            for j in range(j0, last):
                if kept[j - j0]:
                    level = level_of(curves, coarse, inverse, criticals, tolerance, i, j)
                    if level > 0:
                        columns[row, counts[row]] = j
                        levels[row, counts[row]] = level
                        counts[row] += 1
    return counts, _packed(columns, counts), _packed(levels, counts)


@njit(nogil=True)
def pair_distances(fine: Any, start: Any, counts: Any, columns: Any) -> Any:
    """Compute the distances (E,) of the pairs found by :func:`similar_pairs` in rows from start.

    ``fine`` (A, G) int32 is round(curves · ``FINE``).
    """
    distances = np.empty(len(columns), np.float64)
    entry = 0  # index into columns
    for row in range(len(counts)):
        for _ in range(counts[row]):
            gap = widest_fine(fine[start + row], fine[columns[entry]])
            distances[entry] = gap / FINE
            entry += 1
    return distances


@njit(nogil=True)
def count_both(counts: Any, columns: Any, levels: Any, level: Any) -> Any:
    """Return the CSR row pointers (A + 1,) of the symmetric graph of pairs of at least ``level``.

    Parameters
    ----------
    counts : (A,) int64 array
        Number of entries of each row above the diagonal.
    columns, levels : (E,) arrays
        Columns of these entries, ascending in each row, and their levels.
    level : int
    """
    # first the number of entries of row i in pointers[i + 1], then their cumulative sum
    pointers = np.zeros(len(counts) + 1, np.int64)
    entry = 0
    for i in range(len(counts)):
        for _ in range(counts[i]):
            if levels[entry] >= level:
                pointers[i + 1] += 1
                pointers[columns[entry] + 1] += 1
            entry += 1
    for i in range(len(counts)):
        pointers[i + 1] += pointers[i]
    return pointers


@njit(nogil=True)
def fill_both(
    starts: Any,
    columns: Any,
    levels: Any,
    weights: Any,
    level: Any,
    pointers: Any,
    first: Any,
    last: Any,
    neighbours: Any,
    stored: Any,
) -> None:
    """Fill rows first … last − 1 of the graph: neighbours, ascending, and weights.

    Called for a few thousand rows at a time, because entries left of the diagonal are mirrored
    ones and are written in scattered order.

    Parameters
    ----------
    starts : (A + 1,) int64 array
        Index of the first entry of each row in ``columns``.
    columns, levels, weights : (E,) arrays
        The entries above the diagonal.
    level : int
    pointers : (A + 1,) int64 array
        From :func:`count_both`.
    first, last : int
    neighbours, stored : (pointers[−1],) arrays
        Columns and weights of the graph, to be filled.
    """
    # place[r] is where the next entry of row first + r is written
    place = pointers[first:last].copy()
    for i in range(last):
        # mirrored entries: row i of the upper half is column i of the rows first … last − 1
        entry = starts[i] + np.searchsorted(columns[starts[i] : starts[i + 1]], first)
        while entry < starts[i + 1] and columns[entry] < last:
            if levels[entry] >= level:
                row = columns[entry] - first
                neighbours[place[row]] = i
                stored[place[row]] = weights[entry]
                place[row] += 1
            entry += 1
        # all entries left of row i's diagonal are written now; those right of it follow
        if i >= first:
            for own in range(starts[i], starts[i + 1]):
                if levels[own] >= level:
                    neighbours[place[i - first]] = columns[own]
                    stored[place[i - first]] = weights[own]
                    place[i - first] += 1


@njit(nogil=True)
def fill_distances(fine: Any, start: Any, stop: Any, out: Any) -> None:
    """Fill rows start … stop − 1 of the distances right of the diagonal, and their mirror images.

    ``fine`` (A, G) int32 is round(curves · ``FINE``); ``out`` is (A, A) float32. A distance is a
    multiple of 1/``FINE``, which float32 represents exactly.
    """
    A = len(fine)
    for first in range(start, A, _SQUARE):
        last = min(first + _SQUARE, A)
        for i in range(start, stop):
            for j in range(max(first, i + 1), last):
                distance = np.float32(widest_fine(fine[i], fine[j])) / np.float32(FINE)
                out[i, j] = distance
                out[j, i] = distance


@njit(nogil=True)
def first_fault(curves: Any) -> Any:
    """Return row and column of the first value that breaks a c.d.f., or −1, −1."""
    A, G = curves.shape
    for i in range(A):
        before = 0.0
        for g in range(G):
            value = curves[i, g]
            if not before - _SLIP <= value <= 1.0 + _SLIP:  # also true for NaN
                return i, g
            before = max(before, value)
    return -1, -1


@njit(nogil=True)
def sieve_gaps(sieve: Any, i: Any, first: Any, last: Any, gaps: Any) -> None:
    """Write the gaps of i and first … last − 1 in the columns of the sieve to ``gaps``."""
    gaps.fill(0)
    for s in range(len(sieve)):
        own = sieve[s, i]
        others = sieve[s, first:last]
        for j in range(last - first):
            apart = np.int16(others[j] - own)
            gaps[j] = max(gaps[j], apart, np.int16(-apart))


@njit(nogil=True)
def keep_near(gaps: Any, own_bound: Any, bounds: Any, tolerance: Any, kept: Any) -> None:
    """Mark pairs that may be similar: gap² ≤ c²(1/m_i + 1/m_j) or gap ≤ tolerance.

    ``bounds[j]`` and ``own_bound`` are c²/m in squared steps, ``tolerance`` is in steps, and gaps
    are reduced by the rounding margin.
    """
    for j in range(len(bounds)):
        gap = np.float32(gaps[j]) - np.float32(_MARGIN)
        kept[j] = (gap <= tolerance) | (gap * gap <= own_bound + bounds[j])


@njit(nogil=True)
def level_of(
    curves: Any, coarse: Any, inverse: Any, criticals: Any, tolerance: Any, i: Any, j: Any
) -> Any:
    """Return the number of thresholds that the distance of i and j does not exceed."""
    gap = _widest_coarse(coarse[i], coarse[j])
    spread = math.sqrt(inverse[i] + inverse[j])
    exact = -1.0  # the float64 distance, computed only if the gap does not decide
    for level in range(len(criticals)):
        threshold = max(criticals[level] * spread, tolerance)
        if gap - _MARGIN > threshold * STEPS:
            return level
        if gap + _MARGIN > threshold * STEPS:
            if exact < 0.0:
                exact = _widest_exact(curves[i], curves[j])
            if exact > threshold:
                return level
    return len(criticals)


@njit(nogil=True)
def _widest_coarse(a: Any, b: Any) -> Any:
    widest = np.int16(0)
    for g in range(len(a)):
        apart = np.int16(a[g] - b[g])
        widest = max(widest, apart, np.int16(-apart))
    return widest


@njit(nogil=True)
def widest_fine(a: Any, b: Any) -> Any:
    """Return the gap of two rows of fine integers."""
    widest = np.int32(0)
    for g in range(len(a)):
        apart = np.int32(a[g] - b[g])
        widest = max(widest, apart, np.int32(-apart))
    return widest


@njit(nogil=True)
def _widest_exact(a: Any, b: Any) -> Any:
    widest = 0.0
    for g in range(len(a)):
        widest = max(widest, abs(a[g] - b[g]))
    return widest


@njit(nogil=True)
def _packed(rows: Any, counts: Any) -> Any:
    """Join the first ``counts[r]`` cells of each row r."""
    packed = np.empty(counts.sum(), rows.dtype)
    place = 0
    for r in range(len(counts)):
        for c in range(counts[r]):  # assigning slices takes numba seconds to compile
            packed[place] = rows[r, c]
            place += 1
    return packed
