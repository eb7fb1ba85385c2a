"""A request's body, read whole and within limits, before anything looks at it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from coterie.ads.service.limits import Limits
from coterie.ads.service.problems import Problem

__all__ = ["BodyReader", "ClientGoneError", "drained", "replayed"]

Receive = Callable[[], Awaitable[Any]]

#: An answer that is given before the body was read is lost where the connection is closed on a
#: client that still writes; so much is read and thrown away first.
_DRAINED_BYTES = 16 * 1_048_576


class ClientGoneError(Exception):
    """The client closed the connection before its request was complete."""


class BodyReader:
    """Reads bodies, and knows how much of unfinished ones it holds.

    Parameters
    ----------
    limits : Limits
        ``body_bytes`` and ``buffered_bytes``.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buffered = 0

    async def read(self, declared: int | None, receive: Receive) -> bytes:
        """The whole body.

        Parameters
        ----------
        declared : int, optional
            What the client says is its size; too large a one is refused before it is read.
        receive : callable
            As ASGI has it.

        Raises
        ------
        Problem
            413 where the body is too large, 503 where all bodies together are.
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
        return await self._read_on(message, receive)

    async def _read_on(self, message: Any, receive: Receive) -> bytes:
        """The body of which ``message`` is the first part."""
        body = bytearray()
        try:
            while True:
                if message["type"] != "http.request":
                    raise ClientGoneError
                part = message.get("body", b"")
                if len(body) + len(part) > self._limits.body_bytes:
                    raise self._too_large()
                if self._buffered + len(part) > self._limits.buffered_bytes:
                    raise _too_much_in_all()
                body += part
                self._buffered += len(part)
                if not message.get("more_body", False):
                    return bytes(body)
                message = await receive()
        finally:
            self._buffered -= len(body)

    def _too_large(self) -> Problem:
        return Problem(
            413,
            "Content Too Large",
            f"the body is larger than {self._limits.body_bytes} bytes; "
            "send fewer questions at a time",
        )


def replayed(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives a body that was read already, and then what comes after it."""
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


def _too_much_in_all() -> Problem:
    return Problem(
        503,
        "Service Unavailable",
        "too many large bodies arrive at once; try again after the seconds in Retry-After",
        headers={"Retry-After": "1"},
    )
