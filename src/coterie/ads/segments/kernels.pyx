"""Compiled loops over pairs of curves, and over the graph of similar pairs.

Curves F (A, G) are compared as integers round(F · scale), for which the compiler uses wide vector
instructions. The *gap* of a pair (i, j) is max_g |F_ig − F_jg|, in integer steps. Rounding changes
a gap by at most one step, so most pairs are decided by integers; the few pairs within one step of
their threshold are decided in float64. Arrays of curves:

- ``curves`` (A, G) float64, ``coarse`` (A, G) int16 = round(curves · ``STEPS``) to decide pairs, and
  ``fine`` (A, G) int32 = round(curves · ``FINE``) to measure distances;
- ``sieve`` (S, A): S of the G columns of ``coarse``, transposed. Most pairs already differ too much
  in these;
- ``inverse`` (A,): 1/m, m being the observations of each curve;
- ``criticals`` (L,): critical values, descending. The *level* of a pair is the number of thresholds
  max(c·√(1/m_i + 1/m_j), tolerance) that its distance does not exceed; at level 0 it is not similar.
"""

import numpy as np

from libc.math cimport fabs, sqrt
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from coterie.runtime.processor cimport is_wide

ctypedef fused weight:
    uint8_t
    float

cdef enum:
    COARSE_STEPS = 32767  # 15 bits
    FINE_STEPS = 16777216  # 24 bits, which float32 represents exactly
    TILE = 512  # columns j per tile: their part of the sieve stays in the cache
    SQUARE = 64  # columns per square: mirrored writes stay close together

STEPS = COARSE_STEPS
FINE = FINE_STEPS

cdef double MARGIN = 1.01  # rounding of two curves is at most one step; the rest is for float32
cdef double WIDE = 1.0 + 1e-5  # allows for float32 rounding of the bound in keep_near
cdef double SLIP = 1e-9  # allowed rounding of c.d.f. values


def similar_pairs(
    const double[:, ::1] curves, const int16_t[:, ::1] coarse, const int16_t[:, ::1] sieve,
    const double[::1] inverse, const double[::1] criticals, double tolerance, Py_ssize_t start,
    Py_ssize_t stop,
):
    """Find the similar pairs i < j with start ≤ i < stop.

    Returns
    -------
    counts : (stop − start,) int64 array
        Number of pairs of each row.
    columns, levels : (counts.sum(),) int32 and uint8 arrays
        j, ascending in each row, and the level of each pair, row by row.
    """
    cdef Py_ssize_t A = curves.shape[0], n = stop - start, first, last, i, j, j0, level
    numbers = np.zeros(n, np.int64)
    # row i − start of these has counts[i − start] entries
    found, passed = np.empty((n, A - start), np.int32), np.empty((n, A - start), np.uint8)
    cdef int64_t[::1] counts = numbers
    cdef int32_t[:, ::1] columns = found
    cdef uint8_t[:, ::1] levels = passed
    cdef float[::1] bounds = squared_thresholds(inverse, criticals)
    # entry j − j0 of these is the gap in the sieve of (i, j), and whether the pair may be similar
    cdef int16_t[TILE] gaps
    cdef uint8_t[TILE] kept
    with nogil:
        first = start
        while first < A:
            last = min(first + TILE, A)
            for i in range(start, min(stop, last - 1)):
                j0 = max(first, i + 1)
                keep_near(sieve, bounds, tolerance, i, j0, last, gaps, kept)
                for j in range(j0, last):
                    if kept[j - j0]:
                        level = level_of(curves, coarse, inverse, criticals, tolerance, i, j)
                        if level > 0:
                            columns[i - start, counts[i - start]] = j
                            levels[i - start, counts[i - start]] = level
                            counts[i - start] += 1
            first = last
    is_used = np.arange(A - start) < numbers[:, None]
    return numbers, found[is_used], passed[is_used]


