"""Own levels: the price level of each advertiser in a period, beyond that of its days.

On day d advertiser a wins at a bid b with probability F_a(b·e^{−τ_d−s_a}), with the common level
τ_d of :mod:`coterie.ads.curves.price_levels`. The own level s_a of a period maximises the
likelihood of the advertiser's auctions in it, with a wide normal prior around 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.auction_counts import log_edges
from coterie.ads.curves.price_levels import (
    AuctionCells,
    Places,
    curve_at_places,
    level_score,
)

__all__ = ["LevelScores", "OwnLevels", "mean_win_rates", "own_levels"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: Levels that are tried in each round, around the level found before: first far, then near.
_STEPS = (
    np.linspace(-1.2, 1.2, 9),
    np.linspace(-0.3, 0.3, 5),
    np.array([-0.06, 0.0, 0.06]),
    np.array([-0.03, 0.0, 0.03]),
)
#: Variance of the prior: it decides only for advertisers with hardly any auctions.
_PRIOR_VARIANCE = 0.25


class OwnLevels(NamedTuple):
    """Own levels of A advertisers in a period of D days."""

    level: Floats  # (A,), s
    information: Floats  # (A,), J = −d²L/ds² of the auctions and the prior
    score: Floats  # (A, D), dL/ds of the auctions of each day at s


class LevelScores:
    """Log-likelihoods of the auctions of each advertiser and day under its level.

    Parameters
    ----------
    edges : (G,) int64 array
    curves : (A, G + 1) array
        F at level 0.
    cells : AuctionCells
    levels : (D,) array
        Common level of each day.
    """

    def __init__(
        self, edges: NDArray[np.int64], curves: Floats, cells: AuctionCells, levels: Floats
    ) -> None:
        self.shape = len(curves), len(levels)
        self._x, self._curves, self._cells, self._levels = log_edges(edges), curves, cells, levels

    def at(self, own: Floats) -> Floats:
        """Return the log-likelihoods (A, D) at own levels (A,)."""
        x, (A, D) = self._x, self.shape
        numbers = np.arange(len(x))

        def place(at: Places, side: int) -> Floats:
            row, day, bins = at
            return np.interp(x[bins + side] - self._levels[day] - own[row], x, numbers)

        def summed(at: Places, number: Floats, logs: Floats) -> Floats:
            sums = np.bincount(at[0] * D + at[1], number * logs, A * D)
            return np.asarray(sums, dtype=np.float64).reshape(A, D)

        return np.asarray(level_score(self._cells, self._curves, place, summed))


def own_levels(scores: LevelScores, days: Indices) -> OwnLevels:
    """Estimate each advertiser's own level in the period of some days."""

    def total(own: Floats) -> Floats:
        return np.asarray(scores.at(own)[:, days].sum(axis=1) - own**2 / (2 * _PRIOR_VARIANCE))

    level = np.zeros(scores.shape[0])
    for steps in _STEPS:
        found = np.stack([total(level + step) for step in steps])
        level = level + _highest(steps, found)
    width = _STEPS[-1][-1]
    below, here, above = (scores.at(level + step)[:, days] for step in _STEPS[-1])
    bend = (2 * here - below - above).sum(axis=1) / width**2
    return OwnLevels(
        level, np.maximum(bend, 0.0) + 1 / _PRIOR_VARIANCE, (above - below) / 2 / width
    )


def mean_win_rates(
    edges: NDArray[np.int64], curves: Floats, at: Places, number: Floats, level: Floats
) -> Floats:
    """Return the share of bids that win at levels (A,), (A,): the mean of F over the bids.

    ``number`` of bids are in the cells ``at``; 0 for an advertiser without bids.
    """
    x, (row, _, bins) = log_edges(edges), at
    lower, upper = (
        curve_at_places(curves, row, np.interp(x[bins + side] - level[row], x, np.arange(len(x))))
        for side in (0, 1)
    )
    won = np.bincount(row, number * (lower + upper) / 2, len(curves))
    bids = np.bincount(row, number, len(curves))
    return np.divide(won, bids, out=np.zeros(len(curves)), where=bids > 0)


def _highest(steps: Floats, scores: Floats) -> Floats:
    """Return where a parabola through the best step and its neighbours is highest, (A,)."""
    best = np.clip(scores.argmax(axis=0), 1, len(steps) - 2)
    left, top, right = (
        np.take_along_axis(scores, (best + side)[None], axis=0)[0] for side in (-1, 0, 1)
    )
    width, bend = steps[1] - steps[0], 2 * top - left - right
    move = np.divide(right - left, bend, out=np.zeros_like(bend), where=bend > 0) * width / 2
    return np.asarray(steps[best] + np.clip(move, -width, width))
