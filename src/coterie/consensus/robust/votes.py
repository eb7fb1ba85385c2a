"""The partitions that vote, with the counts that all candidate answers share."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coterie.arrays import AnyArray, Bools, Floats, Ints
from coterie.consensus.robust.camps import Dissent, find_camps
from coterie.counts.cluster_tables import ClusterTables
from coterie.counts.coassociation import check_partition_weights, pairwise_lower_bound
from coterie.counts.contingency import agreement_lower_bound, all_contingencies, count_pairs
from coterie.errors import DissentWarning, InvalidParameterError
from coterie.labels.tuples import LabelTuples
from coterie.runtime.messages import warn_user
from coterie.runtime.sampling import draw_weighted_subsample
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

_log = logging.getLogger(__name__)

_MOST_BOUNDED_PAIRWISE = 10_000  # the pairwise bound takes O(u²)
#: Partitions with a typical number of more than FINE · K clusters are much finer than K clusters.
FINE = 2.3
#: A second camp of more than this share of the largest one makes the decision close.
_CLOSE_CAMP = 2 / 3
#: Above this number of tuples a sample of them is clustered: linkage needs a dense (u, u) matrix.
_MOST_TUPLES = 3_000


@dataclass(frozen=True)
class Voters:
    """V' partitions of positive weight."""

    tuples: LabelTuples  # distinct tuples of these partitions
    weights: Floats  # (V',)
    contingencies: Floats  # (m', m') tables of all pairs of these partitions
    _tables: dict[bytes, ClusterTables] = field(default_factory=dict, init=False, repr=False)

    __repr__ = short_repr

    def tables(self, labels: Ints) -> ClusterTables:
        """Return the cluster tables of labels of the tuples, from a cache if they are known."""
        key = labels.tobytes()
        if key not in self._tables:
            self._tables[key] = ClusterTables.of(self.tuples, labels, self.weights)
        return self._tables[key]

    def objective(self, labels: Ints) -> float:
        """Return J of a clustering of the tuples."""
        return self.tables(labels).objective()

    def majority(self, labels: Ints) -> float:
        """Return the share of votes above which two points are together: 1/2, less under noise."""
        return calibrated_majority(self.tables(labels))

    def search(
        self,
        K: int | None,
        answers: Mapping[str, Ints] | None = None,
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


@dataclass(frozen=True)
class Votes(Voters):
    """The V' of V partitions that have a positive weight, and their place among all."""

    group: AnyArray  # (u,) for each tuple of all partitions, its tuple among those of the voters
    all_weights: Floats  # (V,) in the order of the columns of all tuples
    dissent: Dissent  # camps of all partitions, in the same order

    __repr__ = short_repr

    @classmethod
    def from_tuples(
        cls,
        tuples: LabelTuples,
        partition_weights: Any,
        n_clusters: int | None = None,
        contingencies: Floats | None = None,
        dissent: Dissent | None = None,
    ) -> Votes:
        """Compare all V partitions and weight them as :class:`~coterie.RobustConsensus` does.

        ``n_clusters``, the largest number of clusters, is used only by "learned". The tables (m, m)
        of all pairs of partitions and the camps are computed if they are not given.
        """
        check_weighting(partition_weights)
        _log.info("comparing %d partitions over %d tuples", tuples.n_partitions, tuples.n_tuples)
        if contingencies is None:
            contingencies = all_contingencies(tuples)
        if dissent is None:
            counts = count_pairs(tuples, contingencies)
            dissent = find_camps(counts, names=tuples.partition_names)
        weights = _weights(tuples, contingencies, dissent, partition_weights, n_clusters)
        used = weights > 0
        voting, group = tuples.restricted_to(used)
        if not used.all():
            columns = np.flatnonzero(np.repeat(used, tuples.n_labels))
            contingencies = contingencies[np.ix_(columns, columns)]
        return cls(voting, weights[used], contingencies, group, weights, dissent)


@dataclass(frozen=True)
class Sample:
    """Tuples to cluster: all that have a label, or a weighted sample of them."""

    votes: Voters
    tuples: LabelTuples
    chosen: Ints  # (s,) their places among the tuples of the votes
    contingencies: Floats  # (m, m)

    __repr__ = short_repr

    @classmethod
    def draw(cls, votes: Voters, rng: np.random.RandomState, most: int = _MOST_TUPLES) -> Sample:
        """Take the labelled tuples, or draw some of them if there are too many."""
        tuples = votes.tuples
        labelled = np.flatnonzero(tuples.has_weighted_label(votes.weights))
        if len(labelled) <= most:
            if len(labelled) == tuples.n_tuples:
                return cls(votes, tuples, labelled, votes.contingencies)
            return cls(votes, tuples.subset(labelled), labelled, votes.contingencies)
        drawn, weights = draw_weighted_subsample(tuples.weights[labelled], most, rng)
        some = tuples.subset(labelled[drawn], weights)
        return cls(votes, some, labelled[drawn], all_contingencies(some))

    def spread(self, labels: Ints, places: AnyArray | None = None) -> Ints:
        """Return labels of all tuples; those outside the sample join a cluster by their votes.

        With ``places``, only the labels of these tuples are returned.
        """
        votes = self.votes
        fixed = np.full(votes.tuples.n_tuples, -1, dtype=np.int64)
        fixed[self.chosen] = labels
        if places is not None:
            fixed = fixed[places]
        if (fixed >= 0).all():
            return fixed
        tables = ClusterTables.of(self.tuples, labels, votes.weights)
        # halfway between the mean agreement within and between clusters
        threshold = sum(tables.mean_agreement()) / 2
        codes, memberships = votes.tuples.codes, votes.tuples.memberships
        if places is not None:
            codes = codes[places]
            memberships = None if memberships is None else memberships[places]
        return np.maximum(tables.assign(codes, threshold, fixed, memberships)[0], 0)

    def separation(self, labels: Ints) -> float:
        """Return the mean silhouette under 1 − M, plus the mean of the worst cluster."""
        tables = (
            self.votes.tables(labels)
            if self.tuples is self.votes.tuples
            else ClusterTables.of(self.tuples, labels, self.votes.weights)
        )
        weighted = tables.silhouettes(self.tuples, labels) * self.tuples.weights
        sums = np.bincount(labels, weighted, minlength=len(tables.size))
        used = tables.size > 0
        return float(sums.sum() / tables.size.sum() + (sums[used] / tables.size[used]).min())


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
    contingencies: Floats,
    dissent: Dissent,
    partition_weights: Any,
    n_clusters: int | None,
) -> Floats:
    """Return the partition weights in the order of the tuples' columns."""
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
    if dissent.tied or (len(camps) > 1 and camps[1] > _CLOSE_CAMP * camps[0]):
        close = "" if dissent.tied else "; the decision is close"
        warn_user(dissent.in_words() + close, DissentWarning)


