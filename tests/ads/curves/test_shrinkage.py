"""Shrinkage: own evidence between nothing of it and nothing else, towards segments and priors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaln, ndtr

from coterie.ads.curves.auction_counts import AuctionCounts, count_auctions, log_edges
from coterie.ads.curves.landscapes import Evidence, evidence_of, own_curves, win_curves
from coterie.ads.curves.shrinkage import (
    MOST_CERTAIN,
    SEGMENT_STRENGTH,
    complete_curves,
    mixed_rates,
    overall_rate,
    pooled_curves,
    segment_rates,
    shrunk_shares,
    win_variance,
)
from coterie.ads.histograms.price_grid import price_grid
from markets import log_of

FORMS = ["hazard", "rate"]


def some_evidence(form="hazard", a=5, g=6, seed=0):
    """Random successes among trials; some bins have no trials."""
    rng = np.random.default_rng(seed)
    trials = rng.integers(0, 12, (a, g)).astype(float)
    successes = rng.binomial(trials.astype(int), 0.3).astype(float)
    edges = np.arange(1, g + 1) * 10
    return Evidence(form, "price", edges, successes, trials, edges - 5.0, trials.sum(axis=1))


@pytest.mark.parametrize("form", FORMS)
def test_strength_moves_from_the_own_curve_to_the_segments(form):
    """A rate is (x + m·q) / (y + m): at m = 0 the own one, at an infinite m that of the segment."""
    evidence = some_evidence(form)
    evidence.trials[0], evidence.successes[0] = 0.0, 0.0
    x, y, prior = evidence.successes, evidence.trials, np.tile(np.linspace(0.1, 0.6, 6), (5, 1))
    np.testing.assert_array_equal(pooled_curves(evidence, prior, 0.0), own_curves(evidence))
    for m in (0.01, 7.0, 1e9):
        expected = win_curves((x + m * prior) / (y + m), y + m, form)
        np.testing.assert_allclose(pooled_curves(evidence, prior, m), expected)
    of_segment = win_curves(prior, np.ones_like(prior), form)
    np.testing.assert_allclose(pooled_curves(evidence, prior, np.inf), of_segment)
    np.testing.assert_allclose(expected, of_segment, atol=1e-6)


@pytest.mark.parametrize("strength", [0.5, 50.0])
def test_variance_is_that_of_beta_draws(strength):
    """It equals the variance of curves of 100,000 drawn hazards within 5%."""
    evidence = some_evidence("hazard", a=3)
    prior = np.full((3, 6), 0.25)
    rng = np.random.default_rng(0)
    alpha = evidence.successes + strength * prior
    beta = evidence.trials + strength - alpha
    drawn = rng.beta(alpha, beta, (100_000, 3, 6))
    win = 1 - np.cumprod(1 - drawn, axis=2)
    np.testing.assert_allclose(win_variance(evidence, prior, strength), win.var(axis=0), rtol=0.05)
    for m in (0.0, np.inf):
        limit = win_variance(evidence, prior, m)
        assert np.isfinite(limit).all() and (limit >= 0).all()


@pytest.mark.parametrize("shares", [[1.0, 0.0], [0.2, 0.8]])
def test_a_mixture_of_segments_is_one_of_curves(shares):
    """The curve of mixed hazards is the mean of the segments' curves, weighted by shares."""
    rng = np.random.default_rng(0)
    rates = rng.uniform(0, 0.5, (2, 6))
    found = win_curves(mixed_rates(np.array([shares]), rates, "hazard"), np.ones((1, 6)), "hazard")
    curves = 1 - np.cumprod(1 - rates, axis=1)
    np.testing.assert_allclose(found[0], np.array(shares) @ curves)


def test_segment_rates_are_those_of_summed_counts():
    """Counts are summed by share, and pooled with the rate of all advertisers."""
    evidence = some_evidence()
    shares = np.random.default_rng(1).dirichlet([1, 1], 5)
    overall = evidence.successes.sum(axis=0) / evidence.trials.sum(axis=0)
    np.testing.assert_allclose(overall_rate(evidence)[0], overall)
    rates = segment_rates(evidence, shares)
    for s in (0, 1):
        x, y = (
            sum(share * row for share, row in zip(shares[:, s], part, strict=True))
            for part in (evidence.successes, evidence.trials)
        )
        expected = (x + SEGMENT_STRENGTH * overall) / (y + SEGMENT_STRENGTH)
        np.testing.assert_allclose(rates[s], expected)
    nobody = segment_rates(evidence, np.zeros((5, 1)))
    np.testing.assert_allclose(nobody[0], overall)


