"""Tables: plans of bids and questions in, figures of forecasts out."""

from __future__ import annotations

import gc
import json
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from sklearn.base import clone

from coterie.ads.curves.day_levels import fit_levels, weekday_of
from coterie.ads.curves.landscapes import curve_at, evidence_of, own_curves, spend_curves
from coterie.ads.curves.supply import Supply
from coterie.ads.fitting.forecaster import AdForecaster
from coterie.ads.forecasts.calibration import LEVELS
from coterie.ads.forecasts.forecast_figures import FIELDS
from coterie.ads.forecasts.forecast_tables import (
    ForecastTables,
    MarketTables,
    Plans,
    forecast_by_curves,
    known_events,
    outcome_of,
    plans_of,
    rate_and_sd,
    tables_of,
)
from coterie.ads.histograms.price_grid import price_grid
from coterie.errors import InvalidParameterError
from fitted_models import first_price_model, minimum_model, small_model, textless_model
from markets import EASY, FIRST_DAY, QUICK, log_of, market, odd_model

BINS = [10, 20, 40, 80]

auctions = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 90)), min_size=1, max_size=40
)


def log_with(drawn):
    """A log of lost bids (advertiser, day, bid)."""
    who, day, bid = np.array(drawn).T
    return log_of(advertiser=who, day=day, bid=bid, won=False, price=0, edges=BINS)


@settings(max_examples=40)
@given(auctions, st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True).map(sorted))
def test_the_bids_of_some_days_are_plans(drawn, days):
    """One plan of each advertiser that bid; one item of each day and bin, at the mean bid."""
    log = log_with(drawn)
    days = [day for day in days if day < len(log.days)]
    found = plans_of(log, days)
    numbers = sorted({day for _, day, _ in drawn})
    names = sorted({who for who, _, _ in drawn})
    items = {}
    for who, day, bid in drawn:
        if numbers.index(day) in days:
            bins = next((g for g, edge in enumerate(BINS) if bid <= edge), 3)
            key = names.index(who), days.index(numbers.index(day)), bins
            items.setdefault(key, []).append(bid)
    expected = [(key, items[key]) for key in sorted(items)]
    plan = np.repeat(np.arange(len(found.rows)), np.diff(found.starts))
    assert found.rows[plan].tolist() == [key[0] for key, _ in expected]
    assert sorted(set(found.rows.tolist())) == found.rows.tolist()
    assert found.days.tolist() == [key[1] for key, _ in expected]
    assert found.counts.tolist() == [len(bids) for _, bids in expected]
    np.testing.assert_allclose(found.bids, [np.mean(bids) / 1e6 for _, bids in expected])
    np.testing.assert_array_equal(found.dates, log.days[days])


@settings(max_examples=40)
@given(auctions)
def test_supplies_and_shares_of_days_are_those_of_the_items(drawn):
    """Auctions of each plan, and how they are divided between days."""
    log = log_with(drawn)
    days = list(range(len(log.days)))
    found = plans_of(log, days)
    daily = log.daily("count")[found.rows]
    np.testing.assert_allclose(found.supplies, daily.sum(axis=1))
    np.testing.assert_allclose(found.day_shares, daily / daily.sum(axis=1, keepdims=True))


@settings(max_examples=40)
@given(auctions, st.lists(st.booleans(), min_size=4, max_size=4))
def test_plans_of_some_advertisers_are_theirs_alone(drawn, wanted):
    """As if the others had not bid."""
    log = log_with(drawn)
    mask = np.array(wanted)[: len(log.advertisers)]
    days = list(range(len(log.days)))
    found = plans_of(log, days).of_rows(mask)
    whole = plans_of(log, days)
    kept = [q for q, row in enumerate(whole.rows) if mask[row]]
    assert found.rows.tolist() == [int(whole.rows[q]) for q in kept]
    for name in ("bids", "counts", "days"):
        parts = [getattr(whole, name)[whole.starts[q] : whole.starts[q + 1]] for q in kept]
        expected = np.concatenate(parts) if parts else np.zeros(0)
        np.testing.assert_array_equal(getattr(found, name), expected)
    assert len(found.starts) == len(kept) + 1 and found.starts[-1] == len(found.bids)
    assert len(found.supplies) == len(kept) and found.day_shares.shape == (len(kept), len(days))


