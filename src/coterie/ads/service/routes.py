"""The routes of the service: what each of them answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache, partial
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from coterie.ads import protocol
from coterie.ads.page.served_files import page_files
from coterie.ads.protocol import CURVE_MEDIA, JSON, OPERATIONS, Limits, Question
from coterie.ads.service.answering import answer_slices, compressed, quick_answer
from coterie.ads.service.deciding import DECISIONS, CurveParts, curve_parts, decide
from coterie.ads.service.fair_queue import FairQueue, Slices, in_one_slice
from coterie.ads.service.model_holder import ModelHolder
from coterie.ads.service.monitoring import Metrics
from coterie.ads.service.problems import KINDS, Problem
from coterie.ads.service.request_reading import (
    NO_JSON,
    QUESTIONS,
    SMALL_BODY,
    Batch,
    BodyReader,
    accepts_gzip,
    check_media,
    has_tag,
    make_batch,
    read_body,
)
from coterie.ads.service.served_model import ServedModel

T = TypeVar("T")
_decoder = cache(msgspec.json.Decoder)
Made = TypeVar("Made")
#: What a search and the details of an advertiser count for, in bids times days.
_LOOK_UP = 50


class Routes:
    """The handlers of operations, which have their names, and those of the page.

    ``stopping`` is set when the service is about to end.
    """

    def __init__(
        self, holder: ModelHolder, queue: FairQueue, metrics: Metrics, limits: Limits
    ) -> None:
        self._holder, self._queue = holder, queue
        self._metrics, self._limits = metrics, limits
        self._bodies = BodyReader(limits)
        self._segments = ("", b"", b"")  # the last answer: its tag, its JSON, the same in gzip
        self.stopping = False

    def handlers(self) -> dict[str, Callable[[Request], Awaitable[Response]]]:
        """Return the handler of each operation by its name."""
        decided = {name: partial(self._decided, name) for name in DECISIONS}
        return {name: decided.get(name) or getattr(self, name) for name in OPERATIONS}

    async def live(self, request: Request) -> Response:  # noqa: ARG002 (Starlette's signature)
        return _json(protocol.Health("live"))

    async def ready(self, request: Request) -> Response:  # noqa: ARG002
        if self.stopping:
            raise Problem("not-ready", "the service is stopping")
        return _json(protocol.Health("ready"))

    async def metrics(self, request: Request) -> Response:  # noqa: ARG002
        text = await asyncio.to_thread(self._metrics.text)
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def model(self, request: Request) -> Response:  # noqa: ARG002
        served = await self._holder.current.with_details()
        named = {
            "name": served.name,
            "version": served.version.version,
            "loaded_at": served.loaded_at.isoformat(),
            "last_refusal": self._holder.last_refusal,
        }
        model = msgspec.convert({**served.book.summary(), **named}, protocol.Model)
        return _json(model, {"Cache-Control": "no-cache"})

    async def segments(self, request: Request) -> Response:
        served = await self._holder.current.with_details()
        headers = _tag_headers(served)
        if has_tag(request, served.tag):
            return Response(status_code=304, headers=headers)
        tag, body, zipped = self._segments
        if tag != served.tag:
            body = await self._look_up(request, lambda: _encoded(served.segments()))
            zipped = await asyncio.to_thread(compressed, body)
            self._segments = (served.tag, body, zipped)
        return _plain_or_zipped(request, body, zipped, headers)

    async def advertisers(self, request: Request) -> Response:
        query = request.scope["coterie.query"]
        served = await self._holder.current.with_details()
        return await self._tagged(request, served, partial(served.page, query))

    async def advertiser(self, request: Request) -> Response:
        served = await self._holder.current.with_details()
        row = served.tables.row_of.get(request.path_params["id"])
        if row is None:
            raise Problem("unknown-advertiser", "the model has no advertiser of this id")
        return await self._tagged(request, served, partial(served.advertiser, row))

    async def forecast(self, request: Request) -> Response:
        limits = self._limits

        def made(asked: Question | list[Question]) -> bytes | Batch:
            served = self._holder.current
            answer = quick_answer(served, asked, limits)
            if answer is None:
                return make_batch(served, asked, limits)
            self._metrics.forecasts.inc(asked.n_bids)  # type: ignore[union-attr]
            return answer

        batch = await self._read(request, QUESTIONS, made)
        if isinstance(batch, bytes):
            return Response(batch, media_type=JSON)
        slices = answer_slices(batch, limits, compress=accepts_gzip(request))
        answer, zipped = await self._queued(request, sum(batch.works(limits)), slices)
        self._metrics.forecasts.inc(sum(batch.n_bids))
        headers = {"Vary": "Accept-Encoding"} | ({"Content-Encoding": "gzip"} if zipped else {})
        return Response(answer, media_type=JSON, headers=headers)

    async def curves(self, request: Request) -> Response:
        query = request.scope["coterie.query"]
        served = await self._holder.current.with_details()
        segment = None if query.segment is UNSET else query.segment
        parts = curve_parts(served, query.format, segment)
        media = CURVE_MEDIA[query.format]
        if request.method == "HEAD":
            return Response(media_type=media, headers=_NO_STORE)
        return StreamingResponse(self._parts(request, parts), media_type=media, headers=_NO_STORE)

    async def problem_kind(self, request: Request) -> Response:
        """Explain a kind of problem in plain text."""
        kind = KINDS.get(request.path_params["name"])
        if kind is None:
            raise Problem("not-found", "there is no kind of problem of this name")
        return PlainTextResponse(f"{kind.title} (status {kind.status}). {kind.advice}\n")

    async def page(self, request: Request) -> Response:
        """Return the what-if page."""
        return _page_file(request, "")

    async def asset(self, request: Request) -> Response:
        """Return a script or a style of the page."""
        return _page_file(request, request.path_params["name"])

    async def _decided(self, name: str, request: Request) -> Response:
        decoder = _decoder(OPERATIONS[name].question)
        question = await self._read(request, decoder, lambda asked: asked)
        cost, slices = decide(name, self._holder.current, question, self._limits)
        return Response(await self._queued(request, cost, slices), media_type=JSON)

    async def _read(
        self, request: Request, decoder: msgspec.json.Decoder[T], make: Callable[[T], Made]
    ) -> Made:
        """Return what is made of the questions in the body.

        The event loop reads small bodies. Large ones, and the words for what is wrong, which take
        longer than most answers, are left to the queue.
        """
        check_media(request, JSON)
        body = await self._bodies.whole(request)
        if len(body) <= SMALL_BODY:
            with contextlib.suppress(*NO_JSON):
                return make(decoder.decode(body))
        cost = max(len(body) // 64, _LOOK_UP)
        reading = in_one_slice(lambda: make(read_body(body, decoder)), cost)
        return await self._queued(request, cost, reading)

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
        headers = _tag_headers(served)
        if has_tag(request, served.tag):
            return Response(status_code=304, headers=headers)
        body = await self._look_up(request, lambda: _encoded(find()))
        return Response(body, media_type=JSON, headers=headers)

    async def _parts(self, request: Request, slices: CurveParts) -> AsyncIterator[bytes]:
        """Yield the parts of a large answer, each made in the client's turn."""
        for cost, make in slices:
            yield await self._queued(request, cost, in_one_slice(make, cost), waits=True)