def nearest_similar(
    const double[:, ::1] curves, const int16_t[:, ::1] coarse, const int32_t[:, ::1] fine,
    const int16_t[:, ::1] sieve, const double[::1] inverse, const int64_t[::1] seniority,
    const double[::1] criticals, double tolerance, Py_ssize_t start, Py_ssize_t stop,
    Py_ssize_t most,
):
    """Find the nearest similar curves j ≠ i of each i, start ≤ i < stop, and count all of them.

    All pairs are compared, but what is kept of them grows with the number of curves only. Of curves
    at the same distance those of a smaller ``seniority`` (A,) come first, then those that follow i
    most closely: a fixed order would give all curves the same few neighbours. ``most`` is the
    largest number of neighbours of a curve.

    Returns
    -------
    counts : (stop − start,) int64 array
        Number of neighbours that are kept of each row.
    columns, levels : (stop − start, most) int32 and uint8 arrays
        j, nearest first, and the level of each; those from ``counts`` on have no meaning.
    similar : (stop − start, L) int64 array
        Number of similar curves at each level, kept or not.
    """
    cdef Py_ssize_t A = curves.shape[0], n = stop - start, first, last, i, j, row, level, place, k
    numbers, found = np.zeros(n, np.int64), np.zeros((n, most), np.int32)
    passed, all_similar = np.zeros((n, most), np.uint8), np.zeros((n, len(criticals)), np.int64)
    cdef int64_t[::1] counts = numbers
    cdef int32_t[:, ::1] columns = found
    cdef uint8_t[:, ::1] levels = passed
    cdef int64_t[:, ::1] similar = all_similar
    # distance and order among equals of the neighbours kept, ascending
    cdef int32_t[:, ::1] far = np.zeros((n, most), np.int32)
    cdef int64_t[:, ::1] ties = np.zeros((n, most), np.int64)
    cdef float[::1] bounds = squared_thresholds(inverse, criticals)
    cdef int16_t[TILE] gaps
    cdef uint8_t[TILE] kept
    cdef int32_t gap
    cdef int64_t tie
    with nogil:
        first = 0
        while first < A:
            last = min(first + TILE, A)
            for i in range(start, stop):
                row = i - start
                keep_near(sieve, bounds, tolerance, i, first, last, gaps, kept)
                for j in range(first, last):
                    if not kept[j - first] or j == i:
                        continue
                    level = level_of(curves, coarse, inverse, criticals, tolerance, i, j)
                    if level == 0:
                        continue
                    for k in range(level):
                        similar[row, k] += 1
                    gap = widest_fine(&fine[i, 0], &fine[j, 0], fine.shape[1])
                    tie = seniority[j] * A + (j - i + A) % A
                    place = counts[row]
                    while place > 0 and (
                        gap < far[row, place - 1]
                        or (gap == far[row, place - 1] and tie < ties[row, place - 1])
                    ):
                        place -= 1
                    if place >= most:
                        continue
                    counts[row] = min(counts[row] + 1, most)
                    for k in range(counts[row] - 1, place, -1):
                        columns[row, k], levels[row, k] = columns[row, k - 1], levels[row, k - 1]
                        far[row, k], ties[row, k] = far[row, k - 1], ties[row, k - 1]
                    columns[row, place], levels[row, place] = j, level
                    far[row, place], ties[row, place] = gap, tie
            first = last
    return numbers, found, passed, all_similar


def count_leaders(
    const double[:, ::1] curves, const int16_t[:, ::1] coarse, const double[::1] inverse,
    const double[::1] critical, double tolerance, const int64_t[::1] order,
):
    """Return the number of clusters of the leader rule, without the graph of similar curves.

    The first curve of ``order`` that no leader has taken leads, and takes all similar curves that
    are left. ``critical`` (1,) is the critical value.
    """
    cdef uint8_t[::1] taken = np.zeros(len(curves), np.uint8)
    cdef Py_ssize_t i, j, leaders = 0
    with nogil:
        for i in range(order.shape[0]):
            if taken[order[i]]:
                continue
            taken[order[i]] = True
            leaders += 1
            for j in range(curves.shape[0]):
                if not taken[j]:
                    taken[j] = level_of(
                        curves, coarse, inverse, critical, tolerance, order[i], j
                    ) > 0
    return leaders


