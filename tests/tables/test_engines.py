"""Connections by URL, queries, temporary tables, and errors of engines."""

from __future__ import annotations

import contextlib
import importlib
import sqlite3
import sys
from types import SimpleNamespace

import duckdb
import ibis
import pyarrow as pa
import pytest

from coterie.errors import InvalidParameterError, MissingExtraError, TableError
from coterie.tables import engines
from coterie.tables.engines import (
    LocalTables,
    batches,
    computes,
    connect,
    engine_errors,
    engine_message,
    fetch,
    in_duckdb,
    masked,
)
from engine_tables import engine_with_table

# Ibis asks pandas for an option that is going away
pytestmark = pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")


@pytest.mark.parametrize("by_url", [True, False])
def test_duckdb_settings_come_by_url_or_by_argument(by_url):
    """Threads and memory limit are set; time is UTC, and there is no progress bar."""
    url = "duckdb://?threads=2&memory_limit=300MiB"
    connection = connect(url) if by_url else connect(memory_limit="300MiB", threads=2)
    expected = {
        "threads": "2",
        "memory_limit": "300.0 MiB",
        "TimeZone": "UTC",
        "enable_progress_bar": "false",
    }
    assert {name: str(connection.settings[name]) for name in expected} == expected


@pytest.mark.parametrize(("free", "limit"), [(40_000_000_000, "9.3 GiB"), (0, "953.6 MiB")])
def test_duckdb_leaves_most_of_the_memory_to_the_results(monkeypatch, free, limit):
    """It uses a quarter of the free memory, but at least a gigabyte."""
    monkeypatch.setattr(engines, "available_memory", lambda: free)
    assert str(connect().settings["memory_limit"]) == limit


def test_a_database_file_is_opened_read_only(tmp_path, monkeypatch):
    """The path may be absolute or relative; writing fails, and no file is created."""
    with duckdb.connect(str(tmp_path / "logs.db")) as database:
        database.execute("CREATE TABLE bids AS SELECT 1 AS one")
    monkeypatch.chdir(tmp_path)
    for place in ("logs.db", f"{tmp_path}/logs.db"):
        connection = connect(f"duckdb://{place}")
        assert fetch(connection.table("bids")).to_pydict() == {"one": [1]}
        with pytest.raises(duckdb.Error, match="read-only"):
            connection.raw_sql("CREATE TABLE other AS SELECT 1")
        connection.disconnect()
    for place, message in (("absent.db", r"absent\.db does not exist"), ("", "is a folder")):
        with pytest.raises(InvalidParameterError, match=message):
            connect(f"duckdb://{tmp_path}/{place}")
    assert [path.name for path in tmp_path.iterdir()] == ["logs.db"]


def test_a_file_that_is_not_a_database_is_refused(tmp_path):
    """The message names the file."""
    (tmp_path / "logs.db").write_text("advertiser_id,day\n" * 1000)
    with pytest.raises(TableError, match=r"logs\.db: DuckDB cannot open"):
        connect(f"duckdb://{tmp_path}/logs.db")


@pytest.mark.parametrize("url", ["", "duckdb", "sqlserver://x", "mysql://me@host/db", "://x"])
def test_an_unknown_engine_is_refused_with_a_list_of_the_known(url):
    """The message lists the URLs that work."""
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
        "postgres://host/shop?password=hunter2",
        "duckdb://?motherduck_token=hunter2",
        "pyspark://host:7077?spark.authenticate=true&spark.ssl.keyPassword=hunter2",
    ],
)
def test_a_url_with_a_secret_is_refused_and_the_secret_is_not_shown(url):
    """The secret is neither in the message nor in a chained exception."""
    with pytest.raises(InvalidParameterError, match="environment") as caught:
        connect(url)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("url", "how", "message"),
    [
        ("duckdb://?thread=2", {}, "unknown setting thread;"),
        ("duckdb://?threads", {}, "name=value"),
        ("postgres://host/shop?ssl=on", {}, "unknown setting ssl; PostgreSQL takes schema, "),
        ("postgres://host/shop/bids", {}, r"its schema by \?schema=NAME"),
        ("postgres://host:port/shop", {}, r"postgres://host:5432/database"),
        ("sqlite://x.db?mode=rw", {}, "unknown setting mode; SQLite takes none"),
        ("sqlite://absent.db", {}, "absent.db does not exist"),
        ("duckdb://?memory_limit=plenty", {}, "DuckDB refuses a setting"),
        ("pyspark://?executor.memory=2g", {}, r"begin with spark\."),
        ("pyspark://", {"memory_limit": "1GB"}, "memory_limit is for DuckDB"),
        ("duckdb://", {"threads": 0}, "threads=0"),
        ("duckdb://", {"threads": True}, "threads=True"),
        (7, {}, "must be a string, got int"),
    ],
)
def test_unusable_settings_are_named(url, how, message):
    """No session is started first."""
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
    """Both are passed to the builder of a new session."""
    asked = {}

    def record(master, settings):
        asked.update(master=master, settings=settings)
        raise InvalidParameterError("far enough")

    monkeypatch.setattr(engines, "_active_session", lambda: None)
    monkeypatch.setattr(engines, "_new_session", record)
    with pytest.raises(InvalidParameterError, match="far enough"):
        connect(f"{url}?spark.executor.memory=2g", threads=threads)
    assert asked == {"master": master, "settings": {"spark.executor.memory": "2g"}}


