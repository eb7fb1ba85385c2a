"""Spectral clustering of a weighted graph: normalised cut over vertices that represent many points.

The graph of n points has the affinity W = Z A Zᵀ, where A (u, u) is the affinity of u distinct
vertices and Z (n, u) the indicator of the vertex of each point. Normalised cut needs the leading
eigenvectors of Δ^−½ W Δ^−½, with Δ the diagonal of the row sums of W. Those with a nonzero
eigenvalue are constant over the points of a vertex: they are Z diag(ω)^−½ y, with y an
eigenvector of

    diag(ω / d)^½ A diag(ω / d)^½,   d = A ω,   shape (u, u),

and ω (u,) the number of points of each vertex. So no matrix of size n is needed. The result is
exact while the K-th eigenvalue is positive; further eigenvectors of the full graph would only
separate identical points.
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
# Weight of the edges between all vertices, relative to the largest affinity.
_JOINING_EDGE = 1e-9


def spectral_labels(
    affinity: Array, weights: Array, n_clusters: int, random_state: Any = None
) -> NDArray[np.int64]:
    """Cluster by normalised cut: k-means on the unit rows of the K leading eigenvectors.

    Parameters
    ----------
    affinity : (u, u) array, not negative
        A; the mean of A and Aᵀ is used. ``A[a, a]`` is the affinity of a point to itself and to
        the other points of its vertex.
    weights : (u,) array, positive
        ω, the number of points of each row.
    n_clusters : int
        K. If u ≤ K, each row is a separate cluster.
    random_state : int, RandomState or None
        Seed of the eigensolver and of k-means.

    Returns
    -------
    labels : (u,) int64 array
        Numbered in order of appearance.

    Examples
    --------
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

    Edges of a billionth of the largest affinity join all vertices. Without them, the leading
    eigenvectors of a graph with more than ``n_components`` components would not be unique.

    The arguments are those of :func:`spectral_labels`, with 1 ≤ ``n_components`` ≤ u. The rows
    (u, n_components) are unique up to a rotation; columns are by falling eigenvalue.

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
    """Return diag(ω / d)^½ A diag(ω / d)^½ of the symmetrised affinity with joining edges."""
    A = (affinity + affinity.T) / 2
    A += _JOINING_EDGE * (float(A.max()) or 1.0)
    scale = np.sqrt(weights / (A @ weights))
    A *= scale[:, None]
    A *= scale
    return A


def _leading_eigenvectors(N: Array, k: int, rng: np.random.RandomState) -> Array:
    """Return eigenvectors (u, k) of the algebraically largest eigenvalues."""
    u = len(N)
    # A constant start is an eigenvector of a regular graph, with which Lanczos would stop.
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
