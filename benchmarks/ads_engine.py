"""Histograms of a large log: ours through Ibis beside DuckDB's SQL written by hand, in one run.

The SQL does what ours does, in the fastest way that was found: the same rows count, amounts are
coded to three digits, the bin of a code is looked up in a list, and bids and prices are grouped in
one query each. Both are measured in fresh processes, in turn
(:mod:`benchmarks.measuring`), and must give the same cells.
"""

from __future__ import annotations

import hashlib
import resource
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.measuring import Measurement, Work, measure_side_by_side
from coterie.ads.histograms.bid_histograms import BidHistograms, bin_of
from coterie.ads.logs.amount_codes import MOST_MICROS, amounts_of, codes_of
from coterie.ads.logs.simulation.simulated_logs import simulate_logs
from coterie.ads.logs.simulation.simulated_traits import MarketSettings

__all__ = ["TARGET_BYTES", "TARGET_RATIO", "compare_engine", "count_by_sql", "market_of"]

#: How much longer than hand-written SQL ours may take.
TARGET_RATIO = 1.3
#: What a process that counts a log may occupy at most.
TARGET_BYTES = 1 << 30

_LEAST_BY_ADVERTISER = 60
_BID_SUMS = ("count", "bid", "wins", "cost", "clicks", "conversions")


def compare_engine(
    rows: int = 20_000_000, folder: str | Path | None = None, repeats: int = 3
) -> dict[str, Any]:
    """Time our histograms of a simulated log and hand-written SQL's, on the same grid.

    Parameters
    ----------
    rows : int
        About how many bids there are.
    folder : path, optional
        Where the log is kept, simulated there if nothing is; by default it is thrown away.
    repeats : int
        How often each is measured; the median counts.

    Returns
    -------
    dict, ready for JSON
        ``rows`` and ``cells``; ``seconds`` (median), ``runs`` (all) and ``peak_bytes`` (of the
        whole process) of ``coterie``, of ``sql`` and of ``from_the_start``, which is ours with
        opening the log and finding the grid; ``ratio`` of coterie to sql; ``target_ratio`` and
        ``target_bytes``; and whether the cells are ``equal``.
    """
    with _log_in(folder, rows) as log:
        edges = tuple(_grid_of(log))
        works: dict[str, partial[Any]] = {
            "coterie": partial(_count_by_ibis, log, edges),
            "sql": partial(count_by_sql, log, edges),
            "from_the_start": partial(_count_by_ibis, log, None),
        }
        first_file = next(iter(sorted((Path(log) / "bids").iterdir())))
        warm_up = partial(_warm_up, str(first_file), edges)
        measured = measure_side_by_side(
            {
                name: Work(run=partial(_called, work), warm_up=warm_up, describe=_described)
                for name, work in works.items()
            },
            repeats=repeats,
        )
    return _as_dict(measured)