def pair_distances(
    const int32_t[:, ::1] fine, Py_ssize_t start, const int64_t[::1] counts,
    const int32_t[::1] columns,
):
    """Return the distances (E,) of the pairs found by :func:`similar_pairs` in rows from start."""
    distances = np.empty(len(columns))
    cdef double[::1] out = distances
    cdef Py_ssize_t row, stop, entry = 0  # index into columns
    with nogil:
        for row in range(counts.shape[0]):
            stop = entry + counts[row]
            while entry < stop:
                out[entry] = <double>widest_fine(
                    &fine[start + row, 0], &fine[columns[entry], 0], fine.shape[1]
                ) / FINE_STEPS
                entry += 1
    return distances


def fill_distances(
    const int32_t[:, ::1] fine, Py_ssize_t start, Py_ssize_t stop, float[:, ::1] out
):
    """Fill rows start … stop − 1 of the distances right of the diagonal, and their mirror images.

    ``out`` is (A, A). A distance is a multiple of 1/``FINE``, which float32 represents exactly.
    """
    cdef Py_ssize_t A = fine.shape[0], first, i, j
    with nogil:
        first = start
        while first < A:
            for i in range(start, stop):
                for j in range(max(first, i + 1), min(first + SQUARE, A)):
                    out[i, j] = out[j, i] = <float>widest_fine(
                        &fine[i, 0], &fine[j, 0], fine.shape[1]
                    ) / FINE_STEPS
            first += SQUARE


def first_fault(const double[:, ::1] curves):
    """Return row and column of the first value that breaks a c.d.f., or −1, −1."""
    cdef Py_ssize_t i, g
    cdef double before, value
    for i in range(curves.shape[0]):
        before = 0.0
        for g in range(curves.shape[1]):
            value = curves[i, g]
            if not before - SLIP <= value <= 1.0 + SLIP:  # also true for NaN
                return i, g
            before = max(before, value)
    return -1, -1


def symmetric_graph(
    const int64_t[::1] counts, const int32_t[::1] columns, const uint8_t[::1] levels,
    const weight[::1] weights, int level,
):
    """Return row pointers, columns and weights of the CSR graph of pairs of at least ``level``.

    ``counts`` (A,) is the number of pairs i < j of each row i, ``columns``, ``levels`` and
    ``weights`` (E,) are j, ascending in each row, the level and the weight of each pair. The graph
    has each pair in both rows; its columns ascend.
    """
    cdef Py_ssize_t A = counts.shape[0], i, j, stop, entry = 0
    # first the number of entries of row i in pointers[i + 1], then their cumulative sum
    pointers = np.zeros(A + 1, np.int64)
    cdef int64_t[::1] numbers = pointers
    with nogil:
        for i in range(A):
            stop = entry + counts[i]
            while entry < stop:
                if levels[entry] >= level:
                    numbers[i + 1] += 1
                    numbers[columns[entry] + 1] += 1
                entry += 1
    pointers = np.cumsum(pointers)
    # no negative index: Cython 3.3.0 counts it from the end twice
    neighbours = np.empty(pointers[A], np.int32)
    stored = np.empty(pointers[A], np.asarray(weights).dtype)
    cdef int64_t[::1] place = pointers[:A].copy()  # of the next entry of each row
    cdef int32_t[::1] neighbour = neighbours
    cdef weight[::1] store = stored
    entry = 0
    with nogil:
        for i in range(A):
            # the entries of row i left of its diagonal were written from the rows above
            stop = entry + counts[i]
            while entry < stop:
                if levels[entry] >= level:
                    j = columns[entry]
                    neighbour[place[i]], neighbour[place[j]] = j, i
                    store[place[i]] = store[place[j]] = weights[entry]
                    place[i] += 1
                    place[j] += 1
                entry += 1
    return pointers, neighbours, stored


