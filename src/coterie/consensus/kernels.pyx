"""Compiled loops of single consensus functions.

``codes[v, a]`` (V, u) is the cluster of tuple a in partition v, −1 if it is missing. Rows start..stop
are those that one thread works on.
"""

import numpy as np

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int64_t, uint8_t

from coterie.labels.codes cimport column


def add_shared(
    const column[:, ::1] codes, const double[::1] strength, Py_ssize_t start, Py_ssize_t stop,
    double[:, ::1] out,
):
    """Fill rows start..stop of ``out`` (u, u): Σ strength of the clusters that two tuples share.

    ``strength`` (m,) is α_v ω_c of every cluster; see :class:`~coterie.LocallyWeightedConsensus`.
    """
    cdef Py_ssize_t a, b, v, u = codes.shape[1]
    cdef double* row
    cdef const column* others
    cdef column c
    cdef double x
    with nogil:
        for a in range(start, stop):
            row = &out[a, 0]
            for b in range(u):
                row[b] = 0.0
            for v in range(codes.shape[0]):
                others = &codes[v, 0]
                c = others[a]
                if c >= 0:
                    x = strength[c]
                    for b in range(u):
                        row[b] += x if others[b] == c else 0.0


def add_similar(
    const column[:, ::1] codes, const double[::1] alpha, const double[:, ::1] Z, Py_ssize_t start,
    Py_ssize_t stop, double[:, ::1] out,
):
    """Add to rows start..stop of ``out`` (u, u): Σ_v α_v Z of the clusters of both tuples in v.

    ``Z`` (m, m) is the similarity of clusters; see :class:`~coterie.PropagatedConsensus`.
    """
    cdef Py_ssize_t a, b, v, u = codes.shape[1]
    cdef double* row
    cdef const column* others
    cdef const double* similar
    cdef double x
    with nogil:
        for a in range(start, stop):
            row = &out[a, 0]
            for v in range(codes.shape[0]):
                others, x = &codes[v, 0], alpha[v]
                if others[a] >= 0:
                    similar = &Z[others[a], 0]
                    for b in range(u):
                        if others[b] >= 0:
                            row[b] += x * similar[others[b]]


def visit_rows(
    const double[:, ::1] M, const double[::1] points, const double[:, ::1] profile,
    const double[::1] mass, double penalty, double floor, Py_ssize_t start, Py_ssize_t stop,
    double[:, ::1] pull, double[::1] gains,
):
    """Fill rows start..stop of ``pull`` and ``gains`` of :class:`~coterie.KLConsensus`.

    M (u, u), points ω (u,), profile W (u, K), mass d (K,), floor ε. Row a of ``pull`` (u, K)
    becomes that of (M ∘ (e^−t − e^−λ)) diag(ω) W, and ``gains[a]`` is
    Σ_b ω_b M_ab (S_ab (e^−t − e^−λ) + t_ab).
    """
    cdef Py_ssize_t a, b, k, K = profile.shape[1]
    cdef double low = exp(-penalty), high = exp(penalty), gain, s, ratio, t, votes
    cdef const double* other
    cdef double* row
    cdef double[:, ::1] work = np.empty((stop - start, max(K, 1)))
    cdef double* scaled
    with nogil:
        for a in range(start, stop):
            row, scaled = &pull[a, 0], &work[a - start, 0]
            for k in range(K):
                scaled[k], row[k] = profile[a, k] * mass[k], 0.0
            gain = 0.0
            for b in range(M.shape[1]):
                if M[a, b] > 0.0:
                    other = &profile[b, 0]
                    s = floor
                    for k in range(K):
                        s += scaled[k] * other[k]
                    # e^−t − e^−λ, without the exponential of a clipped logarithm
                    ratio = min(max(1.0 / s, low), high) - low
                    t = min(max(log(s), -penalty), penalty)
                    votes = points[b] * M[a, b]
                    gain += votes * (s * ratio + t)
                    for k in range(K):
                        row[k] += votes * ratio * other[k]
            gains[a] = gain


