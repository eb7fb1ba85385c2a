"""Normalised cut of a bipartite graph that links points to clusters.

u distinct points of multiplicity w_a are linked to m clusters with strength B_aj ≥ 0. The
normalised cut of the graph needs the leading singular vectors of the scaled links

    N = diag(w / d)^½ B diag(e)^−½,   d = B 1 (u,),   e = Bᵀ w (m,).

This is an eigenproblem of order min(u, m), for any number of points n = Σ w.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, vstack
from scipy.sparse.linalg import ArpackNoConvergence

from coterie.relaxation.eigenpairs import dense_eigenpairs, lanczos_eigenpairs
from coterie.relaxation.rounding import round_by_kmeans

__all__ = ["transfer_cut", "transfer_embedding"]

Array = NDArray[np.float64]

_DENSE_UP_TO = 1500
# Share of all links that belong to the artificial point.
_EXTRA_LINKS = 1e-10
_NEGLIGIBLE = 1e-12


def transfer_cut(
    indicator: csr_array, weights: Array, n_clusters: int, random_state: Any = None
) -> NDArray[np.int64]:
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


def transfer_embedding(indicator: csr_array, weights: Array, n_clusters: int) -> Array:
    """Embed points as unit vectors; points that the normalised cut joins are near each other.

    With U (m, k) the leading eigenvectors of NᵀN, these are the rows of diag(d)^−1 B diag(e)^−½ U,
    scaled to unit length.

    If the graph has more than K components, the leading K eigenvectors are not unique. An
    artificial point, linked equally to all clusters with 1e−10 of all links, makes them unique.
    Components with the most points per cluster are then separated first.

    The result is (u, k), k = min(K, m, u), where m and u count only rows and columns with links.
    Rows without links are zero.

    >>> E = transfer_embedding(csr_array([[1.0, 0], [1, 0], [0, 2]]), np.ones(3), 2)
    >>> np.round(E @ E.T, 6)
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """
    rows = np.flatnonzero(indicator.sum(axis=1))
    columns = np.flatnonzero(indicator.sum(axis=0))
    if not len(rows):
        return np.zeros((len(weights), 0))
    scaled = _scaled_links(indicator[rows][:, columns], weights[rows])
    U = _right_singular_vectors(scaled, min(n_clusters, len(rows), len(columns)))
    # Rows of N and of diag(d)^−1 B diag(e)^−½ have the same direction; the last is artificial.
    unit = (scaled @ U)[:-1]
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    embedding = np.zeros((len(weights), unit.shape[1]))
    embedding[rows] = unit
    return embedding


def _scaled_links(links: csr_array, weights: Array) -> csr_array:
    """Return N (u + 1, m); the last row is that of the artificial point."""
    m = links.shape[1]
    strength = links.sum(axis=1)
    extra_weight = _EXTRA_LINKS * (weights @ strength) / m
    links = vstack([links, csr_array(np.ones((1, m)))], format="csr")
    strength, weights = np.append(strength, m), np.append(weights, extra_weight)
    into_clusters = links.T @ weights
    return diags_array(np.sqrt(weights / strength)) @ links @ diags_array(into_clusters**-0.5)


def _right_singular_vectors(N: csr_array, k: int) -> Array:
    """Return the right singular vectors of the k largest singular values of N, (m, k)."""
    if N.shape[1] <= N.shape[0]:
        return _leading_eigenpairs(N.T.tocsr(), k)[0]
    left, values = _leading_eigenpairs(N, k)
    used = values > _NEGLIGIBLE * values[0]
    return (N.T @ left[:, used]) / np.sqrt(values[used])


def _leading_eigenpairs(F: csr_array, k: int) -> tuple[Array, Array]:
    """Return the k largest eigenpairs of F Fᵀ."""
    order = F.shape[0]
    if order > max(_DENSE_UP_TO, 4 * k):
        transposed = F.T.tocsr()
        try:
            return lanczos_eigenpairs(lambda x: F @ (transposed @ x), order, k, np.ones(order))
        except ArpackNoConvergence:  # many nearly equal values, which LAPACK can separate
            pass
    return dense_eigenpairs((F @ F.T).toarray(), k)
