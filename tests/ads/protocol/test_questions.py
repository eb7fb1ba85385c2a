"""Questions are read strictly; answers say what a forecast says."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ads.forecasts.forecast_figures import MOST_SUPPLY
from coterie.ads.protocol import MOST_BID, Answer, Limits, Question, answer_of
from coterie.cli.ads.forecast import bids_in
from coterie.errors import InvalidParameterError
from fitted_models import small_model

bids = st.floats(0, MOST_BID, exclude_min=True)


def read(**members):
    """Return a question from its members, as from JSON."""
    return msgspec.json.decode(msgspec.json.encode(members), type=Question)


@given(
    st.fixed_dictionaries(
        {"advertiser": st.text(max_size=20), "bid": bids | st.lists(bids, min_size=1, max_size=4)},
        optional={
            "text": st.text(max_size=20),
            "days": st.integers(1, 366),
            "level": st.sampled_from([0.5, 0.8, 0.9, 0.95]),
        },
    ),
    st.fixed_dictionaries({}, optional={"supply": st.floats(0, MOST_SUPPLY)})
    | st.fixed_dictionaries({"day": st.dates().map(str)}),
)
def test_question_keeps_what_was_asked(asked, more):
    """A question that is written again has the members that were given; others are absent."""
    question = read(**asked, **more)
    again = msgspec.json.decode(msgspec.json.encode(question))
    assert {"days": 1, "level": 0.9} | again == {"days": 1, "level": 0.9} | asked | more
    assert question.bids() == (asked["bid"] if question.gives_list else [asked["bid"]])
    assert question.n_bids == len(question.bids())


@given(st.floats(0.01, 50), st.floats(0, 20), st.floats(0.05, 10))
def test_ranges_are_those_of_the_program(start, width, step):
    """A range has the bids of ``--bid from:to:step``, and their number is known beforehand."""
    question = read(advertiser="a", bid={"from": start, "to": start + width, "step": step})
    assert question.bids() == bids_in(f"{start!r}:{start + width!r}:{step!r}")
    assert question.n_bids == len(question.bids())
    assert question.gives_list


@pytest.mark.parametrize("bid", [2.5, [1, 2.5, 1e9]])
@pytest.mark.parametrize("days", [1, 7])
def test_answer_gives_its_forecasts_back(bid, days):
    """Forecasts become an answer, JSON and forecasts again, without loss."""
    model = small_model()
    found = model.forecast("adv-00023", bid, days=days)
    found = found if isinstance(found, list) else [found]
    answer = answer_of(found, known=True, days=days, version="0")
    again = msgspec.json.decode(msgspec.json.encode(answer), type=Answer)
    assert again.each() == found
    assert [one.model_version for one in again.each()] == ["0"] * len(found)


def test_answers_are_open():
    """A reader ignores members that a later version adds."""
    found = answer_of([small_model().forecast("adv-00023", 2.0)], known=True, days=1)
    later = msgspec.to_builtins(found) | {"colour": "red"}
    assert msgspec.json.decode(msgspec.json.encode(later), type=Answer) == found


@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_limits_exceed_zero(value):
    """A limit that lets nothing through is refused by its name."""
    with pytest.raises(InvalidParameterError, match="request_seconds"):
        Limits(request_seconds=value)
