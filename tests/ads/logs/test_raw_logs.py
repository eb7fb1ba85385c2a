"""Queries over logs: what they read, and what is refused."""

from __future__ import annotations

import datetime

import duckdb
import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.ads.histograms.counting import read_histograms
from coterie.ads.logs.bid_logs import open_logs, read_descriptions
from coterie.ads.logs.checks.log_checks import check_logs
from coterie.errors import CoterieWarning, InvalidParameterError, TableError
from coterie.tables.engines import connect, fetch

HEADER = "advertiser_id,day,bid_micros,won,price_micros"


@pytest.fixture
def log(tmp_path):
    """A canonical log of two bids, as CSV, and the texts beside it."""
    (tmp_path / "advertisers.csv").write_text("advertiser_id,description\na,shoes\n")
    rows = "a,2026-03-02,5,1,4\nb,2026-03-02,6,0,\n"
    (tmp_path / "log.csv").write_text(f"{HEADER}\n{rows}")
    return tmp_path / "log.csv"


def bids(logs) -> list[int]:
    """The bids of a log, sorted."""
    return sorted(fetch(logs.table)["bid_micros"].to_pylist())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM log",
        "FROM log",
        "  SELECT *\nFROM log -- all of it",
        "WITH log AS (SELECT * FROM log) SELECT * FROM log;",
        "SET VARIABLE least = 0; FROM log WHERE bid_micros::BIGINT > getvariable('least');",
    ],
)
def test_the_log_is_a_table_of_the_query(log, sql):
    """The query is run as it is written; texts are found beside the log."""
    logs = open_logs(log, sql=sql)
    assert bids(logs) == [5, 6]
    assert logs.source == str(log) and logs.files == (str(log),)
    assert read_descriptions(logs) == {"a": "shoes"}


def test_every_log_has_its_own_rows(log, tmp_path):
    """Two logs of one connection are not mixed up, nor is a table named log used."""
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"bid_micros": [7], "won": [True], "price_micros": [1]}), other)
    connection = connect()
    connection.con.execute("CREATE TABLE log AS SELECT 9 AS bid_micros")
    keys = "'x' AS advertiser_id, DATE '2026-03-02' AS day"
    sql = f"SELECT {keys}, bid_micros, won, price_micros FROM log"
    logs = [open_logs(source, connection, sql=sql) for source in (log, other)]
    assert [bids(one) for one in logs] == [[5, 6], [7]]


def test_a_query_may_name_all_that_it_reads(log, tmp_path, monkeypatch):
    """Files, tables of the connection and attached databases need no other source."""
    monkeypatch.chdir(tmp_path)
    assert bids(open_logs(sql="FROM 'log.csv'")) == [5, 6]
    with duckdb.connect("x.db") as database:
        database.execute("CREATE TABLE bids AS FROM 'log.csv'")
        database.execute("CREATE TABLE advertisers AS FROM 'advertisers.csv'")
    assert bids(open_logs(sql="ATTACH 'x.db' AS crm (READ_ONLY); FROM crm.bids")) == [5, 6]
    logs = open_logs(connection=connect("duckdb://x.db"), sql="FROM bids WHERE won")
    assert (bids(logs), logs.source) == ([5], "the query")
    assert read_descriptions(logs) == {"a": "shoes"}


def test_tables_of_a_source_are_copied(tmp_path):
    """A query names the tables of an SQLite file."""
    import sqlite3

    with sqlite3.connect(tmp_path / "x.sqlite") as database:
        database.execute("CREATE TABLE bids (a TEXT, day TEXT, bid INTEGER, price INTEGER)")
        database.execute("INSERT INTO bids VALUES ('a', '2026-03-02', 5, 4)")
    database.close()
    sql = "SELECT a AS advertiser_id, day, bid AS bid_micros, true AS won, price AS price_micros "
    logs = open_logs(connection=connect(f"sqlite://{tmp_path}/x.sqlite"), sql=sql + "FROM bids")
    assert bids(logs) == [5]


