"""Forecast tables: plans of bids in, figures of forecasts out, many at once or one quickly.

A plan is some bids of one advertiser, each for some auctions on a day. Every forecast of the
product goes through these tables: those of Python, of the program and of the service, those of the
report, and those that a backtest or an evaluation compares with what happened. The kernels have
the formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import date
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy.special import ndtr, ndtri

from coterie.ads.curves.day_levels import DayLevels, weekday_of
from coterie.ads.curves.landscapes import PER_UNIT, Evidence
from coterie.ads.curves.supply import Supply
from coterie.ads.forecasts.calibration import LEVELS, IntervalFactors
from coterie.ads.forecasts.kernels import figures_of_one, figures_of_plans, sums_of_plans
from coterie.ads.forecasts.placement import Placement, Placer
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.arrays import AnyArray, Bools, Floats, Ints
from coterie.errors import InvalidParameterError

if TYPE_CHECKING:
    from coterie.ads.forecasts.fitted_market import FittedMarket

_MICROS = 1_000_000
_MANY_AUCTIONS = 1e12
_MOST_PERIODS = 4096
_TOO_FEW_DAYS = "; too few days for a backtest: intervals assume that errors are normal"


# ---- Plans


@dataclass(frozen=True)
class Plans:
    """Plans of Q advertisers; plan q has the items ``starts[q]`` to ``starts[q + 1]`` − 1."""

    rows: Ints  # (Q,), advertisers
    starts: Ints  # (Q + 1,)
    bids: Floats  # (N,), in currency units per thousand impressions
    counts: Floats  # (N,), auctions
    days: Ints  # (N,), indices into dates
    dates: AnyArray  # (H,), datetime64[D]

    def of_rows(self, advertisers: Bools) -> Plans:
        """Return the plans of some advertisers, given by a mask of all."""
        chosen = advertisers[self.rows]
        numbers = np.diff(self.starts)
        items = np.repeat(chosen, numbers)
        return Plans(
            self.rows[chosen],
            np.concatenate([[0], np.cumsum(numbers[chosen])]),
            self.bids[items],
            self.counts[items],
            self.days[items],
            self.dates,
        )

    @property
    def supplies(self) -> Floats:
        """Auctions of each plan, (Q,)."""
        return np.add.reduceat(np.append(self.counts, 0.0), self.starts[:-1])

    @property
    def day_shares(self) -> Floats:
        """Share of each day in the auctions of each plan, (Q, H)."""
        plan = np.repeat(np.arange(len(self.rows)), np.diff(self.starts))
        n_days = len(self.dates)
        by_day = np.bincount(plan * n_days + self.days, self.counts, len(self.rows) * n_days)
        by_day = by_day.reshape(-1, n_days)
        return by_day / np.maximum(by_day.sum(axis=1, keepdims=True), 1e-300)


@dataclass(frozen=True)
class Outcome:
    """Sums by advertiser, (A,) each; spend in currency units."""

    impressions: Floats
    spend: Floats
    clicks: Floats
    conversions: Floats


def plans_of(histograms: BidHistograms, days: list[int]) -> Plans:
    """Return the bids made on some days as plans of advertisers; a cell is an item, at its mean."""
    cells = histograms.bids
    of_days = np.flatnonzero(np.isin(cells.day, days) & (cells.count > 0))
    rows, starts = np.unique(cells.advertiser[of_days], return_index=True)
    number = cells.count[of_days].astype(np.float64)
    return Plans(
        rows.astype(np.int64),
        np.append(starts, len(of_days)).astype(np.int64),
        cells.bid[of_days] / number / 1e6,
        number,
        np.searchsorted(days, cells.day[of_days]).astype(np.int64),
        histograms.days[days],
    )


def outcome_of(histograms: BidHistograms, days: list[int]) -> Outcome:
    """Return what was won, paid, clicked and converted on some days."""
    wins, cost, clicks, conversions = (
        histograms.daily(name)[:, days].sum(axis=1)
        for name in ("wins", "cost", "clicks", "conversions")
    )
    return Outcome(wins, cost / PER_UNIT, clicks, conversions)


def contiguous(array: Any, kind: Any = np.float64) -> AnyArray:
    """Return an array as the kernels take it, copied only if it must be."""
    return np.ascontiguousarray(array, dtype=kind)


# ---- Figures of plans


class PeriodLevels(NamedTuple):
    """What is expected of some days: of each, and of all of them together."""

    shifts: Floats  # (H,), log price level of each day
    factors: Floats  # (H,), supply of each day over that of a day with factor 1
    level_sd: float  # standard deviation of the price level of the days together
    factor_sd: float  # of the logarithm of their supply
    daily_share: float  # Σ u² of the shares u of the days: how much daily variation averages out
    weekdays: Ints  # (H,), from Monday; empty for a day whose weekday is unknown
    weekday_shares: Floats  # (7,), in their supply; empty for a day whose weekday is unknown


class AskedPlans(NamedTuple):
    """Q plans as the kernels take them; where it says so, they are one advertiser's at B bids."""

    plans: Any  # rows (Q,); starts (Q + 1,); bids, counts and shifts of all items
    uncertainty: Floats  # (Q, 3)
    market: Any
    curves: Any
    events: Floats  # (R, 4)
    pays_bid: bool
    # what the advertiser of each plan pays, or the one of all plans, over what the market says
    paid: Any = None  # (Q,) or a number

    def figures(self, factors: IntervalFactors) -> Floats:
        """Return the figures of each plan, (Q, 14)."""
        figures: Floats = figures_of_plans(*self[:-1], factors)
        if self.paid is not None:
            figures[:, [1, 5, 6, 7]] *= self._factor(figures[:, 1])[:, None]
        return figures

    def sums(self, *, given: bool = False) -> Floats:
        """Return the sums behind the figures of each plan, (Q, 8)."""
        sums: Floats = sums_of_plans(self.plans, given, self.market, self.curves, self.pays_bid)
        if self.paid is not None:
            won = np.maximum(sums[:, 0], 1e-300)
            sums[:, 4:] *= self._factor(1000 * sums[:, 4] / won)[:, None] ** [1, 2, 1, 1]
        return sums

    def _factor(self, price: Floats) -> Floats:
        """Return the factor of prices (Q,), with which they stay below the highest bid."""
        highest = np.maximum.reduceat(self.plans[2], self.plans[1][:-1])
        return np.minimum(self.paid, highest / np.maximum(price, 1e-300))

    @property
    def rates(self) -> Floats:
        """Rate of clicks and its deviation, then of conversions, of one advertiser, (4,)."""
        return np.asarray(self.events[self.plans[0][0]])

    @property
    def price_sd(self) -> float:
        """Relative deviation of the mean price at the first bid that the deviation of W causes."""
        rows, starts, *items = self.plans
        first = (rows[:1], starts[:2], *(part[: starts[1]] for part in items))
        impressions, of_impressions, spend, of_spend = self._replace(plans=first).sums()[0, ::2]
        if impressions <= 0 or spend <= 0:
            return 0.0
        return float(abs(np.log1p(of_spend / spend) - np.log1p(of_impressions / impressions)))

    @property
    def win(self) -> Floats:
        """W of one advertiser at the edges, (G,)."""
        return np.asarray(self.curves[0][self.plans[0][0]], dtype=np.float64)

    def moved_curves(self, moves: Floats) -> tuple[Any, Any]:
        """Return W and its deviation with normal scores that are moved at each edge, (V, G)."""
        # moves of several dimensions together might let W fall
        win = np.maximum.accumulate(ndtr(ndtri(self.win) + moves), axis=1)
        before, after = self.win * (1 - self.win), win * (1 - win)
        scale = np.sqrt(np.divide(after, before, out=np.ones_like(win), where=before > 0))
        spread = self.curves[1][self.plans[0][0]] * scale
        return contiguous(win, np.float32), contiguous(spread, np.float32)


