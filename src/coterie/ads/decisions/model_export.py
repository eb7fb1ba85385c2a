"""Model export: the curves and forecasts of all advertisers as Parquet files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from coterie.ads.decisions.bulk_tables import (
    BulkTable,
    advertiser_table,
    curve_table,
    forecast_table,
    segment_table,
)
from coterie.ads.forecasts.fitted_market import FittedMarket
from coterie.errors import InvalidParameterError
from coterie.runtime.atomic_files import atomic_file, atomic_folder

#: Names of the tables.
TABLES = ("advertisers", "segments", "curves", "forecasts")
#: Bids of forecasts, over the advertiser's mean bid in the log.
FACTORS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
#: Called with the number of rows written and of all rows.
Progress = Callable[[int, int], None] | None

#: About so many rows are made at once and written as one row group.
_ROWS_TOGETHER = 200_000


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
    tables: Sequence[str] = TABLES,
    bids: ArrayLike | None = None,
    factors: ArrayLike = FACTORS,
    days: Sequence[int] = (1, 7),
    day: str | None = None,
    level: float = 0.9,
    model_version: str = "",
    progress: Progress = None,
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
    _check_tables(tables)
    target = _checked_target(output, len(tables))
    is_file = target.suffix == ".parquet"
    metadata = {"model_version": model_version} if model_version else {}
    make: dict[str, Callable[[], BulkTable]] = {
        "advertisers": lambda: advertiser_table(model, metadata),
        "segments": lambda: segment_table(model, metadata),
        "curves": lambda: curve_table(model, metadata=metadata),
        "forecasts": lambda: forecast_table(
            model, bids=bids, factors=factors, days=days, day=day, level=level, metadata=metadata
        ),
    }
    made = {name: make[name]() for name in tables}
    rows, done = {name: one.n * one.width for name, one in made.items()}, 0

    def add(written: int) -> None:
        nonlocal done
        done += written
        if progress is not None:
            progress(done, sum(rows.values()))

    with atomic_file(target) if is_file else atomic_folder(target) as unfinished:
        for name, table in made.items():
            _write(table, unfinished if is_file else unfinished / f"{name}.parquet", add)
    return [
        ExportedTable(name, target if is_file else target / f"{name}.parquet", rows[name])
        for name in made
    ]


def _write(table: BulkTable, path: Path, add: Callable[[int], None]) -> None:
    """Write a table, one row group at a time; call ``add`` with the number of rows of each."""
    together = max(_ROWS_TOGETHER // table.width, 1)
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for first in range(0, table.n, together):
            batch = table.batch(np.arange(first, min(first + together, table.n)))
            writer.write_batch(batch, row_group_size=max(len(batch), 1))
            add(len(batch))


def _check_tables(tables: Sequence[str]) -> None:
    unknown = [name for name in tables if name not in TABLES]
    if unknown or not tables or len(set(tables)) < len(tables):
        raise InvalidParameterError(
            f"tables={list(tables)}: they must be some of {', '.join(TABLES)}, each once"
        )


def _checked_target(output: str | os.PathLike[str], n_tables: int) -> Path:
    target = Path(output)
    is_file = target.suffix == ".parquet"
    if target.suffix and not is_file and not target.is_dir():
        raise InvalidParameterError(
            f"{target}: tables are written as Parquet; give a folder without {target.suffix}, or a "
            "file that ends in .parquet"
        )
    if is_file and n_tables > 1:
        raise InvalidParameterError(
            f"{target} is one file, but there are {n_tables} tables; give a folder, or one table"
        )
    return target
