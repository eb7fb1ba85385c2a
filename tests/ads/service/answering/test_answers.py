"""Answers are those of the Python interface, to the last bit."""

from __future__ import annotations

import copy
from datetime import date, timedelta
from functools import cache

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.protocol import Limits
from coterie.ads.service.answering import answers
from coterie.ads.service.answering.answers import (
    answer_to_one,
    answers_in_turns,
    answers_to,
    periods_of,
    rows_of,
)
from coterie.ads.service.answering.questions import read_questions
from coterie.ads.service.models.served_model import ServedModel
from coterie.ads.service.problems import Problem
from service_calls import served, service

LIMITS = Limits()
MODELS = ("small_model", "first_price_model", "minimum_model", "textless_model")

bids = st.floats(0.01, 40) | st.sampled_from([1e-300, 1e9, 2, 1.294])
number_of_days = st.sampled_from([1, 2, 7, 366]) | st.integers(1, 40)
levels = st.sampled_from([0.5, 0.8, 0.9, 0.95])
words = st.sampled_from(["", " ", "passport tour", "claim quote insurance", "zzzz", "الفندق"])


@cache
def ids(name):
    """The advertisers of a model."""
    return served(name).model.advertisers_.tolist()


@st.composite
def questions(draw, name):
    """Any kind of question, about somebody in the model or not."""
    question = {}
    if draw(st.booleans()):
        question["advertiser"] = draw(st.sampled_from(ids(name)))
        supply = draw(st.sampled_from(["", "supply", "day"]))
    else:
        question["advertiser"] = draw(st.sampled_from(["", "nobody", "O'Hara", 'a\n"b"']))
        supply = "supply"
        if draw(st.booleans()):
            del question["advertiser"]
            question["text"] = ""
    if draw(st.booleans()):
        question["text"] = draw(words)
    if supply == "supply":
        question["supply"] = draw(st.floats(0, 1e15) | st.sampled_from([0, 1, 10**15]))
    elif supply == "day":
        question["day"] = str(draw(st.dates(date(2026, 1, 1), date(2026, 12, 31))))
    question |= draw(st.fixed_dictionaries({}, optional={"days": number_of_days, "level": levels}))
    question["bid"] = draw(bids | st.lists(bids, min_size=1, max_size=5))
    return question


def as_forecasts(answer):
    """What a client makes of an answer: forecasts as the Python interface gives them."""
    shared = {name: answer[name] for name in ("advertiser", "segment", "curve", "supply", "level")}
    found = []
    for forecast in answer["forecasts"]:
        told = shared | forecast | {"why": answer["why"] + forecast.get("remark", "")}
        told.pop("remark", None)
        found.append({k: tuple(v) if isinstance(v, list) else v for k, v in told.items()})
    return found


def answered(model, read, limits=LIMITS, **how):
    """The answers to questions, as a client parses them."""
    written = answers_to(model, read, rows_of(model, read), limits, **how)
    return orjson.loads(b"[" + written + b"]")


def expected(model, question):
    """The forecasts of the Python interface."""
    asked = {name: value for name, value in question.items() if name not in {"advertiser", "bid"}}
    found = model.forecast(question.get("advertiser"), question["bid"], **asked)
    return [one.as_dict() for one in (found if isinstance(found, list) else [found])]


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=25)
@given(st.data())
def test_answers_are_forecasts(name, data):
    """Every answer of a batch has the figures and the words of AdForecaster.forecast."""
    model = served(name)
    asked = data.draw(st.lists(questions(name), min_size=1, max_size=6))
    read = read_questions(asked, Limits())
    for question, answer in zip(asked, answered(model, read), strict=True):
        assert as_forecasts(answer) == expected(model.model, question)
        assert answer["known"] == (question.get("advertiser") in ids(name))
        assert answer["days"] == question.get("days", 1)
        assert answer["level"] == question.get("level", 0.9)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=20)
