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
from coterie.ads.decisions.comparison.market_changes import MarketChanges, Quantity, market_changes
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
    everybody = np.ones(len(names), dtype=bool)
    members = [segments.groups == s for s in range(len(segments.names))]
    market = _groups(found, ["market"], [everybody], rate, together=True)[0]
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
    measured = {
        name: [_typical(quantity, mask) for mask in members]
        for name, quantity in found.quantities.items()
    }
    p = {name: np.array([one[2] for one in ones]) for name, ones in measured.items()}
    if together:
        all_found = discoveries(np.concatenate(list(p.values())), rate).reshape(len(p), -1)
        is_found = dict(zip(p, all_found, strict=True))
    else:
        is_found = {name: discoveries(values, rate) for name, values in p.items()}
    return [
        GroupChange(
            name=name,
            advertisers=int((mask & found.both).sum()),
            new=int((mask & found.new).sum()),
            vanished=int((mask & found.vanished).sum()),
            parts=_group_parts(found, mask),
            **_known(
                {of: _group_change(ones[i], is_found[of][i]) for of, ones in measured.items()}
            ),
        )
        for i, (name, mask) in enumerate(zip(names, members, strict=True))
    ]


def _group_change(measured: tuple[float, float, float], is_found: Any) -> Change | None:
    change, error, p = measured
    if np.isnan(p):
        return None
    return Change(None, None, float(np.expm1(change)), error, p, bool(is_found))


def _typical(quantity: Quantity, members: Mask) -> tuple[float, float, float]:
    """Return log change, error and p-value of a typical member; NaN without members."""
    typical = quantity.typical(members)
    if typical is None:
        return np.nan, np.nan, np.nan
    change, variance = typical
    p = p_values(np.array([change]), np.array([variance]), quantity.days.freedom)
    return change, float(np.sqrt(variance)), float(p[0])


def _group_parts(found: MarketChanges, members: Mask) -> ImpressionParts:
    before, after = (np.nan_to_num(side)[members] for side in found.impressions)
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
        name: _changes(one, rate, 1 / _MICROS if name in _IN_MICROS else 1.0)
        for name, one in found.quantities.items()
    }
    changes |= {
        f"own_{name}": _own_changes(found, name, rate) for name in ("supply", "price_level")
    }
    changes["win_rate_at_bid"] = _changes_at_bid(found, changes["price_level"])
    rows, moved = np.flatnonzero(found.both), segments.moved
    before, after = (side[rows].tolist() for side in found.impressions)
    parts = {name: values[rows].tolist() for name, values in found.parts.items()}
    return [
        AdvertiserChange(
            advertiser=str(names[row]),
            segment=_name(segments.names, segments.after[row]),
            segment_before=_name(segments.names_before, segments.before[row]),
            moved=bool(moved[row]),
            parts=ImpressionParts(before[i], after[i], **{k: v[i] for k, v in parts.items()}),
            **_known({name: of.get(row) for name, of in changes.items()}),
        )
        for i, row in enumerate(rows.tolist())
    ]


def _changes(quantity: Quantity, rate: float, unit: float) -> dict[int, Change]:
    """Return the change of each advertiser by row; amounts are multiplied by ``unit``."""
    of, rows = quantity.changes, quantity.rows
    p = p_values(of.change, of.variance, of.freedom)
    relative = np.expm1(of.change)
    before = after = [None] * len(rows)
    if quantity.before is not None and quantity.after is not None:
        first, last = quantity.before * unit, quantity.after * unit
        relative = np.divide(last, first, out=np.full(len(p), np.nan), where=first > 0) - 1.0
        before, after = first.tolist(), last.tolist()
    return _by_row(rows, before, after, relative, np.sqrt(of.variance), p, rate)


def _own_changes(found: MarketChanges, name: str, rate: float) -> dict[int, Change]:
    """Return the change of each advertiser beyond that of the market, by row."""
    quantity = found.quantities[name]
    typical = quantity.typical(found.both)
    middle, variance = typical if typical is not None else (0.0, 0.0)
    # the variation of days is common to the advertiser and the market
    own = quantity.changes.own_variance + variance - quantity.days.variance
    change = quantity.changes.change - middle
    p = p_values(change, own, quantity.changes.own_freedom)
    none = [None] * len(p)
    return _by_row(quantity.rows, none, none, np.expm1(change), np.sqrt(own), p, rate)


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
    before: list[Any],
    after: list[Any],
    relative: Floats,
    error: Floats,
    p: Floats,
    rate: float,
) -> dict[int, Change]:
    is_found = discoveries(p, rate).tolist()
    columns = zip(
        rows.tolist(),
        before,
        after,
        relative.tolist(),
        error.tolist(),
        p.tolist(),
        is_found,
        strict=True,
    )
    return {
        row: Change(first, last, None if np.isnan(change) else change, *rest)
        for row, first, last, change, *rest in columns
    }


def _known(changes: dict[str, Any]) -> dict[str, Any]:
    """Return the changes, None where no advertiser has the quantity, such as clicks."""
    return {"mean_bid": None, "ecpm": None, "click_rate": None, **changes}


def _name(names: Sequence[str], segment: int) -> str | None:
    return names[segment] if segment >= 0 else None


def _checked_rate(rate: float) -> float:
    if not isinstance(rate, int | float) or not 0 < rate < 1:
        raise InvalidParameterError(
            f"false_discovery_rate={rate!r}: it must be a number between 0 and 1, for example 0.1"
        )
    return float(rate)
