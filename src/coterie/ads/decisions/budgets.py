"""Budgets: the bid that uses a sum of money in some days, what it buys, and how long it lasts.

The bid that uses a budget B is the one whose mean spend is B. Under a bid, money is spent as
auctions come, until B is reached. Draws of the model's posterior say how likely that is, when, and
what was bought until then. One draw r has, for each day d,

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

from coterie.ads.decisions.decision_answers import BudgetDay, BudgetPlan, interval_of
from coterie.ads.decisions.goals import checked_amount, least_bid, marginal_cost
from coterie.ads.decisions.steps import Steps, blocks, stepwise
from coterie.ads.forecasts.fitted_market import FittedMarket, PreparedForecast
from coterie.ads.forecasts.forecast_figures import COLUMNS, checked_bid
from coterie.arrays import Floats
from coterie.errors import InvalidParameterError
from coterie.runtime.wording import money

_SEED = 20_260_302
#: The level at which draws have the interval of the forecast.
_LEVEL = 0.9
_TINY = 1e-300
#: So many draws of a day take as long as the figures of a bid on a day.
_PLAIN = 5
#: Draws of a short period, and the days of all draws of a long one.
_MOST_DRAWS, _FEWEST_DRAWS, _DAYS_DRAWN = 2000, 500, 200_000


@dataclass(frozen=True)
class Draws:
    """R draws of H days, (R, H) each."""

    impressions: Floats
    spend: Floats


@stepwise
def plan_budget(
    model: FittedMarket,
    advertiser: str | None = None,
    budget: float | None = None,
    *,
    bid: float | None = None,
    days: int = 7,
    **details: Any,
) -> Steps[BudgetPlan]:
    """Find the bid that uses a budget, or say what a budget does at a given bid.

    Parameters
    ----------
    model : AdForecaster
        Fitted.
    advertiser : str, optional
    budget : float
        In units of currency, for all days together.
    bid : float, optional
        Per thousand impressions (CPM); by default the one that uses the budget.
    days : int
        From ``day`` on, or after the log.
    **details
        ``supply``, ``day``, ``text`` and ``level`` of
        :meth:`~coterie.ads.AdForecaster.forecast`.

    Returns
    -------
    BudgetPlan
    """
    amount = checked_amount(budget, "budget")
    requested = None if bid is None else checked_bid(bid)
    if details.get("where"):
        raise InvalidParameterError("where: a budget is planned for all auctions, not for targets")
    prepared = model.prepare_forecast(advertiser, days=days, **details)
    yield 1
    using = yield from least_bid(prepared, COLUMNS["spend"], amount)
    highest, level = prepared.tables.highest, prepared.level
    at = next(one for one in (requested, using, highest) if one is not None)
    [unlimited] = prepared.forecasts(at)
    capped, emptied = within_budget((yield from draw_days(model, prepared, at)), amount)
    yield capped.spend.size // _PLAIN
    dates, spent = _dates_of(model, prepared), np.cumsum(capped.spend, axis=1)
    columns = (
        [""] if dates is None else dates.astype(str).tolist(),
        expected_auctions(prepared).tolist(),
        *(draws.mean(axis=0).tolist() for draws in (capped.impressions, capped.spend, spent)),
        zip(*interval_of(spent, level), strict=True),
    )
    yield capped.spend.size // _PLAIN
    over, why = emptied[np.isfinite(emptied)], ""
    if using is None:
        most = float(prepared.figures(highest)[0, COLUMNS["spend"]])
        wanted, paid, top = (
            f"{text} {prepared.currency}".rstrip()
            for text in (money(amount), money(most), f"{highest:.4g}")
        )
        why = (
            f"{wanted} cannot be spent: the most is {paid}, at the highest bid of any advertiser, "
            f"about {top}; plan for more days, or with less money"
        )
    return BudgetPlan(
        budget=amount,
        using_bid=using,
        bid=at,
        days=int(days),
        level=level,
        **_bought(prepared, capped),
        lasts=float(np.mean(np.isinf(emptied))),
        days_until_empty=float(over.mean()) if len(over) else None,
        days_until_empty_interval=interval_of(over, level) if len(over) else None,
        marginal_cost=marginal_cost(prepared, at),
        by_day=[BudgetDay(*day) for day in zip(*columns, strict=True)],
        unlimited=unlimited,
        why=why,
    )


def within_budget(draws: Draws, budget: float) -> tuple[Draws, Floats]:
    """Return draws that stop when the money is spent, and after how many days that was, (R,).

    A draw whose money lasts has the number ∞. Within a day money is spent evenly.
    """
    spent = np.cumsum(draws.spend, axis=1)
    room = np.maximum(budget - (spent - draws.spend), 0.0)
    # on a day that costs nothing all is bought, unless the money was spent before
    free = np.where(room > 0, 1.0, 0.0)
    share = np.minimum(np.divide(room, draws.spend, out=free, where=draws.spend > 0), 1.0)
    emptied = np.where(spent[:, -1] > budget, share.sum(axis=1), np.inf)
    return Draws(draws.impressions * share, draws.spend * share), emptied


def _bought(prepared: PreparedForecast, capped: Draws) -> dict[str, Any]:
    """Return means and intervals of what is bought."""
    won, spend = capped.impressions.sum(axis=1), capped.spend.sum(axis=1)
    drawn = {"impressions": (won, won.mean()), "spend": (spend, spend.mean())}
    rng = np.random.default_rng(len(won))
    rates = prepared.tables.event_rates(prepared.placement)
    for name, known in zip(("clicks", "conversions"), rates, strict=True):
        if known is not None:
            rate, sd = known
            # a gamma rate of this mean and deviation; the number of events is a Poisson one
            shape = (rate / sd) ** 2 if sd > 0 else np.inf
            each = rng.gamma(shape, rate / shape, len(won)) if 0 < shape < np.inf else rate
            drawn[name] = rng.poisson(won * each), won.mean() * rate
    found: dict[str, Any] = {}
    for name in COLUMNS:
        found[name] = found[f"{name}_interval"] = None
        if name in drawn:
            draws, mean = drawn[name]
            low, high = interval_of(draws, prepared.level)
            found[name] = float(mean)
            found[f"{name}_interval"] = min(low, found[name]), max(high, found[name])
    return found


def draw_days(model: FittedMarket, prepared: PreparedForecast, bid: float) -> Steps[Draws]:
    """Draw impressions and spend of each day at a bid, as if money were unlimited.

    Equal questions give equal draws.
    """
    rng, prepared = np.random.default_rng(_SEED), replace(prepared, level=_LEVEL)
    n_draws = min(max(_DAYS_DRAWN // len(prepared.days.shifts), _FEWEST_DRAWS), _MOST_DRAWS)
    dates, expected = _dates_of(model, prepared), expected_auctions(prepared)
    shifts = _log_levels(model.price_levels_, dates, n_draws, rng)
    yield shifts.size // _PLAIN

    auctions = np.broadcast_to(expected, shifts.shape)
    row = prepared.placement.row
    if not prepared.given and row is not None:
        common = _log_levels(model.supply_.factors, dates, n_draws, rng)
        yield common.size // _PLAIN
        # factors have the mean 1 for every variance
        common = np.exp(common - common.mean(axis=0))
        common /= common.mean(axis=0)
        of_own = model.supply_.own_variance(row, prepared.days.weekday_shares)
        own = _gamma_of_mean_1(float(of_own), (n_draws, 1), rng)
        daily = _gamma_of_mean_1(float(model.supply_.variation[row]), shifts.shape, rng)
        auctions = expected * common * own * daily
    yield shifts.size // _PLAIN

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
    yield shifts.size // _PLAIN

    won, paid = np.empty_like(moved), np.empty_like(moved)
    for some in blocks(n_draws, len(rate[0]) // _PLAIN + 1):
        if prepared.given:
            won[some] = rng.binomial(np.rint(auctions[some]).astype(np.int64), moved[some])
        else:
            won[some] = rng.poisson(auctions[some] * moved[some])
        yield won[some].size // _PLAIN
    for some in blocks(n_draws, len(rate[0]) // _PLAIN + 1):
        # the sum of so many prices of this mean and variance
        mean, spread = won[some] * price[some], won[some] * variance[some]
        is_random = (spread > 1e-12 * mean**2) & (mean > 0)
        shape = np.divide(mean**2, spread, out=np.ones_like(mean), where=is_random)
        paid[some] = np.where(is_random, rng.standard_gamma(shape) * mean / shape, mean)
        yield paid[some].size // _PLAIN

    [figures] = prepared.figures(bid)
    ends = {name: figures[at : at + 3].tolist() for name, at in COLUMNS.items()}
    impressions = _stretched(won, *ends["impressions"])
    # the mean of few draws can be above the auctions of a day
    means = _daily_means(impressions.mean(axis=0).sum(), expected, moved)
    impressions *= means / np.maximum(impressions.mean(axis=0), _TINY)
    return Draws(impressions, _stretched(paid, *ends["spend"]))


def expected_auctions(prepared: PreparedForecast) -> Floats:
    """Return the expected auctions of each day of a prepared forecast, (H,)."""
    return np.asarray(
        prepared.supply * prepared.tables.day_shares(prepared.placement, prepared.days)
    )


def _dates_of(model: FittedMarket, prepared: PreparedForecast) -> NDArray[np.datetime64] | None:
    """Return the days of a prepared forecast, (H,); None for an average day."""
    n_days = len(prepared.days.shifts)
    if prepared.first is None and n_days == 1:
        return None
    first = model.price_levels_.days[-1] + np.timedelta64(1, "D")
    if prepared.first is not None:
        first = np.datetime64(prepared.first)
    return first + np.arange(n_days, dtype="timedelta64[D]")


def _log_levels(levels: Any, dates: Any, n: int, rng: np.random.Generator) -> Floats:
    """Draw the log level of each day, (n, H)."""
    if dates is None:
        mean, variance = levels.typical()
        return mean + np.sqrt(max(variance, 0.0)) * rng.standard_normal((n, 1))
    mean, covariance = levels.ahead(dates)
    # rounding must not make it singular
    root = np.linalg.cholesky(covariance + 1e-10 * np.eye(len(mean)))
    return mean + rng.standard_normal((n, len(mean))) @ root.T


def _gamma_of_mean_1(variance: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    return np.ones(shape) if variance <= 1e-12 else rng.gamma(1 / variance, variance, shape)


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


def _stretched(each: Floats, mean: float, low: float, high: float) -> Floats:
    """Return draws (R, H) whose totals have the mean of a forecast, and about its interval."""
    total = each.sum(axis=1)
    least, most = interval_of(total, _LEVEL)
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
