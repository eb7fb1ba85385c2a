"""Error measures: how far forecasts are from what happened."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.evaluation.error_measures import (
    STRATA,
    measure,
    paired_difference,
    strata_of,
)

#: Whole micros per thousand impressions, in units of currency, as spend is.
MONEY = st.integers(0, 10**15).map(lambda micros: micros / 1e9)
AMOUNTS = st.lists(st.tuples(MONEY, MONEY), min_size=1, max_size=20)


def test_measures_by_hand():
    """Three advertisers, one of whom won nothing."""
    forecast, truth = np.array([8.0, 5.0, 30.0]), np.array([10.0, 0.0, 20.0])
    found = measure(forecast, truth, truth * 0, np.array([9.0, 9.0, 99.0]))
    assert found.wape == pytest.approx((2 + 5 + 10) / 30)
    assert found.mape == pytest.approx((0.2 + 0.5) / 2)
    assert found.mape_advertisers == 2
    assert found.smape == pytest.approx((2 * 2 / 18 + 2 * 5 / 5 + 2 * 10 / 50) / 3)
    assert found.bias == pytest.approx((-2 + 5 + 10) / 30)
    assert found.coverage == pytest.approx(2 / 3)
    assert found.advertisers == 3


@settings(max_examples=50)
@given(AMOUNTS)
def test_measures_follow_their_definitions(amounts):
    """Finite or None, and written to JSON as they are."""
    forecast, truth = np.array(amounts).T
    found = measure(forecast, truth)
    if truth.sum() > 0:
        assert found.wape == pytest.approx(np.abs(forecast - truth).sum() / truth.sum())
        assert abs(found.bias) <= found.wape * (1 + 1e-9)
    else:
        assert found.wape is None and found.bias is None
    assert found.smape is None or 0 <= found.smape <= 2 + 1e-9
    assert (found.smape is None) == (not (truth + forecast).any())
    assert (found.mape is None) == (found.mape_advertisers == 0) == (not (truth > 0).any())
    assert found.coverage is None
    json.dumps(found.as_dict(), allow_nan=False)


def test_what_is_not_defined_is_none():
    """Of nobody, and where nothing was won."""
    nobody = np.zeros(0)
    found = measure(nobody, nobody, nobody, nobody)
    assert (found.wape, found.mape, found.smape, found.bias, found.coverage) == (None,) * 5
    assert found.advertisers == 0
    nothing = measure(np.array([2.0]), np.array([0.0]))
    assert (nothing.wape, nothing.mape, nothing.bias, nothing.smape) == (None, None, None, 2.0)


def test_paired_difference_by_hand():
    """δ = (−1, 0, 3): Σδ / Σy, and √(A · var δ) / Σy."""
    truth = np.array([10.0, 4.0, 6.0])
    found = paired_difference(np.array([9.0, 4.0, 2.0]), np.array([8.0, 4.0, 5.0]), truth)
    assert found.difference == pytest.approx(2 / 20)
    delta = np.array([-1, 0, 3])
    assert found.standard_error == pytest.approx(np.sqrt(3 * delta.var(ddof=1)) / 20)


def test_standard_errors_are_those_of_the_jackknife():
    """Leaving out one advertiser at a time, its truth with it: within 10%."""
    rng = np.random.default_rng(0)
    truth = rng.lognormal(3, 0.5, 400)
    first, second = (truth * rng.lognormal(0, 0.3, 400) for _ in range(2))
    found = paired_difference(first, second, truth)
    delta = np.abs(first - truth) - np.abs(second - truth)
    left_out = (delta.sum() - delta) / (truth.sum() - truth)
    jackknife = np.sqrt(399 / 400 * ((left_out - left_out.mean()) ** 2).sum())
    assert found.standard_error == pytest.approx(jackknife, rel=0.1)
    assert found.difference == pytest.approx(
        measure(first, truth).wape - measure(second, truth).wape
    )


@settings(max_examples=30)
@given(AMOUNTS)
def test_differences_change_sign_with_the_order(amounts):
    """And a source has no difference from itself."""
    forecast, truth = np.array(amounts).T
    zero = np.zeros_like(truth)
    there, back = (
        paired_difference(forecast, zero, truth),
        paired_difference(zero, forecast, truth),
    )
    np.testing.assert_allclose(there.difference, -back.difference)
    np.testing.assert_allclose(there.standard_error, back.standard_error)
    same = paired_difference(forecast, forecast, truth)
    if truth.sum() > 0 and len(truth) > 1:
        assert (same.difference, same.standard_error) == (0, 0)
    else:
        assert np.isnan([same.difference, same.standard_error]).all()


def test_strata_share_out_all_advertisers():
    """Each is in one; their limits are the first of the next."""
    observations = np.array([0, 0.5, 1, 9, 9.99, 10, 199, 200, 1999, 2000, 1e9])
    strata = strata_of(observations)
    assert list(strata) == [name for name, _, _ in STRATA]
    np.testing.assert_array_equal(sum(rows.astype(int) for rows in strata.values()), 1)
    assert [int(rows.sum()) for rows in strata.values()] == [2, 3, 2, 2, 2]


def test_the_standard_error_of_a_wape_is_that_of_the_jackknife():
    """Of a ratio of two sums, leaving out one advertiser at a time: within 10%."""
    rng = np.random.default_rng(1)
    truth = rng.lognormal(3, 0.7, 400)
    forecast = truth * rng.lognormal(0, 0.4, 400)
    error = np.abs(forecast - truth)
    left_out = (error.sum() - error) / (truth.sum() - truth)
    jackknife = np.sqrt(399 / 400 * ((left_out - left_out.mean()) ** 2).sum())
    assert measure(forecast, truth).wape_standard_error == pytest.approx(jackknife, rel=0.1)


def test_no_coverage_is_known_of_events_that_the_log_has_not():
    """Ends of their intervals are NaN."""
    nothing = np.full(3, np.nan)
    assert measure(np.zeros(3), np.zeros(3), nothing, nothing).coverage is None
