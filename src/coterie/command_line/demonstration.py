"""The experiment of ``coterie demo``: plant a partition, spoil votes, see what is recovered."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SIZES", "Demonstration", "Recovery", "demonstrate"]

SIZES = (400, 200, 100, 60, 40)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Recovery:
    """What one method made of the spoiled partitions.

    Attributes
    ----------
    method, idea : str
        Its name, and what it does in a few words.
    accuracy, agreement : float
        Share of points labelled right under the best naming; adjusted Rand index.
    seconds : float
    notes : tuple of str
        What the method warned of.
    fitted : (n,) labels or fitted consensus function
    """

    method: str
    idea: str
    accuracy: float
    agreement: float
    seconds: float
    notes: tuple[str, ...]
    fitted: Any


@dataclass(frozen=True, eq=False)
class Demonstration:
    """What was planted and spoiled, and what each method recovered.

    Attributes
    ----------
    sizes : tuple of K int
        Of the planted clusters.
    noise : float
        The share of labels redrawn in every partition.
    n_bad : int
        The number of spoiled partitions: the last ones.
    seed : int
    P : (n, V) int
    recoveries : tuple of Recovery
        The flagship last.
    """

    sizes: tuple[int, ...]
    noise: float
    n_bad: int
    seed: int
    P: NDArray[np.int32]
    recoveries: tuple[Recovery, ...]

    @property
    def n_points(self) -> int:
        """The number of points n."""
        return int(self.P.shape[0])

    @property
    def n_partitions(self) -> int:
        """The number of partitions V."""
        return int(self.P.shape[1])

    @property
    def names(self) -> list[str]:
        """What the partitions are called."""
        return [f"p{v}" for v in range(self.n_partitions)]

    @property
    def spoiled(self) -> list[str]:
        """The partitions that were spoiled."""
        return self.names[self.n_partitions - self.n_bad :]

    @property
    def set_aside(self) -> list[str]:
        """The partitions that the flagship took the vote from."""
        return [self.names[v] for v in self.flagship.dissent_.dissenters]

    @property
    def flagship(self) -> Any:
        """The fitted RobustConsensus with its default settings."""
        return self.recoveries[-1].fitted

    @property
    def verdict(self) -> str:
        """Whether the spoiled partitions were found out, in a sentence."""
        spoiled, found = set(self.spoiled), set(self.set_aside)
        right, wrong = len(spoiled & found), len(found - spoiled)
        return (
            f"{right} of the {len(spoiled)} spoiled partitions lost their vote, "
            f"and {wrong or 'none'} of the {self.n_partitions - self.n_bad} honest ones"
        )


def demonstrate(
    seed: int = 0,
    sizes: Sequence[int] = SIZES,
    n_partitions: int = 20,
    n_bad: int = 8,
    noise: float = 0.2,
) -> Demonstration:
    """Plant a partition, spoil ``n_bad`` of its copies together, and run every method.

    Parameters
    ----------
    seed : int
        Of the partitions and of the methods.
    sizes, n_partitions, n_bad, noise
        As in :func:`coterie.planted_partitions`; the spoiled partitions are noisy copies of
        one common wrong partition.

    Returns
    -------
    Demonstration

    Examples
    --------
    >>> demonstrate(sizes=(30, 20), n_partitions=5, n_bad=2, noise=0.1).set_aside
    ['p3', 'p4']
    """
    from coterie.planted import planted_partitions

    _log.info("planting %d points in %d clusters", sum(sizes), len(sizes))
    P, y = planted_partitions(sizes, n_partitions, n_bad, noise, random_state=seed)
    # Compiled code is made, or fetched, before any clock runs.
    small, small_y = planted_partitions([12, 8], 5, 2, 0.1, random_state=seed)
    recoveries = []
    for method, (idea, fit) in _methods(seed).items():
        _log.info("%s", method)
        _recovered(method, idea, fit, small, small_y)
        recoveries.append(_recovered(method, idea, fit, P, y))
    return Demonstration(tuple(sizes), noise, n_bad, seed, P, tuple(recoveries))


def _recovered(
    method: str, idea: str, fit: Callable[[Any, int], Any], P: Any, y: NDArray[np.int32]
) -> Recovery:
    from coterie.command_line.progress import collected_notes
    from coterie.scores import adjusted_rand_index, clustering_accuracy

    n_clusters = int(y.max()) + 1
    with collected_notes() as notes:
        started = time.perf_counter()
        fitted = fit(P, n_clusters)
        seconds = time.perf_counter() - started
    labels = getattr(fitted, "labels_", fitted)
    return Recovery(
        method,
        idea,
        accuracy=clustering_accuracy(y, labels),
        agreement=adjusted_rand_index(y, labels),
        seconds=seconds,
        notes=tuple(notes),
        fitted=fitted,
    )


def _methods(seed: int) -> dict[str, tuple[str, Callable[[Any, int], Any]]]:
    """Every method with its idea, from (P, K) to labels or a fitted consensus; flagship last."""
    from coterie.consensus import L2Consensus, OneHotKMeans
    from coterie.robust_consensus import RobustConsensus

    def robust(**settings: Any) -> Callable[[Any, int], Any]:
        return lambda P, K: RobustConsensus(K, random_state=seed, **settings).fit(P)

    every_vote = {"partition_weights": None}
    return {
        "Best single partition": (
            "the given partition closest to all the others",
            lambda P, _: _most_central(P),
        ),
        "One-hot k-means": (
            "k-means on the labels as indicator columns",
            lambda P, K: OneHotKMeans(K, random_state=seed).fit(P),
        ),
        "Least squares (ℓ2)": (
            "low-rank fit to the average of all votes",
            lambda P, K: L2Consensus(K, random_state=seed).fit(P),
        ),
        "Robust relaxation (ℓ1)": (
            "the same with absolute errors, by ADMM",
            robust(refine=False, **every_vote),
        ),
        "Search (ℓ1)": (
            "discrete search on the same objective",
            robust(refine=True, **every_vote),
        ),
        "RobustConsensus": (
            "sets dissenters aside, then relaxes and searches",
            robust(),
        ),
    }


def _most_central(P: NDArray[np.int32]) -> NDArray[np.int32]:
    """The column of least mean distance to all columns; the planted partition is not looked at."""
    from coterie.scores import mirkin_objective

    distances = [mirkin_objective(P, column) for column in P.T]
    return P[:, distances.index(min(distances))]
