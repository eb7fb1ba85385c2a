"""nginx and Caddy work in front of the service with the configurations of the folder packaging."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading

import pytest

from coterie.ads import Client
from coterie.errors import InvalidParameterError, ServiceError
from fitted_models import HOSTILE_IDS, small_model
from real_proxies import HOST, make_certificate, running_proxy
from running_service import running_service, wait_until
from service_processes import worker_pids

# one process runs all these tests, so that each service is started once
TOKEN = "a-token-of-24-characters"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
JSON = {"Content-Type": "application/json"}
OPTIONS = ("--allowed-host", HOST, "--trusted-proxy", "127.0.0.1", "--drain-seconds", "0")
NAMES = ["nginx", "caddy"]
QUESTION = {"advertiser": "adv-00041", "bid": 2.5, "supply": 1e6}
#: The timeouts for headers of the configurations, shortened.
IMPATIENT = {
    "nginx": ("client_header_timeout       10s;", "client_header_timeout 1s;"),
    "caddy": ("read_header 10s", "read_header 1s"),
}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Make a certificate for the proxies."""
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Run a service of one process."""
    folder = tmp_path_factory.mktemp("service")
    variables = {"COTERIE_TOKEN": TOKEN}
    with running_service(small_model(), folder, *OPTIONS, environment=variables) as found:
        yield found


@pytest.fixture(scope="module", params=NAMES)
def proxy(request, service, certificate, tmp_path_factory):
    """Run each proxy in front of the service."""
    folder = tmp_path_factory.mktemp(request.param)
    with running_proxy(
        request.param, service, folder, certificate, IMPATIENT[request.param]
    ) as found:
        yield found


def test_client_works_through_the_proxy(proxy):
    """TLS, the token, many bids and ids with special characters pass unchanged."""
    model = small_model()
    with Client(f"https://{HOST}", token=TOKEN, transport=proxy.transport()) as client:
        for name in HOSTILE_IDS:
            assert client.advertiser(name).id == name
            assert client.forecast(name, 2.5) == model.forecast(name, 2.5)
        bids = [1 + i / 1000 for i in range(9_000)]
        assert client.forecast("adv-00041", bids) == model.forecast("adv-00041", bids)
        with pytest.raises(InvalidParameterError, match="is not in the log"):
            client.advertiser("..")


def test_service_asks_for_the_token(proxy):
    """Requests without the token are refused, except for the page and the signs of life."""
    with proxy.client() as client:
        refused = client.get("/v1/model")
        assert refused.status_code == 401
        assert refused.headers["WWW-Authenticate"] == "Bearer"
        assert client.get("/health/ready").json() == {"status": "ready"}
        page = client.get("/")
        assert page.status_code == 200
        assert page.headers["Strict-Transport-Security"] == "max-age=31536000"
        assert len(page.headers.get_list("Content-Security-Policy")) == 1


def test_proxy_chooses_the_id_of_the_request(proxy):
    """The id that the proxy gave is in the answer; one of the client is not."""
    with proxy.client() as client:
        answer = client.get("/health/live", headers={"X-Request-Id": "forged"})
    assert re.fullmatch(r"[0-9a-f-]{32,36}", answer.headers["X-Request-Id"])


@pytest.mark.parametrize("size", [1_500_000, 3_000_000], ids=["above ours", "above both limits"])
def test_too_large_body_is_refused(proxy, size):
    """The problem of the service passes the proxy; far larger bodies are refused by either."""
    with proxy.client(headers=AUTHORIZED | JSON) as client:
        refused = client.post("/v1/forecast", content=b" " * size)
    if size > 2_000_000:
        # Caddy may blame the service for the end of the body
        assert refused.status_code in {"nginx": {413}, "caddy": {413, 502}}[proxy.name]
    else:
        assert refused.status_code == 413
        assert refused.headers["Content-Type"] == "application/problem+json"
        assert refused.json()["type"] == "/problems/body-too-large"


def test_compression_is_that_of_the_service(proxy):
    """An answer is compressed once, by the service."""
    with proxy.client(headers=AUTHORIZED) as client:
        zipped = client.get("/v1/segments", headers={"Accept-Encoding": "gzip"})
        plain = client.get("/v1/segments", headers={"Accept-Encoding": "identity"})
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert zipped.json() == plain.json()


def test_clients_are_told_apart_by_their_addresses(proxy, service):
    """The limit of work applies to each client of the proxy, whatever address it claims."""
    large = {
        "advertiser": "adv-00041",
        "bid": {"from": 1, "to": 10.998, "step": 0.001},
        "days": 366,
    }
    small = {"advertiser": "adv-00042", "bid": [1, 2, 3, 4, 5], "days": 7}
    over = threading.Event()

    def ask_without_end():
        with proxy.client("127.0.0.2", headers=AUTHORIZED) as client:
            while not over.is_set():
                client.post("/v1/forecast", json=large)

    def asked_beside(client, question):
        return client.post("/v1/forecast", json=question).status_code

    greedy = threading.Thread(target=ask_without_end)
    greedy.start()
    forged = AUTHORIZED | {"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9"}
    try:
        with (
            proxy.client("127.0.0.2", headers=forged) as same,
            proxy.client("127.0.0.3", headers=AUTHORIZED) as other,
        ):
            wait_until(lambda: asked_beside(same, small) == 429, "a refusal")
            assert {asked_beside(other, small) for _ in range(20)} == {200}
    finally:
        over.set()
        greedy.join()


def test_slow_client_is_cut_off(proxy, service):
    """A client that does not finish its headers is disconnected; the service never sees it."""
    with proxy.connect() as connection:
        connection.sendall(f"GET /v1/model?slow=1 HTTP/1.1\r\nHost: {HOST}\r\n".encode())
        try:
            rest = connection.recv(65_536)
        except ConnectionError:
            rest = b""
    assert rest == b"" or rest.startswith(b"HTTP/1.1 408 ")
    with proxy.client(headers=AUTHORIZED) as client:
        assert client.get("/v1/segments").status_code == 200  # the log is written in order
    wait_until(lambda: "GET /v1/segments" in service.logged)
    assert "slow=1" not in service.logged


def test_long_headers_are_refused(proxy):
    """Headers beyond the limit of the proxy are refused; the longest id is not."""
    with proxy.client(headers=AUTHORIZED) as client:
        refused = client.get("/v1/model", headers={"X-Long": "x" * 65_536})
        assert refused.status_code == {"nginx": 400, "caddy": 431}[proxy.name]
        longest = "%F0%9F%98%80" * 1_024
        answer = client.get(f"/v1/advertisers/{longest}")
        assert answer.json()["type"] == "/problems/unknown-advertiser"


def test_metrics_are_for_this_machine(proxy):
    """The proxy refuses /metrics to other addresses, even with the token."""
    with (
        proxy.client("127.0.0.1", headers=AUTHORIZED) as here,
        proxy.client("127.0.0.9", headers=AUTHORIZED) as elsewhere,
    ):
        assert "coterie_requests_total" in here.get("/metrics").text
        assert elsewhere.get("/metrics").status_code == 403


def test_plain_http_is_redirected(proxy, monkeypatch):
    """The proxy redirects http to https, and the client does not follow."""
    monkeypatch.delenv("COTERIE_TOKEN", raising=False)
    with (
        Client(f"http://{HOST}", transport=proxy.transport(secure=False)) as client,
        pytest.raises(ServiceError, match=f"points to 'https://{HOST}[:0-9]*/v1/model'"),
    ):
        client.model()


def test_nginx_limits_the_requests_of_one_address(service, certificate, tmp_path):
    """One address beyond its rate gets 429; others are answered."""
    changes = [("rate=500r/s", "rate=1r/m"), ("burst=1000 nodelay", "burst=2 nodelay")]
    with (
        running_proxy("nginx", service, tmp_path, certificate, *changes) as proxy,
        proxy.client("127.0.0.4") as greedy,
        proxy.client("127.0.0.5") as other,
    ):
        statuses = [greedy.get("/health/live").status_code for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]
        assert other.get("/health/live").status_code == 200
    assert "health" not in proxy.logged


def test_nginx_limits_the_connections_of_one_address(service, certificate, tmp_path):
    """While two requests of an address are not complete, further ones get 429; others do not."""
    change = ("coterie_connections 200", "coterie_connections 2")
    unfinished = f"POST /v1/forecast HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 9\r\n\r\n"
    with (
        running_proxy("nginx", service, tmp_path, certificate, change) as proxy,
        proxy.connect() as first,
        proxy.connect() as second,
        proxy.client("127.0.0.1") as same,
        proxy.client("127.0.0.5") as other,
    ):
        for connection in (first, second):
            connection.sendall(unfinished.encode())
        wait_until(lambda: same.get("/health/live").status_code == 429, "a refusal")
        assert other.get("/health/live").status_code == 200


@pytest.fixture(scope="module")
def service_of_two(tmp_path_factory):
    """Run a service of two processes; one that ends is replaced."""
    options, variables = (*OPTIONS, "--workers", "2"), {"COTERIE_TOKEN": TOKEN}
    folder = tmp_path_factory.mktemp("service")
    with running_service(small_model(), folder, *options, environment=variables) as found:
        yield found


@pytest.fixture(params=NAMES)
def two_workers(request, service_of_two, certificate, tmp_path):
    """Run each proxy in front of two workers that answer."""
    wait_until(lambda: len(_answering(service_of_two)) == 2, "the answers of two workers")
    with running_proxy(request.param, service_of_two, tmp_path, certificate) as proxy:
        yield proxy, service_of_two


def test_requests_do_not_notice_a_worker_that_stops(two_workers):
    """A worker that gets SIGTERM under load finishes what it took; the other takes the rest."""
    proxy, service = two_workers
    statuses: list[int] = []
    over = threading.Event()

    def ask():
        with proxy.client(headers=AUTHORIZED) as client:
            while not over.is_set():
                statuses.append(client.get("/v1/advertisers?search=adv").status_code)
                if proxy.name == "nginx":  # Caddy sends a POST again only if no worker took it
                    statuses.append(client.post("/v1/forecast", json=QUESTION).status_code)

    asking = [threading.Thread(target=ask) for _ in range(4)]
    for one in asking:
        one.start()
    try:
        _wait_for_more(statuses)
        stopped = worker_pids(service)[0]
        os.kill(stopped, signal.SIGTERM)
        wait_until(lambda: stopped not in worker_pids(service), "the end of the worker")
        _wait_for_more(statuses)
    finally:
        over.set()
        for one in asking:
            one.join()
    assert set(statuses) == {200}


def test_requests_are_answered_after_a_worker_was_killed(two_workers):
    """The proxy asks again if its open connection leads to a worker that is gone."""
    proxy, service = two_workers
    with contextlib.ExitStack() as stack:
        # connections of the proxy to both workers
        clients = [stack.enter_context(proxy.client(headers=AUTHORIZED)) for _ in range(8)]
        for client in clients:
            assert client.get("/v1/model").status_code == 200
        killed = worker_pids(service)[0]
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: killed not in worker_pids(service), "the end of the worker")
        for client in clients * 3:
            assert client.get("/v1/model").status_code == 200
            assert client.post("/v1/forecast", json=QUESTION).status_code == 200


def _wait_for_more(statuses):
    before = len(statuses)
    wait_until(lambda: len(statuses) > before + 100, "more answers")


def _answering(service):
    """Return the workers that answer new connections, by the prefix of their request ids."""
    found = set()
    for _ in range(20):
        with service.client() as client:
            found.add(client.get("/health/live").headers["x-request-id"].split("-")[0])
    return found


@pytest.mark.parametrize("name", NAMES)
def test_logs_of_the_proxy_hold_no_ids(name, certificate, tmp_path):
    """Neither answers nor refusals nor a service that is gone bring an id or a token to a log."""
    variables = {"COTERIE_TOKEN": TOKEN}
    changes = [("lb_try_duration 5s", "lb_try_duration 1s")] if name == "caddy" else []
    path = "/v1/advertisers/adv-00041?q=hush"
    with (
        running_service(small_model(), tmp_path, *OPTIONS, environment=variables) as service,
        running_proxy(name, service, tmp_path, certificate, *changes) as proxy,
        proxy.client(headers=AUTHORIZED | JSON) as client,
    ):
        assert client.get("/v1/advertisers/adv-00041").status_code == 200
        assert client.get(path).status_code == 422
        # Caddy answers 502 if the service refuses before it has read the body
        assert client.post(path, content=b" " * 3_000_000).status_code in {405, 413, 502}
        client.get(path, headers={"X-Long": "x" * 65_536})
        service.signal(signal.SIGKILL)
        service.wait()
        assert client.get(path).status_code == 502
    assert name == "caddy" or " GET 200 " in proxy.logged
    for word in ("adv-00041", "hush", TOKEN):
        assert word not in proxy.logged
