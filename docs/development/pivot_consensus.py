"""A consensus function in forty lines: clusters around random pivots."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from coterie.consensus.base import ConsensusFunction, Labelling
from coterie.counts.cluster_tables import ClusterTables
from coterie.labels.tuples import LabelTuples


@dataclass(eq=False, repr=False)
class PivotConsensus(ConsensusFunction):
    """Consensus by pivots: draw a point and join all points that most partitions put with it.

    This is repeated with the remaining points. The expected J of a round is at most three times
    the minimum (Ailon, Charikar and Newman 2008); the best of several rounds is returned.

    Parameters
    ----------
    n_rounds : int, default=10
    random_state : int, RandomState or None, default=None
    """

    _: KW_ONLY
    n_rounds: int = 10
    random_state: Any = None

    def _label_tuples(self, tuples: LabelTuples) -> Labelling:
        rng = check_random_state(self.random_state)
        equal = np.ones(tuples.n_partitions)
        rounds = [_join_pivots(tuples, rng) for _ in range(self.n_rounds)]
        objectives = [ClusterTables.of(tuples, labels, equal).objective() for labels in rounds]
        return Labelling(rounds[int(np.argmin(objectives))], equal)


def _join_pivots(tuples: LabelTuples, rng: np.random.RandomState) -> NDArray[np.int64]:
    """Label the tuples (u,) by one round of pivots."""
    labels = np.full(tuples.n_tuples, -1, dtype=np.int64)
    while (free := np.flatnonzero(labels < 0)).size:
        # a random point belongs to a tuple with probability proportional to its weight
        share = tuples.weights[free] / tuples.weights[free].sum()
        pivot = rng.choice(free, p=share)
        both = (tuples.codes[free] >= 0) & (tuples.codes[pivot] >= 0)
        same = both & (tuples.codes[free] == tuples.codes[pivot])
        joins = 2 * same.sum(axis=1) > both.sum(axis=1)
        labels[free[joins | (free == pivot)]] = labels.max() + 1
    return labels
