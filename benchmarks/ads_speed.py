"""Time of histograms and of all pairs of curves, compared with hand-written SQL and with SciPy.

Histograms are counted by DuckDB through one Ibis expression. The hand-written SQL does the same in
the fastest way that was found: amounts are coded to three digits, the bin of a code is looked up
in a list, and bids and prices are grouped in one query each. Both run in fresh processes, in turn,
and must give the same cells. The curves are empirical c.d.f.s of a simulated market.
"""

from __future__ import annotations

import hashlib
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import norm

from benchmarks.harness import Context
from benchmarks.measuring import Stopwatch, measure_side_by_side
from benchmarks.results import Result, Table
from coterie.ads import BidHistograms, MarketSettings, open_logs, read_histograms, simulate_logs
from coterie.ads.histograms.bid_histograms import bin_of
from coterie.ads.logs.amount_codes import MOST_MICROS, amounts_of, codes_of
from coterie.ads.logs.simulation.simulated_traits import draw_traits
from coterie.ads.segments.similarity import kolmogorov_critical_value, ks_distances, ks_graph
from coterie.runtime.devices import readable_bytes

Floats = NDArray[np.float64]

_ENGINE = {
    "coterie": "coterie, through Ibis",
    "sql": "hand-written SQL",
    "from_the_start": "coterie, with opening the log and finding the grid",
}
_SIMILARITY = {
    "graph": "similarity graph",
    "distances": "all distances",
    "cdist": "SciPy's cdist, chebyshev",
}
#: Significance of the test that makes two curves similar.
_ALPHA = 0.05

MEASURES = ("ads/histograms", "ads/segments")


