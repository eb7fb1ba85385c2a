"""The choice between the search and linkage by the sizes of the clusters.

The search for the least J prefers clusters of similar size. If the true clusters are of similar
size, it is the most accurate answer. Otherwise it divides the large ones, and locally weighted
linkage is better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from coterie.consensus.base import voting_tuples
from coterie.consensus.linkage import cluster_weights, locally_weighted_similarity, sizable_clusters
from coterie.consensus.robust.answers import Answer, Sample, rand_index
from coterie.consensus.robust.halves import random_halves
from coterie.consensus.robust.votes import Votes
from coterie.counts.contingency import all_contingencies
from coterie.search.median_search import MAJORITY, SearchResult

__all__ = ["answer_by_sizes", "effective_number"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

#: Clusters are of similar size if their effective number is at least this share of K.
LEAST_EVENNESS = 0.9
#: The clusters of halves of the partitions agree if their adjusted Rand index is at least this.
LEAST_STABILITY = 0.7
_SPLITS = 2


def answer_by_sizes(
    votes: Votes, n_clusters: int, given: Mapping[str, Labels], rng: np.random.RandomState
) -> tuple[Answer, SearchResult | None]:
    """Return the answer of the search, or of linkage; the search result is None for linkage.

    The search starts from the ``given`` answers (u,). With a calibrated threshold it may find
    clusters of different size, so this search decides. The threshold 1/2 prefers clusters of
    similar size; if the first search found these, the answer with this threshold is more accurate.
    """
    K = min(n_clusters, votes.tuples.n_tuples)
    search = votes.search(K, given)
    evenness = effective_number(search.tables.size) / K
    if evenness < LEAST_EVENNESS:
        reason = f"the clusters of the search are of different size (evenness {evenness:.2f})"
        return _linkage(votes, K, reason, rng), None
    stability = _stability_of_search(votes, K, rng)
    if stability < LEAST_STABILITY:
        reason = f"halves of the partitions find other clusters by the search ({stability:.2f})"
        return _linkage(votes, K, reason, rng), None
    search = votes.search(K, {**given, "calibrated search": search.labels}, MAJORITY)
    reason = (
        f"its clusters are of similar size (evenness {evenness:.2f}), and halves of the partitions "
        f"find them too (adjusted Rand index {stability:.2f})"
    )
    return Answer(search.labels, "search", reason), search


def effective_number(sizes: Array) -> float:
    """Return exp(−Σ p log p) of clusters with shares p: their number if all have one size.

    >>> effective_number(np.array([10.0, 10.0, 0.0])), effective_number(np.array([5.0]))
    (2.0, 1.0)
    """
    shares = sizes[sizes > 0] / sizes.sum()
    return float(np.round(np.exp(-shares @ np.log(shares)), 12))


def _linkage(votes: Votes, K: int, reason: str, rng: np.random.RandomState) -> Answer:
    """Return the answer of locally weighted linkage."""
    sample = Sample.draw(votes, rng)
    tuples = sample.tuples
    omega = cluster_weights(tuples, votes.weights, contingencies=sample.contingencies)
    similarity = locally_weighted_similarity(tuples, votes.weights, omega)
    labels = sizable_clusters(similarity, tuples.weights, min(K, tuples.n_tuples))
    return Answer(sample.spread(labels), "local linkage", reason)


def _stability_of_search(votes: Votes, K: int, rng: np.random.RandomState) -> float:
    """Return the mean adjusted Rand index between the searches of two halves of the partitions."""
    tuples = votes.tuples
    V = tuples.n_partitions
    if V < 4:
        return 1.0
    agreement = []
    for _ in range(_SPLITS):
        here, there = (_searched(votes, half * votes.weights, K) for half in random_halves(V, rng))
        agreement.append(rand_index(here, there, tuples.weights))
    return float(np.mean(agreement))


def _searched(votes: Votes, weights: Array, K: int) -> Labels:
    """Return the answer of the search (u,) from partitions with weight; −1 without their label."""
    part, group = voting_tuples(votes.tuples, weights)
    half = replace(
        votes,
        tuples=part,
        weights=weights[weights > 0],
        contingencies=all_contingencies(part),
        _tables={},
    )
    return np.append(half.search(min(K, part.n_tuples)).labels, -1)[group]
