"""Reports on a fitted consensus: its partitions, its points, and how firm its clusters are.

Cluster consensus and item consensus are those of Monti et al. (2003): means of the co-association
M over the pairs of points in a cluster, and over the pairs of one point with the points of a
cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from coterie.arrays import Floats, Ints
from coterie.consensus.robust.camps import Dissent, find_camps
from coterie.counts.cluster_tables import ClusterTables
from coterie.counts.contingency import all_contingencies, count_pairs
from coterie.ensembles.input_checks import check_whole
from coterie.errors import InvalidParameterError

#: Shares of votes that are in memory together.
_MOST_SHARES = 10**7
#: Differences of confidence below this are errors of rounding.
_ROUNDING = 1e-9
# sums of fractional weights and memberships are rounded: smaller shares of the pairs count as none
_NO_PAIRS = 1e-9


@dataclass(frozen=True)
class PartitionRow:
    """One partition compared with the consensus.

    Attributes
    ----------
    name : str
    n_clusters : int
    agreement : float
        Adjusted Rand index with the consensus, over the points that the partition labels.
    coverage : float
        Share of the points that the partition labels. A high agreement on few points says little.
    mirkin_share : float
        Share of the pairs of those points that are together in one of the two and apart in the
        other.
    camp : int
        Partitions of one camp agree with each other beyond chance; 0 is the largest camp.
    weight : float
        Weight of its vote.
    odd_one_out : bool
        Whether it is outside the deciding camp (or camps of equal size), even if it votes.
    weak : bool
        Whether it agrees with its camp much less than the other members do.
    """

    name: str
    n_clusters: int
    agreement: float
    coverage: float
    mirkin_share: float
    camp: int
    weight: float
    odd_one_out: bool
    weak: bool


@dataclass(frozen=True)
class PointRow:
    """One point.

    Attributes
    ----------
    point : int
        Its row in the input.
    cluster : int
    confidence : float
        Estimated probability that the cluster is right.
    name : object
        Its name in the index of the fitted table; without an index, its row.
    """

    point: int
    cluster: int
    confidence: float
    name: Any


@dataclass(frozen=True)
class ClusterRow:
    """A cluster: its size, the mean confidence of its points, and its consensus.

    ``consensus`` is the mean co-association of its pairs, None for a single point.
    """

    cluster: int
    size: int
    confidence: float
    consensus: float | None


def partition_report(estimator: Any, names: Sequence[str] | None = None) -> list[PartitionRow]:
    """Compare every partition with the consensus.

    Parameters
    ----------
    estimator : fitted consensus function, or fitted clusterer that holds one
    names : sequence of V str, optional
        Names of the partitions; by default those of the columns of P.

    Returns
    -------
    list of V PartitionRow
        By falling agreement; ties are in the order of the columns.

    Examples
    --------
    >>> from coterie import RobustConsensus, planted_partitions
    >>> P, _ = planted_partitions([60, 40], 4, n_bad=1, noise=0.0, random_state=0)
    >>> rows = partition_report(RobustConsensus(2, random_state=0).fit(P), names="abcd")
    >>> [(row.name, row.agreement > 0.9, row.odd_one_out) for row in rows]
    [('a', True, False), ('b', True, False), ('c', True, False), ('d', False, True)]
    """
    consensus = fitted_consensus(estimator)
    tuples, dissent = consensus._tuples, dissent_of(consensus)
    names = partition_names(consensus, names)
    n_clusters = tuples.in_given_order(tuples.n_labels)
    tables = consensus._tables
    labelled = tables.present.sum(axis=1)
    n_pairs = np.maximum(labelled * (labelled - 1), 1.0)
    shares = tuples.in_given_order(tables.distances() / n_pairs)
    rows = [
        PartitionRow(
            name=names[v],
            n_clusters=int(n_clusters[v]),
            agreement=float(consensus.partition_agreement_[v]),
            coverage=float(consensus.partition_coverage_[v]),
            mirkin_share=float(shares[v]),
            camp=int(dissent.groups[v]),
            weight=float(consensus.partition_weights_[v]),
            odd_one_out=bool(dissent.weights[v] == 0),
            weak=bool(dissent.weak[v]),
        )
        for v in range(len(names))
    ]
    return sorted(rows, key=lambda row: -row.agreement)


def point_report(estimator: Any, n: int = 10) -> list[PointRow]:
    """Return the n points with the least confidence, or all points, by rising confidence.

    Parameters
    ----------
    estimator : fitted consensus function, or fitted clusterer that holds one
    n : int

    Examples
    --------
    >>> from coterie import RobustConsensus
    >>> P = [[0, 0, 0], [0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 1]]
    >>> est = RobustConsensus(2, partition_weights=None, random_state=0).fit(P)
    >>> point_report(est, n=1)[0].point
    2
    """
    check_whole("n", n)
    fitted_consensus(estimator)
    return _point_rows(estimator, np.argsort(estimator.confidence_, kind="stable")[:n])


def least_certain(estimator: Any, most: int, below: float = 0.0) -> list[PointRow]:
    """Return the labelled points of the least confidence, by rising confidence.

    Points with the largest confidence of all are left out, unless it is less than ``below``.
    """
    confidence, labelled = estimator.confidence_, fitted_consensus(estimator).labels_ >= 0
    least = np.argsort(np.where(labelled, confidence, np.inf), kind="stable")[:most]
    # probabilities of points on which all runs agree are a little below 1
    certain = max(float(confidence.max(initial=0.0)), below) - _ROUNDING
    return _point_rows(estimator, least[labelled[least] & (confidence[least] < certain)])


def _point_rows(estimator: Any, rows: Ints) -> list[PointRow]:
    labels, index = fitted_consensus(estimator).labels_, row_index(estimator)
    return [
        PointRow(
            i,
            int(labels[i]),
            float(estimator.confidence_[i]),
            i if index is None else index[i],
        )
        for i in rows.tolist()
    ]


def cluster_report(estimator: Any) -> list[ClusterRow]:
    """Describe every cluster, in the order of the labels."""
    firmness, labelled = cluster_consensus(estimator), estimator.labels_ >= 0
    labels, confidence = estimator.labels_[labelled], estimator.confidence_[labelled]
    sizes = np.bincount(labels, minlength=len(firmness))
    means = np.bincount(labels, confidence, len(firmness)) / sizes
    return [
        ClusterRow(b, int(sizes[b]), float(means[b]), None if np.isnan(value) else float(value))
        for b, value in enumerate(firmness)
    ]


def cluster_consensus(estimator: Any) -> Floats:
    """Compute the mean co-association of the pairs of points in each cluster.

    For cluster b of n_b points,

        m(b) = Σ_{i < j in b} M_ij / (n_b (n_b − 1) / 2).

    It is 1 if all partitions put all points of b together. If labels are missing, the mean is over
    the votes of all partitions that label both points. It takes time O(u·V + m·K) for u distinct
    tuples and m base clusters.

    Parameters
    ----------
    estimator : fitted consensus function, or fitted clusterer that holds one

    Returns
    -------
    (K,) array
        In the order of the labels; nan for a cluster of a single point.

    Examples
    --------
    >>> from coterie import EvidenceAccumulation
    >>> P = [[0, 0], [0, 0], [0, 1], [1, 2], [1, 2]]
    >>> cluster_consensus(EvidenceAccumulation(2).fit(P)).round(2)
    array([0.67, 1.  ])
    """
    consensus = fitted_consensus(estimator)
    tuples, labels = consensus._tuples, consensus._tuple_labels
    tables = _tables_of(consensus)
    together, pairs = (matrix.diagonal() for matrix in tables.cluster_affinity())
    share = tables.alpha / tables.alpha.sum()
    # the sums over pairs include every point with itself
    own = tuples.weights * (tuples.squares @ share), tuples.weights * (tuples.mass**2 @ share)
    own_together, own_pairs = (np.bincount(labels, values, len(pairs)) for values in own)
    return _mean(together - own_together, pairs - own_pairs, pairs)


def item_consensus(estimator: Any) -> Floats:
    """Compute the mean co-association of each point with the points of each cluster.

    For point i and cluster b,

        m_i(b) = Σ_{j in b, j ≠ i} M_ij / |{j in b, j ≠ i}|.

    A point that the partitions put into one cluster has a value near 1 for it, and values near 0
    for the others. If labels are missing, the mean is over the votes of all partitions that label
    both points. It takes time O(u·V·K) for u distinct tuples.

    Parameters
    ----------
    estimator : fitted consensus function, or fitted clusterer that holds one

    Returns
    -------
    (n, K) array
        Columns are in the order of the labels. nan if a point is alone in its cluster, for points
        without a label, and for points of weight 0.

    Examples
    --------
    >>> from coterie import EvidenceAccumulation
    >>> P = [[0, 0], [0, 0], [0, 1], [1, 1], [1, 1]]
    >>> item_consensus(EvidenceAccumulation(2).fit(P))[2]
    array([0.5, 0.5])
    """
    consensus = fitted_consensus(estimator)
    tuples, labels = consensus._tuples, consensus._tuple_labels
    tables = _tables_of(consensus)
    alpha, every = tables.alpha, np.arange(tuples.n_tuples)
    together = tuples.indicator(alpha) @ tables.table
    all_pairs = (tuples.mass * alpha) @ tables.present
    pairs = all_pairs.copy()
    together[every, labels] -= tuples.squares @ alpha
    pairs[every, labels] -= tuples.mass**2 @ alpha
    means = np.full((len(consensus.labels_), tables.n_clusters), np.nan)
    means[fitted_rows(consensus)] = tuples.expand(_mean(together, pairs, all_pairs))
    return means


def runner_up_clusters(estimator: Any) -> Ints:
    """Return for each point the cluster, other than its own, with the largest share of votes, (n,).

    The margin is the share of votes for its cluster minus the share for this one. It is
    −1 if there is one cluster, for points without a label, and for points of weight 0.

    >>> from coterie import EvidenceAccumulation
    >>> P = [[0, 0, 0], [0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 1], [2, 2, 2]]
    >>> runner_up_clusters(EvidenceAccumulation(3).fit(P)).tolist()[2]
    1
    """
    consensus = fitted_consensus(estimator)
    tuples, tables = consensus._tuples, consensus._tables
    runner_up = np.full(len(consensus.labels_), -1, dtype=np.int64)
    if tables.n_clusters == 1:
        return runner_up
    runners_up = np.empty(tuples.n_tuples, dtype=np.int64)
    step = max(_MOST_SHARES // tables.n_clusters, 1)
    for start in range(0, tuples.n_tuples, step):
        part = slice(start, start + step)
        memberships = None if tuples.memberships is None else tuples.memberships[part]
        share = tables.vote_shares(tuples.codes[part], memberships)
        share[np.arange(len(share)), consensus._tuple_labels[part]] = -1.0
        runners_up[part] = np.argmax(share, axis=1)
    runner_up[fitted_rows(consensus)] = tuples.expand(runners_up)
    return runner_up


def dissent_of(consensus: Any) -> Dissent:
    """Return the camps of the partitions; find them if the method did not."""
    if isinstance(dissent := getattr(consensus, "dissent_", None), Dissent):
        return dissent
    tuples = consensus._tuples
    counts = count_pairs(tuples, all_contingencies(tuples))
    camps = find_camps(counts, names=tuples.partition_names)
    return camps.reordered(np.argsort(tuples.partition_order))


def fitted_consensus(estimator: Any) -> Any:
    """Return the fitted consensus function of an estimator, which may be the estimator itself."""
    consensus = getattr(estimator, "consensus_", estimator)
    check_is_fitted(consensus)
    if not hasattr(consensus, "partition_agreement_"):
        raise InvalidParameterError(
            f"{type(consensus).__name__} is not a consensus of partitions; give a fitted "
            "RobustConsensus, ConsensusClusterer or a similar estimator"
        )
    return consensus


def fitted_rows(consensus: Any) -> Ints:
    """Return the rows of the input that the tuples of a fitted consensus function hold.

    Rows without any label and rows of weight 0 are not among them.
    """
    rows = consensus._fitted_rows
    return np.arange(len(consensus._tuples.inverse)) if rows is None else rows


def partition_names(consensus: Any, names: Sequence[str] | None = None) -> list[str]:
    """Return the given names after a check, or the names of the columns that were fitted."""
    V = len(consensus.partition_weights_)
    if names is None:
        return [str(name) for name in consensus._vocabulary.names]
    if len(names) != V:
        raise InvalidParameterError(
            f"names has {len(names)} entries for {V} partitions; give one name per partition"
        )
    return [str(name) for name in names]


def k_choice_of(estimator: Any) -> Any:
    """Return the comparison of numbers of clusters, or None if the number was given."""
    chosen = getattr(fitted_consensus(estimator), "k_choice_", None)
    return getattr(estimator, "k_choice_", chosen)


def row_index(estimator: Any) -> Any:
    """Return the index of the fitted table, or None if it has none."""
    index = getattr(estimator, "index_", None)
    return getattr(fitted_consensus(estimator), "index_", None) if index is None else index


def _tables_of(consensus: Any) -> ClusterTables:
    """Count the tables of the fitted tuples.

    The stored tables can hold more rows: those of a table that was streamed from an engine.
    """
    alpha = consensus._tables.alpha
    return ClusterTables.of(consensus._tuples, consensus._tuple_labels, alpha)


def _mean(total: Floats, number: Floats, scale: Floats) -> Floats:
    """Return total / number, or nan if the number is 0 but for rounding."""
    known = number > _NO_PAIRS * scale
    return np.divide(total, number, out=np.full_like(number, np.nan), where=known)
