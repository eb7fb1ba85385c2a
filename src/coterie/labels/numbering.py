"""Renumbering of clusters as 0, 1, …, by first appearance or by decreasing size."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["renumber_by_appearance", "renumber_by_size"]


def renumber_by_appearance(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Renumber clusters in the order in which they first appear.

    >>> renumber_by_appearance(np.array([7, 2, 7, 0]))
    array([0, 1, 0, 2])
    """
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def renumber_by_size(
    labels: NDArray[Any], weights: NDArray[np.float64] | None = None
) -> NDArray[np.int64]:
    """Renumber clusters by decreasing size; equal sizes are in order of appearance.

    >>> renumber_by_size(np.array([5, 3, 3, 9]))
    array([1, 0, 0, 2])
    """
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    size = np.bincount(inverse, weights=weights)
    return np.argsort(np.lexsort((first, -size)))[inverse]
