"""Portfolios: one budget for several advertisers or campaigns, divided by marginal cost.

Let advertiser a buy v_a(s) for a spend s. The amount bought for a budget B,

    maximise Σ v_a(s_a)  subject to  Σ s_a ≤ B,  s_a ≥ 0,

is largest where all slopes v_a'(s_a) are equal, if the curves are concave. Each curve is given by
points. It is replaced by its concave envelope: the stretches left out are those where a mixture of
two bids buys more than one between them. The edges of all envelopes, the steepest first, are then
bought until the money is spent; only the last may be bought in part. This is the exact solution of
the linear programme over all mixtures of points.

The curves of spend and amount by bid are those of the forecasts. They are first known at the edges
of the grid; the stretch around the solution is then divided twice more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, get_args

import numpy as np

import coterie.ads.curves.kernels as kernels
from coterie.ads.curves.landscapes import PER_UNIT
from coterie.ads.decisions.decision_answers import Allocation, BudgetSplit, Interval, PortfolioGoal
from coterie.ads.decisions.goals import RAISE, checked_amount
from coterie.ads.decisions.steps import Steps, blocks, stepwise
from coterie.ads.forecasts.calibration import TARGETS
from coterie.ads.forecasts.fitted_market import FittedMarket
from coterie.ads.forecasts.forecast_figures import checked_day
from coterie.ads.forecasts.forecast_tables import ForecastTables, PeriodLevels, tables_of
from coterie.ads.forecasts.placement import quoted
from coterie.arrays import Floats, Ints
from coterie.errors import InvalidParameterError
from coterie.runtime.wording import money as amount_in_words
from coterie.runtime.wording import number_of

_GOALS = get_args(PortfolioGoal)
_FINE = 48  # points of a stretch that is divided
_ROUNDS = 2
_HALVINGS = 45
#: A bid above which the amount grows by less than this share buys nothing further.
_NOTHING = 1e-3


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

    # the best division, first between the edges of the grid
    n, grid = len(rows), tables.bid_edges
    bids = np.broadcast_to(grid, (n, len(grid)))
    edges = yield from market.points(bids)
    # no curve is followed to where it buys nothing further
    useful = (edges.amount >= (1 - _NOTHING) * edges.amount[:, -1:]).argmax(axis=1)
    place = np.minimum(np.arange(len(grid)), useful[:, None])
    bids, highest = grid[place], grid[useful]
    spends, amounts = (np.take_along_axis(one, place, axis=1) for one in edges)
    best = allocate(spends, amounts, money)
    for _ in range(_ROUNDS):
        known = np.column_stack([np.zeros(n), bids])  # a bid of 0 is the start of every curve
        low = known[np.arange(n), np.maximum(best.places, 0)]
        high = known[np.arange(n), np.maximum(best.nexts, best.places) + 1]
        part = np.linspace(0.0, 1.0, _FINE + 1)
        bids = low[:, None] + (high - low)[:, None] * part[None, :]
        # with the best point itself, which may be a mass
        here = known[np.arange(n), np.maximum(best.places, 0) + 1]
        bids = np.sort(np.column_stack([bids, here]), axis=1)
        best = allocate(*(yield from market.points(bids)), money)
    chosen = np.where(best.places >= 0, bids[np.arange(n), np.maximum(best.places, 0)], 0.0)

    before = money * spent / spent.sum() if spent.sum() > 0 else np.zeros(n)
    before_bids = yield from market.bids_spending(before, edges.spend)
    if best.partial >= 0:
        one = slice(best.partial, best.partial + 1)
        part_of_it = market._replace(rows=rows[one], rates=market.rates[one])
        chosen[one] = yield from part_of_it.bids_spending(best.spend[one], edges.spend[one])
    # no bid is inside the bin of a mass; the last one would spend more than is left at its end
    place = np.minimum(np.searchsorted(grid, chosen), len(grid) - 1)
    is_less = (chosen < grid[place] * (1 - 1e-9)) | (np.arange(n) == best.partial)
    chosen = np.where(np.isin(grid[place], tables.masses) & is_less, grid[place - 1], chosen)
    sums, then = (
        (yield from market.sums(chosen)),
        (yield from market.points(np.minimum(before_bids, highest))),
    )
    now = _Points(sums[:, 4], sums[:, 0] * market.rates[:, 0])
    more = yield from market.points(np.minimum(np.maximum(chosen, 1e-12) * RAISE, tables.highest))

    scale = 1000.0 if goal == "impressions" else 1.0
    gained, is_bidding = more.amount - now.amount, chosen > 0
    marginal = np.full(n, np.nan)
    np.divide(scale * (more.spend - now.spend), gained, out=marginal, where=gained > 0)
    allocations = [
        Allocation(
            str(model.advertisers_[row]),
            tables.placer.segment(int(row)),
            float(chosen[i]) if is_bidding[i] else None,
            float(now.spend[i]),
            float(now.amount[i]),
            float(marginal[i]) if is_bidding[i] and not np.isnan(marginal[i]) else None,
            float(model.bid_[row]) / 1e6,
            float(then.spend[i]),
            float(then.amount[i]),
        )
        for i, row in enumerate(rows)
    ]
    total, in_log = float(now.amount.sum()), float(then.amount.sum())
    at_masses, spend, whys = int(np.isin(chosen, tables.masses).sum()), float(now.spend.sum()), []
    if best.partial < 0 and money > spend * (1 + 1e-9):
        wanted, most = (f"{amount_in_words(n)} {model.currency_}".rstrip() for n in (money, spend))
        whys.append(
            f"{wanted} cannot be spent: the most is {most}, and higher bids buy hardly more; "
            "plan for more days, or with less money"
        )
    if at_masses:
        bids_at = number_of(at_masses, "bid")
        whys.append(f"{bids_at} at prices of many auctions, which lower bids lose")
    return BudgetSplit(
        goal=goal,
        budget=money,
        spend=spend,
        amount=total,
        amount_interval=_interval(market, sums, goal, level),
        log_amount=in_log,
        gain=total / in_log - 1 if in_log > 0 else None,
        marginal_cost=scale / best.slope if best.slope > 0 else None,
        days=int(days),
        level=level,
        currency=model.currency_,
        allocations=sorted(allocations, key=lambda one: -one.spend),
        why="; ".join(whys),
    )


class Allocated(NamedTuple):
    """How a budget was divided between A curves of P points."""

    places: Ints  # (A,), the last point that is bought in whole; −1 for none
    nexts: Ints  # (A,), the next point of the envelope; −1 if there is none
    spend: Floats  # (A,)
    amount: Floats  # (A,), on the envelopes
    slope: float  # of the last edge bought: the amount that a further unit of money buys; 0: none
    partial: int  # the curve whose last edge is bought in part; −1 for none


def allocate(spend: Floats, amount: Floats, budget: float) -> Allocated:
    """Divide a budget between curves so that the largest amount is bought.

    ``spend`` and ``amount`` (A, P) are points of the curves, not decreasing; a curve begins at
    (0, 0), which is not among them. Here the first curve buys 3 for the first unit of
    money; the second buys 2, then 1.

    >>> spend, amount = np.array([[1.0, 4.0], [1.0, 2.0]]), np.array([[3.0, 3.5], [2.0, 3.0]])
    >>> found = allocate(spend, amount, 2.5)
    >>> found.spend.tolist(), found.amount.tolist(), found.slope
    ([1.0, 1.5], [3.0, 2.5], 1.0)
    """
    curve, point, cost, gain = kernels.concave_envelopes(
        np.ascontiguousarray(spend), np.ascontiguousarray(amount)
    )
    slope = np.divide(gain, cost, out=np.full(len(cost), np.inf), where=cost > 0)
    # equal slopes keep their order within a curve
    order = np.argsort(-slope, kind="stable")
    paid = np.cumsum(cost[order])
    n_whole = int(np.searchsorted(paid, budget * (1 + 1e-15), side="right"))
    n, whole, none = len(spend), order[:n_whole], np.iinfo(np.int64).max
    places, nexts = np.full(n, -1), np.full(n, none)
    np.maximum.at(places, curve[whole], point[whole])
    is_left = point > places[curve]
    np.minimum.at(nexts, curve[is_left], point[is_left])
    nexts[nexts == none] = -1
    spent = np.bincount(curve[whole], cost[whole], n).astype(np.float64)
    bought = np.bincount(curve[whole], gain[whole], n).astype(np.float64)
    if n_whole == len(order):
        return Allocated(places, nexts, spent, bought, 0.0, -1)
    last = order[n_whole]
    rest = max(budget - float(spent.sum()), 0.0)
    spent[curve[last]] += rest
    bought[curve[last]] += rest / cost[last] * gain[last]
    return Allocated(places, nexts, spent, bought, float(slope[last]), int(curve[last]))


class _Points(NamedTuple):
    """Mean spend and amount of the goal at some bids."""

    spend: Floats
    amount: Floats


class _Market(NamedTuple):
    """Some advertisers on some days, and what one impression of each is worth for the goal."""

    tables: ForecastTables
    rows: Ints  # (A,)
    days: PeriodLevels
    rates: Floats  # (A, 2), of the goal for one impression, and its deviation

    def sums(self, bids: Floats) -> Steps[Floats]:
        """Return the sums behind figures at bids (A,) or (A, P); 0 at a bid of 0."""
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


def _rows(
    model: FittedMarket,
    tables: ForecastTables,
    advertisers: Sequence[str] | None,
    segment: int | str | None,
) -> Ints:
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
            f"{tables.placer.unknown(unknown[0])}; a budget can only be divided between "
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


def _rates(tables: ForecastTables, rows: Ints, goal: str) -> Floats:
    """Return the rate of the goal for one impression, and its deviation, (A, 2)."""
    if goal not in _GOALS:
        raise InvalidParameterError(f"goal={goal!r}: it must be one of {', '.join(_GOALS)}")
    if goal == "impressions":
        return np.column_stack([np.ones(len(rows)), np.zeros(len(rows))])
    place = 0 if goal == "clicks" else 2
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
    low, high = market.tables.interval_factors(level)[0][1, TARGETS.index(goal), :, -1].tolist()
    total, deviation = float(mean.sum()), float(np.sqrt(variance))
    return max(total - low * deviation, 0.0), total + high * deviation
