"""Rows of advertisers in a report: who is shown, and the curves and facts of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.ads.forecasts.fitted_market import FittedMarket
from coterie.ads.forecasts.forecast_tables import ForecastTables, tables_of
from coterie.ads.forecasts.profiles import (
    bid_shares,
    dissenting_views,
    own_on_grid,
    typical_members,
)
from coterie.ads.report.chart_points import shares_beside_segment

__all__ = [
    "MOST_ADVERTISERS",
    "AdvertiserRow",
    "CurvesOnGrid",
    "advertiser_rows",
    "shown_advertisers",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: A page with more advertisers takes long to open.
MOST_ADVERTISERS = 5_000
_MICROS = 1_000_000
#: In so many auctions chance plays no part.
_MANY_AUCTIONS = 1e12


@dataclass(frozen=True)
class CurvesOnGrid:
    """Win rate with its interval, and mean price paid, at each of the P bids of the grid."""

    win: list[float]
    win_low: list[float]
    win_high: list[float]
    cost: list[float]


@dataclass(frozen=True)
class AdvertiserRow(CurvesOnGrid):
    """One advertiser; ``own`` is its own win-rate curve, None if it has no bids.

    The intervals are those of impressions and of spend on an average day, divided by the expected
    auctions of that day. They include that the number of auctions is uncertain, so that
    ``win_high`` may be above 1.
    """

    spend_low: list[float]  # in currency units per auction
    spend_high: list[float]
    id: str
    segment: int | None
    confidence: float
    observations: float
    own: list[float] | None
    bid: float
    supply: float
    supply_by_weekday: list[float]
    click_rate: float | None
    outlier: bool
    dissent: list[str]
    source: str
    wins_below: list[float] | None
    cost_below: list[float] | None
    # of wins and of cost: the Kolmogorov–Smirnov distance from the segment, and its bid
    gaps: list[list[float]] | None


def shown_advertisers(model: FittedMarket, most: int = MOST_ADVERTISERS) -> Indices:
    """Return the rows of the advertisers that a report shows, in order.

    Of more than ``most`` those with the most bids are shown, and typical members of segments.
    """
    if len(model.advertisers_) <= most:
        return np.arange(len(model.advertisers_))
    busiest = np.argsort(-model.observations_, kind="stable")[:most]
    typical = [row for s in range(len(model.segments_)) for row in typical_members(model, s)]
    return np.union1d(busiest, np.array(typical, dtype=np.int64))


def advertiser_rows(
    model: FittedMarket, grid: Indices, rows: Indices, level: float
) -> list[AdvertiserRow]:
    """Return what a report shows of some advertisers, with intervals of one level."""
    tables = tables_of(model)
    supply = np.array([tables.supply(row) for row in rows.tolist()])
    on_grid = _forecasts_on_grid(tables, rows, supply, grid, level)
    weekdays = tables.weekdays()
    has_bids = model.observations_ > 0
    outliers = frozenset(model.outliers_.tolist())
    shares = bid_shares(model, grid)
    return [
        AdvertiserRow(
            **{curve: values[place].tolist() for curve, values in on_grid.items()},
            id=str(model.advertisers_[a]),
            segment=max(int(model.labels_[a]), 0),
            confidence=float(np.clip(model.confidence_[a], 0, 1)),
            observations=float(model.observations_[a]),
            own=own_on_grid(model, a, grid)["win"] if has_bids[a] else None,
            bid=float(model.bid_[a]) / _MICROS,
            supply=float(supply[place]),
            supply_by_weekday=[tables.supply(a, days) for days in weekdays],
            click_rate=None if model.click_rate_ is None else float(model.click_rate_[a]),
            outlier=a in outliers,
            dissent=dissenting_views(model, a),
            source="pooled" if has_bids[a] else "segment",
            **shares_beside_segment(None if shares is None else shares.of_advertiser(a)),
        )
        for place, a in enumerate(rows.tolist())
    ]


def _forecasts_on_grid(
    tables: ForecastTables, shown: Indices, supply: Floats, grid: Indices, level: float
) -> dict[str, Floats]:
    """Return the forecasts of an average day at P bids, per expected auction, (A, P) each.

    They are those that ``model.forecast(advertiser, bid)`` gives. An advertiser without supply has
    the intervals of very many auctions.
    """
    n_bids = len(grid)
    rows = np.repeat(shown, n_bids)
    bids = np.tile(np.maximum(grid, 1) / _MICROS, len(supply))
    is_expected = supply > 0
    auctions = np.repeat(np.where(is_expected, supply, _MANY_AUCTIONS), n_bids)
    days = [tables.days()] * len(rows)
    given = np.repeat(~is_expected, n_bids)
    figures = tables.at(rows, bids, auctions, days, given, level)
    columns = {
        "win": figures[:, 0],
        "win_low": figures[:, 3] / auctions,
        "win_high": figures[:, 4] / auctions,
        "cost": figures[:, 1],
        "spend_low": figures[:, 6] / auctions,
        "spend_high": figures[:, 7] / auctions,
    }
    return {name: column.reshape(len(supply), n_bids) for name, column in columns.items()}
