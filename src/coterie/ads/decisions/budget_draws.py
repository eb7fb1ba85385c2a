"""Budget draws: what may happen on each day of a period, drawn from the posterior of a model.

One draw r has, for each day d,

- a price level s_d, from the joint normal distribution of the days' levels;
- a number of auctions: its mean times the factor of the days, times the advertiser's own level
  and daily variation (gamma variables of mean 1);
- a curve W + z·sd(W), with one z for all days;
- a Poisson number of impressions, and their cost: a gamma variable whose mean and variance are
  those of the sum of their prices.

If the supply is given, auctions do not vary and impressions are binomial.

A backtest says how much wider intervals must be than the posterior
(:mod:`coterie.ads.forecasts.calibration`). The totals of the draws are therefore stretched away
from the mean of the forecast until their 90% interval is that of the forecast, and then scaled to
its mean. Intervals of other levels come from the same draws, so that they are nested.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.ads.decisions.steps import Steps, blocks
from coterie.ads.forecasts.fitted_market import FittedMarket, PreparedForecast
from coterie.ads.forecasts.forecast_figures import FIELDS

Floats = NDArray[np.float64]
_SEED = 20_260_302
#: The level at which draws have the interval of the forecast.
_LEVEL = 0.9
_TINY = 1e-300
#: So many draws of a day take as long as the figures of a bid on a day.
PLAIN = 5
#: Draws of a short period, and the days of all draws of a long one.
_MOST_DRAWS, _FEWEST_DRAWS, _DAYS_DRAWN = 2000, 500, 200_000


@dataclass(frozen=True)
class Draws:
    """R draws of H days, (R, H) each."""

    impressions: Floats
    spend: Floats


def draw_days(model: FittedMarket, prepared: PreparedForecast, bid: float) -> Steps[Draws]:
    """Draw impressions and spend of each day at a bid, as if money were unlimited.

    Equal questions give equal draws.
    """
    rng, prepared = np.random.default_rng(_SEED), replace(prepared, level=_LEVEL)
    n_draws = min(max(_DAYS_DRAWN // len(prepared.days.shifts), _FEWEST_DRAWS), _MOST_DRAWS)
    dates = period_of(model, prepared)
    shifts = _levels(model.price_levels_, dates, n_draws, rng)
    yield shifts.size // PLAIN
    auctions = yield from _auctions(model, prepared, dates, n_draws, rng)
    yield shifts.size // PLAIN
    found = np.empty((*shifts.shape, 5))
    for some in blocks(*shifts.shape):
        chances = prepared.tables.chances(prepared.placement, bid, shifts[some].ravel())
        found[some] = chances.reshape(*shifts[some].shape, 5)
        yield shifts[some].size
    rate, sd, cost, square, cost_sd = found.transpose(2, 0, 1)
    z = rng.standard_normal((n_draws, 1))
    moved = np.clip(rate + z * sd, 0.0, 1.0)
    price = np.divide(cost, rate, out=np.zeros_like(cost), where=rate > 0)
    # beyond what the change of the win rate explains, the curve changes the mean price
    price = np.divide(
        np.maximum(cost + z * cost_sd, 0.0), moved, out=price, where=(moved > 0) & (rate > 0)
    )
    variance = np.divide(square, rate, out=np.zeros_like(cost), where=rate > 0)
    variance = np.maximum(variance - price**2, 0.0)
    yield shifts.size // PLAIN
    won, paid = np.empty_like(moved), np.empty_like(moved)
    for some in blocks(n_draws, len(rate[0]) // PLAIN + 1):
        if prepared.given:
            won[some] = rng.binomial(np.rint(auctions[some]).astype(np.int64), moved[some])
        else:
            won[some] = rng.poisson(auctions[some] * moved[some])
        yield won[some].size // PLAIN
    for some in blocks(n_draws, len(rate[0]) // PLAIN + 1):
        paid[some] = _sums_of_prices(won[some], price[some], variance[some], rng)
        yield paid[some].size // PLAIN
    [figures] = prepared.figures(bid)
    impressions = _stretched(won, *_ends(figures, "impressions"), prepared.level)
    # the mean of few draws can be above the auctions of a day
    means = _daily_means(impressions.mean(axis=0).sum(), expected_auctions(prepared), moved)
    impressions *= means / np.maximum(impressions.mean(axis=0), _TINY)
    return Draws(impressions, _stretched(paid, *_ends(figures, "spend"), prepared.level))


def period_of(model: FittedMarket, prepared: PreparedForecast) -> NDArray[np.datetime64] | None:
    """Return the days of a prepared forecast, (H,); None for an average day."""
    n_days = len(prepared.days.shifts)
    if prepared.first is None and n_days == 1:
        return None
    first = model.price_levels_.days[-1] + np.timedelta64(1, "D")
    if prepared.first is not None:
        first = np.datetime64(prepared.first)
    return first + np.arange(n_days, dtype="timedelta64[D]")


def expected_auctions(prepared: PreparedForecast) -> Floats:
    """Return the expected auctions of each day of a prepared forecast, (H,)."""
    return np.asarray(
        prepared.supply * prepared.tables.day_shares(prepared.placement, prepared.days)
    )


def _levels(levels: Any, dates: Any, n: int, rng: np.random.Generator) -> Floats:
    """Draw the log level of each day, (n, H)."""
    if dates is None:
        mean, variance = levels.typical()
        return mean + np.sqrt(max(variance, 0.0)) * rng.standard_normal((n, 1))
    mean, covariance = levels.ahead(dates)
    # rounding must not make it singular
    root = np.linalg.cholesky(covariance + 1e-10 * np.eye(len(mean)))
    return mean + rng.standard_normal((n, len(mean))) @ root.T


def _auctions(
    model: FittedMarket, prepared: PreparedForecast, dates: Any, n: int, rng: np.random.Generator
) -> Steps[Floats]:
    """Draw the auctions of each day, (n, H)."""
    mean = expected_auctions(prepared)
    if prepared.given or prepared.placement.row is None:
        return np.broadcast_to(mean, (n, len(mean)))
    supply, row = model.supply_, prepared.placement.row
    common = _levels(supply.factors, dates, n, rng)
    yield common.size // PLAIN
    # factors have the mean 1 for every variance
    common = np.exp(common - common.mean(axis=0))
    common /= common.mean(axis=0)
    own = _gamma_of_mean_1(float(supply.error[row]), (n, 1), rng)
    daily = _gamma_of_mean_1(float(supply.variation[row]), (n, len(mean)), rng)
    return np.asarray(mean * common * own * daily)


def _gamma_of_mean_1(variance: float, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    if variance <= 1e-12:
        return np.ones(shape)
    return rng.gamma(1 / variance, variance, shape)


def _sums_of_prices(
    number: Floats, price: Floats, variance: Floats, rng: np.random.Generator
) -> Floats:
    """Draw the cost of some impressions of a mean price and its variance."""
    mean, spread = number * price, number * variance
    is_random = (spread > 1e-12 * mean**2) & (mean > 0)
    shape = np.divide(mean**2, spread, out=np.ones_like(mean), where=is_random)
    return np.where(is_random, rng.standard_gamma(shape) * mean / shape, mean)


def _ends(figures: Floats, target: str) -> tuple[float, float, float]:
    place = FIELDS.index(target)
    mean, low, high = figures[place : place + 3].tolist()
    return mean, low, high


def _daily_means(total: float, auctions: Floats, rates: Floats) -> Floats:
    """Divide the mean impressions of a period between its days, (H,).

    Days share by their expected auctions (H,) and their mean win rate, of draws (R, H). No day has
    more impressions than auctions.

    >>> _daily_means(29.0, np.array([10.0, 20.0]), np.array([[1.0, 0.5]])).round(6).tolist()
    [10.0, 19.0]
    """
    weights = auctions * rates.mean(axis=0)
    means = total * weights / max(float(weights.sum()), _TINY)
    room = np.maximum(auctions - means, 0.0)
    excess = np.maximum(means - auctions, 0.0).sum()
    return np.minimum(means, auctions) + room * (excess / max(float(room.sum()), _TINY))


def _stretched(each: Floats, mean: float, low: float, high: float, level: float) -> Floats:
    """Return draws (R, H) whose totals have the mean of a forecast, and about its interval."""
    total = each.sum(axis=1)
    least, most = np.quantile(total, [(1 - level) / 2, (1 + level) / 2])
    wanted = total.copy()
    below = total < mean
    if least < mean:
        wanted[below] = mean + (total[below] - mean) * (mean - low) / (mean - least)
    if most > mean:
        wanted[~below] = mean + (total[~below] - mean) * (high - mean) / (most - mean)
    wanted = np.maximum(wanted, 0.0)
    wanted *= mean / max(float(wanted.mean()), _TINY)
    scale = np.divide(wanted, total, out=np.ones_like(total), where=total > 0)
    return np.asarray(each * scale[:, None])
