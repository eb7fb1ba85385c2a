"""Answers are those of AdForecaster.forecast, to the last bit."""

from __future__ import annotations

import copy
import gzip
from dataclasses import replace
from datetime import date
from functools import cache

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.protocol import Answer, Answers, Limits
from coterie.ads.service.answering import answer_slices, quick_answer
from coterie.ads.service.problems import MOST_FAULTS, Problem
from coterie.ads.service.request_reading import QUESTIONS, Batch, make_batch, read_body
from coterie.ads.service.served_model import ServedModel
from service_calls import served

LIMITS = Limits()
MODELS = ("small_model", "first_price_model", "minimum_model", "textless_model")
KNOWN = {"advertiser": "adv-00023", "bid": 2}

bids = st.floats(0.01, 40) | st.sampled_from([1e-300, 1e9, 2, 1.294])
ranges = st.fixed_dictionaries(
    {"from": st.floats(0.1, 3), "to": st.floats(3, 5), "step": st.floats(0.5, 1e12)}
)
levels = st.sampled_from([0.5, 0.8, 0.9, 0.95])
words = st.sampled_from(["", " ", "passport tour", "claim quote insurance", "zzzz", "الفندق", "\0"])


@cache
def ids(name):
    """Return the advertisers of a model."""
    return served(name).model.advertisers_.tolist()


@st.composite
def questions(draw, name):
    """Draw any kind of question, about an advertiser of the model or not."""
    question = {}
    if draw(st.booleans()):
        question["advertiser"] = draw(st.sampled_from(ids(name)))
        supply = draw(st.sampled_from(["", "supply", "day"]))
    else:
        question |= draw(
            st.sampled_from([{"text": ""}, {"advertiser": ""}, {"advertiser": "O'H\na\"r"}])
        )
        supply = "supply"
    if draw(st.booleans()):
        question["text"] = draw(words)
    if supply == "supply":
        question["supply"] = draw(st.floats(0, 1e15) | st.sampled_from([0, -0.0, 10**15]))
    elif supply == "day":
        question["day"] = str(draw(st.dates(date(2026, 3, 1), date(2026, 3, 20))))
    days = st.sampled_from([1, 2, 7])
    question |= draw(st.fixed_dictionaries({}, optional={"days": days, "level": levels}))
    each = bids | st.just(served(name).tables.highest)
    question["bid"] = draw(each | st.lists(each, min_size=1, max_size=5) | ranges)
    return question


def read(asked, limits=LIMITS, name="small_model"):
    """Return a batch of questions."""
    body = asked if isinstance(asked, bytes) else msgspec.json.encode(asked)
    return make_batch(served(name), read_body(body, QUESTIONS), limits)


def finished(slices):
    """Return the result of some slices, and their costs."""
    costs = []
    while True:
        try:
            costs.append(next(slices))
        except StopIteration as end:
            return end.value, costs


def answered(asked, limits=LIMITS, name="small_model"):
    """Return the answers to a list of questions."""
    (body, zipped), _ = finished(answer_slices(read(asked, limits, name), limits))
    assert not zipped
    return msgspec.json.decode(body, type=Answers).answers


def expected(model, question):
    """Return the forecasts of the Python interface."""
    asked = {name: value for name, value in question.items() if name not in {"advertiser", "bid"}}
    bid = question["bid"]
    if isinstance(bid, dict):
        bid = read([{"advertiser": "adv-00023", "bid": bid}]).bids[0]
    found = model.forecast(question.get("advertiser"), bid, **asked)
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=20)
@given(st.data())
def test_answers_are_forecasts(name, data):
    """Each answer of a batch has the figures and words of the model, also cut into slices.

    A batch has several days, levels, known and unknown advertisers; slices may cut a question.
    """
    model = served(name).model
    asked = data.draw(st.lists(questions(name), min_size=1, max_size=6))
    limits = Limits(slice_work=data.draw(st.sampled_from([1, 3, 30, 250])))
    found = answered(asked, limits, name)
    for question, answer in zip(asked, found, strict=True):
        told = [replace(one, currency="") for one in answer.each()]
        assert told == [replace(one, currency="") for one in expected(model, question)]
        assert answer.currency == model.currency_
        assert answer.known == (question.get("advertiser") in ids(name))
        assert answer.days == question.get("days", 1)
        assert not str(answer.supply).startswith("-")
    assert found == answered(asked, LIMITS, name)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=15)
