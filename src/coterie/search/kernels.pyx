"""Compiled loops that move tuples between clusters.

Arrays are those of :mod:`coterie.counts.kernels`; ``labels[a]`` is the cluster of tuple a, −1 for
none. The gain of tuple a in cluster b is same[b] − τ both[b], without the pairs of the tuple with
itself.
"""

import numpy as np

from libc.math cimport INFINITY, fabs
from libc.stdint cimport int64_t, uint8_t

from coterie.counts.votes cimport Tables, Votes, first_largest, sum_votes
from coterie.labels.codes cimport column


def find_tuples_that_may_move(
    const column[:, ::1] codes, const double[::1] weights, const int64_t[::1] labels,
    const float[:, ::1] scores, float own_part, float tolerance, Py_ssize_t start,
    Py_ssize_t stop, uint8_t[::1] may_move,
):
    """Set ``may_move[a]`` for the tuples start..stop that may gain by a move.

    Gains are computed in single precision, which halves the memory to read. Tuples whose gain is
    zero within ``tolerance`` are marked too; :func:`move_rows` decides in double precision.

    Parameters
    ----------
    scores : (m, K + 1) float32, a view of (m + 1, K + 1)
        ``scores[c, b]`` = α_v (N[c, b] − τ present_v[b]) for base cluster c of partition v, and
        α_v in the last column. The row before the first one, which the code −1 of a missing
        label selects, is zero.
    own_part : 1 − τ
        A tuple of weight 1 adds α_v times this to the gain of its own cluster.
    tolerance : bound of the rounding error of a gain
    """
    cdef Py_ssize_t V = codes.shape[1], whole = V - V % 4
    cdef Py_ssize_t width = scores.shape[1], a, v, b
    # sums[b] is the gain in cluster b; sums[K] is the weight of the partitions that label tuple a
    cdef float[::1] work = np.empty(width, np.float32)
    cdef float* sums = &work[0]
    cdef const float* first = &scores[0, 0]
    cdef const float* s0
    cdef const float* s1
    cdef const float* s2
    cdef const float* s3
    cdef const column* row
    cdef int64_t old
    cdef int above
    cdef float bar
    with nogil:
        for a in range(start, stop):
            old = labels[a]
            if old < 0:
                may_move[a] = True
                continue
            row = &codes[a, 0]
            for b in range(width):
                sums[b] = 0
            # four partitions at a time reduce the loads and stores of ``sums`` to a quarter
            for v in range(0, whole, 4):
                s0, s1 = first + row[v] * width, first + row[v + 1] * width
                s2, s3 = first + row[v + 2] * width, first + row[v + 3] * width
                for b in range(width):
                    sums[b] += (s0[b] + s1[b]) + (s2[b] + s3[b])
            for v in range(whole, V):
                s0 = first + row[v] * width
                for b in range(width):
                    sums[b] += s0[b]
            bar = <float>(sums[old] - weights[a] * own_part * sums[width - 1] - tolerance)
            sums[old] = sums[width - 1] = -INFINITY
            # counting all clusters is faster than stopping at the first, as it has no branches
            above = 0
            for b in range(width):
                above += sums[b] > bar
            may_move[a] = above > 0


def move_rows(
    const column[:, ::1] codes, const double[:, ::1] memberships, const int64_t[::1] partition_of,
    const double[::1] weights, const double[::1] alpha, double threshold, bint complete,
    Py_ssize_t start, Py_ssize_t stop, const uint8_t[::1] may_move, int64_t[::1] labels,
    double[:, ::1] table, double[:, ::1] present, double[::1] size,
):
    """Move each marked tuple of start..stop to its best cluster; return the number of moves.

    Labels and tables are updated after every move, so each move raises the current score.
    """
    cdef Py_ssize_t width = codes.shape[1], K = size.shape[0], a, b, new, moved = 0
    cdef double[:, ::1] sums = np.empty((2, K))
    cdef double* same = &sums[0, 0]
    cdef double* both = &sums[1, 0]
    cdef const column* row
    cdef const double* shares = NULL
    cdef bint soft = memberships is not None
    cdef int64_t old
    cdef Votes votes
    cdef Tables tables = Tables(
        &alpha[0], &table[0, 0], &present[0, 0], &size[0], &partition_of[0], K, complete
    )
    with nogil:
        for a in range(start, stop):
            if not may_move[a]:
                continue
            row, old = &codes[a, 0], labels[a]
            if soft:
                shares = &memberships[a, 0]
            votes = sum_votes(row, shares, width, &tables, same, both)
            for b in range(K):
                same[b] -= threshold * both[b]
            if soft and old >= 0:
                same[old] -= weights[a] * (votes.own_same - threshold * votes.own_both)
            elif old >= 0:
                same[old] -= weights[a] * (1.0 - threshold) * votes.total
            new = first_largest(same, K)
            # a difference within rounding is a tie, or the search might never end
            if old >= 0 and not (
                same[new] > same[old] + 1e-9 * (fabs(same[old]) + votes.total)
            ):
                continue
            moved += 1
            labels[a] = new
            add_to_cluster(row, shares, width, weights[a], new, partition_of, table, present, size)
            if old >= 0:
                add_to_cluster(
                    row, shares, width, -weights[a], old, partition_of, table, present, size
                )
    return moved


cdef inline void add_to_cluster(
    const column* row, const double* shares, Py_ssize_t width, double weight, Py_ssize_t b,
    const int64_t[::1] partition_of, double[:, ::1] table, double[:, ::1] present,
    double[::1] size,
) noexcept nogil:
    """Add a row to the tables of cluster b, or take it away if its weight is negative."""
    cdef Py_ssize_t s
    cdef double mass
    size[b] += weight
    for s in range(width):
        if row[s] >= 0:
            mass = weight if shares == NULL else weight * shares[s]
            table[row[s], b] += mass
            present[partition_of[row[s]], b] += mass
