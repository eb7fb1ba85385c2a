"""The partitions that vote, with the counts that all candidate answers share."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.consensus.robust.camps import Dissent, find_camps
from coterie.counts.cluster_tables import ClusterTables
from coterie.counts.coassociation import check_partition_weights, pairwise_lower_bound
from coterie.counts.contingency import agreement_lower_bound, all_contingencies, count_pairs
from coterie.errors import DissentWarning, InvalidParameterError
from coterie.labels.tuples import LabelTuples
from coterie.runtime.messages import warn_user
from coterie.runtime.wording import short_repr
from coterie.search.median_search import (
    SearchResult,
    Start,
    calibrated_majority,
    learn_partition_weights,
    max_partition_starts,
    median_search,
    partition_starts,
)

__all__ = ["Votes", "check_weighting", "warn_of_dissent"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

_log = logging.getLogger(__name__)

_MOST_BOUNDED_PAIRWISE = 10_000  # the pairwise bound takes O(u²)
_CLOSE = 2 / 3  # a second camp of more than this share of the largest one makes the decision close


@dataclass(frozen=True)
class Votes:
    """The partitions of positive weight.

    Attributes
    ----------
    tuples : :class:`~coterie.labels.tuples.LabelTuples`
        Distinct tuples of these partitions.
    weights : (V',)
        Their weights, all positive.
    contingencies : (m', m')
        Contingency tables of all pairs of them.
    group : (u,) int
        For each tuple of all partitions, its tuple in ``tuples``.
    all_weights : (V,)
        Weights of all partitions, in the order of the columns of all tuples.
    dissent : :class:`~coterie.consensus.robust.camps.Dissent`
        Camps of all partitions, in the order of ``all_weights``.
    """

    tuples: LabelTuples
    weights: Array
    contingencies: Array
    group: NDArray[Any]
    all_weights: Array
    dissent: Dissent
    _tables: dict[bytes, ClusterTables] = field(default_factory=dict, repr=False)

    __repr__ = short_repr

    @classmethod
    def from_tuples(
        cls,
        tuples: LabelTuples,
        partition_weights: Any,
        n_clusters: int | None = None,
        contingencies: Array | None = None,
    ) -> Votes:
        """Compare all partitions and weight them.

        Parameters
        ----------
        tuples : distinct tuples of all V partitions
        partition_weights : {"agreement", "learned"}, array of shape (V,) or None
            As in :class:`~coterie.RobustConsensus`.
        n_clusters : int, optional
            Largest number of clusters of the consensus; used by "learned".
        contingencies : (m, m), optional
            Contingency tables of all pairs of partitions; counted if not given.
        """
        _log.info("comparing %d partitions over %d tuples", tuples.n_partitions, tuples.n_tuples)
        if contingencies is None:
            contingencies = all_contingencies(tuples)
        counts = count_pairs(tuples, contingencies)
        dissent = find_camps(counts, names=tuples.partition_names)
        weights = _weights(tuples, contingencies, dissent, partition_weights, n_clusters)
        used = weights > 0
        voting, group = tuples.restricted_to(used)
        if not used.all():
            columns = np.flatnonzero(np.repeat(used, tuples.n_labels))
            contingencies = contingencies[np.ix_(columns, columns)]
        return cls(voting, weights[used], contingencies, group, weights, dissent)

    def tables(self, labels: Labels) -> ClusterTables:
        """Return the cluster tables of labels of the tuples, from a cache if they are known."""
        key = labels.tobytes()
        if key not in self._tables:
            self._tables[key] = ClusterTables.of(self.tuples, labels, self.weights)
        return self._tables[key]

    def objective(self, labels: Labels) -> float:
        """Return J of a clustering of the tuples."""
        return self.tables(labels).objective()

    def majority(self, labels: Labels) -> float:
        """Return the share of votes above which two points are together: 1/2, less under noise."""
        return calibrated_majority(self.tables(labels))

    def search(
        self,
        K: int | None,
        answers: Mapping[str, Labels] | None = None,
        threshold: float | None = None,
    ) -> SearchResult:
        """Search for the least J from the given answers and the most promising partitions.

        ``threshold`` None calibrates the threshold of the search.
        """
        starts = [Start(name, labels) for name, labels in (answers or {}).items()]
        starts += partition_starts(
            self.tuples, self.contingencies, self.weights, K, max_partition_starts(self.tuples)
        )
        _log.info("searching from %d starts", len(starts))
        found = median_search(self.tuples, self.weights, K, starts, threshold)
        self._tables[found.labels.tobytes()] = found.tables
        return found

    def lower_bound(self) -> float:
        """Return a lower bound on J; many tuples give a weaker one, from partition distances."""
        if self.tuples.n_tuples <= _MOST_BOUNDED_PAIRWISE:
            return pairwise_lower_bound(self.tuples, self.weights)
        counts = count_pairs(self.tuples, self.contingencies)
        return agreement_lower_bound(counts, self.weights)


def check_weighting(partition_weights: Any) -> None:
    """Refuse a string that is not a rule for partition weights.

    >>> check_weighting("agreement")
    """
    if isinstance(partition_weights, str) and partition_weights not in ("agreement", "learned"):
        raise InvalidParameterError(
            f"partition_weights={partition_weights!r}: give 'agreement', 'learned', None, or one "
            "number per partition"
        )


def _weights(
    tuples: LabelTuples,
    contingencies: Array,
    dissent: Dissent,
    partition_weights: Any,
    n_clusters: int | None,
) -> Array:
    """Return the partition weights in the order of the tuples' columns."""
    check_weighting(partition_weights)
    if not isinstance(partition_weights, str):
        given = check_partition_weights(partition_weights, tuples.n_partitions)
        return given[tuples.partition_order]
    if partition_weights == "learned":
        equal, at_most = np.ones(tuples.n_partitions), max_partition_starts(tuples)
        starts = partition_starts(tuples, contingencies, equal, n_clusters, at_most)
        return learn_partition_weights(tuples, n_clusters, starts)[0]
    warn_of_dissent(dissent.reordered(np.argsort(tuples.partition_order)))
    return dissent.weights


def warn_of_dissent(dissent: Dissent) -> None:
    """Warn if several camps are the largest, or if the second camp is almost as large."""
    camps = np.bincount(dissent.groups)
    if dissent.tied or (len(camps) > 1 and camps[1] > _CLOSE * camps[0]):
        close = "" if dissent.tied else "; the decision is close"
        warn_user(dissent.in_words() + close, DissentWarning)
