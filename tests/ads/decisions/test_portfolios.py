"""One budget for several advertisers is divided as a linear programme divides it."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.exceptions import NotFittedError

import fitted_models
from coterie.ads import AdForecaster, bid_for, split_budget
from coterie.ads.decisions.portfolios import allocate
from coterie.ads.forecasts.forecast_tables import tables_of
from coterie.errors import InvalidParameterError
from fitted_models import first_price_model, small_model

MODELS = ["small_model", "first_price_model"]
GOALS = ["impressions", "clicks", "conversions"]
FEW = ["adv-00020", "adv-00030", "adv-00041", "adv-00050", "a/b c?d#e%2F"]


def solved(spend, amount, budget):
    """Return the largest amount of any mixture of points, by scipy's solver."""
    n, size = spend.shape
    limits = sp.vstack([sp.csr_array(spend.reshape(1, -1)), sp.kron(sp.eye(n), np.ones((1, size)))])
    return -linprog(-amount.ravel(), A_ub=limits, b_ub=[budget] + [1.0] * n).fun


def optimum(model, names, budget, goal, points=1500, **about):
    """Return the largest amount of any mixture of many bids."""
    bids = np.append(np.linspace(0.01, model.edges_[-1] / 1e6, points), model.edges_ / 1e6)
    found = [model.forecast(name, np.sort(bids), **about) for name in names]
    spend = np.array([[one.spend for one in each] for each in found])
    amount = np.array([[getattr(one, goal) for one in each] for each in found])
    return solved(spend, amount, budget)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("goal", GOALS)
def test_equals_a_convex_solver(name, goal):
    """The amount is the solver's optimum, but for the fineness of its points."""
    model = getattr(fitted_models, name)()
    most = split_budget(model, 1e9, FEW).spend
    for share in (0.1, 0.5, 0.9):
        found = split_budget(model, share * most, FEW, goal=goal)
        best = optimum(model, FEW, share * most, goal, days=7)
        assert found.amount == pytest.approx(best, rel=1e-4)
        assert found.spend == pytest.approx(share * most, rel=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_allocations_are_forecasts(name):
    """The spend and amount of each are those of a forecast at its bid, and add up."""
    model = getattr(fitted_models, name)()
    found = split_budget(model, goal="clicks", day="2026-03-14", days=3)
    for one in found.allocations[:8]:
        expected = model.forecast(one.advertiser, one.bid, day="2026-03-14", days=3)
        assert (one.spend, one.amount) == pytest.approx((expected.spend, expected.clicks))
        assert one.mean_bid == model.bid_[model.advertisers_.tolist().index(one.advertiser)] / 1e6
    assert found.spend == pytest.approx(sum(one.spend for one in found.allocations))
    assert found.amount == pytest.approx(sum(one.amount for one in found.allocations))
    assert found.spend == pytest.approx(found.budget, rel=1e-6)
    spends = [one.spend for one in found.allocations]
    assert spends == sorted(spends, reverse=True)


def test_marginal_costs_are_equal():
    """Where all bid, a further thousand impressions cost the same everywhere."""
    found = split_budget(small_model(), None, FEW)
    costs = [one.marginal_cost for one in found.allocations if one.bid is not None]
    np.testing.assert_allclose(costs, found.marginal_cost, rtol=0.03)


@pytest.mark.parametrize("name", MODELS)
def test_the_division_of_the_log_is_never_better(name):
    """The same money, divided in proportion to the spend in the log, buys no more."""
    model = getattr(fitted_models, name)()
    for budget in (None, 1.0, 10.0):
        found = split_budget(model, budget)
        assert found.amount >= found.log_amount * (1 - 1e-9)
        assert found.gain == pytest.approx(found.amount / found.log_amount - 1)
    rows = [model.advertisers_.tolist().index(one.advertiser) for one in found.allocations]
    shares = model.cost_[rows] / model.cost_[rows].sum()
    for one, share in zip(found.allocations[:5], shares, strict=False):
        at = bid_for(model, one.advertiser, spend=10.0 * share, days=7)
        if at.reached:
            assert one.log_spend == pytest.approx(10.0 * share, rel=1e-6)
            assert one.log_amount == pytest.approx(at.forecast.impressions, rel=1e-6)


def test_the_default_budget_is_that_of_the_log():
    """As many days of the log as are planned cost this much."""
    model = small_model()
    daily = model.cost_.sum() / 1e9 / len(model.days_)
    assert split_budget(model, days=3).budget == pytest.approx(3 * daily)


@pytest.mark.parametrize("goal", GOALS)
def test_no_bid_is_raised_where_nothing_further_is_bought(goal):
    """Of too large a budget the most is said; each gets nearly what its highest bid buys."""
    model = small_model()
    found = split_budget(model, 1e9, goal=goal)
    assert found.why.startswith(f"1B USD cannot be spent: the most is {found.spend:.2f} USD, ")
    assert found.marginal_cost is None
    highest = model.edges_[-1] / 1e6
    assert all(one.bid <= highest for one in found.allocations)
    assert np.mean([one.bid < highest for one in found.allocations]) > 0.5
    for one in found.allocations[:5]:
        most = getattr(model.forecast(one.advertiser, highest, days=7), goal)
        assert 0.999 * most <= one.amount * (1 + 1e-9)
    assert "cannot be spent" not in split_budget(model, found.spend / 2, goal=goal).why
    assert -1e-3 < found.gain < 1e-3


def test_one_advertiser_gets_it_all():
    """A portfolio of one is the bid that spends the budget; its interval is that forecast's."""
    model = small_model()
    found = split_budget(model, 0.3, ["adv-00020"])
    alone = bid_for(model, "adv-00020", spend=0.3, days=7)
    assert found.allocations[0].bid == pytest.approx(alone.bid, rel=1e-6)
    low, high = alone.forecast.impressions_interval
    assert found.amount_interval == pytest.approx((low, high), rel=0.25)
    assert found.amount == pytest.approx(alone.forecast.impressions, rel=1e-6)


def test_intervals_of_many_are_relatively_narrower():
    """Chance evens out between advertisers; what is common to them does not."""
    model = small_model()
    few, all_of_them = split_budget(model, None, FEW), split_budget(model)

    def width(found):
        return (found.amount_interval[1] - found.amount_interval[0]) / found.amount

    assert 0 < width(all_of_them) < width(few)


@pytest.mark.parametrize("common", ["factor_sd", "level_sd"])
def test_what_days_have_in_common_does_not_even_out(common, monkeypatch):
    """The variance of the total grows with that of the days' supply, and of their prices."""
    model = copy(small_model())
    tables = tables_of(model)
    usual, variances = tables.days(None, 7), []
    for deviation in (0.0, 0.2, 0.4):
        days = usual._replace(**{common: deviation})
        monkeypatch.setattr(tables, "days", lambda *_, days=days: days)
        found = split_budget(model)
        variances.append((found.amount_interval[1] - found.amount) ** 2)
    none, some, twice = variances
    assert some > 1.5 * none and twice - none == pytest.approx(4 * (some - none))


def test_segments_by_index_and_by_name():
    """A segment is given by its index, its name, or the beginning of its name."""
    model = first_price_model()
    first = split_budget(model, segment=0)
    assert {one.segment for one in first.allocations} == {model.segments_[0].name}
    assert split_budget(model, segment=model.segments_[0].name.upper()) == first


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"advertisers": []}, "at least one"),
        ({"advertisers": "adv-00020"}, "list"),
        ({"advertisers": ["adv-00020", "nobody"]}, "'nobody' is not in the log"),
        ({"advertisers": ["adv-00020"] * 2}, "twice"),
        ({"advertisers": ["adv-00020"], "segment": 0}, "not both"),
        ({"segment": 99}, "segment=99"),
        ({"segment": "?"}, "segment='\\?'"),
        ({"segment": 1.5}, "segment=1.5"),
        ({"budget": 0}, "budget=0"),
        ({"goal": "fame"}, "goal='fame'"),
        ({"days": 0}, "days=0"),
        ({"level": 0.42}, "level=0.42"),
    ],
)
def test_refuses_what_cannot_be_divided(asked, message):
    """The message names the argument."""
    with pytest.raises(InvalidParameterError, match=message):
        split_budget(small_model(), **asked)