def test_max_observations_limits_the_weight_of_an_advertiser():
    """A hundred times as many bids count like the limit."""
    evidence = some_evidence()
    factor = np.where(np.arange(5) == 2, 100.0, 1.0)
    big = replace(
        evidence,
        successes=evidence.successes * factor[:, None],
        trials=evidence.trials * factor[:, None],
        observations=evidence.observations * factor,
    )
    shares = np.eye(2)[[0, 1, 0, 1, 1]]
    most = float(evidence.observations[2])
    assert most >= evidence.observations.max()  # nobody else is cut
    overall = overall_rate(big)[0]
    capped = segment_rates(big, shares, most)
    x, y = (part[[0, 2]].sum(axis=0) for part in (evidence.successes, evidence.trials))
    expected = (x + SEGMENT_STRENGTH * overall) / (y + SEGMENT_STRENGTH)
    np.testing.assert_allclose(capped[0], expected)
    np.testing.assert_allclose(segment_rates(big, shares, 1e12), segment_rates(big, shares))


@pytest.mark.parametrize("strength", [2.0, np.inf])
def test_bins_without_bids_do_not_lower_a_first_price_curve(strength):
    """Bids above all training bids win at least as often as the highest of these."""
    rng = np.random.default_rng(0)
    bid = rng.integers(1, 61, 600)
    log = log_of(
        bid=[*bid, 70, 90],
        won=[*(rng.random(600) < bid / 60), True, True],
        price=0,
        day=[0] * 600 + [1, 1],
        advertiser=[*rng.integers(0, 6, 600), 0, 1],
        edges=[20, 40, 60, 80, 100],
        auction="first",
        revealed="none",
    )
    training = evidence_of(log, [0])
    prior = segment_rates(training, np.ones((6, 1))).repeat(6, axis=0)
    assert overall_rate(training)[0, 2:].tolist() == [overall_rate(training)[0, 2]] * 3
    win = pooled_curves(training, prior, strength)
    lower = replace(training, trials=training.trials[:, :3], successes=training.successes[:, :3])
    unmoved = pooled_curves(lower, prior[:, :3], strength)
    np.testing.assert_allclose(win[:, :3], unmoved, atol=0.02)
    assert (win[:, 3:] >= win[:, [2]]).all()


def test_bins_without_trials_have_hazard_zero():
    """The overall hazard is 0 there."""
    log = log_of(bid=[10, 90], won=[True, True], price=[10, 90], day=[0, 1], edges=[10, 90])
    assert overall_rate(evidence_of(log, [0])).tolist() == [[1.0, 0.0]]


def drawn_rates(seed, a=6, g=12, empty=0.4):
    """Evidence of a first-price log; many bins have no bids."""
    rng = np.random.default_rng(seed)
    trials = rng.integers(1, 40, (a, g)) * (rng.random((a, g)) > empty) * 1.0
    truth = np.sort(rng.random(g))
    successes = rng.binomial(trials.astype(int), truth).astype(float)
    edges = np.arange(1, g + 1) * 10
    return Evidence("rate", "bid", edges, successes, trials, edges * 1.0, trials.sum(axis=1))


