"""Pooling recovers planted effects and their variances, and its intervals cover them."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.ads.targets.pooled_effects import pool_factors, pool_shifts

A, V, K = 600, 6, 5


@pytest.fixture(scope="module")
def segments():
    """Shares of advertisers in segments, the last column being that of none."""
    shares = np.zeros((A, K + 1))
    shares[np.arange(A), np.arange(A) % K] = 1.0
    return shares


@pytest.fixture(scope="module")
def planted_shifts(segments):
    """Shifts, noisy observations of them, and their information."""
    rng = np.random.default_rng(0)
    centre = 0.1 * rng.standard_normal(V)
    of_segments = centre + 0.25 * rng.standard_normal((K, V))
    shift = segments[:, :K] @ of_segments + 0.08 * rng.standard_normal((A, V))
    information = rng.choice([0.0, 4.0, 100.0, 2000.0], (A, V))
    noise = np.where(information > 0, 1 / np.sqrt(np.maximum(information, 1e-9)), 0.0)
    return shift, shift + noise * rng.standard_normal((A, V)), information


@pytest.fixture(scope="module")
def planted_factors(segments):
    """Factors, events and their expected numbers at a factor of 1."""
    rng = np.random.default_rng(1)
    of_segments = rng.gamma(8, 1 / 8, (K, V))
    factor = (segments[:, :K] @ of_segments) * rng.gamma(25, 1 / 25, (A, V))
    expected = rng.choice([0.0, 0.5, 5.0, 500.0], (A, V))
    return factor, rng.poisson(expected * factor).astype(float), expected


def test_variances_of_shifts_are_found(planted_shifts, segments):
    """The variation within and between segments is that planted, within a third."""
    _, x, information = planted_shifts
    found = pool_shifts(x, information, segments)
    assert np.sqrt(found.within) == pytest.approx(0.08, rel=0.33)
    assert np.sqrt(found.between) == pytest.approx(0.25, rel=0.33)


def test_pooled_shifts_beat_own_and_segments(planted_shifts, segments):
    """Pooled shifts have a smaller error than own ones alone and than those of segments alone."""
    shift, x, information = planted_shifts
    found = pool_shifts(x, information, segments)
    known = information > 0
    error = np.square(found.mean - shift)[known].mean()
    assert error < np.square(x - shift)[known].mean()
    assert error < np.square(segments @ found.segment_mean - shift)[known].mean()


def test_intervals_of_shifts_cover(planted_shifts, segments):
    """Intervals of 90% contain about 90% of the shifts, those without evidence included."""
    shift, x, information = planted_shifts
    found = pool_shifts(x, information, segments)
    for some in (information == 0, information == 4, information == 2000):
        covered = np.abs(found.mean - shift)[some] < 1.645 * found.sd[some]
        assert 0.85 < covered.mean() < 0.95


def test_intervals_of_factors_cover(planted_factors, segments):
    """Intervals of 90% of the factors contain about 90% of them, for few events and for many."""
    factor, events, expected = planted_factors
    found = pool_factors(events, expected, segments)
    for some in (expected == 0, expected == 5, expected == 500):
        error = np.abs(found.mean / factor - 1)[some]
        assert 0.84 < (error < 1.645 * found.sd[some]).mean() < 0.97


def test_many_events_outweigh_the_segment():
    """With many events of its own, the factor of an advertiser is its own."""
    events, expected = np.full((3, 1), 1e6), np.array([[1e6], [2e6], [4e6]])
    found = pool_factors(events, expected, np.ones((3, 1)))
    np.testing.assert_allclose(found.mean, events / expected, rtol=0.01)


def test_without_any_events_factors_are_one():
    """A log without an event gives the factor 1 for all values."""
    zero = np.zeros((4, 3))
    found = pool_factors(zero, zero, np.ones((4, 1)))
    np.testing.assert_allclose(found.mean, 1.0)
    assert (found.sd > 0).all()


def test_the_order_of_advertisers_does_not_matter(planted_factors, segments):
    """Advertisers in another order get the same factors."""
    _, events, expected = planted_factors
    order = np.random.default_rng(3).permutation(A)
    one = pool_factors(events, expected, segments)
    other = pool_factors(events[order], expected[order], segments[order])
    np.testing.assert_allclose(other.mean, one.mean[order], rtol=1e-6)
