"""Forecast tables: what forecasts need of a model, laid out so that many are answered fast.

Every forecast of the product goes through these tables: those of Python, of the program and of the
service, those of the report, and those that an evaluation compares with what happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from datetime import date
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from coterie.ads.curves.day_levels import DayLevels, weekday_of
from coterie.ads.curves.supply import Supply
from coterie.ads.forecasts.calibration import LEVELS, IntervalFactors
from coterie.ads.forecasts.kernels import figures_of_one, figures_of_plans, sums_of_plans
from coterie.ads.forecasts.placement import Placement, Placer, rate_and_sd
from coterie.ads.forecasts.plans import PAYS, Plans, contiguous
from coterie.arrays import Bools, Floats, Ints
from coterie.errors import InvalidParameterError

if TYPE_CHECKING:
    from coterie.ads.forecasts.fitted_market import FittedMarket

_MICROS = 1_000_000
_MANY_AUCTIONS = 1e12
_MOST_PERIODS = 4096
_TOO_FEW_DAYS = "; too few days for a backtest: intervals assume that errors are normal"


class PeriodLevels(NamedTuple):
    """What is expected of some days: of each, and of all of them together."""

    shifts: Floats  # (H,), log price level of each day
    factors: Floats  # (H,), supply of each day over that of a day with factor 1
    level_sd: float  # standard deviation of the price level of the days together
    factor_sd: float  # of the logarithm of their supply
    daily_share: float  # Σ u² of the shares u of the days: how much daily variation averages out
    weekdays: Ints  # (H,), from Monday; empty for a day whose weekday is unknown


class AskedPlans(NamedTuple):
    """Plans of one advertiser at B bids on H days each, as the kernels take them."""

    plans: Any  # rows (B,), all the same; starts (B + 1,); bids, counts and shifts (B · H,)
    uncertainty: Floats  # (B, 3)
    market: Any
    curves: Any
    events: Floats  # (R, 4)
    pays: int

    def figures(self, factors: IntervalFactors) -> Floats:
        """Return the figures at each bid, (B, 14)."""
        figures: Floats = figures_of_plans(*self, factors)
        return figures

    @property
    def rates(self) -> Floats:
        """Rate of clicks and its deviation, then of conversions, (4,)."""
        return np.asarray(self.events[self.plans[0][0]])

    @property
    def amounts(self) -> Floats:
        """Bids at the price level of an average day, in micros, (B, H)."""
        rows, _, bids, _, shifts = self.plans
        return np.asarray((bids * 1e6 * np.exp(-shifts)).reshape(len(rows), -1))

    @property
    def counts(self) -> Floats:
        """Numbers of auctions, (B, H)."""
        return np.asarray(self.plans[3].reshape(len(self.plans[0]), -1))

    @property
    def price_sd(self) -> float:
        """Relative deviation of the mean price at the first bid that the deviation of W causes."""
        rows, starts, *items = self.plans
        first = (rows[:1], starts[:2], *(part[: starts[1]] for part in items))
        found = sums_of_plans(first, False, self.market, self.curves, self.pays)[0]
        impressions, of_impressions, spend, of_spend = found[[0, 2, 4, 6]]
        if impressions <= 0 or spend <= 0:
            return 0.0
        return float(abs(np.log1p(of_spend / spend) - np.log1p(of_impressions / impressions)))

    def win_at(self, amounts: Floats, *, sd: bool = False) -> Floats:
        """Return W, or its deviation, at amounts in micros, as the kernels interpolate."""
        curve = self.curves[int(sd)][self.plans[0][0]]
        return np.interp(amounts, np.append(0.0, self.market[0]), np.append(0.0, curve))

    def moved_curves(self, moves: Floats) -> tuple[Any, Any]:
        """Return W and its deviation at price levels that are moved at each edge, (V, G)."""
        amounts = self.market[0] * np.exp(-moves)
        # moves of several dimensions together might let W fall
        win = np.maximum.accumulate(self.win_at(amounts), axis=1)
        return contiguous(win, np.float32), contiguous(self.win_at(amounts, sd=True), np.float32)


class MarketTables:
    """Figures of plans of A advertisers.

    Nothing changes after construction, and the loops let go of the interpreter's lock: any
    number of threads may ask.

    Parameters
    ----------
    edges, price : (G,) arrays
        In micros.
    pays : {"price", "own bid", "bid"}
        What a winner pays: a price known by its own bin, the bid, or a price by bin of the bid.
    win, spread : (A, G) arrays
        W and its standard deviation.
    events : (A, 4) array
        See :mod:`~coterie.ads.forecasts.kernels`.
    levels : DayLevels
        Of prices.
    supply : Supply
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
    ) -> None:
        amounts = edges.astype(np.float64)
        self.market = amounts, np.log(amounts), contiguous(price)
        self.curves = contiguous(win, np.float32), contiguous(spread, np.float32)
        self.events = contiguous(events)
        self.pays = PAYS[pays]
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
            each = np.array([shift]), np.array([np.exp(factor)])
            unknown = np.empty(0, dtype=np.int64)
            levels = PeriodLevels(*each, float(_root(variance)), float(_root(spread)), 1.0, unknown)
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
        own = self._supply.error[rows] + self._supply.variation[rows] * days.daily_share
        return np.sqrt(own + days.factor_sd**2)

    def of_plans(self, plans: Plans, factors: IntervalFactors, *, given: bool) -> Floats:
        """Return the figures of plans, (Q, 14).

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
        return self._figures(items, uncertainty, factors)

    def _figures(self, items: Any, uncertainty: Floats, factors: IntervalFactors) -> Floats:
        figures: Floats = figures_of_plans(
            items, uncertainty, self.market, self.curves, self.events, self.pays, factors
        )
        return figures

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
        share = factors / factors.sum()
        return PeriodLevels(
            shifts,
            factors,
            float(_root(share @ covariance @ share)),
            float(_root(share @ of_factors @ share)),
            float((share**2).sum()),
            weekday_of(dates),
        )


class ForecastTables(MarketTables):
    """The figures of forecasts of a fitted model, of many at once or of one.

    Nothing changes after construction, and the loops let go of the interpreter's lock: any
    number of threads may ask. ``row_of`` has the row of each advertiser.
    """

    def __init__(self, model: FittedMarket) -> None:
        names: list[str] = model.advertisers_.tolist()
        self._rates = (
            (model.click_rate_, model.click_worth_),
            (model.conversion_rate_, model.conversion_worth_),
        )
        super().__init__(
            model.edges_,
            model.price_,
            model.pays_,
            model.win_,
            model.spread_,
            known_events(len(names), *self._rates),
            model.price_levels_,
            model.supply_,
        )
        self.row_of = dict(zip(names, range(len(names)), strict=True))
        self.placer = Placer(model)
        self._segments = contiguous(model.segment_win_), contiguous(model.segment_spread_)
        self._factors = {level: model.calibration_.interval_factors(level) for level in LEVELS}
        #: Bids of the grid of the log, increasing, and the highest of them.
        self.bid_edges = model.edges_ / _MICROS
        self.highest = float(self.bid_edges[-1])
        self.always = "" if model.choice_.days else _TOO_FEW_DAYS
        highest = f"{self.highest:g} {model.currency_}".rstrip()
        self.above = f"; above every bid in the log ({highest}), whose share won is used"
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
        """Return the figures of Q questions, (Q, 14), in the order of :data:`FIELDS`.

        Parameters
        ----------
        rows : (Q,) int64 array
            From ``row_of``.
        bids : (Q,) float64 array
            Above 0, in units of currency per thousand impressions (CPM).
        supplies : (Q,) float64 array
            Auctions, of all days of a question together.
        days : sequence of Q PeriodLevels
        given : (Q,) bool array
            Whether the supply is given, rather than expected.
        level : float
            Of the intervals, one of :data:`~coterie.ads.forecasts.calibration.LEVELS`.
        """
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        if rows.size:
            self._refuse_unknown_rows(int(rows.min()), int(rows.max()))
        items, uncertainty = self._items(rows, bids, supplies, days, given)
        return self._figures(items, uncertainty, self.interval_factors(level))

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
            self.pays,
            self.interval_factors(level),
        )
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
        n, known = len(bids), placement.row is not None
        items, uncertainty = self._items(
            np.full(n, placement.row or 0, dtype=np.int64),
            np.ascontiguousarray(bids, dtype=np.float64),
            np.full(n, supply, dtype=np.float64),
            [days] * n,
            np.full(n, given or not known),
            known=known,
        )
        curves, events = self._of_placed(placement)
        return AskedPlans(items, uncertainty, self.market, curves, events, self.pays)

    def chances(self, placement: Placement, bid: float, shifts: Floats) -> Floats:
        """Return W, sd(W), C, E[price²·won] and sd(C) of an auction at n price levels, (n, 5)."""
        n = len(shifts)
        rows, starts = np.full(n, placement.row or 0, dtype=np.int64), np.arange(n + 1)
        items = rows, starts, np.full(n, bid, dtype=np.float64), np.ones(n), shifts
        curves, _ = self._of_placed(placement)
        sums: Floats = sums_of_plans(items, False, self.market, curves, self.pays)
        return sums[:, [0, 2, 4, 5, 6]]

    def sums(self, rows: Ints, bids: Floats, days: PeriodLevels) -> Floats:
        """Return the sums behind the figures of Q questions about expected supplies, (Q, 8).

        See :func:`~coterie.ads.forecasts.kernels.sums_of_plans`.
        """
        n = len(rows)
        expected, supplies = np.zeros(n, dtype=bool), self.auctions(rows, days)
        items, _ = self._items(rows, bids, supplies, [days] * n, expected)
        sums: Floats = sums_of_plans(items, False, self.market, self.curves, self.pays)
        return sums

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
        return self.always + self.above if bid > self.highest else self.always

    def interval_factors(self, level: float) -> IntervalFactors:
        """Return the factors of the intervals of a level; refuses a level that is not offered."""
        try:
            return self._factors[level]
        except (KeyError, TypeError):
            offered = ", ".join(f"{one:g}" for one in LEVELS)
            raise InvalidParameterError(f"level={level!r}: it must be one of {offered}") from None

    def _items(
        self,
        rows: Ints,
        bids: Floats,
        supplies: Floats,
        days: Sequence[PeriodLevels],
        given: Bools,
        *,
        known: bool = True,
    ) -> tuple[Any, Floats]:
        """Return the items of questions at one bid each, divided between their days."""
        numbers = np.array([len(levels.shifts) for levels in days], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(numbers)])
        uncertainty = np.zeros((len(rows), 3))
        uncertainty[:, 2] = given
        shares, shifts = np.empty(starts[-1]), np.empty(starts[-1])
        # most questions are about the same few days
        for levels in {id(levels): levels for levels in days}.values():
            chosen = np.array([one is levels for one in days])
            items = np.repeat(chosen, numbers)
            if known:
                shares[items] = self._day_shares(rows[chosen], levels).ravel()
            else:
                shares[items] = np.tile(levels.factors / levels.factors.sum(), chosen.sum())
            shifts[items] = np.tile(levels.shifts, chosen.sum())
            uncertainty[chosen, 0] = levels.level_sd
            expected = chosen & ~given
            uncertainty[expected, 1] = self.supply_sd(rows[expected], levels)
        counts = np.repeat(np.asarray(supplies, dtype=np.float64), numbers) * shares
        each_bid = np.repeat(np.asarray(bids, dtype=np.float64), numbers)
        return (rows, starts, each_bid, counts, shifts), uncertainty

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

    A kind is its rates and their worth: a rate p worth M impressions has the variance
    p(1 − p)/(M + 1).
    """
    events = np.full((n, 2 * len(kinds)), np.nan)
    for kind, (rates, worth) in enumerate(kinds):
        if rates is not None and worth is not None:
            events[:, 2 * kind] = rates
            events[:, 2 * kind + 1] = np.sqrt(rates * (1 - rates) / (worth + 1))
    return events


def tables_of(model: FittedMarket) -> ForecastTables:
    """Return the tables of a model; they are cached until it changes or is deleted.

    The cache is beside the model, not in it: tables get into no file and no copy.
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