def forecast_by_curves(win: Floats, evidence: Evidence, plans: Plans) -> tuple[Floats, Floats]:
    """Return mean impressions and spend of plans, (A,) each, by given curves (A, G) alone."""
    edges = evidence.edges.astype(np.float64)
    asked = AskedPlans(
        (plans.rows, plans.starts, plans.bids, plans.counts, np.zeros(len(plans.bids))),
        np.tile([0.0, 0.0, 1.0], (len(plans.rows), 1)),
        (edges, np.log(edges), contiguous(evidence.price), np.empty(0, np.int64)),
        (contiguous(win, np.float32), np.zeros(win.shape, dtype=np.float32)),
        np.full((len(win), 4), np.nan),
        evidence.pays == "bid",
    )
    impressions, spend = np.zeros((2, len(win)))
    figures = asked.figures((np.ones((2, 4, 2, 3)), 0.0, 1.0))
    impressions[plans.rows], spend[plans.rows] = figures[:, [2, 5]].T
    return impressions, spend


class MarketTables:
    """Figures of plans of A advertisers.

    Nothing changes after construction, and the loops let go of the interpreter's lock: any
    number of threads may ask. Arguments are as in the kernels, and attributes of a fitted market.
    """

    def __init__(
        self,
        edges: Ints,
        price: Floats,
        pays: str,
        win: Any,
        spread: Any,
        events: Floats,
        levels: DayLevels,
        supply: Supply,
        paid: Floats | None = None,
        masses: Ints | Sequence[int] = (),
    ) -> None:
        amounts = edges.astype(np.float64)
        bins = contiguous(np.searchsorted(edges, masses), np.int64)
        self.market = amounts, np.log(amounts), contiguous(price), bins
        self.curves = contiguous(win, np.float32), contiguous(spread, np.float32)
        self.events, self.paid = contiguous(events), paid
        self.pays_bid = pays == "bid"
        self._levels, self._supply = levels, supply
        self._periods: dict[tuple[date | None, int], PeriodLevels] = {}

    def days(self, first: date | None = None, number: int = 1) -> PeriodLevels:
        """Return what is expected of ``number`` days from ``first`` on.

        Without ``first``, one day is an average one of the week after the log, and several days
        are those after the log.
        """
        levels = self._periods.get((first, number))
        if levels is not None:
            return levels
        if first is None and number == 1:
            shift, variance = self._levels.typical()
            factor, spread = self._supply.factors.typical()
            levels = PeriodLevels(
                np.array([shift]),
                np.array([np.exp(factor)]),
                float(_root(variance)),
                float(_root(spread)),
                1.0,
                np.empty(0, dtype=np.int64),
                np.empty(0),
            )
        else:
            start = self._levels.days[-1] + 1 if first is None else np.datetime64(first, "D")
            levels = self._together(start + np.arange(number, dtype="timedelta64[D]"))
        if len(self._periods) >= _MOST_PERIODS:
            self._periods.clear()
        self._periods[first, number] = levels
        return levels

    def weekdays(self) -> list[PeriodLevels]:
        """Return what is expected of each weekday from Monday, in the week after the log."""
        week = self._levels.next_week()
        return [self.days(day) for day in week[np.argsort(weekday_of(week))].tolist()]

    def prices_by_weekday(self) -> list[float]:
        """Return the level of prices on each weekday from Monday over that of an average day.

        At a bid b on a day with level e^s the win rate is W(b·e^−s), and the price paid e^s times
        the one paid there.
        """
        average = self.days().shifts[0]
        return [float(np.exp(day.shifts[0] - average)) for day in self.weekdays()]

    def auctions(self, rows: Any, days: PeriodLevels) -> Any:
        """Return the auctions to expect of some advertisers."""
        return self._supply.level[rows] * self._own_factors(rows, days).sum(axis=-1)

    def supply_sd(self, rows: Any, days: PeriodLevels) -> Any:
        """Return the relative standard deviation of the supply of some advertisers."""
        own = self._supply.own_variance(rows, days.weekday_shares)
        own = own + self._supply.variation[rows] * days.daily_share
        return np.sqrt(own + days.factor_sd**2)

    def of_plans(self, plans: Plans, factors: IntervalFactors, *, given: bool) -> Floats:
        """Return the figures of plans, (Q, 14); see :meth:`asked_plans`."""
        return self.asked_plans(plans, given=given).figures(factors)

    def asked_plans(self, plans: Plans, *, given: bool = True) -> AskedPlans:
        """Return questions about plans, as the kernels take them.

        With ``given`` False the auctions of a plan only divide the expected supply of its days.
        """
        shifts, covariance = self._levels.ahead(plans.dates)
        shares = plans.day_shares
        level_sd = _root(np.einsum("qi,ij,qj->q", shares, covariance, shares))
        uncertainty = np.column_stack([level_sd, np.zeros(len(level_sd)), np.ones(len(level_sd))])
        counts = plans.counts
        if not given:
            days = self._together(plans.dates)
            scale = self.auctions(plans.rows, days) / np.maximum(plans.supplies, 1e-300)
            counts = counts * np.repeat(scale, np.diff(plans.starts))
            uncertainty[:, 1], uncertainty[:, 2] = self.supply_sd(plans.rows, days), 0.0
        items = (plans.rows, plans.starts, plans.bids, counts, shifts[plans.days])
        return self._asked(items, uncertainty)

    def _asked(self, items: Any, uncertainty: Floats) -> AskedPlans:
        paid = None if self.paid is None else self.paid[items[0]]
        return AskedPlans(
            items, uncertainty, self.market, self.curves, self.events, self.pays_bid, paid
        )

    def _own_factors(self, rows: Any, days: PeriodLevels) -> Floats:
        """Return the factors of the days times each advertiser's own of their weekdays."""
        if not len(days.weekdays):
            return np.broadcast_to(days.factors, (*np.shape(rows), len(days.factors)))
        # contiguous, so that sums of one and of many have the same last digit
        own = np.ascontiguousarray(self._supply.weekday[rows][..., days.weekdays])
        return own * days.factors

    def _day_shares(self, rows: Any, days: PeriodLevels) -> Floats:
        """Return the share of each day in the supply of n advertisers, (n, H)."""
        factors = self._own_factors(rows, days)
        return np.asarray(factors / factors.sum(axis=-1, keepdims=True))

    def _together(self, dates: Any) -> PeriodLevels:
        """Return what is expected of some days, each with the share of its supply."""
        shifts, covariance = self._levels.ahead(dates)
        log_factor, of_factors = self._supply.factors.ahead(dates)
        factors = np.exp(log_factor)
        share: Floats = factors / factors.sum()
        weekdays = weekday_of(dates)
        return PeriodLevels(
            shifts,
            factors,
            float(_root(share @ covariance @ share)),
            float(_root(share @ of_factors @ share)),
            float((share**2).sum()),
            weekdays,
            share @ np.eye(7)[weekdays],
        )


