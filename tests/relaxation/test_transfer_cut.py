"""The transfer cut equals the normalised cut of the full bipartite graph."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import block_diag, csr_array
from scipy.sparse.linalg import ArpackNoConvergence
from sklearn.preprocessing import normalize

from coterie import clustering_accuracy
from coterie.relaxation import transfer_cut


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
    E = np.repeat(
        transfer_cut.transfer_embedding(csr_array(B), weights, k), weights.astype(int), axis=0
    )
    np.testing.assert_allclose(E @ E.T, expected @ expected.T, atol=1e-6)


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 5), st.integers(0, 2**31))
def test_rows_are_unit_vectors_and_compression_is_exact(u, m, k, seed):
    """A row of multiplicity w equals w rows, for both shapes of the graph."""
    B, weights = random_links(u, m, seed)
    E = transfer_cut.transfer_embedding(csr_array(B), weights, k)
    copies = np.repeat(np.arange(u), weights.astype(int))
    full = transfer_cut.transfer_embedding(csr_array(B[copies]), np.ones(len(copies)), k)
    np.testing.assert_allclose(np.linalg.norm(E, axis=1), 1)
    # Copies of a row add no dimension.
    assert E.shape == (u, min(k, u, m))
    np.testing.assert_allclose((E @ E.T)[copies][:, copies], full @ full.T, atol=1e-5)


def test_small_components_are_joined():
    """With more components than clusters the small ones are joined, and none is divided."""
    sizes = [40, 30, 3, 2, 1]
    B = csr_array(block_diag([csr_array(np.ones((n, 2))) for n in sizes]))
    components = np.repeat(np.arange(5), sizes)
    labels = transfer_cut.transfer_cut(B, np.ones(76), 3, random_state=0)
    labels_of = [set(labels[components == p]) for p in range(5)]
    assert [len(found) for found in labels_of] == [1] * 5
    assert labels_of[0] != labels_of[1] and labels_of[2] == labels_of[3] == labels_of[4]
    assert labels_of[2] not in (labels_of[0], labels_of[1])


def test_fewer_columns_than_clusters():
    """Two columns can give three clusters, by the ratio of the links."""
    B = csr_array(np.repeat([[1.0, 0], [0, 1], [1, 1]], [4, 5, 6], axis=0))
    labels = transfer_cut.transfer_cut(B, np.ones(15), 3, random_state=0)
    assert clustering_accuracy(np.repeat([0, 1, 2], [4, 5, 6]), labels) == 1


def test_rows_without_links_get_the_label_of_the_largest_cluster():
    """An empty row has a zero embedding and changes no other label."""
    B = np.repeat([[1.0, 0], [0, 0], [0, 1]], [2, 3, 4], axis=0)
    weights = np.array([9.0, 1, 50, 50, 50, 1, 1, 1, 1])
    E = transfer_cut.transfer_embedding(csr_array(B), weights, 2)
    assert not E[2:5].any()
    labels = transfer_cut.transfer_cut(csr_array(B), weights, 2, random_state=0)
    assert labels.tolist() == [0] * 5 + [1] * 4


def test_no_links_at_all():
    """A graph without links gives one cluster."""
    B = csr_array((3, 2))
    assert transfer_cut.transfer_embedding(B, np.ones(3), 2).shape == (3, 0)
    assert transfer_cut.transfer_cut(B, np.ones(3), 2).tolist() == [0, 0, 0]


@pytest.mark.parametrize("shape", [(90, 60), (60, 90)])
def test_lanczos_and_lapack_agree(monkeypatch, shape):
    """Above the dense limit the embedding has the same inner products."""
    B, weights = random_links(*shape, 5)
    B += 3 * (np.arange(shape[0])[:, None] % 4 == np.arange(shape[1]) % 4)
    dense = transfer_cut.transfer_embedding(csr_array(B), weights, 4)
    monkeypatch.setattr(transfer_cut, "_DENSE_UP_TO", 10)
    iterated = transfer_cut.transfer_embedding(csr_array(B), weights, 4)
    np.testing.assert_allclose(iterated @ iterated.T, dense @ dense.T, atol=1e-8)


def test_lapack_is_used_if_lanczos_fails(monkeypatch):
    """The embedding is the same if ARPACK does not converge."""

    def fail(*_):
        raise ArpackNoConvergence("none", np.empty(0), np.empty((0, 0)))

    B, weights = random_links(30, 20, 6)
    expected = transfer_cut.transfer_embedding(csr_array(B), weights, 2)
    monkeypatch.setattr(transfer_cut, "_DENSE_UP_TO", 10)
    monkeypatch.setattr(transfer_cut, "lanczos_eigenpairs", fail)
    np.testing.assert_array_equal(
        transfer_cut.transfer_embedding(csr_array(B), weights, 2), expected
    )
