"""Spectral methods on weighted tuples: eigenpairs, the ℓ2 factor, normalised cuts, and rounding.

**Least squares** (:func:`least_squares_factor`).

    min ‖M − H D Hᵀ‖²_F   s.t.  HᵀH = I_K,  D ≥ 0 diagonal

is solved by the K largest eigenpairs of M. Let Z (n, m) be the cluster indicator and A (m, m) the
diagonal matrix of the partition weight α_v of each cluster of v; then M = Z A Zᵀ. An eigenpair
(λ, x) of A^½ C A^½ (m, m), where C = Zᵀ Z has the contingency tables of all pairs of partitions,
gives the eigenpair (λ, Z A^½ x / √λ) of M. No matrix over points is needed. For soft partitions, Z
holds memberships. If labels are missing, row i of Z is divided by p_i, the weight of the partitions
that label i; the result approximates M if labels are missing at random.

**Normalised cut of a weighted graph** (:func:`spectral_labels`). n points have the affinity
W = Z A Zᵀ, where A (u, u) is the affinity of u vertices and Z (n, u) is the indicator of the vertex
of each point. The cut needs the leading eigenvectors of Δ^−½ W Δ^−½, with Δ the diagonal matrix of
the row sums of W. Eigenvectors of nonzero eigenvalues are equal for the points of a vertex: they
are Z diag(ω)^−½ y, where ω (u,) is the number of points of each vertex and y an eigenvector of

    diag(ω / d)^½ A diag(ω / d)^½   (u, u),   d = A ω.

So no matrix of size n is needed. The result is exact if the K-th eigenvalue is positive.

**Normalised cut of a bipartite graph** (:func:`transfer_cut`; Li, Wu, Chang 2012). The graph links
u distinct points of multiplicity w_a to m clusters with strength B_aj ≥ 0. The cut needs the
leading singular vectors of the scaled links

    N = diag(w / d)^½ B diag(e)^−½   (u, m),   d = B 1 (u,),   e = Bᵀ w (m,).

This is an eigenproblem of order min(u, m), for any number of points n = Σ w.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import eigh, qr
from scipy.sparse import csr_array, diags_array, vstack
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

import coterie.counts.kernels as kernels
from coterie.arrays import Floats, Ints
from coterie.counts.contingency import all_contingencies
from coterie.labels.encode import renumber_by_appearance
from coterie.labels.tuples import LabelTuples
from coterie.runtime.devices import map_row_blocks, on_one_thread
from coterie.runtime.messages import ignore_duplicate_points_warning
from coterie.runtime.sampling import draw_weighted_subsample

Product = Callable[[Floats], Floats]

# Up to these orders LAPACK is faster than ARPACK: for a dense affinity, for sparse links, and for
# contingency tables.
_DENSE_UP_TO, _DENSE_LINKS_UP_TO, _DENSE_TABLES_UP_TO = 400, 1500, 1500
_ROWS_PER_THREAD = 4_096
# Weight of the edges added between all vertices, relative to the largest affinity.
_JOINING_EDGE = 1e-9
# Share of all links that belong to the artificial point.
_EXTRA_LINKS = 1e-10
_NEGLIGIBLE = 1e-12
_SAMPLE = 20_000  # rows that are rounded; the others join the nearest centre


def least_squares_factor(
    tuples: LabelTuples,
    partition_weights: Floats,
    n_clusters: int,
    contingencies: Floats | None = None,
) -> Floats:
    """Return the factor F (u, K) of the ℓ2 relaxation: the rows of H√D, one for each tuple.

    F Fᵀ is the best approximation of M of rank K = ``n_clusters``. The columns are sorted by
    decreasing eigenvalue; if M has a lower rank, the last columns are zero. ``contingencies``
    (m, m) are those of :func:`~coterie.counts.contingency.all_contingencies` if known.

    >>> from coterie.labels.tuples import as_label_tuples
    >>> tuples = as_label_tuples([[0, 1], [0, 1], [1, 0]])
    >>> F = least_squares_factor(tuples, np.ones(2), 2)
    >>> np.round(F @ F.T, 6)
    array([[1., 0.],
           [0., 1.]])
    """
    vectors, values = least_squares_spectrum(tuples, partition_weights, n_clusters, contingencies)
    positive = values > values[0] * 1e-12
    # The rows of H√D are Z A^½ x / √λ, times √λ: the roots cancel.
    of_clusters = np.zeros((tuples.n_columns, n_clusters))
    roots = _column_roots(tuples, partition_weights)[:, None]
    of_clusters[:, : len(values)] = roots * vectors * positive
    factor = _sums_over_clusters(tuples, of_clusters)
    if tuples.has_missing:
        factor *= _row_scale(tuples, partition_weights)[:, None]
    return factor


def least_squares_spectrum(
    tuples: LabelTuples,
    partition_weights: Floats,
    k: int,
    contingencies: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Return the top eigenvectors (m, k') and eigenvalues (k',) of A^½ C A^½, k' = min(k, m).

    The eigenvalues are those of M.
    """
    if contingencies is None or tuples.has_missing:
        row_scale = _row_scale(tuples, partition_weights)
        contingencies = all_contingencies(tuples, tuples.weights * row_scale**2)
    root = _column_roots(tuples, partition_weights)
    C = root[:, None] * contingencies * root
    m = len(C)
    k = min(k, m)
    if m <= _DENSE_TABLES_UP_TO or 4 * k > m:
        return dense_eigenpairs(C, k)
    return lanczos_eigenpairs(lambda x: C @ x, m, k, C.sum(axis=1))


