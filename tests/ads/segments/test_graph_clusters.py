"""Normalised cuts of graphs with known clusters."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from sklearn.metrics import adjusted_rand_score

from coterie.ads.segments import graph_clusters
from coterie.ads.segments.graph_clusters import normalised_cuts
from coterie.errors import InvalidParameterError
from coterie.labels.encode import renumber_by_appearance


def normalised_cut(graph, k, random_state=0):
    """Labels of one cut."""
    return normalised_cuts(graph, [k], random_state)[:, 0]


def blocks(*sizes):
    """Cliques without edges between them, and the clique of each vertex."""
    return sp.block_diag(
        [sp.csr_array(np.ones((n, n)) - np.eye(n)) for n in sizes], format="csr"
    ), np.repeat(np.arange(len(sizes)), sizes)


def planted(sizes, inside, outside, seed=0):
    """A random graph with more edges inside groups than between them, and the groups."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    chance = np.where(y[:, None] == y, inside, outside)
    upper = np.triu(rng.random(chance.shape) < chance, k=1)
    return sp.csr_array(upper | upper.T), y


def random_graph(n, share, seed):
    """A random symmetric graph without loops, weighted."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) * (rng.random((n, n)) < share), k=1)
    return upper + upper.T


@pytest.mark.parametrize("sizes", [(40, 30, 20), (300, 200, 100, 50)], ids=["dense", "sparse"])
def test_planted_groups_are_found(sizes):
    """Groups with ten times as many edges inside are found, below and above 300 vertices."""
    graph, y = planted(sizes, 0.5, 0.05)
    labels = normalised_cut(graph, len(sizes))
    assert adjusted_rand_score(y, labels) > 0.98
    assert_array_equal(labels, renumber_by_appearance(labels))


@pytest.mark.parametrize("sizes", [(50, 5, 20), (400, 2, 30, 100), (20,) * 30])
def test_components_are_clusters(sizes):
    """Every clique is a cluster, small or large, and also among thirty equal ones."""
    graph, y = blocks(*sizes)
    assert_array_equal(normalised_cut(graph, len(sizes)), y)


def test_loosely_connected_vertices_are_not_a_cluster():
    """A pair joined by one edge is the cheapest cut, but the groups are found."""
    graph, y = planted((200, 200), 0.3, 0.02)
    hanging = np.zeros((402, 402))
    hanging[:400, :400] = graph.toarray()
    hanging[400, 401] = hanging[400, 0] = 1
    labels = normalised_cut(np.maximum(hanging, hanging.T), 2)
    assert adjusted_rand_score(y, labels[:400]) > 0.95


def test_weights_count():
    """Weak edges between groups of strong edges do not hide them."""
    y = np.repeat([0, 1], 30)
    graph = np.where(y[:, None] == y, 1.0, 0.05)
    assert_array_equal(normalised_cut(graph, 2), y)


@pytest.mark.parametrize("scale", [1e-300, 7.0, 1e300])
def test_scale_and_diagonal_have_no_effect(scale):
    """A multiple of the graph with any diagonal has the same clusters."""
    graph, _ = planted((30, 30, 30), 0.5, 0.05)
    changed = scale * (graph.toarray() + np.diag(np.arange(90.0)))
    assert_array_equal(normalised_cut(changed, 3, 0), normalised_cut(graph, 3, 0))


def test_the_graph_is_not_changed():
    """The diagonal is removed from a copy."""
    graph = sp.csr_array(np.ones((5, 5)))
    normalised_cut(graph, 2, 0)
    assert_array_equal(graph.toarray(), np.ones((5, 5)))


def test_several_k_at_once():
    """Every column is the cut into its K, in the given order."""
    graph, y = blocks(30, 20, 10)
    labels = normalised_cuts(graph, [3, 1, 2], random_state=0)
    assert labels.shape == (60, 3)
    assert_array_equal(labels[:, 0], y)
    assert_array_equal(labels[:, 1], 0)
    assert labels[:, 2].max() == 1
    for column, k in enumerate([3, 1, 2]):
        assert_array_equal(labels[:, column], normalised_cut(graph, k))
    assert normalised_cuts(graph, []).shape == (60, 0)


def test_isolated_vertices_have_no_label():
    """Vertices without neighbours get −1 and do not affect the others."""
    graph, y = blocks(30, 20)
    lonely = np.zeros((53, 53))
    there = np.setdiff1d(np.arange(53), [0, 17, 52])
    lonely[np.ix_(there, there)] = graph.toarray()
    labels = normalised_cut(lonely, 2)
    assert_array_equal(labels[there], y)
    assert_array_equal(labels[[0, 17, 52]], -1)


@pytest.mark.parametrize("n", [0, 1, 4])
def test_no_edges_no_clusters(n):
    """A graph without edges has only the label −1."""
    empty = sp.csr_array((n, n))
    assert_array_equal(normalised_cuts(empty, [2, 3]), np.full((n, 2), -1))


def test_more_clusters_than_vertices():
    """Each vertex with a neighbour is one cluster."""
    graph, _ = blocks(3, 1)
    assert_array_equal(normalised_cut(graph, 9), [0, 1, 2, -1])


@pytest.mark.parametrize("n", [20, 400])
def test_a_complete_graph(n):
    """Any cut of equal vertices is allowed."""
    graph, _ = blocks(n)
    labels = normalised_cut(graph, 3)
    assert labels.min() == 0
    assert labels.max() <= 2


@pytest.mark.parametrize("n", [60, 500])
def test_eigenvectors_are_those_of_the_dense_matrix(n):
    """Below and above the size up to which the matrix is formed."""
    S = random_graph(n, 0.2, seed=n)
    S = S / S.max()
    sums = S.sum(axis=1) + 1
    summed = S + np.eye(n) + sums.mean() / n
    roots = np.sqrt(summed.sum(axis=1))
    N = summed / roots / roots[:, None]
    vectors = graph_clusters._leading_vectors(graph_clusters._checked_graph(S), 5)
    values = np.linalg.eigvalsh(N)[:-6:-1]
    assert_allclose(N @ vectors, vectors * values, atol=1e-3)


def test_the_same_seed_the_same_labels():
    """Labels depend only on graph and seed, also with equal eigenvalues."""
    graph, _ = planted((200, 150), 0.2, 0.1)
    several = sp.block_diag([graph, graph], format="csr")
    first, second = (normalised_cuts(several, [2, 5, 8], random_state=3) for _ in range(2))
    assert_array_equal(first, second)


def test_without_convergence_power_steps_take_over(monkeypatch):
    """If ARPACK does not converge, power steps find the clusters."""

    def fails(*_, **__):
        raise ArpackNoConvergence("no", np.empty(0), np.empty((0, 0)))

    monkeypatch.setattr(graph_clusters, "eigsh", fails)
    graph, y = planted((200, 150, 100), 0.5, 0.05)
    assert adjusted_rand_score(y, normalised_cut(graph, 3)) > 0.98


def test_older_scipy(monkeypatch):
    """An eigsh without the parameter of a generator is supported."""

    def older(A, k, which, v0, tol, maxiter):
        return eigsh(A, k=k, which=which, v0=v0, tol=tol, maxiter=maxiter)

    monkeypatch.setattr(graph_clusters, "eigsh", older)
    monkeypatch.setattr("coterie.relaxation.spectral.eigsh", older)
    graph, y = blocks(200, 150)
    assert_array_equal(normalised_cut(graph, 2), y)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (np.ones((2, 3)), r"shape \(2, 3\); it must be square"),
        ([[0, 1], [0, 0]], "not symmetric: row 0 and column 0"),
        ([[0, 1.0], [0.5, 0]], "not symmetric"),
        ([[0, -1], [-1, 0]], "row 0, column 1: -1"),
        ([[0, 1, 0], [1, 0, np.nan], [0, np.nan, 0]], "row 1, column 2: nan"),
        ([["a", "b"], ["c", "d"]], "not a table of numbers"),
    ],
)
def test_invalid_graphs_are_refused(graph, message):
    """The message says what is wrong, and where."""
    with pytest.raises(InvalidParameterError, match=message):
        normalised_cut(graph, 2)


def test_invalid_settings_are_refused():
    """Numbers of clusters are whole and at least 1."""
    for k in (0, -1, 2.5, "2", None):
        with pytest.raises(InvalidParameterError, match="number of clusters"):
            normalised_cuts(np.ones((3, 3)), [2, k])
