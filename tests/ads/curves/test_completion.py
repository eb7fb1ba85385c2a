"""Completion: curves between a prior and an advertiser's own auctions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from coterie.ads.curves.auction_counts import AuctionCounts, count_auctions, log_edges
from coterie.ads.curves.completion import MOST_CERTAIN, complete_curves
from coterie.ads.curves.landscapes import evidence_of, own_curves
from coterie.ads.histograms.price_grid import price_grid
from markets import log_of

EDGES = price_grid(0.3e6, 9e6)
X = log_edges(EDGES)
KINDS = ["revealed", "won"]


def normal_curve(mean=0.6, spread=0.4, n=1):
    """The c.d.f. of log-normal prices around ``exp(mean)`` currency units, (n, G + 1)."""
    return np.tile(ndtr((X - np.log(1e6) - mean) / spread), (n, 1))


def drawn_log(n, seed, kind, mean=0.6, spread=0.4):
    """A log of n auctions of one advertiser with such prices."""
    rng = np.random.default_rng(seed)
    price = np.exp(np.log(1e6) + rng.normal(mean, spread, n))
    bid = np.exp(np.log(1e6) + rng.normal(0.6, 0.5, n))
    price, bid = (np.clip(amount, EDGES[0], EDGES[-1]).astype(int) for amount in (price, bid))
    auction, revealed = ("second", "paid") if kind == "revealed" else ("first", "none")
    won = bid >= price
    return log_of(
        bid=bid,
        won=won,
        price=price if kind == "revealed" else bid,
        edges=EDGES,
        auction=auction,
        revealed=revealed,
    )


def completed(counts, prior, strength):
    """The curves and variances if the prior itself is certain."""
    return complete_curves(counts, prior, np.zeros_like(prior), strength)


def counts_of(n, seed, kind):
    """The counts of such a log."""
    return count_auctions(drawn_log(n, seed, kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [0, 500])
def test_an_infinite_strength_leaves_the_prior(kind, n):
    """For any auctions. No curve of the dictionary fits exactly, so it is not certain."""
    prior = normal_curve(0.2, 0.7)
    counts = counts_of(max(n, 1), 0, kind)
    counts = AuctionCounts(EDGES, *(part * min(n, 1) for part in list(vars(counts).values())[1:]))
    win, variance = completed(counts, prior, np.inf)
    np.testing.assert_allclose(win, prior[:, 1:], atol=1e-5)
    _, of_most_certain = completed(counts, prior, MOST_CERTAIN)
    np.testing.assert_array_equal(variance, of_most_certain)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strength", [0.5, 10.0, 1000.0])
def test_without_auctions_the_curve_is_the_prior(kind, strength):
    """At any strength; the variance is that of as many auctions as the strength."""
    prior = normal_curve(0.2, 0.7)
    nothing = np.zeros((1, len(EDGES)))
    # an advertiser without auctions beside one that has some
    counts = counts_of(20, 1, kind)
    parts = (np.vstack([nothing, part]) for part in list(vars(counts).values())[1:])
    win, variance = completed(AuctionCounts(EDGES, *parts), np.vstack([prior] * 2), strength)
    np.testing.assert_allclose(win[0], prior[0, 1:], atol=1e-6)
    spread = prior[0, 1:] * (1 - prior[0, 1:])
    # the variance is that of a strength of at most MOST_CERTAIN
    certain = min(strength, MOST_CERTAIN)
    in_auctions = certain if kind == "revealed" else 4 * certain
    assert (variance[0] <= spread / in_auctions + 1e-3).all()
    assert variance[0].max() > 0.2 * (spread / (in_auctions + 1)).max()


def test_with_a_small_strength_the_curve_is_that_of_kaplan_and_meier():
    """A censored auction counts half in its own bin, which hardly matters on fine bins."""
    log = drawn_log(4000, 2, "revealed")
    own = own_curves(evidence_of(log))[0]
    win, _ = completed(count_auctions(log), normal_curve(2.0, 0.2), 1e-6)
    known = EDGES < np.quantile(log.edges[log.bids.bin], 0.95)
    np.testing.assert_allclose(win[0, known], own[known], atol=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_many_auctions_outweigh_a_wrong_prior(kind):
    """The error against the true curve falls with their number, at a strength that stays."""
    truth, wrong = normal_curve(0.6, 0.4)[:, 1:], normal_curve(0.9, 0.6)
    inner = (truth[0] > 0.05) & (truth[0] < 0.95)
    errors = []
    for n in (10, 300, 10_000):
        found = [completed(counts_of(n, seed, kind), wrong, 30.0)[0] for seed in range(4)]
        errors.append(np.abs(np.array(found)[:, 0] - truth[0])[:, inner].mean())
    assert errors[0] > 1.5 * errors[1] > 1.5**2 * errors[2]
    assert errors[2] < 0.03


@pytest.mark.parametrize("kind", KINDS)
def test_a_right_prior_is_better_than_none_and_wrong_strengths(kind):
    """Forty auctions completed by the true curve are nearer to it than on their own."""
    truth = normal_curve(0.6, 0.4)
    error = {}
    for strength in (0.1, 30.0):
        found = [completed(counts_of(40, seed, kind), truth, strength)[0] for seed in range(9)]
        error[strength] = np.abs(np.array(found)[:, 0] - truth[0, 1:]).mean()
    assert error[30.0] < 0.7 * error[0.1]


@pytest.mark.parametrize("kind", KINDS)
def test_variances_are_those_of_the_curve(kind):
    """Over many draws from the prior's own truth, errors are about as large as stated."""
    truth, strength = normal_curve(0.6, 0.4), 1e-3 if kind == "revealed" else 20.0
    found = [completed(counts_of(400, seed, kind), truth, strength) for seed in range(40)]
    win, variance = (np.array([one[part][0] for one in found]) for part in (0, 1))
    inner = np.flatnonzero((truth[0, 1:] > 0.2) & (truth[0, 1:] < 0.7))[::6]
    ratio = win[:, inner].var(axis=0) / variance[:, inner].mean(axis=0)
    # the smoothed curve is drawn to its prior, so that it varies less than is unknown of it
    assert (ratio < 1.7).all() and (ratio.mean() > 0.6 or kind == "won")


