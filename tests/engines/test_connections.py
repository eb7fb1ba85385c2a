"""Engines named by a URL."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from types import SimpleNamespace

import duckdb
import ibis
import pyarrow as pa
import pytest

from coterie.engines import connections as engines
from coterie.engines.connections import (
    LocalTables,
    connect,
    engine_errors,
    engine_message,
    fetch,
    masked,
    stream,
)
from coterie.errors import InvalidParameterError, MissingExtraError, TableError


def setting(connection, name: str) -> str:
    """What DuckDB has a setting at."""
    return str(connection.settings[name])


def new_database(path) -> None:
    """A database with one row."""
    with duckdb.connect(str(path)) as database:
        database.execute("CREATE TABLE bids AS SELECT 1 AS one")


def test_duckdb_is_quiet_and_in_utc():
    """No progress bar, no local time."""
    connection = connect()
    assert setting(connection, "TimeZone") == "UTC"
    assert setting(connection, "enable_progress_bar") == "false"


@pytest.mark.parametrize("by_url", [True, False])
def test_duckdb_settings_come_by_url_or_by_argument(by_url):
    """Threads and the memory limit."""
    url = "duckdb://?threads=2&memory_limit=300MiB"
    connection = connect(url) if by_url else connect(memory_limit="300MiB", threads=2)
    assert setting(connection, "threads") == "2"
    assert setting(connection, "memory_limit") == "300.0 MiB"


@pytest.mark.parametrize("relative", [True, False])
def test_a_database_file_is_only_read(tmp_path, monkeypatch, relative):
    """By absolute or relative path; writing is refused."""
    new_database(tmp_path / "logs.db")
    monkeypatch.chdir(tmp_path)
    connection = connect("duckdb://logs.db" if relative else f"duckdb://{tmp_path}/logs.db")
    assert fetch(connection.table("bids")).to_pydict() == {"one": [1]}
    with pytest.raises(duckdb.Error, match="read-only"):
        connection.raw_sql("CREATE TABLE other AS SELECT 1")


def test_a_missing_database_is_not_made(tmp_path):
    """A typing error must not leave an empty file behind."""
    with pytest.raises(InvalidParameterError, match=r"absent\.db is not there"):
        connect(f"duckdb://{tmp_path}/absent.db")
    with pytest.raises(InvalidParameterError, match="is a folder"):
        connect(f"duckdb://{tmp_path}")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_refused(tmp_path):
    """The message names it."""
    (tmp_path / "logs.db").write_text("advertiser_id,day\n" * 1000)
    with pytest.raises(TableError, match=r"logs\.db: DuckDB cannot open it"):
        connect(f"duckdb://{tmp_path}/logs.db")


@pytest.mark.parametrize("url", ["", "duckdb", "sqlite://x.db", "postgres://me@host/db", "://x"])
def test_other_engines_are_refused_with_those_that_work(url):
    """The list is part of the message."""
    with pytest.raises(InvalidParameterError, match=r"(?s)duckdb://.*pyspark://local\[2\]"):
        connect(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgres://me:hunter2@host/db",
        "duckdb://me:hunter2@host",
        "pyspark://me:p@ss:hunter2@host:7077",
        "postgres://me:hunt/er2hunter2@host/db",
        "pyspark://host:7077?spark.hadoop.fs.s3a.secret.key=hunter2",
        "snowflake://me@host/db?PASSWORD=hunter2&warehouse=w",
        "duckdb://?motherduck_token=hunter2",
        "pyspark://host:7077?spark.authenticate=true&spark.ssl.keyPassword=hunter2",
    ],
)
def test_a_url_with_a_secret_is_refused_and_the_secret_not_repeated(url):
    """Neither in the message nor in what the error was raised from."""
    with pytest.raises(InvalidParameterError, match="environment") as caught:
        connect(url)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_masking_leaves_the_rest_of_a_text():
    """Only what may be secret goes."""
    assert masked("no url here") == "no url here"
    assert masked("to s3://key:x@bucket/a?b=c failed") == "to s3://***@bucket/a?b=c failed"
    assert masked("duckdb://?threads=2&api_key=x y") == "duckdb://?threads=2&api_key=*** y"


@pytest.mark.parametrize(
    ("url", "how", "message"),
    [
        ("duckdb://?thread=2", {}, "unknown setting thread;"),
        ("duckdb://?threads", {}, "name=value"),
        ("duckdb://?memory_limit=plenty", {}, "DuckDB refuses a setting"),
        ("pyspark://?executor.memory=2g", {}, r"begin with spark\."),
        ("pyspark://host", {}, "no Spark master"),
        ("pyspark://host:7077/db", {}, "no Spark master"),
        ("pyspark://", {"memory_limit": "1GB"}, "memory_limit: it is for DuckDB"),
        ("duckdb://", {"threads": 0}, "threads=0"),
        ("duckdb://", {"threads": True}, "threads=True"),
        (7, {}, "must be a string, got int"),
    ],
)
def test_settings_that_cannot_be_used_are_named(url, how, message):
    """Before anything starts."""
    with pytest.raises(InvalidParameterError, match=message):
        connect(url, **how)


@pytest.mark.parametrize(
    ("url", "threads", "master"),
    [
        ("pyspark://", None, "local[*]"),
        ("pyspark://", 3, "local[3]"),
        ("pyspark://local", None, "local[*]"),
        ("pyspark://local[2]", None, "local[2]"),
        ("pyspark://host-1.example.org:7077", None, "spark://host-1.example.org:7077"),
        ("pyspark://a:7077,b:7077", None, "spark://a:7077,b:7077"),
        ("pyspark://yarn", None, "yarn"),
    ],
)
def test_a_spark_url_names_a_master_and_settings(url, threads, master, monkeypatch):
    """The session is built by us, with what follows the question mark."""
    asked = {}

    def record(master, settings):
        asked.update(master=master, settings=settings)
        raise InvalidParameterError("far enough")

    monkeypatch.setattr(engines, "_active_session", lambda: None)
    monkeypatch.setattr(engines, "_new_session", record)
    with pytest.raises(InvalidParameterError, match="far enough"):
        connect(f"{url}?spark.executor.memory=2g", threads=threads)
    assert asked == {"master": master, "settings": {"spark.executor.memory": "2g"}}


def test_another_master_than_the_active_session_has_is_refused(monkeypatch):
    """Spark would quietly go on with the one that runs."""
    session = SimpleNamespace(conf={"spark.master": "local[4]"})
    monkeypatch.setattr(engines, "_active_session", lambda: session)
    with pytest.raises(InvalidParameterError, match=r"on local\[4\] is active"):
        connect("pyspark://host:7077")


def test_missing_packages_are_named_with_the_extra_that_brings_them(monkeypatch):
    """Ibis for everything, PySpark and Java for Spark."""
    monkeypatch.setattr(engines, "_active_session", lambda: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingExtraError, match="Java 17"):
        connect("pyspark://")
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtraError, match=r"coterie\[spark\]"):
        connect("pyspark://")
    monkeypatch.setitem(sys.modules, "ibis", None)
    with pytest.raises(MissingExtraError, match=r"coterie\[engines\]"):
        connect("duckdb://")


def test_an_engine_that_fails_is_quoted_in_one_short_line():
    """What it says, not where in its depths."""
    table = ibis.memtable(pa.table({"a": ["x" * 5000]}))
    with pytest.raises(TableError, match=r"duckdb cannot read the table: .*x…$") as caught:
        fetch(table.select(b=table.a.cast("int64")))
    assert len(str(caught.value)) < 600


def test_what_is_not_the_engines_fault_is_not_taken_for_it():
    """A wrong call stays an error of its own kind."""
    with pytest.raises(AttributeError):
        fetch(None)


def test_a_stream_gives_every_row_in_batches():
    """Of no more rows than asked for; faults are told as those of a fetch are."""
    connection = connect(threads=1)
    with LocalTables(connection) as local:
        table = local.add(pa.table({"a": list(range(5000))}))
        batches = list(stream(table.filter(table.a >= 10), 2048))
        assert max(batch.num_rows for batch in batches) <= 2048 < sum(map(len, batches))
        assert sorted(x for batch in batches for x in batch["a"].to_pylist()) == [*range(10, 5000)]
        with pytest.raises(TableError, match="duckdb cannot read the table"):
            list(stream(table.select(b=table.a.cast("string").cast("date")), 10))


@pytest.mark.parametrize("failure", [None, ValueError])
def test_local_tables_are_gone_in_the_end(failure):
    """Whatever happens; a reader of a database may make them too."""
    connection = connect(threads=1)
    count = "SELECT count(*) FROM duckdb_tables()"
    with contextlib.suppress(ValueError), LocalTables(connection) as local:
        table = local.add(pa.table({"a": [1, 2]}))
        assert fetch(table)["a"].to_pylist() == [1, 2]
        assert connection.con.sql(count).fetchall() == [(1,)]
        if failure:
            raise failure
    assert connection.con.sql(count).fetchall() == [(0,)]


def test_an_interrupted_query_is_an_interrupt():
    """Not a failure of the engine, nor a defect."""
    with pytest.raises(KeyboardInterrupt), engine_errors("x"):
        raise RuntimeError("Query interrupted")
    with pytest.raises(RuntimeError), engine_errors("x"):
        raise RuntimeError("a defect")


def test_an_engine_without_memory_says_what_to_do():
    """Its message, and two ways out."""
    connection = connect(memory_limit="20MB", threads=1)
    connection.con.execute("SET temp_directory = ''")
    with LocalTables(connection) as local:
        numbers = local.add(pa.table({"a": [0]}))
        many = numbers.select(a=ibis.range(3_000_000).unnest()).distinct()
        with pytest.raises(TableError, match=r"Out of Memory.*; raise the memory limit, or take"):
            fetch(many.aggregate(n=many.count()))


def test_why_java_gave_up_is_told():
    """The first cause and the last, without the record it stumbled on; else what it threw."""
    threw = "An error occurred while calling o171.getResult.\n: org.apache.SparkException: awaited"
    causes = [
        "Caused by: org.apache.spark.SparkException: [READ] Cannot read file:///a.csv. SQLSTATE: 1",
        "Caused by: java.lang.RuntimeException: middle",
        "Caused by: org.x.SparkRuntimeException: [BAD] Malformed CSV record: secret,1 SQLSTATE: 2",
    ]
    stack = "\n".join(f"{line}\n\tat org.apache.spark.Thing(Thing.scala:1)" for line in causes)
    told = engine_message(RuntimeError(f"{threw}\n{stack}"))
    assert told == "[READ] Cannot read file:///a.csv. [BAD] Malformed CSV record"
    assert engine_message(RuntimeError(threw)) == "awaited"
    assert engine_message(RuntimeError(f"{threw}\n{causes[1]}")) == "middle"


def test_a_failure_of_another_engine_is_an_engines():
    """As that of a database of SQLite."""
    with pytest.raises(TableError, match="x: no such table: t"), engine_errors("x"):
        sqlite3.connect(":memory:").execute("SELECT * FROM t")
