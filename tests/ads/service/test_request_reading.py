"""Reading of requests: what is accepted, how large and how slow a body may be."""

from __future__ import annotations

import asyncio
import json

import pytest

from running_service import PATIENCE
from service_calls import JSON, Service, served, service

KNOWN = {"advertiser": "adv-00023", "bid": 2.5}
LINE = json.dumps(KNOWN).encode()
LENGTHS = [{}, {"content-length": str(len(LINE))}]


def ask(found, *parts, then="ends", **headers):
    """Ask for a forecast with a body in parts."""
    given = {"content-type": JSON} | headers
    return found.ask("POST", "/v1/forecast", content=parts, headers=given, then=then)


@pytest.mark.parametrize(
    ("accepted", "zipped"),
    [
        ("gzip", True),
        ("br;q=1.0, GZIP; q=0.5", True),
        ("*", True),
        ("gzip;q=0.001", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0", False),
        ("gzip;q=0.000, *", False),
        ("br, identity", False),
        ("", False),
    ],
)
def test_gzip_only_if_accepted(accepted, zipped):
    """The header is read as RFC 9110 says."""
    answer = service().get("/assets/page.css", headers={"accept-encoding": accepted})
    assert ("content-encoding" in answer.headers) is zipped
    assert answer.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize("kind", ["Application/JSON", 'application/json;charset="UTF-8"'])
def test_media_type_is_read_leniently(kind):
    """The media type may be in any case and name UTF-8."""
    assert ask(service(), LINE, **{"content-type": kind}).status == 200


@pytest.mark.parametrize("length", LENGTHS)
def test_body_may_come_in_parts(length):
    """A body in several messages is put together."""
    reply = ask(service(), LINE[:5], b"", LINE[5:20], LINE[20:], **length)
    assert reply.json == service().forecast(KNOWN).json


@pytest.mark.parametrize("length", LENGTHS)
def test_size_is_limited(length):
    """A body of the limit is read, and one byte more is refused, declared or not."""
    assert ask(Service(served(), body_bytes=len(LINE)), LINE, **length).status == 200
    reply = ask(Service(served(), body_bytes=len(LINE) - 1), LINE[:9], LINE[9:], **length)
    assert (reply.status, reply.problem["type"]) == (413, "/problems/body-too-large")


@pytest.mark.parametrize("length", [*LENGTHS, {"content-length": "20000"}])
def test_slow_body_is_refused(length):
    """A body that stops is given up with 408, however short it was to be."""
    reply = ask(service(), LINE[:9], then="stalls", **length)
    assert (reply.status, reply.problem["type"]) == (408, "/problems/slow-body")


def test_client_that_leaves_is_noted():
    """A client that goes away with half a body is counted as 499, not as a failure."""
    fresh = Service(served())
    assert ask(fresh, LINE[:9], then="leaves").status == 0
    assert 'status="499"' in fresh.get("/metrics").body.decode()


def test_few_large_bodies_of_a_client_are_read_at_a_time():
    """Others wait for their turn; another client, and small bodies, do not."""
    fresh, many = Service(served()), [b" " * 70_000] * 3

    async def all_of_them():
        headers = {"content-type": JSON, "content-length": str(210_000)}

        async def ask(content, client, then, **more):
            return await fresh.asked(
                "POST",
                "/v1/forecast",
                content=content,
                headers=headers | more,
                client=client,
                then=then,
            )

        held = [asyncio.create_task(ask(many, "greedy", "waits")) for _ in range(4)]
        turns = fresh.app._bodies._turns
        async with asyncio.timeout(PATIENCE):
            while not any(turn.locked() for turn in turns.values()):
                await asyncio.sleep(0)
        waiting = asyncio.create_task(ask(many, "greedy", "ends"))
        other = await ask(many, "other", "ends")
        small = await ask(LINE, "greedy", "ends", **{"content-length": str(len(LINE))})
        assert not waiting.done()
        for task in held:
            task.cancel()
        return other.status, small.status, (await waiting).status

    assert asyncio.run(all_of_them()) == (400, 200, 400)
