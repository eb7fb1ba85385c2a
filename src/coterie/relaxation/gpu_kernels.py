"""Triton kernels of the robust relaxation: passes over the upper half of a symmetric matrix.

Of a symmetric (u, u) matrix, divided into t × t tiles of T × T entries, the tiles on and above the
diagonal are stored. Tile (i, j), i ≤ j, has the index ``i·t − i(i − 1)/2 + j − i``. This halves the
memory and the bytes read in a pass. A program works on a *strip*: adjacent tiles in one row of
tiles. For each tile B it adds B X_j to its rows in registers and writes Bᵀ X_i to memory.
:func:`gather_kernel` adds both in a fixed order, so that the product is reproducible; with atomic
additions it would not be.

``strips`` (s, 4) int64 has for each strip the row of tiles, the first column of tiles, the index of
the first tile, and the number of tiles. Matrices are padded to a multiple of T rows. Factors,
weights and shares of the added rows are zero, and so are the results.
"""

from __future__ import annotations

import triton
import triton.language as tl

#: Tasks of a pass over the strips: the product only, a step and the product, the objective only.
PRODUCT, STEP, OBJECTIVE = 0, 1, 2


@triton.jit
def strip_kernel(
    state, values, scale, factor, weights, block, shrink, bound, strips, by_row, by_column, sums,
    TASK: tl.constexpr, T: tl.constexpr, K: tl.constexpr, Q: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Set B ← L + clip(M − L − Y, ±bound), Y = shrink·(L − B), L = F Fᵀ, and add B X, on a strip.

    ``state`` has the tiles of B and ``values`` those of M / ``scale``. ``factor`` F (u, K),
    ``block`` X (u, Q) and ``weights`` (u,) are float32. ``by_row`` (s, T, Q) gets the products of
    the strips, and ``by_column`` (tiles, T, Q) those of the transposed tiles. ``sums`` (s, 2) gets
    the weighted sums of |M − L| and of (B − L + Y)².
    """
    s, i, j_first, tile_first, length = _load_strip(strips)
    within = tl.arange(0, T)
    rows = i * T + within
    row_weights = tl.load(weights + rows)
    if TASK != 0:
        row_factor = _load_rows(factor, rows, K)
    if TASK != 2:
        row_block = _load_rows(block, rows, Q)
        product = tl.zeros((T, Q), tl.float32)
    objective = tl.zeros((T,), tl.float32)
    residual = tl.zeros((T,), tl.float32)
    for t in range(length):
        j = j_first + t
        tile = tile_first + t
        columns = j * T + within
        cells = tile * T * T + within[:, None] * T + within[None, :]
        if TASK != 2:
            B = tl.load(state + cells)
        if TASK != 0:
            column_factor = _load_rows(factor, columns, K)
            low = tl.dot(row_factor, tl.trans(column_factor), input_precision=PRECISION)
            gap = tl.load(values + cells).to(tl.float32) * scale - low
            # A tile off the diagonal occurs twice in the matrix.
            column_weights = tl.load(weights + columns) * tl.where(j > i, 2.0, 1.0)
            objective += tl.sum(tl.abs(gap) * column_weights[None, :], axis=1)
            if TASK == 1:
                Y = (low - B) * shrink
                C = tl.minimum(tl.maximum(gap - Y, -bound), bound)
                B = low + C
                error = C + Y
                tl.store(state + cells, B)
                residual += tl.sum(error * error * column_weights[None, :], axis=1)
        if TASK != 2:
            column_block = _load_rows(block, columns, Q)
            product += tl.dot(B, column_block, input_precision=PRECISION)
            transposed = tl.dot(tl.trans(B), row_block, input_precision=PRECISION)
            _store_rows(by_column, tile * T + within, transposed, Q)
    if TASK != 2:
        _store_rows(by_row, s * T + within, product, Q)
    if TASK != 0:
        tl.store(sums + 2 * s, tl.sum(objective * row_weights, axis=0))
        tl.store(sums + 2 * s + 1, tl.sum(residual * row_weights, axis=0))


@triton.jit
def gather_kernel(
    by_row, by_column, first_strip, n_tiles, product,
    T: tl.constexpr, PART: tl.constexpr, Q: tl.constexpr,
):  # fmt: skip
    """Write PART rows of ``product`` = B X, (u, Q), as the float64 sum of the products of strips.

    Program (j, p) writes part p of row j of tiles. ``by_row`` and ``by_column`` are the results of
    :func:`strip_kernel`; ``first_strip`` (t + 1,) is the first strip of each row of tiles, and
    ``n_tiles`` is t.
    """
    j = tl.program_id(0).to(tl.int64)
    within = tl.program_id(1) * PART + tl.arange(0, PART)
    cells = within[:, None] * Q + tl.arange(0, Q)[None, :]
    total = tl.zeros((PART, Q), tl.float64)
    # Products of the tiles (j, i), i ≥ j, are summed by strip.
    for s in range(tl.load(first_strip + j), tl.load(first_strip + j + 1)):
        total += tl.load(by_row + s * T * Q + cells).to(tl.float64)
    # Products of the transposed tiles (i, j), i < j; tile (0, j) has index j.
    tile = j
    for i in range(0, j):
        total += tl.load(by_column + tile * T * Q + cells).to(tl.float64)
        tile += n_tiles - i - 1
    tl.store(product + j * T * Q + cells, total)


@triton.jit
def shares_kernel(
    codes, alpha, weights, strips, values, sums, n_partitions, n_rows,
    COUNTED: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """Compute the tiles of M on a strip: counts of equal codes if COUNTED, else weighted shares.

    ``codes`` (V, n_rows) has −1 for missing labels; ``alpha`` (V,) are partition weights.
    ``values`` gets the tiles, and ``sums`` (s, 2) the weighted sums of the values and of their
    squares.
    """
    s, i, j_first, tile_first, length = _load_strip(strips)
    within = tl.arange(0, T)
    rows = i * T + within
    row_weights = tl.load(weights + rows)
    total = tl.zeros((T,), tl.float32)
    squares = tl.zeros((T,), tl.float32)
    for t in range(length):
        j = j_first + t
        columns = j * T + within
        same = tl.zeros((T, T), tl.float32)
        both = tl.zeros((T, T), tl.float32)
        for v in range(n_partitions):
            a = tl.load(codes + v * n_rows + rows)[:, None]
            b = tl.load(codes + v * n_rows + columns)[None, :]
            if COUNTED:
                same += tl.where((a == b) & (a >= 0), 1.0, 0.0)
            else:
                share = tl.load(alpha + v)
                same += tl.where((a == b) & (a >= 0), share, 0.0)
                both += tl.where((a >= 0) & (b >= 0), share, 0.0)
        column_weights = tl.load(weights + columns)
        if not COUNTED:
            same = tl.where(both > 0, same / both, 0.0)
            itself = (rows[:, None] == columns[None, :]) & (column_weights[None, :] > 0)
            same = tl.where(itself, 1.0, same)
        cells = (tile_first + t) * T * T + within[:, None] * T + within[None, :]
        tl.store(values + cells, same.to(values.dtype.element_ty))
        column_weights *= tl.where(j > i, 2.0, 1.0)
        total += tl.sum(same * column_weights[None, :], axis=1)
        squares += tl.sum(same * same * column_weights[None, :], axis=1)
    tl.store(sums + 2 * s, tl.sum(total * row_weights, axis=0))
    tl.store(sums + 2 * s + 1, tl.sum(squares * row_weights, axis=0))


@triton.jit
def _load_strip(strips):
    """Return the index of the strip of this program, and its row of ``strips``."""
    s = tl.program_id(0)
    row = strips + 4 * s
    return s, tl.load(row), tl.load(row + 1), tl.load(row + 2), tl.load(row + 3)


@triton.jit
def _load_rows(matrix, rows, WIDTH: tl.constexpr):
    return tl.load(matrix + rows[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :])


@triton.jit
def _store_rows(matrix, rows, values, WIDTH: tl.constexpr):
    tl.store(matrix + rows[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :], values)
