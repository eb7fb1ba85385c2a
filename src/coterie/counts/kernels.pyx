"""Compiled loops that count: cluster tables, contingency tables, co-association, lower bounds.

Names of arrays and indices in all kernels:

- ``codes[a, v]`` is the base cluster c of tuple a in partition v, −1 if the label is missing. For
  soft partitions ``codes[a]`` has S slots: the base clusters in which the tuple has a share,
  increasing, with −1 in unused slots at the end;
- ``memberships[a, s]`` are these shares π, ``partition_of[c]`` is the partition of base cluster c;
- ``transposed`` (V, u) is the transpose of ``codes``, so that loops over tuples b read contiguous
  memory;
- ``weights[a]`` is the number of points of tuple a, ``alpha[v]`` the weight α_v of partition v;
- ``table[c, b]`` = N[c, b] is the number of points of base cluster c in cluster b, (m, K);
- ``present[v, b]`` is the number of points of cluster b that partition v labels, (V, K);
- ``size[b]`` is the number of points of cluster b;
- ``start`` and ``stop`` bound the rows that one thread works on.

Most kernels need two sums for a row with codes c_v, over the partitions v that label it, or with
shares π_v in partition v and their sum m_v:

    same[b] = Σ_v α_v N[c_v, b]        or  Σ_v α_v Σ_c π_vc N[c, b]
    both[b] = Σ_v α_v present_v[b]     or  Σ_v α_v m_v present_v[b]

These are the votes that put the row together with points of cluster b, and all votes on such pairs.
A row of shares that is in cluster b adds Σ_v α_v |π_v|² to same[b] and Σ_v α_v m_v² to both[b].
Sums are in double precision, so counts of points are exact.
"""

import numpy as np

from cython cimport floating
from libc.stdint cimport int64_t, uint8_t, uint16_t

from coterie.counts.votes cimport Tables, Votes, first_largest, sum_votes
from coterie.labels.codes cimport column
from coterie.runtime.processor cimport is_wide

ctypedef fused count:
    uint8_t
    uint16_t

ctypedef fused narrow:
    uint8_t
    uint16_t

cdef enum:
    # rows that are transposed together; V × 2048 codes of 2 bytes fit in the second-level cache
    TILE = 2048


# Cluster tables


def add_to_tables(
    const column[:, ::1] codes, const double[:, ::1] memberships, const double[::1] weights,
    const int64_t[::1] labels, Py_ssize_t start, Py_ssize_t stop, double[:, ::1] table,
    double[::1] size,
):
    """Add the weights of tuples start..stop to ``table`` and ``size``; skip the label −1.

    ``present`` needs no counting: it is the sum of ``table`` over the clusters of a partition.
    """
    cdef Py_ssize_t a, s, width = codes.shape[1], K = table.shape[1]
    cdef bint soft = memberships is not None
    cdef const column* row
    cdef double* cells
    cdef double w
    with nogil:
        for a in range(start, stop):
            if labels[a] < 0:
                continue
            row, cells, w = &codes[a, 0], &table[0, labels[a]], weights[a]
            size[labels[a]] += w
            if soft:
                for s in range(width):
                    if row[s] >= 0:
                        cells[row[s] * K] += w * memberships[a, s]
            else:
                for s in range(width):
                    if row[s] >= 0:
                        cells[row[s] * K] += w


def assign_rows(
    const column[:, ::1] codes, const double[:, ::1] memberships, const int64_t[::1] partition_of,
    const double[::1] alpha, bint complete, const double[:, ::1] table,
    const double[:, ::1] present, const double[::1] size, double threshold,
    const int64_t[::1] given, Py_ssize_t start, Py_ssize_t stop, int64_t[::1] labels,
    double[::1] margin,
):
    """Write label and margin of rows start..stop.

    A row gets the cluster of the largest gain same[b] − τ both[b]; a label ``given`` ≥ 0 is kept.
    The margin is the share same / both of the cluster minus the largest share of another
    cluster, at least 0. A row without votes gets ``given`` and 0.
    """
    cdef Tables tables = tables_of(partition_of, alpha, complete, table, present, size)
    cdef double[:, ::1] sums = np.empty((3, max(tables.K, 1)))
    cdef double* same = &sums[0, 0]
    cdef double* both = &sums[1, 0]
    cdef double* gains = &sums[2, 0]
    cdef Py_ssize_t i, b
    cdef int64_t label
    cdef double share
    with nogil:
        for i in range(start, stop):
            labels[i], margin[i] = given[i], 0.0
            if votes_of_row(codes, memberships, i, &tables, same, both).total == 0.0:
                continue
            label = given[i]
            if label < 0:
                for b in range(tables.K):
                    gains[b] = same[b] - threshold * both[b]
                labels[i] = label = first_largest(gains, tables.K)
            share = to_shares(same, both, tables.K, label)
            margin[i] = max(share - largest(same, tables.K), 0.0)


