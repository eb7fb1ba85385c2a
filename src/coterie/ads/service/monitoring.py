"""What operators see of the service: a log, metrics and traces, with nothing personal.

Log
    One line a request on standard error: time, level, id of the request, method, *template* of the
    route, status, milliseconds, and bytes of the answer. A thread writes them, many at a time: to
    write each would take as long as to answer, and the reader of the stream may be slow or gone.
Metrics
    For Prometheus, summed over the workers.
Traces
    OpenTelemetry, by the standard ASGI instrumentation. Where spans go is set by the usual
    environment variables, for example ``OTEL_EXPORTER_OTLP_ENDPOINT``.

None of them has an advertiser's id, a text, an address of a client, a query, a token, or a message
of an exception.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from functools import cache, lru_cache, partial
from typing import Any, Literal

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from coterie.ads.protocol.faults import printable
from coterie.runtime.imports import require_extra

ASGI = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]

#: Other methods have one name in logs, metrics and traces, so that clients cannot make up names.
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REQUESTS = logging.getLogger("coterie.requests")
_REQUESTS.setLevel(logging.CRITICAL)  # until there is a thread that writes the lines
#: Lines that may wait for a slow reader; further ones are dropped.
_MOST_LINES = 100_000
#: Seconds between two writings of the log, and for which its end waits for a slow reader.
_PAUSE, _PATIENCE = 0.1, 2.0
#: If set before prometheus_client is imported, workers keep their metrics in files of this folder.
_FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
#: Probes and scrapes would be most of the spans.
_UNTRACED = frozenset({"/health/live", "/health/ready", "/metrics"})


def log_request(
    failed: bool, request_id: str, method: str, route: str, status: int, seconds: float, size: int
) -> None:
    """Note the line of an answer."""
    level = logging.ERROR if failed else logging.INFO
    if _REQUESTS.isEnabledFor(level):
        # without a record: to make one and to wake its reader takes half as long as a forecast
        request = request_id, method, route, status, seconds * 1e3, size
        _note(time.time(), "ERROR" if failed else "INFO", request)


@contextlib.contextmanager
def logging_to_stderr(log_format: Literal["text", "json"], quiet: bool) -> Iterator[None]:
    """Write logs of the package, of uvicorn and of OpenTelemetry to standard error while inside.

    A quiet log leaves out requests other than those the service failed on (5xx).
    """
    line = _json_line if log_format == "json" else _text_line
    ended = threading.Event()

    def write() -> None:
        while True:
            is_last = ended.wait(_PAUSE)
            entries = [_noted.popleft() for _ in range(len(_noted))]
            # a stream that is closed or broken is no reason to fail
            with contextlib.suppress(OSError, ValueError, AttributeError):
                if entries:
                    sys.stderr.write("".join([f"{line(*entry)}\n" for entry in entries]))
                    sys.stderr.flush()
            if is_last:
                return

    handler, before = _Noting(), []
    for name, level in (
        ("coterie", logging.INFO),
        # uvicorn warns of every request that it cannot parse
        ("uvicorn.error", logging.ERROR),
        # a collector of traces that does not answer
        ("opentelemetry", logging.WARNING),
        (_REQUESTS.name, logging.ERROR if quiet else logging.INFO),
    ):
        logger = logging.getLogger(name)
        before.append((logger, logger.level, logger.propagate))
        logger.setLevel(level)
        if logger is not _REQUESTS:
            logger.propagate = False
            logger.addHandler(handler)
    writer = threading.Thread(target=write, name="log", daemon=True)
    writer.start()
    try:
        yield
    finally:
        for logger, level, propagate in before:
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate
        ended.set()
        writer.join(_PATIENCE)


def trace_of(error: BaseException) -> str:
    """Return where an exception came from, and its type; not its message, which may quote data."""
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    parts = [trace_of(before), "which led to:"] if before is not None else []
    frames = traceback.extract_tb(error.__traceback__)
    parts += [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    return "\n".join([*parts, type(error).__qualname__])


#: A request in the log: its id, method, route, status, milliseconds, and bytes of the answer.
_Request = tuple[str, str, str, int, float, int]
#: What the thread has not written yet: time, level, and a message or a request.
_noted: deque[tuple[float, str, str | _Request]] = deque()


def _note(created: float, level: str, what: str | _Request) -> None:
    if len(_noted) < _MOST_LINES:
        _noted.append((created, level, what))


class _Noting(logging.Handler):
    """Leaves messages to the thread that writes them."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage().rstrip().encode("utf-8", "backslashreplace").decode()
            # immediately: the handler of the error may take its traceback away
            if record.exc_info and record.exc_info[1] is not None:
                message = f"{message}\n{trace_of(record.exc_info[1])}"
        except Exception:
            self.handleError(record)
        else:
            _note(record.created, record.levelname, message)


def _moment(created: float) -> str:
    return f"{_second(int(created))}.{int(created % 1 * 1e3):03d}Z"


