"""Evaluation on days that nobody looked at, and the measures of its errors."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from altered_days import altered
from benchmarks.true_curves import day_shifts, true_win_rates
from coterie.ads.curves.landscapes import evidence_of
from coterie.ads.evaluation.baselines import BASELINES
from coterie.ads.evaluation.evaluation import (
    DEFAULT,
    STRATA,
    HeldOutPlans,
    evaluate,
    measure,
    paired_difference,
    split_days,
    strata_of,
)
from coterie.ads.fitting.forecaster import AdForecaster
from coterie.ads.forecasts.calibration import LEVELS, TARGETS
from coterie.ads.forecasts.forecast_tables import outcome_of, plans_of
from coterie.ads.histograms.price_grid import on_price_grid
from coterie.ads.logs.simulation.simulated_traits import draw_traits
from coterie.ads.segments.memberships import SOURCES
from coterie.ads.segments.settings import SegmentSettings
from coterie.errors import InvalidParameterError
from markets import EASY, QUICK, evaluated, log_of, market, some_of

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
    json.dumps(asdict(found), allow_nan=False)


def test_what_is_not_defined_is_none():
    """Of nobody, and where nothing was won."""
    nobody = np.zeros(0)
    found = measure(nobody, nobody, nobody, nobody)
    assert (found.wape, found.mape, found.smape, found.bias, found.coverage) == (None,) * 5
    assert found.advertisers == 0
    nothing = measure(np.array([2.0]), np.array([0.0]))
    assert (nothing.wape, nothing.mape, nothing.bias, nothing.smape) == (None, None, None, 2.0)
    # ends of intervals of events that the log has not
    unknown = np.full(3, np.nan)
    assert measure(np.zeros(3), np.zeros(3), unknown, unknown).coverage is None
    assert np.isnan(paired_difference(nobody, nobody, nobody).difference)


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
    back = paired_difference(second, first, truth)
    assert (back.difference, back.standard_error) == (-found.difference, found.standard_error)


def test_the_standard_error_of_a_wape_is_that_of_the_jackknife():
    """Of a ratio of two sums, leaving out one advertiser at a time: within 10%."""
    rng = np.random.default_rng(1)
    truth = rng.lognormal(3, 0.7, 400)
    forecast = truth * rng.lognormal(0, 0.4, 400)
    error = np.abs(forecast - truth)
    left_out = (error.sum() - error) / (truth.sum() - truth)
    jackknife = np.sqrt(399 / 400 * ((left_out - left_out.mean()) ** 2).sum())
    assert measure(forecast, truth).wape_standard_error == pytest.approx(jackknife, rel=0.1)


#: Advertisers 0, 2 and 4 bid before the last day; 1 and 3 are new on it, and 4 is gone.
LOG = log_of(
    bid=[5, 6, 7, 5, 6, 7, 8],
    won=True,
    price=3,
    advertiser=[0, 2, 4, 0, 1, 2, 3],
    day=[0, 0, 0, 1, 1, 1, 1],
    edges=[10],
)


@pytest.fixture
def held_out():
    """The last day; of the known advertisers 0, 2 and 4, the last two are representatives."""
    texts = {"a001": "shoes", "a003": None}
    return HeldOutPlans(LOG, LOG.for_days([0]), [1], texts, np.array([1, 2]))


def test_a_new_campaign_takes_the_text_of_its_advertiser():
    """As in a fit."""
    names = np.array(["a000", "a001/x", "a002", "a003", "a004"])
    log = replace(LOG, advertisers=names)
    held_out = HeldOutPlans(log, log.for_days([0]), [1], {"a001": "shoes"}, np.array([1, 2]))
    assert [text for _, some in held_out.new_blocks(9) for text in some] == ["shoes", ""]


def test_plans_have_the_numbers_of_those_who_forecast_them(held_out):
    """Of the model for known advertisers, of the representatives for compared ones."""
    assert held_out.is_known.tolist() == [True, False, True, False, True]
    assert held_out.is_compared.tolist() == [False, False, True, False, True]
    assert held_out.known_plans.rows.tolist() == [0, 1]
    assert held_out.compared_plans.rows.tolist() == [0]
    whole = plans_of(LOG, [1])
    np.testing.assert_array_equal(held_out.known_plans.bids, whole.bids[[0, 2]])


def test_figures_are_spread_to_all_advertisers(held_out):
    """Those that a source does not forecast have 0."""
    assert held_out.of_known(np.array([7.0, 8.0, 9.0])).tolist() == [7, 0, 8, 0, 9]
    impressions, spend = held_out.spread((np.array([1.0, 2.0]), np.array([3.0, 4.0])))
    assert (impressions.tolist(), spend.tolist()) == ([0, 0, 1, 0, 2], [0, 0, 3, 0, 4])


@pytest.mark.parametrize("size", [1, 9])
def test_new_advertisers_come_with_their_texts(held_out, size):
    """In blocks of any size; a missing text is empty."""
    blocks = list(held_out.new_blocks(size))
    assert max(len(texts) for _, texts in blocks) <= size
    assert [row for plans, _ in blocks for row in plans.rows.tolist()] == [1, 3]
    assert [text for _, texts in blocks for text in texts] == ["shoes", ""]


PAPER = [name for source in SOURCES for name in (source, f"{source}+pooled")]
SHOWN = ("impressions", "spend", "clicks")
#: Few bids, moved on the last day, so that own curves say little.
THIN = replace(
    EASY, advertisers=120, bids_per_day=8, bid_move=0.6, newcomers=0.0, text_missing=0.0, seed=5
)


@pytest.mark.slow
def test_truth_is_what_the_last_day_says():
    """Spend in units of currency."""
    histograms, found = market(EASY).histograms, evaluated()
    assert found.days == ["2026-03-05"]
    happened = outcome_of(histograms, [3])
    for target in TARGETS:
        np.testing.assert_array_equal(getattr(found.truth, target), getattr(happened, target))
    bids = histograms.daily("count")
    np.testing.assert_allclose(found.observations, bids[:, :3].sum(axis=1))
    np.testing.assert_allclose(found.bids, bids[:, 3])


@pytest.mark.slow
def test_the_model_is_that_which_would_be_saved():
    """The default's forecasts are those of a forecaster of the training days, asked directly."""
    made, found = market(EASY), evaluated()
    before = made.histograms.for_days([0, 1, 2])
    model = AdForecaster(**vars(QUICK)).fit(before, made.descriptions)
    assert model.choice_ == found.model.choice_
    np.testing.assert_array_equal(model.win_, found.model.win_)
    np.testing.assert_array_equal(model.calibration_.factors, found.model.calibration_.factors)


