"""Trust: which kind of runs decides where kinds find different clusters, and how many clusters.

A kind fails where its assumptions do not hold, and then its runs fail in different ways. A kind
that suits the data finds the same clusters again, and other suitable kinds confirm them. In one
vote, kinds that fail would outvote the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coterie.arrays import AnyArray, Floats, Ints
from coterie.consensus.choice_of_k import FEATURE_INDICES, FeatureSample, KChoice
from coterie.consensus.linkage import sizable_answers
from coterie.consensus.results import KindTrust
from coterie.consensus.robust import pairwise_agreement, random_halves, weighted_rand_index
from coterie.labels.encode import as_label_matrix
from coterie.labels.tuples import LabelTuples, compress_labels
from coterie.runtime.messages import ignore_label_warnings
from coterie.runtime.wording import short_repr

_log = logging.getLogger(__name__)

#: Rows of a sample that the kinds are compared on.
MOST_ROWS = 1_000
#: Random divisions of the runs into halves; with fewer runs of a kind, halves tell nothing.
_DIVISIONS, FEWEST_RUNS = 3, 4
#: Numbers of clusters whose trust is within this share of the largest are equally good.
_EQUALLY_GOOD = 0.01
#: With less trust in every number of clusters there is no structure; with less, weak evidence.
_LEAST_TRUST, _CLEAR_TRUST = 0.5, 0.8
#: Probability that runs of trust 1 share no error.
_MOST_RELIABLE = 0.97

#: Labels (s, V) of the runs of a kind, or a function that gives them for K.
Runs = AnyArray | Callable[[int], AnyArray]


@dataclass(frozen=True)
class Evidence:
    """Answers of c kinds for L numbers of clusters; nan for a kind that has not as many clusters.

    The stability is the mean adjusted Rand index (ARI) between the answers of two halves of the
    runs. The agreement is the mean ARI of an answer with those of the other kinds, the least alike
    left out: a kind that fails confirms nobody and refutes nobody.
    """

    kinds: tuple[str, ...]
    ks: Ints  # (L,)
    answers: Ints  # (c, L, s)
    stability: Floats  # (c, L)
    agreement: Floats  # (c, L)

    __repr__ = short_repr

    @classmethod
    def joined(cls, parts: Sequence[Evidence]) -> Evidence:
        """Return the evidence of several groups of kinds, each compared within itself."""
        each = ("answers", "stability", "agreement")
        return cls(
            tuple(kind for part in parts for kind in part.kinds),
            parts[0].ks,
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in each},
        )

    @property
    def trust(self) -> Floats:
        """(stability⁴ + agreement²) / 2, (c, L): nearly equal halves count, and confirmation."""
        return (np.maximum(self.stability, 0) ** 4 + np.maximum(self.agreement, 0) ** 2) / 2

    @property
    def best(self) -> int:
        """The place of the largest K whose largest trust is within 1% of the best."""
        trust = np.nan_to_num(self.trust).max(axis=0)
        return int(np.flatnonzero(trust >= (1 - _EQUALLY_GOOD) * trust.max())[-1])

    def ranked(self) -> list[KindTrust]:
        """Return the trust in each kind for the best K, the most trusted kind first."""
        measured = np.array([self.stability, self.agreement, self.trust])[:, :, self.best]
        measured = np.nan_to_num(measured)
        # rounded, so that the order of summation does not decide between equal kinds
        order = np.argsort(-np.round(measured[2], 9), kind="stable")
        return [KindTrust(self.kinds[a], *measured[:, a].tolist()) for a in order]

    def choose_k(self, features: FeatureSample) -> KChoice:
        """Recommend the best K, or 1 if there is no structure.

        Indices of the ``features`` (s,) inform, but do not decide.
        """
        trust = np.nan_to_num(self.trust)
        decides, trust = trust.argmax(axis=0), trust.max(axis=0)
        places = np.arange(len(self.ks))
        answers = self.answers[decides, places]
        k, first = int(self.ks[self.best]), self.ranked()[0]
        reason = (
            f"halves of the {first.kind} runs agree {first.stability:.2f} on {k} clusters, and "
            f"other kinds agree with them {first.agreement:.2f} (adjusted Rand index)"
        )
        is_weak = first.trust < _CLEAR_TRUST
        if first.trust < _LEAST_TRUST:
            k, reason = 1, f"no structure was found; at best, {reason}"
        each = [features.indices(labels) for labels in answers]
        indices = {name: np.array([one[name] for one in each]) for name in FEATURE_INDICES}
        unknown = np.full(len(self.ks), np.nan)
        names = dict.fromkeys(
            ("objective", "information", "margin", "eigengap", "relative_eigengap"), unknown
        )
        return KChoice(
            k,
            reason,
            is_weak,
            {"trust": k},
            self.ks,
            n_clusters=np.array([len(np.unique(labels)) for labels in answers]),
            lower_bound=np.nan,
            eigenvalues=np.empty(0),
            stability=self.stability[decides, places],
            agreement=self.agreement[decides, places],
            trust=trust,
            **names,
            **indices,
        )


def compare_kinds(
    runs: Mapping[str, Runs], ks: Ints, weights: Floats, rng: np.random.RandomState
) -> Evidence:
    """Cluster s rows of weights (s,) by locally weighted linkage of each kind of runs, for each K.

    A kind has an answer for K if one of its runs has K clusters.
    """
    c, s = len(runs), len(weights)
    answers = np.full((c, len(ks), s), -1, dtype=np.int64)
    stability, agreement = np.full((c, len(ks)), np.nan), np.full((c, len(ks)), np.nan)
    for a, (kind, of_kind) in enumerate(runs.items()):
        _log.info("comparing halves of the %s runs", kind)
        # runs that do not depend on K have one tree for all numbers of clusters
        groups = [slice(j, j + 1) for j in range(len(ks))] if callable(of_kind) else [slice(None)]
        divisions = None
        for group in groups:
            P = of_kind(int(ks[group][0])) if callable(of_kind) else of_kind
            places = np.arange(len(ks))[group]
            places = places[ks[places] <= P.max(initial=-1) + 1]
            if not len(places):
                continue
            with ignore_label_warnings():
                matrix = as_label_matrix(P, allow_unlabelled_rows=True)
            tuples, V = compress_labels(matrix, weights), matrix.n_partitions
            divisions = divisions or [random_halves(V, rng) for _ in range(_DIVISIONS)]
            answers[a, places] = _expanded(tuples, np.ones(V), ks[places])
            halves = [
                [_expanded(tuples, half.astype(np.float64), ks[places]) for half in pair]
                for pair in divisions
            ]
            stability[a, places] = [
                np.mean([weighted_rand_index(x[j], y[j], weights) for x, y in halves])
                for j in range(len(places))
            ]
    for j in range(len(ks)):
        known = np.flatnonzero(~np.isnan(stability[:, j]))
        if len(known) < 2:
            agreement[known, j] = 0.0
            continue
        alike = pairwise_agreement(list(answers[known, j]), weights)
        others = alike[~np.eye(len(known), dtype=bool)].reshape(len(known), -1)
        agreement[known, j] = np.sort(others, axis=1)[:, min(1, others.shape[1] - 1) :].mean(1)
    return Evidence(tuple(runs), ks, answers, stability, agreement)


def _expanded(tuples: LabelTuples, partition_weights: Floats, ks: Ints) -> Ints:
    """Return the answers (L, s) of linkage of the weighted partitions."""
    return np.array([tuples.expand(z) for z in sizable_answers(tuples, partition_weights, ks)])


def shared_errors(trust: float) -> float:
    """Return the probability of errors that all runs of a kind share, from the trust in it.

    The form and its constant were fitted to sets with known classes, K given and chosen together.
    """
    return 1 - _MOST_RELIABLE * trust**0.5