@pytest.mark.parametrize("days", [[0], [1, 3], [0, 1, 2, 3]])
def test_outcomes_are_sums_over_the_rows_of_the_log(days):
    """Wins, clicks and conversions are numbers; spend is in units of currency."""
    made = market(replace(EASY, auction="first"))
    rows = made.rows
    found = outcome_of(made.histograms, days)
    here = np.isin(rows["day"], days) & rows["won"]
    who, n = rows["advertiser"][here], len(made.histograms.advertisers)
    np.testing.assert_allclose(found.impressions, np.bincount(who, None, n))
    paid = np.bincount(who, rows["price"][here], n)
    np.testing.assert_allclose(found.spend, paid / 1000 / 1e6)
    np.testing.assert_allclose(found.clicks, np.bincount(who, rows["click"][here], n))
    np.testing.assert_allclose(found.conversions, np.bincount(who, rows["conversion"][here], n))


EDGES = price_grid(0.4e6, 6e6)
ONE_SD = np.ones((2, 4, 2, 3)), 0.0, 1.0
DAYS = FIRST_DAY + np.arange(14)
#: On Sundays prices are lower and supply is higher.
SUNDAY = weekday_of(DAYS) == 6


def two_advertisers(spread=0.0, pays="price", events=None):
    """Forecasts of two advertisers, in a market with dear weekdays and long Sundays."""
    win = ndtr((np.log(EDGES / 1e6) - [[0.2], [0.5]]) / 0.4)
    levels = fit_levels(DAYS, np.where(SUNDAY, -0.3, 0.05), np.full(14, 1e-5))
    factors = fit_levels(
        DAYS, np.where(SUNDAY, 0.5, -0.1), np.full(14, 1e-5), scales=(0.02, 0.15, 0.05)
    )
    own = np.ones((2, 7))
    own[1, 4:6] = 1.5, 0.5  # the second bids more on Fridays and less on Saturdays
    supply = Supply(
        level=np.array([100.0, 2000.0]),
        error=np.array([0.01, 0.002]),
        variation=np.array([0.05, 0.01]),
        weekday=own,
        unseen=np.array([np.full(7, 0.25), np.full(7, 1.0)]),
        weekday_variance=np.array([0.02, 0.0]),
        factors=factors,
        half_life=np.inf,
    )
    events = np.full((2, 4), np.nan) if events is None else events
    price = EDGES * (1.0 if pays == "bid" else 0.99)
    return MarketTables(EDGES, price, pays, win, np.full(win.shape, spread), events, levels, supply)


def plan_of(rows, bids, counts, days, dates):
    """One plan of each row, of as many items as there are days."""
    n = len(days)
    return Plans(
        np.array(rows),
        np.arange(len(rows) + 1) * n,
        np.tile(np.broadcast_to(bids, n).astype(float), len(rows)),
        np.tile(np.broadcast_to(counts, n).astype(float), len(rows)),
        np.tile(days, len(rows)),
        np.asarray(dates, "datetime64[D]"),
    )


def test_days_after_the_log_are_those_of_the_calendar():
    """Several days without a first one begin the day after the log."""
    core = two_advertisers()
    last = date(2026, 3, 15)
    week, same = core.days(None, 7), core.days(last + timedelta(days=1), 7)
    for one, other in zip(week, same, strict=True):
        np.testing.assert_array_equal(one, other)
    sunday, monday = core.days(date(2026, 3, 22)), core.days(date(2026, 3, 16))
    assert week.shifts[6] == pytest.approx(sunday.shifts[0], abs=1e-9)
    assert sunday.shifts[0] < monday.shifts[0] - 0.2
    assert sunday.factors[0] > 1.4 * monday.factors[0]


def test_an_average_day_is_any_of_the_week():
    """Its level and its supply are between those of the days, and it is less certain."""
    core = two_advertisers()
    usual, week = core.days(), core.days(None, 7)
    assert usual.shifts[0] == pytest.approx(week.shifts.mean())
    assert np.log(usual.factors[0]) == pytest.approx(np.log(week.factors).mean())
    each = [core.days(date(2026, 3, 16) + timedelta(days=i)) for i in range(7)]
    assert usual.level_sd > max(one.level_sd for one in each)
    assert len(usual.shifts) == len(usual.factors) == 1 and usual.daily_share == 1.0


