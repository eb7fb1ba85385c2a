"""Answers by different kinds of consensus on the same votes, and the choice of one of them.

No single method is best on all data: relaxations combine weak agreement of many partitions, linkage
finds clusters of very different sizes, profiles compare points by the points they are with. So the
principle of consensus is used once more: the answer that the other answers agree with most is
chosen. It needs no index of quality. If the partitions have many more than K clusters,
locally weighted linkage is chosen instead: the other methods join many small clusters less well.
Clusters of a few stray points do not count there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.consensus.cuts import meta_cluster_labels
from coterie.consensus.linkage import (
    cluster_weights,
    cut_into,
    locally_weighted_embedding,
    locally_weighted_similarity,
    propagated_labels,
    sizable_clusters,
    weighted_linkage,
)
from coterie.consensus.robust.votes import Votes
from coterie.consensus.spectral import profile_labels
from coterie.counts.cluster_tables import ClusterTables
from coterie.counts.contingency import all_contingencies, jaccard_similarity
from coterie.labels.tuples import LabelTuples
from coterie.relaxation.rounding import round_by_kmeans
from coterie.runtime.sampling import draw_weighted_subsample
from coterie.runtime.wording import short_repr

__all__ = ["Answer", "Sample", "choose_answer", "mean_agreement", "rand_index"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

#: Above this number of tuples a sample of them is clustered: linkage needs a dense (u, u) matrix.
MOST_TUPLES = 3_000
#: Above this number of base clusters, methods with eigenvectors of an (m, m) matrix are left out.
MOST_COLUMNS = 2_000
#: Partitions with a median of more than FINE · K clusters are much finer than K clusters.
FINE = 2.3


@dataclass(frozen=True)
class Answer:
    """The chosen answer; the last two are set if it was compared with others."""

    labels: Labels  # (u,) of the tuples
    method: str
    reason: str
    separation: float = 0.0  # mean silhouette of the points plus that of the worst cluster
    #: For every answer its number of clusters, whether it competes, and its mean agreement.
    others: dict[str, dict[str, Any]] = field(default_factory=dict)

    __repr__ = short_repr


@dataclass(frozen=True)
class Sample:
    """Tuples to cluster: all that have a label, or a weighted sample of them."""

    votes: Votes
    tuples: LabelTuples
    chosen: NDArray[np.int64]  # (s,) their places among the tuples of the votes
    contingencies: Array  # (m, m)

    __repr__ = short_repr

    @classmethod
    def draw(cls, votes: Votes, rng: np.random.RandomState, most: int = MOST_TUPLES) -> Sample:
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

    def spread(self, labels: Labels, places: NDArray[Any] | None = None) -> Labels:
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

    def separation(self, labels: Labels) -> float:
        """Return the mean silhouette under 1 − M, plus the mean of the worst cluster."""
        tables = ClusterTables.of(self.tuples, labels, self.votes.weights)
        weighted = tables.silhouettes(self.tuples, labels) * self.tuples.weights
        sums = np.bincount(labels, weighted, minlength=len(tables.size))
        used = tables.size > 0
        return float(sums.sum() / tables.size.sum() + (sums[used] / tables.size[used]).min())


def choose_answer(
    sample: Sample, n_clusters: int, given: Mapping[str, Labels], rng: np.random.RandomState
) -> Answer:
    """Compute answers with K clusters from the votes and choose one of them.

    ``given`` are the answers (u,) of the relaxations, which compete with those computed here. An
    answer with fewer clusters than another one does not compete. The first of equal answers wins.
    """
    tuples, K = sample.tuples, min(n_clusters, sample.tuples.n_tuples)
    clusters = float(np.median(tuples.n_labels))
    omega = cluster_weights(tuples, sample.votes.weights, contingencies=sample.contingencies)
    similarity = locally_weighted_similarity(tuples, sample.votes.weights, omega)
    fine = clusters > FINE * K
    if fine:
        answers = {"local linkage": sizable_clusters(similarity, tuples.weights, K)}
    else:
        answers = {name: labels[sample.chosen] for name, labels in given.items()}
        tree = weighted_linkage(np.subtract(1.0, similarity, out=similarity), tuples.weights)
        answers["local linkage"] = cut_into(tree, K)
        answers |= _other_answers(sample, K, omega, rng)
    sizes = {name: len(np.unique(labels)) for name, labels in answers.items()}
    competing = {name: answers[name] for name, k in sizes.items() if k == max(sizes.values())}
    agreement = mean_agreement(competing, tuples.weights)
    # rounded, so that the order of the summation does not decide between equal answers
    best = max(competing, key=lambda name: round(agreement[name], 9))
    each = ", ".join(f"{name} {value:.3f}" for name, value in agreement.items())
    reason = f"the other answers agree with it most (mean adjusted Rand index: {each})"
    if len(competing) > 1 and min(agreement.values()) > 1 - 1e-9:
        reason = f"all {len(competing)} methods give this answer"
    if fine:
        reason = (
            f"it joins many small clusters best, and the partitions have {clusters:g} clusters "
            f"(median), more than {FINE:g} times the {K} asked for"
        )
    if out := [f"{name} ({k})" for name, k in sizes.items() if name not in competing]:
        reason += f"; with fewer clusters, and so not compared: {', '.join(out)}"
    others = {
        name: {"clusters": k, "competes": name in competing, "agreement": agreement.get(name)}
        for name, k in sizes.items()
    }
    chosen = answers[best]
    labels = given[best] if best in given else sample.spread(chosen)
    return Answer(labels, best, reason, sample.separation(chosen), others)


def mean_agreement(answers: Mapping[str, Labels], weights: Array) -> dict[str, float]:
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
            matrix[i, j] = matrix[j, i] = rand_index(answers[first], answers[names[j]], weights)
    return dict(zip(names, (matrix.sum(axis=1) / (len(names) - 1)).tolist(), strict=True))


def _other_answers(
    sample: Sample, K: int, omega: Array, rng: np.random.RandomState
) -> dict[str, Labels]:
    """Return the answers of the other methods, those that are affordable."""
    tuples, weights = sample.tuples, sample.votes.weights
    rows = locally_weighted_embedding(tuples, weights, omega, K)
    answers = {"local cut": round_by_kmeans(rows, tuples.weights, K, rng)}
    if tuples.n_columns > MOST_COLUMNS:
        return answers
    profiles = {"profiles": profile_labels(tuples, weights, K, rng)[0]}
    if tuples.memberships is not None:  # the Jaccard similarity needs clusters that are sets
        return answers | profiles
    jaccard = jaccard_similarity(sample.contingencies, tuples.offsets)
    answers["propagated linkage"] = propagated_labels(tuples, weights, K, jaccard)
    meta = meta_cluster_labels(tuples, weights, K, jaccard, rng)[0]
    return answers | profiles | {"meta-clusters": meta}


def rand_index(first: Labels, second: Labels, weights: Array) -> float:
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