def of_one_bid(log, row, bid):
    """The log, in which one advertiser makes only one bid on the last day, several times."""
    cells = log.bids
    drop = (cells.advertiser == row) & (cells.day == 3)
    first = np.flatnonzero(drop)[0]
    parts = {
        name: part[~drop | (np.arange(len(drop)) == first)] for name, part in vars(cells).items()
    }
    at = np.flatnonzero((parts["advertiser"] == row) & (parts["day"] == 3))[0]
    parts["count"][at] = parts["square"][at] = 25.0
    parts["bid"][at] = 25.0 * bid * 1e6
    parts["bin"][at] = np.searchsorted(log.edges, bid * 1e6)
    parts["wins"][at] = min(parts["wins"][at], 25.0)
    return replace(log, bids=type(cells)(**parts))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [{}, {"auction": "first"}])
def test_there_is_one_way_to_a_forecast(kind):
    """Of a plan of one bid, an evaluation and :meth:`forecast` have the same figures."""
    made = market(replace(EASY, **kind))
    row, bid = 12, 1.75
    name = str(made.histograms.advertisers[row])
    log = of_one_bid(made.histograms, row, bid)
    found = evaluate(log, made.descriptions, settings=QUICK, sources=("own",))
    model = AdForecaster(**vars(QUICK)).fit(log.for_days([0, 1, 2]), made.descriptions)
    day = found.days[0]
    for interval in found.intervals:
        if interval.supply == "forecast":
            asked = model.forecast(name, bid, day=day, level=interval.level)
            for target in TARGETS:
                low, high = interval.low[target][row], interval.high[target][row]
                assert getattr(asked, f"{target}_interval") == pytest.approx((low, high), rel=1e-9)
    # a day and a supply are not asked for together; the supply of 25 scales the mean
    asked = model.forecast(name, bid, day=day)
    for target in TARGETS:
        value = getattr(found.forecasts[DEFAULT], target)[row]
        assert value == pytest.approx(getattr(asked, target) * 25 / asked.supply, rel=1e-9)