def priors_of(evidence, seed):
    """A mixture of two segments for every advertiser."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet([1, 1], len(evidence.trials))
    return mixed_rates(shares, segment_rates(evidence, shares), "rate")


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000), st.sampled_from([0.01, 1.0, 30.0, 1e4, np.inf]))
def test_without_evidence_a_curve_is_that_of_the_segments(seed, strength):
    """For any strength, in every bin; the variance is that of the prior."""
    evidence = drawn_rates(seed)
    prior = priors_of(evidence, seed)
    nothing = replace(evidence, trials=evidence.trials * 0, successes=evidence.successes * 0)
    np.testing.assert_allclose(pooled_curves(nothing, prior, strength), prior, atol=1e-12)
    m = min(strength, 1e6)
    expected = prior * (1 - prior) / (m + 1)
    np.testing.assert_allclose(win_variance(nothing, prior, strength), expected, atol=1e-12)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.1, 1.0, 30.0, 1e4]), st.floats(0, 1))
def test_first_price_curves_rise_and_their_trials_count_by_runs(seed, strength, empty):
    """All rates rise with the bid. The variance is W(1 − W) / (n + m + 1).

    Isotonic regression gives one value to a run of bins; n is the number of trials in the run, for
    the bins from its first to its last with trials.
    """
    evidence = drawn_rates(seed, empty=empty)
    prior = priors_of(evidence, seed)
    win, variance = (f(evidence, prior, strength) for f in (pooled_curves, win_variance))
    for rates in (overall_rate(evidence), prior, win):
        assert (np.diff(rates, axis=1) >= -1e-15).all()
        assert rates.min() >= 0 and rates.max() <= 1 + 1e-15
    for a, g in np.ndindex(win.shape):
        run = np.flatnonzero(np.abs(win[a] - win[a, g]) < 1e-12)
        tried = run[evidence.trials[a, run] > 0]
        between = len(tried) and tried[0] <= g <= tried[-1]
        n = evidence.trials[a, run].sum() if between else 0.0
        assert variance[a, g] == pytest.approx(win[a, g] * (1 - win[a, g]) / (n + strength + 1))


def test_shrunk_rates_lie_between_their_own_and_their_segments():
    """They equal (successes + M·p) / (trials + M)."""
    rng = np.random.default_rng(0)
    trials = rng.integers(1, 5000, 80).astype(float)
    segment = np.arange(80) % 2
    rate = np.where(segment == 0, 0.01, 0.05) * rng.lognormal(0, 0.4, 80)
    successes = rng.binomial(trials.astype(int), rate).astype(float)
    shares = np.eye(2)[segment]
    rates, concentration = shrunk_shares(successes, trials, shares)
    overall = successes.sum() / trials.sum()
    lean = 100 / overall
    for s in (0, 1):
        mine = segment == s
        of_segment = (successes[mine].sum() + lean * overall) / (trials[mine].sum() + lean)
        own = successes[mine] / trials[mine]
        assert (rates[mine] >= np.minimum(own, of_segment) - 1e-12).all()
        assert (rates[mine] <= np.maximum(own, of_segment) + 1e-12).all()
        m = concentration[mine] - trials[mine]
        np.testing.assert_allclose(m, m[0])
        np.testing.assert_allclose(
            rates[mine], (successes[mine] + m * of_segment) / (trials[mine] + m)
        )


@pytest.mark.parametrize("spread", [0.0, 0.2, 1.0])
def test_concentration_is_the_most_likely_one(spread):
    """No concentration of a fine grid has a higher beta-binomial likelihood."""
    rng = np.random.default_rng(1)
    trials = rng.integers(1, 3000, 60).astype(float)
    rate = 0.03 * rng.lognormal(-(spread**2) / 2, spread, 60)
    successes = rng.binomial(trials.astype(int), np.minimum(rate, 1)).astype(float)
    rates, concentration = shrunk_shares(successes, trials, np.ones((60, 1)))
    m = concentration[0] - trials[0]
    overall = successes.sum() / trials.sum()

    def likelihood(m):
        a, b = m * overall, m * (1 - overall)
        return np.sum(betaln(a + successes, b + trials - successes) - betaln(a, b))

    grid = np.geomspace(1, 1e6, 500)
    assert likelihood(m) >= max(map(likelihood, grid)) - 1e-3
    if spread == 0:
        np.testing.assert_allclose(rates, overall, rtol=0.1)


@pytest.mark.parametrize(
    ("successes", "trials"),
    [([0, 0], [0, 0]), ([0, 0], [10, 5]), ([3, 5], [3, 5]), ([0, 1], [0, 1])],
)
def test_rates_are_valid_for_little_data(successes, trials):
    """Without trials, without successes or with successes only, rates are from 0 to 1."""
    shares = np.array([[1.0, 0.0], [0.5, 0.5]])
    rates, concentration = shrunk_shares(
        np.array(successes, float), np.array(trials, float), shares
    )
    assert np.isfinite(rates).all() and (rates >= 0).all() and (rates <= 1).all()
    assert (concentration >= np.array(trials)).all()


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
    # an advertiser without auctions next to one that has some
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
def test_variances_are_those_of_the_curve(kind):
    """Over many draws from the prior's own truth, errors are about as large as stated."""
    truth, strength = normal_curve(0.6, 0.4), 1e-3 if kind == "revealed" else 20.0
    found = [completed(counts_of(400, seed, kind), truth, strength) for seed in range(40)]
    win, variance = (np.array([one[part][0] for one in found]) for part in (0, 1))
    inner = np.flatnonzero((truth[0, 1:] > 0.2) & (truth[0, 1:] < 0.7))[::6]
    ratio = win[:, inner].var(axis=0) / variance[:, inner].mean(axis=0)
    # the smoothed curve is shrunk towards its prior, so that it varies less than its variance says
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
    """A log in which all bids are equal."""
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
