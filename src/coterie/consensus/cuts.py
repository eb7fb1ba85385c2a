"""Consensus by cutting: CSPA, HBGF and HGPA cut points, MCLA groups base clusters.

The balanced cuts are those of METIS (graphs) and mt-KaHyPar (hypergraphs), both optional packages.
A partitioner breaks ties by the index of a vertex. Data are often sorted by class, so the order of
rows would leak the classes into the result. Therefore every call shuffles the vertices.
"""

from __future__ import annotations

import functools
import threading
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from importlib import import_module
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import block_array, csc_array, csr_array
from sklearn.cluster import AgglomerativeClustering
from sklearn.utils import check_random_state

from coterie.arrays import Floats, Ints
from coterie.consensus.base import CommonSettings, check_size
from coterie.counts.cluster_tables import ClusterTables
from coterie.counts.coassociation import tuple_coassociation
from coterie.counts.contingency import all_contingencies, jaccard_similarity
from coterie.ensembles.input_checks import check_choice, check_number
from coterie.errors import InvalidParameterError
from coterie.labels.tuples import LabelTuples
from coterie.relaxation.spectral import spectral_labels, transfer_cut
from coterie.runtime.imports import missing_packages, require_extra

_MODULES = {"metis": "pymetis", "kahypar": "mtkahypar"}
_FINEST = 1000  # METIS needs whole numbers: fractions are rounded to thousandths
_LARGEST_SEED = 2**31 - 1  # a signed 32-bit integer
_KAHYPAR_LOCK = threading.Lock()  # its random number generator is shared by the process
_TIE = 1e-12


