"""Tables of a model: figures of many questions at once, or of one."""

from __future__ import annotations

import gc
import json
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from sklearn.base import clone

import coterie
from coterie.ads.curves.landscapes import curve_at
from coterie.ads.fitting.forecaster import AdForecaster
from coterie.ads.forecasts.calibration import LEVELS
from coterie.ads.forecasts.forecast_figures import FIELDS
from coterie.ads.forecasts.forecast_tables import ForecastTables, tables_of
from coterie.ads.forecasts.placement import rate_and_sd
from coterie.ads.forecasts.plans import plans_of
from coterie.errors import InvalidParameterError
from fitted_models import first_price_model, minimum_model, small_model, textless_model
from markets import QUICK, log_of, odd_model

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
    for asked, table, given in (
        ({"supply": 777.0}, tables.days(), True),
        ({"supply": 777.0, "days": 3}, tables.days(None, 3), True),
        ({"day": "2026-03-11"}, tables.days(date(2026, 3, 11)), False),
        ({"day": "2026-03-11", "days": 9}, tables.days(date(2026, 3, 11), 9), False),
        ({"days": 7}, tables.days(None, 7), False),
        ({}, tables.days(), False),
    ):
        supply = asked.get("supply", tables.supply(row, table))
        figures = dict(zip(FIELDS, tables.one(row, 1.7, supply, table, given, level), strict=True))
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


def test_whole_numbers_are_numbers():
    """A bid of 2 is one of 2.0."""
    tables = tables_of(small_model())
    days = tables.days()
    assert tables.one(0, 2, 100, days, True) == tables.one(0, 2.0, 100.0, days, True)
    found = ask(tables, [0, 1], [2, 3], [100, 100])
    assert found[0].tolist() == tables.one(0, 2.0, 100.0, days, True)
    assert found.shape == (2, len(FIELDS))


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
            words = tables.why(row) + "; prices of an average day" + tables.remark(bid)
            assert found.why == words
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


def test_files_of_models_that_were_asked_are_the_same(tmp_path):
    """Byte for byte what they are before any question."""
    files = [tmp_path / "before.coterie", tmp_path / "after.coterie"]
    model = copy(small_model())
    coterie.save_model(model, files[0])
    model.forecast(str(model.advertisers_[0]), [1.0, 2.0], day="2026-03-10", days=3)
    coterie.save_model(model, files[1])
    assert files[0].read_bytes() == files[1].read_bytes()


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
