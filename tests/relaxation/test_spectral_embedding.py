"""Spectral clustering with multiplicities."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import ArpackNoConvergence
from sklearn.cluster import SpectralClustering
from sklearn.datasets import make_blobs
from sklearn.metrics.pairwise import rbf_kernel

import coterie as ct
from coterie.relaxation import spectral_embedding
from coterie.relaxation.spectral_embedding import normalized_cut_rows, spectral_labels


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


def test_lanczos_finds_what_lapack_finds(monkeypatch):
    """Above the dense limit the rows span the same space, for every seed."""
    A, weights, _ = blobs()
    dense = normalized_cut_rows(A, weights, 3)
    monkeypatch.setattr(spectral_embedding, "_DENSE_UP_TO", 10)
    for seed in range(3):
        rows = normalized_cut_rows(A, weights, 3, seed)
        np.testing.assert_allclose(rows @ rows.T, dense @ dense.T, atol=1e-6)


def test_dense_solver_is_used_if_lanczos_fails(monkeypatch):
    """The labels are right even if ARPACK does not converge."""

    def fail(*args):
        raise ArpackNoConvergence("no convergence", np.empty(0), np.empty((0, 0)))

    A, weights, y = blobs()
    monkeypatch.setattr(spectral_embedding, "_DENSE_UP_TO", 10)
    monkeypatch.setattr(spectral_embedding, "lanczos_eigenpairs", fail)
    assert ct.clustering_accuracy(y, spectral_labels(A, weights, 3, 0)) == 1


def test_regular_graph_does_not_stall_lanczos(monkeypatch):
    """Two cliques of equal size, whose constant vector is an eigenvector, are separated."""
    monkeypatch.setattr(spectral_embedding, "_DENSE_UP_TO", 10)
    A = np.kron(np.eye(2), np.ones((20, 20)))
    labels = spectral_labels(A, np.ones(40), 2, random_state=0)
    assert (labels == np.repeat([0, 1], 20)).all()


def test_graph_with_more_components_than_clusters():
    """No component is divided."""
    part = np.repeat(np.arange(5), [2, 4, 6, 8, 10])
    A = (part[:, None] == part).astype(float)
    labels = spectral_labels(A, np.ones(len(part)), 3, random_state=0)
    assert len(np.unique(labels)) == 3
    assert all(len(np.unique(labels[part == p])) == 1 for p in range(5))


def test_a_row_of_zeros_is_labelled():
    """A row without affinity does not change the clusters of the others."""
    A = np.zeros((7, 7))
    A[:3, :3] = A[3:6, 3:6] = 1
    labels = spectral_labels(A, np.ones(7), 2, random_state=0)
    assert (labels[:6] == [0, 0, 0, 1, 1, 1]).all() and labels[6] in (0, 1)


@pytest.mark.parametrize("factor", [1e-6])
def test_scale_of_the_affinity_does_not_matter(factor):
    """Affinities in other units give the same labels."""
    A, weights, _ = blobs()
    a = spectral_labels(A, weights, 4, random_state=0)
    assert (spectral_labels(A * factor, weights, 4, random_state=0) == a).all()


def test_one_cluster_and_as_many_clusters_as_rows():
    """K = 1 gives one cluster, K ≥ u a separate cluster for each row."""
    A, weights, _ = blobs(9)
    assert (spectral_labels(A, weights, 1) == 0).all()
    assert (spectral_labels(A, weights, 9) == np.arange(9)).all()
    assert (spectral_labels(A, weights, 20) == np.arange(9)).all()


def test_affinity_is_not_changed():
    """The given matrix is not overwritten."""
    A, weights, _ = blobs()
    before = A.copy()
    spectral_labels(A, weights, 3, 0)
    assert (A == before).all()
