"""Period changes: errors that hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import kstest

from coterie.ads.decisions.comparison.period_changes import (
    DayVariation,
    PeriodEstimate,
    changes_between,
    day_variation,
    discoveries,
    p_values,
    typical_change,
)

MONDAY = np.datetime64("2026-03-02")
NO_DAYS = DayVariation(0.0, 3.0)


def drawn(rng, days, tau, tails=None, n=2000):
    """Estimates of a quantity of 0 by days of equal weight."""
    weight = np.repeat(rng.lognormal(4, 1, (n, 1)), days, axis=1)
    scale = 1.0 if tails is None else np.sqrt(tails / rng.chisquare(tails, (n, 1)))
    daily = scale * rng.normal(0, np.sqrt(1 / weight + tau**2))
    value = daily.mean(axis=1)
    return PeriodEstimate(value, np.ones(n), weight, weight * (daily - value[:, None]))


@pytest.mark.parametrize("tau", [0.0, 0.2])
@pytest.mark.parametrize("days", [(4, 3), (7, 7), (2, 1)])
def test_p_values_are_uniform_if_nothing_changed(days, tau):
    """Chance, and variation from day to day, are no change."""
    rng = np.random.default_rng(1)
    before, after = (drawn(rng, number, tau) for number in days)
    found = changes_between(before, after, NO_DAYS, 0.05)
    p = p_values(found.change, found.own_variance, found.own_freedom)
    assert kstest(p, "uniform").pvalue > 1e-3
    assert np.mean(p < 0.01) < 0.02


def test_advertisers_of_unlike_variation_give_heavy_tails():
    """If some advertisers vary far more than others, hardly more of them seem to change."""
    rng = np.random.default_rng(2)
    factor = np.sqrt(5 / rng.chisquare(5, (2000, 1)))
    sides = []
    for days in (4, 3):
        daily = factor * rng.normal(0, 0.2, (2000, days))
        value, weight = daily.mean(axis=1), np.full((2000, days), 1e6)
        sides.append(
            PeriodEstimate(value, np.ones(2000), weight, weight * (daily - value[:, None]))
        )
    found = changes_between(*sides, NO_DAYS, 0.05)
    assert found.own_freedom < 50
    p = p_values(found.change, found.own_variance, found.own_freedom)
    assert np.mean(p < 0.001) < 0.004


def test_one_day_each_leaves_much_in_doubt():
    """With one day in each period the variation is assumed, and the tails are heavy."""
    rng = np.random.default_rng(3)
    found = changes_between(drawn(rng, 1, 0.0), drawn(rng, 1, 0.0), NO_DAYS, 0.05)
    assert found.own_freedom == 3.0
    assert (found.own_variance > 2 * 0.05).all()


def test_common_days_add_to_every_error():
    """The variation of days that advertisers have in common is in all errors."""
    rng = np.random.default_rng(4)
    sides = drawn(rng, 4, 0.1), drawn(rng, 3, 0.1)
    found = changes_between(*sides, DayVariation(0.04, 5.0), 0.05)
    np.testing.assert_allclose(found.variance, found.own_variance + 0.04)
    assert (found.freedom >= 5.0 - 1e-9).all()


def test_equal_weekdays_cancel():
    """Two whole weeks with the same pattern vary less than the halves of one week."""
    pattern = np.array([0.0, 0.0, 0.0, 0.0, 0.0, -0.3, -0.4])
    week, no_error = MONDAY + np.arange(7), np.zeros(7)
    whole = day_variation(
        [pattern, pattern], [no_error] * 2, [week, week + np.timedelta64(7, "D")], (0.1, 0.03)
    )
    halves = day_variation(
        [pattern[:4], pattern[4:]], [no_error[:4], no_error[4:]], [week[:4], week[4:]], (0.1, 0.03)
    )
    assert whole.variance < 0.02**2 < 0.09**2 < halves.variance


def test_a_few_advertisers_are_not_the_market():
    """A tenth of the advertisers that change hardly move the typical change."""
    rng = np.random.default_rng(5)
    change = 0.1 + rng.normal(0, 0.05, 500)
    change[:50] += 2.0
    found, variance = typical_change(change, np.full(500, 0.05**2))
    assert abs(found - 0.1) < 0.02
    assert 0 < variance < 0.01**2


def test_nobody_has_no_change():
    """Without advertisers nothing changes."""
    assert typical_change(np.empty(0), np.empty(0)) == (0.0, 0.0)


@given(
    arrays(float, st.integers(1, 30), elements=st.floats(0, 1)),
    st.floats(0.01, 0.5),
)
def test_discoveries_are_those_of_benjamini_and_hochberg(p, rate):
    """The k smallest p-values are rejected, k the last one with p_(k) ≤ k·rate / m."""
    order = np.sort(p)
    below = np.flatnonzero(order * len(p) <= rate * np.arange(1, len(p) + 1) * (1 + 1e-12))
    expected = p <= order[below[-1]] if len(below) else np.zeros(len(p), dtype=bool)
    assert discoveries(p, rate).sum() == pytest.approx(expected.sum(), abs=0)


def test_no_p_value_is_no_discovery():
    """Advertisers without a quantity are not tested, and neither are groups without members."""
    unknown = p_values(np.array([np.nan, 0.0]), np.array([np.nan, 0.0]), 3.0)
    np.testing.assert_array_equal(unknown, [np.nan, 1.0])
    assert not discoveries(unknown, 0.5).any()
