"""Accuracy on planted partitions of which some votes are noisy and some are plain wrong.

A cell is one way to plant and to spoil (:func:`coterie.planted_partitions`). Each draw of a cell
gives every method the same label matrix; the planted partition is used for the score alone.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.consensus import OneHotKMeans
from coterie.consensus.robust.estimator import RobustConsensus
from coterie.counts.contingency import all_contingencies, pair_counts
from coterie.ensembles.planted import planted_partitions
from coterie.inspection.scores import clustering_accuracy
from coterie.labels.tuples import as_label_tuples

__all__ = [
    "CORE_CELLS",
    "FLAGSHIP",
    "METHODS",
    "MORE_CELLS",
    "CellResult",
    "MethodScores",
    "NoiseCell",
    "NoiseSummary",
    "most_central_partition",
    "run_cell",
    "run_noise",
    "summarise",
]

Labels = NDArray[Any]
#: Labels of the points from the label matrix, the number of clusters and a seed.
Method = Callable[[NDArray[np.int32], int, int], Labels]


@dataclass(frozen=True)
class NoiseCell:
    """One way to plant a partition and to spoil the votes for it.

    ``n_bad`` of the ``n_partitions`` have nothing to do with the planted one; they are wrong
    together (``correlated``) or each for itself. In all partitions a label is redrawn with
    probability ``noise``.
    """

    sizes: tuple[int, ...]
    n_partitions: int
    n_bad: int
    noise: float
    correlated: bool = True

    @property
    def n_clusters(self) -> int:
        """Number of planted clusters K."""
        return len(self.sizes)

    def draw(self, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Label matrix (n, V) and planted partition (n,)."""
        return planted_partitions(
            self.sizes,
            self.n_partitions,
            self.n_bad,
            self.noise,
            correlated=self.correlated,
            random_state=seed,
        )


#: The cells that tell methods apart most clearly …
CORE_CELLS = (
    NoiseCell((100, 100, 100), 3, 1, 0.1),
    NoiseCell((200, 60, 40), 3, 1, 0.1),
    NoiseCell((200, 60, 40), 5, 2, 0.1),
    NoiseCell((200, 60, 20, 20), 5, 2, 0.1),
    NoiseCell((200, 60, 40), 20, 8, 0.2),
    NoiseCell((300, 30, 20), 10, 4, 0.1),
    NoiseCell((300, 30, 20), 10, 4, 0.1, correlated=False),
    NoiseCell((100, 50, 50, 30, 20), 10, 4, 0.2),
    NoiseCell((100, 50, 50, 30, 20), 40, 20, 0.4, correlated=False),
    NoiseCell((200, 50, 50), 40, 30, 0.3, correlated=False),
    NoiseCell((400, 200, 100, 100, 50), 40, 16, 0.2),
)
#: … and more of them: 2 to 20 clusters, 3 to 100 partitions, up to 5,000 points.
MORE_CELLS = (
    NoiseCell((150, 150), 3, 1, 0.1),
    NoiseCell((250, 50), 5, 2, 0.1),
    NoiseCell((250, 50), 5, 2, 0.1, correlated=False),
    NoiseCell((4000, 1000), 10, 4, 0.1),
    NoiseCell((100, 100, 100), 10, 4, 0.3),
    NoiseCell((100, 100, 100), 10, 4, 0.3, correlated=False),
    NoiseCell((4000, 700, 300), 7, 3, 0.1),
    NoiseCell((4000, 700, 300), 7, 3, 0.1, correlated=False),
    NoiseCell((200, 50, 50), 100, 40, 0.3),
    NoiseCell((500, 300, 150, 50), 6, 2, 0.2),
    NoiseCell((1000,) * 5, 4, 1, 0.1, correlated=False),
    NoiseCell((1000,) * 5, 5, 2, 0.1),
    NoiseCell((3000, 1200, 500, 200, 100), 5, 2, 0.1),
    NoiseCell((3000, 1200, 500, 200, 100), 5, 2, 0.05, correlated=False),
    NoiseCell((200, 100, 50, 25, 12), 10, 0, 0.4),
    NoiseCell((200, 100, 50, 25, 12), 40, 0, 0.6),
    NoiseCell((150, 80, 40, 20, 10), 60, 24, 0.5),
    NoiseCell((120, 60, 30, 20, 10), 100, 45, 0.4),
    NoiseCell((500,) * 10, 3, 1, 0.05),
    NoiseCell((40,) * 10, 20, 8, 0.2),
    NoiseCell((100, 80, 60, 50, 40, 30, 20, 10, 5, 5), 20, 8, 0.1),
    NoiseCell((100, 80, 60, 50, 40, 30, 20, 10, 5, 5), 20, 8, 0.1, correlated=False),
    NoiseCell((30,) * 20, 40, 16, 0.2),
    NoiseCell((80, 70, 60, 50, 40) + (20,) * 10 + (10,) * 5, 30, 10, 0.2),
)


