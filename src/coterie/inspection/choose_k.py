"""The public :func:`choose_k`: labels in any form, and criteria that need resampled points.

The criteria of the votes, and the rule, are in :mod:`coterie.consensus.choice_of_k`; those
of resampled points, one ensemble for each K, in :mod:`coterie.inspection.stability`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from coterie.consensus.choice_of_k import FeatureSample, KChoice, choose_n_clusters, default_ks
from coterie.consensus.robust import Votes
from coterie.counts.cluster_tables import ClusterTables
from coterie.ensembles.input_checks import check_features
from coterie.errors import InvalidParameterError
from coterie.inspection.stability import check_ks, ensembles_by_k, stability_measures, stable_ks
from coterie.labels.encode import MISSING, LabelMatrix, are_memberships, as_label_matrix
from coterie.labels.tuples import LabelTuples, as_label_tuples, compress_labels

#: J has stopped falling when this share of its fall from K = 1 is left.
_REST_OF_FALL = 0.02
#: Smallest growth of the area under the CDF that counts as growth.
_AREA_GROWTH = 0.1
_FEWEST_RESAMPLES = 10


def choose_k(
    P: Any,
    ks: Iterable[int] | None = None,
    *,
    X: Any = None,
    partition_weights: Any = "agreement",
    random_state: Any = None,
) -> KChoice:
    """Compare numbers of clusters K and recommend one.

    The recommended K has the largest √(relative eigengap) · (mean margin) · (agreement)²: M has K
    dominant eigenvalues, the votes assign the points clearly to K clusters, and different methods
    find the same K clusters. On planted partitions and real ensembles this product finds
    the true K more often than any single criterion.

    If some partitions have far more than K clusters, as those that
    :class:`~coterie.ConsensusClusterer` makes from features, the recommended K is the largest
    whose stability is within 0.01 of the best: random halves of the partitions give the same K
    clusters.
    ``is_weak`` says whether another K is almost as good, or the clusters are not stable.

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
    P : labels as in :class:`~coterie.RobustConsensus`, or mapping of k to (n, V_k) labels
        A mapping with numbers as keys holds one resampled ensemble for each k, as made by
        :func:`~coterie.inspection.stability.resampled_ensembles`. PAC and CDF of k come from
        the ensemble of k, everything else from all partitions together. A single matrix gives
        PAC and CDF for each k of which it has at least ten partitions with exactly k clusters
        and missing labels.
    ks : iterable of int, optional
        The K to compare, each at least 2. By default the keys of the mapping, or 2 to 10. If the
        partitions have more than 10 clusters (median), the default ends there, but at most at 30.
    X : (n, p) array, table or sparse matrix, optional
        Features of the points. The silhouette, Calinski–Harabasz and Davies–Bouldin indices of the
        clusters for each K are added to the result (above 5,000 points, of a sample). They do not
        change the recommended K. Give the columns scaled as for the clustering.
    partition_weights : {"agreement", "learned"}, array of shape (V,) or None
        As in :class:`~coterie.RobustConsensus`.
    random_state : int, RandomState or None
        Seed of the k-means that starts searches and cuts, of the halves of the partitions, and of
        the samples of many tuples or points.

    Returns
    -------
    KChoice

    Examples
    --------
    >>> from coterie import choose_k, planted_partitions
    >>> P, _ = planted_partitions([40, 30, 20, 10], 10, n_bad=4, noise=0.1, random_state=0)
    >>> choice = choose_k(P, range(2, 7), random_state=0)
    >>> choice.best_k, choice.by_criterion["margin"]
    (4, 4)
    """
    labelled = None
    if isinstance(P, Mapping) and not (P and all(isinstance(name, str) for name in P)):
        matrices = ensembles_by_k(P, as_label_matrix)
        pooled = LabelMatrix(
            np.hstack([M.codes for M in matrices.values()]),
            tuple(labels for M in matrices.values() for labels in M.categories),
            tuple(name for M in matrices.values() for name in M.names),
        )
        tuples, default = compress_labels(pooled), np.array([*matrices])
        resampled = {k: compress_labels(M) for k, M in matrices.items() if M.has_missing}
    else:
        if isinstance(P, LabelTuples) or are_memberships(P):
            tuples = as_label_tuples(P)
        else:
            matrix = as_label_matrix(P, allow_unlabelled_rows=True)
            labelled = matrix.labelled_rows
            tuples = compress_labels(matrix if labelled.all() else matrix.rows(labelled))
        resampled = _resampled_in(tuples)
        default = default_ks(tuples.n_labels, tuples.n_points)
    labelled = np.ones(len(tuples.inverse), np.bool_) if labelled is None else labelled
    ks = check_ks(default if ks is None else ks, tuples.n_points)
    votes = Votes.from_tuples(tuples, partition_weights)
    features = None
    if X is not None:
        X = check_features(X, "X")
        if X.shape[0] != len(labelled):
            raise InvalidParameterError(
                f"X has {X.shape[0]} rows for {len(labelled)} points; give the features of the "
                "points of P, in the same order"
            )
        features = FeatureSample.draw(X if labelled.all() else X[labelled])
    choice = choose_n_clusters(votes, ks, random_state, stability_measures(resampled, ks), features)

    # the K that each further criterion chooses alone
    J, one_cluster = choice.objective, np.zeros(votes.tuples.n_tuples, np.int64)
    J_of_one = ClusterTables.of(votes.tuples, one_cluster, votes.weights).objective()
    fallen = J <= J.min() + _REST_OF_FALL * max(J_of_one - J.min(), 0.0)
    stable = stable_ks(ks, choice.pac, choice.cdf_area)
    growing = ks[choice.delta_area > _AREA_GROWTH]
    by_criterion = {
        "free_search": votes.search(None, threshold=0.5).tables.n_clusters,
        "objective": int(ks[np.argmax(fallen)]),
        **choice.by_criterion,
        "pac": int(stable[-1]) if len(stable) else None,
        "delta_area": int(growing[-1]) if len(growing) else None,
    }
    best, reason, is_weak = choice.best_k, choice.reason, choice.is_weak
    if len(stable) and np.isfinite(choice.pac).all():
        best, is_weak = int(stable[-1]), False
        reason = (
            "it is the largest number of clusters that are the same in random samples of the "
            f"points ({choice.pac[ks == best][0]:.1%} of the pairs are ambiguous)"
        )
    agreeing = [name for name, k in by_criterion.items() if k == best]
    reason += f"; criteria that agree: {', '.join(agreeing).replace('_', ' ') or 'none'}"
    return replace(choice, best_k=best, reason=reason, is_weak=is_weak, by_criterion=by_criterion)


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
