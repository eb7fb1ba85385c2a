"""Members of an ensemble: clusterings that are fitted to rows, and label blocks of rows.

They are runs of k-means, of linkage, of Gaussian mixtures, of landmark-spectral clustering and of
clusterers that the user gives. What several members compute from a block is computed once.
"""

from __future__ import annotations

import inspect
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from sklearn.base import clone
from sklearn.cluster import AgglomerativeClustering, KMeans, MiniBatchKMeans
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import euclidean_distances, pairwise_distances_argmin
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

import coterie.ensembles.kernels as kernels
from coterie.arrays import AnyArray, Floats
from coterie.ensembles.scalings import Scaling, largest_coordinate, row_blocks
from coterie.errors import InvalidParameterError

#: Number of results that a block remembers. Runs on different columns share none of them.
_MOST_KEPT = 6
#: Up to this number of rows k-means uses all of them in every step, above it batches of rows.
MOST_LLOYD = 50_000
_BATCH_ROWS = 4_096
_MOST_AXES = 10
#: Added to all variances, as a share of the mean variance of the principal components.
_LEAST_VARIANCE = 0.01
# The runs differ on purpose, so they need not converge.
_STEPS = 50
#: In smallest standard deviations: squares of this number of them lose 6 of 16 digits.
_FAR = 1e3
_TINY = float(np.finfo(np.float64).tiny) ** 0.5
#: Largest Gini index of the sizes in linkage runs, in turn, and the neighbour of core distances.
_MOST_UNEVEN, _CORE_NEIGHBOUR = (0.1, 0.3, 0.5, 0.7), 5
_LANDMARKS = 300
_NEIGHBOURS = 5
# The landmarks need not be optimal centres: few steps on a sample are enough.
_ROWS_PER_LANDMARK = 10
_LANDMARK_STEPS = 5
# δ as a share of the mean squared length of landmarks: far above rounding errors
_DISTINCT = 1e-11


class RowBlock:
    """Some rows of the features X, with a memory of what was computed from them."""

    def __init__(self, X: Any) -> None:
        self.X = X
        self._kept: list[tuple[Any, tuple[Any, ...], Any]] = []

    def once(self, compute: Callable[..., Any], *parts: Any) -> Any:
        """Return ``compute(*parts)``, or the result of an earlier call with equal parts.

        The results that were used last are kept. Parts are compared by value: members that were
        fitted in other processes hold equal copies of what they share.
        """
        for place, (known, arguments, result) in enumerate(self._kept):
            if known is compute and all(map(_equal, arguments, parts)):
                self._kept.append(self._kept.pop(place))
                return result
        result = compute(*parts)
        self._kept = [*self._kept[1 - _MOST_KEPT :], (compute, parts, result)]
        return result


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Member(Scaling):
    """A fitted clustering, with the scaling that is applied before it."""

    _BY_CLUSTER: ClassVar[tuple[str, ...]] = ()  # fields with an entry for each cluster

    def predict(self, X: Any) -> AnyArray:
        """Return labels of the rows of ``X``, from 0 to K_v − 1; −1 is noise."""
        return label_rows([self], X)[:, 0]

    @abstractmethod
    def labels_of(self, block: RowBlock) -> AnyArray:
        """Return labels of the rows of a block, as :meth:`predict` does."""

    def with_clusters(self, kept: AnyArray) -> Self:
        """Return the same run with some of its clusters only."""
        return replace(self, **{name: getattr(self, name)[kept] for name in self._BY_CLUSTER})

    def coordinates(self, block: RowBlock, dtype: Any) -> Any:
        """Return Z of a block in a float type; refuse rows whose squared distances overflow."""
        return block.once(
            _coordinates, block.X, self.features, self.shift, self.scale, np.dtype(dtype)
        )


def label_rows(members: Sequence[Member], X: Any, dtype: Any = np.int32) -> AnyArray:
    """Return the labels (n, V) of rows by V members, computed by blocks of rows.

    What members share, such as landmarks or principal axes, is computed once for each block.
    """
    labels = np.empty((X.shape[0], len(members)), dtype=dtype)
    for rows in row_blocks(*X.shape):
        block = RowBlock(X[rows])
        for column, member in enumerate(members):
            labels[rows, column] = member.labels_of(block)
    return labels


