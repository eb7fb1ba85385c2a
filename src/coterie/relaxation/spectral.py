"""Normalised cuts of two graphs in which a vertex represents many points.

**A weighted graph** (:func:`spectral_labels`). n points have the affinity W = Z A Zᵀ, where A
(u, u) is the affinity of u vertices and Z (n, u) is the indicator of the vertex of each point.
Normalised cut needs the leading eigenvectors of Δ^−½ W Δ^−½, with Δ the diagonal matrix of the row
sums of W. Eigenvectors of nonzero eigenvalues are equal for the points of a vertex: they are
Z diag(ω)^−½ y, where ω (u,) is the number of points of each vertex and y an eigenvector of

    diag(ω / d)^½ A diag(ω / d)^½   (u, u),   d = A ω.

So no matrix of size n is needed. The result is exact if the K-th eigenvalue is positive.

**A bipartite graph** (:func:`transfer_cut`; Li, Wu, Chang 2012) links u distinct points of
multiplicity w_a to m clusters with strength B_aj ≥ 0. Its normalised cut needs the leading singular
vectors of the scaled links

    N = diag(w / d)^½ B diag(e)^−½   (u, m),   d = B 1 (u,),   e = Bᵀ w (m,).

This is an eigenproblem of order min(u, m), for any number of points n = Σ w.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array, vstack
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence
from sklearn.utils import check_random_state

from coterie.arrays import Floats, Ints
from coterie.relaxation.eigenpairs import dense_eigenpairs, lanczos_eigenpairs
from coterie.relaxation.rounding import round_by_kmeans
from coterie.runtime.devices import on_one_thread

_DENSE_UP_TO = 400
_DENSE_LINKS_UP_TO = 1500
# Weight of the edges added between all vertices, relative to the largest affinity.
_JOINING_EDGE = 1e-9
# Share of all links that belong to the artificial point.
_EXTRA_LINKS = 1e-10
_NEGLIGIBLE = 1e-12


def spectral_labels(
    affinity: Floats, weights: Floats, n_clusters: int, random_state: Any = None
) -> Ints:
    """Cluster by normalised cut: k-means on the unit rows of the K leading eigenvectors.

    ``affinity`` A (u, u) is not negative; the mean of A and Aᵀ is used. ``A[a, a]`` is the affinity
    of a point to itself and to the other points of its vertex. ``weights`` ω (u,) are positive. If
    u ≤ K, each vertex is a cluster. ``random_state`` seeds the eigensolver and k-means. The labels
    (u,) are numbered in order of appearance.

    >>> A = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.0], [0.1, 0.0, 1.0]])
    >>> spectral_labels(A, np.array([1.0, 1.0, 5.0]), 2, random_state=0)
    array([0, 0, 1])
    """
    u = len(affinity)
    if u <= n_clusters:
        return np.arange(u, dtype=np.int64)
    if n_clusters == 1:
        return np.zeros(u, dtype=np.int64)
    rng = check_random_state(random_state)
    rows = normalized_cut_rows(affinity, weights, n_clusters, rng)
    return round_by_kmeans(rows, weights, n_clusters, rng)


def normalized_cut_rows(
    affinity: Floats, weights: Floats, n_components: int, random_state: Any = None
) -> Floats:
    """Return rows of the leading eigenvectors of the normalised affinity, scaled to length one.

    The arguments are those of :func:`spectral_labels`, with 1 ≤ ``n_components`` ≤ u. The rows
    (u, n_components) are unique up to a rotation; columns are by decreasing eigenvalue.
    """
    u, rng = len(affinity), check_random_state(random_state)
    N = (affinity + affinity.T) / 2
    # Without weak edges between all vertices, the leading eigenvectors of a graph with more than
    # n_components components would not be unique.
    N += _JOINING_EDGE * (float(N.max()) or 1.0)
    scale = np.sqrt(weights / (N @ weights))
    N *= scale[:, None]
    N *= scale
    # For a regular graph a constant vector is an eigenvector, from which Lanczos cannot start.
    start = rng.standard_normal(u)
    vectors = None
    if u > _DENSE_UP_TO and u >= 4 * n_components:
        with contextlib.suppress(ArpackError):  # no convergence
            vectors, _ = lanczos_eigenpairs(lambda x: N @ x, u, n_components, start)
    if vectors is None:
        with on_one_thread() if u <= _DENSE_UP_TO else contextlib.nullcontext():
            vectors, _ = dense_eigenpairs(N, n_components)
    # Scaling to length one makes the factor ω^−½ of a row unnecessary.
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(length, np.finfo(np.float64).tiny)


def transfer_cut(
    indicator: csr_array, weights: Floats, n_clusters: int, random_state: Any = None
) -> Ints:
    """Label points by the normalised cut of the graph that links them to clusters.

    ``indicator`` B (u, m) ≥ 0 is sparse; ``weights`` w (u,) are multiplicities. The labels (u,) are
    those of weighted k-means on the rows of :func:`transfer_embedding`. There are fewer than K
    clusters only if B has fewer than K rows that are not multiples of each other. A row without
    links gets the label of the largest cluster.

    >>> B = csr_array([[1.0, 0, 1, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 1, 1, 0]])
    >>> transfer_cut(B, np.ones(4), 2, random_state=0)
    array([0, 0, 1, 1])
    """
    linked = indicator.sum(axis=1) > 0
    labels = np.zeros(len(weights), dtype=np.int64)
    if linked.any():
        rows = transfer_embedding(indicator, weights, n_clusters)[linked]
        sizes = weights[linked]
        found = round_by_kmeans(rows, sizes, min(n_clusters, len(rows)), random_state)
        labels[linked] = found
        labels[~linked] = np.bincount(found, weights=sizes).argmax()
    return labels


def transfer_embedding(indicator: csr_array, weights: Floats, n_clusters: int) -> Floats:
    """Embed points as unit vectors; points that the normalised cut joins are near each other.

    With U (m, k) the leading eigenvectors of NᵀN, these are the rows of diag(d)^−1 B diag(e)^−½ U,
    scaled to unit length.

    If the graph has more than K components, the leading K eigenvectors are not unique. An
    artificial point, linked equally to all clusters with 1e−10 of all links, makes them unique.
    Components with the most points per cluster are then separated first.

    The result is (u, k), k = min(K, m, u), where m and u count only rows and columns with links.
    Rows without links are zero.
    """
    rows = np.flatnonzero(indicator.sum(axis=1))
    columns = np.flatnonzero(indicator.sum(axis=0))
    if not len(rows):
        return np.zeros((len(weights), 0))
    k = min(n_clusters, len(rows), len(columns))
    N = _scaled_links(indicator[rows][:, columns], weights[rows])
    if N.shape[1] <= N.shape[0]:
        U, _ = _leading_eigenpairs(N.T.tocsr(), k)
    else:
        left, values = _leading_eigenpairs(N, k)
        used = values > _NEGLIGIBLE * values[0]
        U = (N.T @ left[:, used]) / np.sqrt(values[used])
    # Rows of N and of diag(d)^−1 B diag(e)^−½ have the same direction; the last is artificial.
    unit = (N @ U)[:-1]
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    embedding = np.zeros((len(weights), unit.shape[1]))
    embedding[rows] = unit
    return embedding


def _scaled_links(links: csr_array, weights: Floats) -> csr_array:
    """Return N (u + 1, m); the last row is that of the artificial point."""
    m = links.shape[1]
    strength = links.sum(axis=1)
    extra_weight = _EXTRA_LINKS * (weights @ strength) / m
    links = vstack([links, csr_array(np.ones((1, m)))], format="csr")
    strength, weights = np.append(strength, m), np.append(weights, extra_weight)
    into_clusters = links.T @ weights
    return diags_array(np.sqrt(weights / strength)) @ links @ diags_array(into_clusters**-0.5)


def _leading_eigenpairs(F: csr_array, k: int) -> tuple[Floats, Floats]:
    """Return the k largest eigenpairs of F Fᵀ."""
    order = F.shape[0]
    if order > max(_DENSE_LINKS_UP_TO, 4 * k):
        transposed = F.T.tocsr()
        # without convergence there are many nearly equal values, which LAPACK can separate
        with contextlib.suppress(ArpackNoConvergence):
            return lanczos_eigenpairs(lambda x: F @ (transposed @ x), order, k, np.ones(order))
    return dense_eigenpairs((F @ F.T).toarray(), k)
