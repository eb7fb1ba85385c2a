"""The bid for a goal is the least one whose forecast reaches it."""

from __future__ import annotations

from copy import copy
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fitted_models
from coterie.ads import bid_for
from coterie.ads.decisions.goals import GOALS, least_bid, marginal_cost
from coterie.ads.decisions.steps import finished
from coterie.errors import InvalidParameterError
from fitted_models import first_price_model, small_model

MODELS = ["small_model", "first_price_model", "minimum_model"]
ADVERTISERS = ["adv-00020", "adv-00041", "a/b c?d#e%2F"]
PERIODS = st.sampled_from([{}, {"days": 7}, {"day": "2026-03-14", "days": 3}, {"supply": 5e4}])


def searched(model, advertiser, goal, amount, **about):
    """Find the least bid by halving the whole range of bids: slow, and without any tables."""
    low, high = 0.0, float(model.edges_[-1]) / 1e6
    for _ in range(60):
        middle = (low + high) / 2
        reached = getattr(model.forecast(advertiser, middle, **about), goal) >= amount
        low, high = (low, middle) if reached else (middle, high)
    return high


@settings(max_examples=25)
@given(
    st.sampled_from(MODELS),
    st.sampled_from(ADVERTISERS),
    st.sampled_from(GOALS),
    st.floats(0.02, 0.98),
    PERIODS,
)
def test_equals_a_search_over_forecasts(name, advertiser, goal, share, about):
    """The bid is that of a brute-force search, and its mean is the amount, to 1e-6."""
    model = getattr(fitted_models, name)()
    highest = float(model.edges_[-1]) / 1e6
    amount = share * getattr(model.forecast(advertiser, highest, **about), goal)
    found = bid_for(model, advertiser, **{goal: amount}, **about)
    assert found.reached and found.why == ""
    assert found.bid == pytest.approx(searched(model, advertiser, goal, amount, **about), rel=1e-6)
    assert getattr(found.forecast, goal) == pytest.approx(amount, rel=1e-6)
    assert found.forecast == model.forecast(advertiser, found.bid, **about)


def test_from_the_bid_on_a_figure_that_falls_again_is_high_enough():
    """The lower end of an interval may reach an amount, fall below it and reach it again."""
    edges = np.array([1.0, 2.0, 3.0, 4.0])

    def figures(bids):
        return np.interp(bids, [0.0, *edges], [0.0, 5.0, 10.0, 6.0, 20.0])[:, None]

    tables, days = SimpleNamespace(bid_edges=edges, masses=[]), SimpleNamespace(shifts=[0.0])
    asked = SimpleNamespace(tables=tables, days=days, figures=figures)
    assert finished(least_bid(asked, 0, 8.0)) == pytest.approx(3.0 + 2 / 14)
    # it does not fall below this again
    assert finished(least_bid(asked, 0, 5.5)) == pytest.approx(1.1)
    assert finished(least_bid(asked, 0, 21.0)) is None


def test_a_safe_bid_says_how_often_the_backtest_was_right():
    """The stated probability, and the share that was measured on days it was not calibrated on."""
    model, asked = copy(small_model()), {"impressions": 100.0, "supply": 1e6, "level": 0.8}
    model.shares_above_ = None
    stated = "the goal should be reached with a probability of 90%; "
    assert bid_for(model, "adv-00020", **asked).safe_why == f"{stated}it was not measured"
    model.shares_above_ = np.full((4, 2, 4), np.nan)
    model.shares_above_[1, 0, 0] = 0.873
    assert bid_for(model, "adv-00020", **asked).safe_why == f"{stated}in the backtest it was 87.3%"
    asked["impressions"] = 1e9
    assert bid_for(model, "adv-00020", **asked).safe_why == ""


