"""Connections to PostgreSQL, and expressions that mean there what they mean in DuckDB."""

from __future__ import annotations

import sys

import ibis
import pyarrow as pa
import pytest

from coterie.engines.backends import connect
from coterie.engines.queries import LocalTables, fetch
from coterie.errors import InvalidParameterError, MissingExtraError, TableError
from postgres_server import load


def same(rows: pa.Table, database, make) -> list:
    """Return the rows of an expression in both engines after they were found equal."""
    expressions = [make(ibis.memtable(rows)), make(load(database, "given", rows))]
    here, there = (fetch(one).to_pylist() for one in expressions)
    assert sorted(map(str, here)) == sorted(map(str, there))
    return there


def test_credentials_come_from_the_environment(server, monkeypatch):
    """A URL has a host, a port, a database and a schema; the account may be in it."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    for url in (server.url, server.url.replace("//", f"//{server.user}@"), "postgresql://"):
        if url == "postgresql://":
            monkeypatch.setenv("PGHOST", "127.0.0.1")
            monkeypatch.setenv("PGPORT", str(server.port))
            monkeypatch.setenv("PGDATABASE", "postgres")
        connection = connect(url)
        assert (connection.name, connection.current_database) == ("postgres", "public")
        connection.raw_sql("CREATE SCHEMA IF NOT EXISTS other")
        connection.disconnect()
    connection = connect(f"{server.url}?schema=other")
    assert connection.current_database == "other"
    connection.disconnect()
    with pytest.raises(InvalidParameterError, match="no such schema"):
        connect(f"{server.url}?schema=nowhere")


def test_a_refused_connection_is_one_line_without_the_password(server, monkeypatch):
    """Wrong passwords, hosts, ports and databases are named; passwords are not."""
    monkeypatch.setenv("PGUSER", server.user)
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    wrong = {
        server.url: "password authentication failed",
        "postgres://nowhere.invalid/shop": "nowhere.invalid",
        "postgres://127.0.0.1:1/shop": "refused",
    }
    for url, match in wrong.items():
        with pytest.raises(InvalidParameterError, match=match) as caught:
            connect(url)
        assert "hunter2" not in str(caught.value) and "\n" not in str(caught.value)
    monkeypatch.setenv("PGPASSWORD", server.password)
    with pytest.raises(InvalidParameterError, match=r"nothing.* does not exist"):
        connect(server.url.removesuffix("postgres") + "nothing")


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("postgres://me:secret@host/shop", r"must not hold a password"),
        ("postgres://host/shop?password=secret", r"must not hold a password"),
        ("postgres://host/shop/bids", r"its schema by \?schema=NAME"),
        ("postgres://host:port/shop", r"postgres://host:5432/database"),
        ("postgres://host/shop?ssl=on", r"unknown setting ssl; PostgreSQL takes schema, .* and"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused(url, match):
    """No secret is repeated."""
    with pytest.raises(InvalidParameterError, match=match) as caught:
        connect(url)
    assert "secret" not in str(caught.value)


def test_limits_of_duckdb_are_refused():
    """The server has its own."""
    with pytest.raises(InvalidParameterError, match="are for DuckDB"):
        connect("postgres://host/shop", memory_limit="1GB")


def test_a_missing_driver_is_named_with_its_extra(monkeypatch):
    """The message has the command."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'psycopg\[binary\]'"):
        connect("postgres://host/shop")


def test_text_is_ordered_by_its_bytes(database):
    """The server of these tests orders like a dictionary."""
    rows = pa.table({"text": ["b", "A", "a", "B", "é", None]})
    ordered = load(database, "words", rows).order_by("text")
    assert fetch(ordered)["text"].to_pylist() == ["A", "B", "a", "b", "é", None]


def test_halves_are_rounded_away_from_zero(database):
    """Large numbers keep all digits, and a fraction of them is not lost."""
    halves = [0.5, -0.5, 1.5, 2.5, 0.49999999999999994, 4503599627370495.5, 9007199254740991.0]
    rows = pa.table({"x": [*halves, None]})
    found = same(rows, database, lambda t: t.select(x=t.x.round().cast("int64"), rest=t.x % 1))
    assert [row["x"] for row in found[:4]] == [1, -1, 2, 3]
    assert found[5]["rest"] == 0.5


def test_texts_that_are_no_numbers_or_days_are_null(database):
    """A cast is tried, and no text ends the query."""
    texts = ["7", " 8 ", "", "x", "9" * 30, "1e5", "1e999", ".5", "NaN", "2024-02-29"]
    texts += ["2026-02-29", "1900-02-29", "2000-02-29", "2026-13-01", "2026-04-31", "today", None]
    rows = pa.table({"t": pa.array(texts)})
    plain = r"^[-0-9. e]*$"  # what columns of a log let through
    found = same(
        rows,
        database,
        lambda table: table.select(
            "t",
            day=table.t.try_cast("date"),
            number=table.t.re_search(plain)
            .ifelse(table.t.re_search("999").ifelse(None, table.t), None)
            .try_cast("float64"),
        ),
    )
    assert sum(row["day"] is not None for row in found) == 2


def test_groups_of_a_pattern_are_empty_if_they_are_not_there(database):
    """A text that does not match has empty groups, a null has none."""
    rows = pa.table({"t": ["12:30", "12", "x", "\u00a012", None]})

    def make(table):
        pattern = r"^\s*([0-9]+)(:[0-9]+)?"
        return table.select(g1=table.t.re_extract(pattern, 1), g2=table.t.re_extract(pattern, 2))

    assert {"g1": "12", "g2": ""} in same(rows, database, make)


def test_small_tables_are_copied_and_dropped(server, database):
    """Text with tabs and backslashes arrives as it is; nothing stays in the database."""
    rows = pa.table({"text": ["a\tb", "\\N", "", "two\nlines", None], "n": [1, 2, 3, 4, None]})
    with LocalTables(database) as local:
        assert fetch(local.add(rows)).to_pylist() == rows.to_pylist()
    left = "SELECT relname FROM pg_class WHERE relname LIKE '%coterie%' OR relname LIKE '%ibis%'"
    assert database.raw_sql(left).fetchall() == []


def test_an_account_that_may_not_create_gives_a_plain_error(server, database):
    """Reading needs no right but to read; a temporary table needs one more."""
    load(database, "readable", pa.table({"x": [1, 2]}))
    database.raw_sql("REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC")
    database.raw_sql("DROP ROLE IF EXISTS reader")
    database.raw_sql("CREATE ROLE reader LOGIN PASSWORD 'r'")
    database.raw_sql("GRANT SELECT ON readable TO reader")
    reader = server.connect(user="reader", password="r")
    try:
        assert fetch(reader.table("readable")).num_rows == 2
        with (
            LocalTables(reader) as local,
            pytest.raises(TableError, match=r"right TEMPORARY.*permission denied"),
        ):
            local.add(pa.table({"x": [1]}))
    finally:
        reader.disconnect()
        database.raw_sql("REVOKE ALL ON readable FROM reader")
        database.raw_sql("DROP ROLE reader")
        database.raw_sql("GRANT TEMPORARY ON DATABASE postgres TO PUBLIC")
