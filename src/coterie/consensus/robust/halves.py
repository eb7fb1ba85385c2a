"""Stability of K clusters: the agreement of random halves of the partitions on them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.consensus.base import voting_tuples
from coterie.consensus.linkage import (
    cluster_weights,
    locally_weighted_embedding,
    locally_weighted_similarity,
    sizable_cut,
    weighted_linkage,
)
from coterie.consensus.robust.answers import Sample, rand_index
from coterie.consensus.robust.votes import Votes
from coterie.labels.tuples import LabelTuples
from coterie.relaxation.rounding import round_by_kmeans

__all__ = ["Answers", "leading_rows", "random_halves", "stability_of_halves"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

_SPLITS = 3
_MOST_TUPLES = 1_000
_STARTS = 2


class Answers(NamedTuple):
    """For each K the labels of tuples (u,), and the threshold for their confidence.

    ``sample`` has the tuples; None if they are all tuples of the votes.
    """

    tuples: LabelTuples
    labels: list[Labels]
    thresholds: list[float]
    sample: Sample | None = None

    def labels_at(self, places: NDArray[Any]) -> list[Labels]:
        """Return for each K the labels of some tuples of the votes."""
        if self.sample is None:
            return [labels[places] for labels in self.labels]
        return [self.sample.spread(labels, places) for labels in self.labels]


def stability_of_halves(
    votes: Votes, ks: NDArray[np.int64], rng: np.random.RandomState
) -> tuple[Array, Answers | None]:
    """Compute the mean agreement of the answers of two halves of the partitions for each K.

    The partitions are divided at random into two halves, three times. Locally weighted linkage and
    cut cluster the points by each half. The stability (L,) is the mean adjusted Rand index between
    an answer of one half and an answer of the other. At most 1,000 tuples are used, drawn by
    weight. The second result are the answers of linkage from all partitions, for these tuples.

    With fewer than four partitions the stability is nan, and there are no answers.

    >>> from coterie.labels.tuples import as_label_tuples
    >>> P = np.repeat(np.arange(12)[:, None], 4, axis=1) // [1, 1, 2, 2]
    >>> votes = Votes.from_tuples(as_label_tuples(P), None)
    >>> stability, _ = stability_of_halves(votes, np.array([6]), np.random.RandomState(0))
    >>> bool(stability[0] > 0.5)
    True
    """
    sample = Sample.draw(votes, rng, _MOST_TUPLES)
    tuples, V = sample.tuples, sample.tuples.n_partitions
    ks = np.minimum(ks, tuples.n_tuples)
    if V < 4:
        return np.full(len(ks), np.nan), None
    stability = np.zeros((_SPLITS, len(ks)))
    for split in range(_SPLITS):
        here, there = (
            _answers_of(tuples, half * votes.weights, ks, rng) for half in random_halves(V, rng)
        )
        for i in range(len(ks)):
            pairs = [(a[i], b[i]) for a in here for b in there]
            stability[split, i] = np.mean([rand_index(a, b, tuples.weights) for a, b in pairs])
    linked = _answers_of(tuples, votes.weights, ks, rng, with_cut=False)[0]
    return stability.mean(axis=0), Answers(tuples, linked, [0.5] * len(ks), sample)


def random_halves(
    n: int, rng: np.random.RandomState
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Divide n partitions at random into two halves; return a mask (n,) of each.

    >>> first, second = random_halves(5, np.random.RandomState(0))
    >>> int(first.sum()), bool((first ^ second).all())
    (2, True)
    """
    first = np.zeros(n, dtype=np.bool_)
    first[rng.permutation(n)[: n // 2]] = True
    return first, ~first


def leading_rows(embedding: Array, k: int) -> Array:
    """Return the embedding for k clusters: the first k columns, with rows of unit length.

    >>> leading_rows(np.array([[3.0, 4.0, 1.0]]), 2)
    array([[0.6, 0.8]])
    """
    rows = embedding[:, :k]
    return rows / np.maximum(np.linalg.norm(rows, axis=1), 1e-12)[:, None]


def _answers_of(
    tuples: LabelTuples,
    weights: Array,
    ks: NDArray[np.int64],
    rng: np.random.RandomState,
    with_cut: bool = True,
) -> list[list[Labels]]:
    """Return the answers of linkage, and of the cut, for each K, from partitions with weight.

    Tuples without a label in these partitions get −1.
    """
    voting, group = voting_tuples(tuples, weights)
    alpha = weights[weights > 0]
    omega = cluster_weights(voting, alpha)
    similarity = locally_weighted_similarity(voting, alpha, omega)
    tree = weighted_linkage(1.0 - similarity, voting.weights)
    sizes = np.minimum(ks, voting.n_tuples).tolist()
    answers = [[sizable_cut(tree, similarity, voting.weights, k) for k in sizes]]
    if with_cut:
        rows = locally_weighted_embedding(voting, alpha, omega, sizes[-1])
        cuts = []
        for k in sizes:
            cuts.append(round_by_kmeans(leading_rows(rows, k), voting.weights, k, rng, _STARTS))
        answers.append(cuts)
    return [[np.append(labels, -1)[group] for labels in each] for each in answers]
