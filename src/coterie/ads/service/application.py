"""The service as one ASGI application: routes, and what every request passes.

On the way in: an id, the host name, the token. On the way out: headers, metrics, a line in the log.
Every failure becomes a problem in JSON.
"""

from __future__ import annotations

import itertools
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Router

from coterie.ads.protocol import JSON, OPERATIONS
from coterie.ads.service.access import AccessPolicy
from coterie.ads.service.monitoring import METHODS, Metrics, log_request
from coterie.ads.service.openapi import openapi_document
from coterie.ads.service.problems import Problem, problem_response
from coterie.ads.service.request_reading import read_query
from coterie.ads.service.routes import Routes

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Handler = Callable[[Request], Awaitable[Response]]

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


@dataclass
class _Route:
    template: str
    query: type[msgspec.Struct] | None = None  # the type of its parameters; None ignores them
    handlers: dict[str, Handler] = field(default_factory=dict)  # by method


class Application:
    """The service: its routes, and the frame around them.

    Handlers find in ``scope["coterie.client"]`` who asks, by address and name of the token, in
    ``scope["coterie.headers"]`` the headers as a dictionary, and in ``scope["coterie.query"]`` the
    query of their operation. ``lifespan`` is that of Starlette.
    """

    def __init__(
        self, routes: Routes, policy: AccessPolicy, metrics: Metrics, lifespan: Any = None
    ) -> None:
        self._routes, self.policy, self._metrics = routes, policy, metrics
        self._lifespan = Router(lifespan=lifespan)
        document, handlers = msgspec.json.encode(openapi_document()), routes.handlers()

        async def openapi(request: Request) -> Response:  # noqa: ARG001 (of all handlers)
            return Response(document, media_type=JSON)

        self._by_path: dict[str, _Route] = {}
        for name, one in OPERATIONS.items():
            route = self._by_path.setdefault(one.path, _Route(one.path, one.query))
            for method in ("GET", "HEAD") if one.method == "GET" else (one.method,):
                route.handlers[method] = handlers[name]
        for template, handler in {
            "/": routes.page,
            "/assets/{name}": routes.asset,
            "/problems/{name}": routes.problem_kind,
            "/openapi.json": openapi,
        }.items():
            self._by_path[template] = _Route(template, None, {"GET": handler, "HEAD": handler})
        # an id may have slashes and line breaks
        parts = {"{id}": "(?P<id>(?s:.*))", "{name}": "(?P<name>[^/]+)"}
        self._patterns = [
            (re.compile(template.replace(part, pattern)), route)
            for template, route in self._by_path.items()
            for part, pattern in parts.items()
            if part in template
        ]
        self._prefix, self._numbers = secrets.token_hex(4), itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._lifespan(scope, receive, send)
            return
        began = time.perf_counter()
        headers = dict(scope["headers"])
        visit = _Visit(send, self._request_id(headers.get(b"x-request-id")), self._routes.stopping)
        route, scope["path_params"] = self._route_of(scope["path"])
        template = route.template if route else UNKNOWN
        try:
            self._admit(scope, headers, template)
            if route is None:
                raise Problem("not-found", "there is nothing at this path")
            handler = route.handlers.get(scope["method"])
            if handler is None:
                raise _wrong_method(route)
            request = Request(scope, receive)
            if route.query is not None:
                scope["coterie.query"] = read_query(request, route.query)
            response = await handler(request)
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
            # a probe that is told to look elsewhere is no failure
            failed = status >= 500 and template != "/health/ready"
            log_request(failed, visit.request_id, method, template, status, seconds, visit.size)

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

    def template_of(self, path: str) -> str:
        """Return the template of the route of a path, for example ``/v1/advertisers/{id}``."""
        route, _ = self._route_of(path)
        return route.template if route else UNKNOWN

    def _route_of(self, path: str) -> tuple[_Route | None, dict[str, str]]:
        """Return the route of a path and the parameters in it."""
        route = self._by_path.get(path)
        if route is not None and "{" not in path:
            return route, {}
        for pattern, route in self._patterns:
            if found := pattern.fullmatch(path):
                return route, found.groupdict()
        return None, {}

    def _request_id(self, given: bytes | None) -> str:
        """Return the id that the client gave, if it fits in a log line; else a new one."""
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given.decode()
        return f"{self._prefix}-{next(self._numbers):06x}"


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


def _wrong_method(route: _Route) -> Problem:
    methods = sorted(route.handlers)
    words = f"method not allowed: use {' or '.join(methods)}"
    return Problem("method-not-allowed", words, headers={"Allow": ", ".join(methods)})
