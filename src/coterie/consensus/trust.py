"""Trust: which kind of runs decides where kinds find different clusters."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from coterie.arrays import AnyArray, Floats, Ints
from coterie.consensus.results import KindTrust
from coterie.consensus.robust import mean_agreement, random_halves, weighted_rand_index

_log = logging.getLogger(__name__)

#: Rows of a sample that the kinds are compared on: a consensus of few rows is fast.
_MOST_ROWS = 1_000
#: Random divisions of the runs into halves; with fewer runs of a kind, halves tell nothing.
_DIVISIONS, FEWEST_RUNS = 4, 4


def rank_kinds(
    P: AnyArray,
    kinds: AnyArray,
    weights: Floats,
    consensus: Callable[[AnyArray, Floats], Ints],
    rng: np.random.RandomState,
) -> list[KindTrust]:
    """Return the kinds of the runs P (n, V), the most trusted one first.

    A kind fails where its assumptions do not hold, and then its runs fail in different ways. A kind
    that suits the data finds the same clusters again, and other suitable kinds confirm them. So
    stability + agreement ranks the kinds. In one vote, kinds that fail would outvote the others.
    Of many rows a sample is compared.
    """
    rows = np.flatnonzero(weights)
    if len(rows) > _MOST_ROWS:
        rows = rows[rng.permutation(len(rows))[:_MOST_ROWS]]
    P, weights = P[rows], weights[rows]
    names = dict.fromkeys(kinds.tolist())
    answers = {kind: consensus(P[:, kinds == kind], weights) for kind in names}
    agreement = mean_agreement(answers, weights)
    ranked = []
    for kind in answers:
        own, stability = P[:, kinds == kind], []
        for _ in range(_DIVISIONS):
            halves = [consensus(own[:, half], weights) for half in random_halves(own.shape[1], rng)]
            stability.append(weighted_rand_index(halves[0], halves[1], weights))
        ranked.append(KindTrust(kind, float(np.mean(stability)), agreement[kind]))
        _log.info("%s: stability %.3f, agreement %.3f", kind, ranked[-1].stability, agreement[kind])
    # rounded, so that the order of summation does not decide between equal kinds
    return sorted(ranked, key=lambda one: -round(one.stability + one.agreement, 9))