def _coordinates(X: Any, features: Any, shift: Any, scale: Any, dtype: Any) -> Any:
    scaling = Scaling(features=features, shift=shift, scale=scale)
    with np.errstate(over="ignore"):  # such rows are refused below
        Z = scaling.transform(X.astype(dtype, copy=False))
    values, limit = Z.data if sp.issparse(Z) else Z, largest_coordinate(Z)
    if values.size == 0 or (-limit <= values.min() and values.max() <= limit):
        return Z
    first = int(np.argmax(~(abs(values) <= limit)))
    row = np.searchsorted(Z.indptr, first, "right") - 1 if sp.issparse(Z) else first // Z.shape[1]
    raise InvalidParameterError(
        f"row {row} of X has values so large that squared distances overflow in {Z.dtype}; "
        "correct that row, or rescale the columns of X before fitting"
    )


def _equal(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    # sparse landmarks are compared only by identity
    simple = (int, float, np.dtype)
    return isinstance(one, simple) and isinstance(other, simple) and bool(one == other)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CentroidMember(Member):
    """A fitted k-means run: the label of x is the index of the nearest row of ``centres``.

    ``centres`` (K_v, q) are in the coordinates of the scaling; each is nearest to some fitted row.
    """

    centres: AnyArray

    _BY_CLUSTER = ("centres",)

    def labels_of(self, block: RowBlock) -> AnyArray:
        Z = self.coordinates(block, self.centres.dtype)
        return pairwise_distances_argmin(Z, self.centres).astype(np.int32)


def fit_centroids(
    Z: Any, n_clusters: int, seed: int, scaling: Scaling, sample_weight: Any = None
) -> CentroidMember:
    """Run k-means once, from random rows of Z (n, q), and return its centres.

    Up to 50,000 rows it is Lloyd's, above it mini-batch k-means. Z is overwritten.
    """
    settings = {"n_clusters": n_clusters, "init": "random", "n_init": 1, "random_state": seed}
    if Z.shape[0] <= MOST_LLOYD:
        model = KMeans(algorithm="lloyd", copy_x=False, **settings)
    else:
        model = MiniBatchKMeans(batch_size=_BATCH_ROWS, **settings)
    model.fit(Z, sample_weight=sample_weight)
    return CentroidMember(centres=model.cluster_centers_, **vars(scaling))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NearestRowMember(Member):
    """Fitted rows (s, q), in the coordinates of the scaling, and their labels (s,)."""

    rows: Any
    row_labels: AnyArray

    def labels_of(self, block: RowBlock) -> AnyArray:
        Z = self.coordinates(block, self.rows.dtype)
        return self.row_labels[pairwise_distances_argmin(Z, self.rows)]

    def with_clusters(self, kept: AnyArray) -> Self:
        return replace(self, row_labels=renumber(self.row_labels, kept))


def fit_ward(Z: Any, n_clusters: int, scaling: Scaling) -> NearestRowMember:
    """Cluster the rows of Z (n, q) by Ward's linkage, in time and memory O(n²)."""
    dense = Z.toarray() if hasattr(Z, "toarray") else Z
    labels = AgglomerativeClustering(n_clusters).fit_predict(dense)
    return NearestRowMember(rows=Z, row_labels=labels.astype(np.int32), **vars(scaling))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LinkageMember(NearestRowMember):
    """Single linkage of even sizes: rows, labels, and merges (s − 1, 2) of pairs of rows in order.

    Single linkage follows clusters of any shape but splits off stray points. Two remedies are
    varied with the ``turn`` of a run: how uneven the sizes may be before the smallest cluster has
    to merge (Genie), and whether distances are raised to those of the fifth neighbour, which moves
    stray points away from each other (mutual reachability).

    References
    ----------
    M. Gagolewski, M. Bartoszuk and A. Cena, "Genie: a new, fast, and outlier-resistant hierarchical
    clustering algorithm", Information Sciences 363, 2016.
    """

    merges: AnyArray

    def nearest(self, X: Any) -> AnyArray:
        """Return the place of the nearest fitted row for each row of X."""
        places = replace(self, row_labels=np.arange(self.rows.shape[0], dtype=np.int32))
        return label_rows([places], X)[:, 0]

    def cut(self, n_clusters: int) -> Self:
        """Return the same run with K clusters: without its last K − 1 merges."""
        s = self.rows.shape[0]
        pairs = self.merges[: s - min(n_clusters, s)]
        links = sp.coo_array((np.ones(len(pairs), np.int8), tuple(pairs.T)), shape=(s, s))
        labels = connected_components(links, directed=False)[1]
        return replace(self, row_labels=labels.astype(np.int32))


def fit_linkage(Z: Any, n_clusters: int, turn: int, scaling: Scaling) -> LinkageMember:
    """Cluster the rows of Z (n, q) by single linkage of even sizes, in time and memory O(n²)."""
    dense = Z.toarray() if hasattr(Z, "toarray") else Z
    D = euclidean_distances(dense).astype(np.float64, copy=False)
    core = np.zeros(len(D))
    if turn // len(_MOST_UNEVEN) % 2:
        neighbour = min(_CORE_NEIGHBOUR, len(D) - 1)
        core = np.partition(D, neighbour, axis=1)[:, neighbour]
    first, second, lengths = kernels.spanning_tree(D, core)
    edges = np.column_stack([first, second])[np.argsort(lengths, kind="stable")]
    ends = (np.ascontiguousarray(end) for end in edges.T)
    merges = edges[kernels.even_merges(*ends, _MOST_UNEVEN[turn % len(_MOST_UNEVEN)])]
    unlabelled = np.zeros(len(D), dtype=np.int32)
    member = LinkageMember(
        rows=Z, row_labels=unlabelled, merges=merges.astype(np.int32), **vars(scaling)
    )
    return member.cut(n_clusters)


def renumber(labels: AnyArray, clusters: AnyArray) -> AnyArray:
    """Return the index of each label in ``clusters`` (increasing), or −1 if it is not there."""
    index = np.searchsorted(clusters, labels).astype(np.int32)
    return np.where(np.isin(labels, clusters), index, np.int32(-1))


# ---- Gaussian mixtures: clusters that differ in size and direction


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MixtureMember(Member):
    """A fitted mixture of K_v Gaussians of y = axesᵀ z, for axes (q, r).

    The label of a row is the component k with the largest log π_k + log N(y; μ_k, Σ_k). ``means``
    (K_v, r) are the μ_k, ``factors`` (K_v, r, r) have Σ_k^−1 = F_k F_kᵀ, and ``offsets`` (K_v,)
    are log π_k + log |F_k|.
    """

    axes: Floats
    means: Floats
    factors: Floats
    offsets: Floats

    _BY_CLUSTER = ("means", "factors", "offsets")

    def labels_of(self, block: RowBlock) -> AnyArray:
        # The scores are quadratic in y: one product of the matrix of all y_a and y_a y_b, which
        # mixtures with the same axes share, and the coefficients.
        Z = self.coordinates(block, self.axes.dtype)
        # 0, which mixtures share, or the mean of means that are far from 0, where the digits of
        # squares would cancel: features without a shift can be far from 0, and an outlier that
        # was not fitted can shift all others
        centre = self.means.mean(axis=0)
        if np.abs(centre).max() * np.abs(self.factors).max() <= _FAR:
            centre = np.zeros_like(centre)
        powers = block.once(_powers, Z, self.axes, centre)
        precisions = self.factors @ self.factors.transpose(0, 2, 1)
        means = self.means - centre
        slopes = np.einsum("kab,kb->ka", precisions, means)
        first, second = np.triu_indices(len(centre))
        # the entries off the diagonal count twice in yᵀ Σ⁻¹ y
        squares = np.where(first == second, -0.5, -1.0) * precisions[:, first, second]
        scores = powers.T @ np.hstack([slopes, squares]).T
        scores += self.offsets - 0.5 * np.einsum("ka,ka->k", means, slopes)
        return scores.argmax(axis=1).astype(np.int32)


def principal_axes(Z: Any, seed: int) -> Floats:
    """Return the leading principal axes of Z (n, q), (q, r) with r = min(10, q, n/4).

    For sparse rows they are the leading right singular vectors, because centring makes rows dense.
    """
    n, q = Z.shape
    r = max(1, min(_MOST_AXES, q, n // 4))
    with np.errstate(divide="ignore", invalid="ignore"):  # shares of a variance of 0
        if sp.issparse(Z):
            # the solver needs more columns than axes
            if q <= r + 1:
                return np.eye(q)
            return TruncatedSVD(r, random_state=seed).fit(Z).components_.T
        return PCA(r, random_state=seed).fit(Z).components_.T


def fit_mixture(
    Z: Any, n_clusters: int, seed: int, scaling: Scaling, axes: Floats, covariance: str = "full"
) -> MixtureMember:
    """Fit a mixture of K Gaussians to the rows of Z (n, q); ``covariance`` is "full" or "diag"."""
    Y = np.asarray(Z @ axes, dtype=np.float64)
    # sparse rows are not centred: far from 0 the digits of the variances would cancel
    centre = Y.mean(axis=0)
    Y = Y - centre
    rounding = (np.finfo(np.float64).eps * float(np.abs(centre).max())) ** 2
    model = GaussianMixture(
        n_clusters,
        covariance_type=covariance,
        reg_covar=max(_LEAST_VARIANCE * float(Y.var(axis=0).mean()), rounding, _TINY),
        max_iter=_STEPS,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(Y)
    factors = model.precisions_cholesky_
    if covariance == "diag":
        factors = factors[:, :, None] * np.eye(Y.shape[1])
    logs = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    return MixtureMember(
        axes=axes,
        means=model.means_ + centre,
        factors=factors,
        offsets=np.log(model.weights_) + logs,
        **vars(scaling),
    )


def _powers(Z: Any, axes: Floats, centre: Floats) -> Floats:
    """Return all y_a, then all y_a y_b with a ≤ b, for y = axesᵀ z − centre; one column a row."""
    r = len(centre)
    first, second = np.triu_indices(r)
    powers = np.empty((r + len(first), Z.shape[0]))
    np.subtract((Z @ axes).T, centre[:, None], out=powers[:r])
    np.multiply(powers[first], powers[second], out=powers[r:])
    return powers


# ---- Landmark-spectral runs: clusters of any shape


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SpectralMember(Member):
    """A fitted landmark-spectral run, for landmarks (p, q), axes (p, r) and centres (K_v, r).

    It is the normalised cut of a graph that links rows to landmarks (U-SPEC), in time linear in n.
    The p landmarks are centres of a coarse k-means. Row i is linked to its k nearest landmarks j by

        B_ij = exp(−d_ij² / 2s²),   s the mean distance of rows to these landmarks.

    With D = diag(B 1), the landmarks have the similarity W = Bᵀ D⁻¹ B (p, p), and R = diag(W 1).
    The leading eigenvectors U of R^−½ W R^−½ embed a row as B R^−½ U, scaled to unit length.
    k-means on these rows gives the clusters. ``width`` is s, ``n_neighbors`` is k, and ``axes`` are
    the rows of R^−½ U.

    References
    ----------
    D. Huang, C.-D. Wang, J.-S. Wu, J.-H. Lai and C.-K. Kwoh, "Ultra-scalable spectral clustering
    and ensemble clustering", IEEE Transactions on Knowledge and Data Engineering 32(6), 2020.
    """

    landmarks: Any
    width: float
    n_neighbors: int
    axes: Floats
    centres: Floats

    _BY_CLUSTER = ("centres",)

    def labels_of(self, block: RowBlock) -> AnyArray:
        Z = self.coordinates(block, self.landmarks.dtype)
        links, _ = block.once(_links, Z, self.landmarks, self.n_neighbors, self.width)
        rows = _embedding(links, self.axes)
        return pairwise_distances_argmin(rows, self.centres).astype(np.int32)


class LandmarkGraph(NamedTuple):
    """Landmarks (p, q), s, k, and the leading axes (p, r) of :class:`SpectralMember`."""

    landmarks: Any
    width: float
    n_neighbors: int
    axes: Floats


def link_to_landmarks(
    Z: Any, n_axes: int, rng: np.random.RandomState, n_landmarks: int
) -> tuple[LandmarkGraph, sp.csr_array]:
    """Choose landmarks of the rows Z (n, q); return their graph, and the links of the rows."""
    n = Z.shape[0]
    p = max(min(n_landmarks, n // 2), min(n_axes + 2, n))
    if sp.issparse(Z) or p >= n:  # centres of sparse rows would be dense
        landmarks = Z[rng.permutation(n)[:p]]
    else:
        candidates = Z[rng.permutation(n)[: _ROWS_PER_LANDMARK * p]]
        model = KMeans(p, init="random", n_init=1, max_iter=_LANDMARK_STEPS, random_state=rng)
        landmarks = model.fit(candidates).cluster_centers_
    n_neighbors = min(_NEIGHBOURS, max(1, p // 2))
    links, width = _links(Z, landmarks, n_neighbors)
    used = np.flatnonzero(links.sum(axis=0))
    links = links[:, used]
    # W = Bᵀ D⁻¹ B, and R^−½ U for the largest eigenvalues of R^−½ W R^−½
    scaled = sp.diags_array(1.0 / np.sqrt(links.sum(axis=1))) @ links
    W = (scaled.T @ scaled).toarray()
    root = 1.0 / np.sqrt(W.sum(axis=1))
    vectors = np.linalg.eigh(W * root[:, None] * root)[1]
    axes = vectors[:, ::-1][:, :n_axes] * root[:, None]
    return LandmarkGraph(landmarks[used], width, min(n_neighbors, len(used)), axes), links


def fit_landmark_spectral(
    Z: Any, n_clusters: int, seed: int, scaling: Scaling, graph: LandmarkGraph | None = None
) -> SpectralMember:
    """Cluster the rows of Z (n, q), dense or sparse, into at most K clusters.

    Runs that share a ``graph`` differ in K and in the random start of k-means.
    """
    rng = np.random.RandomState(seed)
    if graph is None:
        graph, links = link_to_landmarks(Z, n_clusters, rng, _LANDMARKS)
    else:
        links = _links(Z, graph.landmarks, graph.n_neighbors, graph.width)[0]
        graph = graph._replace(axes=graph.axes[:, :n_clusters])
    rows = _embedding(links, graph.axes)
    model = KMeans(min(n_clusters, len(rows)), n_init=1, random_state=rng).fit(rows)
    return SpectralMember(centres=model.cluster_centers_, **graph._asdict(), **vars(scaling))


def _links(
    Z: Any, landmarks: Any, n_neighbors: int, width: float | None = None
) -> tuple[sp.csr_array, float]:
    """Return B (n, p) with its rows scaled, and s, which is computed if it is not given.

    The nearest landmark of each row has link 1, so that no row is without links. The scale of a
    row does not matter: D⁻¹ and the unit length of the embedding remove it.
    """
    # A column that adds j δ to the squared distances to landmark j, for a tiny δ: rows of few
    # different values, such as 0 and 1, are equally far from many landmarks. Without δ, rounding
    # would choose between them, and it depends on the other rows of the batch.
    p = landmarks.shape[0]
    squares = landmarks.multiply(landmarks) if sp.issparse(landmarks) else landmarks**2
    step = _DISTINCT * float(squares.sum()) / p
    added = np.sqrt(step * np.arange(p, dtype=np.float64)).astype(landmarks.dtype)[:, None]
    near = NearestNeighbors(n_neighbors=n_neighbors).fit(_appended(landmarks, added))
    zeros = np.zeros((Z.shape[0], 1), dtype=Z.dtype)
    distances, columns = near.kneighbors(_appended(Z, zeros))
    if width is None:
        width = float(distances.mean()) or 1.0
    squares = distances**2
    strength = np.exp((squares[:, :1] - squares) / (2 * width**2))
    starts = np.arange(0, strength.size + 1, n_neighbors)
    links = sp.csr_array((strength.ravel(), columns.ravel(), starts), shape=(Z.shape[0], p))
    return links, width


def _appended(Z: Any, column: Floats) -> Any:
    if sp.issparse(Z):
        return sp.hstack([Z, sp.csr_array(column)], format="csr")
    return np.hstack([Z, column])


def _embedding(links: sp.csr_array, axes: Floats) -> Floats:
    rows: Floats = links @ axes
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


# ---- Clusterers of the user


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class EstimatorMember(Member):
    """A fitted scikit-learn clusterer whose clusters are renumbered from 0.

    ``clusters`` (K_v,) are the estimator's labels of clusters 0, 1, …, in increasing order.
    """

    estimator: Any
    clusters: AnyArray

    def labels_of(self, block: RowBlock) -> AnyArray:
        return renumber(np.asarray(self.estimator.predict(self.transform(block.X))), self.clusters)


def fit_clusterer(
    X: Any,
    clusterer: Any,
    n_clusters: int | None,
    seed: int,
    scaling: Scaling,
    rows: AnyArray | None,
    sample_weight: Any = None,
) -> tuple[Member, AnyArray]:
    """Fit a clone of the clusterer to some rows of X (None: all); return it and all labels (n,).

    If the clusterer has a ``predict``, the labels are those that it predicts, so that equal new
    rows get equal labels. Otherwise rows that are not fitted get the label of the nearest fitted
    row. Noise is −1.
    """
    estimator = clone(clusterer).set_params(**run_parameters(clusterer, n_clusters, seed))
    Z = scaling.transform(X if rows is None else X[rows])
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    fitted_labels = np.asarray(estimator.fit_predict(Z, **weights))
    if fitted_labels.shape != (Z.shape[0],) or not np.issubdtype(fitted_labels.dtype, np.integer):
        raise InvalidParameterError(
            f"its labels have shape {fitted_labels.shape} and type {fitted_labels.dtype} for "
            f"{Z.shape[0]} rows; use a clusterer that gives one integer for each row"
        )
    member: EstimatorMember | NearestRowMember
    if not hasattr(estimator, "predict"):
        if rows is not None:  # rows can be drawn several times
            rows, first = np.unique(rows, return_index=True)
            Z, fitted_labels = Z[first], fitted_labels[first]
        fitted = renumber(fitted_labels, np.unique(fitted_labels[fitted_labels >= 0]))
        member = NearestRowMember(rows=Z, row_labels=fitted, **vars(scaling))
        if rows is None:
            return member, fitted
        labels = member.predict(X)
        labels[rows] = fitted
        return member, labels
    predicted = np.asarray(estimator.predict(scaling.transform(X)))
    noise = np.flatnonzero(fitted_labels < 0)
    predicted[noise if rows is None else rows[noise]] = -1
    clusters = np.unique(predicted[predicted >= 0] if rows is None else predicted[rows])
    clusters = clusters[clusters >= 0]
    member = EstimatorMember(estimator=estimator, clusters=clusters, **vars(scaling))
    return member, renumber(predicted, clusters)


def run_parameters(clusterer: Any, n_clusters: int | None, seed: int) -> dict[str, int]:
    """Return the parameters that a run sets: every ``random_state``, and the number of clusters.

    That is ``n_clusters`` or, for mixtures, ``n_components``; in a pipeline, of the last step. It
    is set only if it has its default value: another number was chosen by the user.
    """
    values = clusterer.get_params()
    settings = {
        name: seed for name in values if name == "random_state" or name.endswith("__random_state")
    }
    last, prefix = clusterer, ""
    if isinstance(clusterer, Pipeline):
        prefix, last = f"{clusterer.steps[-1][0]}__", clusterer.steps[-1][1]
    defaults = inspect.signature(type(last)).parameters
    # spectral clusterings have both; there n_components is the dimension of the embedding
    numbers = [n for n in ("n_clusters", "n_components") if prefix + n in values and n in defaults]
    if numbers and n_clusters is not None:
        name = numbers[0]
        if values[prefix + name] == defaults[name].default:
            settings[prefix + name] = n_clusters
    return settings


def takes_weights(clusterer: Any) -> bool:
    """Return whether the clusterer has weights of rows.

    ``fit_predict`` of scikit-learn's ClusterMixin passes all keywords on to ``fit``.
    """
    keywords = inspect.signature(clusterer.fit_predict).parameters.values()
    passes_on = any(keyword.kind is keyword.VAR_KEYWORD for keyword in keywords)
    named = any(keyword.name == "sample_weight" for keyword in keywords)
    return named or (passes_on and has_fit_parameter(clusterer, "sample_weight"))
