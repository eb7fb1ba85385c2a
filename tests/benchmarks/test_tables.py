"""Tables that stay in an engine: the generated tables, their scores, and runs that are killed."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmark_results import check_result
from benchmarks import tables as benchmark
from benchmarks.harness import Context
from benchmarks.local_spark import LocalSpark
from benchmarks.planted_tables import (
    N_CLUSTERS,
    N_PARTITIONS,
    N_TUPLES,
    N_WRONG,
    NOISE_PERCENT,
    PlantedTables,
)
from benchmarks.program_runs import ProgramRun
from coterie.errors import TableError
from coterie.inspection.scores import clustering_accuracy

N_ROWS = 12_000
PRIME = 2**31 - 1


def mixed(x: int) -> int:
    """Return the hash of the recipe, in Python's integers."""
    return (x * 48271 + 11) ** 2 % PRIME * 1000003 % PRIME


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Return tables in a folder whose name has special characters of SQL and globs."""
    folder = tmp_path_factory.mktemp("tables") / "it's [here]"
    folder.mkdir()
    with PlantedTables(folder) as made:
        yield made


@pytest.fixture(scope="module")
def expected():
    """Return truth and labels of every row, computed in Python."""
    found: dict[tuple[int, ...], int] = {}
    for number in range(2 * N_TUPLES):
        draws = [mixed(mixed(number * 64 + place) + 7) for place in range(2 + 2 * N_PARTITIONS)]
        truth = int(np.searchsorted([35, 60, 78, 91], draws[0] % 100, side="right"))
        votes = [truth] * (N_PARTITIONS - N_WRONG) + [draws[1] % N_CLUSTERS] * N_WRONG
        for v in range(N_PARTITIONS):
            if draws[2 + v] % 100 < NOISE_PERCENT:
                votes[v] = draws[2 + N_PARTITIONS + v]
        found.setdefault(tuple((vote + v) % N_CLUSTERS for v, vote in enumerate(votes)), truth)
    tuples = list(found)[:N_TUPLES]
    later = [mixed(i) ** 2 // PRIME * N_TUPLES // PRIME for i in range(N_TUPLES, N_ROWS)]
    of_row = np.concatenate([np.arange(N_TUPLES), later]).astype(int)
    return np.array([found[votes] for votes in tuples])[of_row], np.array(tuples)[of_row]


def write(path: Path, labels, margin=0.5, ids=None) -> Path:
    """Write a table as the program does."""
    ids = np.arange(len(labels)) if ids is None else np.asarray(ids)
    margin = np.broadcast_to(np.asarray(margin, dtype=float), len(ids))
    columns = {"id": ids, "label": np.asarray(labels, dtype=np.int32), "margin": margin}
    pq.write_table(pa.table(columns), path)
    return path


def test_a_table_follows_the_recipe(tables, expected):
    """Every label of every row, in small types; all prototypes occur."""
    table = pq.read_table(tables.file(N_ROWS)).sort_by("id")
    names = [f"p{v}" for v in range(N_PARTITIONS)]
    assert table.schema.types == [pa.int64(), *[pa.uint8()] * N_PARTITIONS]
    assert table["id"].to_pylist() == list(range(N_ROWS))
    P = np.column_stack([table[n] for n in names])
    assert np.array_equal(P, expected[1]) and len(np.unique(P, axis=0)) == N_TUPLES


@pytest.mark.parametrize("n_labels", [3, 9])
def test_accuracy_equals_that_of_the_library(tables, expected, tmp_path, n_labels):
    """DuckDB counts what the library computes from arrays, in any order of rows."""
    rng = np.random.default_rng(n_labels)
    redrawn = rng.integers(n_labels, size=N_ROWS)
    labels = np.where(rng.random(N_ROWS) < 0.4, redrawn, (expected[0] + 2) % n_labels)
    order = rng.permutation(N_ROWS)
    out = write(tmp_path / "out.parquet", labels[order], ids=order)
    assert tables.accuracy(out, N_ROWS) == pytest.approx(clustering_accuracy(expected[0], labels))


@pytest.mark.parametrize(
    "ids",
    [
        range(N_ROWS - 1),
        [0, *range(N_ROWS - 1)],
        [0, 0, 3, 3, *range(4, N_ROWS)],
    ],
)
def test_lost_or_repeated_ids_are_no_answer(tables, tmp_path, ids):
    """Also where their number, or their number and their sum, are right."""
    out = write(tmp_path / "out.parquet", np.zeros(len(ids)), ids=ids)
    with pytest.raises(TableError, match="not the 12,000 ids"):
        tables.accuracy(out, N_ROWS)


@pytest.mark.parametrize(
    ("change", "n_different"),
    [
        ({"margin": [0.5 + 1e-13, 0.5, 0.5]}, 0),
        ({"margin": [0.5 + 1e-11, 0.5, 0.5]}, 1),
        ({"margin": [np.nan, 0.5, 0.5]}, 1),
        ({"labels": [0, 1, 1]}, 1),
        ({"ids": [2, 1, 0], "labels": [2, 1, 0]}, 0),
        ({"ids": [0, 1, 7]}, 2),
    ],
)
def test_different_rows_are_counted(tables, tmp_path, change, n_different):
    """Rows are joined by id; a folder of files is a table too."""
    one = write(tmp_path / "one.parquet", [0, 1, 2])
    (tmp_path / "other").mkdir()
    write(tmp_path / "other" / "part.parquet", **{"labels": [0, 1, 2], **change})
    (tmp_path / "other" / "_SUCCESS").touch()
    assert tables.n_different(one, tmp_path / "other") == n_different
    assert tables.n_different(tmp_path / "other", one) == n_different


class FakeProgram:
    """A program that answers with the first column; ``change`` alters its runs on Spark."""

    def __init__(self, monkeypatch, folder):
        self.moments = []
        self.change = lambda run, _: run
        monkeypatch.setattr(benchmark, "run_program", self.run)
        monkeypatch.setattr(benchmark, "kill_at", self.kill)
        ended = {"Event": "SparkListenerTaskEnd", "Task Metrics": {"Result Size": 700}}
        (folder / "app-1").write_text(f"{{}}\n{json.dumps(ended)}\n{json.dumps(ended)}\n")
        spark = contextlib.nullcontext(LocalSpark("pyspark://host:1", (), folder))
        monkeypatch.setattr(benchmark, "local_spark", lambda _, **__: spark)

    def run(self, command, _):
        """Write a file as DuckDB does, or a folder as Spark does."""
        names = ("consensus", "-o", "--engine")
        table, out, engine = (command[command.index(name) + 1] for name in names)
        on_spark = engine.startswith("pyspark")
        assert ("--memory-limit" in command) != on_spark
        rows, out = pq.read_table(table, columns=["id", "p0"]), Path(out)
        if on_spark:
            Path(command[2]).write_text('{"sent": 30, "received": 4}')
            out.mkdir()
            out /= "part.parquet"
        write(out, rows["p0"], ids=rows["id"])
        facts = {"tuples": N_TUPLES, "path": "tuples", "seconds": {"fit": 1.0, "write": 0.5}}
        found = ProgramRun(0, True, 2.0, 3.0, 10**8, json.dumps({"engine": facts}), "")
        return self.change(found, out) if on_spark else found

    def kill(self, command, is_now):
        """Leave an unfinished folder."""
        self.moments.append((is_now(0.9), is_now(1.1)))
        out = Path(command[command.index("-o") + 1])
        (out.parent / ".left.unfinished").mkdir(exist_ok=True)
        return {"seconds": 1.0, "in_time": True}


def test_a_run_of_all_parts(monkeypatch, expected, tmp_path):
    """Spark beside DuckDB, killed runs and the largest table."""
    program = FakeProgram(monkeypatch, tmp_path)
    result = benchmark.run(Context(), rows=N_ROWS, many_rows=0, spark=True, spark_rows=0)
    data = check_result(result)
    accuracy = clustering_accuracy(expected[0], expected[1][:, 0])
    assert [run["accuracy"] for run in data["runs"]] == pytest.approx([accuracy] * 5)
    assert [run["engine"] for run in data["runs"]] == ["DuckDB"] * 4 + ["Spark"]
    kills = [(kill["output"], kill["n_left"]) for kill in data["kills"]]
    assert kills == [("none", 1), ("none", 1)]
    # half of two seconds; nothing is written, so the second moment does not come
    assert program.moments == [(False, True), (False, False)]
    assert "Spark and DuckDB differ in 0 of 12,000 rows (the same table)." in result.notes
    assert any("differs in 0 rows" in note and "leaves 1" in note for note in result.notes)


def test_tables_of_many_tuples(monkeypatch, tmp_path):
    """Half as many tuples as rows, repeated tuples, and nearly all distinct on both engines."""
    FakeProgram(monkeypatch, tmp_path)
    monkeypatch.setattr(benchmark, "_FEWEST_MANY", 10)
    how = {"rows": N_TUPLES, "many_rows": 2000, "spark": True, "spark_rows": 300}
    runs = check_result(benchmark.run(Context(), **how))["runs"]
    sizes = {
        run["run"]: (run["n_rows"], run["n_partitions"]) for run in runs if "many" in run["run"]
    }
    assert sizes == {"many tuples": (2000, 40), "the same, many tuples": (300, 20)}
    assert "repeated tuples" in [run["run"] for run in runs]
    # most labels of the first column are those of the true clusters
    assert all(0.6 < run["accuracy"] < 0.9 for run in runs if "tuples" in run["run"])
    on_spark = [run for run in runs if run["engine"] == "Spark"]
    assert [(run["task_bytes"], run["socket_bytes"]) for run in on_spark] == [(1400, 34)] * 2


def test_a_fault_of_spark_is_reported(monkeypatch, tmp_path):
    """A crash is no answer, and no rows are compared."""
    program = FakeProgram(monkeypatch, tmp_path)
    program.change = lambda run, _: run._replace(status=1, error="Error: no")
    result = benchmark.run(Context(), rows=N_ROWS, many_rows=0, spark=True, spark_rows=0)
    assert any("Error: no" in note for note in result.notes)
    assert "failed" in result.tables[0].rows[-1]
    assert not any("Spark and DuckDB" in note for note in result.notes)


def test_a_process_is_killed_at_its_moment():
    """A process that does not end is killed; one that has ended before is not."""
    endless = [sys.executable, "-S", "-c", "import signal; signal.pause()"]
    moments = iter([False, False, True])
    assert benchmark.kill_at(endless, lambda _: next(moments))["in_time"]
    assert next(moments, None) is None
    assert not benchmark.kill_at([sys.executable, "-S", "-c", ""], lambda _: False)["in_time"]


def test_the_state_of_an_output(tables, tmp_path):
    """No output, a whole one, and partial ones; unfinished folders of this run only."""
    bench = benchmark.Bench(tables, tmp_path)
    whole, out = write(tmp_path / "whole.parquet", [0, 1, 2]), tmp_path / "out.parquet"
    assert bench.output_state(out, whole) == "none"
    assert bench.output_state(write(out, [0, 1, 2]), whole) == "whole"
    assert bench.output_state(write(out, [0, 1]), whole) == "partial"
    out.write_bytes(whole.read_bytes()[:-9])
    assert bench.output_state(out, whole) == "partial"
    for name, content in ((".a.unfinished", b"12345"), (".b.unfinished", b"12")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows.parquet").write_bytes(content)
    assert benchmark.unfinished_bytes(tmp_path, {tmp_path / ".a.unfinished"}) == 2
    assert benchmark.n_unfinished(tmp_path) == 2


def test_the_real_program_finds_the_clusters(tables, tmp_path):
    """Its JSON is understood, and its labels are the planted ones."""
    bench = benchmark.Bench(tables, tmp_path)
    found = bench.run("", bench.planted(N_ROWS), "out.parquet")
    assert (found["message"], found["n_tuples"], found["path"]) == ("", N_TUPLES, "tuples")
    assert found["accuracy"] > 0.99
    assert {"group", "fit", "write"} <= set(found["stages"])
