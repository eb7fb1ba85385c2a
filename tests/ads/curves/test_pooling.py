"""Partial pooling of an advertiser's own rates with those of its segment, bin by bin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.curves.landscapes import Evidence, evidence_of, own_curves, win_curves
from coterie.ads.curves.pooling import (
    SEGMENT_STRENGTH,
    mixed_rates,
    overall_rate,
    pooled_curves,
    pooled_rates,
    segment_rates,
    win_variance,
)
from markets import log_of

FORMS = ["hazard", "rate"]


def some_evidence(form="hazard", a=5, g=6, seed=0):
    """Random successes among trials; some bins have no trials."""
    rng = np.random.default_rng(seed)
    trials = rng.integers(0, 12, (a, g)).astype(float)
    successes = rng.binomial(trials.astype(int), 0.3).astype(float)
    edges = np.arange(1, g + 1) * 10
    return Evidence(form, "price", edges, successes, trials, edges - 5.0, trials.sum(axis=1))


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 50), st.integers(0, 50), st.floats(0, 1), st.floats(0.01, 1000))
def test_a_pooled_rate_lies_between_its_own_and_the_priors(successes, more, prior, strength):
    """It is the average of x/y and q with the weights y and m."""
    x, y = np.array([[float(successes)]]), np.array([[float(successes + more)]])
    rate = pooled_rates(x, y, np.array([[prior]]), strength)[0, 0]
    own = x[0, 0] / y[0, 0] if y[0, 0] else prior
    assert rate == pytest.approx((x[0, 0] + strength * prior) / (y[0, 0] + strength))
    assert min(own, prior) - 1e-12 <= rate <= max(own, prior) + 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_strength_moves_from_the_own_curve_to_the_segments(form):
    """Strength 0 gives the own curve, infinite strength that of the segment."""
    evidence = some_evidence(form)
    prior = np.full_like(evidence.trials, 0.0) + np.linspace(0.1, 0.6, 6)
    np.testing.assert_array_equal(pooled_curves(evidence, prior, 0.0), own_curves(evidence))
    of_segment = win_curves(prior, np.ones_like(prior), form)
    np.testing.assert_allclose(pooled_curves(evidence, prior, np.inf), of_segment)
    np.testing.assert_allclose(pooled_curves(evidence, prior, 1e9), of_segment, atol=1e-6)


@pytest.mark.parametrize("strength", [0.0, 20.0, np.inf])
def test_pooled_curves_are_monotone_and_in_range(strength):
    """For any prior, also without trials."""
    evidence = some_evidence("hazard", a=30)
    evidence.trials[0], evidence.successes[0] = 0.0, 0.0
    prior = np.random.default_rng(1).random(evidence.trials.shape)
    win = pooled_curves(evidence, prior, strength)
    assert np.isfinite(win).all() and (np.diff(win, axis=1) >= 0).all()
    assert win.min() >= 0 and win.max() <= 1


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


def test_variance_of_rates_is_that_of_the_trials_taken_together():
    """If isotonic regression joins bins, their trials are added."""
    edges, trials = np.array([1, 2]), np.array([[8.0, 8.0]])
    for successes, p, n in (
        ([[2.0, 6.0]], [0.25, 0.75], [8, 8]),
        ([[6.0, 2.0]], [0.5, 0.5], [16, 16]),
    ):
        evidence = Evidence("rate", "bid", edges, np.array(successes), trials, edges, trials[:, 0])
        expected = [q * (1 - q) / (m + 1) for q, m in zip(p, n, strict=True)]
        found = win_variance(evidence, np.full((1, 2), 0.5), 0.0)
        np.testing.assert_allclose(found[0], expected)


@pytest.mark.parametrize("shares", [[1.0, 0.0], [0.2, 0.8]])
def test_a_mixture_of_segments_is_one_of_curves(shares):
    """The curve of mixed hazards is the mean of the segments' curves, weighted by shares."""
    rng = np.random.default_rng(0)
    rates = rng.uniform(0, 0.5, (2, 6))
    found = win_curves(mixed_rates(np.array([shares]), rates, "hazard"), np.ones((1, 6)), "hazard")
    curves = 1 - np.cumprod(1 - rates, axis=1)
    np.testing.assert_allclose(found[0], np.array(shares) @ curves)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("strength", [0.0, 1.0, np.inf])
def test_variance_is_finite_and_shrinks_with_evidence(form, strength):
    """More trials with the same rates never raise the variance; without trials it is finite."""
    evidence = some_evidence(form)
    prior = np.full((5, 6), 0.25)
    few = win_variance(evidence, prior, strength)
    times_nine = replace(evidence, trials=evidence.trials * 9, successes=evidence.successes * 9)
    many = win_variance(times_nine, prior, strength)
    assert np.isfinite(few).all() and few.min() >= 0
    if strength == 0:
        assert (many <= few + 1e-12).all()
    nothing = replace(evidence, trials=evidence.trials * 0, successes=evidence.successes * 0)
    assert np.isfinite(win_variance(nothing, prior, strength)).all()
    assert (win_variance(nothing, prior, strength) >= 0).all()


