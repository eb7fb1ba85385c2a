"""Connections: slow clients, too many of them, nonsense, and clients that do not read."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.service.access import connections
from coterie.ads.service.access.listening import Door
from gate_calls import echo, greeting, respond
from local_server import in_loop, local_server, run, until

GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST_GET = GET[:-2] + b"Connection: close\r\n\r\n"
POST = b"POST /v1/forecast HTTP/1.1\r\nHost: localhost\r\n"
LARGE = 30_000_000


async def large(scope, receive, send):
    """An application with a large answer."""
    await respond(send, b"x" * LARGE)


def exchange(sent, app=greeting, *, closes=True, **limits):
    """The first answer to some bytes, and, if the connection closes, all that follows it."""

    async def scenario():
        async with local_server(app, **limits) as local, local.client() as client:
            await client.say(sent)
            answer = await client.answer()
            client.finish()
            return answer, await client.rest() if closes else b""

    return run(scenario())


def dripped(drip, first=b"", app=greeting, **limits):
    """What comes back first from a connection that sends a little again and again."""

    async def scenario():
        async with local_server(app, **limits) as local, local.client() as client:
            await client.say(first)
            told = asyncio.create_task(client.reader.read(1 << 16))
            while not told.done():
                with contextlib.suppress(ConnectionError):
                    await client.say(drip)
                await asyncio.sleep(0.005)
            return await told

    return run(scenario())


@contextlib.asynccontextmanager
async def waiting_service(**limits):
    """A service whose answers wait for an event."""
    free = asyncio.Event()

    async def app(scope, receive, send):
        await free.wait()
        await respond(send, b"in turn")

    async with local_server(app, **limits) as local:
        yield local, free


def problem(answer):
    """The status of a problem that was sent below the application, checked to be whole."""
    status, headers, body = answer
    told = json.loads(body)
    assert headers["content-type"] == "application/problem+json"
    assert headers["connection"] == "close"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-request-id"] == told["request_id"]
    assert told["status"] == status
    return status


def statuses(told):
    """Those of all answers in what came over a connection."""
    return [int(answer[:3]) for answer in told.split(b"HTTP/1.1 ")[1:]]


def only(local):
    """The one connection that is open, as the service has it."""
    (connection,) = local.server.server_state.connections
    return connection


def sent_whole(local, number=1):
    """Whether the application has given so many answers away."""
    return f'route="/health",status="200"}} {number}.0' in local.metrics.text().decode()


@in_loop
async def test_connection_serves_many_requests():
    """A connection is kept, and answers requests one after another, also when sent at once."""
    async with local_server(greeting) as local, local.client() as client:
        await client.say(GET)
        first = await client.answer()
        await client.say(GET * 3)
        answers = [first, *[await client.answer() for _ in range(3)]]
    assert [(answer[0], answer[2]) for answer in answers] == [(200, b"hello")] * 4
    assert "connection" not in answers[0][1]


@pytest.mark.parametrize("begun", [b"GET /health HT", b"GET /health HTTP/1.1\r\nHost: local"])
@in_loop
async def test_slow_headers_are_cut_off(begun):
    """Headers that do not come whole in time are answered with 408, and the connection closed."""
    async with local_server(greeting, header_seconds=0.1) as local, local.client() as client:
        await client.say(begun)
        answer, rest = await client.answer(), await client.rest()
    assert problem(answer) == 408
    assert rest == b""


def test_dripping_gains_no_time():
    """A client that sends a little of its headers or body ever again is told 408 all the same."""
    told = dripped(b"X-Drip: 1\r\n", b"GET /health HTTP/1.1\r\n", header_seconds=0.1)
    assert statuses(told) == [408]
    head = POST + b"Content-Length: 100000\r\n\r\n"
    assert statuses(dripped(b"x", head, echo, body_seconds=0.2)) == [408]


@pytest.mark.parametrize("drip", [b"", b"\r\n"])
def test_connection_without_a_request_has_the_time_of_headers(drip):
    """One on which nothing comes at first, or ends of lines alone, is not kept as idle ones are."""
    assert dripped(drip, header_seconds=0.1, idle_seconds=3_600.0) == b""


@in_loop
async def test_idle_connection_is_closed():
    """A connection that was used is closed when it has been idle for a while."""
    async with local_server(greeting, idle_seconds=0.2) as local, local.client() as client:
        await client.say(GET)
        answer, rest = await client.answer(), await client.rest()
    assert (answer[0], rest) == (200, b"")


@pytest.mark.parametrize("end", [b"\r\n\r\n", b""])
@pytest.mark.parametrize(
    "sent",
    [
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1_000,
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X: 12345678\r\n" * 120,
        b"GET /health?" + b"x" * 1_000 + b" HTTP/1.1\r\nHost: localhost",
    ],
)
def test_large_headers_are_refused(sent, end):
    """Their size is what counts, whether they end or not: 431."""
    answer, _ = exchange(sent + end, closes=False, header_bytes=1_000, headers=1_000)
    assert problem(answer) == 431


@in_loop
async def test_headers_that_grow_without_end_are_refused():
    """They are answered with 431 before they fill the memory."""
    async with local_server(greeting) as local, local.client() as client:
        await client.say(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
        for _ in range(80):
            await client.say(b"X-Padding: " + b"x" * 1000 + b"\r\n")
        found = await client.answer()
    assert problem(found) == 431


@pytest.mark.parametrize(("further", "status"), [(9, 200), (10, 431)])
def test_number_of_headers_is_limited(further, status):
    """As many headers as the limit says are allowed, and not one more."""
    sent = GET[:-2] + b"X: x\r\n" * further + b"\r\n"
    assert exchange(sent, closes=False, headers=10)[0][0] == status


@in_loop
async def test_body_before_headers_does_not_make_them_large():
    """Headers are counted alone, though a large body came in the same piece before them."""
    async with local_server(echo, header_bytes=1_000) as local, local.client() as client:
        await client.say(POST)
        await until(lambda: local.connections and only(local)._headers_timed)
        await client.say(b"Content-Length: 5000\r\n\r\n" + b"x" * 5_000 + GET[:20])
        first = await client.answer()
        await client.say(GET[20:])
        second = await client.answer()
    assert (first[0], len(first[2])) == (200, 5_000)
    assert second[0] == 200


@pytest.mark.parametrize(
    ("after", "limits"),
    [
        (b"nonsense\r\n\r\n", {}),
        (b"GET /health HTTP/1.1\r\nX: " + b"x" * 3_000, {"header_bytes": 1_000}),
        (b"GET /health HTTP/1.1\r\n" + b"X: x\r\n" * 12, {"headers": 10}),
        (b"GET /hea", {"header_seconds": 0.05}),
    ],
)
@in_loop
async def test_faulty_headers_do_not_cost_an_earlier_request_its_answer(after, limits):
    """What is wrong with a request is not told in the place of an answer to the one before."""
    async with waiting_service(**limits) as (local, free), local.client() as client:
        await client.say(GET)
        await until(lambda: local.connections and only(local).cycle)
        await client.say(after)
        await until(lambda: only(local)._deaf)
        free.set()
        told = await client.rest()
    assert statuses(told) == [200]
    assert told.endswith(b"in turn")


@in_loop
async def test_headers_that_the_service_does_not_read_are_not_slow():
    """While a client's earlier requests keep the service from reading, its time does not run."""
    async with (
        waiting_service(header_seconds=1.0) as (local, free),
        local.client() as client,
    ):
        await client.say(GET * 2 + GET[:20])
        await until(lambda: local.connections and only(local)._headers_timed)
        connection = only(local)
        first = connection._deadline
        await client.say(GET[20:])
        await until(lambda: connection._deadline is not first)
        free.set()
        found = [(await client.answer())[2] for _ in range(3)]
    assert found == [b"in turn"] * 3


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
    answer, rest = exchange(nonsense, echo)
    assert (problem(answer), rest) == (400, b"")


