"""Clusters of a similarity graph: normalised cuts, how many of them, and leaders.

A vertex without a neighbour says nothing about clusters and gets the label −1, a missing vote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from coterie.errors import InvalidParameterError
from coterie.labels.numbering import renumber_by_appearance
from coterie.relaxation.eigenpairs import (
    dense_eigenpairs,
    eigsh_rng_option,
    refined_eigenpairs,
)
from coterie.runtime.devices import on_one_thread
from coterie.runtime.ignored_warnings import ignore_duplicate_points_warning

__all__ = ["eigengap_k", "leader_clusters", "normalised_cut", "normalised_cuts"]

Floats = NDArray[np.float64]

_DENSE = 300
_STARTS = 5
_TOLERANCE = 1e-6
_STEPS = 100
# τ as a share of the mean row sum, to find clusters and to count them
_TO_CUT = 1.0
_TO_COUNT = 0.01


def normalised_cut(graph: Any, n_clusters: int, random_state: Any = None) -> NDArray[np.int64]:
    """Labels of one normalised cut of a graph into K clusters; see :func:`normalised_cuts`.

    Examples
    --------
    >>> two_triangles = np.kron(np.eye(2), 1 - np.eye(3))
    >>> normalised_cut(two_triangles, 2, random_state=0)
    array([0, 0, 0, 1, 1, 1])
    """
    return normalised_cuts(graph, [n_clusters], random_state)[:, 0]


def normalised_cuts(graph: Any, ks: Sequence[int], random_state: Any = None) -> NDArray[np.int64]:
    """Labels of normalised cuts of a graph S (A, A) into several numbers of clusters.

    A normalised cut minimises Σ_k cut(k, rest) / volume(k). Relaxed, it is k-means on the rows,
    scaled to length 1, of the K leading eigenvectors of

        N = D^-½ (S + I + τ/A · 1 1ᵀ) D^-½,   D = diag of the row sums,

    where S is scaled so that its largest entry is 1, the similarity of a vertex and itself, and τ,
    the mean row sum, joins everything to everything a little: without it the cheapest cuts are a
    few vertices that hang by a thread (Qin and Rohe, 2013). Eigenvectors are computed once for
    all K.

    Parameters
    ----------
    graph : (A, A) sparse or dense array
        Symmetric, similarities from 0 up; its diagonal is ignored.
    ks : sequence of int
        Numbers of clusters K. More than there are vertices with a neighbour gives each its own.
    random_state : int, RandomState or None
        Of k-means, the same for every K.

    Returns
    -------
    (A, len(ks)) int64 array
        Labels 0, 1, … in order of appearance; −1 for a vertex without a neighbour. There may
        be fewer than K where vertices cannot be told apart.

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
    spectrum = _spectrum(S, max(ks), _TO_CUT)
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    for column, k in enumerate(ks):
        labels[spectrum.vertices, column] = _rows_clustered(spectrum.vectors[:, :k], k, seed)
    return labels


def eigengap_k(graph: Any, candidates: Sequence[int]) -> int:
    """The K among candidates after which the eigenvalues of N fall the most: λ_K − λ_K+1.

    Here τ is a hundredth of the mean row sum. Where clusters shade into each other, as those of
    thinly observed advertisers do, the gap counts the few coarse groups that stand apart rather
    than the clusters.

    Parameters
    ----------
    graph : (A, A) sparse or dense array
        As for :func:`normalised_cuts`.
    candidates : sequence of int

    Returns
    -------
    int
        The smallest of them where gaps are equal or the graph has too few joined vertices.

    Examples
    --------
    >>> eigengap_k(np.kron(np.eye(3), np.ones((4, 4))), range(2, 6))
    3
    """
    if not len(candidates):
        raise InvalidParameterError("candidates is empty; name at least one number of clusters")
    for k in candidates:
        _refuse_bad_k(k)
    ascending = np.unique(np.asarray(candidates))
    values = _spectrum(_checked_graph(graph), int(ascending[-1]) + 1, _TO_COUNT).values
    possible = ascending[ascending < len(values)]
    if not len(possible):
        return int(ascending[0])
    gaps = values[possible - 1] - values[possible]
    # gaps that differ by rounding are equal
    return int(possible[np.flatnonzero(gaps >= gaps.max() - 1e-9)[0]])


