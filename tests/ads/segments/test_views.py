"""Views of advertisers: their partitions, settings and missing labels; clusters of graphs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from coterie.ads.curves.landscapes import evidence_of, share_of_cost, share_of_wins
from coterie.ads.logs.simulation.simulated_traits import MarketSettings, draw_traits
from coterie.ads.segments import views as views_module
from coterie.ads.segments.memberships import learn_memberships
from coterie.ads.segments.settings import SegmentSettings
from coterie.ads.segments.similarity import compare_curves, ks_graph
from coterie.ads.segments.text_view import TextView
from coterie.ads.segments.views import make_views, normalised_cuts, text_clusters, text_themes
from coterie.labels.encode import renumber_by_appearance
from leader_rule import leader_clusters
from markets import EASY, description_vectors, log_of, market

ALPHAS, KS = (0.01, 0.1), (3, 5)


def views_of(histograms, descriptions=None, days=None, **how):
    """All views of a log."""
    vectors = description_vectors(histograms, descriptions)
    chosen = SegmentSettings(**{"n_segments": KS, "alphas": ALPHAS, **how})
    return make_views(histograms.dense(days), evidence_of(histograms, days), vectors, chosen)


@pytest.fixture(scope="module")
def views():
    """Views of the training days of an easy market."""
    made = market(EASY)
    return views_of(made.histograms, made.descriptions, [0, 1, 2])


def test_every_view_has_its_partitions_and_their_settings(views):
    """A view has one column per setting, with labels from 0 to K − 1."""
    assert tuple(views) == ("text", "win", "cost", "market")
    for name, view in views.items():
        assert view.name == name
        assert view.partitions.shape == (90, len(view.settings))
        for settings, labels in zip(view.settings, view.partitions.T, strict=True):
            assert labels.min() >= -1 and labels.max() < settings["k"]
            assert_array_equal(view.column(**settings), labels)
    by_settings = {name: [tuple(s.values()) for s in view.settings] for name, view in views.items()}
    by_test = [(alpha, k) for alpha in ALPHAS for k in KS]
    assert by_settings["win"] == by_settings["cost"] == by_test
    assert by_settings["text"] == [(k, start) for start in (0, 1) for k in KS]
    assert by_settings["market"] == [(k, name) for name in ("text", "win", "cost") for k in KS]
    with pytest.raises(KeyError, match="the view win has no partition with"):
        views["win"].column(k=99)


def test_views_have_no_label_without_data(views):
    """Advertisers without a text, a win or a bid get −1."""
    made = market(EASY)
    counts = made.histograms.dense([0, 1, 2])
    has_text = np.array([str(name) in made.descriptions for name in made.histograms.advertisers])
    has_bid = counts.bids.sum(axis=1) > 0
    assert not has_text.all() and not has_bid.all()
    assert_array_equal((views["text"].partitions >= 0).all(axis=1), has_text)
    assert_array_equal((views["market"].partitions >= 0).all(axis=1), has_bid)
    unwon = counts.wins.sum(axis=1) == 0
    for name in ("win", "cost"):
        assert (views[name].partitions[unwon] == -1).all()


def test_views_find_what_was_planted(views):
    """With right texts and many bids, the text and the market view find the segments."""
    made = market(EASY)
    for name, least in (("text", 0.8), ("market", 0.9)):
        labels = views[name].column(k=3)
        there = labels >= 0
        assert adjusted_rand_score(labels[there], made.segments[there]) > least


def test_all_similar_pairs_and_their_leaders_are_counted():
    """However many neighbours the graphs keep."""
    histograms = market(EASY).histograms
    counts, how = histograms.dense(), {"max_observations": 50, "tolerance": 0.02}
    wins = counts.wins.sum(axis=1)
    found = views_of(histograms, n_neighbors=6, **how)
    assert tuple(found) == ("win", "cost", "market")
    for name, curve in (("win", share_of_wins(counts)), ("cost", share_of_cost(counts))):
        for alpha in ALPHAS:
            graph = ks_graph(curve, wins, alpha, **how)
            assert found[name].edges[alpha] == graph.nnz // 2
            assert found[name].leaders[alpha] == leader_clusters(graph, wins).max() + 1


@pytest.mark.parametrize(("most", "expected"), [(90, None), (89, 6)])
def test_many_advertisers_are_joined_to_their_nearest(monkeypatch, most, expected):
    """Up to a number of advertisers all similar pairs are kept, above it the nearest."""
    monkeypatch.setattr(views_module, "_MOST_IN_ALL_PAIRS", most)
    monkeypatch.setattr(views_module, "_NEAREST", 6)
    histograms = market(EASY).histograms
    assert (histograms.dense().wins.sum(axis=1) > 0).sum() == 90
    found, wanted = views_of(histograms), views_of(histograms, n_neighbors=expected)
    for name, view in found.items():
        assert_array_equal(view.partitions, wanted[name].partitions)


def test_every_setting_reaches_the_views_it_is_for():
    """Views by unusual settings are those of their parts, and no setting is without effect."""
    made = market(EASY)
    histograms, evidence = made.histograms, evidence_of(made.histograms)
    vectors = description_vectors(histograms, made.descriptions)
    how = {"max_observations": 20, "tolerance": 0.25, "n_neighbors": 4}
    odd = {"n_segments": 12, "alphas": (0.01, 0.3), "wins_over": "bids", "random_state": 5, **how}
    found = views_of(histograms, made.descriptions, **odd)
    assert [chosen["start"] for chosen in found["text"].settings] == [5, 6]
    for start in (5, 6):
        expected = text_clusters(vectors, [12], random_state=start)[:, 0]
        assert_array_equal(found["text"].column(start=start), expected)
    counts = histograms.dense()
    wins = counts.wins.sum(axis=1)
    curves = {"win": share_of_wins(counts, "bids"), "cost": share_of_cost(counts)}
    for name, curve in curves.items():
        graphs = compare_curves(curve, wins, odd["alphas"], **how).graphs
        for alpha, graph in zip(odd["alphas"], graphs, strict=True):
            cut = normalised_cuts(graph, [12], random_state=5)[:, 0]
            assert_array_equal(found[name].column(alpha=alpha), cut)
    for place, name in enumerate(("text", "win", "cost")):
        start = found[name].partitions[:, 0]
        expected = learn_memberships(evidence, start, max_observations=20).labels
        labels = np.where(evidence.observations > 0, expected, -1)
        assert_array_equal(found["market"].partitions[:, place], labels)
        assert (learn_memberships(evidence, start).labels != expected).any()
    usual = views_of(histograms, made.descriptions)
    for name, value in odd.items():
        changed = views_of(histograms, made.descriptions, **{name: value})
        assert any(
            one.partitions.shape != other.partitions.shape
            or (one.partitions != other.partitions).any()
            for one, other in zip(usual.values(), changed.values(), strict=True)
        ), name


def test_views_the_data_do_not_allow_are_left_out():
    """With fewer than two winners and no texts there is no view."""
    log = log_of(bid=[5, 6, 7], won=[1, 0, 0], price=3, advertiser=[0, 1, 2], edges=[5, 10])
    assert views_of(log, n_segments=2) == {}
    texts = {"a000": "beach hotel", "a001": "car dealer"}
    found = views_of(log, texts, n_segments=2)
    assert tuple(found) == ("text", "market")
    assert found["text"].partitions.tolist() == [[0, 0], [0, 0], [-1, -1]]
    empty = views_of(log, dict.fromkeys(texts, "  "), n_segments=2)
    assert empty == {}


def test_views_without_similar_advertisers_have_no_labels():
    """Two very different advertisers get the label −1."""
    price = np.repeat([10, 90], 200)
    log = log_of(
        bid=price, won=True, price=price, advertiser=np.repeat([0, 1], 200), edges=[10, 50, 90]
    )
    found = views_of(log, n_segments=1)
    assert tuple(found) == ("win", "cost", "market")
    assert all((view.partitions == -1).all() for view in found.values())
    assert found["win"].edges == {0.01: 0, 0.1: 0}


def test_clusters_of_texts():
    """Two subjects are two clusters; there is a column per K; a missing text has no label."""
    travel = ["beach hotel deals", "hotel on the beach", "beach hotel", "best beach hotel"]
    cars = ["used car dealer", "car dealer", "car dealer lease", "best car dealer"]
    vectors = TextView().fit_transform([*travel, "", *cars])
    labels = text_clusters(vectors, [2, 1, 8, 99], random_state=0)
    assert_array_equal(labels[4], -1)
    assert_array_equal(labels[:, 0], [0, 0, 0, 0, -1, 1, 1, 1, 1])
    assert_array_equal(labels[:, 1], [0, 0, 0, 0, -1, 0, 0, 0, 0])
    for column in (2, 3):
        assert_array_equal(labels[:, column], [0, 1, 2, 3, -1, 4, 5, 6, 7])


def test_clusters_of_few_rows():
    """No rows, rows of zeros, and fewer distinct rows than clusters are accepted."""
    assert text_clusters(np.empty((0, 3)), [2]).shape == (0, 1)
    assert_array_equal(text_clusters(np.zeros((2, 3)), [1, 2]), np.full((2, 2), -1))
    same = text_clusters(np.full((5, 2), np.sqrt(0.5)), [3], random_state=0)
    assert_array_equal(same[:, 0], 0)


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


@pytest.mark.parametrize("number", [1, 3, 8])
def test_there_are_as_many_themes_as_were_planted(number):
    """Nearly every text is in the theme of its segment; one without words is in none."""
    traits = draw_traits(MarketSettings(advertisers=400, segments=number, text_error=0.0))
    found = text_themes(TextView().fit_transform(traits.text))
    assert ((found == -1) == (traits.text == "")).all()
    known = found >= 0
    assert found.max() == number - 1
    assert adjusted_rand_score(traits.segment[known], found[known]) > 0.9


@pytest.mark.parametrize("vectors", [np.empty((0, 2)), np.zeros((3, 2)), np.ones((3, 2))])
def test_few_or_equal_texts_have_one_theme_at_most(vectors):
    """Texts without words have none."""
    assert text_themes(vectors).tolist() == [0 if row.any() else -1 for row in vectors]


@pytest.mark.parametrize("sizes", [(40, 30, 20), (300, 200, 100, 50)], ids=["dense", "sparse"])
def test_planted_groups_are_found(sizes):
    """Groups with ten times as many edges inside are found, below and above 300 vertices."""
    graph, y = planted(sizes, 0.5, 0.05)
    labels = normalised_cut(graph, len(sizes))
    assert adjusted_rand_score(y, labels) > 0.98
    assert_array_equal(labels, renumber_by_appearance(labels))


@pytest.mark.parametrize("n", [30, 250])
def test_cuts_are_k_means_of_the_leading_eigenvectors(n):
    """Of the matrix of the definition, below and above the size up to which it is formed."""
    graph, _ = planted((n, n, n), 0.3, 0.08, seed=1)
    weights = np.triu(np.random.default_rng(n).uniform(0.2, 3, graph.shape))
    S = graph.toarray() * (weights + weights.T)
    summed = S / S.max() + np.eye(3 * n)
    summed += summed.sum(axis=1).mean() / (3 * n)
    roots = np.sqrt(summed.sum(axis=1))
    N = summed / roots / roots[:, None]
    operator = views_module._Normalised(sp.csr_array(S / S.max()))
    np.testing.assert_allclose(operator @ np.eye(3 * n), N, atol=1e-12)
    vectors = np.linalg.eigh(N)[1][:, :-5:-1]
    rows = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = KMeans(4, n_init=5, random_state=0).fit(rows).labels_
    assert adjusted_rand_score(normalised_cut(S, 4), expected) > 0.97


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


def test_the_graph_is_not_changed():
    """It is scaled in a copy, by any factor."""
    graph, _ = planted((30, 30, 30), 0.5, 0.05)
    for scale in (1e-300, 7.0, 1e300):
        scaled = graph * scale
        before = scaled.copy()
        assert_array_equal(normalised_cut(scaled, 3), normalised_cut(graph, 3))
        assert_array_equal(scaled.toarray(), before.toarray())


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

    monkeypatch.setattr(views_module, "eigsh", fails)
    graph, y = planted((200, 150, 100), 0.5, 0.05)
    assert adjusted_rand_score(y, normalised_cut(graph, 3)) > 0.98


def test_older_scipy(monkeypatch):
    """An eigsh without the parameter of a generator is supported."""

    def older(A, k, which, v0, tol, maxiter):
        return eigsh(A, k=k, which=which, v0=v0, tol=tol, maxiter=maxiter)

    monkeypatch.setattr(views_module, "eigsh", older)
    monkeypatch.setattr("coterie.relaxation.spectral.eigsh", older)
    graph, y = blocks(200, 150)
    assert_array_equal(normalised_cut(graph, 2), y)
