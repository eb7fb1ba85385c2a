"""Amount codes: amounts of money to three significant digits, as small consecutive integers.

The code of an amount v > 0 in micros is ⌈v / 10^d⌉ + 900·d, where d is the least number of digits
to drop that leaves three: 1 … 1000 for amounts up to 1000, then 900 codes a decade. Codes grow
with amounts, so quantiles and bins can be found on codes, of which there are some ten thousand,
whatever the number of different amounts. All engines agree on them, as NumPy does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["MOST_MICROS", "amounts_of", "by_bisection", "code_column", "codes_of"]

#: More than any bid: a billion currency units a thousand impressions.
MOST_MICROS = 10**15

_DECADE = 900
_LARGEST = [10 ** (d + 3) for d in range(12)]  # the largest amount that drops d digits


def codes_of(amounts: ArrayLike) -> NDArray[np.int64]:
    """The codes of amounts from 1 to 10^15.

    >>> codes_of([1, 999, 1000, 1001, 9991, 10_000, 10_001]).tolist()
    [1, 999, 1000, 1001, 1900, 1900, 1901]
    """
    values = np.asarray(amounts, dtype=np.int64)
    dropped = np.searchsorted(_LARGEST, values)
    step = 10**dropped
    return (values + step - 1) // step + _DECADE * dropped


def amounts_of(codes: ArrayLike) -> NDArray[np.int64]:
    """The largest amounts that have these codes: all with three significant digits.

    >>> amounts_of([1, 1000, 1001, 1900, 1901]).tolist()
    [1, 1000, 1010, 10000, 10100]
    """
    values = np.asarray(codes, dtype=np.int64)
    dropped = np.maximum(values - 101, 0) // _DECADE
    return (values - _DECADE * dropped) * 10**dropped


def code_column(amount: Any, least: int = 1, most: int = MOST_MICROS) -> Any:
    """The codes of a column of amounts from ``least`` to ``most``, as an Ibis expression."""
    first, last = np.searchsorted(_LARGEST, [least, most]).tolist()

    def code(dropped: int) -> Any:
        if dropped == 0:
            return amount
        step = 10**dropped
        # Ibis divides by way of floats: exact, as the quotient is below 1001
        return (amount + (step - 1)) // step + _DECADE * dropped

    return by_bisection(amount, _LARGEST[first:last], lambda i: code(first + i))


def by_bisection(value: Any, edges: Sequence[int], result: Callable[[int], Any]) -> Any:
    """``result(g)`` for the least g with value ≤ edges[g], or for g = len(edges), as Ibis has it.

    The balanced tree of choices takes log₂ G comparisons a row, on every engine.
    """

    def between(first: int, last: int) -> Any:
        if first == last:
            return result(first)
        middle = (first + last) // 2
        return (value <= edges[middle]).ifelse(between(first, middle), between(middle + 1, last))

    return between(0, len(edges))
