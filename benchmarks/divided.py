"""The robust relaxation on parts beside the same relaxation undivided, and what search adds.

Each cell is relaxed three ways: by least squares (where the others start), by the ADMM on all
tuples, and by the ADMM on parts of several sizes. How low the ℓ1 objective is, how many points are
where they belong before and after the search, and how long it takes, are measured; in the last
cell on so many tuples that the undivided one is left out. All partitions have an equal vote.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.consensus.robust.votes import Votes
from coterie.counts.coassociation import tuple_coassociation
from coterie.ensembles.making import make_partitions
from coterie.ensembles.planted import planted_partitions
from coterie.inspection.scores import adjusted_rand_index, clustering_accuracy
from coterie.labels.tuples import as_label_tuples
from coterie.relaxation import least_squares_factor, robust_factor
from coterie.relaxation.divided_admm import divided_factor, l1_distance
from coterie.relaxation.rounding import round_by_kmeans, round_by_pivoted_qr
from coterie.search.median_search import Start, median_search

__all__ = ["CELLS", "QUICK_CELLS", "DividedCell", "DividedRow", "run_divided"]

Labels = NDArray[np.int64]
Drawn = tuple[NDArray[Any], NDArray[Any]]

_TEN_SIZES = (300, 200, 150, 100, 80, 60, 40, 30, 25, 15)
_SEED = 0


@dataclass(frozen=True)
class DividedCell:
    """Partitions to relax.

    Attributes
    ----------
    title : str
    draw : function without arguments
        Label matrix (n, V) and true labels (n,).
    n_clusters : int
    part_sizes : the most tuples of a part, for one row of results each
    undivided : bool
        Whether to relax all tuples at once as well.
    """

    title: str
    draw: Callable[[], Drawn]
    n_clusters: int
    part_sizes: tuple[int, ...]
    undivided: bool = True


@dataclass(frozen=True)
class DividedRow:
    """What parts of one size make of a cell.

    Attributes
    ----------
    title : of the cell
    n_points, n_tuples, part_size, n_parts : int
    theta : float
        How far the answer is from least squares (0) towards the parts' rows (1).
    seconds : dict
        Processor time of ``divided`` and, if it ran, ``undivided``, on all cores together.
    excess : dict
        ‖M − F Fᵀ‖₁ of ``l2`` and ``divided`` relative to ``undivided``, less 1; empty if that
        did not run.
    accuracy : dict
        Of ``l2``, ``undivided``, ``divided`` and ``polished``, the last searched over all tuples.
    agreement : float or None
        Adjusted Rand index of the labels of ``divided`` and ``undivided``.
    """

    title: str
    n_points: int
    n_tuples: int
    part_size: int
    n_parts: int
    theta: float
    seconds: dict[str, float]
    excess: dict[str, float]
    accuracy: dict[str, float]
    agreement: float | None


def run_divided(
    cells: Iterable[DividedCell], before_step: Callable[[str], None] | None = None
) -> list[DividedRow]:
    """Run all cells; kernels are compiled before.

    Examples
    --------
    >>> draw = partial(planted_partitions, (60, 40), 9, 0, 0.5, random_state=0)
    >>> row, = run_divided([DividedCell("two clusters", draw, 2, (50,))])
    >>> row.n_parts, sorted(row.accuracy)
    (2, ['divided', 'l2', 'polished', 'undivided'])
    """
    warm_up = partial(_planted, (30, 20), 9, 0.5)
    list(_run_cell(DividedCell("warm-up", warm_up, 2, (20,)), lambda _: None))
    say = before_step or (lambda _: None)
    return [row for cell in cells for row in _run_cell(cell, say)]


def _run_cell(cell: DividedCell, say: Callable[[str], None]) -> Iterator[DividedRow]:
    """A row for each size of parts; what they are compared with is computed once."""
    say(f"{cell.title}: least squares")
    setting = _Setting(cell)
    whole = None
    if cell.undivided:
        say(f"{cell.title}: undivided")
        whole = _Undivided(setting)
    for part_size in cell.part_sizes:
        say(f"{cell.title}: parts of {part_size:,}")
        yield _row(setting, whole, part_size)


def _row(setting: _Setting, whole: _Undivided | None, part_size: int) -> DividedRow:
    """What parts of one size make of it."""
    votes, start = setting.votes, setting.start
    began = time.process_time()
    found = divided_factor(
        votes.tuples, votes.weights, start, part_size=part_size, random_state=_SEED
    )
    seconds = {"divided": time.process_time() - began}
    labels = {"l2": setting.rounded(start), "divided": setting.rounded(found.factor)}
    labels["polished"] = setting.polished(labels["divided"])
    excess: dict[str, float] = {}
    agreement = None
    if whole is not None:
        seconds["undivided"] = whole.seconds
        excess = {"l2": whole.excess(start), "divided": whole.excess(found.factor)}
        labels["undivided"] = whole.labels
        agreement = setting.agreement(labels["divided"], whole.labels)
    return DividedRow(
        setting.title,
        len(setting.truth),
        votes.tuples.n_tuples,
        part_size,
        found.n_parts,
        found.theta,
        seconds,
        excess,
        {name: setting.accuracy(some) for name, some in labels.items()},
        agreement,
    )


class _Setting:
    """The votes, truth and start of a cell, and the steps from a factor to a figure."""

    def __init__(self, cell: DividedCell) -> None:
        P, self.truth = cell.draw()
        self.title, self.K = cell.title, cell.n_clusters
        # with equal weights no tuple is lost: those of the votes are those of the points
        self.votes = Votes.from_tuples(as_label_tuples(P), None, self.K)
        self.start = least_squares_factor(
            self.votes.tuples, self.votes.weights, self.K, self.votes.contingencies
        )

    def rounded(self, factor: NDArray[np.float64]) -> Labels:
        """Labels of the tuples as RobustConsensus gets them from a factor."""
        weights = self.votes.tuples.weights
        rounded = [
            round_by_pivoted_qr(factor, weights),
            round_by_kmeans(factor, weights, self.K, _SEED),
        ]
        return min(rounded, key=self.votes.objective)

    def polished(self, labels: Labels) -> Labels:
        """The labels after the search from them over all tuples."""
        start = Start("divided", labels)
        return median_search(self.votes.tuples, self.votes.weights, self.K, [start]).labels

    def accuracy(self, labels: Labels) -> float:
        """Share of points in the right cluster."""
        return clustering_accuracy(self.truth, self.votes.tuples.expand(labels))

    def agreement(self, ours: Labels, theirs: Labels) -> float:
        """Adjusted Rand index over points."""
        expand = self.votes.tuples.expand
        return adjusted_rand_index(expand(ours), expand(theirs))


class _Undivided:
    """The relaxation of all tuples at once."""

    def __init__(self, setting: _Setting) -> None:
        began = time.process_time()
        self.M = tuple_coassociation(setting.votes.tuples, setting.votes.weights)
        relaxed = robust_factor(self.M, setting.start)
        self.seconds = time.process_time() - began
        self.objective = relaxed.objective
        self.labels = setting.rounded(relaxed.factor)

    def excess(self, factor: NDArray[np.float64]) -> float:
        """How much higher the objective of another factor is, relative to this one's."""
        return l1_distance(self.M, factor) / self.objective - 1.0


