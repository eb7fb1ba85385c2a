"""Spans name routes and never what was asked."""

from __future__ import annotations

import asyncio
import http.server
import json
import logging
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

pytest.importorskip("opentelemetry.instrumentation.asgi", reason="traces are an extra")
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from coterie import save_model
from coterie.ads.protocol import Limits
from coterie.ads.service.access import AccessPolicy, read_tokens
from coterie.ads.service.application import Application
from coterie.ads.service.fair_queue import FairQueue
from coterie.ads.service.model_holder import ModelHolder
from coterie.ads.service.monitoring import Metrics, traced
from coterie.ads.service.routes import Routes
from fitted_models import small_model
from running_service import running_service

TOKEN = "a-token-of-24-characters"
KNOWN = "a/b c?d#e%2F"
#: A word in each place of a request where something personal can be.
SECRET = "hush"
UNKNOWN = f"{SECRET}-advertiser"
TEXT = f"{SECRET} flights and hotels"
JSON = {"Content-Type": "application/json"}
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}


class Traced:
    """The application with its spans kept in memory."""

    def __init__(self, model: Path) -> None:
        self.exported = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exported))
        metrics, limits = Metrics(), Limits()
        holder = ModelHolder(model, metrics)
        holder.load_first()
        self.queue = FairQueue(limits, metrics.queued_work.set)
        self.routes = Routes(holder, self.queue, metrics, limits)
        policy = AccessPolicy(tokens=read_tokens({"COTERIE_TOKEN": TOKEN}))
        app = Application(self.routes, policy, metrics)
        self.app = traced(app, app.template_of, provider)

    def ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Return the answer to one request; its headers are added to those of the token."""
        headers = AUTHORIZED | request.pop("headers", {})

        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, client=("198.51.100.7", 4711))
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost"
            ) as client:
                return await client.request(method, path, headers=headers, **request)

        return asyncio.run(asked())

    @property
    def names(self) -> list[str]:
        """The names of all spans."""
        return [span.name for span in self.exported.get_finished_spans()]

    @property
    def dump(self) -> str:
        """All that the spans hold: names, attributes, events, statuses, links, resources."""
        return "\n".join(
            f"{span.to_json()} {span.context.trace_state.to_header()}"
            for span in self.exported.get_finished_spans()
        )


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model whose advertisers have hostile ids."""
    file = tmp_path_factory.mktemp("traces") / "market.coterie"
    save_model(small_model(), file)
    return file


@pytest.fixture
def service(model_file: Path) -> Iterator[Traced]:
    """Return an application with no spans yet."""
    made = Traced(model_file)
    yield made
    made.queue.close()


def test_span_has_the_template_of_the_route_and_the_status(service: Traced) -> None:
    """A span is named by method and template, and has the status of the answer."""
    assert service.ask("GET", f"/v1/advertisers/{quote(KNOWN, safe='')}").status_code == 200
    (span,) = service.exported.get_finished_spans()
    assert span.name == "GET /v1/advertisers/{id}"
    assert span.attributes is not None
    assert span.attributes["http.route"] == "/v1/advertisers/{id}"
    assert 200 in span.attributes.values()


def test_span_continues_the_trace_of_the_client(service: Traced) -> None:
    """The span has the trace and the parent that the header ``traceparent`` names."""
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    service.ask("GET", "/v1/model", headers={"traceparent": f"00-{trace}-{parent}-01"})
    (span,) = service.exported.get_finished_spans()
    assert span.context is not None
    assert span.parent is not None
    assert f"{span.context.trace_id:032x}" == trace
    assert f"{span.parent.span_id:016x}" == parent


def test_probes_are_not_traced(service: Traced) -> None:
    """Health checks and scrapes are answered without a span."""
    for path in ("/health/live", "/health/ready", "/metrics"):
        assert service.ask("GET", path).status_code == 200
    assert service.names == []


