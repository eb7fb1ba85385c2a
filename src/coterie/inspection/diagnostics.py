"""Reading a fitted consensus: how each partition stands to it, where it is unsure, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from coterie.consensus.robust.camps import Dissent, find_camps
from coterie.counts.cluster_tables import ClusterTables
from coterie.counts.contingency import all_contingencies, count_pairs
from coterie.errors import InvalidParameterError

__all__ = [
    "PartitionRow",
    "PointRow",
    "dissent_of",
    "fitted_consensus",
    "partition_names",
    "partition_report",
    "point_report",
    "summary",
]

_MOST_SIZES = 12


@dataclass(frozen=True)
class PartitionRow:
    """How one partition stands to the consensus.

    Attributes
    ----------
    name : str
    n_clusters : int
    agreement : float
        Adjusted Rand index with the consensus, over the points the partition labels.
    mirkin_share : float
        Share of the pairs of those points that are together in one of the two and apart in the
        other.
    camp : int
        Partitions of one camp agree with each other beyond chance; 0 is the largest.
    weight : float
        What its vote counted.
    odd_one_out : bool
        Whether it stands outside the camp (or the equally large camps) that decides, be its
        vote counted or not.
    """

    name: str
    n_clusters: int
    agreement: float
    mirkin_share: float
    camp: int
    weight: float
    odd_one_out: bool


@dataclass(frozen=True)
class PointRow:
    """How sure the consensus is of one point: its place in the input, cluster and confidence."""

    point: int
    cluster: int
    confidence: float


def partition_report(estimator: Any, names: Sequence[str] | None = None) -> list[PartitionRow]:
    """How every partition stands to the consensus, the one that agrees most first.

    Parameters
    ----------
    estimator : fitted consensus function, or a clusterer that has fitted one
    names : sequence of V str, optional
        Names of the partitions; those of the table's columns if not given.

    Returns
    -------
    list of V PartitionRow
        By falling agreement; equals in the order of the columns.

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
    shares = tuples.in_given_order(_mirkin_shares(consensus._tables))
    rows = [
        PartitionRow(
            name=names[v],
            n_clusters=int(n_clusters[v]),
            agreement=float(consensus.partition_agreement_[v]),
            mirkin_share=float(shares[v]),
            camp=int(dissent.groups[v]),
            weight=float(consensus.partition_weights_[v]),
            odd_one_out=bool(dissent.weights[v] == 0),
        )
        for v in range(len(names))
    ]
    return sorted(rows, key=lambda row: -row.agreement)


def point_report(estimator: Any, n: int = 10) -> list[PointRow]:
    """The n points the consensus is least sure of, the least sure first.

    Parameters
    ----------
    estimator : fitted consensus function, or a clusterer that has fitted one
    n : int
        How many; all where there are fewer.

    Examples
    --------
    >>> from coterie import RobustConsensus
    >>> P = [[0, 0, 0], [0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 1]]
    >>> est = RobustConsensus(2, partition_weights=None, random_state=0).fit(P)
    >>> point_report(est, n=1)[0].point
    2
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise InvalidParameterError(f"n={n!r}: give a whole number of points, 1 or more")
    consensus = fitted_consensus(estimator)
    confidence = consensus.confidence_
    return [
        PointRow(int(i), int(consensus.labels_[i]), float(confidence[i]))
        for i in np.argsort(confidence, kind="stable")[:n]
    ]


def summary(estimator: Any, names: Sequence[str] | None = None) -> str:
    """What there is to know of a fitted consensus, in lines for a person.

    Parameters
    ----------
    estimator : fitted consensus function, or a clusterer that has fitted one
    names : sequence of V str, optional
        Names of the partitions; those of the table's columns if not given.

    Examples
    --------
    >>> from coterie import RobustConsensus, planted_partitions
    >>> P, _ = planted_partitions([60, 40], 5, n_bad=2, noise=0.0, random_state=0)
    >>> print(summary(RobustConsensus(2, random_state=0).fit(P)))
    100 points in 5 partitions, 4 distinct label tuples
    clusters    2, of 60 and 40 points
    confidence  1.00 on average (0 undecided, 1 certain)
    objective   J = 0.0: on average a partition differs on 0.0% of the pairs
    bound       no partition has J below 0.0: at most 0.0% of it can be saved
    partitions  3 of 5 partitions decide; 2 dissent (3, 4): the largest camp among them has 2
    answer      relaxation: ...
    """
    consensus = fitted_consensus(estimator)
    names = partition_names(consensus, names)
    n = len(consensus.labels_)
    share = consensus.objective_ / max(n * (n - 1), 1)
    lines = {
        "clusters": f"{consensus.n_clusters_}, of {_sizes_in_words(consensus.labels_)} points",
        "confidence": f"{consensus.confidence_.mean():.2f} on average (0 undecided, 1 certain)",
        "objective": f"J = {consensus.objective_:,.1f}: on average a partition differs on "
        f"{share:.1%} of the pairs",
    }
    if hasattr(consensus, "lower_bound_"):
        lines["bound"] = (
            f"no partition has J below {consensus.lower_bound_:,.1f}: "
            f"at most {consensus.gap_:.1%} of it can be saved"
        )
    lines["partitions"] = dissent_of(consensus).in_words(names)
    if hasattr(consensus, "selected_"):
        lines["answer"] = "{method}: {reason}".format(**consensus.selected_)
    head = f"{n:,} points in {len(names)} partitions, {consensus.n_tuples_:,} distinct label tuples"
    return "\n".join([head, *(f"{name:<12}{text}" for name, text in lines.items())])


def fitted_consensus(estimator: Any) -> Any:
    """The fitted consensus function that is, or is in, an estimator."""
    consensus = getattr(estimator, "consensus_", estimator)
    check_is_fitted(consensus)
    if not hasattr(consensus, "partition_agreement_"):
        raise InvalidParameterError(
            f"{type(consensus).__name__} is no consensus of partitions; "
            "give a fitted RobustConsensus, ConsensusClusterer or the like"
        )
    return consensus


def dissent_of(consensus: Any) -> Dissent:
    """Camps of the partitions, found now where the method did not ask for them."""
    if hasattr(consensus, "dissent_"):
        found: Dissent = consensus.dissent_
        return found
    tuples = consensus._tuples
    counts = count_pairs(tuples, all_contingencies(tuples))
    return find_camps(counts).reordered(np.argsort(tuples.partition_order))


def partition_names(consensus: Any, names: Sequence[str] | None = None) -> list[str]:
    """Names of the partitions: those given, one each, or those of the columns it was fitted on."""
    V = len(consensus.partition_weights_)
    if names is None:
        return [str(name) for name in consensus._vocabulary.names]
    if len(names) != V:
        raise InvalidParameterError(
            f"names has {len(names)} entries for {V} partitions; give one each"
        )
    return [str(name) for name in names]


def _mirkin_shares(tables: ClusterTables) -> NDArray[np.float64]:
    n = tables.present.sum(axis=1)
    return tables.distances() / np.maximum(n * (n - 1), 1.0)


def _sizes_in_words(labels: NDArray[Any]) -> str:
    sizes = [f"{size:,}" for size in np.bincount(labels)]
    if len(sizes) > _MOST_SIZES:
        return ", ".join(sizes[:_MOST_SIZES]) + ", …"
    return ", ".join(sizes[:-1]) + f" and {sizes[-1]}" if len(sizes) > 1 else sizes[0]
