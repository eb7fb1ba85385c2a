"""Market changes: the changes of all advertisers between two periods of a log, as arrays."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.auction_counts import bids_per_weight, log_edges
from coterie.ads.curves.price_levels import (
    cells_of_days,
    curve_at_places,
    level_curves,
    measured_levels,
)
from coterie.ads.decisions.comparison.compared_days import ComparedDays
from coterie.ads.decisions.comparison.daily_measures import (
    Measure,
    day_effects,
    measures_of,
    period_estimate,
    unbiased_changes,
)
from coterie.ads.decisions.comparison.impression_parts import impression_parts
from coterie.ads.decisions.comparison.own_levels import LevelScores, mean_win_rates, own_levels
from coterie.ads.decisions.comparison.period_changes import (
    Changes,
    DayVariation,
    PeriodEstimate,
    changes_between,
    day_variation,
    typical_change,
)
from coterie.errors import InvalidParameterError

__all__ = ["QUANTITIES", "MarketChanges", "Quantity", "market_changes"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_LOG = logging.getLogger("coterie")

#: Assumptions before any day is seen: standard deviations of the effects of weekdays and of days
#: on all advertisers, and the variance of an advertiser's own days, relative to its mean.
_ASSUMED = {
    "impressions": (0.1, 0.03, 0.05),
    "supply": (0.1, 0.03, 0.05),
    "win_rate": (0.04, 0.015, 0.0025),
    "price_level": (0.04, 0.015, 0.0025),
    "mean_bid": (0.04, 0.015, 0.0025),
    "ecpm": (0.04, 0.015, 0.0025),
    "click_rate": (0.1, 0.03, 0.01),
}


#: Names of the quantities.
QUANTITIES = tuple(_ASSUMED)


@dataclass(frozen=True)
class Quantity:
    """A quantity of the n advertisers that have it in both periods."""

    rows: Indices  # (n,), of the log
    values: tuple[Floats, Floats] | None  # (n,), before and after; None for a price level
    changes: Changes  # (n,)
    unbiased: tuple[Floats, Floats]  # (n,), changes to be averaged, and their variances
    days: DayVariation

    def typical(self, members: NDArray[np.bool_]) -> tuple[float, float]:
        """Return the typical log change of some rows (A,), and its variance; NaN without any."""
        some = members[self.rows]
        if not some.any():
            return np.nan, np.nan
        change, variance = typical_change(*(part[some] for part in self.unbiased))
        return change, variance + self.days.variance


@dataclass(frozen=True)
class MarketChanges:
    """Changes of all quantities, the win rate at a fixed bid, and the parts of impressions."""

    both: NDArray[np.bool_]  # (A,), bid in both periods
    new: NDArray[np.bool_]
    vanished: NDArray[np.bool_]
    impressions: Floats  # (2, A), per day before and after
    quantities: dict[str, Quantity]
    at_bid: tuple[Floats, Floats, Floats]  # (A,), win rate before and after, and d log W / d level
    parts: dict[str, Floats]  # (A,), of advertisers in both periods, otherwise 0


class _Levels(NamedTuple):
    """Price levels of all advertisers in both periods, and what they are based on."""

    curves: Floats
    estimates: tuple[PeriodEstimate, PeriodEstimate]  # their values are the levels
    days: DayVariation


def market_changes(compared: ComparedDays) -> MarketChanges:
    """Estimate what changed between the two periods."""
    measures = measures_of(compared.histograms)
    impressions, supply = (
        np.stack([measures[name].ratio(days) for days in compared.sides])
        for name in ("impressions", "supply")
    )
    is_before, is_after = supply > 0
    both = is_before & is_after
    if not both.any():
        raise InvalidParameterError("no advertiser bids in both periods; compare other days")
    quantities = {
        name: _quantity(name, measure.of(rows), compared, rows)
        for name, measure in measures.items()
        if len(rows := _known_rows(measure, compared, both))
    }
    _LOG.info("Comparing the price levels of %d advertisers", int(both.sum()))
    levels = _levels(compared)
    quantities["price_level"] = _price_levels(levels, np.flatnonzero(both))
    return MarketChanges(
        both,
        is_after & ~is_before,
        is_before & ~is_after,
        impressions,
        quantities,
        _win_rate_at_bid(compared, measures["mean_bid"], levels),
        _parts(compared, both, quantities, levels, (impressions, supply)),
    )


def _known_rows(measure: Measure, compared: ComparedDays, both: NDArray[np.bool_]) -> Indices:
    """Return the advertisers that have a ratio in both periods."""
    known = both.copy()
    for days in compared.sides:
        amount, base = measure.sums(days)
        known &= (base > 0) & ((amount > 0) | (measure.kind != "mean"))
    return np.flatnonzero(known)


def _quantity(name: str, measure: Measure, compared: ComparedDays, rows: Indices) -> Quantity:
    """Return a ratio in both periods; the measure is that of the advertisers ``rows``."""
    before, after = compared.sides
    effects, errors = np.zeros((2, len(compared.histograms.days)))
    effects[compared.union], errors[compared.union] = day_effects(measure, compared.union)
    of_days = _day_variation(name, effects, errors, compared)
    bases = [measure.sums(days)[1] for days in compared.sides]
    first, last = (
        period_estimate(measure, days, effects[days], base / (bases[0] + bases[1]))
        for days, base in zip(compared.sides, bases, strict=True)
    )
    changes = changes_between(first, last, of_days, _ASSUMED[name][2])
    unbiased, by_chance = unbiased_changes(measure, before, after)
    return Quantity(
        rows,
        (measure.ratio(before), measure.ratio(after)),
        changes,
        (unbiased, by_chance + changes.day_variance),
        of_days,
    )


def _price_levels(levels: _Levels, rows: Indices) -> Quantity:
    before, after = (
        PeriodEstimate(*(part[rows] for part in estimate)) for estimate in levels.estimates
    )
    changes = changes_between(before, after, levels.days, _ASSUMED["price_level"][2])
    return Quantity(rows, None, changes, (changes.change, changes.own_variance), levels.days)


def _day_variation(
    name: str, effects: Floats, errors: Floats, compared: ComparedDays
) -> DayVariation:
    """Return the variation of the common effects of the days of a log, (D,)."""
    return day_variation(
        [effects[days] for days in compared.sides],
        [errors[days] for days in compared.sides],
        compared.dates,
        _ASSUMED[name][:2],
    )


def _levels(compared: ComparedDays) -> _Levels:
    """Estimate the price levels of all advertisers in both periods."""
    histograms, union = compared.histograms, compared.union
    measured, errors = measured_levels(histograms, union.tolist())
    curves = level_curves(histograms, union.tolist(), measured)
    common, error = np.zeros((2, len(histograms.days)))
    common[union], error[union] = measured, errors
    scale, auctions = bids_per_weight(histograms), histograms.daily("count")

    def estimate(days: Indices) -> PeriodEstimate:
        cells = cells_of_days(histograms, scale, np.isin(np.arange(len(common)), days))
        own = own_levels(LevelScores(histograms.edges, curves, cells, common), days)
        number = auctions[:, days]
        share = number / np.maximum(number.sum(axis=1, keepdims=True), 1e-300)
        level = own.level + share @ common[days]
        weight = own.information[:, None] * share
        return PeriodEstimate(level, np.ones(len(level)), weight, own.score)

    estimates = estimate(compared.before), estimate(compared.after)
    return _Levels(curves, estimates, _day_variation("price_level", common, error, compared))


def _win_rate_at_bid(
    compared: ComparedDays, bids: Measure, levels: _Levels
) -> tuple[Floats, Floats, Floats]:
    """Return the win rate at the mean bid in each period, and d log W / d level between them."""
    mean, x = bids.ratio(compared.union), log_edges(compared.histograms.edges)
    bid = np.log(np.where(mean > 0, mean, 1.0))
    rows = np.arange(len(bid))

    def win_rate(level: Floats) -> Floats:
        return curve_at_places(levels.curves, rows, np.interp(bid - level, x, np.arange(len(x))))

    first, last = (estimate.value for estimate in levels.estimates)
    middle, step = (first + last) / 2, 0.03
    below, above = (np.maximum(win_rate(middle + side), 1e-300) for side in (-step, step))
    return win_rate(first), win_rate(last), (np.log(above) - np.log(below)) / (2 * step)


def _parts(
    compared: ComparedDays,
    both: NDArray[np.bool_],
    quantities: Mapping[str, Quantity],
    levels: _Levels,
    per_day: tuple[Floats, Floats],
) -> dict[str, Floats]:
    """Return the parts of the change of impressions of advertisers in both periods, (A,) each.

    ``per_day`` has impressions and auctions per day, (2, A) each.
    """
    histograms, rows = compared.histograms, np.flatnonzero(both)
    market_supply, market_price = (
        quantities[name].typical(both)[0] for name in ("supply", "price_level")
    )
    first, last = (estimate.value for estimate in levels.estimates)
    own_price = last - first - market_price
    cells = histograms.bids
    win_rates = np.empty((2, 2, 2, len(both)))
    for bids, days in enumerate(compared.sides):
        used = np.isin(cells.day, days)
        at = cells.advertiser[used], cells.day[used], cells.bin[used]
        for market, own in product(range(2), range(2)):
            level = first + market * market_price + own * own_price
            win_rates[market, own, bids] = mean_win_rates(
                histograms.edges, levels.curves, at, cells.count[used], level
            )
    impressions, supply = (numbers[:, rows] for numbers in per_day)
    parts = impression_parts(
        impressions, supply, float(np.exp(market_supply)), win_rates[..., rows]
    )
    placed = {name: np.zeros(len(both)) for name in parts}
    for name, values in parts.items():
        placed[name][rows] = values
    return placed