@pytest.mark.parametrize("goal", GOALS)
def test_a_safe_bid_has_its_whole_interval_above(goal):
    """At the safe bid the lower end reaches the amount; just below it does not."""
    model, about = small_model(), {"supply": 1e7, "level": 0.8}
    highest = float(model.edges_[-1]) / 1e6
    low, _ = getattr(model.forecast("adv-00020", highest, **about), f"{goal}_interval")
    found = bid_for(model, "adv-00020", **{goal: 0.7 * low}, **about)
    assert found.safe_bid >= found.bid
    at, below = model.forecast("adv-00020", [found.safe_bid, 0.999 * found.safe_bid], **about)
    assert getattr(at, f"{goal}_interval")[0] >= 0.7 * low
    assert getattr(below, f"{goal}_interval")[0] < 0.7 * low


@pytest.mark.parametrize("name", MODELS)
def test_above_a_safe_bid_it_stays_safe(name):
    """Ends of intervals may fall with the bid; a safe bid is one after the last such fall."""
    model, about = getattr(fitted_models, name)(), {"days": 7}
    bids = np.linspace(0.1, model.edges_[-1] / 1e6, 400)
    for advertiser in ("adv-00020", "adv-00033", "adv-00041", "adv-00050"):
        lower = np.array(
            [one.impressions_interval[0] for one in model.forecast(advertiser, bids, **about)]
        )
        for amount in np.quantile(lower[lower > 0], [0.3, 0.6, 0.9]):
            found = bid_for(model, advertiser, impressions=float(amount), **about)
            if found.safe_bid is not None:
                assert (lower[bids >= found.safe_bid] >= amount * (1 - 1e-9)).all()
            else:
                assert lower[-1] < amount


@pytest.mark.parametrize("goal", GOALS)
def test_says_why_a_goal_is_out_of_reach(goal):
    """There is no bid; the forecast is that of the highest bid in the log."""
    model = small_model()
    found = bid_for(model, "adv-00020", **{goal: 1e9})
    highest = float(model.edges_[-1]) / 1e6
    assert (found.reached, found.bid, found.safe_bid) == (False, None, None)
    assert found.forecast == model.forecast("adv-00020", highest)
    assert goal in found.why and f"{highest:.4g}" in found.why


def test_no_auctions_reach_nothing():
    """Without auctions the reason is their absence."""
    assert "no auctions" in bid_for(small_model(), "adv-00020", impressions=1, supply=0).why


def test_a_new_advertiser_is_placed_by_its_text():
    """With a supply, the bid is that of its segments' curve."""
    model, about = small_model(), {"text": "flights and hotel", "supply": 1e5}
    found = bid_for(model, "a newcomer", impressions=2e4, **about)
    assert model.forecast("a newcomer", found.bid, **about).impressions == pytest.approx(2e4)


def test_marginal_cost_is_the_slope_of_the_forecasts():
    """It is the cost of further impressions; in a first-price auction it exceeds the bid."""
    for model in (small_model(), first_price_model()):
        prepared = model.prepare_forecast("adv-00020", days=7)
        bid = float(model.bid_[20]) / 1e6
        low, high = model.forecast("adv-00020", [bid, 1.01 * bid], days=7)
        slope = 1000 * (high.spend - low.spend) / (high.impressions - low.impressions)
        assert marginal_cost(prepared, bid) == pytest.approx(slope, rel=1e-6)
    assert marginal_cost(prepared, bid) > bid
    assert marginal_cost(prepared, prepared.tables.highest) is None


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"impressions": 5, "spend": 1},
        {"impressions": 0},
        {"spend": -1},
        {"clicks": float("nan")},
        {"conversions": float("inf")},
        {"impressions": "many"},
        {"impressions": True},
    ],
)
def test_refuses_what_is_no_goal(asked):
    """Exactly one amount above 0 is a goal."""
    with pytest.raises(InvalidParameterError, match=r"goal|number above 0"):
        bid_for(small_model(), "adv-00020", **asked)


def test_refuses_events_that_the_log_does_not_have():
    """A log without clicks cannot say which bid reaches them."""
    silent = copy(small_model())
    silent.click_rate_ = silent.click_worth_ = None
    with pytest.raises(InvalidParameterError, match="no clicks"):
        bid_for(silent, "adv-00020", clicks=1)
    assert bid_for(silent, "adv-00020", impressions=1).forecast.clicks is None