_NO_STORE = {"Cache-Control": "no-store"}
_FOR_EVER = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"
_CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
#: What a browser may do with the page: almost only what belongs to the page.
_POLICIES = {
    "Content-Security-Policy": _CONTENT_POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_encoded = msgspec.json.Encoder().encode


def _json(content: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(_encoded(content), media_type=JSON, headers=headers or _NO_STORE)


def _tag_headers(served: ServedModel) -> dict[str, str]:
    return {"ETag": served.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}


def _plain_or_zipped(
    request: Request, body: bytes, zipped: bytes, headers: dict[str, str]
) -> Response:
    headers = {"Content-Type": JSON, **headers}
    if not accepts_gzip(request):
        return Response(body, headers=headers)
    return Response(zipped, headers=headers | {"Content-Encoding": "gzip"})


def _page_file(request: Request, name: str) -> Response:
    """Return a file of the page, or that the browser has it already."""
    file = page_files().get(name)
    if file is None:
        raise Problem("not-found", "the page has no file of this name")
    current = name and request.query_params.get("v") == file.hash
    headers = {
        "ETag": f'"{file.hash}"',
        "Cache-Control": _FOR_EVER if current else _ASK_AGAIN,
        "Content-Type": file.kind,
        "Vary": "Accept-Encoding",
        **_POLICIES,
    }
    if has_tag(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return _plain_or_zipped(request, file.body, file.zipped, headers)
