"""The number of clusters K: measures of the votes for each K, and the K that they recommend."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from coterie.consensus.linkage.evidence_accumulation import cut_into, vote_linkage
from coterie.consensus.linkage.locally_weighted import (
    cluster_weights,
    locally_weighted_embedding,
    locally_weighted_tree,
)
from coterie.consensus.robust.answers import Sample, mean_agreement
from coterie.consensus.robust.votes import Votes
from coterie.relaxation.least_squares import least_squares_factor
from coterie.relaxation.rounding import round_by_kmeans, round_by_pivoted_qr
from coterie.search.median_search import SearchResult

__all__ = ["choose_n_clusters", "default_ks", "measure_each_k", "recommend"]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

_log = logging.getLogger(__name__)

#: Added to an eigenvalue, as a share of n, in the relative gap. A cluster of s points has an
#: eigenvalue of at most s, so the gaps of eigenvalues below n/500 are damped.
_EIGENVALUE_FLOOR = 0.002
_FEWEST_TOP, _MOST_TOP = 10, 30  # bounds of the largest K that is compared by default


def choose_n_clusters(votes: Votes, random_state: Any = None) -> int:
    """Return the number of clusters that the votes recommend.

    >>> from coterie import planted_partitions
    >>> from coterie.labels.tuples import as_label_tuples
    >>> P, _ = planted_partitions([40, 30, 20, 10], 10, 0, noise=0.2, random_state=0)
    >>> choose_n_clusters(Votes.from_tuples(as_label_tuples(P), None), 0)
    4
    """
    if votes.tuples.n_points < 2:
        return 1
    ks = default_ks(votes.tuples.n_labels, votes.tuples.n_points)
    best, _ = recommend(measure_each_k(votes, ks, random_state))
    return int(ks[best])


def default_ks(n_labels: ArrayLike, n_points: float) -> Counts:
    """Return the K to compare: 2 to 10, or to the median of the K_v (at most 30) if it is larger.

    >>> default_ks([12, 3, 14], 100).max(), default_ks([3], 4).max()
    (np.int64(12), np.int64(4))
    """
    top = int(np.clip(np.median(np.asarray(n_labels)), _FEWEST_TOP, _MOST_TOP))
    return np.arange(2, max(2, min(top, int(n_points))) + 1)


def measure_each_k(votes: Votes, ks: Counts, random_state: Any = None) -> dict[str, Any]:
    """Measure the best consensus with at most K clusters for each K.

    Return arrays over ``ks``: ``objective`` J, ``n_clusters``, ``information`` (mean mutual
    information with the partitions, in nats), ``confidence`` (mean over the points), ``eigengap``
    λ_K − λ_{K+1}, ``relative_eigengap``, and ``agreement`` (mean adjusted Rand index between the
    answers of three methods); and ``eigenvalues`` (max K + 1,) of M.
    """
    factor = least_squares_factor(votes.tuples, votes.weights, int(ks[-1]) + 1, votes.contingencies)
    tuples, share = votes.tuples, votes.weights / votes.weights.sum()
    found = _search_each(votes, factor, ks, random_state)
    confidence = [
        result.tables.assign(tuples.codes, result.threshold, result.labels, tuples.memberships)[1]
        for result in found
    ]
    eigenvalues = tuples.weights @ factor**2
    here, beyond = eigenvalues[ks - 1], eigenvalues[ks]
    floor = max(_EIGENVALUE_FLOOR * tuples.n_points, 1.0)
    return {
        "objective": np.array([result.tables.objective() for result in found]),
        "n_clusters": np.array([result.tables.n_clusters for result in found]),
        "information": np.array([result.tables.information() @ share for result in found]),
        "confidence": np.array([c @ tuples.weights / tuples.n_points for c in confidence]),
        "eigenvalues": eigenvalues,
        "eigengap": here - beyond,
        "relative_eigengap": (here - beyond) / (here + floor),
        "agreement": _agreement_of_methods(votes, ks, check_random_state(random_state)),
    }


def recommend(measures: dict[str, Any]) -> tuple[int, str]:
    """Return the index of the recommended K, and why.

    It maximises √(relative eigengap) · confidence · agreement²: M has K dominant eigenvalues, the
    points are assigned to K clusters with confidence, and different methods find the same K
    clusters. The agreement decides under noise, where small clusters have small eigenvalues.
    """
    gap, confidence, agreement = (
        measures[name] for name in ("relative_eigengap", "confidence", "agreement")
    )
    product = np.sqrt(np.maximum(gap, 0.0)) * confidence * np.maximum(agreement, 0.0) ** 2
    # rounded, so that values equal up to rounding errors are ties, which the smaller K wins
    best = int(np.argmax(np.round(product, 9)))
    return best, (
        f"the largest product of eigengap (relative, {gap[best]:.2f}), mean confidence "
        f"({confidence[best]:.2f}) and agreement of methods ({agreement[best]:.2f})"
    )


def _agreement_of_methods(votes: Votes, ks: Counts, rng: np.random.RandomState) -> Array:
    """Return the mean adjusted Rand index between three methods for each K, (L,).

    They are linkage on 1 − M, locally weighted linkage, and the locally weighted cut.
    """
    sample = Sample.draw(votes, rng)
    tuples, weights = sample.tuples, votes.weights
    omega = cluster_weights(tuples, weights, contingencies=sample.contingencies)
    trees = vote_linkage(tuples, weights), locally_weighted_tree(tuples, weights, omega)
    rows = locally_weighted_embedding(tuples, weights, omega, int(ks[-1]))
    agreement = []
    for k in np.minimum(ks, tuples.n_tuples).tolist():
        # the first k columns of the embedding, scaled to unit length, are that for k clusters
        unit = rows[:, :k] / np.maximum(np.linalg.norm(rows[:, :k], axis=1), 1e-12)[:, None]
        answers = {str(t): cut_into(tree, k) for t, tree in enumerate(trees)}
        answers["cut"] = round_by_kmeans(unit, tuples.weights, k, rng)
        agreement.append(np.mean(list(mean_agreement(answers, tuples.weights).values())))
    return np.array(agreement)


def _search_each(votes: Votes, factor: Array, ks: Counts, random_state: Any) -> list[SearchResult]:
    """Search the best partition for each K; the one for the previous K is one of the starts."""
    tuples = votes.tuples
    found: list[SearchResult] = []
    for k in ks.tolist():
        _log.info("searching with at most %d clusters", k)
        K = min(k, tuples.n_tuples)
        columns, rng = factor[:, :K], check_random_state(random_state)
        answers = {} if not found else {"fewer clusters": found[-1].labels}
        answers["pivoted QR"] = round_by_pivoted_qr(columns, tuples.weights)
        answers["k-means"] = round_by_kmeans(columns, tuples.weights, K, rng)
        found.append(votes.search(K, answers))
    return found
