"""Connections to DuckDB and Spark by URL."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace

import duckdb
import pytest

import coterie.engines
from coterie.engines import backends
from coterie.engines.backends import connect
from coterie.engines.queries import fetch
from coterie.errors import InvalidParameterError, MissingExtraError, TableError


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
    monkeypatch.setattr(backends, "available_memory", lambda: free)
    assert str(connect().settings["memory_limit"]) == limit


@pytest.mark.parametrize("relative", [True, False])
def test_a_database_file_is_opened_read_only(tmp_path, monkeypatch, relative):
    """The path may be absolute or relative; writing fails."""
    with duckdb.connect(str(tmp_path / "logs.db")) as database:
        database.execute("CREATE TABLE bids AS SELECT 1 AS one")
    monkeypatch.chdir(tmp_path)
    connection = connect("duckdb://logs.db" if relative else f"duckdb://{tmp_path}/logs.db")
    assert fetch(connection.table("bids")).to_pydict() == {"one": [1]}
    with pytest.raises(duckdb.Error, match="read-only"):
        connection.raw_sql("CREATE TABLE other AS SELECT 1")


def test_a_missing_database_is_not_created(tmp_path):
    """A mistyped name leaves no empty file behind."""
    with pytest.raises(InvalidParameterError, match=r"absent\.db does not exist"):
        connect(f"duckdb://{tmp_path}/absent.db")
    with pytest.raises(InvalidParameterError, match="is a folder"):
        connect(f"duckdb://{tmp_path}")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_a_database_is_refused(tmp_path):
    """The message names the file."""
    (tmp_path / "logs.db").write_text("advertiser_id,day\n" * 1000)
    with pytest.raises(TableError, match=r"logs\.db: DuckDB cannot open"):
        connect(f"duckdb://{tmp_path}/logs.db")


@pytest.mark.parametrize("url", ["", "duckdb", "sqlite://x.db", "mysql://me@host/db", "://x"])
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

    monkeypatch.setattr(backends, "_active_session", lambda: None)
    monkeypatch.setattr(backends, "_new_session", record)
    with pytest.raises(InvalidParameterError, match="far enough"):
        connect(f"{url}?spark.executor.memory=2g", threads=threads)
    assert asked == {"master": master, "settings": {"spark.executor.memory": "2g"}}


def test_a_master_other_than_that_of_the_active_session_is_refused(monkeypatch):
    """Spark would continue on the active master without a message."""
    session = SimpleNamespace(conf={"spark.master": "local[4]"})
    monkeypatch.setattr(backends, "_active_session", lambda: session)
    with pytest.raises(InvalidParameterError, match=r"on local\[4\] is active"):
        connect("pyspark://host:7077")


def test_the_python_of_the_executors(monkeypatch):
    """It is named in the URL or the environment; a local session has that of this process."""
    named = {"spark.pyspark.python": "/opt/python"}
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert backends._executor_python("spark://host:7077", named) == "/opt/python"
    assert backends._executor_python("spark://host:7077", {}) is None
    assert backends._executor_python("local[2]", {}) == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "python3.12")
    assert backends._executor_python("local[2]", {}) is None
    assert backends._executor_python("local[2]", named) == "/opt/python"


@pytest.mark.parametrize("url", ["pyspark://host", "pyspark://host:7077/db"])
def test_spark_needs_a_master_and_java(url, monkeypatch):
    """An address that is no master, and a missing Java, are named."""
    pytest.importorskip("pyspark", reason="PySpark is not installed: no session was asked for")
    with pytest.raises(InvalidParameterError, match="not a Spark master"):
        connect(url)
    monkeypatch.setattr(backends, "_active_session", lambda: None)
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
        importlib.reload(coterie.engines)
