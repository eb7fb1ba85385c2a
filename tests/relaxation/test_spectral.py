"""Eigenpairs, least squares, normalised cuts, and rounding."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.sparse import block_diag, csr_array
from scipy.sparse.linalg import ArpackNoConvergence
from sklearn.cluster import SpectralClustering
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import normalize

import coterie as ct
from coterie import coassociation, planted_partitions
from coterie.labels.tuples import as_label_tuples
from coterie.relaxation import spectral
from coterie.relaxation.spectral import (
    dense_eigenpairs,
    krylov_eigenpairs,
    lanczos_eigenpairs,
    least_squares_factor,
    least_squares_spectrum,
    normalized_cut_rows,
    refined_eigenpairs,
    round_by_kmeans,
    round_by_pivoted_qr,
    spectral_labels,
    transfer_cut,
    transfer_embedding,
)
from soft_memberships import soft_partitions


def blobs(n=90, seed=0):
    """Return a Gaussian affinity of three blobs, multiplicities of the rows, and the blobs."""
    X, y = make_blobs(n, centers=[[0, 0], [6, 0], [0, 6]], random_state=seed)
    weights = np.random.default_rng(seed).integers(1, 5, n)
    return rbf_kernel(X, gamma=0.2), weights, y


def full_graph(A, weights):
    """Return the affinity of all points, and the vertex of each point."""
    vertex = np.repeat(np.arange(len(A)), weights)
    return A[np.ix_(vertex, vertex)], vertex


def test_labels_are_those_of_scikit_learn_on_the_full_graph():
    """The labels of weighted rows equal those of SpectralClustering on all points."""
    A, weights, y = blobs()
    W, vertex = full_graph(A, weights)
    theirs = SpectralClustering(3, affinity="precomputed", random_state=0).fit_predict(W)
    ours = spectral_labels(A, weights, 3, random_state=0)
    assert ct.clustering_accuracy(theirs, ours[vertex]) == 1
    assert ct.clustering_accuracy(y, ours) == 1


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10_000), st.integers(4, 12), st.integers(1, 4))
def test_compression_is_exact(seed, u, k):
    """Inner products of rows equal those of the textbook formula on the full graph."""
    rng = np.random.default_rng(seed)
    factor = rng.random((u, u + 2))
    A, weights = factor @ factor.T, rng.integers(1, 4, u)
    W, vertex = full_graph(A, weights)
    degree = W.sum(axis=1)
    values, vectors = np.linalg.eigh(W / np.sqrt(np.outer(degree, degree)))
    assume(values[-k] - values[-k - 1] > 1e-4)  # else the leading eigenvectors are not unique
    vectors = vectors[:, -k:]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = normalized_cut_rows(A, weights, k)[vertex]
    np.testing.assert_allclose(rows @ rows.T, vectors @ vectors.T, atol=1e-4)


def test_graph_with_more_components_than_clusters():
    """No component is divided."""
    part = np.repeat(np.arange(5), [2, 4, 6, 8, 10])
    A = (part[:, None] == part).astype(float)
    labels = spectral_labels(A, np.ones(len(part)), 3, random_state=0)
    assert len(np.unique(labels)) == 3
    assert all(len(np.unique(labels[part == p])) == 1 for p in range(5))


def test_a_row_of_zeros_is_labelled():
    """A row without affinity does not change the clusters of the others; units do not matter."""
    A = np.zeros((7, 7))
    A[:3, :3] = A[3:6, 3:6] = 1
    before, labels = A.copy(), spectral_labels(A, np.ones(7), 2, random_state=0)
    assert (labels[:6] == [0, 0, 0, 1, 1, 1]).all() and labels[6] in (0, 1)
    again = spectral_labels(A * 1e-6, np.ones(7), 2, random_state=0)
    assert (again[:6] == labels[:6]).all()
    assert (before == A).all()


def test_one_cluster_and_as_many_clusters_as_rows():
    """K = 1 gives one cluster, K ≥ u a separate cluster for each row."""
    A, weights, _ = blobs(9)
    assert (spectral_labels(A, weights, 1) == 0).all()
    assert (spectral_labels(A, weights, 9) == np.arange(9)).all()
    assert (spectral_labels(A, weights, 20) == np.arange(9)).all()


def whole_graph_embedding(B, weights, k):
    """Return unit rows of the cut of the graph of all n + m vertices, one for every copy."""
    copies = np.repeat(B, weights.astype(int), axis=0)
    n, m = copies.shape
    W = np.block([[np.zeros((n, n)), copies], [copies.T, np.zeros((m, m))]])
    scale = W.sum(axis=1) ** -0.5
    values, vectors = np.linalg.eigh(scale[:, None] * W * scale)
    leading = vectors[:, ::-1][:, :k] * values[::-1][:k]
    return normalize((scale[:, None] * leading)[:n])


def random_links(u, m, seed):
    """Return random positive links (u, m) and multiplicities."""
    rng = np.random.default_rng(seed)
    return rng.random((u, m)) + 0.05, rng.integers(1, 4, u).astype(float)


@pytest.mark.parametrize(("u", "m"), [(9, 5), (5, 9)])
@pytest.mark.parametrize("k", [1, 4])
def test_embedding_is_that_of_the_whole_graph(u, m, k):
    """Angles between points agree with the dense eigenproblem over copies and clusters."""
    B, weights = random_links(u, m, u * m + k)
    expected = whole_graph_embedding(B, weights, k)
    E = np.repeat(transfer_embedding(csr_array(B), weights, k), weights.astype(int), axis=0)
    np.testing.assert_allclose(E @ E.T, expected @ expected.T, atol=1e-6)


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 5), st.integers(0, 2**31))
def test_rows_are_unit_vectors_and_compression_is_exact(u, m, k, seed):
    """A row of multiplicity w equals w rows, for both shapes of the graph."""
    B, weights = random_links(u, m, seed)
    E = transfer_embedding(csr_array(B), weights, k)
    copies = np.repeat(np.arange(u), weights.astype(int))
    full = transfer_embedding(csr_array(B[copies]), np.ones(len(copies)), k)
    np.testing.assert_allclose(np.linalg.norm(E, axis=1), 1)
    # Copies of a row add no dimension.
    assert E.shape == (u, min(k, u, m))
    np.testing.assert_allclose((E @ E.T)[copies][:, copies], full @ full.T, atol=1e-5)


def test_small_components_are_joined():
    """With more components than clusters the small ones are joined, and none is divided."""
    sizes = [40, 30, 3, 2, 1]
    B = csr_array(block_diag([csr_array(np.ones((n, 2))) for n in sizes]))
    components = np.repeat(np.arange(5), sizes)
    labels = transfer_cut(B, np.ones(76), 3, random_state=0)
    labels_of = [set(labels[components == p]) for p in range(5)]
    assert [len(found) for found in labels_of] == [1] * 5
    assert labels_of[0] != labels_of[1] and labels_of[2] == labels_of[3] == labels_of[4]
    assert labels_of[2] not in (labels_of[0], labels_of[1])


def test_fewer_columns_than_clusters():
    """Two columns can give three clusters, by the ratio of the links."""
    B = csr_array(np.repeat([[1.0, 0], [0, 1], [1, 1]], [4, 5, 6], axis=0))
    labels = transfer_cut(B, np.ones(15), 3, random_state=0)
    assert ct.clustering_accuracy(np.repeat([0, 1, 2], [4, 5, 6]), labels) == 1


def test_rows_without_links_get_the_label_of_the_largest_cluster():
    """An empty row has a zero embedding and changes no other label; no links give one cluster."""
    B = np.repeat([[1.0, 0], [0, 0], [0, 1]], [2, 3, 4], axis=0)
    weights = np.array([9.0, 1, 50, 50, 50, 1, 1, 1, 1])
    E = transfer_embedding(csr_array(B), weights, 2)
    assert not E[2:5].any()
    labels = transfer_cut(csr_array(B), weights, 2, random_state=0)
    assert labels.tolist() == [0] * 5 + [1] * 4
    assert transfer_embedding(csr_array((3, 2)), np.ones(3), 2).shape == (3, 0)
    assert transfer_cut(csr_array((3, 2)), np.ones(3), 2).tolist() == [0, 0, 0]


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("shape", [(90, 90), (90, 60), (60, 90)])
def test_lanczos_and_lapack_agree(monkeypatch, shape, fails):
    """Above the dense limit, and if ARPACK does not converge, the inner products are the same."""
    B, weights = random_links(*shape, 5)
    B += 3 * (np.arange(shape[0])[:, None] % 4 == np.arange(shape[1]) % 4)

    def rows(seed=0):
        if shape[0] == shape[1]:
            return normalized_cut_rows((B + B.T) / 2, weights, 4, seed)
        return transfer_embedding(csr_array(B), weights, 4)

    def fail(*_):
        raise ArpackNoConvergence("no convergence", np.empty(0), np.empty((0, 0)))

    dense = rows()
    monkeypatch.setattr(spectral, "_DENSE_UP_TO", 10)
    monkeypatch.setattr(spectral, "_DENSE_LINKS_UP_TO", 10)
    if fails:
        monkeypatch.setattr(spectral, "lanczos_eigenpairs", fail)
    for seed in range(3):
        found = rows(seed)
        np.testing.assert_allclose(found @ found.T, dense @ dense.T, atol=1e-6)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_factor_is_the_best_approximation_of_m(monkeypatch, dense, weighted):
    """F Fᵀ equals the K leading eigenpairs of M, by either eigensolver, for any weights."""
    if not dense:
        monkeypatch.setattr(spectral, "_DENSE_TABLES_UP_TO", 0)
    P, _ = planted_partitions([50, 30, 20], 9, 3, 0.3, random_state=0)
    weights = np.arange(1.0, 10.0) if weighted else np.ones(9)
    tuples = as_label_tuples(P)
    alpha = weights[tuples.partition_order]
    F = tuples.expand(least_squares_factor(tuples, alpha, 3))
    values, vectors = np.linalg.eigh(coassociation(P, weights))
    best = (vectors[:, -3:] * values[-3:]) @ vectors[:, -3:].T
    assert np.abs(F @ F.T - best).max() < 1e-8
    assert np.allclose(least_squares_spectrum(tuples, alpha, 6)[1], values[::-1][:6])


def test_partitions_of_weight_zero_are_ignored():
    """A weight of zero equals removing the partition."""
    P, _ = planted_partitions([50, 30], 7, 2, 0.2, random_state=1)
    weights = np.array([1.0, 1, 1, 1, 1, 0, 0])
    all_seven, five = as_label_tuples(P), as_label_tuples(P[:, :5])
    F = all_seven.expand(least_squares_factor(all_seven, weights[all_seven.partition_order], 2))
    G = five.expand(least_squares_factor(five, np.ones(5), 2))
    assert np.allclose(F @ F.T, G @ G.T)


def test_rank_below_k_gives_zero_columns():
    """More columns than M has rank are zero, not noise."""
    wide = least_squares_factor(as_label_tuples([[0, 0], [1, 1]]), np.ones(2), 4)
    assert np.allclose(wide @ wide.T, np.eye(2)) and np.abs(wide[:, 2:]).max() == 0


@given(P=soft_partitions(missing=False))
@settings(max_examples=20, deadline=None)
def test_factor_of_soft_partitions_gives_m(P):
    """F Fᵀ of full rank is M if no mass is missing."""
    tuples = as_label_tuples(P)
    F = least_squares_factor(tuples, np.ones(len(P)), tuples.n_columns)
    F = tuples.expand(F)
    assert F @ F.T == pytest.approx(coassociation(P), abs=1e-9)


@pytest.fixture(params=[5_000, 100], ids=["all rows", "sample"])
def factor(request, monkeypatch):
    """A rotated, noisy indicator of three clusters, below or above the sample size."""
    monkeypatch.setattr(spectral, "_SAMPLE", request.param)
    rng = np.random.default_rng(0)
    y = rng.choice(3, 600, p=[0.6, 0.3, 0.1])
    H = np.eye(3)[y] / np.sqrt(np.bincount(y))[None]
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return (H + rng.normal(0, 0.05 * H.max(), H.shape) * H.max(axis=1, keepdims=True)) @ rotation, y


def test_both_find_the_clusters(factor):
    """Pivoted QR and k-means find the clusters, even above the sample size."""
    F, y = factor
    weights = np.ones(len(F))
    assert adjusted_rand_score(y, round_by_pivoted_qr(F, weights)) > 0.98
    assert adjusted_rand_score(y, round_by_kmeans(F * 100, weights, 3, 0)) > 0.9


def test_pivots_of_many_rows_are_those_of_large_weight(monkeypatch):
    """Rows of little weight, although longer and along other axes, do not decide the rotation."""
    monkeypatch.setattr(spectral, "_SAMPLE", 30)
    other_axes = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]
    F = np.vstack([np.tile(np.eye(3), (10, 1)), np.tile(5 * other_axes, (20, 1))])
    labels = round_by_pivoted_qr(F, np.repeat([2.0, 1.0], [30, 60]))
    assert labels[:30].tolist() == [0, 1, 2] * 10


def test_fewer_distinct_rows_than_clusters_give_fewer_labels():
    """Two distinct rows give two clusters, without a warning."""
    F = np.repeat([[1.0, 0.0], [0.0, 1.0]], 5, axis=0)
    assert set(round_by_kmeans(F, np.ones(10), 4, 0)) == {0, 1}


def inertia_of_kmeans(rows, weights, n_clusters):
    """Return the weighted sum of squared distances to the means of the clusters."""
    labels = round_by_kmeans(rows, weights, n_clusters, 0)
    total = 0.0
    for cluster in range(n_clusters):
        own, w = rows[labels == cluster], weights[labels == cluster]
        total += w @ ((own - np.average(own, axis=0, weights=w)) ** 2).sum(axis=1)
    return total


def test_samples_respect_weights(monkeypatch):
    """With very unequal weights, k-means on a sample is near k-means on all rows."""
    rng = np.random.default_rng(0)
    rows, weights = rng.normal(size=(4000, 3)), rng.pareto(0.8, 4000) + 1e-3
    whole = inertia_of_kmeans(rows, weights, 5)
    monkeypatch.setattr(spectral, "_SAMPLE", 1000)
    assert inertia_of_kmeans(rows, weights, 5) < 1.1 * whole


def test_weights_equal_repetition():
    """A row of weight 3 counts as three rows."""
    rng = np.random.default_rng(1)
    F, weights = rng.normal(size=(60, 2)), rng.integers(1, 4, 60)
    repeated = np.repeat(F, weights, axis=0)
    expected = inertia_of_kmeans(repeated, np.ones(len(repeated)), 3)
    assert inertia_of_kmeans(F, weights.astype(float), 3) == pytest.approx(expected, rel=1e-6)


@pytest.fixture
def matrix():
    """A symmetric matrix with three large eigenvalues and large negative ones."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(80, 80)))[0]
    values = np.concatenate([[9.0, 7.0, 5.0], rng.uniform(-1, 1, 75), [-4.0, -6.0]])
    return (Q * values) @ Q.T


