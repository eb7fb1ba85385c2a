"""Label tables in PostgreSQL give the results of DuckDB and of memory."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from coterie import RobustConsensus
from coterie.cli.program import app
from coterie.engines.label_tables import consensus_table
from coterie.errors import InvalidLabelsError, TableError
from engine_tables import mixed_labels
from postgres_server import load

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    """Integers, text, floats and distant integers with missing labels."""
    columns = mixed_labels()
    columns["p5"] = [None if x < 0 else bool(x) for x in columns["p5"]]
    return pa.table(columns)


@pytest.mark.parametrize("how", [{}, {"max_tuples": 40, "sample_size": 100}])
def test_both_paths_equal_duckdb(database, rows, tmp_path, how):
    """Labels, margins and counts are equal; nothing stays in the database."""
    pq.write_table(rows, tmp_path / "labels.parquet")
    how = {"n_clusters": 3, "ids": "id", **how}
    here = consensus_table(tmp_path / "labels.parquet", out=tmp_path / "here.parquet", **how)
    table = load(database, "votes", rows)
    there = consensus_table(table, out=tmp_path / "there.parquet", **how)
    written = [pq.read_table(found.out).sort_by("id") for found in (here, there)]
    assert written[0].to_pydict() == written[1].to_pydict()
    assert (there.engine, there.path, there.sweeps) == ("postgres", here.path, here.sweeps)
    assert (there.n_tuples, there.sizes.tolist()) == (here.n_tuples, here.sizes.tolist())
    if here.path == "tuples":
        expected = RobustConsensus(3, random_state=0).fit(rows.drop_columns("id"))
        assert written[1]["label"].to_pylist() == expected.labels_.tolist()
    left = "SELECT relname FROM pg_class WHERE relname LIKE '%coterie%' OR relname LIKE '%ibis%'"
    assert database.raw_sql(left).fetchall() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("text", "'u' || i"),
        ("varchar(9)", "'u' || i"),
        ("uuid", "md5(i::text)::uuid"),
        ("numeric", "i / 3.0"),
        ("numeric(10, 2)", "i / 3.0"),
        ("date", "date '2026-01-01' + i"),
        ("timestamptz", "timestamptz '2026-01-01' + i * interval '1 s'"),
        ("mood", "'ok'"),
    ],
)
@pytest.mark.parametrize("how", [{}, {"max_tuples": 2, "sample_size": 3}])
def test_ids_of_many_types_are_written(database, tmp_path, kind, value, how):
    """Types that Arrow does not have are written as text."""
    database.raw_sql(
        "DROP TABLE IF EXISTS ids; DROP TYPE IF EXISTS mood; CREATE TYPE mood AS ENUM ('ok'); "
        f"CREATE TABLE ids AS SELECT ({value})::{kind} AS id, i % 3 AS p, (i % 3)::text AS q, "
        "'ok'::mood AS r FROM generate_series(1, 60) i"
    )
    out = tmp_path / "out.parquet"
    found = consensus_table(database.table("ids"), None, 3, ids="id", out=out, **how)
    written = [str(one) for one in pq.read_table(out)["id"].to_pylist()]
    there = database.raw_sql("SELECT id::text FROM ids").fetchall()
    assert found.sizes.tolist() == [20, 20, 20]
    assert sorted(one.removesuffix("+00:00") for one in written) == sorted(
        one.removesuffix("+00") for (one,) in there
    )


def test_bad_labels_are_refused(database, tmp_path):
    """A fraction that a decimal of 15 or 6 digits would lose is seen."""
    for kind, value in (("double precision", "4503599627370495.5"), ("real", "1234567.5")):
        database.raw_sql(
            "DROP TABLE IF EXISTS bad; CREATE TABLE bad AS "
            f"SELECT i AS id, {value}::{kind} AS p FROM generate_series(1, 3) i"
        )
        with pytest.raises(InvalidLabelsError, match="not integers"):
            consensus_table(database.table("bad"), n_clusters=1, ids="id", out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_program_finds_a_table_by_its_name(server, database, tmp_path, monkeypatch):
    """Texts are read as in a CSV file; names of tables are exact."""
    rows = {"id": range(9), "a": list("111111222"), "b": [*"xxx", "NA", *"xxyyy"]}
    load(database, "few votes", pa.table(rows))
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    words = ["consensus", "few votes", "--engine", server.url, "--id", "id", "-k", "2"]
    done = CliRunner().invoke(app, [*words, "-o", str(tmp_path / "out.parquet")])
    assert done.exit_code == 0, done.output
    found = pq.read_table(tmp_path / "out.parquet").sort_by("id")["label"].to_pylist()
    assert found == [0] * 6 + [1] * 3
    with pytest.raises(TableError, match="Votes: there is no such file or table"):
        consensus_table("Votes", engine=server.url, n_clusters=2)
