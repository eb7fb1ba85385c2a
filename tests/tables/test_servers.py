"""Tables of PostgreSQL and SQLite give what the same rows in a file give."""

from __future__ import annotations

import sqlite3
import sys
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from coterie.cli.program import app
from coterie.errors import InvalidLabelsError, InvalidParameterError, MissingExtraError, TableError
from coterie.tables.consensus import consensus_table
from coterie.tables.engines import connect, fetch, source_tables
from engine_tables import engine_with_table, mixed_labels
from postgres_server import load, run

#: With a seed, because labels of several runs are compared.
consensus_table = partial(consensus_table, random_state=0)


@pytest.fixture
def account(server, monkeypatch):
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server


@pytest.fixture
def rows() -> pa.Table:
    """Integers, text, floats and distant integers with missing labels."""
    columns = mixed_labels()
    columns["p5"] = [None if x < 0 else bool(x) for x in columns["p5"]]
    return pa.table(columns)


def test_credentials_come_from_the_environment(account, database, monkeypatch):
    """A URL has a host, a port, a database and a schema; the account may be in it."""
    load(database, "bids", pa.table({"x": [1, None]}))
    run(database, "CREATE SCHEMA IF NOT EXISTS other", "CREATE TABLE other.log AS SELECT 7 AS y")
    for url in (account.url, account.url.replace("//", f"//{account.user}@"), "postgresql://"):
        if url == "postgresql://":
            monkeypatch.setenv("PGHOST", "127.0.0.1")
            monkeypatch.setenv("PGPORT", str(account.port))
            monkeypatch.setenv("PGDATABASE", "postgres")
        connection = connect(url, threads=1)
        assert connection.name == "duckdb" and "bids" in source_tables(connection)
        assert fetch(connection.table("bids")).to_pydict() == {"x": [1, None]}
    connection = connect(f"{account.url}?schema=other", memory_limit="1GB")
    assert source_tables(connection) == ["log"]
    assert fetch(connection.table("log")).to_pydict() == {"y": [7]}
    with pytest.raises(InvalidParameterError, match="no such schema"):
        connect(f"{account.url}?schema=nowhere")


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


@pytest.mark.parametrize(("scheme", "driver"), [("postgres", "postgresql"), ("sqlite", "sqlite")])
def test_a_missing_driver_is_named(scheme, driver, monkeypatch):
    """The message has the command."""
    monkeypatch.setitem(sys.modules, f"adbc_driver_{driver}", None)
    with pytest.raises(MissingExtraError, match=f"pip install adbc-driver-{driver}"):
        connect(f"{scheme}://host/shop")


