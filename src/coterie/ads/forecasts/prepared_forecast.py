"""Prepared forecasts: one advertiser on some days, to be asked for figures at any bid.

The auctions may be only those with some values of dimensions, a target. With π_v the share of a
value v of one dimension, δ_v its shift of the log price level and λ_v its factor of a rate,
auctions with v are π_v of all and are won with probability

    W_v(b) = W(b·e^{−δ_v − c(b)}).

The offset c(b) is the one at which the values of a dimension together win what is won without
dimensions:

    Σ_v π_v W_v(b) = W(b)

W_v is a win curve like W: it never falls with the bid, and the prices paid with v are distributed
by it. So impressions and spend of the values add up to those without dimensions. Rates are scaled
so that events add up, too. Several dimensions are taken as independent: their shares and factors
are multiplied, their shifts are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coterie.ads.forecasts.calibration import IntervalFactors
from coterie.ads.forecasts.forecast_figures import COLUMNS, Forecast
from coterie.ads.forecasts.forecast_tables import AskedPlans, ForecastTables, PeriodLevels
from coterie.ads.forecasts.kernels import sums_of_plans
from coterie.ads.forecasts.placement import Placement
from coterie.ads.forecasts.plans import contiguous
from coterie.ads.targets.target_effects import EffectsOfOne, TargetEffects
from coterie.arrays import Floats
from coterie.runtime.wording import percent

_HALVINGS = 44


@dataclass(frozen=True)
class PreparedForecast:
    """The advertiser of a question, its number of auctions and its days.

    Every question about one advertiser is answered by these figures: at a bid, the bid for a goal,
    a budget.
    """

    tables: ForecastTables
    placement: Placement
    supply: float  # auctions of all days together; of a target, those in it
    days: PeriodLevels
    first: date | None  # the first day; None for an average day, or the days after the log
    given: bool  # whether the supply was given, rather than expected
    level: float  # of the intervals
    grounds: str  # what the figures are based on
    currency: str
    target: Target | None = None  # the values of dimensions asked about; None for all auctions

    def figures(self, bids: ArrayLike) -> Floats:
        """Return the figures at B bids, (B, 14), in the order of ``forecast_figures.FIELDS``."""
        asked = self.asked(np.atleast_1d(np.asarray(bids, dtype=np.float64)))
        factors = self.tables.interval_factors(self.level)
        if self.target is not None:
            return self.target.figures(asked, factors)
        return asked.figures(factors)

    def asked(self, bids: Floats) -> AskedPlans:
        """Return questions about all auctions, not only those of the target, at B bids."""
        supply = self.supply / (1.0 if self.target is None else self.target.share)
        return self.tables.asked(self.placement, bids, supply, self.days, self.given)

    def forecasts(self, bids: ArrayLike) -> list[Forecast]:
        """Return the forecast at each of some bids."""
        bids, found = np.atleast_1d(np.asarray(bids, dtype=np.float64)), []
        for bid, figures in zip(bids.tolist(), self.figures(bids).tolist(), strict=True):
            targets: dict[str, Any] = {}
            for name, column in COLUMNS.items():
                mean, low, high = figures[column : column + 3]
                is_known = not isnan(mean)  # NaN is what the log does not have
                targets[name] = mean if is_known else None
                targets[f"{name}_interval"] = (low, high) if is_known else None
            found.append(
                Forecast(
                    advertiser=self.placement.name,
                    bid=bid,
                    supply=self.supply,
                    win_rate=figures[0],
                    cost=figures[1],
                    level=self.level,
                    segment=self.placement.segment,
                    curve=self.placement.curve,
                    why=self.grounds + self.tables.remark(bid),
                    currency=self.currency,
                    **targets,
                )
            )
        return found


@dataclass(frozen=True)
class DimensionForecasts:
    """The V values of one dimension for one advertiser at B bids, so that they add up."""

    asked: AskedPlans
    effects: EffectsOfOne  # of these values

    @cached_property
    def moves(self) -> Floats:
        """Shift of the log price level by value at each edge, δ_v + c, (V, G).

        c is found by bisection: the win rate falls with it.
        """
        edges, share, shift = self.asked.market[0], self.effects.share[0], self.effects.shift[0]
        goal = share.sum() * self.asked.win_at(edges)
        # at the lower end all values have lower prices than without dimensions, at the upper none
        low, high = (np.full(len(edges), -end) for end in (shift.max(), shift.min()))
        scaled = edges * np.exp(-shift)[:, None]
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            too_many = share @ self.asked.win_at(scaled * np.exp(-middle)) > goal
            low, high = np.where(too_many, middle, low), np.where(too_many, high, middle)
        return np.asarray(shift[:, None] + (low + high) / 2)

    @cached_property
    def curves(self) -> tuple[Any, Any]:
        """Win curves of the values and their deviations, (V, G)."""
        return self.asked.moved_curves(self.moves)

    @cached_property
    def impressions(self) -> Floats:
        """Means of impressions by value, (B, V)."""
        asked, edges = self.asked, np.append(0.0, self.asked.market[0])
        won = [
            (asked.counts * np.interp(asked.amounts, edges, np.append(0.0, win))).sum(axis=1)
            for win in self.curves[0]
        ]
        return np.asarray(np.column_stack(won) * self.effects.share[0])

    def sums(self, counts: Floats, shifts: Floats) -> Floats:
        """Return means of impressions and spend of other auctions at the first bid, (2, N, V).

        ``counts`` and ``shifts`` are (N, V, H).
        """
        asked, (N, V, H) = self.asked, counts.shape
        bids = np.tile(asked.plans[2][:H], N * V)
        starts = np.arange(N * V + 1, dtype=np.int64) * H
        rows = np.tile(np.arange(V), N)
        plans = (rows, starts, bids, contiguous(counts.ravel()), contiguous(shifts.ravel()))
        found = sums_of_plans(plans, False, asked.market, self.curves, asked.pays)
        return np.asarray(found[:, [0, 4]].T.reshape(2, N, V))

    def rate_factors(self, event: int) -> Floats:
        """Return factors of the rate of clicks (0) or conversions (1) by value, (B, V)."""
        factor = (self.effects.click, self.effects.conversion)[event][0]
        impressions = self.impressions
        total = impressions.sum(axis=1, keepdims=True)
        weight = np.where(total > 0, _ratio(impressions, total), self.effects.share[0])
        return np.asarray(factor / (weight @ factor)[:, None])


@dataclass(frozen=True)
class Target:
    """A choice of one value in each of some dimensions, for one advertiser."""

    where: dict[str, str]
    effects: list[EffectsOfOne]  # of all values of each dimension
    places: list[int]  # of the chosen value among them

    @classmethod
    def of(cls, targets: TargetEffects, effects: EffectsOfOne, where: Mapping[str, str]) -> Target:
        """Return a choice of values; refuse values that the model does not know."""
        chosen = targets.chosen(where)
        return cls(
            {name: str(value) for name, value in where.items()},
            [effects.of(targets.columns(name)) for name in chosen],
            list(chosen.values()),
        )

    @property
    def share(self) -> float:
        """Share of the auctions, those of several dimensions multiplied."""
        return float(
            np.prod([one.share[0, v] for one, v in zip(self.effects, self.places, strict=True)])
        )

    @property
    def description(self) -> str:
        """What forecasts of this target are based on, as the end of a sentence."""
        chosen = " and ".join(f"{name} {value}" for name, value in self.where.items())
        return f"; {chosen}: {percent(self.share)} of its auctions"

    def figures(self, asked: AskedPlans, factors: IntervalFactors) -> Floats:
        """Return the figures at B bids, (B, 14), by plans of all auctions."""
        parts = [DimensionForecasts(asked, one) for one in self.effects]
        return chosen_figures(asked, factors, parts, self.places)


def chosen_figures(
    asked: AskedPlans, factors: IntervalFactors, parts: list[DimensionForecasts], places: list[int]
) -> Floats:
    """Return the figures of one value of each dimension, (B, 14).

    Errors of shares and shifts widen the intervals.
    """
    rows, starts, bids, counts, shifts = asked.plans
    B = len(rows)
    of_values = list(zip(parts, places, strict=True))
    chosen = [part.effects.of(np.array([v])) for part, v in of_values]
    share = float(np.prod([one.share[0, 0] for one in chosen]))
    move = sum(part.moves[v] for part, v in of_values)
    uncertainty = asked.uncertainty.copy()
    given = uncertainty[:, 2] > 0
    supply = np.add.reduceat(counts, starts[:-1])
    # of a given number of auctions, how many are in the target is itself a matter of chance
    chance = np.where(given, (1 - share) / np.maximum(supply * share, 1e-9), 0.0)
    chance[supply <= 0] = 0.0
    of_level = sum(one.shift[1, 0] ** 2 for one in chosen)
    of_share = sum(one.share[1, 0] ** 2 for one in chosen)
    uncertainty[:, 0] = np.sqrt(uncertainty[:, 0] ** 2 + of_level)
    uncertainty[:, 1] = np.sqrt(uncertainty[:, 1] ** 2 + of_share + chance)
    uncertainty[:, 2] = np.where(given, share, 0.0)
    events = np.empty((B, 4))
    for event, name in enumerate(("click", "conversion")):
        rate, sd = asked.rates[2 * event : 2 * event + 2]
        factor = np.prod([part.rate_factors(event)[:, v] for part, v in of_values], axis=0)
        relative = sum(getattr(one, name)[1, 0] ** 2 for one in chosen)
        own = np.minimum(rate * factor, 1.0)
        events[:, 2 * event] = own
        events[:, 2 * event + 1] = np.sqrt((sd * factor) ** 2 + own**2 * relative)
    plans = (np.arange(B, dtype=np.int64), starts, bids, counts * share, shifts)
    curves = asked.moved_curves(np.tile(move, (B, 1)))
    return AskedPlans(plans, uncertainty, asked.market, curves, events, asked.pays).figures(factors)


def _ratio(part: Any, whole: Any) -> Floats:
    """Return part / whole, 1 where the whole is 0."""
    part, whole = np.broadcast_arrays(part, whole)
    return np.divide(part, whole, out=np.ones(part.shape), where=whole > 0)