@pytest.mark.slow
def test_no_forecast_looks_at_the_days_held_out():
    """Other prices and other wins on them change no forecast of the same bids."""
    made = market(EASY)
    log, cells = made.histograms, made.histograms.bids
    held = cells.day == 3
    other = replace(
        log,
        bids=replace(cells, wins=np.where(held, 0, cells.wins), cost=np.where(held, 0, cells.cost)),
        prices=altered(log, [3], 1).prices,
    )
    sources = ("own", "robust", "lognormal")
    one, same = (
        evaluate(h, made.descriptions, settings=QUICK, sources=sources) for h in (log, other)
    )
    for name, forecast in one.forecasts.items():
        for target in SHOWN:
            np.testing.assert_array_equal(
                getattr(forecast, target), getattr(same.forecasts[name], target)
            )
    assert not same.truth.impressions.any() and one.truth.impressions.any()


@pytest.mark.slow
def test_known_curves_are_a_source_of_their_own():
    """The true curves of the held-out day forecast better than all that had to be learned."""
    made = market(THIN)
    log = on_price_grid(made.histograms)
    traits = draw_traits(THIN)
    truth = true_win_rates(THIN, traits, day_shifts(THIN, traits)[-1], log.edges)
    found = evaluate(
        made.histograms,
        made.descriptions,
        settings=QUICK,
        sources=("own", "robust"),
        known_curves={"truth": truth},
    )
    for target in ("impressions", "spend"):
        errors = {name: found.measures(name, target).wape for name in found.forecasts}
        assert min(errors, key=errors.get) == "truth"
        assert errors["truth"] < errors[DEFAULT] < errors["own"]


@pytest.mark.slow
def test_new_advertisers_are_left_out_of_the_figures_and_shown_apart():
    """They have a stratum of their own; only the model, by their texts, knows what to say."""
    found = evaluated()
    new = (found.observations == 0) & (found.bids > 0)
    shown = found.as_dict()
    assert shown["new_advertisers"] == new.sum() == 4 and shown["advertisers"] == 86
    for name in found.forecasts:
        forecast, truth = found.forecasts[name].impressions, found.truth.impressions
        main = shown["sources"][name]["impressions"]
        assert main["wape"] == pytest.approx(measure(forecast[~new], truth[~new]).wape)
        stratum = shown["strata"][0]
        assert stratum["name"] == "new" and stratum["advertisers"] == 4
        of_new = stratum["sources"][name]["impressions"]
        expected = measure(forecast[new], truth[new]).wape if name == DEFAULT else None
        assert of_new["wape"] == pytest.approx(expected)
    assert (found.forecasts[DEFAULT].impressions[new] > 0).all()
    assert not found.forecasts["own"].impressions[new].any()


@pytest.mark.slow
def test_strata_are_of_those_who_bid_on_the_days_held_out():
    """Each in one stratum; their limits are the first of the next."""
    strata = strata_of(np.array([0, 0.5, 1, 9, 9.99, 10, 199, 200, 1999, 2000, 1e9]))
    assert [int(rows.sum()) for rows in strata.values()] == [2, 3, 2, 2, 2]
    found = evaluated()
    strata = found.as_dict()["strata"]
    assert [one["name"] for one in strata] == [name for name, _, _ in STRATA]
    assert sum(one["advertisers"] for one in strata) == (found.bids > 0).sum()


@pytest.mark.slow
def test_differences_are_paired_with_the_model():
    """WAPE of the model less that of every other source, for every target."""
    found = evaluated()
    shown = found.as_dict()
    assert [(row["b"], row["target"]) for row in shown["differences"]] == [
        (name, target) for name in found.forecasts for target in SHOWN if name != DEFAULT
    ]
    seen = (found.observations > 0) & (found.bids > 0)
    for row in shown["differences"]:
        assert row["a"] == DEFAULT == shown["default"]
        one, other, truth = (
            getattr(part, row["target"])[seen]
            for part in (found.forecasts[DEFAULT], found.forecasts[row["b"]], found.truth)
        )
        expected = paired_difference(one, other, truth)
        assert row["difference"] == pytest.approx(expected.difference)
        assert row["standard_error"] == pytest.approx(expected.standard_error)
        wapes = [shown["sources"][name][row["target"]]["wape"] for name in (DEFAULT, row["b"])]
        assert row["difference"] == pytest.approx(wapes[0] - wapes[1])


