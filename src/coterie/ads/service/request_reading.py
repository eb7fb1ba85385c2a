"""Reading of requests: query parameters, headers, and bodies within limits of size and time."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec import UNSET
from starlette.requests import ClientDisconnect, Request

from coterie.ads.protocol import JSON, Fault, Limits
from coterie.ads.protocol.faults import fault_of
from coterie.ads.service.problems import Problem, invalid

T = TypeVar("T")
Query = TypeVar("Query", bound=msgspec.Struct)

#: Larger bodies are read by the queue's thread, not by the event loop.
SMALL_BODY = 2_048
#: Larger bodies are read by turns, so many of a client at a time; the server holds back the others.
_LARGE_BODY, _MOST_LARGE = 65_536, 4
#: What msgspec raises for bytes that are not JSON of a type; the last for text that is not UTF-8.
NO_JSON = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


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
        raise invalid("invalid-query", [fault_of(error, kind, members)]) from None


def check_media(request: Request) -> None:
    """Refuse a body whose Content-Type is not JSON in UTF-8."""
    given = request.scope["coterie.headers"].get(b"content-type", b"").decode("latin-1")
    if given == JSON:
        return
    kind, *settings = given.lower().split(";")
    plain = {one.replace(" ", "").replace('"', "") for one in settings}
    if kind.strip() != JSON or plain - {"", "charset=utf-8"}:
        raise Problem("unsupported-media-type", f"send the header Content-Type: {JSON}, in UTF-8")


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
    """Reads bodies within limits of size and time, of each client few large ones at a time.

    All bodies that are being read are looked at together from time to time: a timer for each would
    take a tenth of the time of a forecast.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        # those of clients that are sending large bodies
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._due: dict[asyncio.Task[object], float] = {}
        self._watched_by: asyncio.AbstractEventLoop | None = None

    async def whole(self, request: Request) -> bytes:
        """Return the body; refuse one that is too large or too slow."""
        given = request.scope["coterie.headers"].get(b"content-length", b"")
        size = int(given) if given.isdigit() else self._limits.body_bytes  # in chunks
        if size > self._limits.body_bytes:
            raise self._too_large("bytes", self._limits.body_bytes)
        if size <= _LARGE_BODY:
            return await self._read(request)
        client = request.scope["coterie.client"]
        turn = self._turns.get(client)
        if turn is None:
            turn = self._turns[client] = asyncio.Semaphore(_MOST_LARGE)
        async with turn:
            return await self._read(request)

    async def _read(self, request: Request) -> bytes:
        limits, parts, size, more = self._limits, [], 0, True
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self._due[task] = loop.time() + limits.body_seconds
        if self._watched_by is not loop:
            self._watch(loop)
        try:
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limits.body_bytes:
                    raise self._too_large("bytes", limits.body_bytes)
                more = message.get("more_body", False)
        except asyncio.CancelledError:
            if task in self._due:
                raise
            task.uncancel()
            what = f"the body did not arrive within {limits.body_seconds:g} s"
            raise Problem("slow-body", what) from None
        finally:
            self._due.pop(task, None)
        body = b"".join(parts)
        # commas limit the members of lists and objects, and take almost no time to count
        if body.count(b",") > limits.commas:
            raise self._too_large("commas", limits.commas)
        return body

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give up bodies that are too slow; look again soon if there are others."""
        for task in [task for task, due in self._due.items() if due <= loop.time()]:
            del self._due[task]
            task.cancel()
        self._watched_by = loop if self._due else None
        if self._due:
            loop.call_later(min(1.0, self._limits.body_seconds / 4), self._watch, loop)

    @staticmethod
    def _too_large(things: str, most: int) -> Problem:
        what = f"there are more than {most:,} {things}; send less at a time"
        return Problem("body-too-large", what)


def read_body(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Return what a decoder finds in a body; a Problem if it is not JSON or not valid.

    A decoder stops at the first fault, so that types limit the depth.
    """
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        given = UNSET
        if len(body) <= SMALL_BODY:
            # read again, to show what came; what follows the fault may not even be JSON
            with contextlib.suppress(*NO_JSON):
                given = msgspec.json.decode(body)
        fault = fault_of(error, decoder.type, given)
        raise invalid("invalid-question", [fault]) from None
    except NO_JSON as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise Problem("malformed-body", f"the body is not JSON: {reason}") from None
