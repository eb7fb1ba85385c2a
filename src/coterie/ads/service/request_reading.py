"""Reading of requests: query parameters, media types, bodies."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from coterie.ads.protocol import Fault, Limits
from coterie.ads.service.problems import Problem, invalid

__all__ = ["BodyReader", "accepts_gzip", "check_media", "has_tag", "read_query"]

Query = TypeVar("Query", bound=msgspec.Struct)


def read_query(request: Request, kind: type[Query]) -> Query:
    """Return the query parameters; refuse unknown, repeated and invalid ones."""
    if not request.scope["query_string"]:
        return kind()
    given = request.query_params.multi_items()
    members = dict(given)
    if len(members) < len(given):
        raise invalid("invalid-query", [Fault("", "a parameter is given twice")])
    try:
        return msgspec.convert(members, kind, strict=False)
    except msgspec.ValidationError as error:
        what, _, at = str(error).partition(" - at `$.")
        raise invalid("invalid-query", [Fault(at.rstrip("`"), what)]) from None


def check_media(request: Request, wanted: str) -> None:
    """Refuse a body whose Content-Type is not as wanted, in UTF-8."""
    given = request.scope["coterie.headers"].get(b"content-type", b"").decode("latin-1")
    if given == wanted:
        return
    kind, *settings = given.lower().split(";")
    plain = {one.replace(" ", "").replace('"', "") for one in settings}
    if kind.strip() != wanted or plain - {"", "charset=utf-8"}:
        raise Problem("unsupported-media-type", f"send the header Content-Type: {wanted}, in UTF-8")


def has_tag(request: Request, tag: str) -> bool:
    """Whether If-None-Match names a tag; a proxy may have marked it as weak."""
    given = request.headers.get("if-none-match", "")
    tags = [one.strip().removeprefix("W/") for one in given.split(",")]
    return tag in tags or tags == ["*"]


def accepts_gzip(request: Request) -> bool:
    """Whether the client accepts answers in gzip."""
    for part in request.headers.get("accept-encoding", "").lower().split(","):
        coding, *settings = (one.strip() for one in part.split(";"))
        if coding in {"gzip", "*"}:
            # a weight of 0 forbids the coding
            return not any(re.fullmatch(r"q\s*=\s*0(\.0*)?", one) for one in settings)
    return False


class BodyReader:
    """Reads bodies within limits of size and time.

    All bodies that are being read are looked at together from time to time: a timer for each would
    take longer than most forecasts.
    """

    def __init__(self, limits: Limits) -> None:
        self._most, self._seconds = limits.body_bytes, limits.body_seconds
        self._due: dict[asyncio.Task[object], float] = {}
        self._watched_by: asyncio.AbstractEventLoop | None = None

    async def whole(self, request: Request) -> bytes:
        """Return the body; refuse one that is too large or too slow."""
        size = request.scope["coterie.headers"].get(b"content-length", b"")
        if size.isdigit() and int(size) > self._most:
            raise self.too_large()
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self._due[task] = loop.time() + self._seconds
        if self._watched_by is not loop:
            self._watched_by = loop
            self._watch(loop)
        try:
            return await self._read(request)
        except asyncio.CancelledError:
            if task in self._due:
                raise
            task.uncancel()
            raise self.too_slow() from None
        finally:
            self._due.pop(task, None)

    async def parts(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the parts of a body as they arrive; a Problem if the next one is too slow."""
        each = aiter(request.stream())
        try:
            while True:
                async with asyncio.timeout(self._seconds):
                    part = await anext(each)
                yield part
        except (StopAsyncIteration, ClientDisconnect):
            return
        except TimeoutError:
            raise self.too_slow() from None

    def too_large(self) -> Problem:
        """Return the problem of a body, or of a line, that is too large."""
        most = f"{self._most:,}"
        return Problem("body-too-large", f"there are more than {most} bytes; send less at a time")

    def too_slow(self) -> Problem:
        """Return the problem of a body that arrives too slowly."""
        return Problem("slow-body", f"the body did not arrive within {self._seconds:g} s")

    async def _read(self, request: Request) -> bytes:
        body = b""
        while True:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            body += message.get("body", b"")
            if len(body) > self._most:
                raise self.too_large()
            if not message.get("more_body"):
                return body

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give up bodies that are too slow; look again soon if there are others."""
        for task in [task for task, due in self._due.items() if due <= loop.time()]:
            del self._due[task]
            task.cancel()
        if self._due:
            loop.call_later(min(1.0, self._seconds / 4), self._watch, loop)
        else:
            self._watched_by = None