@given(st.data())
def test_small_questions_are_answered_at_once_with_the_same_bytes(name, data):
    """The short way for one small question gives the bytes of the long one."""
    optional = {
        "days": st.sampled_from([1, 7]),
        "level": levels,
        "day": st.just("2026-03-09"),
    }
    asked = data.draw(
        st.fixed_dictionaries(
            {"advertiser": st.sampled_from(ids(name)), "bid": bids}, optional=optional
        )
    )
    (body, _), _ = finished(answer_slices(read(asked, name=name), LIMITS))
    question = read_body(msgspec.json.encode(asked), QUESTIONS)
    assert quick_answer(served(name), question, LIMITS) == body
    msgspec.json.decode(body, type=Answer)


def test_what_takes_long_is_not_answered_at_once():
    """Lists, unknown advertisers, many bids and days that were not made yet go to the queue."""
    for asked in (
        [KNOWN],
        {"text": "tour", "bid": 1, "supply": 9},
        {**KNOWN, "bid": [1.0] * (LIMITS.small_work + 1)},
        {**KNOWN, "day": "2031-03-09"},
    ):
        assert (
            quick_answer(served(), read_body(msgspec.json.encode(asked), QUESTIONS), LIMITS) is None
        )


def test_slices_are_small_and_add_up():
    """No slice of a long question or of a long list does much more work than one slice should."""
    long = {"advertiser": "adv-00023", "bid": {"from": 1, "to": 5_000, "step": 1}}
    many = [{"advertiser": "adv-00023", "bid": [1.0] * 40, "days": 3}] * 50
    for asked in (long, {**long, "days": 7}, many):
        batch = read(asked)
        _, costs = finished(answer_slices(batch, LIMITS))
        assert max(costs) <= LIMITS.slice_work
        assert sum(costs) >= sum(batch.works(LIMITS))


def test_cost_is_bids_times_days_texts_and_targets():
    """Work is counted as the documentation of limits says; each target is a slice of its own."""
    stranger = {"text": "tour", "bid": [1, 2], "supply": 1, "days": 3}
    target = {**KNOWN, "where": {"device": "phone"}}
    batch = read([target] * 3, name="targets_model")
    assert batch.works(LIMITS) == [1 + LIMITS.text_work] * 3
    _, costs = finished(answer_slices(batch, LIMITS))
    assert costs == batch.works(LIMITS)
    ranged = {**KNOWN, "bid": {"from": 1, "to": 5, "step": 1}, "days": 7}
    assert read([KNOWN, ranged]).works(LIMITS) == [1, 35]
    assert read([KNOWN, stranger]).works(LIMITS) == [1, 6 + LIMITS.text_work]


def test_log_without_clicks():
    """What the log has none of is null, and so is its interval."""
    model = copy.copy(served().model)
    model.click_rate_ = model.click_worth_ = None
    model.conversion_rate_ = model.conversion_worth_ = None
    without = ServedModel(model, "0", "market.coterie")
    for asked in (KNOWN, {"text": "tour", "bid": 1, "supply": 9}):
        batch = make_batch(without, read_body(msgspec.json.encode(asked), QUESTIONS), LIMITS)
        (body, _), _ = finished(answer_slices(batch, LIMITS))
        [figures] = msgspec.json.decode(body)["forecasts"]
        assert figures["clicks"] is figures["conversions_interval"] is None
        assert figures["impressions"] >= 0


