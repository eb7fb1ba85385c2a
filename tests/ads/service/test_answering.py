"""Forecasts, decisions and the curves of all advertisers are those of Python, to the last bit."""

from __future__ import annotations

import copy
import io
import json
from dataclasses import replace
from datetime import date
from functools import cache

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads import bid_for, plan_budget, rank_targets, split_budget
from coterie.ads.protocol import OPERATIONS, Answer, Answers, Limits, Question
from coterie.ads.service import answering
from coterie.ads.service.answering import (
    Batch,
    answer_slices,
    curve_parts,
    decide,
    quick_answer,
)
from coterie.ads.service.problems import MOST_FAULTS, Problem
from coterie.ads.service.request_reading import read_body
from coterie.ads.service.served_model import ServedModel
from fitted_models import small_model
from service_calls import JSON, served, service
from target_markets import targets_model

LIMITS = Limits()
QUESTIONS = msgspec.json.Decoder(Question | list[Question])
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
    return Batch(served(name), read_body(body, QUESTIONS), limits)


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
    (body, zipped), _ = finished(answer_slices(read(asked, limits, name)))
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
    (body, _), _ = finished(answer_slices(read(asked, name=name)))
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
        _, costs = finished(answer_slices(batch))
        assert max(costs) <= LIMITS.slice_work
        assert sum(costs) >= batch.cost


def test_days_that_are_new_are_slices_of_their_own():
    """To make them may take as long as a slice."""
    model = ServedModel(served().model, "0", "market.coterie")
    questions = [Question(advertiser="adv-00023", bid=2.0, days=days) for days in (2, 3, 4, 4)]
    _, costs = finished(answer_slices(Batch(model, questions, LIMITS)))
    assert costs == [1, 1, 1, 13]


@pytest.mark.parametrize(
    ("question", "work"),
    [
        (KNOWN, 1),
        ({**KNOWN, "bid": {"from": 1, "to": 5, "step": 1}, "days": 7}, 35),
        ({"text": "tour", "bid": [1, 2], "supply": 9, "days": 3}, 6 + LIMITS.text_work),
        ({"advertiser": "adv-00020", "bid": 1, "where": {"device": "phone"}}, 1 + LIMITS.text_work),
    ],
)
def test_cost_is_bids_times_days_texts_and_values(question, work):
    """The queue counts the bids times days of all questions; texts and values cost more."""
    batch = read([KNOWN, question], name="targets_model")
    assert batch.cost == 1 + work
    _, costs = finished(answer_slices(batch))
    assert 0 <= sum(costs) - batch.cost <= 1


def test_log_without_clicks():
    """What the log has none of is null, and so is its interval."""
    model = copy.copy(served().model)
    model.click_rate_ = model.click_worth_ = None
    model.conversion_rate_ = model.conversion_worth_ = None
    without = ServedModel(model, "0", "market.coterie")
    for asked in (KNOWN, {"text": "tour", "bid": 1, "supply": 9}):
        batch = Batch(without, read_body(msgspec.json.encode(asked), QUESTIONS), LIMITS)
        (body, _), _ = finished(answer_slices(batch))
        [figures] = msgspec.json.decode(body)["forecasts"]
        assert figures["clicks"] is figures["conversions_interval"] is None
        assert figures["impressions"] >= 0


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


def test_ranges_are_counted_not_made(monkeypatch):
    """A thousand ranges of 10,000 bids each are refused before one of them is made."""
    most = {**KNOWN, "bid": {"from": 1, "to": 10_000, "step": 1}}
    monkeypatch.setattr(Question, "bids", None)
    assert "10,000,000 bids" in faults([most] * 1_000)[0][1]


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


PERIOD = {"day": "2026-03-14", "days": 3, "level": 0.8}
NEW = {"advertiser": "new", "text": "flights and hotel", "supply": 1e5}
TWO = ["adv-00020", "adv-00041"]
COLUMNS = [
    *("advertiser", "segment", "bid", "win_rate", "win_rate_low", "win_rate_high", "cost"),
    *("marginal_cost", "own_win_rate", "segment_win_rate"),
]
READ = {
    "arrow": lambda body: pa.ipc.open_stream(io.BytesIO(body)).read_all(),
    "parquet": pq.read_table,
}


def asked(path, question, name="small_model"):
    """Return the reply to a question."""
    content = json.dumps(question).encode()
    return service(name).ask("POST", path, content=content, headers={"content-type": JSON})


