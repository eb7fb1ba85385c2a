"""Compiled loops of the robust relaxation on one tile of the matrices.

B is ``state``, L is ``low`` and M is ``values·scale``; all have the shape of the tile.
``row_weights[i]`` and ``column_weights[j]`` are the weights of its tuples.

The entries of a column of a tile (at most 256) are added in the type of the tile, and the columns
in double precision. So relative errors are a few 1e-7 even if tiles are in single precision. Columns
are added side by side, in vector registers.
"""

import numpy as np

from cython cimport floating
from libc.math cimport fabs, fabsf
from libc.stdint cimport uint8_t, uint16_t

from coterie.runtime.processor cimport is_wide

ctypedef fused entry:
    uint8_t
    uint16_t
    float
    double


def step_tile(
    floating[:, :] state, const floating[:, ::1] low, const entry[:, :] values, floating scale, floating shrink,
    floating bound, const floating[::1] row_weights, const floating[::1] column_weights, double[::1] sums,
):
    """Set B ← L + C with C = clip(M − L − Y, ±bound), Y = shrink·(L − B), on one tile.

    ``sums`` (2,) gets the weighted sums of |M − L| and of (C + Y)², the squared residual of
    M − E − L. Rows of the matrices are contiguous.
    """
    cdef Py_ssize_t i, j, n_columns = state.shape[1]
    cdef floating[:, ::1] of_columns = np.zeros((2, n_columns), "f4" if floating is float else "f8")
    cdef floating* sizes = &of_columns[0, 0]
    cdef floating* squares = &of_columns[1, 0]
    cdef floating w, y, gap, clipped
    cdef floating* B
    cdef const floating* L
    cdef const entry* M
    with nogil:
        for i in range(state.shape[0]):
            B, L, M, w = &state[i, 0], &low[i, 0], &values[i, 0], row_weights[i]
            for j in range(n_columns):
                y = (L[j] - B[j]) * shrink
                gap = <floating>M[j] * scale - L[j]
                clipped = min(max(gap - y, -bound), bound)
                B[j] = L[j] + clipped
                sizes[j] += w * (fabsf(gap) if floating is float else fabs(gap))
                squares[j] += w * (clipped + y) * (clipped + y)
        sums[0] = sums[1] = 0.0
        for j in range(n_columns):
            sums[0] += <double>column_weights[j] * sizes[j]
            sums[1] += <double>column_weights[j] * squares[j]


def gap_sums(
    const double[:, ::1] low, const entry[:, :] values, double scale,
    const double[::1] row_weights, const double[::1] column_weights, double[::1] sums,
):
    """Write the weighted sums of |M − L| and (M − L)² on one tile to ``sums`` (2,)."""
    cdef Py_ssize_t i, j, n_columns = low.shape[1]
    cdef double[:, ::1] of_columns = np.zeros((2, n_columns))
    cdef double* sizes = &of_columns[0, 0]
    cdef double* squares = &of_columns[1, 0]
    cdef double gap, w
    cdef const double* L
    cdef const entry* M
    with nogil:
        for i in range(low.shape[0]):
            L, M, w = &low[i, 0], &values[i, 0], row_weights[i]
            for j in range(n_columns):
                gap = <double>M[j] * scale - L[j]
                sizes[j] += w * fabs(gap)
                squares[j] += w * gap * gap
        sums[0] = sums[1] = 0.0
        for j in range(n_columns):
            sums[0] += column_weights[j] * sizes[j]
            sums[1] += column_weights[j] * squares[j]


# The same functions, compiled for vectors of 256 bits, replace those above where they can run.
if __name__ == "coterie.relaxation.kernels" and is_wide():
    try:
        from coterie.relaxation.wide_kernels import *
    except ImportError:  # a compiler or a processor that has no such build
        pass