# ---- Figures of questions


class ForecastTables(MarketTables):
    """The figures of forecasts of a fitted model; ``row_of`` has the row of each advertiser."""

    def __init__(self, model: FittedMarket) -> None:
        names: list[str] = model.advertisers_.tolist()
        self._rates = [
            (model.click_rate_, model.click_worth_),
            (model.conversion_rate_, model.conversion_worth_),
        ]
        super().__init__(
            model.edges_,
            model.price_,
            model.pays_,
            model.win_,
            model.spread_,
            known_events(len(names), *self._rates),
            model.price_levels_,
            model.supply_,
            model.paid_,
            model.masses_,
        )
        self.row_of = dict(zip(names, range(len(names)), strict=True))
        self.placer = Placer(model)
        self._segments = contiguous(model.segment_win_), contiguous(model.segment_spread_)
        self._factors = {level: model.calibration_.interval_factors(level) for level in LEVELS}
        #: Bids of the grid of the log, increasing, and the highest of them.
        self.bid_edges = model.edges_ / _MICROS
        self.highest = float(self.bid_edges[-1])
        #: Bids that are prices of many auctions; among those of the grid.
        self.masses = (model.masses_ / _MICROS).tolist()
        self.always = "" if model.choice_.days else _TOO_FEW_DAYS
        highest = f"{self.highest:g} {model.currency_}".rstrip()
        bids = f"every bid in the log (of any advertiser: up to about {highest})"
        self.above = f"; above {bids}, whose share won is used"
        self._grounds: dict[int, str] = {}
        # the most frequent question is about an average day
        self._average = self.days()
        supplies, sds = self.supplies(np.arange(len(names)), self._average)
        self._average_supply: list[float] = supplies.tolist()
        self._average_sd: list[float] = sds.tolist()

    def supply(self, row: int, days: PeriodLevels | None = None) -> float:
        """Return the auctions to expect of an advertiser."""
        if days is None or days is self._average:
            return self._average_supply[row]
        return float(self.auctions(row, days))

    def supplies(self, rows: Ints, days: PeriodLevels) -> tuple[Floats, Floats]:
        """Return the auctions to expect of n advertisers, and their relative deviations."""
        return self.auctions(rows, days), self.supply_sd(rows, days)

    def at(
        self,
        rows: Ints,
        bids: Floats,
        supplies: Floats,
        days: Sequence[PeriodLevels],
        given: Bools,
        level: float = 0.9,
    ) -> Floats:
        """Return the figures of Q questions, (Q, 14), in the order of ``forecast_figures.FIELDS``.

        ``supplies`` are the auctions of all days of a question together, ``given`` says whether
        they are given, rather than expected.
        """
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        if rows.size:
            self._refuse_unknown_rows(int(rows.min()), int(rows.max()))
        return self._of_rows(rows, bids, supplies, days, given).figures(
            self.interval_factors(level)
        )

    def one(
        self,
        row: int,
        bid: float,
        supply: float,
        days: PeriodLevels,
        given: bool,
        level: float = 0.9,
    ) -> list[float]:
        """Return the figures of one question, as :meth:`at` gives them, the quick way."""
        self._refuse_unknown_rows(row, row)
        if len(days.shifts) > 1:
            rows, bids, supplies, is_given = (np.array([x]) for x in (row, bid, supply, given))
            return self.at(rows, bids, supplies, [days], is_given, level)[0].tolist()
        sd = 0.0
        if not given:
            is_average = days is self._average
            sd = self._average_sd[row] if is_average else float(self.supply_sd(row, days))
        figures: list[float] = figures_of_one(
            row,
            bid,
            supply,
            days.shifts[0],
            (days.level_sd, sd, 1.0 if given else 0.0),
            self.market,
            self.curves,
            self.events,
            self.pays_bid,
            self.interval_factors(level),
        )
        if self.paid is not None:
            factor = min(float(self.paid[row]), bid / max(figures[1], 1e-300))
            for column in (1, 5, 6, 7):
                figures[column] *= factor
        return figures

    def at_placed(
        self,
        placement: Placement,
        bids: Floats,
        supply: float,
        days: PeriodLevels,
        given: bool = True,
        level: float = 0.9,
    ) -> Floats:
        """Return the figures of an advertiser, in the log or not, at B bids, (B, 14)."""
        factors = self.interval_factors(level)
        return self.asked(placement, bids, supply, days, given).figures(factors)

    def asked(
        self, placement: Placement, bids: Floats, supply: float, days: PeriodLevels, given: bool
    ) -> AskedPlans:
        """Return questions about an advertiser at B bids, as the kernels take them."""
        B, H, row = len(bids), len(days.shifts), placement.row
        # nothing is known of the supply of an advertiser that is not in the log
        given = given or row is None
        supply_sd = 0.0 if given else float(self.supply_sd(row, days))
        items = (
            np.full(B, row or 0, dtype=np.int64),
            np.arange(B + 1) * H,
            np.repeat(np.asarray(bids, dtype=np.float64), H),
            np.tile(supply * self.day_shares(placement, days), B),
            np.tile(days.shifts, B),
        )
        uncertainty = np.tile([days.level_sd, supply_sd, float(given)], (B, 1))
        curves, events = self._of_placed(placement)
        paid = None if self.paid is None else 1.0 if row is None else float(self.paid[row])
        return AskedPlans(items, uncertainty, self.market, curves, events, self.pays_bid, paid)

    def chances(self, placement: Placement, bid: float, shifts: Floats) -> Floats:
        """Return W, sd(W), C, E[price²·won] and sd(C) of an auction at n price levels, (n, 5)."""
        n, asked = len(shifts), self.asked(placement, np.array([bid]), 1.0, self.days(), True)
        rows, starts = np.full(n, placement.row or 0, dtype=np.int64), np.arange(n + 1)
        items = rows, starts, np.full(n, bid, dtype=np.float64), np.ones(n), shifts
        return asked._replace(plans=items).sums()[:, [0, 2, 4, 5, 6]]

    def sums(self, rows: Ints, bids: Floats, days: PeriodLevels) -> Floats:
        """Return :meth:`AskedPlans.sums` of Q questions about expected supplies, (Q, 8)."""
        n, supplies = len(rows), self.auctions(rows, days)
        return self._of_rows(rows, bids, supplies, [days] * n, np.zeros(n, dtype=bool)).sums()

    def day_shares(self, placement: Placement, days: PeriodLevels) -> Floats:
        """Return the share of each day in the supply of an advertiser, (H,)."""
        if placement.row is None:
            return days.factors / days.factors.sum()
        return self._day_shares(np.array([placement.row]), days)[0]

    def event_rates(self, placement: Placement) -> list[tuple[float, float] | None]:
        """Return the rate of clicks and its standard deviation, then of conversions."""
        events = self._of_placed(placement)[1][placement.row or 0]
        pairs = events.reshape(2, 2).tolist()
        return [None if np.isnan(rate) else (rate, sd) for rate, sd in pairs]

    def of_placed_plans(
        self, placements: Sequence[Placement], plans: Plans, *, level: float = 0.9
    ) -> Floats:
        """Return the figures of plans of advertisers that are not in the log, (Q, 14)."""
        of_each = [self._of_placed(placement) for placement in placements]
        placed = copy(self)
        win, spread = (np.vstack([curves[side] for curves, _ in of_each]) for side in (0, 1))
        placed.curves, placed.events = (win, spread), np.vstack([events for _, events in of_each])
        placed.paid = None if self.paid is None else np.ones(len(placements))
        numbered = replace(plans, rows=np.arange(len(placements)))
        return placed.of_plans(numbered, self.interval_factors(level), given=True)

    def curves_at(self, placement: Placement, bids: Floats) -> dict[str, Floats]:
        """Return ``win``, ``low``, ``high`` and ``cost`` of an advertiser at B bids, (B,) each.

        They are of an average day. The interval is that of so many auctions that chance plays no
        part.
        """
        return _curves(self.at_placed(placement, bids, _MANY_AUCTIONS, self.days()))

    def curves_of(self, rows: Ints, bids: Floats) -> dict[str, Floats]:
        """Return the same of n advertisers of the log at B bids, (n B,) each, by advertiser."""
        n = len(rows) * len(bids)
        supplies, given = np.full(n, _MANY_AUCTIONS), np.ones(n, dtype=bool)
        rows, bids = np.repeat(rows, len(bids)), np.tile(bids, len(rows))
        return _curves(self.at(rows, bids, supplies, [self.days()] * n, given))

    def why(self, row: int) -> str:
        """Return the grounds of the forecasts of an advertiser of the log."""
        if row not in self._grounds:
            self._grounds[row] = self.placer.why(row)
        return self._grounds[row]

    def remark(self, bid: float) -> str:
        """Return what the user should know of a bid and of the interval; may be empty."""
        if bid in self.masses:
            return f"{self.always}; many auctions cost exactly this bid, and lower bids lose them"
        return self.always + self.above if bid > self.highest else self.always

    def interval_factors(self, level: float) -> IntervalFactors:
        """Return the factors of the intervals of a level; refuses a level that is not offered."""
        try:
            return self._factors[level]
        except (KeyError, TypeError):
            offered = ", ".join(f"{one:g}" for one in LEVELS)
            raise InvalidParameterError(f"level={level!r}: it must be one of {offered}") from None

    def _of_rows(
        self, rows: Ints, bids: Floats, supplies: Floats, days: Sequence[PeriodLevels], given: Bools
    ) -> AskedPlans:
        """Return questions about advertisers of the log at one bid each, divided by days."""
        numbers = np.array([len(levels.shifts) for levels in days], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(numbers)])
        uncertainty = np.zeros((len(rows), 3))
        uncertainty[:, 2] = given
        shares, shifts = np.empty(starts[-1]), np.empty(starts[-1])
        # most questions are about the same few days
        for levels in {id(levels): levels for levels in days}.values():
            chosen = np.array([one is levels for one in days])
            items = np.repeat(chosen, numbers)
            shares[items] = self._day_shares(rows[chosen], levels).ravel()
            shifts[items] = np.tile(levels.shifts, chosen.sum())
            uncertainty[chosen, 0] = levels.level_sd
            expected = chosen & ~given
            uncertainty[expected, 1] = self.supply_sd(rows[expected], levels)
        counts = np.repeat(np.asarray(supplies, dtype=np.float64), numbers) * shares
        each_bid = np.repeat(np.asarray(bids, dtype=np.float64), numbers)
        return self._asked((rows, starts, each_bid, counts, shifts), uncertainty)

    def _of_placed(self, placement: Placement) -> tuple[tuple[Any, Any], Floats]:
        """Return curves and events in which an advertiser has its row; if it has none, the first.

        The curves of an advertiser that is not in the log are those of a new one of its segments;
        segments that differ add to the deviation.
        """
        if placement.row is not None:
            return self.curves, self.events
        win, spread = self._segments
        mean = placement.shares @ win
        variance = placement.shares @ (spread**2 + win**2) - mean**2
        curves = contiguous(mean[None], np.float32), contiguous(_root(variance)[None], np.float32)
        pairs = (rate_and_sd(placement.weights, *kind) for kind in self._rates)
        events = [np.nan if part is None else part for pair in pairs for part in pair]
        return curves, np.array([events], dtype=np.float64)

    def _refuse_unknown_rows(self, lowest: int, highest: int) -> None:
        if lowest < 0 or highest >= len(self.row_of):
            raise InvalidParameterError(
                f"rows from {lowest} to {highest}: there are {len(self.row_of)} advertisers"
            )