def test_nothing_hides_behind_another_transfer_coding():
    """A body of which servers disagree where it ends is refused, with all that follows it."""
    coding = b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"
    answer, rest = exchange(POST + coding + GET, echo)
    assert (answer[0], rest) == (501, b"")


@pytest.mark.parametrize("limit", ["connections", "connections_per_client"])
@in_loop
async def test_too_many_connections_are_turned_away(limit):
    """Beyond a limit a connection is told 503; once another is closed there is room again."""
    async with local_server(greeting, **{limit: 2}) as local:
        async with local.client() as first, local.client() as second:
            for client in (first, second):
                await client.say(GET)
                assert (await client.answer())[0] == 200
            async with local.client() as third:
                turned_away = await third.answer()
        await until(lambda: local.connections == 0)
        async with local.client() as fourth:
            await fourth.say(GET)
            assert (await fourth.answer())[0] == 200
    assert problem(turned_away) == 503
    assert int(turned_away[1]["retry-after"]) > 0
    assert ("this client" in json.loads(turned_away[2])["detail"]) == (limit != "connections")


@pytest.mark.parametrize("other", ["127.0.0.2", "a proxy"])
@in_loop
async def test_only_a_client_with_its_share_is_turned_away(other):
    """Another client connects beside it, and a proxy, which has many clients, has no share."""
    is_proxy = other == "a proxy"
    source = "127.0.0.1" if is_proxy else other
    with socket.socket() as probe:
        try:
            probe.bind((source, 0))
        except OSError:
            pytest.skip("this machine has one loopback address alone")
    door = Door(proxies=(ipaddress.ip_network("127.0.0.1/32"),)) if is_proxy else None
    async with (
        local_server(greeting, door, connections_per_client=1) as local,
        local.client() as first,
        local.client(source=source) as second,
    ):
        answers = []
        for client in (first, second):
            await client.say(GET)
            answers.append((await client.answer())[0])
    assert answers == [200, 200]


