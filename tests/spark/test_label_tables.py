"""Label tables on a local Spark cluster give the results of DuckDB and of memory."""

from __future__ import annotations

import logging
import threading
import venv
from dataclasses import replace
from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie import RobustConsensus, planted_partitions
from coterie.errors import InvalidLabelsError, OutputError, TableError
from coterie.tables import consensus as table_consensus
from coterie.tables.consensus import (
    AssignmentRule,
    consensus_table,
    count_rows,
    fit_tuples,
    write_labels,
)
from coterie.tables.engines import LocalTables
from coterie.tables.keys import pack_labels
from coterie.tables.writing import TableOutput
from engine_tables import mixed_labels

#: With a seed, because labels of several runs are compared.
consensus_table = partial(consensus_table, random_state=0)

STREAMED = {"n_clusters": 3, "ids": "id", "max_tuples": 40, "sample_size": 100}

pytestmark = [
    # PySpark does not close its sockets
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture
def table(tmp_path) -> pa.Table:
    """Write integers, text, floats and distant integers with missing labels to two files."""
    table = pa.table(mixed_labels())
    (tmp_path / "in").mkdir()
    pq.write_table(table[:250], tmp_path / "in" / "a.parquet")
    pq.write_table(table[250:], tmp_path / "in" / "b [1].parquet")
    return table


def views_of(spark) -> set[str]:
    """Return the names of the tables and views of the session."""
    return {view.name for view in spark._session.catalog.listTables()}


def test_the_tuples_path_equals_duckdb_and_memory(spark, table, tmp_path):
    """All three give every row the same label and margin; Spark writes a folder."""
    how = {"n_clusters": 3, "ids": "id"}
    there = consensus_table(tmp_path / "in", engine=spark, out=tmp_path / "spark", **how)
    here = consensus_table(tmp_path / "in", out=tmp_path / "duckdb.parquet", **how)
    expected = RobustConsensus(3, random_state=0).fit(table.drop_columns("id"))
    for found in (there, here):
        rows = pq.read_table(found.out).sort_by("id")
        assert rows["label"].to_pylist() == expected.labels_.tolist()
        np.testing.assert_allclose(rows["margin"].to_numpy(), expected.margin_)
        assert (found.path, found.n_tuples) == ("tuples", expected.n_tuples_)
    assert there.engine == "pyspark" and there.bytes_written > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["duckdb.parquet", "in", "spark"]


@pytest.mark.parametrize(("path", "few"), [("streamed", 0.25), ("grouped", 1.0)])
def test_sweeps_equal_those_of_duckdb(spark, table, tmp_path, monkeypatch, path, few):
    """Sample, sweeps and labels are the same in both engines; no view stays in the session."""
    monkeypatch.setattr(table_consensus, "_FEW_TUPLES", few)
    views = views_of(spark)
    there = consensus_table(tmp_path / "in", engine=spark, out=tmp_path / "spark", **STREAMED)
    here = consensus_table(tmp_path / "in", out=tmp_path / "duckdb", **STREAMED)
    assert there.path == here.path == path
    assert there.n_fitted == here.n_fitted and there.sweeps == here.sweeps
    assert there.mean_margin == pytest.approx(here.mean_margin, rel=1e-12)
    rows = [pq.read_table(found.out).sort_by("id") for found in (there, here)]
    assert rows[0].to_pydict() == rows[1].to_pydict()
    assert views_of(spark) == views


def test_a_refused_table_writes_nothing(spark, table, tmp_path):
    """A bad label and a file in place of the output folder are refused."""
    bad = tmp_path / "bad.parquet"
    pq.write_table(pa.table({"id": [0, 1], "p": [0.5, 1.0]}), bad)
    with pytest.raises(InvalidLabelsError, match=r"'p' has .*labels .* such as 0\.5"):
        consensus_table(bad, n_clusters=1, ids="id", engine=spark, out=tmp_path / "out")
    with pytest.raises(OutputError, match="Spark writes folders"):
        consensus_table(tmp_path / "in", n_clusters=3, engine=spark, out=bad)
    assert not (tmp_path / "out").exists()


def test_a_view_of_the_session_is_a_table(spark, table):
    """A view is found by its name, and parse_text reads its text as in a CSV file."""
    rows = [(i, "1" if i < 6 else "2", "NA" if i == 3 else "x" if i < 6 else "y") for i in range(9)]
    spark._session.createDataFrame(rows, "id long, a string, b string").createTempView("votes")
    found = consensus_table("votes", n_clusters=2, ids="id", engine=spark, parse_text=True)
    assert (found.n_tuples, found.sizes.tolist()) == (3, [6, 3])
    assert found.source == "table votes"


def test_columns_of_several_files_are_matched_by_name(spark, tmp_path):
    """Text files may have any order of columns; a Parquet file that lacks a column is refused."""
    (tmp_path / "a.csv").write_text("id,p,q\n#1,a,x\n2,b,y\n")
    (tmp_path / "b [1].csv").write_text("q;p;id\nx;a;3\ny;b;4\n")
    files = [tmp_path / "a.csv", tmp_path / "b [1].csv"]
    found = consensus_table(files, n_clusters=2, ids="id", engine=spark)
    assert (found.n_tuples, found.sizes.tolist()) == (2, [2, 2])
    pq.write_table(pa.table({"p": [0, 1], "q": [0, 1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"p": [0, 1]}), tmp_path / "b [1].parquet")
    folder = tmp_path / "both"
    folder.mkdir()
    for name in ("a.parquet", "b [1].parquet"):
        (tmp_path / name).rename(folder / name)
    for source in (folder, folder.as_uri()):
        with pytest.raises(TableError, match=r"b \[1\]\.parquet: .* differ .*: it lacks q"):
            consensus_table(source, n_clusters=2, engine=spark)


def test_a_damaged_row_is_reported_with_its_file(spark, tmp_path):
    """The message names the file."""
    (tmp_path / "a.csv").write_text("id,p,q\n1,a,x\n2,a\n")
    with pytest.raises(TableError, match=r"a\.csv.*Malformed CSV record$"):
        consensus_table(tmp_path / "a.csv", n_clusters=1, ids="id", engine=spark)


def test_a_table_that_changes_is_refused(spark, tmp_path):
    """A sweep and the written rows are compared with the number of rows."""
    rows = pa.table({"id": range(400), "p": [7, 8] * 200})
    with LocalTables(spark) as local:
        there = local.add(rows)
        table = replace(pack_labels(there, ["p"], "rows", local.add, ["id"]), n_rows=401)
        fitted = fit_tuples(
            RobustConsensus(2, random_state=0), table.layout, table.sample_tuples(1.0)
        )
        rule = AssignmentRule.of(fitted, table.layout)
        with pytest.raises(TableError, match=r"had 401 rows .* and 400 when"):
            count_rows(table, rule)
        output = TableOutput(tmp_path / "out", is_folder=True)
        with pytest.raises(TableError, match="had 401 rows"), output.unfinished() as folder:
            write_labels(table, rule, output, folder)
        assert not output.path.exists()


def test_ids_of_any_type_are_copied(spark, tmp_path):
    """Values go through the executors unchanged, NULL included."""
    rng = np.random.default_rng(0)
    P, _ = planted_partitions([120, 80], 6, 1, 0.2, random_state=0)
    n = len(P)
    ids = {
        "id": pa.array(range(n)),
        "name of it's": pa.array([None if i % 7 == 0 else f"ü{i}" for i in range(n)]),
        "at": pa.array(rng.integers(0, 10**15, n), pa.timestamp("us", "UTC")),
        "day": pa.array(rng.integers(0, 10**4, n).astype(np.int32), pa.date32()),
        "price": pa.array([Decimal(i) / 8 for i in range(n)], pa.decimal128(12, 3)),
        "is.new": pa.array(rng.random(n) < 0.5),
        "tags": pa.array([["a", str(i)] for i in range(n)]),
        "raw": pa.array([bytes([i % 256]) for i in range(n)]),
    }
    rows = pa.table(ids | {f"p{v}": P[:, v] for v in range(6)})
    pq.write_table(rows, tmp_path / "t.parquet")
    how = {"n_clusters": 2, "ids": list(ids), "max_tuples": 5, "sample_size": 50}
    found = consensus_table(tmp_path / "t.parquet", engine=spark, out=tmp_path / "out", **how)
    out = pq.read_table(found.out).sort_by("id")
    assert out.column_names == [*ids, "label", "margin"]
    for name in ids:
        assert out[name].cast(rows[name].type).equals(rows[name]), name


def test_a_python_without_coterie_is_named(spark, table, tmp_path, monkeypatch):
    """The message says what to install where; nothing is written."""
    bare = tmp_path / "bare"
    venv.create(bare, symlinks=True)
    monkeypatch.setattr(spark._session.sparkContext, "pythonExec", str(bare / "bin" / "python"))
    with pytest.raises(TableError, match=r"No module named .* executors needs coterie and PyArrow"):
        consensus_table(tmp_path / "in", engine=spark, out=tmp_path / "out", **STREAMED)
    assert not (tmp_path / "out").exists()


# this test is the last, because only one worker is left
def test_a_killed_worker_changes_nothing(spark, cluster, table, tmp_path, monkeypatch, caplog):
    """Tasks of a worker that dies in a sweep are repeated by the other one."""
    monkeypatch.setattr(table_consensus, "_FEW_TUPLES", 1.0)
    here = consensus_table(tmp_path / "in", out=tmp_path / "duckdb", **STREAMED)
    killed = []

    class Killer(logging.Handler):
        def emit(self, record):
            if record.getMessage().startswith("sweep 2") and not killed:
                killed.append(threading.Timer(0.2, cluster.kill_worker))
                killed[0].start()

    log, killer = logging.getLogger("coterie"), Killer()
    log.addHandler(killer)
    try:
        with caplog.at_level(logging.INFO, logger="coterie"):
            there = consensus_table(
                tmp_path / "in", engine=spark, out=tmp_path / "spark", **STREAMED
            )
    finally:
        log.removeHandler(killer)
    killed[0].join()
    cluster.workers[-1].wait(60)
    assert [one.poll() is None for one in cluster.workers] == [True, False]
    assert there.path == here.path == "grouped" and there.sweeps == here.sweeps
    rows = [pq.read_table(found.out).sort_by("id") for found in (there, here)]
    assert rows[0].to_pydict() == rows[1].to_pydict()
