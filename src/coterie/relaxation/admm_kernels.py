"""The elementwise step of the robust relaxation, fused: one pass over the state, no temporaries."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

__all__ = ["step_rows"]

_COLUMNS = 1024
_ROWS = 32


# Sums may be reassociated so that they use vector registers; nothing here relies on NaN or −0.
@nb.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def step_rows(
    state: Any,
    values: Any,
    scale: Any,
    factor: Any,
    shrink: Any,
    bound: Any,
    weights: Any,
    block: Any,
    start: Any,
    stop: Any,
    product: Any,
    sums: Any,
) -> None:
    """Rows start..stop of  B ← L + clip(M − L − Y, ±bound)  with  Y = shrink·(L − B),  L = F Fᵀ.

    In the same pass: product = B @ blockᵀ (block is (q, u)), and into sums the weighted sums over
    these rows of |M − L| and of (B − L + Y)². M = values·scale; factor is Fᵀ, (K, u).
    """
    K, u = factor.shape
    q = block.shape[0]
    low_rank = np.empty(_COLUMNS, state.dtype)
    objective = 0.0
    residual = 0.0
    for r0 in range(start, stop, _ROWS):
        r1 = min(r0 + _ROWS, stop)
        for i in range(r0, r1):
            for p in range(q):
                product[i, p] = 0.0
        for c0 in range(0, u, _COLUMNS):
            c1 = min(c0 + _COLUMNS, u)
            for i in range(r0, r1):
                for j in range(c1 - c0):
                    low_rank[j] = 0.0
                for k in range(K):
                    f = factor[k, i]
                    for j in range(c1 - c0):
                        low_rank[j] += f * factor[k, c0 + j]
                row_objective = 0.0
                row_residual = 0.0
                for j in range(c1 - c0):
                    low = low_rank[j]
                    y = (low - state[i, c0 + j]) * shrink
                    gap = values[i, c0 + j] * scale - low
                    clipped = min(max(gap - y, -bound), bound)
                    state[i, c0 + j] = low + clipped
                    row_objective += weights[c0 + j] * abs(gap)
                    row_residual += weights[c0 + j] * (clipped + y) ** 2
                objective += weights[i] * row_objective
                residual += weights[i] * row_residual
                for p in range(q):
                    dot = 0.0
                    for j in range(c0, c1):
                        dot += state[i, j] * block[p, j]
                    product[i, p] += dot
    sums[0] = objective
    sums[1] = residual
