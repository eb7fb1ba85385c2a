"""Evaluation on days nobody looked at."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.curves.demand import Outcome, demand_of, outcome_of
from coterie.ads.forecasts.backtest import NINE_IN_TEN, forecast_outcome
from coterie.ads.forecasts.evaluation import (
    STRATA,
    evaluate,
    interval,
    measure,
    paired_difference,
    strata_of,
)
from coterie.ads.segments.memberships import hard_memberships
from coterie.ads.segments.settings import SegmentSettings
from coterie.ads.segments.sources import SOURCES
from coterie.ads.segments.text_view import description_vectors
from coterie.errors import InvalidParameterError
from coterie.inspection.scores import adjusted_rand_index
from markets import EASY, QUICK, evaluated, log_of, market, some_of

KEYS = [name for source in SOURCES for name in (source, f"{source}+pooled")]
#: Few bids, moved on the last day, so that own curves say little.
THIN = replace(
    EASY, advertisers=120, bids_per_day=8, bid_move=0.6, newcomers=0.0, text_missing=0.0, seed=5
)


def test_every_source_is_there_with_and_without_pooling():
    """And nothing else; the truth where it is told."""
    assert list(evaluated().forecasts) == [*KEYS, "true", "true+pooled"]
    assert list(evaluated().choices) == KEYS


def test_truth_is_what_the_last_day_says():
    """Spend in units of currency."""
    histograms, found = market(EASY).histograms, evaluated()
    assert found.days == ["2026-03-05"]
    happened = outcome_of(histograms, [3])
    np.testing.assert_array_equal(found.truth.impressions, happened.impressions)
    np.testing.assert_allclose(found.truth.spend, happened.spend / 1e9)
    bids = histograms.daily("count")
    np.testing.assert_allclose(found.observations, bids[:, :3].sum(axis=1))


def test_new_advertisers_are_left_out_of_the_figures_and_told_apart():
    """They have a stratum of their own."""
    found = evaluated()
    new = found.observations == 0
    assert new.sum() == 4
    told = found.as_dict()
    assert told["new_advertisers"] == 4 and told["advertisers"] == 86
    for name in KEYS:
        forecast, truth = found.forecasts[name].impressions, found.truth.impressions
        main = told["sources"][name]["impressions"]
        assert main["wape"] == pytest.approx(measure(forecast[~new], truth[~new]).wape)
        stratum = told["strata"][0]
        assert stratum["name"] == "new" and stratum["advertisers"] == 4
        of_new = stratum["sources"][name]["impressions"]
        assert of_new["wape"] == pytest.approx(measure(forecast[new], truth[new]).wape)
    assert sum(stratum["advertisers"] for stratum in told["strata"]) == 90


def test_differences_are_paired_with_the_flagship():
    """WAPE of robust+pooled less that of every other source, for both targets."""
    found = evaluated()
    told = found.as_dict()["differences"]
    assert [(row["b"], row["target"]) for row in told] == [
        (name, target)
        for name in found.forecasts
        for target in ("impressions", "spend")
        if name != "robust+pooled"
    ]
    seen = found.observations > 0
    for row in told:
        assert row["a"] == "robust+pooled"
        expected = paired_difference(
            getattr(found.forecasts["robust+pooled"], row["target"])[seen],
            getattr(found.forecasts[row["b"]], row["target"])[seen],
            getattr(found.truth, row["target"])[seen],
        )
        assert row["difference"] == pytest.approx(expected.difference)
        assert row["standard_error"] == pytest.approx(expected.standard_error)
        wape = found.as_dict()["sources"]
        gap = wape["robust+pooled"][row["target"]]["wape"] - wape[row["b"]][row["target"]]["wape"]
        assert row["difference"] == pytest.approx(gap)


def test_json_has_no_nan():
    """Not for a market, nor where there is nothing to choose by or nothing was won."""
    told = evaluated().as_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    histograms = market(EASY).histograms
    two_days = evaluate(some_of(histograms, days=[0, 1]), settings=QUICK).as_dict()
    assert two_days["chosen"]["own"]["backtest_error"] is None
    json.dumps(two_days, allow_nan=False)
    lost = log_of(
        bid=[5, 6] * 3,
        won=False,
        price=0,
        advertiser=[0, 1] * 3,
        day=[0, 0, 1, 1, 2, 2],
        edges=[5, 6],
    )
    unwon = evaluate(lost, settings=QUICK).as_dict()
    assert unwon["sources"]["own"]["impressions"]["wape"] is None
    json.dumps(unwon, allow_nan=False)


def test_what_was_chosen_is_told():
    """Strengths as numbers, or in words where it is the segment's curve alone."""
    told = evaluated().as_dict()["chosen"]
    assert list(told) == KEYS
    assert told["robust"]["strength"] == "segment only"
    assert told["robust+pooled"]["strength"] in QUICK.strengths
    assert told["own"]["strength"] == 0
    assert told["robust+pooled"]["k"] in QUICK.n_segments
    assert told["win"]["alpha"] == 0.05
    assert told["win"]["backtest_days"] == 1


