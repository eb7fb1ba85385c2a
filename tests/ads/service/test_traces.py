"""Spans name routes and never what was asked."""

from __future__ import annotations

import asyncio
import http.server
import json
import logging
import signal
import socket
import threading
from urllib.parse import quote

import pytest

pytest.importorskip("opentelemetry.instrumentation.asgi", reason="traces are an extra")
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from coterie.ads.service.access import AccessPolicy, read_tokens
from coterie.ads.service.monitoring import traced
from running_service import running_service
from service_calls import JSON, Service, advertiser_path, served

TOKEN = "a-token-of-24-characters"
KNOWN = "a/b c?d#e%2F"
#: A word in each place of a request where something personal can be.
SECRET = "hush"
UNKNOWN = f"{SECRET}-advertiser"
TEXT = f"{SECRET} flights and hotels"
ASK = "/v1/forecast"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}


def traced_service():
    """Return the application with its spans kept in memory."""
    found = Service(served(), AccessPolicy(tokens=read_tokens({"COTERIE_TOKEN": TOKEN})))
    found.exported = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(found.exported))
    found.app = traced(found.app, found.app.template_of, provider)
    return found


def ask(found, method, target, content=b"", **headers):
    """Return the status of one answer; headers are added to the token."""
    headers = AUTHORIZED | {name.replace("_", "-"): value for name, value in headers.items()}
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    asked = found.ask(method, target, content=body, headers=headers, client="198.51.100.7")
    return asked.status


def names(found):
    """Return the names of all spans."""
    return [span.name for span in found.exported.get_finished_spans()]


@pytest.fixture
def service():
    """Return an application with no spans yet."""
    made = traced_service()
    yield made
    made.queue.close()


def test_span_has_the_template_of_the_route_and_the_status(service):
    """A span is named by method and template, and has the status of the answer."""
    assert ask(service, "GET", advertiser_path(KNOWN)) == 200
    (span,) = service.exported.get_finished_spans()
    assert span.name == "GET /v1/advertisers/{id}"
    assert span.attributes["http.route"] == "/v1/advertisers/{id}"
    assert 200 in span.attributes.values()


def test_span_continues_the_trace_of_the_client(service):
    """The span has the trace and the parent that the header ``traceparent`` names."""
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    ask(service, "GET", "/v1/model", traceparent=f"00-{trace}-{parent}-01")
    (span,) = service.exported.get_finished_spans()
    assert f"{span.context.trace_id:032x}" == trace
    assert f"{span.parent.span_id:016x}" == parent


def test_probes_are_not_traced(service):
    """Health checks and scrapes are answered without a span."""
    for path in ("/health/live", "/health/ready", "/metrics"):
        assert ask(service, "GET", path) == 200
    assert names(service) == []


