"""Bid logs in PostgreSQL give the results of DuckDB."""

from __future__ import annotations

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from bid_tables import as_arrow, assert_equal_histograms, bid_frame
from coterie.ads.histograms.counting import read_histograms, read_targets
from coterie.ads.logs.bid_logs import open_logs, read_descriptions
from coterie.ads.logs.checks.log_checks import check_logs
from coterie.ads.logs.raw_logs import open_raw
from coterie.ads.logs.simulation.simulated_logs import simulate_logs
from coterie.ads.logs.simulation.simulated_traits import MarketSettings
from coterie.cli.program import app
from coterie.errors import TableError
from coterie.tables.engines import connect, fetch
from postgres_server import load

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def account(server, monkeypatch):
    """Let the environment have the credentials."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    """A simulated log with a dimension, and its texts."""
    settings = MarketSettings(advertisers=12, segments=2, days=2, dimensions=1, seed=3)
    return simulate_logs(settings, tmp_path_factory.mktemp("market") / "m").folder


def raw_rows(path) -> pa.Table:
    """The rows of files as DuckDB reads them, before columns have a meaning."""
    return fetch(open_raw(path, connect(threads=1)).table)


def both(rows: pa.Table, server, database, **how) -> list:
    """The same log in memory and on PostgreSQL."""
    load(database, "bids", rows)
    there = connect(server.url, threads=1)
    return [open_logs(ibis.memtable(rows), **how), open_logs("bids", there, **how)]


def assert_equal_checks(logs) -> None:
    """Require equal faults, examples and overviews."""
    here, there = (check_logs(one).as_dict() for one in logs)
    for found in (here, there):
        found["overview"].pop("source", None)
    assert here == there


@pytest.mark.parametrize("weighted", [False, True])
def test_histograms_and_checks_equal_duckdb(server, database, weighted):
    """They are equal for a log with faults and hostile names."""
    frame = bid_frame(300)
    rows = as_arrow(frame if weighted else frame.drop(columns="weight"))
    logs = both(rows, server, database)
    edges = [1_234_567, 2_345_678, 9_000_001] if weighted else None
    here, there = (read_histograms(one, edges) for one in logs)
    assert_equal_histograms(here, there, rtol=1e-12)
    assert_equal_checks(logs)


def test_targets_and_texts_equal_duckdb(server, database, market):
    """Values of dimensions, hours included, have the same sums; texts are a table, too."""
    dimensions = {"screen": "device", "hour": "hour"}
    logs = both(raw_rows(market), server, database, dimensions=dimensions)
    one, other = (read_targets(log, read_histograms(log)) for log in logs)
    assert one.values.tolist() == other.values.tolist()
    for name, part in vars(one.cells).items():
        assert np.array_equal(part, getattr(other.cells, name)), name
    assert_equal_checks(logs)
    load(database, "advertisers", pq.read_table(market / "advertisers.parquet"))
    there = open_logs("bids", connect(server.url))
    assert read_descriptions(there) == read_descriptions(open_logs(market))


def test_a_query_reads_tables_of_the_server(server, database, market):
    """Tables that the query names are copied; the result is the log."""
    rows = raw_rows(market)
    load(database, "bids", rows)
    load(database, "rates", pa.table({"rate": [2]}))
    query = "SELECT * REPLACE (bid_micros * rate AS bid_micros) FROM bids, rates"
    there = open_logs(None, connect(server.url), sql=query)
    here = open_logs(ibis.memtable(rows)).table.bid_micros.sum().to_pyarrow().as_py()
    assert there.table.bid_micros.sum().to_pyarrow().as_py() == 2 * here


def test_the_program_checks_a_table_of_a_database(server, database, market, monkeypatch):
    """The URL may be in the environment; an unknown table is named next to those there are."""
    load(database, "bids", raw_rows(market))
    monkeypatch.setenv("COTERIE_ENGINE", server.url)
    done = CliRunner().invoke(app, ["ads", "check", "bids"])
    assert done.exit_code == 0, done.output
    with pytest.raises(TableError, match=r"Bids: there is no such table; those .* are .*bids"):
        open_logs("Bids", connect(server.url))