def vote_share_rows(
    const column[:, ::1] codes, const double[:, ::1] memberships, const int64_t[::1] partition_of,
    const double[::1] alpha, bint complete, const double[:, ::1] table,
    const double[:, ::1] present, const double[::1] size, Py_ssize_t start, Py_ssize_t stop,
    double[:, ::1] shares,
):
    """Write the shares of votes (K,) of rows start..stop; 0 for clusters without common votes."""
    cdef Tables tables = tables_of(partition_of, alpha, complete, table, present, size)
    cdef double[:, ::1] sums = np.empty((2, max(tables.K, 1)))
    cdef Py_ssize_t i, b
    with nogil:
        for i in range(start, stop):
            votes_of_row(codes, memberships, i, &tables, &sums[0, 0], &sums[1, 0])
            for b in range(tables.K):
                shares[i, b] = sums[0, b] / sums[1, b] if sums[1, b] > 0 else 0.0


def silhouette_rows(
    const column[:, ::1] codes, const double[:, ::1] memberships, const int64_t[::1] partition_of,
    const double[::1] alpha, bint complete, const double[:, ::1] table,
    const double[:, ::1] present, const double[::1] size, const int64_t[::1] labels,
    Py_ssize_t start, Py_ssize_t stop, double[::1] silhouettes,
):
    """Write the silhouette of a point of each tuple start..stop, 0 if it is alone in its cluster.

    The distance is 1 − M. The pair of a point with itself does not count.
    """
    cdef Tables tables = tables_of(partition_of, alpha, complete, table, present, size)
    cdef double[:, ::1] sums = np.empty((2, max(tables.K, 1)))
    cdef double* same = &sums[0, 0]
    cdef double* both = &sums[1, 0]
    # sums of shares are rounded: a point is alone if the votes of others are below this share
    cdef double negligible = 0.0 if memberships is None else 1e-9
    cdef double share, other, farther
    cdef Py_ssize_t a
    cdef int64_t own
    cdef Votes votes
    with nogil:
        for a in range(start, stop):
            votes = votes_of_row(codes, memberships, a, &tables, same, both)
            own = labels[a]
            same[own] -= votes.own_same
            both[own] -= votes.own_both
            silhouettes[a] = 0.0
            if both[own] <= negligible * votes.own_both:
                continue
            share = to_shares(same, both, tables.K, own)
            other = largest(same, tables.K)
            # (b − a) / max(a, b) of the distances a = 1 − share and b = 1 − other
            farther = max(1.0 - share, 1.0 - other)
            if farther > 0.0:
                silhouettes[a] = (share - other) / farther


cdef inline Tables tables_of(
    const int64_t[::1] partition_of, const double[::1] alpha, bint complete,
    const double[:, ::1] table, const double[:, ::1] present, const double[::1] size,
) noexcept:
    return Tables(
        &alpha[0], &table[0, 0], &present[0, 0], &size[0], &partition_of[0], size.shape[0], complete
    )


cdef inline Votes votes_of_row(
    const column[:, ::1] codes, const double[:, ::1] memberships, Py_ssize_t a,
    const Tables* tables, double* same, double* both,
) noexcept nogil:
    """Fill ``same`` and ``both`` of row a of labels, or of shares if there are memberships."""
    cdef const double* shares = NULL
    if memberships is not None:
        shares = &memberships[a, 0]
    return sum_votes(&codes[a, 0], shares, codes.shape[1], tables, same, both)


cdef inline double to_shares(
    double* same, const double* both, Py_ssize_t K, int64_t own
) noexcept nogil:
    """Divide ``same`` by ``both``; return the share of cluster ``own``, which becomes 0."""
    cdef Py_ssize_t b
    cdef double share
    for b in range(K):
        # rounding may put the ratio slightly above one
        same[b] = min(same[b] / both[b], 1.0) if both[b] > 0.0 else 0.0
    share = same[own]
    same[own] = 0.0
    return share


cdef inline double largest(const double* shares, Py_ssize_t K) noexcept nogil:
    """Return the largest of shares ≥ 0; 0 if there is none."""
    cdef Py_ssize_t b
    cdef double found = 0.0
    for b in range(K):
        found = max(found, shares[b])
    return found


# Contingency tables, and sums over the clusters of each tuple


