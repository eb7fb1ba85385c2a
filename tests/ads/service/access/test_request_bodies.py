"""Bodies: read whole, within limits, or not at all."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ads.service.access.listening import Door
from gate_calls import CHUNKED, DISCONNECT, HOST, Asked, echo, never, part, respond
from local_server import in_loop

FORECAST = {"path": "/v1/forecast", "method": "POST"}
TOKEN = b"a-token-that-nobody-guesses"


@given(st.lists(st.binary(max_size=50), max_size=8))
def test_application_sees_the_whole_body_at_once(parts):
    """However a body arrives, the application gets it in one piece."""
    messages = [part(piece, more=True) for piece in parts] + [part(b"")]
    answer = Asked(echo)(**FORECAST, headers=[HOST, CHUNKED], messages=messages)
    assert answer.body == b"".join(parts)


@in_loop
async def test_declared_size_over_the_limit_is_refused_unread():
    """A body that says it is too large is refused before any of it is read."""
    asked = Asked(never, body_bytes=10)
    heard = []

    async def receive():
        heard.append(len(sent))
        return part(b"x" * 11)

    sent = []

    async def send(message):
        sent.append(message)

    headers = [HOST, (b"content-length", b"11")]
    scope = {"type": "http", "method": "POST", "path": "/v1/forecast", "headers": headers}
    await asked.gate(scope, receive, send)
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
    answer = Asked(never, body_bytes=10)(**FORECAST, headers=[HOST, CHUNKED], messages=messages)
    assert answer.problem["status"] == 413
    assert answer.headers["connection"] == "close"
    assert answer.complete


def test_body_at_the_limit_passes():
    """The limit itself is allowed, declared or not."""
    body = [part(b"x" * 10)]
    for framing in (CHUNKED, (b"content-length", b"10")):
        answer = Asked(echo, body_bytes=10)(**FORECAST, headers=[HOST, framing], messages=body)
        assert answer.body == b"x" * 10


@in_loop
async def test_bodies_that_arrive_together_are_limited_together():
    """Where unfinished bodies hold too much memory, the next part of one is refused with 503."""
    asked = Asked(never, buffered_bytes=10, body_seconds=60.0)
    first = asyncio.create_task(
        asked.ask(**FORECAST, headers=[HOST, CHUNKED], messages=[part(b"x" * 8, more=True)])
    )
    await asyncio.sleep(0)
    second = await asked.ask(
        **FORECAST, headers=[HOST, CHUNKED], messages=[part(b"x" * 8, more=True), part(b"")]
    )
    first.cancel()
    await first
    third = await asked.ask(
        **FORECAST, headers=[HOST, CHUNKED], messages=[part(b"x" * 8, more=True), DISCONNECT]
    )
    assert second.problem["status"] == 503
    assert "retry-after" in second.headers
    assert third.messages == []


def test_client_that_goes_away_is_not_answered():
    """A half-sent request reaches no application; it is counted as 499."""
    asked = Asked(never)
    answer = asked(
        **FORECAST, headers=[HOST, CHUNKED], messages=[part(b"half", more=True), DISCONNECT]
    )
    assert answer.messages == []
    assert 'status="499"' in asked.counted


@pytest.mark.parametrize(
    ("path", "method"),
    [("/", "POST"), ("/health", "POST"), ("/v1/model", "GET"), ("/v1/forecast", "PUT")],
)
@pytest.mark.parametrize("size", [b"5", b"999999999"])
def test_body_that_no_route_takes_is_not_read(path, method, size):
    """But for questions a request is answered without its body, which is then thrown away."""
    heard, sent = [], []

    async def app(scope, receive, send):
        heard.append(await receive())
        await respond(send, b"no body")

    async def receive():
        heard.append([message.get("body") for message in sent[1:]])
        return part(b"x" * 5)

    async def send(message):
        sent.append(message)

    asked = Asked(app)
    headers = [HOST, (b"content-length", size)]
    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    asyncio.run(asked.gate(scope, receive, send))
    assert heard == [part(b""), [b"no body"]]
    assert sent[0]["status"] == 200
    assert (b"connection", b"close") in sent[0]["headers"]
    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


@in_loop
async def test_without_the_token_no_body_takes_memory():
    """Bodies of those who show no token are not kept, on open routes or others."""
    asked = Asked(echo, door=Door(TOKEN), buffered_bytes=10, body_seconds=60.0)
    strangers = [
        asyncio.create_task(
            asked.ask(
                path,
                method="POST",
                headers=[HOST, CHUNKED],
                messages=[part(b"x" * 9, more=True)] * 3,
            )
        )
        for path in ("/", "/health", "/v1/forecast")
    ]
    await asyncio.sleep(0)
    known = [HOST, CHUNKED, (b"authorization", b"Bearer " + TOKEN)]
    messages = [part(b"y" * 9, more=True), part(b"")]
    answer = await asked.ask(**FORECAST, headers=known, messages=messages)
    strangers = await asyncio.gather(*strangers)
    assert answer.body == b"y" * 9
    assert [stranger.status for stranger in strangers] == [200, 200, 401]
    assert all(stranger.headers["connection"] == "close" for stranger in strangers)


@in_loop
async def test_one_client_cannot_fill_the_memory_for_bodies():
    """A client that has as much on the way as it may gets 429; another's body is still read."""
    asked = Asked(echo, buffered_bytes_per_client=10, body_seconds=60.0)
    coming = {"headers": [HOST, CHUNKED], "messages": [part(b"x" * 8, more=True)]}
    first = asyncio.create_task(asked.ask(**FORECAST, **coming))
    await asyncio.sleep(0)
    second = await asked.ask(**FORECAST, **coming)
    whole = {"headers": [HOST, CHUNKED], "messages": [*coming["messages"], part(b"")]}
    other = await asked.ask(**FORECAST, **whole, client="192.0.2.1")
    first.cancel()
    await first
    again = await asked.ask(**FORECAST, **whole)
    assert second.problem["status"] == 429
    assert int(second.headers["retry-after"]) > 0
    assert other.body == again.body == b"x" * 8


