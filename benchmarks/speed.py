"""Time and memory of the library compared with other ways to the same answer.

All contenders of a cell run in new processes, in turn, on the same labels; imports and first calls
are excluded (:mod:`benchmarks.measuring`). The input of a contender is a file of labels P (n, V)
and classes y (n,).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import CONSENSUS, Context
from benchmarks.measuring import Stopwatch, Work, measure_side_by_side
from benchmarks.results import Result, Table, item, seconds_text
from coterie.ensembles.generate import make_partitions, planted_partitions
from coterie.runtime.devices import readable_bytes

#: Name of the library among the contenders of a cell.
OURS = "coterie"
#: Rows of k-means labels, planted rows, tuples to relax, and steps of the relaxation.
FULL = {"n_rows": 200_000, "n_large": 1_000_000, "n_tuples": 3_000, "n_iter": 40}
QUICK = {"n_rows": 20_000, "n_large": 50_000, "n_tuples": 600, "n_iter": 20}
N_FEATURES = 10
#: Standard deviation of the mixture's components; their centres are uniform in [−10, 10].
SPREAD = 6.0
WARM_UP_ROWS = 1000

_WARM_UP_TUPLES = 20_000
_MAJORITY = 0.5

Facts = dict[str, Any]


class Cell(NamedTuple):
    """One comparison: the labels to write, and the contenders that read them."""

    title: str
    write_labels: Callable[[], None]
    contenders: Mapping[str, Work]


MEASURES = CONSENSUS


def run(context: Context, *, repeats: int = 3) -> Result:
    """Measure all cells, each contender at most ``repeats`` times."""
    with tempfile.TemporaryDirectory(prefix="coterie-speed-") as folder:
        cells = speed_cells(Path(folder) / "labels.npz", **(QUICK if context.quick else FULL))
        measured = [measure_cell(cell, repeats) for cell in context.track(cells, "measuring")]
    data = {"cells": measured}
    return Result("speed", tables_of(data), data, warning_notes(measured))


def speed_cells(path: Path, n_rows: int, n_large: int, n_tuples: int, n_iter: int) -> list[Cell]:
    """Return the cells; each writes its labels to ``path``."""
    V, one_hot = 40, partial(fit_one_hot_kmeans, path=path, n_clusters=8)
    kmeans = {
        "one-hot k-means, sparse": partial(one_hot, dense=False),
        "one-hot k-means, dense": partial(one_hot, dense=True),
    }
    ours = partial(fit_consensus, path=path, n_clusters=8)
    sizes = tuple(n_tuples // 8 + (k < n_tuples % 8) for k in range(8))
    steps: dict[str, Any] = {"path": path, "n_clusters": 8, "n_iter": n_iter}
    shares = (300, 200, 150, 100, 80, 60, 40, 30, 25, 15)
    large = tuple(n_large * share // 1000 for share in shares)
    moves = partial(search, path=path, n_clusters=10)
    return [
        Cell(
            f"{n_rows:,} × {V} labels by k-means with K = 8",
            partial(write_kmeans_labels, path, n_rows, 8, V, "kmeans"),
            {OURS: partial(ours, relaxation="admm"), **kmeans},
        ),
        Cell(
            f"{n_rows:,} × {V} labels by k-means with K = 8 to 50",
            partial(write_kmeans_labels, path, n_rows, 8, V, "diverse"),
            {OURS: partial(ours, relaxation="l2"), **kmeans},
        ),
        # noise that makes all tuples distinct: the reference counts each tuple once
        Cell(
            f"robust relaxation of {n_tuples:,} distinct tuples, {n_iter} steps",
            partial(write_planted_labels, path, sizes, V, 0, 0.6),
            {OURS: partial(relax, **steps), "textbook": partial(relax_by_the_book, **steps)},
        ),
        Cell(
            f"{sum(large):,} × {V} planted labels, 40% wrong together, 20% noise",
            partial(write_planted_labels, path, large, V, 2 * V // 5, 0.2),
            {OURS: partial(fit_consensus, path=path, n_clusters=10, relaxation="l2")},
        ),
        Cell(
            f"search over {n_large:,} × 24 planted labels, 20% noise",
            partial(write_planted_labels, path, (n_large // 10,) * 10, 24, 0, 0.2),
            {
                OURS: partial(moves, in_blocks=True),
                "one tuple after the other": partial(moves, in_blocks=False),
            },
        ),
    ]


def measure_cell(cell: Cell, repeats: int) -> dict[str, Any]:
    """Write the labels of a cell and measure its contenders.

    The ratios compare the library with the fastest other one, and its memory with the labels.
    """
    cell.write_labels()
    measured = measure_side_by_side(cell.contenders, repeats)
    contenders = {name: asdict(found) for name, found in measured.items()}
    found: dict[str, Any] = {"title": cell.title, "contenders": contenders}
    ours = measured.pop(OURS)
    if measured:
        best = min(measured.values(), key=lambda other: other.seconds)
        found["time_ratio"] = ours.seconds / best.seconds
        J, other = ours.facts["objective"], best.facts["objective"]
        found["objective_percent"] = 100 * (J / other - 1.0) if other else 0.0
    if "label_bytes" in ours.facts:
        found["memory_ratio"] = ours.peak_bytes / ours.facts["label_bytes"]
    return found


def warning_notes(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a note for each kind of warning that a contender raised."""
    return [
        f"{cell['title']}, {name}: {kind}, {times} times"
        for cell in cells
        for name, found in cell["contenders"].items()
        for kind, times in found["warnings"].items()
    ]


