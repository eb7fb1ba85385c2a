"""Choosing K: what the partitions say about the number of clusters, over a range of K.

Two kinds of evidence. From any partitions: the objective J of the best consensus with at most K
clusters, the eigenvalues of the co-association matrix M, and how sure the consensus is of
its points. From partitions of *resampled* points (Monti et al. 2003), one ensemble for each K: how
many pairs of points are together in some samples and apart in others.
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
from coterie.inspection.resampling import (
    check_ks,
    consensus_cdf,
    proportion_of_ambiguous_pairs,
    resampled_ensembles,
)
from coterie.labels.label_matrix import MISSING, LabelMatrix, as_label_matrix
from coterie.labels.tuples import LabelTuples, as_label_tuples, compress_labels
from coterie.relaxation.least_squares import least_squares_factor
from coterie.relaxation.rounding import round_by_kmeans, round_by_pivoted_qr
from coterie.search.median_search import (
    SearchResult,
)

__all__ = [
    "KChoice",
    "choose_k",
    "consensus_cdf",
    "proportion_of_ambiguous_pairs",
    "resampled_ensembles",
]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

_log = logging.getLogger(__name__)

#: A cluster of s points has an eigenvalue of at most s; those below n/500, or 1, hardly count.
_EIGENVALUE_FLOOR = 0.002
#: J is taken to have stopped falling when this share of its fall from K = 1 is left.
_REST_OF_FALL = 0.02
#: K is stable if its ambiguous pairs, as a share of those together, exceed the least by this …
_STABLE_WITHIN = 0.1
#: … and none is if the least is above this.
_UNSTABLE_ABOVE = 0.25
#: Growth of the area under the c.d.f. that still counts as growth.
_AREA_GROWTH = 0.1
_FEWEST_RESAMPLES = 10


@dataclass(frozen=True)
class KChoice:
    """What speaks for each K. Arrays run over ``ks``; nan where a criterion cannot be had.

    Attributes
    ----------
    best_k : int
        The K recommended.
    reason : str
        Why, in a sentence.
    by_criterion : dict of str to int or None
        The K each criterion would choose by itself; None where it cannot be had or chooses none.
    ks : (L,) int
        The K compared, rising.
    objective : (L,)
        J of the best partition found with at most K clusters.
    n_clusters : (L,) int
        How many clusters it has.
    lower_bound : float
        No partition, with whatever K, has a J below.
    information : (L,)
        Mean mutual information, in nats, of the partitions with it.
    confidence : (L,)
        Mean over points of the share of votes beside the own cluster less that of the next.
    eigenvalues : (max K + 1,)
        The largest eigenvalues λ_1 ≥ λ_2 ≥ … of M.
    eigengap : (L,)
        λ_K − λ_{K+1}.
    relative_eigengap : (L,)
        (λ_K − λ_{K+1}) / (λ_K + max(n/500, 1)), in [0, 1).
    pac : (L,)
        Proportion of ambiguous pairs.
    cdf_area : (L,)
        Area A(K) under the consensus c.d.f.
    delta_area : (L,)
        Relative growth of A *to* K from the largest A at a smaller K; A(K) itself at the first.
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
    """Compare numbers of clusters K, and recommend one.

    Recommended is the K with the largest product of relative eigengap and mean confidence: M has K
    directions that stand out, and the points know which of K clusters they belong to. Over
    planted partitions and k-means ensembles the product finds the true K more often than any
    one criterion. Where points were resampled for every K, recommended is the largest stable K, if
    any is: splitting further would no longer give the same clusters in every sample. Stable is
    a K whose ambiguous pairs (PAC), as a share of the pairs that are together, are within 0.1
    of the smallest share, if that is at most 0.25; where clusters overlap much this picks too
    few. The answer depends on neither the order of points or partitions nor the names of labels.

    PAC and c.d.f. say how a clustering varies *with the sample*. Among runs that differ by their
    random start alone nothing is resampled and PAC can be near 0 for any K, which tells
    nothing; so they are computed only where points were left out.

    Parameters
    ----------
    P : (n, V) labels, or mapping of k to (n, V_k) labels
        A mapping holds one resampled ensemble for each k, as :func:`resampled_ensembles` makes
        them: PAC and c.d.f. come from each, all else from the partitions of all
        k side by side. From one table they come for k of which it has at least ten partitions
        with exactly k clusters and missing labels (points not drawn), and are nan otherwise.
    ks : iterable of int, optional
        The K to compare, from 2 up; by default the keys of the mapping, else 2 to 10 (and no
        more than there are points).
    partition_weights : {"agreement", "learned"}, array of shape (V,) or None
        As in :class:`~coterie.RobustConsensus`.
    random_state : int, RandomState or None
        Seeds the k-means that gives the search one of its starts.

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
        usual: Iterable[int] = P
    else:
        tuples = as_label_tuples(P)
        resampled = _resampled_in(tuples)
        usual = range(2, min(10, max(2, tuples.n_points)) + 1)
    wanted = check_ks(usual if ks is None else ks, tuples.n_points)
    votes = Votes.counted(tuples, partition_weights)
    factor = least_squares_factor(
        votes.tuples, votes.weights, int(wanted[-1]) + 1, votes.contingencies
    )
    found = _search_each(votes, factor, wanted, random_state)
    free = votes.search(None)
    measures = {
        **_measures_of_search(votes, found),
        **_measures_of_spectrum(votes.tuples.weights @ factor**2, wanted, tuples.n_points),
        **_measures_of_resamples(resampled, wanted),
    }
    one = ClusterTables.of(votes.tuples, np.zeros(votes.tuples.n_tuples, np.int64), votes.weights)
    by_criterion = _by_criterion(wanted, measures, one.objective(), free.tables.n_clusters)
    best_k, reason = _recommended(wanted, measures, by_criterion)
    return KChoice(
        best_k, reason, by_criterion, wanted, lower_bound=votes.lower_bound(), **measures
    )


def _search_each(votes: Votes, factor: Array, ks: Counts, random_state: Any) -> list[SearchResult]:
    """The best partition found for each K; that of the K before is one of the starts."""
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


def _measures_of_search(votes: Votes, found: list[SearchResult]) -> dict[str, Any]:
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


def _measures_of_spectrum(eigenvalues: Array, ks: Counts, n_points: int) -> dict[str, Array]:
    here, beyond = eigenvalues[ks - 1], eigenvalues[ks]
    return {
        "eigenvalues": eigenvalues,
        "eigengap": here - beyond,
        "relative_eigengap": (here - beyond) / (here + max(_EIGENVALUE_FLOOR * n_points, 1.0)),
    }


def _measures_of_resamples(ensembles: Mapping[int, LabelTuples], ks: Counts) -> dict[str, Array]:
    pac, area, growth = np.full((3, len(ks)), np.nan)
    largest = 0.0
    for place, k in enumerate(ks.tolist()):
        if k not in ensembles:
            continue
        pac[place] = proportion_of_ambiguous_pairs(ensembles[k])
        area[place] = consensus_cdf(ensembles[k])[1][1:].mean()
        growth[place] = (area[place] - largest) / largest if largest > 0 else area[place]
        largest = max(largest, area[place])
    return {"pac": pac, "cdf_area": area, "delta_area": growth}


def _by_criterion(
    ks: Counts, measures: Mapping[str, Any], alone: float, free: int
) -> dict[str, int | None]:
    """The K each criterion chooses by itself.

    ``alone`` is J of a single cluster, ``free`` the number J chooses where nothing binds it.
    """
    J, growth = measures["objective"], measures["delta_area"]
    fallen = J <= J.min() + _REST_OF_FALL * max(alone - J.min(), 0.0)
    stable = _stable(ks, measures["pac"], measures["cdf_area"])
    growing = ks[growth > _AREA_GROWTH]
    return {
        "free_search": free,
        "objective": int(ks[np.argmax(fallen)]),
        "eigengap": int(ks[np.argmax(measures["eigengap"])]),
        "relative_eigengap": int(ks[np.argmax(measures["relative_eigengap"])]),
        "confidence": int(ks[np.argmax(measures["confidence"])]),
        "pac": int(stable[-1]) if len(stable) else None,
        "delta_area": int(growing[-1]) if len(growing) else None,
    }


def _stable(ks: Counts, pac: Array, cdf_area: Array) -> Counts:
    """The K whose clusters come back in every sample."""
    # the area above the c.d.f. is the mean of M: the share of pairs that are together
    together = np.where(cdf_area < 1, 1 - cdf_area, np.nan)
    ratio = pac / together
    least = np.nanmin(ratio, initial=np.inf)
    return ks[(ratio <= least + _STABLE_WITHIN) & (least <= _UNSTABLE_ABOVE)]


def _recommended(
    ks: Counts, measures: Mapping[str, Any], by_criterion: Mapping[str, int | None]
) -> tuple[int, str]:
    pac, gap, confidence = (measures[name] for name in ("pac", "relative_eigengap", "confidence"))
    stable = by_criterion["pac"]
    if stable is not None and np.isfinite(pac).all():
        place = int(np.searchsorted(ks, stable))
        why = f"the largest K that is stable when points are resampled (PAC {pac[place]:.3f})"
    else:
        # rounded, so that what differs in the last digits is a tie, and the smaller K has it
        place = int(np.argmax(np.round(gap * confidence, 9)))
        why = (
            f"the largest product of relative eigengap ({gap[place]:.2f}) and mean confidence "
            f"({confidence[place]:.2f})"
        )
    best = int(ks[place])
    alone = ", ".join(name.replace("_", " ") for name, k in by_criterion.items() if k == best)
    return best, f"{why}; criteria that choose it by themselves: {alone or 'none'}"


def _pooled(ensembles: Mapping[Any, Any]) -> tuple[LabelTuples, dict[int, LabelTuples]]:
    """The partitions of all ensembles side by side; those that leave points out, by k."""
    check_ks(ensembles)
    matrices = {k: as_label_matrix(P) for k, P in ensembles.items()}
    (first, some), *_ = matrices.items()
    for k, matrix in matrices.items():
        if matrix.n_points != some.n_points:
            raise InvalidLabelsError(
                f"the ensemble of k={k} has {matrix.n_points} points, that of k={first} has "
                f"{some.n_points}; all must label the same points, −1 where one was not drawn"
            )
    pooled = LabelMatrix(
        np.hstack([matrix.codes for matrix in matrices.values()]),
        tuple(labels for matrix in matrices.values() for labels in matrix.categories),
        tuple(name for matrix in matrices.values() for name in matrix.names),
    )
    resampled = {k: compress_labels(matrix) for k, matrix in matrices.items() if matrix.has_missing}
    return compress_labels(pooled), resampled


def _resampled_in(tuples: LabelTuples) -> dict[int, LabelTuples]:
    """By k, the partitions with exactly k clusters that leave points out, if they are enough."""
    if tuples.memberships is not None:
        return {}
    incomplete = (tuples.codes == MISSING).any(axis=0)
    sizes, numbers = np.unique(tuples.n_labels[incomplete], return_counts=True)
    return {
        int(k): tuples.restricted_to(incomplete & (tuples.n_labels == k))[0]
        for k in sizes[numbers >= _FEWEST_RESAMPLES]
    }