def test_segments_are_those_of_the_robust_source():
    """Which on an easy market are nearly the true ones, for those who were there."""
    found = evaluated()
    seen = found.observations > 0
    assert adjusted_rand_index(found.segments[seen], market(EASY).segments[seen]) > 0.9
    plain = evaluate(market(EASY).histograms, settings=QUICK, sources=("own",))
    assert (plain.segments == -1).all()


@pytest.mark.parametrize("target", ["impressions", "spend"])
def test_thin_advertisers_gain_by_robust_segments(target):
    """Few bids of their own, moved on the last day: robust and pooled beats own by far."""
    found = evaluated(THIN)
    thin = (found.observations >= 10) & (found.observations < 200)
    assert thin.sum() > 100
    own = found.measures("own", target, thin).wape
    robust = found.measures("robust+pooled", target, thin).wape
    known = found.measures("true+pooled", target, thin).wape
    assert robust < 0.9 * own
    assert robust < found.measures("global", target, thin).wape
    # and closes at least half of the way to who knows the truth
    assert own - robust > 0.5 * (own - known)
    assert found.difference("robust+pooled", "own", target).difference < 0


def test_intervals_hold_nine_in_ten_or_so():
    """Of all advertisers, on the day held out."""
    told = evaluated(THIN).as_dict()["sources"]
    for name in ("own+pooled", "robust+pooled"):
        assert 0.8 <= told[name]["impressions"]["coverage"] <= 1


def test_spreads_hold_what_varies_from_day_to_day():
    """√(spread² + (noise · impressions)²), with the noise the backtest found."""
    made = market(THIN)
    found = evaluated(THIN)
    evidence = found.training.evidence
    nobody = hard_memberships(evidence, np.full(len(evidence.trials), -1))
    demand = demand_of(made.histograms, [3])
    noisy = 0
    for name in ("own", "global", "global+pooled"):
        choice, forecast = found.choices[name], found.forecasts[name]
        bare = forecast_outcome(evidence, nobody, choice.strength, demand)
        np.testing.assert_allclose(forecast.impressions, bare.impressions)
        np.testing.assert_allclose(forecast.spend, bare.spend / 1e9)
        spread = np.hypot(bare.spread, choice.noise * bare.impressions)
        np.testing.assert_allclose(forecast.spread, spread)
        noisy += choice.noise > 0.01
    assert noisy


def test_the_interval_is_widened_to_whole_impressions():
    """And spend follows in proportion; without impressions it costs nothing."""
    found = Outcome(
        np.array([10.0, 0.5, 0.0]), np.array([20.0, 5.0, 0.0]), np.array([2.0, 1.0, 0.0])
    )
    low, high = interval(found, "impressions")
    assert low.tolist() == [np.floor(10 - 2 * NINE_IN_TEN), 0, 0]
    assert high.tolist() == [np.ceil(10 + 2 * NINE_IN_TEN), np.ceil(0.5 + NINE_IN_TEN), 0]
    paid_low, paid_high = interval(found, "spend")
    assert paid_low.tolist() == (low * [2, 10, 0]).tolist()
    assert paid_high.tolist() == (high * [2, 10, 0]).tolist()
    bare = interval(Outcome(np.array([2.0]), np.array([1.0])), "impressions")
    assert [end.tolist() for end in bare] == [[2], [2]]


