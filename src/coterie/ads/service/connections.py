"""Connections: HTTP/1.1 as uvicorn speaks it, with refusals in JSON, and bounded unread answers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from coterie.ads.protocol import Limits
from coterie.ads.service.problems import PROBLEM_TYPE, Problem


class Connection(HttpToolsProtocol):
    """One connection of a service; ``unread`` is shared by all of its connections."""

    def __init__(self, unread: UnreadAnswers, **settings: Any) -> None:
        super().__init__(**settings)
        self._unread = unread

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (uvicorn's words)
        """Refuse what is not HTTP as all else is refused, with a problem in JSON."""
        problem = Problem("malformed-request", "this is not a request in HTTP/1.1; correct it")
        request_id = f"{secrets.token_hex(4)}-000000"
        body = msgspec.json.encode(problem.document(request_id))
        head = (
            f"HTTP/1.1 {problem.status} Bad Request\r\ncontent-type: {PROBLEM_TYPE}\r\n"
            f"content-length: {len(body)}\r\ncache-control: no-store\r\n"
            f"x-request-id: {request_id}\r\nx-content-type-options: nosniff\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def pause_writing(self) -> None:
        """Note that the client reads more slowly than it is answered."""
        super().pause_writing()
        self._unread.add(self.transport)

    def resume_writing(self) -> None:
        """Note that the client has read nearly all."""
        super().resume_writing()
        self._unread.discard(self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what the client did not read."""
        self._unread.discard(self.transport)
        super().connection_lost(exc)


class UnreadAnswers:
    """Ends connections whose clients do not read their answers.

    One on which nothing was read for ``write_seconds`` is ended. If more than ``unread_bytes`` wait
    on all connections, those that wait longest are ended.
    """

    def __init__(self, limits: Limits) -> None:
        self._most, self._seconds = limits.unread_bytes, limits.write_seconds
        # the oldest first, each with the timer of the next look at it
        self._waiting: dict[asyncio.WriteTransport, asyncio.TimerHandle] = {}

    def add(self, transport: asyncio.WriteTransport) -> None:
        """Note a connection on which an answer waits."""
        self._watch(transport)
        sizes = {one: one.get_write_buffer_size() for one in self._waiting}
        total = sum(sizes.values())
        for one, size in sizes.items():
            if total <= self._most:
                break
            total -= size
            self._end(one)

    def discard(self, transport: asyncio.WriteTransport) -> None:
        """Forget a connection on which nothing waits any more."""
        timer = self._waiting.pop(transport, None)
        if timer is not None:
            timer.cancel()

    def _watch(self, transport: asyncio.WriteTransport) -> None:
        size, later = transport.get_write_buffer_size(), asyncio.get_running_loop().call_later
        self._waiting[transport] = later(self._seconds, self._look, transport, size)

    def _look(self, transport: asyncio.WriteTransport, before: int) -> None:
        if transport.get_write_buffer_size() < before:
            self._watch(transport)
        else:
            self._end(transport)

    def _end(self, transport: asyncio.WriteTransport) -> None:
        self.discard(transport)
        transport.abort()


def connections(limits: Limits) -> Callable[..., Connection]:
    """Return what makes the connections of a service."""
    unread = UnreadAnswers(limits)
    return lambda **settings: Connection(unread, **settings)
