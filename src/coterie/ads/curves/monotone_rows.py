"""Monotone rows: isotonic regression of many rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import coterie.ads.curves.kernels as kernels

__all__ = ["monotone_rows"]

Floats = NDArray[np.float64]


def monotone_rows(values: Floats, weights: Floats) -> Floats:
    """Return the non-decreasing rows nearest to ``values`` (A, G) in weighted least squares.

    Entries without weight do not count; they lie on a straight line between their neighbours with
    weight, and level beyond them. A row without any weight is 0.

    Examples
    --------
    >>> monotone_rows(np.array([[3.0, 1.0, 9.0, 4.0]]), np.array([[1.0, 1.0, 0.0, 1.0]])).tolist()
    [[2.0, 2.0, 3.0, 4.0]]
    """
    shape = np.broadcast_shapes(values.shape, weights.shape)
    rows, mass = (
        np.ascontiguousarray(np.broadcast_to(part, shape), dtype=np.float64)
        for part in (values, weights)
    )
    return np.asarray(kernels.pool_violators(rows, mass))