def check(matrix, vectors, values, tolerance):
    """Compare with the three largest pairs of the matrix."""
    assert np.allclose(values, [9, 7, 5], atol=tolerance)
    assert np.abs(matrix @ vectors - vectors * values).max() < tolerance
    assert np.allclose(vectors.T @ vectors, np.eye(3), atol=tolerance)


def test_dense_and_lanczos_find_the_algebraically_largest(matrix):
    """Both solvers give the three largest pairs in falling order, not the negative ones."""
    check(matrix, *dense_eigenpairs(matrix, 3), 1e-10)
    check(matrix, *lanczos_eigenpairs(lambda x: matrix @ x, 80, 3, np.ones(80)), 1e-8)


def test_lanczos_can_start_from_an_eigenvector(matrix):
    """A start that is an eigenvector, as a constant vector often is, does not stop it."""
    start = dense_eigenpairs(matrix, 1)[0][:, 0]
    check(matrix, *lanczos_eigenpairs(lambda x: matrix @ x, 80, 3, start), 1e-8)


def test_refinement_converges_from_a_rough_block(matrix):
    """Power steps with Rayleigh–Ritz reach the tolerance."""
    rng = np.random.default_rng(1)
    exact = dense_eigenpairs(matrix, 3)[0]
    rough = np.column_stack([exact + 0.1 * rng.normal(size=exact.shape), rng.normal(size=(80, 5))])
    block, values, _, met = refined_eigenpairs(
        matrix @ rough, lambda x: matrix @ x, 3, 1e-9, max_steps=200
    )
    assert met
    check(matrix, block[:, :3], values[:3], 1e-6)
    assert not refined_eigenpairs(rough, lambda x: matrix @ x, 3, 1e-12, max_steps=1)[3]


