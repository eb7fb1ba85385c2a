"""Compiled loops on rows of labels: equal rows, new codes, packed codes, colours for a sort order.

- ``codes[a, v]`` is the indicator column of tuple a in partition v, −1 if the label is missing. For
  soft partitions ``codes[a]`` holds the columns of S slots, −1 if a slot is unused;
- ``bits[a, s]`` are the memberships in these slots, read as 64-bit integers; None for labels;
- ``weights[a]`` is a 64-bit integer that stands for the weight of tuple a;
- ``tuples``, ``clusters`` and ``partitions`` are the colours of :mod:`coterie.labels.tuples`.
"""

import numpy as np

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t

from coterie.labels.codes cimport column

ctypedef fused cell:
    int8_t
    int16_t
    int32_t
    int64_t

ctypedef fused label:
    int8_t
    int16_t
    int32_t

cdef extern from *:
    """
    /* 2^64 divided by the golden ratio: the usual constant of multiplicative hashing */
    #define MULTIPLIER 0x9E3779B97F4A7C15ULL
    #define MISSING_COLOUR 0x5851F42D4C957F2DULL
    """
    const uint64_t MULTIPLIER
    const uint64_t MISSING_COLOUR


cdef inline uint64_t mix(uint64_t a, uint64_t b) noexcept nogil:
    """Combine two 64-bit hashes."""
    cdef uint64_t h = (a ^ b) * MULTIPLIER
    return h ^ (h >> 29)


def group_equal_rows(const cell[:, ::1] codes):
    """Return the first row of each group of equal rows, the group of each row, and group sizes.

    Groups are numbered in the order of their first rows. They are found with a hash table; rows
    with equal hashes are compared cell by cell, so collisions of hashes cause no errors.
    """
    cdef Py_ssize_t n = codes.shape[0], V = codes.shape[1], i, v
    # at least twice as many slots as rows, and a power of two, so that a mask replaces a division
    cdef uint64_t h, slot, mask = (1 << max(4, int(2 * n - 1).bit_length())) - 1
    # table[slot] is a group, −1 if the slot is empty; tags[slot] are 8 bits of its hash
    cdef int32_t[::1] table = np.full(mask + 1, -1, np.int32)
    cdef uint8_t[::1] tags = np.zeros(mask + 1, np.uint8)
    groups, firsts, sizes = np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n, np.int64)
    cdef int32_t[::1] inverse = groups
    cdef int64_t[::1] first = firsts, counts = sizes
    cdef int32_t group, n_groups = 0
    cdef uint8_t tag
    cdef const cell* row
    cdef const cell* other
    with nogil:
        for i in range(n):
            row = &codes[i, 0]
            h = V
            for v in range(V):
                h = mix(h, <uint64_t>(<int64_t>row[v] + 2))
            # The slot uses the low bits of the hash, the tag the high bits. Different rows in one
            # slot usually differ in the tag, which is cheaper to compare than the rows.
            tag = <uint8_t>(h >> 56)
            slot = h & mask
            while True:
                group = table[slot]
                if group < 0:
                    table[slot] = inverse[i] = n_groups
                    tags[slot] = tag
                    first[n_groups] = i
                    counts[n_groups] = 1
                    n_groups += 1
                    break
                if tags[slot] == tag:
                    other = &codes[first[group], 0]
                    v = 0
                    while v < V and row[v] == other[v]:
                        v += 1
                    if v == V:
                        counts[group] += 1
                        inverse[i] = group
                        break
                slot = (slot + 1) & mask
    return firsts[:n_groups].copy(), groups, sizes[:n_groups].copy()


def recode_rows(
    const label[:, ::1] codes, const int64_t[::1] rows, const int64_t[::1] columns,
    const int64_t[::1] starts, const column[::1] lookup, Py_ssize_t start, Py_ssize_t stop,
    column[:, ::1] recoded,
):
    """Write ``lookup[starts[j] + codes[rows[i], columns[j]]]`` to rows start..stop; −1 stays −1."""
    cdef Py_ssize_t i, j, n = columns.shape[0]
    cdef const label* row
    cdef column* out
    cdef int64_t c
    with nogil:
        for i in range(start, stop):
            row = &codes[rows[i], 0]
            out = &recoded[i, 0]
            for j in range(n):
                c = row[columns[j]]
                out[j] = lookup[starts[j] + c] if c >= 0 else -1


def unpack_keys(
    const uint64_t[::1] key, const uint64_t[::1] radices, const int64_t[::1] starts,
    const int64_t[::1] places, const label[::1] lookup, label[:, ::1] codes, Py_ssize_t first,
    Py_ssize_t last,
):
    """Write the codes of all digits of one key for the rows first..last.

    ``key`` (n,) holds the packed rows. ``radices``, ``starts`` and ``places`` (k,) describe its
    digits, the lowest first: the radix, the first entry in ``lookup``, and the column in
    ``codes`` (n, V). ``lookup[starts[d] + digit]`` is the code of a digit.
    """
    cdef Py_ssize_t i, d
    cdef uint64_t rest, higher
    with nogil:
        for i in range(first, last):
            rest = key[i]
            for d in range(radices.shape[0]):
                higher = rest // radices[d]
                codes[i, places[d]] = lookup[starts[d] + <int64_t>(rest - higher * radices[d])]
                rest = higher


def colour_clusters(
    const uint64_t[:, ::1] bits, const column[:, ::1] codes, const int64_t[::1] offsets,
    const uint64_t[::1] weights, const uint64_t[::1] tuples, uint64_t[::1] clusters,
    uint64_t[::1] partitions,
):
    """Update the colours of clusters from their tuples, and of partitions from their clusters."""
    # gathered[c] is the sum of hashes over the tuples of cluster c, times their weights
    cdef uint64_t[::1] gathered = np.zeros(clusters.shape[0], np.uint64)
    cdef Py_ssize_t a, s, v, c
    cdef bint soft = bits is not None
    cdef uint64_t colour, total
    with nogil:
        for a in range(codes.shape[0]):
            colour = mix(tuples[a], weights[a])
            for s in range(codes.shape[1]):
                if codes[a, s] >= 0:
                    total = mix(colour, bits[a, s]) if soft else colour
                    gathered[codes[a, s]] += total * weights[a]
        for v in range(partitions.shape[0]):
            total = 0
            for c in range(offsets[v], offsets[v + 1]):
                clusters[c] = mix(clusters[c], gathered[c])
                total += mix(clusters[c], MULTIPLIER)
            partitions[v] = mix(partitions[v], total)


def colour_tuples(
    const uint64_t[:, ::1] bits, const column[:, ::1] codes, const int64_t[::1] partition_of,
    const uint64_t[::1] weights, const uint64_t[::1] clusters, const uint64_t[::1] partitions,
    uint64_t[::1] tuples,
):
    """Colour each tuple by its clusters, its memberships in them, and its weight."""
    cdef Py_ssize_t a, s
    cdef bint soft = bits is not None
    cdef uint64_t total
    cdef column c
    with nogil:
        for a in range(codes.shape[0]):
            total = 0
            for s in range(codes.shape[1]):
                c = codes[a, s]
                if soft and c >= 0:
                    total += mix(mix(partitions[partition_of[c]], clusters[c]), bits[a, s])
                elif not soft:
                    total += mix(partitions[s], clusters[c] if c >= 0 else MISSING_COLOUR)
            tuples[a] = mix(weights[a], total)
