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
