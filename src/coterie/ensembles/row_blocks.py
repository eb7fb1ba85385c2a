"""Blocks of rows, and what several members compute from a block, computed only once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["RowBlock", "row_blocks"]

#: A block has at most this many rows and cells, so that what is computed from it stays small.
_MOST_ROWS = 1 << 14
_MOST_CELLS = 1 << 22
_FEWEST_ROWS = 256
#: A block remembers so many results. Runs on different columns share none of them.
_MOST_KEPT = 6


class RowBlock:
    """Some rows of the features X, with a memory of what was computed from them.

    >>> block = RowBlock(np.ones((2, 3)))
    >>> total = block.once(lambda X, times: X.sum() * times, 2.0)
    >>> float(total)
    12.0
    """

    def __init__(self, X: Any) -> None:
        self.X = X
        self._kept: list[tuple[Any, tuple[Any, ...], Any]] = []

    def once(self, compute: Callable[..., Any], *parts: Any) -> Any:
        """Return ``compute(X, *parts)``, or the result of an earlier call with equal parts.

        The results that were used last are kept. Parts are compared by value: members that were
        fitted in other processes hold equal copies of what they share.
        """
        for place, (known, arguments, result) in enumerate(self._kept):
            if known is compute and all(map(_equal, arguments, parts)):
                self._kept.append(self._kept.pop(place))
                return result
        result = compute(self.X, *parts)
        self._kept = [*self._kept[1 - _MOST_KEPT :], (compute, parts, result)]
        return result


def row_blocks(n_rows: int, n_columns: int) -> list[slice]:
    """Return consecutive blocks of rows, each small enough to compute with.

    >>> row_blocks(20_000, 10)
    [slice(0, 16384, None), slice(16384, 20000, None)]
    """
    size = min(_MOST_ROWS, max(_FEWEST_ROWS, _MOST_CELLS // max(n_columns, 1)))
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def _equal(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    # sparse landmarks are compared only by identity
    simple = (int, float, np.dtype)
    return isinstance(one, simple) and isinstance(other, simple) and bool(one == other)