def test_the_result_is_read_and_checked_like_every_log(log):
    """Options, dimensions, faults and lines that are no rows are those of the result."""
    log.write_text(log.read_text() + "c,yesterday,7,0,\n1,2\n")
    sql = "SELECT *, 'x' AS device, '10.0.0.1' AS ip FROM log"
    logs = open_logs(log, sql=sql, dimensions=["device"], currency="EUR")
    assert (logs.currency, logs.dimensions) == ("EUR", ("device",))
    found = {fault.code: fault.count for fault in check_logs(logs).faults}
    assert (found["unreadable"], found["line_ragged"], found["person_columns"]) == (1, 1, 1)
    with pytest.warns(CoterieWarning, match="left out: 1"):
        assert read_histograms(logs, [10]).bids.count.sum() == 2


def test_a_result_may_be_histograms(tmp_path):
    """Its kind follows from its columns."""
    cells = "'a' AS advertiser_id, '2026-03-02' AS day, 10 AS bin_micros, 3 AS bids, 1 AS wins"
    logs = open_logs(sql=f"SELECT {cells}, 8 AS cost_micros")
    assert logs.kind == "histograms"
    assert fetch(logs.table)["day"].to_pylist() == [datetime.date(2026, 3, 2)]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT nothing FROM log", "the query of the log fails: .*nothing.* not found"),
        ("SELECTION 1", "the query of the log fails: .*SELECTION"),
        ("-- nothing", "the query of the log is empty"),
        ("DROP TABLE x", "the query of the log fails"),
        ("SELECT 1 AS x", "no column has the role advertiser"),
    ],
)
def test_a_query_that_fails_is_an_error(log, sql, message):
    """The message is the engine's, in one line."""
    with pytest.raises(TableError, match=message):
        open_logs(log, sql=sql)


def test_a_value_that_the_query_cannot_convert_is_an_error(log):
    """It is not dropped."""
    logs = open_logs(log, sql="SELECT * REPLACE (strptime(day, '%d.%m.%Y') AS day) FROM log")
    with pytest.raises(TableError, match='Could not parse string "2026-03-02"'):
        check_logs(logs)


def test_a_log_needs_a_source_or_a_query():
    """A table of Ibis has its own queries."""
    with pytest.raises(InvalidParameterError, match=r"name the files .* or give sql"):
        open_logs()
    with pytest.raises(InvalidParameterError, match="has its own method sql"):
        open_logs(ibis.memtable(pa.table({"x": [1]})), sql="FROM log")


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "sql"])
def test_logs_of_too_many_columns_are_refused(tmp_path, ending):
    """The limit is stated before the engine reads them."""
    path = tmp_path / f"wide.{ending}"
    names = [f"x{i}" for i in range(2_001)]
    if ending == "csv":
        path.write_text(",".join(names) + "\n")
    elif ending == "parquet":
        pq.write_table(pa.table({name: [1] for name in names}), path)
    elif ending == "jsonl":
        path.write_text("{" + ",".join(f'"{name}": 1' for name in names) + "}\n")
    query = f"SELECT {', '.join(f'1 AS {name}' for name in names)}" if ending == "sql" else ""
    with pytest.raises(TableError, match="it has 2,001 columns, and at most 2,000 are read"):
        open_logs(None if query else path, sql=query)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/log.csv", "https://127.0.0.1:9/log.parquet", "s3://b/log.jsonl"]
)
def test_nothing_is_downloaded_for_a_url(url, tmp_path, monkeypatch):
    """The error says how to install what is missing."""
    monkeypatch.setenv("HOME", str(tmp_path))  # without extensions
    with pytest.raises(TableError, match=r"needs DuckDB's extension httpfs, and nothing is"):
        open_logs(url)
    with pytest.raises(TableError, match=r"needs DuckDB's extension httpfs, and nothing is"):
        open_logs(sql=f"FROM '{url}'")


def test_json_that_is_nested_too_deep_is_an_error(tmp_path):
    """It is no traceback, whether the rest of the log can be read or not."""
    deep = '{"a": ' + "[" * 200_000 + "]" * 200_000 + "}\n"
    (tmp_path / "deep.jsonl").write_text(deep)
    with pytest.raises(TableError, match=r"deep\.jsonl"):
        open_logs(tmp_path / "deep.jsonl")
    row = '{"advertiser_id": "a", "day": "2026-03-02", "bid_micros": 5, "won": 0}\n'
    (tmp_path / "some.jsonl").write_text(row.replace("}", ', "price_micros": 0}') + deep)
    try:
        check_logs(open_logs(tmp_path / "some.jsonl"))
    except TableError as error:
        assert "some.jsonl" in str(error)
