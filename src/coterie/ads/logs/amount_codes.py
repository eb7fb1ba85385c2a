"""Amount codes: amounts of money to three significant digits, as small consecutive integers.

The code of an amount v > 0 in micros is ⌈v / 10^d⌉ + 900·d, where d is the smallest number of
dropped digits that leaves three: codes are 1 … 1000 for amounts up to 1000, then 900 codes per
decade. Codes increase with amounts, so quantiles and bins can be computed on about ten thousand
codes instead of all distinct amounts. Every engine computes the same codes as NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coterie.arrays import Ints

#: The largest accepted amount: a billion currency units per thousand impressions.
MOST_MICROS = 10**15

_CODES_PER_DECADE = 900
_LARGEST = [10 ** (d + 3) for d in range(12)]  # the largest amount that drops d digits


def codes_of(amounts: ArrayLike) -> Ints:
    """Return the codes of amounts from 1 to 10^15.

    >>> codes_of([1, 999, 1000, 1001, 9991, 10_000, 10_001]).tolist()
    [1, 999, 1000, 1001, 1900, 1900, 1901]
    """
    values = np.asarray(amounts, dtype=np.int64)
    dropped = np.searchsorted(_LARGEST, values)
    step = 10**dropped
    return (values + step - 1) // step + _CODES_PER_DECADE * dropped


def amounts_of(codes: ArrayLike) -> Ints:
    """Return the largest amount of each code; it has three significant digits.

    >>> amounts_of([1, 1000, 1001, 1900, 1901]).tolist()
    [1, 1000, 1010, 10000, 10100]
    """
    values = np.asarray(codes, dtype=np.int64)
    dropped = np.maximum(values - 101, 0) // _CODES_PER_DECADE
    return (values - _CODES_PER_DECADE * dropped) * 10**dropped


def code_column(amount: Any, least: int = 1, most: int = MOST_MICROS) -> Any:
    """Return an Ibis expression for the codes of a column of amounts from ``least`` to ``most``."""
    first, last = np.searchsorted(_LARGEST, [least, most]).tolist()

    def code(dropped: int) -> Any:
        if dropped == 0:
            return amount
        step = 10**dropped
        # Ibis divides through floats; this is exact because the quotient is below 1001
        return (amount + (step - 1)) // step + _CODES_PER_DECADE * dropped

    return by_bisection(amount, _LARGEST[first:last], lambda i: code(first + i))


def by_bisection(value: Any, edges: Sequence[int], result: Callable[[int], Any]) -> Any:
    """Return an Ibis expression for ``result(g)``, g being the first index with value ≤ edges[g].

    Above the last edge g is len(edges). The balanced tree of conditions needs log₂ G comparisons
    per row on every engine.
    """

    def between(first: int, last: int) -> Any:
        if first == last:
            return result(first)
        middle = (first + last) // 2
        return (value <= edges[middle]).ifelse(between(first, middle), between(middle + 1, last))

    return between(0, len(edges))
