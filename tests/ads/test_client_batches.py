"""Questions checked against the schema and packed into requests."""

from __future__ import annotations

from datetime import date

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads import client as module
from coterie.ads.client import _Batch, _batches_of
from coterie.ads.protocol import BidRange, Limits, Question
from coterie.errors import InvalidParameterError

BIDS = st.floats(min_value=1e-6, max_value=1e9)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
QUESTIONS = st.lists(
    st.fixed_dictionaries(
        {"bid": BIDS | st.lists(BIDS, min_size=1, max_size=12), "advertiser": WORDS},
        optional={
            "text": st.none() | WORDS,
            "supply": st.none() | st.floats(min_value=0, max_value=1e15),
            "days": st.none() | st.integers(1, 366),
            "level": st.none() | st.sampled_from([0.5, 0.8, 0.9, 0.95]),
        },
    ),
    max_size=30,
)


def sent(batch):
    """Return the questions of a request as the service reads them."""
    return msgspec.json.decode(batch.body, type=list[Question])


@settings(max_examples=50)
@given(QUESTIONS)
def test_all_questions_arrive_in_order_within_the_limits(questions):
    """Each request is within every limit, unless one question alone is not."""
    most = (4, 7, 3, 50, 500, 300, 40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MOST", most)
        batches = list(_batches_of(questions))
    arrived = []
    for batch in batches:
        asked = sent(batch)
        assert batch.first == len(arrived)
        used = [
            len(asked),
            sum(one.n_bids for one in asked),
            sum(bool(one.text) for one in asked),
            sum(len(one.text or "") for one in asked),
            sum(one.n_bids * one.days for one in asked),
            len(batch.body) - 2,
            batch.body.count(b",") + 1,
        ]
        assert len(asked) == 1 or all(one <= limit for one, limit in zip(used, most, strict=True))
        arrived += asked
    given_ones = [{k: v for k, v in one.items() if v is not None} for one in questions]
    assert arrived == [msgspec.convert(one, Question) for one in given_ones]


def test_few_requests_are_made():
    """A thousand plain questions go together."""
    plain = [{"advertiser": "a", "bid": 1}] * 2_500
    assert [len(batch.questions) for batch in _batches_of(plain)] == [1_000, 1_000, 500]
    assert list(_batches_of([])) == []


def test_the_service_accepts_the_largest_request():
    """The limits are those of the protocol."""
    most = Limits()
    text = "a" * most.text_chars
    long = [{"text": text, "bid": 1, "supply": 1}] * 45
    assert [len(batch.questions) for batch in _batches_of(long)] == [20, 20, 5]
    short = [{"text": str(i), "bid": 1, "supply": 1} for i in range(150)]
    assert [len(batch.questions) for batch in _batches_of(short)] == [99, 51]
    values = [{"advertiser": "a", "bid": 1, "where": {"device": "phone"}}] * 250
    assert [len(batch.questions) for batch in _batches_of(values)] == [199, 51]
    years = [{"advertiser": "a", "bid": [1, 2], "days": 366}] * 150
    assert [len(batch.questions) for batch in _batches_of(years)] == [136, 14]


@pytest.mark.parametrize(
    ("bid", "read"),
    [
        *((2, 2.0), (np.float32(2.5), 2.5), (np.int64(3), 3.0), (np.array(2.5), 2.5)),
        *(((1, 2), [1.0, 2.0]), (np.array([1, 2]), [1.0, 2.0]), ([np.float64(1)], [1.0])),
        ({"from": np.float64(1), "to": 2, "step": 0.5}, BidRange(1.0, 2.0, 0.5)),
        (BidRange(1.0, 2.0, 0.5), BidRange(1.0, 2.0, 0.5)),
    ],
)
def test_bids_may_be_any_numbers(bid, read):
    """Of Python or of NumPy; questions may be mappings or of the type of the protocol."""
    for question in ({"advertiser": "a", "bid": bid}, Question(advertiser="a", bid=bid)):
        (batch,) = _batches_of([question])
        assert sent(batch) == [Question(advertiser="a", bid=read)]


def test_ids_may_be_numbers_and_days_dates():
    """As AdForecaster takes them."""
    for day in ("2026-03-09", date(2026, 3, 9), np.datetime64("2026-03-09")):
        question = {"advertiser": 7, "bid": 1, "day": day, "days": np.int64(2), "level": 0.5}
        (batch,) = _batches_of([question])
        expected = Question(advertiser="7", bid=1.0, day=date(2026, 3, 9), days=2, level=0.5)
        assert sent(batch) == [expected]


GOOD = {"advertiser": "a", "bid": 1}


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"advertiser": "a"}, r"questions\[1\]\.bid: it is missing"),
        ({"bid": 1}, r"questions\[1\]: name an `advertiser`, or give the `text`"),
        ({**GOOD, "bids": 1}, r"questions\[1\]\.bids: unknown name"),
        *(
            ({**GOOD, "bid": bid}, r"questions\[1\]\.bid: ")
            for bid in [0, -1, "2", True, [], np.nan, np.inf, 2e9, np.ones(10_001)]
        ),
        ({**GOOD, "bid": [1, 0]}, r"questions\[1\]\.bid\[1\]: "),
        ({**GOOD, "bid": {"from": 2, "to": 1, "step": 1}}, r"questions\[1\]\.bid: `to` must not"),
        ({**GOOD, "supply": -1}, r"questions\[1\]\.supply: "),
        ({**GOOD, "supply": np.nan}, r"questions\[1\]\.supply: "),
        ({**GOOD, "day": "Monday"}, r"questions\[1\]\.day: "),
        ({**GOOD, "day": "2026-03-09", "supply": 1}, r"questions\[1\]: give the supply or the day"),
        *(({**GOOD, "days": days}, r"questions\[1\]\.days: ") for days in [0, 367, 2.0, True]),
        ({**GOOD, "level": 0.7}, r"questions\[1\]\.level: it must be one of .*, not 0\.7"),
        ({**GOOD, "text": "\ud800"}, r"questions\[1\]: half of a surrogate pair"),
        ({**GOOD, "x\x1b[2J": 1}, r"questions\[1\]\.x\\x1b\[2J: unknown name"),
        ({**GOOD, "bid": object()}, r"questions\[1\]: a object cannot be sent"),
        ("adv-7", r"questions\[1\]: "),
        (Question(advertiser="a", bid="x"), r"questions\[1\]\.bid: "),
    ],
)
def test_faults_are_found_before_anything_is_sent(question, message):
    """With the place in what the caller gave."""
    with pytest.raises(InvalidParameterError, match=message):
        list(_batches_of([GOOD, question]))


def test_a_single_question_has_no_number():
    """Neither in local faults nor in those of the service."""
    with pytest.raises(InvalidParameterError, match=r"^bid: "):
        list(_batches_of([{"advertiser": "a", "bid": 0}], many=False))
    (batch,) = _batches_of([GOOD], many=False)
    assert batch.body == b'{"bid":1.0,"advertiser":"a"}'
    assert batch.placed("supply") == "supply"


@given(st.text() | st.from_regex(r"\[\d+\].*"))
def test_no_place_breaks_the_client(place):
    """Whatever a service calls a place, some place is reported."""
    assert _Batch(first=1_000).placed("[1].bid") == "questions[1001].bid"
    assert isinstance(_Batch(first=1_000).placed(place), str)
