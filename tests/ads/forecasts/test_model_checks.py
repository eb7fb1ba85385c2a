"""A model is refused unless everything that a forecast reads is sound."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math

import msgspec
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from coterie import save_model
from coterie.ads.forecasts.fitted_market import load_market
from coterie.ads.forecasts.model_checks import MOST_ID_CHARS, check_model
from coterie.ads.forecasts.profiles import Profiles
from coterie.ads.protocol import Limits
from coterie.errors import ModelFileError
from fitted_models import first_price_model, minimum_model, small_model, textless_model
from markets import odd_model

FITTED = [
    "advertisers_",
    "agreement_",
    "auction_",
    "bid_",
    "calibration_",
    "choice_",
    "click_rate_",
    "click_worth_",
    "confidence_",
    "conversion_rate_",
    "conversion_worth_",
    "cost_",
    "currency_",
    "days_",
    "doubtful_",
    "edges_",
    "form_",
    "labels_",
    "masses_",
    "observations_",
    "outliers_",
    "paid_",
    "pays_",
    "price_",
    "price_levels_",
    "rows_",
    "segment_spread_",
    "segment_win_",
    "segments_",
    "shares_",
    "shares_above_",
    "spread_",
    "stored_days_",
    "successes_",
    "supply_",
    "text_view_",
    "trials_by_bin_",
    "vectors_",
    "warnings_",
    "win_",
    "wins_",
]
PARTS = (
    "supply_",
    "supply_.factors",
    "price_levels_",
    "calibration_",
    "choice_",
    "agreement_",
    "text_view_",
)


def changed(name, value, model=None):
    """The model with one attribute, or a part of one (``supply_.level``), changed."""
    return with_part(model or small_model(), name, value)


def with_part(whole, name, value):
    """A copy of an object with one attribute, or a part of one, changed."""
    other = copy.copy(whole)
    first, _, rest = name.partition(".")
    part = with_part(getattr(other, first), rest, value) if rest else value
    object.__setattr__(other, first, part)
    return other


def part_of(whole, name):
    """An attribute, or a part of one."""
    return functools.reduce(getattr, name.split("."), whole)


def with_value(array, place, value):
    """A copy of an array with one value changed."""
    other = array.copy()
    with np.errstate(over="ignore"):  # float32 has no 1e300
        other.flat[place] = np.asarray(value).astype(array.dtype)
    return other


@pytest.mark.parametrize("other", [None, "market", {}, KMeans()])
def test_other_models_do_not_forecast(other):
    """Only a forecaster can be served; the message tells how to make one."""
    with pytest.raises(ModelFileError, match=r"does not forecast; make a model with coterie ads"):
        check_model(other)


def test_the_list_of_attributes_is_complete():
    """Every attribute that fit gives is known to these tests."""
    found = {name for name in vars(small_model()) if name.endswith("_")}
    # files of earlier versions lack the last two
    assert found == {*FITTED, "targets_", "representatives_"}


@pytest.mark.parametrize("name", FITTED)
def test_every_attribute_is_needed(name):
    """A model that lacks an attribute is refused, and the message names it."""
    other = copy.copy(small_model())
    delattr(other, name)
    with pytest.raises(ModelFileError, match=f"not sound: it lacks {name}"):
        check_model(other)


def backwards(matrix):
    """The same counts with the columns in another order."""
    columns = matrix.indices[::-1].copy()
    return sp.csr_array((matrix.data, columns, matrix.indptr), shape=matrix.shape)


# attributes, a change that makes them wrong, and words of the message
UNSOUND = [
    ("advertisers_", lambda x: x[::-1], "in order"),
    ("shares_above_", lambda _: np.zeros((4, 2, 3)), "shares_above_ must be an array of 4 × 2 × 4"),
    ("masses_", lambda _: np.array([2, 2]), "in order, and each once"),
    ("masses_", lambda _: np.array([2]), "must be edges_ after the first"),
    ("advertisers_", lambda x: np.append(x[:-1], x[-2]), "in order, and each once"),
    ("advertisers_", lambda x: x[:0], "must have 1 to 10,000,000 entries"),
    ("advertisers_", lambda x: np.arange(len(x)), "texts"),
    ("advertisers_", lambda x: np.append(x[:-1].astype(object), "\ud800"), "UTF-8"),
    ("edges_", lambda x: x[::-1], "increase"),
    ("edges_", lambda x: x - x[0], "edges_ must lie between 1 and"),
    ("edges_", lambda x: x.astype(float), "whole numbers"),
    ("edges_", lambda _: np.arange(1, 10_002), "edges_ must have 1 to 10,000 entries"),
    ("price_", lambda x: x[1:], "price_ must be an array of"),
    ("price_", lambda x: with_value(x, 0, np.nan), "price_ must lie"),
    ("days_", lambda x: x[::-1], "in order"),
    ("days_", lambda x: with_value(x, 0, np.datetime64("NaT", "D")), "days_ must lie"),
    ("form_", lambda _: "cubic", "form_ must be one of"),
    ("pays_", lambda _: None, "pays_ must be one of"),
    ("auction_", lambda _: "third", "auction_"),
    ("currency_", lambda _: 3, "currency_ must be text"),
    ("currency_", lambda _: "x" * 65, "currency_ must be text of at most 64"),
    ("shares_", lambda x: x * 2, "between 0 and 1"),
    ("shares_", lambda x: x / 2, "sum to 1"),
    ("shares_", lambda x: x[:, 1:], "shares_ must be an array of"),
    ("labels_", lambda x: x + 100, "labels_ must lie"),
    ("labels_", lambda x: x - 1, "labels_ must lie"),
    ("confidence_", lambda x: with_value(x, 0, np.inf), "confidence_"),
    ("observations_", lambda x: -x, "observations_"),
    ("outliers_", lambda _: np.array([10_000]), "outliers_"),
    ("representatives_", lambda _: np.array([-1]), "representatives_"),
    ("doubtful_", lambda _: np.array([[0]]), "doubtful_"),
    ("segments_", lambda x: x[1:], "shares_"),
    ("segments_", lambda x: [None] * len(x), r"segments_\[0\] must be a SegmentProfile"),
    ("successes_", lambda x: x * 1e6, "must not exceed trials_by_bin_"),
    ("successes_", lambda x: -x, "counts of successes_"),
    ("successes_", lambda x: x.toarray(), "CSR"),
    ("successes_", backwards, "columns in order"),
    ("trials_by_bin_", lambda x: x[1:], "trials_by_bin_ must be of"),
    ("trials_by_bin_", lambda x: x.astype(np.int64), "counts of trials_by_bin_"),
    ("win_", lambda x: x[:, ::-1], "win_ must not fall"),
    ("win_", lambda x: x.astype(np.float64), "win_ must be an array of .*float32"),
    ("win_", lambda x: x[:, 1:], "win_ must be an array of"),
    ("win_", lambda x: with_value(x, 3, np.nan), "win_ must lie"),
    ("win_", lambda x: with_value(x, -1, 1.5), "win_ must lie"),
    ("spread_", lambda x: -x, "spread_ must lie"),
    ("spread_", lambda x: x.T, "spread_ must be an array of"),
    ("spread_", lambda x: with_value(x, 0, np.inf), "spread_ must lie"),
    ("segment_win_", lambda x: x[1:], "segment_win_ must be an array"),
    ("segment_win_", lambda x: x[:, ::-1], "segment_win_ must not fall"),
    ("segment_spread_", lambda x: x * np.nan, "segment_spread_ must lie"),
    (
        "segment_spread_",
        lambda x: x.astype(np.float32),
        "segment_spread_ must be an array of .*float64",
    ),
    ("supply_", lambda _: 3, "supply_ must be a Supply"),
    ("supply_.level", lambda x: x[1:], "supply_.level must be an array"),
    ("supply_.error", lambda x: -x, "supply_.error must lie"),
    ("supply_.variation", lambda x: x * np.nan, "supply_.variation"),
    ("supply_.weekday", lambda x: x[:, 1:], "supply_.weekday must be an"),
    ("supply_.weekday", lambda x: -x, "supply_.weekday must lie"),
    ("supply_.unseen", lambda x: x + 1, "supply_.unseen must lie"),
    ("supply_.weekday_variance", lambda x: -x - 1, "supply_.weekday_variance must lie"),
    ("supply_.half_life", lambda _: math.nan, "supply_.half_life"),
    ("supply_.factors", lambda _: None, "supply_.factors must be a DayLevels"),
    ("supply_.factors.weights", lambda x: x / 2, "sum to 1"),
    ("price_levels_.days", lambda x: x[::-1], "days must be in order"),
    (
        "price_levels_.days",
        lambda x: x.astype("datetime64[s]"),
        "price_levels_.days must be an array of 5 days",
    ),
    (
        "price_levels_.days",
        lambda x: x + np.timedelta64(3_000_000, "D"),
        "price_levels_.days must lie",
    ),
    ("price_levels_.values", lambda x: x[1:], "price_levels_.values must be an array"),
    ("price_levels_.values", lambda x: x + 1e3, "price_levels_.values must lie"),
    ("price_levels_.errors", lambda x: x * 0, "errors must lie"),
    ("price_levels_.parts", lambda x: -x, "parts must lie"),
    ("price_levels_.parts", lambda x: x[1:], "parts must be an array"),
    ("price_levels_.weights", lambda x: x[:0], "1 to 10,000"),
    ("price_levels_.weights", lambda _: np.full(10_001, 1 / 10_001), "1 to 10,000"),
    (
        "calibration_.factors",
        lambda x: x[1:],
        "calibration_.factors must be an array of 4 × 2 × 4 × 2 × 3",
    ),
    (
        "calibration_.factors",
        lambda x: with_value(x, 7, 101.0),
        "calibration_.factors must lie between 0 and 100",
    ),
    ("calibration_.forecasts", lambda _: -1, "calibration_.forecasts"),
    ("calibration_", lambda _: [], "calibration_ must be"),
    ("choice_", lambda _: None, "choice_ must be"),
    ("choice_.half_life", lambda _: np.float64(3), "choice_.half_life must be a plain number"),
    ("choice_.half_life", lambda _: 0.0, "choice_.half_life"),
    ("choice_.bias", lambda _: "0", "choice_.bias"),
    ("choice_.days", lambda _: -1, "days"),
    ("warnings_", lambda _: "prices rose", "warnings_ must be a list"),
    ("warnings_", lambda _: ["a" * 1001], r"warnings_\[0\] must be text of at most 1,000 char"),
    ("warnings_", lambda _: ["", np.str_("a")], r"warnings_\[1\] must be text"),
    ("warnings_", lambda _: ["\ud800"], "UTF-8"),
    ("stored_days_", lambda _: b"", "stored_days_ must be a StoredDays"),
    ("agreement_.placed", lambda x: x + 99, "agreement_.placed must lie"),
    ("agreement_.names", lambda _: "price", "agreement_.names must be a list"),
    ("agreement_.dissenting", lambda _: "nobody", "dissenting"),
    ("bid_", lambda x: x * np.inf, "bid_"),
    ("rows_", lambda _: math.nan, "rows_"),
    ("click_rate_", lambda x: x + 2, "click_rate_"),
    ("click_rate_", lambda _: None, "click_worth_ needs click_rate_"),
    ("vectors_", lambda _: None, "text_view_ needs vectors_"),
    ("vectors_", lambda x: x[:, 1:], "components_"),
    ("vectors_", lambda x: x * 9, "vectors_ must lie"),
    ("text_view_", lambda _: "words", "text_view_ must be a TextVectors"),
    ("text_view_.components_", lambda x: x * np.nan, "components_ must"),
    ("text_view_.word_idf_", lambda x: x[1:], "word_idf_ must be an array"),
]


@pytest.mark.parametrize(("name", "wrong", "words"), UNSOUND)
def test_unsound_attributes_are_refused(name, wrong, words):
    """What is out of bounds, of another shape or of another kind is named."""
    with pytest.raises(ModelFileError, match=words):
        check_model(changed(name, wrong(part_of(small_model(), name))))


def test_rows_of_counts_must_follow_one_another():
    """Row pointers that run backwards would be read beyond the counts."""
    model = small_model()
    matrix = model.trials_by_bin_.copy()
    matrix.indptr[3] = matrix.indptr[-1] + 5
    with pytest.raises(ModelFileError, match="not sound"):
        check_model(changed("trials_by_bin_", matrix))


# values that a number in a model file may have
odd_numbers = st.sampled_from(
    [math.nan, math.inf, -math.inf, -1.0, -1e-9, 0.0, 1e-320, 0.5, 1.0, 2.0, 1e18, 1e300]
)


@st.composite
def mutated(draw):
    """A model with something changed in it, sound or not."""
    model = small_model()
    names = [*FITTED, *(f"{part}.{name}" for part in PARTS for name in _members(model, part))]
    name = draw(st.sampled_from(names))
    return changed(name, draw(_variants(part_of(model, name))))


def _members(model, part):
    value = part_of(model, part)
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    return list(vars(value))


def _variants(value):
    others = st.sampled_from([None, "", "x", 0, -1, 3.5, math.nan, [], {}, (), np.zeros(0)])
    if isinstance(value, sp.csr_array):
        parts = st.sampled_from([lambda a: a.T.tocsr(), lambda a: a[:-1], lambda a: a * 0])
        data = odd_numbers.map(
            lambda x: sp.csr_array((with_value(value.data, 7, x), value.indices, value.indptr))
        )
        return others | parts.map(lambda change: change(value)) | data
    if not isinstance(value, np.ndarray) or not value.size:
        return others | odd_numbers
    shapes = st.sampled_from(
        [lambda a: a[:-1], lambda a: a[::-1], lambda a: a.T, lambda a: a[None]]
    )
    return others | shapes.map(lambda change: change(value)) | _changed_values(value)


def _changed_values(value):
    places = st.integers(0, value.size - 1)
    if value.dtype.kind == "f":
        return st.tuples(places, odd_numbers).map(lambda change: with_value(value, *change))
    if value.dtype.kind == "i":
        numbers = st.sampled_from([-(2**62), -2, -1, 0, 1, 5, 10**6, 2**62])
        return st.tuples(places, numbers).map(lambda change: with_value(value, *change))
    if value.dtype.kind == "U":
        texts = st.sampled_from(["", "\n", "<b>", "zzz"])
        return st.tuples(places, texts).map(lambda change: with_value(value, *change))
    return st.just(value)


@given(mutated())
@settings(max_examples=80)
def test_hostile_models_are_refused_or_answer_in_numbers(model):
    """Whatever a file holds, it is refused with words, or all that it answers is finite."""
    try:
        check_model(model)
    except ModelFileError as error:
        assert str(error)
        return
    ids, bids = model.advertisers_.tolist(), [0.001, 2.0, 1e9]
    found = [
        *(one for name in ids[::7] for one in model.forecast(name, bids, level=0.95)),
        *(model.forecast(name, 2.0, day="2026-03-09", days=9) for name in ids[:9]),
        *model.forecast("new", bids, text="passport tour", supply=1e15),
    ]
    for forecast in map(vars, found):
        figures = [forecast[k] for k in ("win_rate", "cost", "impressions", "spend")]
        for target in ("impressions", "spend", "clicks", "conversions"):
            figures += forecast[f"{target}_interval"] or []
        assert all(0 <= figure < math.inf for figure in figures), forecast
    # what is not a number would be written as null
    book = Profiles(model)
    for row in range(0, len(ids), 9):
        _assert_finite(book.advertiser(row))
    _assert_finite(book.summary())
    _assert_finite(book.segments())


def _assert_finite(value):
    """No number in it is NaN or infinite, and it can be written."""
    msgspec.json.encode(value)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            _assert_finite(item)
    elif isinstance(value, float):
        assert math.isfinite(value)


@pytest.mark.parametrize(
    ("odd", "told"),
    [("a\0b", "without NUL"), ("a" * 1025, "at most 1,024 characters"), ("\ud800", "UTF-8")],
)
def test_ids_that_nobody_could_ask_for_are_refused(odd, told):
    """Every advertiser of a served model can be named in a question."""
    ids = np.array(sorted([odd, *small_model().advertisers_.tolist()[1:]]), dtype=object)
    with pytest.raises(ModelFileError, match=told):
        check_model(changed("advertisers_", ids))


@pytest.mark.parametrize("strength", [10**400, 1e200, -1, math.nan, True, "3"])
def test_absurd_strengths_are_refused(strength):
    """The strength of pooling is a number that can be reckoned with."""
    with pytest.raises(ModelFileError, match=r"choice_\.strength must be"):
        check_model(changed("choice_.strength", strength))
    for fine in (math.inf, 0, np.float64(3)):
        check_model(changed("choice_.strength", fine))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("size", np.int64(3)),
        ("median_price", np.float64(3)),
        ("name", np.str_("a")),
        ("name", "a" * 1001),
    ],
)
def test_numbers_of_numpy_in_profiles_are_refused(name, value):
    """What is told of a segment can be written as JSON."""
    profile = dataclasses.replace(small_model().segments_[0], **{name: value})
    with pytest.raises(ModelFileError, match=rf"segments_\[0\].{name} must be"):
        check_model(changed("segments_", [profile, *small_model().segments_[1:]]))


def test_labels_without_segments_are_minus_one():
    """Where there are no segments nobody has one; where there are, everybody does."""
    model = odd_model("one advertiser")
    assert not model.segments_
    check_model(model)
    with pytest.raises(ModelFileError, match="labels_ must lie"):
        check_model(changed("labels_", model.labels_ + 1, model))


def test_stored_days_are_not_read():
    """A model without its days is served, and what they hold is no matter."""
    check_model(changed("stored_days_", None))
    check_model(changed("stored_days_.bids", np.zeros(3, np.uint8)))


def test_every_advertiser_of_a_served_model_can_be_asked_for():
    """The longest id of a model is the longest id of a question."""
    assert Limits().id_chars == MOST_ID_CHARS


IN_FILES = [
    ("win_", lambda model: model.win_[:, 1:], r"win_ must be an array of 60 × \d+ numbers"),
    ("advertisers_", lambda model: model.advertisers_[1:], "shares_ must be an array of 59 ×"),
    ("click_rate_", lambda _: None, "click_worth_ needs click_rate_"),
]


@pytest.mark.parametrize(("name", "wrong", "words"), IN_FILES)
def test_files_of_unsound_models_are_refused(name, wrong, words, tmp_path):
    """A file whose arrays do not fit each other is refused by its name and what is wrong."""
    model = copy.copy(small_model())
    setattr(model, name, wrong(small_model()))
    save_model(model, tmp_path / "market.coterie")
    with pytest.raises(ModelFileError, match=rf"market\.coterie: .*{words}.*; make it again"):
        load_market(tmp_path / "market.coterie")


@pytest.mark.parametrize("made", [small_model, first_price_model, minimum_model, textless_model])
def test_models_are_sound_after_loading(made, tmp_path):
    """What can be served can be saved, loaded and served."""
    save_model(made(), tmp_path / "market.coterie")
    load_market(tmp_path / "market.coterie")
