"""Fake peers that answer, hang, crash, use too much memory and give labels that are none."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks import peer_runner
from benchmarks.peer_tasks import Material, Task, write_task
from benchmarks.peer_trials import Limits, run_trial
from coterie.ensembles.planted import planted_partitions
from coterie.inspection.scores import clustering_accuracy, mirkin_objective

FAKE = Path(__file__).with_name("fake_peer.py")
P, Y = planted_partitions([30, 20], 5, 1, 0.1, random_state=0)
SHORT = Limits(seconds=0.5, memory=4_000_000_000, before=20.0)


@pytest.fixture
def tried(tmp_path):
    """A function that tries a fake method on a small task."""
    material = Material(Y, {"P": P}, P)
    task = Task("small", "small", "labels", len(Y), 2, 5, lambda: material)
    write_task(task, tmp_path / "task")

    def run(method: str, limits: Limits = SHORT):
        return run_trial(sys.executable, method, tmp_path / "task", material, limits, FAKE)

    return run


def test_an_answer_is_judged_by_us(tried):
    """Accuracy, J, clusters, time and memory of labels that are right or wrong but usable."""
    found = tried("first")
    assert found.status == "done"
    assert found.accuracy == clustering_accuracy(Y, P[:, 0])
    assert found.objective == mirkin_objective(P, P[:, 0])
    assert found.n_clusters == 2
    assert 0 <= found.seconds < SHORT.seconds
    assert 1e6 < found.bytes_before <= found.peak_bytes < SHORT.memory


def test_labels_may_be_texts(tried):
    """What the labels are called does not matter."""
    assert tried("texts").accuracy == tried("first").accuracy


def test_the_warm_up_sees_a_few_rows_first(tried):
    """The method runs on the first rows before it runs on all, in the same process."""
    assert tried("warm").accuracy == clustering_accuracy(Y, np.arange(len(Y)) < 3)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("long", "51 labels for 50 points"),
        ("square", r"labels of shape \(50, 5\) for 50 points"),
        ("nan", "of 50 labels are not numbers"),
    ],
)
def test_labels_that_are_none_are_told(tried, method, message):
    """Too many labels, a matrix, or labels that are not numbers are no answer."""
    found = tried(method)
    assert found.status == "wrong labels"
    assert re.search(message, found.message)
    assert found.accuracy is None


@pytest.mark.parametrize(
    ("method", "status", "message"),
    [
        ("sleep", "time-out", "no answer in 0.5 s"),
        ("raise", "crash", "ValueError: the matrix is singular"),
        ("import", "crash", "ModuleNotFoundError: No module named 'no_such_peer'"),
        ("abort", "crash", "ended by signal SIGABRT"),
        ("throw", "memory", "terminate called after throwing an instance of 'std::bad_alloc'"),
        ("no such method", "crash", "KeyError: 'no such method'"),
    ],
)
def test_failures_are_told_apart(tried, method, status, message):
    """Each way to fail has its name and the last line of what was said."""
    found = tried(method)
    assert (found.status, found.message) == (status, message)
    assert found.accuracy is None


def test_memory_is_limited(tried):
    """An array beyond the limit is a memory failure, with NumPy's own words."""
    found = tried("memory")
    assert found.status == "memory"
    assert "Unable to allocate" in found.message


def test_labels_that_need_unpickling_are_refused(tried):
    """Objects cannot be labels: they would be executed when read."""
    assert tried("objects").status == "crash"


def test_what_comes_before_the_clock_has_its_own_limit(tried):
    """Imports that never end are a time-out, with no seconds since the clock never started."""
    found = tried("before", Limits(seconds=0.5, before=0.7))
    assert (found.status, found.seconds) == ("time-out", None)
    assert found.message == "not ready to start after 0.7 s"


def test_children_of_a_peer_end_with_it(tried, tmp_path, monkeypatch):
    """At a time-out the whole group of processes is ended."""
    monkeypatch.setenv("CHILD_FILE", str(tmp_path / "child"))
    assert tried("fork").status == "time-out"
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        if not _runs(child):
            break
        time.sleep(0.05)
    assert not _runs(child)


def test_a_runner_that_nobody_watches_ends_by_itself(tmp_path, monkeypatch):
    """The alarm is set to the seconds it is given, before anything else."""
    alarms: list[int] = []
    monkeypatch.setattr(peer_runner.signal, "alarm", alarms.append)
    monkeypatch.setattr(peer_runner.resource, "setrlimit", lambda *_: None)
    (tmp_path / "task.json").write_text('{"n_clusters": 2, "n_runs": 5}')
    np.save(tmp_path / "P.npy", P)
    arguments = ["no such method", str(tmp_path), str(tmp_path), "1", "70"]
    assert peer_runner.main(arguments) == 1
    assert alarms == [70]
    assert json.loads((tmp_path / "answer.json").read_text())["failure"] == "crash"


def _runs(pid: int) -> bool:
    """Whether a process runs; one that has ended but was not waited for does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"