@pytest.mark.parametrize(("days", "holdout"), [(4, 4), (4, 5), (1, 1), (4, 0), (4, -1)])
def test_something_must_be_held_out_and_something_left_to_learn_from(days, holdout):
    """The message says how many days there are, or are to be held out."""
    log = some_of(market(EASY).histograms, days=range(days))
    match = f"{days} day" if holdout > 0 else f"holdout_days={holdout}"
    with pytest.raises(InvalidParameterError, match=match):
        evaluate(log, holdout_days=holdout)


def test_several_days_may_be_held_out():
    """All of them together."""
    histograms = market(EASY).histograms
    found = evaluate(histograms, holdout_days=2, settings=QUICK, sources=("own",))
    assert found.days == ["2026-03-04", "2026-03-05"]
    np.testing.assert_allclose(found.truth.impressions, histograms.daily("wins")[:, 2:].sum(axis=1))


def test_a_market_that_grows_is_evaluated_by_numbers_it_always_allowed():
    """Twenty advertisers at first and thirty at last, and up to sixteen segments asked for."""
    histograms = some_of(market(EASY).histograms, advertisers=range(30))

    def grown(cells):
        kept = (cells.advertiser < 20) | (cells.day >= 2)
        return type(cells)(**{name: part[kept] for name, part in vars(cells).items()})

    growing = replace(histograms, bids=grown(histograms.bids), prices=grown(histograms.prices))
    found = evaluate(
        growing,
        market(EASY).descriptions,
        settings=SegmentSettings((8, 16), alphas=(0.05,), strengths=(5.0,), origins=1),
    )
    assert list(found.forecasts) == KEYS
    assert all(dict(choice.settings).get("k", 8) in {8, 10} for choice in found.choices.values())


@pytest.mark.parametrize("sources", [("own",), ("global", "own"), ("win", "text")])
def test_some_sources_alone_are_evaluated_too(sources):
    """With the truth beside them; the last of the sources there is stands for the flagship."""
    made = market(EASY)
    found = evaluate(
        made.histograms,
        made.descriptions,
        settings=QUICK,
        sources=sources,
        true_segments=made.segments,
    )
    assert {name.split("+")[0] for name in found.forecasts} == {*sources, "true"}
    told = found.as_dict()
    flagship = f"{max(sources, key=SOURCES.index)}+pooled"
    assert {row["a"] for row in told["differences"]} == {flagship}


def test_first_price_and_minimum_logs_are_evaluated():
    """Every source forecasts, and the own curve is not far off."""
    for kind in ({"auction": "first"}, {"minimum_logged": True}):
        small = replace(EASY, advertisers=60, days=3, **kind)
        made = market(small)
        told = evaluate(made.histograms, made.descriptions, settings=QUICK).as_dict()
        assert list(told["sources"]) == KEYS
        for target in ("impressions", "spend"):
            assert told["sources"]["own"][target]["wape"] < 0.3
            assert told["sources"]["robust+pooled"][target]["wape"] < 0.3


def test_texts_are_found_by_the_names_of_advertisers():
    """None where nobody has one; empty ones and None are none."""
    histograms = some_of(market(EASY).histograms, advertisers=range(3))
    assert description_vectors(histograms, None) is None
    assert description_vectors(histograms, {"adv-00000": "  ", "someone else": "shoes"}) is None
    vectors = description_vectors(histograms, {"adv-00001": "shoes", "adv-00002": None})
    assert vectors.any(axis=1).tolist() == [False, True, False]


#: Whole micros per thousand impressions, in units of currency, as spend is.
MONEY = st.integers(0, 10**15).map(lambda micros: micros / 1e9)
AMOUNTS = st.lists(st.tuples(MONEY, MONEY), min_size=1, max_size=20)


def test_measures_by_hand():
    """Three advertisers, one of whom won nothing."""
    forecast, truth = np.array([8.0, 5.0, 30.0]), np.array([10.0, 0.0, 20.0])
    found = measure(forecast, truth, truth * 0, np.array([9.0, 9.0, 99.0]))
    assert found.wape == pytest.approx((2 + 5 + 10) / 30)
    assert found.mape == pytest.approx((0.2 + 0.5) / 2)
    assert found.mape_advertisers == 2
    assert found.smape == pytest.approx((2 * 2 / 18 + 2 * 5 / 5 + 2 * 10 / 50) / 3)
    assert found.bias == pytest.approx((-2 + 5 + 10) / 30)
    assert found.coverage == pytest.approx(2 / 3)
    assert found.advertisers == 3


