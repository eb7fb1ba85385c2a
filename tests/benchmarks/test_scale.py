"""The program on growing tables: the tables, and trials that are scored, kept and limited."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmark_results import check_result
from benchmarks import scale
from benchmarks.harness import Context
from benchmarks.program_runs import ProgramRun
from benchmarks.scale import label_chunks
from coterie.inspection.scores import adjusted_rand_index, clustering_accuracy, contingency

DONE = ProgramRun(0, True, 0.0, 0.5, 5_000_000, "", "")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Make chunks of few rows, so that small tables have several."""
    monkeypatch.setattr(scale, "CHUNK_ROWS", 4096)


def all_rows(family: str, n: int, **settings) -> tuple[np.ndarray, np.ndarray]:
    """Return all labels (n, V) and the truth (n,)."""
    chunks = list(label_chunks(family, n, **settings))
    P = np.vstack([np.column_stack(columns) for _, columns in chunks])
    return P, np.concatenate([y for y, _ in chunks])


class FakeProgram:
    """A program that takes a millisecond a row and answers with column p0, in reverse order."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.change = lambda table: table
        self.run = DONE
        engine = {"tuples": 7, "path": "streamed", "seconds": {"fit": 0.25}, "tuples_exact": False}
        self.facts = {"clusters": 10, "tuples": 9, "seconds": 2.0, "engine": engine}

    def __call__(self, command, _) -> ProgramRun:
        """Answer a command."""
        source, out = command[command.index("consensus") + 1], command[command.index("-o") + 1]
        table = pq.read_table(source, columns=["id", "p0"]).rename_columns(["id", "label"])
        n = table.num_rows
        self.sizes.append(n)
        pq.write_table(self.change(table.take(np.arange(n)[::-1])), out)
        seconds = self.run.seconds or n / 1000
        return self.run._replace(seconds=seconds, output=json.dumps(self.facts))


@pytest.fixture
def program(monkeypatch):
    """Replace the program."""
    fake = FakeProgram()
    monkeypatch.setattr(scale, "run_program", fake)
    return fake


@pytest.mark.parametrize(("family", "most"), [("fixed", 10), ("diverse", 40)])
def test_right_partitions_split_the_truth_and_wrong_ones_do_not(family, most):
    """Without noise a right label is in one cluster of y; wrong partitions are unrelated to y."""
    P, y = all_rows(family, 4000, noise=0.0)
    n_labels = [len(np.unique(column)) for column in P.T]
    assert 10 <= min(n_labels) <= max(n_labels) <= most
    assert len(set(n_labels)) > 5 or family == "fixed"
    for column in P.T[:24]:
        assert (np.diff(contingency(column, y).indptr) == 1).all()
    for column in P.T[24:]:
        assert abs(adjusted_rand_index(column, y)) < 0.02
        assert adjusted_rand_index(column, P[:, -1]) > 0.3


def test_rows_depend_on_neither_n_nor_later_chunks():
    """A smaller table is the beginning of a larger one; 18% of the labels differ by noise."""
    P, y = all_rows("fixed", 9000)
    head, head_y = all_rows("fixed", 5000)
    assert np.array_equal(head, P[:5000]) and np.array_equal(head_y, y[:5000])
    assert not np.array_equal(P[:4096], P[4096:8192])
    assert (P != all_rows("fixed", 9000, noise=0.0)[0]).mean() == pytest.approx(0.18, abs=0.005)


def test_trials_are_scored_and_kept(program, tmp_path):
    """Rows are joined by id; a second run reads the kept trials."""
    context = Context(keep=tmp_path)
    result = scale.run(context, most=40_000)
    data = check_result(result)
    assert program.sizes == [10_000, 31_623] * 2
    for trial in data["trials"]:
        P, y = all_rows(trial["family"], trial["n_points"])
        assert trial["accuracy"] == clustering_accuracy(y, P[:, 0])
        assert (trial["n_clusters"], trial["n_tuples"], trial["path"]) == (10, 7, "streamed")
        assert (trial["seconds"], trial["stages"]) == (trial["n_points"] / 1000, {"fit": 0.25})
    assert result.tables[0].rows[0][3] == "≈ 7"
    assert scale.run(context, most=40_000).data["trials"] == data["trials"]
    assert len(program.sizes) == 4


def test_growth_is_the_slope_of_the_logarithms():
    """Small tables and other families do not count; one table has no slope."""
    trials = [
        {"family": "fixed", "status": "done", "n_points": n, "seconds": n / 1e4, "peak_bytes": 7}
        for n in (10, 10**5, 10**6)
    ]
    growth = scale.growth_of(trials, "fixed")
    assert (growth["seconds"], growth["peak_bytes"]) == pytest.approx((1, 0))
    assert "seconds" not in scale.growth_of(trials[:2], "fixed")
    assert "seconds" not in scale.growth_of(trials, "diverse")


@pytest.mark.parametrize(
    ("run", "status", "message"),
    [
        (ProgramRun(-9, False, 61.0, 1.0, 1, "", ""), "time-out", "no answer in 61 s"),
        (ProgramRun(1, True, 1.0, 1.0, 1, "", "error: no id"), "failed", "error: no id"),
    ],
)
def test_a_failure_ends_the_family_and_is_not_kept(program, tmp_path, run, status, message):
    """The table shows the status; the next run tries again."""
    program.run = run
    result = scale.run(Context(keep=tmp_path), most=40_000)
    assert [trial["status"] for trial in check_result(result)["trials"]] == [status, status]
    assert message in result.notes[0] and status in result.tables[0].rows[0]
    program.run = DONE
    again = scale.run(Context(keep=tmp_path), most=10_000)
    assert {trial["status"] for trial in again.data["trials"]} == {"done"}


def test_lost_or_repeated_rows_are_no_answer(program):
    """Every id must occur once."""
    program.change = lambda table: table.take([0, *range(9999)])
    trial = scale.run(Context(), most=10_000).data["trials"][0]
    assert trial["status"] == "wrong labels" and "not the 10,000 ids" in trial["message"]


def test_the_real_program_finds_the_clusters(tmp_path):
    """Its output and its JSON are understood."""
    found = scale.run_trial(tmp_path, 120, "fixed", 600)
    assert (found["status"], found["n_clusters"], found["n_tuples"]) == ("done", 10, 600)
    assert found["accuracy"] > 0.99
