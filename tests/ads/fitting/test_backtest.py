"""Backtest of the market model: its settings and its intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from altered_days import altered
from coterie.ads.curves.landscapes import evidence_of
from coterie.ads.curves.shrinkage import shrunk_shares
from coterie.ads.curves.supply import fit_supply
from coterie.ads.fitting.backtest import (
    HALF_LIVES,
    STRENGTHS,
    backtest_market,
    event_rates,
)
from coterie.ads.fitting.market_fit import fit_market
from coterie.ads.fitting.source_choice import trials_on
from coterie.ads.forecasts.calibration import normal_calibration
from coterie.ads.forecasts.forecast_tables import MarketTables
from coterie.ads.forecasts.plans import outcome_of, pays_of, plans_of
from coterie.ads.segments.text_view import description_vectors
from markets import EASY, QUICK, log_of, market

ONE_SD = np.ones((2, 4, 2, 3)), 0.0, 1.0


def trials_of(made, days, offered=QUICK):
    """The trials of the source that the model is made of."""
    vectors = description_vectors(made.histograms, made.descriptions)
    return trials_on(made.histograms, days, vectors, offered, ("robust",))


def backtest(made, days, offered=QUICK):
    """Choice and calibration."""
    return backtest_market(made.histograms, trials_of(made, days, offered), offered)


@pytest.fixture(scope="module")
def usual():
    """Trials, choice and calibration of an easy market."""
    trials = trials_of(market(EASY), [0, 1, 2, 3])
    return trials, *backtest_market(market(EASY).histograms, trials, QUICK)


def test_the_strength_with_the_least_error_is_chosen(usual):
    """By brute force: the mean of the WAPEs of impressions and spend of the last day."""
    log = market(EASY).histograms
    [trial], choice, _ = usual
    [robust] = [
        one for one in trial.candidates if one.key == ("robust", (("k", choice.n_segments),))
    ]
    K = robust.memberships.shares.shape[1] - 1
    fit = fit_market(log, [0, 1, 2], robust.memberships.labels, K)
    evidence, supply = evidence_of(log, [0, 1, 2]), fit_supply(log, [0, 1, 2])
    plans = plans_of(log, [3]).of_rows(evidence.observations > 0)
    truth, events = outcome_of(log, [3]), np.full((len(log.advertisers), 4), np.nan)
    errors = {}
    for strength in STRENGTHS:
        market_of = evidence.edges, evidence.price, pays_of(evidence)
        forecasts = MarketTables(*market_of, *fit.curves(strength), events, fit.levels, supply)
        found = forecasts.of_plans(plans, ONE_SD, given=True)
        gaps = [
            np.abs(found[:, column] - actual[plans.rows]).sum() / actual[plans.rows].sum()
            for column, actual in ((2, truth.impressions), (5, truth.spend))
        ]
        errors[strength] = np.mean(gaps)
    best = min(errors.values())
    assert errors[choice.strength] <= best * 1.0021
    assert choice.half_life == np.inf  # four days are too few for another
    assert choice.error == pytest.approx(errors[choice.strength], rel=1e-6)
    assert choice.days == 1 and choice.n_segments in QUICK.n_segments


def test_no_setting_looks_at_later_days():
    """Another last day changes neither choice nor calibration of the days before it."""
    made = market(EASY)
    other = replace(made, histograms=altered(made.histograms, [3], 0))
    (choice, calibration), (same, again) = (backtest(one, [0, 1, 2]) for one in (made, other))
    assert choice == same
    np.testing.assert_array_equal(calibration.factors, again.factors)


def test_without_trials_the_usual_settings_are_taken():
    """And the intervals of normal errors; error and bias are NaN."""
    made = market(EASY)
    choice, calibration = backtest_market(made.histograms, [], QUICK)
    assert choice.days == 0 and choice.strength in STRENGTHS and choice.half_life == np.inf
    assert choice.n_segments in QUICK.n_segments
    assert np.isnan([choice.error, choice.bias, choice.bias_error]).all()
    np.testing.assert_array_equal(calibration.factors, normal_calibration().factors)


@pytest.mark.parametrize("days", [range(4), range(13)])
def test_half_lives_need_twice_as_many_days(days):
    """Shorter logs weigh all days alike."""
    made = market(replace(EASY, advertisers=40, days=len(days)))
    choice, _ = backtest(made, list(days))
    possible = [half for half in HALF_LIVES if half == np.inf or 2 * half <= len(days)]
    assert choice.half_life in possible


def test_markets_that_change_for_good_have_a_half_life():
    """Advertisers whose prices moved each its own way are forecast by their last days."""
    made = market(replace(EASY, advertisers=60, days=12, bids_per_day=60, newcomers=0.0))
    rows = {**made.rows, "price": made.rows["price"].copy(), "bid": made.rows["bid"].copy()}
    # in the last half of the days half of the advertisers win at double the price
    late = (rows["day"] >= 6) & (rows["advertiser"] % 2 == 0)
    minimum = np.where(late, 1.8 * rows["minimum"], rows["minimum"]).astype(np.int64)
    rows |= {"minimum": minimum, "won": rows["bid"] >= minimum, "price": minimum}
    log = log_of(**rows, edges=made.histograms.edges, names=[f"adv-{i:05d}" for i in range(60)])
    offered = replace(QUICK, origins=2)
    choice, _ = backtest(replace(made, histograms=log), list(range(12)), offered)
    assert np.isfinite(choice.half_life)


def test_a_bias_is_that_of_all_forecasts_together(usual):
    """If everything costs twice as much on the last day, forecasts were above what was won."""
    made = market(EASY)
    rows = dict(made.rows)
    last = rows["day"] == 3
    minimum = np.where(last, 2 * rows["minimum"], rows["minimum"])
    rows |= {"minimum": minimum, "won": rows["bid"] >= minimum, "price": minimum}
    edges = made.histograms.edges
    dear = log_of(**rows, edges=edges, names=[f"adv-{i:05d}" for i in range(90)])
    choice, _ = backtest(replace(made, histograms=dear), [0, 1, 2, 3])
    _, of_usual, _ = usual
    assert choice.bias > 0.3 > abs(of_usual.bias) and choice.error > 2 * of_usual.error
    assert 0 < choice.bias_error < 0.2 * choice.bias


def test_a_log_without_wins_has_no_bias():
    """Nothing was won, so that nothing is relative to it."""
    log = log_of(
        bid=np.tile([5, 6, 7, 8], 30),
        won=False,
        price=0,
        advertiser=np.arange(120) % 10,
        day=np.arange(120) // 40,
        edges=[5, 6, 7, 8],
    )
    made = replace(market(EASY), histograms=log, descriptions={})
    choice, calibration = backtest(made, [0, 1, 2])
    assert np.isnan(choice.bias) and np.isnan(choice.bias_error)
    assert np.isfinite(calibration.factors).all()


@pytest.mark.slow
def test_wide_errors_widen_intervals():
    """A last day of half the wins, each advertiser for itself, is not what deviations state."""
    made = market(replace(EASY, bids_per_day=120))
    rng = np.random.default_rng(0)
    rows = dict(made.rows)
    factor = rng.choice([0.5, 1.0, 1.6], 90)[rows["advertiser"]]
    minimum = np.where(rows["day"] == 3, factor * rows["minimum"], rows["minimum"]).astype(int)
    rows |= {"minimum": minimum, "won": rows["bid"] >= minimum, "price": minimum}
    names = [f"adv-{i:05d}" for i in range(90)]
    wild = log_of(**rows, edges=made.histograms.edges, names=names)
    _, calibration = backtest(replace(made, histograms=wild), [0, 1, 2, 3])
    _, usual = backtest(made, [0, 1, 2, 3])
    assert calibration.inflation > 1.5 * usual.inflation
    assert calibration.is_suspicious and not usual.is_suspicious
    # one for each advertiser that was known and bid
    assert 80 < calibration.forecasts <= 90


def test_rates_of_events_are_shrunk_to_the_segments():
    """By the wins of each; None where nobody clicked."""
    made = market(EASY)
    log, shares = made.histograms, np.eye(3)[made.segments]
    wins, clicks = (log.daily(name)[:, :2].sum(axis=1) for name in ("wins", "clicks"))
    rates = event_rates(clicks, wins, shares)
    for one, other in zip(rates, shrunk_shares(clicks, wins, shares), strict=True):
        np.testing.assert_array_equal(one, other)
    assert event_rates(0 * clicks, wins, shares) == (None, None)
