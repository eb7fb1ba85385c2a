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

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router

from coterie.ads.service.access import AccessPolicy
from coterie.ads.service.monitoring import METHODS, Metrics, log_request
from coterie.ads.service.openapi import openapi_document, operations
from coterie.ads.service.problems import Problem, problem_response
from coterie.ads.service.routes import Routes

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
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


def make_application(
    routes: Routes, policy: AccessPolicy, metrics: Metrics, lifespan: Any = None
) -> RequestFrame:
    """Return the service as an ASGI application; ``lifespan`` is that of Starlette's router."""
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
    router = Router(paths, redirect_slashes=False, lifespan=lifespan)
    return RequestFrame(router, routes, policy, metrics)


class RequestFrame:
    """An ASGI application around the routes.

    Handlers find in ``scope["coterie.client"]`` who asks, by address and name of the token, and in
    ``scope["coterie.headers"]`` the headers as a dictionary.
    """

    def __init__(
        self, router: Router, routes: Routes, policy: AccessPolicy, metrics: Metrics
    ) -> None:
        self._router, self._routes = router, routes
        self.policy, self._metrics = policy, metrics
        # pattern of the path, template, name of the handler
        self._paths = [
            (one.path_regex, one.path.replace(":path", ""), one.endpoint.__name__)
            for one in router.routes
            if isinstance(one, Route)
        ]
        self._prefix, self._numbers = secrets.token_hex(4), itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        began = time.perf_counter()
        headers = dict(scope["headers"])
        visit = _Visit(send, self._request_id(headers.get(b"x-request-id")), self._routes.stopping)
        template, handler = self._route_of(scope["path"])
        try:
            self._admit(scope, headers, handler)
            await self._router(scope, receive, visit.send)
        except ClientDisconnect:
            visit.status = _GONE
        except Exception as error:
            await _answer_failure(error, visit, scope, receive)
        finally:
            seconds = time.perf_counter() - began
            method = scope["method"] if scope["method"] in METHODS else "OTHER"
            status = visit.status or _GONE
            self._metrics.answered(template, method, status, seconds)
            log_request(visit.request_id, method, template, status, seconds, visit.size)

    def _admit(self, scope: Scope, headers: dict[bytes, bytes], handler: str) -> None:
        """Refuse a request with a wrong host or token; note who asks."""
        host = headers.get(b"host")
        repeated = len(headers) < len(scope["headers"])  # some header, seldom that of the host
        if host is None or (repeated and [k for k, _ in scope["headers"]].count(b"host") > 1):
            raise Problem("malformed-request", "send the header Host once")
        if not self.policy.accepts_host(host.decode("latin-1")):
            raise Problem(
                "unknown-host", "the service does not answer to the host name of this request"
            )
        name = self.policy.token_name(headers.get(b"authorization", b"").decode("latin-1"))
        if name is None and handler not in OPEN_ROUTES:
            raise Problem(
                "token-required",
                "send the header Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )
        address = scope.get("client")
        scope["coterie.client"] = f"{address[0] if address else ''} {name or ''}"
        scope["coterie.headers"] = headers
        scope["app"] = self  # so that the router raises its errors

    def template_of(self, path: str) -> str:
        """Return the template of the route of a path, for example ``/v1/advertisers/{id}``."""
        return self._route_of(path)[0]

    def _route_of(self, path: str) -> tuple[str, str]:
        """Return the template of a path and the name of its handler."""
        for pattern, template, handler in self._paths:
            if pattern.match(path):
                return template, handler
        return UNKNOWN, ""

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
    problem = _as_problem(error)
    if problem.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        _LOG.error("Request %s failed", visit.request_id, exc_info=error)
    if not visit.status:
        await problem_response(problem, visit.request_id)(scope, receive, visit.send)
    passed: BaseException | None = error
    while passed is not None:
        passed.__traceback__ = None
        passed = passed.__context__


def _as_problem(error: Exception) -> Problem:
    """Return the problem that describes an error to a client."""
    if isinstance(error, Problem):
        return error
    if not isinstance(error, HTTPException):
        return Problem("internal-error", "the service failed on this request")
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.NOT_FOUND:
        return Problem("not-found", "there is nothing at this path")
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        methods = sorted(headers.get("Allow", "").split(", "))
        return Problem(
            "method-not-allowed",
            f"method not allowed: use {' or '.join(methods)}",
            headers={"Allow": ", ".join(methods)},
        )
    return Problem("malformed-request", str(error.detail))
