"""Spectral clustering of a weighted graph, whose vertices represent many points each.

The graph of n points has the affinity W = Z A Zᵀ, where A (u, u) is the affinity of u vertices and
Z (n, u) is the indicator of the vertex of each point. Normalised cut needs the leading eigenvectors
of Δ^−½ W Δ^−½, with Δ the diagonal matrix of the row sums of W. Eigenvectors of nonzero eigenvalues
are equal for the points of a vertex: they are Z diag(ω)^−½ y, where ω (u,) is the number of points
of each vertex and y an eigenvector of the (u, u) matrix

    diag(ω / d)^½ A diag(ω / d)^½,   d = A ω.

So no matrix of size n is needed. The result is exact if the K-th eigenvalue is positive.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError
from sklearn.utils import check_random_state

from coterie.relaxation.eigenpairs import dense_eigenpairs, lanczos_eigenpairs
from coterie.relaxation.rounding import round_by_kmeans
from coterie.runtime.devices import on_one_thread

__all__ = ["normalized_cut_rows", "spectral_labels"]

Array = NDArray[np.float64]

_DENSE_UP_TO = 400
# Weight of the edges added between all vertices, relative to the largest affinity.
_JOINING_EDGE = 1e-9


def spectral_labels(
    affinity: Array, weights: Array, n_clusters: int, random_state: Any = None
) -> NDArray[np.int64]:
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
    affinity: Array, weights: Array, n_components: int, random_state: Any = None
) -> Array:
    """Return rows of the leading eigenvectors of the normalised affinity, scaled to length one.

    Weak edges are added between all vertices. Without them, the leading eigenvectors of a graph
    with more than ``n_components`` components would not be unique.

    The arguments are those of :func:`spectral_labels`, with 1 ≤ ``n_components`` ≤ u. The rows
    (u, n_components) are unique up to a rotation; columns are by decreasing eigenvalue.

    >>> rows = normalized_cut_rows(np.eye(2), np.ones(2), 2)
    >>> bool(abs(rows[0] @ rows[1]) < 1e-6)
    True
    """
    N = _normalized(affinity, weights)
    vectors = _leading_eigenvectors(N, n_components, check_random_state(random_state))
    # Scaling to length one makes the factor ω^−½ of a row unnecessary.
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(length, np.finfo(np.float64).tiny)


def _normalized(affinity: Array, weights: Array) -> Array:
    """Return diag(ω / d)^½ A diag(ω / d)^½ of the symmetrised affinity with the added edges."""
    A = (affinity + affinity.T) / 2
    A += _JOINING_EDGE * (float(A.max()) or 1.0)
    scale = np.sqrt(weights / (A @ weights))
    A *= scale[:, None]
    A *= scale
    return A


def _leading_eigenvectors(N: Array, k: int, rng: np.random.RandomState) -> Array:
    """Return eigenvectors (u, k) of the algebraically largest eigenvalues."""
    u = len(N)
    # For a regular graph a constant vector is an eigenvector, from which Lanczos cannot start.
    start = rng.standard_normal(u)
    if u <= _DENSE_UP_TO:
        with on_one_thread():
            return dense_eigenpairs(N, k)[0]
    if 4 * k > u:
        return dense_eigenpairs(N, k)[0]
    try:
        return lanczos_eigenpairs(lambda x: N @ x, u, k, start)[0]
    except ArpackError:  # no convergence
        return dense_eigenpairs(N, k)[0]
