"""A symmetric matrix in tiles equals the dense matrix."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from coterie.relaxation.symmetric_tiles import SymmetricTiles, n_stored

ORDERS = [1, 257, 1500]


def filled(n, dtype=np.float64):
    """Return a random symmetric matrix, in tiles and dense."""
    A = np.random.default_rng(n).normal(size=(n, n)).astype(dtype)
    A = A + A.T
    tiles = SymmetricTiles(n, np.dtype(dtype))
    for share in tiles.shares:
        for tile in share:
            tile.values[:] = A[tile.rows, tile.columns]
    return tiles, A


@pytest.mark.parametrize("n", ORDERS)
def test_dense(n):
    """The tiles and their transposes form the matrix; no entry is stored twice."""
    tiles, A = filled(n)
    assert_array_equal(tiles.dense(), A)
    held = [tile for share in tiles.shares for tile in share]
    assert sum(tile.copies * tile.values.size for tile in held) == n * n
    assert sum(tile.values.size for tile in held) == n_stored(n) == tiles.nbytes // 8


@pytest.mark.parametrize("n", ORDERS)
@pytest.mark.parametrize("threads", ["1", "5"])
def test_product(n, threads, monkeypatch):
    """A @ X is right for any number of threads."""
    monkeypatch.setenv("COTERIE_NUM_THREADS", threads)
    tiles, A = filled(n)
    X = np.random.default_rng(0).normal(size=(n, 4))
    assert_allclose(tiles @ X, A @ X, rtol=0, atol=1e-12 * n)


def test_shares_of_threads(monkeypatch):
    """Shares differ by one tile at most; a small matrix has a single share."""
    monkeypatch.setenv("COTERIE_NUM_THREADS", "3")
    sizes = [len(share) for share in SymmetricTiles(1500, np.dtype(np.float32)).shares]
    assert len(sizes) == 2 and max(sizes) - min(sizes) <= 1
    assert len(SymmetricTiles(500, np.dtype(np.float32)).shares) == 1
