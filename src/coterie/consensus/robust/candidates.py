"""Candidate answers by different methods, and the choice of the best separated one.

No single method is best on all data: relaxations combine weak agreement of many partitions, linkage
finds clusters of very different sizes, and profiles compare points by the points they are with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from coterie.consensus.linkage.evidence_accumulation import linkage_labels
from coterie.consensus.robust.votes import Votes
from coterie.consensus.spectral.coassociation_profiles import profile_labels
from coterie.labels.tuples import LabelTuples
from coterie.runtime.sampling import draw_weighted_subsample

__all__ = ["best_separated", "linkage_answer", "move_answer", "profile_answer"]

Labels = NDArray[np.int64]

# more tuples are sampled
_MOST_LINKED = 3_000  # linkage needs a dense (u, u) matrix
_MOST_PROFILED = 20_000


def linkage_answer(votes: Votes, n_clusters: int, rng: np.random.RandomState) -> Labels:
    """Return labels by average linkage on 1 − M; above 3,000 tuples, from a sample of them.

    >>> from coterie.labels.tuples import as_label_tuples
    >>> votes = Votes.from_tuples(as_label_tuples([[0, 0], [0, 0], [1, 0], [2, 1]]), None)
    >>> len(set(linkage_answer(votes, 2, np.random.RandomState(0)).tolist()))
    2
    """
    return _answer_from_sample(
        votes, _MOST_LINKED, rng, lambda tuples: linkage_labels(tuples, votes.weights, n_clusters)
    )


def profile_answer(votes: Votes, n_clusters: int, rng: np.random.RandomState) -> Labels:
    """Return labels by k-means on the rows of M; above 20,000 tuples, from a sample of them."""
    # missing labels need a dense (u, u) matrix
    most = _MOST_LINKED if votes.tuples.has_missing else _MOST_PROFILED
    return _answer_from_sample(
        votes, most, rng, lambda tuples: profile_labels(tuples, votes.weights, n_clusters, rng)[0]
    )


def move_answer(votes: Votes, labels: Labels) -> Labels:
    """Move every tuple of an answer to its best cluster; keep the answer if a cluster empties."""
    moved = _assign_by_votes(votes, labels, np.full_like(labels, -1))
    return moved if len(np.unique(moved)) == len(np.unique(labels)) else labels


def best_separated(votes: Votes, answers: Mapping[str, Labels]) -> tuple[str, dict[str, float]]:
    """Return the name of the best separated answer, and the separation of every answer.

    The separation is the mean silhouette of the points under the distance 1 − M. The first of
    equally separated answers wins.
    """
    separation = {name: votes.separation(labels) for name, labels in answers.items()}
    # rounded, so that the order of the summation does not decide between equal answers
    return max(separation, key=lambda name: round(separation[name], 9)), separation


def _answer_from_sample(
    votes: Votes,
    most: int,
    rng: np.random.RandomState,
    solve: Callable[[LabelTuples], Labels],
) -> Labels:
    """Label at most ``most`` tuples by ``solve``; the others join these clusters by their votes."""
    tuples = votes.tuples
    if tuples.n_tuples <= most:
        return solve(tuples)
    chosen, weights = draw_weighted_subsample(tuples.weights, most, rng)
    labels = np.full(tuples.n_tuples, -1, dtype=np.int64)
    labels[chosen] = solve(tuples.subset(chosen, weights))
    return _assign_by_votes(votes, labels, labels)


def _assign_by_votes(votes: Votes, labels: Labels, fixed: Labels) -> Labels:
    """Assign tuples to the clusters of ``labels``; a tuple with ``fixed`` ≥ 0 gets that label."""
    tables = votes.tables(labels)
    # halfway between the mean agreement within and between clusters
    threshold = sum(tables.mean_agreement()) / 2
    codes, memberships = votes.tuples.codes, votes.tuples.memberships
    return np.maximum(tables.assign(codes, threshold, fixed, memberships)[0], 0)