@given(st.data())
def test_the_quick_way_is_the_same(name, data):
    """One bid of a known advertiser gets the answer that it gets among others."""
    model = served(name)
    asked = {"advertiser": data.draw(st.sampled_from(ids(name))), "bid": data.draw(bids)}
    optional = {"days": number_of_days, "level": levels, "day": st.just("2026-03-09")}
    asked |= data.draw(st.fixed_dictionaries({}, optional=optional))
    [question] = read = read_questions(asked, Limits())
    rows = rows_of(model, read)
    quick = answer_to_one(model, question, rows[0])
    assert quick == answers_to(model, read, rows, Limits())
    assert as_forecasts(orjson.loads(quick)) == expected(model.model, asked)


def test_several_days_and_levels():
    """Days add up, a higher level is wider, and a given supply is that of all days together."""
    one, week = (
        service().forecast({"advertiser": ids("small_model")[3], "bid": 2, "days": days}).json
        for days in (1, 7)
    )
    assert (one["days"], week["days"]) == (1, 7)
    assert week["supply"] == pytest.approx(7 * one["supply"], rel=0.1)
    assert "the 7 days after the log" in week["why"]
    wide, narrow = (
        service().forecast({"advertiser": ids("small_model")[3], "bid": 2, "level": level}).json
        for level in (0.95, 0.5)
    )
    for name in ("impressions_interval", "spend_interval"):
        (low, high), (least, most) = (a["forecasts"][0][name] for a in (narrow, wide))
        assert least < low < high < most
    given = {"advertiser": ids("small_model")[3], "bid": 2, "days": 7, "supply": 500}
    assert service().forecast(given).json["supply"] == 500.0


def test_logs_without_clicks_and_conversions():
    """What the log has none of is null, and so is its interval."""
    model = copy.copy(served().model)
    model.click_rate_ = model.click_worth_ = None
    model.conversion_rate_ = model.conversion_worth_ = None
    without = ServedModel(model, "0", "market.coterie")
    asked = [{"advertiser": ids("small_model")[0], "bid": 2}, {"text": "", "bid": 2, "supply": 1}]
    for answer in answered(without, read_questions(asked, LIMITS)):
        [found] = answer["forecasts"]
        for name in ("clicks", "conversions"):
            assert found[name] is None and found[f"{name}_interval"] is None


def test_much_work_has_pauses():
    """Many bids on many days are forecast in parts, and days that are not known are made before."""
    model = ServedModel(served().model, "0", "market.coterie")
    names = ids("small_model")
    asked = [{"advertiser": names[i], "bid": [1.0, 2.0, 3.0], "days": 2 + i} for i in range(9)]
    asked += [{"text": "tour", "bid": [1.0, 2.0, 3.0], "days": 30, "supply": 9}]
    read = read_questions(asked, LIMITS)
    for some in (read, read[:9]):
        assert not all(model.has_period(*one) for one in periods_of(some)) or some is not read
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(answers, "_ITEMS_IN_A_TURN", 10)
            *pauses, last = answers_in_turns(model, some, rows_of(model, some), LIMITS)
        assert all(model.has_period(*one) for one in periods_of(some))
        assert len(pauses) > 9 and set(pauses) == {b""}
        assert last == answers_to(model, some, rows_of(model, some), LIMITS)


def test_a_day_is_looked_into_once(monkeypatch):
    """However many questions are about a day, what is expected of it is made once."""
    model = ServedModel(served().model, "0", "market.coterie")
    made = []
    of_days = model.tables.days
    monkeypatch.setattr(model.tables, "days", lambda *day: made.append(day) or of_days(*day))
    days = [str(date(2026, 4, 1) + timedelta(days=i % 3)) for i in range(60)]
    asked = [{"advertiser": ids("small_model")[0], "bid": 2, "day": day} for day in days]
    answered(model, read_questions(asked, LIMITS))
    answered(model, read_questions(asked, LIMITS))
    assert len([day for day in made if day]) == 3


