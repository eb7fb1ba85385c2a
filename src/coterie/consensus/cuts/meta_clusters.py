"""MCLA: base clusters are grouped into meta-clusters; each point joins one of them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.cluster import AgglomerativeClustering
from sklearn.utils import check_random_state

from coterie.consensus.base import ConsensusFunction, Labelling
from coterie.consensus.cuts.partitioners import choose_partitioner, cut_graph
from coterie.counts.contingency import all_contingencies, jaccard_similarity
from coterie.ensembles.input_checks import check_number
from coterie.labels.tuples import LabelTuples

__all__ = ["MCLA", "meta_cluster_labels"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

_EDGE_SCALE = 1000  # METIS needs whole numbers: similarities in thousandths
_TIE = 1e-12


@dataclass(eq=False, repr=False)
class MCLA(ConsensusFunction):
    """Meta-clustering: the m base clusters are grouped, and each point joins one group.

    The base clusters c, d are grouped into K meta-clusters by their Jaccard similarity
    s_cd = |c ∩ d| / |c ∪ d|. The label of point i is

        z_i = argmax_b  Σ_{c in b, c ∋ i} α_c / Σ_{c in b, partition of c labels i} α_c,

    the meta-cluster b with the largest weighted share of members that contain i. α_c is the weight
    of the partition of c.

    Parameters
    ----------
    n_clusters : int or None, default=None
        Number of meta-clusters. Some may get no points; ``n_clusters_`` does not count these.
        None: the number that :func:`~coterie.choose_k` recommends.
    partitioner : {"auto", "metis", "linkage"}, default="auto"
        METIS, or average linkage on 1 − s. "auto" is METIS if pymetis is installed
        (``pip install 'coterie[partitioners]'``), else "linkage".
    imbalance : float, default=0.05
        METIS: a meta-cluster may have up to (1 + imbalance)·m/K base clusters.
    partition_weights : array of shape (V,) or None, default=None
        α. For the grouping all partitions of positive weight count equally.
    random_state : int, RandomState or None, default=None
    verbose : bool, default=False
        Show the stages of ``fit`` on the standard error stream.

    Attributes
    ----------
    labels_, n_clusters_, confidence_, objective_, n_tuples_, partition_weights_
        As in :class:`~coterie.RobustConsensus`.
    partitioner_ : {"metis", "linkage"}
        The partitioner that was used.
    loss_ : float
        One minus the largest share, averaged over the points.

    Notes
    -----
    **Established.** Graph, cut and vote follow the usual description of the article and published
    ports. The vote is the mean over the members; the sum, used in one port, favours large
    meta-clusters. Our choices: Similarities are rounded to thousandths for METIS. Base clusters are
    shuffled before the cut, because METIS breaks ties by position. Similarities count only points
    that both partitions label, and shares only partitions that label the point. Ties are broken at
    random, once for all points with the same labels.

    **Limits.** METIS gives every meta-cluster about m/K base clusters. If partitions have more than
    K clusters, a large class has more base clusters than this, and the grouping is poor. Linkage
    has no balance, but may use a meta-cluster for a single unusual base cluster: if partitions have
    different numbers of clusters, it is less accurate and less stable (standardised wine:
    0.86 ± 0.15, with METIS 0.97 ± 0.01). Time and memory grow with m², but only linearly with n.

    **When to use.** Many points, and partitions with about K clusters that differ in a minority of
    points. It is among the fastest methods.

    References
    ----------
    A. Strehl and J. Ghosh. Cluster ensembles: a knowledge reuse framework for combining multiple
    partitions. Journal of Machine Learning Research 3, 2002.

    Examples
    --------
    >>> from coterie import MCLA
    >>> P = [[0, 0], [0, 0], [0, 1], [1, 1], [1, 1]]
    >>> MCLA(2, partitioner="linkage", partition_weights=[2, 1], random_state=0).fit(P).labels_
    array([0, 0, 0, 1, 1], dtype=int32)
    """

    n_clusters: int | None = None
    _: KW_ONLY
    partitioner: str = "auto"
    imbalance: float = 0.05
    partition_weights: Any = None
    random_state: Any = None

    _reason_against_soft = "the Jaccard similarity needs base clusters that are sets"

    def _label_tuples(self, tuples: LabelTuples) -> Labelling:
        K, weights = self._check_settings(tuples)
        self.partitioner_ = choose_partitioner(self.partitioner, "metis", "linkage")
        imbalance = check_number("imbalance", self.imbalance, above=0, or_equal=True)
        rng = check_random_state(self.random_state)
        voting, group = tuples.restricted_to(weights > 0)
        similarity = jaccard_similarity(all_contingencies(voting), voting.offsets)
        meta = _group_base_clusters(similarity, K, self.partitioner_, imbalance, rng)
        shares = _shares(voting, weights[weights > 0], meta)
        labels = _winners(shares, rng)
        labelled = labels >= 0
        winning = shares.max(axis=1)[labelled]
        self.loss_ = float(1 - np.average(winning, weights=voting.weights[labelled]))
        return Labelling(labels[group], weights)


def meta_cluster_labels(
    tuples: LabelTuples, partition_weights: Array, n_clusters: int, similarity: Array, rng: Any
) -> Labels:
    """Return labels (u,) by average linkage of the base clusters, −1 without a label.

    ``similarity`` (m, m) is the Jaccard similarity, the weights (V,) are positive, and ``rng`` is
    a RandomState.

    >>> from coterie.labels.tuples import as_label_tuples
    >>> tuples = as_label_tuples([[0, 0], [0, 0], [1, 1]])
    >>> similarity = jaccard_similarity(all_contingencies(tuples), tuples.offsets)
    >>> labels = meta_cluster_labels(tuples, np.ones(2), 2, similarity, np.random.RandomState(0))
    >>> len(set(labels.tolist()))
    2
    """
    # in a sample some base clusters have no point; they are put into a group that cannot win
    used = np.flatnonzero(similarity.diagonal())
    meta = np.full(len(similarity), n_clusters, dtype=np.int64)
    some = similarity[np.ix_(used, used)]
    meta[used] = _group_base_clusters(some, n_clusters, "linkage", 0.0, rng)
    return _winners(_shares(tuples, partition_weights, meta), rng)


def _group_base_clusters(
    similarity: Array, n_groups: int, partitioner: str, imbalance: float, rng: Any
) -> Labels:
    """Group base clusters by METIS, or by average linkage on 1 − similarity, (m,)."""
    m = len(similarity)
    if n_groups == 1 or n_groups >= m:
        return np.arange(m) % n_groups
    if partitioner == "metis":
        edges = np.rint(_EDGE_SCALE * similarity).astype(np.int64)
        np.fill_diagonal(edges, 0)
        return cut_graph(csr_array(edges), n_groups, imbalance=imbalance, random_state=rng)
    linkage = AgglomerativeClustering(n_groups, metric="precomputed", linkage="average")
    return linkage.fit_predict(1 - similarity).astype(np.int64)


def _shares(tuples: LabelTuples, alpha: Array, meta: Labels) -> Array:
    """Return the weighted share of the members of each meta-cluster that contain a tuple, (u, K).

    Only members from partitions that label the tuple count. Without such members the share is 0.
    """
    K = int(meta.max()) + 1
    shape = (tuples.n_tuples, K)
    containing, possible = np.zeros(shape), np.zeros(shape)
    rows = np.arange(tuples.n_tuples)
    for v, weight in enumerate(alpha):
        columns = slice(tuples.offsets[v], tuples.offsets[v + 1])
        members = np.bincount(meta[columns], minlength=K)
        labelled = tuples.codes[:, v] >= 0
        possible[labelled] += weight * members
        containing[rows[labelled], meta[tuples.codes[labelled, v]]] += weight
    return np.divide(containing, possible, out=np.zeros(shape), where=possible > 0)


def _winners(shares: Array, rng: Any) -> Labels:
    """Return the meta-cluster with the largest share, ties at random; −1 if all are 0."""
    best = shares.max(axis=1)
    tied = shares >= best[:, None] - _TIE
    labels = np.where(tied, rng.random_sample(shares.shape), -1.0).argmax(axis=1)
    return np.where(best > 0, labels, -1)
