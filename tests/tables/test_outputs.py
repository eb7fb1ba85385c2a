"""Outputs that are written completely or not at all, and what killed processes leave."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie import planted_partitions
from coterie.errors import OutputError
from coterie.tables import consensus, outputs
from coterie.tables.consensus import consensus_table
from coterie.tables.outputs import PartWriter, TableOutput, plan_output
from engine_tables import engine_with_table

#: With a seed, because labels of several runs are compared.
consensus_table = partial(consensus_table, random_state=0)

STREAMED = {"max_tuples": 40, "sample_size": 100}
GROUPED = {"max_tuples": 39, "sample_size": 100}


@pytest.fixture
def source(tmp_path):
    """Write a table to its own folder."""
    P, _ = planted_partitions([300, 200, 100], 8, 2, 0.15, random_state=0)
    (tmp_path / "in").mkdir()
    columns = {"id": list(range(600))} | {f"p{v}": P[:, v] for v in range(8)}
    pq.write_table(pa.table(columns), tmp_path / "in" / "labels.parquet")
    return tmp_path / "in" / "labels.parquet"


@pytest.mark.parametrize(("how", "name"), [({}, "out.d/"), (STREAMED, "out")])
def test_a_folder_holds_what_the_file_holds(how, name, source, tmp_path, monkeypatch):
    """A name without suffix or with a final slash is a folder; it may have several parts."""
    monkeypatch.setattr(outputs, "_ROWS_A_PART", 100)
    settings = {"n_clusters": 3, "ids": "id", **how}
    in_file = consensus_table(source, out=tmp_path / "out.parquet", **settings)
    in_folder = consensus_table(source, out=f"{tmp_path}/{name}", **settings)
    rows = pq.read_table(in_folder.out).sort_by("id")
    assert rows.equals(pq.read_table(in_file.out).sort_by("id"))
    assert in_folder.bytes_written == sum(part.stat().st_size for part in in_folder.out.iterdir())
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_parts_are_begun_every_so_many_rows(tmp_path, monkeypatch):
    """The first batch beyond the limit begins a new part."""
    monkeypatch.setattr(outputs, "_ROWS_A_PART", 3)
    output = TableOutput(tmp_path / "out", is_folder=True)
    with output.unfinished() as folder:
        writer = PartWriter(output, folder)
        for start in range(0, 8, 2):
            writer.write(pa.RecordBatch.from_pydict({"x": [start, start + 1]}))
        writer.close()
    parts = sorted((tmp_path / "out").iterdir())
    assert [pq.read_metadata(part).num_rows for part in parts] == [4, 4]
    assert pq.read_table(tmp_path / "out")["x"].to_pylist() == list(range(8))


@pytest.mark.parametrize(
    ("name", "engine", "message"),
    [
        ("full", "duckdb", "the folder is not empty"),
        ("a file", "duckdb", "it is a file;"),
        ("old.parquet", "pyspark", r"Spark writes folders"),
        ("out.csv", "duckdb", "engines write Parquet"),
        ("absent/out.parquet", "duckdb", "does not exist"),
        ("absent/out", "duckdb", "does not exist"),
        ("s3://bucket/out", "duckdb", "must be in a local file system"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_work(name, engine, message, tmp_path):
    """Every message says why."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious.txt").write_text("x")
    (tmp_path / "a file").write_text("x")
    (tmp_path / "old.parquet").write_text("x")
    with pytest.raises(OutputError, match=message):
        plan_output(name if "://" in name else tmp_path / name, engine, [])