cdef enum Linkage:
    AVERAGE, SINGLE, COMPLETE


#: Numbers of the linkages for :func:`merge_closest`.
LINKAGES = {"average": AVERAGE, "single": SINGLE, "complete": COMPLETE}


def merge_closest(double[:, ::1] table, double[::1] size, Linkage kind, double[:, ::1] tree):
    """Fill ``tree`` (u − 1, 4) by merging the closest two clusters u − 1 times.

    ``table`` (u, u) has the distances, for average linkage summed over pairs of points, and
    ``size`` (u,) the number of points of each cluster. A merged cluster uses the row of its first
    part. ``nearest[a]`` is the cluster nearest to a, and ``least[a]`` its distance. A merged
    cluster is never nearer than the nearer of its parts. So after a merge of the nearest cluster,
    ``least[a]`` is a lower bound. It is marked as outdated, and computed again only if it is the
    least of all, as in the generic algorithm of Müllner (2011).
    """
    cdef Py_ssize_t u = size.shape[0], step, closest, a, b, c
    cdef int64_t[::1] node = np.arange(u), nearest = np.zeros(u, np.int64)
    cdef double[::1] leaves = np.ones(u), least = np.full(u, INFINITY)
    cdef uint8_t[::1] alive = np.ones(u, np.uint8), outdated = np.zeros(u, np.uint8)
    cdef double joint, d
    with nogil:
        for a in range(u):
            find_nearest(table, size, kind, alive, a, nearest, least)
        for step in range(u - 1):
            closest = first_least(least)
            while outdated[closest]:
                find_nearest(table, size, kind, alive, closest, nearest, least)
                outdated[closest] = False
                closest = first_least(least)
            a, b = min(closest, nearest[closest]), max(closest, nearest[closest])
            leaves[a] += leaves[b]
            tree[step, 0], tree[step, 1] = min(node[a], node[b]), max(node[a], node[b])
            tree[step, 2], tree[step, 3] = least[closest], leaves[a]
            node[a] = u + step
            alive[b] = False
            least[b] = INFINITY
            for c in range(u):  # row and column a become those of the union
                if alive[c] and c != a:
                    if kind == AVERAGE:
                        joint = table[a, c] + table[b, c]
                    elif kind == SINGLE:
                        joint = min(table[a, c], table[b, c])
                    else:
                        joint = max(table[a, c], table[b, c])
                    table[a, c] = table[c, a] = joint
            size[a] += size[b]
            for c in range(u):
                if alive[c] and c != a:
                    d = distance(table, size, kind, a, c)
                    if d < least[c]:
                        nearest[c], least[c], outdated[c] = a, d, False
                    elif d == least[c] and not outdated[c]:
                        nearest[c] = min(nearest[c], a)
                    elif nearest[c] == a or nearest[c] == b:
                        outdated[c] = True
            find_nearest(table, size, kind, alive, a, nearest, least)
            outdated[a] = False


cdef inline void find_nearest(
    const double[:, ::1] table, const double[::1] size, Linkage kind, const uint8_t[::1] alive,
    Py_ssize_t a, int64_t[::1] nearest, double[::1] least,
) noexcept nogil:
    """Set ``nearest[a]``, the first if several are nearest, and ``least[a]``; inf if none is."""
    cdef Py_ssize_t c, best = nearest[a]
    cdef double d, low = INFINITY
    for c in range(size.shape[0]):
        if alive[c] and c != a:
            d = distance(table, size, kind, a, c)
            if d < low:
                best, low = c, d
    nearest[a], least[a] = best, low


cdef inline double distance(
    const double[:, ::1] table, const double[::1] size, Linkage kind, Py_ssize_t a, Py_ssize_t b
) noexcept nogil:
    return table[a, b] / (size[a] * size[b]) if kind == AVERAGE else table[a, b]


cdef inline Py_ssize_t first_least(const double[::1] values) noexcept nogil:
    cdef Py_ssize_t best = 0, a
    cdef double low = values[0]
    for a in range(1, values.shape[0]):
        if values[a] < low:
            best, low = a, values[a]
    return best
