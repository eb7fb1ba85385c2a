"""The service as one ASGI application: what every request passes, and the routes.

On the way in: an id, the host name, the token. On the way out: headers, metrics, a line in the log.
Every failure becomes a problem in JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from coterie.ads import protocol
from coterie.ads.page.parts import served_files
from coterie.ads.protocol import CURVE_MEDIA, JSON, OPERATIONS, Limits, Question
from coterie.ads.service.access import AccessPolicy
from coterie.ads.service.answering import (
    DECISIONS,
    Batch,
    CurveParts,
    answer_slices,
    curve_parts,
    decide,
    quick_answer,
)
from coterie.ads.service.fair_queue import FairQueue, Slices, in_one_slice
from coterie.ads.service.monitoring import METHODS, Metrics, log_request
from coterie.ads.service.openapi import openapi_document
from coterie.ads.service.problems import KINDS, Problem, problem_response
from coterie.ads.service.request_reading import (
    NO_JSON,
    SMALL_BODY,
    BodyReader,
    accepts_gzip,
    check_media,
    has_tag,
    read_body,
    read_query,
)
from coterie.ads.service.served_model import ModelHolder, ServedModel

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Handler = Callable[[Request], Awaitable[Response]]
Found = TypeVar("Found")
Asked = TypeVar("Asked")

_LOG = logging.getLogger("coterie")
#: Routes that need no token: the page, which asks for one, and the signs of life.
OPEN_ROUTES = frozenset(
    {"/", "/assets/{name}", "/problems/{name}", "/health/live", "/health/ready"}
)
#: How paths that are not ours are called in logs and metrics.
UNKNOWN = "(unknown)"
#: The status in logs and metrics of a request whose client did not wait for the answer.
_GONE = 499
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
#: Of two of these, programs on the way would not agree which one is meant.
_ONCE = (b"host", b"authorization", b"content-type")
#: What a search and the details of an advertiser count for, in bids times days.
_LOOK_UP = 50
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
_ENCODE = msgspec.json.Encoder().encode
_decoder = cache(msgspec.json.Decoder)
_QUESTIONS: msgspec.json.Decoder[Question | list[Question]] = _decoder(Question | list[Question])


class _Route(NamedTuple):
    template: str  # the path; a part in braces at its end is the rest of the path
    methods: tuple[str, ...]
    handler: Handler
    query: type[msgspec.Struct] | None = None  # the type of its parameters; None ignores them


class Application:
    """The service: its routes, and the frame around them.

    A handler has the name of its operation. It finds in ``scope["coterie.client"]`` who asks, by
    address and name of the token, in ``scope["coterie.headers"]`` the headers as a dictionary, in
    ``scope["coterie.query"]`` the query of its operation, and in ``scope["coterie.rest"]`` what
    stands in the path for the braces of its template.

    ``policy.tokens`` may be replaced while it runs. ``stopping`` is set when it is about to end.
    """

    def __init__(
        self,
        holder: ModelHolder,
        queue: FairQueue,
        metrics: Metrics,
        policy: AccessPolicy,
        limits: Limits,
    ) -> None:
        self.holder, self.policy, self.stopping = holder, policy, False
        self._queue, self._metrics, self._limits = queue, metrics, limits
        self._bodies = BodyReader(limits)
        self._prefix, self._numbers = secrets.token_hex(4), itertools.count(1)
        document = _ENCODE(openapi_document())

        async def openapi(request: Request) -> Response:  # noqa: ARG001 (of all handlers)
            return Response(document, media_type=JSON)

        get = ("GET", "HEAD")
        routes = [
            _Route("/", get, self.page_file),
            _Route("/assets/{name}", get, self.page_file),
            _Route("/problems/{name}", get, self.problem_kind),
            _Route("/openapi.json", get, openapi),
        ]
        for name, one in OPERATIONS.items():
            handler = partial(self._decided, name) if name in DECISIONS else getattr(self, name)
            methods = get if one.method == "GET" else (one.method,)
            routes.append(_Route(one.path, methods, handler, one.query))
        self._by_path = {one.template: one for one in routes if "{" not in one.template}
        self._by_start = {
            one.template.partition("{")[0]: one for one in routes if "{" in one.template
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        began = time.perf_counter()
        headers = dict(scope["headers"])
        visit = _Visit(send, self._request_id(headers.get(b"x-request-id")), self.stopping)
        route, scope["coterie.rest"] = self._route_of(scope["path"])
        template = route.template if route else UNKNOWN
        try:
            self._admit(scope, headers, template)
            if route is None:
                raise Problem("not-found", "there is nothing at this path")
            if scope["method"] not in route.methods:
                raise Problem(
                    "method-not-allowed",
                    f"method not allowed: use {' or '.join(route.methods)}",
                    headers={"Allow": ", ".join(route.methods)},
                )
            request = Request(scope, receive)
            if route.query is not None:
                scope["coterie.query"] = read_query(request, route.query)
            response = await route.handler(request)
            await response(scope, receive, visit.send)
        except ClientDisconnect:
            visit.status = _GONE
        except Exception as error:
            await _answer_failure(error, visit, scope, receive)
        finally:
            seconds = time.perf_counter() - began
            method = scope["method"] if scope["method"] in METHODS else "OTHER"
            status = visit.status or _GONE
            self._metrics.answered(template, method, status, seconds)
            # a probe that should look elsewhere is no failure
            failed = status >= 500 and template != "/health/ready"
            log_request(failed, visit.request_id, method, template, status, seconds, visit.size)

    def template_of(self, path: str) -> str:
        """Return the template of the route of a path, for example ``/v1/advertisers/{id}``."""
        route, _ = self._route_of(path)
        return route.template if route else UNKNOWN

    def _route_of(self, path: str) -> tuple[_Route | None, str]:
        """Return the route of a path, and what stands there for the braces of its template."""
        if route := self._by_path.get(path):
            return route, ""
        for start, route in self._by_start.items():
            if path.startswith(start):
                return route, path.removeprefix(start)
        return None, ""

    def _request_id(self, given: bytes | None) -> str:
        """Return the id that the client gave, if it fits in a log line; else a new one."""
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given.decode()
        return f"{self._prefix}-{next(self._numbers):06x}"

    def _admit(self, scope: Scope, headers: dict[bytes, bytes], template: str) -> None:
        """Refuse a request with a wrong host or token; note who asks."""
        if len(headers) < len(scope["headers"]):
            names = [name for name, _ in scope["headers"]]
            for name in _ONCE:
                if names.count(name) > 1:
                    raise Problem(
                        "malformed-request", f"send the header {name.decode().title()} once"
                    )
        host = headers.get(b"host")
        if host is None:
            raise Problem("malformed-request", "send the header Host once")
        if not self.policy.accepts_host(host.decode("latin-1")):
            raise Problem(
                "unknown-host", "the service does not answer to the host name of this request"
            )
        token = self.policy.token_name(headers.get(b"authorization", b"").decode("latin-1"))
        if token is None and template not in OPEN_ROUTES:
            raise Problem(
                "token-required",
                "send the header Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )
        address = scope.get("client")
        scope["coterie.client"] = f"{address[0] if address else ''} {token or ''}"
        scope["coterie.headers"] = headers

    async def live(self, request: Request) -> Response:  # noqa: ARG002 (of all handlers)
        return _json(protocol.Health("live"))

    async def ready(self, request: Request) -> Response:  # noqa: ARG002
        if self.stopping:
            raise Problem("not-ready", "the service is stopping")
        return _json(protocol.Health("ready"))

    async def metrics(self, request: Request) -> Response:  # noqa: ARG002
        text = await asyncio.to_thread(self._metrics.text)
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def model(self, request: Request) -> Response:  # noqa: ARG002
        served = await self.holder.current.with_details()
        model = protocol.Model(
            name=served.name,
            version=served.version.version,
            loaded_at=served.loaded_at.isoformat(),
            last_refusal=self.holder.last_refusal,
            **served.book.summary(),
        )
        return _json(model, {"Cache-Control": _ASK_AGAIN})

    async def segments(self, request: Request) -> Response:
        served = await self.holder.current.with_details()
        return await self._tagged(request, served, served.segments)

    async def advertisers(self, request: Request) -> Response:
        query = request.scope["coterie.query"]
        served = await self.holder.current.with_details()
        return await self._tagged(request, served, lambda: (_ENCODE(served.page(query)), None))

    async def advertiser(self, request: Request) -> Response:
        served = await self.holder.current.with_details()
        name = request.scope["coterie.rest"]
        row = served.tables.row_of.get(name)
        if row is None:
            raise Problem("unknown-advertiser", served.placer.unknown(name))
        return await self._tagged(request, served, lambda: (_ENCODE(served.advertiser(row)), None))

    async def forecast(self, request: Request) -> Response:
        def made(asked: Question | list[Question]) -> bytes | Batch:
            served = self.holder.current
            answer = quick_answer(served, asked, self._limits)
            if answer is None:
                return Batch(served, asked, self._limits)
            self._metrics.forecasts.inc(asked.n_bids)  # type: ignore[union-attr]
            return answer

        batch = await self._read(request, _QUESTIONS, made)
        if isinstance(batch, bytes):
            return Response(batch, media_type=JSON)
        slices = answer_slices(batch, compress=accepts_gzip(request))
        answer, is_zipped = await self._queued(request, batch.cost, slices)
        self._metrics.forecasts.inc(sum(batch.n_bids))
        headers = {"Vary": "Accept-Encoding"} | _zipped(is_zipped)
        return Response(answer, media_type=JSON, headers=headers)

    async def _decided(self, name: str, request: Request) -> Response:
        question = await self._read(request, _decoder(OPERATIONS[name].question), lambda one: one)
        cost, slices = decide(name, self.holder.current, question, self._limits)
        return Response(await self._queued(request, cost, slices), media_type=JSON)

    async def curves(self, request: Request) -> Response:
        query = request.scope["coterie.query"]
        served = await self.holder.current.with_details()
        segment = None if query.segment is UNSET else query.segment
        parts = curve_parts(served, query.format, segment)
        media = CURVE_MEDIA[query.format]
        if request.method == "HEAD":
            return Response(media_type=media, headers=_NO_STORE)
        return StreamingResponse(self._parts(request, parts), media_type=media, headers=_NO_STORE)

    async def problem_kind(self, request: Request) -> Response:
        """Explain a kind of problem in plain text."""
        kind = KINDS.get(request.scope["coterie.rest"])
        if kind is None:
            raise Problem("not-found", "there is no kind of problem with this name")
        return PlainTextResponse(f"{kind.title} (status {kind.status}). {kind.advice}\n")

    async def page_file(self, request: Request) -> Response:
        """Return the what-if page or one of its files, or that the browser has it already."""
        # without a name the file is the page, which has one address only
        name = "" if request.scope["path"] == "/" else request.scope["coterie.rest"] or "/"
        file = served_files().get(name)
        if file is None:
            raise Problem("not-found", "the page has no file with this name")
        current = name and request.query_params.get("v") == file.hash
        headers = {
            "ETag": f'"{file.hash}"',
            "Cache-Control": _FOR_EVER if current else _ASK_AGAIN,
            "Content-Type": file.media,
            "Vary": "Accept-Encoding",
            **_POLICIES,
        }
        if has_tag(request, headers["ETag"]):
            return Response(status_code=304, headers=headers)
        return _plain_or_zipped(request, file.body, file.zipped, headers)

    async def _read(
        self,
        request: Request,
        decoder: msgspec.json.Decoder[Asked],
        make: Callable[[Asked], Found],
    ) -> Found:
        """Return what is made of the questions in the body.

        The event loop reads small bodies. Large ones, and the words for what is wrong, which take
        longer than most answers, are left to the queue.
        """
        check_media(request)
        body = await self._bodies.whole(request)
        if len(body) <= SMALL_BODY:
            with contextlib.suppress(*NO_JSON):
                return make(decoder.decode(body))
        cost = max(len(body) // 64, _LOOK_UP)
        reading = in_one_slice(lambda: make(read_body(body, decoder)), cost)
        return await self._queued(request, cost, reading)

    async def _queued(
        self, request: Request, cost: int, slices: Slices[Found], **how: Any
    ) -> Found:
        """Do work in the client's turn, within the time limit."""
        seconds = self._limits.request_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._queue.run(request.scope["coterie.client"], cost, slices, **how)
        except TimeoutError:
            raise Problem("timed-out", f"there is no answer after {seconds:g} s") from None

    async def _parts(self, request: Request, slices: CurveParts) -> AsyncIterator[bytes]:
        """Yield the parts of a large answer, each made in the client's turn."""
        for cost, make in slices:
            yield await self._queued(request, cost, in_one_slice(make, cost), waits=True)

    async def _tagged(
        self, request: Request, served: ServedModel, find: Callable[[], tuple[bytes, bytes | None]]
    ) -> Response:
        """Return an answer that stays valid as long as the model; 304 if the client has it.

        ``find`` returns its JSON, and the same in gzip or None.
        """
        headers = {"ETag": served.tag, "Cache-Control": _ASK_AGAIN, "Vary": "Accept-Encoding"}
        if has_tag(request, served.tag):
            return Response(status_code=304, headers=headers)
        body, zipped = await self._queued(request, _LOOK_UP, in_one_slice(find, _LOOK_UP))
        return _plain_or_zipped(request, body, zipped, {"Content-Type": JSON, **headers})


