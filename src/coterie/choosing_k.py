"""Choosing K: what the partitions say about the number of clusters, over a range of K.

Two kinds of evidence. From any partitions: the objective J of the best consensus with at most K
clusters, the eigenvalues of the co-association matrix M, and how sure the consensus is of
its points. From partitions of *resampled* points (Monti et al. 2003), one ensemble for each K: how
many pairs of points are together in some samples and apart in others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from coterie.cluster_tables import ClusterTables
from coterie.coassociation_matrix import check_partition_weights, pairwise_lower_bound
from coterie.contingency import agreement_lower_bound, all_contingencies, pair_counts
from coterie.dissent import find_camps
from coterie.errors import InvalidLabelsError, InvalidParameterError
from coterie.label_tuples import LabelTuples, as_label_tuples, compress_labels
from coterie.labels import MISSING, LabelMatrix, as_label_matrix
from coterie.median_search import (
    SearchResult,
    Start,
    learn_partition_weights,
    median_search,
    n_starts_worth_it,
    partition_starts,
)
from coterie.relaxation.least_squares import least_squares_factor
from coterie.rounding import round_by_kmeans, round_by_pivoted_qr

__all__ = [
    "KChoice",
    "choose_k",
    "consensus_cdf",
    "proportion_of_ambiguous_pairs",
    "resampled_ensembles",
]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

#: A cluster of s points has an eigenvalue of at most s; below n/500 they are not counted.
_EIGENVALUE_FLOOR = 0.002
#: J is taken to have stopped falling when this share of its fall from K = 1 is left.
_REST_OF_FALL = 0.02
#: PAC within this of the smallest is as good as the smallest.
_PAC_SLACK = 0.02
#: Growth of the area under the c.d.f. that still counts as growth.
_AREA_GROWTH = 0.1
_FEWEST_RESAMPLES = 10
_MOST_BOUNDED_PAIRWISE = 10_000
_CELLS_A_BLOCK = 1 << 22


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
        The K each criterion would choose by itself; None where it cannot be had.
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
        (λ_K − λ_{K+1}) / (λ_K + n/500), in [0, 1).
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
    ks: Iterable[int] = range(2, 11),
    *,
    partition_weights: Any = "agreement",
    random_state: Any = None,
) -> KChoice:
    """Compare numbers of clusters K, and recommend one.

    Recommended is the K with the largest product of relative eigengap and mean confidence, of
    those whose K clusters the search all uses: M has K directions that stand out, and the points
    know which of the K clusters they belong to. On planted partitions and k-means ensembles
    no single criterion was as good. The answer depends on neither the order of points or
    partitions nor the names of labels.

    PAC and c.d.f. measure how the clustering varies *with the sample*. On runs that differ by their
    random start alone nothing is resampled and PAC is near 0 for any K, which tells
    nothing; so they are computed only where points were left out.

    Parameters
    ----------
    P : (n, V) labels, or mapping of k to (n, V_k) labels
        A mapping holds one resampled ensemble for each k, as :func:`resampled_ensembles` makes
        them: PAC and c.d.f. come from each, all else from the partitions of all
        k side by side. From one table they come for k of which it has at least ten partitions
        with exactly k clusters and missing labels (points not drawn), and are nan otherwise.
    ks : iterable of int
        The K to compare, from 2 up.
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
    >>> choice.best_k, choice.n_clusters.tolist()
    (4, [2, 3, 4, 5, 6])
    """
    wanted = _checked_ks(ks)
    ensembles = _read_ensembles(P) if isinstance(P, Mapping) else None
    tuples = as_label_tuples(P) if ensembles is None else compress_labels(_pooled(ensembles))
    _refuse_more_than_points(wanted, tuples.n_points)
    votes = _Votes.counted(tuples, partition_weights)
    factor = least_squares_factor(
        votes.tuples, votes.weights, int(wanted[-1]) + 1, votes.contingencies
    )
    found = _search_each(votes, factor, wanted, random_state)
    free = votes.search(None, [])
    resampled = _resampled_in(tuples) if ensembles is None else ensembles
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


def resampled_ensembles(
    X: Any,
    ks: Iterable[int] = range(2, 11),
    n_resamples: int = 50,
    subsample: float = 0.8,
    *,
    clusterer: Any = None,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> dict[int, NDArray[np.int32]]:
    """Cluster samples of the rows of X into k clusters, many times for each k.

    Parameters
    ----------
    X : (n, p) array or sparse matrix
    ks : iterable of int, from 2 up
    n_resamples : int
        Samples for each k.
    subsample : float in (0, 1]
        The share of the rows in a sample; the others get −1.
    clusterer : scikit-learn clusterer, optional
        By default k-means, the best of five starts: what varies should be the sample, not
        the luck of the start.
    n_jobs : int, optional
    random_state : int, RandomState or None

    Returns
    -------
    dict of k to (n, n_resamples) int32 array
        What :func:`choose_k` takes.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> ensembles = resampled_ensembles(X, [2, 3], n_resamples=20, random_state=0)
    >>> [round(proportion_of_ambiguous_pairs(ensembles[k]), 2) for k in (2, 3)]
    [0.0, 0.4]
    """
    from sklearn.cluster import KMeans

    from coterie.partitions import make_partitions

    random = check_random_state(random_state)
    return {
        k: make_partitions(
            X,
            k,
            n_resamples,
            strategy="subsample",
            clusterer=KMeans(n_init=5) if clusterer is None else clusterer,
            subsample=subsample,
            n_jobs=n_jobs,
            random_state=random,
        )
        for k in _checked_ks(ks).tolist()
    }


def consensus_cdf(P: Any, n_bins: int = 100, *, max_points: int = 5_000) -> tuple[Array, Array]:
    """How the co-association of pairs of points is distributed.

    With M_ij = times i and j were together / times both were drawn,

        CDF(x) = #{i < j : M_ij ≤ x} / #{i < j},

    over the pairs that were drawn together at all. A clustering that does not vary with the
    sample has a step at 0 and one at 1, and is flat between.

    Parameters
    ----------
    P : (n, V) labels, −1 where a point was not drawn
    n_bins : int
        The c.d.f. is given at x = 0, 1/n_bins, …, 1.
    max_points : int
        Of more points, a random sample of this size is looked at.

    Returns
    -------
    x, cdf : (n_bins + 1,) arrays

    Examples
    --------
    >>> x, cdf = consensus_cdf([[0, 0], [0, 1], [1, -1]], n_bins=2)
    >>> cdf.round(2).tolist()
    [0.67, 1.0, 1.0]
    """
    if isinstance(n_bins, bool) or not isinstance(n_bins, Integral) or n_bins < 1:
        raise InvalidParameterError(f"n_bins={n_bins!r}: give a whole number, 1 or more")
    # quotients of whole numbers, like M: equal ones are equal to the last bit
    x = np.arange(n_bins + 1) / n_bins
    counts = np.zeros(n_bins + 1)
    for shares, weights in _pair_blocks(as_label_tuples(P), max_points):
        counts += np.bincount(np.searchsorted(x, shares), weights, n_bins + 1)
    return x, np.cumsum(counts) / max(counts.sum(), 1.0)


def proportion_of_ambiguous_pairs(
    P: Any, low: float = 0.1, high: float = 0.9, *, max_points: int = 5_000
) -> float:
    """PAC: the share of pairs of points with low < M_ij < high, M as in :func:`consensus_cdf`.

    Only meaningful where P holds partitions of samples of the points, all with the same
    number of clusters: see :func:`choose_k`.

    Examples
    --------
    >>> proportion_of_ambiguous_pairs([[0, 0], [0, 1], [1, 1], [1, 1]])
    0.5
    """
    if not 0 <= low < high <= 1:
        raise InvalidParameterError(f"low={low}, high={high}: give 0 ≤ low < high ≤ 1")
    ambiguous = total = 0.0
    for shares, weights in _pair_blocks(as_label_tuples(P), max_points):
        ambiguous += float(weights[(shares > low) & (shares < high)].sum())
        total += float(weights.sum())
    return ambiguous / max(total, 1.0)


@dataclass(frozen=True)
class _Votes:
    """The partitions that have a vote: what is computed once for all K."""

    tuples: LabelTuples
    weights: Array
    contingencies: Array

    @classmethod
    def counted(cls, tuples: LabelTuples, partition_weights: Any) -> _Votes:
        everyone = cls(tuples, np.ones(tuples.n_partitions), all_contingencies(tuples))
        weights = everyone.weighed(partition_weights)
        used = weights > 0
        columns = np.flatnonzero(np.repeat(used, tuples.n_labels))
        believed, _ = tuples.restricted_to(used)
        return cls(believed, weights[used], everyone.contingencies[np.ix_(columns, columns)])

    def weighed(self, partition_weights: Any) -> Array:
        """Weights of the partitions in the order of the tuples' columns."""
        if not isinstance(partition_weights, str):
            given = check_partition_weights(partition_weights, self.tuples.n_partitions)
            return given[self.tuples.partition_order]
        if partition_weights == "agreement":
            return find_camps(pair_counts(self.contingencies, self.tuples.offsets)).weights
        if partition_weights == "learned":
            return learn_partition_weights(self.tuples, None, self.starts(None))[0]
        raise InvalidParameterError(
            f"partition_weights={partition_weights!r}: it may be 'agreement', 'learned', None, or "
            "one number a partition"
        )

    def starts(self, K: int | None) -> list[Start]:
        at_most = n_starts_worth_it(self.tuples)
        return partition_starts(self.tuples, self.contingencies, self.weights, K, at_most)

    def search(self, K: int | None, starts: list[Start]) -> SearchResult:
        return median_search(self.tuples, self.weights, K, [*starts, *self.starts(K)])

    def lower_bound(self) -> float:
        if self.tuples.n_tuples <= _MOST_BOUNDED_PAIRWISE:
            return pairwise_lower_bound(self.tuples, self.weights)
        counts = pair_counts(self.contingencies, self.tuples.offsets)
        return agreement_lower_bound(counts, self.weights)


