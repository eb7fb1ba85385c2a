"""Bytes that nobody meant: the service outlives whatever is sent to its port."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from gate_calls import echo
from local_server import local_server, run, until

GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /v1/forecast HTTP/1.1\r\nHost: localhost\r\n"
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


@settings(deadline=None, max_examples=40)
@given(st.lists(PIECES | st.binary(max_size=9), max_size=12))
def test_no_bytes_harm_the_service(pieces):
    """Whatever is sent, and however it is cut, nothing fails within and the next is served."""

    async def scenario():
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
                return told, await client.answer(), "".join(local.lines)

    told, after, log = run(scenario())
    assert told == b"" or told.startswith(b"HTTP/1.1 ")
    assert b"Traceback" not in told
    assert after[0] == 200
    assert "defect" not in log
