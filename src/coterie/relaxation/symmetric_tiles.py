"""A symmetric matrix stored as tiles of its upper triangle: half the memory, half the work.

A consists of tiles A_IJ with A_JI = A_IJᵀ; only those with I ≤ J are stored, each contiguous. A
tile fits in the second-level cache, so an update and two products read it from memory once. The
tiles of a thread depend only on the order n of the matrix and on the number of threads, so results
do not vary between runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.runtime.devices import map_in_threads, n_threads
from coterie.runtime.short_reprs import short_repr

__all__ = ["SymmetricTiles", "Tile", "add_product", "n_stored", "summed", "tile_edges"]

_SIDE = 256
# A thread gets at least this many tiles.
_LEAST_SHARE = 8


@dataclass(frozen=True)
class Tile:
    """Position and values of a tile."""

    rows: slice
    columns: slice
    values: NDArray[Any]

    __repr__ = short_repr

    @property
    def copies(self) -> int:
        """Return how often the tile is in A: twice off the diagonal, because of its transpose."""
        return 1 if self.rows == self.columns else 2


class SymmetricTiles:
    """A symmetric (n, n) matrix, initially zero; ``shares`` has the tiles of each thread.

    >>> A = SymmetricTiles(3, np.dtype(float))
    >>> A.shares[0][0].values[:] = np.diag([1.0, 2.0, 3.0])
    >>> A @ np.ones((3, 1))
    array([[1.],
           [2.],
           [3.]])
    """

    def __init__(self, n: int, dtype: np.dtype[Any]) -> None:
        self.n, self.dtype = n, dtype
        edges = tile_edges(n)
        self._numbers = np.zeros(n_stored(n), dtype=dtype)
        tiles, begin = [], 0
        for index, rows in enumerate(edges):
            for columns in edges[index:]:
                shape = rows.stop - rows.start, columns.stop - columns.start
                end = begin + shape[0] * shape[1]
                tiles.append(Tile(rows, columns, self._numbers[begin:end].reshape(shape)))
                begin = end
        n_shares = min(n_threads(), max(1, len(tiles) // _LEAST_SHARE))
        self.shares: list[list[Tile]] = [tiles[share::n_shares] for share in range(n_shares)]

    @property
    def nbytes(self) -> int:
        """Bytes stored."""
        return self._numbers.nbytes

    def __matmul__(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return A @ X for X (n, q): products in A's type, summed over tiles in double."""
        X = np.ascontiguousarray(X, dtype=self.dtype)

        def multiply(share: Sequence[Tile]) -> NDArray[np.float64]:
            partial = np.zeros(X.shape)
            for tile in share:
                add_product(tile, X, partial)
            return partial

        return summed(self.map_shares(multiply))

    def map_shares(self, work: Callable[[list[Tile]], Any]) -> list[Any]:
        """Return ``work(share)`` of every share in order, each computed on its thread."""
        return map_in_threads(work, self.shares)

    def dense(self) -> NDArray[Any]:
        """Return the full matrix."""
        A = np.empty((self.n, self.n), dtype=self.dtype)
        for share in self.shares:
            for tile in share:
                A[tile.rows, tile.columns] = tile.values
                A[tile.columns, tile.rows] = tile.values.T
        return A


def add_product(tile: Tile, X: NDArray[Any], total: NDArray[np.float64]) -> None:
    """Add the products of a tile and of its transpose with X to ``total`` (n, q) = A @ X."""
    total[tile.rows] += tile.values @ X[tile.columns]
    if tile.copies == 2:
        total[tile.columns] += tile.values.T @ X[tile.rows]


def summed(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the sum of the threads' results in fixed order; the first array is overwritten."""
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


def tile_edges(n: int) -> list[slice]:
    """Split the rows 0..n into nearly equal pieces of at most 256.

    >>> tile_edges(300)
    [slice(0, 150, None), slice(150, 300, None)]
    """
    n_pieces = -(-n // _SIDE)
    return [slice(n * p // n_pieces, n * (p + 1) // n_pieces) for p in range(n_pieces)]


def n_stored(n: int) -> int:
    """Return the number of entries in the upper block triangle of an (n, n) matrix.

    >>> n_stored(300)
    67500
    """
    return (n * n + sum((piece.stop - piece.start) ** 2 for piece in tile_edges(n))) // 2