def test_tables_of_a_sqlite_file(rows, tmp_path):
    """A table is found by its name; the file is opened read-only and stays as it is."""
    few = rows.drop_columns("p5")
    engine_with_table("sqlite", few, tmp_path).disconnect()
    before = (tmp_path / "t.db").read_bytes()
    pq.write_table(few, tmp_path / "t.parquet")
    url = f"sqlite://{tmp_path}/t.db"
    how = {"n_clusters": 3, "ids": "id", "threads": 1}
    found = consensus_table("t", engine=url, out=tmp_path / "there.parquet", **how)
    consensus_table(tmp_path / "t.parquet", out=tmp_path / "here.parquet", **how)
    written = [
        pq.read_table(tmp_path / f"{one}.parquet").sort_by("id") for one in ("there", "here")
    ]
    assert written[0].to_pydict() == written[1].to_pydict()
    assert (found.engine, found.source) == ("duckdb", "table t")
    assert (tmp_path / "t.db").read_bytes() == before
    with sqlite3.connect(tmp_path / "bad.db") as database:
        database.execute("CREATE VIEW v AS SELECT * FROM absent")
    with pytest.raises(TableError, match=r"table v cannot be read: .*no such table"):
        connect(f"sqlite://{tmp_path}/bad.db").table("v")


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"max_tuples": 40, "sample_size": 100}])
def test_label_tables_of_a_server_equal_those_of_a_file(account, database, rows, tmp_path, how):
    """Labels, margins and counts are equal; nothing is created on the server."""
    pq.write_table(rows, tmp_path / "labels.parquet")
    load(database, "votes", rows)
    how = {"n_clusters": 3, "ids": "id", **how}
    here = consensus_table(tmp_path / "labels.parquet", out=tmp_path / "here.parquet", **how)
    there = consensus_table("votes", engine=account.url, out=tmp_path / "there.parquet", **how)
    written = [pq.read_table(found.out).sort_by("id") for found in (here, there)]
    assert written[0].to_pydict() == written[1].to_pydict()
    assert (there.path, there.sweeps, there.n_tuples) == (here.path, here.sweeps, here.n_tuples)
    with database.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relname LIKE '%coterie%'")
        assert cursor.fetchall() == []


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("text", "'é' || i", ["é1", "é2"]),
        ("varchar(9)", "'u' || i", ["u1", "u2"]),
        ("uuid", "md5('a')::uuid", ["0cc175b9-c0f1-b6a8-31c3-99e269772661"] * 2),
        ("numeric", "i / 4.0", ["0.25", "0.5"]),
        ("numeric(10, 2)", "i / 4.0", ["0.25", "0.50"]),
        ("date", "date '2026-01-01' + i", ["2026-01-02", "2026-01-03"]),
        (
            "timestamptz",
            "timestamptz '2026-01-01 UTC' + i * interval '1 s'",
            ["2026-01-01 00:00:01+00:00", "2026-01-01 00:00:02+00:00"],
        ),
        ("boolean", "i = 1", ["True", "False"]),
        ("real", "i / 2.0", ["0.5", "1.0"]),
        ("int[]", "array[i]", ["{1}", "{2}"]),
        ("mood", "'ok'", ["ok", "ok"]),
    ],
)
def test_columns_of_many_types_are_read(account, database, kind, value, expected):
    """Types that Arrow does not have are read as text, and decimals as numbers."""
    run(
        database,
        "DROP TABLE IF EXISTS one",
        "DROP TYPE IF EXISTS mood",
        "CREATE TYPE mood AS ENUM ('ok')",
        f'CREATE TABLE one ("the value" {kind})',
        f"INSERT INTO one SELECT {value} FROM generate_series(1, 2) i",
        "INSERT INTO one VALUES (NULL)",
    )
    found = fetch(connect(account.url, threads=1).table("one"))
    *values, missing = found["the value"].to_pylist()
    assert [str(one) for one in values] == expected and missing is None


def test_bad_labels_are_refused(account, database, tmp_path):
    """A fraction that a decimal of 15 or 6 digits would lose is seen."""
    for kind, value in (("double precision", "4503599627370495.5"), ("real", "1234567.5")):
        run(
            database,
            "DROP TABLE IF EXISTS bad",
            f"CREATE TABLE bad AS SELECT 1 AS id, {value}::{kind} AS p",
        )
        with pytest.raises(InvalidLabelsError, match="not integers"):
            consensus_table("bad", None, 1, engine=account.url, ids="id", out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_program_finds_a_table_by_its_name(account, database, tmp_path):
    """Texts are read as in a CSV file; names of tables are exact."""
    rows = {"id": range(9), "a": list("111111222"), "b": [*"xxx", "NA", *"xxyyy"]}
    load(database, "few votes", pa.table(rows))
    words = ["consensus", "few votes", "--engine", account.url, "--id", "id", "-k", "2"]
    done = CliRunner().invoke(app, [*words, "-o", str(tmp_path / "out.parquet")])
    assert done.exit_code == 0, done.output
    found = pq.read_table(tmp_path / "out.parquet").sort_by("id")["label"].to_pylist()
    assert found == [0] * 6 + [1] * 3
    with pytest.raises(TableError, match="Votes: there is no such file or table"):
        consensus_table("Votes", engine=account.url, n_clusters=2)