@pytest.mark.slow
def test_intervals_are_of_every_level_target_and_kind_of_supply():
    """Higher levels contain the others, and all contain the forecast."""
    found = evaluated()
    assert [(one.supply, one.level) for one in found.intervals] == [
        (supply, level) for supply in ("given", "forecast") for level in LEVELS
    ]
    seen = (found.observations > 0) & (found.bids > 0)
    for target in TARGETS:
        mean = getattr(found.forecasts[DEFAULT], target)[seen]
        given = [one for one in found.intervals if one.supply == "given"]
        for one in given:
            assert (one.low[target][seen] <= mean).all() and (one.high[target][seen] >= mean).all()
        for narrow, wide in itertools.pairwise(given):
            assert (wide.low[target] <= narrow.low[target] + 1e-9).all()
            assert (wide.high[target] >= narrow.high[target] - 1e-9).all()


@pytest.mark.slow
def test_coverage_is_the_share_of_actual_values_inside():
    """Of all and by stratum, as it is reported."""
    found = evaluated()
    seen, strata = (found.observations > 0) & (found.bids > 0), strata_of(found.observations)
    rows = found.as_dict()["intervals"]
    assert len(rows) == 2 * len(LEVELS) * len(TARGETS) * (1 + len(STRATA))
    by_key = {
        (row["supply"], row["level"], row["target"], row["stratum"]): row["coverage"]
        for row in rows
    }
    for one in found.intervals:
        for target in TARGETS:
            truth = getattr(found.truth, target)
            inside = (truth >= one.low[target]) & (truth <= one.high[target])
            assert by_key[one.supply, one.level, target, "all"] == inside[seen].mean()
            for name, mask in strata.items():
                some = mask & (found.bids > 0)
                expected = inside[some].mean() if some.any() else None
                assert by_key[one.supply, one.level, target, name] == expected
    stated = found.as_dict()["sources"][DEFAULT]["impressions"]["coverage"]
    assert stated == by_key["given", 0.9, "impressions", "all"]
    assert found.as_dict()["sources"]["own"]["impressions"]["coverage"] is None


@pytest.fixture(scope="module")
def covered():
    """An evaluation of 300 advertisers with daily drifts and weekdays."""
    chosen = replace(
        EASY, advertisers=300, segments=4, days=8, bids_per_day=40, newcomers=0.0, seed=21
    )
    made = market(chosen)
    return evaluate(
        made.histograms,
        made.descriptions,
        settings=replace(QUICK, origins=2),
        sources=("own", "robust"),
    )


@pytest.mark.slow
@pytest.mark.parametrize("supply", ["given", "forecast"])
@pytest.mark.parametrize("target", ["impressions", "spend"])
def test_nine_in_ten_intervals_contain_what_happened(covered, supply, target):
    """Between 80% and 98%, with given and with forecast supply; half of those at 50%."""
    [nine] = [one for one in covered.intervals if (one.supply, one.level) == (supply, 0.9)]
    assert 0.8 <= covered.coverage(nine, target) <= 0.98
    [half] = [one for one in covered.intervals if (one.supply, one.level) == (supply, 0.5)]
    assert 0.35 <= covered.coverage(half, target) <= 0.68


@pytest.fixture(scope="module")
def compared():
    """An evaluation of 250 advertisers with few bids, whose prices have no weekdays."""
    chosen = replace(THIN, advertisers=250, bids_per_day=12, days=5, weekday_effect=0.0, seed=22)
    made = market(chosen)
    return evaluate(
        made.histograms, made.descriptions, settings=QUICK, sources=("own", "global", "robust")
    )


@pytest.mark.slow
@pytest.mark.parametrize("target", ["impressions", "spend"])
def test_the_model_is_better_than_what_it_is_made_of(compared, target):
    """By more than two standard errors than own curves, and no worse than pooled segments."""
    own = compared.difference(DEFAULT, "own", target)
    assert own.difference < -2 * own.standard_error
    for name in ("own+pooled", "global"):
        assert compared.difference(DEFAULT, name, target).difference < 0
    pooled = compared.difference(DEFAULT, "robust+pooled", target)
    assert pooled.difference < pooled.standard_error


