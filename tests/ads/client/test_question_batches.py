"""Questions packed into requests."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.client import question_batches
from coterie.ads.client.question_batches import batches_of
from coterie.ads.protocol import Limits
from coterie.errors import InvalidParameterError

BIDS = st.floats(min_value=1e-6, max_value=1e9)
QUESTIONS = st.lists(
    st.fixed_dictionaries(
        {"bid": BIDS | st.lists(BIDS, min_size=1, max_size=12)},
        optional={
            "advertiser": st.text(st.characters(exclude_categories=["Cs"])),
            "text": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
            "supply": st.none() | st.floats(min_value=0, max_value=1e15),
            "days": st.none() | st.integers(2, 366),
            "level": st.none() | st.sampled_from([0.5, 0.8, 0.95]),
        },
    ),
    max_size=30,
)


def questions_in(batch):
    """The questions of a request, as the service reads them."""
    body = json.loads(batch.body)
    return body if isinstance(body, list) else [body]


@settings(max_examples=50)
@given(QUESTIONS)
def test_all_questions_arrive_in_order_and_no_request_is_too_large(questions):
    """The pieces put together are the questions; each request is within every limit."""
    limits = Limits(questions=4, bids=7, body_bytes=500)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(question_batches, "_LIMITS", limits)
        patch.setattr(question_batches, "_MOST_TEXTS", 3)
        batches = list(batches_of(questions))
    arrived: dict[int, dict[str, Any]] = {}
    for batch in batches:
        sent = questions_in(batch)
        assert 1 <= len(sent) == len(batch.pieces) <= limits.questions
        assert sum(len(one["bid"]) for one in sent) <= limits.bids
        assert sum("text" in one for one in sent) <= 3
        assert len(batch.body) <= limits.body_bytes or len(sent) == 1
        for piece, one in zip(batch.pieces, sent, strict=True):
            bids = one.pop("bid")
            known = arrived.setdefault(piece.question, {**one, "bid": []})
            assert piece.first_bid == len(known["bid"])
            known["bid"] += bids
    assert [arrived[number] for number in sorted(arrived)] == [
        {name: value for name, value in question.items() if value is not None}
        | {"bid": np.atleast_1d(question["bid"]).tolist()}
        for question in questions
    ]
    assert sum(piece.last for batch in batches for piece in batch.pieces) == len(questions)


def test_numbers_may_be_those_of_numpy_and_days_dates():
    """Ids that are numbers in the log become text, as everywhere."""
    questions = [
        {"advertiser": 7, "bid": np.float32(2.5), "day": date(2026, 3, 9)},
        {"advertiser": "a", "bid": np.array([1, 2]), "supply": np.int64(5)},
        {"advertiser": "a", "bid": {"from": np.float64(1), "to": np.int32(2), "step": 0.5}},
    ]
    (batch,) = batches_of(questions)
    assert questions_in(batch) == [
        {"advertiser": "7", "bid": [2.5], "day": "2026-03-09"},
        {"advertiser": "a", "bid": [1.0, 2.0], "supply": 5.0},
        {"advertiser": "a", "bid": {"from": 1.0, "to": 2, "step": 0.5}},
    ]
    assert batch.bids == 1 + 2 + 3


def test_what_is_usual_is_not_sent():
    """One day, and the level that intervals have if none is asked for."""
    questions = [
        {"advertiser": "a", "bid": 1, "days": 1, "level": 0.9},
        {"advertiser": "a", "bid": 1, "days": np.int64(7), "level": np.float64(0.5)},
    ]
    (batch,) = batches_of(questions)
    assert questions_in(batch) == [
        {"advertiser": "a", "bid": [1.0]},
        {"advertiser": "a", "bid": [1.0], "days": 7, "level": 0.5},
    ]


def test_texts_of_a_request_are_bounded_in_all():
    """Long texts go in as many requests as the service wants, each of them whole."""
    most = Limits()
    number = 3 * most.all_text_chars // most.text_chars
    text = "a" * most.text_chars
    batches = list(batches_of({"text": text, "bid": 1, "supply": 1} for _ in range(number)))
    assert [len(batch.pieces) for batch in batches] == [number // 3] * 3


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"advertiser": "a"}, r"^\[1\]\.bid: it is missing"),
        ({"advertiser": "a", "bid": -1}, r"^\[1\]\.bid=-1: bids must be numbers above 0"),
        ({"advertiser": "a", "bid": []}, r"^\[1\]\.bid=\[\]"),
        ({"advertiser": "a", "bid": [1, float("nan")]}, r"^\[1\]\.bid="),
        (
            {"advertiser": "a", "bid": 1, "supply": 3, "day": "2026-03-09"},
            r"^\[1\]\.day: give supply or day, not both",
        ),
        ({"advertiser": "a", "bid": 1, "supply": "many"}, r"^\[1\]\.supply='many'"),
        ({"advertiser": "a", "bids": 1}, r"^\[1\]\.bids: there is no member of this name"),
        ({"advertiser": "\ud800", "bid": 1}, r"^\[1\] cannot be written as JSON"),
        ({"advertiser": "a", "bid": {"from": float("inf")}}, r"^\[1\] cannot be written"),
        ("adv-7", r"^\[1\]: a question is a dict"),
    ],
)
def test_what_cannot_be_asked_is_told_with_its_place(question, message):
    """Nothing is sent of a question that no service could answer."""
    with pytest.raises(InvalidParameterError, match=message):
        list(batches_of([{"advertiser": "a", "bid": 1}, question]))


def test_of_a_single_question_no_number_is_told():
    """Whoever asked one question need not count."""
    with pytest.raises(InvalidParameterError, match=r"^bid=0"):
        list(batches_of([{"advertiser": "a", "bid": 0}], many=False))
    (batch,) = batches_of([{"advertiser": "a", "bid": 1}], many=False)
    assert batch.placed("supply") == "supply"
    assert batch.placed("bid[0]") == "bid[0]"


def test_places_of_faults_are_those_of_the_questions_as_given(monkeypatch):
    """Requests and pieces are the client's own affair: questions and bids keep their numbers."""
    monkeypatch.setattr(question_batches, "_LIMITS", Limits(questions=2, bids=3))
    questions = [{"advertiser": str(number), "bid": [1, 2]} for number in range(3)]
    questions.append({"advertiser": "long", "bid": [1, 2, 3, 4, 5]})
    batches = list(batches_of(questions))
    assert [[p.question for p in batch.pieces] for batch in batches] == [[0], [1], [2], [3], [3]]
    assert batches[2].placed("bid[1]") == "[2].bid[1]"
    assert batches[4].placed("bid[0]") == "[3].bid[3]"
    assert batches[4].placed("day") == "[3].day"
    monkeypatch.setattr(question_batches, "_LIMITS", Limits(questions=2, bids=4))
    first, second = batches_of(questions[:3])
    assert first.placed("[1].bid.to") == "[1].bid.to"
    assert first.placed("") == ""
    assert first.placed("[9].bid") == "[9].bid"
    assert second.placed("") == "[2]"


@given(st.text())
def test_no_place_a_service_may_name_breaks_the_client(place):
    """Whatever a service calls a place, some place is told."""
    (batch,) = batches_of([{"advertiser": "a", "bid": 1}, {"advertiser": "b", "bid": 2}])
    assert isinstance(batch.placed(place), str)