def known_events(n: int, *kinds: tuple[Floats | None, Floats | None]) -> Floats:
    """Return the rate of each kind of event and its deviation, (n, 4); NaN if the log has none.

    A kind is its rates and their worth.
    """
    events = np.full((n, 2 * len(kinds)), np.nan)
    for kind, (rates, worth) in enumerate(kinds):
        if rates is not None and worth is not None:
            events[:, 2 * kind] = rates
            events[:, 2 * kind + 1] = np.sqrt(_rate_variance(rates, worth))
    return events


def rate_and_sd(
    weights: Floats, rates: Floats | None, worth: Floats | None
) -> tuple[float | None, float]:
    """Return the rate of an advertiser, or of several weighted, and its standard deviation.

    The variance between the advertisers that a new one is likened to is added to their own.

    >>> rate_and_sd(np.array([0.0, 1.0]), np.array([0.1, 0.5]), np.array([9.0, 24.0]))
    (0.5, 0.1)
    """
    if rates is None or worth is None:
        return None, 0.0
    some = np.flatnonzero(weights)
    weights, rates, worth = weights[some], rates[some], worth[some]
    mean = float(weights @ rates)
    variance = weights @ _rate_variance(rates, worth) + weights @ (rates - mean) ** 2
    return mean, float(np.sqrt(variance))


