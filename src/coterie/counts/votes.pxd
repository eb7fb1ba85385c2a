"""Sums of the votes of one row, which the kernels of counts and of the search share.

They are written here to be inlined: a call takes as long as its loop over clusters. Names are those
of ``kernels.pyx``.
"""

from libc.stdint cimport int64_t

from coterie.labels.codes cimport column

ctypedef struct Tables:
    const double* alpha
    const double* table
    const double* present
    const double* size
    const int64_t* partition_of  # read for shares only
    Py_ssize_t K
    # no tuple in the tables has a missing label, so that every row of ``present`` equals ``size``
    bint complete

ctypedef struct Votes:
    double total  # weight of the partitions that label the row: Σ_v α_v m_v
    double own_same  # what the row itself adds to same[b] of its cluster b: Σ_v α_v |π_v|²
    double own_both  # what it adds to both[b]: Σ_v α_v m_v²


cdef inline Votes sum_votes(
    const column* row, const double* shares, Py_ssize_t width, const Tables* tables, double* same,
    double* both,
) noexcept nogil:
    """Fill ``same`` and ``both`` (K,) of a row of V labels, or of S slots with ``shares``."""
    if shares != NULL:
        return sum_shares(row, shares, width, tables, same, both)
    return sum_labels(row, width, tables, same, both)


cdef inline Votes sum_labels(
    const column* row, Py_ssize_t V, const Tables* tables, double* same, double* both
) noexcept nogil:
    cdef Py_ssize_t v, b, K = tables.K, whole = V - V % 4
    cdef const double* alpha = tables.alpha
    cdef const double* table = tables.table
    cdef const double* n
    cdef const double* n0
    cdef const double* n1
    cdef const double* n2
    cdef const double* n3
    cdef double total = 0.0, x, x0, x1, x2, x3
    cdef bint gaps = not tables.complete  # the row itself may have gaps in complete tables
    if tables.complete:
        for v in range(V):
            gaps |= row[v] < 0
    for b in range(K):
        same[b] = 0.0
    if gaps:
        for b in range(K):
            both[b] = 0.0
        for v in range(V):
            if row[v] >= 0:
                x = alpha[v]
                total += x
                n, n0 = table + row[v] * K, tables.present + v * K
                for b in range(K):
                    same[b] += x * n[b]
                    both[b] += x * n0[b]
        return Votes(total, total, total)
    # The inner loop runs over clusters, which are contiguous in memory. Four partitions at a time
    # reduce the loads and stores of ``same`` to a quarter.
    for v in range(0, whole, 4):
        x0, x1, x2, x3 = alpha[v], alpha[v + 1], alpha[v + 2], alpha[v + 3]
        n0, n1 = table + row[v] * K, table + row[v + 1] * K
        n2, n3 = table + row[v + 2] * K, table + row[v + 3] * K
        total += (x0 + x1) + (x2 + x3)
        for b in range(K):
            same[b] += (x0 * n0[b] + x1 * n1[b]) + (x2 * n2[b] + x3 * n3[b])
    for v in range(whole, V):
        x = alpha[v]
        total += x
        n = table + row[v] * K
        for b in range(K):
            same[b] += x * n[b]
    for b in range(K):
        both[b] = total * tables.size[b]
    return Votes(total, total, total)


cdef inline Votes sum_shares(
    const column* row, const double* shares, Py_ssize_t S, const Tables* tables, double* same,
    double* both,
) noexcept nogil:
    cdef Votes votes = Votes(0.0, 0.0, 0.0)
    cdef Py_ssize_t s = 0, b, K = tables.K
    cdef int64_t v
    cdef double mass, x, y
    cdef const double* n
    for b in range(K):
        same[b] = both[b] = 0.0
    while s < S and row[s] >= 0:
        # the slots of one partition are consecutive, because base clusters increase
        v = tables.partition_of[row[s]]
        x = tables.alpha[v]
        mass = 0.0
        while s < S and row[s] >= 0 and tables.partition_of[row[s]] == v:
            mass += shares[s]
            votes.own_same += x * shares[s] * shares[s]
            y = x * shares[s]
            n = tables.table + row[s] * K
            for b in range(K):
                same[b] += y * n[b]
            s += 1
        y = x * mass
        votes.total += y
        votes.own_both += y * mass
        n = tables.present + v * K
        for b in range(K):
            both[b] += y * n[b]
    return votes


cdef inline Py_ssize_t first_largest(const double* values, Py_ssize_t K) noexcept nogil:
    """Return the index of the largest value, the first one on ties."""
    cdef Py_ssize_t best = 0, b
    for b in range(1, K):
        if values[b] > values[best]:
            best = b
    return best