@pytest.mark.slow
@pytest.mark.parametrize("target", ["impressions", "spend"])
def test_thin_advertisers_gain_by_the_others(target):
    """Few bids of their own, moved on the last day: the model beats own curves by far."""
    found = evaluated(THIN)
    thin = (found.observations >= 10) & (found.observations < 200)
    assert thin.sum() > 100
    own, model = (found.measures(name, target, thin).wape for name in ("own", DEFAULT))
    assert model < 0.85 * own
    assert model < found.measures("global", target, thin).wape


@pytest.mark.slow
def test_json_has_no_nan():
    """Not for a market, nor where there is nothing to choose by or nothing was won or clicked."""
    shown = evaluated().as_dict()
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    histograms = market(EASY).histograms
    sources = ("own", "global", *BASELINES)
    two_days = evaluate(some_of(histograms, days=[0, 1]), settings=QUICK, sources=sources).as_dict()
    assert two_days["chosen"]["own"]["backtest_error"] is None
    assert two_days["chosen"][DEFAULT]["backtest_error"] is None
    json.dumps(two_days, allow_nan=False)
    lost = log_of(
        bid=[5, 6] * 30,
        won=False,
        price=0,
        advertiser=np.arange(60) % 10,
        day=np.arange(60) // 20,
        edges=[5, 6],
    )
    unwon = evaluate(lost, settings=QUICK).as_dict()
    assert unwon["sources"]["own"]["impressions"]["wape"] is None
    assert unwon["sources"][DEFAULT]["clicks"]["coverage"] is None
    assert {row["coverage"] for row in unwon["intervals"] if row["target"] == "conversions"} == {
        None
    }
    json.dumps(unwon, allow_nan=False)


@pytest.mark.slow
def test_what_was_chosen_is_shown():
    """Strengths as numbers, or in words where it is the segment's curve alone."""
    shown = evaluated().as_dict()["chosen"]
    assert set(shown) == {*PAPER, DEFAULT}
    assert set(evaluated().forecasts) == {*PAPER, *BASELINES, DEFAULT}
    assert shown["robust"]["strength"] == "segment only"
    assert shown["robust+pooled"]["strength"] in QUICK.strengths
    assert shown["own"]["strength"] == 0
    assert shown["robust+pooled"]["k"] in QUICK.n_segments
    assert shown["win"]["alpha"] == 0.05 and shown["win"]["backtest_days"] == 1
    choice = evaluated().model.choice_
    assert shown[DEFAULT]["k"] == choice.n_segments
    assert shown[DEFAULT]["backtest_days"] == choice.days == 1
    assert evaluated().as_dict()["warnings"] == evaluated().model.warnings_


@pytest.mark.parametrize(("days", "holdout"), [(4, 4), (4, 5), (1, 1), (4, 0), (4, -1)])
def test_something_must_be_held_out_and_something_left_to_learn_from(days, holdout):
    """The message says how many days there are, or are to be held out."""
    log = some_of(market(EASY).histograms, days=range(days))
    match = f"{days} day" if holdout > 0 else f"holdout_days={holdout}"
    with pytest.raises(InvalidParameterError, match=match):
        evaluate(log, holdout_days=holdout)
    assert split_days(market(EASY).histograms, 3) == ([0], [1, 2, 3])


@pytest.mark.slow
def test_several_days_may_be_held_out():
    """All of them together."""
    histograms = market(EASY).histograms
    found = evaluate(histograms, holdout_days=2, settings=QUICK, sources=())
    assert found.days == ["2026-03-04", "2026-03-05"]
    np.testing.assert_allclose(found.truth.impressions, histograms.daily("wins")[:, 2:].sum(axis=1))
    assert 0 < found.measures(DEFAULT, "impressions").wape < 0.3


@pytest.mark.slow
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
        sources=SOURCES,
    )
    assert set(found.forecasts) == {*PAPER, DEFAULT}
    assert all(dict(choice.settings).get("k", 8) in {8, 10} for choice in found.choices.values())


@pytest.mark.slow
def test_training_is_that_of_the_first_days():
    """Evidence and views that tables of the paper are made of."""
    found = evaluated()
    expected = evidence_of(market(EASY).histograms.for_days([0, 1, 2]))
    np.testing.assert_array_equal(found.training.evidence.successes, expected.successes)
    assert set(found.training.views) == {"text", "win", "cost", "market"}
