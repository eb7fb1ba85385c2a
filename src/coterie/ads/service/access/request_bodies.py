"""A request's body, read whole and within limits, before anything looks at it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from coterie.ads.protocol import Limits
from coterie.ads.service.problems import Problem, busy

__all__ = ["BodyReader", "ClientGoneError", "drained", "replayed"]

Receive = Callable[[], Awaitable[Any]]

#: An answer that is given before the body was read is lost where the connection is closed on a
#: client that still writes; so much is read and thrown away first.
_DRAINED_BYTES = 16 * 1_048_576


class ClientGoneError(Exception):
    """The client closed the connection before its request was complete."""


class BodyReader:
    """Reads bodies, and knows how much it holds of those that nobody works on yet."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buffered = 0
        self._of_client: dict[str, int] = {}

    async def read(self, client: str, declared: int | None, receive: Receive) -> bytes:
        """Return the whole body; too large a ``declared`` size is refused before it is read.

        Raises
        ------
        Problem
            413 where the body is too large, 429 where all of the client's together are, and 503
            where those of all clients are.
        ClientGoneError
            Where the client went away.
        """
        if declared is not None and declared > self._limits.body_bytes:
            raise self._too_large()
        message = await receive()
        body: bytes = message.get("body", b"")
        if message["type"] == "http.request" and not message.get("more_body", False):
            if len(body) > self._limits.body_bytes:
                raise self._too_large()
            return body
        return await self._read_on(client, message, receive)

    @contextmanager
    def kept(self, client: str, body: bytes) -> Iterator[None]:
        """Count a body that was read while its request waits; a :class:`Problem` as in reading."""
        size = len(body)
        self._add(client, size)
        try:
            yield
        finally:
            self._remove(client, size)

    async def _read_on(self, client: str, message: Any, receive: Receive) -> bytes:
        """Return the body of which ``message`` is the first part."""
        body = bytearray()
        try:
            while True:
                if message["type"] != "http.request":
                    raise ClientGoneError
                part = message.get("body", b"")
                if len(body) + len(part) > self._limits.body_bytes:
                    raise self._too_large()
                self._add(client, len(part))
                body += part
                if not message.get("more_body", False):
                    return bytes(body)
                message = await receive()
        finally:
            self._remove(client, len(body))

    def _add(self, client: str, size: int) -> None:
        """Count more bytes of a client, unless that makes too many."""
        own = self._of_client.get(client, 0) + size
        if own > self._limits.buffered_bytes_per_client:
            raise busy(
                "too many large bodies of this client arrive at once; send fewer at a time",
                status=429,
            )
        if self._buffered + size > self._limits.buffered_bytes:
            raise busy(
                "too many large bodies arrive at once; try again after the seconds in Retry-After"
            )
        self._buffered += size
        self._of_client[client] = own

    def _remove(self, client: str, size: int) -> None:
        """Count bytes no longer; a client that holds none is forgotten."""
        self._buffered -= size
        own = self._of_client.get(client, 0) - size
        if own > 0:
            self._of_client[client] = own
        else:
            self._of_client.pop(client, None)

    def _too_large(self) -> Problem:
        return Problem(
            413,
            "Content Too Large",
            f"the body is larger than {self._limits.body_bytes} bytes; "
            "send fewer questions at a time",
        )


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that gives a body that was already read, then what follows."""
    given = False

    async def receive_again() -> Any:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


async def drained(receive: Receive) -> None:
    """Read on until the client has sent all, went away, or sent beyond reason."""
    size = 0
    while size <= _DRAINED_BYTES:
        message = await receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            return
        size += len(message.get("body", b""))
