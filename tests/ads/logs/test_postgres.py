"""Bid logs in PostgreSQL give the results of DuckDB."""

from __future__ import annotations

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from bid_tables import as_arrow, assert_equal_histograms, bid_frame
from coterie.ads.histograms.counting import read_histograms
from coterie.ads.histograms.target_counting import read_targets
from coterie.ads.logs.bid_logs import open_logs, read_descriptions
from coterie.ads.logs.checks.log_checks import check_logs
from coterie.ads.logs.log_mapping import LogMapping
from coterie.ads.logs.raw_logs import open_raw
from coterie.ads.logs.simulation.simulated_logs import simulate_logs
from coterie.ads.logs.simulation.simulated_traits import MarketSettings
from coterie.cli.program import app
from coterie.engines.backends import connect
from coterie.engines.queries import fetch
from coterie.errors import TableError
from foreign_logs import SHAPES, auctions
from postgres_server import load

pytestmark = pytest.mark.slow


@pytest.fixture
def database(database):
    """In the end, nothing of ours is in the database."""
    yield database
    left = "SELECT relname FROM pg_class WHERE relname LIKE '%coterie%' OR relname LIKE '%ibis%'"
    assert database.raw_sql(left).fetchall() == []


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    """A simulated log with a dimension, and its texts."""
    settings = MarketSettings(advertisers=12, segments=2, days=2, dimensions=1, seed=3)
    return simulate_logs(settings, tmp_path_factory.mktemp("market") / "m").folder


def raw_rows(path) -> pa.Table:
    """The rows of files as DuckDB reads them, before columns have a meaning."""
    return fetch(open_raw(path, connect(threads=1), LogMapping(), kind="bids").table)


def both(rows: pa.Table, database, **how) -> list:
    """The same log on DuckDB and on PostgreSQL."""
    return [open_logs(one, **how) for one in (ibis.memtable(rows), load(database, "bids", rows))]


def assert_equal_checks(logs) -> None:
    """Require equal faults, examples and overviews."""
    found = [check_logs(one).as_dict() for one in logs]
    assert [check["overview"].pop("engine") for check in found] == ["duckdb", "postgres"]
    assert found[0] == found[1]


@pytest.mark.parametrize("weighted", [False, True])
def test_histograms_and_checks_equal_duckdb(database, weighted):
    """They are equal for a log with faults and hostile names."""
    frame = bid_frame(300)
    logs = both(as_arrow(frame if weighted else frame.drop(columns="weight")), database)
    edges = [1_234_567, 2_345_678, 9_000_001] if weighted else None
    here, there = (read_histograms(one, edges) for one in logs)
    assert_equal_histograms(here, there, rtol=1e-12)
    assert_equal_checks(logs)


def test_values_that_are_hard_to_read_are_read_alike(database):
    """Numbers, times and truth values in texts give the same value or null."""
    numbers = ["1", " 2.0 ", "3e2", "-4", "x", "1,5", "0x10", "2.5", "9e99", "NaN", "0.5", "-0.5"]
    numbers += ["0.49999999999999994", "\u00a05", "\t7\n", ""]
    times = ["2026-03-02", "2026-03-02T23:30:00-05:00", "2026", "20260302", "2026-02-30", "now"]
    times += ["2024-02-29", "1900-02-29", "2026-04-31", "2026-03-02 24:00:00", "2026-03-02 10:61"]
    times += ["2026-03-02 23:59:59.9999999", "2026-03-02T00:30:00 Europe/Berlin", "infinity", ""]
    times += ["2026-03-02T00:30:00 Europe/Nowhere", "2026-03-02T10:00:00+0530", "1772409600123"]
    times += ["2026/3/2 5:07 pm", "2026030223", "2026-03-02 10:00:00 UTC", "2026-03-02 23:59:60"]
    words = ["true", "F", "1", "0.0", "won", "YES", "?"]
    rows = [
        {
            "advertiser_id": f"a{i}",
            "ts": time,
            "bid_micros": numbers[i % len(numbers)],
            "won": words[i % len(words)],
            "price_micros": numbers[i * 7 % len(numbers)],
            "weight": numbers[i * 3 % len(numbers)],
        }
        for i, time in enumerate([*times, *times])
    ]
    for zones in ({}, {"time_zone": "Europe/Berlin", "day_zone": "America/New_York"}):
        how = {"mapping": LogMapping(**zones), "dimensions": ["hour"]}
        logs = both(pa.Table.from_pylist(rows), database, **how)
        here, there = (sorted(map(str, fetch(one.table).to_pylist())) for one in logs)
        assert here == there


def test_targets_and_texts_equal_duckdb(database, market):
    """Values of dimensions, hours included, have the same sums; texts are a table beside."""
    dimensions = {"screen": "device", "hour": "hour"}
    logs = both(raw_rows(market), database, dimensions=dimensions)
    one, other = (read_targets(log, read_histograms(log)) for log in logs)
    assert one.values.tolist() == other.values.tolist()
    for name, part in vars(one.cells).items():
        assert np.array_equal(part, getattr(other.cells, name)), name
    assert_equal_checks(logs)
    load(database, "advertisers", pq.read_table(market / "advertisers.parquet"))
    there = open_logs("bids", database)
    assert read_descriptions(there) == read_descriptions(open_logs(market))


@pytest.mark.parametrize("shape", ["ad_manager", "openrtb"])
def test_mapped_logs(tmp_path, database, shape):
    """Local times in texts, and notices joined to bids, give the histograms of DuckDB."""
    source = SHAPES[shape](tmp_path, auctions(200))[0]
    if shape == "ad_manager":
        options = [{"mapping": LogMapping(format="gam", time_zone="America/New_York")}] * 2
    else:
        mapping = LogMapping({"advertiser": "bid.seat"}, format="openrtb", join_on="bid.id=bid_id")
        notices = {name: raw_rows(tmp_path / f"{name}.jsonl") for name in ("wins", "losses")}
        options = [
            {"mapping": mapping, **{name: ibis.memtable(one) for name, one in notices.items()}},
            {"mapping": mapping, **{n: load(database, n, one) for n, one in notices.items()}},
        ]
    rows = raw_rows(source)
    tables = (ibis.memtable(rows), load(database, "bids", rows))
    here, there = (open_logs(one, **how) for one, how in zip(tables, options, strict=True))
    assert_equal_histograms(read_histograms(here), read_histograms(there), rtol=1e-12)


def test_the_program_checks_a_table_of_a_database(server, database, market, monkeypatch):
    """The URL may be in the environment; an unknown table is named beside those there are."""
    load(database, "bids", raw_rows(market))
    variables = {**server.environment, "COTERIE_ENGINE": server.url}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = CliRunner().invoke(app, ["ads", "check", "bids"])
    assert done.exit_code == 0, done.output
    with pytest.raises(TableError, match=r"Bids: there is no such table; those .* are .*bids"):
        open_logs("Bids", connect(server.url))
