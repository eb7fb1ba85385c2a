"""What the search costs: sweeps in blocks on all cores, and one tuple after the other.

Both begin at the first partition and end where no single move gains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import Work
from coterie.counts.cluster_tables import ClusterTables
from coterie.labels.tuples import LabelTuples, as_label_tuples

__all__ = ["one_tuple_after_the_other", "sweeps_in_blocks"]

Sweep = Callable[[LabelTuples, NDArray[np.int64], ClusterTables, float], int]

_MAJORITY = 0.5
_WARM_UP_TUPLES = 20_000


@dataclass(frozen=True)
class SearchData:
    """Label tuples of as many clusters in each partition, and the number of those."""

    tuples: LabelTuples
    n_clusters: int


@dataclass(frozen=True)
class Settled:
    """The tables where nothing moves any more, and the sweeps it took."""

    tables: ClusterTables
    n_sweeps: int


def sweeps_in_blocks(path: Path, n_clusters: int) -> Work:
    """The search's own sweeps (:func:`coterie.search.sweeps.sweep`) of the labels at ``path``."""
    from coterie.search.sweeps import sweep

    return _work(path, n_clusters, sweep)


def one_tuple_after_the_other(path: Path, n_clusters: int) -> Work:
    """The same moves without blocks and threads: every tuple in turn, in double precision."""
    return _work(path, n_clusters, _sweep_in_turn)


def _work(path: Path, n_clusters: int, sweep: Sweep) -> Work:
    return Work(
        load=partial(_load, path, n_clusters=n_clusters),
        warm_up=partial(_warm_up, sweep=sweep),
        run=partial(_settle, sweep=sweep),
        describe=_describe,
    )


def _load(path: Path, n_clusters: int) -> SearchData:
    with np.load(path) as arrays:
        return SearchData(as_label_tuples(arrays["P"]), n_clusters)


def _warm_up(data: SearchData, sweep: Sweep) -> None:
    few = data.tuples.codes[:_WARM_UP_TUPLES] - data.tuples.offsets[:-1]
    _settle(SearchData(as_label_tuples(few), data.n_clusters), sweep)


def _settle(data: SearchData, sweep: Sweep) -> Settled:
    tuples = data.tuples
    labels = tuples.labels_of_partition(0)
    equal = np.ones(tuples.n_partitions)
    tables = ClusterTables.of(tuples, labels, equal, data.n_clusters)
    n_sweeps = 1
    while sweep(tuples, labels, tables, _MAJORITY):
        n_sweeps += 1
    return Settled(tables, n_sweeps)


def _sweep_in_turn(
    tuples: LabelTuples, labels: NDArray[np.int64], tables: ClusterTables, threshold: float
) -> int:
    from coterie.search.search_kernels import move_rows

    everyone = np.ones(tuples.n_tuples, dtype=np.bool_)
    moved: int = move_rows(
        tuples.codes, tuples.weights, tables.alpha, threshold, tables.complete, 0,
        tuples.n_tuples, everyone, labels, tables.table, tables.present, tables.size,
    )  # fmt: skip
    return moved


def _describe(data: SearchData, end: Settled) -> dict[str, Any]:
    return {
        "n_tuples": data.tuples.n_tuples,
        "n_iter": end.n_sweeps,
        "objective": end.tables.objective(),
    }