def write_kmeans_labels(
    path: Path, n_rows: int, n_clusters: int, n_partitions: int, strategy: str
) -> None:
    """Write labels of k-means runs on a Gaussian mixture."""
    from sklearn.datasets import make_blobs

    X, y = make_blobs(n_rows, N_FEATURES, centers=n_clusters, cluster_std=SPREAD, random_state=0)
    P = make_partitions(X, n_clusters, n_partitions, ensemble=strategy, n_jobs=-1, random_state=0)
    np.savez(path, P=P.astype(np.int32), y=y.astype(np.int32))


def write_planted_labels(
    path: Path, sizes: tuple[int, ...], n_partitions: int, n_bad: int, noise: float
) -> None:
    """Write planted partitions; the bad ones agree on a wrong partition."""
    P, y = planted_partitions(sizes, n_partitions, n_bad, noise, random_state=0)
    np.savez(path, P=P, y=y)


def fit_consensus(watch: Stopwatch, path: Path, n_clusters: int, **settings: Any) -> Facts:
    """Fit :class:`~coterie.RobustConsensus`."""
    from coterie import RobustConsensus

    P, y = load_labels(path)
    consensus = RobustConsensus(n_clusters, random_state=0, **settings)
    with watch.warm_up():
        consensus.fit(P[:WARM_UP_ROWS])
    with watch.measure():
        consensus.fit(P)
    return {"n_tuples": consensus.n_tuples_, **quality(P, y, consensus.labels_)}


def fit_one_hot_kmeans(watch: Stopwatch, path: Path, n_clusters: int, dense: bool) -> Facts:
    """Run scikit-learn's k-means, ten starts, on one-hot labels; encoding is not measured.

    The encoding is sparse in double precision, or dense in single precision.
    """
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import OneHotEncoder

    P, y = load_labels(path)
    encoder = OneHotEncoder(sparse_output=False, dtype=np.float32) if dense else OneHotEncoder()
    encoded = encoder.fit_transform(P)
    with watch.warm_up():
        KMeans(n_clusters, n_init=1, random_state=0).fit(encoded[:WARM_UP_ROWS])
    with watch.measure():
        fitted = KMeans(n_clusters, n_init=10, random_state=0).fit(encoded)
    return quality(P, y, fitted.labels_)


def relax(watch: Stopwatch, path: Path, n_clusters: int, n_iter: int) -> Facts:
    """Take ``n_iter`` steps of the robust relaxation."""
    from coterie.relaxation.admm import robust_factor

    M, start = _load_relaxation(path, n_clusters)
    with watch.warm_up():
        robust_factor(M, start, max_iter=2, tol=0.0)
    with watch.measure():
        found = robust_factor(M, start, max_iter=n_iter, tol=0.0)  # no tolerance: all the steps
    return {"n_tuples": len(start), "objective": found.objective}


