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

__all__ = ["MarketChanges", "Quantity", "market_changes"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_LOG = logging.getLogger("coterie")

#: Standard deviations of effects common to all advertisers that are assumed before any is seen:
#: of weekdays and of days. Then the variance of an advertiser's own days, relative to its mean.
_ASSUMED: Mapping[str, tuple[float, float, float]] = {
    "impressions": (0.1, 0.03, 0.05),
    "supply": (0.1, 0.03, 0.05),
    "win_rate": (0.04, 0.015, 0.0025),
    "price_level": (0.04, 0.015, 0.0025),
    "mean_bid": (0.04, 0.015, 0.0025),
    "ecpm": (0.04, 0.015, 0.0025),
    "click_rate": (0.1, 0.03, 0.01),
}


@dataclass(frozen=True)
class Quantity:
    """A quantity of the n advertisers that have it in both periods."""

    rows: Indices  # (n,), of the log
    before: Floats | None  # (n,), None for a price level
    after: Floats | None
    changes: Changes  # (n,)
    unbiased: tuple[Floats, Floats]  # (n,), changes to be averaged, and their variances
    days: DayVariation

    def typical(self, members: NDArray[np.bool_]) -> tuple[float, float] | None:
        """Return the typical log change of some rows (A,), and its variance; None without any."""
        some = members[self.rows]
        if not some.any():
            return None
        change, of_change = self.unbiased
        middle, variance = typical_change(change[some], of_change[some])
        return middle, variance + self.days.variance


@dataclass(frozen=True)
class MarketChanges:
    """Changes of all quantities, the win rate at a fixed bid, and the parts of impressions."""

    both: NDArray[np.bool_]  # (A,), bid in both periods
    new: NDArray[np.bool_]
    vanished: NDArray[np.bool_]
    impressions: tuple[Floats, Floats]  # (A,), per day before and after
    quantities: dict[str, Quantity]
    at_bid: tuple[Floats, Floats, Floats]  # (A,), win rate before and after, and d log W / d level
    parts: dict[str, Floats]  # (A,), of advertisers in both periods, otherwise 0


class _Levels(NamedTuple):
    """Price levels of all advertisers in both periods, (A,), and what they are based on."""

    curves: Floats
    levels: tuple[Floats, Floats]
    estimates: tuple[PeriodEstimate, PeriodEstimate]
    days: DayVariation


def market_changes(compared: ComparedDays) -> MarketChanges:
    """Estimate what changed between the two periods."""
    histograms = compared.histograms
    measures = measures_of(histograms)
    bids = [measures["supply"].amount[:, days].sum(axis=1) for days in compared.sides]
    is_before, is_after = (number > 0 for number in bids)
    both = is_before & is_after
    if not both.any():
        raise InvalidParameterError("no advertiser bids in both periods; compare other days")
    found = {
        name: _quantity(name, measure, compared, rows)
        for name, measure in measures.items()
        if len(rows := _known_rows(measure, compared, both))
    }
    _LOG.info("Comparing the price levels of %d advertisers", int(both.sum()))
    levels = _levels(compared)
    rows = np.flatnonzero(both)
    estimates = [_some(one, rows) for one in levels.estimates]
    changes = changes_between(estimates[0], estimates[1], levels.days, _ASSUMED["price_level"][2])
    unbiased = changes.change, changes.own_variance
    found["price_level"] = Quantity(rows, None, None, changes, unbiased, levels.days)
    impressions = tuple(measures["impressions"].ratio(days) for days in compared.sides)
    supply = tuple(measures["supply"].ratio(days) for days in compared.sides)
    return MarketChanges(
        both,
        is_after & ~is_before,
        is_before & ~is_after,
        (impressions[0], impressions[1]),
        found,
        _win_rate_at_bid(compared, measures["mean_bid"], levels),
        _parts(compared, found, levels, (impressions[0], impressions[1]), (supply[0], supply[1])),
    )


def _known_rows(measure: Measure, compared: ComparedDays, both: NDArray[np.bool_]) -> Indices:
    """Return the advertisers that have a ratio in both periods."""
    known = both.copy()
    for days in compared.sides:
        number, amount = (part[:, days].sum(axis=1) for part in (measure.base, measure.amount))
        known &= (number > 0) & ((amount > 0) | (measure.kind != "mean"))
    return np.flatnonzero(known)


def _quantity(name: str, measure: Measure, compared: ComparedDays, rows: Indices) -> Quantity:
    """Return a ratio of some advertisers in both periods."""
    sides = compared.sides
    some = Measure(
        measure.kind,
        measure.amount[rows],
        measure.base[rows],
        measure.weight[rows],
        measure.dispersion[rows],
    )
    union = compared.union
    effects, errors = day_effects(some, union)
    at = [np.searchsorted(union, days) for days in sides]
    week, day, variation = _ASSUMED[name]
    of_days = day_variation(
        [effects[place] for place in at],
        [errors[place] for place in at],
        compared.dates,
        (week, day),
    )
    bases = [some.base[:, one].sum(axis=1) for one in sides]
    first, last = (
        period_estimate(some, one, effects[place], base / (bases[0] + bases[1]))
        for one, place, base in zip(sides, at, bases, strict=True)
    )
    changes = changes_between(first, last, of_days, variation)
    unbiased, by_chance = unbiased_changes(some, *sides)
    return Quantity(
        rows,
        some.ratio(compared.before),
        some.ratio(compared.after),
        changes,
        (unbiased, by_chance + changes.day_variance),
        of_days,
    )


def _levels(compared: ComparedDays) -> _Levels:
    """Estimate the price levels of all advertisers in both periods."""
    histograms, sides = compared.histograms, compared.sides
    union = compared.union
    measured, errors = measured_levels(histograms, union.tolist())
    curves = level_curves(histograms, union.tolist(), measured)
    common, error = (np.zeros(len(histograms.days)) for _ in range(2))
    common[union], error[union] = measured, errors
    scale, auctions = bids_per_weight(histograms), histograms.daily("count")
    levels, estimates = [], []
    for days in sides:
        cells = cells_of_days(histograms, scale, np.isin(np.arange(len(common)), days))
        own = own_levels(LevelScores(histograms.edges, curves, cells, common), days)
        number = auctions[:, days]
        total = np.maximum(number.sum(axis=1, keepdims=True), 1e-300)
        share = number / total
        level = own.level + share @ common[days]
        weight = own.information[:, None] * share
        levels.append(level)
        estimates.append(PeriodEstimate(level, np.ones(len(level)), weight, own.score))
    week, day, _ = _ASSUMED["price_level"]
    variation = day_variation(
        [common[days] for days in sides],
        [error[days] for days in sides],
        compared.dates,
        (week, day),
    )
    return _Levels(curves, (levels[0], levels[1]), (estimates[0], estimates[1]), variation)


def _some(estimate: PeriodEstimate, rows: Indices) -> PeriodEstimate:
    return PeriodEstimate(*(part[rows] for part in estimate))


def _win_rate_at_bid(
    compared: ComparedDays, bids: Measure, levels: _Levels
) -> tuple[Floats, Floats, Floats]:
    """Return the win rate at the mean bid in each period, and d log W / d level between them."""
    union = compared.union
    mean, x = bids.ratio(union), log_edges(compared.histograms.edges)
    bid = np.log(np.where(mean > 0, mean, 1.0))
    rows = np.arange(len(bid))

    def win_rate(level: Floats) -> Floats:
        return curve_at_places(levels.curves, rows, np.interp(bid - level, x, np.arange(len(x))))

    first, last = levels.levels
    middle, step = (first + last) / 2, 0.03
    below, above = (np.maximum(win_rate(middle + side), 1e-300) for side in (-step, step))
    return win_rate(first), win_rate(last), (np.log(above) - np.log(below)) / (2 * step)


def _parts(
    compared: ComparedDays,
    quantities: Mapping[str, Quantity],
    levels: _Levels,
    impressions: tuple[Floats, Floats],
    supply: tuple[Floats, Floats],
) -> dict[str, Floats]:
    """Return the parts of the change of impressions of advertisers in both periods, (A,) each."""
    histograms = compared.histograms
    rows = quantities["supply"].rows
    everybody = np.ones(len(histograms.advertisers), dtype=bool)
    market = {
        name: (quantities[name].typical(everybody) or (0.0, 0.0))[0]
        for name in ("supply", "price_level")
    }
    first, last = levels.levels
    own = last - first - market["price_level"]
    cells, A = histograms.bids, len(everybody)
    win_rates = np.empty((2, 2, 2, A))
    for bids, days in enumerate(compared.sides):
        kept = np.isin(cells.day, days)
        at = cells.advertiser[kept], cells.day[kept], cells.bin[kept]
        for common, alone in product(range(2), range(2)):
            level = first + common * market["price_level"] + alone * own
            win_rates[common, alone, bids] = mean_win_rates(
                histograms.edges, levels.curves, at, cells.count[kept], level
            )
    found = impression_parts(
        (impressions[0][rows], impressions[1][rows]),
        (supply[0][rows], supply[1][rows]),
        float(np.exp(market["supply"])),
        win_rates[..., rows],
    )
    placed = {name: np.zeros(A) for name in found}
    for name, values in found.items():
        placed[name][rows] = values
    return placed
