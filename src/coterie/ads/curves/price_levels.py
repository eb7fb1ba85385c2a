"""Price levels: by how much the prices of each day are above those of other days.

A day's level τ_d is a shift of log price that is common to all advertisers: on day d, advertiser a
wins at a bid b with probability F_a(b·e^{−τ_d}). With F_a from all days, τ_d maximises the
likelihood of the day's auctions. Counts are then moved by −τ_d, the curves are fitted again, and
the levels once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.auction_counts import bids_per_weight, count_auctions, log_edges
from coterie.ads.curves.day_levels import DayLevels, fit_levels
from coterie.ads.curves.market_dictionary import general_posterior
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.arrays import Ints

__all__ = [
    "AuctionCells",
    "cells_of_days",
    "curve_at_places",
    "level_curves",
    "level_score",
    "measured_levels",
    "price_levels",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
#: Advertiser, day and bin of each cell.
Places = tuple[Indices, Indices, Indices]

#: Shifts that are tried in each round, around the level found before: first far, then near.
_STEPS = (np.linspace(-0.36, 0.36, 7), np.array([-0.06, 0.0, 0.06]), np.array([-0.03, 0.0, 0.03]))
#: The same for the own levels of advertisers, and the variance of their prior: it decides only for
#: advertisers with hardly any auctions.
_OWN_STEPS = (
    np.linspace(-1.2, 1.2, 9),
    np.linspace(-0.3, 0.3, 5),
    np.array([-0.06, 0.0, 0.06]),
    np.array([-0.03, 0.0, 0.03]),
)
_OWN_VARIANCE = 0.25
_TINY = 1e-7
#: Largest variance of a measured level, for a day with hardly any auctions.
_MOST_VARIANCE = 0.25


class AuctionCells(NamedTuple):
    """Auctions of some days by cell: won and lost by bin of the bid, revealed by that of the price.

    The kinds are those of :mod:`~coterie.ads.curves.auction_counts`.
    """

    bids: Places
    won: Floats | None  # None where prices are revealed
    lost: Floats
    prices: Places
    revealed: Floats


def price_levels(histograms: BidHistograms, days: Sequence[int]) -> DayLevels:
    """Estimate the price level of each of some days, relative to their mean."""
    days = list(days)
    return fit_levels(histograms.days[days], *measured_levels(histograms, days))


def measured_levels(histograms: BidHistograms, days: Sequence[int]) -> tuple[Floats, Floats]:
    """Measure the price level of each of D days, relative to their mean: levels and variances."""
    days, scale = list(days), bids_per_weight(histograms)
    levels, errors = np.zeros(len(days)), np.full(len(days), _MOST_VARIANCE)
    for steps in _STEPS if len(days) > 1 else ():
        curves = level_curves(histograms, days, levels)
        found = [
            _level_of(histograms, scale, day, curves, level + steps)
            for day, level in zip(days, levels.tolist(), strict=True)
        ]
        levels, errors = np.array(found).T
        levels = levels - np.average(levels, weights=1.0 / errors)
    return levels, errors


def level_curves(histograms: BidHistograms, days: Sequence[int], levels: Floats) -> Floats:
    """Return F of each advertiser at level 0, (A, G + 1), at the edges of ``log_edges``."""
    together = count_auctions(histograms, days, shifts=levels)
    atoms, _, posterior = general_posterior(together, rounds=0)
    return np.asarray(posterior @ atoms)


def own_levels(
    histograms: BidHistograms, curves: Floats, common: Floats, days: Ints
) -> tuple[Floats, Floats, Floats]:
    """Estimate each advertiser's own price level in the period of some of the D days of a log.

    On day d advertiser a wins at a bid b with probability F_a(b·e^{−τ_d−s_a}), with ``curves``
    F (A, G + 1) and ``common`` levels τ (D,). s_a maximises the likelihood L of the advertiser's
    auctions in the period, with a wide normal prior around 0. Return s (A,), its information
    −d²L/ds² with that of the prior (A,), and dL/ds of the auctions of each day at s, (A, days).
    """
    x, A, D = log_edges(histograms.edges), len(curves), len(common)
    numbers = np.arange(len(x))
    cells = cells_of_days(histograms, bids_per_weight(histograms), np.isin(np.arange(D), days))

    def scores(own: Floats) -> Floats:
        """Return the log-likelihoods (A, days) at own levels (A,)."""

        def place(at: Places, side: int) -> Floats:
            row, day, bins = at
            return np.interp(x[bins + side] - common[day] - own[row], x, numbers)

        def summed(at: Places, number: Floats, logs: Floats) -> Floats:
            sums = np.bincount(at[0] * D + at[1], number * logs, A * D)
            return np.asarray(sums, dtype=np.float64).reshape(A, D)

        return np.asarray(level_score(cells, curves, place, summed))[:, days]

    level = np.zeros(A)
    for steps in _OWN_STEPS:
        tried = [level + step for step in steps]
        found = np.stack([scores(s).sum(axis=1) - s**2 / (2 * _OWN_VARIANCE) for s in tried])
        # where a parabola through the best step and its neighbours is highest
        best = np.clip(found.argmax(axis=0), 1, len(steps) - 2)
        left, top, right = (
            np.take_along_axis(found, (best + side)[None], axis=0)[0] for side in (-1, 0, 1)
        )
        width, bend = steps[1] - steps[0], 2 * top - left - right
        move = np.divide(right - left, bend, out=np.zeros_like(bend), where=bend > 0) * width / 2
        level = level + (steps[best] + np.clip(move, -width, width))
    below, here, above = (scores(level + step) for step in _OWN_STEPS[-1])
    bend = (2 * here - below - above).sum(axis=1) / width**2
    return level, np.maximum(bend, 0.0) + 1 / _OWN_VARIANCE, (above - below) / 2 / width


def cells_of_days(
    histograms: BidHistograms, scale: Floats, chosen: NDArray[np.bool_]
) -> AuctionCells:
    """Return the auctions of some days; ``scale`` (A,) is that of ``bids_per_weight``."""
    cells, prices = histograms.bids, histograms.prices
    bids, priced = chosen[cells.day], chosen[prices.day]
    bid_at = cells.advertiser[bids], cells.day[bids], cells.bin[bids]
    price_at = prices.advertiser[priced], prices.day[priced], prices.bin[priced]
    wins, number = cells.wins[bids] * scale[bid_at[0]], prices.count[priced] * scale[price_at[0]]
    lost = cells.count[bids] * scale[bid_at[0]] - wins
    lost = lost if histograms.revealed != "minimum" else np.zeros_like(wins)
    won = wins if histograms.revealed == "none" else None
    return AuctionCells(bid_at, won, lost, price_at, number)


def level_score(
    cells: AuctionCells,
    curves: Floats,
    place: Callable[[Places, int], Floats],
    summed: Callable[[Places, Floats, Floats], Any],
) -> Any:
    """Return the log-likelihood of auctions under moved curves (A, G + 1).

    Parameters
    ----------
    place : callable
        Of cells and a side, 0 or 1: where their lower or upper edges are on the curves of level
        0, as fractional numbers of edges.
    summed : callable
        Of cells, numbers of auctions and logarithms of their probabilities: the sum of products.
    """

    def at_edges(at: Places) -> tuple[Floats, Floats]:
        lower, upper = (curve_at_places(curves, at[0], place(at, side)) for side in (0, 1))
        return lower, upper

    lower, upper = at_edges(cells.bids)
    middle = np.clip((lower + upper) / 2, _TINY, 1 - _TINY)
    score = summed(cells.bids, cells.lost, np.log1p(-middle))
    if cells.won is not None:
        return score + summed(cells.bids, cells.won, np.log(middle))
    lower, upper = at_edges(cells.prices)
    return score + summed(cells.prices, cells.revealed, np.log(np.maximum(upper - lower, _TINY)))


def curve_at_places(curves: Floats, row: Indices, place: Floats) -> Floats:
    """Interpolate curves (A, G + 1) of some rows at fractional numbers of edges."""
    lower = np.minimum(place.astype(np.int64), curves.shape[1] - 2)
    part = place - lower
    return np.asarray(curves[row, lower] * (1 - part) + curves[row, lower + 1] * part)


def _level_of(
    histograms: BidHistograms, scale: Floats, day: int, curves: Floats, steps: Floats
) -> tuple[float, float]:
    """Return the level of one day and its variance.

    The log-likelihood is computed at ``steps``, and its maximum by a parabola through the best one
    and its neighbours.
    """
    cells = cells_of_days(histograms, scale, np.arange(len(histograms.days)) == day)
    x, scores = log_edges(histograms.edges), []
    for step in steps:
        # places of all edges on the curves of level 0
        places = np.interp(x - step, x, np.arange(len(x)))
        score = level_score(
            cells,
            curves,
            lambda at, side, places=places: places[at[2] + side],  # type: ignore[misc]
            lambda _, number, logs: number @ logs,
        )
        scores.append(float(score))
    return _parabola(steps, np.array(scores))


def _parabola(steps: Floats, scores: Floats) -> tuple[float, float]:
    best = int(np.clip(scores.argmax(), 1, len(steps) - 2))
    left, top, right = scores[best - 1 : best + 2]
    width, bend = steps[1] - steps[0], 2 * top - left - right
    if bend <= 0:
        return float(steps[best]), _MOST_VARIANCE
    move = width / 2 * (right - left) / bend
    at = steps[best] + np.clip(move, -2 * width, 2 * width)
    return float(at), float(min(width**2 / bend, _MOST_VARIANCE))
