"""Supply: the auctions that an advertiser takes part in on a day, and how uncertain they are.

The number of auctions of advertiser a on day d has mean level_a · w_a(d) · f_d and variance

    mean + φ_a · mean²

The factors f_d are common to all advertisers; their logarithms follow
:mod:`coterie.ads.curves.day_levels`. w_a are the advertiser's own factors of weekdays, shrunk
towards 1 with a strength of κ days of each weekday; they need two weeks. Levels are means over the
days since the advertiser's first bid, in which recent days may weigh more. φ_a is the advertiser's
own variation from day to day. κ and the half-life of the days are those with the smallest error of
the last days, one to three of them forecast from the days before.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.day_levels import DayLevels, day_weights, fit_levels, weekday_of
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.arrays import Bools, Floats

_HALF_LIVES = (np.inf, 7.0, 3.0, 1.5, 1.0)
#: Strengths κ of shrinking own factors of weekdays, in days of each weekday.
_WEEKDAY_DAYS = (np.inf, 4.0, 2.0, 1.0)
_DAYS_FOR_WEEKDAYS = 14
_MOST_ORIGINS, _DAYS_AHEAD = 5, 3
#: Variation that is assumed before any is seen, and the number of days this counts as.
_TYPICAL_VARIATION, _VARIATION_DAYS = 0.05, 3.0
_MOST_VARIATION = 9.0


@dataclass(frozen=True)
class Supply:
    """Auctions per day of A advertisers."""

    level: Floats  # (A,), mean auctions on a day whose factors are 1
    error: Floats  # (A,), relative variance of the level
    variation: Floats  # (A,), φ, relative variance of a day beyond chance
    weekday: Floats  # (A, 7), own factors from Monday
    factors: DayLevels  # logarithms of the factors of days
    half_life: float  # of the weights of days in the level


def fit_supply(histograms: BidHistograms, days: list[int]) -> Supply:
    """Estimate levels, factors and variation from some days of a log."""
    daily = histograms.daily("count")[:, days]
    return fit_supply_rule(daily, histograms.days[days]).supply(daily)


@dataclass(frozen=True)
class SupplyRule:
    """What is common to all advertisers: the factors of days, and how levels are estimated."""

    dates: NDArray[np.datetime64]  # (D,)
    factor: Floats  # (D,)
    factors: DayLevels  # of their logarithms
    half_life: float
    kappa: float
    variation: float  # φ of advertisers in general

    def supply(self, daily: Floats) -> Supply:
        """Estimate the supply of any advertisers from their daily numbers (A, D)."""
        series = _Series(daily, np.cumsum(daily, axis=1) > 0, self.factor, self.dates)
        weekday = _own_weekdays(series, self.kappa)
        level, weight = _levels(series, weekday, self.half_life)
        expected = level[:, None] * weekday[:, weekday_of(self.dates)] * self.factor
        own, trust, _ = _own_variation(series, expected)
        pooled = (trust * own + _VARIATION_DAYS * self.variation) / (trust + _VARIATION_DAYS)
        variation = np.clip(pooled, 0.25 * self.variation, _MOST_VARIATION)
        chance = np.divide(1.0, level, out=np.ones_like(level), where=level > 1)
        error = (variation + chance) * weight
        return Supply(level, error, variation, weekday, self.factors, self.half_life)


def fit_supply_rule(daily: Floats, dates: NDArray[np.datetime64]) -> SupplyRule:
    """Estimate what is common to advertisers from the daily numbers (A, D) of some."""
    started = np.cumsum(daily, axis=1) > 0
    log_factor, error = _day_factors(daily, started)
    factors = fit_levels(dates, log_factor, error, scales=(0.005, 0.1, 0.03))
    series = _Series(daily, started, np.exp(log_factor), dates)
    half_life, kappa = _choose_settings(series)
    weekday = _own_weekdays(series, kappa)
    level, _ = _levels(series, weekday, half_life)
    expected = level[:, None] * weekday[:, weekday_of(dates)] * series.factor
    own, trust, known = _own_variation(series, expected)
    common = _TYPICAL_VARIATION
    if known.sum() > 10:
        own, trust = own[known], trust[known]
        kept = own <= np.quantile(own, 0.95)
        mean = float(np.average(own[kept], weights=trust[kept] + 1e-9))
        common = float(np.clip(mean, 1e-4, _MOST_VARIATION))
    return SupplyRule(dates, series.factor, factors, half_life, kappa, common)


def _day_factors(daily: Floats, started: Bools) -> tuple[Floats, Floats]:
    """Return the log factor of each day and its variance, (D,) each; the mean factor is about 1.

    Only advertisers that bid on the first day count, because others come and go. Weights are the
    inverse of the variance, so that no large advertiser decides alone.
    """
    steady = daily[started[:, 0]] if started[:, :1].any() else daily
    mean = steady.mean(axis=1)
    weight = 1.0 / (1.0 + _TYPICAL_VARIATION * mean)
    expected = max(float(weight @ mean), 1e-9)
    factor = np.maximum(weight @ steady, 0.5 * weight.max(initial=0.0)) / expected
    # between advertisers, including what chance and their own variation do
    residual = steady - mean[:, None] * factor
    error = (weight**2 @ residual**2) / (expected * factor) ** 2
    return np.log(factor), np.clip(error, 1e-8, 1.0)


class _Series(NamedTuple):
    """Daily numbers (A, D), which of them count, and factor and date of each day."""

    daily: Floats
    started: Bools
    factor: Floats
    dates: NDArray[np.datetime64]

    def before(self, day: int) -> _Series:
        return _Series(
            self.daily[:, :day], self.started[:, :day], self.factor[:day], self.dates[:day]
        )


def _levels(series: _Series, weekday: Floats, half_life: float) -> tuple[Floats, Floats]:
    """Return the level of each advertiser, and Σw²/(Σw)² over its days, both (A,)."""
    use = series.started * day_weights(series.dates, half_life)
    expected = (use * weekday[:, weekday_of(series.dates)]) @ series.factor
    number = (series.daily * use).sum(axis=1)
    level = np.divide(number, expected, out=np.zeros(len(number)), where=expected > 0)
    total = np.maximum(use.sum(axis=1), 1e-12)
    return level, np.where(total > 1e-12, (use**2).sum(axis=1) / total**2, 1.0)


def _own_weekdays(series: _Series, kappa: float) -> Floats:
    """Return each advertiser's factors of weekdays, (A, 7), shrunk towards 1 by κ days."""
    of_weekday = np.eye(7)[weekday_of(series.dates)]
    if np.isinf(kappa):
        return np.ones((len(series.daily), 7))
    level, _ = _levels(series, np.ones((len(series.daily), 7)), np.inf)
    mean = (level[:, None] * series.factor * series.started) @ of_weekday
    seen = series.started @ of_weekday
    ratio = np.divide(series.daily @ of_weekday, mean, out=np.ones_like(mean), where=mean > 0)
    factors = (seen * ratio + kappa) / (seen + kappa)
    return np.asarray(factors / factors.mean(axis=1, keepdims=True))


