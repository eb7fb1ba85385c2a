"""CSPA and HBGF: a balanced minimum cut of a graph, or its spectral relaxation."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_array, csr_array
from sklearn.utils import check_random_state

from coterie.consensus.base import ConsensusFunction, Labelling, voting_tuples
from coterie.consensus.cuts.partitioners import (
    choose_partitioner,
    cut_graph,
    most_common_parts,
    whole_number_weights,
)
from coterie.consensus.parameters import check_size
from coterie.counts.cluster_tables import ClusterTables
from coterie.counts.coassociation import tuple_coassociation
from coterie.ensembles.input_checks import check_number
from coterie.errors import InvalidParameterError
from coterie.labels.tuples import LabelTuples
from coterie.relaxation.spectral import spectral_labels, transfer_cut

__all__ = ["CSPA", "HBGF", "BalancedCut"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

_FINEST_SHARE = 1000  # METIS needs whole numbers: fractions are rounded to thousandths


@dataclass(eq=False, repr=False)
class BalancedCut(ConsensusFunction):
    """Base class of the methods that cut points by a package, or tuples by a relaxation.

    A method implements both cuts and the loss. This class handles partitions of weight 0, K = 1 and
    K = u.
    """

    n_clusters: int | None = None
    _: KW_ONLY
    partitioner: str = "auto"
    imbalance: float = 0.05
    partition_weights: Any = None
    random_state: Any = None

    _package = "metis"

    def _label_tuples(self, tuples: LabelTuples) -> Labelling:
        K, weights = self._check_settings(tuples)
        self.partitioner_ = choose_partitioner(self.partitioner, self._package, "spectral")
        check_number("imbalance", self.imbalance, above=0, or_equal=True)
        self._check_size(tuples)
        alpha = weights[weights > 0]
        voting, place = voting_tuples(tuples, weights)
        labels = self._cut(voting, alpha, min(K, voting.n_tuples))
        self.loss_ = self._loss(voting, alpha, labels)
        return Labelling(np.append(labels, -1)[place], weights)

    def _cut(self, tuples: LabelTuples, alpha: Array, n_clusters: int) -> Labels:
        """Label tuples, each of which has a label in a partition of positive weight."""
        u = tuples.n_tuples
        if n_clusters in (1, u):  # one cluster, or one for each tuple
            return np.arange(u) % n_clusters
        rng = check_random_state(self.random_state)
        if self.partitioner_ == "spectral":
            return self._cut_tuples(tuples, alpha, n_clusters, rng)
        points = np.repeat(np.arange(u), _multiplicities(tuples.weights))
        parts = self._cut_points(tuples, whole_number_weights(alpha), points, n_clusters, rng)
        return most_common_parts(points, parts, u, n_clusters)

    def _check_size(self, tuples: LabelTuples) -> None:
        """Refuse an input that is too large; linear methods have no limit."""

    @abstractmethod
    def _cut_points(
        self, tuples: LabelTuples, alpha: Labels, points: Labels, n_parts: int, rng: Any
    ) -> Labels:
        """Return parts of the points, cut by the package; ``points[i]`` is the tuple of point i."""

    @abstractmethod
    def _cut_tuples(self, tuples: LabelTuples, alpha: Array, n_clusters: int, rng: Any) -> Labels:
        """Return labels of the tuples by the spectral relaxation."""

    @abstractmethod
    def _loss(self, tuples: LabelTuples, alpha: Array, labels: Labels) -> float:
        """Return the loss of labels of the tuples."""


@dataclass(eq=False, repr=False)
class CSPA(BalancedCut):
    """Cluster-based similarity partitioning: a balanced minimum cut of the co-association graph.

        min Σ_{i<j, z_i≠z_j} A_ij,   A = (Σ_v α_v) M,   clusters of about equal size

    over labels z (n,) in {1, …, K}. M (n, n) is the weighted share of partitions that put two
    points together, and α (V,) are the partition weights. With unit weights and no missing label,
    A_ij is the number of partitions that put i and j together.

    Parameters
    ----------
    n_clusters : int or None, default=None
        None: the number that :func:`~coterie.choose_k` recommends.
    partitioner : {"auto", "metis", "spectral"}, default="auto"
        METIS, or spectral clustering of M (a normalised cut). "auto" is METIS if pymetis is
        installed (``pip install 'coterie[partitioners]'``), else "spectral".
    imbalance : float, default=0.05
        METIS: a cluster may have up to (1 + imbalance)·n/K points.
    max_points : int, default=5000
        METIS: limit on n. The graph has up to n²/2 edges.
    max_tuples : int, default=5000
        Spectral: limit on the number of distinct label tuples.
    partition_weights : array of shape (V,) or None, default=None
    random_state : int, RandomState or None, default=None
    verbose : bool, default=False
        Show the stages of ``fit`` on the standard error stream.

    Attributes
    ----------
    labels_, n_clusters_, confidence_, objective_, n_tuples_, partition_weights_
        As in :class:`~coterie.RobustConsensus`.
    partitioner_ : {"metis", "spectral"}
        The partitioner that was used.
    loss_ : float
        Weight of the cut edges, Σ_{i<j, z_i≠z_j} A_ij.

    Notes
    -----
    **Established.** Graph, weights and balanced cut follow the usual description of the article
    and published ports. Our choices: Points are shuffled before the cut, because METIS breaks ties
    by position and data are often sorted by class. The better of two cuts with different METIS
    settings is used. Points with equal labels in all partitions stay together, in the part that
    most of them got; if this empties a part, the fewest possible points are moved. METIS needs
    whole numbers: other partition weights are rounded to a thousandth of the largest.

    **Limits.** METIS forces clusters of equal size: three planted classes of 200, 60 and 40 points
    became 106, 100 and 94; the spectral variant, which has no balance, found them. More than n/K
    points with equal labels still stay in one cluster, which then exceeds the balance. Time and
    memory grow with n²: 5,000 points took 13 seconds and 1.5 GB. The spectral variant grows with
    the square of the number of tuples: 5,000 took five seconds.

    **When to use.** Clusters of similar size and at most a few thousand points; as a reference,
    since most comparisons include it. :class:`~coterie.HBGF` cuts a similar graph in linear time.

    References
    ----------
    A. Strehl and J. Ghosh. Cluster ensembles: a knowledge reuse framework for combining multiple
    partitions. Journal of Machine Learning Research 3, 2002.

    G. Karypis and V. Kumar. A fast and high quality multilevel scheme for partitioning irregular
    graphs. SIAM Journal on Scientific Computing 20, 1998.

    Examples
    --------
    >>> from coterie import CSPA
    >>> P = [[0, 0], [0, 0], [0, 1], [1, 2], [1, 2]]
    >>> CSPA(2, partitioner="spectral", random_state=0).fit(P).labels_
    array([0, 0, 0, 1, 1], dtype=int32)
    """

    _: KW_ONLY
    max_points: int = 5_000
    max_tuples: int = 5_000

    def _check_size(self, tuples: LabelTuples) -> None:
        if self.partitioner_ == "metis":
            check_size(tuples.n_points, self.max_points, "max_points", "CSPA with METIS")
        else:
            check_size(tuples.n_tuples, self.max_tuples, "max_tuples", "CSPA")

    def _cut_points(
        self, tuples: LabelTuples, alpha: Labels, points: Labels, n_parts: int, rng: Any
    ) -> Labels:
        counts = _edge_weights(tuples, alpha)
        graph = counts[np.ix_(points, points)]
        np.fill_diagonal(graph, 0)
        return cut_graph(csr_array(graph), n_parts, imbalance=self.imbalance, random_state=rng)

    def _cut_tuples(self, tuples: LabelTuples, alpha: Array, n_clusters: int, rng: Any) -> Labels:
        M = tuple_coassociation(tuples, alpha).dense()
        return spectral_labels(M, tuples.weights, n_clusters, rng)

    def _loss(self, tuples: LabelTuples, alpha: Array, labels: Labels) -> float:
        M = tuple_coassociation(tuples, alpha).dense()
        M[labels[:, None] == labels] = 0.0
        return float(tuples.weights @ M @ tuples.weights * alpha.sum() / 2)


class HBGF(BalancedCut):
    """Hybrid bipartite graph formulation: a balanced cut of the graph of points and base clusters.

        min Σ_{i, c ∋ i, z_i≠y_c} α_c   over labels z (n,) of points and y (m,) of base clusters

    with clusters of about equal numbers of points. Each point i has a link to each of its base
    clusters c, of weight α_c, the weight of the partition of c. Points and base clusters are
    labelled together, but only points count in the balance.

    Parameters
    ----------
    n_clusters : int or None, default=None
        None: the number that :func:`~coterie.choose_k` recommends.
    partitioner : {"auto", "metis", "spectral"}, default="auto"
        METIS, or the normalised cut of the same graph by the transfer cut and k-means. "auto" is
        METIS if pymetis is installed (``pip install 'coterie[partitioners]'``), else "spectral".
    imbalance : float, default=0.05
        METIS: a cluster may have up to (1 + imbalance)·n/K points.
    partition_weights : array of shape (V,) or None, default=None
    random_state : int, RandomState or None, default=None
    verbose : bool, default=False
        Show the stages of ``fit`` on the standard error stream.

    Attributes
    ----------
    labels_, n_clusters_, confidence_, objective_, n_tuples_, partition_weights_
        As in :class:`~coterie.RobustConsensus`.
    partitioner_ : {"metis", "spectral"}
        The partitioner that was used.
    loss_ : float
        Weight of the cut links if each base cluster joins the cluster of most of its points,
        Σ_c α_c (|c| − max_b |c ∩ cluster b|).

    Notes
    -----
    **Established.** The graph is that of the article, which cuts it by METIS or spectrally. Our
    choices: only points count in the balance; a missing label is a missing link; the rest is as in
    :class:`~coterie.CSPA`.

    **Limits.** METIS forces clusters of equal size: three planted classes of 200, 60 and 40 points
    became 105, 99 and 96. The spectral variant has no balance. Both are linear in the number of
    points: 40,000 in 20 partitions took seven seconds with METIS, less than one spectrally.

    **When to use.** Instead of :class:`~coterie.CSPA` for many points: with METIS for clusters of
    similar size, otherwise with "spectral".

    References
    ----------
    X. Z. Fern and C. E. Brodley. Solving cluster ensemble problems by bipartite graph
    partitioning. International Conference on Machine Learning, 2004.

    Examples
    --------
    >>> from coterie import HBGF
    >>> P = [[0, 0], [0, 0], [0, 1], [1, 2], [1, 2]]
    >>> HBGF(2, partitioner="spectral", random_state=0).fit(P).labels_
    array([0, 0, 0, 1, 1], dtype=int32)
    """

    def _cut_points(
        self, tuples: LabelTuples, alpha: Labels, points: Labels, n_parts: int, rng: Any
    ) -> Labels:
        links = _whole_links(tuples, alpha)[points]
        n, m = links.shape
        parts = cut_graph(
            block_array([[None, links], [links.T, None]], format="csr"),
            n_parts,
            vertex_weights=np.repeat([1, 0], [n, m]),
            imbalance=self.imbalance,
            random_state=rng,
        )
        return parts[:n]

    def _cut_tuples(self, tuples: LabelTuples, alpha: Array, n_clusters: int, rng: Any) -> Labels:
        return transfer_cut(tuples.indicator(alpha), tuples.weights, n_clusters, rng)

    def _loss(self, tuples: LabelTuples, alpha: Array, labels: Labels) -> float:
        table = ClusterTables.of(tuples, labels, alpha).table
        return float(np.repeat(alpha, tuples.n_labels) @ (table.sum(axis=1) - table.max(axis=1)))


def _multiplicities(weights: Array) -> Labels:
    """Return the number of points of each tuple; refuse fractional row weights."""
    counts = np.rint(weights).astype(np.int64)
    if not np.allclose(counts, weights, rtol=1e-9, atol=0):
        raise InvalidParameterError(
            "sample_weight: METIS and KaHyPar need whole numbers; give whole numbers, or use "
            "partitioner='spectral'"
        )
    return counts


def _whole_links(tuples: LabelTuples, alpha: Labels) -> csr_array:
    """Return links (u, m) of tuples to base clusters: α_v, or for soft ones α_v π · 1000."""
    if tuples.memberships is None:
        return tuples.indicator(alpha)
    links = tuples.indicator(alpha * _FINEST_SHARE)
    links.data = np.rint(links.data).astype(np.int64)
    links.eliminate_zeros()
    return links


def _edge_weights(tuples: LabelTuples, alpha: Labels) -> NDArray[np.int32]:
    """Return (Σα) M over tuples in whole numbers, exact if no label is missing or soft."""
    M = tuple_coassociation(tuples, alpha.astype(np.float64)).dense()
    # with missing or soft labels, entries of M are not multiples of 1/Σα and need a finer scale
    fractions = tuples.has_missing or tuples.memberships is not None
    scale = max(int(alpha.sum()), _FINEST_SHARE if fractions else 1)
    return np.rint(M * scale).astype(np.int32)