def test_refuses_a_model_that_is_not_fitted():
    """As every other question does."""
    with pytest.raises(NotFittedError):
        split_budget(AdForecaster(), 10)


# ---------------------------------------------------------------- points of curves


def curves(seed, n=4, size=12):
    """Random increasing curves, with stretches that are flat, and some that are convex."""
    rng = np.random.default_rng(seed)
    spend = np.cumsum(rng.random((n, size)), axis=1)
    return spend, np.cumsum(rng.random((n, size)) * (rng.random((n, size)) > 0.3), axis=1)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.floats(0.01, 1.2))
def test_equals_a_linear_programme(seed, share):
    """The amount is the optimum, and the money is kept to."""
    spend, amount = curves(seed)
    budget = share * float(spend[:, -1].sum())
    found = allocate(spend, amount, budget)
    assert found.amount.sum() == pytest.approx(solved(spend, amount, budget), abs=1e-9)
    assert found.spend.sum() <= budget * (1 + 1e-12)
    assert (found.spend >= 0).all() and (found.amount >= 0).all()


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.floats(0.1, 0.9))
def test_the_slope_is_the_worth_of_further_money(seed, share):
    """A little more money buys that much more."""
    spend, amount = curves(seed)
    budget, more = share * float(spend[:, -1].sum()), 1e-7
    now, then = (allocate(spend, amount, one) for one in (budget, budget + more))
    gained = (then.amount.sum() - now.amount.sum()) / more
    assert gained == pytest.approx(now.slope, rel=1e-4) or then.slope < now.slope


def test_only_one_curve_is_bought_in_part():
    """All others end at a point of their envelope."""
    spend, amount = curves(3, n=30)
    found = allocate(spend, amount, 0.4 * float(spend[:, -1].sum()))
    known = np.column_stack([np.zeros(30), spend])[np.arange(30), found.places + 1]
    others = np.arange(30) != found.partial
    np.testing.assert_allclose(found.spend[others], known[others])
    assert found.spend[found.partial] >= known[found.partial]


def test_money_that_nothing_costs_is_left():
    """With more money than all curves cost, all is bought and nothing more can be."""
    spend, amount = curves(1)
    found = allocate(spend, amount, 1e9)
    np.testing.assert_allclose(found.amount, amount[:, -1])
    assert (found.slope, found.partial) == (0.0, -1)


def test_what_is_free_is_always_taken():
    """An amount without a cost needs no money."""
    found = allocate(np.array([[0.0, 1.0]]), np.array([[2.0, 3.0]]), 1e-12)
    assert found.amount[0] == pytest.approx(2.0)
