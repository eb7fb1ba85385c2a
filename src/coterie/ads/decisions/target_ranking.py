"""Target ranking: which devices, countries or other values to aim at, for one advertiser and bid.

The figures of a value are those of a forecast with it
(:mod:`coterie.ads.forecasts.fitted_market`). Costs per action and the probability to be the
best come from draws of the posterior of the effects: shares, shifts of scores, factors of rates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import isnan
from typing import Any, get_args

import numpy as np

from coterie.ads.decisions.decision_answers import (
    RankedBy,
    RankedTarget,
    TargetRanking,
    interval_of,
)
from coterie.ads.decisions.steps import Steps, blocks, stepwise
from coterie.ads.forecasts.fitted_market import (
    DimensionForecasts,
    FittedMarket,
    PreparedForecast,
    chosen_figures,
)
from coterie.ads.forecasts.forecast_figures import COLUMNS, NO_BID, checked_bids
from coterie.ads.histograms.target_counts import NO_VALUE, OTHER_VALUES
from coterie.ads.targets.target_effects import EffectsOfOne
from coterie.arrays import Bools, Floats, Ints
from coterie.errors import InvalidParameterError

#: What values may be ranked by.
RANKED_BY: tuple[RankedBy, ...] = get_args(RankedBy)
_LARGEST_FIRST = ("impressions", "clicks", "conversions")
_MICROS = 1_000_000
_DRAWS = 500
#: Change of the normal score from which its effect on the win rate is measured.
_STEP = 0.05
#: Where figures are computed, in standard deviations of levels and scores.
_NODES = np.array([-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0])


@stepwise
def rank_targets(
    model: FittedMarket,
    advertiser: str | None = None,
    bid: float | None = None,
    *,
    dimension: str | Sequence[str] | None = None,
    by: RankedBy | None = None,
    **details: Any,
) -> Steps[TargetRanking]:
    """Rank the values of dimensions by what is expected of them at a bid.

    Parameters
    ----------
    model : AdForecaster
        Fitted with ``targets``.
    advertiser : str, optional
    bid : float, optional
        Per thousand impressions (CPM); by default the mean bid of the advertiser in the log.
    dimension : str or sequence of str, optional
        By default all, each ranked on its own.
    by : {"impressions", "clicks", "conversions", "cost", "cost_per_click", "cost_per_conversion"}
        Numbers rank the largest first, costs the smallest. By default clicks, or impressions if
        the log has no clicks.
    **details
        ``supply``, ``day``, ``days``, ``text`` and ``level`` of
        :meth:`~coterie.ads.AdForecaster.forecast`.

    Returns
    -------
    TargetRanking
    """
    if details.get("where"):
        raise InvalidParameterError("where: targets are ranked over all auctions")
    prepared = model.prepare_forecast(advertiser, **details)
    yield 1
    effects, targets = model.target_effects(prepared.placement), model.targets_
    assert targets is not None
    if by is None:
        by = "impressions" if model.click_rate_ is None else "clicks"
    if by not in RANKED_BY:
        raise InvalidParameterError(f"by={by!r}: it must be one of {', '.join(RANKED_BY)}")
    for event, rate in (("click", model.click_rate_), ("conversion", model.conversion_rate_)):
        if rate is None and by.endswith((event, f"{event}s")):
            raise InvalidParameterError(f"by={by!r}: the log of this model has no {event}s")
    row = prepared.placement.row
    if bid is not None:
        at, *others = checked_bids(bid).tolist()
        if others:
            raise InvalidParameterError(f"bid={bid!r}: targets are ranked at one bid; give one")
    elif row is not None and model.bid_[row] > 0:
        at = float(model.bid_[row]) / _MICROS
    else:
        raise InvalidParameterError(NO_BID)
    names: Any = targets.dimensions if dimension is None else dimension
    if isinstance(names, str) or not isinstance(names, Iterable):
        names = [names]
    before = targets.of_new(prepared.placement.shares)
    found: list[RankedTarget] = []
    for name in list(names) or targets.dimensions:
        columns = targets.columns(name)
        values = [str(value) for value in targets.values[columns]]
        own, prior = effects.of(columns), before.of(columns)
        found += yield from _ranked(prepared, at, name, values, own, prior, by)
    return TargetRanking(
        advertiser=prepared.placement.name,
        bid=at,
        by=by,
        supply=prepared.supply,
        days=int(details.get("days", 1)),
        level=prepared.level,
        segment=prepared.placement.segment,
        why=prepared.grounds + prepared.tables.remark(at),
        currency=prepared.currency,
        targets=found,
    )


def _ranked(
    prepared: PreparedForecast,
    bid: float,
    dimension: str,
    values: list[str],
    own: EffectsOfOne,
    prior: EffectsOfOne,
    by: RankedBy,
) -> Steps[list[RankedTarget]]:
    """Return the values of one dimension, the best first; those that cannot be chosen last.

    The effects are those of the advertiser, and those that its segments alone give.
    """
    part = DimensionForecasts(prepared.asked(np.array([bid])), own)
    interval_factors = prepared.tables.interval_factors(prepared.level)
    figures = np.vstack(
        [chosen_figures(part.asked, interval_factors, [part], [v]) for v in range(len(values))]
    )
    yield len(values) * len(prepared.days.shifts)
    draws = yield from _draws(part, np.random.default_rng(0))
    can_choose = np.array([value not in (OTHER_VALUES, NO_VALUE) for value in values])
    best, weights = _chances(draws[by], can_choose, by), _own_weights(part, prior, by)
    ends = {name: interval_of(draw, prepared.level) for name, draw in draws.items()}
    rows = []
    for v, value in enumerate(values):
        known: dict[str, Any] = {}
        for name, column in COLUMNS.items():
            mean, low, high = figures[v, column : column + 3].tolist()
            known[name] = None if isnan(mean) else mean
            known[f"{name}_interval"] = None if isnan(mean) else (low, high)
        spend = known["spend"]
        costs = {"cost": float(figures[v, 1]) if known["impressions"] > 0 else None}
        costs |= {
            f"cost_per_{event}": spend / known[f"{event}s"] if known[f"{event}s"] else None
            for event in ("click", "conversion")
        }
        for name, cost in costs.items():
            known[name], known[f"{name}_interval"] = cost, None
            if cost is not None:
                low, high = (side[v] for side in ends[name])
                known[f"{name}_interval"] = min(low, cost), max(high, cost)
        rows.append(
            RankedTarget(
                dimension,
                value,
                share=float(own.share[0, v]),
                win_rate=float(figures[v, 0]),
                own_weight=float(weights[v]),
                chance_best=float(best[v]) if can_choose[v] else None,
                **known,
            )
        )

    def key(row: RankedTarget) -> tuple[bool, float, str]:
        figure = getattr(row, by)
        order = np.inf if figure is None else -figure if by in _LARGEST_FIRST else figure
        return row.chance_best is None, order, row.value

    return sorted(rows, key=key)


def _draws(part: DimensionForecasts, rng: np.random.Generator) -> Steps[dict[str, Floats]]:
    """Return draws of what can be ranked by, (R, V) each; without those that the log lacks."""
    effects, shifts = part.effects, part.asked.plans[4]
    V = effects.share.shape[1]

    def factors(effect: Floats) -> Floats:
        """Return draws of a log-normal factor, of mean 1."""
        return np.exp(effect[1] * rng.standard_normal((_DRAWS, V)) - effect[1] ** 2 / 2)

    share = factors(effects.share)
    share /= (effects.share[0] * share).sum(axis=1, keepdims=True)
    # the figures of draws lie between those of some levels and scores
    levels, steps = part.asked.uncertainty[0, 0] * _NODES, _NODES[:, None] * effects.score[1]
    of_nodes = np.empty((2, len(levels), *steps.shape))
    for some in blocks(len(levels), steps.size * len(shifts)):
        of_nodes[:, some] = part.sums(levels[some], steps)
        yield of_nodes[0, some].size * len(shifts)
    level, score = (rng.standard_normal((_DRAWS, n)) for n in (1, V))
    (low, by_level), (left, by_score) = (_between(drawn) for drawn in (level, score))
    # weights of the nodes below (0) are 1 − by, of those above (1) by
    impressions, spend = share * sum(
        abs(1 - i - by_level) * abs(1 - j - by_score) * of_nodes[:, low + i, left + j, np.arange(V)]
        for i, j in product((0, 1), repeat=2)
    )
    # errors of the curve are common to all values
    sd = part.asked.price_sd
    spend = spend * np.exp(sd * rng.standard_normal((_DRAWS, 1)))
    # a price never exceeds the bid; where nothing is won, the next impression would cost it
    bid = part.asked.plans[2][0]
    cost = np.where(impressions > 0, np.minimum(1000 * _over(spend, impressions), bid), bid)
    found = {"impressions": impressions, "cost": cost}
    for event, name in enumerate(("click", "conversion")):
        rate, sd = part.asked.rates[2 * event : 2 * event + 2]
        if isnan(rate):
            continue
        relative = sd / max(rate, 1e-300)
        common = np.exp(relative * rng.standard_normal((_DRAWS, 1)) - relative**2 / 2)
        rates = rate * common * part.rate_factors(event)[0] * factors(getattr(effects, name))
        found[f"{name}s"] = impressions * np.minimum(rates, 1.0)
        found[f"cost_per_{name}"] = cost / 1000 / np.minimum(rates, 1.0)
    return found


def _between(drawn: Floats) -> tuple[Ints, Floats]:
    """Return the node below each of some normal draws, and how far they are from it to the next."""
    place = np.interp(drawn, _NODES, np.arange(len(_NODES)))
    below = np.minimum(place.astype(np.int64), len(_NODES) - 2)
    return below, place - below


def _chances(draws: Floats, can_choose: Bools, by: str) -> Floats:
    """Return how often each value is the best of those that can be chosen, (V,).

    Values that are equally good share the draw.

    >>> costs = np.array([[0.0, 0.0, 1.0], [2.0, 1.0, 5.0]])
    >>> _chances(costs, np.array([True, True, False]), "cost")
    array([0.25, 0.75, 0.  ])
    """
    ordered = np.where(can_choose, draws if by in _LARGEST_FIRST else -draws, -np.inf)
    is_best = can_choose & (ordered == ordered.max(axis=1, keepdims=True))
    return np.asarray(_over(is_best, is_best.sum(axis=1, keepdims=True)).mean(axis=0))


def _own_weights(part: DimensionForecasts, prior: EffectsOfOne, by: str) -> Floats:
    """Return by how much own evidence reduced the variance of the ranked figure, (V,)."""
    steps = np.array([[0.0], [_STEP]]) * np.ones(part.effects.share.shape[1])
    impressions, spend = part.sums(np.zeros(1), steps)[:, 0]
    slopes = [np.log(_over(one[1], one[0])) / _STEP for one in (impressions, spend)]
    # of cost per action, spend over events: both fall together
    slope = slopes[0] if by in _LARGEST_FIRST else slopes[1] - slopes[0]
    used = {"score": slope**2}
    if by in _LARGEST_FIRST:
        used["share"] = np.ones_like(slope)
    for event in ("click", "conversion"):
        if by.endswith((event, f"{event}s")):
            used[event] = np.ones_like(slope)
    after, before = (
        sum(weight * getattr(effects, name)[1] ** 2 for name, weight in used.items())
        for effects in (part.effects, prior)
    )
    return np.asarray(np.clip(1 - _over(after, before), 0.0, 1.0))


def _over(part: Any, whole: Any) -> Floats:
    """Return part / whole, 1 where the whole is 0."""
    return np.divide(part, whole, out=np.ones(np.shape(part)), where=np.asarray(whole) > 0)
