"""Bulk tables: curves, forecasts, advertisers and segments of a whole model, some rows at a time.

The service streams the table of curves, and an export writes all of them. Every field of a schema
says in its metadata what it means and in which unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from coterie.ads.curves.landscapes import PER_UNIT, marginal_costs, own_curves
from coterie.ads.forecasts.fitted_market import FittedMarket
from coterie.ads.forecasts.forecast_figures import FIELDS, checked_bids, checked_day
from coterie.ads.forecasts.forecast_tables import PeriodLevels, tables_of
from coterie.errors import InvalidParameterError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_MICROS = 1_000_000
_CPM = "currency units per thousand impressions"

#: Type, unit and meaning of each field.
_CURVES = {
    "advertiser": (pa.string(), "", "Advertiser id in the log."),
    "segment": (pa.string(), "", "Name of the segment; null without one."),
    "bid": (pa.float64(), _CPM, "Bid (CPM)."),
    "win_rate": (pa.float64(), "share", "Share of auctions won at the bid on an average day."),
    "win_rate_low": (pa.float64(), "share", "Lower end of the 90% interval of the win rate."),
    "win_rate_high": (pa.float64(), "share", "Upper end of the 90% interval of the win rate."),
    "cost": (pa.float64(), _CPM, "Cost of a thousand impressions at the bid (eCPM)."),
    "marginal_cost": (
        pa.float64(),
        _CPM,
        "Cost of a further thousand impressions, from the next lower bid to this one; null if it "
        "wins no more.",
    ),
    "own_win_rate": (pa.float64(), "share", "Win rate by the advertiser's own auctions alone."),
    "segment_win_rate": (pa.float64(), "share", "Win rate of a new advertiser of its segments."),
}
_MEANINGS = {
    "win_rate": ("share", "share of auctions won"),
    "cost": (_CPM, "cost of a thousand impressions (eCPM)"),
    "impressions": ("impressions", "impressions of all days"),
    "spend": ("currency units", "spend of all days"),
    "clicks": ("clicks", "clicks of all days; null if the log has none"),
    "conversions": ("conversions", "conversions of all days; null if the log has none"),
}
_ENDS = {"low": "Lower end of the interval: ", "high": "Upper end of the interval: "}
_FORECASTS = {
    "advertiser": (pa.string(), "", "Advertiser id in the log."),
    "bid": (pa.float64(), _CPM, "Bid (CPM)."),
    "bid_factor": (pa.float64(), "factor", "Bid over the mean bid in the log; null if given."),
    "first_day": (pa.date32(), "", "First day; null for an average day."),
    "days": (pa.int32(), "days", "Number of days forecast together."),
    "supply": (pa.float64(), "auctions", "Auctions to expect on all days together."),
    "above_log": (pa.bool_(), "", "Whether the bid is above every bid in the log."),
    "level": (pa.float64(), "share", "Share of actual values that an interval should contain."),
}
_ADVERTISERS = {
    "advertiser": (pa.string(), "", "Advertiser id in the log."),
    "segment": (pa.string(), "", "Name of the segment; null without one."),
    "confidence": (pa.float64(), "share", "Confidence in the segment, from 0 to 1."),
    "outlier": (pa.bool_(), "", "Whether its curve is unlike that of its segment."),
    "doubtful": (pa.bool_(), "", "Whether it belongs clearly to no segment."),
    "observations": (pa.float64(), "bids", "Effective number of bids in the log."),
    "mean_bid": (pa.float64(), _CPM, "Mean bid in the log."),
    "wins": (pa.float64(), "impressions", "Auctions won in the log."),
    "spend": (pa.float64(), "currency units", "Spend in the log."),
    "supply": (pa.float64(), "auctions", "Auctions to expect on an average day."),
    "supply_deviation": (pa.float64(), "share", "Relative standard deviation of the supply."),
    "click_rate": (pa.float64(), "share", "Clicks per impression; null if the log has none."),
    "conversion_rate": (
        pa.float64(),
        "share",
        "Conversions per impression; null if the log has none.",
    ),
}
_SEGMENTS = {
    "segment": (pa.string(), "", "Name of the segment."),
    "words": (pa.list_(pa.string()), "", "Words that characterise the texts of its members."),
    "price_level": (pa.string(), "", "Low, medium or high price."),
    "median_price": (pa.float64(), _CPM, "Bid that wins half of its auctions."),
    "advertisers": (pa.int64(), "advertisers", "Number of members."),
    "observations": (pa.float64(), "bids", "Effective number of bids of its members."),
}


@dataclass(frozen=True)
class BulkTable:
    """A table with ``width`` rows for each of ``n`` advertisers or segments."""

    schema: pa.Schema
    n: int
    width: int
    columns: Callable[[Indices], Sequence[Any]]  # of some advertisers or segments, by index

    def batch(self, index: Indices) -> pa.RecordBatch:
        """Return the rows of some advertisers or segments; NaN becomes null."""
        arrays = [
            pa.array(column, field.type, from_pandas=True)
            for column, field in zip(self.columns(index), self.schema, strict=True)
        ]
        return pa.record_batch(arrays, schema=self.schema)


def curve_table(
    model: FittedMarket, bins: ArrayLike | None = None, metadata: Mapping[str, str] | None = None
) -> BulkTable:
    """Return the curves of all advertisers at the edges of some bins, by default of all.

    The figures are those of :meth:`~coterie.ads.forecasts.fitted_market.FittedMarket.curve`.
    Marginal costs are between the chosen bids.
    """
    at = np.arange(len(model.edges_)) if bins is None else np.asarray(bins, dtype=np.int64)
    tables, bids = tables_of(model), model.edges_[at] / _MICROS
    names, segments = _names(model), _segment_names(model)

    def columns(rows: Indices) -> list[Any]:
        found = tables.curves_of(rows, bids)
        win, cost = (found[name].reshape(len(rows), len(bids)) for name in ("win", "cost"))
        # one product for each advertiser: that of many rounds differently
        of_segment = [model.shares_[row] @ model.segment_win_ for row in rows.tolist()]
        own = own_curves(model.evidence(rows))
        return [
            np.repeat(names[rows], len(bids)),
            np.repeat(segments[model.labels_[rows]], len(bids)),
            np.tile(bids, len(rows)),
            *found.values(),
            marginal_costs(win * cost / 1000.0, win).ravel(),
            own[:, at].ravel(),
            np.array(of_segment)[:, at].ravel(),
        ]

    return BulkTable(_schema(model, _CURVES, metadata), len(names), len(bids), columns)


def forecast_table(
    model: FittedMarket,
    *,
    bids: ArrayLike | None = None,
    factors: ArrayLike = (1.0,),
    days: Sequence[int] = (1,),
    day: str | None = None,
    level: float = 0.9,
    metadata: Mapping[str, str] | None = None,
) -> BulkTable:
    """Return the forecasts of all advertisers, by advertiser, number of days and bid.

    ``bids`` are the same for all advertisers; without them, bids are ``factors`` of each
    advertiser's mean bid. What is given twice is there once. The figures are those of
    :meth:`~coterie.ads.forecasts.fitted_market.FittedMarket.forecast`.
    """
    tables, names = tables_of(model), _names(model)
    tables.interval_factors(level)
    lengths, dates, periods = _periods(model, days, day)
    steps = np.array(list(dict.fromkeys(checked_bids(factors if bids is None else bids).tolist())))
    first_days = np.array(dates, dtype="datetime64[D]")

    def columns(rows: Indices) -> list[Any]:
        # advertiser, period and bid of every row of the table
        row, period, step = (
            part.ravel()
            for part in np.meshgrid(rows, range(len(periods)), range(len(steps)), indexing="ij")
        )
        factor = steps[step] if bids is None else np.full(len(step), np.nan)
        bid = model.bid_[row] / _MICROS * factor if bids is None else steps[step]
        supplies = np.stack([tables.supplies(rows, table)[0] for table in periods], axis=1)
        supply = np.repeat(supplies, len(steps))
        of_rows, expected = [periods[p] for p in period.tolist()], np.zeros(len(row), dtype=bool)
        return [
            names[row],
            bid,
            factor,
            first_days[period],
            np.asarray(lengths)[period],
            supply,
            bid > tables.highest,
            np.full(len(bid), level),
            *tables.at(row, bid, supply, of_rows, expected, level).T,
        ]

    fields, width = _FORECASTS | {name: _figure(name) for name in FIELDS}, len(periods) * len(steps)
    return BulkTable(_schema(model, fields, metadata), len(names), width, columns)


def advertiser_table(model: FittedMarket, metadata: Mapping[str, str] | None = None) -> BulkTable:
    """Return what is known of each advertiser, in one row."""
    tables, names, segments = tables_of(model), _names(model), _segment_names(model)
    nothing = np.full(len(names), np.nan)
    rates = [
        nothing if rate is None else rate for rate in (model.click_rate_, model.conversion_rate_)
    ]

    def columns(rows: Indices) -> list[Any]:
        supply, deviation = tables.supplies(rows, tables.days())
        return [
            names[rows],
            segments[model.labels_[rows]],
            np.clip(model.confidence_[rows], 0.0, 1.0),
            np.isin(rows, model.outliers_),
            np.isin(rows, model.doubtful_),
            model.observations_[rows],
            model.bid_[rows] / _MICROS,
            model.wins_[rows],
            model.cost_[rows] / PER_UNIT,
            supply,
            deviation,
            *(rate[rows] for rate in rates),
        ]

    return BulkTable(_schema(model, _ADVERTISERS, metadata), len(names), 1, columns)


def segment_table(model: FittedMarket, metadata: Mapping[str, str] | None = None) -> BulkTable:
    """Return what is known of each segment, in one row."""

    def columns(index: Indices) -> list[Any]:
        some = [model.segments_[s] for s in index.tolist()]
        return [
            [one.name for one in some],
            [list(one.words) for one in some],
            [one.price_level for one in some],
            [one.median_price / _MICROS for one in some],
            [one.size for one in some],
            [one.observations for one in some],
        ]

    return BulkTable(_schema(model, _SEGMENTS, metadata), len(model.segments_), 1, columns)


def _periods(
    model: FittedMarket, days: Sequence[int], day: str | None
) -> tuple[list[int], list[date | None], list[PeriodLevels]]:
    """Return the number, the first and what is expected of the days of each period, each once."""
    if not len(days):
        raise InvalidParameterError("days is empty; give at least one number of days")
    lengths, tables = list(dict.fromkeys(days)), tables_of(model)
    firsts = [checked_day(day, number) for number in lengths]
    periods = [tables.days(first, int(n)) for first, n in zip(firsts, lengths, strict=True)]
    after_log = model.days_[-1].astype(object) + timedelta(days=1)
    # one day without a date is an average one
    dates = [
        first or (after_log if n > 1 else None) for first, n in zip(firsts, lengths, strict=True)
    ]
    return lengths, dates, periods


def _names(model: FittedMarket) -> NDArray[np.object_]:
    return np.array(model.advertisers_.tolist(), dtype=object)


def _segment_names(model: FittedMarket) -> NDArray[np.object_]:
    """Return the names of the segments, and None, which is found by the label −1."""
    return np.array([*(profile.name for profile in model.segments_), None], dtype=object)


def _figure(name: str) -> tuple[pa.DataType, str, str]:
    """Return type, unit and meaning of a figure of forecasts."""
    stem, _, end = name.rpartition("_")
    unit, meaning = _MEANINGS[stem if end in _ENDS else name]
    text = _ENDS[end] + meaning if end in _ENDS else meaning[0].upper() + meaning[1:]
    return pa.float64(), unit, f"{text}."


def _schema(
    model: FittedMarket,
    fields: Mapping[str, tuple[pa.DataType, str, str]],
    metadata: Mapping[str, str] | None,
) -> pa.Schema:
    described = [
        pa.field(name, kind, metadata={"unit": unit, "description": text})
        for name, (kind, unit, text) in fields.items()
    ]
    return pa.schema(described, metadata={"currency": model.currency_, **(metadata or {})})
