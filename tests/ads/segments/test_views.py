"""Views of advertisers: their partitions, settings and missing labels."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.ads.curves.landscapes import evidence_of, share_of_cost, share_of_wins
from coterie.ads.segments import views as views_module
from coterie.ads.segments.graph_clusters import normalised_cuts
from coterie.ads.segments.similarity import compare_curves, ks_graph
from coterie.ads.segments.text_view import description_vectors, text_clusters
from coterie.ads.segments.views import make_views
from coterie.inspection.scores import adjusted_rand_index
from leader_rule import leader_clusters
from markets import EASY, log_of, market

ALPHAS, KS = (0.01, 0.1), (3, 5)


def views_of(histograms, descriptions=None, days=None, **how):
    """All views of a log."""
    vectors = description_vectors(histograms, descriptions)
    how = {"ks": KS, "alphas": ALPHAS, **how}
    return make_views(histograms.dense(days), evidence_of(histograms, days), vectors, **how)


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
            np.testing.assert_array_equal(view.column(**settings), labels)
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
    np.testing.assert_array_equal((views["text"].partitions >= 0).all(axis=1), has_text)
    np.testing.assert_array_equal((views["market"].partitions >= 0).all(axis=1), has_bid)
    unwon = counts.wins.sum(axis=1) == 0
    for name in ("win", "cost"):
        assert (views[name].partitions[unwon] == -1).all()


def test_views_find_what_was_planted(views):
    """With right texts and many bids, the text and the market view find the segments."""
    made = market(EASY)
    for name, least in (("text", 0.8), ("market", 0.9)):
        labels = views[name].column(k=3)
        there = labels >= 0
        assert adjusted_rand_index(labels[there], made.segments[there]) > least


@pytest.mark.parametrize("over", ["wins", "bids"])
def test_win_and_cost_views_are_cuts_of_the_graphs(over):
    """They are cuts of the graph of nearest advertisers, and count all pairs and leaders."""
    made = market(EASY)
    counts = made.histograms.dense()
    wins = counts.wins.sum(axis=1)
    how = {"max_observations": 500, "tolerance": 0.02}
    found = views_of(made.histograms, n_neighbors=6, wins_over=over, **how)
    assert tuple(found) == ("win", "cost", "market")
    curves = {"win": share_of_wins(counts, over), "cost": share_of_cost(counts)}
    for name, curve in curves.items():
        for alpha in ALPHAS:
            graph = ks_graph(curve, wins, alpha, **how)
            assert found[name].edges[alpha] == graph.nnz // 2
            assert found[name].leaders[alpha] == leader_clusters(graph, wins).max() + 1
            nearest = compare_curves(curve, wins, ALPHAS, n_neighbors=6, **how).graphs[
                ALPHAS.index(alpha)
            ]
            assert nearest.nnz < graph.nnz
            cut = normalised_cuts(nearest, [3], random_state=0)[:, 0]
            np.testing.assert_array_equal(found[name].column(alpha=alpha, k=3), cut)
        assert found[name].edges[0.01] >= found[name].edges[0.1]


@pytest.mark.parametrize(("most", "expected"), [(90, None), (89, 6)])
def test_many_advertisers_are_joined_to_their_nearest(monkeypatch, most, expected):
    """Up to a number of advertisers all similar pairs are kept, above it the nearest."""
    monkeypatch.setattr(views_module, "_MOST_IN_ALL_PAIRS", most)
    monkeypatch.setattr(views_module, "_NEAREST", 6)
    histograms = market(EASY).histograms
    assert (histograms.dense().wins.sum(axis=1) > 0).sum() == 90
    found, wanted = views_of(histograms), views_of(histograms, n_neighbors=expected)
    for name, view in found.items():
        np.testing.assert_array_equal(view.partitions, wanted[name].partitions)


def test_texts_are_clustered_once_for_each_level(views):
    """The text view has as many partitions as the others, from different starts."""
    made = market(EASY)
    vectors = description_vectors(made.histograms, made.descriptions)
    for start in (0, 1):
        expected = text_clusters(vectors, KS, random_state=start)
        for at, k in enumerate(KS):
            np.testing.assert_array_equal(views["text"].column(k=k, start=start), expected[:, at])


def test_views_the_data_do_not_allow_are_left_out():
    """With fewer than two winners and no texts there is no view."""
    log = log_of(bid=[5, 6, 7], won=[1, 0, 0], price=3, advertiser=[0, 1, 2], edges=[5, 10])
    assert views_of(log, ks=(2,)) == {}
    texts = {"a000": "beach hotel", "a001": "car dealer"}
    found = views_of(log, texts, ks=(2,))
    assert tuple(found) == ("text", "market")
    assert found["text"].partitions.tolist() == [[0, 0], [1, 1], [-1, -1]]
    empty = views_of(log, dict.fromkeys(texts, "  "), ks=(2,))
    assert empty == {}


def test_views_without_similar_advertisers_have_no_labels():
    """Two very different advertisers get the label −1."""
    price = np.repeat([10, 90], 200)
    log = log_of(
        bid=price, won=True, price=price, advertiser=np.repeat([0, 1], 200), edges=[10, 50, 90]
    )
    found = views_of(log, ks=(1,))
    assert tuple(found) == ("win", "cost", "market")
    assert all((view.partitions == -1).all() for view in found.values())
    assert found["win"].edges == {0.01: 0, 0.1: 0}
