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
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from coterie.ads.service.access import AccessPolicy
from coterie.ads.service.metrics import Metrics
from coterie.ads.service.openapi import openapi_document
from coterie.ads.service.problems import Problem, problem_response
from coterie.ads.service.request_logs import log_request
from coterie.ads.service.routes import Routes, operations

__all__ = ["OPEN_ROUTES", "RequestFrame", "make_application"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
ASGI = Callable[[Scope, Receive, Send], Awaitable[None]]

_LOG = logging.getLogger("coterie")
#: Routes that need no token: the page, which asks for one, and the signs of life.
OPEN_ROUTES = frozenset({"page", "asset", "live", "ready", "problem_kind"})
#: How paths that are not ours are called in logs and metrics.
UNKNOWN = "(unknown)"
#: The status in logs and metrics of a request whose client did not wait for the answer.
_GONE = 499
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_SECURITY_HEADERS = [
    (b"content-security-policy", _CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]


def make_application(routes: Routes, policy: AccessPolicy, metrics: Metrics) -> RequestFrame:
    """Return the service as an ASGI application."""
    described = operations(routes)
    paths = [
        # the path of an id may have slashes
        Route(one.path.replace("{id}", "{id:path}"), one.handler, methods=[one.method])
        for one in described
    ]
    document = openapi_document(described)

    async def openapi(request: Request) -> Response:  # noqa: ARG001 (Starlette's signature)
        return JSONResponse(document)

    paths += [
        Route("/", routes.page),
        Route("/assets/{name}", routes.asset),
        Route("/problems/{name}", routes.problem_kind),
        Route("/openapi.json", openapi),
    ]
    handlers: Any = {HTTPException: _answer_http_error, Problem: _answer_problem}
    app = Starlette(routes=paths, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return RequestFrame(app, routes, policy, metrics)


class RequestFrame:
    """An ASGI application around the routes.

    Handlers find in ``request.state`` the ``request_id`` and the ``client``, which is the address
    and the name of its token.
    """

    def __init__(
        self, app: Starlette, routes: Routes, policy: AccessPolicy, metrics: Metrics
    ) -> None:
        self._app, self._routes = app, routes
        self.policy, self._metrics = policy, metrics
        self._templates = {
            one.endpoint.__name__: one.path.replace(":path", "")
            for one in app.routes
            if isinstance(one, Route)
        }
        self._open = [
            (route.path_regex, route.endpoint.__name__)
            for route in app.routes
            if isinstance(route, Route) and route.endpoint.__name__ in OPEN_ROUTES
        ]
        self._prefix, self._numbers = secrets.token_hex(4), itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        headers = Headers(raw=scope["headers"])
        visit = _Visit(send, self._request_id(headers.get("x-request-id")), self._routes.stopping)
        self._metrics.in_flight.inc()
        try:
            self._admit(scope, headers, visit.request_id)
            await self._app(scope, receive, visit.send)
        except ClientDisconnect:
            visit.status = _GONE
        except Problem as problem:
            await problem_response(problem, visit.request_id)(scope, receive, visit.send)
        except Exception as error:
            _LOG.error("Request %s failed", visit.request_id, exc_info=error)
            if not visit.status:
                failed = Problem("internal-error", "the service failed on this request")
                await problem_response(failed, visit.request_id)(scope, receive, visit.send)
        finally:
            self._metrics.in_flight.dec()
            seconds = time.perf_counter() - began
            method = scope["method"] if scope["method"] in _METHODS else "OTHER"
            route = self._template(scope)
            status = visit.status or _GONE
            self._metrics.answered(route, method, status, seconds)
            log_request(visit.request_id, method, route, status, seconds, visit.size)

    def _admit(self, scope: Scope, headers: Headers, request_id: str) -> None:
        """Refuse a request with a wrong host or token; note who asks."""
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            raise Problem("malformed-request", "a request has one Host header")
        if not self.policy.accepts_host(hosts[0]):
            raise Problem(
                "unknown-host", "the service does not go by the host name of this request"
            )
        name = self.policy.token_name(headers.get("authorization", ""))
        if name is None and not self._is_open(scope["path"]):
            raise Problem(
                "token-required",
                "send the header Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )
        address = scope.get("client")
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        state["client"] = f"{address[0] if address else ''} {name or ''}"

    def _is_open(self, path: str) -> bool:
        return any(pattern.match(path) for pattern, _ in self._open)

    def _template(self, scope: Scope) -> str:
        endpoint = scope.get("endpoint")
        return self._templates.get(getattr(endpoint, "__name__", ""), UNKNOWN)

    def _request_id(self, given: str | None) -> str:
        """Return the id that the client gave, if it can stand in a log; else a new one."""
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given
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
            headers.extend(_SECURITY_HEADERS)
            if self._stopping:
                # clients and proxies then open their next connection elsewhere
                headers.append((b"connection", b"close"))
        else:
            self.size += len(message.get("body", b""))
        await self._send(message)


async def _answer_problem(request: Request, error: Any) -> Response:
    return problem_response(error, request.state.request_id)


async def _answer_http_error(request: Request, error: Any) -> Response:
    """Answer what Starlette refuses: unknown paths and methods, malformed requests."""
    status, headers = error.status_code, dict(error.headers or {})
    if status == HTTPStatus.NOT_FOUND:
        problem = Problem("not-found", "there is nothing at this path")
    elif status == HTTPStatus.METHOD_NOT_ALLOWED:
        problem = Problem(
            "method-not-allowed", f"this path has {headers.get('Allow', '')}", headers=headers
        )
    else:
        problem = Problem("malformed-request", str(error.detail))
    return problem_response(problem, request.state.request_id)
