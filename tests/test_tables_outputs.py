"""Outputs that appear whole: files and folders, and what killed processes leave."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie import planted_partitions
from coterie.errors import OutputError
from coterie.tables import consensus_table, table_outputs
from coterie.tables.table_outputs import PartWriter, TableOutput, plan_output

STREAMED = {"max_tuples": 40, "sample_size": 100}


@pytest.fixture
def source(tmp_path):
    """A table in a folder of its own."""
    P, _ = planted_partitions([300, 200, 100], 8, 2, 0.15, random_state=0)
    (tmp_path / "in").mkdir()
    columns = {"id": list(range(600))} | {f"p{v}": P[:, v] for v in range(8)}
    pq.write_table(pa.table(columns), tmp_path / "in" / "labels.parquet")
    return tmp_path / "in" / "labels.parquet"


@pytest.mark.parametrize("how", [{}, STREAMED])
@pytest.mark.parametrize("name", ["out", "out.d/"])
def test_a_folder_holds_what_the_file_holds(how, name, source, tmp_path, monkeypatch):
    """Where the name has no suffix or ends in a slash; in several parts where rows are many."""
    monkeypatch.setattr(table_outputs, "_ROWS_A_PART", 100)
    settings = {"n_clusters": 3, "ids": "id", **how}
    in_file = consensus_table(source, out=tmp_path / "out.parquet", **settings)
    in_folder = consensus_table(source, out=f"{tmp_path}/{name}", **settings)
    rows = pq.read_table(in_folder.out).sort_by("id")
    assert rows.equals(pq.read_table(in_file.out).sort_by("id"))
    assert in_folder.bytes_written == sum(part.stat().st_size for part in in_folder.out.iterdir())
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_parts_are_begun_every_so_many_rows(tmp_path, monkeypatch):
    """The first batch beyond the limit is in a part of its own."""
    monkeypatch.setattr(table_outputs, "_ROWS_A_PART", 3)
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
        ("out.csv", "duckdb", "an engine writes Parquet"),
        ("absent/out.parquet", "duckdb", "does not exist"),
        ("absent/out", "duckdb", "does not exist"),
        ("s3://bucket/out", "duckdb", "must lie in a file system"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_work(name, engine, message, tmp_path):
    """With what to do."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious.txt").write_text("x")
    (tmp_path / "a file").write_text("x")
    (tmp_path / "old.parquet").write_text("x")
    with pytest.raises(OutputError, match=message):
        plan_output(name if "://" in name else tmp_path / name, engine, [])


def test_an_empty_folder_and_an_old_file_are_replaced(source, tmp_path):
    """Neither holds anything that would be mixed with the new rows."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out.parquet").write_text("old")
    for name in ("out", "out.parquet"):
        consensus_table(source, n_clusters=3, ids="id", out=tmp_path / name)
        assert pq.read_table(tmp_path / name).num_rows == 600


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, RuntimeError("a defect"), OSError(28, "full")]
)
def test_a_failure_leaves_what_was_there(error, tmp_path):
    """An interrupt, a defect, a full disk."""
    (tmp_path / "out.parquet").write_text("old")
    output = TableOutput(tmp_path / "out.parquet", is_folder=False)
    expected = OutputError if isinstance(error, OSError) else type(error)
    with (
        pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else expected),
        output.unfinished() as folder,
    ):
        output.rows_in(folder).write_text("half")
        raise error
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]
    assert (tmp_path / "out.parquet").read_text() == "old"


def test_only_what_dead_processes_of_this_machine_left_is_removed(tmp_path):
    """A living process's folder, another machine's, and another output's stay."""
    host = table_outputs._host()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    names = {
        f".out.parquet-{host}-{dead.pid}-0123abcd.unfinished": False,
        f".out.parquet-{host}-{os.getpid()}-0123abcd.unfinished": True,
        f".out.parquet-elsewhere-{dead.pid}-0123abcd.unfinished": True,
        f".other.parquet-{host}-{dead.pid}-0123abcd.unfinished": True,
    }
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows.parquet").write_text("half")
    with TableOutput(tmp_path / "out.parquet", is_folder=False).unfinished():
        pass
    assert {name: (tmp_path / name).exists() for name in names} == names


#: When the first process is killed: a stage by its log line, or just before the rename.
KILLED_AT = [
    ("looking at the columns", "out.parquet", {}),
    ("consensus of 207 tuples", "out.parquet", {}),
    ("writing 600 rows", "out", {}),
    ("the rename", "out.parquet", {}),
    ("sweep 2", "out.parquet", STREAMED),
    ("the rename", "out", STREAMED),
]


@pytest.mark.parametrize(("moment", "name", "how"), KILLED_AT)
def test_a_killed_process_leaves_no_output_and_the_next_completes(
    moment, name, how, source, tmp_path
):
    """SIGKILL at one moment or another; the second run clears what the first has left."""
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
