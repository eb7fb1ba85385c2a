"""Graph clusters: clusters of a similarity graph by normalised cuts.

A vertex without neighbours gets the label −1, a missing vote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from coterie.ads.segments.text_vectors import scale_rows
from coterie.errors import InvalidParameterError
from coterie.labels.encode import renumber_by_appearance
from coterie.relaxation.spectral import (
    dense_eigenpairs,
    eigsh_rng_option,
    refined_eigenpairs,
)
from coterie.runtime.devices import on_one_thread
from coterie.runtime.messages import ignore_duplicate_points_warning

__all__ = ["kmeans_labels", "normalised_cuts"]

Floats = NDArray[np.float64]

_DENSE = 300  # up to this many vertices, dense eigensolvers are faster
_STARTS = 5
_TOLERANCE = 1e-6
_STEPS = 100


def normalised_cuts(graph: Any, ks: Sequence[int], random_state: Any = None) -> NDArray[np.int64]:
    """Cut a graph S (A, A) into several numbers of clusters by normalised cuts.

    A normalised cut minimises Σ_k cut(k, rest) / volume(k). Its relaxation is k-means on the
    rows, scaled to length 1, of the K leading eigenvectors of

        N = D^-½ (S + I + τ/A · 1 1ᵀ) D^-½,   D = diag of the row sums,

    where S is scaled so that its largest entry is 1, the similarity of a vertex with itself. The
    term with τ, the mean row sum, joins all vertices weakly; without it the cheapest cuts separate
    a few loosely connected vertices (Qin and Rohe, 2013). Eigenvectors are computed once for all K.

    Parameters
    ----------
    graph : (A, A) sparse or dense array
        Symmetric, similarities from 0 up; its diagonal is ignored.
    ks : sequence of int
        Numbers of clusters K. With at most K vertices with neighbours, each is one cluster.
    random_state : int, RandomState or None
        Seed of k-means, the same for every K.

    Returns
    -------
    (A, len(ks)) int64 array
        Labels 0, 1, … in order of appearance; −1 for a vertex without neighbours. There may be
        fewer than K if vertices have equal rows.

    Examples
    --------
    >>> two_triangles = np.kron(np.eye(2), 1 - np.eye(3))
    >>> normalised_cuts(two_triangles, [1, 2], random_state=0).T
    array([[0, 0, 0, 0, 0, 0],
           [0, 0, 0, 1, 1, 1]])
    """
    for k in ks:
        _refuse_bad_k(k)
    S = _checked_graph(graph)
    labels = np.full((S.shape[0], len(ks)), -1, dtype=np.int64)
    if not len(ks):
        return labels
    vertices = np.flatnonzero(np.diff(S.indptr))
    if len(vertices) < S.shape[0]:
        S = S[vertices][:, vertices]
    vectors = _leading_vectors(S, max(ks)) if len(vertices) else np.empty((0, max(ks)))
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    for column, k in enumerate(ks):
        labels[vertices, column] = kmeans_labels(scale_rows(vectors[:, :k]), k, seed)
    return labels


def kmeans_labels(rows: Floats, k: int, seed: int) -> NDArray[np.int64]:
    """Cluster rows by k-means into k clusters, numbered by appearance.

    With at most k rows, each row is a cluster.
    """
    if len(rows) <= k:
        return np.arange(len(rows))
    with on_one_thread(), ignore_duplicate_points_warning():
        labels = KMeans(k, n_init=_STARTS, random_state=seed).fit(rows).labels_
    return renumber_by_appearance(labels)


def _leading_vectors(S: sp.csr_array, k: int) -> Floats:
    """Return the k leading eigenvectors of N, largest eigenvalue first."""
    N = _Normalised(S)
    with on_one_thread():
        if S.shape[0] <= max(_DENSE, 4 * k):
            vectors, _ = dense_eigenpairs(N @ np.eye(S.shape[0]), min(k, S.shape[0]))
        else:
            vectors = _sparse_eigenvectors(N, k)
    return vectors


class _Normalised:
    """The operator N = R (S + I + τ/n · 1 1ᵀ) R, R = D^-½, without forming the dense matrix."""

    def __init__(self, S: sp.csr_array) -> None:
        self.S = S
        sums = S.sum(axis=1) + 1.0
        tau = sums.mean()
        self.uniform = tau / len(sums)
        self.roots = (1.0 / np.sqrt(sums + tau))[:, np.newaxis]

    def __matmul__(self, X: Floats) -> Floats:
        scaled = self.roots * X
        return self.roots * (self.S @ scaled + scaled + self.uniform * scaled.sum(axis=0))


def _sparse_eigenvectors(N: _Normalised, k: int) -> Floats:
    """Compute eigenvectors by ARPACK or, if it does not converge, by power steps."""
    n = N.S.shape[0]
    operator = LinearOperator((n, n), matvec=lambda x: (N @ x.reshape(n, 1)).ravel(), dtype=float)
    rng = np.random.default_rng(0)
    settings: dict[str, Any] = {"v0": rng.standard_normal(n), "tol": _TOLERANCE, "maxiter": _STEPS}
    settings |= eigsh_rng_option(rng)
    try:
        values, vectors = eigsh(operator, k=k, which="LA", **settings)
    except ArpackNoConvergence:
        # N + I has no negative eigenvalues, which power steps would confuse with large ones
        vectors, _, _, _ = refined_eigenpairs(
            rng.standard_normal((n, 2 * k)), lambda X: N @ X + X, k, _TOLERANCE, _STEPS
        )
        return vectors[:, :k]
    return vectors[:, np.argsort(-values, kind="stable")]


def _checked_graph(graph: Any) -> sp.csr_array:
    """Return the graph as a symmetric float64 CSR array, diagonal 0, largest similarity 1."""
    try:
        S = sp.csr_array(graph).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(f"the graph is not a table of numbers: {error}") from error
    if S.ndim != 2 or S.shape[0] != S.shape[1]:
        raise InvalidParameterError(f"the graph has shape {S.shape}; it must be square")
    wrong = np.flatnonzero(~(np.isfinite(S.data) & (S.data >= 0)))
    if len(wrong):
        row = int(np.searchsorted(S.indptr, wrong[0], side="right")) - 1
        raise InvalidParameterError(
            f"the graph, row {row}, column {S.indices[wrong[0]]}: {S.data[wrong[0]]}; "
            "similarities are finite numbers from 0 up"
        )
    S.sum_duplicates()
    if S.diagonal().any():
        S.data[np.repeat(np.arange(S.shape[0]), np.diff(S.indptr)) == S.indices] = 0.0
    S.eliminate_zeros()
    if S.nnz:
        S.data /= S.data.max()
    _refuse_asymmetric(S)
    return S


def _refuse_asymmetric(S: sp.csr_array) -> None:
    # S x and Sᵀ x differ for a random x unless S is symmetric; comparing S with Sᵀ is far slower
    x = np.random.default_rng(0).random(S.shape[0])
    product = S @ x
    wrong = np.flatnonzero(np.abs(product - S.T @ x) > 1e-6 * product)
    if len(wrong):
        raise InvalidParameterError(
            f"the graph is not symmetric: row {wrong[0]} and column {wrong[0]} differ; "
            "graph.maximum(graph.T) makes it symmetric"
        )


def _refuse_bad_k(k: int) -> None:
    if not (isinstance(k, int | np.integer) and k >= 1):
        raise InvalidParameterError(f"the number of clusters is {k!r}; it must be 1 or more")
