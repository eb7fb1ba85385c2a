"""Problems, as an exception and as JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ads.protocol import Limits
from coterie.ads.service.problems import (
    SECURITY_HEADERS,
    Problem,
    problem_body,
    rendered_problem,
)
from coterie.errors import InvalidParameterError

TEXTS = st.text(st.characters(codec=None))


@given(TEXTS, TEXTS, st.none() | st.lists(st.dictionaries(st.sampled_from(["at", "what"]), TEXTS)))
def test_any_text_is_valid_json(title, detail, errors):
    """Whatever a client wrote and a problem quotes, lone surrogates too, the JSON says the same."""
    told = json.loads(problem_body(Problem(422, title, detail, errors=errors), "r-1"))
    assert told.pop("errors", None) == errors
    assert told == {
        "type": "about:blank",
        "title": title,
        "status": 422,
        "detail": detail,
        "request_id": "r-1",
    }


def test_problem_keeps_its_own_copies():
    """What is done to the headers and errors later does not change a problem."""
    headers, errors = {"Retry-After": "1"}, [{"at": "[0]", "what": "odd"}]
    problem = Problem(503, "t", "d", headers=headers, errors=errors)
    headers.clear()
    errors[0].clear()
    assert problem.headers == {"Retry-After": "1"}
    assert problem.errors == [{"at": "[0]", "what": "odd"}]


def test_rendered_problem_is_a_whole_answer():
    """What is sent below the application has a status line, all headers, and its length."""
    problem = Problem(503, "Service Unavailable", "full", headers={"Retry-After": "5"})
    head, body = rendered_problem(problem, "r-1").split(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    headers = dict(line.split(b": ", 1) for line in lines)
    assert first == b"HTTP/1.1 503 Service Unavailable"
    assert int(headers[b"content-length"]) == len(body)
    assert headers[b"retry-after"] == b"5"
    assert headers[b"connection"] == b"close"
    assert headers[b"x-request-id"] == b"r-1"
    assert set(SECURITY_HEADERS) <= set(headers.items())
    assert body == problem_body(problem, "r-1")


@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_limits_are_above_zero(value):
    """A limit that would let nothing through is refused, by its name."""
    with pytest.raises(InvalidParameterError, match="request_seconds"):
        Limits(request_seconds=value)