@settings(max_examples=40)
@given(
    st.integers(0, 10_000),
    st.sampled_from(KINDS),
    st.floats(1e-3, 1e6),
    st.integers(0, 200),
)
def test_curves_are_distribution_functions_with_bounded_variances(seed, kind, strength, n):
    """Non-decreasing from 0 to 1, with a variance from 0 to that of a coin."""
    rng = np.random.default_rng(seed)
    counts = counts_of(n + 1, seed, kind)
    prior = np.sort(rng.random((1, len(EDGES) + 1)), axis=1)
    win, variance = completed(counts, prior, strength)
    assert win.shape == variance.shape == (1, len(EDGES))
    assert (win >= 0).all() and (win <= 1).all() and (np.diff(win, axis=1) >= -1e-12).all()
    assert (variance >= 0).all() and (variance <= 0.25 + 1e-12).all()


@pytest.mark.parametrize("kind", KINDS)
def test_more_auctions_and_a_stronger_prior_leave_less_variance(kind):
    """The same auctions ten times over, and ten times the strength."""
    counts, prior = counts_of(200, 3, kind), normal_curve()
    more = AuctionCounts(EDGES, *(10 * part for part in list(vars(counts).values())[1:]))
    inner = (prior[0, 1:] > 0.1) & (prior[0, 1:] < 0.8)
    (_, few), (_, many), (_, strong) = (
        completed(counts, prior, 10.0),
        completed(more, prior, 10.0),
        completed(counts, prior, 100.0),
    )
    assert (many[0, inner] < few[0, inner]).all()
    assert (strong[0, inner] < few[0, inner]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_variance_of_the_prior_counts_by_its_share(kind):
    """All of it without auctions, and hardly any of it with many."""
    prior, of_prior = normal_curve(), np.full((1, len(EDGES) + 1), 0.01)
    inner = (prior[0, 1:] > 0.1) & (prior[0, 1:] < 0.8)
    shares = []
    for n in (1, 100, 20_000):
        counts = counts_of(n, 5, kind)
        (win, known), (same, unknown) = (
            complete_curves(counts, prior, part, 30.0) for part in (0 * of_prior, of_prior)
        )
        np.testing.assert_array_equal(win, same)
        shares.append(((unknown - known) / 0.01)[0, inner])
    assert (shares[0] > 0.9).all() and (np.diff(shares, axis=0) < 0).all()
    assert (shares[2] < 0.05).all() and (shares[2] >= 0).all()
    _, infinite = complete_curves(counts, prior, of_prior, np.inf)
    _, certain = complete_curves(counts, prior, 0 * of_prior, np.inf)
    np.testing.assert_allclose((infinite - certain)[0, inner], 0.01, rtol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_advertisers_do_not_affect_each_other(kind):
    """Many together are each alone."""
    counts = [counts_of(30, seed, kind) for seed in range(5)]
    together = AuctionCounts(
        EDGES,
        *(np.vstack([getattr(one, name) for one in counts]) for name in ("revealed", "won")),
        np.vstack([one.lost for one in counts]),
    )
    win, variance = completed(together, normal_curve(n=5), 10.0)
    for row, one in enumerate(counts):
        alone = completed(one, normal_curve(), 10.0)
        np.testing.assert_allclose(win[[row]], alone[0])
        np.testing.assert_allclose(variance[[row]], alone[1])


@pytest.mark.parametrize("parts", [(1, 0, 2), (0, 1, 2), (0, 0, 3), (3, 0, 0)])
def test_one_bin_is_enough(parts):
    """A log in which everybody bids the same."""
    counts = AuctionCounts(np.array([2_000_000]), *(np.array([[n * 1.0]]) for n in parts))
    win, variance = completed(counts, np.array([[0.2, 0.5]]), 5.0)
    assert win.shape == variance.shape == (1, 1)
    assert 0 <= win[0, 0] <= 1 and 0 <= variance[0, 0] <= 0.25


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.floats(0.1, 1000))
def test_revealed_prices_follow_the_formula(seed, strength):
    """Bin by bin: (revealed + m·S·h) / (at risk + m·S), a loss being at risk in half of its bin."""
    counts = counts_of(60, seed, "revealed")
    prior = np.sort(np.random.default_rng(seed).random(len(EDGES) + 1))
    win, _ = completed(counts, prior[None], strength)
    prior[0] = 0.0  # the first bin has no lower limit
    stays = 1.0
    for g in range(len(EDGES)):
        above = 1 - prior[g]
        hazard = 1 - (1 - prior[g + 1]) / above
        later = counts.revealed[0, g:].sum() + counts.lost[0, g + 1 :].sum()
        at_risk = later + counts.lost[0, g] / 2
        found = counts.revealed[0, g] + strength * above * hazard
        stays *= 1 - found / (at_risk + strength * above)
        assert win[0, g] == pytest.approx(1 - stays, abs=1e-9)
