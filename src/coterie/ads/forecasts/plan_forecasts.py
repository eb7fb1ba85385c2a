"""Plan forecasts: curves, price levels, supply and click rates together give figures of plans."""

from __future__ import annotations

from copy import copy
from datetime import date, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.day_levels import DayLevels, weekday_of
from coterie.ads.curves.landscapes import Evidence
from coterie.ads.curves.supply import Supply
from coterie.ads.forecasts.calibration import Rungs
from coterie.ads.forecasts.kernels import figures_of_plans
from coterie.ads.forecasts.plans import Plans

__all__ = [
    "DayTable",
    "PlanForecasts",
    "forecast_by_curves",
    "known_rates",
    "pays_of",
    "plain",
]

Floats = NDArray[np.float64]
#: How the kernels know what a winner pays.
PAYS = {"price": 0, "own bid": 1, "bid": 2}
_MOST_TABLES = 4096


class DayTable(NamedTuple):
    """What is expected of some days: of each, and of all of them together."""

    shifts: Floats  # (H,), log price level of each day
    factors: Floats  # (H,), supply of each day over that of a day with factor 1
    level_sd: float  # standard deviation of the price level of the days together
    factor_sd: float  # of the logarithm of their supply
    daily_share: float  # Σ u² of the shares u of the days: how much daily variation averages out
    weekdays: NDArray[np.int64]  # (H,), from Monday; empty for a day whose weekday is unknown


class PlanForecasts:
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
        edges: NDArray[np.int64],
        price: Floats,
        pays: str,
        win: Any,
        spread: Any,
        events: Floats,
        levels: DayLevels,
        supply: Supply,
    ) -> None:
        amounts = edges.astype(np.float64)
        self.market = amounts, np.log(amounts), plain(price)
        self.curves = plain(win, np.float32), plain(spread, np.float32)
        self.events = plain(events)
        self.pays = PAYS[pays]
        self._levels, self._supply = levels, supply
        self._last_day = levels.days[-1].astype("datetime64[D]").astype(date)
        self._days: dict[tuple[date | None, int], DayTable] = {}

    def with_curves(self, win: Any, spread: Any, events: Floats) -> PlanForecasts:
        """Return forecasts of other advertisers in the same market."""
        other = copy(self)
        other.curves = plain(win, np.float32), plain(spread, np.float32)
        other.events = plain(events)
        return other

    def days(self, first: date | None = None, number: int = 1) -> DayTable:
        """Return what is expected of ``number`` days from ``first`` on.

        Without ``first``, one day is an average one of the week after the log, and several days
        are those after the log.
        """
        table = self._days.get((first, number))
        if table is None:
            table = self._day_table(first, number)
            if len(self._days) >= _MOST_TABLES:
                self._days.clear()
            self._days[first, number] = table
        return table

    def supply(self, rows: Any, days: DayTable) -> Any:
        """Return the auctions to expect of some advertisers."""
        return self._supply.level[rows] * self._own_factors(rows, days).sum(axis=-1)

    def day_shares(self, rows: Any, days: DayTable) -> Floats:
        """Return the share of each day in the supply of n advertisers, (n, H)."""
        factors = self._own_factors(rows, days)
        return np.asarray(factors / factors.sum(axis=-1, keepdims=True))

    def supply_doubt(self, rows: Any, days: DayTable) -> Any:
        """Return the relative standard deviation of the supply of some advertisers."""
        own = self._supply.error[rows] + self._supply.variation[rows] * days.daily_share
        return np.sqrt(own + days.factor_sd**2)

    def of_plans(self, plans: Plans, rungs: Rungs, *, given: bool) -> Floats:
        """Return the figures of plans, (Q, 14).

        With ``given`` False the auctions of a plan only divide the expected supply of its days.
        """
        shifts, covariance = self._levels.ahead(plans.dates)
        shares = plans.day_shares
        level_sd = _root(np.einsum("qi,ij,qj->q", shares, covariance, shares))
        doubts = np.column_stack([level_sd, np.zeros(len(level_sd)), np.ones(len(level_sd))])
        counts = plans.counts
        if not given:
            days = self._together(plans.dates)
            scale = self.supply(plans.rows, days) / np.maximum(plans.supplies, 1e-300)
            counts = counts * np.repeat(scale, np.diff(plans.starts))
            doubts[:, 1], doubts[:, 2] = self.supply_doubt(plans.rows, days), 0.0
        items = (plans.rows, plans.starts, plans.bids, counts, shifts[plans.days])
        return self.figures(items, doubts, rungs)

    def figures(self, plans: Any, doubts: Floats, rungs: Rungs) -> Floats:
        """Return the figures of plans as the kernels take them, (Q, 14)."""
        return figures_of_plans(
            plans, doubts, self.market, self.curves, self.events, self.pays, rungs
        )

    def _own_factors(self, rows: Any, days: DayTable) -> Floats:
        """Return the factors of the days times each advertiser's own of their weekdays."""
        if not len(days.weekdays):
            return np.broadcast_to(days.factors, (*np.shape(rows), len(days.factors)))
        # contiguous, so that sums of one and of many have the same last digit
        own = np.ascontiguousarray(self._supply.weekday[rows][..., days.weekdays])
        return own * days.factors

    def _day_table(self, first: date | None, number: int) -> DayTable:
        if first is None and number == 1:
            shift, variance = self._levels.typical()
            factor, spread = self._supply.factors.typical()
            each = np.array([shift]), np.array([np.exp(factor)])
            unknown = np.empty(0, dtype=np.int64)
            return DayTable(*each, float(_root(variance)), float(_root(spread)), 1.0, unknown)
        start = self._last_day + timedelta(days=1) if first is None else first
        return self._together(np.datetime64(start, "D") + np.arange(number, dtype="timedelta64[D]"))

    def _together(self, dates: NDArray[np.datetime64]) -> DayTable:
        """Return what is expected of some days, each with the share of its supply."""
        shifts, covariance = self._levels.ahead(dates)
        log_factor, of_factors = self._supply.factors.ahead(dates)
        factors = np.exp(log_factor)
        share = factors / factors.sum()
        return DayTable(
            shifts,
            factors,
            float(_root(share @ covariance @ share)),
            float(_root(share @ of_factors @ share)),
            float((share**2).sum()),
            weekday_of(dates),
        )


