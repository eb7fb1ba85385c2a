"""Calibration: intervals as wide as earlier forecasts were wrong."""

from __future__ import annotations

import numpy as np
import pytest
from coterie.ads.forecasts.kernels import SIZES
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from coterie.ads.forecasts.calibration import (
    LEVELS,
    TARGETS,
    Calibration,
    calibrate,
)

NORMAL = np.array([ndtri((1 + level) / 2) for level in LEVELS])
SPEND = TARGETS.index("spend")
QUANTILES = ndtri((np.arange(5000) + 0.5) / 5000)


def calibrated(errors, means=30.0):
    """The same errors of every mode and target, of forecasts of one size or several."""
    return calibrate([(np.broadcast_to(means, len(errors)), errors)] * 8)


def at_size(calibration, size):
    """The factors at one size by level, of spend with given supply, (4, 2)."""
    return calibration.factors[:, 0, SPEND, :, SIZES.index(size)]


def test_without_errors_factors_are_normal():
    """At all levels, modes, targets, sides and sizes."""
    for found in (calibrate([]), calibrated(np.zeros(0))):
        expected = np.broadcast_to(NORMAL[:, None, None, None, None], found.factors.shape)
        np.testing.assert_allclose(found.factors, expected)
        assert found.forecasts == 0 and not found.is_suspicious
        assert found.inflation == pytest.approx(1)


@pytest.mark.parametrize("mean", [2.0, 30.0, 5000.0])
def test_normal_errors_give_normal_factors(mean):
    """Within a few hundredths; those by variance leave out the largest errors, and 7% with them."""
    found = calibrated(QUANTILES, mean)
    ratio = found.factors / NORMAL[:, None, None, None, None]
    assert (np.abs(ratio - 1) < 0.07).all()
    assert found.forecasts == 5000 and not found.is_suspicious


@pytest.mark.parametrize(("scale", "size"), [(1.2, 0.5), (1.2, 1.5), (1.5, 0.5), (3.0, 2.5)])
def test_factors_grow_with_errors(scale, size):
    """In proportion, if there are many; at the size of the forecasts."""
    found = at_size(calibrated(scale * QUANTILES, 10**size), size)
    np.testing.assert_allclose(found, np.stack([scale * NORMAL] * 2, axis=1), rtol=0.1)


@pytest.mark.parametrize("mean", [2.0, 30.0, 5000.0])
def test_small_errors_do_not_narrow_intervals(mean):
    """Chance has the deviation that is stated."""
    found = calibrated(0.5 * QUANTILES, mean).factors
    expected = np.broadcast_to(NORMAL[:, None, None, None, None], found.shape)
    np.testing.assert_allclose(found, expected)


def test_large_errors_are_suspicious():
    """If intervals of impressions with given supply had to be much wider."""
    means = np.random.default_rng(0).permutation(np.geomspace(1, 1e4, 5000))
    assert calibrated(2 * QUANTILES, means).is_suspicious
    assert calibrated(2 * QUANTILES, means).inflation > 1.6
    assert not calibrated(1.3 * QUANTILES, means).is_suspicious
    spend = [
        (np.full(5000, 30.0), (2.0 if place == SPEND else 1.0) * QUANTILES) for place in range(8)
    ]
    assert not calibrate(spend).is_suspicious


def test_few_errors_hardly_change_normal_factors():
    """Thirty normal errors complete each sample."""
    few = at_size(calibrated(np.array([4.0, -5.0]), 30.0), 1.5)
    many = at_size(calibrated(np.tile([4.0, -5.0], 500), 30.0), 1.5)
    assert (few[:2] < 1.3 * NORMAL[:2, None]).all() and (many >= 3.9).all()


def test_a_few_small_counts_that_went_wrong_do_not_widen_all():
    """Of small counts, the largest 2% of errors are left out."""
    errors = QUANTILES.copy()
    errors[::100] = 40.0
    found = calibrated(errors, 3.0).factors[:, 0, TARGETS.index("impressions"), :, 0]
    np.testing.assert_allclose(found, np.stack([NORMAL] * 2, axis=1), rtol=0.1)


def test_forecasts_of_another_size_have_no_part():
    """Wide errors of small forecasts leave those of large ones as they are, and the reverse."""
    means = np.repeat([1.0, 3000.0], 5000)
    errors = np.concatenate([QUANTILES, 3 * QUANTILES])
    found = calibrated(errors, means)
    np.testing.assert_allclose(at_size(found, 0.5)[:, 1], NORMAL, rtol=0.07)
    np.testing.assert_allclose(at_size(found, 2.5)[:, 1], 3 * NORMAL, rtol=0.05)
    np.testing.assert_allclose(at_size(found, 1.5)[:, 1], NORMAL)


def test_an_error_of_one_day_widens_both_sides():
    """All forecasts too low today may be too high tomorrow."""
    found = at_size(calibrated(np.abs(QUANTILES), 3000.0), 2.5)
    np.testing.assert_allclose(found[:, 0], found[:, 1], rtol=0.02)


def test_targets_and_modes_have_factors_of_their_own():
    """In the order of modes, and targets within them."""
    errors = [(np.full(5000, 3000.0), (1 + place / 4) * QUANTILES) for place in range(8)]
    found = calibrate(errors).factors[LEVELS.index(0.9), :, :, 1, 2]
    expected = ndtri(0.95) * (1 + np.arange(8).reshape(2, 4) / 4)
    np.testing.assert_allclose(found, expected, rtol=0.05)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(-50, 50)), max_size=60),
)
def test_intervals_of_higher_levels_contain_the_others(drawn):
    """For any errors, factors are positive, finite and grow with the level."""
    means, errors = np.array(drawn).reshape(-1, 2).T
    found = calibrate([(means, errors)] * 8)
    assert np.isfinite(found.factors).all() and (found.factors >= 0.2).all()
    assert (found.factors <= 12).all() and (np.diff(found.factors, axis=0) >= 0).all()
    assert found.forecasts == len(drawn)


def test_rungs_are_what_the_kernels_need():
    """The factors of a level, the probability beyond each end and its normal quantile."""
    found = calibrated(2 * QUANTILES)
    assert isinstance(found, Calibration)
    for i, level in enumerate(LEVELS):
        factors, tail, normal = found.interval_factors(level)
        np.testing.assert_array_equal(factors, found.factors[i])
        assert factors.flags.c_contiguous and factors.flags.writeable
        assert factors.dtype == np.float64
        assert tail == pytest.approx((1 - level) / 2) and normal == pytest.approx(NORMAL[i])