def _choose_settings(series: _Series) -> tuple[float, float]:
    """Return the half-life and κ with the smallest error of the last days."""
    D = len(series.dates)
    origins = range(max(1, D - _MOST_ORIGINS), D)
    kappas = _WEEKDAY_DAYS if D >= _DAYS_FOR_WEEKDAYS else (np.inf,)
    if len(origins) < 2:
        return np.inf, np.inf
    errors = dict.fromkeys(product(_HALF_LIVES, kappas), 0.0)
    for day in origins:
        before, known = series.before(day), series.started[:, day - 1]
        ahead = slice(day, day + _DAYS_AHEAD)
        places = weekday_of(series.dates[ahead])
        for kappa in kappas:
            weekday = _own_weekdays(before, kappa)
            for half_life in _HALF_LIVES:
                level, _ = _levels(before, weekday, half_life)
                found = level[:, None] * weekday[:, places] * series.factor[ahead]
                missed = np.abs(series.daily[:, ahead] - found)[known].sum()
                errors[half_life, kappa] += float(missed)
    best = min(errors, key=errors.__getitem__)
    # equal weights, unless others are better by more than rounding
    least = 1e-9 * float(series.daily.sum())
    return best if errors[best] + least < 0.999 * errors[np.inf, np.inf] else (np.inf, np.inf)


def _own_variation(series: _Series, expected: Floats) -> tuple[Floats, Floats, Bools]:
    """Return φ of each advertiser by its own days, its weight in days, and if it is known."""
    daily, started = series.daily, series.started
    square = np.where(started, (daily - expected) ** 2 - expected, 0.0)
    size = np.where(started, expected**2, 0.0)
    n_days = started.sum(axis=1)
    # the level was fitted to the same days
    excess = square.sum(axis=1) * n_days / np.maximum(n_days - 1, 1)
    known = (n_days > 1) & (size.sum(axis=1) > 0)
    own = np.divide(excess, size.sum(axis=1), out=np.zeros(len(daily)), where=known)
    # small numbers say little: their weight is that of chance against variation
    trust = n_days * expected.mean(axis=1) / (expected.mean(axis=1) + 1 / _TYPICAL_VARIATION)
    return own, trust, known