def forecast_by_curves(win: Floats, evidence: Evidence, plans: Plans) -> tuple[Floats, Floats]:
    """Return mean impressions and spend of plans, (A,) each, by given curves (A, G) alone."""
    edges = evidence.edges.astype(np.float64)
    curves = plain(win, np.float32), np.zeros(win.shape, dtype=np.float32)
    doubts = np.tile([0.0, 0.0, 1.0], (len(plans.rows), 1))
    items = (plans.rows, plans.starts, plans.bids, plans.counts, np.zeros(len(plans.bids)))
    no_events = np.full((len(win), 4), np.nan)
    figures = figures_of_plans(
        items,
        doubts,
        (edges, np.log(edges), plain(evidence.price)),
        curves,
        no_events,
        PAYS[pays_of(evidence)],
        (np.ones((2, 4, 2, 3)), 0.0, 1.0),
    )
    impressions, spend = np.zeros((2, len(win)))
    impressions[plans.rows], spend[plans.rows] = figures[:, [2, 5]].T
    return impressions, spend


def pays_of(evidence: Evidence) -> str:
    """Return what a winner pays: a key of :data:`PAYS`."""
    if evidence.pays == "price":
        return "price"
    return "own bid" if bool(np.all(evidence.price == evidence.edges)) else "bid"


def known_rates(n: int, rates: Floats | None, worth: Floats | None) -> tuple[Floats, Floats]:
    """Return the rate of each advertiser and its standard deviation; NaN where the log has none.

    A rate worth M impressions has the variance p(1 − p)/(M + 1).
    """
    if rates is None or worth is None:
        return np.full(n, np.nan), np.full(n, np.nan)
    return rates, np.sqrt(rates * (1 - rates) / (worth + 1))


def _root(variance: Any) -> Any:
    # rounding may leave a quadratic form below 0
    return np.sqrt(np.maximum(variance, 0.0))


def plain(array: Any, kind: Any = np.float64) -> NDArray[Any]:
    """Return an array as the loops take it: contiguous, of one type."""
    return np.ascontiguousarray(array, dtype=kind)
