"""The fused step against plain array code."""

import numpy as np
import pytest

from coterie.relaxation.admm_kernels import step_rows


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("u", [5, 1100])
def test_one_pass_equals_the_formulas(dtype, u):
    """State, product, objective and residual equal the formulas written with whole matrices."""
    rng = np.random.default_rng(u)
    counts = rng.integers(0, 9, (u, u)).astype(np.uint8)
    factor, block = rng.normal(size=(3, u)), rng.normal(size=(4, u))
    state, weights = rng.normal(size=(u, u)), rng.integers(1, 5, u).astype(float)
    scale, shrink, bound = 1 / 8, 0.9, 0.3
    L, M = factor.T @ factor, counts * scale
    Y = (L - state) * shrink
    clipped = np.clip(M - L - Y, -bound, bound)

    number = np.dtype(dtype).type
    ours, product, sums = state.astype(dtype), np.empty((u, 4), dtype), np.zeros((2, 2))
    for part, (start, stop) in enumerate([(0, u // 2), (u // 2, u)]):
        step_rows(
            ours,
            counts,
            number(scale),
            factor.astype(dtype),
            number(shrink),
            number(bound),
            weights.astype(dtype),
            block.astype(dtype),
            start,
            stop,
            product,
            sums[part],
        )
    tolerance = 1e-9 if dtype is np.float64 else 2e-3
    assert np.allclose(ours, L + clipped, atol=tolerance)
    assert np.allclose(product, (L + clipped) @ block.T, rtol=tolerance, atol=tolerance * u)
    objective, residual = sums.sum(axis=0)
    assert objective == pytest.approx(weights @ np.abs(M - L) @ weights, rel=tolerance)
    assert residual == pytest.approx(weights @ (clipped + Y) ** 2 @ weights, rel=tolerance)
