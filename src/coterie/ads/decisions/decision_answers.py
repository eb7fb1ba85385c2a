"""What decisions consist of: data that Python, the program, the service and its clients share.

Money is in units of currency. A model version is that of the model of a service; otherwise it is
empty. It is not compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

import numpy as np

from coterie.ads.forecasts.forecast_figures import Forecast

Interval = tuple[float, float]
Goal = Literal["impressions", "clicks", "conversions", "spend"]
#: What a bid may be asked for.
GOALS: tuple[Goal, ...] = get_args(Goal)
PortfolioGoal = Literal["impressions", "clicks", "conversions"]
RankedBy = Literal[
    "impressions", "clicks", "conversions", "cost", "cost_per_click", "cost_per_conversion"
]


@dataclass(frozen=True)
class GoalBid:
    """The bid for a goal, and what to expect there.

    Attributes
    ----------
    goal : {"impressions", "clicks", "conversions", "spend"}
        What is to be reached.
    amount : float
        How much of it, on all days together.
    reached : bool
        Whether any bid up to the highest one in the log is expected to reach the amount.
    bid : float or None
        The least bid whose mean reaches the amount, per thousand impressions (CPM).
    safe_bid : float or None
        The least bid from which on the whole interval is at or above the amount.
    marginal_cost : float or None
        Cost of a further thousand impressions at the bid; None if a higher bid wins no more.
    forecast : Forecast
        At the bid; if the goal is not reached, at the highest bid in the log.
    why : str
        If the goal is not reached, the reason; otherwise empty.
    safe_why : str
        How likely the safe bid reaches the amount, as far as the backtest says; empty without it.
    model_version : str
        Of the model of a service; otherwise empty. It is not compared.
    """

    goal: Goal
    amount: float
    reached: bool
    bid: float | None
    safe_bid: float | None
    marginal_cost: float | None
    forecast: Forecast
    why: str = ""
    safe_why: str = ""
    model_version: str = field(default="", compare=False)


@dataclass(frozen=True)
class BudgetDay:
    """One day under a budget.

    Attributes
    ----------
    day : str
        A date; empty for an average day.
    auctions : float
        To expect.
    impressions, spend : float
        Means of the day.
    spent : float
        Mean of what is spent from the first day to the end of this one.
    spent_interval : (low, high)
        Its interval.
    """

    day: str
    auctions: float
    impressions: float
    spend: float
    spent: float
    spent_interval: Interval


@dataclass(frozen=True)
class BudgetPlan:
    """What a budget buys at a bid.

    Attributes
    ----------
    budget : float
        For all days together.
    using_bid : float or None
        The bid whose mean spend is the budget (CPM); None if no bid in the log spends it all.
    bid : float
        The bid of this plan: the one given, else the one that uses the budget, else the highest in
        the log.
    days : int
        The number of days.
    level : float
        Of the intervals.
    impressions, spend, clicks, conversions : float or None
        Means until the money or the period ends; None if the log has no such events.
    impressions_interval, spend_interval, clicks_interval, conversions_interval : (low, high)
        Their intervals.
    lasts : float
        The probability that the money lasts for the whole period.
    days_until_empty : float or None
        The mean number of days until the money is spent, if it is; None if it always lasts.
    days_until_empty_interval : (low, high) or None
        Its interval.
    marginal_cost : float or None
        Cost of a further thousand impressions at the bid; None if a higher bid wins no more.
    by_day : list of BudgetDay
        Day by day.
    unlimited : Forecast
        At the bid, if there were money without end.
    why : str
        If no bid spends the budget, the reason; otherwise empty.
    model_version : str
        Of the model of a service; otherwise empty. It is not compared.
    """

    budget: float
    using_bid: float | None
    bid: float
    days: int
    level: float
    impressions: float
    impressions_interval: Interval
    spend: float
    spend_interval: Interval
    clicks: float | None
    clicks_interval: Interval | None
    conversions: float | None
    conversions_interval: Interval | None
    lasts: float
    days_until_empty: float | None
    days_until_empty_interval: Interval | None
    marginal_cost: float | None
    by_day: list[BudgetDay]
    unlimited: Forecast
    why: str = ""
    model_version: str = field(default="", compare=False)


@dataclass(frozen=True)
class Allocation:
    """The part of one advertiser in a budget.

    Attributes
    ----------
    advertiser, segment : str
        Its id, and the name of its segment.
    bid : float or None
        Per thousand impressions (CPM); None if it should not bid.
    spend, amount : float
        Means of its spend and of the goal.
    marginal_cost : float or None
        Of a further thousand impressions, click or conversion; None if a higher bid wins no more.
    mean_bid : float
        The mean of its bids in the log.
    log_spend, log_amount : float
        Its part if the budget were divided as in the log, and what it would get for that.
    """

    advertiser: str
    segment: str
    bid: float | None
    spend: float
    amount: float
    marginal_cost: float | None
    mean_bid: float
    log_spend: float
    log_amount: float


@dataclass(frozen=True)
class BudgetSplit:
    """A budget divided between advertisers.

    Attributes
    ----------
    goal : {"impressions", "clicks", "conversions"}
        What is maximised in total.
    budget, spend : float
        Money for all days together, and how much of it is expected to be spent.
    amount : float
        Of the goal, in total.
    amount_interval : (low, high)
        Its interval.
    log_amount : float
        Of the goal, if the same budget were divided as in the log.
    gain : float or None
        The amount over that, minus 1; None if nothing would be got.
    marginal_cost : float or None
        Of a further thousand impressions, click or conversion; None if higher bids buy hardly any.
    days : int
        The number of days.
    level : float
        Of the interval.
    currency : str
        Of all amounts; empty if the log has none.
    allocations : list of Allocation
        The largest spend first.
    why : str
        Why the budget cannot be spent, and how many of the bids are at prices of many auctions;
        empty if there is neither.
    model_version : str
        Of the model of a service; otherwise empty. It is not compared.
    """

    goal: PortfolioGoal
    budget: float
    spend: float
    amount: float
    amount_interval: Interval
    log_amount: float
    gain: float | None
    marginal_cost: float | None
    days: int
    level: float
    currency: str
    allocations: list[Allocation]
    why: str = ""
    model_version: str = field(default="", compare=False)


@dataclass(frozen=True)
class RankedTarget:
    """One value of a dimension at a bid.

    Attributes
    ----------
    dimension, value : str
        For example device and phone.
    share : float
        Share of the advertiser's auctions.
    win_rate : float
        Share of these auctions that is won.
    impressions, spend, clicks, conversions : float or None
        Means; None if the log has no such events.
    impressions_interval, spend_interval, clicks_interval, conversions_interval : (low, high)
        Intervals of what will happen.
    cost, cost_per_click, cost_per_conversion : float or None
        Of a thousand impressions (eCPM), of a click (CPC), of a conversion (CPA); None if the log
        has no such events, or none are expected.
    cost_interval, cost_per_click_interval, cost_per_conversion_interval : (low, high)
        Intervals of these expected costs.
    own_weight : float
        How much of what is known is the advertiser's own evidence: 0 if all is its segments', 1 if
        all is its own.
    chance_best : float or None
        Probability that it is the best value of its dimension; None for values that cannot be
        chosen, because they are missing or many together.
    """

    dimension: str
    value: str
    share: float
    win_rate: float
    impressions: float
    impressions_interval: Interval
    spend: float
    spend_interval: Interval
    clicks: float | None
    clicks_interval: Interval | None
    conversions: float | None
    conversions_interval: Interval | None
    cost: float | None
    cost_interval: Interval | None
    cost_per_click: float | None
    cost_per_click_interval: Interval | None
    cost_per_conversion: float | None
    cost_per_conversion_interval: Interval | None
    own_weight: float
    chance_best: float | None


@dataclass(frozen=True)
class TargetRanking:
    """The values of dimensions, ranked for one advertiser at one bid.

    Attributes
    ----------
    advertiser : str
        Its id; empty if only a text was given.
    bid : float
        Per thousand impressions (CPM).
    by : str
        What the values are ranked by.
    supply : float
        Auctions of all values together.
    days : int
        The number of days.
    level : float
        Of the intervals.
    segment : str
        The name of the segment with the largest share; empty if there is none.
    why : str
        What the figures are based on.
    currency : str
        Of all amounts; empty if the log has none.
    targets : list of RankedTarget
        Dimension by dimension, the best value first.
    model_version : str
        Of the model of a service; otherwise empty. It is not compared.
    """

    advertiser: str
    bid: float
    by: RankedBy
    supply: float
    days: int
    level: float
    segment: str
    why: str
    currency: str
    targets: list[RankedTarget]
    model_version: str = field(default="", compare=False)


def interval_of(draws: Any, level: float) -> Any:
    """Return the ends of the central interval of draws (R,), or of each column of draws (R, N)."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0).tolist()
    return low, high


def of_version(answer: Any, version: str) -> Any:
    """Return a decision with the version of its model, also in the forecast inside."""
    inner = {
        one.name: replace(getattr(answer, one.name), model_version=version)
        for one in fields(answer)
        if isinstance(getattr(answer, one.name), Forecast)
    }
    return replace(answer, model_version=version, **inner)