FUNCTIONS = {
    "bid": bid_for,
    "budget": plan_budget,
    "portfolio": split_budget,
    "targets": rank_targets,
}
DECIDED = [
    *(
        ("bid", "small_model", {**who, **goal})
        for who in ({"advertiser": "adv-00020", **PERIOD}, NEW)
        for goal in ({"impressions": 9}, {"spend": 0.2}, {"clicks": 1e9})
    ),
    *(
        ("budget", "first_price_model", {"budget": 0.5, **who, **bid})
        for who in ({"advertiser": "adv-00020"}, {"days": 3, **NEW})
        for bid in ({}, {"bid": 3.5})
    ),
    *(
        ("portfolio", "small_model", {"goal": "clicks", **what})
        for what in ({"advertisers": TWO, "budget": 1}, {"segment": 0, **PERIOD}, {"budget": 3})
    ),
    *(
        ("targets", "targets_model", {**who, **how})
        for who in ({"advertiser": "adv-00020", **PERIOD}, {**NEW, "bid": 2.5})
        for how in ({}, {"dimension": "device", "by": "cost"})
    ),
]


@pytest.mark.parametrize(("name", "model", "question"), DECIDED)
def test_decisions_are_those_of_python(name, model, question):
    """Goals reached or not, budgets of a week by default, portfolios and targets."""
    reply = asked(OPERATIONS[name].path, question, model)
    [kind] = OPERATIONS[name].answers
    found = msgspec.json.decode(reply.body, type=kind)
    assert found == FUNCTIONS[name](served(model).model, **question)
    assert found.model_version == served(model).version.version
    inner = getattr(found, "forecast", None) or getattr(found, "unlimited", found)
    assert getattr(inner, "model_version", found.model_version) == found.model_version


def test_portfolio_of_a_segment_by_its_name():
    """The beginning of the name is enough."""
    name = small_model().segments_[0].name[:8]
    found = asked("/v1/portfolios", {"segment": name}).json
    assert found == asked("/v1/portfolios", {"segment": 0}).json


WHERE = {"device": "phone"}


@pytest.mark.parametrize("bid", [2.5, [1.0, 2.5, 90.0], {"from": 1, "to": 5, "step": 0.005}])
@pytest.mark.parametrize("question", [{"advertiser": "adv-00020", **PERIOD}, NEW])
def test_forecasts_of_values(question, bid):
    """A question with values of dimensions is answered as Python does, alone and in a list."""
    told = {**question, "where": WHERE, "bid": bid}
    found = msgspec.json.decode(service("targets_model").forecast(told).body, type=Answer)
    bids = Question(bid=bid, advertiser="a").bids() if not isinstance(bid, dict) else None
    bids = bids or [round(1 + 0.005 * i, 3) for i in range(801)]
    assert found.each() == targets_model().forecast(bid=bids, where=WHERE, **question)
    plain = {"advertiser": "adv-00020", "bid": 2.5}
    together = service("targets_model").forecast([plain, told, plain]).json["answers"]
    assert together[1]["forecasts"] == json.loads(msgspec.json.encode(found.forecasts))
    assert together[0] == together[2]


@pytest.mark.parametrize("where", [{"device": "abacus"}, {"planet": "Mars"}])
def test_values_that_the_model_does_not_have(where):
    """They are a fault of the question, with its place."""
    told = {"advertiser": "adv-00020", "bid": 2.5, "where": where}
    [(place, what)] = service("targets_model").forecast([{**told, "where": WHERE}, told]).faults
    assert place == "[1].where" and next(iter(where)) in what
    [(place, what)] = service().forecast(told).faults
    assert place == "where" and "no dimensions" in what


@pytest.mark.parametrize(
    ("path", "question", "told"),
    [
        ("/v1/bids", {"advertiser": "adv-00020"}, "give one of"),
        ("/v1/bids", {"advertiser": "adv-00020", "clicks": 1, "spend": 1}, "give one of"),
        ("/v1/bids", {"advertiser": "adv-00020", "clicks": 0}, "above 0"),
        ("/v1/bids", {"clicks": 1}, "name an `advertiser`"),
        ("/v1/bids", [{"advertiser": "adv-00020", "clicks": 1}], "an object, not a list of 1"),
        (
            "/v1/bids",
            {"advertiser": "unknown", "clicks": 1},
            "or give supply, its number of auctions",
        ),
        ("/v1/budgets", {"advertiser": "adv-00020"}, "it is missing"),
        ("/v1/budgets", {"advertiser": "adv-00020", "budget": -1}, "not -1"),
        ("/v1/targets", {"advertiser": "adv-00020"}, "no dimensions"),
        ("/v1/targets", {"advertiser": "adv-00020", "by": "luck"}, "luck"),
        ("/v1/portfolios", {"advertisers": TWO, "segment": 0}, "`advertisers` or a `segment`"),
        ("/v1/portfolios", {"advertisers": ["unknown"]}, "'unknown' is not in the log"),
        ("/v1/portfolios", {"advertisers": ["adv-00020"] * 1001}, "a list of 1 to 1,000 items"),
        ("/v1/portfolios", {"segment": 99}, "segment=99"),
        ("/v1/portfolios", {"segment": 0, "goal": "fame"}, "fame"),
    ],
)
def test_invalid_questions(path, question, told):
    """They are refused with their fault."""
    [(_, what)] = asked(path, question).faults
    assert told in what