def test_a_remark_stands_with_the_bids_it_goes_for():
    """Only bids above every bid in the log have one, and it is no more than what is added."""
    highest = served().highest
    asked = {"advertiser": ids("small_model")[3], "bid": [highest, highest * 2]}
    low, high = service().forecast(asked).json["forecasts"]
    assert "remark" not in low
    assert f"{highest:g} {served().model.currency_}" in high["remark"]


@pytest.mark.parametrize("name", ["\U0010ffff" * 1024, '"' * 1024])
def test_no_answer_is_out_of_proportion(name):
    """A long and odd id at as many bids as may be asked for is repeated for none of them."""
    asked = {"advertiser": name, "bid": [1e9] * 10_000, "supply": 1e15}
    reply = service().forecast(asked)
    assert reply.status == 200 and len(reply.json["forecasts"]) == 10_000
    plain = service().forecast({**asked, "advertiser": "a"})
    assert len(reply.body) < len(plain.body) + 20 * 1024
    assert len(plain.body) < 800 * 10_000


def test_ids_that_are_long_are_cut_in_faults():
    """What is wrong with the supply of somebody with a long id is said in a short sentence."""
    asked = {"advertiser": "x" * 1024, "bid": 1}
    [(_, what)] = service().forecast(asked).faults
    assert len(what) < 250 and "x…' is not in the log" in what


@settings(max_examples=15)
@given(st.lists(words, min_size=1, max_size=40), st.integers(1, 5), st.integers(1, 40))
def test_texts_are_placed_together_as_alone(texts, together, characters):
    """How many texts are placed at a time changes no bit of any answer."""
    model = ServedModel(served().model, "0", "market.coterie")
    asked = [{"text": f"{t} {i % 3}", "bid": 2, "supply": 9} for i, t in enumerate(texts)]
    read = read_questions(asked, LIMITS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "_TEXTS_IN_A_TURN", together)
        patch.setattr(answers, "_CHARS_IN_A_TURN", characters)
        found = answered(model, read)
    assert [as_forecasts(one) for one in found] == [expected(model.model, one) for one in asked]


def test_supply_that_is_neither_known_nor_given_is_a_fault():
    """The fault names the question, and says what to give."""
    good = {"advertiser": ids("small_model")[0], "bid": 1}
    asked = [good, {"text": "tour", "bid": 1}, good, {"advertiser": "nobody", "bid": 1}]
    faults = service().forecast(asked).faults
    assert [at for at, _ in faults] == ["[1].supply", "[3].supply"]
    assert "give supply" in faults[0][1]
    assert service().forecast(asked[1]).faults[0][0] == "supply"


def test_texts_are_bounded():
    """More texts than can be placed in good time are refused before any is."""
    most = Limits().texts
    asked = [{"text": f"tour {i}", "bid": 1, "supply": 1} for i in range(most + 1)]
    assert f"{most + 1} texts" in service().forecast(asked).faults[0][1]


def test_characters_of_texts_are_bounded():
    """Texts that are too long in all are refused before any is placed; known advertisers' not."""
    limits = Limits(all_text_chars=100)
    asked = [{"text": f"{i}" * 11, "bid": 1, "supply": 1} for i in range(10)]
    with pytest.raises(Problem, match="110 characters in all, and may have 100"):
        answered(served(), read_questions(asked, limits), limits)
    assert len(answered(served(), read_questions(asked[:9], limits), limits)) == 9
    known = [one | {"advertiser": ids("small_model")[0]} for one in asked]
    assert len(answered(served(), read_questions(known, limits), limits)) == 10


def test_texts_are_placed_by_turns():
    """Between the turns nothing is given; the answers come with the last."""
    model = ServedModel(served().model, "0", "market.coterie")
    asked = [{"text": f"hotel {i}", "bid": 1, "supply": 1} for i in range(40)]
    read = read_questions(asked, LIMITS)
    *pauses, last = answers_in_turns(model, read, rows_of(model, read), LIMITS)
    assert pauses == [b""] * 3
    assert last == answers_to(model, read, rows_of(model, read), LIMITS)