def test_a_master_other_than_that_of_the_active_session_is_refused(monkeypatch):
    """Spark would continue on the active master without a message."""
    session = SimpleNamespace(conf={"spark.master": "local[4]"})
    monkeypatch.setattr(engines, "_active_session", lambda: session)
    with pytest.raises(InvalidParameterError, match=r"on local\[4\] is active"):
        connect("pyspark://host:7077")


def test_the_python_of_the_executors(monkeypatch):
    """It is named in the URL or the environment; a local session has that of this process."""
    named = {"spark.pyspark.python": "/opt/python"}
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert engines._executor_python("spark://host:7077", named) == "/opt/python"
    assert engines._executor_python("spark://host:7077", {}) is None
    assert engines._executor_python("local[2]", {}) == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "python3.12")
    assert engines._executor_python("local[2]", {}) is None
    assert engines._executor_python("local[2]", named) == "/opt/python"


@pytest.mark.parametrize("url", ["pyspark://host", "pyspark://host:7077/db"])
def test_spark_needs_a_master_and_java(url, monkeypatch):
    """An address that is no master, and a missing Java, are named."""
    pytest.importorskip("pyspark", reason="PySpark is not installed: no session was asked for")
    with pytest.raises(InvalidParameterError, match="not a Spark master"):
        connect(url)
    monkeypatch.setattr(engines, "_active_session", lambda: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingExtraError, match="Java 17"):
        connect("pyspark://")


