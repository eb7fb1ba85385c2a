"""The tasks of the comparison: labels, features or views of points whose classes are known."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.datasets import load_views
from coterie.ensembles.making import make_partitions
from coterie.ensembles.planted import planted_partitions

#: What a method takes.
KINDS = ("labels", "features", "views")
N_RUNS, RUNS_PER_VIEW = 40, 10
#: Shares of the planted clusters, in percent.
PLANTED = (40, 25, 15, 12, 8)
BAD_VOTES, NOISE = 16, 0.2
BLOBS, N_FEATURES, SPREAD = 8, 10, 6.0


class Material(NamedTuple):
    """Classes (n,), what the methods get, and labels (n, V) for J.

    Methods get ``P`` (n, V), ``X`` (n, p), or ``view_0``, ``view_1`` … For features, the labels for
    J are k-means runs that no method gets.
    """

    y: NDArray[Any]
    given: dict[str, NDArray[Any]]
    P: NDArray[Any] | None = None


class Task(NamedTuple):
    """A problem for all methods of a kind: n, K, number of runs (a view), and its arrays."""

    name: str
    title: str
    kind: str
    n_points: int
    n_clusters: int
    n_runs: int
    make: Callable[[], Material]


def growing_task(kind: str, n: int) -> Task:
    """Return the task of a kind that can have any number of points.

    >>> growing_task("labels", 1000).title
    '1,000 × 40 planted labels, 16 of 40 votes wrong together, 20% noise'
    """
    if kind == "labels":
        votes = f"{BAD_VOTES} of {N_RUNS} votes wrong together, {NOISE:.0%} noise"
        title = f"{n:,} × {N_RUNS} planted labels, {votes}"
        return Task(f"planted-{n}", title, kind, n, len(PLANTED), N_RUNS, partial(_planted, n))
    blobs = f"{n:,} points of {BLOBS} overlapping blobs"
    if kind == "features":
        title = f"{blobs}, {N_RUNS} runs"
        return Task(f"blobs-{n}", title, kind, n, BLOBS, N_RUNS, partial(_blobs, n, "X"))
    title = f"{blobs} in two views, {RUNS_PER_VIEW} runs a view"
    return Task(f"two-views-{n}", title, kind, n, BLOBS, RUNS_PER_VIEW, partial(_two_views, n))


def fixed_tasks(n: int) -> list[Task]:
    """Return digits (labels, features), n blobs (labels) and numerals in six views."""
    runs, views = f"labels of {N_RUNS} k-means runs", f"6 views, {RUNS_PER_VIEW} runs a view"
    blobs = f"{n:,} points of {BLOBS} overlapping blobs, {runs}"
    return [
        Task("digits-labels", f"digits, {runs}", "labels", 1797, 10, N_RUNS, partial(_digits, "P")),
        Task(f"blobs-labels-{n}", blobs, "labels", n, BLOBS, N_RUNS, partial(_blobs, n, "P")),
        Task("digits-features", f"digits, {N_RUNS} runs", "features", 1797, 10, N_RUNS,
             partial(_digits, "X")),
        Task("mfeat-views", f"handwritten numerals, {views}", "views", 2000, 10, RUNS_PER_VIEW,
             _mfeat),
    ]  # fmt: skip


def write_task(task: Task, folder: Path) -> Material:
    """Write the input of a task for ``runner.py``; the classes are not written."""
    material = task.make()
    folder.mkdir(parents=True)
    described = {"n_clusters": task.n_clusters, "n_runs": task.n_runs}
    (folder / "task.json").write_text(json.dumps(described), encoding="utf-8")
    for name, rows in material.given.items():
        np.save(folder / f"{name}.npy", rows)
    return material


def _planted(n: int) -> Material:
    sizes = [n * share // 100 for share in PLANTED]
    sizes[0] += n - sum(sizes)
    P, y = planted_partitions(sizes, N_RUNS, BAD_VOTES, NOISE, random_state=0)
    return Material(y, {"P": P}, P)


def _blobs(n: int, given: str) -> Material:
    from sklearn.datasets import make_blobs

    X, y = make_blobs(n, N_FEATURES, centers=BLOBS, cluster_std=SPREAD, random_state=0)
    if given == "X":
        return Material(y, {"X": X})
    P = _runs([X], BLOBS, N_RUNS)
    return Material(y, {"P": P}, P)


def _digits(given: str) -> Material:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    # random order of the rows: partitioners break ties by position
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    P = _runs([X], 10, N_RUNS)
    return Material(y, {"P": P} if given == "P" else {"X": X}, P)


def _two_views(n: int) -> Material:
    rng = np.random.default_rng(0)
    y = rng.integers(BLOBS, size=n)
    views = []
    for _ in range(2):
        centres = rng.uniform(-10, 10, size=(BLOBS, N_FEATURES))
        views.append(_standardised(centres[y] + SPREAD * rng.standard_normal((n, N_FEATURES))))
    return Material(y, _named(views))


def _mfeat() -> Material:
    views, y = load_views("uci_mfeat")
    order = np.random.default_rng(0).permutation(len(y))
    rows = [_standardised(np.asarray(view)[order]) for view in views]
    return Material(y[order], _named(rows), _runs(rows, 10, RUNS_PER_VIEW))


def _runs(views: Sequence[NDArray[Any]], K: int, n_runs: int) -> NDArray[np.int32]:
    return np.hstack([make_partitions(X, K, n_runs, random_state=0) for X in views])


def _standardised(X: NDArray[Any]) -> NDArray[np.float64]:
    """Standardise the columns, so that no package gains by scaling on its own."""
    from sklearn.preprocessing import StandardScaler

    scaled: NDArray[np.float64] = StandardScaler().fit_transform(X)
    return scaled


def _named(views: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {f"view_{v}": view for v, view in enumerate(views)}
