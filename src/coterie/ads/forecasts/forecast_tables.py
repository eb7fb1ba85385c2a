"""Forecast tables: what forecasts need of a model, laid out so that many are answered fast.

Every forecast of the product goes through these tables: those of Python, of the program and of the
service, those of the report, and those that an evaluation compares with what happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from coterie.ads.forecasts.calibration import LEVELS, Rungs
from coterie.ads.forecasts.forecast_figures import FIELDS
from coterie.ads.forecasts.kernels import (
    chances_at,
    figures_of_one,
    figures_of_plans,
    sums_of_plans,
)
from coterie.ads.forecasts.placement import Placement, Placer, rate_and_doubt
from coterie.ads.forecasts.plan_forecasts import DayTable, PlanForecasts, known_rates, plain
from coterie.ads.forecasts.plans import Plans
from coterie.ads.forecasts.target_forecasts import AskedPlans
from coterie.errors import InvalidParameterError

if TYPE_CHECKING:
    from coterie.ads.forecasts.fitted_market import FittedMarket

__all__ = ["ForecastTables", "tables_of"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_MICROS = 1_000_000
_MANY_AUCTIONS = 1e12
_TOO_FEW_DAYS = "; too few days for a backtest: intervals assume that errors are normal"


class ForecastTables:
    """The figures of forecasts of a fitted model, of many at once or of one.

    Nothing changes after construction, and the loops let go of the interpreter's lock: any
    number of threads may ask. ``row_of`` has the row of each advertiser.
    """

    def __init__(self, model: FittedMarket) -> None:
        names: list[str] = model.advertisers_.tolist()
        self.row_of = dict(zip(names, range(len(names)), strict=True))
        self.placer = Placer(model)
        self._segments = plain(model.segment_win_), plain(model.segment_spread_)
        self._click = model.click_rate_, model.click_worth_
        self._conversion = model.conversion_rate_, model.conversion_worth_
        n = len(names)
        self._plan_forecasts = PlanForecasts(
            model.edges_,
            model.price_,
            model.pays_,
            model.win_,
            model.spread_,
            np.column_stack([*known_rates(n, *self._click), *known_rates(n, *self._conversion)]),
            model.price_levels_,
            model.supply_,
        )
        self._rungs = {level: model.calibration_.rungs(level) for level in LEVELS}
        #: Bids of the grid of the log, increasing, and the highest of them.
        self.bid_edges = model.edges_ / _MICROS
        self.highest = float(self.bid_edges[-1])
        self.always = "" if model.choice_.days else _TOO_FEW_DAYS
        highest = f"{self.highest:g} {model.currency_}".rstrip()
        self.above = f"; above every bid in the log ({highest}), whose share won is used"
        self._grounds: dict[int, str] = {}
        # the most frequent question is about an average day
        self._average = self.days()
        supplies, doubts = self.supplies(np.arange(n), self._average)
        self._average_supply: list[float] = supplies.tolist()
        self._average_doubt: list[float] = doubts.tolist()

    def days(self, first: date | None = None, number: int = 1) -> DayTable:
        """Return what is expected of some days; see :meth:`PlanForecasts.days`."""
        return self._plan_forecasts.days(first, number)

    def supply(self, row: int, days: DayTable | None = None) -> float:
        """Return the auctions to expect of an advertiser."""
        if days is None or days is self._average:
            return self._average_supply[row]
        return float(self._plan_forecasts.supply(row, days))

    def at(
        self,
        rows: Indices,
        bids: Floats,
        supplies: Floats,
        days: Sequence[DayTable],
        given: NDArray[np.bool_],
        level: float = 0.9,
    ) -> Floats:
        """Return the figures of Q questions, (Q, 14), in the order of :data:`FIELDS`.

        Parameters
        ----------
        rows : (Q,) int64 array
            From ``row_of``.
        bids : (Q,) float64 array
            Above 0, in units of currency per thousand impressions (CPM).
        supplies : (Q,) float64 array
            Auctions, of all days of a question together.
        days : sequence of Q DayTable
        given : (Q,) bool array
            Whether the supply is given, rather than expected.
        level : float
            Of the intervals, one of :data:`~coterie.ads.forecasts.calibration.LEVELS`.
        """
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        if rows.size:
            self._refuse_unknown_rows(int(rows.min()), int(rows.max()))
        plans, doubts = self._plans(rows, bids, supplies, days, given)
        return self._plan_forecasts.figures(plans, doubts, self.rungs(level))

    def one(
        self, row: int, bid: float, supply: float, days: DayTable, given: bool, level: float = 0.9
    ) -> list[float]:
        """Return the figures of one question, as :meth:`at` gives them, the quick way."""
        self._refuse_unknown_rows(row, row)
        if len(days.shifts) > 1:
            return self.at(
                np.array([row]),
                np.array([bid]),
                np.array([supply]),
                [days],
                np.array([given]),
                level,
            )[0].tolist()
        core, doubt = self._plan_forecasts, 0.0
        if not given:
            is_average = days is self._average
            doubt = self._average_doubt[row] if is_average else float(core.supply_doubt(row, days))
        figures: list[float] = figures_of_one(
            row,
            bid,
            supply,
            days.shifts[0],
            (days.level_sd, doubt, 1.0 if given else 0.0),
            core.market,
            core.curves,
            core.events,
            core.pays,
            self.rungs(level),
        )
        return figures

    def at_placed(
        self,
        placement: Placement,
        bids: Floats,
        supply: float,
        days: DayTable,
        given: bool = True,
        level: float = 0.9,
    ) -> Floats:
        """Return the figures of an advertiser, in the log or not, at B bids, (B, 14)."""
        if not len(bids):
            return np.empty((0, len(FIELDS)))
        asked, rungs = self.asked(placement, bids, supply, days, given), self.rungs(level)
        events = self._plan_forecasts.events if placement.row is not None else asked.events[None]
        return figures_of_plans(
            asked.plans, asked.doubts, asked.market, asked.curves, plain(events), asked.pays, rungs
        )

    def asked(
        self, placement: Placement, bids: Floats, supply: float, days: DayTable, given: bool
    ) -> AskedPlans:
        """Return questions about an advertiser at B bids, as the kernels take them."""
        core, n, known = self._plan_forecasts, len(bids), placement.row is not None
        rows = np.full(n, placement.row or 0, dtype=np.int64)
        plans, doubts = self._plans(
            rows,
            np.ascontiguousarray(bids, dtype=np.float64),
            np.full(n, supply, dtype=np.float64),
            [days] * n,
            np.full(n, given or not known),
            known=known,
        )
        curves, events = self._curves_of(placement), self._events_of(placement)
        return AskedPlans(plans, doubts, core.market, curves, events, core.pays)

    def chances(self, placement: Placement, bid: float, shifts: Floats) -> Floats:
        """Return what the kernels say of one auction at n price levels, (n, 5)."""
        core, curves = self._plan_forecasts, self._curves_of(placement)
        return chances_at(bid, shifts, placement.row or 0, core.market, curves, core.pays)

    def sums(self, rows: Indices, bids: Floats, days: DayTable) -> Floats:
        """Return the sums behind the figures of Q questions about expected supplies, (Q, 8).

        See :func:`~coterie.ads.forecasts.kernels.sums_of_plans`.
        """
        core, n = self._plan_forecasts, len(rows)
        expected = np.zeros(n, dtype=bool)
        plans, _ = self._plans(rows, bids, core.supply(rows, days), [days] * n, expected)
        return sums_of_plans(plans, False, core.market, core.curves, core.pays)

    def supplies(self, rows: Indices, days: DayTable) -> tuple[Floats, Floats]:
        """Return the auctions to expect of n advertisers, and their relative deviations."""
        core = self._plan_forecasts
        return core.supply(rows, days), core.supply_doubt(rows, days)

    def day_shares(self, placement: Placement, days: DayTable) -> Floats:
        """Return the share of each day in the supply of an advertiser, (H,)."""
        if placement.row is None:
            return days.factors / days.factors.sum()
        return self._plan_forecasts.day_shares(np.array([placement.row]), days)[0]

    def event_rates(self, placement: Placement) -> list[tuple[float, float] | None]:
        """Return the rate of clicks and its standard deviation, then of conversions."""
        pairs = self._events_of(placement).reshape(2, 2).tolist()
        return [None if np.isnan(rate) else (rate, doubt) for rate, doubt in pairs]

    def events(self, rows: Indices) -> Floats:
        """Return rates of clicks and conversions of n advertisers, and deviations, (n, 4)."""
        return self._plan_forecasts.events[rows]

    def of_plans(self, plans: Plans, *, given: bool, level: float = 0.9) -> Floats:
        """Return the figures of plans of known advertisers, (Q, 14).

        With ``given`` False the auctions of a plan only divide the expected supply of its days.
        """
        return self._plan_forecasts.of_plans(plans, self.rungs(level), given=given)

    def of_placed_plans(
        self, placements: Sequence[Placement], plans: Plans, *, level: float = 0.9
    ) -> Floats:
        """Return the figures of plans of advertisers that are not in the log, (Q, 14)."""
        curves = [self._placed_curves(placement) for placement in placements]
        win, spread = (np.vstack([curve[side] for curve in curves]) for side in (0, 1))
        events = np.vstack([self._placed_events(placement) for placement in placements])
        numbered = replace(plans, rows=np.arange(len(placements)))
        placed = self._plan_forecasts.with_curves(win, spread, events)
        return placed.of_plans(numbered, self.rungs(level), given=True)

    def _curves_of(self, placement: Placement) -> tuple[Any, Any]:
        """Return the curves in which an advertiser has its row, or the first one."""
        known = placement.row is not None
        return self._plan_forecasts.curves if known else self._placed_curves(placement)

    def _events_of(self, placement: Placement) -> Floats:
        """Return its rates of clicks and conversions and their deviations, (4,)."""
        known = placement.row is not None
        events = self._plan_forecasts.events if known else self._placed_events(placement)
        return np.asarray(events[placement.row or 0])

    def _placed_curves(self, placement: Placement) -> tuple[Any, Any]:
        """Return W and its deviation of an advertiser that is not in the log, (1, G) each.

        They are those of a new advertiser of its segments; segments that differ add to the
        deviation.
        """
        win, spread = self._segments
        mean = placement.shares @ win
        variance = placement.shares @ (spread**2 + win**2) - mean**2
        deviation = np.sqrt(np.maximum(variance, 0.0))
        return plain(mean[None], np.float32), plain(deviation[None], np.float32)

    def curves_at(self, placement: Placement, bids: Floats) -> dict[str, Floats]:
        """Return ``win``, ``low``, ``high`` and ``cost`` of an advertiser at B bids, (B,) each.

        They are of an average day. The interval is that of so many auctions that chance plays no
        part.
        """
        return _curves(self.at_placed(placement, bids, _MANY_AUCTIONS, self.days()))

    def curves_of(self, rows: Indices, bids: Floats) -> dict[str, Floats]:
        """Return the same of n advertisers of the log at B bids, (n B,) each, by advertiser."""
        n = len(rows) * len(bids)
        supplies, given = np.full(n, _MANY_AUCTIONS), np.ones(n, dtype=bool)
        rows, bids = np.repeat(rows, len(bids)), np.tile(bids, len(rows))
        return _curves(self.at(rows, bids, supplies, [self.days()] * n, given))

    def win_rates(self, bins: Indices) -> NDArray[np.float32]:
        """Return W of all advertisers at the edges of some bins, (A, n)."""
        return np.ascontiguousarray(self._plan_forecasts.curves[0][:, bins])

    def why(self, row: int) -> str:
        """Return the grounds of the forecasts of an advertiser of the log."""
        if row not in self._grounds:
            self._grounds[row] = self.placer.why(row)
        return self._grounds[row]

    def remark(self, bid: float) -> str:
        """Return what the user should know of a bid and of the interval; may be empty."""
        return self.always + self.above if bid > self.highest else self.always

    def _plans(
        self,
        rows: Indices,
        bids: Floats,
        supplies: Floats,
        days: Sequence[DayTable],
        given: NDArray[np.bool_],
        *,
        known: bool = True,
    ) -> tuple[Any, Floats]:
        """Return the items of questions at one bid each, divided between their days."""
        numbers = np.array([len(table.shifts) for table in days], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(numbers)])
        doubts = np.zeros((len(rows), 3))
        doubts[:, 2] = given
        factors, shifts = np.empty(starts[-1]), np.empty(starts[-1])
        # most questions are about the same few days
        for table in {id(table): table for table in days}.values():
            chosen = np.array([one is table for one in days])
            items = np.repeat(chosen, numbers)
            shares = table.factors / table.factors.sum()
            if known:
                shares = self._plan_forecasts.day_shares(rows[chosen], table).ravel()
            factors[items] = np.resize(shares, items.sum())
            shifts[items] = np.tile(table.shifts, chosen.sum())
            doubts[chosen, 0] = table.level_sd
            expected = chosen & ~given
            doubts[expected, 1] = self._plan_forecasts.supply_doubt(rows[expected], table)
        counts = np.repeat(np.asarray(supplies, dtype=np.float64), numbers) * factors
        each_bid = np.repeat(np.asarray(bids, dtype=np.float64), numbers)
        return (rows, starts, each_bid, counts, shifts), doubts

    def _placed_events(self, placement: Placement) -> Floats:
        events = [
            np.nan if part is None else part
            for kind in (self._click, self._conversion)
            for part in rate_and_doubt(placement.weights, *kind)
        ]
        return np.array([events], dtype=np.float64)

    def rungs(self, level: float) -> Rungs:
        """Return the factors of the intervals of a level; refuses a level that is not offered."""
        try:
            return self._rungs[level]
        except (KeyError, TypeError):
            offered = ", ".join(f"{one:g}" for one in LEVELS)
            raise InvalidParameterError(f"level={level!r}: it must be one of {offered}") from None

    def _refuse_unknown_rows(self, lowest: int, highest: int) -> None:
        if lowest < 0 or highest >= len(self.row_of):
            raise InvalidParameterError(
                f"rows from {lowest} to {highest}: there are {len(self.row_of)} advertisers"
            )


def _curves(figures: Floats) -> dict[str, Floats]:
    """Return curves from the figures of many auctions."""
    ends = figures[:, 3:5].T / _MANY_AUCTIONS
    return {"win": figures[:, 0], "low": ends[0], "high": ends[1], "cost": figures[:, 1]}


def tables_of(model: FittedMarket) -> ForecastTables:
    """Return the tables of a model; they are cached until it changes or is deleted.

    The cache is beside the model, not in it: tables get into no file and no copy.
    """
    attributes = dict(vars(model))
    with _CACHE_LOCK:
        cached = _CACHE.get(model)
    if cached is not None and _are_same(cached.attributes, attributes):
        return cached.tables
    tables = ForecastTables(model)
    with _CACHE_LOCK:
        _CACHE[model] = _Cached(tables, attributes)
    return tables


class _Cached(NamedTuple):
    """Tables, and the attributes of the model when they were made."""

    tables: ForecastTables
    attributes: dict[str, Any]


_CACHE: WeakKeyDictionary[FittedMarket, _Cached] = WeakKeyDictionary()
_CACHE_LOCK = Lock()


def _are_same(before: dict[str, Any], now: dict[str, Any]) -> bool:
    return before.keys() == now.keys() and all(now[name] is before[name] for name in before)