def _search_each(
    votes: _Votes, factor: Array, ks: Counts, random_state: Any
) -> list[SearchResult]:
    """The best partition found for each K; that of the K before is one of the starts."""
    tuples = votes.tuples
    found: list[SearchResult] = []
    for k in ks.tolist():
        K = min(k, tuples.n_tuples)
        columns, rng = factor[:, :K], check_random_state(random_state)
        starts = [Start("fewer clusters", before.labels) for before in found[-1:]]
        starts.append(Start("pivoted QR", round_by_pivoted_qr(columns, tuples.weights)))
        starts.append(Start("k-means", round_by_kmeans(columns, tuples.weights, K, rng)))
        found.append(votes.search(K, starts))
    return found


def _measures_of_search(votes: _Votes, found: list[SearchResult]) -> dict[str, Any]:
    tuples, share = votes.tuples, votes.weights / votes.weights.sum()
    confidence = [
        result.tables.assign(tuples.codes, result.threshold, result.labels)[1] for result in found
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
        "relative_eigengap": (here - beyond) / (here + _EIGENVALUE_FLOOR * n_points),
    }


def _measures_of_resamples(ensembles: Mapping[int, Any], ks: Counts) -> dict[str, Array]:
    pac, area, growth = (np.full(len(ks), np.nan) for _ in range(3))
    largest = 0.0
    for place, k in enumerate(ks.tolist()):
        if k not in ensembles:
            continue
        tuples = as_label_tuples(ensembles[k])
        pac[place] = proportion_of_ambiguous_pairs(tuples)
        area[place] = consensus_cdf(tuples)[1][1:].mean()
        growth[place] = (area[place] - largest) / largest if largest > 0 else area[place]
        largest = max(largest, area[place])
    return {"pac": pac, "cdf_area": area, "delta_area": growth}
