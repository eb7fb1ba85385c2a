"""Choosing the number of clusters K by several criteria.

Any partitions give the objective J of the best consensus with at most K clusters, the eigenvalues
of the co-association matrix M, and the confidence of the consensus. Partitions of resampled
points, one ensemble for each K, also give the stability of K
(:mod:`coterie.inspection.stability`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.consensus.robust.number_of_clusters import (
    default_ks,
    measure_each_k,
    recommend,
)
from coterie.consensus.robust.votes import Votes
from coterie.counts.cluster_tables import ClusterTables
from coterie.errors import InvalidLabelsError
from coterie.inspection.stability import check_ks, stability_measures, stable_ks
from coterie.labels.label_matrix import MISSING, LabelMatrix, are_memberships, as_label_matrix
from coterie.labels.tuples import LabelTuples, as_label_tuples, compress_labels
from coterie.runtime.short_reprs import short_repr

__all__ = ["KChoice", "choose_k"]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

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
    agreement : (L,)
        Mean adjusted Rand index between the answers of linkage, locally weighted linkage and
        locally weighted cut with K clusters.
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
    agreement: Array
    pac: Array
    cdf_area: Array
    delta_area: Array

    __repr__ = short_repr


def choose_k(
    P: Any,
    ks: Iterable[int] | None = None,
    *,
    partition_weights: Any = "agreement",
    random_state: Any = None,
) -> KChoice:
    """Compare numbers of clusters K and recommend one.

    The recommended K has the largest √(relative eigengap) · (mean confidence) · (agreement)²: M has
    K dominant eigenvalues, the points are assigned to K clusters with confidence, and different
    methods find the same K clusters. On planted partitions and real ensembles this product finds
    the true K more often than any single criterion.

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
        The K to compare, each at least 2. By default the keys of the mapping, or 2 to 10. If the
        partitions have more than 10 clusters (median), the default ends there, but at most at 30.
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
        default: Any = P
    else:
        tuples = _labelled_tuples(P)
        resampled = _resampled_in(tuples)
        default = default_ks(tuples.n_labels, tuples.n_points)
    ks = check_ks(default if ks is None else ks, tuples.n_points)
    votes = Votes.from_tuples(tuples, partition_weights)
    measures = {
        **measure_each_k(votes, ks, random_state),
        **stability_measures(resampled, ks),
    }
    by_criterion = _by_criterion(votes, ks, measures)
    best_k, reason = _recommended(ks, measures, by_criterion)
    return KChoice(best_k, reason, by_criterion, ks, lower_bound=votes.lower_bound(), **measures)


def _by_criterion(votes: Votes, ks: Counts, measures: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the K that each criterion chooses alone."""
    J, growth = measures["objective"], measures["delta_area"]
    one_cluster = np.zeros(votes.tuples.n_tuples, np.int64)
    J_of_one = ClusterTables.of(votes.tuples, one_cluster, votes.weights).objective()
    fallen = J <= J.min() + _REST_OF_FALL * max(J_of_one - J.min(), 0.0)
    stable = stable_ks(ks, measures["pac"], measures["cdf_area"])
    growing = ks[growth > _AREA_GROWTH]
    return {
        "free_search": votes.search(None, threshold=0.5).tables.n_clusters,
        "objective": int(ks[np.argmax(fallen)]),
        "eigengap": int(ks[np.argmax(measures["eigengap"])]),
        "relative_eigengap": int(ks[np.argmax(measures["relative_eigengap"])]),
        "confidence": int(ks[np.argmax(measures["confidence"])]),
        "agreement": int(ks[np.argmax(np.round(measures["agreement"], 9))]),
        "pac": int(stable[-1]) if len(stable) else None,
        "delta_area": int(growing[-1]) if len(growing) else None,
    }


def _recommended(
    ks: Counts, measures: Mapping[str, Any], by_criterion: Mapping[str, int | None]
) -> tuple[int, str]:
    pac = measures["pac"]
    stable = by_criterion["pac"]
    if stable is not None and np.isfinite(pac).all():
        i = int(np.searchsorted(ks, stable))
        why = f"the largest K that is stable when points are resampled (PAC {pac[i]:.3f})"
    else:
        i, why = recommend(dict(measures))
    best = int(ks[i])
    alone = ", ".join(name.replace("_", " ") for name, k in by_criterion.items() if k == best)
    return best, f"{why}; criteria that choose it by themselves: {alone or 'none'}"


def _labelled_tuples(P: Any) -> LabelTuples:
    """Return the tuples of the points that have a label."""
    if isinstance(P, LabelTuples) or are_memberships(P):
        return as_label_tuples(P)
    matrix = as_label_matrix(P, allow_unlabelled_rows=True)
    labelled = matrix.labelled_rows
    return compress_labels(matrix if labelled.all() else matrix.rows(labelled))


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
