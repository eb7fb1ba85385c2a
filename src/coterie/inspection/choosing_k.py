"""Choosing the number of clusters K by several criteria.

Any partitions give the objective J of the best consensus with at most K clusters, the eigenvalues
of the co-association matrix M, and the confidence of the consensus. Partitions of resampled
points, one ensemble for each K, also give the stability of K
(:mod:`coterie.inspection.stability`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from coterie.consensus.robust.votes import Votes
from coterie.counts.cluster_tables import ClusterTables
from coterie.errors import InvalidLabelsError
from coterie.inspection.stability import check_ks, stability_measures, stable_ks
from coterie.labels.label_matrix import MISSING, LabelMatrix, as_label_matrix
from coterie.labels.tuples import LabelTuples, as_label_tuples, compress_labels
from coterie.relaxation.least_squares import least_squares_factor
from coterie.relaxation.rounding import round_by_kmeans, round_by_pivoted_qr
from coterie.search.median_search import SearchResult

__all__ = ["KChoice", "choose_k"]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

_log = logging.getLogger(__name__)

#: Added to an eigenvalue, as a share of n, in the relative gap. A cluster of s points has an
#: eigenvalue of at most s, so the gaps of eigenvalues below n/500 are damped.
_EIGENVALUE_FLOOR = 0.002
#: J has stopped falling when this share of its fall from K = 1 is left.
_REST_OF_FALL = 0.02
#: Smallest growth of the area under the CDF that counts as growth.
_AREA_GROWTH = 0.1
_FEWEST_RESAMPLES = 10


@dataclass(frozen=True)
class KChoice:
    """Criteria for each K and the recommended K. Arrays run over ``ks``; nan means unavailable.

    Attributes
    ----------
    best_k : int
        The recommended K.
    reason : str
        Why, in one sentence.
    by_criterion : dict of str to int or None
        The K that each criterion alone chooses; None if it is unavailable or chooses none.
    ks : (L,) int
        The K compared, in rising order.
    objective : (L,)
        J of the best partition found with at most K clusters.
    n_clusters : (L,) int
        Number of clusters of that partition.
    lower_bound : float
        Lower bound of J over all partitions, for any K.
    information : (L,)
        Mean mutual information, in nats, between that partition and the given ones.
    confidence : (L,)
        Mean over points of the share of votes for the point's cluster minus the share of votes
        for the next best one.
    eigenvalues : (max K + 1,)
        The largest eigenvalues λ_1 ≥ λ_2 ≥ … of M.
    eigengap : (L,)
        λ_K − λ_{K+1}.
    relative_eigengap : (L,)
        (λ_K − λ_{K+1}) / (λ_K + max(n/500, 1)), in [0, 1).
    pac : (L,)
        Proportion of ambiguous pairs.
    cdf_area : (L,)
        Area A(K) under the consensus CDF.
    delta_area : (L,)
        Growth of A(K) relative to the largest area at a smaller K; A(K) at the first K.
    """

    best_k: int
    reason: str
    by_criterion: dict[str, int | None]
    ks: Counts
    objective: Array
    n_clusters: Counts
    lower_bound: float
    information: Array
    confidence: Array
    eigenvalues: Array
    eigengap: Array
    relative_eigengap: Array
    pac: Array
    cdf_area: Array
    delta_area: Array


def choose_k(
    P: Any,
    ks: Iterable[int] | None = None,
    *,
    partition_weights: Any = "agreement",
    random_state: Any = None,
) -> KChoice:
    """Compare numbers of clusters K and recommend one.

    The recommended K has the largest product of relative eigengap and mean confidence: M has K
    dominant eigenvalues, and the points are assigned to K clusters with confidence. On planted
    partitions and k-means ensembles this product finds the true K more often than any single
    criterion.

    If points were resampled for every K, the largest stable K is recommended instead, if there
    is one: a further split would give different clusters in different samples. K is stable if
    its ambiguous pairs (PAC), divided by the pairs that are together, are within 0.1 of the
    smallest ratio and the smallest ratio is at most 0.25. This finds too few clusters if the
    clusters overlap much.

    PAC and CDF measure how a clustering varies *with the sample*. They are computed only if
    points were left out: for runs that differ only in their random start, PAC can be near 0 for
    any K. The result depends neither on the order of points or partitions nor on label names.

    Parameters
    ----------
    P : (n, V) labels, or mapping of k to (n, V_k) labels
        A mapping holds one resampled ensemble for each k, as made by
        :func:`~coterie.inspection.stability.resampled_ensembles`. PAC and CDF of k come from
        the ensemble of k, everything else from all partitions together. A single matrix gives
        PAC and CDF for each k of which it has at least ten partitions with exactly k clusters
        and missing labels.
    ks : iterable of int, optional
        The K to compare, each at least 2. By default the keys of the mapping, or 2 to 10, and
        at most the number of points.
    partition_weights : {"agreement", "learned"}, array of shape (V,) or None
        As in :class:`~coterie.RobustConsensus`.
    random_state : int, RandomState or None
        Seed of the k-means that provides one start of the search.

    Returns
    -------
    KChoice

    Examples
    --------
    >>> from coterie import choose_k, planted_partitions
    >>> P, _ = planted_partitions([40, 30, 20, 10], 10, n_bad=4, noise=0.1, random_state=0)
    >>> choice = choose_k(P, range(2, 7), random_state=0)
    >>> choice.best_k, choice.by_criterion["confidence"]
    (4, 4)
    """
    if isinstance(P, Mapping):
        tuples, resampled = _pooled(P)
        default_ks: Iterable[int] = P
    else:
        tuples = as_label_tuples(P)
        resampled = _resampled_in(tuples)
        default_ks = range(2, min(10, max(2, tuples.n_points)) + 1)
    ks = check_ks(default_ks if ks is None else ks, tuples.n_points)
    votes = Votes.from_tuples(tuples, partition_weights)
    factor = least_squares_factor(votes.tuples, votes.weights, int(ks[-1]) + 1, votes.contingencies)
    measures = {
        **_search_measures(votes, _search_each(votes, factor, ks, random_state)),
        **_spectrum_measures(votes.tuples.weights @ factor**2, ks, tuples.n_points),
        **stability_measures(resampled, ks),
    }
    by_criterion = _by_criterion(votes, ks, measures)
    best_k, reason = _recommended(ks, measures, by_criterion)
    return KChoice(best_k, reason, by_criterion, ks, lower_bound=votes.lower_bound(), **measures)


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


def _search_measures(votes: Votes, found: list[SearchResult]) -> dict[str, Any]:
    tuples, share = votes.tuples, votes.weights / votes.weights.sum()
    confidence = [
        result.tables.assign(tuples.codes, result.threshold, result.labels, tuples.memberships)[1]
        for result in found
    ]
    return {
        "objective": np.array([result.tables.objective() for result in found]),
        "n_clusters": np.array([result.tables.n_clusters for result in found]),
        "information": np.array([result.tables.information() @ share for result in found]),
        "confidence": np.array([c @ tuples.weights / tuples.n_points for c in confidence]),
    }


def _spectrum_measures(eigenvalues: Array, ks: Counts, n_points: int) -> dict[str, Array]:
    here, beyond = eigenvalues[ks - 1], eigenvalues[ks]
    return {
        "eigenvalues": eigenvalues,
        "eigengap": here - beyond,
        "relative_eigengap": (here - beyond) / (here + max(_EIGENVALUE_FLOOR * n_points, 1.0)),
    }


def _by_criterion(votes: Votes, ks: Counts, measures: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the K that each criterion chooses alone."""
    J, growth = measures["objective"], measures["delta_area"]
    one_cluster = np.zeros(votes.tuples.n_tuples, np.int64)
    J_of_one = ClusterTables.of(votes.tuples, one_cluster, votes.weights).objective()
    fallen = J <= J.min() + _REST_OF_FALL * max(J_of_one - J.min(), 0.0)
    stable = stable_ks(ks, measures["pac"], measures["cdf_area"])
    growing = ks[growth > _AREA_GROWTH]
    return {
        "free_search": votes.search(None).tables.n_clusters,
        "objective": int(ks[np.argmax(fallen)]),
        "eigengap": int(ks[np.argmax(measures["eigengap"])]),
        "relative_eigengap": int(ks[np.argmax(measures["relative_eigengap"])]),
        "confidence": int(ks[np.argmax(measures["confidence"])]),
        "pac": int(stable[-1]) if len(stable) else None,
        "delta_area": int(growing[-1]) if len(growing) else None,
    }