def run(
    context: Context, *, rows: int | None = None, advertisers: int | None = None, repeats: int = 3
) -> Result:
    """Measure both on a machine that does nothing else.

    About ``rows`` bids are counted ``repeats`` times, 20 million by default, and the curves of
    ``advertisers`` are compared, 20,000 by default; a quick run has a tenth of both.
    """
    share = 10 if context.quick else 1
    engine = compare_engine(rows or 20_000_000 // share, repeats)
    similarity = compare_similarity(advertisers or 20_000 // share)
    seconds, peak, pairs = engine["seconds"], engine["peak_bytes"], similarity["seconds"]
    histograms = {
        "": _ENGINE.__getitem__,
        "seconds": lambda name: f"{seconds[name]:.2f}",
        "peak memory": lambda name: readable_bytes(peak[name]),
    }
    comparisons = {
        "": _SIMILARITY.__getitem__,
        "seconds": lambda name: f"{pairs[name]:.1f}",
        "CPU seconds": lambda name: f"{similarity['cpu_seconds'][name]:.1f}",
    }
    title = f"Histograms of {engine['rows']:,} bids, {engine['cells']:,} cells"
    size = f"{similarity['advertisers']:,} curves at {similarity['points']} points"
    tables = [
        Table.of(title, _ENGINE, histograms),
        Table.of(f"All pairs of {size}", _SIMILARITY, comparisons),
    ]
    same = "the same cells" if engine["equal"] else "DIFFERENT CELLS"
    notes = [
        f"Histograms take {seconds['coterie'] / seconds['sql']:.2f} × the time of hand-written SQL "
        f"and give {same}.",
        f"The graph is {pairs['cdist'] / pairs['graph']:.0f} × and the distances are "
        f"{pairs['cdist'] / pairs['distances']:.0f} × as fast as cdist; "
        f"{similarity['differing_decisions']} decisions differ.",
    ]
    return Result("ads_speed", tables, {"engine": engine, "similarity": similarity}, notes)


def compare_engine(rows: int, repeats: int = 3) -> dict[str, Any]:
    """Time histograms of a simulated log by coterie and by hand-written SQL, on the same grid."""
    with tempfile.TemporaryDirectory(prefix="coterie-engine-") as folder:
        log = simulate_logs(market_of(rows), Path(folder) / "logs").folder
        edges = tuple(read_histograms(open_logs(log)).edges.tolist())
        first_file = min((log / "bids").iterdir())
        works = {name: partial(_count, name, log, first_file, edges) for name in _ENGINE}
        measured = measure_side_by_side(works, repeats=repeats)
    return {
        "rows": measured["coterie"].facts["rows"],
        "cells": measured["coterie"].facts["cells"],
        "seconds": {name: found.seconds for name, found in measured.items()},
        "runs": {name: list(found.runs) for name, found in measured.items()},
        "peak_bytes": {name: found.facts["peak_bytes"] for name, found in measured.items()},
        "equal": len({found.facts["digest"] for found in measured.values()}) == 1,
    }


def market_of(rows: int, advertisers: int | None = None) -> MarketSettings:
    """Return a market with about a given number of bids, of at most 1,268 advertisers by default.

    >>> round(market_of(20_000_000).expected_rows, -5), market_of(1000).advertisers
    (20000000, 16)
    """
    advertisers = advertisers or min(1268, max(1, rows // 60))
    low, high = 1e-3, 50_000.0
    for _ in range(50):
        middle = (low * high) ** 0.5
        settings = MarketSettings(advertisers=advertisers, bids_per_day=middle)
        low, high = (middle, high) if settings.expected_rows < rows else (low, middle)
    return settings


def count_by_sql(files: Path, edges: Sequence[int]) -> dict[str, pa.Table]:
    """Return the cells of Parquet files of bids, ``bids`` and ``prices``, counted by SQL."""
    quoted = str(files).replace("'", "''")
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
        queries = {"bids": bids, "prices": prices}
        return {name: connection.sql(query).to_arrow_table() for name, query in queries.items()}


def compare_similarity(advertisers: int, points: int = 256) -> dict[str, Any]:
    """Time the graph and the distances of one market's curves, and ``cdist`` in the same run.

    ``cdist`` gets the curves a block of rows at a time, so that memory does not decide. Checking
    its blocks against every decision and distance is not timed, nor is compilation.

    >>> found = compare_similarity(advertisers=300, points=32)
    >>> found["differing_decisions"], found["largest_error"] < 2**-23
    (0, True)
    """
    curves, observations = market_curves(advertisers, points)
    ks_graph(curves[:200], observations[:200], _ALPHA)
    ks_distances(curves[:200])
    seconds, cpu_seconds = dict.fromkeys(_SIMILARITY, 0.0), dict.fromkeys(_SIMILARITY, 0.0)

    def timed(name: str, work: Callable[..., Any], *arguments: Any) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        found = work(*arguments)
        seconds[name] += time.perf_counter() - wall
        cpu_seconds[name] += time.process_time() - cpu
        return found

    graph = timed("graph", ks_graph, curves, observations, _ALPHA)
    distances = timed("distances", ks_distances, curves)
    differing, error = 0, 0.0
    for start in range(0, advertisers, 256):
        rows = slice(start, min(start + 256, advertisers))
        exact = timed("cdist", cdist, curves[rows], curves, "chebyshev")
        # two curves are similar up to C_α √(1/m_i + 1/m_j)
        spread = np.sqrt(1 / observations[rows, np.newaxis] + 1 / observations)
        similar = exact <= kolmogorov_critical_value(_ALPHA) * spread
        similar[np.arange(len(similar)), np.arange(rows.start, rows.stop)] = False
        differing += int(np.count_nonzero(similar != graph[rows].toarray()))
        error = max(error, float(np.abs(exact - distances[rows]).max()))
    return {
        "advertisers": advertisers,
        "points": points,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "differing_decisions": differing // 2,
        "largest_error": error,
    }


def market_curves(advertisers: int, points: int) -> tuple[Floats, Floats]:
    """Return curves (A, G) of a simulated market and how many prices each is based on (A,)."""
    traits = draw_traits(MarketSettings(advertisers=advertisers, segments=min(10, advertisers)))
    # every advertiser's c.d.f. of market prices at quantiles of them all, ending at 1
    levels = np.quantile(traits.market_level, np.arange(1, points + 1) / (points + 1))
    laws = np.zeros((advertisers, points))
    columns = (traits.market_level, traits.market_spread, traits.market_share)
    for part in range(traits.market_level.shape[1]):
        level, spread, share = (column[:, part, np.newaxis] for column in columns)
        laws += share * norm.cdf((levels - level) / spread)
    laws[:, -1] = 1.0
    rng = np.random.default_rng(0)
    observations = np.maximum(rng.poisson(6 * traits.volume), 1)  # six days of auctions
    counts = rng.multinomial(observations, np.diff(laws, axis=1, prepend=0.0))
    return np.cumsum(counts, axis=1) / observations[:, np.newaxis], observations.astype(float)


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


def _count(
    way: str, log: Path, first_file: Path, edges: Sequence[int], watch: Stopwatch
) -> dict[str, Any]:
    """Measure one way to count the cells of a log."""
    with watch.warm_up():  # imports what both need, and reads a part of the log
        read_histograms(open_logs(first_file), list(edges))
        count_by_sql(first_file, edges)
    with watch.measure():
        if way == "sql":
            found: Any = count_by_sql(log / "bids" / "*.parquet", edges)
        else:
            found = read_histograms(open_logs(log), list(edges) if way == "coterie" else None)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    cells = found if way == "sql" else _cells(found)
    digest = hashlib.sha256()
    for table in cells.values():
        ordered = table.sort_by([(name, "ascending") for name in ("advertiser_id", "day", "bin")])
        digest.update("\n".join(ordered["advertiser_id"].to_pylist()).encode())
        for name in ordered.column_names[1:]:
            digest.update(ordered[name].to_numpy().astype(np.float64).tobytes())
    return {
        "rows": int(cells["bids"]["count"].to_numpy().sum()),
        "cells": sum(len(table) for table in cells.values()),
        "digest": digest.hexdigest(),
        "peak_bytes": peak_bytes,
    }


def _cells(found: BidHistograms) -> dict[str, pa.Table]:
    """Return the cells of histograms with the columns of the SQL."""
    sums = ("count", "bid", "wins", "cost", "clicks", "conversions")
    kinds: dict[str, Any] = {
        "bids": (found.bids, sums),
        "prices": (found.prices, ("count", "price")),
    }
    return {
        kind: pa.table(
            {
                "advertiser_id": found.advertisers[cells.advertiser],
                "day": found.days[cells.day],
                "bin": cells.bin,
                **{name: getattr(cells, name) for name in names},
            }
        )
        for kind, (cells, names) in kinds.items()
    }
