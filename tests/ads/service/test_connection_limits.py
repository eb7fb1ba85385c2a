"""What one connection, and one client with many of them, may take from the others."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ads.service.access import connections
from coterie.ads.service.access.client_holdings import OpenConnections, UnreadAnswers
from coterie.ads.service.access.listening import Door
from gate_calls import echo, greeting, respond
from local_server import local_server, run, until

GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST_GET = GET[:-2] + b"Connection: close\r\n\r\n"
POST = b"POST /v1/forecast HTTP/1.1\r\nHost: localhost\r\n"
LARGE = 30_000_000


def _statuses(told):
    """Those of all answers in what came over a connection."""
    return [int(answer[:3]) for answer in told.split(b"HTTP/1.1 ")[1:]]


def _only(local):
    """The one connection that is open, as the service has it."""
    (connection,) = local.server.server_state.connections
    return connection


@contextlib.asynccontextmanager
async def _waiting_service(**limits):
    """A service whose answers wait for an event."""
    free = asyncio.Event()

    async def app(scope, receive, send):
        await free.wait()
        await respond(send, b"in turn")

    async with local_server(app, **limits) as local:
        yield local, free


def test_one_client_cannot_take_all_connections():
    """Beyond its share a client is told 503; once it closes one there is room again."""

    async def scenario():
        async with local_server(greeting, connections_per_client=2) as local:
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
    assert turned_away[0] == 503
    assert int(turned_away[1]["retry-after"]) > 0
    assert "this client" in json.loads(turned_away[2])["detail"]
    assert fourth[0] == 200


def test_other_clients_connect_beside_one_that_has_its_share():
    """Only the client that has too many connections is turned away."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.2", 0))
        except OSError:
            pytest.skip("this machine has one loopback address alone")

    async def scenario():
        async with (
            local_server(greeting, connections_per_client=1) as local,
            local.client() as first,
        ):
            await first.say(GET)
            assert (await first.answer())[0] == 200
            async with local.client(source="127.0.0.2") as other:
                await other.say(GET)
                return await other.answer()

    assert run(scenario())[0] == 200


def test_proxy_may_have_more_connections_than_a_client():
    """A trusted proxy connects for many clients, and is not counted as one."""
    door = Door(proxies=(ipaddress.ip_network("127.0.0.1/32"),))

    async def scenario():
        async with (
            local_server(greeting, door, connections_per_client=1) as local,
            local.client() as first,
            local.client() as second,
        ):
            answers = []
            for client in (first, second):
                await client.say(GET)
                answers.append(await client.answer())
            return answers

    assert [answer[0] for answer in run(scenario())] == [200, 200]


@pytest.mark.parametrize("drip", [b"", b"\r\n"])
def test_connection_without_a_request_has_the_time_of_headers(drip):
    """One on which nothing comes at first, or ends of lines alone, is not kept as idle ones are."""

    async def scenario():
        limits = {"header_seconds": 0.1, "idle_seconds": 3_600.0}
        async with local_server(greeting, **limits) as local, local.client() as client:
            closed = asyncio.create_task(client.rest())
            while not closed.done():
                with contextlib.suppress(ConnectionError):
                    await client.say(drip)
                await asyncio.sleep(0.005)
            return await closed

    assert run(scenario()) == b""


