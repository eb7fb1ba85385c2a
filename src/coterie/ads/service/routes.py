"""The routes of the service: what each of them answers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from coterie.ads import protocol
from coterie.ads.protocol import Limits
from coterie.ads.service import bulk_curves
from coterie.ads.service.answering import (
    answer_lines,
    answer_slices,
    compressed,
    make_batch,
    quick_answer,
    read_questions,
)
from coterie.ads.service.fair_queue import FairQueue, Slices, in_one_slice
from coterie.ads.service.metrics import CONTENT_TYPE_LATEST, Metrics
from coterie.ads.service.model_holder import ModelHolder
from coterie.ads.service.pages import accepts_gzip, has_tag, page_answer
from coterie.ads.service.problems import KINDS, Problem, invalid
from coterie.ads.service.served_model import ServedModel

__all__ = ["Operation", "Routes", "operations"]

T = TypeVar("T")
JSON, NDJSON = "application/json", "application/x-ndjson"
#: Larger bodies are read by the queue's thread, not by the event loop.
_SMALL_BODY = 8_192
_LINES_TOGETHER = 200
#: What a search and the details of an advertiser count for, in bids times days.
_LOOK_UP = 50


@dataclass(frozen=True)
class Operation:
    """A route and its description in the OpenAPI document.

    ``description`` is that of the handler. Types are those of
    :mod:`coterie.ads.protocol`.
    """

    method: str
    path: str
    handler: Callable[[Request], Awaitable[Response]]
    tag: str
    answers: Sequence[Any] = ()  # types of the JSON
    media: Sequence[str] = (JSON,)
    body: Any = None
    body_media: str = JSON
    query: type[msgspec.Struct] = protocol.NoQuery
    problems: Sequence[str] = ()
    needs_token: bool = True

    @property
    def operation_id(self) -> str:
        """A stable name for generated clients."""
        return self.handler.__name__

    @property
    def description(self) -> str:
        """The docstring of the handler."""
        return inspect.cleandoc(self.handler.__doc__ or "")


class Routes:
    """The handlers; their names are the operation ids of the OpenAPI document.

    ``stopping`` is set when the service is about to end.
    """

    def __init__(
        self, holder: ModelHolder, queue: FairQueue, metrics: Metrics, limits: Limits
    ) -> None:
        self._holder, self._queue = holder, queue
        self._metrics, self._limits = metrics, limits
        self._cached: dict[str, tuple[str, bytes, bytes]] = {}
        self.stopping = False

    async def live(self, request: Request) -> Response:  # noqa: ARG002 (Starlette's signature)
        """Report that the process answers."""
        return _json(protocol.Health("live"))

    async def ready(self, request: Request) -> Response:  # noqa: ARG002
        """Report whether new requests are welcome; not any more when the service is stopping."""
        if self.stopping:
            raise Problem("not-ready", "the service is stopping")
        return _json(protocol.Health("ready"))

    async def metrics(self, request: Request) -> Response:  # noqa: ARG002
        """Return metrics in the text format of Prometheus."""
        text = await asyncio.to_thread(self._metrics.text)
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def model(self, request: Request) -> Response:
        """Describe the served model: days, currency, grid of bids, warnings."""
        _query(request, protocol.NoQuery)
        served = await self._holder.current.with_details()
        named = {
            "name": served.name,
            "version": served.version.version,
            "loaded_at": served.loaded_at.isoformat(),
            "last_refusal": self._holder.last_refusal,
        }
        found = msgspec.convert({**served.book.summary(), **named}, protocol.Model)
        return _json(found, {"Cache-Control": "no-cache"})

    async def segments(self, request: Request) -> Response:
        """Return all segments with their words, sizes and curves."""
        _query(request, protocol.NoQuery)
        served = await self._holder.current.with_details()
        headers = {"ETag": served.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if has_tag(request, served.tag):
            return Response(status_code=304, headers=headers)
        kept = self._cached.get("segments")
        if kept is None or kept[0] != served.tag:
            body = await self._look_up(request, lambda: _encoded(served.segments()))
            zipped = await asyncio.to_thread(compressed, body)
            kept = self._cached["segments"] = (served.tag, body, zipped)
        return _plain_or_zipped(request, kept[1], kept[2], headers)

    async def advertisers(self, request: Request) -> Response:
        """List advertisers whose id contains a text, in any case.

        Ids that begin with the text come first, then by spend.
        """
        asked = _query(request, protocol.AdvertiserQuery)
        served = await self._holder.current.with_details()
        segment = None if asked.segment is UNSET else asked.segment
        page = partial(served.page, asked.search, segment, asked.page, asked.page_size)
        return await self._tagged(request, served, page)

    async def advertiser(self, request: Request) -> Response:
        """Return what is known of one advertiser. Percent-encode the id, also its slashes."""
        _query(request, protocol.NoQuery)
        served = await self._holder.current.with_details()
        row = served.tables.row_of.get(request.path_params["id"])
        if row is None:
            raise Problem("unknown-advertiser", "the model has no advertiser of this id")
        return await self._tagged(request, served, partial(served.advertiser, row))

    async def forecast(self, request: Request) -> Response:
        """Forecast impressions, spend, clicks and conversions at bids.

        The body is one question, or a list of up to 1,000. A fault in any question refuses the
        whole list.
        """
        _query(request, protocol.NoQuery)
        _check_media(request, JSON)
        body = await self._body(request)
        served, limits = self._holder.current, self._limits
        if len(body) <= _SMALL_BODY:
            asked = read_questions(body)
            found = quick_answer(served, asked, limits)
            if found is not None:
                self._metrics.forecasts.inc(asked.n_bids)  # type: ignore[union-attr]
                return Response(found, media_type=JSON)
        else:
            cost = len(body) // 64
            reading = in_one_slice(partial(read_questions, body), cost)
            asked = await self._queued(request, cost, reading)
        batch = make_batch(served, asked, limits)
        compress = accepts_gzip(request)
        slices = answer_slices(batch, limits, compress=compress)
        found, zipped = await self._queued(request, batch.cost(limits), slices)
        self._metrics.forecasts.inc(sum(batch.n_bids))
        headers = {"Vary": "Accept-Encoding"} | ({"Content-Encoding": "gzip"} if zipped else {})
        return Response(found, media_type=JSON, headers=headers)

    async def forecast_stream(self, request: Request) -> Response:
        """Answer any number of questions, one a line, while they arrive (NDJSON).

        Each line of the answer is an answer or a problem, in the order asked.
        """
        _query(request, protocol.NoQuery)
        _check_media(request, NDJSON)
        return _ReadingStream(self._lines(request), media_type=NDJSON)

    async def curves(self, request: Request) -> Response:
        """Return the curves of all advertisers as one table, for bulk use.

        Columns: advertiser, bid (CPM), win_rate, win_rate_low, win_rate_high, cost (eCPM). The
        metadata of the schema has the version of the model and the currency.
        """
        asked = _query(request, protocol.CurveQuery)
        served = await self._holder.current.with_details()
        segment = None if asked.segment is UNSET else asked.segment
        parts = bulk_curves.written(served, asked.format, segment)
        media = bulk_curves.MEDIA[asked.format]
        return StreamingResponse(self._parts(request, parts), media_type=media, headers=_NO_STORE)

    async def problem_kind(self, request: Request) -> Response:
        """Explain a kind of problem in plain text."""
        kind = KINDS.get(request.path_params["name"])
        if kind is None:
            raise HTTPException(404)
        return PlainTextResponse(f"{kind.title} (status {kind.status}). {kind.advice}\n")

    async def page(self, request: Request) -> Response:
        """Return the what-if page."""
        return page_answer(request, "")

    async def asset(self, request: Request) -> Response:
        """Return a script or a style of the page."""
        return page_answer(request, request.path_params["name"])

    async def _queued(self, request: Request, cost: int, slices: Slices[T], **how: Any) -> T:
        """Do work in the client's turn, within the time limit."""
        seconds = self._limits.request_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._queue.run(request.scope["coterie.client"], cost, slices, **how)
        except TimeoutError:
            raise Problem("timed-out", f"there is no answer after {seconds:g} s") from None

    async def _look_up(self, request: Request, find: Callable[[], T]) -> T:
        return await self._queued(request, _LOOK_UP, in_one_slice(find, _LOOK_UP))

    async def _tagged(
        self, request: Request, served: ServedModel, find: Callable[[], Any]
    ) -> Response:
        """Return an answer that stays valid as long as the model; 304 if the client has it."""
        headers = {"ETag": served.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if has_tag(request, served.tag):
            return Response(status_code=304, headers=headers)
        body = await self._look_up(request, lambda: _encoded(find()))
        return _plain_or_zipped(request, body, None, headers)

    async def _body(self, request: Request) -> bytes:
        """Return the body; refuse one that is too large or too slow."""
        size = request.scope["coterie.headers"].get(b"content-length", b"")
        most, seconds = self._limits.body_bytes, self._limits.body_seconds
        if size.isdigit() and int(size) > most:
            raise _too_large(most)
        try:
            async with asyncio.timeout(seconds):
                return await _read(request, most)
        except TimeoutError:
            raise Problem("slow-body", f"the body did not arrive within {seconds:g} s") from None

    async def _lines(self, request: Request) -> AsyncIterator[bytes]:
        rest, most = b"", self._limits.body_bytes
        async for part in _patient(request.stream(), self._limits.body_seconds):
            *lines, rest = (rest + part).split(b"\n")
            async for found in self._answered(request, lines):
                yield found
            if len(rest) > most:
                yield _encoded(_too_large(most).document()) + b"\n"
                return
        async for found in self._answered(request, [rest]):
            yield found

    async def _answered(self, request: Request, lines: list[bytes]) -> AsyncIterator[bytes]:
        """Yield the answers to some lines, some at a time."""
        asked, first = [line for line in lines if line.strip()], 0
        while some := asked[first : first + _LINES_TOGETHER]:
            slices = answer_lines(self._holder.current, some, self._limits)
            cost = sum(map(len, some)) // 64 + 65
            found, n_bids, n_lines = await self._queued(request, cost, slices, waits=True)
            self._metrics.forecasts.inc(n_bids)
            first += n_lines
            yield found

    async def _parts(self, request: Request, slices: bulk_curves.Parts) -> AsyncIterator[bytes]:
        """Yield the parts of a large answer, each made in the client's turn."""
        for cost, make in slices:
            yield await self._queued(request, cost, in_one_slice(make, cost), waits=True)


class _ReadingStream(StreamingResponse):
    """An answer that reads the body meanwhile.

    The base class reads it too, to notice a client that leaves, and would throw parts away.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await self.stream_response(send)


def operations(routes: Routes) -> list[Operation]:
    """Return all routes that are described in the OpenAPI document, and how."""
    get = partial(Operation, "GET")
    post = partial(Operation, "POST", needs_token=True)
    forecasts, model, operation = "Forecasts", "Model", "Operation"
    return [
        post(
            "/v1/forecast",
            routes.forecast,
            forecasts,
            answers=(protocol.Answer, protocol.Answers),
            body=protocol.Question | list[protocol.Question],
            problems=_OF_QUESTIONS,
        ),
        post(
            "/v1/forecast/stream",
            routes.forecast_stream,
            forecasts,
            media=[NDJSON],
            body_media=NDJSON,
            problems=["unsupported-media-type"],
        ),
        get(
            "/v1/curves",
            routes.curves,
            forecasts,
            media=list(bulk_curves.MEDIA.values()),
            query=protocol.CurveQuery,
        ),
        get("/v1/model", routes.model, model, answers=[protocol.Model]),
        get("/v1/segments", routes.segments, model, answers=[protocol.Segments]),
        get(
            "/v1/advertisers",
            routes.advertisers,
            model,
            answers=[protocol.AdvertiserPage],
            query=protocol.AdvertiserQuery,
        ),
        get(
            "/v1/advertisers/{id}",
            routes.advertiser,
            model,
            answers=[protocol.Advertiser],
            problems=["unknown-advertiser"],
        ),
        get("/health/live", routes.live, operation, answers=[protocol.Health], needs_token=False),
        replace(
            get("/health/ready", routes.ready, operation, answers=[protocol.Health]),
            problems=["not-ready"],
            needs_token=False,
        ),
        get("/metrics", routes.metrics, operation, media=["text/plain"]),
    ]


_NO_STORE = {"Cache-Control": "no-store"}
_OF_QUESTIONS = (
    "malformed-body",
    "slow-body",
    "body-too-large",
    "unsupported-media-type",
    "invalid-question",
)
_encoded = msgspec.json.Encoder().encode


def _json(content: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(_encoded(content), media_type=JSON, headers=headers or _NO_STORE)


def _plain_or_zipped(
    request: Request, body: bytes, zipped: bytes | None, headers: dict[str, str]
) -> Response:
    if zipped is None or not accepts_gzip(request):
        return Response(body, media_type=JSON, headers=headers)
    return Response(zipped, media_type=JSON, headers=headers | {"Content-Encoding": "gzip"})


Query = TypeVar("Query", bound=msgspec.Struct)


def _query(request: Request, kind: type[Query]) -> Query:
    """Return the query parameters; refuse unknown, repeated and invalid ones."""
    if not request.scope["query_string"]:
        return kind()
    given = request.query_params.multi_items()
    members = dict(given)
    if len(members) < len(given):
        raise invalid("invalid-query", [protocol.Fault("", "a parameter is given twice")])
    try:
        return msgspec.convert(members, kind, strict=False)
    except msgspec.ValidationError as error:
        what, _, at = str(error).partition(" - at `$.")
        raise invalid("invalid-query", [protocol.Fault(at.rstrip("`"), what)]) from None


def _check_media(request: Request, wanted: str) -> None:
    """Refuse a body whose Content-Type is not as wanted, in UTF-8."""
    given = request.scope["coterie.headers"].get(b"content-type", b"").decode("latin-1")
    if given == wanted:
        return
    kind, *settings = given.lower().split(";")
    plain = {one.replace(" ", "").replace('"', "") for one in settings}
    if kind.strip() != wanted or plain - {"", "charset=utf-8"}:
        raise Problem("unsupported-media-type", f"send the header Content-Type: {wanted}, in UTF-8")


async def _read(request: Request, most: int) -> bytes:
    """Return the whole body; Starlette's way to it takes longer than a forecast."""
    body = b""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > most:
            raise _too_large(most)
        if not message.get("more_body"):
            return body


def _too_large(most: int) -> Problem:
    return Problem("body-too-large", f"the body has more than {most:,} bytes; send less at a time")


async def _patient(parts: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """Yield the parts of a body; end when the next one does not arrive in time."""
    each = aiter(parts)
    try:
        while True:
            async with asyncio.timeout(seconds):
                part = await anext(each)
            yield part
    except (StopAsyncIteration, TimeoutError, ClientDisconnect):
        return
