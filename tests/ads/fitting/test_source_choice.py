"""Choosing the settings of every source by forecasts of earlier days."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from altered_days import altered
from coterie.ads.curves.landscapes import evidence_of
from coterie.ads.curves.shrinkage import pooled_curves
from coterie.ads.fitting.source_choice import (
    all_candidates,
    choose_sources,
    feasible_settings,
    middle_settings,
    training_on,
    trials_on,
)
from coterie.ads.forecasts.plans import forecast_by_curves, outcome_of, plans_of
from coterie.ads.segments.memberships import SOURCES, hard_memberships
from coterie.ads.segments.text_view import description_vectors
from coterie.consensus import L2Consensus
from markets import EASY, QUICK, log_of, market, some_of

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
    found = middle_settings(all_candidates(training, offered, SOURCES), offered)
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