@dataclass(eq=False, repr=False)
class BalancedCut(CommonSettings):
    """Base class of the methods that cut points by a package, or tuples by a relaxation."""

    _: KW_ONLY
    partitioner: str = "auto"
    imbalance: float = 0.05

    _package = "metis"

    def _cluster(self, tuples: LabelTuples, partition_weights: Floats, n_clusters: int) -> Ints:
        self.partitioner_ = choose_partitioner(self.partitioner, self._package, "spectral")
        check_number("imbalance", self.imbalance, above=0, or_equal=True)
        self._check_size(tuples)
        rng = check_random_state(self.random_state)
        u, K, alpha = tuples.n_tuples, n_clusters, partition_weights
        if K in (1, u):  # one cluster, or one for each tuple
            labels = np.arange(u) % K
        elif self.partitioner_ == "spectral":
            labels = self._cut_tuples(tuples, alpha, K, rng)
        else:
            multiplicities = np.rint(tuples.weights).astype(np.int64)
            if not np.allclose(multiplicities, tuples.weights, rtol=1e-9, atol=0):
                raise InvalidParameterError(
                    "sample_weight: METIS and KaHyPar need whole numbers; give whole numbers, or "
                    "use partitioner='spectral'"
                )
            points = np.repeat(np.arange(u), multiplicities)
            parts = self._cut_points(tuples, whole_number_weights(alpha), points, K, rng)
            labels = most_common_parts(points, parts, u, K)
        self.loss_ = self._loss(tuples, alpha, labels)
        return labels

    def _check_size(self, tuples: LabelTuples) -> None:
        """Refuse an input that is too large; linear methods have no limit."""

    @abstractmethod
    def _cut_points(
        self, tuples: LabelTuples, alpha: Ints, points: Ints, n_parts: int, rng: Any
    ) -> Ints:
        """Return parts of the points, cut by the package; ``points[i]`` is the tuple of point i."""

    def _cut_tuples(self, tuples: LabelTuples, alpha: Floats, n_clusters: int, rng: Any) -> Ints:
        """Return labels of the tuples by the normalised cut of the graph of points and clusters."""
        return transfer_cut(tuples.indicator(alpha), tuples.weights, n_clusters, rng)

    @abstractmethod
    def _loss(self, tuples: LabelTuples, alpha: Floats, labels: Ints) -> float:
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
    n_clusters, partition_weights, random_state, verbose : as in :class:`~coterie.L2Consensus`
    partitioner : {"auto", "metis", "spectral"}, default="auto"
        METIS, or spectral clustering of M (a normalised cut). "auto" is METIS if pymetis is
        installed (``pip install 'coterie[partitioners]'``), else "spectral".
    imbalance : float, default=0.05
        METIS: a cluster may have up to (1 + imbalance)·n/K points.
    max_points, max_tuples : int, default=5000
        Limits on n for METIS, and on the number of distinct label tuples for "spectral".

    Attributes
    ----------
    labels_, n_clusters_, confidence_, partition_weights_ : as in :class:`~coterie.RobustConsensus`
    partitioner_, loss_ : str, float
        The partitioner that was used, and the weight of the cut edges, Σ_{i<j, z_i≠z_j} A_ij.

    Notes
    -----
    **Established.** Graph, weights and balanced cut follow the usual description of the article
    and published ports. Our choices: points are shuffled before the cut, because METIS breaks ties
    by position; the better of two cuts is used; points with equal labels stay together, in the part
    that most of them got. METIS needs whole numbers: other partition weights are rounded to a
    thousandth of the largest.

    **Limits.** METIS forces clusters of equal size: three planted classes of 200, 60 and 40 points
    became 106, 100 and 94; the spectral variant, which has no balance, found them. Time and memory
    grow with n², those of the spectral variant with the square of the number of tuples.

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
        self, tuples: LabelTuples, alpha: Ints, points: Ints, n_parts: int, rng: Any
    ) -> Ints:
        M = tuple_coassociation(tuples, alpha.astype(np.float64)).dense()
        # (Σα) M are counts, but with missing or soft labels M has other fractions than 1/Σα
        fractions = tuples.has_missing or tuples.memberships is not None
        scale = max(int(alpha.sum()), _FINEST if fractions else 1)
        graph = np.rint(M * scale).astype(np.int32)[np.ix_(points, points)]
        np.fill_diagonal(graph, 0)
        return cut_graph(csr_array(graph), n_parts, imbalance=self.imbalance, random_state=rng)

    def _cut_tuples(self, tuples: LabelTuples, alpha: Floats, n_clusters: int, rng: Any) -> Ints:
        M = tuple_coassociation(tuples, alpha).dense()
        return spectral_labels(M, tuples.weights, n_clusters, rng)

    def _loss(self, tuples: LabelTuples, alpha: Floats, labels: Ints) -> float:
        M = tuple_coassociation(tuples, alpha).dense()
        M[labels[:, None] == labels] = 0.0
        return float(tuples.weights @ M @ tuples.weights * alpha.sum() / 2)