def _column_roots(tuples: LabelTuples, partition_weights: Floats) -> Floats:
    """Return √α_v for every cluster of v, (m,), with weights that sum to one."""
    return np.repeat(np.sqrt(partition_weights / partition_weights.sum()), tuples.n_labels)


def _row_scale(tuples: LabelTuples, partition_weights: Floats) -> Floats:
    """Return 1/p_a, (u,), with p_a the weight of the partitions that label tuple a; 0 for 1/0."""
    if not tuples.has_missing:
        return np.ones(tuples.n_tuples)
    alpha = partition_weights / partition_weights.sum()
    present = _sums_over_clusters(tuples, np.repeat(alpha, tuples.n_labels)[:, None])[:, 0]
    return np.divide(1.0, present, out=np.zeros_like(present), where=present > 0)


def _sums_over_clusters(tuples: LabelTuples, values: Floats) -> Floats:
    """Return Z·values, (u, k): the sum of the values (m, k) of the clusters of each tuple."""
    sums = np.empty((tuples.n_tuples, values.shape[1]))

    def add(start: int, stop: int) -> None:
        kernels.sum_over_clusters(tuples.codes, tuples.memberships, values, start, stop, sums)

    map_row_blocks(add, tuples.n_tuples, at_least=_ROWS_PER_THREAD)
    return sums


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
    B, w, m = indicator[rows][:, columns], weights[rows], len(columns)
    d, k = B.sum(axis=1), min(n_clusters, len(rows), m)
    # the last row is that of the artificial point
    B = vstack([B, csr_array(np.ones((1, m)))], format="csr")
    w, d = np.append(w, _EXTRA_LINKS * (w @ d) / m), np.append(d, m)
    N = diags_array(np.sqrt(w / d)) @ B @ diags_array((B.T @ w) ** -0.5)
    if N.shape[1] <= N.shape[0]:
        U, _ = _leading_eigenpairs(N.T.tocsr(), k)
    else:
        left, values = _leading_eigenpairs(N, k)
        used = values > _NEGLIGIBLE * values[0]
        U = (N.T @ left[:, used]) / np.sqrt(values[used])
    # Rows of N and of diag(d)^−1 B diag(e)^−½ have the same direction.
    unit = (N @ U)[:-1]
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    embedding = np.zeros((len(weights), unit.shape[1]))
    embedding[rows] = unit
    return embedding


def _leading_eigenpairs(F: csr_array, k: int) -> tuple[Floats, Floats]:
    """Return the k largest eigenpairs of F Fᵀ."""
    order = F.shape[0]
    if order > max(_DENSE_LINKS_UP_TO, 4 * k):
        transposed = F.T.tocsr()
        # without convergence there are many nearly equal values, which LAPACK can separate
        with contextlib.suppress(ArpackNoConvergence):
            return lanczos_eigenpairs(lambda x: F @ (transposed @ x), order, k, np.ones(order))
    return dense_eigenpairs((F @ F.T).toarray(), k)


def round_by_pivoted_qr(factor: Floats, weights: Floats | None = None) -> Ints:
    """Round by column-pivoted QR (Damle, Minden, Ying 2019): deterministic, without initial labels.

    A pivoted QR of Fᵀ selects K nearly orthogonal rows of the factor F (u, K), one for each
    cluster. The orthogonal matrix nearest to these rows rotates F so that each cluster is near an
    axis. The label of a row is the axis of its largest coordinate. Above 20,000 rows only the rows
    of largest weight can be pivots.
    """
    rows = factor
    if len(factor) > _SAMPLE:
        order = np.arange(len(factor)) if weights is None else np.argsort(-weights, kind="stable")
        rows = factor[order[:_SAMPLE]]
    _, pivots = qr(rows.T, mode="r", pivoting=True)
    left, _, right = np.linalg.svd(rows[pivots[: factor.shape[1]]])
    rotated = factor @ (left[:, : factor.shape[1]] @ right).T
    return renumber_by_appearance(np.abs(rotated, out=rotated).argmax(axis=1))


def round_by_kmeans(
    factor: Floats, weights: Floats, n_clusters: int, random_state: Any = None, n_init: int = 10
) -> Ints:
    """Round by weighted k-means on the rows of the factor F (u, K), the best of several starts.

    Above 20,000 rows k-means runs on a sample drawn by weight, and every row gets the label of the
    nearest centre.
    """
    rng = check_random_state(random_state)
    rows, sample_weight = factor, weights
    if len(factor) > _SAMPLE:
        chosen, sample_weight = draw_weighted_subsample(weights, _SAMPLE, rng)
        rows = factor[chosen]
    model = KMeans(n_clusters, n_init=n_init, random_state=rng)
    with ignore_duplicate_points_warning(), on_one_thread(len(rows)):
        model.fit(rows, sample_weight=sample_weight)
    return renumber_by_appearance(model.labels_ if rows is factor else model.predict(factor))


