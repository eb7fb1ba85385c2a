"""Compiled loops on curves, one in each row: isotonic regression and concave envelopes."""

import numpy as np

from libc.stdint cimport int64_t


def pool_violators(const double[:, ::1] values, const double[:, ::1] weights):
    """Return the non-decreasing rows of :func:`~coterie.ads.curves.landscapes.monotone_rows`."""
    cdef Py_ssize_t n_rows = values.shape[0], n = values.shape[1], a, g, first, top, block, step
    rows = np.zeros((n_rows, n))
    cdef double[:, ::1] found = rows
    # blocks of equal height: weighted sum, weight, first and last entry
    cdef double[::1] sums = np.empty(n), masses = np.empty(n)
    cdef int64_t[::1] firsts = np.empty(n, np.int64), lasts = np.empty(n, np.int64)
    cdef double total, mass, height, following
    cdef int64_t gap
    with nogil:
        for a in range(n_rows):
            top = -1
            for g in range(n):
                if weights[a, g] <= 0:
                    continue
                total, mass, first = values[a, g] * weights[a, g], weights[a, g], g
                while top >= 0 and sums[top] * mass >= total * masses[top]:
                    total += sums[top]
                    mass += masses[top]
                    first = firsts[top]
                    top -= 1
                top += 1
                sums[top], masses[top], firsts[top], lasts[top] = total, mass, first, g
            if top < 0:
                continue
            # the heights of the blocks, level beyond the ends and straight lines between them
            firsts[0], lasts[top] = 0, n - 1
            for block in range(top + 1):
                height = sums[block] / masses[block]
                for g in range(firsts[block], lasts[block] + 1):
                    found[a, g] = height
                if block < top:
                    following = sums[block + 1] / masses[block + 1]
                    gap = firsts[block + 1] - lasts[block]
                    for step in range(1, gap):
                        found[a, lasts[block] + step] = height + (following - height) * step / gap
    return rows


def concave_envelopes(const double[:, ::1] spend, const double[:, ::1] amount):
    """Return curve, end point, cost and gain of the edges of all concave envelopes, by curve.

    ``spend`` and ``amount`` (A, P) are points of A curves that begin at the origin.
    """
    cdef Py_ssize_t n = spend.shape[0], size = spend.shape[1], a, p, i, top, found = 0
    curves, points = np.empty(n * size, np.int64), np.empty(n * size, np.int64)
    costs, gains = np.empty(n * size), np.empty(n * size)
    cdef int64_t[::1] curve = curves, point = points, hull = np.empty(size + 1, np.int64)
    cdef double[::1] cost = costs, gain = gains, xs = np.zeros(size + 1), ys = np.zeros(size + 1)
    cdef double x, y
    with nogil:
        for a in range(n):
            top = 0  # xs[0] and ys[0] are the origin
            for p in range(size):
                x, y = spend[a, p], amount[a, p]
                # a corner below the line from the corner before it to this point is left out
                while top > 0 and not (
                    (ys[top] - ys[top - 1]) * (x - xs[top - 1])
                    > (y - ys[top - 1]) * (xs[top] - xs[top - 1])
                ):
                    top -= 1
                if y > ys[top]:
                    top += 1
                    hull[top], xs[top], ys[top] = p, x, y
            for i in range(1, top + 1):
                curve[found], point[found] = a, hull[i]
                cost[found], gain[found] = xs[i] - xs[i - 1], ys[i] - ys[i - 1]
                found += 1
    return curves[:found], points[:found], costs[:found], gains[:found]
