"""The comparison with other packages: isolation of trials, environments, tasks, results."""

import ast
import os
import sys
from pathlib import Path

import pytest

from benchmark_results import check_result
from benchmarks import peers
from benchmarks.harness import Context
from benchmarks.peers import KINDS, runner
from benchmarks.peers.tasks import Task, growing_task, write_task
from benchmarks.peers.trials import Limits, Material, run_trial
from coterie.ensembles.generate import planted_partitions
from coterie.inspection.scores import clustering_accuracy, mirkin_objective

FAKE = Path(__file__).with_name("fake_peer.py")
P, Y = planted_partitions([30, 20], 5, 1, 0.1, random_state=0)
# of methods that answer, and of those that never do
LONG = Limits(seconds=300.0, memory=4_000_000_000, before=300.0)
SHORT = LONG._replace(seconds=0.5)


@pytest.fixture
def attempt(tmp_path):
    """Return a function that tries a fake method on a small task."""
    material = Material(Y, {"P": P}, P)
    write_task(Task("t", "t", "labels", 50, 2, 5, lambda: material), tmp_path / "task")

    def run(method, limits=LONG):
        return run_trial(sys.executable, method, tmp_path / "task", material, limits, FAKE)

    return run


def test_an_answer_is_scored_here(attempt):
    """Accuracy and J are computed from the labels; label names do not matter."""
    found = attempt("first")
    assert found["status"] == "done"
    assert found["accuracy"] == clustering_accuracy(Y, P[:, 0]) == attempt("texts")["accuracy"]
    assert found["objective"] == mirkin_objective(P, P[:, 0])
    assert {"seconds", "bytes_before", "peak_bytes"} <= found.keys()


@pytest.mark.parametrize(
    ("method", "status", "message"),
    [
        ("sleep", "time-out", "no answer in 0.5 s"),
        ("raise", "crash", "ValueError: the matrix is singular"),
        ("abort", "crash", "status -6"),
        ("throw", "memory", ""),
        ("memory", "memory", "Unable to allocate"),
        ("objects", "crash", ""),
        ("square", "wrong labels", "(50, 5)"),
        ("nan", "wrong labels", "not numbers"),
    ],
)
def test_failures_are_told_apart(attempt, method, status, message):
    """Every way to fail has a status and the last line of the output."""
    found = attempt(method, SHORT if status == "time-out" else LONG)
    assert found["status"] == status
    assert message in found["message"]
    assert "accuracy" not in found


def test_limits_hold_before_the_clock_and_for_children(attempt, tmp_path, monkeypatch):
    """Imports have their own limit; at a time-out all processes of a trial end."""
    found = attempt("before", Limits(before=0.5))
    assert (found["status"], found["seconds"]) == ("time-out", None)
    monkeypatch.setenv("PIPE", str(tmp_path / "pipe"))
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert attempt("fork", SHORT)["status"] == "time-out"
    os.set_blocking(reading, True)
    assert os.read(reading, 9) == b""  # nobody holds it open any more
    os.close(reading)


def test_the_runner_imports_only_numpy():
    """The environment of a peer has neither coterie nor anything else of this one."""
    names = set()
    for node in ast.parse(Path(runner.__file__).read_text()).body:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.split(".")[0])
    assert names - set(sys.stdlib_module_names) == {"numpy"}
    assert sorted(peer.method for peer in peers.PEERS) == sorted(runner.METHODS)
    assert set(runner.METHODS) >= runner.WITHOUT_WARM_UP


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_are_written_without_their_classes(kind, tmp_path):
    """The runner reads what was written; the files hold no array of the classes."""
    task = growing_task(kind, 60)
    material = write_task(task, tmp_path / "task")
    data = runner._load(tmp_path / "task")
    assert (data.n_points, data.n_clusters) == (60, task.n_clusters)
    assert data.head(7).n_points == 7
    assert {path.stem for path in (tmp_path / "task").iterdir()} == {*material.given, "task"}


def test_a_run_doubles_n_until_methods_fail(monkeypatch, tmp_path):
    """Failed methods are not tried again; finished trials are kept, crashes are not."""
    monkeypatch.setattr(peers, "PEERS", peers.PEERS[:3])
    calls = []

    def run(python, method, folder, material, limits):
        n = len(material.y)
        calls.append((method, n))
        if method == "coterie.robust":
            return {"status": "crash", "message": "broken", "seconds": 1.0}
        if method == "coterie.l2" and n > 500:
            return {"status": "time-out", "message": "", "seconds": limits.seconds}
        figures = {"seconds": 0.1, "peak_bytes": n, "accuracy": 0.5, "objective": 1.0}
        return {"status": "done", **figures, "n_clusters": 2}

    monkeypatch.setattr(peers, "run_trial", run)
    context = Context(quick=True, keep=tmp_path)
    result = peers.run(context)
    assert len(calls) == 5
    assert [(r.get("n"), r["then"]) for r in result.data["reach"]] == [
        (None, "crash at 500"),
        (1000, "not tried further"),
        (500, "time-out at 1,000"),
    ]
    assert check_result(result)["limits"]["seconds"] == 3
    assert any("broken" in note for note in result.notes)
    peers.run(context)
    assert calls[5:] == [("coterie.robust", 500)]
