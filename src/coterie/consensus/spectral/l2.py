"""L2Consensus: least squares, rounded by k-means."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from sklearn.utils import check_random_state

from coterie.consensus.base import ConsensusFunction, Labelling
from coterie.labels.tuples import LabelTuples
from coterie.relaxation.least_squares import least_squares_factor
from coterie.relaxation.rounding import round_by_kmeans

__all__ = ["L2Consensus"]


@dataclass(eq=False, repr=False)
class L2Consensus(ConsensusFunction):
    """Least-squares consensus: min ‖M − H D Hᵀ‖²_F with HᵀH = I_K, D ≥ 0, then k-means on H√D.

    M (n, n) is the share of partitions that put two points together. The solution is the K largest
    eigenpairs of M, computed from contingency tables in time linear in n, without an n × n matrix.

    Parameters
    ----------
    n_clusters : int or None, default=None
        None: the number that :func:`~coterie.choose_k` recommends.
    partition_weights : array of shape (V,) or None, default=None
    random_state : int, RandomState or None, default=None
    verbose : bool, default=False
        Show the stages of ``fit`` on the standard error stream.

    Attributes
    ----------
    labels_, n_clusters_, confidence_, objective_, n_tuples_, partition_weights_
        As in :class:`~coterie.RobustConsensus`.

    Notes
    -----
    **Established.** The problem is that of the paper; its solution by eigenvectors is a standard
    result. The paper does not say how labels are obtained; k-means on H√D is our choice.

    **Limits.** Memory is O(m²) and time O(m³) in the number m of base clusters: many partitions
    with many clusters are slow, many points are not. An error that several partitions share looks
    like a cluster, and small clusters are lost first.

    **When to use.** Many points, partitions with independent errors, or partitions with more than K
    clusters. If partitions share errors, use :class:`~coterie.RobustConsensus`.

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

    n_clusters: int | None = None
    _: KW_ONLY
    partition_weights: Any = None
    random_state: Any = None

    def _label_tuples(self, tuples: LabelTuples) -> Labelling:
        K, weights = self._check_settings(tuples)
        factor = least_squares_factor(tuples, weights, K)
        rng = check_random_state(self.random_state)
        return Labelling(round_by_kmeans(factor, tuples.weights, K, rng), weights)
