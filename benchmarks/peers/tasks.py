"""The tasks of the comparison with other packages: labels, features or views with known classes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.trials import Material
from coterie.datasets import load_views
from coterie.ensembles.generate import make_partitions, planted_partitions

N_RUNS, RUNS_PER_VIEW = 40, 10
#: Shares of the planted clusters, in percent.
PLANTED = (40, 25, 15, 12, 8)
BAD_VOTES, NOISE = 16, 0.2
BLOBS, N_FEATURES, SPREAD = 8, 10, 6.0
#: Numbers of wrong partitions among 20, the sizes of the clusters (no rule of this package was
#: designed on such a table), and draws of each.
WRONG_OF_20, WRONG_SIZES, WRONG_DRAWS = (0, 2, 4, 6, 8, 9), (140, 110, 80, 50, 20), 3


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


def wrong_vote_tasks(draws: int = WRONG_DRAWS) -> dict[tuple[int, int], Task]:
    """Return tasks with more and more partitions wrong in the same way, by number and draw.

    >>> wrong_vote_tasks()[4, 0].title
    '4 of 20 partitions wrong in the same way, draw 0'
    """
    return {
        (wrong, draw): Task(
            f"wrong-{wrong}-{draw}",
            f"{wrong} of 20 partitions wrong in the same way, draw {draw}",
            "labels",
            sum(WRONG_SIZES),
            len(WRONG_SIZES),
            20,
            partial(_wrong_votes, wrong, draw),
        )
        for wrong in WRONG_OF_20
        for draw in range(draws)
    }


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
    return np.hstack(
        [make_partitions(X, K, n_runs, ensemble="kmeans", random_state=0) for X in views]
    )


def _standardised(X: NDArray[Any]) -> NDArray[np.float64]:
    """Standardise the columns, so that no package gains by scaling on its own."""
    from sklearn.preprocessing import StandardScaler

    scaled: NDArray[np.float64] = StandardScaler().fit_transform(X)
    return scaled


def _named(views: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {f"view_{v}": view for v, view in enumerate(views)}


def _wrong_votes(wrong: int, seed: int) -> Material:
    P, y = planted_partitions(WRONG_SIZES, 20, wrong, NOISE, random_state=seed)
    return Material(y, {"P": P}, P)
