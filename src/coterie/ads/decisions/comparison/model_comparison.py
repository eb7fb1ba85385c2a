"""Model comparison: what changed between two models, or between two periods of one model.

Both are comparisons of days: a model keeps the histograms of its days. Segments are those of the
models; they are not found again for the periods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.ads.decisions.comparison.compared_days import (
    ComparedDays,
    Period,
    days_of_models,
    days_of_periods,
    same_weekdays,
)
from coterie.ads.decisions.comparison.comparison_results import (
    AdvertiserChange,
    Change,
    GroupChange,
    ImpressionParts,
    ModelComparison,
)
from coterie.ads.decisions.comparison.market_changes import (
    QUANTITIES,
    MarketChanges,
    Quantity,
    market_changes,
)
from coterie.ads.decisions.comparison.matched_segments import (
    MatchedSegments,
    match_segments,
    segments_of,
)
from coterie.ads.decisions.comparison.period_changes import discoveries, p_values
from coterie.ads.forecasts.fitted_market import FittedMarket
from coterie.errors import InvalidParameterError

__all__ = ["compare_models", "compare_periods"]

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Mask = NDArray[np.bool_]

_MICROS = 1_000_000
_IN_MICROS = frozenset({"mean_bid", "ecpm"})
_OTHER_WEEKDAYS = (
    "the periods do not have the same weekdays: differences between weekdays look like changes, "
    "and the errors allow for them"
)


def compare_models(
    before: FittedMarket, after: FittedMarket, *, false_discovery_rate: float = 0.1
) -> ModelComparison:
    """Compare two models: what changed, for whom, and whether it may be noise.

    Days that are the same in both models say nothing about a change. Each model is compared by its
    other days, or by all of its days if it has no others. A day that both have with other bids is
    compared: the models are of different logs.

    Parameters
    ----------
    before, after : FittedMarket
        Fitted forecasters, or what :func:`~coterie.load_model` returns, of logs of the same kind.
    false_discovery_rate : float
        Expected share of wrong ones among the advertisers said to have changed, by quantity.

    Returns
    -------
    ModelComparison

    Examples
    --------
    A model does not differ from itself::

        found = compare_models(model, model)
        assert not any(one.changed for one in found.advertisers)
    """
    rate = _checked_rate(false_discovery_rate)
    compared, notes = days_of_models(before, after)
    segments = match_segments(before, after, compared.histograms.advertisers)
    return _comparison(compared, segments, rate, notes)


def compare_periods(
    model: FittedMarket,
    before: Period,
    after: Period,
    *,
    false_discovery_rate: float = 0.1,
) -> ModelComparison:
    """Compare two periods of a model: what changed, for whom, and whether it may be noise.

    Parameters
    ----------
    model : FittedMarket
        A fitted forecaster, or what :func:`~coterie.load_model` returns.
    before, after : (first, last)
        The first and the last day of each period, as in ``("2026-03-02", "2026-03-05")``. They
        have no day in common.
    false_discovery_rate : float
        Expected share of wrong ones among the advertisers said to have changed, by quantity.

    Returns
    -------
    ModelComparison
    """
    rate = _checked_rate(false_discovery_rate)
    return _comparison(days_of_periods(model, before, after), segments_of(model), rate, [])


def _comparison(
    compared: ComparedDays, segments: MatchedSegments, rate: float, notes: Sequence[str]
) -> ModelComparison:
    names, dates = compared.histograms.advertisers, compared.dates
    found = market_changes(compared)
    if not same_weekdays(*dates):
        notes = [*notes, _OTHER_WEEKDAYS]
    all_rows = np.ones(len(names), dtype=bool)
    members = [segments.groups == s for s in range(len(segments.names))]
    [market] = _groups(found, ["market"], [all_rows], rate, together=True)
    return ModelComparison(
        compared.histograms.currency,
        tuple(map(str, dates[0])),
        tuple(map(str, dates[1])),
        rate,
        market,
        tuple(_groups(found, segments.names, members, rate)),
        tuple(_advertisers(found, names, segments, rate)),
        tuple(names[found.new].tolist()),
        tuple(names[found.vanished].tolist()),
        segments.adjusted_rand,
        tuple(notes),
    )


def _groups(
    found: MarketChanges,
    names: Sequence[str],
    members: Sequence[Mask],
    rate: float,
    *,
    together: bool = False,
) -> list[GroupChange]:
    """Return the changes of groups.

    Discoveries are among the groups by quantity, or with ``together`` among all quantities.
    """
    typical, p = {}, {}
    for name, quantity in found.quantities.items():
        change, variance = np.array([quantity.typical(mask) for mask in members]).reshape(-1, 2).T
        typical[name] = change, variance
        p[name] = p_values(change, variance, quantity.days.freedom)
    if together:
        of_all = discoveries(np.concatenate(list(p.values())), rate).reshape(len(p), -1)
        is_found = dict(zip(p, of_all, strict=True))
    else:
        is_found = {name: discoveries(values, rate) for name, values in p.items()}
    changes = {}
    for name, (change, variance) in typical.items():
        known = np.flatnonzero(~np.isnan(change))
        changes[name] = _by_row(
            known, change[known], variance[known], p[name][known], is_found[name][known]
        )
    return [
        GroupChange(
            name=name,
            advertisers=int((mask & found.both).sum()),
            new=int((mask & found.new).sum()),
            vanished=int((mask & found.vanished).sum()),
            parts=_group_parts(found, mask),
            **_changes_of(i, changes, QUANTITIES),
        )
        for i, (name, mask) in enumerate(zip(names, members, strict=True))
    ]


def _group_parts(found: MarketChanges, members: Mask) -> ImpressionParts:
    before, after = np.nan_to_num(found.impressions[:, members])
    parts = {name: float(values[members].sum()) for name, values in found.parts.items()}
    new, vanished = found.new[members], found.vanished[members]
    return ImpressionParts(
        float(before.sum()),
        float(after.sum()),
        **parts,
        new=float(after[new].sum()),
        vanished=0.0 - float(before[vanished].sum()),
    )


def _advertisers(
    found: MarketChanges, names: NDArray[Any], segments: MatchedSegments, rate: float
) -> list[AdvertiserChange]:
    """Return the changes of the advertisers that bid in both periods."""
    changes = {
        name: _changes(quantity, rate, 1 / _MICROS if name in _IN_MICROS else 1.0)
        for name, quantity in found.quantities.items()
    }
    changes |= {
        f"own_{name}": _own_changes(found.quantities[name], found.both, rate)
        for name in ("supply", "price_level")
    }
    changes["win_rate_at_bid"] = _changes_at_bid(found, changes["price_level"])
    of_advertisers = (*QUANTITIES, "own_supply", "own_price_level", "win_rate_at_bid")
    rows, moved = np.flatnonzero(found.both), segments.moved
    before, after = found.impressions[:, rows].tolist()
    parts = {name: values[rows].tolist() for name, values in found.parts.items()}
    return [
        AdvertiserChange(
            advertiser=str(names[row]),
            segment=_name(segments.names, segments.after[row]),
            segment_before=_name(segments.names_before, segments.before[row]),
            moved=bool(moved[row]),
            parts=ImpressionParts(before[i], after[i], **{k: v[i] for k, v in parts.items()}),
            **_changes_of(row, changes, of_advertisers),
        )
        for i, row in enumerate(rows.tolist())
    ]


def _changes(quantity: Quantity, rate: float, unit: float) -> dict[int, Change]:
    """Return the change of each advertiser by row; values are multiplied by ``unit``."""
    of = quantity.changes
    p = p_values(of.change, of.variance, of.freedom)
    values = quantity.values and (quantity.values[0] * unit, quantity.values[1] * unit)
    return _by_row(quantity.rows, of.change, of.variance, p, discoveries(p, rate), values)


def _own_changes(quantity: Quantity, both: Mask, rate: float) -> dict[int, Change]:
    """Return the change of each advertiser beyond that of the market, by row."""
    middle, variance = quantity.typical(both)
    # the variation of days is common to the advertiser and the market
    own = quantity.changes.own_variance + variance - quantity.days.variance
    change = quantity.changes.change - middle
    p = p_values(change, own, quantity.changes.own_freedom)
    return _by_row(quantity.rows, change, own, p, discoveries(p, rate))


def _changes_at_bid(found: MarketChanges, levels: dict[int, Change]) -> dict[int, Change]:
    """Return the change of the win rate at a fixed bid, which the price level alone decides."""
    before, after, slope = (side.tolist() for side in found.at_bid)
    return {
        row: Change(
            before[row],
            after[row],
            after[row] / before[row] - 1.0,
            abs(slope[row]) * one.error,
            one.p,
            one.changed,
        )
        for row, one in levels.items()
        if before[row] > 0
    }


def _by_row(
    rows: Labels,
    change: Floats,
    variance: Floats,
    p: Floats,
    is_found: Mask,
    values: tuple[Floats, Floats] | None = None,
) -> dict[int, Change]:
    """Return changes by row from log changes and, if known, the values before and after."""
    relative = np.expm1(change)
    before: list[Any] = [None] * len(rows)
    after = before
    if values is not None:
        first, last = values
        relative = np.divide(last, first, out=np.full(len(p), np.nan), where=first > 0) - 1.0
        before, after = first.tolist(), last.tolist()
    relatives = [None if np.isnan(number) else number for number in relative.tolist()]
    numbers = np.sqrt(variance).tolist(), p.tolist(), is_found.tolist()
    fields = zip(before, after, relatives, *numbers, strict=True)
    return {row: Change(*of_row) for row, of_row in zip(rows.tolist(), fields, strict=True)}


def _changes_of(
    row: int, changes: dict[str, dict[int, Change]], names: Sequence[str]
) -> dict[str, Any]:
    """Return the changes of a row by name, None where it does not have the quantity."""
    return {name: changes.get(name, {}).get(row) for name in names}


def _name(names: Sequence[str], segment: int) -> str | None:
    return names[segment] if segment >= 0 else None


def _checked_rate(rate: float) -> float:
    if not isinstance(rate, int | float) or not 0 < rate < 1:
        raise InvalidParameterError(
            f"false_discovery_rate={rate!r}: it must be a number between 0 and 1, for example 0.1"
        )
    return float(rate)
