"""Spectral clustering of a weighted graph: normalised cut over things that stand for many points.

The graph of n points has the affinity W = Z A Zᵀ, where A (u, u) is the affinity of u distinct
things and Z (n, u) says which of them each point is. Normalised cut needs the leading eigenvectors
of Δ^−½ W Δ^−½, Δ the diagonal of the row sums of W. Those with an eigenvalue other than 0 are
constant over points that are the same thing: they are Z diag(ω)^−½ y, with y an eigenvector of

    diag(ω / d)^½ A diag(ω / d)^½,   d = A ω,   shape (u, u),

ω (u,) the number of points of each thing. So nothing of size n is made, and nothing is lost as long
as the K-th eigenvalue is positive; beyond that the full graph has only directions that separate
identical points, which mean nothing.
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
_FAINT = 1e-9


def spectral_labels(
    affinity: Array, weights: Array, n_clusters: int, random_state: Any = None
) -> NDArray[np.int64]:
    """Cluster by normalised cut: k-means on the unit rows of the K leading eigenvectors.

    Parameters
    ----------
    affinity : (u, u) array, not negative
        A; where it is not symmetric, the mean of A and Aᵀ is taken. ``A[a, a]`` is the affinity of
        a point to itself and to those that are the same as it.
    weights : (u,) array, positive
        ω, how many points each row stands for.
    n_clusters : int
        K. Where u ≤ K, each row is a cluster of its own.
    random_state : int, RandomState or None
        For the start of the eigensolver and of k-means.

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
    """Rows of the leading eigenvectors of the normalised affinity, each of length one.

    All things are joined by edges of a billionth of the largest affinity, so that a graph in more
    parts than ``n_components`` has leading eigenvectors that are its own, not the solver's whim.

    Parameters
    ----------
    affinity, weights, random_state
        As in :func:`spectral_labels`.
    n_components : int
        From 1 to u.

    Returns
    -------
    rows : (u, n_components) array
        Unique up to a rotation; columns by falling eigenvalue.

    >>> rows = normalized_cut_rows(np.eye(2), np.ones(2), 2)
    >>> bool(abs(rows[0] @ rows[1]) < 1e-6)
    True
    """
    N = _normalized(affinity, weights)
    vectors = _leading_eigenvectors(N, n_components, check_random_state(random_state))
    # the length of a row takes ω^−½ with it
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(length, np.finfo(np.float64).tiny)


def _normalized(affinity: Array, weights: Array) -> Array:
    """diag(ω / d)^½ A diag(ω / d)^½ of the symmetrised and faintly joined affinity."""
    A = (affinity + affinity.T) / 2
    A += _FAINT * (float(A.max()) or 1.0)
    scale = np.sqrt(weights / (A @ weights))
    A *= scale[:, None]
    A *= scale
    return A


def _leading_eigenvectors(N: Array, k: int, rng: np.random.RandomState) -> Array:
    """Eigenvectors (u, k) of the algebraically largest eigenvalues."""
    u = len(N)
    # a constant vector is an eigenvector of a regular graph, where Lanczos would stand still
    start = rng.standard_normal(u)
    if u <= _DENSE_UP_TO:
        with on_one_thread():
            return dense_eigenpairs(N, k)[0]
    if 4 * k > u:
        return dense_eigenpairs(N, k)[0]
    try:
        return lanczos_eigenpairs(lambda x: N @ x, u, k, start)[0]
    except ArpackError:  # no convergence: the long way round always arrives
        return dense_eigenpairs(N, k)[0]