def test_several_days_average_out_what_is_independent():
    """Shares of the days squared; the level of a week is more certain than that of a day."""
    core = two_advertisers()
    week, day = core.days(None, 7), core.days(None, 1)
    share = week.factors / week.factors.sum()
    assert week.daily_share == pytest.approx((share**2).sum())
    assert week.level_sd < day.level_sd
    assert core.supply_sd(0, week) < core.supply_sd(0, day)


def test_supply_is_the_level_times_the_factors_of_the_days():
    """And times its own factors of weekdays, of one advertiser or several."""
    core = two_advertisers()
    days = core.days(date(2026, 3, 21), 2)  # a Saturday and a Sunday
    assert days.weekdays.tolist() == [5, 6]
    expected = [100 * days.factors.sum(), 2000 * (0.5 * days.factors[0] + days.factors[1])]
    np.testing.assert_allclose(core.auctions(np.array([0, 1]), days), expected)
    np.testing.assert_allclose([core.auctions(row, days) for row in (0, 1)], expected)
    usual = core.days()
    np.testing.assert_allclose(core.auctions(1, usual), 2000 * usual.factors[0])


def test_the_doubt_of_a_supply_has_four_parts():
    """The level, own weekdays as far as unseen, the variation of days, and their common factors."""
    core = two_advertisers()
    days = core.days(date(2026, 3, 21), 2)
    share = days.factors / days.factors.sum()
    own = 0.01 * 0.25**2 + 0.02 * 0.25 * (share**2).sum()
    expected = np.sqrt(own + 0.05 * days.daily_share + days.factor_sd**2)
    assert core.supply_sd(0, days) == pytest.approx(expected)


def test_an_average_day_may_be_any_weekday():
    """Own factors that differ between weekdays add their variance."""
    core = two_advertisers()
    day, own = core.days(), np.array([1, 1, 1, 1, 1.5, 0.5, 1])
    expected = np.sqrt(0.002 + own.var() + 0.01 + day.factor_sd**2)
    assert core.supply_sd(1, day) == pytest.approx(expected)


@pytest.mark.parametrize("pays", ["price", "bid", "bid"])
def test_means_are_sums_over_days_at_their_levels(pays):
    """A plan of three days is three plans of a day."""
    core = two_advertisers(pays=pays)
    dates = np.array(["2026-03-20", "2026-03-21", "2026-03-22"], "datetime64[D]")
    together = core.of_plans(
        plan_of([0, 1], [1.0, 2.0, 1.5], [10, 20, 30], [0, 1, 2], dates), ONE_SD, given=True
    )
    apart = [
        core.of_plans(plan_of([0, 1], bid, n, [0], dates[[i]]), ONE_SD, given=True)
        for i, (bid, n) in enumerate(((1.0, 10), (2.0, 20), (1.5, 30)))
    ]
    for column in (2, 5):
        np.testing.assert_allclose(
            together[:, column], sum(one[:, column] for one in apart), rtol=1e-9
        )


def test_forecast_supply_only_takes_the_shares_of_a_plan():
    """A plan of any number of auctions is one of the expected number, and less certain."""
    core = two_advertisers()
    dates = np.array(["2026-03-20", "2026-03-22"], "datetime64[D]")
    small, large = (
        core.of_plans(plan_of([0, 1], 1.5, [n, 2 * n], [0, 1], dates), ONE_SD, given=False)
        for n in (1, 1000)
    )
    np.testing.assert_allclose(small, large, rtol=1e-9)
    days = core._together(dates)
    expected = core.auctions(np.array([0, 1]), days)
    given = core.of_plans(
        plan_of([0], 1.5, expected[0] * np.array([1, 2]) / 3, [0, 1], dates), ONE_SD, given=True
    )
    assert small[0, 2] == pytest.approx(given[0, 2])
    assert small[0, 4] - small[0, 2] > 1.2 * (given[0, 4] - given[0, 2])


def test_a_common_level_does_not_average_out():
    """The relative deviation of many auctions is that of the level, for one day or many."""
    core = two_advertisers()
    dates = ["2026-03-16", "2026-03-17", "2026-03-18"]
    one, three = (
        core.of_plans(plan_of([0], 1.2, 1e9, list(range(n)), dates[:n]), ONE_SD, given=True)[0]
        for n in (1, 3)
    )
    relative = [(found[4] - found[2]) / found[2] for found in (one, three)]
    assert 0.5 * relative[0] < relative[1] < relative[0]


