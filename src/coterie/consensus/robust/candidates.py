"""Answers of different kinds to the same question, and which of them to believe.

Relaxations see what many partitions say together, linkage sees clusters of very different sizes,
profiles see whom a point keeps company with: no one of them is best everywhere. Which is best here
can be read off the votes, in which the clusters of one answer are better separated than those of
another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from coterie.consensus.linkage.evidence_accumulation import linkage_labels
from coterie.consensus.robust.votes import Votes
from coterie.consensus.spectral.coassociation_profiles import profile_labels
from coterie.counts.cluster_tables import ClusterTables
from coterie.labels.tuples import LabelTuples
from coterie.runtime.sampling import draw_weighted_subsample

__all__ = ["best_separated", "linkage_answer", "moved_answer", "profile_answer"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

#: More tuples than these are represented by a sample; linkage needs a dense matrix over it.
_MOST_LINKED = 3_000
_MOST_PROFILED = 20_000


def linkage_answer(votes: Votes, n_clusters: int, rng: np.random.RandomState) -> Labels:
    """Average linkage on 1 − M, cut at K clusters; above 3,000 tuples, that of a sample of them.

    >>> from coterie.labels.tuples import as_label_tuples
    >>> votes = Votes.counted(as_label_tuples([[0, 0], [0, 0], [1, 0], [2, 1]]), None)
    >>> len(set(linkage_answer(votes, 2, np.random.RandomState(0)).tolist()))
    2
    """
    return _answer_of_a_sample(
        votes, _MOST_LINKED, rng, lambda tuples: linkage_labels(tuples, votes.weights, n_clusters)
    )


def profile_answer(votes: Votes, n_clusters: int, rng: np.random.RandomState) -> Labels:
    """k-means on the rows of M; above 20,000 tuples (3,000 with missing labels), of a sample."""
    most = _MOST_LINKED if votes.tuples.has_missing else _MOST_PROFILED
    return _answer_of_a_sample(
        votes, most, rng, lambda tuples: profile_labels(tuples, votes.weights, n_clusters, rng)[0]
    )


def moved_answer(votes: Votes, labels: Labels) -> Labels:
    """An answer to earlier votes, every tuple moved to where the votes of now want it.

    Unless that would leave a cluster empty: then as it is.
    """
    moved = _by_votes(votes, labels, np.full_like(labels, -1))
    return moved if len(np.unique(moved)) == len(np.unique(labels)) else labels


def best_separated(votes: Votes, answers: Mapping[str, Labels]) -> tuple[str, dict[str, float]]:
    """The answer whose clusters are best separated in the votes, and the separation of every one.

    That is the mean silhouette of the points under the distance 1 − M. Of equals, the first wins.
    """
    separation = {name: votes.separation(labels) for name, labels in answers.items()}
    return max(separation, key=lambda name: round(separation[name], 9)), separation


def _answer_of_a_sample(
    votes: Votes,
    most: int,
    rng: np.random.RandomState,
    solve: Callable[[LabelTuples], Labels],
) -> Labels:
    """Labels of all tuples from those of a sample, which the others join by their votes."""
    tuples = votes.tuples
    if tuples.n_tuples <= most:
        return solve(tuples)
    chosen, weights = draw_weighted_subsample(tuples.weights, most, rng)
    labels = np.full(tuples.n_tuples, -1, dtype=np.int64)
    labels[chosen] = solve(tuples.subset(chosen, weights))
    return _by_votes(votes, labels, labels)


def _by_votes(votes: Votes, labels: Labels, fixed: Labels) -> Labels:
    """Labels of all tuples by their votes for clusters; ``fixed`` where that is not −1."""
    tables = ClusterTables.of(votes.tuples, labels, votes.weights)
    threshold = sum(tables.mean_agreement()) / 2
    codes, memberships = votes.tuples.codes, votes.tuples.memberships
    return np.maximum(tables.assign(codes, threshold, fixed, memberships)[0], 0)
