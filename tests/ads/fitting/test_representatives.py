"""Representatives are a random sample of advertisers; all others are placed by what they say."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.curves.landscapes import evidence_of
from coterie.ads.curves.supply import fit_supply_rule
from coterie.ads.evaluation.evaluation import evaluate
from coterie.ads.fitting import representatives
from coterie.ads.fitting.forecaster import AdForecaster
from coterie.ads.fitting.market_fit import Widening, fit_market
from coterie.ads.fitting.representatives import (
    batches_of,
    choose_representatives,
    complete_all_curves,
    histograms_of,
    place_all,
    refuse_too_many,
    text_votes,
)
from coterie.ads.forecasts.model_checks import check_model
from coterie.ads.segments.memberships import learn_memberships
from coterie.ads.segments.segment_profiles import segment_curves
from coterie.errors import InvalidParameterError
from coterie.inspection.scores import adjusted_rand_index
from coterie.models import load_model, save_model
from markets import EASY, QUICK, log_of, market, sound


def unwidened(log):
    """What leaves deviations as they are: the last arguments of complete_all_curves."""
    return Widening(), np.zeros(len(log.advertisers))


def campaigns(*sizes):
    """A log of one bid for each of so many campaigns of each advertiser."""
    names = sorted(f"adv{a:02d}/{c}" for a, n in enumerate(sizes) for c in range(n))
    log = log_of(bid=[5] * len(names), won=1, price=3, advertiser=np.arange(len(names)), edges=[9])
    return replace(log, advertisers=np.array(names), unit="campaign")


def test_few_advertisers_are_all_representatives(caplog):
    """Then nothing is said of it, and their histograms are the same object."""
    log = market().histograms
    n = len(log.advertisers)
    with caplog.at_level(logging.INFO, logger="coterie"):
        rows = choose_representatives(log, n, 0)
    np.testing.assert_array_equal(rows, np.arange(n))
    assert histograms_of(log, rows) is log
    assert not caplog.records


def test_many_advertisers_are_sampled(caplog):
    """In order, each once, by the seed; the log says how many."""
    log = market().histograms
    with caplog.at_level(logging.INFO, logger="coterie"):
        rows = choose_representatives(log, 30, 7)
    assert len(rows) == 30 and (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, choose_representatives(log, 30, 7))
    assert (rows != choose_representatives(log, 30, 8)).any()
    assert "Fitting on 30 of 90 advertisers; the others are placed" in caplog.text
    assert histograms_of(log, rows).advertisers.tolist() == log.advertisers[rows].tolist()


def test_all_have_the_same_chance():
    """Whatever their number of bids."""
    log = market().histograms
    chosen = np.zeros(len(log.advertisers))
    for seed in range(400):
        chosen[choose_representatives(log, 30, seed)] += 1
    # binomial with mean 133 and standard deviation 9.4
    assert np.abs(chosen - 400 / 3).max() < 5 * 9.4


def test_who_does_not_bid_represents_nobody():
    """An advertiser without cells is not chosen."""
    log = log_of(bid=[5, 5, 5], won=1, price=3, advertiser=[0, 1, 2], edges=[9])
    silent = replace(log, advertisers=np.array([*log.advertisers, "silent"]))
    for seed in range(20):
        assert 3 not in choose_representatives(silent, 3, seed)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.integers(2, 20), st.integers(0, 99))
def test_campaigns_stay_together(sizes, most, seed):
    """All campaigns of an advertiser are representatives or none, and they are in one batch."""
    log = campaigns(*sizes)
    parents = log.parents
    rows = choose_representatives(log, most, seed)
    assert 0 < len(rows) <= max(most, *sizes)
    assert not set(parents[rows]) & set(np.delete(parents, rows))
    batches = batches_of(log, most)
    np.testing.assert_array_equal(np.sort(np.concatenate(batches)), np.arange(len(parents)))
    owners = [set(parents[batch]) for batch in batches]
    assert sum(len(some) for some in owners) == len(sizes)
    assert all(len(batch) <= max(most, *sizes) for batch in batches)


def test_an_advertiser_with_very_many_campaigns_leaves_room_for_others():
    """It is passed over wherever it is drawn; alone, it is the sample."""
    log = campaigns(50, *[1] * 40)
    for seed in range(20):
        assert len(choose_representatives(log, 30, seed)) == 30
    assert len(choose_representatives(campaigns(50, 60), 30, 0)) in (50, 60)


def test_new_advertisers_leave_most_of_the_sample():
    """Each of them takes the place of at most one other, whatever its place among the names."""
    log = market().histograms
    before = log.for_advertisers(np.arange(5, 90))
    old = set(before.advertisers[choose_representatives(before, 30, 0)].tolist())
    new = set(log.advertisers[choose_representatives(log, 30, 0)].tolist())
    assert len(old & new) >= 25


@pytest.mark.parametrize("size", [1, 7, 90, 1000])
def test_batches_of_advertisers(size):
    """They follow each other, and each has so many but the last."""
    log = market().histograms
    batches = batches_of(log, size)
    np.testing.assert_array_equal(np.concatenate(batches), np.arange(90))
    assert {len(batch) for batch in batches[:-1]} <= {size}


def test_memory_is_looked_at_before_the_work(monkeypatch, caplog):
    """A model that does not fit is refused before anything is fitted; smaller batches need less."""
    log = market().histograms
    memory = np.geomspace(1e5, 1e8, 100).astype(int)

    def refusals(most):
        found = 0
        for free in memory.tolist():
            monkeypatch.setattr(representatives, "available_memory", lambda free=free: free)
            try:
                refuse_too_many(log, most)
            except InvalidParameterError:
                found += 1
        return found

    with caplog.at_level(logging.INFO, logger="coterie"):
        assert 0 < refusals(30) < refusals(1000) < len(memory)
    assert "A model of 90 advertisers needs about" in caplog.text
    monkeypatch.setattr(representatives, "available_memory", lambda: 100_000)
    message = r"a model of 90 advertisers needs about .* but .* are free; .*max_representatives"
    model = AdForecaster(max_representatives=1000)
    with pytest.raises(InvalidParameterError, match=message):
        model.fit(log)
    assert not hasattr(model, "text_view_")


FEW = replace(QUICK, max_representatives=40)
MARKETS = {
    "second": EASY,
    "first": replace(EASY, auction="first"),
    "two weeks": replace(EASY, advertisers=40, days=15, bids_per_day=10),
}


@cache
def sampled(auction="second"):
    """A model of 90 advertisers that was fitted to 40."""
    made = market(replace(EASY, auction=auction))
    return AdForecaster(**vars(FEW)).fit(made.histograms, made.descriptions)


@pytest.mark.parametrize(
    ("kind", "size"), [("second", 1), ("second", 1000), ("first", 7), ("two weeks", 7)]
)
def test_batches_change_nothing(kind, size):
    """One batch after the other gives what all advertisers at once give, up to rounding."""
    made = market(MARKETS[kind])
    log, days = made.histograms, list(range(len(made.histograms.days)))
    evidence = evidence_of(log)
    votes = made.segments[:, None]
    learned = learn_memberships(evidence, made.segments, [votes])
    supply = fit_supply_rule(log.daily("count"), log.days)
    batches = batches_of(log, size)
    rule = learned.rule
    known = place_all(log, batches, evidence.price, rule, [lambda rows: votes[rows]], supply)
    np.testing.assert_allclose(known.shares, learned.shares, atol=1e-9)
    np.testing.assert_array_equal(known.observations, evidence.observations)
    np.testing.assert_allclose(known.successes.toarray(), evidence.successes, rtol=1e-6)
    np.testing.assert_array_equal(known.sums["wins"], log.daily("wins").sum(axis=1))
    whole = supply.supply(log.daily("count"))
    for name in ("level", "error", "variation", "weekday"):
        np.testing.assert_allclose(getattr(known.supply, name), getattr(whole, name), rtol=1e-9)
    groups = np.where(evidence.observations > 0, learned.labels, -1)
    fit = fit_market(log, days, groups, 3)
    curves = segment_curves(evidence, learned)
    found = complete_all_curves(
        log, batches, fit, 100.0, learned, evidence.price, curves, *unwidened(log)
    )
    for one, other in zip(found[:2], fit.curves(100.0), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_batches_of_campaigns_are_put_in_order():
    """Also where the campaigns of an advertiser are not beside each other."""
    made = market(replace(EASY, advertisers=30))
    # campaigns of "a", each beside one of an advertiser "a/…"
    n = len(made.segments)
    names = sorted(f"a/{i // 2:02d}{'/x' * (i % 2)}" for i in range(n))
    log = replace(made.histograms, advertisers=np.array(names), unit="campaign")
    evidence = evidence_of(log)
    learned = learn_memberships(evidence, made.segments)
    supply = fit_supply_rule(log.daily("count"), log.days)
    batches = batches_of(log, 9)
    assert len(batches) > 1 and (np.diff(np.concatenate(batches)) < 0).any()
    known = place_all(log, batches, evidence.price, learned.rule, [], supply)
    np.testing.assert_allclose(known.shares, learned.shares, atol=1e-9)
    np.testing.assert_allclose(known.successes.toarray(), evidence.successes, rtol=1e-6)
    level = supply.supply(log.daily("count")).level
    np.testing.assert_allclose(known.supply.level, level, rtol=1e-9)
    groups = learned.labels
    fit = fit_market(log, [0, 1, 2, 3], groups, 3)
    curves = segment_curves(evidence, learned)
    win, _, _ = complete_all_curves(
        log, batches, fit, 100.0, learned, evidence.price, curves, *unwidened(log)
    )
    np.testing.assert_allclose(win, fit.curves(100.0)[0], atol=1e-6)


def test_text_votes():
    """A representative votes as it did, others with the nearest centre, none without a text."""
    vectors = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8], [0, 0], [0.96, 0.28]])
    votes = text_votes(vectors, np.array([0, 2, 4]), np.array([[0, 1], [1, 0], [-1, -1]]))
    found = votes(np.arange(6))
    assert found.tolist() == [[0, 1], [0, 1], [1, 0], [1, 0], [-1, -1], [0, 1]]
    assert votes(np.array([3, 5])).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("auction", ["second", "first"])
def test_a_sampled_model_is_complete(auction, tmp_path):
    """It knows every advertiser, can be saved, and forecasts."""
    model, made = sampled(auction), market(replace(EASY, auction=auction))
    assert len(model.representatives_) == 40
    check_model(model)
    assert sum(segment.size for segment in model.segments_) == 90
    others = np.setdiff1d(np.arange(90), model.representatives_)
    assert (model.agreement_.placed[others] == -1).all()
    assert (model.agreement_.placed[model.representatives_] >= 0).any()
    save_model(model, tmp_path / "m.coterie")
    loaded = load_model(tmp_path / "m.coterie")
    np.testing.assert_array_equal(loaded.representatives_, model.representatives_)
    for row in others[:5]:
        name = str(made.histograms.advertisers[row])
        assert sound(model.forecast(name, [0.5, 1.0, 2.0, 4.0]))
        assert loaded.forecast(name, 2.0) == model.forecast(name, 2.0)


@pytest.mark.parametrize("auction", ["second", "first"])
def test_others_are_placed_as_well_as_representatives(auction):
    """Segments that are far apart are found again for those that were not looked at."""
    model, made = sampled(auction), market(replace(EASY, auction=auction))
    others = np.setdiff1d(np.arange(90), model.representatives_)
    for rows in (model.representatives_, others):
        assert adjusted_rand_index(model.labels_[rows], made.segments[rows]) > 0.8


def test_sources_are_compared_on_representatives():
    """The model forecasts everybody, other sources the representatives."""
    made = market(EASY)
    found = evaluate(made.histograms, made.descriptions, settings=FEW, sources=("own", "lognormal"))
    assert found.compared.sum() == 40 < (found.observations > 0).sum()
    assert found.forecasts["own"].impressions[~found.compared].sum() == 0
    active = found.compared & (found.bids > 0)
    assert (found.forecasts["own"].impressions[active] > 0).mean() > 0.8
    known = (found.observations > 0) & (found.bids > 0)
    assert (found.forecasts["dictionary"].impressions[known] > 0).all()
    own = found.measures("own", "impressions").wape
    assert found.measures("dictionary", "impressions").wape < own < 1
    assert len(found.segments) == 40
    facts = found.as_dict()
    assert facts["sources"]["own"]["impressions"]["wape"] == own
    # errors are of the same advertisers, so that they differ by what is told as the difference
    errors = [facts["sources"][name]["impressions"]["wape"] for name in ("dictionary", "own")]
    (told,) = (
        row["difference"]
        for row in facts["differences"]
        if (row["b"], row["target"]) == ("own", "impressions")
    )
    assert errors[0] - errors[1] == pytest.approx(told)
    assert facts["advertisers"] == (known & found.compared).sum()
    assert facts["placed"]["advertisers"] == (known & ~found.compared).sum()
    assert 0 < facts["placed"]["impressions"]["wape"] < 1
    new = facts["strata"][0]["advertisers"]
    assert sum(one["advertisers"] for one in facts["strata"]) == facts["advertisers"] + new
