"""Compiled loops over label tuples, compared with numpy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from coterie.counts import coassociation_kernels as kernels

U, V, K = 37, 5, 4
BLOCKS = [(0, 0), (5, 20), (36, U)]


@pytest.fixture(params=[0, 1], ids=["complete", "gaps"])
def codes(request):
    """Codes (u, V) of V partitions into K clusters, with or without missing labels."""
    rng = np.random.default_rng(request.param)
    labels = rng.integers(-request.param, K, (U, V))
    return np.where(labels < 0, -1, labels + K * np.arange(V)).astype(np.int16)


@pytest.fixture
def transposed(codes):
    """The transposed codes, (V, u)."""
    return np.ascontiguousarray(codes.T)


@pytest.fixture
def weights():
    """Weights of the tuples."""
    return np.random.default_rng(2).integers(1, 9, U).astype(np.float64)


@pytest.fixture
def alpha():
    """Weights of the partitions."""
    return np.random.default_rng(3).random(V)


def votes(codes):
    """Together and both labelled, (V, u, u)."""
    columns = codes.T
    both = (columns[:, :, None] >= 0) & (columns[:, None, :] >= 0)
    return both & (columns[:, :, None] == columns[:, None, :]), both


@pytest.mark.parametrize(("start", "stop"), BLOCKS)
def test_add_contingencies(codes, weights, start, stop):
    """Zᵀ diag(w) Z of the rows of a block is added to the upper triangle."""
    Z = (codes[start:stop, :, None] == np.arange(V * K)).sum(axis=1)
    out = np.ones((V * K, V * K))
    kernels.add_contingencies(codes, weights, start, stop, out)
    expected = 1 + np.triu(Z.T @ (weights[start:stop, None] * Z))
    assert_array_equal(out, expected)


@pytest.mark.parametrize("n", [2048, 5000])
def test_add_contingencies_over_several_tiles(n):
    """No row is lost at the border of two tiles."""
    rng = np.random.default_rng(n)
    codes = rng.integers(0, 3, (n, 2), dtype=np.int32) + np.array([0, 3], dtype=np.int32)
    weights = rng.integers(1, 5, n).astype(np.float64)
    out = np.zeros((6, 6))
    kernels.add_contingencies(codes, weights, 0, n, out)
    Z = (codes[:, :, None] == np.arange(6)).sum(axis=1)
    assert_array_equal(out, np.triu(Z.T @ (weights[:, None] * Z)))


@pytest.mark.parametrize(("start", "stop"), BLOCKS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_share_rows(codes, transposed, alpha, dtype, start, stop):
    """The rows of a block hold the ratio of votes together to all votes, or zero."""
    codes[3], transposed[:, 3] = -1, -1
    out = np.full((U, U), 99, dtype=dtype)
    kernels.share_rows(transposed, alpha, start, stop, np.empty(U), np.empty(U), out)
    same, both = (np.tensordot(alpha, vote, axes=1) for vote in votes(codes))
    expected = np.divide(same, both, out=np.zeros_like(same), where=both > 0)
    assert_allclose(out[start:stop], expected[start:stop], rtol=10 * np.finfo(dtype).eps)
    assert (np.delete(out, np.s_[start:stop], axis=0) == 99).all()