def test_krylov_converges_from_any_start(matrix):
    """The block stays orthonormal; vectors within the tolerance need no further product."""
    guess = np.linalg.qr(np.random.default_rng(1).normal(size=(80, 8)))[0]
    block, values, met = krylov_eigenpairs(
        guess, matrix @ guess, lambda x: matrix @ x, 3, 1e-10, max_products=9
    )
    assert met
    check(matrix, block[:, :3], values[:3], 1e-8)
    assert np.allclose(block.T @ block, np.eye(8), atol=1e-12)
    block, values, met = krylov_eigenpairs(block, matrix @ block, pytest.fail, 3, 1e-8, 2)
    assert met
    check(matrix, block[:, :3], values[:3], 1e-8)


def test_krylov_is_exact_in_the_full_space(matrix):
    """If the spans fill the space, the pairs are exact and no column is added."""
    X = np.linalg.qr(np.random.default_rng(3).normal(size=(80, 30)))[0]
    block, values, _ = krylov_eigenpairs(X, matrix @ X, lambda x: matrix @ x, 3, 0.0, 4)
    check(matrix, block[:, :3], values[:3], 1e-11)


@pytest.mark.parametrize("fails", [False, True])
def test_dense_finds_all_pairs_if_lapack_misses_some(matrix, monkeypatch, fails):
    """If LAPACK fails, or returns too few pairs of a subset, the full spectrum is computed."""

    def short(A, subset_by_index):
        if fails:
            raise np.linalg.LinAlgError("Internal Error")
        return np.empty(0), np.empty((len(A), 0))

    monkeypatch.setattr("coterie.relaxation.spectral.eigh", short)
    check(matrix, *dense_eigenpairs(matrix, 3), 1e-10)
