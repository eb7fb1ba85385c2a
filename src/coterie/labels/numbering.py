"""Names for clusters: 0, 1, … in order of appearance, or by falling size."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["renumber_by_appearance", "renumber_by_size"]


def renumber_by_appearance(labels: NDArray[Any]) -> NDArray[np.int64]:
    """The same clusters, the first to appear called 0, the next 1 and so on.

    >>> renumber_by_appearance(np.array([7, 2, 7, 0]))
    array([0, 1, 0, 2])
    """
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return _ranks(np.argsort(first))[inverse]


def renumber_by_size(
    labels: NDArray[Any], weights: NDArray[np.float64] | None = None
) -> NDArray[np.int64]:
    """The same clusters, the largest called 0; equal ones in order of appearance.

    >>> renumber_by_size(np.array([5, 3, 3, 9]))
    array([1, 0, 0, 2])
    """
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    size = np.bincount(inverse, weights=weights)
    return _ranks(np.lexsort((first, -size)))[inverse]


def _ranks(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Place of each item in an order."""
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank
