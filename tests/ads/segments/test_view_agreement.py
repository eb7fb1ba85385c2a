"""Agreement of views: pairs of advertisers, weights of views, dissenting views."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, rand_score

from coterie.ads.segments.view_agreement import compare_views, paper_table_of_clusters
from coterie.ads.segments.views import View

LABELS = st.lists(st.integers(-1, 2), min_size=9, max_size=9)


def view_of(name, *partitions, ks=None, edges=None, leaders=None):
    """A view with the given partitions and numbers of clusters."""
    columns = np.array(partitions).T
    ks = [column.max() + 1 for column in partitions] if ks is None else ks
    columns = columns.astype(np.int64)
    return View(name, columns, [{"k": int(k)} for k in ks], edges or {}, leaders or {})


def views_of(**partitions):
    """Views with one partition each."""
    return {name: view_of(name, np.array(labels)) for name, labels in partitions.items()}


@settings(deadline=None, max_examples=50)
@given(LABELS, LABELS, LABELS)
def test_pairs_are_counted_among_advertisers_with_both_labels(first, second, segments):
    """TPN equals brute force over pairs and the Rand index of sklearn; FPN is the rest."""
    segments = np.maximum(segments, 0)
    found = compare_views(views_of(one=first, other=second), segments, None)
    labelled = {"one": np.array(first), "other": np.array(second), "segments": segments}
    assert [(row["a"], row["b"]) for row in found.pairs] == [
        ("one", "other"),
        ("one", "segments"),
        ("other", "segments"),
    ]
    for row in found.pairs:
        assert set(row) == {"a", "b", "tpn", "fpn", "ari"}
        a, b = labelled[row["a"]], labelled[row["b"]]
        both = (a >= 0) & (b >= 0)
        pairs = list(itertools.combinations(np.flatnonzero(both), 2))
        if not pairs:
            assert row["tpn"] is row["fpn"] is row["ari"] is None
            continue
        agree = [(a[i] == a[j]) == (b[i] == b[j]) for i, j in pairs]
        assert row["tpn"] == pytest.approx(np.mean(agree))
        assert row["tpn"] == pytest.approx(rand_score(a[both], b[both]))
        assert row["tpn"] + row["fpn"] == pytest.approx(1)
        assert row["ari"] == pytest.approx(adjusted_rand_score(a[both], b[both]))


def test_every_pair_of_views_has_one_row():
    """Pairs of views come first, then every view with the segments."""
    labels = [0, 0, 1, 1]
    found = compare_views(views_of(text=labels, win=labels, cost=labels), np.array(labels), None)
    names = ("text", "win", "cost")
    assert [(row["a"], row["b"]) for row in found.pairs] == [
        *itertools.combinations(names, 2),
        *((name, "segments") for name in names),
    ]


def test_indices_of_all_views():
    """Adjusted Rand indices of every pair of views and with the segments."""
    text, win = [0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 1, 2]
    segments = np.array([0, 0, 1, 1, 2, 2])
    found = compare_views(views_of(text=text, win=win), segments, None)
    assert found.names == ["text", "win"]
    expected = adjusted_rand_score(text, win)
    np.testing.assert_allclose(found.ari, [[1, expected], [expected, 1]])
    np.testing.assert_allclose(found.with_segments, [1, expected])
    assert found.weights.tolist() == [0.5, 0.5]
    assert found.dissenting == ""
    assert "text view is nearest to the segments (adjusted Rand index 1.00)" in found.sentence
    assert f"win view is farthest ({expected:.2f})" in found.sentence


def test_the_weight_of_a_view_is_that_of_its_partitions():
    """Weights are summed over partitions and scaled to 1."""
    views = {
        "text": view_of("text", np.array([0, 0, 1]), np.array([0, 1, 2])),
        "win": view_of("win", np.array([0, 1, 1])),
    }
    found = compare_views(views, np.array([0, 0, 1]), np.array([1.0, 2.0, 1.0]))
    assert found.weights.tolist() == [0.75, 0.25]
    alike = compare_views(views, np.array([0, 0, 1]), None)
    np.testing.assert_allclose(alike.weights, [2 / 3, 1 / 3])


def test_the_partition_with_the_nearest_number_of_clusters_is_compared():
    """Of several it is the middle one; a partition without labels is not used."""
    segments = np.array([0, 0, 1, 1])
    far, near, silent = np.array([0, 1, 2, 3]), np.array([1, 1, 0, 0]), np.full(4, -1)
    views = {"text": view_of("text", far, near, silent, ks=[4, 2, 2])}
    assert compare_views(views, segments, None).with_segments.tolist() == [1.0]
    views = {"text": view_of("text", near, far, near, ks=[2, 2, 2])}
    found = compare_views(views, segments, None)
    assert found.with_segments[0] == pytest.approx(adjusted_rand_score(segments, far))


def test_each_view_places_advertisers_where_most_of_their_cluster_are():
    """Advertisers without a label get −1."""
    segments = np.array([0, 0, 0, 1, 1, 1])
    found = compare_views(views_of(text=[0, 0, 1, 1, 1, -1], win=[0] * 6), segments, None)
    assert found.placed.tolist() == [[0, 0], [0, 0], [1, 0], [1, 0], [1, 0], [-1, 0]]
    # a cluster without segments gives −1
    unknown = compare_views(views_of(text=[0, 0, 1, 1]), np.array([0, 0, -1, -1]), None)
    assert unknown.placed[:, 0].tolist() == [0, 0, -1, -1]


def test_a_view_without_weight_dissents():
    """The sentence says that it has no weight."""
    segments = np.array([0, 0, 1, 1, 2, 2])
    views = views_of(text=[0, 1, 0, 1, 0, 1], win=segments)
    found = compare_views(views, segments, np.array([0.0, 1.0]))
    assert found.dissenting == "text"
    assert "The text view agrees with the others no better than chance" in found.sentence
    assert "has no weight" in found.sentence


def test_an_unrelated_view_dissents():
    """A view unrelated to the segments dissents if there is another one."""
    segments = np.array([0, 0, 1, 1, 2, 2])
    views = views_of(text=[0, 1, 0, 1, 0, 1], win=segments)
    found = compare_views(views, segments, None)
    assert found.dissenting == "text"
    assert "almost unrelated" in found.sentence
    alone = compare_views(views_of(text=[0, 1, 0, 1, 0, 1]), segments, None)
    assert alone.dissenting == ""
    assert "nearest" in alone.sentence and "farthest" not in alone.sentence


def test_without_views_there_is_nothing_to_compare():
    """All tables are empty."""
    found = compare_views({}, np.full(3, -1), None)
    assert found.names == found.pairs == [] and found.dissenting == ""
    assert found.ari.shape == (0, 0) and found.weights.shape == (0,)
    assert found.placed.shape == (3, 0)
    assert found.sentence == "No view distinguishes the advertisers."


def test_the_papers_table_lists_levels_by_view():
    """It has similar pairs and leader clusters at each level; other views have no rows."""
    labels = np.array([0, 1])
    views = {
        "text": view_of("text", labels),
        "win": view_of("win", labels, edges={0.01: 9, 0.1: 4}, leaders={0.01: 2, 0.1: 3}),
    }
    assert paper_table_of_clusters(views) == [["win", 0.01, 9, 2], ["win", 0.1, 4, 3]]
