"""The partitions that have a vote, and what is computed of them once: where every search begins."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.consensus.robust.camps import Dissent, find_camps
from coterie.counts.cluster_tables import ClusterTables
from coterie.counts.coassociation import check_partition_weights, pairwise_lower_bound
from coterie.counts.contingency import agreement_lower_bound, all_contingencies, count_pairs
from coterie.errors import DissentWarning, InvalidParameterError
from coterie.labels.tuples import LabelTuples
from coterie.search.median_search import (
    SearchResult,
    Start,
    calibrated_majority,
    learn_partition_weights,
    max_partition_starts,
    median_search,
    partition_starts,
)

__all__ = ["Votes", "check_weighing"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

_log = logging.getLogger(__name__)

_MOST_BOUNDED_PAIRWISE = 10_000
_RULES = ("agreement", "learned")


@dataclass(frozen=True)
class Votes:
    """The believed partitions.

    Attributes
    ----------
    tuples : :class:`~coterie.labels.tuples.LabelTuples`
        Distinct tuples of the partitions with a vote: fewer than of all partitions.
    weights : (V',)
        Their weights, none of them zero.
    contingencies : (m', m')
        Contingency tables of all pairs of them.
    group : (u,) int
        Which of these tuples each tuple of all partitions becomes.
    all_weights : (V,)
        Weights of all partitions, in the order of the columns of all tuples.
    dissent : :class:`~coterie.consensus.robust.camps.Dissent`
        Camps of all partitions, in that order.
    """

    tuples: LabelTuples
    weights: Array
    contingencies: Array
    group: NDArray[Any]
    all_weights: Array
    dissent: Dissent

    @classmethod
    def counted(
        cls,
        tuples: LabelTuples,
        partition_weights: Any,
        n_clusters: int | None = None,
        contingencies: Array | None = None,
    ) -> Votes:
        """Compare all partitions, and weigh them.

        Parameters
        ----------
        tuples : distinct tuples of all V partitions
        partition_weights : {"agreement", "learned"}, array of shape (V,) or None
            As in :class:`~coterie.RobustConsensus`.
        n_clusters : int, optional
            The most clusters the consensus may have, for "learned".
        contingencies : (m, m), optional
            Contingency tables of all pairs of partitions, where they are known already.
        """
        _log.info("comparing %d partitions over %d tuples", tuples.n_partitions, tuples.n_tuples)
        if contingencies is None:
            contingencies = all_contingencies(tuples)
        dissent = find_camps(count_pairs(tuples, contingencies))
        weights = _weigh(tuples, contingencies, dissent, partition_weights, n_clusters)
        used = weights > 0
        believed, group = tuples.restricted_to(used)
        if not used.all():
            columns = np.flatnonzero(np.repeat(used, tuples.n_labels))
            contingencies = contingencies[np.ix_(columns, columns)]
        return cls(believed, weights[used], contingencies, group, weights, dissent)

    def objective(self, labels: Labels) -> float:
        """J of a clustering of the tuples."""
        return ClusterTables.of(self.tuples, labels, self.weights).objective()

    def separation(self, labels: Labels) -> float:
        """How well the clusters are separated in the votes: the mean silhouette under 1 − M."""
        tables = ClusterTables.of(self.tuples, labels, self.weights)
        of_tuples = tables.silhouettes(self.tuples, labels)
        return float(np.average(of_tuples, weights=self.tuples.weights))

    def majority(self, labels: Labels) -> float:
        """The share of votes from which two points belong together: 1/2, or less under noise."""
        return calibrated_majority(ClusterTables.of(self.tuples, labels, self.weights))

    def search(
        self,
        K: int | None,
        answers: Mapping[str, Labels] | None = None,
        from_partitions: bool = True,
    ) -> SearchResult:
        """Search from the answers there are already and from the most promising partitions."""
        starts = [Start(name, labels) for name, labels in (answers or {}).items()]
        if from_partitions:
            starts += partition_starts(
                self.tuples, self.contingencies, self.weights, K, max_partition_starts(self.tuples)
            )
        _log.info("searching from %d starts", len(starts))
        return median_search(self.tuples, self.weights, K, starts)

    def lower_bound(self) -> float:
        """A bound below J of every partition: pairwise if u² is affordable, else from distances."""
        if self.tuples.n_tuples <= _MOST_BOUNDED_PAIRWISE:
            return pairwise_lower_bound(self.tuples, self.weights)
        counts = count_pairs(self.tuples, self.contingencies)
        return agreement_lower_bound(counts, self.weights)


def check_weighing(partition_weights: Any) -> None:
    """Refuse a name that is no rule for weighing partitions.

    >>> check_weighing("best")
    Traceback (most recent call last):
    ...
    coterie.errors.InvalidParameterError: partition_weights='best': it may be 'agreement', ...
    """
    if isinstance(partition_weights, str) and partition_weights not in _RULES:
        raise InvalidParameterError(
            f"partition_weights={partition_weights!r}: it may be 'agreement', 'learned', None, "
            "or one number a partition"
        )


def _weigh(
    tuples: LabelTuples,
    contingencies: Array,
    dissent: Dissent,
    partition_weights: Any,
    n_clusters: int | None,
) -> Array:
    """Partition weights in the order of the tuples' columns."""
    check_weighing(partition_weights)
    if not isinstance(partition_weights, str):
        given = check_partition_weights(partition_weights, tuples.n_partitions)
        return given[tuples.partition_order]
    if partition_weights == "learned":
        equal, at_most = np.ones(tuples.n_partitions), max_partition_starts(tuples)
        starts = partition_starts(tuples, contingencies, equal, n_clusters, at_most)
        return learn_partition_weights(tuples, n_clusters, starts)[0]
    if dissent.tied and np.bincount(dissent.groups)[0] > 1:
        warnings.warn(dissent.in_words(), DissentWarning, stacklevel=5)
    return dissent.weights
