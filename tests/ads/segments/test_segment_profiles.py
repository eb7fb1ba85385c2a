"""Segment profiles: names, price levels, outliers, doubtful members; agreement of views."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, rand_score

from coterie.ads.curves.landscapes import evidence_of, own_curves, win_curves
from coterie.ads.curves.shrinkage import overall_rate
from coterie.ads.fitting.forecaster import AdForecaster
from coterie.ads.logs.simulation.simulated_traits import (
    THEMES,
    MarketSettings,
    draw_traits,
    theme_names,
)
from coterie.ads.segments.memberships import Memberships, hard_memberships
from coterie.ads.segments.segment_profiles import (
    bid_that_wins_half,
    compare_views,
    describe_segments,
    distances_from_segments,
    doubtful_members,
    outlying_members,
    segment_curves,
    segment_texts,
)
from coterie.ads.segments.text_view import TextView
from coterie.ads.segments.views import View
from markets import EASY, QUICK, log_of, market


def outliers_of(evidence, memberships):
    """The outliers among advertisers that their segments were found from."""
    curves = segment_curves(evidence, memberships)
    return outlying_members(distances_from_segments(evidence, memberships, curves))


def profiles_at(prices, texts=()):
    """Profiles of segments of one advertiser each, whose auctions all cost one price."""
    edges, labels = np.arange(10, 101, 10), np.arange(len(prices))
    curves = (edges >= np.array(prices)[:, None]).astype(float)
    about = segment_texts(texts, None, labels, len(prices))
    return describe_segments(curves, edges, labels, np.ones(len(prices)), about)


def evidence_at(prices, n=400):
    """Advertisers that win n auctions at one price each."""
    return evidence_of(
        log_of(
            advertiser=np.repeat(np.arange(len(prices)), n),
            bid=100,
            won=True,
            price=np.repeat(prices, n),
            edges=np.arange(10, 101, 10),
        )
    )


def test_segments_are_named_by_their_words_and_price_levels():
    """All words of a segment are of its planted theme."""
    made = market(EASY)
    model = AdForecaster(**{**vars(QUICK), "n_segments": 3}).fit(made.histograms, made.descriptions)
    for s, profile in enumerate(model.segments_):
        members = model.labels_ == s
        theme = theme_names(3)[np.bincount(made.segments[members]).argmax()]
        assert len(profile.words) == 3 and set(profile.words) <= set(THEMES[theme].split())
        assert profile.name.endswith(f", {profile.price_level}")
        assert profile.name.startswith(profile.words[0])
        assert profile.size == members.sum()
        assert profile.observations == pytest.approx(model.observations_[members].sum())
    levels = [profile.price_level for profile in model.segments_]
    assert sorted(levels) == ["high price", "low price", "medium price"]


def test_price_levels_go_by_the_bid_that_wins_half():
    """It is read from the curves of the model, which the report and the service show too."""
    profiles = profiles_at([60, 20, 90])
    assert [profile.median_price for profile in profiles] == [60, 20, 90]
    assert [profile.price_level for profile in profiles] == [
        "medium price",
        "low price",
        "high price",
    ]
    assert profiles[0].name == "segment 1, medium price"
    assert not any(profile.words for profile in profiles)
    made = market(EASY)
    model = AdForecaster(**{**vars(QUICK), "n_segments": 3}).fit(made.histograms)
    for curve, profile in zip(model.segment_win_[:-1], model.segments_, strict=True):
        below = model.edges_ < profile.median_price
        assert (curve[below] < 0.5).all() and (curve[~below] >= 0.5).all()


@pytest.mark.parametrize(
    ("prices", "levels"),
    [
        ([50], ["medium price"]),
        ([90, 20], ["high price", "low price"]),
        ([20, 30, 40, 60, 70, 90], ["low price"] * 2 + ["medium price"] * 2 + ["high price"] * 2),
    ],
)
def test_price_levels_are_thirds_of_the_segments(prices, levels):
    """One segment is medium; two are low and high."""
    assert [profile.price_level for profile in profiles_at(prices)] == levels


@pytest.fixture(scope="module")
def mixed():
    """Profiles of a segment of two planted themes and one of a third, and the number of each."""
    traits = draw_traits(
        MarketSettings(advertisers=300, segments=3, text_error=0.0, text_missing=0.1)
    )
    labels = np.minimum(traits.segment, 1)
    about = segment_texts(traits.text, TextView().fit_transform(traits.text), labels, 2)
    edges = np.array([10, 20])
    profiles = describe_segments(np.ones((2, 2)), edges, labels, np.ones(300), about)
    return profiles, np.bincount(traits.segment[traits.text_is == "right"])


def test_a_mixture_is_named_by_all_its_themes(mixed):
    """Each has words of its own; the purity is the share of the most frequent one."""
    (pure, mixture), (_, *numbers) = mixed
    assert len(pure.themes) == 1 and pure.purity > 0.95 and pure.mixture == ""
    assert pure.name.startswith(pure.words[0])
    assert mixture.purity == pytest.approx(max(numbers) / sum(numbers), abs=0.02)
    planted = [set(THEMES[name].split()) for name in theme_names(3)[1:]]
    found = [set(theme.split()) for theme in mixture.themes]
    assert any(
        found[0] <= one and found[1] <= other for one, other in itertools.permutations(planted)
    )
    assert mixture.name.startswith(" + ".join(theme.split()[0] for theme in mixture.themes))
    assert all(theme in mixture.mixture for theme in mixture.themes)


def test_without_vectors_of_texts_there_is_no_purity():
    """Nor a theme: nothing is said of a mixture."""
    profiles = profiles_at([20, 60], ["shoes", "boots"])
    assert [(one.themes, one.purity, one.mixture) for one in profiles] == [((), None, "")] * 2


def test_names_are_distinct():
    """Segments with equal words and price level are numbered."""
    found = profiles_at([50] * 6, ["shoes"] * 6)
    assert len({profile.name for profile in found}) == 6


def test_a_curve_that_never_wins_half_has_the_last_edge():
    """The first edge at which a curve reaches one half is its bid."""
    edges = np.array([5, 10, 20])
    assert bid_that_wins_half(np.array([0.1, 0.2, 0.3]), edges) == 20
    assert bid_that_wins_half(np.array([0.1, 0.5, 0.9]), edges) == 10


def test_without_segments_there_are_no_profiles():
    """Advertisers outside all segments are counted nowhere, and none is an outlier."""
    none = np.array([-1, -1])
    about = segment_texts(["shoes", "boots"], np.eye(2), none, 0)
    assert describe_segments(np.empty((0, 2)), np.array([5, 10]), none, np.ones(2), about) == []
    evidence = evidence_of(log_of(bid=[5, 5], won=False, price=0, advertiser=[0, 1], edges=[5, 10]))
    outliers = outliers_of(evidence, hard_memberships(evidence, none))
    assert [part.tolist() for part in outliers] == [[], []]


def test_segment_curves_are_made_of_the_segments_rates():
    """The last row is that of all advertisers."""
    made = market(EASY)
    evidence = evidence_of(made.histograms)
    memberships = hard_memberships(evidence, made.segments)
    curves = segment_curves(evidence, memberships)
    assert curves.shape == (4, len(evidence.edges))
    np.testing.assert_allclose(
        curves[-1], win_curves(overall_rate(evidence), np.ones((1, 1)), "hazard")[0], atol=1e-12
    )
    expected = win_curves(memberships.rates, np.ones_like(memberships.rates), "hazard")
    np.testing.assert_allclose(curves, expected)


def test_outliers_differ_significantly_from_their_segment():
    """Well observed outliers are found, the farthest first; a few auctions are not enough."""
    prices = [50] * 30 + [70, 90, 90]
    sizes = [400] * 30 + [300, 400, 3]
    evidence = evidence_at(prices, sizes)
    memberships = hard_memberships(evidence, np.zeros(33, dtype=np.int64))
    outliers, distances = outliers_of(evidence, memberships)
    assert outliers.tolist() == [31, 30]
    gap = np.abs(own_curves(evidence) - segment_curves(evidence, memberships)[0]).max(axis=1)
    np.testing.assert_allclose(distances, gap[[31, 30]])
    alike = evidence_at([50] * 5)
    nobody, _ = outliers_of(alike, hard_memberships(alike, np.zeros(5, dtype=np.int64)))
    assert nobody.tolist() == []


def test_random_deviations_are_no_outliers():
    """The same deviation is no outlier with 40 auctions, and one with 120."""
    sizes = np.array([400] * 10 + [40, 120])
    cheap = np.append(sizes[:10] // 2, sizes[10:] * 3 // 4)
    price = np.concatenate([[20] * c + [80] * (n - c) for n, c in zip(sizes, cheap, strict=True)])
    evidence = evidence_of(
        log_of(
            advertiser=np.repeat(np.arange(12), sizes),
            bid=100,
            won=True,
            price=price,
            edges=np.arange(10, 101, 10),
        )
    )
    memberships = hard_memberships(evidence, np.zeros(12, dtype=np.int64), 400)
    assert outliers_of(evidence, memberships)[0].tolist() == [11]


def test_doubtful_members_have_small_shares():
    """Their largest share is below 0.6; advertisers without bids are not listed."""
    shares = np.array(
        [[0.9, 0.1, 0.0], [0.5, 0.4, 0.1], [0.3, 0.3, 0.4], [0.61, 0.39, 0.0], [0.1, 0.1, 0.8]]
    )
    memberships = Memberships(shares, np.zeros((3, 2)), "hazard")
    observations = np.array([5.0, 5.0, 5.0, 5.0, 0.0])
    assert doubtful_members(memberships, observations).tolist() == [2, 1]


LABELS = st.lists(st.integers(-1, 2), min_size=9, max_size=9)


def view_of(name, *partitions, ks=None):
    """A view with the given partitions and numbers of clusters."""
    columns = np.array(partitions).T
    ks = [column.max() + 1 for column in partitions] if ks is None else ks
    columns = columns.astype(np.int64)
    return View(name, columns, [{"k": int(k)} for k in ks])


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


def test_views_of_a_sample_place_only_its_members():
    """Each in its row among all advertisers."""
    views, rows = views_of(text=[0, 0, 1], win=[0, 1, 1]), np.array([1, 2, 4])
    found = compare_views(views, np.array([0, 0, 1]), None)
    spread = compare_views(views, np.array([-1, 0, 0, -1, 1, -1]), None, rows)
    assert spread.placed[[1, 2, 4]].tolist() == found.placed.tolist()
    assert (spread.placed[[0, 3, 5]] == -1).all()


def test_without_views_there_is_nothing_to_compare():
    """All tables are empty."""
    found = compare_views({}, np.full(3, -1), None)
    assert found.names == found.pairs == [] and found.dissenting == ""
    assert found.ari.shape == (0, 0) and found.weights.shape == (0,)
    assert found.placed.shape == (3, 0)
    assert found.sentence == "No view distinguishes the advertisers."
