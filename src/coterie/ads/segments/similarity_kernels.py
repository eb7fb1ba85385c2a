"""Compiled loops over pairs of curves: the widest gap, which pairs are similar, both halves.

Curves are compared as integers, which the compiler turns into the widest vector instructions
there are. Rounding F to ``round(F · scale)`` moves a gap by at most one step, so a pair whose gap
is further than that from its threshold is decided; the few others are decided in float64.
"""

from __future__ import annotations

import math
from typing import Any

import numba as nb
import numpy as np

__all__ = [
    "FINE",
    "STEPS",
    "count_both",
    "fill_both",
    "fill_distances",
    "first_fault",
    "pair_distances",
    "similar_pairs",
]

#: Steps of the integer curves: 15 bits decide on pairs, 24 bits measure distances.
STEPS = 2**15 - 1
FINE = 2**24

_MARGIN = 1.01  # one step of rounding in a gap of two, and a little for the rounding of float32
_WIDE = 1.0 + 1e-5  # what float32 may lose in the sieve's right-hand side
_TILE = 512
_SQUARE = 64
_SLIP = 1e-9


@nb.njit(cache=True, nogil=True)
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
    """Similar pairs i < j with start ≤ i < stop: how many a row, their j ascending, their levels.

    Parameters
    ----------
    curves, coarse : (A, G) float64 and int16 arrays
        The curves, and the same in ``STEPS``.
    sieve : (S, A) int16 array
        A few columns of ``coarse``, turned: most pairs differ too much already in these.
    inverse : (A,) float64 array
        1/m.
    criticals : (L,) float64 array
        Critical values, descending. The level of a pair is how many of the thresholds
        max(c·√(1/m_i + 1/m_j), tolerance) its gap does not exceed; 0 is not similar.
    tolerance : float
    start, stop : int
        The rows.
    """
    A = len(curves)
    counts = np.zeros(stop - start, np.int64)
    columns = np.empty((stop - start, A - start), np.int32)
    levels = np.empty((stop - start, A - start), np.uint8)
    gaps = np.empty(_TILE, np.int16)
    kept = np.empty(_TILE, np.bool_)
    largest = np.float32((criticals[0] * STEPS) ** 2 * _WIDE)
    bound = largest * inverse.astype(np.float32)
    for first in range(start, A, _TILE):
        last = min(first + _TILE, A)
        for i in range(start, min(stop, last - 1)):
            j0 = max(first, i + 1)
            _sieve_gaps(sieve, i, j0, last, gaps)
            _keep_near(gaps, bound[i], bound[j0:last], np.float32(tolerance * STEPS), kept)
            row = i - start
            for j in range(j0, last):
                if kept[j - j0]:
                    level = _level(curves, coarse, inverse, criticals, tolerance, i, j)
                    if level > 0:
                        columns[row, counts[row]] = j
                        levels[row, counts[row]] = level
                        counts[row] += 1
    return counts, _packed(columns, counts), _packed(levels, counts)


@nb.njit(cache=True, nogil=True)
def pair_distances(fine: Any, start: Any, counts: Any, columns: Any) -> Any:
    """Distances of the pairs that :func:`similar_pairs` found in rows from start on.

    ``fine`` holds the curves in ``FINE`` steps, (A, G) int32.
    """
    distances = np.empty(len(columns), np.float64)
    entry = 0
    for row in range(len(counts)):
        for _ in range(counts[row]):
            gap = _widest_fine(fine[start + row], fine[columns[entry]])
            distances[entry] = gap / FINE
            entry += 1
    return distances


@nb.njit(cache=True, nogil=True)
def count_both(counts: Any, columns: Any, levels: Any, level: Any) -> Any:
    """Row pointers (A + 1,) of the graph, both halves, of the pairs of at least a level.

    Parameters
    ----------
    counts : (A,) int64 array
        How many entries each row has above the diagonal.
    columns, levels : (E,) arrays
        Their columns, ascending in a row, and their levels.
    level : int
    """
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


