"""A symmetric matrix as the tiles of its upper block triangle: half the memory, half the work.

    A = [A_IJ],  A_JI = A_IJᵀ,  only I ≤ J stored, each tile contiguous

A tile is small enough for the second-level cache, so whatever is done with it (an update, two
products) costs one trip to memory. Which thread takes which tiles depends on the order of the
matrix and the number of threads alone, so results do not vary from run to run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.runtime.devices import map_in_threads, n_threads

__all__ = ["SymmetricTiles", "Tile", "add_product", "n_stored", "summed", "tile_edges"]

_SIDE = 256
_LEAST_SHARE = 8


@dataclass(frozen=True)
class Tile:
    """Where a tile lies, and its numbers; ``copies`` is how often it occurs in the matrix."""

    rows: slice
    columns: slice
    values: NDArray[Any]

    @property
    def copies(self) -> int:
        """Two off the diagonal, where its transpose is not stored."""
        return 1 if self.rows == self.columns else 2


class SymmetricTiles:
    """A symmetric (n, n) matrix of zeros to begin with.

    Attributes
    ----------
    shares : list of lists of Tile
        The tiles, divided among the threads.

    Examples
    --------
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
        for place, rows in enumerate(edges):
            for columns in edges[place:]:
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
        """A @ X for X of shape (n, q): products in A's type, summed over tiles in double."""
        X = np.ascontiguousarray(X, dtype=self.dtype)

        def multiply(share: Sequence[Tile]) -> NDArray[np.float64]:
            partial = np.zeros(X.shape)
            for tile in share:
                add_product(tile, X, partial)
            return partial

        return summed(self.map_shares(multiply))

    def map_shares(self, work: Callable[[list[Tile]], Any]) -> list[Any]:
        """``work`` of every share, each on a thread of its own; in order."""
        return map_in_threads(work, self.shares)

    def dense(self) -> NDArray[Any]:
        """The whole matrix."""
        A = np.empty((self.n, self.n), dtype=self.dtype)
        for share in self.shares:
            for tile in share:
                A[tile.rows, tile.columns] = tile.values
                A[tile.columns, tile.rows] = tile.values.T
        return A


def add_product(tile: Tile, X: NDArray[Any], total: NDArray[np.float64]) -> None:
    """Add a tile's part of A @ X, and that of its transpose."""
    total[tile.rows] += tile.values @ X[tile.columns]
    if tile.copies == 2:
        total[tile.columns] += tile.values.T @ X[tile.rows]


def summed(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The sum of the threads' parts, always in the same order; the first is overwritten."""
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


def tile_edges(n: int) -> list[slice]:
    """The rows 0..n in nearly equal pieces of at most 256.

    >>> tile_edges(300)
    [slice(0, 150, None), slice(150, 300, None)]
    """
    n_pieces = -(-n // _SIDE)
    return [slice(n * p // n_pieces, n * (p + 1) // n_pieces) for p in range(n_pieces)]


def n_stored(n: int) -> int:
    """How many numbers the upper block triangle of an (n, n) matrix holds.

    >>> n_stored(300)
    67500
    """
    return (n * n + sum((piece.stop - piece.start) ** 2 for piece in tile_edges(n))) // 2
