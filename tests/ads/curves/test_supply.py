"""Supply: levels, factors of days and variation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.curves.day_levels import weekday_of
from coterie.ads.curves.supply import fit_supply, fit_supply_rule
from markets import FIRST_DAY, log_of


def log_of_numbers(numbers, first_day=FIRST_DAY):
    """A log with given numbers of bids by advertiser and day, (A, D)."""
    who, day = np.nonzero(numbers)
    each = np.asarray(numbers)[who, day]
    return log_of(
        bid=np.full(each.sum(), 5),
        won=False,
        price=0,
        advertiser=np.repeat(who, each),
        day=np.repeat(day, each),
        edges=[10],
        first_day=first_day,
    )


def poisson_log(level, n_days, factor=1.0, phi=0.0, seed=0, first_day=FIRST_DAY):
    """Bids of advertisers with given levels (A,), day factors, and variation φ beyond chance."""
    rng = np.random.default_rng(seed)
    mean = np.outer(level, np.broadcast_to(factor, n_days))
    if phi:
        mean = mean * rng.gamma(1 / phi, phi, mean.shape)
    return log_of_numbers(rng.poisson(mean), first_day)


def own_factors(supply):
    """The own factors of weekdays on the days of the log, (A, D)."""
    return supply.weekday[:, weekday_of(supply.factors.days)]


def supply_of(numbers, days):
    """The supply of advertisers with daily numbers (A, D)."""
    return fit_supply_rule(numbers, days).supply(numbers)


def fitted(log):
    """The supply of all days."""
    return fit_supply(log, list(range(len(log.days))))


def test_levels_and_factors_of_regular_days_are_found():
    """Levels times factors, without chance, give exactly these up to a common factor."""
    level, factor = np.array([20, 100, 300]), np.array([1, 2, 1, 3, 1, 1, 2])
    found = fitted(log_of_numbers(np.outer(level, np.tile(factor, 2))))
    expected = found.level[:, None] * own_factors(found) * np.exp(found.factors.values)
    np.testing.assert_allclose(expected, np.outer(level, np.tile(factor, 2)), rtol=1e-9)
    np.testing.assert_allclose(np.exp(found.factors.values).mean(), 1, rtol=1e-9)
    # rounding decides for no half-life, and for no week of their own
    assert np.isinf(found.half_life)
    np.testing.assert_allclose(found.weekday, 1)


def test_levels_are_unbiased():
    """In the mean over many advertisers of the same level, within a few standard errors."""
    level = np.full(400, 12.0)
    factor = np.array([1.2, 1.1, 1.0, 0.9, 0.8, 1.3, 0.7])
    found = fitted(poisson_log(level, 7, factor, seed=1))
    assert found.level.mean() == pytest.approx(12 * factor.mean(), rel=0.03)
    factors = np.exp(found.factors.values)
    np.testing.assert_allclose(factors, factor / factor.mean(), rtol=0.05)


def test_poisson_counts_vary_by_chance_only():
    """φ is far below that of counts that vary by a fifth from day to day."""
    level = np.geomspace(20, 400, 200)
    steady, unsteady = (fitted(poisson_log(level, 10, phi=phi, seed=2)) for phi in (0.0, 0.04))
    assert np.median(steady.variation) < 0.005
    assert np.median(unsteady.variation) == pytest.approx(0.04, rel=0.35)


def test_errors_of_levels_are_as_large_as_stated():
    """Over many advertisers of known levels."""
    level = np.full(500, 30.0)
    found = fitted(poisson_log(level, 8, phi=0.05, seed=3))
    gap = found.level / 30 - (found.level / 30).mean()
    assert np.mean(gap**2) == pytest.approx(found.error.mean(), rel=0.35)


@pytest.mark.parametrize(("days_since", "follows"), [(3, True), (0, False)])
def test_the_half_life_follows_a_jump(days_since, follows):
    """If advertisers change for good, recent days decide; if they do not, all days do."""
    rng = np.random.default_rng(4)
    level = np.tile(rng.uniform(50, 200, 150), (10, 1)).T
    if days_since:
        level[:, -days_since:] *= rng.choice([0.3, 3.0], (150, 1))
    found = fitted(log_of_numbers(rng.poisson(level)))
    assert np.isfinite(found.half_life) == follows
    # half of them tripled and half fell, so that the factors of days rose too
    expected = found.level * np.exp(found.factors.values[-1])
    assert np.median(np.abs(expected / level[:, -1] - 1)) < (0.25 if follows else 0.06)


def test_own_weekdays_are_found_in_some_weeks():
    """An advertiser that bids at weekends only, among others that bid every day."""
    rng = np.random.default_rng(6)
    days = FIRST_DAY + np.arange(28)
    is_weekend = weekday_of(days) >= 5
    mean = np.full((40, 28), 50.0)
    mean[:10] = np.where(is_weekend, 150.0, 10.0)
    found = supply_of(rng.poisson(mean).astype(float), days)
    np.testing.assert_allclose(found.weekday.mean(axis=1), 1)
    weekend, week = found.weekday[:10, 5:].mean(), found.weekday[:10, :5].mean()
    assert weekend > 4 * week
    expected = found.level[:, None] * own_factors(found) * np.exp(found.factors.values)
    assert np.abs(expected - mean).sum() < 0.2 * mean.sum()


def test_own_weekdays_of_chance_are_not_followed():
    """If all advertisers have the same week, their own factors are near 1."""
    rng = np.random.default_rng(7)
    factor = np.tile([1.1, 1.0, 1.0, 0.9, 1.0, 0.6, 0.7], 3)
    found = supply_of(
        rng.poisson(np.outer(np.full(60, 20.0), factor)) * 1.0, FIRST_DAY + np.arange(21)
    )
    assert np.abs(found.weekday - 1).mean() < 0.12


def test_newcomers_do_not_affect_the_factors_of_days():
    """Factors are of advertisers that bid on the first day; levels start with the first bid."""
    steady, late = [40, 80, 40, 80], [0, 0, 0, 8000]
    found = fitted(log_of_numbers([steady, steady, late]))
    alone = fitted(log_of_numbers([steady, steady]))
    np.testing.assert_allclose(found.factors.values, alone.factors.values)
    assert found.level[2] * np.exp(found.factors.values[3]) == pytest.approx(8000)
    # one day says less than four
    assert found.error[2] > 2 * found.error[0]


def test_days_without_bids_count_after_the_first_bid():
    """Days before it change nothing, days after it do."""
    numbers, days = np.array([[60.0, 60, 60, 60], [0, 0, 9, 0]]), FIRST_DAY + np.arange(4)
    rule = fit_supply_rule(numbers, days)
    late = replace(rule, dates=days[2:], factor=rule.factor[2:])
    for name in ("level", "error", "variation", "weekday", "unseen"):
        one, other = (getattr(x, name) for x in (rule.supply(numbers), late.supply(numbers[:, 2:])))
        np.testing.assert_allclose(one[1], other[1], err_msg=name)
    assert 3 < rule.supply(numbers).level[1] < 6


@pytest.mark.parametrize("n_days", [1, 4, 16])
def test_own_weekdays_are_the_posterior_of_a_normal_model(n_days):
    """Their means and variances, by least squares with the prior as further observations."""
    rng = np.random.default_rng(n_days)
    days = FIRST_DAY + np.arange(n_days)
    rule = replace(
        fit_supply_rule(np.full((1, n_days), 1e6), days), weekday_variance=0.02, variation=0.03
    )
    numbers = 1e6 * (1 + 0.2 * rng.random((1, n_days)))
    found = rule.supply(numbers)
    noise, between = found.variation[0] + 1e-6, found.weekday_variance[0]
    # unknowns: the centre, and the deviations of the weekdays
    design = np.hstack([np.ones((n_days, 1)), np.eye(7)[weekday_of(days)]])
    precision = design.T @ design / noise + np.diag([0.0, *[1 / between] * 7])
    posterior = np.linalg.inv(precision)
    centre, *deviations = posterior @ design.T @ numbers[0] / noise
    np.testing.assert_allclose(
        found.level[0] * found.weekday[0], centre + np.array(deviations), rtol=1e-4
    )
    each = np.hstack([np.ones((7, 1)), np.eye(7)])
    expected = (each @ posterior @ each.T).diagonal()
    stated = [found.own_variance(0, np.eye(7)[w]) for w in range(7)]
    # a forecast is compared with the level found, not with the true one
    np.testing.assert_allclose(stated, expected, rtol=0.12)


@pytest.mark.parametrize("n_days", [7, 21])
@pytest.mark.parametrize("ahead", [1, 7])
def test_the_supply_of_young_advertisers_is_as_uncertain_as_stated(n_days, ahead):
    """Advertisers with a week of their own, of 1 to 6 days, lie in their intervals."""
    rng = np.random.default_rng(8)
    A, dates = 900, FIRST_DAY + np.arange(n_days + ahead)
    own = np.exp(0.3 * rng.standard_normal((A, 7)))
    own /= own.mean(axis=1, keepdims=True)
    mean = rng.uniform(50, 200, (A, 1)) * own[:, weekday_of(dates)]
    numbers = rng.poisson(mean * rng.gamma(50, 1 / 50, mean.shape)).astype(float)
    young = np.arange(A) < 400
    first = np.where(young, n_days - 1 - np.arange(A) % 6, 0)
    numbers[np.arange(len(dates)) < first[:, None]] = 0
    found = supply_of(numbers[:, :n_days], dates[:n_days])
    later = dates[n_days:]
    expected = found.level * found.weekday[:, weekday_of(later)].sum(axis=1)
    shares = np.bincount(weekday_of(later), minlength=7) / ahead
    variance = found.own_variance(np.arange(A), shares) + found.variation / ahead + 1 / expected
    inside = np.abs(numbers[:, n_days:].sum(axis=1) / expected - 1) < 1.645 * np.sqrt(variance)
    for some in (young & (first == n_days - 1), young):
        assert 0.83 < inside[some].mean() < 0.97


def test_the_variance_of_own_weekdays_is_found():
    """From days 7 apart against days 6 and 8 apart; a short log has a share of its variation."""
    rng = np.random.default_rng(9)
    dates = FIRST_DAY + np.arange(21)
    for sd in (0.0, 0.2):
        own = 1 + sd * rng.standard_normal((400, 7))
        mean = 300 * own[:, weekday_of(dates)] * rng.gamma(50, 1 / 50, (400, 21))
        rule = fit_supply_rule(rng.poisson(np.maximum(mean, 0.0)).astype(float), dates)
        assert rule.weekday_variance == pytest.approx(sd**2, abs=0.004)
        assert rule.variation == pytest.approx(0.02, abs=0.004)


def test_one_day_is_its_own_level():
    """Its factor is 1, and its variation is the typical one."""
    found = fitted(log_of_numbers([[70], [10]]))
    np.testing.assert_allclose(found.level, [70, 10])
    np.testing.assert_allclose(found.factors.values, 0, atol=1e-12)
    assert found.half_life == np.inf and (found.variation > 0).all() and (found.error > 0).all()


@settings(max_examples=15)
@given(
    st.lists(st.lists(st.integers(0, 50), min_size=4, max_size=4), min_size=1, max_size=8).filter(
        lambda rows: np.array(rows).any(axis=0).all() and np.array(rows).any(axis=1).all()
    )
)
def test_any_counts_have_a_supply(rows):
    """Finite, not negative, and with some uncertainty."""
    log = log_of_numbers(rows)
    for days in ([0, 1, 2, 3], [0, 1], [0]):
        found = fit_supply(log, days)
        assert len(found.factors.values) == len(days)
        for part in (found.level, found.error, found.variation):
            assert part.shape == (len(rows),) and np.isfinite(part).all() and (part >= 0).all()
        started = log.daily("count")[:, days].sum(axis=1) > 0
        assert (found.error[started] > 0).all() and not found.level[~started].any()


def test_counts_of_later_days_lie_in_their_intervals():
    """Of the mean and the variance that the model states, about nine in ten."""
    rng = np.random.default_rng(5)
    factor = np.tile([1.1, 1.0, 1.0, 0.9, 1.0, 0.6, 0.7], 2)
    level = rng.uniform(20, 200, 300)
    mean = np.outer(level, factor) * rng.gamma(25, 1 / 25, (300, 14))
    numbers = rng.poisson(mean)
    found = fit_supply(log_of_numbers(numbers), list(range(13)))
    [ahead], [[variance]] = found.factors.ahead([str(FIRST_DAY + np.timedelta64(13, "D"))])
    expected = (
        found.level
        * found.weekday[:, weekday_of([FIRST_DAY + np.timedelta64(13, "D")])[0]]
        * np.exp(ahead)
    )
    relative = found.error + found.variation + variance
    deviation = np.sqrt(expected + relative * expected**2)
    inside = np.abs(numbers[:, 13] - expected) < 1.645 * deviation
    assert 0.82 < inside.mean() < 0.98