def leader_clusters(graph: Any, observations: ArrayLike | None = None) -> NDArray[np.int64]:
    """Labels by leaders: the best observed vertex leads and takes its free neighbours; repeat.

    Every member is similar to its leader, though not to every other member. How many clusters
    come out depends on the graph alone.

    Parameters
    ----------
    graph : (A, A) sparse or dense array
        As for :func:`normalised_cuts`; any similarity above 0 counts.
    observations : (A,) array-like, optional
        The vertex with most of them leads first; equal ones, or all of them without
        ``observations``, by falling number of neighbours, then in order.

    Returns
    -------
    (A,) int64 array
        Labels 0, 1, … in the order of the leaders; −1 for a vertex without a neighbour.

    Examples
    --------
    >>> path = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
    >>> leader_clusters(path), leader_clusters(path, [9, 1, 1, 8])
    (array([0, 0, 0, 1]), array([0, 0, 1, 1]))
    """
    S = _checked_graph(graph)
    degrees = np.diff(S.indptr)
    weight = np.zeros(S.shape[0]) if observations is None else np.asarray(observations, float)
    if weight.shape != degrees.shape or not np.isfinite(weight).all():
        raise InvalidParameterError(
            f"observations must be {len(degrees)} finite numbers, one a vertex of the graph"
        )
    labels = np.full(S.shape[0], -1, dtype=np.int64)
    n_clusters = 0
    for leader in np.lexsort((-degrees, -weight)):
        if labels[leader] < 0 and degrees[leader] > 0:
            neighbours = S.indices[S.indptr[leader] : S.indptr[leader + 1]]
            labels[neighbours[labels[neighbours] < 0]] = n_clusters
            labels[leader] = n_clusters
            n_clusters += 1
    return labels


@dataclass(frozen=True)
class _Spectrum:
    """The leading eigenpairs of N, largest first, over the vertices with a neighbour."""

    vertices: NDArray[np.intp]
    values: Floats
    vectors: Floats


def _spectrum(S: sp.csr_array, n_pairs: int, share: float) -> _Spectrum:
    vertices = np.flatnonzero(np.diff(S.indptr))
    n = len(vertices)
    if n == 0:
        return _Spectrum(vertices, np.empty(0), np.empty((0, n_pairs)))
    N = _Normalised(S if n == S.shape[0] else S[vertices][:, vertices], share)
    with on_one_thread():
        if n <= max(_DENSE, 4 * n_pairs):
            vectors, values = dense_eigenpairs(N.toarray(), min(n_pairs, n))
        else:
            vectors, values = _sparse_eigenpairs(N, n_pairs)
    return _Spectrum(vertices, values, vectors)


class _Normalised:
    """N = R (S + I + τ/n · 1 1ᵀ) R with R = D^-½ and τ = share · mean row sum, never formed."""

    def __init__(self, S: sp.csr_array, share: float) -> None:
        self.S = S
        sums = S.sum(axis=1) + 1.0
        uniform = share * sums.mean()
        self.everywhere = uniform / len(sums)
        self.roots = (1.0 / np.sqrt(sums + uniform))[:, np.newaxis]

    def __matmul__(self, X: Floats) -> Floats:
        scaled = self.roots * X
        uniform = self.everywhere * scaled.sum(axis=0)
        return self.roots * (self.S @ scaled + scaled + uniform)

    def toarray(self) -> Floats:
        return self @ np.eye(self.S.shape[0])


def _sparse_eigenpairs(N: _Normalised, k: int) -> tuple[Floats, Floats]:
    """By ARPACK; where that does not converge, the best of a fixed number of power steps."""
    n = N.S.shape[0]
    operator = LinearOperator((n, n), matvec=lambda x: (N @ x.reshape(n, 1)).ravel(), dtype=float)
    rng = np.random.default_rng(0)
    settings: dict[str, Any] = {"v0": rng.standard_normal(n), "tol": _TOLERANCE, "maxiter": _STEPS}
    settings |= eigsh_rng_option(rng)
    try:
        values, vectors = eigsh(operator, k=k, which="LA", **settings)
    except ArpackNoConvergence:
        # N + I has no negative eigenvalues, which power steps would take for large ones
        vectors, values, _, _ = refined_eigenpairs(
            rng.standard_normal((n, 2 * k)), lambda X: N @ X + X, k, _TOLERANCE, _STEPS
        )
        return vectors[:, :k], values[:k] - 1.0
    order = np.argsort(-values, kind="stable")
    return vectors[:, order], values[order]


def _rows_clustered(vectors: Floats, k: int, seed: int) -> NDArray[np.int64]:
    """K-means on the directions of the rows."""
    n = len(vectors)
    if n <= k:
        return np.arange(n)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    with on_one_thread(), ignore_duplicate_points_warning():
        labels = KMeans(k, n_init=_STARTS, random_state=seed).fit(rows).labels_
    return renumber_by_appearance(labels)


def _checked_graph(graph: Any) -> sp.csr_array:
    """The graph as a symmetric float64 CSR array without a diagonal, its largest similarity 1."""
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
    """Compare S x with Sᵀ x for a random x: far cheaper than S with Sᵀ, and as telling."""
    x = np.random.default_rng(0).random(S.shape[0])
    forth = S @ x
    wrong = np.flatnonzero(np.abs(forth - S.T @ x) > 1e-6 * forth)
    if len(wrong):
        raise InvalidParameterError(
            f"the graph is not symmetric: row {wrong[0]} and column {wrong[0]} differ; "
            "graph.maximum(graph.T) joins what either half joins"
        )


def _refuse_bad_k(k: int) -> None:
    if not (isinstance(k, int | np.integer) and k >= 1):
        raise InvalidParameterError(f"the number of clusters is {k!r}; it must be 1 or more")
