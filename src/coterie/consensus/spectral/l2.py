"""L2Consensus: the ℓ2 relaxation, rounded by k-means."""

from __future__ import annotations

from typing import Any

from sklearn.utils import check_random_state

from coterie.consensus.base import ConsensusFunction, Labelling
from coterie.labels.tuples import LabelTuples
from coterie.relaxation.least_squares import least_squares_factor
from coterie.relaxation.rounding import round_by_kmeans

__all__ = ["L2Consensus"]


class L2Consensus(ConsensusFunction):
    """Least-squares consensus: min ‖M − H D Hᵀ‖²_F with HᵀH = I_K, D ≥ 0, then k-means on H√D.

    M (n, n) is the share of partitions that put two points together. The solution is the K
    largest eigenpairs of M, found from contingency tables in time linear in n; no n × n matrix
    is made. Fast, and good where the partitions err each in its own way; bent by partitions
    that are wrong together (see :class:`~coterie.RobustConsensus`).

    Parameters
    ----------
    n_clusters : int
    partition_weights : array of shape (V,) or None, default=None
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    labels_, n_clusters_, confidence_, objective_, n_tuples_, partition_weights_
        As in :class:`~coterie.RobustConsensus`.

    Notes
    -----
    **Established.** The problem is the paper's, its solution by eigenvectors is linear algebra. How
    labels are read off is not in the paper: k-means on the rows of H√D is our choice.

    **Limits.** Tables of all pairs of base clusters are held, (m, m), and their eigenvectors take
    m³ steps: many partitions with many clusters are what makes it slow, not many points. An
    error that several partitions share is an eigenvector like any other, and hides small
    clusters first.

    **When to use.** Many points, partitions that err each in its own way, and base partitions with
    more clusters than are wanted.

    References
    ----------
    D. Kong, M. Lu, K. Shmakov and J. Yang. Robust consensus clustering and its applications for
    advertising forecasting. arXiv:2301.00717, 2023.

    Examples
    --------
    >>> from coterie import L2Consensus
    >>> L2Consensus(2, random_state=0).fit([[0, 0], [0, 0], [0, 1], [1, 2], [1, 2]]).labels_
    array([0, 0, 0, 1, 1], dtype=int32)
    """

    def __init__(
        self, n_clusters: int = 8, *, partition_weights: Any = None, random_state: Any = None
    ) -> None:
        self.n_clusters = n_clusters
        self.partition_weights = partition_weights
        self.random_state = random_state

    def _label_tuples(self, tuples: LabelTuples) -> Labelling:
        K, weights = self._check_settings(tuples)
        factor = least_squares_factor(tuples, weights, K)
        rng = check_random_state(self.random_state)
        return Labelling(round_by_kmeans(factor, tuples.weights, K, rng), weights)
