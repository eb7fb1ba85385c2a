"""Target forecasts: figures of an advertiser with some values of dimensions only.

With π_v the share of a value v of one dimension, δ_v its shift of the log price level and λ_v its
factor of a rate, auctions with v are π_v of all and are won with probability

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
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.ads.forecasts.calibration import Rungs
from coterie.ads.forecasts.kernels import figures_of_plans, sums_of_plans
from coterie.ads.forecasts.plan_forecasts import plain
from coterie.ads.targets.target_effects import EffectsOfOne, TargetEffects
from coterie.runtime.wording import percent

__all__ = [
    "AskedPlans",
    "DimensionForecasts",
    "Target",
    "chosen_figures",
    "target_figures",
    "target_of",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_MICROS = 1e6
_HALVINGS = 44


class AskedPlans(NamedTuple):
    """Plans of one advertiser at B bids on H days each, as the kernels take them."""

    plans: Any  # rows (B,), all the same; starts (B + 1,); bids, counts and shifts (B · H,)
    doubts: Floats  # (B, 3)
    market: Any
    curves: Any
    events: Floats  # (4,), of the advertiser
    pays: int

    @property
    def amounts(self) -> Floats:
        """Bids at the price level of an average day, in micros, (B, H)."""
        rows, _, bids, _, shifts = self.plans
        return np.asarray((bids * _MICROS * np.exp(-shifts)).reshape(len(rows), -1))

    @property
    def counts(self) -> Floats:
        """Numbers of auctions, (B, H)."""
        return np.asarray(self.plans[3].reshape(len(self.plans[0]), -1))

    @property
    def price_doubt(self) -> float:
        """Relative deviation of the mean price at the first bid that doubts about W cause."""
        rows, starts, *items = self.plans
        first = (rows[:1], starts[:2], *(part[: starts[1]] for part in items))
        found = sums_of_plans(first, False, self.market, self.curves, self.pays)[0]
        impressions, of_impressions, spend, of_spend = found[[0, 2, 4, 6]]
        if impressions <= 0 or spend <= 0:
            return 0.0
        return float(abs(np.log1p(of_spend / spend) - np.log1p(of_impressions / impressions)))

    def win_at(self, amounts: Floats) -> Floats:
        """Return W at amounts in micros."""
        return self._at(amounts, 0)

    def moved_curves(self, moves: Floats) -> tuple[Any, Any]:
        """Return W and its deviation at price levels that are moved at each edge, (V, G)."""
        amounts = self.market[0] * np.exp(-moves)
        win, spread = (self._at(amounts, part) for part in (0, 1))
        # moves of several dimensions together might let it fall
        win = np.maximum.accumulate(win, axis=1)
        return plain(win, np.float32), plain(spread, np.float32)

    def _at(self, amounts: Floats, part: int) -> Floats:
        """Return W (0) or its deviation (1) at amounts in micros, as the kernels interpolate."""
        curve = self.curves[part][self.plans[0][0]]
        return np.interp(amounts, np.append(0.0, self.market[0]), np.append(0.0, curve))


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
        plans = (rows, starts, bids, plain(counts.ravel()), plain(shifts.ravel()))
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


def target_of(targets: TargetEffects, effects: EffectsOfOne, where: Mapping[str, str]) -> Target:
    """Return a choice of values; refuse values that the model does not know."""
    chosen = targets.chosen(where)
    return Target(
        {name: str(value) for name, value in where.items()},
        [effects.of(targets.columns(name)) for name in chosen],
        list(chosen.values()),
    )


def target_figures(asked: AskedPlans, rungs: Rungs, target: Target) -> Floats:
    """Return the figures of a target at B bids, (B, 14).

    The plans are of all auctions. Doubts about shares and shifts widen the intervals.
    """
    parts = [DimensionForecasts(asked, one) for one in target.effects]
    return chosen_figures(asked, rungs, parts, target.places)


def chosen_figures(
    asked: AskedPlans, rungs: Rungs, parts: list[DimensionForecasts], places: list[int]
) -> Floats:
    """Return the figures of one value of each dimension, (B, 14)."""
    rows, starts, bids, counts, shifts = asked.plans
    B = len(rows)
    chosen = [part.effects.of(np.array([v])) for part, v in zip(parts, places, strict=True)]
    share = float(np.prod([one.share[0, 0] for one in chosen]))
    move = sum(part.moves[v] for part, v in zip(parts, places, strict=True))
    doubts = asked.doubts.copy()
    given = doubts[:, 2] > 0
    supply = np.add.reduceat(counts, starts[:-1])
    # of a given number of auctions, how many are in the target is itself a matter of chance
    chance = np.where(given, (1 - share) / np.maximum(supply * share, 1e-9), 0.0)
    chance[supply <= 0] = 0.0
    doubts[:, 0] = np.sqrt(doubts[:, 0] ** 2 + sum(one.shift[1, 0] ** 2 for one in chosen))
    of_share = sum(one.share[1, 0] ** 2 for one in chosen)
    doubts[:, 1] = np.sqrt(doubts[:, 1] ** 2 + of_share + chance)
    doubts[:, 2] = np.where(given, share, 0.0)
    plans = (np.arange(B, dtype=np.int64), starts, bids, counts * share, shifts)
    curves = asked.moved_curves(np.tile(move, (B, 1)))
    events = _events(asked.events, parts, places, chosen)
    return np.asarray(
        figures_of_plans(plans, doubts, asked.market, curves, events, asked.pays, rungs)
    )


def _events(
    plain_events: Floats,
    parts: list[DimensionForecasts],
    places: list[int],
    chosen: list[EffectsOfOne],
) -> Floats:
    """Return rates and their deviations by bid, (B, 4), as the kernels take them."""
    found = []
    for event, name in enumerate(("click", "conversion")):
        rate, doubt = plain_events[2 * event : 2 * event + 2]
        factor = np.prod(
            [part.rate_factors(event)[:, v] for part, v in zip(parts, places, strict=True)], axis=0
        )
        relative = sum(getattr(one, name)[1, 0] ** 2 for one in chosen)
        own = np.minimum(rate * factor, 1.0)
        found += [own, np.sqrt((doubt * factor) ** 2 + own**2 * relative)]
    return plain(np.column_stack(found))


def _ratio(part: Any, whole: Any) -> Floats:
    """Return part / whole, 1 where the whole is 0."""
    part, whole = np.broadcast_arrays(part, whole)
    return np.divide(part, whole, out=np.ones(part.shape), where=whole > 0)