@pytest.mark.parametrize("kind", [{}, {"auction": "first"}])
def test_curves_alone_forecast_what_they_say(kind):
    """Own curves at the edges of the grid, one bid of each advertiser: W and C of the curves."""
    made = market(EASY) if not kind else market(EASY.__class__(**{**vars(EASY), **kind}))
    evidence = evidence_of(made.histograms)
    win = own_curves(evidence)
    paid = spend_curves(win, evidence)
    n = len(win)
    for g in (10, 60, 100):
        bid = evidence.edges[g] / 1e6
        plans = Plans(
            np.arange(n),
            np.arange(n + 1),
            np.full(n, bid),
            np.full(n, 7.0),
            np.zeros(n, int),
            DAYS[:1],
        )
        impressions, spend = forecast_by_curves(win, evidence, plans)
        np.testing.assert_allclose(impressions, 7 * win[:, g], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(spend, 7 * paid[:, g] / 1e9, rtol=1e-5, atol=1e-9)


def test_advertisers_without_a_plan_are_forecast_nothing():
    """The others have their figures."""
    log = log_of(bid=[5, 6, 7], won=True, price=3, advertiser=[0, 1, 2], day=[0, 1, 0], edges=[10])
    evidence = evidence_of(log)
    impressions, spend = forecast_by_curves(own_curves(evidence), evidence, plans_of(log, [0]))
    assert impressions[1] == spend[1] == 0 and (impressions[[0, 2]] > 0).all()


@pytest.mark.parametrize(
    ("kind", "pays"),
    [
        (("second", "paid"), "price"),
        (("second", "minimum"), "price"),
        (("first", "none"), "bid"),
        (("first", "minimum"), "bid"),
        (("second", "none"), "price"),
    ],
)
def test_what_a_winner_pays_is_known_by_the_log(kind, pays):
    """A price by its own bin, known or not, or the bid."""
    auction, revealed = kind
    log = log_of(
        bid=[5, 9, 20],
        won=[True, True, False],
        price=[3, 4, 0] if auction == "second" else [5, 9, 0],
        minimum=np.array([3, 4, 30]),
        edges=[5, 10, 20],
        auction=auction,
        revealed=revealed,
    )
    assert evidence_of(log).pays == pays


def test_rates_of_events_have_deviations():
    """√(p(1 − p)/(M + 1)); NaN where the log has no such events."""
    events = known_events(2, (np.array([0.1, 0.5]), np.array([99.0, 24.0])), (None, None))
    np.testing.assert_allclose(events[:, :2], [[0.1, 0.03], [0.5, 0.1]])
    assert np.isnan(events[:, 2:]).all()


MODELS = [small_model, first_price_model, minimum_model, textless_model]


@pytest.fixture(scope="module", params=MODELS, ids=lambda model: model.__name__)
def model(request):
    """One of every kind of log."""
    return request.param()


def some_bids(model):
    """Below the first edge, on edges, between them, above the last."""
    edges = model.edges_ / 1e6
    between = (edges[:-1] + edges[1:])[::9] / 2
    return np.concatenate([[1e-7, edges[0] / 2], edges[::7], between, edges[-1:] * [1.0], [99.0]])


def ask(tables, rows, bids, supplies, days=None, given=True, level=0.9):
    """The figures of questions about the same days."""
    n = len(rows)
    table = tables.days() if days is None else days
    return tables.at(
        np.asarray(rows),
        np.asarray(bids),
        np.asarray(supplies),
        [table] * n,
        np.full(n, given),
        level,
    )


def test_every_advertiser_has_the_figures_of_its_curve(model):
    """W at the bid divided by the price level of the day; clicks by its rate."""
    tables, bids = tables_of(model), some_bids(model)
    for day in (None, date(2026, 3, 9), date(2026, 3, 14)):
        table = tables.days(day)
        for row in (0, 17, 59):
            found = ask(tables, np.full(len(bids), row), bids, np.full(len(bids), 1000.0), table)
            at = bids * 1e6 * np.exp(-table.shifts[0])
            win = curve_at(model.win_[[row]].astype(float), model.edges_, at[None])[0]
            np.testing.assert_allclose(found[:, 0], win, rtol=1e-6, atol=1e-9)
            np.testing.assert_allclose(found[:, 2], 1000 * win, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(found[:, 8], found[:, 2] * model.click_rate_[row])
            np.testing.assert_allclose(found[:, 11], found[:, 2] * model.conversion_rate_[row])
            np.testing.assert_allclose(found[:, 1] * found[:, 2] / 1000, found[:, 5], atol=1e-12)


def test_one_question_has_the_same_answer_in_every_way_it_is_asked(model):
    """Alone, among many, as a placement, and as a forecast: to the last bit."""
    tables, rng = ForecastTables(model), np.random.default_rng(0)
    n = 30
    rows = rng.integers(0, len(model.advertisers_), n)
    bids, supplies = rng.uniform(0.01, 12, n), rng.uniform(0, 1e5, n)
    tables_asked = [
        tables.days(*[(None, 1), (date(2026, 3, 10), 1), (None, 7)][i % 3]) for i in range(n)
    ]
    given = rng.random(n) < 0.5
    for level in (0.5, 0.95):
        found = tables.at(rows, bids, supplies, tables_asked, given, level)
        for q in range(n):
            row, bid, supply = int(rows[q]), float(bids[q]), float(supplies[q])
            asked = tables_asked[q], bool(given[q]), level
            np.testing.assert_array_equal(tables.one(row, bid, supply, *asked), found[q])
            place = tables.placer.placed(str(model.advertisers_[row]))
            alone = tables.at_placed(place, np.array([bid]), supply, *asked)
            np.testing.assert_array_equal(alone[0], found[q])


@pytest.mark.parametrize("level", LEVELS)
def test_forecasts_are_the_figures_of_the_tables(model, level):
    """With a given supply, of a day, of several days, and of an average day."""
    tables = tables_of(model)
    name, row = str(model.advertisers_[4]), 4
    for asked, table, is_given in (
        ({"supply": 777.0}, tables.days(), True),
        ({"supply": 777.0, "days": 3}, tables.days(None, 3), True),
        ({"day": "2026-03-11"}, tables.days(date(2026, 3, 11)), False),
        ({"day": "2026-03-11", "days": 9}, tables.days(date(2026, 3, 11), 9), False),
        ({"days": 7}, tables.days(None, 7), False),
        ({}, tables.days(), False),
    ):
        supply = asked.get("supply", tables.supply(row, table))
        figures = dict(
            zip(FIELDS, tables.one(row, 1.7, supply, table, is_given, level), strict=True)
        )
        found = model.forecast(name, 1.7, level=level, **asked)
        assert found.supply == supply and found.level == level
        for target in ("impressions", "spend", "clicks", "conversions"):
            assert getattr(found, target) == figures[target]
            ends = figures[f"{target}_low"], figures[f"{target}_high"]
            assert getattr(found, f"{target}_interval") == ends
        assert (found.win_rate, found.cost) == (figures["win_rate"], figures["cost"])


def test_new_advertisers_have_the_curves_of_their_segments(model):
    """The mean of the segments' by its shares; segments that differ add to the deviation."""
    tables = tables_of(model)
    shares = np.zeros(model.shares_.shape[1])
    shares[[0, -1]] = 0.25, 0.75
    place = replace(tables.placer.average_placement(), shares=shares)
    table, bid, n = tables.days(), 1.6, 1e12
    [found] = tables.at_placed(place, np.array([bid]), n, table)
    at = np.array([[bid * 1e6 * np.exp(-table.shifts[0])]])
    win = curve_at(model.segment_win_, model.edges_, at)[:, 0]
    assert found[0] == pytest.approx(shares @ win, rel=1e-5)
    rate, _ = rate_and_sd(place.weights, model.click_rate_, model.click_worth_)
    assert found[8] == pytest.approx(rate * found[2])
    [sure] = tables.at_placed(tables.placer.in_segment(0), np.array([bid]), n, table)
    assert sure[0] == pytest.approx(win[0], rel=1e-5)
    # their deviations and their differences add up, by the law of total variance
    g = 40
    at_edge = np.array([model.edges_[g] / 1e6 * np.exp(table.shifts[0])])
    asked = tables.asked(place, at_edge, n, table, True)
    tenth = 0.1 * ONE_SD[0], 0.0, 1.0
    [found] = asked._replace(uncertainty=np.array([[0.0, 0.0, 1.0]])).figures(tenth)
    win, spread = model.segment_win_[:, g], model.segment_spread_[:, g]
    variance = shares @ (spread**2 + win**2) - (shares @ win) ** 2
    assert (found[2] - found[3]) / n == pytest.approx(0.1 * np.sqrt(variance), rel=1e-3)


def test_the_doubt_of_a_mean_price_is_that_of_spend_without_that_of_impressions(model):
    """If the curve is a deviation higher; in first price whoever wins pays the bid all the same."""
    tables = tables_of(model)
    for bid in (0.6, 2.0, 6.0):
        place = tables.placer.placed(str(model.advertisers_[3]))
        asked = tables.asked(place, np.array([bid]), 100.0, tables.days(), True)
        impressions, of_impressions, spend, of_spend = asked.sums()[0, ::2]
        higher = (spend + of_spend) / (impressions + of_impressions)
        expected = abs(np.log(higher / (spend / impressions)))
        assert asked.price_sd == pytest.approx(expected, abs=1e-12)
        assert model.auction_ == "second" or asked.price_sd < 1e-12


def test_curves_are_those_of_so_many_auctions_that_chance_plays_no_part(model):
    """Win rate, interval and eCPM on an average day, at every bid."""
    tables = tables_of(model)
    place = tables.placer.placed(str(model.advertisers_[3]))
    bids = some_bids(model)
    found = tables.curves_at(place, bids)
    few = tables.at_placed(place, bids, 100.0, tables.days())
    np.testing.assert_allclose(found["win"], few[:, 0], rtol=1e-9)
    np.testing.assert_allclose(found["cost"], few[:, 1], rtol=1e-9)
    assert (0 <= found["low"]).all() and (found["low"] <= found["win"]).all()
    assert (found["win"] <= found["high"]).all() and (found["high"] <= 1 + 1e-12).all()
    curve = model.curve(str(model.advertisers_[3]))
    at_edges = tables.curves_at(place, model.edges_ / 1e6)
    for name in ("win", "low", "high", "cost"):
        np.testing.assert_array_equal(getattr(curve, name), at_edges[name])
    np.testing.assert_allclose(curve.segment, model.shares_[3] @ model.segment_win_)
    np.testing.assert_allclose(curve.own, own_curves(model.evidence(3))[0])
    new = model.curve("unknown")
    assert not new.own.any()
    np.testing.assert_allclose(new.segment, model.segment_win_[-1])


@pytest.mark.parametrize("row", [60, -1, 10**9])
def test_rows_that_are_not_there_are_refused(row):
    """Nothing is read beside the tables."""
    tables = tables_of(small_model())
    with pytest.raises(InvalidParameterError, match="there are 60 advertisers"):
        ask(tables, [0, row], [1.0, 1.0], [1.0, 1.0])
    with pytest.raises(InvalidParameterError, match="there are 60 advertisers"):
        tables.one(row, 1.0, 1.0, tables.days(), True)


@pytest.mark.parametrize("level", [0.91, "0.9", None, [0.9], float("nan")])
def test_levels_that_are_not_offered_are_refused(level):
    """The message lists those that are."""
    with pytest.raises(InvalidParameterError, match=r"it must be one of 0\.5, 0\.8, 0\.9, 0\.95"):
        small_model().forecast("new", 1.0, supply=5, level=level)


def test_nothing_asked_nothing_answered():
    """Of known advertisers and of new ones."""
    tables, none = tables_of(small_model()), np.zeros(0)
    found = tables.at(none.astype(int), none, none, [], np.zeros(0, bool))
    assert found.shape == (0, len(FIELDS))
    for place in (tables.placer.average_placement(), tables.placer.placed("adv-00010")):
        assert tables.at_placed(place, none, 1.0, tables.days()).shape == (0, len(FIELDS))
    log = log_of(bid=[5, 6], won=True, price=3, advertiser=[0, 1], day=[0, 1], edges=[10])
    plans = plans_of(log, [0]).of_rows(np.zeros(2, bool))
    assert tables.of_plans(plans, tables.interval_factors(0.9), given=True).shape == (
        0,
        len(FIELDS),
    )


def test_clicks_are_nan_where_the_log_has_none():
    """And the other figures are there."""
    log = log_of(bid=[5, 6, 7], won=True, price=3, advertiser=[0, 1, 1], edges=[4, 10])
    model = AdForecaster(**vars(QUICK)).fit(log)
    tables = tables_of(model)
    figures = dict(zip(FIELDS, tables.one(1, 1e-5, 10.0, tables.days(), True), strict=True))
    silent = {name for name, value in figures.items() if np.isnan(value)}
    assert silent == {name for name in FIELDS if name.startswith(("clicks", "conversions"))}
    forecast = model.forecast("a001", 1e-5, supply=10)
    nothing = {name for name, value in forecast.as_dict().items() if value is None}
    assert nothing == {"clicks", "clicks_interval", "conversions", "conversions_interval"}
    assert json.loads(json.dumps(forecast.as_dict(), allow_nan=False))["advertiser"] == "a001"


def test_grounds_supply_and_remarks_are_those_of_the_forecast():
    """The words a forecast is given with, in parts."""
    model = small_model()
    tables, highest = tables_of(model), model.edges_[-1] / 1e6
    for name in model.advertisers_[::11]:
        row = tables.row_of[str(name)]
        for bid in (1.0, 2 * highest):
            found = model.forecast(str(name), bid, supply=5)
            assert found.why.startswith(tables.why(row) + "; prices of an average day")
            assert found.why.endswith(tables.remark(bid))
        on = tables.days(date(2026, 3, 10))
        assert tables.supply(row, on) == model.forecast(str(name), 1.0, day="2026-03-10").supply
        assert tables.supply(row) == model.forecast(str(name), 1.0).supply
    assert tables.remark(highest) == tables.always == ""
    assert tables.remark(highest * 1.01) == tables.above


def test_a_model_of_one_day_says_that_its_intervals_are_untried():
    """In every forecast."""
    tables = tables_of(odd_model("one day"))
    assert "too few days for a backtest" in tables.always
    assert tables.remark(1e-3) == tables.always
    assert tables.remark(1e9) == tables.always + tables.above


def test_threads_may_ask_at_the_same_time():
    """Each gets its own answer."""
    tables, rng = tables_of(small_model()), np.random.default_rng(1)
    asked = [
        (rng.integers(0, 60, 200), rng.uniform(0.1, 9, 200), rng.uniform(1, 1e5, 200))
        for _ in range(16)
    ]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda one: ask(tables, *one), asked))
    for one, found in zip(asked, together, strict=True):
        np.testing.assert_array_equal(found, ask(tables, *one))