cdef squared_thresholds(const double[::1] inverse, const double[::1] criticals):
    """Return float32 x (A,): x[i] + x[j] is the square of the largest threshold of (i, j)."""
    largest = np.float32((criticals[0] * COARSE_STEPS) ** 2 * WIDE)
    return largest * np.asarray(inverse, np.float32)


cdef inline void keep_near(
    const int16_t[:, ::1] sieve, const float[::1] bounds, double tolerance, Py_ssize_t i,
    Py_ssize_t first, Py_ssize_t last, int16_t* gaps, uint8_t* kept,
) noexcept nogil:
    """Mark the pairs of i and first … last − 1 that may be similar, by their gaps in the sieve.

    A pair may be similar if gap² ≤ c²(1/m_i + 1/m_j) or gap ≤ tolerance, in steps, with gaps
    reduced by the rounding margin.
    """
    cdef Py_ssize_t s, j, n = last - first
    cdef const int16_t* others
    cdef const float* other_bounds = &bounds[first]
    cdef int16_t own, apart
    cdef float gap, own_bound = bounds[i], in_steps = <float>(tolerance * COARSE_STEPS)
    cdef float margin = <float>MARGIN
    for j in range(n):
        gaps[j] = 0
    for s in range(sieve.shape[0]):
        own = sieve[s, i]
        others = &sieve[s, first]
        for j in range(n):
            apart = <int16_t>(others[j] - own)
            apart = max(apart, <int16_t>-apart)
            gaps[j] = max(gaps[j], apart)
    for j in range(n):
        gap = <float>gaps[j] - margin
        kept[j] = (gap <= in_steps) | (gap * gap <= own_bound + other_bounds[j])


cdef inline Py_ssize_t level_of(
    const double[:, ::1] curves, const int16_t[:, ::1] coarse, const double[::1] inverse,
    const double[::1] criticals, double tolerance, Py_ssize_t i, Py_ssize_t j,
) noexcept nogil:
    """Return the number of thresholds that the distance of i and j does not exceed."""
    cdef int16_t gap = widest_coarse(&coarse[i, 0], &coarse[j, 0], coarse.shape[1])
    cdef double spread = sqrt(inverse[i] + inverse[j]), threshold
    cdef double exact = -1.0  # the float64 distance, computed only if the gap does not decide
    cdef Py_ssize_t level, g
    for level in range(criticals.shape[0]):
        threshold = max(criticals[level] * spread, tolerance)
        if gap - MARGIN > threshold * COARSE_STEPS:
            return level
        if gap + MARGIN > threshold * COARSE_STEPS:
            if exact < 0.0:
                for g in range(curves.shape[1]):
                    exact = max(exact, fabs(curves[i, g] - curves[j, g]))
            if exact > threshold:
                return level
    return criticals.shape[0]


cdef inline int16_t widest_coarse(const int16_t* a, const int16_t* b, Py_ssize_t G) noexcept nogil:
    cdef int16_t highest = 0, lowest = 0, apart
    cdef Py_ssize_t g
    for g in range(G):
        apart = <int16_t>(a[g] - b[g])
        highest = max(highest, apart)
        lowest = min(lowest, apart)
    return max(highest, <int16_t>-lowest)


cdef inline int32_t widest_fine(const int32_t* a, const int32_t* b, Py_ssize_t G) noexcept nogil:
    cdef int32_t highest = 0, lowest = 0, apart
    cdef Py_ssize_t g
    for g in range(G):
        apart = a[g] - b[g]
        highest = max(highest, apart)
        lowest = min(lowest, apart)
    return max(highest, -lowest)


# The same functions, compiled for vectors of 256 bits, replace those above where they can run.
if __name__ == "coterie.ads.segments.kernels" and is_wide():
    try:
        from coterie.ads.segments.wide_kernels import *
    except ImportError:  # a compiler or a processor that has no such build
        pass
