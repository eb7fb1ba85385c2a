"""Kolmogorov–Smirnov distances and graphs equal the definition in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from scipy.special import kolmogorov
from scipy.stats import kstwobign

from coterie.ads.segments import similarity
from coterie.ads.segments.similarity import (
    compare_curves,
    kolmogorov_critical_value,
    ks_distances,
    ks_graph,
)
from coterie.errors import InvalidParameterError
from leader_rule import leader_clusters


def some_curves(n, points, seed=0, laws=4):
    """Empirical c.d.f.s of a few distributions on one grid, and their numbers of observations."""
    rng = np.random.default_rng(seed)
    observations = rng.integers(1, 400, n)
    shares = rng.dirichlet(np.ones(points), laws)[rng.integers(0, laws, n)]
    counts = rng.multinomial(observations, shares)
    return np.cumsum(counts, axis=1) / observations[:, None], observations.astype(float)


def ks_graphs(*curves_and_levels, **how):
    """The graphs of several levels."""
    return compare_curves(*curves_and_levels, **how).graphs


def textbook(curves, observations, alpha, max_observations=np.inf, tolerance=0.0):
    """D_ij ≤ max(C √(1/m_i + 1/m_j), tolerance), in float64, without the diagonal."""
    curves, m = np.asarray(curves), np.minimum(observations, max_observations)
    D = cdist(curves, curves, "chebyshev")
    spread = np.sqrt(1.0 / m[:, None] + 1.0 / m)
    similar = np.maximum(kolmogorov_critical_value(alpha) * spread, tolerance) >= D
    np.fill_diagonal(similar, False)
    return similar


@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.3])
def test_critical_values_are_quantiles_of_the_kolmogorov_distribution(alpha):
    """They equal those of SciPy."""
    assert_allclose(kolmogorov_critical_value(alpha), kstwobign.isf(alpha), rtol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 64, 65, 200])
def test_distances_are_chebyshev_distances(n):
    """They equal SciPy's to within 2⁻²⁴, symmetric, 0 on the diagonal, for any number of rows."""
    curves, _ = some_curves(n, 17)
    distances = ks_distances(curves)
    assert distances.shape == (n, n)
    assert distances.dtype == np.float32
    assert_allclose(distances, cdist(curves, curves, "chebyshev"), rtol=0, atol=2**-24)
    assert_array_equal(distances, distances.T)
    assert not distances.diagonal().any()


def test_distances_that_do_not_fit_are_refused(monkeypatch):
    """The message has the memory needed and the alternative; nothing is allocated."""
    monkeypatch.setattr(similarity, "available_memory", lambda: 1000)
    with pytest.raises(InvalidParameterError, match=r"need .* free; ks_graph"):
        ks_distances(some_curves(50, 4)[0])


@pytest.mark.parametrize(("n", "points"), [(1, 5), (64, 1), (65, 100), (700, 32)])
def test_graph_equals_the_definition(n, points):
    """Every edge is that of float64 arithmetic, across tiles and blocks of rows."""
    curves, m = some_curves(n, points, seed=n + points)
    assert_array_equal(ks_graph(curves, m, 0.05).toarray(), textbook(curves, m, 0.05))


@settings(deadline=None, max_examples=50)
@given(
    st.integers(2, 12),
    st.integers(1, 40),
    st.integers(0, 10**6),
    st.floats(0.001, 0.999),
    st.sampled_from([np.inf, 1.0, 25.5]),
    st.sampled_from([0.0, 0.05, 0.3, 1.0]),
)
def test_any_setting_equals_the_definition(n, points, seed, alpha, cap, tolerance):
    """For any level, limit of observations and tolerance."""
    curves, m = some_curves(n, points, seed)
    graph = ks_graph(curves, m, alpha, max_observations=cap, tolerance=tolerance)
    assert_array_equal(graph.toarray(), textbook(curves, m, alpha, cap, tolerance))


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**6), st.integers(1, 40))
def test_rounding_changes_no_edge(seed, points):
    """A distance equal to its threshold joins; a threshold one float64 lower does not."""
    rng = np.random.default_rng(seed)
    pair = np.sort(rng.random((2, points)), axis=1)
    gap = np.abs(pair[0] - pair[1]).max()
    m = [1e12, 1e12]
    assert ks_graph(pair, m, tolerance=gap).nnz == 2
    assert ks_graph(pair, m, tolerance=np.nextafter(gap, 0)).nnz == 0


def test_several_levels_at_once():
    """Levels in any order, even repeated, give the graphs that each gives alone."""
    curves, m = some_curves(150, 20)
    levels = [0.05, 0.5, 0.01, 0.05]
    graphs = ks_graphs(curves, m, levels)
    for graph, alpha in zip(graphs, levels, strict=True):
        assert_array_equal(graph.toarray(), textbook(curves, m, alpha))
    assert ks_graphs(curves, m, []) == []


