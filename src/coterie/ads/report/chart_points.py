"""Points of the charts of a report: forecasts and what happened, levels of days, shares by bid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from coterie.ads.curves.day_levels import DayLevels
from coterie.ads.evaluation.evaluation import DEFAULT, Evaluation

__all__ = ["day_points", "forecast_points", "shares_below", "shares_beside_segment"]

Floats = NDArray[np.float64]

#: A chart has at most so many advertisers.
_MOST_POINTS = 2_000
_TARGETS = ("impressions", "spend")


def forecast_points(
    evaluation: Evaluation, level: float, most: int = _MOST_POINTS
) -> dict[str, Any]:
    """Return the forecast, its interval and the actual value of each advertiser.

    They are those of the default source, with the number of auctions given. Of more than ``most``
    advertisers every n-th by actual impressions is kept, so that all sizes are there.

    Keys are ``advertisers``, their ids; ``of``, how many there were; ``outside``, how many of these
    were outside the interval; and for each target ``forecast``, ``low``, ``high`` and ``actual``,
    in the order of the ids.
    """
    known = np.flatnonzero((evaluation.observations > 0) & (evaluation.bids > 0))
    by_size = known[np.argsort(-evaluation.truth.impressions[known], kind="stable")]
    n_points = min(most, len(by_size))
    rows = by_size[np.linspace(0, len(by_size) - 1, n_points).round().astype(np.int64)]
    figures = {target: _figures(evaluation, target, level) for target in _TARGETS}
    return {
        "advertisers": evaluation.advertisers[rows].tolist(),
        "of": len(by_size),
        "outside": {target: _outside(all_of, known) for target, all_of in figures.items()},
    } | {
        target: {name: column[rows].tolist() for name, column in all_of.items()}
        for target, all_of in figures.items()
    }


def day_points(prices: DayLevels, supply: DayLevels, level: float) -> list[dict[str, Any]]:
    """Return the level of each day beside that expected from the days before it.

    A row has ``day``, and ``price`` and ``supply``, each with ``observed``, ``expected``, ``low``
    and ``high``: factors, 1 for the average of the days. What is expected of the first day is None.

    Examples
    --------
    >>> from coterie.ads.curves.day_levels import fit_levels
    >>> days = np.datetime64("2026-03-02") + np.arange(4)
    >>> levels = fit_levels(days, [0.0, 0.0, 0.0, 0.3], [1e-4] * 4)
    >>> rows = day_points(levels, levels, 0.9)
    >>> rows[3]["day"], rows[3]["price"]["observed"] > rows[2]["price"]["observed"]
    ('2026-03-05', True)
    >>> rows[0]["price"]["expected"] is None
    True
    """
    series = {"price": _series(prices, level), "supply": _series(supply, level)}
    return [
        {"day": str(day)} | {name: rows[d] for name, rows in series.items()}
        for d, day in enumerate(prices.days)
    ]


def shares_below(shares: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the c.d.f.s of wins and cost as fields of a segment; None if they are not known."""
    return {f"{name}_below": shares and shares[name] for name in ("wins", "cost")}


def shares_beside_segment(shares: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return those of an advertiser, and their distances from those of its segment, as fields."""
    own = shares and {name: one["own"] for name, one in shares.items()}
    gaps = shares and [[shares[name]["distance"], shares[name]["bid"]] for name in ("wins", "cost")]
    return {**shares_below(own), "gaps": gaps}


def _figures(evaluation: Evaluation, target: str, level: float) -> dict[str, Floats]:
    intervals = next(
        one for one in evaluation.intervals if (one.level, one.supply) == (level, "given")
    )
    return {
        "forecast": getattr(evaluation.forecasts[DEFAULT], target),
        "low": intervals.low[target],
        "high": intervals.high[target],
        "actual": getattr(evaluation.truth, target),
    }


def _outside(figures: dict[str, Floats], rows: NDArray[np.int64]) -> int:
    low, high, actual = (figures[name][rows] for name in ("low", "high", "actual"))
    return int(((actual < low) | (actual > high)).sum())


def _series(levels: DayLevels, level: float) -> list[dict[str, float | None]]:
    mean, variance = levels.one_day_ahead()
    half = ndtri((1 + level) / 2) * np.sqrt(variance)
    columns = {"observed": levels.values, "expected": mean, "low": mean - half, "high": mean + half}
    shown = {name: np.exp(column - levels.values.mean()) for name, column in columns.items()}
    return [
        {name: None if np.isnan(column[d]) else float(column[d]) for name, column in shown.items()}
        for d in range(len(levels.days))
    ]