def test_missing_packages_are_named_with_their_extra(monkeypatch):
    """Every engine needs Ibis; Spark needs PySpark."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtraError, match=r"\[spark\]"):
        connect("pyspark://")
    monkeypatch.setitem(sys.modules, "ibis", None)
    with pytest.raises(MissingExtraError, match=r"\[tables\]"):
        connect("duckdb://")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"\[tables\]"):
        importlib.reload(engines)


def test_a_failing_query_gives_one_short_line():
    """The message of the engine is shortened."""
    table = ibis.memtable(pa.table({"a": ["x" * 5000]}))
    with pytest.raises(TableError, match=r"duckdb cannot read the table: .*x…$") as caught:
        fetch(table.select(b=table.a.cast("int64")))
    assert len(str(caught.value)) < 600


def test_batches_have_every_row():
    """None is larger than asked for; tables in memory are known; errors are those of fetch."""
    rows = pa.table({"a": list(range(5000))})
    with LocalTables(connect(threads=1)) as local:
        for table in (local.add(rows), ibis.memtable(rows)):
            found = list(batches(table.filter(table.a >= 10), 2048))
            assert max(map(len, found)) <= 2048 < sum(map(len, found))
            assert sorted(x for one in found for x in one["a"].to_pylist()) == [*range(10, 5000)]
            with pytest.raises(TableError, match="duckdb cannot read the table"):
                list(batches(table.select(b=table.a.cast("string").cast("date")), 10))


@pytest.mark.parametrize("failure", [None, ValueError])
def test_local_and_kept_tables_are_dropped_at_the_end(failure):
    """They are dropped after a failure, too."""
    connection = connect(threads=1)
    count = "SELECT count(*) FROM duckdb_tables()"
    with contextlib.suppress(ValueError), LocalTables(connection) as local:
        table = local.add(pa.table({"a": [1, 2, 2]}))
        with local.kept(table.distinct()) as kept:
            assert fetch(kept).sort_by("a").to_pydict() == {"a": [1, 2]}
            assert connection.con.sql(count).fetchall() == [(2,)]
        assert connection.con.sql(count).fetchall() == [(1,)]
        with local.kept(table):
            if failure:
                raise failure
    assert connection.con.sql(count).fetchall() == [(0,)]


@pytest.mark.parametrize("name", ["sqlite", "polars"])
def test_tables_of_other_engines_are_copied_to_duckdb(name, tmp_path):
    """They are read as Arrow in batches; the connection of the user is left as it is."""
    connection = engine_with_table(name, pa.table({"a": [1, 2]}), tmp_path)
    with LocalTables(connect(threads=1)) as local:
        copied = in_duckdb(connection.table("t"), local)
        assert computes(copied.get_backend()) and not computes(connection)
        assert fetch(copied)["a"].to_pylist() == [1, 2]
    assert connection.list_tables() == ["t"]
    connection.disconnect()


def test_nothing_is_downloaded_without_being_asked():
    """A remote file needs an extension of DuckDB; the message says how to install it."""
    connection = connect(threads=1)
    for read in (connection.read_csv, connection.read_parquet, by_sql(connection)):
        with (
            pytest.raises(TableError, match=r"extension httpfs, .* being asked: .*INSTALL httpfs"),
            engine_errors("x"),
        ):
            read("http://127.0.0.1:1/bids.csv")


def by_sql(connection):
    return lambda path: connection.con.sql(f"FROM read_csv('{path}')").fetchall()


def test_the_error_of_a_python_worker_is_its_last_line():
    """Spark says only that there was one; the stack trace follows."""
    error = RuntimeError(
        "An exception was thrown from the Python worker. Please see the stack trace below.\n"
        "Traceback (most recent call last):\n  File 'x.py', line 1\nKeyError: 'p'\n"
        "ModuleNotFoundError: No module named 'numpy'\n"
    )
    assert engine_message(error) == "ModuleNotFoundError: No module named 'numpy'"


def test_masking_keeps_the_rest_of_a_text():
    """Only possible secrets are replaced."""
    assert masked("no url here") == "no url here"
    assert masked("to s3://key:x@bucket/a?b=c failed") == "to s3://***@bucket/a?b=c failed"
    assert masked("duckdb://?threads=2&api_key=x y") == "duckdb://?threads=2&api_key=*** y"


def test_only_failures_of_engines_are_table_errors():
    """An interrupted query is a KeyboardInterrupt; any other RuntimeError is raised unchanged."""
    with pytest.raises(TableError, match="x: no such table: t"), engine_errors("x"):
        sqlite3.connect(":memory:").execute("SELECT * FROM t")
    with pytest.raises(AttributeError):
        fetch(None)
    with pytest.raises(KeyboardInterrupt), engine_errors("x"):
        raise RuntimeError("Query interrupted")
    with pytest.raises(RuntimeError), engine_errors("x"):
        raise RuntimeError("a defect")


def test_an_engine_out_of_memory_says_what_to_do():
    """The advice follows the message of the engine."""
    connection = connect(memory_limit="20MB", threads=1)
    connection.con.execute("SET temp_directory = ''")
    with LocalTables(connection) as local:
        numbers = local.add(pa.table({"a": [0]}))
        many = numbers.select(a=ibis.range(3_000_000).unnest()).distinct()
        with pytest.raises(TableError, match=r"Out of Memory.*; raise the memory limit"):
            fetch(many.aggregate(n=many.count()))


def test_a_java_stack_trace_becomes_its_first_and_root_cause():
    """The record that could not be read is left out; without causes the exception is quoted."""
    threw = "An error occurred while calling o171.getResult.\n: org.apache.SparkException: awaited"
    causes = [
        "Caused by: org.apache.spark.SparkException: [READ] Cannot read file:///a.csv. SQLSTATE: 1",
        "Caused by: java.lang.RuntimeException: middle",
        "Caused by: org.x.SparkRuntimeException: [BAD] Malformed CSV record: secret,1 SQLSTATE: 2",
    ]
    stack = "\n".join(f"{line}\n\tat org.apache.spark.Thing(Thing.scala:1)" for line in causes)
    message = engine_message(RuntimeError(f"{threw}\n{stack}"))
    assert message == "[READ] Cannot read file:///a.csv. [BAD] Malformed CSV record"
    assert engine_message(RuntimeError(threw)) == "awaited"
    assert engine_message(RuntimeError(f"{threw}\n{causes[1]}")) == "middle"
