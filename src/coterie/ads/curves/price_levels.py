"""Price levels: by how much the prices of each day are above those of other days.

A day's level τ_d is a shift of log price that is common to all advertisers: on day d, advertiser a
wins at a bid b with probability F_a(b·e^{−τ_d}). With F_a from all days, τ_d maximises the
likelihood of the day's auctions. Counts are then moved by −τ_d, the curves are fitted again, and
the levels once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.auction_counts import bids_per_weight, count_auctions, log_edges
from coterie.ads.curves.day_levels import DayLevels, fit_levels
from coterie.ads.curves.market_dictionary import general_posterior
from coterie.ads.histograms.bid_histograms import BidHistograms

__all__ = ["price_levels"]

Floats = NDArray[np.float64]

#: Shifts that are tried in each round, around the level found before: first far, then near.
_STEPS = (np.linspace(-0.36, 0.36, 7), np.array([-0.06, 0.0, 0.06]), np.array([-0.03, 0.0, 0.03]))
_TINY = 1e-7
#: Largest variance of a measured level, for a day with hardly any auctions.
_MOST_VARIANCE = 0.25


def price_levels(histograms: BidHistograms, days: Sequence[int]) -> DayLevels:
    """Estimate the price level of each of some days, relative to their mean."""
    days, scale = list(days), bids_per_weight(histograms)
    levels, errors = np.zeros(len(days)), np.full(len(days), _MOST_VARIANCE)
    for steps in _STEPS if len(days) > 1 else ():
        together = count_auctions(histograms, days, shifts=levels)
        atoms, _, posterior = general_posterior(together, rounds=0)
        curves = posterior @ atoms
        found = [
            _level_of(histograms, scale, day, curves, level + steps)
            for day, level in zip(days, levels.tolist(), strict=True)
        ]
        levels, errors = np.array(found).T
        levels = levels - np.average(levels, weights=1.0 / errors)
    return fit_levels(histograms.days[days], levels, errors)


def _level_of(
    histograms: BidHistograms, scale: Floats, day: int, curves: Floats, steps: Floats
) -> tuple[float, float]:
    """Return the level of one day and its variance.

    The log-likelihood is computed at ``steps``, and its maximum by a parabola through the best one
    and its neighbours.
    """
    cells, prices = histograms.bids, histograms.prices
    bids, priced = cells.day == day, prices.day == day
    bid_at = cells.advertiser[bids], cells.bin[bids]
    price_at = prices.advertiser[priced], prices.bin[priced]
    wins, number = cells.wins[bids] * scale[bid_at[0]], prices.count[priced] * scale[price_at[0]]
    lost = cells.count[bids] * scale[bid_at[0]] - wins
    lost = lost if histograms.revealed != "minimum" else np.zeros_like(wins)
    x, scores = log_edges(histograms.edges), []
    for step in steps:
        # places of all edges on the curves of level 0
        place = np.interp(x - step, x, np.arange(len(x)))
        middle = np.clip(_between_edges(curves, place, bid_at, mean=True), _TINY, 1 - _TINY)
        score = lost @ np.log1p(-middle)
        if histograms.revealed == "none":
            score += wins @ np.log(middle)
        else:
            density = _between_edges(curves, place, price_at, mean=False)
            score += number @ np.log(np.maximum(density, _TINY))
        scores.append(float(score))
    return _parabola(steps, np.array(scores))


def _between_edges(curves: Floats, place: Floats, at: tuple[Any, Any], *, mean: bool) -> Floats:
    """Return the mean of a moved curve over a bin, or its increase, for cells (row, bin)."""
    row, bins = at
    lower_edge, upper_edge = (_curve_at(curves, row, place[bins + side]) for side in (0, 1))
    return (lower_edge + upper_edge) / 2 if mean else upper_edge - lower_edge


def _curve_at(curves: Floats, row: Any, place: Floats) -> Floats:
    lower = np.minimum(place.astype(np.int64), curves.shape[1] - 2)
    part = place - lower
    return curves[row, lower] * (1 - part) + curves[row, lower + 1] * part


def _parabola(steps: Floats, scores: Floats) -> tuple[float, float]:
    best = int(np.clip(scores.argmax(), 1, len(steps) - 2))
    left, top, right = scores[best - 1 : best + 2]
    width, bend = steps[1] - steps[0], 2 * top - left - right
    if bend <= 0:
        return float(steps[best]), _MOST_VARIANCE
    move = width / 2 * (right - left) / bend
    at = steps[best] + np.clip(move, -2 * width, 2 * width)
    return float(at), float(min(width**2 / bend, _MOST_VARIANCE))
