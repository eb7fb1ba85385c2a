"""What peers are compared on: labels, features or views, with the classes they were made from."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.speed_works import N_FEATURES, SPREAD

__all__ = ["Kind", "Material", "Task", "fixed_tasks", "growing_task", "write_task"]

Kind = Literal["labels", "features", "views"]

N_RUNS = 40
RUNS_PER_VIEW = 10
#: Shares of the planted clusters, in percent.
PLANTED = (40, 25, 15, 12, 8)
BAD_VOTES = 16
NOISE = 0.2
BLOBS = 8


@dataclass(frozen=True)
class Material:
    """A task's arrays.

    Attributes
    ----------
    y : (n,) classes
    given : dict of str to array
        What the methods see: ``P`` (n, V), ``X`` (n, p), or ``view_0``, ``view_1`` …
    P : (n, V) labels or None
        The partitions J is computed against. Where features are given these are k-means runs
        on the same features, which no method sees.
    """

    y: NDArray[Any]
    given: dict[str, NDArray[Any]]
    P: NDArray[Any] | None = None


@dataclass(frozen=True)
class Task:
    """A problem for all methods of a kind.

    Attributes
    ----------
    name, title : for machines and for people
    kind : {"labels", "features", "views"}
        What is given.
    n_points, n_clusters, n_runs : int
        n, K, and the number of runs; of each view where there are several.
    make : function that gives the :class:`Material`
    """

    name: str
    title: str
    kind: Kind
    n_points: int
    n_clusters: int
    n_runs: int
    make: Callable[[], Material]


def growing_task(kind: Kind, n: int) -> Task:
    """The task of a kind that can have any number of points.

    >>> growing_task("labels", 1000).title
    '1,000 × 40 planted labels, 16 of 40 votes wrong together, 20% noise'
    """
    if kind == "labels":
        title = (
            f"{n:,} × {N_RUNS} planted labels, {BAD_VOTES} of {N_RUNS} votes wrong together, "
            f"{NOISE:.0%} noise"
        )
        return Task(f"planted-{n}", title, kind, n, len(PLANTED), N_RUNS, partial(_planted, n))
    if kind == "features":
        title = f"{n:,} points of {BLOBS} overlapping blobs, {N_RUNS} runs"
        return Task(f"blobs-{n}", title, kind, n, BLOBS, N_RUNS, partial(_blobs, n, see="X"))
    title = f"{n:,} points of {BLOBS} overlapping blobs in two views, {RUNS_PER_VIEW} runs a view"
    return Task(f"two-views-{n}", title, kind, n, BLOBS, RUNS_PER_VIEW, partial(_two_views, n))


def fixed_tasks(n_blobs: int) -> list[Task]:
    """Digits and blobs, by labels and by features, and the six views of handwritten numerals."""
    runs, views = f"{N_RUNS} k-means runs", f"6 views, {RUNS_PER_VIEW} runs a view"
    blobs = f"{n_blobs:,} points of {BLOBS} overlapping blobs"
    return [
        Task("digits-labels", f"digits, labels of {runs}", "labels",
             1797, 10, N_RUNS, partial(_digits, see="P")),
        Task(f"blobs-labels-{n_blobs}", f"{blobs}, labels of {runs}", "labels",
             n_blobs, BLOBS, N_RUNS, partial(_blobs, n_blobs, see="P")),
        Task("digits-features", f"digits, {N_RUNS} runs", "features",
             1797, 10, N_RUNS, partial(_digits, see="X")),
        Task("mfeat-views", f"handwritten numerals, {views}", "views",
             2000, 10, RUNS_PER_VIEW, _mfeat),
    ]  # fmt: skip


def write_task(task: Task, folder: Path) -> Material:
    """Write what the methods see to a folder, as :mod:`~benchmarks.peer_runner` reads it.

    The classes are not written: no method can look.
    """
    material = task.make()
    folder.mkdir(parents=True)
    described = {"n_clusters": task.n_clusters, "n_runs": task.n_runs}
    (folder / "task.json").write_text(json.dumps(described), encoding="utf-8")
    for name, rows in material.given.items():
        np.save(folder / f"{name}.npy", rows)
    return material


def _planted(n: int) -> Material:
    from coterie.ensembles.planted import planted_partitions

    sizes = [n * share // 100 for share in PLANTED]
    sizes[0] += n - sum(sizes)
    P, y = planted_partitions(sizes, N_RUNS, BAD_VOTES, NOISE, random_state=0)
    return Material(y, {"P": P}, P)


def _blobs(n: int, see: str) -> Material:
    from sklearn.datasets import make_blobs

    X, y = make_blobs(n, N_FEATURES, centers=BLOBS, cluster_std=SPREAD, random_state=0)
    if see == "X":
        return Material(y, {"X": X})
    P = _runs([X], BLOBS, N_RUNS)
    return Material(y, {"P": P}, P)


def _digits(see: str) -> Material:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    # rows in random order: partitioners break ties by position, and position must say nothing
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    P = _runs([X], 10, N_RUNS)
    return Material(y, {"P": P} if see == "P" else {"X": X}, P)


def _two_views(n: int) -> Material:
    rng = np.random.default_rng(0)
    y = rng.integers(BLOBS, size=n)
    views = []
    for _ in range(2):
        centres = rng.uniform(-10, 10, size=(BLOBS, N_FEATURES))
        views.append(_standardised(centres[y] + SPREAD * rng.standard_normal((n, N_FEATURES))))
    return Material(y, _named(views))


def _mfeat() -> Material:
    from coterie.datasets.loading import load_views

    views, y = load_views("uci_mfeat")
    order = np.random.default_rng(0).permutation(len(y))
    rows = [_standardised(np.asarray(view)[order]) for view in views]
    return Material(y[order], _named(rows), _runs(rows, 10, RUNS_PER_VIEW))


def _runs(views: Sequence[NDArray[Any]], K: int, n_runs: int) -> NDArray[np.int32]:
    """Labels of k-means runs on every view."""
    from coterie.ensembles.making import make_partitions

    return np.hstack([make_partitions(X, K, n_runs, random_state=0) for X in views])


def _standardised(X: NDArray[Any]) -> NDArray[np.float64]:
    """Columns of mean 0 and deviation 1, so that no package gains by scaling by itself."""
    from sklearn.preprocessing import StandardScaler

    scaled: NDArray[np.float64] = StandardScaler().fit_transform(X)
    return scaled


def _named(views: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {f"view_{v}": view for v, view in enumerate(views)}