def _planted(
    sizes: tuple[int, ...],
    n_partitions: int,
    noise: float,
    n_bad: int = 0,
    correlated: bool = False,
    missing: float = 0.0,
) -> Drawn:
    """Planted partitions, a share of whose labels is missing."""
    P, y = planted_partitions(
        sizes, n_partitions, n_bad, noise, correlated=correlated, random_state=_SEED
    )
    P[np.random.default_rng(_SEED).random(P.shape) < missing] = -1
    return P, y


def _digits(strategy: str, n_partitions: int) -> Drawn:
    """Partitions of the 1,797 handwritten digits that scikit-learn brings along."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    labels = make_partitions(
        X, 10, n_partitions=n_partitions, strategy=strategy, random_state=_SEED
    )
    return labels, y


def _times(sizes: tuple[int, ...], factor: int) -> tuple[int, ...]:
    return tuple(size * factor for size in sizes)


def _planted_cells(scale: int, part_sizes: tuple[int, ...]) -> tuple[DividedCell, ...]:
    """Planted cells of 1,000 points times ``scale``, four times that where tuples repeat."""
    three, four = _times((500, 250, 250), scale), _times((400, 250, 200, 150), scale)
    cells: tuple[tuple[str, int, Callable[[], Drawn]], ...] = (
        ("8 equal clusters", 8, partial(_planted, (125 * scale,) * 8, 40, 0.6)),
        ("4 clusters", 4, partial(_planted, four, 12, 0.5)),
        ("10 clusters, 1.5% to 30%", 10, partial(_planted, _times(_TEN_SIZES, scale), 20, 0.4)),
        ("4 of 10 wrong apart", 3, partial(_planted, three, 10, 0.4, 4)),
        ("4 of 10 wrong together", 3, partial(_planted, three, 10, 0.4, 4, True)),
        ("a third missing", 4, partial(_planted, four, 12, 0.3, missing=1 / 3)),
        ("repeated tuples", 4, partial(_planted, _times(four, 4), 12, 0.15)),
    )
    return tuple(DividedCell(title, draw, K, part_sizes) for title, K, draw in cells)


QUICK_CELLS = _planted_cells(1, (250, 500))
CELLS = (
    *_planted_cells(4, (1000, 2000)),
    DividedCell("digits, subspaces", partial(_digits, "subspaces", 40), 10, (400, 800)),
    DividedCell("digits, subsamples", partial(_digits, "subsample", 20), 10, (400, 800)),
    DividedCell(
        "4 clusters, many points",
        partial(_planted, _times((400, 250, 200, 150), 50), 20, 0.5),
        4,
        (4000,),
        undivided=False,
    ),
)
