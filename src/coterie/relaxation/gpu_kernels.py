"""Triton kernels of the robust relaxation: one pass over a symmetric state, kept as half of it.

A symmetric (u, u) matrix is kept as its tiles of T × T on and above the diagonal, tile (i, j),
i ≤ j, at place ``i·t − i(i − 1)/2 + j − i`` of t tiles a side: half the memory and half the bytes
a pass. A program works on a *strip*, some tiles next to each other in one row of tiles. Of a tile B
it adds B X_j to its rows in registers and writes Bᵀ X_i beside; :func:`gather_kernel` adds up the
two, so that the product is the same each time (atomic additions would not be).

Rows beyond u are filled up with factors, weights and shares of zero, and stay zero.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["OBJECTIVE", "PRODUCT", "STEP", "gather_kernel", "shares_kernel", "strip_kernel"]

#: What a pass over the strips does: the product alone, a step and the product, the objective alone.
PRODUCT, STEP, OBJECTIVE = 0, 1, 2


@triton.jit
def strip_kernel(
    state,
    values,
    scale,
    factor,
    weights,
    block,
    shrink,
    bound,
    strips,
    by_row,
    by_column,
    sums,
    TASK: tl.constexpr,
    T: tl.constexpr,
    K: tl.constexpr,
    Q: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """B ← L + clip(M − L − Y, ±bound), Y = shrink·(L − B), L = F Fᵀ, and B X, for one strip.

    ``strips`` (s, 4) int64: row of tiles, first column of tiles, place of the first tile, tiles.
    ``factor`` (u, K), ``block`` X (u, Q) and ``weights`` (u,) are float32; ``values·scale`` is M.
    ``sums`` (s, 2) gets the weighted sums of |M − L| and of (B − L + Y)².
    """
    s = tl.program_id(0)
    i = tl.load(strips + 4 * s)
    j_first = tl.load(strips + 4 * s + 1)
    tile_first = tl.load(strips + 4 * s + 2)
    length = tl.load(strips + 4 * s + 3)
    within = tl.arange(0, T)
    of_block = tl.arange(0, Q)
    of_factor = tl.arange(0, K)
    rows = i * T + within
    row_weights = tl.load(weights + rows)
    if TASK != 0:
        row_factor = tl.load(factor + rows[:, None] * K + of_factor[None, :])
    if TASK != 2:
        row_block = tl.load(block + rows[:, None] * Q + of_block[None, :])
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
            column_factor = tl.load(factor + columns[:, None] * K + of_factor[None, :])
            low = tl.dot(row_factor, tl.trans(column_factor), input_precision=PRECISION)
            gap = tl.load(values + cells).to(tl.float32) * scale - low
            # a tile off the diagonal stands for two
            column_weights = tl.load(weights + columns) * tl.where(j > i, 2.0, 1.0)
            objective += tl.sum(tl.abs(gap) * column_weights[None, :], axis=1)
            if TASK == 1:
                y = (low - B) * shrink
                clipped = tl.minimum(tl.maximum(gap - y, -bound), bound)
                B = low + clipped
                tl.store(state + cells, B)
                y += clipped
                residual += tl.sum(y * y * column_weights[None, :], axis=1)
        if TASK != 2:
            column_block = tl.load(block + columns[:, None] * Q + of_block[None, :])
            product += tl.dot(B, column_block, input_precision=PRECISION)
            turned = tl.dot(tl.trans(B), row_block, input_precision=PRECISION)
            tl.store(by_column + (tile * T + within)[:, None] * Q + of_block[None, :], turned)
    if TASK != 2:
        tl.store(by_row + (s * T + within)[:, None] * Q + of_block[None, :], product)
    if TASK != 0:
        tl.store(sums + 2 * s, tl.sum(objective * row_weights, axis=0))
        tl.store(sums + 2 * s + 1, tl.sum(residual * row_weights, axis=0))


@triton.jit
def gather_kernel(
    by_row,
    by_column,
    first_strip,
    n_tiles,
    product,
    T: tl.constexpr,
    PART: tl.constexpr,
    Q: tl.constexpr,
):
    """Add up in float64 what the strips have put down: rows of B X, (u, Q), PART at a time."""
    j = tl.program_id(0).to(tl.int64)
    within = tl.program_id(1) * PART + tl.arange(0, PART)
    cells = within[:, None] * Q + tl.arange(0, Q)[None, :]
    total = tl.zeros((PART, Q), tl.float64)
    for s in range(tl.load(first_strip + j), tl.load(first_strip + j + 1)):
        total += tl.load(by_row + s * T * Q + cells).to(tl.float64)
    tile = j
    for i in range(0, j):
        total += tl.load(by_column + tile * T * Q + cells).to(tl.float64)
        tile += n_tiles - i - 1
    tl.store(product + j * T * Q + cells, total)


@triton.jit
def shares_kernel(
    codes,
    alpha,
    weights,
    strips,
    values,
    sums,
    n_partitions,
    n_rows,
    COUNTED: tl.constexpr,
    T: tl.constexpr,
):
    """Tiles of M for one strip: counts of equal codes, or weighted shares where labels miss.

    ``codes`` (V, u), −1 missing; ``sums`` (s, 2) gets the weighted sums of M and M², counts as
    they are.
    """
    s = tl.program_id(0)
    i = tl.load(strips + 4 * s)
    j_first = tl.load(strips + 4 * s + 1)
    tile_first = tl.load(strips + 4 * s + 2)
    length = tl.load(strips + 4 * s + 3)
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