def dense_eigenpairs(A: Floats, k: int) -> tuple[Floats, Floats]:
    """Return eigenvectors (n, k) and eigenvalues (k,) by LAPACK, largest first."""
    n = len(A)
    try:
        values, vectors = eigh(A, subset_by_index=[n - k, n - 1])
    except np.linalg.LinAlgError:  # many equal eigenvalues
        values, vectors = np.empty(0), np.empty((n, 0))
    if len(values) < k:  # LAPACK can miss eigenvalues of a subset, but not of the full spectrum
        values, vectors = (part[..., -k:] for part in np.linalg.eigh(A))
    return vectors[:, ::-1], values[::-1]


def lanczos_eigenpairs(
    product: Product, n: int, k: int, start: Floats, tolerance: float = 0.0
) -> tuple[Floats, Floats]:
    """Return eigenvectors (n, k) and eigenvalues (k,) by ARPACK, from products with the matrix.

    If the starting vector is an eigenvector, as a constant vector often is, ARPACK stops early. So
    a fixed pseudo-random vector is added to ``start``.
    """
    operator = LinearOperator(
        (n, n), matvec=lambda x: product(x.reshape(n, -1)).ravel(), dtype=float
    )
    rng = np.random.default_rng(0)
    v0 = start + rng.standard_normal(n) * np.linalg.norm(start) / n
    values, vectors = eigsh(
        operator, k=k, which="LA", v0=v0, tol=tolerance, **eigsh_rng_option(rng)
    )
    order = np.argsort(-values)
    return vectors[:, order], values[order]


def eigsh_rng_option(rng: np.random.Generator) -> dict[str, np.random.Generator]:
    """Return the option that makes ``eigsh`` repeatable; SciPy 1.17 restarts at random."""
    return {"rng": rng} if "rng" in inspect.signature(eigsh).parameters else {}


def refined_eigenpairs(
    first: Floats, product: Product, k: int, tolerance: float, max_steps: int
) -> tuple[Floats, Floats, Floats, bool]:
    """Improve a block of approximate eigenvectors by power steps and Rayleigh–Ritz.

    ``first`` (n, q) is A @ block, q ≥ k; columns beyond k speed up convergence. The steps end when
    the residuals ‖A h − λ h‖ of the k largest pairs are at most ``tolerance`` times λ_1. Return the
    block (n, q), values (q,), residual norms (k,), and whether the tolerance was met.
    """
    AQ = first
    for _ in range(max_steps):
        Q = np.linalg.qr(AQ)[0]
        AQ = product(Q)
        values, rotation = np.linalg.eigh(Q.T @ AQ)
        values, rotation = values[::-1], rotation[:, ::-1]
        Q, AQ = Q @ rotation, AQ @ rotation
        residuals = np.linalg.norm(AQ[:, :k] - Q[:, :k] * values[:k], axis=0)
        if residuals.max() <= tolerance * max(values[0], 0.0):
            return Q, values, residuals, True
    return Q, values, residuals, False


def krylov_eigenpairs(
    X: Floats, AX: Floats, product: Product, k: int, tolerance: float, max_products: int
) -> tuple[Floats, Floats, bool]:
    """Return the k largest eigenpairs of A in the block Krylov space of a good guess X.

    X (n, q), q ≥ k, has orthonormal columns that approximate the leading eigenvectors; columns
    beyond k speed up convergence. AX (n, q) is A @ X. Rayleigh–Ritz gives the best pairs (H, Λ) in
    the span of X. While ‖A H − H Λ‖_F of the k leading pairs is above the tolerance, the span is
    extended by the residuals of the leading q pairs, with one product each time. Return an
    orthonormal block (n, q), values (q,), and whether the tolerance was met.
    """
    q = X.shape[1]
    basis, image = X, AX
    for n_products in range(max_products + 1):
        gram = basis.T @ image  # symmetric up to rounding
        values, rotation = np.linalg.eigh((gram + gram.T) / 2)
        values, rotation = values[: -q - 1 : -1], rotation[:, : -q - 1 : -1]
        block = basis @ rotation
        residual = image @ rotation - block * values
        met = bool(np.linalg.norm(residual[:, :k]) <= tolerance)
        if met or n_products == max_products:
            break
        # an orthonormal basis of the part of the residuals that is orthogonal to the span
        n, n_columns = basis.shape
        added = residual[:, : max(0, n - n_columns)]
        added = added / np.maximum(np.linalg.norm(added, axis=0), np.finfo(float).tiny)
        for _ in range(2):  # the second pass removes the rounding errors of the first
            added = np.linalg.qr(added - basis @ (basis.T @ added))[0]
        basis, image = np.column_stack([basis, added]), np.column_stack([image, product(added)])
    return block, values, met
