"""HGPA: a balanced cut of the hypergraph whose hyperedges are the base clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.consensus.cuts.graph_cuts import BalancedCut
from coterie.consensus.cuts.partitioners import cut_hypergraph
from coterie.counts.cluster_tables import ClusterTables
from coterie.labels.tuples import LabelTuples
from coterie.relaxation.spectral import transfer_cut

__all__ = ["HGPA"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


class HGPA(BalancedCut):
    """Hypergraph partitioning: clusters of about equal size that split few base clusters.

        min Σ_c α_c (λ_c − 1),   clusters of about equal size

    over labels z (n,) in {1, …, K}. The sum is over the m base clusters c of all partitions; λ_c is
    the number of clusters that contain points of c, and α_c the weight of the partition of c.

    Parameters
    ----------
    n_clusters : int or None, default=None
        None: the number that :func:`~coterie.choose_k` recommends.
    partitioner : {"auto", "kahypar", "spectral"}, default="auto"
        mt-KaHyPar, or spectral clustering of the hypergraph (a normalised cut). "auto" is
        mt-KaHyPar if installed (``pip install 'coterie[partitioners]'``), else "spectral".
    imbalance : float, default=0.05
        mt-KaHyPar: a cluster may have up to (1 + imbalance)·n/K points.
    partition_weights : array of shape (V,) or None, default=None
    random_state : int, RandomState or None, default=None
    verbose : bool, default=False
        Show the stages of ``fit`` on the standard error stream.

    Attributes
    ----------
    labels_, n_clusters_, confidence_, objective_, n_tuples_, partition_weights_
        As in :class:`~coterie.RobustConsensus`.
    partitioner_ : {"kahypar", "spectral"}
        The partitioner that was used.
    loss_ : float
        Σ_c α_c (λ_c − 1).

    Notes
    -----
    **Established.** The hypergraph follows the usual description of the article. The article cuts
    it by hMETIS with an imbalance of 5 %. hMETIS is not available as a package; mt-KaHyPar
    minimises a similar cost. Shuffling, points with equal labels and whole-number weights are as in
    :class:`~coterie.CSPA`. "spectral" is the relaxation of Zhou, Huang and Schölkopf. Its Laplacian
    I − D_v^−½ B W D_e^−1 Bᵀ D_v^−½ has the eigenvectors of the bipartite graph of points and base
    clusters, so the labels are those of the spectral :class:`~coterie.HBGF`.

    **Limits.** A split base cluster costs the same whether one point is separated or half of its
    points. So a few wrong points in every base cluster hide the true clusters: of three planted
    classes of 100 points, mt-KaHyPar found 98 % with 2 % of the labels redrawn and 53 % with 10 %;
    CSPA and HBGF found all. Clusters of equal size are forced: the accuracy on iris (partitions
    with different numbers of clusters) was 0.97, and 0.71–0.81 with one class cut to 20 points. It
    takes about a second per thousand points of 20 partitions, much more than HBGF. The spectral
    variant has none of these limits.

    **When to use.** As a reference in comparisons. Otherwise prefer :class:`~coterie.HBGF`.

    References
    ----------
    A. Strehl and J. Ghosh. Cluster ensembles: a knowledge reuse framework for combining multiple
    partitions. Journal of Machine Learning Research 3, 2002.

    L. Gottesbüren, T. Heuer, N. Maas, P. Sanders and S. Schlag. Scalable high-quality hypergraph
    partitioning. ACM Transactions on Algorithms 20, 2024.

    D. Zhou, J. Huang and B. Schölkopf. Learning with hypergraphs: clustering, classification, and
    embedding. Advances in Neural Information Processing Systems 19, 2006.

    Examples
    --------
    >>> from coterie import HGPA
    >>> P = [[0, 0], [0, 0], [0, 1], [1, 2], [1, 2]]
    >>> HGPA(2, partitioner="spectral", random_state=0).fit(P).labels_
    array([0, 0, 0, 1, 1], dtype=int32)
    """

    _package = "kahypar"
    _reason_against_soft = "a hyperedge cannot contain a fraction of a point"

    def _cut_points(
        self, tuples: LabelTuples, alpha: Labels, points: Labels, n_parts: int, rng: Any
    ) -> Labels:
        return cut_hypergraph(
            tuples.indicator(alpha)[points].tocsc(),
            np.repeat(alpha, tuples.n_labels),
            n_parts,
            imbalance=self.imbalance,
            random_state=rng,
        )

    def _cut_tuples(self, tuples: LabelTuples, alpha: Array, n_clusters: int, rng: Any) -> Labels:
        # the random walk point → base cluster → point is that of Zhou and others
        return transfer_cut(tuples.indicator(alpha), tuples.weights, n_clusters, rng)

    def _loss(self, tuples: LabelTuples, alpha: Array, labels: Labels) -> float:
        touched = (ClusterTables.of(tuples, labels, alpha).table > 0).sum(axis=1)
        return float(np.repeat(alpha, tuples.n_labels) @ (touched - 1))