@settings(max_examples=50)
@given(AMOUNTS)
def test_measures_follow_their_definitions(amounts):
    """Finite or None, and written to JSON as they are."""
    forecast, truth = np.array(amounts).T
    found = measure(forecast, truth)
    if truth.sum() > 0:
        assert found.wape == pytest.approx(np.abs(forecast - truth).sum() / truth.sum())
        assert abs(found.bias) <= found.wape * (1 + 1e-9)
    else:
        assert found.wape is None and found.bias is None
    assert found.smape is None or 0 <= found.smape <= 2 + 1e-9
    assert (found.smape is None) == (not (truth + forecast).any())
    assert (found.mape is None) == (found.mape_advertisers == 0) == (not (truth > 0).any())
    assert found.coverage is None
    json.dumps(found.as_dict(), allow_nan=False)


def test_what_cannot_be_told_is_none():
    """Of nobody, and where nothing was won."""
    nobody = np.zeros(0)
    found = measure(nobody, nobody, nobody, nobody)
    assert (found.wape, found.mape, found.smape, found.bias, found.coverage) == (None,) * 5
    assert found.advertisers == 0
    nothing = measure(np.array([2.0]), np.array([0.0]))
    assert (nothing.wape, nothing.mape, nothing.bias, nothing.smape) == (None, None, None, 2.0)


def test_paired_difference_by_hand():
    """δ = (−1, 0, 3): Σδ / Σy, and √(A · var δ) / Σy."""
    truth = np.array([10.0, 4.0, 6.0])
    found = paired_difference(np.array([9.0, 4.0, 2.0]), np.array([8.0, 4.0, 5.0]), truth)
    assert found.difference == pytest.approx(2 / 20)
    delta = np.array([-1, 0, 3])
    assert found.standard_error == pytest.approx(np.sqrt(3 * delta.var(ddof=1)) / 20)


def test_standard_errors_are_those_of_the_jackknife():
    """Leaving out one advertiser at a time, its truth with it: within 10%."""
    rng = np.random.default_rng(0)
    truth = rng.lognormal(3, 0.5, 400)
    first, second = (truth * rng.lognormal(0, 0.3, 400) for _ in range(2))
    found = paired_difference(first, second, truth)
    delta = np.abs(first - truth) - np.abs(second - truth)
    left_out = (delta.sum() - delta) / (truth.sum() - truth)
    jackknife = np.sqrt(399 / 400 * ((left_out - left_out.mean()) ** 2).sum())
    assert found.standard_error == pytest.approx(jackknife, rel=0.1)
    assert found.difference == pytest.approx(
        measure(first, truth).wape - measure(second, truth).wape
    )


@settings(max_examples=30)
@given(AMOUNTS)
def test_differences_change_sign_with_the_order(amounts):
    """And a source has no difference from itself."""
    forecast, truth = np.array(amounts).T
    zero = np.zeros_like(truth)
    there, back = (
        paired_difference(forecast, zero, truth),
        paired_difference(zero, forecast, truth),
    )
    np.testing.assert_allclose(there.difference, -back.difference)
    np.testing.assert_allclose(there.standard_error, back.standard_error)
    same = paired_difference(forecast, forecast, truth)
    if truth.sum() > 0 and len(truth) > 1:
        assert (same.difference, same.standard_error) == (0, 0)
    else:
        assert np.isnan([same.difference, same.standard_error]).all()


def test_strata_share_out_all_advertisers():
    """Each is in one; their limits are the first of the next."""
    observations = np.array([0, 0.5, 1, 9, 9.99, 10, 199, 200, 1999, 2000, 1e9])
    strata = strata_of(observations)
    assert list(strata) == [name for name, _, _ in STRATA]
    np.testing.assert_array_equal(sum(rows.astype(int) for rows in strata.values()), 1)
    assert [int(rows.sum()) for rows in strata.values()] == [2, 3, 2, 2, 2]
