"""Goals: the bid that is expected to reach a number of impressions, of clicks, or a spend.

Every mean of a forecast grows with the bid. The least bid that reaches an amount is found between
the edges of the grid of the log, then within one bin by repeated division.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from coterie.ads.curves.landscapes import marginal_costs
from coterie.ads.decisions.decision_answers import GOALS, GoalBid
from coterie.ads.decisions.steps import Steps, blocks, stepwise
from coterie.ads.forecasts.calibration import LEVELS, TARGETS
from coterie.ads.forecasts.fitted_market import FittedMarket, PreparedForecast
from coterie.ads.forecasts.forecast_figures import COLUMNS
from coterie.errors import InvalidParameterError
from coterie.runtime.wording import format_count, money, percent

_PARTS = 64  # into which a stretch of bids is divided at once
_ROUNDS = 7  # 64^7 parts of a bin are finer than floats
#: The marginal cost is that of a bid raised by 1%.
RAISE = 1.01


@stepwise
def bid_for(
    model: FittedMarket,
    advertiser: str | None = None,
    *,
    impressions: float | None = None,
    clicks: float | None = None,
    conversions: float | None = None,
    spend: float | None = None,
    **details: Any,
) -> Steps[GoalBid]:
    """Find the bid for a goal: the least b with m(b) ≥ amount.

    m(b) is the mean of impressions, clicks, conversions or spend, as
    :meth:`~coterie.ads.AdForecaster.forecast` gives it at the bid b.

    Parameters
    ----------
    model : AdForecaster
        Fitted.
    advertiser : str, optional
    impressions, clicks, conversions, spend : float, optional
        The amount, above 0; give exactly one of them.
    **details
        ``supply``, ``day``, ``days``, ``text`` and ``level`` of
        :meth:`~coterie.ads.AdForecaster.forecast`.

    Returns
    -------
    GoalBid
    """
    given = zip(GOALS, (impressions, clicks, conversions, spend), strict=True)
    requested = {name: amount for name, amount in given if amount is not None}
    if len(requested) != 1:
        raise InvalidParameterError(f"give one goal, and only one: {', '.join(GOALS)}")
    [(goal, amount)] = requested.items()
    amount, column = checked_amount(amount, goal), COLUMNS[goal]
    prepared = model.prepare_forecast(advertiser, **details)
    yield 1
    highest = prepared.tables.highest
    if np.isnan(prepared.figures(highest)[0, column]):
        raise InvalidParameterError(f"the log of this model has no {goal}; ask for another goal")
    bid = yield from least_bid(prepared, column, amount)
    safe = None if bid is None else (yield from least_bid(prepared, column + 1, amount))
    at, why = highest if bid is None else bid, ""
    [forecast] = prepared.forecasts(at)
    if bid is None and prepared.supply <= 0:
        why = "no auctions are expected on these days, so no bid reaches the goal"
    elif bid is None:

        def worded(value: float) -> str:
            if goal == "spend":
                return f"{money(value)} {prepared.currency}".rstrip() + " of spend"
            return f"{format_count(value)} {goal}"

        top = f"{highest:.4g} {prepared.currency}".rstrip()
        why = (
            f"no bid in the log reaches {worded(amount)}: the highest of any advertiser, about "
            f"{top}, is expected to give {worded(getattr(forecast, goal))} in "
            f"{format_count(prepared.supply)} auctions; ask for more days or auctions, or for less"
        )
    marginal = marginal_cost(prepared, at)
    safe_why = "" if safe is None else _why_safe(model, prepared, goal)
    return GoalBid(goal, amount, bid is not None, bid, safe, marginal, forecast, why, safe_why)


def _why_safe(model: FittedMarket, prepared: PreparedForecast, goal: str) -> str:
    """Return how likely a goal is reached where the whole interval is at or above it."""
    stated = f"{50 * (1 + prepared.level):.3g}%"
    share, measured = 0.0, model.shares_above_
    if measured is not None:
        place = LEVELS.index(prepared.level), int(not prepared.given), TARGETS.index(goal)
        share = measured[place]
    found = f"in the backtest it was {percent(share)}" if share else "it was not measured"
    return f"the goal should be reached with a probability of {stated}; {found}"


def least_bid(prepared: PreparedForecast, column: int, amount: float) -> Steps[float | None]:
    """Return the least bid from which on a figure is at least an amount; None if there is none.

    ``column`` is that of the figure in ``forecast_figures.FIELDS``. Means grow with the bid; the
    ends of intervals may fall again. Bids up to the highest one in the log are looked at.
    """
    bids = np.append(0.0, prepared.tables.bid_edges)
    for _ in range(_ROUNDS + 1):
        figure, n_days = np.empty(len(bids) - 1), len(prepared.days.shifts)
        for some in blocks(len(figure), n_days):
            figure[some] = prepared.figures(bids[1:][some])[:, column]
            yield len(figure[some]) * n_days
        if figure[-1] < amount:
            return None
        below = np.flatnonzero(figure < amount)
        place = int(below[-1]) + 1 if len(below) else 0
        low, high = bids[place], bids[place + 1]
        # nothing is gained below a mass
        if high in prepared.tables.masses or high - low <= 4 * np.spacing(high):
            break
        bids = np.linspace(low, high, _PARTS + 1)
    return float(high)


def marginal_cost(prepared: PreparedForecast, bid: float) -> float | None:
    """Return what a further thousand impressions cost at a bid; None if it wins no more."""
    figures = prepared.figures([bid, min(RAISE * bid, prepared.tables.highest)])
    spend, impressions = (figures[:, COLUMNS[name]] for name in ("spend", "impressions"))
    found = float(marginal_costs(spend, impressions)[1])
    return None if np.isnan(found) else found


def checked_amount(amount: Any, name: str) -> float:
    """Return an amount of money or of a goal; refuses what is none.

    >>> checked_amount(500, "spend")
    500.0
    """
    is_number = isinstance(amount, Real) and not isinstance(amount, bool)
    if is_number and 0 < float(amount) < np.inf:
        return float(amount)
    raise InvalidParameterError(f"{name}={amount!r}: it must be a number above 0")
