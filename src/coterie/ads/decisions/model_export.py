"""Model export: curves, forecasts, advertisers and segments of a whole model as tables.

The tables are made some rows at a time. An export writes all of them as Parquet, and the service
streams that of the curves. Every field of a schema says in its metadata what it means and in which
unit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from coterie.ads.curves.landscapes import PER_UNIT, marginal_costs, own_curves
from coterie.ads.forecasts.fitted_market import FittedMarket
from coterie.ads.forecasts.forecast_figures import checked_bids, checked_day
from coterie.ads.forecasts.forecast_tables import tables_of
from coterie.arrays import Ints
from coterie.errors import InvalidParameterError
from coterie.runtime.atomic_files import atomic_file, atomic_folder

#: Bids of forecasts, over the advertiser's mean bid in the log.
FACTORS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
#: About so many rows are made at once and written as one row group.
_ROWS_TOGETHER = 200_000
_MICROS = 1_000_000

#: Type, unit and meaning by the name of a field.
Fields = dict[str, tuple[pa.DataType, str, str]]
_CPM = "currency units per thousand impressions"
_NONE = "; null if the log has none"


def _with_interval(name: str, unit: str, remark: str = "") -> Fields:
    """Return the fields of the mean of a target and of its interval."""
    meaning = f"{name} of all days{remark}."
    return {
        name: (pa.float64(), unit, meaning.capitalize()),
        f"{name}_low": (pa.float64(), unit, f"Lower end of the interval: {meaning}"),
        f"{name}_high": (pa.float64(), unit, f"Upper end of the interval: {meaning}"),
    }


_CURVES: Fields = {
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
_FORECASTS: Fields = {
    "advertiser": _CURVES["advertiser"],
    "bid": _CURVES["bid"],
    "bid_factor": (pa.float64(), "factor", "Bid over the mean bid in the log; null if given."),
    "first_day": (pa.date32(), "", "First day; null for an average day."),
    "days": (pa.int32(), "days", "Number of days forecast together."),
    "supply": (pa.float64(), "auctions", "Auctions to expect on all days together."),
    "above_log": (pa.bool_(), "", "Whether the bid is above every bid in the log."),
    "level": (pa.float64(), "share", "Share of actual values that an interval should contain."),
    "win_rate": (pa.float64(), "share", "Share of auctions won."),
    "cost": (pa.float64(), _CPM, "Cost of a thousand impressions (eCPM)."),
    **_with_interval("impressions", "impressions"),
    **_with_interval("spend", "currency units"),
    **_with_interval("clicks", "clicks", _NONE),
    **_with_interval("conversions", "conversions", _NONE),
}
_ADVERTISERS: Fields = {
    "advertiser": _CURVES["advertiser"],
    "segment": _CURVES["segment"],
    "confidence": (pa.float64(), "share", "Confidence in the segment, from 0 to 1."),
    "outlier": (pa.bool_(), "", "Whether its curve is unlike that of its segment."),
    "doubtful": (pa.bool_(), "", "Whether it belongs clearly to no segment."),
    "observations": (pa.float64(), "bids", "Effective number of bids in the log."),
    "mean_bid": (pa.float64(), _CPM, "Mean bid in the log."),
    "wins": (pa.float64(), "impressions", "Auctions won in the log."),
    "spend": (pa.float64(), "currency units", "Spend in the log."),
    "supply": (pa.float64(), "auctions", "Auctions to expect on an average day."),
    "supply_deviation": (pa.float64(), "share", "Relative standard deviation of the supply."),
    "click_rate": (pa.float64(), "share", f"Clicks per impression{_NONE}."),
    "conversion_rate": (pa.float64(), "share", f"Conversions per impression{_NONE}."),
}
_SEGMENTS: Fields = {
    "segment": (pa.string(), "", "Name of the segment."),
    "words": (pa.list_(pa.string()), "", "Words that characterise the texts of its members."),
    "price_level": (pa.string(), "", "Low, medium or high price."),
    "median_price": (pa.float64(), _CPM, "Bid that wins half of its auctions."),
    "advertisers": (pa.int64(), "advertisers", "Number of members."),
    "observations": (pa.float64(), "bids", "Effective number of bids of its members."),
}


@dataclass(frozen=True)
class ExportedTable:
    """A table that was written."""

    name: str
    path: Path
    rows: int


def export_model(
    model: FittedMarket,
    output: str | os.PathLike[str],
    *,
    tables: Sequence[str] = ("advertisers", "segments", "curves", "forecasts"),
    bids: ArrayLike | None = None,
    factors: ArrayLike = FACTORS,
    days: Sequence[int] = (1, 7),
    day: str | None = None,
    level: float = 0.9,
    model_version: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> list[ExportedTable]:
    """Write curves, forecasts, advertisers and segments of a model as Parquet.

    Rows are made and written some at a time, so that the memory needed does not grow with the
    number of advertisers. The output appears only when it is complete.

    Parameters
    ----------
    model : FittedMarket
        A fitted forecaster, or what :func:`~coterie.load_model` returns.
    output : path
        A new or empty folder, which gets a file for each table: ``curves.parquet``, … With one
        table, it may also be a file that ends in ``.parquet``.
    tables : sequence of {"advertisers", "segments", "curves", "forecasts"}
    bids : array-like, optional
        Bids of the forecasts (CPM), the same for all advertisers.
    factors : array-like
        Without ``bids``, forecasts are at these multiples of each advertiser's mean bid.
    days : sequence of int
        Numbers of days that are forecast together, each from ``day`` on.
    day : str, optional
        The first day; see :meth:`~coterie.ads.AdForecaster.forecast`.
    level : {0.5, 0.8, 0.9, 0.95}
        Of the intervals of the forecasts.
    model_version : str
        Kept in the metadata of the files.
    progress : callable, optional
        Called after every row group with the number of rows written and of all rows.

    Returns
    -------
    list of ExportedTable
    """
    model.refuse_unfitted()
    make: dict[str, Callable[..., BulkTable]] = {
        "advertisers": advertiser_table,
        "segments": segment_table,
        "curves": curve_table,
        "forecasts": partial(
            forecast_table, bids=bids, factors=factors, days=days, day=day, level=level
        ),
    }
    if not tables or len(set(tables) & set(make)) < len(tables):
        raise InvalidParameterError(
            f"tables={list(tables)}: they must be some of {', '.join(make)}, each once"
        )
    target = Path(output)
    is_file = target.suffix == ".parquet"
    if target.suffix and not is_file and not target.is_dir():
        raise InvalidParameterError(
            f"{target}: tables are written as Parquet; give a folder without {target.suffix}, or a "
            "file that ends in .parquet"
        )
    if is_file and len(tables) > 1:
        raise InvalidParameterError(
            f"{target} is one file, but there are {len(tables)} tables; give a folder, or one table"
        )
    made = {name: make[name](model, version=model_version) for name in tables}
    total, done = sum(one.n * one.width for one in made.values()), 0
    with atomic_file(target) if is_file else atomic_folder(target) as unfinished:
        for name, table in made.items():
            path = unfinished if is_file else unfinished / f"{name}.parquet"
            together = max(_ROWS_TOGETHER // table.width, 1)
            with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
                for first in range(0, table.n, together):
                    batch = table.batch(np.arange(first, min(first + together, table.n)))
                    writer.write_batch(batch, row_group_size=max(len(batch), 1))
                    done += len(batch)
                    if progress is not None:
                        progress(done, total)
    return [
        ExportedTable(name, target if is_file else target / f"{name}.parquet", one.n * one.width)
        for name, one in made.items()
    ]


@dataclass(frozen=True)
class BulkTable:
    """A table with ``width`` rows for each of ``n`` advertisers or segments."""

    schema: pa.Schema
    n: int
    width: int
    columns: Callable[[Ints], Sequence[Any]]  # of some advertisers or segments, by index

    def batch(self, index: Ints) -> pa.RecordBatch:
        """Return the rows of some advertisers or segments; NaN becomes null."""
        arrays = [
            pa.array(column, field.type, from_pandas=True)
            for column, field in zip(self.columns(index), self.schema, strict=True)
        ]
        return pa.record_batch(arrays, schema=self.schema)


def curve_table(model: FittedMarket, bins: ArrayLike | None = None, version: str = "") -> BulkTable:
    """Return the curves of all advertisers at the edges of some bins, by default of all.

    The figures are those of :meth:`~coterie.ads.forecasts.fitted_market.FittedMarket.curve`.
    Marginal costs are between the chosen bids.
    """
    at = np.arange(len(model.edges_)) if bins is None else np.asarray(bins, dtype=np.int64)
    tables, bids = tables_of(model), model.edges_[at] / _MICROS
    names, segments = model.advertisers_.astype(object), _segment_names(model)

    def columns(rows: Ints) -> list[Any]:
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

    return BulkTable(_schema(model, _CURVES, version), len(names), len(bids), columns)


def forecast_table(
    model: FittedMarket,
    *,
    bids: ArrayLike | None = None,
    factors: ArrayLike = (1.0,),
    days: Sequence[int] = (1,),
    day: str | None = None,
    level: float = 0.9,
    version: str = "",
) -> BulkTable:
    """Return the forecasts of all advertisers, by advertiser, number of days and bid.

    ``bids`` are the same for all advertisers; without them, bids are ``factors`` of each
    advertiser's mean bid. What is given twice is there once. The figures are those of
    :meth:`~coterie.ads.forecasts.fitted_market.FittedMarket.forecast`.
    """
    tables, names = tables_of(model), model.advertisers_.astype(object)
    tables.interval_factors(level)  # refuses another level
    if not len(days):
        raise InvalidParameterError("days is empty; give at least one number of days")
    lengths = list(dict.fromkeys(days))
    firsts = [checked_day(day, number) for number in lengths]
    periods = [tables.days(first, int(n)) for first, n in zip(firsts, lengths, strict=True)]
    after_log = model.days_[-1].astype(object) + timedelta(days=1)
    # one day without a date is an average one
    dates = [one or (after_log if n > 1 else None) for one, n in zip(firsts, lengths, strict=True)]
    first_days = np.array(dates, dtype="datetime64[D]")
    steps = np.array(list(dict.fromkeys(checked_bids(factors if bids is None else bids).tolist())))

    def columns(rows: Ints) -> list[Any]:
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

    width = len(periods) * len(steps)
    return BulkTable(_schema(model, _FORECASTS, version), len(names), width, columns)


def advertiser_table(model: FittedMarket, version: str = "") -> BulkTable:
    """Return what is known of each advertiser, in one row."""
    names, segments = model.advertisers_.astype(object), _segment_names(model)
    tables = tables_of(model)
    nothing = np.full(len(names), np.nan)
    rates = [
        nothing if rate is None else rate for rate in (model.click_rate_, model.conversion_rate_)
    ]

    def columns(rows: Ints) -> list[Any]:
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
            *tables.supplies(rows, tables.days()),
            *(rate[rows] for rate in rates),
        ]

    return BulkTable(_schema(model, _ADVERTISERS, version), len(names), 1, columns)


def segment_table(model: FittedMarket, version: str = "") -> BulkTable:
    """Return what is known of each segment, in one row."""

    def columns(index: Ints) -> list[Any]:
        some = [model.segments_[s] for s in index.tolist()]
        return [
            [one.name for one in some],
            [list(one.words) for one in some],
            [one.price_level for one in some],
            [one.median_price / _MICROS for one in some],
            [one.size for one in some],
            [one.observations for one in some],
        ]

    return BulkTable(_schema(model, _SEGMENTS, version), len(model.segments_), 1, columns)


def _segment_names(model: FittedMarket) -> NDArray[np.object_]:
    """Return the names of the segments, and None, which is found by the label −1."""
    return np.array([*(profile.name for profile in model.segments_), None], dtype=object)


def _schema(model: FittedMarket, fields: Fields, version: str) -> pa.Schema:
    described = [
        pa.field(name, kind, metadata={"unit": unit, "description": text})
        for name, (kind, unit, text) in fields.items()
    ]
    metadata = {"currency": model.currency_} | ({"model_version": version} if version else {})
    return pa.schema(described, metadata=metadata)