def random_halves(n: int, rng: np.random.RandomState) -> tuple[Bools, Bools]:
    """Divide n partitions at random into two halves; return a mask (n,) of each.

    >>> first, second = random_halves(5, np.random.RandomState(0))
    >>> int(first.sum()), bool((first ^ second).all())
    (2, True)
    """
    first = np.zeros(n, dtype=np.bool_)
    first[rng.permutation(n)[: n // 2]] = True
    return first, ~first


def mean_agreement(answers: Mapping[str, Ints], weights: Floats) -> dict[str, float]:
    """Return the mean adjusted Rand index of each answer (u,) with the others; 1 for one answer.

    >>> answers = {"a": np.array([0, 0, 1]), "b": np.array([1, 1, 0]), "c": np.array([0, 1, 1])}
    >>> mean_agreement(answers, np.array([2.0, 1.0, 1.0]))
    {'a': 0.5, 'b': 0.5, 'c': 0.0}
    """
    names = list(answers)
    if len(names) == 1:
        return {names[0]: 1.0}
    matrix = np.zeros((len(names), len(names)))
    for i, first in enumerate(names):
        for j in range(i):
            matrix[i, j] = matrix[j, i] = weighted_rand_index(
                answers[first], answers[names[j]], weights
            )
    return dict(zip(names, (matrix.sum(axis=1) / (len(names) - 1)).tolist(), strict=True))


def weighted_rand_index(first: Ints, second: Ints, weights: Floats) -> float:
    """Return the adjusted Rand index of two labelings of points with multiplicities.

    Points without a label (−1) in one of them are left out; 0 if no point is left.
    """
    both_label = (first >= 0) & (second >= 0)
    first, second, weights = first[both_label], second[both_label], weights[both_label]
    if not len(weights):
        return 0.0
    n, K = weights.sum(), int(second.max()) + 1
    table = np.bincount(first * K + second, weights, minlength=K * (int(first.max()) + 1))
    table = table.reshape(-1, K)
    both, a, b = ((part**2).sum() - n for part in (table, table.sum(axis=1), table.sum(axis=0)))
    expected = a * b / max(n * (n - 1), 1.0)
    span = (a + b) / 2 - expected
    return float((both - expected) / span) if span > 0 else 1.0
