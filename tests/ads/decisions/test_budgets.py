"""A budget over some days: the bid that uses it, what it buys, and how long it lasts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fitted_models
from coterie.ads import bid_for, plan_budget
from coterie.ads.decisions.budgets import Draws, draw_days, within_budget
from coterie.ads.decisions.steps import finished
from coterie.errors import InvalidParameterError
from fitted_models import small_model

MODELS = ["small_model", "first_price_model", "minimum_model"]
PERIODS = st.sampled_from(
    [{"days": 7}, {"days": 1}, {"day": "2026-03-14", "days": 3}, {"supply": 5e4, "days": 7}]
)
TARGETS = ("impressions", "spend", "clicks", "conversions")


def most(model, advertiser, **about):
    """Return what the highest bid in the log spends."""
    return model.forecast(advertiser, float(model.edges_[-1]) / 1e6, **about).spend


@settings(max_examples=20)
@given(st.sampled_from(MODELS), st.floats(0.05, 0.95), PERIODS)
def test_the_bid_that_uses_a_budget_spends_it(name, share, about):
    """The mean spend of the forecast at the bid is the budget, to 1e-6."""
    model = getattr(fitted_models, name)()
    budget = share * most(model, "adv-00020", **about)
    found = plan_budget(model, "adv-00020", budget, **about)
    assert found.bid == found.using_bid
    assert found.using_bid == bid_for(model, "adv-00020", spend=budget, **about).bid
    assert found.unlimited.spend == pytest.approx(budget, rel=1e-6)


@settings(max_examples=20)
@given(st.sampled_from(MODELS), st.floats(0.05, 3), st.floats(0.3, 3), PERIODS)
def test_never_spends_more_than_the_budget(name, share, factor, about):
    """Spend, its interval, and what is spent by the end of each day stay within the budget."""
    model = getattr(fitted_models, name)()
    budget = share * most(model, "adv-00020", **about)
    bid = factor * float(model.bid_[20]) / 1e6
    found = plan_budget(model, "adv-00020", budget, bid=bid, **about)
    ceiling = budget * (1 + 1e-9)
    assert found.spend <= ceiling and found.spend_interval[1] <= ceiling
    spent = [one.spent for one in found.by_day]
    assert spent == sorted(spent) and spent[-1] == pytest.approx(found.spend)
    assert sum(one.impressions for one in found.by_day) == pytest.approx(found.impressions)
    assert sum(one.auctions for one in found.by_day) == pytest.approx(found.unlimited.supply)
    assert all(one.impressions <= one.auctions * (1 + 1e-9) for one in found.by_day)
    for target in TARGETS:
        low, high = getattr(found, f"{target}_interval")
        assert 0 <= low <= getattr(found, target) <= high


@given(arrays(float, (4, 5), elements=st.sampled_from([0.0, 0.5, 1.0, 2.0])), st.floats(0.25, 9.0))
def test_a_draw_buys_until_its_money_is_spent(spend, budget):
    """A day at a time: as large a part of it as the money left pays for, and then nothing.

    A day that costs nothing is bought whole while there is money, and not at all afterwards.
    """
    impressions = np.arange(1.0, 21.0).reshape(4, 5)
    found, emptied = within_budget(Draws(impressions, spend), budget)
    for r in range(4):
        left, bought, days = budget, [], 0.0
        for cost in spend[r].tolist():
            part = min(1.0, left / cost if cost > 0 else 1.0) if left > 0 else 0.0
            bought.append(part)
            left -= part * cost
            days += part
        np.testing.assert_allclose(found.impressions[r], impressions[r] * bought)
        np.testing.assert_allclose(found.spend[r], spend[r] * bought)
        assert emptied[r] == (pytest.approx(days) if spend[r].sum() > budget else np.inf)


@settings(max_examples=20)
@given(st.sampled_from(MODELS), st.floats(0.05, 3), PERIODS)
def test_levels_change_only_the_intervals(name, share, about):
    """The estimate is the same at every level, and a higher level has a wider interval."""
    model = getattr(fitted_models, name)()
    budget = share * most(model, "adv-00020", **about)
    plans = [
        plan_budget(model, "adv-00020", budget, level=level, **about) for level in (0.5, 0.8, 0.95)
    ]
    for target in TARGETS:
        assert len({getattr(one, target) for one in plans}) == 1
        ends = [getattr(one, f"{target}_interval") for one in plans]
        assert ends == sorted(ends, key=lambda pair: -pair[0])
        assert ends == sorted(ends, key=lambda pair: pair[1])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("about", [{"days": 7}, {"days": 1}, {"supply": 5e4}])
def test_with_money_to_spare_it_is_the_forecast(name, about):
    """A budget that always lasts buys what is forecast, with about its intervals."""
    model = getattr(fitted_models, name)()
    bid = float(model.bid_[20]) / 1e6
    found = plan_budget(model, "adv-00020", 1e6, bid=bid, **about)
    assert (found.lasts, found.days_until_empty, found.days_until_empty_interval) == (1, None, None)
    for target in ("impressions", "spend"):
        assert getattr(found, target) == pytest.approx(getattr(found.unlimited, target))
        expected = getattr(found.unlimited, f"{target}_interval")
        width = expected[1] - expected[0]
        assert getattr(found, f"{target}_interval") == pytest.approx(expected, abs=0.15 * width)
    for target in ("clicks", "conversions"):
        assert getattr(found, target) == pytest.approx(getattr(found.unlimited, target), rel=1e-6)


def test_a_higher_bid_empties_the_budget_sooner():
    """It lasts for fewer days and buys fewer impressions."""
    model = small_model()
    budget = 0.3 * most(model, "adv-00020", days=14)
    plans = [
        plan_budget(model, "adv-00020", budget, bid=factor * used, days=14)
        for used in [bid_for(model, "adv-00020", spend=budget, days=14).bid]
        for factor in (0.8, 1.0, 1.3, 2.0)
    ]
    lasts = [one.lasts for one in plans]
    assert lasts == sorted(lasts, reverse=True) and lasts[0] > 0.5 > lasts[2]
    until = [one.days_until_empty for one in plans[1:]]
    assert until == sorted(until, reverse=True) and until[-1] < 14
    bought = [one.impressions for one in plans[1:]]
    assert bought == sorted(bought, reverse=True)


def test_when_it_runs_out_follows_from_the_rate_of_spending():
    """With a supply without variation, half the money of a week lasts for about half a week."""
    model, about = small_model(), {"supply": 1e9, "days": 7}
    bid = float(model.bid_[20]) / 1e6
    whole = model.forecast("adv-00020", bid, **about).spend
    found = plan_budget(model, "adv-00020", whole / 2, bid=bid, **about)
    assert found.lasts < 0.05
    assert found.days_until_empty == pytest.approx(3.5, abs=0.5)


def test_days_differ_by_their_weekday():
    """The days are those asked for, and have the auctions of their weekdays."""
    model = small_model()
    found = plan_budget(model, "adv-00020", 1.0, day="2026-03-14", days=3)
    assert [one.day for one in found.by_day] == ["2026-03-14", "2026-03-15", "2026-03-16"]
    for one in found.by_day:
        alone = model.forecast("adv-00020", found.bid, day=one.day)
        assert one.auctions == pytest.approx(alone.supply)


def test_says_why_a_budget_cannot_be_spent():
    """The plan is then for the highest bid in the log."""
    model = small_model()
    found = plan_budget(model, "adv-00020", 1e9)
    assert found.using_bid is None and found.bid == model.edges_[-1] / 1e6
    most = model.forecast("adv-00020", found.bid, days=7).spend
    assert found.why.startswith(f"1B USD cannot be spent: the most is {most:.2f} USD, ")


def test_draws_have_the_mean_and_the_interval_of_the_forecast():
    """Impressions and spend of all days together, whatever the level asked for."""
    model = small_model()
    draws = finished(draw_days(model, model.prepare_forecast("adv-00041", days=7, level=0.5), 2.5))
    forecast = model.forecast("adv-00041", 2.5, days=7, level=0.9)
    for target in ("impressions", "spend"):
        total = getattr(draws, target).sum(axis=1)
        assert total.mean() == pytest.approx(getattr(forecast, target))
        ends = np.quantile(total, [0.05, 0.95])
        assert ends == pytest.approx(getattr(forecast, f"{target}_interval"), rel=0.015)
    assert draws.spend.shape[1] == 7 and (draws.spend >= 0).all()
    assert np.corrcoef(draws.impressions.sum(axis=1), draws.spend.sum(axis=1))[0, 1] > 0.8


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"budget": 0},
        {"budget": -3},
        {"budget": 5, "bid": 0},
        {"budget": 5, "bid": "high"},
        {"budget": 5, "bid": [1, 2]},
        {"budget": 5, "days": 0},
        {"budget": 5, "supply": 1e300},
    ],
)
def test_refuses_what_is_no_budget(asked):
    """The message names the argument."""
    with pytest.raises(InvalidParameterError, match=r"budget=|bid=|days=|supply="):
        plan_budget(small_model(), "adv-00020", **asked)