class HBGF(BalancedCut):
    """Hybrid bipartite graph formulation: a balanced cut of the graph of points and base clusters.

        min Σ_{i, c ∋ i, z_i≠y_c} α_c   over labels z (n,) of points and y (m,) of base clusters

    with clusters of about equal numbers of points. Each point i has a link to each of its base
    clusters c, of weight α_c, the weight of the partition of c.

    Parameters
    ----------
    n_clusters, partition_weights, random_state, verbose : as in :class:`~coterie.L2Consensus`
    partitioner, imbalance : as in :class:`~coterie.CSPA`
        "spectral" is the normalised cut of the same graph by the transfer cut and k-means.

    Attributes
    ----------
    labels_, n_clusters_, confidence_, partition_weights_ : as in :class:`~coterie.RobustConsensus`
    partitioner_, loss_ : str, float
        The partitioner that was used, and the weight of the cut links if each base cluster joins
        the cluster of most of its points, Σ_c α_c (|c| − max_b |c ∩ cluster b|).

    Notes
    -----
    **Established.** The graph is that of the article, which cuts it by METIS or spectrally. Our
    choices: only points count in the balance; a missing label is a missing link; the rest is as in
    :class:`~coterie.CSPA`.

    **Limits.** METIS forces clusters of equal size, as in :class:`~coterie.CSPA`. Both variants are
    linear in the number of points.

    **When to use.** Instead of :class:`~coterie.CSPA` for many points.

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
        self, tuples: LabelTuples, alpha: Ints, points: Ints, n_parts: int, rng: Any
    ) -> Ints:
        links = tuples.indicator(alpha)
        if tuples.memberships is not None:
            links = tuples.indicator(alpha * _FINEST)
            links.data = np.rint(links.data).astype(np.int64)
            links.eliminate_zeros()
        links = links[points]
        n, m = links.shape
        parts = cut_graph(
            block_array([[None, links], [links.T, None]], format="csr"),
            n_parts,
            vertex_weights=np.repeat([1, 0], [n, m]),
            imbalance=self.imbalance,
            random_state=rng,
        )
        return parts[:n]

    def _loss(self, tuples: LabelTuples, alpha: Floats, labels: Ints) -> float:
        table = ClusterTables.of(tuples, labels, alpha).table
        return float(np.repeat(alpha, tuples.n_labels) @ (table.sum(axis=1) - table.max(axis=1)))


class HGPA(BalancedCut):
    """Hypergraph partitioning: clusters of about equal size that split few base clusters.

        min Σ_c α_c (λ_c − 1),   clusters of about equal size

    over labels z (n,) in {1, …, K}. The sum is over the m base clusters c of all partitions; λ_c is
    the number of clusters that contain points of c, and α_c the weight of the partition of c.

    Parameters
    ----------
    n_clusters, partition_weights, random_state, verbose : as in :class:`~coterie.L2Consensus`
    partitioner : {"auto", "kahypar", "spectral"}, default="auto"
        mt-KaHyPar, or spectral clustering of the hypergraph (a normalised cut); otherwise as in
        :class:`~coterie.CSPA`.
    imbalance : as in :class:`~coterie.CSPA`

    Attributes
    ----------
    labels_, n_clusters_, confidence_, partition_weights_ : as in :class:`~coterie.RobustConsensus`
    partitioner_, loss_ : str, float
        The partitioner that was used, and Σ_c α_c (λ_c − 1).

    Notes
    -----
    **Established.** The hypergraph follows the usual description of the article of
    :class:`~coterie.CSPA`, which cuts it by hMETIS with an imbalance of 5 %. hMETIS is not
    available as a package; mt-KaHyPar minimises a similar cost. "spectral" is the relaxation of
    Zhou, Huang and Schölkopf. Its Laplacian I − D_v^−½ B W D_e^−1 Bᵀ D_v^−½ has the eigenvectors of
    the bipartite graph of points and base clusters, so the labels are those of the spectral
    :class:`~coterie.HBGF`.

    **Limits.** A split base cluster costs the same whether one point is separated or half of its
    points. So a few wrong points in every base cluster hide the true clusters: of three planted
    classes of 100 points, mt-KaHyPar found 98 % with 2 % of the labels redrawn and 53 % with 10 %.
    The spectral variant does not have this limit, nor the forced equal sizes.

    **When to use.** As a reference in comparisons. Otherwise prefer :class:`~coterie.HBGF`.

    References
    ----------
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
        self, tuples: LabelTuples, alpha: Ints, points: Ints, n_parts: int, rng: Any
    ) -> Ints:
        return cut_hypergraph(
            tuples.indicator(alpha)[points].tocsc(),
            np.repeat(alpha, tuples.n_labels),
            n_parts,
            imbalance=self.imbalance,
            random_state=rng,
        )

    def _loss(self, tuples: LabelTuples, alpha: Floats, labels: Ints) -> float:
        touched = (ClusterTables.of(tuples, labels, alpha).table > 0).sum(axis=1)
        return float(np.repeat(alpha, tuples.n_labels) @ (touched - 1))


