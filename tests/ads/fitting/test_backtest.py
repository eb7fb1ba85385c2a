"""Backtest: sources, settings of the market model, and intervals, by earlier days."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from altered_days import altered
from coterie.ads.curves.landscapes import evidence_of
from coterie.ads.curves.shrinkage import pooled_curves, shrunk_shares
from coterie.ads.curves.supply import fit_supply
from coterie.ads.fitting import backtest as backtesting
from coterie.ads.fitting.backtest import (
    HALF_LIVES,
    STRENGTHS,
    backtest_market,
    choose_sources,
    event_rates,
    feasible_settings,
    middle_settings,
    training_on,
    trials_on,
)
from coterie.ads.fitting.market_fit import Widening, fit_market
from coterie.ads.forecasts.calibration import calibrate
from coterie.ads.forecasts.forecast_tables import (
    MarketTables,
    forecast_by_curves,
    outcome_of,
    plans_of,
)
from coterie.ads.segments.memberships import SOURCES, candidates, hard_memberships
from coterie.consensus import L2Consensus
from markets import EASY, QUICK, description_vectors, log_of, market, some_of

KEYS = [name for source in SOURCES for name in (source, f"{source}+pooled")]


def vectors_of(made):
    """Of the texts."""
    return description_vectors(made.histograms, made.descriptions)


def choose(log, days, vectors=None, offered=QUICK, sources=SOURCES):
    """The choices of some sources on some days."""
    trials = trials_on(log, days, vectors, offered, sources)
    return choose_sources(trials, offered, sources)


@pytest.fixture(scope="module")
def chosen():
    """Every source, chosen on the training days of an easy market."""
    made = market(EASY)
    return choose(made.histograms, [0, 1, 2], vectors_of(made))


def test_every_source_is_chosen_with_and_without_pooling(chosen):
    """Without pooling the own curve has strength 0, any other strength infinity."""
    assert list(chosen) == KEYS
    for name, choice in chosen.items():
        source, _, pooled = name.partition("+")
        assert choice.source == source and choice.days == 1
        assert 0 <= choice.error < 1
        if pooled:
            assert choice.strength in QUICK.strengths
        else:
            assert choice.strength == (0 if source == "own" else np.inf)
    assert chosen["own+pooled"].strength == chosen["global+pooled"].strength
    assert chosen["own+pooled"].error == chosen["global+pooled"].error


def test_no_choice_looks_at_later_days(chosen):
    """Another day after the last one changes no choice, to the last bit."""
    made = market(EASY)
    other = altered(made.histograms, [3], 0)
    assert other.daily("wins")[:, 3].tolist() != made.histograms.daily("wins")[:, 3].tolist()
    assert choose(other, [0, 1, 2], vectors_of(made)) == chosen


@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1), st.integers(2, 3))
def test_no_forecast_looks_at_its_own_day_or_later(seed, from_day):
    """The days to train on alone decide what is trained: evidence is that of a shorter log."""
    histograms = market(EASY).histograms
    other = altered(histograms, list(range(from_day, 4)), seed)
    days = list(range(from_day))
    one, same = evidence_of(histograms, days), evidence_of(other, days)
    for name in ("successes", "trials", "price", "observations"):
        np.testing.assert_array_equal(getattr(one, name), getattr(same, name))
    simple = ("own", "global")
    assert choose(other, days, sources=simple) == choose(histograms, days, sources=simple)


def test_views_of_some_days_do_not_change_with_others():
    """Not one label."""
    made = market(EASY)
    other = altered(made.histograms, [2, 3], 0)
    one = training_on(made.histograms, [0, 1], vectors_of(made), QUICK)
    same = training_on(other, [0, 1], vectors_of(made), QUICK)
    assert one.views.keys() == same.views.keys()
    for name, view in one.views.items():
        np.testing.assert_array_equal(view.partitions, same.views[name].partitions)


def test_the_settings_with_the_least_error_win():
    """By brute force: the mean of the WAPEs of impressions and of spend over all origins."""
    histograms = market(EASY).histograms
    strengths = (0.5, 3.0, 30.0)
    offered = replace(QUICK, strengths=strengths, origins=2)
    found = choose(histograms, [0, 1, 2, 3], None, offered, ("own",))
    errors = {}
    for strength in (0.0, *strengths):
        off, total = np.zeros(2), np.zeros(2)
        for origin in (2, 3):
            evidence = evidence_of(histograms, list(range(origin)))
            nobody = hard_memberships(evidence, np.full(len(evidence.trials), -1))
            win = pooled_curves(evidence, nobody.prior, strength)
            forecast = forecast_by_curves(win, evidence, plans_of(histograms, [origin]))
            truth = outcome_of(histograms, [origin])
            known = evidence.observations > 0
            for i, (f, y) in enumerate(
                zip(forecast, (truth.impressions, truth.spend), strict=True)
            ):
                off[i] += np.abs(f - y)[known].sum()
                total[i] += y[known].sum()
        errors[strength] = np.mean(off / total)
    assert found["own"].error == pytest.approx(errors[0.0])
    best = min(strengths, key=errors.get)
    assert found["own+pooled"].strength == best
    assert found["own+pooled"].error == pytest.approx(errors[best])
    assert found["own"].days == 2


def test_ties_are_broken_the_same_way_in_any_order():
    """A log without wins, which everything forecasts without error."""
    log = log_of(
        bid=[10, 20, 10, 20],
        won=False,
        price=0,
        advertiser=[0, 1, 0, 1],
        day=[0, 0, 1, 1],
        edges=[10, 20],
    )
    there, back = (
        choose(log, [0, 1], None, replace(QUICK, strengths=order))
        for order in ((2.0, 20.0), (20.0, 2.0))
    )
    assert there == back and list(there) == ["own", "own+pooled", "global", "global+pooled"]
    assert all(choice.error == 0 for choice in there.values())


@pytest.mark.parametrize(("days", "origins"), [([0], 2), ([0, 1, 2], 0)])
def test_without_a_day_to_choose_by_the_middle_is_taken(days, origins):
    """The error is NaN then."""
    made = market(EASY)
    offered = replace(QUICK, n_segments=(2, 3, 4), strengths=(50.0, 2.0, 5.0), origins=origins)
    assert trials_on(made.histograms, days, vectors_of(made), offered) == []
    training = training_on(made.histograms, days, vectors_of(made), offered)
    made_of = candidates(training.views, training.evidence, offered, SOURCES)
    found = middle_settings(list(made_of), offered)
    assert list(found) == KEYS
    for name, choice in found.items():
        assert np.isnan(choice.error) and choice.days == 0
        if name.endswith("+pooled"):
            assert choice.strength == 5.0
    assert found["robust"].settings == (("k", 3),)


def test_origins_are_the_last_days():
    """At most as many as asked for, and never the first day."""
    histograms = market(EASY).histograms
    for origins, used in ((1, [3]), (2, [2, 3]), (99, [1, 2, 3])):
        asked = replace(QUICK, origins=origins)
        trials = trials_on(histograms, [0, 1, 2, 3], None, asked, ("global",))
        assert [trial.before for trial in trials] == [list(range(day)) for day in used]
    # days before the first origin matter only for training
    last = choose(histograms, [1, 2, 3], sources=("global",))["global"]
    alone = choose(some_of(histograms, days=[1, 2, 3]), [0, 1, 2], sources=("global",))["global"]
    assert alone.error == pytest.approx(last.error, rel=1e-9)


def test_a_trial_asks_about_advertisers_that_were_known():
    """Others have no curve of their own; what happened is known of all."""
    histograms = market(EASY).histograms
    [trial] = trials_on(histograms, [0, 1, 2, 3], None, QUICK, ("own",))
    known = histograms.daily("count")[:, :3].sum(axis=1) > 0
    bids = histograms.daily("count")[:, 3] > 0
    assert trial.plans.rows.tolist() == np.flatnonzero(known & bids).tolist()
    assert (~known & bids).any()
    np.testing.assert_allclose(trial.truth.impressions, histograms.daily("wins")[:, 3])


def test_numbers_of_segments_are_settled_by_the_shortest_span():
    """Advertisers that come later do not make numbers possible that were not at first."""
    counts = np.array([[1, 1, 1]] * 8 + [[0, 0, 1]] * 12)
    who, day = np.nonzero(counts)
    log = log_of(bid=np.full(len(who), 5), won=True, price=3, advertiser=who, day=day, edges=[5])
    offered = replace(QUICK, n_segments=(3, 6, 8))
    assert feasible_settings(log, [0, 1, 2], offered).numbers_of_segments == [3, 4]
    assert feasible_settings(log, [0, 1, 2], replace(offered, origins=0)).numbers_of_segments == [
        3,
        6,
        8,
    ]
    once = feasible_settings(log, [0, 1, 2], offered)
    assert feasible_settings(log, [0, 1, 2], once) == replace(once, n_segments=[3, 4])


def test_any_consensus_function_may_take_the_robust_ones_place(chosen):
    """Its labels are made into shares as those of the robust one are."""
    made = market(EASY)
    mine = replace(QUICK, consensus=L2Consensus(random_state=0))
    found = choose(made.histograms, [0, 1, 2], vectors_of(made), mine, ("robust",))
    assert list(found) == ["robust", "robust+pooled"]
    assert found["robust"].error < 2 * chosen["robust"].error


ONE_SD = np.ones((2, 4, 2, 3)), 0.0, 1.0


def trials_of(made, days, offered=QUICK):
    """The trials of the source that the model is made of."""
    vectors = description_vectors(made.histograms, made.descriptions)
    return trials_on(made.histograms, days, vectors, offered, ("robust",))


def backtest(made, days, offered=QUICK):
    """Choice and calibration."""
    return backtest_market(made.histograms, trials_of(made, days, offered), offered)[:2]


@pytest.fixture(scope="module")
def usual():
    """Trials, choice and calibration of an easy market."""
    trials = trials_of(market(EASY), [0, 1, 2, 3])
    return trials, *backtest_market(market(EASY).histograms, trials, QUICK)[:2]


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
        market_of = evidence.edges, evidence.price, evidence.pays
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
    choice, calibration, widening, above = backtest_market(made.histograms, [], QUICK)
    assert above is None
    assert choice.days == 0 and choice.strength in STRENGTHS and choice.half_life == np.inf
    assert choice.n_segments in QUICK.n_segments
    assert np.isnan([choice.error, choice.bias, choice.bias_error]).all()
    np.testing.assert_array_equal(calibration.factors, calibrate([]).factors)
    assert widening == Widening()


@pytest.mark.parametrize(("days", "has_one"), [(5, False), (12, True)])
def test_markets_that_change_for_good_have_a_half_life(days, has_one):
    """Prices that moved, each its own way, are forecast by their last days; six are needed."""
    made = market(replace(EASY, advertisers=60, days=days, bids_per_day=60, newcomers=0.0))
    rows = dict(made.rows)
    # from the middle on half of the advertisers win at nearly double the price
    late = (rows["day"] >= days // 2) & (rows["advertiser"] % 2 == 0)
    minimum = np.where(late, 1.8 * rows["minimum"], rows["minimum"]).astype(np.int64)
    rows |= {"minimum": minimum, "won": rows["bid"] >= minimum, "price": minimum}
    log = log_of(**rows, edges=made.histograms.edges, names=[f"adv-{i:05d}" for i in range(60)])
    offered = replace(QUICK, origins=2)
    choice, _ = backtest(replace(made, histograms=log), list(range(days)), offered)
    assert np.isfinite(choice.half_life) == has_one
    assert choice.half_life in [half for half in HALF_LIVES if 2 * half <= days or half == np.inf]


def test_the_usual_strength_is_kept_if_it_is_hardly_worse(usual, monkeypatch):
    """Of strengths that forecast alike, whichever has the smallest error."""
    trials, *_ = usual
    monkeypatch.setattr(backtesting, "STRENGTHS", (97.0, 100.0, 103.0))
    assert backtest_market(market(EASY).histograms, trials, QUICK)[0].strength == 100.0


def test_each_target_and_kind_of_supply_is_calibrated_by_its_own_errors(usual, monkeypatch):
    """Clicks and conversions by their own size; a forecast supply changes size and error."""
    trials, *_ = usual
    found = []
    monkeypatch.setattr(backtesting, "calibrate", found.extend)
    backtest_market(market(EASY).histograms, trials, QUICK)
    impressions, spend, clicks, conversions = (sizes.sum() for sizes, _ in found[:4])
    assert impressions == spend > 2 * clicks > 4 * conversions > 0
    for of_given, of_forecast in zip(found[:4], found[4:], strict=True):
        for one, other in zip(of_given, of_forecast, strict=True):
            assert not np.isin(one, other).any()


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
def test_shares_above_intervals_are_measured_on_days_that_did_not_calibrate_them(usual):
    """Of higher levels more; near what is stated; and none if there is but one day."""
    two = replace(QUICK, origins=2)
    log = market(EASY).histograms
    above = backtest_market(log, trials_of(market(EASY), [0, 1, 2, 3], two), two).shares_above
    assert above.shape == (4, 2, 4)
    assert (np.diff(above[:, :, :2], axis=0) >= 0).all()
    # of impressions, given the supply
    assert above[:, 0, 0] == pytest.approx([0.75, 0.9, 0.95, 0.975], abs=0.12)
    assert backtest_market(log, usual[0], QUICK).shares_above is None


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
    assert calibration.forecasts > 80


def test_rates_of_events_are_shrunk_to_the_segments():
    """By the wins of each; None where nobody clicked."""
    made = market(EASY)
    log, shares = made.histograms, np.eye(3)[made.segments]
    wins, clicks = (log.daily(name)[:, :2].sum(axis=1) for name in ("wins", "clicks"))
    rates = event_rates(clicks, wins, shares)
    for one, other in zip(rates, shrunk_shares(clicks, wins, shares), strict=True):
        np.testing.assert_array_equal(one, other)
    assert event_rates(0 * clicks, wins, shares) == (None, None)


def test_prices_that_move_for_each_advertiser_widen_its_curves():
    """On the last three days each has a level of its own."""
    made = market(replace(EASY, advertisers=60, days=9, bids_per_day=120, newcomers=0.0))
    rows, moved = dict(made.rows), np.exp(0.2 * np.random.default_rng(3).standard_normal(60))
    found = []
    for factor in (np.ones(60), moved):
        each = np.where(rows["day"] >= 6, factor[rows["advertiser"]], 1.0)
        minimum = (each * rows["minimum"]).astype(np.int64)
        changed = rows | {"minimum": minimum, "won": rows["bid"] >= minimum, "price": minimum}
        names = [f"adv-{i:05d}" for i in range(60)]
        log = log_of(**changed, edges=made.histograms.edges, names=names)
        trials = trials_of(replace(made, histograms=log), list(range(9)))
        found.append(backtest_market(log, trials, QUICK).widening)
    # the days together are the last four
    assert found[0].level < 0.0005 and found[0].curve < 1.5
    assert found[1].level > 0.001 and found[1].curve > 2.5