def _rate_variance(rates: Floats, worth: Floats) -> Floats:
    """Return the variance of rates that are worth so many impressions."""
    return rates * (1 - rates) / (worth + 1)


def tables_of(model: FittedMarket) -> ForecastTables:
    """Return the tables of a model; they are cached until it changes or is deleted.

    The cache is next to the model, not in it: tables get into no file and no copy.
    """
    attributes = dict(vars(model))
    with _CACHE_LOCK:
        tables, before = _CACHE.get(model, (None, {}))
    is_same = before.keys() == attributes.keys() and all(
        attributes[name] is value for name, value in before.items()
    )
    if tables is None or not is_same:
        tables = ForecastTables(model)
        with _CACHE_LOCK:
            _CACHE[model] = tables, attributes
    return tables


#: The tables of models, and the attributes of each when they were made.
_CACHE: WeakKeyDictionary[FittedMarket, tuple[ForecastTables, dict[str, Any]]] = WeakKeyDictionary()
_CACHE_LOCK = Lock()


def _curves(figures: Floats) -> dict[str, Floats]:
    """Return curves from the figures of many auctions."""
    ends = figures[:, 3:5].T / _MANY_AUCTIONS
    return {"win": figures[:, 0], "low": ends[0], "high": ends[1], "cost": figures[:, 1]}


def _root(variance: Any) -> Any:
    # rounding may leave a quadratic form below 0
    return np.sqrt(np.maximum(variance, 0.0))
