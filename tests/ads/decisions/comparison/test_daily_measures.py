"""Daily measures: ratios of sums of a log."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.ads.decisions.comparison.daily_measures import (
    Measure,
    day_effects,
    measures_of,
    period_estimate,
    unbiased_changes,
)
from markets import EASY, log_of, market, odd_market


def test_ratios_are_those_of_the_log():
    """Each measure is the ratio of two sums over the rows of the log."""
    made = market(EASY)
    rows, found = made.rows, measures_of(made.histograms)
    first = made.histograms.advertisers.tolist().index("adv-00003")
    mine = (rows["advertiser"] == 3) & (rows["day"] < 2)
    won = mine & rows["won"]
    expected = {
        "impressions": won.sum() / 2,
        "supply": mine.sum() / 2,
        "win_rate": won.sum() / mine.sum(),
        "mean_bid": rows["bid"][mine].mean(),
        "ecpm": rows["price"][won].mean(),
        "click_rate": rows["click"][won].mean(),
    }
    for name, value in expected.items():
        assert found[name].ratio(np.arange(2))[first] == pytest.approx(value)


@pytest.mark.parametrize("name", ["first price", "minimum logged", "sampled"])
def test_dispersions_are_those_of_the_amounts(name):
    """The coefficient of variation comes from the bins, and is right to a few percent."""
    made = market(EASY)
    rows, found = made.rows, measures_of(made.histograms)
    row = int(made.histograms.daily("count").sum(axis=1).argmax())
    number = int(made.histograms.advertisers[row].removeprefix("adv-"))
    bids = rows["bid"][rows["advertiser"] == number]
    prices = rows["price"][(rows["advertiser"] == number) & rows["won"]]
    for measure, amounts in (("mean_bid", bids), ("ecpm", prices)):
        expected = amounts.var() / amounts.mean() ** 2
        assert found[measure].dispersion[row] == pytest.approx(expected, rel=0.05)
    odd = measures_of(odd_market(name)[0])
    assert all(np.isfinite(one.dispersion).all() for one in odd.values())


def test_a_log_without_clicks_has_no_click_rate():
    """What the log does not have is not measured."""
    log = log_of(bid=[10, 20], won=[True, True], price=[5, 5], edges=[10, 20])
    assert "click_rate" not in measures_of(log)


def test_a_day_with_more_traffic_is_an_effect_of_the_day():
    """A day on which every advertiser bids twice as often has twice the effect."""
    bids = np.repeat([0, 1, 1], 300)
    who = np.tile(np.arange(30), 30)
    log = log_of(bid=np.full(900, 10), won=True, price=5, edges=[10, 20], day=bids, advertiser=who)
    effects, errors = day_effects(measures_of(log)["supply"], np.arange(2))
    assert effects[1] - effects[0] == pytest.approx(np.log(2))
    assert (errors < 0.01).all()


def test_residuals_have_no_common_effects():
    """Days that differ for all advertisers alike leave no residuals."""
    who, day = np.tile(np.arange(30), 30), np.repeat([0, 1, 1], 300)
    log = log_of(bid=np.full(900, 10), won=True, price=5, edges=[10, 20], day=day, advertiser=who)
    measure = measures_of(log)["supply"]
    effects, _ = day_effects(measure, np.arange(2))
    found = period_estimate(measure, np.arange(2), effects, np.full(30, 0.5))
    # half an event is added, so that residuals are not exactly 0
    assert (np.abs(found.residual) < 0.06 * found.weight).all()


def events(rng, rate, days):
    """Return a few events of many advertisers on some days."""
    amount = rng.poisson(rate, (20_000, days)).astype(float)
    none = np.zeros(len(amount))
    return Measure("count", amount, np.ones_like(amount), np.ones(len(amount)), none)


@pytest.mark.parametrize("rate", [0.05, 0.5, 5.0])
def test_means_of_small_numbers_are_right(rate):
    """One day against six, with hardly any events: the mean change is 0 where nothing changed."""
    measure = events(np.random.default_rng(1), rate, 7)
    change, variance = unbiased_changes(measure, np.array([0]), np.arange(1, 7))
    weight = 1.0 / variance
    error = 1.0 / np.sqrt(weight.sum())
    assert abs(weight @ np.where(np.isfinite(variance), change, 0.0) / weight.sum()) < 4 * error


def test_unbiased_changes_are_those_of_large_numbers():
    """With many events the change is the logarithm of the ratio, whatever the order."""
    measure = events(np.random.default_rng(2), 1e6, 2)
    change, variance = unbiased_changes(measure, np.array([0]), np.array([1]))
    expected = np.log(measure.amount[:, 1] / measure.amount[:, 0])
    np.testing.assert_allclose(change, expected, atol=1e-5)
    np.testing.assert_allclose(variance, 2e-6, rtol=0.01)
    back, of_back = unbiased_changes(measure, np.array([1]), np.array([0]))
    np.testing.assert_allclose(back, -change, atol=1e-12)
    np.testing.assert_allclose(of_back, variance)


def test_no_events_say_nothing():
    """Without events a change has an infinite variance."""
    measure = events(np.random.default_rng(3), 0.0, 2)
    change, variance = unbiased_changes(measure, np.array([0]), np.array([1]))
    assert (change == 0).all()
    assert np.isinf(variance).all()
