"""Faults of questions: the place, what is expected, what came."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ads.protocol import (
    AdvertiserQuery,
    BudgetQuestion,
    CurveQuery,
    GoalQuestion,
    NoQuery,
    PortfolioQuestion,
    Question,
    TargetsQuestion,
)
from coterie.ads.protocol.faults import fault_of, printable

KINDS = (
    *(Question, Question | list[Question], list[Question], BudgetQuestion, GoalQuestion),
    *(PortfolioQuestion, TargetsQuestion, AdvertiserQuery, CurveQuery, NoQuery),
)
KNOWN = {"advertiser": "a", "bid": 1}


def fault(given, kind=Question, **how):
    """Return place and words of the fault in a value."""
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(given, kind, **how)
    found = fault_of(caught.value, kind, given)
    return found.at, found.what


@pytest.mark.parametrize(
    ("given", "at", "what"),
    [
        ({"bid": 0}, "bid", "it must be a number above 0 and up to 1,000,000,000, not 0"),
        (
            {"bid": "2"},
            "bid",
            'it must be a number, a list or an object with from, to and step, not "2"',
        ),
        ({"bid": []}, "bid", "it must be a list of 1 to 10,000 items, not a list of 0"),
        (
            {"bid": {"from": 1, "to": True, "step": 1}},
            "bid.to",
            "it must be a number above 0 and up to 1,000,000,000, not true",
        ),
        ({"days": 1.5}, "days", "it must be a whole number from 1 to 366, not 1.5"),
        ({"day": "soon"}, "day", 'it must be a date such as 2026-03-09, not "soon"'),
        (
            {"text": "x" * 10_001},
            "text",
            "it must be a text of up to 10,000 characters, not a text of 10,001 characters",
        ),
        (
            {"where": {"device": "phone", "country": 3}},
            "where.country",
            "it must be a text of up to 1,024 characters, not 3",
        ),
    ],
)
def test_fault_of_a_member(given, at, what):
    """The message has the path, the type with its limits, and the value as JSON."""
    assert fault({**KNOWN, **given}) == (at, what)


def test_missing_and_unknown_members():
    """Both are places, and the message has what is expected."""
    at, what = fault({"advertiser": "a", "bid": {"from": 1, "to": 2}})
    assert (at, what) == ("bid.step", "it is missing; it must be a number above 0")
    at, what = fault({**KNOWN, "colour": "red"})
    assert at == "colour" and what.startswith("unknown name; known are bid, advertiser, ")
    assert fault({"x": "1"}, NoQuery) == ("x", "unknown name; none is known here")


@pytest.mark.parametrize(
    "name", [" - at `$.x", " - at `$.bid", " - at `$[3]", "` - at `$.where[...]"]
)
def test_name_that_looks_like_a_path(name):
    """An unknown member of any name gives a fault."""
    _, what = fault({**KNOWN, name: 1})
    assert what.startswith(("unknown name", "it must be"))


def test_own_rules_keep_their_words():
    """A rule on several members of a type keeps its own sentence."""
    at, what = fault([KNOWN, {"bid": 1}], list[Question])
    assert (at, what) == ("[1]", "name an `advertiser`, or give the `text` of a new one")


def test_own_rules_of_one_member_name_its_place():
    """A level that is not offered, and a step that is too small, are at their members."""
    assert fault({**KNOWN, "level": 95}) == (
        "level",
        "it must be one of 0.5, 0.8, 0.9, 0.95, not 95",
    )
    at, what = fault({"advertiser": "a", "bid": {"from": 1, "to": 2, "step": 1e-9}})
    assert (at, what) == ("bid.step", "it is too small: ask for at most 10,000 bids")


def test_query_parameters_are_texts():
    """A number in a query is described with its limits, although it came as a text."""
    found = fault({"page_size": "1000"}, AdvertiserQuery, strict=False)
    assert found == ("page_size", 'it must be a whole number from 1 to 100, not "1000"')
    found = fault({"format": "csv"}, CurveQuery, strict=False)
    assert found == ("format", 'it must be "arrow" or "parquet", not "csv"')


names = st.sampled_from(
    ["advertiser", "bid", "from", "to", "step", "where", "days", "day", "level", "segment", "by"]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(names | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(anything, st.sampled_from(KINDS), st.booleans())
def test_any_fault_is_described(value, kind, is_known):
    """Every fault has a sentence of ours, also if the value is not known."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        found = fault_of(error, kind, value if is_known else msgspec.UNSET)
        assert "Expected" not in found.what and "`$" not in found.what
        assert found.what.isprintable() and len(found.what) <= 300
        assert found.at.isprintable() and len(found.at) <= 300


@given(st.text(st.characters(exclude_categories=()), max_size=400), st.integers(1, 350))
def test_any_text_becomes_a_short_line(text, most):
    """It has no more characters than asked for; all can be printed and sent."""
    shown = printable(text, most)
    assert shown == text or not text.isprintable() or len(text) > most
    assert len(shown) <= most and shown.isprintable()
    assert json.loads(json.dumps(shown)) == shown
