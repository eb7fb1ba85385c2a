"""Bodies: read whole, within limits, or not at all."""

from __future__ import annotations

import asyncio

import pytest
from gate_calls import CHUNKED, DISCONNECT, HOST, Asked, echo, never, part
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(deadline=None)
@given(st.lists(st.binary(max_size=50), max_size=8))
def test_application_sees_the_whole_body_at_once(parts):
    """However a body arrives, the application gets it in one piece."""
    messages = [part(piece, more=True) for piece in parts] + [part(b"")]
    answer = Asked(echo)(method="POST", headers=[HOST, CHUNKED], messages=messages)
    assert answer.body == b"".join(parts)


def test_declared_size_over_the_limit_is_refused_unread():
    """A body that says it is too large is refused before any of it is read."""
    asked = Asked(never, body_bytes=10)

    async def scenario():
        heard = []

        async def receive():
            heard.append(len(sent))
            return part(b"x" * 11)

        sent = []

        async def send(message):
            sent.append(message)

        headers = [HOST, (b"content-length", b"11")]
        scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
        await asked.gate(scope, receive, send)
        return heard, sent

    heard, sent = asyncio.run(scenario())
    assert sent[0]["status"] == 413
    assert (b"connection", b"close") in sent[0]["headers"]
    # the whole problem went out before the first look at the body, which was then thrown away
    assert heard == [2]
    assert int(dict(sent[0]["headers"])[b"content-length"]) == len(sent[1]["body"])
    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


@pytest.mark.parametrize("sizes", [[11], [5, 6], [10, 1], [1] * 11])
def test_chunked_body_over_the_limit_is_refused(sizes):
    """A body that does not say its size is counted as it comes."""
    messages = [part(b"x" * size, more=True) for size in sizes] + [part(b"")]
    answer = Asked(never, body_bytes=10)(method="POST", headers=[HOST, CHUNKED], messages=messages)
    assert answer.problem["status"] == 413
    assert answer.headers["connection"] == "close"
    assert answer.complete


def test_body_at_the_limit_passes():
    """The limit itself is allowed, declared or not."""
    body = [part(b"x" * 10)]
    for framing in (CHUNKED, (b"content-length", b"10")):
        answer = Asked(echo, body_bytes=10)(headers=[HOST, framing], messages=body)
        assert answer.body == b"x" * 10


def test_bodies_that_arrive_together_are_limited_together():
    """Where unfinished bodies hold too much memory, the next part of one is refused with 503."""

    async def scenario():
        asked = Asked(never, buffered_bytes=10, body_seconds=60.0)
        first = asyncio.create_task(
            asked.ask(headers=[HOST, CHUNKED], messages=[part(b"x" * 8, more=True)])
        )
        await asyncio.sleep(0)
        second = await asked.ask(
            headers=[HOST, CHUNKED], messages=[part(b"x" * 8, more=True), part(b"")]
        )
        first.cancel()
        await first
        third = await asked.ask(
            headers=[HOST, CHUNKED], messages=[part(b"x" * 8, more=True), DISCONNECT]
        )
        return second, third

    second, third = asyncio.run(scenario())
    assert second.problem["status"] == 503
    assert "retry-after" in second.headers
    assert third.messages == []


def test_slow_body_is_given_up():
    """A body that does not come within its time is answered with 408."""
    answer = Asked(never, body_seconds=0.05)(
        method="POST",
        headers=[HOST, (b"content-length", b"10")],
        messages=[part(b"half", more=True)],
    )
    assert answer.problem["status"] == 408
    assert answer.headers["connection"] == "close"
    assert answer.complete


def test_client_that_goes_away_is_not_answered():
    """A half-sent request reaches no application; it is counted as 499."""
    asked = Asked(never)
    answer = asked(headers=[HOST, CHUNKED], messages=[part(b"half", more=True), DISCONNECT])
    assert answer.messages == []
    assert 'status="499"' in asked.counted
