"""OpenTelemetry traces by the standard ASGI instrumentation, without ids of advertisers.

Where spans go is set by the usual environment variables, for example
``OTEL_EXPORTER_OTLP_ENDPOINT``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from coterie.errors import MissingExtraError

__all__ = ["traced"]

ASGI = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]


def traced(app: ASGI, template: Callable[[str], str], provider: Any = None) -> ASGI:
    """Return an application whose requests are spans.

    Parameters
    ----------
    app : ASGI application
    template : callable
        Returns the template of the route of a path; spans see nothing else of the path.
    provider : TracerProvider, optional
        By default one that exports by OTLP over HTTP.
    """
    try:
        from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
    except ImportError as error:
        raise MissingExtraError(
            "traces need OpenTelemetry: pip install 'coterie[traces]'"
        ) from error

    async def inner(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        await app(scope.get("coterie.scope", scope), receive, send)

    instrumented: Any = OpenTelemetryMiddleware(
        inner,  # type: ignore[arg-type]
        default_span_details=lambda scope: (f"{scope['method']} {scope['path']}", {}),
        tracer_provider=provider or _exporting(),
        exclude_spans=["receive", "send"],
    )

    async def outer(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        # the instrumentation reads path and query from the scope; the routes get the true one
        path = template(scope["path"])
        shown = {**scope, "path": path, "raw_path": path.encode(), "query_string": b""}
        await instrumented({**shown, "coterie.scope": scope}, receive, send)

    return outer


def _exporting() -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise MissingExtraError(
            "traces need OpenTelemetry: pip install 'coterie[traces]'"
        ) from error
    # OTEL_SERVICE_NAME has precedence
    provider = TracerProvider(resource=Resource.create({"service.name": "coterie"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