def decided(name, question, limits=LIMITS):
    """Return the estimated cost of a decision, and the costs of its slices."""
    question = msgspec.convert(question, OPERATIONS[name].question)
    estimate, slices = decide(name, served("targets_model"), question, limits)
    return estimate, list(slices)


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("bid", {"advertiser": "adv-00020", "clicks": 1}),
        ("budget", {"advertiser": "adv-00020", "budget": 9}),
        ("targets", {"advertiser": "adv-00020"}),
        ("portfolio", {"advertisers": served("targets_model").names}),
    ],
)
def test_long_decisions_let_others_have_their_turn(name, question):
    """A decision about a year is made in many slices, none much larger than those of others."""
    estimate, costs = decided(name, {**question, "days": 366})
    assert max(costs) <= 3 * LIMITS.slice_work
    assert estimate / 5 <= sum(costs) <= 5 * estimate


def test_values_and_texts_add_to_the_cost_of_a_decision():
    """Figures of single values take many times as long, and placing a text has a price."""
    question = {"advertiser": "adv-00020", "clicks": 1, "days": 99}
    plain, costs = decided("bid", question)
    of_values, more = decided("bid", {**question, "where": WHERE})
    assert of_values >= 10 * plain and sum(more) >= 10 * sum(costs)
    of_new, _ = decided("bid", {"text": "tour", "supply": 9, "clicks": 1, "days": 99})
    assert of_new == plain + LIMITS.text_work


def test_portfolio_of_all_has_the_limit_of_questions():
    """A model with more advertisers wants some of them, or a segment, to be named."""
    number = len(served("targets_model").names)
    decided("portfolio", {}, Limits(questions=number))
    for question in ({"segment": 0}, {"advertisers": TWO}):
        decided("portfolio", question, Limits(questions=number - 1))
    with pytest.raises(Problem, match=f"the model has {number} advertisers; name up to"):
        decided("portfolio", {}, Limits(questions=number - 1))


def table(kind, segment=None, name="small_model"):
    """Return the table that the parts make, and their costs."""
    parts = [(cost, make()) for cost, make in curve_parts(served(name), kind, segment)]
    body = b"".join(part for _, part in parts)
    return READ[kind](io.BytesIO(body) if kind == "parquet" else body), [cost for cost, _ in parts]


@pytest.mark.parametrize("name", ["small_model", "first_price_model", "textless_model"])
@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_curves_are_those_of_the_model(kind, name):
    """Each advertiser has its curve at each bid of the grid, bit for bit, by advertiser and bid."""
    made = served(name)
    found, costs = table(kind, name=name)
    assert found.column_names == COLUMNS
    assert found.schema.metadata[b"model_version"] == b"0123456789ab"
    assert found.schema.metadata[b"currency"] == made.currency.encode()
    bids = np.array([bid for bid in made.book.grid if bid > 0])
    assert found["advertiser"].to_pylist() == [one for one in made.names for _ in bids]
    columns = [found[column].to_numpy().reshape(len(made.names), -1) for column in COLUMNS[2:7]]
    for row, advertiser in enumerate(made.names):
        known = made.tables.curves_at(made.placer.placed(advertiser, None), bids)
        expected = [bids, known["win"], known["low"], known["high"], known["cost"]]
        np.testing.assert_array_equal([column[row] for column in columns], expected)
    assert sum(costs) == found.num_rows + 1
    assert max(costs) <= 8 * len(bids)


def test_curve_of_the_python_interface_is_the_same():
    """At the bids of the grid, model.curve has the same win rates and costs."""
    made = served()
    found, _ = table("arrow")
    of_model = made.model.curve("adv-00023")
    of_table = found.filter(pa.compute.equal(found["advertiser"], "adv-00023"))
    both = np.intersect1d(of_table["bid"].to_numpy(), of_model.bid)
    assert len(both) > 5
    for ours, theirs in (("win_rate", of_model.win), ("cost", of_model.cost)):
        left = of_table[ours].to_numpy()[np.isin(of_table["bid"].to_numpy(), both)]
        np.testing.assert_array_equal(left, theirs[np.isin(of_model.bid, both)])


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_one_segment(kind):
    """Only advertisers of the segment are there; a segment that does not exist has none."""
    labels, names = served().model.labels_, np.array(served().names)
    found, _ = table(kind, 1)
    assert sorted(set(found["advertiser"].to_pylist())) == sorted(names[labels == 1])
    none, _ = table(kind, 1_000)
    assert (none.num_rows, none.column_names) == (0, COLUMNS)


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_parts_are_written_while_they_are_made(kind, monkeypatch):
    """A large table does not wait in memory until its end, and is the same."""
    whole, _ = table(kind)
    monkeypatch.setattr(answering, "_ADVERTISERS_WRITTEN", 16)
    parts = [len(make()) for _, make in curve_parts(served(), kind)]
    assert sum(size > 0 for size in parts) >= len(served().names) // 16
    assert table(kind)[0].equals(whole)
