"""The fused step and the sums on a tile, against plain array code."""

import numpy as np
import pytest

from coterie.relaxation.admm_kernels import gap_sums, step_tile

SHAPES = [(1, 1), (5, 7), (256, 300)]


def tile(shape, seed=0):
    """Counts, L, state and the weights of rows and columns."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 9, shape).astype(np.uint8)
    weights = [rng.integers(1, 5, n).astype(float) for n in shape]
    return counts, rng.normal(size=shape), rng.normal(size=shape), weights


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_step_equals_the_formulas(dtype, shape):
    """State, objective and residual equal the formulas written with whole matrices."""
    counts, L, state, (rows, columns) = tile(shape)
    scale, shrink, bound = 1 / 8, 0.9, 0.3
    Y = (L - state) * shrink
    clipped = np.clip(counts * scale - L - Y, -bound, bound)

    ours, low, sums = state.astype(dtype), L.astype(dtype), np.empty(2)
    numbers = [np.dtype(dtype).type(number) for number in (scale, shrink, bound)]
    step_tile(ours, low, counts, *numbers, rows.astype(dtype), columns.astype(dtype), sums)
    tolerance = 10 * float(np.finfo(dtype).eps)
    assert np.allclose(ours, L + clipped, rtol=0, atol=10 * tolerance)
    assert sums[0] == pytest.approx(rows @ np.abs(counts * scale - L) @ columns, rel=tolerance)
    assert sums[1] == pytest.approx(rows @ (clipped + Y) ** 2 @ columns, rel=tolerance)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("values", [np.uint8, np.float32, np.float64])
def test_gap_sums(shape, values):
    """Weighted sums of |M − L| and (M − L)², in double precision whatever M is."""
    counts, L, _, (rows, columns) = tile(shape)
    sums = np.empty(2)
    gap_sums(L, counts.astype(values), 1 / 8, rows, columns, sums)
    gap = counts / 8 - L
    expected = rows @ np.abs(gap) @ columns, rows @ gap**2 @ columns
    assert np.allclose(sums, expected, rtol=1e-13, atol=0)