def test_levels_fit_in_a_byte():
    """255 levels are distinguished; one more is refused."""
    pair = np.array([[0.0, 1.0], [0.5, 1.0]])
    levels = np.linspace(0.2, 0.9, 256)
    joined = [graph.nnz > 0 for graph in ks_graphs(pair, [8, 8], levels[:255])]
    assert joined == [textbook(pair, [8, 8], alpha).any() for alpha in levels[:255]]
    with pytest.raises(InvalidParameterError, match="alphas has 256"):
        ks_graphs(pair, [8, 8], levels)


def nearest_textbook(curves, m, alphas, most):
    """Graphs of the pairs of which one is among the nearest of the other at the lowest level."""
    curves, A = np.asarray(curves), len(m)
    fine = np.rint(curves * 2**24)
    similar = textbook(curves, m, min(alphas))
    among = np.zeros((A, A), dtype=bool)
    for i in range(A):
        gap = np.abs(fine[i] - fine).max(axis=1)
        order = np.lexsort(((np.arange(A) - i) % A, -m, gap))
        among[i, order[similar[i][order]][:most]] = True
    return [(among | among.T) & textbook(curves, m, alpha) for alpha in alphas]


@example(590, 9, 1, 6)  # across tiles of columns
@settings(deadline=None, max_examples=50)
@given(st.integers(2, 90), st.integers(1, 20), st.integers(0, 10**6), st.integers(1, 9))
def test_nearest_neighbours_equal_the_definition(n, points, seed, most):
    """Also where many curves are equal."""
    curves, m = some_curves(n, points, seed)
    m = np.maximum(m // 40, 1)
    curves[::3] = curves[0]
    levels = [0.05, 0.5, 0.01]
    found = ks_graphs(curves, m, levels, n_neighbors=most)
    for graph, expected in zip(found, nearest_textbook(curves, m, levels, most), strict=True):
        assert_array_equal(graph.toarray(), expected)


@pytest.mark.parametrize("n", [64, 700])
def test_enough_neighbours_are_all(n):
    """A number of neighbours that nobody has gives the graphs without a limit."""
    curves, m = some_curves(n, 20)
    for weights in ("binary", "pvalue"):
        every, some = (
            ks_graphs(curves, m, [0.01, 0.1], weights=weights, n_neighbors=most)
            for most in (None, n)
        )
        for one, other in zip(every, some, strict=True):
            assert_array_equal(one.toarray(), other.toarray())


@pytest.mark.parametrize("most", [None, 1, 8])
def test_pairs_and_leaders_are_of_all_similar_pairs(most):
    """However many neighbours the graphs keep."""
    curves, m = some_curves(200, 12)
    m[[3, 50]] = 0
    levels = [0.1, 0.01]
    found = compare_curves(curves, m, levels, max_observations=50, n_neighbors=most)
    every = ks_graphs(curves, m, levels, max_observations=50)
    assert found.pairs == [graph.nnz // 2 for graph in every]
    assert found.leaders() == [leader_clusters(graph, m).max() + 1 for graph in every]


def test_neighbours_limit_the_edges():
    """Of A advertisers that are all similar, each chooses so many."""
    curves, m = np.tile(np.linspace(0, 1, 4), (300, 1)), np.ones(300)
    graph = ks_graph(curves, m, n_neighbors=7)
    degrees = np.diff(graph.indptr)
    # equal curves choose those after them, so that nobody is chosen by all
    assert (degrees == 14).all()


@pytest.mark.parametrize("weights", ["binary", "pvalue"])
def test_graph_is_well_formed(weights):
    """It is symmetric, without loops, sorted and canonical."""
    curves, m = some_curves(100, 12)
    graph = ks_graph(curves, m, weights=weights)
    assert graph.format == "csr"
    assert graph.dtype == (bool if weights == "binary" else np.float32)
    graph.check_format(full_check=True)
    again = graph.copy()
    again.has_canonical_format = False
    again.sum_duplicates()
    assert_array_equal(again.indices, graph.indices)
    assert_array_equal(graph.toarray(), graph.toarray().T)
    assert not graph.diagonal().any()


def test_p_values():
    """An edge holds the p-value of its pair under the limited observations."""
    curves, m = some_curves(80, 12)
    binary = ks_graph(curves, m, 0.05, max_observations=100)
    weighted = ks_graph(curves, m, 0.05, max_observations=100, weights="pvalue")
    assert_array_equal(weighted.toarray() > 0, binary.toarray())
    i, j = weighted.nonzero()
    m = np.minimum(m, 100)
    gaps = np.abs(curves[i] - curves[j]).max(axis=1)
    expected = kolmogorov(gaps * np.sqrt(m[i] * m[j] / (m[i] + m[j])))
    assert_allclose(weighted.data, expected, rtol=1e-4)
    assert weighted.data.min() >= np.float32(0.05)


def test_edges_of_the_tolerance_weigh_alpha():
    """Pairs that only the tolerance joins have the weight of the weakest edge."""
    curves = [[0.1, 1.0], [0.2, 1.0], [0.1, 1.0]]
    graphs = ks_graphs(curves, [1e6] * 3, [0.05, 0.01], tolerance=0.15, weights="pvalue")
    for graph, alpha in zip(graphs, [0.05, 0.01], strict=True):
        assert_allclose(
            graph.toarray(), [[0, alpha, 1], [alpha, 0, alpha], [1, alpha, 0]], rtol=1e-6
        )


def test_no_observations_no_neighbours():
    """An advertiser without observations has no edges, and its curve is not checked."""
    curves, m = some_curves(40, 9)
    curves[[3, 39]] = np.nan
    m[[3, 39]] = 0
    graph = ks_graph(curves, m).toarray()
    known = np.setdiff1d(np.arange(40), [3, 39])
    assert not graph[[3, 39]].any()
    assert not graph[:, [3, 39]].any()
    assert_array_equal(graph[np.ix_(known, known)], textbook(curves[known], m[known], 0.05))


def test_no_known_advertisers():
    """Without advertisers or observations the graph is empty."""
    assert ks_graph(np.empty((0, 3)), []).shape == (0, 0)
    assert ks_graph(np.ones((4, 3)), np.zeros(4)).nnz == 0


def test_the_number_of_threads_changes_nothing(monkeypatch):
    """One thread and four give the same arrays."""
    curves, m = some_curves(300, 12)
    found = []
    for threads in ("1", "4"):
        monkeypatch.setenv("COTERIE_NUM_THREADS", threads)
        found.append((ks_graph(curves, m, weights="pvalue"), ks_distances(curves)))
    assert_array_equal(found[0][0].indices, found[1][0].indices)
    assert_array_equal(found[0][0].data, found[1][0].data)
    assert_array_equal(found[0][1], found[1][1])


def test_rounding_errors_of_curves_are_accepted():
    """Values slightly above 1 or slightly decreasing are accepted."""
    curves = [[0.5, 1 + 1e-12], [0.5, 0.5 - 1e-13], [-1e-12, 1.0]]
    assert_allclose(ks_distances(curves)[0], [0, 0.5, 0.5], atol=2**-24)
    # but not many of them, one after the other
    with pytest.raises(InvalidParameterError, match="column 2"):
        ks_distances([0.5 - 0.9e-9 * np.arange(5)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((2, 3, np.nan), r"row 2, column 3: nan after"),
        ((2, 3, 0.0), r"row 2, column 3: 0 after 0\.\d+; a c\.d\.f\."),
        ((1, 0, -0.5), r"row 1, column 0: -0\.5; "),
        ((1, 7, 1.5), r"row 1, column 7: 1\.5 after"),
    ],
)
def test_invalid_curves_are_refused(change, message):
    """The message has the row in the whole table."""
    curves = np.tile(np.linspace(0.2, 1, 8), (4, 1))
    i, g, value = change
    curves[i, g] = value
    with pytest.raises(InvalidParameterError, match=message):
        ks_distances(curves)
    with pytest.raises(InvalidParameterError, match=message):
        ks_graph(curves, [0, 5, 5, 5])


@pytest.mark.parametrize("curves", [[0.5, 1.0], np.empty((3, 0)), [["a", "b"]], [[0.1], [0.1, 1]]])
def test_invalid_tables_are_refused(curves):
    """Curves must be a table of numbers with at least one column."""
    with pytest.raises(InvalidParameterError, match="curves"):
        ks_distances(curves)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"observations": [1, 2]}, r"curves has shape \(3, 4\) and observations \(2,\)"),
        ({"observations": [[1], [2], [3]]}, r"observations has shape"),
        ({"observations": [1, -2, 3]}, r"observations, row 1: -2"),
        ({"observations": [1, 2, np.inf]}, r"observations, row 2: inf"),
        ({"observations": ["a", "b", "c"]}, r"observations are not numbers"),
        ({"alpha": 5}, "alpha=5"),
        ({"alpha": 0}, "alpha=0"),
        ({"alpha": np.nan}, "alpha=nan"),
        ({"tolerance": -1}, "tolerance=-1"),
        ({"tolerance": np.nan}, "tolerance=nan"),
        ({"max_observations": 0}, "max_observations=0"),
        ({"n_neighbors": 0}, "n_neighbors=0: .*or None"),
        ({"n_neighbors": 1.5}, "n_neighbors=1.5"),
        ({"weights": "cosine"}, "weights='cosine': .*binary or pvalue"),
    ],
)
def test_invalid_settings_are_refused(settings_, message):
    """The message names the setting."""
    settings_ = {"observations": [1, 2, 3], **settings_}
    with pytest.raises(InvalidParameterError, match=message):
        ks_graph(np.tile(np.linspace(0, 1, 4), (3, 1)), **settings_)


def test_a_graph_that_does_not_fit_is_refused(monkeypatch):
    """The search stops when the pairs exceed the memory."""
    curves, m = some_curves(400, 5)
    monkeypatch.setattr(similarity, "available_memory", lambda: 10_000)
    with pytest.raises(InvalidParameterError, match=r"more than [\d,]+ .*set n_neighbors"):
        ks_graph(curves, m)