def _recommended(
    ks: Counts, measures: Mapping[str, Any], by_criterion: Mapping[str, int | None]
) -> tuple[int, str]:
    pac, gap, confidence = (measures[name] for name in ("pac", "relative_eigengap", "confidence"))
    stable = by_criterion["pac"]
    if stable is not None and np.isfinite(pac).all():
        i = int(np.searchsorted(ks, stable))
        why = f"the largest K that is stable when points are resampled (PAC {pac[i]:.3f})"
    else:
        # rounded, so that values equal up to rounding errors are ties, which the smaller K wins
        i = int(np.argmax(np.round(gap * confidence, 9)))
        why = (
            f"the largest product of relative eigengap ({gap[i]:.2f}) and mean confidence "
            f"({confidence[i]:.2f})"
        )
    best = int(ks[i])
    alone = ", ".join(name.replace("_", " ") for name, k in by_criterion.items() if k == best)
    return best, f"{why}; criteria that choose it by themselves: {alone or 'none'}"


def _pooled(ensembles: Mapping[Any, Any]) -> tuple[LabelTuples, dict[int, LabelTuples]]:
    """Return the partitions of all ensembles side by side, and the resampled ensembles by k."""
    check_ks(ensembles)
    matrices = {k: as_label_matrix(P) for k, P in ensembles.items()}
    (first, some), *_ = matrices.items()
    for k, matrix in matrices.items():
        if matrix.n_points != some.n_points:
            raise InvalidLabelsError(
                f"the ensemble of k={k} has {matrix.n_points} points, that of k={first} has "
                f"{some.n_points}; all must label the same points, with −1 for points not drawn"
            )
    pooled = LabelMatrix(
        np.hstack([matrix.codes for matrix in matrices.values()]),
        tuple(labels for matrix in matrices.values() for labels in matrix.categories),
        tuple(name for matrix in matrices.values() for name in matrix.names),
    )
    resampled = {k: compress_labels(matrix) for k, matrix in matrices.items() if matrix.has_missing}
    return compress_labels(pooled), resampled


def _resampled_in(tuples: LabelTuples) -> dict[int, LabelTuples]:
    """Group the partitions with missing labels by their number of clusters, if there are enough."""
    if tuples.memberships is not None:
        return {}
    incomplete = (tuples.codes == MISSING).any(axis=0)
    sizes, numbers = np.unique(tuples.n_labels[incomplete], return_counts=True)
    return {
        int(k): tuples.restricted_to(incomplete & (tuples.n_labels == k))[0]
        for k in sizes[numbers >= _FEWEST_RESAMPLES]
    }
