"""Segment profiles: names, price levels, outliers and uncertain members."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.ads.curves.landscapes import evidence_of, own_curves, win_curves
from coterie.ads.fitting.forecaster import AdForecaster
from coterie.ads.logs.simulation.simulated_traits import THEMES, theme_names
from coterie.ads.segments.memberships import Memberships, hard_memberships
from coterie.ads.segments.segment_profiles import (
    bid_that_wins_half,
    describe_segments,
    distances_from_segments,
    doubtful_members,
    outlying_members,
    segment_curves,
    segment_words,
)
from markets import EASY, QUICK, log_of, market


def outliers_of(evidence, memberships):
    """The outliers among advertisers that their segments were found from."""
    curves = segment_curves(evidence, memberships)
    return outlying_members(distances_from_segments(evidence, memberships, curves))


def profiles_at(prices, texts=()):
    """Profiles of segments of one advertiser each, whose auctions all cost one price."""
    edges, labels = np.arange(10, 101, 10), np.arange(len(prices))
    curves = (edges >= np.array(prices)[:, None]).astype(float)
    words = segment_words(texts, labels, len(prices))
    return describe_segments(curves, edges, labels, np.ones(len(prices)), words)


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
    words = segment_words(["shoes", "boots"], none, 0)
    assert describe_segments(np.empty((0, 2)), np.array([5, 10]), none, np.ones(2), words) == []
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
    np.testing.assert_allclose(curves[-1], own_curves(evidence.pooled)[0], atol=1e-12)
    expected = win_curves(memberships.rates, np.ones_like(memberships.rates), "hazard")
    np.testing.assert_allclose(curves, expected)


def test_outliers_differ_significantly_from_their_segment():
    """Well observed outliers are found, the farthest first; a few auctions are not enough."""
    prices = [50] * 30 + [70, 90, 90]
    sizes = [400] * 30 + [300, 400, 3]
    evidence = evidence_of(
        log_of(
            advertiser=np.repeat(np.arange(33), sizes),
            bid=100,
            won=True,
            price=np.repeat(prices, sizes),
            edges=np.arange(10, 101, 10),
        )
    )
    memberships = hard_memberships(evidence, np.zeros(33, dtype=np.int64))
    outliers, distances = outliers_of(evidence, memberships)
    assert outliers.tolist() == [31, 30]
    gap = np.abs(own_curves(evidence) - segment_curves(evidence, memberships)[0]).max(axis=1)
    np.testing.assert_allclose(distances, gap[[31, 30]])
    alike = evidence_at([50] * 5)
    nobody, _ = outliers_of(alike, hard_memberships(alike, np.zeros(5, dtype=np.int64)))
    assert nobody.tolist() == []


def test_random_deviations_are_no_outliers():
    """The same deviation is no outlier with a dozen auctions, and one with 1,200."""
    sizes = np.array([400] * 10 + [12, 1200])
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
