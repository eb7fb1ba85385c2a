"""Tasks have the rows, classes and partitions they say, and show methods no more than they may."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import peer_tasks
from benchmarks.peer_tasks import fixed_tasks, growing_task, write_task


@pytest.mark.parametrize(
    ("kind", "names"),
    [("labels", ["P"]), ("features", ["X"]), ("views", ["view_0", "view_1"])],
)
def test_growing_tasks_have_n_points(kind, names):
    """Whatever the kind, n rows and n classes, the same at every call."""
    task = growing_task(kind, 203)
    first, second = task.make(), task.make()
    assert list(first.given) == names
    assert task.n_points == 203 == len(first.y)
    assert len(np.unique(first.y)) == task.n_clusters
    for name in names:
        assert len(first.given[name]) == 203
        np.testing.assert_array_equal(first.given[name], second.given[name])


def test_planted_labels_have_as_many_votes_as_runs():
    """J is against the very labels the methods see."""
    task = growing_task("labels", 100)
    material = task.make()
    assert material.P is material.given["P"]
    assert material.P.shape == (100, task.n_runs)


def test_fixed_tasks_are_as_large_as_they_say(monkeypatch):
    """Digits by labels and by features have the same rows; J is against labels in both."""
    monkeypatch.setattr(peer_tasks, "N_RUNS", 2)
    tasks = {task.name: task for task in fixed_tasks(150)}
    by_labels, by_features = (tasks[f"digits-{given}"] for given in ("labels", "features"))
    a, b = by_labels.make(), by_features.make()
    np.testing.assert_array_equal(a.y, b.y)
    np.testing.assert_array_equal(a.P, b.P)
    assert [list(a.given), list(b.given)] == [["P"], ["X"]]
    blobs = tasks["blobs-labels-150"].make()
    assert len(a.y) == by_labels.n_points
    assert blobs.given["P"].shape == (150, 2)


def test_numerals_are_standardised_and_in_random_order(monkeypatch):
    """Each view has columns of mean 0 and deviation 1; classes no longer come in blocks."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(10), 20)
    views = [100 + 5 * rng.standard_normal((200, p)) for p in (3, 4)]
    monkeypatch.setattr("coterie.datasets.loading.load_views", lambda _: (views, y))
    monkeypatch.setattr(peer_tasks, "RUNS_PER_VIEW", 2)
    (task,) = (task for task in fixed_tasks(10) if task.kind == "views")
    material = task.make()
    assert material.P.shape == (200, 4)
    assert (material.y != y).any()
    for view in material.given.values():
        np.testing.assert_allclose(view.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(view.std(axis=0), 1)


def test_what_is_written_is_what_may_be_seen(tmp_path):
    """Arrays and settings, but not the classes."""
    task = growing_task("views", 50)
    material = write_task(task, tmp_path / "task")
    names = sorted(path.name for path in (tmp_path / "task").iterdir())
    assert names == ["task.json", "view_0.npy", "view_1.npy"]
    described = json.loads((tmp_path / "task" / "task.json").read_text())
    assert described == {"n_clusters": task.n_clusters, "n_runs": task.n_runs}
    written = np.load(tmp_path / "task" / "view_1.npy")
    np.testing.assert_array_equal(written, material.given["view_1"])
