"""Monotone rows: compiled isotonic regression of many rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.runtime.compiled_code import njit

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
    return np.asarray(_monotone(rows, mass))


@njit(nogil=True)
def _monotone(values: Any, weights: Any) -> Any:
    """Pool adjacent violators, row by row."""
    n_rows, n = values.shape
    found = np.zeros((n_rows, n))
    # blocks of equal height: weighted sum, weight, first and last entry
    sums, masses = np.empty(n), np.empty(n)
    firsts, lasts = np.empty(n, np.int64), np.empty(n, np.int64)
    for a in range(n_rows):
        top = -1
        for g in range(n):
            if weights[a, g] <= 0:
                continue
            total, mass, first = values[a, g] * weights[a, g], weights[a, g], g
            while top >= 0 and sums[top] * mass >= total * masses[top]:
                total += sums[top]
                mass += masses[top]
                first = firsts[top]
                top -= 1
            top += 1
            sums[top], masses[top], firsts[top], lasts[top] = total, mass, first, g
        _fill(found[a], sums, masses, firsts, lasts, top)
    return found


@njit(nogil=True)
def _fill(row: Any, sums: Any, masses: Any, firsts: Any, lasts: Any, top: Any) -> None:
    """Write the heights of the blocks, and straight lines between them."""
    if top < 0:
        return
    row[: firsts[0]] = sums[0] / masses[0]
    for block in range(top + 1):
        height = sums[block] / masses[block]
        row[firsts[block] : lasts[block] + 1] = height
        if block < top:
            following, gap = sums[block + 1] / masses[block + 1], firsts[block + 1] - lasts[block]
            for step in range(1, gap):
                row[lasts[block] + step] = height + (following - height) * step / gap
    row[lasts[top] :] = sums[top] / masses[top]