@dataclass(eq=False, repr=False)
class MCLA(CommonSettings):
    """Meta-clustering: the m base clusters are grouped, and each point joins one group.

    The base clusters c, d are grouped into K meta-clusters by their Jaccard similarity
    s_cd = |c ∩ d| / |c ∪ d|. The label of point i is

        z_i = argmax_b  Σ_{c in b, c ∋ i} α_c / Σ_{c in b, partition of c labels i} α_c,

    the meta-cluster b with the largest weighted share of members that contain i. α_c is the weight
    of the partition of c.

    Parameters
    ----------
    n_clusters, partition_weights, random_state, verbose : as in :class:`~coterie.L2Consensus`
        Some meta-clusters may get no points; ``n_clusters_`` does not count these. For the grouping
        all partitions of positive weight count equally.
    partitioner : {"auto", "metis", "linkage"}, default="auto"
        METIS, or average linkage on 1 − s. "auto" is METIS if pymetis is installed
        (``pip install 'coterie[partitioners]'``), else "linkage".
    imbalance : float, default=0.05
        METIS: a meta-cluster may have up to (1 + imbalance)·m/K base clusters.

    Attributes
    ----------
    labels_, n_clusters_, confidence_, partition_weights_ : as in :class:`~coterie.RobustConsensus`
    partitioner_, loss_ : str, float
        The partitioner that was used, and one minus the largest share, averaged over the points.

    Notes
    -----
    **Established.** Graph, cut and vote follow the usual description of the article of
    :class:`~coterie.CSPA` and published ports. The vote is the mean over the members; the sum, used
    in one port, favours large meta-clusters. Our choices: similarities are rounded to thousandths
    for METIS, and count only points that both partitions label; shares count only partitions that
    label the point. Ties are broken at random, once for all points with the same labels.

    **Limits.** METIS gives every meta-cluster about m/K base clusters. If partitions have more than
    K clusters, a large class has more base clusters than this, and the grouping is poor. Linkage
    has no balance, but may use a meta-cluster for a single unusual base cluster. Time and memory
    grow with m², but only linearly with n.

    **When to use.** Many points, and partitions with about K clusters that differ in a minority of
    points.

    Examples
    --------
    >>> from coterie import MCLA
    >>> P = [[0, 0], [0, 0], [0, 1], [1, 1], [1, 1]]
    >>> MCLA(2, partitioner="linkage", partition_weights=[2, 1], random_state=0).fit(P).labels_
    array([0, 0, 0, 1, 1], dtype=int32)
    """

    _: KW_ONLY
    partitioner: str = "auto"
    imbalance: float = 0.05

    _reason_against_soft = "the Jaccard similarity needs base clusters that are sets"

    def _cluster(self, tuples: LabelTuples, partition_weights: Floats, n_clusters: int) -> Ints:
        self.partitioner_ = choose_partitioner(self.partitioner, "metis", "linkage")
        imbalance = check_number("imbalance", self.imbalance, above=0, or_equal=True)
        rng = check_random_state(self.random_state)
        similarity = jaccard_similarity(all_contingencies(tuples), tuples.offsets)
        labels, shares = meta_cluster_labels(
            tuples, partition_weights, n_clusters, similarity, rng, self.partitioner_, imbalance
        )
        self.loss_ = float(1 - np.average(shares, weights=tuples.weights))
        return labels