def relax_by_the_book(watch: Stopwatch, path: Path, n_clusters: int, n_iter: int) -> Facts:
    """Take the same steps in the textbook form."""
    from coterie.relaxation.admm import reference_robust_relaxation

    M, start = _load_relaxation(path, n_clusters)
    dense = M.dense()
    del M
    with watch.measure():
        steps = reference_robust_relaxation(dense, start, n_iter=n_iter).objective
    return {"n_tuples": len(start), "objective": min(steps)}


def search(watch: Stopwatch, path: Path, n_clusters: int, in_blocks: bool) -> Facts:
    """Move tuples from the first partition until no single move improves the objective.

    The sweeps run in blocks on all cores, or over one tuple after the other in double precision.
    """
    from coterie.labels.tuples import as_label_tuples

    P, _ = load_labels(path)
    tuples = as_label_tuples(P)
    with watch.warm_up():
        few = tuples.codes[:_WARM_UP_TUPLES] - tuples.offsets[:-1]
        _search(as_label_tuples(few), n_clusters, in_blocks)
    with watch.measure():
        tables = _search(tuples, n_clusters, in_blocks)
    return {"n_tuples": tuples.n_tuples, "objective": tables.objective()}


def _search(tuples: Any, n_clusters: int, in_blocks: bool) -> Any:
    """Return the tables of the final clusters."""
    from coterie.search.kernels import move_rows

    from coterie.counts.cluster_tables import ClusterTables
    from coterie.search.median_search import sweep

    labels = tuples.labels_of_partition(0)
    tables = ClusterTables.of(tuples, labels, np.ones(tuples.n_partitions), n_clusters)
    all_tuples = np.ones(tuples.n_tuples, dtype=np.uint8)
    n_moved = 1
    while n_moved:
        n_moved = sweep(tuples, labels, tables, _MAJORITY) if in_blocks else move_rows(
            tuples.codes, None, tuples.partition_of, tuples.weights, tables.alpha, _MAJORITY,
            tables.complete, 0, tuples.n_tuples, all_tuples, labels, tables.table,
            tables.present, tables.size,
        )  # fmt: skip
    return tables


def load_labels(path: Path) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return labels (n, V) and classes (n,)."""
    with np.load(path) as arrays:
        return arrays["P"], arrays["y"]


def _load_relaxation(path: Path, n_clusters: int) -> tuple[Any, NDArray[np.float64]]:
    """Return the co-association M of u tuples and the start (u, K)."""
    from coterie.counts.coassociation import tuple_coassociation
    from coterie.labels.tuples import as_label_tuples
    from coterie.relaxation.spectral import least_squares_factor

    tuples = as_label_tuples(load_labels(path)[0])
    equal = np.ones(tuples.n_partitions)
    return tuple_coassociation(tuples, equal), least_squares_factor(tuples, equal, n_clusters)


def quality(P: NDArray[np.int32], y: NDArray[np.int32], found: NDArray[Any]) -> Facts:
    """Return accuracy and J of labels, and the bytes of the partitions."""
    from coterie import clustering_accuracy, mirkin_objective

    accuracy, objective = clustering_accuracy(y, found), mirkin_objective(P, found)
    return {"accuracy": accuracy, "objective": objective, "label_bytes": P.nbytes}


def tables_of(data: dict[str, Any]) -> list[Table]:
    """Return the tables of times and ratios."""
    cells = data["cells"]
    contenders = [
        {"cell": cell["title"], "contender": name, **found}
        for cell in cells
        for name, found in cell["contenders"].items()
    ]
    times = {
        "cell": item("cell"),
        "contender": item("contender"),
        "seconds": item("seconds", form=seconds_text),
        "runs": item("runs", form=lambda runs: str(len(runs))),
        "peak memory": item("peak_bytes", form=readable_bytes),
        "warm-up, s": item("warm_up_seconds", form=seconds_text),
        "tuples": item("facts", "n_tuples", form=","),
        "J": item("facts", "objective", form=".5g"),
        "accuracy": item("facts", "accuracy", form=".3f"),
    }
    compared = {
        "cell": item("title"),
        "time / fastest other": item("time_ratio", form=".3g"),
        "objective above it, %": item("objective_percent", form=".3g"),
        "peak memory / labels": item("memory_ratio", form=".3g"),
    }
    return [
        Table.of("Time and memory", contenders, times, n_named=2),
        Table.of("coterie compared with the others", cells, compared),
    ]
