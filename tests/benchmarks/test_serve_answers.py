"""Questions are ones the service takes; answers are checked against the model, figure by figure."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.serve_answers import (
    CheckedAnswers,
    batch_bodies,
    checked_answers,
    single_bodies,
)
from served_markets import small_market

FIGURES = ("win_rate", "cost", "impressions", "spend", "clicks", "conversions")
INTERVALS = ("impressions_interval", "spend_interval", "clicks_interval")


def answer_to(question: dict, **changes: object) -> dict:
    """What a service that is right says, but for what is changed in its forecast."""
    found = json.loads(json.dumps(small_market().forecast(**question).as_dict()))
    outer = {name: found[name] for name in ("advertiser", "segment", "curve", "why", "supply")}
    inner = {name: found[name] for name in ("bid", *FIGURES, *INTERVALS)}
    return outer | {"known": True, "forecasts": [inner | changes]}


def body_of(*answers: dict, version: str = "abc") -> bytes:
    """One answer as it is, several as a list."""
    model = {"model": {"version": version}, "currency": "USD"}
    told = model | (answers[0] if len(answers) == 1 else {"answers": list(answers)})
    return json.dumps(told).encode()


def check(body: bytes) -> CheckedAnswers:
    """Check a body against the small market."""
    return checked_answers([body], {"abc": small_market()})


def test_questions_name_known_advertisers_and_bids_of_the_grid():
    """Every question is about an advertiser of the model, at a bid in the range of its grid."""
    model = small_market()
    known, highest = set(model.advertisers_.tolist()), model.edges_[-1] / 1e6
    bodies = single_bodies(model, 200)
    for question in map(json.loads, bodies):
        assert question["advertiser"] in known
        assert 0 < question["bid"] <= highest + 0.005
        assert question["bid"] == round(question["bid"], 2)
    assert bodies == single_bodies(model, 200) != single_bodies(model, 200, seed=1)


def test_batches_are_the_same_questions_in_lists():
    """A batch holds as many questions as asked for, all different batches of one drawing."""
    batches = [json.loads(body) for body in batch_bodies(small_market(), 3, 7)]
    assert [len(batch) for batch in batches] == [7, 7, 7]
    singles = [json.loads(body) for body in single_bodies(small_market(), 21)]
    assert [question for batch in batches for question in batch] == singles


@given(st.lists(st.integers(0, 199), min_size=1, max_size=6))
@settings(max_examples=20, deadline=None)
def test_right_answers_pass(numbers):
    """What the model itself forecasts is never called wrong, alone or in a batch."""
    questions = [json.loads(body) for body in single_bodies(small_market(), 200)]
    answers = [answer_to(questions[number]) for number in numbers]
    assert check(body_of(*answers)) == CheckedAnswers(len(answers))


@pytest.mark.parametrize("name", [*FIGURES, *INTERVALS])
def test_any_wrong_figure_is_found(name):
    """A figure that is a little off, missing, or none at all, is told by its name."""
    question = json.loads(single_bodies(small_market(), 1)[0])
    right = answer_to(question)["forecasts"][0][name]
    off = [right[0], right[1] * 1.001] if isinstance(right, list) else right * 1.001
    for wrong in (off, None, "12", []):
        found = check(body_of(answer_to(question, **{name: wrong})))
        assert (found.forecasts, found.wrong) == (1, 1)
        assert name in found.faults[0]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"model": {}}',
        body_of({"forecasts": [{"bid": 1.0}]}),
        body_of({"advertiser": "adv-00000", "forecasts": [{}]}),
        body_of({"advertiser": "adv-00000"}),
    ],
)
def test_answers_that_say_too_little_are_wrong(body):
    """An answer that cannot be read or checked is a wrong one, not one passed over."""
    assert check(body).wrong == 1


def test_an_unknown_version_is_wrong():
    """An answer of a model that was never served is wrong, whatever it says."""
    question = json.loads(single_bodies(small_market(), 1)[0])
    found = check(body_of(answer_to(question), version="def"))
    assert found.wrong == 1
    assert "never served" in found.faults[0]


def test_faults_are_few_and_counts_are_whole():
    """Many wrong answers are all counted, and the first of them told."""
    question = json.loads(single_bodies(small_market(), 1)[0])
    found = checked_answers(
        [body_of(answer_to(question, spend=-1.0))] * 30, {"abc": small_market()}
    )
    assert (found.forecasts, found.wrong, len(found.faults)) == (30, 30, 5)