def test_an_empty_folder_and_an_old_file_are_replaced(source, tmp_path):
    """An empty folder and an existing file are valid outputs."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out.parquet").write_text("old")
    for name in ("out", "out.parquet"):
        consensus_table(source, n_clusters=3, ids="id", out=tmp_path / name)
        assert pq.read_table(tmp_path / name).num_rows == 600


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, RuntimeError("a defect"), OSError(5, "the input is gone")]
)
def test_a_failure_leaves_what_was_there(error, tmp_path):
    """The old output stays, and the exception is raised unchanged."""
    (tmp_path / "out.parquet").write_text("old")
    output = TableOutput(tmp_path / "out.parquet", is_folder=False)
    expected = error if isinstance(error, type) else type(error)
    with pytest.raises(expected) as caught, output.unfinished() as folder:
        output.rows_in(folder).write_text("half")
        raise error
    assert not isinstance(caught.value, OutputError)
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]
    assert (tmp_path / "out.parquet").read_text() == "old"


def test_a_full_disk_is_reported_with_the_name_of_the_output(tmp_path, monkeypatch):
    """A failure at the first file, in a batch or at the rename is an OutputError."""
    (tmp_path / "out.parquet").write_text("old")
    output = TableOutput(tmp_path / "out.parquet", is_folder=False)

    def full(*_, **__):
        raise OSError(28, "No space left")

    for owner, name in (
        (pq, "ParquetWriter"),
        (pq.ParquetWriter, "write_batch"),
        (Path, "replace"),
    ):
        with (
            monkeypatch.context() as patch,
            pytest.raises(OutputError, match=r"cannot write .*out\.parquet: No space left"),
            output.unfinished() as folder,
        ):
            patch.setattr(owner, name, full)
            writer = PartWriter(output, folder)
            writer.write(pa.RecordBatch.from_pydict({"x": [1]}))
            writer.close()
        assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]
    assert (tmp_path / "out.parquet").read_text() == "old"


# Ibis asks pandas for an option that is going away
@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")
@pytest.mark.parametrize(
    ("engine", "how", "name"),
    [
        ("polars", {}, "out"),
        ("polars", STREAMED, "out"),
        ("sqlite", STREAMED, "out.parquet"),
        ("polars", GROUPED, "out"),
        ("sqlite", GROUPED, "out"),
    ],
)
def test_a_table_of_another_engine_is_written_too(engine, how, name, source, tmp_path, monkeypatch):
    """Rows are written by Arrow batches to one file or a folder, on every path."""
    monkeypatch.setattr(consensus, "_FEW_TUPLES", 1.0 if how is GROUPED else 0.25)
    rows = pq.read_table(source)
    connection = engine_with_table(engine, rows, tmp_path)
    settings = {"n_clusters": 3, "ids": "id", **how}
    found = consensus_table(connection.table("t"), out=tmp_path / name, **settings)
    assert found.path == ("tuples" if not how else "grouped" if how is GROUPED else "streamed")
    out = pq.read_table(found.out).sort_by("id")
    predicted = found.estimator.predict(rows.drop_columns("id"))
    assert out["id"].to_pylist() == list(range(600))
    assert out["label"].to_pylist() == predicted.tolist()
    connection.disconnect()


#: When the first process is killed: at a log message, or just before the rename.
KILLED_AT = [
    ("looking at the columns", "out.parquet", {}),
    ("writing 600 rows", "out", {}),
    ("sweep 2", "out.parquet", STREAMED),
    ("the rename", "out.parquet", {}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "name", "how"), KILLED_AT)
def test_a_killed_process_leaves_no_output_and_the_next_completes(
    moment, name, how, source, tmp_path
):
    """The second run removes what the first one left."""
    out = tmp_path / name
    code = f"""
import logging, os, pathlib, signal
from coterie.tables import consensus_table

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

class Killer(logging.Handler):
    def emit(self, record):
        if record.getMessage().startswith({moment!r}):
            die()

logging.getLogger("coterie").setLevel(logging.INFO)
logging.getLogger("coterie").addHandler(Killer())
if {moment == "the rename"}:
    pathlib.Path.replace = die
consensus_table({str(source)!r}, n_clusters=3, ids="id", out={str(out)!r}, **{how!r})
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    left = [path.name for path in tmp_path.iterdir() if path.name != "in"]
    assert all(name.startswith(".") and name.endswith(".unfinished") for name in left)
    assert bool(left) == (moment != "looking at the columns")
    found = consensus_table(source, n_clusters=3, ids="id", out=out, **how)
    assert pq.read_table(found.out).num_rows == 600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", name]