def add_contingencies(
    const column[:, ::1] codes, const double[::1] weights, Py_ssize_t start, Py_ssize_t stop,
    double[:, ::1] out,
):
    """Add Zᵀ diag(w) Z of tuples start..stop to the upper triangle of ``out``, (m, m).

    A tile of rows is transposed first. Then each pair of partitions reads two short contiguous
    columns and adds to one small block of ``out``, which stays in the first-level cache.
    """
    cdef Py_ssize_t V = codes.shape[1], t0, t1, a, v, w
    cdef column[:, ::1] transposed = np.empty((V, TILE), np.asarray(codes).dtype)
    cdef const column* one
    cdef const column* other
    with nogil:
        t0 = start
        while t0 < stop:
            t1 = min(t0 + TILE, stop)
            for a in range(t0, t1):
                for v in range(V):
                    transposed[v, a - t0] = codes[a, v]
            for v in range(V):
                one = &transposed[v, 0]
                for w in range(v, V):
                    other = &transposed[w, 0]
                    for a in range(t1 - t0):
                        if one[a] >= 0 and other[a] >= 0:
                            out[one[a], other[a]] += weights[t0 + a]
            t0 = t1


def add_soft_contingencies(
    const column[:, ::1] codes, const double[:, ::1] memberships, const double[::1] weights,
    Py_ssize_t start, Py_ssize_t stop, double[:, ::1] out,
):
    """Add Zᵀ diag(w) Z of tuples start..stop to the upper triangle of ``out``, (m, m)."""
    cdef Py_ssize_t a, s, t, S = codes.shape[1]
    cdef double x
    with nogil:
        for a in range(start, stop):
            for s in range(S):
                if codes[a, s] < 0:
                    break
                x = weights[a] * memberships[a, s]
                for t in range(s, S):
                    if codes[a, t] >= 0:
                        out[codes[a, s], codes[a, t]] += x * memberships[a, t]


def sum_over_clusters(
    const column[:, ::1] codes, const double[:, ::1] memberships, const double[:, ::1] values,
    Py_ssize_t start, Py_ssize_t stop, double[:, ::1] sums,
):
    """Write rows start..stop of Z·values, (u, k), where ``values`` is (m, k).

    ``memberships`` is None for labels, whose shares are 1.
    """
    cdef Py_ssize_t a, s, j, k = values.shape[1]
    cdef bint soft = memberships is not None
    cdef const double* of_cluster
    cdef double* row
    cdef double share
    with nogil:
        for a in range(start, stop):
            row = &sums[a, 0]
            for j in range(k):
                row[j] = 0.0
            for s in range(codes.shape[1]):
                if codes[a, s] >= 0:
                    of_cluster = &values[codes[a, s], 0]
                    share = memberships[a, s] if soft else 1.0
                    for j in range(k):
                        row[j] += share * of_cluster[j]


# Co-association and lower bounds


def count_rows(
    const narrow[:, ::1] transposed, Py_ssize_t start, Py_ssize_t stop, count[:, ::1] out
):
    """Write rows start..stop of the counts #{v : same label}, (u, u); no label is missing."""
    cdef Py_ssize_t a, u = transposed.shape[1]
    with nogil:
        for a in range(start, stop):
            count_votes(&transposed[0, 0], transposed.shape[0], u, a, &out[a, 0])


def share_rows(
    const column[:, ::1] transposed, const double[::1] alpha, Py_ssize_t start, Py_ssize_t stop,
    double[::1] same, double[::1] both, floating[:, ::1] out,
):
    """Write rows start..stop of Σ_v α_v [same label] / Σ_v α_v [both labelled], 0 for 0 / 0.

    ``same`` and ``both``, (u,), are work space.
    """
    cdef Py_ssize_t a, b, u = transposed.shape[1]
    with nogil:
        for a in range(start, stop):
            sum_pair_votes(
                &transposed[0, 0], transposed.shape[0], u, &alpha[0], a, &same[0], &both[0]
            )
            for b in range(u):
                out[a, b] = <floating>(same[b] / both[b]) if both[b] > 0 else 0


def share_soft_rows(
    const double[:, ::1] transposed, const double[:, ::1] mass, Py_ssize_t start, Py_ssize_t stop,
    double[::1] same, double[::1] both, floating[:, ::1] out,
):
    """Write rows start..stop of M = Σ_v α_v ⟨π_av, π_bv⟩ / Σ_v α_v m_av m_bv, 0 for 0 / 0.

    ``transposed[c, a]`` is √α_v π_ac for base cluster c of partition v, (m, u), and ``mass[v, a]``
    is √α_v m_av, (V, u). ``same`` and ``both``, (u,), are work space.
    """
    cdef Py_ssize_t a, b, u = transposed.shape[1]
    with nogil:
        for a in range(start, stop):
            products_with_row(transposed, a, 0, &same[0])
            products_with_row(mass, a, 0, &both[0])
            for b in range(u):
                out[a, b] = <floating>min(same[b] / both[b], 1.0) if both[b] > 0.0 else 0