def test_spans_hold_nothing_personal(monkeypatch, caplog):
    """Whatever is asked and however it fails, ids, texts, queries and tokens are in no span.

    Not even if the instrumentation is told to record all headers.
    """
    for side in ("REQUEST", "RESPONSE"):
        monkeypatch.setenv(f"OTEL_INSTRUMENTATION_HTTP_CAPTURE_HEADERS_SERVER_{side}", ".*")
    found = traced_service()
    question = {"advertiser": UNKNOWN, "text": TEXT, "bid": 2.5, "supply": 1e6}
    personal = {
        **{"User_Agent": SECRET, "Referer": f"http://localhost/?advertiser={UNKNOWN}"},
        **{"Cookie": SECRET, "Baggage": f"advertiser={UNKNOWN}", "Tracestate": f"vendor={SECRET}"},
        "Traceparent": f"00-{'1' * 32}-{'2' * 16}-01",
    }
    statuses = [
        ask(found, "GET", advertiser_path(KNOWN)),
        ask(found, "GET", f"/v1/advertisers/{UNKNOWN}"),
        ask(found, "GET", f"/v1/advertisers?search={SECRET}"),
        ask(found, "GET", f"/v1/model?{SECRET}={SECRET}"),
        ask(found, "POST", ASK, question, Content_Type=JSON),
        ask(found, "POST", ASK, question | {"bid": SECRET, SECRET: 1}, Content_Type=JSON),
        ask(found, "POST", ASK, f'"{SECRET}'.encode(), Content_Type=JSON),
        ask(found, "POST", ASK, b" " * 2_000_000, Content_Type=JSON),
        ask(found, "POST", ASK, [], Content_Type=SECRET),
        ask(found, "GET", f"/{UNKNOWN}"),
        ask(found, "GET", f"/assets/{UNKNOWN}"),
        ask(found, "GET", f"/problems/{UNKNOWN}"),
        ask(found, "GET", f"/v1/advertisers/{UNKNOWN}/../..//{SECRET}?{SECRET}"),
        ask(found, "DELETE", f"/v1/advertisers/{UNKNOWN}"),
        ask(found, SECRET.upper(), f"/v1/advertisers/{UNKNOWN}"),
        ask(found, "GET", f"/v1/advertisers/{UNKNOWN}", Authorization=SECRET),
        ask(found, "GET", "/v1/model", Host=f"{SECRET}.example"),
        ask(found, "GET", "/v1/model", **personal),
    ]
    found.holder.current = None
    caplog.set_level(logging.CRITICAL)  # the defect that follows is logged
    statuses.append(ask(found, "GET", f"/v1/advertisers/{UNKNOWN}"))
    found.queue.close()
    assert {200, 400, 401, 404, 405, 413, 415, 421, 422, 500} == set(statuses)
    assert len(names(found)) == len(statuses)
    dump = "\n".join(
        f"{span.to_json()} {span.context.trace_state.to_header()}"
        for span in found.exported.get_finished_spans()
    )
    for word in (SECRET, SECRET.upper(), KNOWN, quote(KNOWN, safe=""), TOKEN, "198.51.100.7"):
        assert word not in dump, word
    routes = {name.split(" ")[1] for name in names(found)}
    assert routes == {
        *("/v1/advertisers/{id}", "/v1/advertisers", "/v1/model", "/v1/forecast"),
        *("/assets/{name}", "/problems/{name}", "/(unknown)"),
    }


def test_spans_hold_no_message_of_an_exception():
    """An exception passes the span unseen: its message may quote an id."""
    exported = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))

    async def fails(scope, receive, send):
        raise KeyError(UNKNOWN)

    scope = {"type": "http", "method": "GET", "path": f"/{UNKNOWN}", "headers": []}
    with pytest.raises(KeyError, match=UNKNOWN):
        asyncio.run(traced(fails, lambda _: "/v1/model", provider)(scope, None, None))
    (span,) = exported.get_finished_spans()
    assert span.name == "GET /v1/model"
    assert SECRET not in span.to_json()


class Collector:
    """A collector of OTLP over HTTP that keeps what it gets."""

    def __init__(self):
        self.bodies = []
        kept = self.bodies

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                assert self.path == "/v1/traces"
                kept.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                return

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def names(self):
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
def collector():
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
def test_spans_arrive_at_a_collector(models, tmp_path, collector, workers, named):
    """The last spans of all workers are sent before the service ends, with no id in any byte."""
    variables = {
        "COTERIE_TOKEN": TOKEN,
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server.server_port}",
    }
    if named != "coterie":
        variables["OTEL_SERVICE_NAME"] = named
    options = ("--traces", "--workers", str(workers), "--drain-seconds", "0")
    with running_service(models[0], tmp_path, *options, environment=variables) as running:
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
def test_service_works_without_its_collector(models, tmp_path):
    """A collector that does not answer is logged, and the service ends with code 0 all the same."""
    options = ("--traces", "--log-format", "json", "--drain-seconds", "0")
    with socket.socket() as deaf:  # it has a port, and does not listen
        deaf.bind(("127.0.0.1", 0))
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{deaf.getsockname()[1]}",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
        }
        with running_service(models[0], tmp_path, *options, environment=variables) as running:
            with running.client() as client:
                assert client.get("/v1/model").status_code == 200
            running.signal(signal.SIGTERM)
            assert running.wait() == 0
    lines = [json.loads(line) for line in running.logged.splitlines()]
    assert any("export" in line.get("message", "") for line in lines)