def meta_cluster_labels(
    tuples: LabelTuples,
    partition_weights: Floats,
    n_clusters: int,
    similarity: Floats,
    rng: Any,
    partitioner: str = "linkage",
    imbalance: float = 0.0,
) -> tuple[Ints, Floats]:
    """Group the base clusters; return the meta-cluster of each tuple, or −1, and its share, (u,).

    ``similarity`` (m, m) is the Jaccard similarity, and the weights (V,) are positive.
    """
    # in a sample some base clusters have no point; they are put into a group that cannot win
    used = np.flatnonzero(similarity.diagonal())
    similarity, n_base, m = similarity[np.ix_(used, used)], len(similarity), len(used)
    if n_clusters == 1 or n_clusters >= m:
        groups = np.arange(m) % n_clusters
    elif partitioner == "metis":
        edges = np.rint(_FINEST * similarity).astype(np.int64)
        np.fill_diagonal(edges, 0)
        groups = cut_graph(csr_array(edges), n_clusters, imbalance=imbalance, random_state=rng)
    else:
        linkage = AgglomerativeClustering(n_clusters, metric="precomputed", linkage="average")
        groups = linkage.fit_predict(1 - similarity).astype(np.int64)
    meta = np.full(n_base, n_clusters, dtype=np.int64)
    meta[used] = groups
    # weighted share of the members of each meta-cluster that contain a tuple, (u, K); only members
    # from partitions that label the tuple are possible
    K, rows = int(meta.max()) + 1, np.arange(tuples.n_tuples)
    containing, possible = np.zeros((2, tuples.n_tuples, K))
    for v, weight in enumerate(partition_weights):
        members = np.bincount(meta[tuples.offsets[v] : tuples.offsets[v + 1]], minlength=K)
        labelled = tuples.codes[:, v] >= 0
        possible[labelled] += weight * members
        containing[rows[labelled], meta[tuples.codes[labelled, v]]] += weight
    shares = np.divide(containing, possible, out=np.zeros_like(containing), where=possible > 0)
    largest = shares.max(axis=1)
    tied = shares >= largest[:, None] - _TIE
    winners = np.where(tied, rng.random_sample(shares.shape), -1.0).argmax(axis=1)
    return np.where(largest > 0, winners, -1), largest


def choose_partitioner(wanted: str, package: str, fallback: str) -> str:
    """Return the partitioner; "auto" is the package if it is installed, else the fallback."""
    check_choice("partitioner", wanted, ("auto", package, fallback))
    if wanted == "auto":
        return fallback if missing_packages([_MODULES[package]]) else package
    if wanted == package:
        require_extra(
            "partitioners",
            f"partitioner={package!r} needs",
            _MODULES[package],
            instead=f"or use partitioner={fallback!r}, which needs no package",
        )
    return str(wanted)


def whole_number_weights(weights: Floats) -> Ints:
    """Convert positive weights to the whole numbers that partitioners need.

    Ratios stay exact if all weights are multiples of the smallest, at most 1,000 times as large, or
    whole numbers up to 1,000. Others are scaled to a maximum of 1,000 and rounded, to at least 1.
    """
    for scaled in (weights / weights.min(), weights):
        whole = np.rint(scaled)
        if whole.max() <= _FINEST and np.allclose(scaled, whole, rtol=1e-9, atol=0):
            return whole.astype(np.int64)
    scaled = weights * (_FINEST / weights.max())
    return np.maximum(np.rint(scaled), 1).astype(np.int64)


