"""Partial pooling: between the advertiser's own rates and its segment's, bin by bin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markets import log_of

from coterie.ads.curves import Evidence, evidence_of, own_curves, win_curves
from coterie.ads.pooling import (
    SEGMENT_STRENGTH,
    mixed_rates,
    overall_rate,
    pooled_curves,
    pooled_rates,
    segment_rates,
    win_variance,
)

FORMS = ["hazard", "rate"]


def some_evidence(form="hazard", a=5, g=6, seed=0):
    """Random successes among trials, some bins without any."""
    rng = np.random.default_rng(seed)
    trials = rng.integers(0, 12, (a, g)).astype(float)
    successes = rng.binomial(trials.astype(int), 0.3).astype(float)
    edges = np.arange(1, g + 1) * 10
    return Evidence(form, "price", edges, successes, trials, edges - 5.0, trials.sum(axis=1))


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 50), st.integers(0, 50), st.floats(0, 1), st.floats(0.01, 1000))
def test_a_pooled_rate_lies_between_its_own_and_the_priors(successes, more, prior, strength):
    """(x + m·q) / (y + m), which is an average of x/y and q with the weights y and m."""
    x, y = np.array([[float(successes)]]), np.array([[float(successes + more)]])
    rate = pooled_rates(x, y, np.array([[prior]]), strength)[0, 0]
    own = x[0, 0] / y[0, 0] if y[0, 0] else prior
    assert rate == pytest.approx((x[0, 0] + strength * prior) / (y[0, 0] + strength))
    assert min(own, prior) - 1e-12 <= rate <= max(own, prior) + 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_no_strength_is_the_own_curve_and_endless_strength_the_segments(form):
    """And in between the rates move from one to the other."""
    evidence = some_evidence(form)
    prior = np.full_like(evidence.trials, 0.0) + np.linspace(0.1, 0.6, 6)
    np.testing.assert_array_equal(pooled_curves(evidence, prior, 0.0), own_curves(evidence))
    of_segment = win_curves(prior, np.ones_like(prior), form)
    np.testing.assert_allclose(pooled_curves(evidence, prior, np.inf), of_segment)
    np.testing.assert_allclose(pooled_curves(evidence, prior, 1e9), of_segment, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("strength", [0.0, 0.5, 20.0, np.inf])
def test_pooled_curves_are_monotone_and_in_range(form, strength):
    """Whatever the prior, for advertisers without a single trial too."""
    evidence = some_evidence(form, a=30)
    evidence.trials[0], evidence.successes[0] = 0.0, 0.0
    prior = np.random.default_rng(1).random(evidence.trials.shape)
    win = pooled_curves(evidence, prior, strength)
    assert np.isfinite(win).all() and (np.diff(win, axis=1) >= 0).all()
    assert win.min() >= 0 and win.max() <= 1


def test_pooling_is_decided_bin_by_bin():
    """Many own trials in one bin and none in the next: the own rate, then the segment's."""
    trials, successes = np.array([[1e6, 0.0]]), np.array([[2e5, 0.0]])
    rates = pooled_rates(successes, trials, np.array([[0.9, 0.5]]), 10.0)
    np.testing.assert_allclose(rates, [[0.2, 0.5]], atol=1e-4)


@pytest.mark.parametrize("strength", [0.5, 5.0, 50.0])
def test_variance_is_that_of_beta_draws(strength):
    """A hundred thousand draws of every hazard, made into curves: their variance within 5%."""
    evidence = some_evidence("hazard", a=3)
    prior = np.full((3, 6), 0.25)
    rng = np.random.default_rng(0)
    alpha = evidence.successes + strength * prior
    beta = evidence.trials + strength - alpha
    drawn = rng.beta(alpha, beta, (100_000, 3, 6))
    win = 1 - np.cumprod(1 - drawn, axis=2)
    np.testing.assert_allclose(win_variance(evidence, prior, strength), win.var(axis=0), rtol=0.05)


def test_variance_of_rates_is_that_of_the_trials_taken_together():
    """Rising rates stand alone; where isotonic regression joins bins, their trials count as one."""
    edges, trials = np.array([1, 2]), np.array([[8.0, 8.0]])
    for successes, p, n in (
        ([[2.0, 6.0]], [0.25, 0.75], [8, 8]),
        ([[6.0, 2.0]], [0.5, 0.5], [16, 16]),
    ):
        evidence = Evidence("rate", "bid", edges, np.array(successes), trials, edges, trials[:, 0])
        expected = [q * (1 - q) / (m + 1) for q, m in zip(p, n, strict=True)]
        found = win_variance(evidence, np.full((1, 2), 0.5), 0.0)
        np.testing.assert_allclose(found[0], expected)


@pytest.mark.parametrize("shares", [[1.0, 0.0], [0.5, 0.5], [0.2, 0.8]])
def test_a_mixture_of_segments_is_one_of_curves(shares):
    """The curve of mixed hazards is the mean of the segments' curves, weighted by the shares."""
    rng = np.random.default_rng(0)
    rates = rng.uniform(0, 0.5, (2, 6))
    found = win_curves(mixed_rates(np.array([shares]), rates, "hazard"), np.ones((1, 6)), "hazard")
    curves = 1 - np.cumprod(1 - rates, axis=1)
    np.testing.assert_allclose(found[0], np.array(shares) @ curves)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("strength", [0.0, 1.0, np.inf])
def test_variance_is_finite_and_shrinks_with_evidence(form, strength):
    """Nobody is surer with fewer auctions of the same outcome; without any it is finite too."""
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
    """Leaning on the rate of all with the weight of so many trials."""
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
    """Half in each: half of its counts in each."""
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


def test_no_advertiser_counts_for_more_bids_than_the_most():
    """One with a hundred times as many is as good as one with just that many."""
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
def test_bins_nobody_bid_in_do_not_pull_a_first_price_curve_down(strength):
    """Higher bids than any in training win at least as often as the highest there."""
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


def test_bins_nobody_reached_add_nothing_to_a_second_price_curve():
    """Their hazard is 0."""
    log = log_of(bid=[10, 90], won=[True, True], price=[10, 90], day=[0, 1], edges=[10, 90])
    assert overall_rate(evidence_of(log, [0])).tolist() == [[1.0, 0.0]]