def most_central_partition(P: NDArray[Any]) -> Labels:
    """The given partition with the lowest J: the least mean Mirkin distance to all of them.

    The best single partition one can pick without knowing the answer; the first of equals.

    Examples
    --------
    >>> most_central_partition(np.array([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]])).tolist()
    [0, 0, 1, 1]
    """
    tuples = as_label_tuples(P)
    distances = pair_counts(all_contingencies(tuples), tuples.offsets).mirkin
    return np.asarray(P)[:, int(np.argmin(tuples.in_given_order(distances.sum(axis=1))))]


def _robust(P: NDArray[np.int32], n_clusters: int, seed: int, **settings: Any) -> Labels:
    return RobustConsensus(n_clusters, random_state=seed, **settings).fit(P).labels_


def _one_hot_kmeans(P: NDArray[np.int32], n_clusters: int, seed: int) -> Labels:
    return OneHotKMeans(n_clusters, random_state=seed).fit(P).labels_


def _best_single(P: NDArray[np.int32], n_clusters: int, seed: int) -> Labels:  # noqa: ARG001 (a Method)
    return most_central_partition(P)


FLAGSHIP = "robust_consensus"

#: What is compared. ``robust_consensus`` is :class:`~coterie.RobustConsensus` as it comes; ``admm``
#: is the method of the paper; ``search`` hears all partitions alike.
METHODS: Mapping[str, Method] = {
    "best_single": _best_single,
    "one_hot_kmeans": _one_hot_kmeans,
    "l2": partial(_robust, relaxation="l2", refine=False, partition_weights=None),
    "admm": partial(_robust, relaxation="admm", refine=False, partition_weights=None),
    "search": partial(_robust, refine=True, partition_weights=None),
    FLAGSHIP: _robust,
}


@dataclass(frozen=True)
class MethodScores:
    """Accuracy and seconds of one method in each draw of a cell."""

    accuracies: tuple[float, ...]
    seconds: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean accuracy."""
        return float(np.mean(self.accuracies))

    @property
    def standard_error(self) -> float | None:
        """s/√r with s² the unbiased variance over r draws; None for a single draw.

        >>> round(MethodScores((0.8, 1.0), (0.1, 0.1)).standard_error, 9)
        0.1
        """
        if len(self.accuracies) < 2:
            return None
        return float(np.std(self.accuracies, ddof=1) / np.sqrt(len(self.accuracies)))

    @property
    def mean_seconds(self) -> float:
        """Mean wall time of a draw."""
        return float(np.mean(self.seconds))


@dataclass(frozen=True)
class CellResult:
    """What the methods did in a cell.

    ``warnings`` counts the library's warnings: ``{(method, kind): times}``.
    """

    cell: NoiseCell
    methods: Mapping[str, MethodScores]
    warnings: Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class NoiseSummary:
    """Several cells in a few figures.

    Attributes
    ----------
    n_cells : int
    mean, lowest : dict
        Of each method, the mean over the cells of its mean accuracy, and the lowest of these.
    shortfall : float
        The most by which the flagship lies below the better of ``l2`` and ``admm`` in a cell;
        negative where it is above both in every cell.
    shortfall_cell : NoiseCell
        Where that is.
    """

    n_cells: int
    mean: Mapping[str, float]
    lowest: Mapping[str, float]
    shortfall: float
    shortfall_cell: NoiseCell


def run_noise(
    cells: Iterable[NoiseCell],
    n_draws: int,
    after_draw: Callable[[], None] | None = None,
) -> list[CellResult]:
    """Run all methods on ``n_draws`` draws of every cell; kernels are compiled before."""
    run_cell(NoiseCell((12, 6), 4, 1, 0.2), 1)
    return [run_cell(cell, n_draws, after_draw=after_draw) for cell in cells]


def run_cell(
    cell: NoiseCell,
    n_draws: int,
    methods: Mapping[str, Method] = METHODS,
    after_draw: Callable[[], None] | None = None,
) -> CellResult:
    """Run the methods on draws 0, 1, …; the number of a draw seeds it and the methods."""
    accuracies: dict[str, list[float]] = {name: [] for name in methods}
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    counts: Counter[tuple[str, str]] = Counter()
    for draw in range(n_draws):
        P, y = cell.draw(draw)
        for name, method in methods.items():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                start = time.perf_counter()
                labels = method(P, cell.n_clusters, draw)
                seconds[name].append(time.perf_counter() - start)
            counts.update((name, warning.category.__name__) for warning in caught)
            accuracies[name].append(clustering_accuracy(y, labels))
        if after_draw is not None:
            after_draw()
    scores = {name: MethodScores(tuple(accuracies[name]), tuple(seconds[name])) for name in methods}
    return CellResult(cell, scores, dict(counts))


def summarise(results: Sequence[CellResult]) -> NoiseSummary:
    """The figures of :class:`NoiseSummary` over the cells given."""
    names = results[0].methods
    means = {name: [result.methods[name].mean for result in results] for name in names}
    better = np.maximum(means["l2"], means["admm"])
    shortfalls = better - np.asarray(means[FLAGSHIP])
    worst = int(np.argmax(shortfalls))
    return NoiseSummary(
        len(results),
        {name: float(np.mean(values)) for name, values in means.items()},
        {name: min(values) for name, values in means.items()},
        float(shortfalls[worst]),
        results[worst].cell,
    )
