"""Tables of a model: the same figures as by the book, of many at once."""

from __future__ import annotations

import gc
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
from coterie.ads.forecasts.forecast_figures import FIELDS
from coterie.ads.forecasts.forecast_tables import ForecastTables, tables_of
from coterie.ads.forecasts.forecaster import AdForecaster
from coterie.ads.forecasts.placement import Placer, rate_and_doubt
from coterie.ads.forecasts.pooled_curves import Rates, forecast_at
from coterie.errors import InvalidParameterError
from fitted_models import (
    first_price_model,
    in_columns,
    minimum_model,
    small_model,
    textless_model,
)
from markets import ODD_WITH_SEGMENTS, ODD_WITHOUT_SEGMENTS, QUICK, log_of, odd_model

MODELS = [small_model, first_price_model, minimum_model, textless_model]


def some_bids(model):
    """Below the first edge, on edges, between them, above the last."""
    edges = model.edges_ / 1e6
    return np.concatenate(
        [
            [1e-7, edges[0] / 2],
            edges[::3],
            (edges[:-1] + edges[1:])[::5] / 2,
            edges[-1:] * [[1.0], [7]],
        ],
        axis=None,
    )


def by_the_book(model, name, bids, supply, text=None):
    """The figures from the curve of an advertiser, on the whole grid, one bid at a time."""
    place = Placer(model).placed(name, text)
    rates = Rates(
        *rate_and_doubt(place.weights, model.click_rate_, model.click_worth_),
        *rate_and_doubt(place.weights, model.conversion_rate_, model.conversion_worth_),
    )
    curve = model.curve(name, text=text)
    noise = model.choice_.noise
    return np.array([in_columns(forecast_at(bid, supply, curve, rates, noise)) for bid in bids])