@in_loop
async def test_client_that_sends_no_more_gets_its_answer():
    """A client may close its side after the request and still read the answer."""
    async with waiting_service() as (local, free), local.client() as client:
        await client.say(GET)
        client.finish()
        await until(lambda: local.connections)
        free.set()
        found = await client.rest()
    assert found.endswith(b"in turn")


def test_trailers_are_no_headers():
    """What follows a body cannot change who asks for what."""
    seen = []

    async def app(scope, receive, send):
        seen.append(dict(scope["headers"]))
        await respond(send, b"")

    body = b"1\r\nx\r\n0\r\nHost: evil.example\r\nX-Request-Id: forged\r\n\r\n"
    answer, _ = exchange(POST + b"Transfer-Encoding: chunked\r\n\r\n" + body, app)
    assert answer[0] == 200
    assert answer[1]["x-request-id"] != "forged"
    assert seen[0][b"host"] == b"localhost"


@pytest.mark.parametrize("other", [b"websocket", b"h2c"])
def test_request_for_another_protocol_is_answered_in_this_one(other):
    """An upgrade is not made; the request is answered as it is, and the connection closed."""
    sent = GET[:-2] + b"Connection: Upgrade\r\nUpgrade: " + other + b"\r\n\r\n"
    answer, rest = exchange(sent)
    assert (answer[0], answer[1]["connection"], rest) == (200, "close", b"")


@in_loop
async def test_client_that_does_not_read_is_cut_off():
    """A client that asks for much and reads nothing does not keep it in memory for ever."""
    async with local_server(large, idle_seconds=0.3) as local, local.client() as client:
        client.writer.transport.pause_reading()
        await client.say(GET)
        await until(lambda: sent_whole(local))
        await until(lambda: local.connections == 0)
        client.writer.transport.resume_reading()
        found = await client.rest()
    assert len(found) < LARGE