def test_large_answers_are_compressed_on_demand():
    """With gzip the same bytes come back; small answers are left as they are."""
    batch = read({**KNOWN, "bid": [1.0] * 100})
    (plain, _), _ = finished(answer_slices(batch, LIMITS))
    (body, zipped), _ = finished(answer_slices(batch, LIMITS, compress=True))
    assert zipped and gzip.decompress(body) == plain
    (small, zipped), _ = finished(answer_slices(read(KNOWN), LIMITS, compress=True))
    assert not zipped and small.startswith(b"{")


def faults(asked, limits=LIMITS):
    """Return the places and words of what is wrong."""
    with pytest.raises(Problem) as caught:
        read(asked, limits)
    assert caught.value.kind == "invalid-question"
    return [(fault.at, fault.what) for fault in caught.value.errors]


@pytest.mark.parametrize(
    ("asked", "places"),
    [
        ({**KNOWN, "bid": 0}, ["bid"]),
        ({**KNOWN, "bid": [1, "2"]}, ["bid[1]"]),
        ({**KNOWN, "bid": {"from": 1, "to": 2}}, ["bid.step"]),
        ({**KNOWN, "bid": {"from": 1, "to": 2, "step": 0}}, ["bid.step"]),
        ({**KNOWN, "colour": "red"}, ["colour"]),
        ({"bid": 1}, [""]),
        (
            [KNOWN, 7, {**KNOWN, "days": 0}, KNOWN, {**KNOWN, "level": 1}],
            ["[1]"],
        ),
        ({"advertiser": "nobody", "bid": 1}, ["supply"]),
        ([KNOWN, {"text": "tour", "bid": 1}], ["[1].supply"]),
        (
            [{**KNOWN, "advertiser": f"no-{n}"} for n in range(50)],
            [f"[{n}].supply" for n in range(MOST_FAULTS)],
        ),
    ],
)
def test_faults_have_their_places(asked, places):
    """The first fault is reported with the number of its question; of unknown ids all are."""
    assert [at for at, _ in faults(asked)] == places


def test_quoted_input_is_cut():
    """A fault that quotes the question does not send a megabyte back."""
    [(_, what)] = faults(b'{"%s": 1}' % (b"y" * 100_000))
    assert len(what) < 500


@pytest.mark.parametrize(
    ("asked", "limits", "what"),
    [
        ([KNOWN] * 6, {"questions": 5}, "6 questions"),
        ([{**KNOWN, "bid": [1.0] * 15}] * 3, {"bids": 40}, "45 bids"),
        ([{**KNOWN, "bid": {"from": 1, "to": 15, "step": 1}}] * 3, {"bids": 40}, "45 bids"),
        ([{"text": f"t{n}", "bid": 1, "supply": 1} for n in range(5)], {"texts": 4}, "5 texts"),
        ([{"text": "x" * 50, "bid": 1, "supply": 1}], {"all_text_chars": 49}, "50 characters"),
        ([], {}, "no question"),
    ],
)
def test_the_whole_request_is_limited(asked, limits, what):
    """Questions, bids and texts of a request are counted together, before any work is done."""
    assert what in faults(asked, Limits(**limits))[0][1]


def test_ranges_are_counted_not_made():
    """A thousand ranges of 10,000 bids each are refused before one of them is made."""
    most = {**KNOWN, "bid": {"from": 1, "to": 10_000, "step": 1}}
    batch = Batch(served(), [read(most).questions[0]] * 1_000, many=True)
    with pytest.raises(Problem, match="10,000,000 bids"):
        batch.check(LIMITS)
    assert "bids" not in vars(batch)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["advertiser", "text", "bid", "day", "from", "to", "step"]), inner
        )
    ),
    max_leaves=8,
)


@settings(max_examples=200)
@given(anything | st.binary(max_size=30), st.binary(max_size=6))
def test_any_bytes_are_read_or_refused(asked, end):
    """Whatever is sent, it is a batch or a problem of status 400 or 422."""
    body = asked if isinstance(asked, bytes) else msgspec.json.encode(asked)
    for sent in (body, body + end, b"[" + body + b"," + end + b"]"):
        try:
            read(sent)
        except Problem as problem:
            assert problem.status in {400, 422}
