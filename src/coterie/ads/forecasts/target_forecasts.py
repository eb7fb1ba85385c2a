"""Target forecasts: figures of an advertiser with some values of dimensions only.

With π_v the share of a value v of one dimension, δ_v its shift of the log price level and λ_v its
factor of a rate, auctions with v are π_v of all and are won with probability W(b·e^{−δ_v − c}).
The offset c(b) is the one at which the values of a dimension together win what is won without
dimensions:

    Σ_v π_v W(b·e^{−δ_v − c}) = W(b)

Spend and rates are scaled so that they add up, too. Several dimensions are taken as independent:
their shares and factors are multiplied, their shifts are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.ads.forecasts.calibration import Rungs
from coterie.ads.forecasts.forecast_kernels import figures_of_plans, sums_of_plans
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
_FARTHEST, _HALVINGS = 4.0, 44
_SPEND = slice(5, 8)


class AskedPlans(NamedTuple):
    """Plans of one advertiser at B bids on H days each, as the kernels take them."""

    plans: Any  # rows (B,), all the same; starts (B + 1,); bids, counts and shifts (B · H,)
    doubts: Floats  # (B, 3)
    market: Any
    curves: Any
    events: Floats  # (4,), of the advertiser
    pays: int

    @property
    def win(self) -> Floats:
        """The win curve of the advertiser, (G,)."""
        return np.asarray(self.curves[0][self.plans[0][0]], dtype=np.float64)

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

    def sums(self, counts: Floats, shifts: Floats) -> Floats:
        """Return means of impressions and spend of other auctions, (2, B, V).

        ``counts`` and ``shifts`` are (B, V, H).
        """
        rows, _, bids, *_ = self.plans
        B, V, H = counts.shape
        each = np.repeat(bids.reshape(B, 1, H), V, axis=1).ravel()
        starts = np.arange(B * V + 1, dtype=np.int64) * H
        plans = (np.repeat(rows, V), starts, each, plain(counts.ravel()), plain(shifts.ravel()))
        found = sums_of_plans(plans, False, self.market, self.curves, self.pays)
        return np.asarray(found[:, [0, 4]].T.reshape(2, B, V))


@dataclass(frozen=True)
class DimensionForecasts:
    """The V values of one dimension for one advertiser at B bids, so that they add up."""

    asked: AskedPlans
    effects: EffectsOfOne  # of these values

    @cached_property
    def moves(self) -> Floats:
        """Shift of the log price level by value, the offset c included, (B, V, H)."""
        _, starts, bids, _, shifts = self.asked.plans
        amounts = bids * _MICROS * np.exp(-shifts)
        share, shift = self.effects.share[0], self.effects.shift[0]
        offset = self._offsets(amounts, share, shift).reshape(len(starts) - 1, -1)
        return np.asarray(shift[:, None] + offset[:, None, :])

    @cached_property
    def sums(self) -> Floats:
        """Means of impressions and spend by value before spend is scaled, (2, B, V)."""
        counts = self._by_bid(3)[:, None, :] * self.effects.share[0][:, None]
        return self.asked.sums(counts, self._by_bid(4)[:, None, :] + self.moves)

    @cached_property
    def spend_factors(self) -> Floats:
        """Factors of spend by value, (B, V).

        Prices are lowered by a common factor, or the distances of prices from the bid are: no price
        leaves the range from 0 to the bid.
        """
        impressions, spend = self.sums
        _, whole = self.asked.sums(self._by_bid(3)[:, None, :], self._by_bid(4)[:, None, :])
        most = impressions * self._by_bid(2)[:, :1] / 1000.0
        found = spend.sum(axis=1, keepdims=True)
        saved, saving = most.sum(axis=1, keepdims=True) - whole, (most - spend)
        down = _ratio(whole, found)
        up = _ratio(most - saving * _ratio(saved, saving.sum(axis=1, keepdims=True)), spend)
        factor = np.where(whole <= found, down, np.maximum(up, 0.0))
        # rounding may lift a price above the bid
        return np.asarray(np.minimum(factor, _ratio(most, spend)))

    def rate_factors(self, event: int) -> Floats:
        """Factors of the rate of clicks (0) or conversions (1) by value, (B, V)."""
        factor = (self.effects.click, self.effects.conversion)[event][0]
        impressions = self.sums[0]
        total = impressions.sum(axis=1, keepdims=True)
        weight = np.where(total > 0, _ratio(impressions, total), self.effects.share[0])
        return np.asarray(factor / (weight @ factor)[:, None])

    def _by_bid(self, part: int) -> Floats:
        """Return bids (2), counts (3) or shifts (4) of the items, (B, H)."""
        plans = self.asked.plans
        return np.asarray(plans[part].reshape(len(plans[0]), -1))

    def _offsets(self, amounts: Floats, share: Floats, shift: Floats) -> Floats:
        """Return c at amounts (N,) in micros, by bisection: the win rate falls with c."""
        edges = np.append(0.0, self.asked.market[0])
        win = np.append(0.0, self.asked.win)
        goal = np.interp(amounts, edges, win)
        low, high = np.full(len(amounts), -_FARTHEST), np.full(len(amounts), _FARTHEST)
        scaled = amounts[:, None] * np.exp(-shift)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            won = np.interp(scaled * np.exp(-middle)[:, None], edges, win) @ share
            too_many = won > goal
            low, high = np.where(too_many, middle, low), np.where(too_many, high, middle)
        return (low + high) / 2


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
    def told(self) -> str:
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
    move = sum(part.moves[:, v].ravel() for part, v in zip(parts, places, strict=True))
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
    plans = (np.arange(B, dtype=np.int64), starts, bids, counts * share, plain(shifts + move))
    curves = tuple(plain(np.repeat(part[rows[:1]], B, axis=0), np.float32) for part in asked.curves)
    events = _events(asked.events, parts, places, chosen)
    figures = figures_of_plans(plans, doubts, asked.market, curves, events, asked.pays, rungs)
    factor = np.prod(
        [part.spend_factors[:, v] for part, v in zip(parts, places, strict=True)], axis=0
    )
    figures[:, _SPEND] *= factor[:, None]
    figures[:, 1] *= factor
    return np.asarray(figures)


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