def market_of(rows: int) -> MarketSettings:
    """A market with about so many bids.

    >>> round(market_of(20_000_000).expected_rows, -5), market_of(1000).advertisers
    (20000000, 16)
    """
    advertisers = min(1268, max(1, rows // _LEAST_BY_ADVERTISER))
    low, high = 1e-3, 50_000.0
    for _ in range(50):
        middle = (low * high) ** 0.5
        settings = MarketSettings(advertisers=advertisers, bids_per_day=middle)
        low, high = (middle, high) if settings.expected_rows < rows else (low, middle)
    return settings


def count_by_sql(log: str, edges: Sequence[int]) -> dict[str, pa.Table]:
    """The cells of a simulated log, by SQL written for it: ``bids`` and ``prices``."""
    import duckdb

    files = str(Path(log) / "bids" / "*.parquet") if Path(log).is_dir() else log
    quoted = files.replace("'", "''")
    source = f"read_parquet('{quoted}')"
    usable = f"bid_micros BETWEEN 1 AND {MOST_MICROS} AND won IS NOT NULL"
    priced = f"price_micros BETWEEN 0 AND {MOST_MICROS}"
    day = "CAST(make_timestamp(epoch_us(ts)) AS DATE)"
    bids = f"""
        SELECT advertiser_id, {day} AS day, {_bin_in_sql("bid_micros", edges)} AS bin,
            count(*) AS count, CAST(sum(bid_micros) AS BIGINT) AS bid,
            CAST(sum(CAST(won AS INT)) AS BIGINT) AS wins,
            CAST(coalesce(sum(price_micros) FILTER (won AND {priced}), 0) AS BIGINT) AS cost,
            CAST(sum(CAST(won AND click AS INT)) AS BIGINT) AS clicks,
            CAST(sum(CAST(won AND conversion AS INT)) AS BIGINT) AS conversions
        FROM {source} WHERE {usable} GROUP BY ALL"""
    prices = f"""
        SELECT advertiser_id, {day} AS day, {_bin_in_sql("price_micros", edges)} AS bin,
            count(*) AS count, CAST(sum(price_micros) AS BIGINT) AS price
        FROM {source} WHERE {usable} AND won AND {priced} GROUP BY ALL"""
    with duckdb.connect(config={"preserve_insertion_order": "false"}) as connection:
        connection.sql("SET enable_progress_bar = false")
        return {
            "bids": connection.sql(bids).to_arrow_table(),
            "prices": connection.sql(prices).to_arrow_table(),
        }


def _bin_in_sql(amount: str, edges: Sequence[int]) -> str:
    grid = np.asarray(edges)
    first, last = codes_of(grid[[0, -1]]).tolist()
    bins = bin_of(amounts_of(np.arange(first, last + 1)), grid).tolist()
    inside = f"least(greatest({amount}, {grid[0]}), {grid[-1]})"
    digits = range(len(str(grid[0])) - 3, len(str(grid[-1])) - 2)
    whens = " ".join(
        f"WHEN {inside} <= {10 ** (d + 3)} THEN ({inside} + {10**d - 1}) // {10**d} + {900 * d}"
        for d in digits
    )
    return f"CAST({bins} AS SMALLINT[])[CASE {whens} END - {first - 1}]"


def _count_by_ibis(log: str, edges: Sequence[int] | None) -> BidHistograms:
    from coterie.ads.histograms.counting import read_histograms
    from coterie.ads.logs.bid_logs import open_logs

    return read_histograms(open_logs(log), None if edges is None else list(edges))


def _grid_of(log: str) -> list[int]:
    from coterie.ads.histograms.counting import bid_grid
    from coterie.ads.logs.bid_logs import open_logs

    return bid_grid(open_logs(log)).tolist()


@contextmanager
def _log_in(folder: str | Path | None, rows: int) -> Iterator[str]:
    if folder is not None:
        if not (Path(folder) / "bids").is_dir():
            simulate_logs(market_of(rows), folder)
        yield str(folder)
        return
    with tempfile.TemporaryDirectory(prefix="coterie-engine-") as passing:
        yield str(simulate_logs(market_of(rows), Path(passing) / "logs").folder)


def _called(work: partial[Any], _: None) -> Any:
    return work()


def _warm_up(file: str, edges: Sequence[int], _: None) -> None:
    """Import what either needs and read a part of the log."""
    _count_by_ibis(file, edges)
    count_by_sql(file, edges)


def _described(_: None, found: BidHistograms | dict[str, pa.Table]) -> dict[str, Any]:
    cells = _cells_of_ours(found) if isinstance(found, BidHistograms) else _cells_of_sql(found)
    digest = hashlib.sha256()
    for part in cells.values():
        for column in part:
            digest.update(np.ascontiguousarray(column).tobytes())
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "rows": int(cells["bids"][3].sum()),
        "cells": sum(len(part[0]) for part in cells.values()),
        "digest": digest.hexdigest(),
        "peak_bytes": largest if sys.platform == "darwin" else largest * 1024,
    }


def _cells_of_ours(found: BidHistograms) -> dict[str, list[NDArray[Any]]]:
    parts: dict[str, tuple[Any, tuple[str, ...]]] = {
        "bids": (found.bids, _BID_SUMS),
        "prices": (found.prices, ("count", "price")),
    }
    return {
        name: [
            found.advertisers[cells.advertiser],
            found.days[cells.day].astype(np.int64),
            cells.bin,
            *(getattr(cells, column) for column in sums),
        ]
        for name, (cells, sums) in parts.items()
    }


def _cells_of_sql(found: dict[str, pa.Table]) -> dict[str, list[NDArray[Any]]]:
    by_place = [(name, "ascending") for name in ("advertiser_id", "day", "bin")]
    ordered = {name: table.sort_by(by_place) for name, table in found.items()}
    return {
        name: [
            np.array(table["advertiser_id"].to_pylist(), dtype=str),
            table["day"].to_numpy().astype("datetime64[D]").astype(np.int64),
            table["bin"].to_numpy().astype(np.int64),
            *(table[column].to_numpy().astype(np.float64) for column in table.column_names[3:]),
        ]
        for name, table in ordered.items()
    }


def _as_dict(measured: dict[str, Measurement]) -> dict[str, Any]:
    ours, theirs = measured["coterie"], measured["sql"]
    return {
        "rows": ours.facts["rows"],
        "cells": ours.facts["cells"],
        "seconds": {name: found.seconds for name, found in measured.items()},
        "runs": {name: list(found.runs) for name, found in measured.items()},
        "peak_bytes": {name: found.facts["peak_bytes"] for name, found in measured.items()},
        "ratio": ours.seconds / theirs.seconds,
        "target_ratio": TARGET_RATIO,
        "target_bytes": TARGET_BYTES,
        "equal": len({found.facts["digest"] for found in measured.values()}) == 1,
    }
