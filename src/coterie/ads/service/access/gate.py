"""The outermost layer of the service: what every request passes on its way in and out.

On the way in: an id, the ``Host``, the token, the whole body where the route takes one, a place
among those under way. On the way out: headers, a line in the log, the metrics. Whatever goes wrong
on the way, in the layers below too, becomes a problem in JSON that tells a client what it needs and
nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from coterie.ads.protocol import Limits
from coterie.ads.service.access.admission import Admission, Deadline, Deadlines
from coterie.ads.service.access.listening import Door
from coterie.ads.service.access.request_bodies import BodyReader, ClientGoneError, drained, replayed
from coterie.ads.service.access.request_logs import RequestLog
from coterie.ads.service.metrics import Metrics
from coterie.ads.service.problems import (
    SECURITY_HEADERS,
    Problem,
    RequestIds,
    busy,
    problem_body,
    problem_headers,
)

__all__ = ["BODY_ROUTE", "OPEN_ROUTES", "UNKNOWN", "UNQUEUED_ROUTES", "Gate", "route_of"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
#: The status in logs and metrics of a request whose client did not wait for an answer.
_GONE = 499
#: Methods as logs and metrics name them; any other is one kind.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
#: Seconds in which a client may finish sending a body that nobody will read.
_DRAIN_SECONDS = 5.0
#: What a path that is none of ours is called, whatever it holds.
UNKNOWN = "(unknown)"
#: Routes that need no token where others do: the page, which asks for it, and a sign of life.
OPEN_ROUTES = frozenset({"/", "/assets/{name}", "/health"})
#: Routes that are answered also when all places are taken.
UNQUEUED_ROUTES = frozenset({"/health", "/metrics"})
#: The one route whose requests have a body that is read, and their method.
BODY_ROUTE = ("POST", "/v1/forecast")
_EXACT = {
    path: path
    for path in (
        "/",
        "/health",
        "/metrics",
        "/openapi.json",
        "/v1/model",
        "/v1/segments",
        "/v1/advertisers",
        "/v1/forecast",
    )
}
_BELOW = {"/v1/advertisers/": "/v1/advertisers/{id}", "/assets/": "/assets/{name}"}


class Gate:
    """An ASGI application around another.

    The application below finds in ``scope["state"]`` the ``request_id`` and whether the client is
    ``authorised``: it showed the token, or none is needed. It gets the body in one message. A body
    that no route takes is not read: the request is answered without it, and is the last of its
    connection.
    """

    def __init__(
        self, app: Application, *, door: Door, limits: Limits, metrics: Metrics, logs: RequestLog
    ) -> None:
        self._app = app
        self._door = door
        self._limits = limits
        self._metrics = metrics
        self._logs = logs
        self._ids = RequestIds()
        self._bodies = BodyReader(limits)
        self._admission = Admission(limits)
        shortest = min(limits.body_seconds, limits.request_seconds)
        self._deadlines = Deadlines(min(0.25, shortest / 4))
        metrics.in_flight.set_function(lambda: self._admission.under_way)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._other_than_http(scope, receive, send)
            return
        began = time.perf_counter()
        visit = _Visit(scope, send)
        visit.request_id = self._ids.of(visit.given_id)
        deadline = self._deadlines.begin(self._limits.body_seconds)
        try:
            await self._pass(visit, deadline, receive)
            if not visit.started:
                raise RuntimeError("the application did not answer")
            if visit.unread:
                self._deadlines.end(deadline)
                await _see_off(visit, receive)
        except ClientGoneError:
            visit.status = _GONE
        except (Exception, asyncio.CancelledError) as error:
            self._deadlines.end(deadline)
            await self._refuse(visit, self._problem(error, visit, deadline), receive)
        finally:
            self._deadlines.end(deadline)
            seconds = time.perf_counter() - began
            self._metrics.answered(visit.route, visit.method, visit.status, seconds)
            self._logs.request(
                visit.request_id, visit.method, visit.route, visit.status, seconds, visit.size
            )

    async def _pass(self, visit: _Visit, deadline: Deadline, receive: Receive) -> None:
        """Let a request through to the application, or raise the problem that keeps it out."""
        authorised = self._checked(visit)
        address = visit.scope.get("client")
        client = self._door.client_of(address[0] if address else "", visit.forwarded)
        body = b""
        if visit.unread and visit.takes_body:
            visit.reading = True
            body = await self._bodies.read(client, visit.declared, receive)
            visit.reading = visit.unread = False
        deadline.move(self._limits.request_seconds)
        state = visit.scope.setdefault("state", {})
        state["request_id"] = visit.request_id
        state["authorised"] = authorised
        again = replayed(body, receive)
        if visit.route in UNQUEUED_ROUTES:
            await self._app(visit.scope, again, visit.send)
            return
        if not self._admission.enter(client):
            with self._bodies.kept(client, body):
                await self._admission.wait(client)
        try:
            await self._app(visit.scope, again, visit.send)
        finally:
            self._admission.leave(client)

    def _checked(self, visit: _Visit) -> bool:
        """Whether the client may ask for everything; a problem where not even for this."""
        if len(visit.hosts) != 1:
            raise Problem(400, "Bad Request", "a request names one host, in one Host header")
        if not self._door.is_for(visit.hosts[0]):
            raise Problem(
                421,
                "Misdirected Request",
                "this service is not known by the name in the Host header; "
                "whoever runs it can allow it with --allowed-host",
            )
        authorised = self._door.lets_in(visit.authorization)
        if not authorised and visit.route not in OPEN_ROUTES:
            told = (
                "this service needs a token: send Authorization: Bearer followed by it"
                if visit.authorization is None
                else "the token is not the one of this service; it is sent as Authorization: "
                "Bearer followed by it"
            )
            raise Problem(401, "Unauthorized", told, headers={"WWW-Authenticate": "Bearer"})
        if visit.coded:
            raise Problem(
                501, "Not Implemented", "of all transfer codings the service knows chunked alone"
            )
        return authorised

    def _problem(self, error: BaseException, visit: _Visit, deadline: Deadline) -> Problem:
        """Return what to tell of what went wrong; a defect is for the log alone."""
        if isinstance(error, Problem):
            return error
        if isinstance(error, asyncio.CancelledError):
            return self._interrupted(visit, deadline)
        self._logs.failure(visit.request_id, error)
        return Problem(
            500,
            "Internal Server Error",
            "the service failed on this request; whoever runs it finds it in the log by request_id",
        )

    def _interrupted(self, visit: _Visit, deadline: Deadline) -> Problem:
        """Return what to tell of a request that was cancelled."""
        if not deadline.passed:
            told = "the service is ending; try again after the seconds in Retry-After"
            return busy(told, seconds=5)
        deadline.forgive()
        if visit.reading:
            return Problem(
                408,
                "Request Timeout",
                f"the body did not arrive within {self._limits.body_seconds:g} seconds",
            )
        return busy(
            f"the answer was not ready within {self._limits.request_seconds:g} seconds; "
            "ask fewer questions at a time, or try again after the seconds in Retry-After",
            seconds=5,
        )

    async def _refuse(self, visit: _Visit, problem: Problem, receive: Receive) -> None:
        """Answer with a problem, if there is no answer yet; a half-sent one is left as it is."""
        if visit.started:
            return
        body = problem_body(problem, visit.request_id)
        headers = problem_headers(problem, len(body))
        start = {"type": "http.response.start", "status": problem.status, "headers": headers}
        await visit.send(start)
        await visit.send({"type": "http.response.body", "body": body, "more_body": False})
        if visit.unread:
            await _see_off(visit, receive)

    async def _other_than_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Start and end of the application go through; a WebSocket is turned away."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})


def route_of(path: str) -> str:
    """Return the template of a path; it holds nothing of what a client wrote.

    >>> route_of("/v1/advertisers/adv-00042"), route_of("/v1/model"), route_of("/etc/passwd")
    ('/v1/advertisers/{id}', '/v1/model', '(unknown)')
    """
    found = _EXACT.get(path)
    if found is not None:
        return found
    for prefix, template in _BELOW.items():
        if path.startswith(prefix):
            return template
    return UNKNOWN


class _Visit:
    """One request: what its headers say, and what became of it."""

    __slots__ = (
        "_send",
        "authorization",
        "coded",
        "declared",
        "forwarded",
        "given_id",
        "hosts",
        "method",
        "reading",
        "request_id",
        "route",
        "scope",
        "size",
        "started",
        "status",
        "unread",
    )

    def __init__(self, scope: Scope, send: Send) -> None:
        self.scope = scope
        self._send = send
        self.route = route_of(scope["path"])
        method = scope["method"]
        self.method = method if method in _METHODS else "OTHER"
        self.request_id = ""
        self.given_id: bytes | None = None
        self.hosts: list[bytes] = []
        self.authorization: bytes | None = None
        self.forwarded: list[bytes] = []
        self.declared: int | None = None
        self.unread = self.reading = self.coded = False
        self.status, self.size, self.started = 500, 0, False
        self._read(scope["headers"])

    def _read(self, headers: Any) -> None:
        """Note the headers that the gate minds."""
        for name, value in headers:
            if name == b"host":
                self.hosts.append(value)
            elif name == b"content-length":
                # further digits could only make it larger
                self.declared = int(value[:18]) if value.isdigit() else 0
                self.unread = self.unread or value != b"0"
            elif name == b"transfer-encoding":
                # one coding, in one header: any other is read differently by different servers
                self.coded = self.coded or self.unread or value.strip().lower() != b"chunked"
                self.unread = True
            elif name == b"authorization":
                self.authorization = value
            elif name == b"x-request-id":
                self.given_id = value
            elif name == b"x-forwarded-for":
                self.forwarded.append(value)

    @property
    def takes_body(self) -> bool:
        """Whether there is a route that looks at the body."""
        return (self.scope["method"], self.route) == BODY_ROUTE

    async def send(self, message: Any) -> None:
        """Pass on what the application sends, with the headers that every answer has."""
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            headers = [*message.get("headers", ())]
            if all(name != b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-store"))
            headers.append((b"x-request-id", self.request_id.encode("ascii")))
            headers.extend(SECURITY_HEADERS)
            if self.unread:
                headers.append((b"connection", b"close"))
            message = {**message, "headers": headers}
        else:
            self.size += len(message.get("body", b""))
            if self.unread:  # the answer is left open, until finish
                message = {**message, "more_body": True}
        await self._send(message)

    async def finish(self) -> None:
        """End an answer that was left open."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


async def _see_off(visit: _Visit, receive: Receive) -> None:
    """Throw away what a client still sends, within reason, so that it gets its answer; close."""
    # a service that ends waits no longer either
    with contextlib.suppress(TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            await drained(receive)
    await visit.finish()
