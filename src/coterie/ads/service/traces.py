"""OpenTelemetry traces by the standard ASGI instrumentation, with nothing personal.

Spans have the method, the template of the route and the status. They never have an advertiser's id,
a text, a query, an address of a client, a header or a message of an exception, whatever the
instrumentation is set to record. Where spans go is set by the usual environment variables, for
example ``OTEL_EXPORTER_OTLP_ENDPOINT``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from coterie.runtime.missing_extras import require_extra

__all__ = ["traced"]

ASGI = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
#: How the conventions of OpenTelemetry call other methods.
_OTHER_METHOD = "_OTHER"
#: Probes and scrapes would be most of the spans.
_UNTRACED = frozenset({"/health/live", "/health/ready", "/metrics"})
#: With it a span continues the trace of the client. Other headers may hold anything.
_SHOWN_HEADER = b"traceparent"


def traced(app: ASGI, template: Callable[[str], str], provider: Any = None) -> ASGI:
    """Return an application whose requests are spans.

    Parameters
    ----------
    app : ASGI application
    template : callable
        Returns the template of the route of a path; spans see nothing else of the path.
    provider : TracerProvider, optional
        By default one that exports by OTLP over HTTP. It is shut down with the application.
    """
    require_extra(
        "traces",
        "traces need",
        "opentelemetry.instrumentation.asgi",
        "opentelemetry.sdk",
        "opentelemetry.exporter.otlp.proto.http",
    )
    from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware

    provider = provider or _exporting()

    async def inner(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        request = scope["coterie.request"]
        try:
            await app(request.scope, receive, send)
        except Exception as error:  # its message may quote data: the span must not see it
            request.failure = error

    instrumented: Any = OpenTelemetryMiddleware(
        inner,
        default_span_details=_details,
        tracer_provider=provider,
        exclude_spans=["receive", "send"],
    )

    async def outer(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, _after_export(provider, send))
            return
        if scope["path"] in _UNTRACED:
            await app(scope, receive, send)
            return
        request = _Request(scope)
        # the instrumentation reads what it records from the scope; the routes get the true one
        await instrumented(_shown(request, template(scope["path"])), receive, send)
        if request.failure is not None:
            raise request.failure

    return outer


class _Request:
    """A request: its true scope, and the exception that the application raised."""

    def __init__(self, scope: MutableMapping[str, Any]) -> None:
        self.scope = scope
        self.failure: Exception | None = None


def _shown(request: _Request, route: str) -> dict[str, Any]:
    """Return a scope with nothing personal, for the instrumentation."""
    scope = request.scope
    # a path that is not ours has a name instead of a template
    path = route if route.startswith("/") else f"/{route}"
    return {
        "type": "http",
        "asgi": scope.get("asgi", {}),
        "http_version": scope.get("http_version", "1.1"),
        "scheme": scope.get("scheme", "http"),
        "server": scope.get("server"),
        "method": scope["method"] if scope["method"] in _METHODS else _OTHER_METHOD,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [one for one in scope["headers"] if one[0] == _SHOWN_HEADER],
        "coterie.request": request,
    }


def _details(scope: MutableMapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the name of a span, and its attributes besides the usual ones."""
    return f"{scope['method']} {scope['path']}", {"http.route": scope["path"]}


def _after_export(provider: Any, send: Any) -> Any:
    """Return what reports the end of the application once the last spans are sent.

    The exporter tries for at most ``OTEL_EXPORTER_OTLP_TIMEOUT`` seconds (10 by default).
    """

    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"].startswith("lifespan.shutdown"):
            await asyncio.to_thread(provider.shutdown)
        await send(message)

    return sent


def _exporting() -> Any:
    """Return a provider that sends spans by OTLP over HTTP."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # attributes that are given here have precedence over OTEL_SERVICE_NAME
    resource = Resource.create()
    if str(resource.attributes["service.name"]).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "coterie"}))
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