@pytest.mark.parametrize("request_", [GET, LAST_GET])
@in_loop
async def test_unread_answers_are_limited_together(request_):
    """Where too much is left unread the one that waited longest is cut, not those who read."""
    limits = {"idle_seconds": 3_600.0, "unsent_bytes": LARGE * 3 // 2}
    async with (
        local_server(large, **limits) as local,
        local.client() as first,
        local.client() as second,
    ):
        for number, client in enumerate((first, second), 1):
            client.writer.transport.pause_reading()
            await client.say(request_)
            await until(lambda: sent_whole(local, number))  # noqa: B023
        await until(lambda: local.connections == 1)
        for client in (first, second):
            client.writer.transport.resume_reading()
        cut, whole = len(await first.rest()), len((await second.answer())[2])
    assert cut < LARGE
    assert whole == LARGE


@in_loop
async def test_last_answer_may_be_read_as_slowly_as_any(monkeypatch):
    """A large answer after which the connection is closed has the time that others have."""
    monkeypatch.setattr(connections, "_CLOSING_SECONDS", 0.0)

    async def app(scope, receive, send):
        await respond(send, b"x" * (LARGE if scope["path"] == "/health" else 1))

    async with local_server(app) as local, local.client() as slow:
        slow.writer.transport.pause_reading()
        await slow.say(LAST_GET)
        await until(lambda: sent_whole(local))
        async with local.client() as other:
            await other.say(GET.replace(b"/health", b"/"))
            await other.answer()
        slow.writer.transport.resume_reading()
        found = await slow.answer()
    assert len(found[2]) == LARGE


def test_unread_body_does_not_cost_the_answer():
    """A client that sends a large body, too large or where none is taken, is still answered."""
    body = b"Content-Length: 4000000\r\n\r\n" + b"x" * 4_000_000
    answer, rest = exchange(POST + body, echo, body_bytes=1000)
    assert (problem(answer), rest) == (413, b"")
    answer, rest = exchange(b"POST /health HTTP/1.1\r\nHost: localhost\r\n" + body)
    assert (answer[0], answer[1]["connection"], answer[2]) == (200, "close", b"hello")
    assert rest == b""


@in_loop
async def test_unfinished_request_is_told_that_the_service_ends():
    """What is not finished within the grace is answered with 503, not cut off without a word."""
    begun = asyncio.Event()

    async def app(scope, receive, send):
        begun.set()
        await asyncio.Event().wait()

    async with contextlib.AsyncExitStack() as clients:
        async with local_server(app, grace_seconds=0.1) as local:
            client = await clients.enter_async_context(local.client())
            await client.say(GET)
            await begun.wait()
        status, headers, _ = await client.answer()
    assert (status, headers["connection"]) == (503, "close")
    assert int(headers["retry-after"]) > 0


@in_loop
async def test_service_ends_although_a_client_does_not_read():
    """An answer that nobody takes does not keep the service from ending."""
    async with contextlib.AsyncExitStack() as clients:
        async with local_server(large, grace_seconds=0.1) as local:
            client = await clients.enter_async_context(local.client())
            client.writer.transport.pause_reading()
            await client.say(GET)
            await until(lambda: sent_whole(local))
        found = local.connections
    assert found == 1


@in_loop
async def test_requests_sent_ahead_are_limited():
    """A client that sends very many requests without waiting gets some answers, then is closed."""
    async with waiting_service() as (local, free), local.client() as client:
        await client.say(GET * 2_000)
        await until(lambda: local.connections)
        free.set()
        found = await client.rest()
    answers = found.split(b"HTTP/1.1 200 OK")[1:]
    assert 1 <= len(answers) <= 200
    assert all(answer.endswith(b"in turn") for answer in answers)


PIECES = st.sampled_from(
    [
        GET,
        POST,
        b"GET /v1/advertisers/%00%ff HTTP/1.1\r\n",
        b"\r\n",
        b"\r\n\r\n",
        b"Host: localhost\r\n",
        b"Content-Length: 3\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"Connection: close\r\n",
        b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
        b"Expect: 100-continue\r\n",
    ]
)


@settings(max_examples=30)
@given(st.lists(PIECES | st.binary(max_size=9), max_size=12))
@in_loop
async def test_no_bytes_harm_the_service(pieces):
    """Whatever is sent, and however it is cut, nothing fails within and the next is served."""
    async with local_server(echo, header_seconds=0.05, body_seconds=0.05) as local:
        async with local.client() as client:
            for piece in pieces:
                await client.say(piece)
                await asyncio.sleep(0)
            client.finish()
            told = await client.rest()
        await until(lambda: local.connections == 0)
        async with local.client() as client:
            await client.say(GET)
            after, log = await client.answer(), "".join(local.lines)
    assert told == b"" or told.startswith(b"HTTP/1.1 ")
    assert b"Traceback" not in told
    assert after[0] == 200
    assert "defect" not in log