def test_spans_hold_nothing_personal(
    model_file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever is asked and however it fails, ids, texts, queries and tokens are in no span.

    Not even if the instrumentation is told to record all headers.
    """
    for side in ("REQUEST", "RESPONSE"):
        monkeypatch.setenv(f"OTEL_INSTRUMENTATION_HTTP_CAPTURE_HEADERS_SERVER_{side}", ".*")
    service = Traced(model_file)
    question = {"advertiser": UNKNOWN, "text": TEXT, "bid": 2.5, "supply": 1e6}
    statuses = [
        service.ask(*asked, **request).status_code
        for *asked, request in (
            ("GET", f"/v1/advertisers/{quote(KNOWN, safe='')}", {}),
            ("GET", f"/v1/advertisers/{UNKNOWN}", {}),
            ("GET", "/v1/advertisers", {"params": {"search": SECRET}}),
            ("GET", "/v1/model", {"params": {SECRET: SECRET}}),
            ("POST", "/v1/forecast", {"json": question}),
            ("POST", "/v1/forecast", {"json": question | {"bid": SECRET, SECRET: 1}}),
            ("POST", "/v1/forecast", {"content": f'"{SECRET}', "headers": JSON}),
            ("POST", "/v1/forecast", {"content": b" " * 2_000_000, "headers": JSON}),
            ("POST", "/v1/forecast", {"json": [], "headers": {"Content-Type": SECRET}}),
            ("GET", f"/{UNKNOWN}", {}),
            ("GET", f"/assets/{UNKNOWN}", {}),
            ("GET", f"/problems/{UNKNOWN}", {}),
            ("GET", f"/v1/advertisers/{UNKNOWN}/../..//{SECRET}?{SECRET}", {}),
            ("DELETE", f"/v1/advertisers/{UNKNOWN}", {}),
            (SECRET.upper(), f"/v1/advertisers/{UNKNOWN}", {}),
            ("GET", f"/v1/advertisers/{UNKNOWN}", {"headers": {"Authorization": SECRET}}),
            ("GET", "/v1/model", {"headers": {"Host": f"{SECRET}.example"}}),
            (
                "GET",
                "/v1/model",
                {
                    "headers": {
                        "User-Agent": SECRET,
                        "Referer": f"http://localhost/?advertiser={UNKNOWN}",
                        "Cookie": SECRET,
                        "Baggage": f"advertiser={UNKNOWN}",
                        "Tracestate": f"vendor={SECRET}",
                        "Traceparent": f"00-{'1' * 32}-{'2' * 16}-01",
                    }
                },
            ),
        )
    ]
    monkeypatch.setattr(service.routes._holder, "_current", None)
    caplog.set_level(logging.CRITICAL)  # the defect that follows is logged
    statuses.append(service.ask("GET", f"/v1/advertisers/{UNKNOWN}").status_code)
    service.queue.close()
    assert {200, 400, 401, 404, 405, 413, 415, 421, 422, 500} == set(statuses)
    assert len(service.names) == len(statuses)
    for word in (SECRET, SECRET.upper(), KNOWN, quote(KNOWN, safe=""), TOKEN, "198.51.100.7"):
        assert word not in service.dump, word
    routes = {name.split(" ")[1] for name in service.names}
    assert routes == {
        "/v1/advertisers/{id}",
        "/v1/advertisers",
        "/v1/model",
        "/v1/forecast",
        "/assets/{name}",
        "/problems/{name}",
        "/(unknown)",
    }


def test_spans_hold_no_message_of_an_exception() -> None:
    """An exception passes the span unseen: its message may quote an id."""
    exported = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))

    async def fails(scope: Any, receive: Any, send: Any) -> None:
        raise KeyError(UNKNOWN)

    scope = {"type": "http", "method": "GET", "path": f"/{UNKNOWN}", "headers": []}
    with pytest.raises(KeyError, match=UNKNOWN):
        asyncio.run(traced(fails, lambda _: "/v1/model", provider)(scope, None, None))
    (span,) = exported.get_finished_spans()
    assert span.name == "GET /v1/model"
    assert SECRET not in span.to_json()


class Collector:
    """A collector of OTLP over HTTP that keeps what it gets."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        kept = self.bodies

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                kept.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                return

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def names(self) -> list[tuple[str, str]]:
        """The service and the name of each span."""
        found = []
        for body in self.bodies:
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                resource = {one.key: one.value.string_value for one in group.resource.attributes}
                found += [
                    (resource["service.name"], span.name)
                    for part in group.scope_spans
                    for span in part.spans
                ]
        return sorted(found)


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Run a collector."""
    made = Collector()
    with made.server:
        thread = threading.Thread(target=made.server.serve_forever)
        thread.start()
        try:
            yield made
        finally:
            made.server.shutdown()
            thread.join()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "named"), [(1, "coterie"), (2, "forecasts-eu")], ids=["1 worker", "2 workers"]
)
def test_spans_arrive_at_a_collector(
    model_file: Path, tmp_path: Path, collector: Collector, workers: int, named: str
) -> None:
    """The last spans of all workers are sent before the service ends, with no id in any byte."""
    variables = {
        "COTERIE_TOKEN": TOKEN,
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server.server_port}",
    }
    if named != "coterie":
        variables["OTEL_SERVICE_NAME"] = named
    options = ("--traces", "--workers", str(workers), "--drain-seconds", "0")
    with running_service(model_file, tmp_path, *options, environment=variables) as running:
        for _ in range(10):
            # a connection each, so that all workers are asked
            with running.client(headers=AUTHORIZED) as client:
                client.get(f"/v1/advertisers/{UNKNOWN}", params={"q": SECRET})
                client.get(f"/v1/advertisers/{quote(KNOWN, safe='')}")
        running.signal(signal.SIGTERM)
        assert running.wait() == 0
    assert collector.names == [(named, "GET /v1/advertisers/{id}")] * 20
    received = b"".join(collector.bodies)
    for word in (SECRET, KNOWN, quote(KNOWN, safe=""), TOKEN):
        assert word.encode() not in received


@pytest.mark.slow
def test_service_works_without_its_collector(model_file: Path, tmp_path: Path) -> None:
    """A collector that does not answer is logged, and the service ends with code 0 all the same."""
    options = ("--traces", "--log-format", "json", "--drain-seconds", "0")
    with socket.socket() as deaf:  # it has a port, and does not listen
        deaf.bind(("127.0.0.1", 0))
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{deaf.getsockname()[1]}",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
        }
        with running_service(model_file, tmp_path, *options, environment=variables) as running:
            with running.client() as client:
                assert client.get("/v1/model").status_code == 200
            running.signal(signal.SIGTERM)
            assert running.wait() == 0
    lines = [json.loads(line) for line in running.logged.splitlines()]
    assert any("export" in line.get("message", "") for line in lines)
