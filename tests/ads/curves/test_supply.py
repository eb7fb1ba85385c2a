"""Supply per day by level and weekday, and shrunk rates of rare events."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaln

from coterie.ads.curves.supply import expected_supply, shrunk_shares, supply_of, weekday_of
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


@settings(deadline=None, max_examples=20)
@given(st.dates())
def test_weekdays_are_those_of_the_calendar(day):
    """Monday is 0."""
    assert weekday_of([day.isoformat()]).tolist() == [day.weekday()]


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(1, 9), min_size=7, max_size=7), st.integers(0, 6))
def test_weekday_factors_are_found_again(factors, start):
    """Levels times factors over two weeks give exactly these levels and factors."""
    level = np.array([2, 10, 30])
    days = (start + np.arange(14)) % 7
    log = log_of_numbers(level[:, None] * np.array(factors)[days], FIRST_DAY + start)
    found = supply_of(log)
    mean = np.mean(factors)
    np.testing.assert_allclose(found.weekday, np.array(factors) / mean)
    np.testing.assert_allclose(found.level, level * mean)
    assert found.seen.all()
    for day in range(14):
        date = str(FIRST_DAY + start + day)
        assert expected_supply(found, 1, date) == pytest.approx(10 * factors[days[day]])
    assert expected_supply(found, 1) == pytest.approx(10 * mean)


def test_newcomers_do_not_affect_weekday_factors():
    """Factors are of advertisers that bid on the first day; levels start with the first bid."""
    steady, late = [4, 8, 4, 8], [0, 0, 0, 800]
    found = supply_of(log_of_numbers([steady, late]))
    np.testing.assert_allclose(found.weekday[:4], np.array(steady) / 6)
    assert found.seen.tolist() == [True] * 4 + [False] * 3
    assert found.weekday[4:].tolist() == [1, 1, 1]
    np.testing.assert_allclose(found.level, [6, 800 / (8 / 6)])


def test_days_without_bids_count_after_the_first_bid():
    """Two bids, one and none are one per day."""
    numbers = [[2, 1, 0], [6, 6, 6]]
    found = supply_of(log_of_numbers(numbers))
    expected = found.weekday[:3].sum()
    np.testing.assert_allclose(found.level, [3 / expected, 18 / expected])


def test_one_day_has_factor_one():
    """All weekday factors are 1."""
    found = supply_of(log_of_numbers([[7], [1]]))
    assert found.weekday.tolist() == [1] * 7
    assert found.level.tolist() == [7, 1]
    assert found.seen.sum() == 1


@pytest.mark.parametrize("day", ["", "NaT", "today", "soon", "2026-02-30", "2026-03"])
def test_invalid_dates_are_refused(day):
    """Texts that numpy would accept as dates are also refused."""
    found = supply_of(log_of_numbers([[7]]))
    with pytest.raises(ValueError, match=r"isoformat|day is out of range"):
        expected_supply(found, 0, day)


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
