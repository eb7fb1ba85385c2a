"""Supply: the auctions that an advertiser takes part in on a day, and how uncertain they are.

The number of auctions of advertiser a on day d has mean level_a · w_a(d) · f_d and variance

    mean + φ_a · mean²

The factors f_d are common to all advertisers; their logarithms follow
:mod:`coterie.ads.curves.day_levels`. w_a are the advertiser's own factors of weekdays, with the
prior mean 1 and variance σ², and φ_a is its own variation from day to day. With x_w the mean of
n_w days of a weekday w over their factors, v = φ_a + 1/level the variance of one day, and
u_w = v / (v + n_w σ²) the share of the prior in the factor of the weekday,

    centre = Σ n_w u_w x_w / Σ n_w u_w   with the variance   v / Σ n_w u_w
    level · w_a(w) = u_w · centre + (1 − u_w) · x_w

So a weekday that the advertiser never had is its average day, with the variance σ² added. Days
count from the advertiser's first bid on, and recent days may weigh more: their half-life is the
one with the smallest error of the last days, one to three of them forecast from the days before.

σ² is by how much days of different weekdays differ more than days of the same weekday that are as
far apart: days 6 or 8 apart are compared with days 7 apart. Its prior is a share of the variation
between days. A log of a week or less has nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.day_levels import DayLevels, day_weights, fit_levels, weekday_of
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.arrays import Bools, Floats

_HALF_LIVES = (np.inf, 7.0, 3.0, 1.5, 1.0)
_MOST_ORIGINS, _DAYS_AHEAD = 5, 3
#: Variation φ that is assumed before any is seen, and the number of days this counts as.
_TYPICAL_VARIATION, _VARIATION_DAYS = 0.05, 3.0
_LEAST_VARIATION, _MOST_VARIATION = 1e-4, 9.0
#: Share of own weekdays in the variation between days that is assumed before two weeks are seen.
_TYPICAL_SHARE = 1 / 3
#: The number of pairs of equal weekdays that the share of others counts as, and the least share of
#: variation from day to day.
_WEEKDAY_PAIRS, _LEAST_SHARE = 14.0, 0.05
#: The largest own variations count as the one of this rank.
_LARGEST_RANK = 0.98
#: The variance of the logarithm of a level is at most this.
_MOST_ERROR = 0.5
#: A day with more than so many times its mean counts as so many, where weekdays are compared.
_MOST_RATIO = 4.0


@dataclass(frozen=True)
class Supply:
    """Auctions per day of A advertisers."""

    level: Floats  # (A,), mean auctions on a day of an average weekday whose factor is 1
    error: Floats  # (A,), mean squared deviation of the true level from it, relative to it
    variation: Floats  # (A,), φ, relative variance of a day beyond chance
    weekday: Floats  # (A, 7), own factors from Monday
    unseen: Floats  # (A, 7), u, the share of the prior in them
    weekday_variance: Floats  # (A,), σ², of own factors of weekdays
    factors: DayLevels  # logarithms of the factors of days
    half_life: float  # of the weights of days in the level

    def own_variance(self, rows: Any, shares: Floats) -> Any:
        """Return the relative variance of the level times own factors of weekdays.

        ``shares`` (7,) are those of weekdays in the days asked about; empty for one day whose
        weekday is unknown.
        """
        error, unseen, between = self.error[rows], self.unseen[rows], self.weekday_variance[rows]
        if len(shares):
            of_level = error * (unseen * shares).sum(axis=-1) ** 2
            return of_level + between * (unseen * shares**2).sum(axis=-1)
        of_each = error[..., None] * unseen**2 + between[..., None] * unseen
        return of_each.mean(axis=-1) + self.weekday[rows].var(axis=-1)


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
    weekday_variance: float  # σ²
    variation: float  # φ of advertisers in general

    def supply(self, daily: Floats) -> Supply:
        """Estimate the supply of any advertisers from their daily numbers (A, D)."""
        use = (np.cumsum(daily, axis=1) > 0) * day_weights(self.dates, self.half_life)
        of_weekday = np.eye(7)[weekday_of(self.dates)]
        exposure = use * self.factor
        level = _ratio((daily * use).sum(axis=1), exposure.sum(axis=1))
        expected = level[:, None] * self.factor
        own, trust, different = _own_variation(daily, use, expected, self.dates)
        # of average days: what is known of the variation of others counts as some days
        common = self.variation + self.weekday_variance
        own += self.weekday_variance * (1.0 - different)
        total = (trust * own + _VARIATION_DAYS * common) / (trust + _VARIATION_DAYS)
        total = np.clip(total, 0.25 * common, _MOST_VARIATION)
        found, pairs = _weekday_variances(daily, use > 0, expected)
        prior = self.weekday_variance / common * total
        between = (pairs * found + _WEEKDAY_PAIRS * prior) / (pairs + _WEEKDAY_PAIRS)
        between = np.clip(between, 0.0, (1.0 - _LEAST_SHARE) * total)
        variation = total - between
        noise = variation + np.divide(1.0, level, out=np.ones_like(level), where=level > 1)

        in_weekday = exposure @ of_weekday
        mean = _ratio((daily * use) @ of_weekday, in_weekday)
        # weighted days, as so many of equal weight
        number = in_weekday * _ratio(use.sum(axis=1), (use**2).sum(axis=1))[:, None]
        number *= _ratio(use.sum(axis=1), exposure.sum(axis=1))[:, None]
        unseen = noise[:, None] / (noise[:, None] + number * between[:, None])
        precision = (number * unseen).sum(axis=1)
        centre = _ratio((number * unseen * mean).sum(axis=1), precision)[:, None]
        of_weekdays = unseen * centre + (1.0 - unseen) * mean
        level = of_weekdays.mean(axis=1)
        error = np.where(precision > 0, noise / np.maximum(precision, 1e-12), noise)
        # a forecast is compared with the level found: E[(level / found − 1)²] if both are lognormal
        error = np.minimum(error, _MOST_ERROR)
        return Supply(
            level,
            np.exp(2 * error) - 2 * np.exp(error / 2) + 1,
            variation,
            np.divide(of_weekdays, level[:, None], out=np.ones_like(mean), where=of_weekdays > 0),
            unseen,
            between,
            self.factors,
            self.half_life,
        )


def fit_supply_rule(daily: Floats, dates: NDArray[np.datetime64]) -> SupplyRule:
    """Estimate what is common to advertisers from the daily numbers (A, D) of some."""
    started = np.cumsum(daily, axis=1) > 0
    log_factor, error = _day_factors(daily, started)
    factors = fit_levels(dates, log_factor, error, scales=(0.005, 0.1, 0.03))
    factor: Floats = np.exp(log_factor).astype(np.float64)
    level = _ratio(daily.sum(axis=1), (started * factor).sum(axis=1))
    expected: Floats = level[:, None] * factor
    own, trust, different = _own_variation(daily, started.astype(np.float64), expected, dates)
    total, share = _TYPICAL_VARIATION / (1 - _TYPICAL_SHARE), 1.0
    if (known := trust > 0).sum() > 10:
        own = np.minimum(own, np.quantile(own[known], _LARGEST_RANK))
        mean, share = (float(np.average(part, weights=trust)) for part in (own, different))
        total = max(mean, _LEAST_VARIATION)
    # σ²: what pairs of days say of it, and a prior of a mean and a deviation that are equal
    found, pairs = _weekday_variances(daily, started, expected)
    of_weekdays = prior = _TYPICAL_SHARE * total
    if pairs.any():
        seen = float(np.average(found, weights=pairs))
        variance = float(pairs**2 @ (found - seen) ** 2) / float(pairs.sum()) ** 2
        weight = prior**2 / (prior**2 + variance)
        of_weekdays = float(np.clip(weight * seen + (1 - weight) * prior, 0.0, total))
    common = float(np.clip(total - of_weekdays * share, _LEAST_VARIATION, _MOST_VARIATION))
    rule = SupplyRule(dates, factor, factors, np.inf, of_weekdays, common)
    return replace(rule, half_life=_best_half_life(rule, daily))


def _weekday_variances(daily: Floats, started: Bools, expected: Floats) -> tuple[Floats, Floats]:
    """Return σ² of each advertiser by its days 6, 7 and 8 apart, and its weight in pairs, (A,)."""
    if daily.shape[1] <= 8:
        return np.zeros(len(daily)), np.zeros(len(daily))
    ratio = np.minimum(_ratio(daily, expected), _MOST_RATIO)
    chance = _ratio(np.ones_like(expected), expected)

    def apart(lag: int) -> tuple[Floats, Floats]:
        """Return half the sum of squared gaps, less that of chance, and the number of pairs."""
        gap = (ratio[:, lag:] - ratio[:, :-lag]) ** 2 - chance[:, lag:] - chance[:, :-lag]
        return (started[:, :-lag] * gap).sum(axis=1) / 2, started[:, :-lag].sum(axis=1) * 1.0

    (six, of_six), (seven, pairs), (eight, of_eight) = (apart(lag) for lag in (6, 7, 8))
    found = _ratio(six + eight, of_six + of_eight) - _ratio(seven, pairs)
    mean = expected.mean(axis=1)
    return found, pairs * (mean / (mean + 1 / _TYPICAL_VARIATION)) ** 2


def _best_half_life(rule: SupplyRule, daily: Floats) -> float:
    """Return the half-life with the smallest error of the last days."""
    D = len(rule.dates)
    origins = range(max(1, D - _MOST_ORIGINS), D)
    if len(origins) < 2:
        return np.inf
    errors = dict.fromkeys(_HALF_LIVES, 0.0)
    for day, half_life in product(origins, _HALF_LIVES):
        before = replace(
            rule, dates=rule.dates[:day], factor=rule.factor[:day], half_life=half_life
        ).supply(daily[:, :day])
        ahead = slice(day, day + _DAYS_AHEAD)
        weekday = before.weekday[:, weekday_of(rule.dates[ahead])]
        found = before.level[:, None] * weekday * rule.factor[ahead]
        missed = np.abs(daily[:, ahead] - found)[before.level > 0]
        errors[half_life] += float(missed.sum())
    best = min(errors, key=errors.__getitem__)
    # equal weights, unless others are better by more than rounding
    least = 1e-9 * float(daily.sum())
    return best if errors[best] + least < 0.999 * errors[np.inf] else np.inf


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


def _own_variation(
    daily: Floats, use: Floats, expected: Floats, dates: NDArray[np.datetime64]
) -> tuple[Floats, Floats, Floats]:
    """Return the variation of each advertiser between its days, beyond chance.

    After it come its weight in days, and the share of different weekdays in pairs of days; all
    (A,). Days are weighted by ``use`` (A, D).
    """
    share = use / np.maximum(use.sum(axis=1, keepdims=True), 1e-12)
    alone = (share**2).sum(axis=1)
    # rounding must not make two days of one
    pairs = np.where((use > 0).sum(axis=1) > 1, 1.0 - alone, 0.0)
    of_weekdays = share @ np.eye(7)[weekday_of(dates)]
    different = _ratio(1.0 - (of_weekdays**2).sum(axis=1), pairs)
    # the level was fitted to the same days
    square = _ratio((share * (daily - expected) ** 2).sum(axis=1), pairs)
    mean = (share * expected).sum(axis=1)
    own = _ratio(square - mean, (share * expected**2).sum(axis=1))
    # small numbers say little: their weight is that of chance against variation
    trust = _ratio(pairs, alone) * mean / (mean + 1 / _TYPICAL_VARIATION)
    return own, trust, different


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, and 0 where there is no whole."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
