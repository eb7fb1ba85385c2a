"""Nearest kernels: compiled loops that keep only the nearest similar curves of each curve.

All pairs are compared, as in :mod:`coterie.ads.segments.similarity_kernels`, but what is kept of
them grows with the number of curves only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.ads.segments.similarity_kernels import (
    STEPS,
    TILE,
    WIDE,
    keep_near,
    level_of,
    sieve_gaps,
    widest_fine,
)
from coterie.runtime.compiled_code import njit

__all__ = ["count_leaders", "nearest_similar"]


@njit(nogil=True)
def nearest_similar(
    curves: Any,
    coarse: Any,
    fine: Any,
    sieve: Any,
    inverse: Any,
    seniority: Any,
    criticals: Any,
    tolerance: Any,
    start: Any,
    stop: Any,
    most: Any,
) -> Any:
    """Find the nearest similar curves j ≠ i of each i, start ≤ i < stop, and count all of them.

    Of curves at the same distance those of a smaller ``seniority`` come first, then those that
    follow i most closely: a fixed order would give all curves the same few neighbours.

    Parameters
    ----------
    curves, coarse, sieve, inverse, criticals, tolerance, start, stop
        As for :func:`~coterie.ads.segments.similarity_kernels.similar_pairs`.
    fine : (A, G) int32 array
        round(curves · ``FINE``), by which distances are compared.
    seniority : (A,) int64 array
        From 0 to A − 1.
    most : int
        The largest number of neighbours of a curve.

    Returns
    -------
    counts : (stop − start,) int64 array
        Number of neighbours that are kept of each row.
    columns, levels : (stop − start, most) int32 and uint8 arrays
        j, nearest first, and the level of each; those from ``counts`` on have no meaning.
    similar : (stop − start, L) int64 array
        Number of similar curves at each level, kept or not.
    """
    A, n = len(curves), stop - start
    counts = np.zeros(n, np.int64)
    columns = np.zeros((n, most), np.int32)
    levels = np.zeros((n, most), np.uint8)
    similar = np.zeros((n, len(criticals)), np.int64)
    # distance and order among equals of the neighbours kept, ascending
    far = np.zeros((n, most), np.int32)
    ties = np.zeros((n, most), np.int64)
    gaps = np.empty(TILE, np.int16)
    kept = np.empty(TILE, np.bool_)
    bound = np.float32((criticals[0] * STEPS) ** 2 * WIDE) * inverse.astype(np.float32)
    for first in range(0, A, TILE):
        last = min(first + TILE, A)
        for i in range(start, stop):
            row = i - start
            sieve_gaps(sieve, i, first, last, gaps)
            keep_near(gaps, bound[i], bound[first:last], np.float32(tolerance * STEPS), kept)
            for j in range(first, last):
                if not kept[j - first] or j == i:
                    continue
                level = level_of(curves, coarse, inverse, criticals, tolerance, i, j)
                for passed in range(level):
                    similar[row, passed] += 1
                if level == 0:
                    continue
                gap = widest_fine(fine[i], fine[j])
                tie = seniority[j] * A + (j - i) % A
                place = _place(far[row], ties[row], counts[row], gap, tie)
                if place < most:
                    counts[row] = min(counts[row] + 1, most)
                    _insert(columns[row], counts[row], place, j)
                    _insert(levels[row], counts[row], place, level)
                    _insert(far[row], counts[row], place, gap)
                    _insert(ties[row], counts[row], place, tie)
    return counts, columns, levels, similar


@njit(nogil=True)
def count_leaders(
    curves: Any, coarse: Any, inverse: Any, critical: Any, tolerance: Any, order: Any
) -> Any:
    """Return the number of clusters of the leader rule, without the graph of similar curves.

    The first curve of ``order`` that no leader has taken leads, and takes all similar curves that
    are left. ``critical`` (1,) is the critical value.
    """
    taken = np.zeros(len(curves), np.bool_)
    leaders = 0
    for leader in order:
        if taken[leader]:
            continue
        taken[leader] = True
        leaders += 1
        for j in range(len(curves)):
            if not taken[j]:
                level = level_of(curves, coarse, inverse, critical, tolerance, leader, j)
                taken[j] = level > 0
    return leaders


@njit(nogil=True)
def _place(far: Any, ties: Any, count: Any, gap: Any, tie: Any) -> Any:
    """Return where a neighbour belongs among ``count`` others in ascending order."""
    place = count
    while place > 0 and (gap < far[place - 1] or (gap == far[place - 1] and tie < ties[place - 1])):
        place -= 1
    return place


@njit(nogil=True)
def _insert(entries: Any, count: Any, place: Any, value: Any) -> None:
    """Insert a value; of more than ``count`` entries the last is lost."""
    for later in range(count - 1, place, -1):
        entries[later] = entries[later - 1]
    entries[place] = value