def test_tables_are_made_once_and_go_with_the_model():
    """They are kept as long as the model is, and are in no copy, clone, pickle or file of it."""
    model = AdForecaster(**vars(QUICK)).fit(
        log_of(bid=[5, 6], won=True, price=3, advertiser=[0, 1], edges=[10])
    )
    before = set(vars(model))
    tables = tables_of(model)
    assert tables_of(model) is tables and set(vars(model)) == before
    assert tables_of(copy(model)) is not tables
    assert set(vars(pickle.loads(pickle.dumps(model)))) == before
    assert clone(model).get_params() == model.get_params()
    gone = weakref.ref(tables)
    del model, tables
    gc.collect()
    assert gone() is None


def test_a_model_that_changes_gets_new_tables():
    """Fitted again, or given other curves, it forecasts by what it is now."""
    one, other = (
        log_of(
            bid=[5, 6] * 20,
            won=np.tile([True, won], 20),
            price=3,
            advertiser=[0, 1] * 20,
            edges=[4, 5, 10],
        )
        for won in (True, False)
    )
    model = AdForecaster(**vars(QUICK)).fit(one)
    first = model.forecast("a001", 6e-6, supply=10)
    assert model.fit(other).forecast("a001", 6e-6, supply=10).win_rate < first.win_rate
    tables = tables_of(model)
    model.win_ = 0.5 * model.win_
    assert tables_of(model) is not tables


def test_arrays_of_a_model_may_be_read_only_and_in_any_order():
    """As those of a model file are."""
    model = copy(small_model())
    tables = tables_of(model)
    expected = tables.one(3, 2.0, 100.0, tables.days(), True)
    for name in ("win_", "spread_", "segment_win_", "segment_spread_", "shares_", "price_"):
        turned = np.asfortranarray(getattr(model, name))
        turned.flags.writeable = False
        setattr(model, name, turned)
    again = tables_of(model)
    assert again is not tables
    assert again.one(3, 2.0, 100.0, again.days(), True) == expected
