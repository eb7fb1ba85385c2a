"""Compiled loops of linkage on a spanning tree.

``D`` (s, s) are distances of s rows. An edge e of their tree links the rows ``first[e]`` and
``second[e]``; the edges are in the order of their lengths.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int64_t


def spanning_tree(const double[:, ::1] D, const double[:] core):
    """Return the rows and the length of each edge of a shortest tree, (s − 1,) each: Prim's method.

    The length of an edge is the mutual reachability max(D_ij, core_i, core_j).
    """
    cdef Py_ssize_t s = D.shape[0], e, j, last = 0, nearest
    first, second, length = np.empty(s - 1, np.int64), np.empty(s - 1, np.int64), np.empty(s - 1)
    cdef int64_t[::1] starts = first, ends = second, source = np.zeros(s, np.int64)
    cdef double[::1] lengths = length, best = np.full(s, np.inf)  # −1 for rows in the tree
    cdef double d, least
    with nogil:
        for e in range(s - 1):
            best[last] = -1.0
            nearest, least = -1, INFINITY
            for j in range(s):
                if best[j] < 0.0:
                    continue
                d = max(D[last, j], core[last], core[j])
                if d < best[j]:
                    best[j], source[j] = d, last
                if nearest < 0 or best[j] < least:
                    nearest, least = j, best[j]
            starts[e], ends[e], lengths[e] = source[nearest], nearest, least
            last = nearest
    return first, second, length


cdef inline Py_ssize_t root_of(int64_t[::1] parent, Py_ssize_t i) noexcept nogil:
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


def even_merges(const int64_t[::1] first, const int64_t[::1] second, double most_uneven):
    """Return the edges in the order in which they are merged, (s − 1,).

    The shortest edge is merged next. While the Gini index of the k cluster sizes c exceeds
    ``most_uneven``, it is the shortest one at a smallest cluster:

        gini(c) = Σ_{i<j} |c_i − c_j| / ((k − 1) s).
    """
    cdef Py_ssize_t s = first.shape[0] + 1, k = s, e, a, b, size, shortest = 0, at_least = 0
    cdef int64_t least = 1, last_least = 1, below, mass
    # the number of clusters of each size, and the sizes that occur in a linked list: next[0] first
    cdef int64_t[::1] count = np.zeros(s + 1, np.int64), after = np.zeros(s + 2, np.int64)
    cdef int64_t[::1] parent = np.arange(s, dtype=np.int64), sizes = np.ones(s, np.int64)
    cdef signed char[::1] merged = np.zeros(s, np.int8)
    cdef double spread
    order = np.empty(s - 1, np.int64)
    cdef int64_t[::1] orders = order
    with nogil:
        count[1] = s
        after[0] = 1
        while k > 1:
            spread, below, mass, size = 0.0, 0, 0, after[0]
            least = size
            while size:
                spread += <double>count[size] * (<double>size * below - mass)
                below += count[size]
                mass += size * count[size]
                size = after[size]
            if spread > most_uneven * (k - 1) * s:
                # sizes only grow: edges that were passed have no smallest cluster any more
                if least != last_least:
                    last_least, at_least = least, 0
                while True:
                    if not merged[at_least]:
                        a = root_of(parent, first[at_least])
                        b = root_of(parent, second[at_least])
                        if sizes[a] == least or sizes[b] == least:
                            break
                    at_least += 1
                e = at_least
            else:
                while merged[shortest]:
                    shortest += 1
                e = shortest
                a, b = root_of(parent, first[e]), root_of(parent, second[e])
            merged[e] = 1
            orders[s - k] = e
            remove(count, after, sizes[a])
            remove(count, after, sizes[b])
            if sizes[a] < sizes[b]:
                a, b = b, a
            parent[b] = a
            sizes[a] += sizes[b]
            insert(count, after, sizes[a])
            k -= 1
    return order


cdef inline void remove(int64_t[::1] count, int64_t[::1] after, int64_t size) noexcept nogil:
    """Take one cluster out; a size that no longer occurs leaves the list."""
    cdef int64_t place = 0
    count[size] -= 1
    if not count[size]:
        while after[place] != size:
            place = after[place]
        after[place] = after[size]


cdef inline void insert(int64_t[::1] count, int64_t[::1] after, int64_t size) noexcept nogil:
    """Add one cluster; a new size gets its place in the list."""
    cdef int64_t place = 0
    if not count[size]:
        while after[place] and after[place] < size:
            place = after[place]
        after[size] = after[place]
        after[place] = size
    count[size] += 1