class _Visit:
    """One request on its way out: adds headers, notes status and size."""

    __slots__ = ("_send", "_stopping", "request_id", "size", "status")

    def __init__(self, send: Send, request_id: str, stopping: bool) -> None:
        self._send, self._stopping = send, stopping
        self.request_id = request_id
        self.status = self.size = 0

    async def send(self, message: Any) -> None:
        """Pass on what the application sends."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = message["headers"]
            headers.append((b"x-request-id", self.request_id.encode()))
            headers.append((b"x-content-type-options", b"nosniff"))
            if self._stopping:
                # clients and proxies then open their next connection elsewhere
                headers.append((b"connection", b"close"))
        else:
            self.size += len(message.get("body", b""))
        await self._send(message)


async def _answer_failure(error: Exception, visit: _Visit, scope: Scope, receive: Receive) -> None:
    """Answer with the problem of an error, and let go of what the failed calls worked with.

    An error refers to the frames it passed, and some of them to the error. Such a cycle would
    keep a model that was replaced in memory until the collector looks, which is seldom. For the
    same reason this is not done in the frame that caught the error.
    """
    problem = error
    if not isinstance(problem, Problem):
        _LOG.error("Request %s failed", visit.request_id, exc_info=error)
        problem = Problem("internal-error", "the service failed on this request")
    if not visit.status:
        await problem_response(problem, visit.request_id)(scope, receive, visit.send)
    passed: BaseException | None = error
    while passed is not None:
        passed.__traceback__ = None
        passed = passed.__context__


def _json(content: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(_ENCODE(content), media_type=JSON, headers=headers or _NO_STORE)


def _zipped(is_zipped: bool) -> dict[str, str]:
    return {"Content-Encoding": "gzip"} if is_zipped else {}


def _plain_or_zipped(
    request: Request, body: bytes, zipped: bytes | None, headers: dict[str, str]
) -> Response:
    if zipped is None or not accepts_gzip(request):
        return Response(body, headers=headers)
    return Response(zipped, headers=headers | _zipped(True))