def bound_rows(
    const column[:, ::1] transposed, const double[::1] alpha, const double[::1] weights,
    Py_ssize_t start, Py_ssize_t stop, double[::1] same, double[::1] both,
):
    """Return Σ w_a w_b min(share together, share apart) over a in start..stop and all b."""
    cdef Py_ssize_t a, b, u = transposed.shape[1]
    cdef double total = 0.0, row
    with nogil:
        for a in range(start, stop):
            sum_pair_votes(
                &transposed[0, 0], transposed.shape[0], u, &alpha[0], a, &same[0], &both[0]
            )
            row = 0.0
            for b in range(u):
                row += weights[b] * min(same[b], both[b] - same[b])
            total += weights[a] * row
    return total


def bound_count_rows(
    const narrow[:, ::1] transposed, const double[::1] weights, Py_ssize_t start, Py_ssize_t stop,
    count[::1] same,
):
    """Return V times :func:`bound_rows` for equal weights and no missing label.

    ``same`` holds counts of partitions.
    """
    cdef Py_ssize_t a, b, V = transposed.shape[0], u = transposed.shape[1]
    cdef double total = 0.0, row
    with nogil:
        for a in range(start, stop):
            count_votes(&transposed[0, 0], V, u, a, &same[0])
            row = 0.0
            for b in range(u):
                row += weights[b] * min(<int64_t>same[b], V - <int64_t>same[b])
            total += weights[a] * row
    return total


def bound_soft_rows(
    const double[:, ::1] transposed, const double[:, ::1] mass, const double[::1] weights,
    Py_ssize_t start, Py_ssize_t stop, double[::1] same, double[::1] both,
):
    """Return Σ min(together, apart) over pairs of points whose first tuple is in start..stop.

    A pair of tuples a < b is counted twice, for both orders. Arrays as in :func:`share_soft_rows`.
    """
    cdef Py_ssize_t a, b, u = transposed.shape[1]
    cdef double total = 0.0, row, apart
    with nogil:
        for a in range(start, stop):
            products_with_row(transposed, a, a, &same[0])
            products_with_row(mass, a, a, &both[0])
            apart = max(both[a] - same[a], 0.0)
            # Points of one tuple are together in every clustering. For a weight w below one,
            # w (w − 1) is negative, so the lower bound needs the larger cost.
            row = (weights[a] - 1.0) * (min(same[a], apart) if weights[a] > 1.0 else apart)
            for b in range(a + 1, u):
                row += 2.0 * weights[b] * max(min(same[b], both[b] - same[b]), 0.0)
            total += weights[a] * row
    return total


cdef inline void count_votes(
    const narrow* transposed, Py_ssize_t V, Py_ssize_t u, Py_ssize_t a, count* same
) noexcept nogil:
    """Fill ``same`` with #{v : same label} of tuple a and every tuple b."""
    cdef Py_ssize_t v, b
    cdef const narrow* labels
    cdef narrow c
    for b in range(u):
        same[b] = 0
    for v in range(V):
        labels = transposed + v * u
        c = labels[a]
        for b in range(u):
            same[b] += labels[b] == c


cdef inline void sum_pair_votes(
    const column* transposed, Py_ssize_t V, Py_ssize_t u, const double* alpha, Py_ssize_t a,
    double* same, double* both,
) noexcept nogil:
    """Fill ``same`` and ``both`` (u,) with the weight of the partitions that put tuples a and b
    together, and of those that label both."""
    cdef Py_ssize_t v, b
    cdef const column* labels
    cdef column c
    cdef double weight
    for b in range(u):
        same[b] = both[b] = 0.0
    for v in range(V):
        labels = transposed + v * u
        c = labels[a]
        if c >= 0:
            weight = alpha[v]
            # two loops, each of which the compiler vectorises; one it does not
            for b in range(u):
                same[b] += weight if labels[b] == c else 0.0
            for b in range(u):
                both[b] += weight if labels[b] >= 0 else 0.0


cdef inline void products_with_row(
    const double[:, ::1] transposed, Py_ssize_t a, Py_ssize_t first, double* out
) noexcept nogil:
    """Write Σ_c transposed[c, a] transposed[c, b] to ``out[b]`` for all b ≥ first."""
    cdef Py_ssize_t c, b, u = transposed.shape[1]
    cdef const double* of_cluster
    cdef double x
    for b in range(first, u):
        out[b] = 0.0
    for c in range(transposed.shape[0]):
        x = transposed[c, a]
        if x != 0.0:
            of_cluster = &transposed[c, 0]
            for b in range(first, u):
                out[b] += x * of_cluster[b]


# The same functions, compiled for vectors of 256 bits, replace those above where they can run.
if __name__ == "coterie.counts.kernels" and is_wide():
    try:
        from coterie.counts.wide_kernels import *
    except ImportError:  # a compiler or a processor that has no such build
        pass