@nb.njit(cache=True, nogil=True)
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
    """Fill in rows first..last of the graph: their neighbours, ascending, and what is stored.

    A few thousand rows at a time, since entries left of the diagonal come turned, scattered
    over the rows that are being filled.

    Parameters
    ----------
    starts : (A + 1,) int64 array
        Where the entries of each row begin.
    columns, levels, weights : (E,) arrays
        The entries above the diagonal.
    level : int
    pointers : (A + 1,) int64 array
        Of :func:`count_both`.
    first, last : int
    neighbours, stored : arrays to fill
    """
    place = pointers[first:last].copy()
    for i in range(last):
        entry = starts[i] + np.searchsorted(columns[starts[i] : starts[i + 1]], first)
        while entry < starts[i + 1] and columns[entry] < last:
            if levels[entry] >= level:
                row = columns[entry] - first
                neighbours[place[row]] = i
                stored[place[row]] = weights[entry]
                place[row] += 1
            entry += 1
        # what lies left of row i's diagonal came from the rows before it: now the right
        if i >= first:
            for own in range(starts[i], starts[i + 1]):
                if levels[own] >= level:
                    neighbours[place[i - first]] = columns[own]
                    stored[place[i - first]] = weights[own]
                    place[i - first] += 1


@nb.njit(cache=True, nogil=True)
def fill_distances(fine: Any, start: Any, stop: Any, out: Any) -> None:
    """Rows start..stop of the distances to the right of the diagonal, and their mirror images.

    ``fine`` holds the curves in ``FINE`` steps, (A, G) int32; a distance is a multiple of
    1/``FINE``, which float32 holds exactly. Squares keep the turned writes near each other.
    """
    A = len(fine)
    for first in range(start, A, _SQUARE):
        last = min(first + _SQUARE, A)
        for i in range(start, stop):
            for j in range(max(first, i + 1), last):
                distance = np.float32(_widest_fine(fine[i], fine[j])) / np.float32(FINE)
                out[i, j] = distance
                out[j, i] = distance


@nb.njit(cache=True, nogil=True)
def first_fault(curves: Any) -> Any:
    """Row and column of the first value outside [0, 1] or below the one before it; else −1, −1."""
    A, G = curves.shape
    for i in range(A):
        before = 0.0
        for g in range(G):
            value = curves[i, g]
            if not before - _SLIP <= value <= 1.0 + _SLIP:  # written so that NaN is a fault
                return i, g
            before = max(before, value)
    return -1, -1


@nb.njit(cache=True, nogil=True)
def _sieve_gaps(sieve: Any, i: Any, first: Any, last: Any, gaps: Any) -> None:
    """The widest gap of i and each of first..last in the columns of the sieve."""
    gaps.fill(0)
    for s in range(len(sieve)):
        own = sieve[s, i]
        others = sieve[s, first:last]
        for j in range(last - first):
            apart = np.int16(others[j] - own)
            gaps[j] = max(gaps[j], apart, np.int16(-apart))


@nb.njit(cache=True, nogil=True)
def _keep_near(gaps: Any, own_bound: Any, bounds: Any, tolerance: Any, kept: Any) -> None:
    """Keep what may be similar: gap² ≤ c²(1/m_i + 1/m_j) or gap ≤ tolerance, give or take."""
    for j in range(len(bounds)):
        gap = np.float32(gaps[j]) - np.float32(_MARGIN)
        kept[j] = (gap <= tolerance) | (gap * gap <= own_bound + bounds[j])


@nb.njit(cache=True, nogil=True)
def _level(
    curves: Any, coarse: Any, inverse: Any, criticals: Any, tolerance: Any, i: Any, j: Any
) -> Any:
    """How many thresholds the gap of i and j does not exceed."""
    gap = _widest_coarse(coarse[i], coarse[j])
    spread = math.sqrt(inverse[i] + inverse[j])
    exact = -1.0
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


@nb.njit(cache=True, nogil=True)
def _widest_coarse(a: Any, b: Any) -> Any:
    widest = np.int16(0)
    for g in range(len(a)):
        apart = np.int16(a[g] - b[g])
        widest = max(widest, apart, np.int16(-apart))
    return widest


@nb.njit(cache=True, nogil=True)
def _widest_fine(a: Any, b: Any) -> Any:
    widest = np.int32(0)
    for g in range(len(a)):
        apart = np.int32(a[g] - b[g])
        widest = max(widest, apart, np.int32(-apart))
    return widest


@nb.njit(cache=True, nogil=True)
def _widest_exact(a: Any, b: Any) -> Any:
    widest = 0.0
    for g in range(len(a)):
        widest = max(widest, abs(a[g] - b[g]))
    return widest


@nb.njit(cache=True, nogil=True)
def _packed(rows: Any, counts: Any) -> Any:
    """The first ``counts[r]`` cells of each row, one row after the other."""
    packed = np.empty(counts.sum(), rows.dtype)
    place = 0
    for r in range(len(counts)):
        for c in range(counts[r]):  # assigning slices takes numba seconds to compile
            packed[place] = rows[r, c]
            place += 1
    return packed
