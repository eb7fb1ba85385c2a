"""The elementwise part of the robust relaxation on one tile of the state, fused, no temporaries.

Sums run in the type of the tile along a row of it (a few hundred numbers) and in double
precision from row to row, which keeps them exact to a few units of 1e-7 even where the tile is
in single precision.
"""

from __future__ import annotations

from typing import Any

import numba as nb

__all__ = ["gap_sums", "step_tile"]

# Sums may be reassociated so that they use vector registers; nothing here relies on NaN or −0.
_VECTORISED = {"reassoc", "contract", "nsz", "nnan", "ninf"}


@nb.njit(cache=True, nogil=True, fastmath=_VECTORISED)
def step_tile(
    state: Any,
    low: Any,
    values: Any,
    scale: Any,
    shrink: Any,
    bound: Any,
    row_weights: Any,
    column_weights: Any,
    sums: Any,
) -> None:
    """B ← L + C  with  C = clip(M − L − Y, ±bound),  Y = shrink·(L − B).

    All on one tile: L is ``low`` and M is ``values·scale``. The tile's weighted sums of |M − L|
    and of (C + Y)², the residual M − E − L, go into ``sums``.
    """
    n_rows, n_columns = state.shape
    zero = state.dtype.type(0)
    objective = residual = 0.0
    for i in range(n_rows):
        row, low_row, value_row = state[i], low[i], values[i]
        row_objective = row_residual = zero
        for j in range(n_columns):
            y = (low_row[j] - row[j]) * shrink
            gap = value_row[j] * scale - low_row[j]
            clipped = min(max(gap - y, -bound), bound)
            row[j] = low_row[j] + clipped
            row_objective += column_weights[j] * abs(gap)
            row_residual += column_weights[j] * (clipped + y) ** 2
        objective += row_weights[i] * row_objective
        residual += row_weights[i] * row_residual
    sums[0] = objective
    sums[1] = residual


@nb.njit(cache=True, nogil=True, fastmath=_VECTORISED)
def gap_sums(
    low: Any, values: Any, scale: Any, row_weights: Any, column_weights: Any, sums: Any
) -> None:
    """The weighted sums of |M − L| and of (M − L)² on one tile go into ``sums``."""
    n_rows, n_columns = low.shape
    size = square = 0.0
    for i in range(n_rows):
        low_row, value_row = low[i], values[i]
        row_size = row_square = 0.0
        for j in range(n_columns):
            gap = value_row[j] * scale - low_row[j]
            row_size += column_weights[j] * abs(gap)
            row_square += column_weights[j] * gap * gap
        size += row_weights[i] * row_size
        square += row_weights[i] * row_square
    sums[0] = size
    sums[1] = square