def cut_graph(
    adjacency: csr_array,
    n_parts: int,
    *,
    vertex_weights: Ints | None = None,
    imbalance: float = 0.05,
    random_state: Any = None,
) -> Ints:
    """Cut a graph into K parts by METIS, with the least weight of cut edges; return parts (n,).

        min Σ_{i<j, parts differ} A_ij   s.t.   weight of a part ≤ (1 + imbalance) · total / K

    A part may always have ⌈total / K⌉ and one more: with few vertices no cut is nearer to balance.
    A (n, n) is symmetric, of whole numbers and without a diagonal; 1 ≤ K ≤ n.
    """
    metis = import_module(_MODULES["metis"])
    rng = check_random_state(random_state)
    order = rng.permutation(adjacency.shape[0])
    place = np.argsort(order)
    # shuffle rows and columns alike
    rows = adjacency[order]
    graph = metis.CSRAdjacency(rows.indptr.astype(np.int64), place[rows.indices])
    weights = np.ones(len(order), int) if vertex_weights is None else vertex_weights[order]
    seed, total = int(rng.randint(_LARGEST_SEED)), int(weights.sum())
    feasible = (-(-total // n_parts) * n_parts + 1) / max(total, 1) - 1
    slack = max(1, round(1000 * max(imbalance, feasible)))  # load imbalance in thousandths

    def run(two_hop: bool, recursive: bool = False) -> tuple[int, int, Ints]:
        """Return the number of empty parts, the weight of the cut edges, and the parts."""
        weight, found = metis.part_graph(
            n_parts,
            graph,
            vweights=weights.astype(np.int64),
            eweights=rows.data.astype(np.int64) if rows.nnz else None,
            options=metis.Options(seed=seed, ufactor=slack, no2hop=int(not two_hop)),
            recursive=recursive,
        )
        parts = np.asarray(found, dtype=np.int64)
        filled = np.bincount(parts, weights, minlength=n_parts) > 0
        return int(n_parts - filled.sum()), int(weight), parts

    # METIS merges vertices before it cuts; by default also vertices two steps apart, such as all
    # points of a base cluster, which may be unrelated. The better of both ways is taken. Recursive
    # bisection leaves parts empty only if K is nearly n.
    cuts = [run(two_hop=False), run(two_hop=True)]
    if all(n_empty for n_empty, _, _ in cuts):
        cuts.append(run(two_hop=True, recursive=True))
    return min(cuts, key=lambda cut: cut[:2])[2][place]


def cut_hypergraph(
    incidence: csc_array,
    edge_weights: Ints,
    n_parts: int,
    *,
    imbalance: float = 0.05,
    random_state: Any = None,
) -> Ints:
    """Cut a hypergraph into K parts by mt-KaHyPar, splitting few hyperedges; return parts (n,).

        min Σ_e w_e (λ_e − 1)   s.t.   size of a part ≤ (1 + imbalance) · n / K

    λ_e is the number of parts with vertices of hyperedge e. Vertex i is in e if the entry (i, e) of
    the incidence (n, m) is not 0; the weights (m,) are whole numbers; 1 ≤ K ≤ n.
    """
    rng = check_random_state(random_state)
    n = incidence.shape[0]
    place = np.argsort(rng.permutation(n))
    # equal hyperedges are merged, and those of one vertex dropped; the cost stays the same
    incidence.sort_indices()
    weights: dict[bytes, int] = {}
    for e, weight in enumerate(edge_weights.tolist()):
        vertices = incidence.indices[incidence.indptr[e] : incidence.indptr[e + 1]]
        if len(vertices) > 1:
            key = vertices.tobytes()
            weights[key] = weights.get(key, 0) + weight
    if n_parts == 1 or not weights:  # every cut has cost 0
        return place % n_parts
    pins = [place[np.frombuffer(key, incidence.indices.dtype)].tolist() for key in weights]
    kahypar = import_module(_MODULES["kahypar"])
    with _KAHYPAR_LOCK:
        start = _initialised_kahypar()
        kahypar.set_seed(int(rng.randint(_LARGEST_SEED)))
        context = start.context_from_preset(kahypar.PresetType.DETERMINISTIC)
        context.set_partitioning_parameters(n_parts, imbalance, kahypar.Objective.KM1)
        context.logging = False
        hypergraph = start.create_hypergraph(
            context, n, len(pins), pins, [1] * n, list(weights.values())
        )
        parts = hypergraph.partition(context).get_partition()
    return np.asarray(parts, dtype=np.int64)[place]


@functools.cache
def _initialised_kahypar() -> Any:
    """Initialise mt-KaHyPar, which may be done only once per process."""
    # one thread: a pool of threads would not survive a fork
    return import_module(_MODULES["kahypar"]).initialize(1, print_warnings=False)


def most_common_parts(points: Ints, parts: Ints, n_tuples: int, n_parts: int) -> Ints:
    """Return one part for each tuple, that of most of its points, without empty parts.

    A balanced cut may separate points with equal labels; here they are put together again. If this
    empties a part, the assignment of parts to tuples that moves the fewest points is used.
    ``points`` (n,) are the tuples of the points, ``parts`` (n,) their parts, K ≤ u.
    """
    cells = np.bincount(points * n_parts + parts, minlength=n_tuples * n_parts)
    counts = cells.reshape(n_tuples, n_parts)
    labels = counts.argmax(axis=1)
    if len(np.unique(labels)) < n_parts:
        # moved[p, a]: number of points that move if tuple a gets part p
        moved = counts.max(axis=1) - counts.T
        part, tuple_ = linear_sum_assignment(moved)
        labels[tuple_] = part
    return labels