@pytest.mark.parametrize("model", MODELS)
def test_every_advertiser_has_the_figures_of_its_curve(model):
    """To nine digits, of every kind of log and at every kind of bid."""
    model = model()
    tables, bids, supply = ForecastTables(model), some_bids(model), 12_345.0
    for name, row in tables.row_of.items():
        rows, supplies = np.full(len(bids), row), np.full(len(bids), supply)
        expected = by_the_book(model, name, bids, supply)
        np.testing.assert_allclose(tables.at(rows, bids, supplies), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore::coterie.errors.DissentWarning")
@pytest.mark.parametrize("name", [*ODD_WITH_SEGMENTS, *ODD_WITHOUT_SEGMENTS])
def test_odd_logs_too(name):
    """Without segments, wins or texts, of one bid, sampled: known and new alike."""
    model = odd_model(name)
    tables, bids = ForecastTables(model), some_bids(model)
    found = tables.at_placed(Placer(model).placed("adv-00000"), bids, 1000)
    expected = by_the_book(model, "adv-00000", bids, 1000)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    new = tables.at_placed(Placer(model).placed("new", "beach hotel"), bids, 1000)
    expected = by_the_book(model, "new", bids, 1000, "beach hotel")
    np.testing.assert_allclose(new, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_one_question_has_the_same_answer_however_it_is_asked(model):
    """Alone, among many, as a placement, and as a forecast: to the last bit."""
    model = model()
    tables, rng = ForecastTables(model), np.random.default_rng(0)
    rows = rng.integers(0, len(model.advertisers_), 50)
    bids, supplies = rng.uniform(0.01, 12, 50), rng.uniform(0, 1e6, 50)
    found = tables.at(rows, bids, supplies)
    for row, bid, supply, figures in zip(rows, bids, supplies, found.tolist(), strict=True):
        name = str(model.advertisers_[row])
        np.testing.assert_array_equal(tables.one(int(row), bid, supply), figures)
        place = tables.placer.placed(name)
        np.testing.assert_array_equal(tables.at_placed(place, [bid], supply)[0], figures)
        told = model.forecast(name, bid, supply=supply)
        named = dict(zip(FIELDS, figures, strict=True))
        assert (told.win_rate, told.spend) == (named["win_rate"], named["spend"])
        assert told.impressions_interval == (named["impressions_low"], named["impressions_high"])


def test_whole_numbers_are_numbers():
    """A bid of 2 is one of 2.0."""
    tables = tables_of(small_model())
    assert tables.one(0, 2, 100) == tables.one(0, 2.0, 100.0)
    found = tables.at([0, 1], [2, 3], [100, 100])
    assert found[0].tolist() == tables.one(0, 2.0, 100.0) and found.shape == (2, len(FIELDS))


@pytest.mark.parametrize(
    ("rows", "bids", "supplies"),
    [([60], [1.0], [1.0]), ([-1], [1.0], [1.0]), ([0, 1], [1.0], [1.0]), ([[0]], [[1.0]], [[1.0]])],
)
def test_rows_that_are_not_there_are_refused(rows, bids, supplies):
    """As are questions that do not fit together: nothing is read beside the tables."""
    with pytest.raises(InvalidParameterError, match="rows"):
        tables_of(small_model()).at(rows, bids, supplies)
    if np.ndim(rows) == 1 and len(rows) == 1:
        with pytest.raises(InvalidParameterError, match="there are 60 advertisers"):
            tables_of(small_model()).one(rows[0], 1.0, 1.0)


def test_nothing_asked_nothing_answered():
    """Of known advertisers and of new ones."""
    tables = tables_of(small_model())
    assert tables.at([], [], []).shape == (0, len(FIELDS))
    assert tables.at_placed(tables.placer.anyone(), [], 1.0).shape == (0, len(FIELDS))


def test_clicks_are_nan_where_the_log_has_none():
    """And the other figures are there."""
    log = log_of(bid=[5, 6, 7], won=True, price=3, advertiser=[0, 1, 1], edges=[4, 10])
    model = AdForecaster(**vars(QUICK)).fit(log)
    figures = dict(zip(FIELDS, tables_of(model).one(1, 1e-5, 10.0), strict=True))
    silent = {name for name, value in figures.items() if np.isnan(value)}
    assert silent == {"clicks", "clicks_low", "clicks_high", "conversions"}


def test_grounds_supply_and_remarks_are_those_of_the_forecast():
    """The words a forecast is given with, in parts."""
    model = small_model()
    tables, highest = tables_of(model), model.edges_[-1] / 1e6
    for name in model.advertisers_[::11]:
        row = tables.row_of[str(name)]
        for bid in (1.0, 2 * highest):
            told = model.forecast(str(name), bid, supply=5)
            assert told.why == tables.why(row) + tables.remark(bid)
        on = date(2026, 3, 10)
        assert tables.supply(row, on) == model.forecast(str(name), 1.0, day=str(on)).supply
        assert tables.supply(row) == model.forecast(str(name), 1.0).supply
    assert tables.remark(highest) == ""
    assert tables.remark(highest * 1.01) == tables.above


def test_threads_may_ask_at_the_same_time():
    """Each gets its own answer."""
    tables, rng = tables_of(small_model()), np.random.default_rng(1)
    asked = [
        (rng.integers(0, 60, 200), rng.uniform(0.1, 9, 200), rng.uniform(1, 1e5, 200))
        for _ in range(16)
    ]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda one: tables.at(*one), asked))
    for one, found in zip(asked, together, strict=True):
        np.testing.assert_array_equal(found, tables.at(*one))


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
    """Fitted again, or given another choice, it forecasts by what it is now."""
    one, other = (
        log_of(bid=[5, 6], won=[True, won], price=3, advertiser=[0, 1], edges=[10])
        for won in (True, False)
    )
    model = AdForecaster(**vars(QUICK)).fit(one)
    first = model.forecast("a001", 1e-5, supply=10)
    assert model.fit(other).forecast("a001", 1e-5, supply=10).win_rate < first.win_rate
    tables = tables_of(model)
    model.choice_ = replace(model.choice_, noise=0.5)
    assert tables_of(model) is not tables


def test_files_of_models_that_were_asked_are_the_same(tmp_path):
    """Byte for byte what they are before any question."""
    files = [tmp_path / "before.coterie", tmp_path / "after.coterie"]
    model = copy(small_model())
    coterie.save_model(model, files[0])
    model.forecast(str(model.advertisers_[0]), [1.0, 2.0])
    coterie.save_model(model, files[1])
    assert files[0].read_bytes() == files[1].read_bytes()


def test_evidence_in_any_order_is_read_aright():
    """Columns of a sparse matrix may come in any order, and its arrays may be read-only."""
    model = copy(small_model())
    expected = tables_of(model).one(3, 2.0, 100.0)
    for name in ("successes_", "trials_by_bin_"):
        turned = getattr(model, name).copy()
        for row in range(turned.shape[0]):
            part = slice(turned.indptr[row], turned.indptr[row + 1])
            turned.indices[part] = turned.indices[part][::-1].copy()
            turned.data[part] = turned.data[part][::-1].copy()
        turned.has_sorted_indices = turned.has_canonical_format = False
        turned.data.flags.writeable = False
        setattr(model, name, turned)
    model.shares_ = np.asfortranarray(model.shares_)
    assert tables_of(model).one(3, 2.0, 100.0) == expected
