"""Plan forecasts: curves, price levels, supply and click rates put together."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pytest
from scipy.special import ndtr

from coterie.ads.curves.day_levels import fit_levels, weekday_of
from coterie.ads.curves.landscapes import Evidence, evidence_of, own_curves, spend_curves
from coterie.ads.curves.supply import Supply
from coterie.ads.forecasts.forecast_tables import MarketTables, known_events
from coterie.ads.forecasts.plans import (
    Plans,
    contiguous,
    forecast_by_curves,
    outcome_of,
    pays_of,
    plans_of,
)
from coterie.ads.histograms.price_grid import price_grid
from markets import EASY, FIRST_DAY, log_of, market

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
        factors=factors,
        half_life=np.inf,
    )
    events = np.full((2, 4), np.nan) if events is None else events
    price = EDGES * (1.0 if pays == "own bid" else 0.99)
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


def test_the_same_days_are_made_once():
    """And asked for by any number of threads."""
    core = two_advertisers()
    assert core.days(date(2026, 3, 20), 3) is core.days(date(2026, 3, 20), 3)


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


def test_the_doubt_of_a_supply_has_three_parts():
    """The error of the level, the variation of days, and the common factors of days."""
    core = two_advertisers()
    days = core.days(date(2026, 3, 21), 2)
    expected = np.sqrt(0.01 + 0.05 * days.daily_share + days.factor_sd**2)
    assert core.supply_sd(0, days) == pytest.approx(expected)


@pytest.mark.parametrize("pays", ["price", "own bid", "bid"])
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


def test_own_curves_of_one_bid_forecast_their_own_past():
    """An advertiser that bids one amount wins and pays what it won and paid."""
    rng = np.random.default_rng(0)
    n = 300
    minimum = rng.integers(1e6, 3e6, n)
    log = log_of(
        advertiser=np.arange(n) % 3,
        bid=2_000_000,
        won=minimum <= 2_000_000,
        price=minimum,
        edges=np.append(price_grid(1e6, 1.95e6), 2_000_000),
    )
    evidence = evidence_of(log)
    impressions, spend = forecast_by_curves(own_curves(evidence), evidence, plans_of(log, [0]))
    happened = outcome_of(log, [0])
    np.testing.assert_allclose(impressions, happened.impressions, rtol=1e-5)
    np.testing.assert_allclose(spend, happened.spend, rtol=0.01)
    assert spend.sum() == pytest.approx(happened.spend.sum(), rel=1e-5)


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
        (("first", "none"), "own bid"),
        (("first", "minimum"), "own bid"),
        (("second", "none"), "bid"),
    ],
)
def test_what_a_winner_pays_is_known_by_the_log(kind, pays):
    """A price by its own bin, the bid, or a price by the bin of the bid."""
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
    assert isinstance(evidence_of(log), Evidence) and pays_of(evidence_of(log)) == pays


def test_rates_of_events_have_deviations():
    """√(p(1 − p)/(M + 1)); NaN where the log has no such events."""
    events = known_events(2, (np.array([0.1, 0.5]), np.array([99.0, 24.0])), (None, None))
    np.testing.assert_allclose(events[:, :2], [[0.1, 0.03], [0.5, 0.1]])
    assert np.isnan(events[:, 2:]).all()


def test_arrays_are_made_as_the_kernels_take_them():
    """Contiguous; copied only if they must be."""
    array = np.arange(6.0).reshape(2, 3)
    assert contiguous(array) is array
    made = contiguous(np.asfortranarray(array), np.float32)
    assert made.flags.c_contiguous and made.dtype == np.float32
    np.testing.assert_array_equal(made, array)
