"""Budgets: the bid that uses a sum of money in some days, what it buys, and how long it lasts.

The bid that uses a budget B is the one whose mean spend is B. Under a bid, money is spent as
auctions come, until B is reached. Draws of the model's posterior
(:mod:`coterie.ads.decisions.budget_draws`) say how likely that is, when, and what was bought until
then.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.ads.decisions.budget_draws import (
    PLAIN,
    Draws,
    draw_days,
    expected_auctions,
    period_of,
)
from coterie.ads.decisions.decision_answers import BudgetDay, BudgetPlan, interval_of
from coterie.ads.decisions.goals import checked_amount, least_bid, marginal_cost
from coterie.ads.decisions.steps import Steps, stepwise
from coterie.ads.forecasts.fitted_market import FittedMarket, PreparedForecast
from coterie.ads.forecasts.forecast_figures import COLUMNS, checked_bid
from coterie.errors import InvalidParameterError
from coterie.runtime.wording import money

Floats = NDArray[np.float64]


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
    at = next(one for one in (requested, using, prepared.tables.highest) if one is not None)
    [unlimited] = prepared.forecasts(at)
    draws = yield from draw_days(model, prepared, at)
    capped, emptied = within_budget(draws, amount)
    yield capped.spend.size // PLAIN
    by_day = _by_day(model, prepared, capped)
    yield capped.spend.size // PLAIN
    return BudgetPlan(
        budget=amount,
        using_bid=using,
        bid=at,
        days=int(days),
        level=prepared.level,
        **_bought(prepared, capped),
        lasts=float(np.mean(np.isinf(emptied))),
        **_emptied(emptied, prepared.level),
        marginal_cost=marginal_cost(prepared, at),
        by_day=by_day,
        unlimited=unlimited,
        why=_unspendable(prepared, amount) if using is None else "",
    )


def within_budget(draws: Draws, budget: float) -> tuple[Draws, Floats]:
    """Return draws that stop when the money is spent, and after how many days that was, (R,).

    A draw whose money lasts has the number ∞. Within a day money is spent evenly.
    """
    spent = np.cumsum(draws.spend, axis=1)
    before = spent - draws.spend
    room = np.maximum(budget - before, 0.0)
    # on a day that costs nothing all is bought, unless the money was spent before
    free = np.where(room > 0, 1.0, 0.0)
    share = np.minimum(np.divide(room, draws.spend, out=free, where=draws.spend > 0), 1.0)
    is_over = spent[:, -1] > budget
    emptied = np.where(is_over, share.sum(axis=1), np.inf)
    return Draws(draws.impressions * share, draws.spend * share), emptied


def _bought(prepared: PreparedForecast, capped: Draws) -> dict[str, Any]:
    """Return means and intervals of what is bought."""
    rng = np.random.default_rng(len(capped.spend))
    won = capped.impressions.sum(axis=1)
    found = _summary("impressions", won, prepared.level)
    found |= _summary("spend", capped.spend.sum(axis=1), prepared.level)
    names = ("clicks", "conversions")
    for name, known in zip(names, prepared.tables.event_rates(prepared.placement), strict=True):
        if known is None:
            found |= {name: None, f"{name}_interval": None}
            continue
        rate, sd = known
        # a gamma rate of this mean and deviation; the number of events is a Poisson one
        shape = (rate / sd) ** 2 if sd > 0 else np.inf
        rates = rng.gamma(shape, rate / shape, len(won)) if 0 < shape < np.inf else rate
        found |= _summary(
            name, rng.poisson(won * rates), prepared.level, mean=float(won.mean() * rate)
        )
    return found


def _summary(name: str, draws: Any, level: float, mean: float | None = None) -> dict[str, Any]:
    low, high = interval_of(draws, level)
    middle = float(np.mean(draws)) if mean is None else mean
    return {name: middle, f"{name}_interval": (min(low, middle), max(high, middle))}


def _emptied(emptied: Floats, level: float) -> dict[str, Any]:
    over = emptied[np.isfinite(emptied)]
    known = len(over) > 0
    return {
        "days_until_empty": float(over.mean()) if known else None,
        "days_until_empty_interval": interval_of(over, level) if known else None,
    }


def _by_day(model: FittedMarket, prepared: PreparedForecast, capped: Draws) -> list[BudgetDay]:
    dates = period_of(model, prepared)
    names = [""] if dates is None else dates.astype(str).tolist()
    auctions = expected_auctions(prepared)
    spent = np.cumsum(capped.spend, axis=1)
    low, high = interval_of(spent, prepared.level)
    return [
        BudgetDay(
            name,
            float(auctions[d]),
            float(capped.impressions[:, d].mean()),
            float(capped.spend[:, d].mean()),
            float(spent[:, d].mean()),
            (float(low[d]), float(high[d])),
        )
        for d, name in enumerate(names)
    ]


def _unspendable(prepared: PreparedForecast, budget: float) -> str:
    most = float(prepared.figures(prepared.tables.highest)[0, COLUMNS["spend"]])
    wanted, spent = (f"{money(value, '')} {prepared.currency}".rstrip() for value in (budget, most))
    highest = f"{prepared.tables.highest:.4g} {prepared.currency}".rstrip()
    return (
        f"no bid in the log is expected to spend {wanted}: the highest, {highest}, spends {spent}; "
        "plan for more days, or with less money"
    )