@pytest.mark.parametrize("request_", [GET, LAST_GET])
def test_unread_answers_are_limited_together(request_):
    """Where too much is left unread the one that waited longest is cut, not those who read."""

    async def app(scope, receive, send):
        await respond(send, b"x" * LARGE)

    async def scenario():
        limits = {"idle_seconds": 3_600.0, "unsent_bytes": LARGE * 3 // 2}
        async with (
            local_server(app, **limits) as local,
            local.client() as first,
            local.client() as second,
        ):
            for number, client in enumerate((first, second), 1):
                client.writer.transport.pause_reading()
                await client.say(request_)
                counted = f'route="/health",status="200"}} {number}.0'
                await until(lambda: counted in local.metrics.text().decode())  # noqa: B023
            await until(lambda: local.connections == 1)
            for client in (first, second):
                client.writer.transport.resume_reading()
            return len(await first.rest()), len((await second.answer())[2])

    cut, whole = run(scenario())
    assert cut < LARGE
    assert whole == LARGE


def test_last_answer_may_be_read_as_slowly_as_any(monkeypatch):
    """A large answer after which the connection is closed has the time that others have."""
    monkeypatch.setattr(connections, "_CLOSING_SECONDS", 0.0)

    async def app(scope, receive, send):
        await respond(send, b"x" * (LARGE if scope["path"] == "/health" else 1))

    async def scenario():
        async with local_server(app) as local, local.client() as slow:
            slow.writer.transport.pause_reading()
            await slow.say(LAST_GET)
            await until(lambda: local.metrics.text().count(b'route="/health",status="200"'))
            async with local.client() as other:
                await other.say(GET.replace(b"/health", b"/"))
                await other.answer()
            slow.writer.transport.resume_reading()
            return await slow.answer()

    assert len(run(scenario())[2]) == LARGE


@pytest.mark.parametrize(
    ("after", "limits"),
    [
        (b"GET /health HTTP/1.1\r\nX: " + b"x" * 3_000, {"header_bytes": 1_000}),
        (b"GET /health HTTP/1.1\r\n" + b"X: x\r\n" * 12, {"headers": 10}),
        (b"GET /hea", {"header_seconds": 0.05}),
    ],
)
def test_faulty_headers_do_not_cost_an_earlier_request_its_answer(after, limits):
    """What is wrong with a request is not told in the place of an answer to the one before."""

    async def scenario():
        async with _waiting_service(**limits) as (local, free), local.client() as client:
            await client.say(GET)
            await until(lambda: local.connections and _only(local).cycle)
            await client.say(after)
            await until(lambda: _only(local)._deaf)
            free.set()
            return await client.rest()

    told = run(scenario())
    assert _statuses(told) == [200]
    assert told.endswith(b"in turn")


def test_headers_that_the_service_does_not_read_are_not_slow():
    """While a client's earlier requests keep the service from reading, its time does not run."""

    async def scenario():
        async with (
            _waiting_service(header_seconds=2.0) as (local, free),
            local.client() as client,
        ):
            await client.say(GET * 2 + GET[:20])
            await until(lambda: local.connections and _only(local)._headers_timed)
            connection = _only(local)
            first = connection._deadline
            await client.say(GET[20:])
            await until(lambda: connection._deadline is not first)
            free.set()
            return [(await client.answer())[2] for _ in range(3)]

    assert run(scenario()) == [b"in turn"] * 3


@pytest.mark.parametrize("end", [b"\r\n\r\n", b"\r\n", b""])
@pytest.mark.parametrize(
    "sent",
    [
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1_000,
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X: 12345678\r\n" * 120,
        b"GET /health?" + b"x" * 1_000 + b" HTTP/1.1\r\nHost: localhost",
    ],
)
def test_large_headers_are_refused_though_they_come_at_once(sent, end):
    """Their size is what counts, not the number of pieces they come in: 431."""

    async def scenario():
        limits = {"header_bytes": 1_000, "headers": 1_000}
        async with local_server(greeting, **limits) as local, local.client() as client:
            await client.say(sent + end)
            return await client.answer()

    assert run(scenario())[0] == 431


@pytest.mark.parametrize(("further", "status"), [(9, 200), (10, 431)])
def test_number_of_headers_is_limited(further, status):
    """As many headers as the limit says are allowed, and not one more."""

    async def scenario():
        async with local_server(greeting, headers=10) as local, local.client() as client:
            await client.say(GET[:-2] + b"X: x\r\n" * further + b"\r\n")
            return await client.answer()

    assert run(scenario())[0] == status


def test_body_before_headers_does_not_make_them_large():
    """Headers are counted alone, though a large body came in the same piece before them."""

    async def scenario():
        async with local_server(echo, header_bytes=1_000) as local, local.client() as client:
            await client.say(POST)
            await until(lambda: local.connections and _only(local)._headers_timed)
            await client.say(b"Content-Length: 5000\r\n\r\n" + b"x" * 5_000 + GET[:20])
            first = await client.answer()
            await client.say(GET[20:])
            return first, await client.answer()

    first, second = run(scenario())
    assert (first[0], len(first[2])) == (200, 5_000)
    assert second[0] == 200


def test_nothing_hides_behind_another_transfer_coding():
    """A body of which servers disagree where it ends is refused, with all that follows it."""

    async def scenario():
        async with local_server(echo) as local, local.client() as client:
            await client.say(POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + GET)
            client.finish()
            return await client.rest()

    assert _statuses(run(scenario())) == [501]


def test_unwanted_body_does_not_cost_the_answer():
    """A client that sends a large body where none is taken is answered, and then closed."""

    async def scenario():
        async with local_server(greeting) as local, local.client() as client:
            head = b"POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n"
            await client.say(head + b"x" * 4_000_000)
            return await client.answer(), await client.rest()

    answer, rest = run(scenario())
    assert (answer[0], answer[1]["connection"], answer[2]) == (200, "close", b"hello")
    assert rest == b""


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 60), st.booleans()), max_size=30)


@given(STEPS)
def test_unread_answers_never_exceed_their_limit(steps):
    """Whatever is added and removed, the sum is that of those left, and within the limit."""
    unread, held = UnreadAnswers(100), {}
    for number, (client, size, removed) in enumerate(steps):
        if removed and held:
            whose, key, _ = held.pop(next(iter(held)))
            unread.remove(whose, key)
            unread.remove(whose, key)
        held[number] = (client, None, size)
        key = unread.add(client, size, lambda number=number: held.pop(number))
        if number in held:
            held[number] = (client, key, size)
        assert unread.total == sum(size for _, _, size in held.values()) <= 100


@given(st.lists(st.sampled_from("abc"), max_size=20))
def test_connections_are_counted_by_client(clients):
    """Each client has as many as it opened and did not close; none is remembered in the end."""
    counted = OpenConnections()
    for i, client in enumerate(clients, 1):
        assert counted.opened(client) == clients[:i].count(client)
    for client in clients:
        counted.closed(client)
    assert counted._of_client == {}
