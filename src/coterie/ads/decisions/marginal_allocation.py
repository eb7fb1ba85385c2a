"""Marginal allocation: divide a sum of money where a further unit of it buys most.

Let advertiser a buy v_a(s) for a spend s. The amount bought for a budget B,

    maximise Σ v_a(s_a)  subject to  Σ s_a ≤ B,  s_a ≥ 0,

is largest where all slopes v_a'(s_a) are equal, if the curves are concave. Each curve is given by
points. It is replaced by its concave envelope: the stretches left out are those where a mixture of
two bids buys more than one between them. The edges of all envelopes, the steepest first, are then
bought until the money is spent; only the last may be bought in part. This is the exact solution of
the linear programme over all mixtures of points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import coterie.ads.curves.kernels as kernels

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


class Allocated(NamedTuple):
    """How a budget was divided between A curves of P points."""

    places: Indices  # (A,), the last point that is bought in whole; −1 for none
    nexts: Indices  # (A,), the next point of the envelope; −1 if there is none
    spend: Floats  # (A,)
    amount: Floats  # (A,), on the envelopes
    slope: float  # of the last edge bought: the amount that a further unit of money buys; 0: none
    partial: int  # the curve whose last edge is bought in part; −1 for none


def allocate(spend: Floats, amount: Floats, budget: float) -> Allocated:
    """Divide a budget between curves so that the largest amount is bought.

    Parameters
    ----------
    spend, amount : (A, P) arrays
        Points of the curves, not decreasing; a curve begins at (0, 0), which is not among them.
    budget : float

    Examples
    --------
    The first curve buys 3 for the first unit of money; the second buys 2, then 1.

    >>> spend, amount = np.array([[1.0, 4.0], [1.0, 2.0]]), np.array([[3.0, 3.5], [2.0, 3.0]])
    >>> found = allocate(spend, amount, 2.5)
    >>> found.spend.tolist(), found.amount.tolist(), found.slope
    ([1.0, 1.5], [3.0, 2.5], 1.0)
    """
    curve, point, cost, gain = kernels.concave_envelopes(
        np.ascontiguousarray(spend), np.ascontiguousarray(amount)
    )
    slope = np.divide(gain, cost, out=np.full(len(cost), np.inf), where=cost > 0)
    # equal slopes keep their order within a curve
    order = np.argsort(-slope, kind="stable")
    paid = np.cumsum(cost[order])
    n_whole = int(np.searchsorted(paid, budget * (1 + 1e-15), side="right"))
    n = len(spend)
    places, whole = np.full(n, -1), order[:n_whole]
    np.maximum.at(places, curve[whole], point[whole])
    spent = np.bincount(curve[whole], cost[whole], n).astype(np.float64)
    bought = np.bincount(curve[whole], gain[whole], n).astype(np.float64)
    nexts = _following(curve, point, places, n)
    if n_whole == len(order):
        return Allocated(places, nexts, spent, bought, 0.0, -1)
    last = order[n_whole]
    rest = max(budget - float(spent.sum()), 0.0)
    part = rest / cost[last]
    spent[curve[last]] += rest
    bought[curve[last]] += part * gain[last]
    return Allocated(places, nexts, spent, bought, float(slope[last]), int(curve[last]))


def _following(curve: Indices, point: Indices, places: Indices, n: int) -> Indices:
    """Return the first point of each envelope after the last one bought; −1 if there is none."""
    after = point > places[curve]
    first = np.full(n, np.iinfo(np.int64).max)
    np.minimum.at(first, curve[after], point[after])
    return np.where(first == np.iinfo(np.int64).max, -1, first)
