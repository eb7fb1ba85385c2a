"""Connections: slow clients, too many of them, nonsense, and clients that do not read."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from gate_calls import echo, greeting, respond
from local_server import local_server, run, until

GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /v1/forecast HTTP/1.1\r\nHost: localhost\r\n"


def _problem(answer):
    """A problem that was sent below the application, checked to be a whole answer."""
    status, headers, body = answer
    told = json.loads(body)
    assert headers["content-type"] == "application/problem+json"
    assert headers["connection"] == "close"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-request-id"] == told["request_id"]
    assert told["status"] == status
    return status


def test_connection_serves_many_requests():
    """A connection is kept, and answers requests one after another, also when sent at once."""

    async def scenario():
        async with local_server(greeting) as local, local.client() as client:
            await client.say(GET)
            first = await client.answer()
            await client.say(GET * 3)
            return first, [await client.answer() for _ in range(3)]

    first, others = run(scenario())
    assert first[0] == 200
    assert [answer[2] for answer in others] == [b"hello"] * 3


@pytest.mark.parametrize("begun", [b"GET /health HT", b"GET /health HTTP/1.1\r\nHost: local"])
def test_slow_headers_are_cut_off(begun):
    """Headers that do not come whole in time are answered with 408, and the connection closed."""

    async def scenario():
        async with local_server(greeting, header_seconds=0.1) as local, local.client() as client:
            await client.say(begun)
            answer = await client.answer()
            return answer, await client.rest()

    answer, rest = run(scenario())
    assert _problem(answer) == 408
    assert rest == b""


def test_dripping_headers_are_cut_off():
    """A client that sends a little ever again gets no more time by it."""

    async def scenario():
        async with local_server(greeting, header_seconds=0.1) as local, local.client() as client:
            await client.say(b"GET /health HTTP/1.1\r\n")
            answer = asyncio.create_task(client.answer())
            while not answer.done():
                await client.say(b"X-Drip: 1\r\n")
                await asyncio.sleep(0.005)
            return await answer

    assert _problem(run(scenario())) == 408


@pytest.mark.parametrize("sent", [b"", b"\r\n"])
def test_silent_connection_is_closed(sent):
    """A connection on which no request comes is closed after a while."""

    async def scenario():
        limits = {"header_seconds": 0.1, "idle_seconds": 0.1}
        async with local_server(greeting, **limits) as local, local.client() as client:
            await client.say(sent)
            return await client.rest()

    assert run(scenario()) == b""


def test_idle_connection_is_closed():
    """A connection that was used is closed when it has been idle for a while."""

    async def scenario():
        async with local_server(greeting, idle_seconds=2.0) as local, local.client() as client:
            await client.say(GET)
            return await client.answer(), await client.rest()

    answer, rest = run(scenario())
    assert answer[0] == 200
    assert "connection" not in answer[1]
    assert rest == b""


def test_blank_lines_keep_no_connection_open():
    """A client that sends nothing but ends of lines is cut off like one that sends nothing."""

    async def scenario():
        async with local_server(greeting, header_seconds=0.1) as local, local.client() as client:
            closed = asyncio.create_task(client.rest())
            while not closed.done():
                with contextlib.suppress(ConnectionError):
                    await client.say(b"\r\n")
                await asyncio.sleep(0.005)
            return await closed

    assert run(scenario()) == b""


def test_huge_headers_are_refused():
    """Headers that grow without end are answered with 431 before they fill the memory."""

    async def scenario():
        async with local_server(greeting) as local, local.client() as client:
            await client.say(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
            for _ in range(80):
                await client.say(b"X-Padding: " + b"x" * 1000 + b"\r\n")
            return await client.answer()

    assert _problem(run(scenario())) == 431


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        POST + b"Content-Length: -1\r\n\r\n",
        POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        POST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n",
    ],
)
def test_nonsense_is_answered_with_a_problem(nonsense):
    """What is no HTTP gets 400 as a problem, and then the connection is closed."""

    async def scenario():
        async with local_server(echo) as local, local.client() as client:
            await client.say(nonsense)
            answer = await client.answer()
            client.finish()
            return answer, await client.rest(), local.metrics.text().decode()

    answer, rest, counted = run(scenario())
    assert _problem(answer) == 400
    assert rest == b""
    assert 'status="400"' in counted


def test_sound_request_before_nonsense_is_answered():
    """Nonsense after a request does not spoil its answer; the connection is closed after it."""

    async def scenario():
        free = asyncio.Event()

        async def app(scope, receive, send):
            await free.wait()
            await respond(send, b"sound")

        async with local_server(app) as local, local.client() as client:
            await client.say(GET + b"nonsense\r\n\r\n")
            await until(lambda: local.connections)
            free.set()
            answer = await client.answer()
            return answer, await client.rest()

    answer, rest = run(scenario())
    assert answer[0] == 200
    assert answer[2] == b"sound"
    assert rest == b""


def test_too_many_connections_are_turned_away():
    """Beyond the limit a connection is told 503; once another is closed there is room again."""

    async def scenario():
        async with local_server(greeting, connections=2) as local:
            async with local.client() as first, local.client() as second:
                for client in (first, second):
                    await client.say(GET)
                    assert (await client.answer())[0] == 200
                async with local.client() as third:
                    turned_away = await third.answer()
            await until(lambda: local.connections == 0)
            async with local.client() as fourth:
                await fourth.say(GET)
                return turned_away, await fourth.answer()

    turned_away, fourth = run(scenario())
    assert _problem(turned_away) == 503
    assert int(turned_away[1]["retry-after"]) > 0
    assert fourth[0] == 200


def test_client_that_sends_no_more_gets_its_answer():
    """A client may close its side after the request and still read the answer."""

    async def scenario():
        free = asyncio.Event()

        async def app(scope, receive, send):
            await free.wait()
            await respond(send, b"late")

        async with local_server(app) as local, local.client() as client:
            await client.say(GET)
            client.finish()
            await until(lambda: local.connections)
            free.set()
            return await client.rest()

    assert run(scenario()).endswith(b"late")


def test_trailers_are_no_headers():
    """What follows a body cannot change who asks for what."""
    seen = []

    async def app(scope, receive, send):
        seen.append(dict(scope["headers"]))
        await respond(send, b"")

    async def scenario():
        async with local_server(app) as local, local.client() as client:
            body = b"1\r\nx\r\n0\r\nHost: evil.example\r\nX-Request-Id: forged\r\n\r\n"
            await client.say(POST + b"Transfer-Encoding: chunked\r\n\r\n" + body)
            return await client.answer()

    status, headers, _ = run(scenario())
    assert status == 200
    assert headers["x-request-id"] != "forged"
    assert seen[0][b"host"] == b"localhost"


@pytest.mark.parametrize("other", [b"websocket", b"h2c"])
def test_request_for_another_protocol_is_answered_in_this_one(other):
    """An upgrade is not made; the request is answered as it is, and the connection closed."""

    async def scenario():
        async with local_server(greeting) as local, local.client() as client:
            await client.say(GET[:-2] + b"Connection: Upgrade\r\nUpgrade: " + other + b"\r\n\r\n")
            answer = await client.answer()
            return answer, await client.rest()

    answer, rest = run(scenario())
    assert answer[0] == 200
    assert answer[1]["connection"] == "close"
    assert rest == b""


def test_client_that_does_not_read_is_cut_off():
    """A client that asks for much and reads nothing does not keep it in memory for ever."""

    async def app(scope, receive, send):
        await respond(send, b"x" * 50_000_000)

    async def scenario():
        async with local_server(app, idle_seconds=2.0) as local, local.client() as client:
            client.writer.transport.pause_reading()
            await client.say(GET)
            await until(lambda: local.metrics.text().count(b'route="/health",status="200"'))
            await until(lambda: local.connections == 0)
            client.writer.transport.resume_reading()
            return await client.rest()

    assert len(run(scenario())) < 50_000_000


def test_refused_body_does_not_cost_the_answer():
    """A client that sends far too large a body, and reads only then, still learns why not."""

    async def scenario():
        async with local_server(echo, body_bytes=1000) as local, local.client() as client:
            await client.say(POST + b"Content-Length: 4000000\r\n\r\n" + b"x" * 4_000_000)
            answer = await client.answer()
            return answer, await client.rest()

    answer, rest = run(scenario())
    assert _problem(answer) == 413
    assert rest == b""


def test_slow_body_is_cut_off():
    """A body that drips in too slowly is answered with 408, however often a little of it comes."""

    async def scenario():
        async with local_server(echo, body_seconds=0.2) as local, local.client() as client:
            await client.say(POST + b"Content-Length: 100000\r\n\r\n")
            answer = asyncio.create_task(client.answer())
            while not answer.done():
                await client.say(b"x")
                await asyncio.sleep(0.005)
            client.finish()
            return await answer, await client.rest()

    answer, rest = run(scenario())
    assert _problem(answer) == 408
    assert rest == b""


def test_unfinished_request_is_told_that_the_service_ends():
    """What is not finished within the grace is answered with 503, not cut off without a word."""

    async def scenario():
        begun = asyncio.Event()

        async def app(scope, receive, send):
            begun.set()
            await asyncio.Event().wait()

        async with contextlib.AsyncExitStack() as clients:
            async with local_server(app, grace_seconds=0.1) as local:
                client = await clients.enter_async_context(local.client())
                await client.say(GET)
                await begun.wait()
            return await client.answer()

    status, headers, _ = run(scenario())
    assert status == 503
    assert headers["connection"] == "close"
    assert int(headers["retry-after"]) > 0


def test_service_ends_although_a_client_does_not_read():
    """An answer that nobody takes does not keep the service from ending."""

    async def scenario():
        async def app(scope, receive, send):
            await respond(send, b"x" * 50_000_000)

        async with contextlib.AsyncExitStack() as clients:
            async with local_server(app, grace_seconds=0.1) as local:
                client = await clients.enter_async_context(local.client())
                client.writer.transport.pause_reading()
                await client.say(GET)
                await until(lambda: local.metrics.text().count(b'route="/health",status="200"'))
            return local.connections

    assert run(scenario()) == 1


def test_requests_sent_ahead_are_limited():
    """A client that sends very many requests without waiting gets some answers, then is closed."""

    async def scenario():
        free = asyncio.Event()

        async def app(scope, receive, send):
            await free.wait()
            await respond(send, b"one of many")

        async with local_server(app) as local, local.client() as client:
            await client.say(GET * 2_000)
            await until(lambda: local.connections)
            free.set()
            return await client.rest()

    answers = run(scenario()).split(b"HTTP/1.1 200 OK")[1:]
    assert 1 <= len(answers) <= 200
    assert all(answer.endswith(b"one of many") for answer in answers)