def test_segment_rates_are_those_of_summed_counts():
    """Counts are summed and pooled with the rate of all advertisers."""
    evidence = some_evidence()
    labels = np.array([0, 1, 0, 1, 1])
    overall = evidence.successes.sum(axis=0) / evidence.trials.sum(axis=0)
    np.testing.assert_allclose(overall_rate(evidence)[0], overall)
    rates = segment_rates(evidence, np.eye(2)[labels])
    for s in (0, 1):
        x, y = (part[labels == s].sum(axis=0) for part in (evidence.successes, evidence.trials))
        expected = (x + SEGMENT_STRENGTH * overall) / (y + SEGMENT_STRENGTH)
        np.testing.assert_allclose(rates[s], expected)
    nobody = segment_rates(evidence, np.zeros((5, 1)))
    np.testing.assert_allclose(nobody[0], overall)


def test_shares_split_an_advertiser_between_segments():
    """A share of one half counts half of the trials."""
    evidence = some_evidence()
    shares = np.array([[1, 0], [0, 1], [0.5, 0.5], [1, 0], [0, 1]], dtype=float)
    halved = replace(
        evidence,
        successes=np.vstack([evidence.successes, evidence.successes[2]]),
        trials=np.vstack([evidence.trials, evidence.trials[2]]),
        observations=np.append(evidence.observations, evidence.observations[2]),
    )
    for part in (halved.successes, halved.trials):
        part[[2, 5]] /= 2
    both = np.eye(2)[[0, 1, 0, 0, 1, 1]]
    np.testing.assert_allclose(segment_rates(evidence, shares), segment_rates(halved, both))


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
@given(st.integers(0, 10_000), st.floats(0, 1))
def test_rates_of_segments_and_mixtures_rise_with_the_bid(seed, empty):
    """In a first-price log a higher bid wins at least as often."""
    evidence = drawn_rates(seed, empty=empty)
    shares = np.random.default_rng(seed).dirichlet([0.5, 0.5, 0.5], 6)
    for rates in (overall_rate(evidence), segment_rates(evidence, shares)):
        assert (np.diff(rates, axis=1) >= 0).all()
        assert rates.min() >= 0 and rates.max() <= 1
    mixed = mixed_rates(shares, segment_rates(evidence, shares), "rate")
    assert (np.diff(mixed, axis=1) >= -1e-15).all()


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


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000), st.sampled_from([0.1, 1.0, 30.0, 1e4]), st.floats(0, 1))
def test_pooled_first_price_curves_rise_within_0_and_1(seed, strength, empty):
    """Their variance is at most that of one auction."""
    evidence = drawn_rates(seed, empty=empty)
    prior = priors_of(evidence, seed)
    win, variance = (f(evidence, prior, strength) for f in (pooled_curves, win_variance))
    assert (np.diff(win, axis=1) >= 0).all() and win.min() >= 0 and win.max() <= 1
    assert (variance >= 0).all() and (variance <= win * (1 - win) + 1e-12).all()


@pytest.mark.parametrize("bins", [2, 10, 200])
def test_the_prior_of_joined_bins_counts_once(bins):
    """The variance does not depend on the number of joined bins."""
    edges = np.arange(1, bins + 1)
    trials, successes = np.zeros((1, bins)), np.zeros((1, bins))
    trials[0, 0], successes[0, 0] = 4.0, 3.0  # above the segment's: all bins become one
    evidence = Evidence("rate", "bid", edges, successes, trials, edges * 1.0, trials[:, 0])
    prior = np.full((1, bins), 0.3)
    win, variance = (f(evidence, prior, 5.0)[0] for f in (pooled_curves, win_variance))
    assert np.ptp(win) == 0
    assert variance[0] == pytest.approx(win[0] * (1 - win[0]) / (4 + 5 + 1))
    # of higher bids its own bids tell that they win no less, not that they win no more
    np.testing.assert_allclose(variance[1:], win[1:] * (1 - win[1:]) / (5 + 1))


def test_trials_count_for_the_bins_between_them():
    """A bin without trials between equal bins with trials has their variance."""
    edges = np.arange(1, 6)
    trials = np.array([[0.0, 8, 0, 8, 0]])
    evidence = Evidence("rate", "bid", edges, trials / 2, trials, edges * 1.0, trials[:, 1])
    variance = win_variance(evidence, np.full((1, 5), 0.5), 1.0)[0]
    np.testing.assert_allclose(variance, 0.25 / np.array([2, 18, 18, 18, 2]))
