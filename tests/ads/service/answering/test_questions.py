"""Questions are read strictly, quickly where they are right, and thoroughly where not."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.forecasts.forecast_figures import bids_between
from coterie.ads.protocol import Limits
from coterie.ads.service.answering import questions
from coterie.ads.service.answering.questions import (
    MOST_BID,
    MOST_FAULTS,
    MOST_SUPPLY,
    faults_in,
    read_questions,
)
from coterie.ads.service.problems import Problem
from coterie.command_line.ads.forecast import bids_in

LIMITS = Limits(questions=5, bids=40, text_chars=30, id_chars=10)

good_bids = st.floats(0, MOST_BID, exclude_min=True) | st.integers(1, int(MOST_BID))
letters = st.characters(codec="utf-8", exclude_characters="\0")
good_members = {
    "advertiser": st.text(letters, max_size=10),
    "text": st.text(letters, max_size=30),
    "bid": good_bids
    | st.lists(good_bids, min_size=1, max_size=6)
    | st.fixed_dictionaries(
        {"from": st.floats(0.1, 3), "to": st.floats(3, 5), "step": st.floats(1, 1e12)}
    ),
    "supply": st.floats(0, MOST_SUPPLY) | st.integers(0, int(MOST_SUPPLY)),
    "day": st.dates().map(str),
    "days": st.integers(1, 366),
    "level": st.sampled_from([0.5, 0.8, 0.9, 0.95]),
}
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.sampled_from(["2026-03-09", "2026-02-30", "2.50", "\0", -1, 0, 1e10, 10**40]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["from", "to", "step", "x"]), inner, max_size=4)
    ),
    max_leaves=6,
)


@st.composite
def good_questions(draw):
    """A question that has nothing wrong with it."""
    named = draw(st.sampled_from([("advertiser",), ("text",), ("advertiser", "text")]))
    more = draw(st.sampled_from([(), ("supply",), ("day",)]))
    more += draw(st.sampled_from([(), ("days",), ("level",), ("days", "level")]))
    return {name: draw(good_members[name]) for name in (*named, "bid", *more)}


@st.composite
def odd_questions(draw):
    """A question of which any member may be odd, missing or too many."""
    question = draw(good_questions())
    for name in draw(st.lists(st.sampled_from([*good_members, "bids"]), max_size=2)):
        if draw(st.booleans()):
            question[name] = draw(anything)
        else:
            question.pop(name, None)
    return question


def faults(body, limits=LIMITS):
    """Places and words of what is wrong with a body."""
    with pytest.raises(Problem) as caught:
        read_questions(body, limits)
    assert caught.value.status == 422
    return [(fault["at"], fault["what"]) for fault in caught.value.errors]


class TestRightQuestions:
    @given(good_questions())
    def test_keep_what_they_say(self, asked):
        """What is asked for arrives as it was written, bids and supply as floats."""
        [question] = read_questions(asked, LIMITS)
        assert question.advertiser == asked.get("advertiser")
        assert question.text == asked.get("text")
        assert question.supply == asked.get("supply")
        assert (None if question.day is None else str(question.day)) == asked.get("day")
        assert (question.days, question.level) == (asked.get("days", 1), asked.get("level", 0.9))
        if isinstance(asked["bid"], list):
            assert question.bids == asked["bid"]
        elif isinstance(asked["bid"], dict):
            assert question.bids[0] == float(f"{asked['bid']['from']:.12g}")
        else:
            assert question.bids == [asked["bid"]]
        assert all(type(bid) is float for bid in question.bids)

    @pytest.mark.parametrize("supply", [-0.0, 0, 0.0])
    def test_a_supply_of_nothing_has_no_sign(self, supply):
        """What comes of no auctions is 0, never −0."""
        [question] = read_questions({"advertiser": "a", "bid": 1, "supply": supply}, LIMITS)
        assert math.copysign(1, question.supply) == 1

    @given(st.lists(good_questions(), min_size=1, max_size=5))
    def test_in_a_list_are_read_one_by_one(self, asked):
        """A list gives the questions that its items give, in their order."""
        alone = [read_questions(one, LIMITS)[0] for one in asked]
        assert read_questions(asked, LIMITS) == alone

    @given(st.floats(0.01, 50), st.floats(0, 20), st.floats(0.05, 10))
    def test_ranges_are_those_of_the_program(self, start, width, step):
        """A range means the bids that --bid from:to:step means."""
        stop = start + width
        asked = {"advertiser": "a", "bid": {"from": start, "to": stop, "step": step}}
        assert read_questions(asked, Limits())[0].bids == bids_in(f"{start!r}:{stop!r}:{step!r}")


class TestWrongQuestions:
    @given(odd_questions() | anything | st.lists(odd_questions(), max_size=7))
    @settings(max_examples=120)
    def test_the_quick_and_the_thorough_reading_agree(self, body):
        """A body is read exactly where the thorough reading finds no fault; there are few."""
        found = faults_in(body, LIMITS)
        assert len(found) <= MOST_FAULTS
        json.dumps(found)
        if found:
            assert faults(body) == found
        else:
            assert read_questions(body, LIMITS)

    @pytest.mark.parametrize(
        ("bid", "at", "words"),
        [
            (0, "bid", "above 0"),
            (-1.5, "bid", "above 0"),
            ("2.50", "bid", "not a text"),
            (True, "bid", "not true or false"),
            (None, "bid", "not null"),
            (2e9, "bid", "at most 1e+09"),
            ([], "bid", "no bid"),
            ([1, "2"], "bid[1]", "a number, not a text"),
            ([1, False], "bid[1]", "not true or false"),
            ([1.0] * 41, "bid", "41 bids"),
            ({"from": 1, "to": 2}, "bid.step", "missing"),
            ({"from": 2, "to": 1, "step": 1}, "bid.to", "below from"),
            ({"from": 1, "to": 2, "step": 0}, "bid.step", "above 0"),
            ({"from": 1, "to": 2, "step": 1e-300}, "bid.step", "too small"),
            ({"from": 1, "to": 2, "step": 1, "by": 1}, "bid.by", "no member"),
            ({"from": 1, "to": 10**30, "step": 1}, "bid.to", "at most"),
        ],
    )
    def test_bids_that_are_none(self, bid, at, words):
        """What is no bid is refused, with its place and what it should be."""
        [(place, what)] = faults({"advertiser": "a", "bid": bid})
        assert place == at
        assert words in what

    @pytest.mark.parametrize(
        ("more", "at", "words"),
        [
            ({"supply": "1000"}, "supply", "not a text"),
            ({"supply": -1}, "supply", "from 0"),
            ({"supply": 2e15}, "supply", "1e+15"),
            ({"supply": None}, "supply", "not null"),
            ({"day": "9 March"}, "day", "2026-03-09"),
            ({"day": "2026-02-30"}, "day", "2026-03-09"),
            ({"day": "20260309"}, "day", "2026-03-09"),
            ({"day": "٢٠٢٦-٠٣-٠٩"}, "day", "2026-03-09"),
            ({"day": 20260309}, "day", "2026-03-09"),
            ({"day": "2026-03-09", "supply": 1}, "day", "not both"),
            ({"day": "2026-03-09", "supply": 1, "days": 7}, "day", "not both"),
            *[({"days": n}, "days", "from 1 to 366") for n in (0, -1, 367, 7.0, "7", True, None)],
            *[({"level": x}, "level", "0.5, 0.8, 0.9, 0.95") for x in (0.85, 1, 90, "0.9", None)],
            ({"advertiser": 42}, "advertiser", "a text, not a number"),
            ({"advertiser": "a" * 11}, "advertiser", "11 characters"),
            ({"text": "a\0b"}, "text", "NUL"),
            ({"text": "x" * 31}, "text", "31 characters"),
            ({"bidd": 1}, "bidd", "no member"),
        ],
    )
    def test_members_that_are_wrong(self, more, at, words):
        """Every member is checked, and the fault names it."""
        [(place, what)] = faults({"advertiser": "a", "bid": 1, **more})
        assert place == at
        assert words in what

    def test_places_in_a_list_have_the_number_of_the_question(self):
        """A fault of the fourth question is told as such."""
        good = {"advertiser": "a", "bid": 1}
        bad = {"advertiser": "a", "bid": {"from": 1, "to": 0, "step": 1}}
        assert [at for at, _ in faults([good, good, good, bad])] == ["[3].bid.to"]
        assert faults([good, 7]) == [("[1]", "a question must be an object, not a number")]

    def test_nobody_is_asked_about(self):
        """A question without an advertiser and without a text is none."""
        assert faults({"bid": 1}) == [("", "name an advertiser, or give the text of a new one")]

    def test_too_many_questions_or_bids_in_all(self):
        """The whole is bounded, not only each question."""
        assert "6 questions" in faults([{"advertiser": "a", "bid": 1}] * 6)[0][1]
        assert "45 bids in all" in faults([{"advertiser": "a", "bid": [1.0] * 15}] * 3)[0][1]
        assert "no question" in faults([])[0][1]

    @pytest.mark.parametrize("number", [2, 3, 500])
    def test_ranges_are_counted_not_made(self, monkeypatch, number):
        """No more bids are made of ranges than a request may have, in all questions together."""
        made = []

        def counted(*asked):
            found = bids_between(*asked)
            made.append(len(found))
            return found

        monkeypatch.setattr(questions, "bids_between", counted)
        limits = Limits()
        most = {"from": 1, "to": limits.bids, "step": 1}
        told = faults([{"advertiser": "a", "bid": most}] * number, limits)
        assert told == [
            (
                "",
                f"there are {number * limits.bids:,} bids in all; ask for at most 10,000 at a time",
            )
        ]
        assert sum(made) <= limits.bids

    def test_a_fault_after_too_many_bids_is_not_looked_for(self):
        """Where there are too many bids that is all that is told."""
        good = {"advertiser": "a", "bid": [1.0] * 25}
        assert len(faults([good, good, {"advertiser": "a", "bid": "x"}])) == 1

    @pytest.mark.parametrize(("number", "told"), [(2, "and 1 more"), (45, "and at least 19 more")])
    def test_the_number_of_faults_is_true(self, number, told):
        """Where not all faults are told, nobody claims to have counted them."""
        with pytest.raises(Problem) as caught:
            read_questions({"advertiser": "a", "bid": [0] * number}, Limits())
        assert told in str(caught.value)
        assert len(caught.value.errors) == min(number, MOST_FAULTS)

    @pytest.mark.parametrize("body", [None, 3, "question", True, 1.5])
    def test_what_is_no_question_at_all(self, body):
        """A body that is neither an object nor a list is refused as a whole."""
        assert faults(body)[0][0] == ""

    @pytest.mark.parametrize("bid", [math.nan, math.inf, -math.inf])
    def test_no_reading_lets_through_what_is_no_number(self, bid):
        """Though JSON has no NaN and no infinity, the reader would refuse them too."""
        assert faults({"advertiser": "a", "bid": bid})
        assert faults({"advertiser": "a", "bid": 1, "supply": bid})
