"""Landmark-spectral runs: the normalised cut of a graph that links rows to landmarks (U-SPEC).

p landmarks are centres of a coarse k-means. Row i is linked to its k nearest landmarks j by

    B_ij = exp(−d_ij² / 2s²),   s the mean distance of rows to these landmarks.

With D = diag(B 1), the landmarks have the similarity W = Bᵀ D⁻¹ B (p, p), and R = diag(W 1). The
leading eigenvectors U of R^−½ W R^−½ embed a row as B R^−½ U, scaled to unit length. k-means on
these rows gives the clusters. This finds clusters of any shape in time linear in n.

D. Huang, C.-D. Wang, J.-S. Wu, J.-H. Lai and C.-K. Kwoh, "Ultra-scalable spectral clustering and
ensemble clustering", IEEE Transactions on Knowledge and Data Engineering 32(6), 2020.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin
from sklearn.neighbors import NearestNeighbors

from coterie.arrays import AnyArray, Floats
from coterie.ensembles.members import Member, RowBlock
from coterie.ensembles.scalings import Scaling

_LANDMARKS = 300
#: Number of landmarks that the runs on large data share.
SHARED_LANDMARKS = 1_000
_NEIGHBOURS = 5
# The landmarks need not be optimal centres: few steps on a sample are enough.
_ROWS_PER_LANDMARK = 10
_LANDMARK_STEPS = 5
# δ as a share of the mean squared length of landmarks: far above rounding errors
_DISTINCT = 1e-11


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SpectralMember(Member):
    """A fitted landmark-spectral run, for landmarks (p, q), axes (p, r) and centres (K_v, r).

    ``width`` is s, ``n_neighbors`` is k, and ``axes`` are the rows of R^−½ U of the module's
    docstring.
    """

    landmarks: Any
    width: float
    n_neighbors: int
    axes: Floats
    centres: Floats

    def labels_of(self, block: RowBlock) -> AnyArray:
        """Return the index of the nearest centre of each embedded row."""
        Z = self.coordinates(block, self.landmarks.dtype)
        links, _ = block.once(_links, Z, self.landmarks, self.n_neighbors, self.width)
        return pairwise_distances_argmin(_embedding(links, self.axes), self.centres).astype(
            np.int32
        )

    def with_clusters(self, kept: AnyArray) -> Self:
        """Return the same run with some of its clusters only."""
        return replace(self, centres=self.centres[kept])


class LandmarkGraph(NamedTuple):
    """Landmarks (p, q), s, k, and the leading axes (p, r) of the module's docstring."""

    landmarks: Any
    width: float
    n_neighbors: int
    axes: Floats


def share_graph(Z: Any, n_axes: int, seed: int) -> LandmarkGraph:
    """Return a graph of the rows Z (n, q) with up to ``n_axes`` axes, for runs to share."""
    return _link_to_landmarks(Z, n_axes, np.random.RandomState(seed), SHARED_LANDMARKS)[0]


def _link_to_landmarks(
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
    axes = _leading_axes(links, n_axes)
    return LandmarkGraph(landmarks[used], width, min(n_neighbors, len(used)), axes), links


def fit_landmark_spectral(
    Z: Any, n_clusters: int, seed: int, scaling: Scaling, graph: LandmarkGraph | None = None
) -> SpectralMember:
    """Cluster the rows of Z (n, q), dense or sparse, into at most K clusters.

    Runs that share a ``graph`` differ in K and in the random start of k-means.
    """
    rng = np.random.RandomState(seed)
    if graph is None:
        graph, links = _link_to_landmarks(Z, n_clusters, rng, _LANDMARKS)
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


def _leading_axes(links: sp.csr_array, n_axes: int) -> Floats:
    """Return the columns of R^−½ U for the largest eigenvalues, (p, r)."""
    scaled = sp.diags_array(1.0 / np.sqrt(links.sum(axis=1))) @ links
    W = (scaled.T @ scaled).toarray()
    root = 1.0 / np.sqrt(W.sum(axis=1))
    vectors = np.linalg.eigh(W * root[:, None] * root)[1]
    axes: Floats = vectors[:, ::-1][:, :n_axes] * root[:, None]
    return axes


def _embedding(links: sp.csr_array, axes: Floats) -> Floats:
    rows: Floats = links @ axes
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
