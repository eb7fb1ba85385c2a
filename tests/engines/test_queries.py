"""Queries, temporary tables, and errors of engines."""

from __future__ import annotations

import contextlib
import sqlite3

import ibis
import pyarrow as pa
import pytest

from coterie.engines.backends import connect
from coterie.engines.queries import (
    LocalTables,
    batches,
    engine_errors,
    engine_message,
    fetch,
    masked,
    stream,
)
from coterie.errors import TableError
from engine_tables import engine_with_table

# Ibis asks pandas for an option that is going away
pytestmark = pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")


def test_a_failing_query_gives_one_short_line():
    """The message of the engine is shortened."""
    table = ibis.memtable(pa.table({"a": ["x" * 5000]}))
    with pytest.raises(TableError, match=r"duckdb cannot read the table: .*x…$") as caught:
        fetch(table.select(b=table.a.cast("int64")))
    assert len(str(caught.value)) < 600


def test_an_error_of_the_caller_keeps_its_type():
    """Only exceptions of engines become table errors."""
    with pytest.raises(AttributeError):
        fetch(None)


def test_a_stream_gives_every_row_in_batches():
    """No batch is larger than asked for; errors are those of fetch."""
    with LocalTables(connect(threads=1)) as local:
        table = local.add(pa.table({"a": list(range(5000))}))
        found = list(stream(table.filter(table.a >= 10), 2048))
        assert max(batch.num_rows for batch in found) <= 2048 < sum(map(len, found))
        assert sorted(x for batch in found for x in batch["a"].to_pylist()) == [*range(10, 5000)]
        with pytest.raises(TableError, match="duckdb cannot read the table"):
            list(stream(table.select(b=table.a.cast("string").cast("date")), 10))


def test_batches_have_every_row_of_a_table_in_memory():
    """DuckDB is told of the table first; no batch is larger than asked for."""
    table = ibis.memtable(pa.table({"a": list(range(5000))}))
    found = list(batches(table.filter(table.a >= 10).order_by("a"), 2048))
    assert max(map(len, found)) <= 2048
    assert [x for batch in found for x in batch["a"].to_pylist()] == [*range(10, 5000)]


@pytest.mark.parametrize("failure", [None, ValueError])
def test_local_tables_are_dropped_at_the_end(failure):
    """They are dropped after a failure, too."""
    connection = connect(threads=1)
    count = "SELECT count(*) FROM duckdb_tables()"
    with contextlib.suppress(ValueError), LocalTables(connection) as local:
        table = local.add(pa.table({"a": [1, 2]}))
        assert fetch(table)["a"].to_pylist() == [1, 2]
        assert connection.con.sql(count).fetchall() == [(1,)]
        if failure:
            raise failure
    assert connection.con.sql(count).fetchall() == [(0,)]


@pytest.mark.parametrize("kind", ["int64", "timestamp"])
def test_sqlite_is_read_in_batches(kind, tmp_path):
    """Rows come by a cursor if SQLite has their types; other values are converted by Ibis."""
    connection = engine_with_table("sqlite", pa.table({"a": list(range(100))}), tmp_path)
    table = connection.table("t")
    batches = list(stream(table.select(a=table.a.cast(kind)), 30))
    assert [batch.num_rows for batch in batches] == [30, 30, 30, 10]
    assert batches[0].schema.field("a").type == (
        pa.int64() if kind == "int64" else pa.timestamp("us")
    )
    connection.disconnect()


@pytest.mark.parametrize("name", ["duckdb", "sqlite", "polars"])
def test_a_kept_table_is_dropped_at_the_end(name, tmp_path):
    """It is dropped after a failure, too."""
    connection = engine_with_table(name, pa.table({"a": [1, 2, 2]}), tmp_path)
    table = connection.table("t")
    counted = table.group_by("a").agg(n=table.count())
    with (
        pytest.raises(ValueError, match="a defect"),
        LocalTables(connection) as local,
        local.kept(counted) as kept,
    ):
        assert fetch(kept).sort_by("a").to_pydict() == {"a": [1, 2], "n": [1, 2]}
        raise ValueError("a defect")
    with pytest.raises(Exception, match=kept.get_name().rpartition(".")[2]):
        connection.to_pyarrow(kept)
    connection.disconnect()


def test_tables_copied_to_sqlite_are_dropped_at_the_end(tmp_path):
    """A connection of the user keeps only its own tables."""
    connection = engine_with_table("sqlite", pa.table({"a": [1, 2]}), tmp_path)
    with LocalTables(connection) as local:
        rows = connection.table("t").inner_join(local.add(pa.table({"b": [2]})), [("a", "b")])
        assert fetch(rows)["a"].to_pylist() == [2]
    assert connection.list_tables() == ["t"]
    connection.disconnect()


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


def test_an_interrupted_query_is_a_keyboard_interrupt():
    """Any other RuntimeError is raised unchanged."""
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


def test_errors_of_other_ibis_engines_are_engine_errors():
    """SQLite is one of them."""
    with pytest.raises(TableError, match="x: no such table: t"), engine_errors("x"):
        sqlite3.connect(":memory:").execute("SELECT * FROM t")