@lru_cache(4)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _text_line(created: float, level: str, what: str | _Request) -> str:
    """Return one line of text; further lines of a message are indented."""
    if isinstance(what, str):
        # a message cannot pass for a line of the log, nor control a terminal
        first, *more = [printable(line, 10 * len(line)) for line in what.split("\n")]
        return "\n    ".join([f"{_moment(created)} {level} {first}", *more])
    who, method, route, status, milliseconds, size = what
    line = f"{who} {method} {route} {status} {milliseconds:.2f}ms {size}B"
    return f"{_moment(created)} {level} {line}"


def _json_line(created: float, level: str, what: str | _Request) -> str:
    members: dict[str, Any] = {"time": _moment(created), "level": level}
    if isinstance(what, str):
        members["message"] = what
    else:
        names = ("request_id", "method", "route", "status", "ms", "bytes")
        members |= zip(names, what, strict=True)
        members["ms"] = round(members["ms"], 2)
    return msgspec.json.encode(members).decode()


class Metrics:
    """What one service counts; routes are templates, never the requested path."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counter = partial(Counter, registry=self._registry)
        gauge = partial(Gauge, registry=self._registry)
        requests = counter(
            "coterie_requests_total", "Answers to requests.", ["route", "method", "status"]
        )
        durations = Histogram(
            "coterie_request_seconds",
            "How long answers took.",
            ["route"],
            registry=self._registry,
            buckets=_SECONDS,
        )
        self.queued_work = gauge(
            "coterie_queued_work", "Bids times days that wait or run.", multiprocess_mode="livesum"
        )
        self.forecasts = counter("coterie_forecasts_total", "Forecasts, one for each bid.")
        reloads = counter(
            "coterie_model_reloads_total", "Model files taken or refused.", ["outcome"]
        )
        self.reloads_taken = reloads.labels("taken")
        self.reloads_refused = reloads.labels("refused")
        self.model_loaded = gauge(
            "coterie_model_loaded_timestamp_seconds",
            "When the model was loaded.",
            multiprocess_mode="livemax",
        )
        self.model_advertisers = gauge(
            "coterie_model_advertisers", "Advertisers in the model.", multiprocess_mode="livemax"
        )

        # looking up a child by its labels takes longer than counting
        self._requests_of, self._seconds_of = cache(requests.labels), cache(durations.labels)

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self._requests_of(route, method, status).inc()
        self._seconds_of(route).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics, of all workers, in the text format of Prometheus."""
        if _FOLDER_VARIABLE not in os.environ:
            return generate_latest(self._registry)
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)


@contextlib.contextmanager
def shared_metrics() -> Iterator[None]:
    """Let workers keep their metrics in files of a temporary folder, where they are summed."""
    folder = tempfile.mkdtemp(prefix="coterie-metrics-")
    os.environ[_FOLDER_VARIABLE] = folder
    try:
        yield
    finally:
        del os.environ[_FOLDER_VARIABLE]
        shutil.rmtree(folder, ignore_errors=True)


def exporting_provider() -> Any:
    """Return a provider of tracers that sends spans by OTLP over HTTP."""
    require_extra(
        "",
        "traces need",
        "opentelemetry.instrumentation.asgi",
        "opentelemetry.sdk",
        "opentelemetry.exporter.otlp.proto.http",
    )
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


def traced(app: ASGI, template: Callable[[str], str], provider: Any) -> ASGI:
    """Return an application whose requests are spans of a provider of tracers.

    ``template`` returns the template of the route of a path; spans see nothing else of the path.
    """
    from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware

    async def inner(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        try:
            await app(scope["coterie.scope"], receive, send)
        except Exception as error:  # its message may quote data: the span must not see it
            scope["coterie.failures"].append(error)

    def details(scope: MutableMapping[str, Any]) -> tuple[str, dict[str, str]]:
        """Return the name of a span, and its attributes besides the usual ones."""
        return f"{scope['method']} {scope['path']}", {"http.route": scope["path"]}

    instrumented: Any = OpenTelemetryMiddleware(
        inner,
        default_span_details=details,
        tracer_provider=provider,
        exclude_spans=["receive", "send"],
    )

    async def outer(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["path"] in _UNTRACED:
            await app(scope, receive, send)
            return
        # a path that is not ours has a name instead of a template
        path = f"/{template(scope['path']).removeprefix('/')}"
        failures: list[Exception] = []
        # the instrumentation reads what it records from a scope with nothing personal
        shown = {
            "type": "http",
            "asgi": scope.get("asgi", {}),
            "http_version": scope.get("http_version", "1.1"),
            "scheme": scope.get("scheme", "http"),
            "server": scope.get("server"),
            # the conventions of OpenTelemetry call other methods so
            "method": scope["method"] if scope["method"] in METHODS else "_OTHER",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            # with it a span continues the trace of the client; other headers may hold anything
            "headers": [one for one in scope["headers"] if one[0] == b"traceparent"],
            "coterie.scope": scope,
            "coterie.failures": failures,
        }
        await instrumented(shown, receive, send)
        for failure in failures:
            raise failure

    return outer