@in_loop
async def test_bodies_of_requests_that_wait_are_counted():
    """A body that was read takes of its client's share until its request has a place."""
    free = asyncio.Event()

    async def app(scope, receive, send):
        await free.wait()
        await echo(scope, receive, send)

    asked = Asked(app, in_flight=1, buffered_bytes_per_client=10)
    whole = {"headers": [HOST, CHUNKED], "messages": [part(b"x" * 8)]}
    tasks = [asyncio.create_task(asked.ask(**FORECAST, **whole)) for _ in range(2)]
    await asyncio.sleep(0)
    third = await asked.ask(**FORECAST, **whole)
    free.set()
    served = await asyncio.gather(*tasks)
    fourth = await asked.ask(**FORECAST, **whole)
    assert [answer.status for answer in served] == [200, 200]
    assert third.problem["status"] == 429
    assert fourth.status == 200


@pytest.mark.parametrize(
    "codings",
    [[b"gzip, chunked"], [b"gzip", b"chunked"], [b"chunked", b"chunked"], [b"identity"], [b""]],
)
def test_other_transfer_codings_are_refused(codings):
    """A body in a coding that would have to be undone is not taken for a plain one: 501."""
    headers = [HOST, *((b"transfer-encoding", coding) for coding in codings)]
    answer = Asked(never)(**FORECAST, headers=headers, messages=[part(b"x")])
    assert answer.problem["status"] == 501
    assert answer.headers["connection"] == "close"


def test_case_of_the_coding_does_not_matter():
    """Chunked is chunked, however it is written."""
    headers = [HOST, (b"transfer-encoding", b" Chunked ")]
    assert Asked(echo)(**FORECAST, headers=headers, messages=[part(b"x")]).body == b"x"
