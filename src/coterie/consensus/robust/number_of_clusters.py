"""The number of clusters K: measures of the votes for each K, and the K that they recommend."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from coterie.consensus.linkage import (
    cluster_weights,
    cut_into,
    locally_weighted_embedding,
    locally_weighted_tree,
    vote_linkage,
)
from coterie.consensus.robust.answers import FINE, Sample, mean_agreement
from coterie.consensus.robust.feature_indices import FEATURE_INDICES, FeatureSample
from coterie.consensus.robust.halves import Answers, leading_rows, stability_of_halves
from coterie.consensus.robust.k_choice import KChoice
from coterie.consensus.robust.votes import Votes
from coterie.counts.cluster_tables import ClusterTables
from coterie.errors import WeakEvidenceWarning
from coterie.relaxation.least_squares import least_squares_factor
from coterie.relaxation.rounding import round_by_kmeans, round_by_pivoted_qr
from coterie.runtime.messages import warn_user
from coterie.search.median_search import SearchResult

__all__ = ["choose_n_clusters", "default_ks", "measure_each_k", "recommend", "warn_if_weak"]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

_log = logging.getLogger(__name__)

#: Added to an eigenvalue, as a share of n, in the relative gap. A cluster of s points has an
#: eigenvalue of at most s, so the gaps of eigenvalues below n/500 are damped.
_EIGENVALUE_FLOOR = 0.002
_FEWEST_TOP, _MOST_TOP = 10, 30  # bounds of the largest K that is compared by default
#: Numbers of clusters whose stability differs by at most this are equally stable.
_EQUALLY_STABLE = 0.01
#: The evidence is weak if another K has more than this share of the best score, …
_CLOSE = 0.94
#: … or if 1 − stability of a larger K is less than this number of times that of the best, …
_CLOSE_INSTABILITY = 1.5
#: … or if halves of the partitions, or methods, agree less than this on the clusters.
_LEAST_STABILITY = 0.9
_LEAST_AGREEMENT = 0.5


def choose_n_clusters(
    votes: Votes,
    ks: Counts | None = None,
    random_state: Any = None,
    resampled: Mapping[str, Any] | None = None,
    features: FeatureSample | None = None,
) -> KChoice:
    """Compare numbers of clusters and recommend one.

    Parameters
    ----------
    votes : the partitions that vote
    ks : (L,) int, optional
        The K to compare, in rising order; by default :func:`default_ks`.
    random_state : int, RandomState or None
    resampled : mapping, optional
        ``pac``, ``cdf_area`` and ``delta_area`` (L,) of resampled points.
    features : FeatureSample, optional
        Features of the points of the tuples, for indices that inform but do not decide.

    Examples
    --------
    >>> from coterie import planted_partitions
    >>> from coterie.labels.tuples import as_label_tuples
    >>> P, _ = planted_partitions([40, 30, 20, 10], 10, 0, noise=0.2, random_state=0)
    >>> choose_n_clusters(Votes.from_tuples(as_label_tuples(P), None), random_state=0).best_k
    4
    """
    if ks is None:
        ks = default_ks(votes.tuples.n_labels, votes.tuples.n_points)
    measures = measure_each_k(votes, ks, random_state, features)
    best, reason, is_weak = recommend(measures, ks, np.asarray(votes.tuples.n_labels))
    by_criterion: dict[str, int | None] = {
        name: int(ks[np.argmax(np.round(measures[name], 9))])
        for name in ("eigengap", "relative_eigengap", "margin", "agreement", "stability")
        if np.isfinite(measures[name]).all()
    }
    for name, is_high in FEATURE_INDICES.items():
        if np.isfinite(values := measures.get(name, np.empty(0))).any():
            worth = np.where(np.isnan(values), -np.inf, values if is_high else -values)
            by_criterion[name] = int(ks[_largest(worth)])
    return KChoice(
        int(ks[best]),
        reason,
        is_weak,
        by_criterion,
        ks,
        lower_bound=votes.lower_bound(),
        **measures,
        **(resampled or {}),
    )


def warn_if_weak(choice: KChoice) -> None:
    """Warn if the recommended number of clusters has weak evidence."""
    if choice.is_weak:
        warn_user(
            f"the evidence for {choice.best_k} clusters is weak: {choice.reason}; compare other "
            "numbers, or give the number of clusters",
            WeakEvidenceWarning,
        )


def default_ks(n_labels: ArrayLike, n_points: float) -> Counts:
    """Return the K to compare: 2 to 10, or to the median of the K_v (at most 30) if it is larger.

    >>> default_ks([12, 3, 14], 100).max(), default_ks([3], 4).max()
    (np.int64(12), np.int64(4))
    """
    top = int(np.clip(np.median(np.asarray(n_labels)), _FEWEST_TOP, _MOST_TOP))
    return np.arange(2, max(2, min(top, int(n_points))) + 1)


def measure_each_k(
    votes: Votes, ks: Counts, random_state: Any = None, features: FeatureSample | None = None
) -> dict[str, Any]:
    """Measure the best consensus with at most K clusters for each K.

    Return arrays over ``ks``: ``objective`` J, ``n_clusters``, ``information`` (mean mutual
    information with the partitions, in nats), ``margin`` (of the votes, mean over the points),
    ``eigengap`` λ_K − λ_{K+1}, ``relative_eigengap``, ``agreement`` (mean adjusted Rand index
    between the answers of three methods), and ``stability`` (the same between halves of the
    partitions; nan unless these are much finer than two clusters); and ``eigenvalues``
    (max K + 1,) of M. With ``features``, also the indices of :class:`FeatureSample`.
    """
    rng = check_random_state(random_state)
    factor = least_squares_factor(votes.tuples, votes.weights, int(ks[-1]) + 1, votes.contingencies)
    eigenvalues = votes.tuples.weights @ factor**2
    here, beyond = eigenvalues[ks - 1], eigenvalues[ks]
    floor = max(_EIGENVALUE_FLOOR * votes.tuples.n_points, 1.0)
    stability = np.full(len(ks), np.nan)
    answers = None
    if _are_fine(votes.tuples.n_labels, int(ks[0])):
        stability, answers = stability_of_halves(votes, ks, rng)
    if answers is None:
        answers = _search_each(votes, factor, ks, random_state)
    return {
        **_measures_of(answers, votes.weights),
        **({} if features is None else _on_features(answers, votes, features)),
        "eigenvalues": eigenvalues,
        "eigengap": here - beyond,
        "relative_eigengap": (here - beyond) / (here + floor),
        "agreement": _agreement_of_methods(votes, ks, check_random_state(random_state)),
        "stability": stability,
    }


def recommend(
    measures: Mapping[str, Any], ks: Counts, n_labels: NDArray[Any]
) -> tuple[int, str, bool]:
    """Return the index of the recommended K, why, and whether the evidence is weak.

    If some partitions are much finer than K clusters, or than others, K is the largest number
    whose stability is within 0.01 of the best: halves of the partitions have the same K clusters.
    Such partitions are made from features.

    Otherwise it maximises √gap · margin · agreement²: M has K dominant eigenvalues, the votes
    assign the points clearly to K clusters, and different methods find the same K clusters. The
    agreement decides under noise, where small clusters have small eigenvalues. The gap is the
    relative eigengap.
    """
    gap, margin, agreement, stability = (
        np.maximum(measures[name], 0.0)
        for name in ("relative_eigengap", "margin", "agreement", "stability")
    )
    if np.isfinite(stability).all():
        best = int(np.flatnonzero(stability >= stability.max() - _EQUALLY_STABLE)[-1])
        if _are_fine(n_labels, int(ks[best])):
            reason = (
                "it is the largest number of clusters on which random halves of the partitions "
                f"agree best (adjusted Rand index {stability[best]:.2f})"
            )
            # fewer clusters that are as stable are no contradiction: they are unions of these
            rivals = np.where(ks > ks[best], stability, -np.inf)
            if is_weak := bool(stability[best] < _LEAST_STABILITY):
                reason += f", less than {_LEAST_STABILITY:g}"
            close = 1.0 - _CLOSE_INSTABILITY * (1.0 - stability[best])
            return best, *_with_rival(reason, rivals, close, ks, is_weak)
    score = np.sqrt(gap) * margin * agreement**2
    best = _largest(score)
    reason = (
        "the votes show this number of clusters most clearly (relative eigengap "
        f"{gap[best]:.2f}, mean margin {margin[best]:.2f}, agreement of methods "
        f"{agreement[best]:.2f})"
    )
    rivals = np.where(ks == ks[best], -np.inf, score)
    if is_weak := bool(agreement[best] < _LEAST_AGREEMENT):
        reason += f"; the methods agree less than {_LEAST_AGREEMENT:g}"
    return best, *_with_rival(reason, rivals, _CLOSE * score[best], ks, is_weak)


def _are_fine(n_labels: ArrayLike, k: int) -> bool:
    """Return whether some partitions are much finer than K clusters, or than other partitions."""
    few, many = np.quantile(np.asarray(n_labels), [0.1, 0.9])
    return bool(many > FINE * min(few, k))


def _largest(score: Array) -> int:
    # rounded, so that values equal up to rounding errors are ties, which the smaller K wins
    return int(np.argmax(np.round(score, 9)))


def _with_rival(
    reason: str, rivals: Array, close: float, ks: Counts, is_weak: bool
) -> tuple[str, bool]:
    """Add the best rival to the reason if its score is close; then the evidence is weak."""
    if rivals.max() > close:
        return f"{reason}; {ks[np.argmax(rivals)]} clusters are almost as good", True
    return reason, is_weak


def _measures_of(answers: Answers, weights: Array) -> dict[str, Any]:
    """Return the measures of the answers for each K."""
    tuples, labels, thresholds, _ = answers
    share = weights / weights.sum()
    tables = [ClusterTables.of(tuples, z, weights) for z in labels]
    margins = [
        table.assign(tuples.codes, threshold, z, tuples.memberships)[1]
        for table, z, threshold in zip(tables, labels, thresholds, strict=True)
    ]
    return {
        "objective": np.array([table.objective() for table in tables]),
        "n_clusters": np.array([table.n_clusters for table in tables]),
        "information": np.array([table.information() @ share for table in tables]),
        "margin": np.array([each @ tuples.weights / tuples.n_points for each in margins]),
    }


def _on_features(answers: Answers, votes: Votes, features: FeatureSample) -> dict[str, Array]:
    """Return the indices of the answers for each K on features, (L,) each."""
    places, point = np.unique(votes.tuples.inverse[features.rows], return_inverse=True)
    each = [features.indices(labels[point]) for labels in answers.labels_at(places)]
    return {name: np.array([found[name] for found in each]) for name in FEATURE_INDICES}


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
        answers = {str(t): cut_into(tree, k) for t, tree in enumerate(trees)}
        answers["cut"] = round_by_kmeans(leading_rows(rows, k), tuples.weights, k, rng)
        agreement.append(np.mean(list(mean_agreement(answers, tuples.weights).values())))
    return np.array(agreement)


def _search_each(votes: Votes, factor: Array, ks: Counts, random_state: Any) -> Answers:
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
    return Answers(tuples, [f.labels for f in found], [f.threshold for f in found])
