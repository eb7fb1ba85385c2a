"""Portfolios: one budget for several advertisers or campaigns, divided by marginal cost.

The curves of spend and amount by bid are those of the forecasts. They are first known at the edges
of the grid; the stretch around the solution is then divided twice more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.landscapes import PER_UNIT
from coterie.ads.decisions.decision_answers import (
    Allocation,
    BudgetSplit,
    Interval,
    PortfolioGoal,
)
from coterie.ads.decisions.goals import RAISE, checked_amount
from coterie.ads.decisions.marginal_allocation import allocate
from coterie.ads.decisions.steps import Steps, blocks, stepwise
from coterie.ads.forecasts.fitted_market import FittedMarket
from coterie.ads.forecasts.forecast_figures import checked_day
from coterie.ads.forecasts.forecast_tables import ForecastTables, PeriodLevels, tables_of
from coterie.ads.forecasts.placement import quoted
from coterie.errors import InvalidParameterError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: Goals, and where in the events of an advertiser the rate of each is.
_RATES = {"impressions": None, "clicks": 0, "conversions": 2}
_TARGETS = {"impressions": 0, "clicks": 2, "conversions": 3}
_FINE = 48  # points of a stretch that is divided
_ROUNDS = 2
_HALVINGS = 45


@stepwise
def split_budget(
    model: FittedMarket,
    budget: float | None = None,
    advertisers: Sequence[str] | None = None,
    *,
    goal: PortfolioGoal = "impressions",
    segment: int | str | None = None,
    day: str | None = None,
    days: int = 7,
    level: float = 0.9,
) -> Steps[BudgetSplit]:
    """Divide a budget between advertisers so that they get most impressions, clicks or conversions.

    Bids b_a are chosen to maximise Σ m_a(b_a) with Σ S_a(b_a) ≤ budget, where m_a is the mean of
    the goal and S_a the mean spend, as forecasts give them.

    Parameters
    ----------
    model : AdForecaster
        Fitted.
    budget : float, optional
        For all days together; by default what these advertisers spent on as many days of the log.
    advertisers : sequence of str, optional
        Ids in the log; by default all, or those of ``segment``.
    goal : {"impressions", "clicks", "conversions"}
    segment : int or str, optional
        Index or name of a segment; of a name, its beginning is enough.
    day, days, level
        See :meth:`~coterie.ads.AdForecaster.forecast`.

    Returns
    -------
    BudgetSplit
    """
    model.refuse_unfitted()
    money = None if budget is None else checked_amount(budget, "budget")
    first = checked_day(day, days)
    tables = tables_of(model)
    rows = _rows(model, tables, advertisers, segment)
    market = _Market(tables, rows, tables.days(first, int(days)), _rates(tables, rows, goal))
    spent = model.cost_[rows] / PER_UNIT
    if money is None:
        money = float(spent.sum()) / len(model.days_) * int(days)
        if money <= 0:
            raise InvalidParameterError("these advertisers spent nothing in the log; give a budget")
    edges = yield from market.at_edges()
    bids, partial, slope = yield from _solved(market, edges, money)
    before = money * spent / spent.sum() if spent.sum() > 0 else np.zeros(len(rows))
    before_bids = yield from market.bids_spending(before, edges.spend)
    if partial >= 0:
        one = slice(partial, partial + 1)
        bids[one] = yield from market.part(one).bids_spending(bids[one], edges.spend[one])
    sums, then = (yield from market.sums(bids)), (yield from market.points(before_bids))
    now = _Points(sums[:, 4], sums[:, 0] * market.rates[:, 0])
    raised = np.minimum(np.maximum(bids, 1e-12) * RAISE, market.tables.highest)
    more = yield from market.points(raised)
    scale = 1000.0 if goal == "impressions" else 1.0
    total, in_log = float(now.amount.sum()), float(then.amount.sum())
    return BudgetSplit(
        goal=goal,
        budget=money,
        spend=float(now.spend.sum()),
        amount=total,
        amount_interval=_interval(market, sums, goal, level),
        log_amount=in_log,
        gain=total / in_log - 1 if in_log > 0 else None,
        marginal_cost=scale / slope if slope > 0 else None,
        days=int(days),
        level=level,
        currency=model.currency_,
        allocations=_allocations(model, market, bids, now, then, more, scale),
    )


class _Points(NamedTuple):
    """Mean spend and amount of the goal at some bids."""

    spend: Floats
    amount: Floats


class _Market(NamedTuple):
    """Some advertisers on some days, and what one impression of each is worth for the goal."""

    tables: ForecastTables
    rows: Indices  # (A,)
    days: PeriodLevels
    rates: Floats  # (A, 2), of the goal for one impression, and its deviation

    def part(self, some: slice) -> _Market:
        """Return the market of some of the advertisers."""
        return self._replace(rows=self.rows[some], rates=self.rates[some])

    def sums(self, bids: Floats) -> Steps[Floats]:
        """Return the sums behind figures at one bid each, (A,), or at several, (A, P).

        They are (A, 8) or (A, P, 8), and 0 at a bid of 0.
        """
        number = 1 if bids.ndim == 1 else bids.shape[1]
        rows, each = np.repeat(self.rows, number), bids.ravel()
        found = np.empty((len(rows), 8))
        for some in blocks(len(rows), len(self.days.shifts)):
            found[some] = self.tables.sums(rows[some], np.maximum(each[some], 1e-12), self.days)
            yield len(rows[some]) * len(self.days.shifts)
        return (found * (each > 0)[:, None]).reshape(*bids.shape, 8)

    def points(self, bids: Floats) -> Steps[_Points]:
        """Return spend and amount at one bid each, (A,), or at several, (A, P)."""
        sums = yield from self.sums(bids)
        rates = self.rates[:, 0] if bids.ndim == 1 else self.rates[:, :1]
        return _Points(sums[..., 4], sums[..., 0] * rates)

    def at_edges(self) -> Steps[_Points]:
        """Return spend and amount at the edges of the grid, (A, G) each."""
        edges = self.tables.bid_edges
        return (yield from self.points(np.broadcast_to(edges, (len(self.rows), len(edges)))))

    def bids_spending(self, money: Floats, at_edges: Floats) -> Steps[Floats]:
        """Return the least bid of each that spends its money, (A,); the highest if none does.

        ``at_edges`` (A, G) is the spend at the edges of the grid.
        """
        edges = np.append(0.0, self.tables.bid_edges)
        place = np.minimum((at_edges < money[:, None]).sum(axis=1), len(edges) - 2)
        low, high = edges[place].copy(), edges[place + 1].copy()
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            enough = (yield from self.points(middle)).spend >= money
            high, low = np.where(enough, middle, high), np.where(enough, low, middle)
        return np.where(money > 0, high, 0.0)


def _solved(market: _Market, edges: _Points, money: float) -> Steps[tuple[Floats, int, float]]:
    """Return the bids of the best division, (A,), who is bought in part, and the last slope.

    The entry of the one bought in part is its spend, not its bid.
    """
    n = len(market.rows)
    bids = np.broadcast_to(market.tables.bid_edges, (n, len(market.tables.bid_edges)))
    found = allocate(*edges, money)
    rows = np.arange(n)
    for _ in range(_ROUNDS):
        known = np.column_stack([np.zeros(n), bids])  # a bid of 0 is the start of every curve
        low = known[rows, np.maximum(found.places, 0)]
        high = known[rows, np.maximum(found.nexts, found.places) + 1]
        part = np.linspace(0.0, 1.0, _FINE + 1)
        bids = low[:, None] + (high - low)[:, None] * part[None, :]
        points = yield from market.points(bids)
        found = allocate(*points, money)
    chosen = np.where(found.places >= 0, bids[rows, np.maximum(found.places, 0)], 0.0)
    if found.partial >= 0:
        chosen[found.partial] = found.spend[found.partial]
    return chosen, found.partial, found.slope


def _rows(
    model: FittedMarket,
    tables: ForecastTables,
    advertisers: Sequence[str] | None,
    segment: int | str | None,
) -> Indices:
    if advertisers is not None and segment is not None:
        raise InvalidParameterError("give advertisers or a segment, not both")
    if segment is not None:
        return np.flatnonzero(model.labels_ == _segment_index(model, segment))
    if advertisers is None:
        return np.flatnonzero(model.observations_ > 0)
    if isinstance(advertisers, str) or not len(advertisers):
        raise InvalidParameterError("advertisers: give a list of at least one id")
    names = [str(name) for name in advertisers]
    unknown = [name for name in names if name not in tables.row_of]
    if unknown:
        tables.placer.refuse_whole_advertiser(unknown[0])
        raise InvalidParameterError(
            f"{quoted(unknown[0])} is not in the log; a budget can only be divided between "
            "advertisers of the log"
        )
    if len(set(names)) < len(names):
        raise InvalidParameterError("advertisers: an id is given twice")
    return np.array([tables.row_of[name] for name in names])


def _segment_index(model: FittedMarket, segment: int | str) -> int:
    names = [one.name for one in model.segments_]
    if isinstance(segment, str):
        similar = [i for i, name in enumerate(names) if name.lower().startswith(segment.lower())]
        matches = [i for i in similar if names[i].lower() == segment.lower()] or similar
    else:
        matches = [segment] if segment in range(len(names)) else []
    if len(matches) != 1:
        listed = "; ".join(f"{i} {quoted(name)}" for i, name in enumerate(names)) or "none"
        raise InvalidParameterError(
            f"segment={segment!r}: it must be the index or the name of one segment: {listed}"
        )
    return matches[0]


def _rates(tables: ForecastTables, rows: Indices, goal: str) -> Floats:
    """Return the rate of the goal for one impression, and its deviation, (A, 2)."""
    if goal not in _RATES:
        raise InvalidParameterError(f"goal={goal!r}: it must be one of {', '.join(_RATES)}")
    place = _RATES[goal]
    if place is None:
        return np.column_stack([np.ones(len(rows)), np.zeros(len(rows))])
    rates = tables.events[rows][:, place : place + 2]
    if np.isnan(rates).any():
        raise InvalidParameterError(f"the log of this model has no {goal}; ask for another goal")
    return rates


def _interval(market: _Market, sums: Floats, goal: str, level: float) -> Interval:
    """Return the interval of the total.

    Chance, curves and own supplies of advertisers are independent; the price level and the factor
    of the supply of the days are common to all of them.
    """
    won, chance, curve, by_level = sums[:, :4].T
    _, sd = market.tables.supplies(market.rows, market.days)
    own = np.maximum(sd**2 - market.days.factor_sd**2, 0.0)
    rate, of_rate = market.rates.T
    mean = won * rate
    luck = chance if goal == "impressions" else mean + (won * of_rate) ** 2
    variance = float((luck + rate**2 * (curve**2 + own * won**2)).sum())
    variance += (market.days.level_sd * float((rate * by_level).sum())) ** 2
    variance += (market.days.factor_sd * float(mean.sum())) ** 2
    low, high = market.tables.interval_factors(level)[0][1, _TARGETS[goal], :, -1].tolist()
    total, deviation = float(mean.sum()), float(np.sqrt(variance))
    return max(total - low * deviation, 0.0), total + high * deviation


def _allocations(
    model: FittedMarket,
    market: _Market,
    bids: Floats,
    now: _Points,
    then: _Points,
    more: _Points,
    scale: float,
) -> list[Allocation]:
    gained = more.amount - now.amount
    marginal = np.divide(
        scale * (more.spend - now.spend), gained, out=np.full(len(bids), np.nan), where=gained > 0
    )
    placer = market.tables.placer
    found = [
        Allocation(
            str(model.advertisers_[row]),
            placer.segment(int(row)),
            float(bids[i]) if bids[i] > 0 else None,
            float(now.spend[i]),
            float(now.amount[i]),
            None if np.isnan(marginal[i]) or bids[i] <= 0 else float(marginal[i]),
            float(model.bid_[row]) / 1e6,
            float(then.spend[i]),
            float(then.amount[i]),
        )
        for i, row in enumerate(market.rows)
    ]
    return sorted(found, key=lambda one: -one.spend)
