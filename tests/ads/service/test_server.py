"""Processes and connections: the port, tokens, reloads, how a process ends, unread answers."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from coterie.ads.protocol import Limits
from coterie.ads.service import serve, server
from coterie.ads.service.access import ServiceSettings
from coterie.ads.service.served_model import file_version
from coterie.ads.service.server import UnreadAnswers, address_of, announce, bound_socket
from coterie.errors import MissingExtraError, ServiceError
from fitted_models import small_model, textless_model
from running_service import PATIENCE, running_service, wait_until
from service_processes import BODY, QUESTION, Load, half_asked, put, refuses, whole_answer

TOKENS = "# of two teams\nteam-a aaaaaaaaaaaaaaaaaaaa\nbbbbbbbbbbbbbbbbbbbb\n"
A, B, C = ({"authorization": f"Bearer {letter * 20}"} for letter in "abc")

# services are shared: by one worker, so that each is started once


@pytest.fixture(scope="module")
def service(models, tmp_path_factory):
    """A service that watches its file; each test leaves it with a sound model."""
    folder = tmp_path_factory.mktemp("service")
    shutil.copy(models[0], folder / "market.coterie")
    with running_service(folder / "market.coterie", folder, "--drain-seconds", "0") as running:
        yield running


@pytest.fixture(scope="module")
def guarded(models, tmp_path_factory):
    """A service with a file of tokens and a log in JSON, which does not watch its model."""
    folder = tmp_path_factory.mktemp("guarded")
    shutil.copy(models[0], folder / "market.coterie")
    (folder / "tokens").write_text(TOKENS)
    options = ["--token-file", str(folder / "tokens"), "--log-format", "json", "--no-watch"]
    options += ["--drain-seconds", "0"]
    with running_service(folder / "market.coterie", folder, *options) as running:
        yield running


def model_of(client, **headers):
    """Return what the service says of its model."""
    return client.get("/v1/model", **headers).raise_for_status().json()


class TestTokens:
    def test_each_token_of_the_file_is_accepted(self, guarded):
        """Without a token there is the page and a sign of life; with one of them everything."""
        with guarded.client() as client:
            assert [client.get(path).status_code for path in ("/", "/health/live")] == [200, 200]
            asked = [client.get("/metrics", headers=one).status_code for one in ({}, A, B, C)]
        assert asked == [401, 200, 200, 401]

    def test_tokens_are_rotated_by_a_signal(self, guarded):
        """SIGHUP reads the tokens again; a file without a good token leaves them as they are."""
        file = guarded.model.with_name("tokens")
        with guarded.client() as client:
            file.write_text("short\n")
            guarded.signal(signal.SIGHUP)
            wait_until(lambda: "former tokens stay" in guarded.logged, "the refusal")
            assert client.get("/metrics", headers=A).status_code == 200
            file.write_text("c" * 20)
            guarded.signal(signal.SIGHUP)
            wait_until(lambda: client.get("/metrics", headers=C).status_code == 200, "the token")
            assert client.get("/metrics", headers=A).status_code == 401
            file.write_text(TOKENS)
            guarded.signal(signal.SIGHUP)
            wait_until(lambda: client.get("/metrics", headers=A).status_code == 200, "the tokens")

    def test_log_has_the_format_asked_for(self, guarded):
        """Lines are JSON objects; neither they nor the command show a token."""
        with guarded.client(headers=A) as client:
            client.get("/v1/model", headers={"x-request-id": "this-one"})
        wait_until(lambda: '"this-one"' in guarded.logged, "the log")
        lines = [json.loads(line) for line in guarded.logged.splitlines()]
        [about] = [line for line in lines if line.get("request_id") == "this-one"]
        assert (about["method"], about["route"], about["status"]) == ("GET", "/v1/model", 200)
        command = Path(f"/proc/{guarded.process.pid}/cmdline").read_text()
        assert "a" * 20 not in guarded.logged + command


class TestReload:
    def test_signal_loads_the_model(self, guarded, models):
        """SIGHUP loads the model file, which is not looked at otherwise with --no-watch."""
        with guarded.client(headers=A) as client:
            before = model_of(client)["version"]
            for source in reversed(models):
                put(source, guarded)
                time.sleep(1.2)  # a file that is watched is looked at each second
                assert model_of(client)["version"] == before
                guarded.signal(signal.SIGHUP)
                before = file_version(source)
                wait_until(lambda: model_of(client)["version"] == before, "the model")  # noqa: B023

    def test_bad_file_is_refused_and_the_reason_shown(self, service, models, tmp_path):
        """The old model stays and answers as before; a sound file is then taken by itself."""
        whole = models[1].read_bytes()
        (tmp_path / "damaged").write_bytes(whole[: len(whole) // 2])
        with service.client() as client:
            before, answer = model_of(client), client.post("/v1/forecast", json=QUESTION).json()
            put(tmp_path / "damaged", service)
            refusal = wait_until(lambda: model_of(client)["last_refusal"], "the refusal")
            assert "market.coterie" in refusal["reason"] and "/" not in refusal["reason"]
            assert model_of(client)["version"] == before["version"]
            assert client.post("/v1/forecast", json=QUESTION).json() == answer
            assert 'reloads_total{outcome="refused"} 1.0' in client.get("/metrics").text
            for source in reversed(models):
                put(source, service)
                wanted = file_version(source)
                wait_until(lambda: model_of(client)["version"] == wanted, "the model")  # noqa: B023
                assert model_of(client)["last_refusal"] is None

    def test_reload_under_load_loses_no_request(self, service, models):
        """While models replace each other each answer is that of the model that it names."""
        known = dict(zip(map(file_version, models), (small_model(), textless_model()), strict=True))
        with service.client() as client, Load(service, known) as load:
            for swap in (1, 0, 1, 0):
                put(models[swap], service)
                service.signal(signal.SIGHUP)
                wanted = file_version(models[swap])
                wait_until(lambda: model_of(client)["version"] == wanted, "the swap")  # noqa: B023
                before = load.answered
                wait_until(lambda: load.answered > before + 20 or load.faults, "load")  # noqa: B023
        assert load.faults == []
        assert load.versions == set(known)


class TestPort:
    def test_taken_port_ends_with_one_message(self, service, models):
        """A service on a port that is taken ends with 1, before it loads the model."""
        command = [sys.executable, "-m", "coterie", "ads", "serve", str(models[0])]
        done = subprocess.run(
            [*command, "--port", str(service.port)], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert f"port {service.port} is taken; choose another with --port" in done.stderr
        assert "Loading" not in done.stderr

    def test_missing_package_is_named(self, monkeypatch):
        """If a package of the service is missing, the error names the extra."""
        monkeypatch.setitem(sys.modules, "starlette", None)
        with pytest.raises(MissingExtraError, match=r"starlette.*pip install .*\[ads\]'"):
            serve(ServiceSettings(Path()))


class TestEnd:
    def test_start_is_interrupted_at_once(self, models):
        """A signal while the model is loaded ends the process without a trace."""
        script = (
            "import os, signal, sys\n"
            "from coterie.ads.service import served_model\n"
            "def load(*_, **__):\n"
            "    os.kill(os.getpid(), signal.SIGINT)\n"
            "served_model.load_served = load\n"
            "from coterie.cli import main\n"
            "main()\n"
        )
        command = [sys.executable, "-c", script, "ads", "serve", str(models[0]), "--port", "0"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 128 + signal.SIGINT
        assert done.stderr.endswith("stopped while starting\n")

    def test_running_requests_are_finished(self, models, tmp_path):
        """After SIGTERM nothing listens; a request that has begun is answered all the same."""
        options = ("--drain-seconds", "0", "--quiet")
        with running_service(models[0], tmp_path, *options) as service:
            with half_asked(service.port) as connection:
                service.signal(signal.SIGTERM)
                wait_until(lambda: refuses(service.port), "the end of listening")
                assert service.process.poll() is None
                connection.sendall(BODY)
                head, body = whole_answer(connection)
            assert head.startswith(b"HTTP/1.1 200 ") and b"connection: close" in head
            assert json.loads(body)["advertiser"] == QUESTION["advertiser"]
            assert service.wait() == 0
            assert "/v1/forecast" not in service.logged  # quiet

    def test_drains_until_a_second_signal(self, models, tmp_path):
        """While it drains the port stays open and /health/ready fails; a later signal ends it."""
        with running_service(models[0], tmp_path, "--drain-seconds", "3600") as service:
            with service.client() as client, half_asked(service.port):
                assert client.get("/health/ready").status_code == 200
                service.signal(signal.SIGTERM)
                ready = wait_until(lambda: _not_ready(client), "the end of readiness")
                assert ready.json()["type"] == "/problems/not-ready"
                assert ready.headers["connection"] == "close"
                wait_until(lambda: _ended_by(service, signal.SIGINT), "the end")
            assert service.process.wait(PATIENCE) == 128 + signal.SIGINT

    def test_grace_is_that_of_the_limits(self):
        """So are the seconds of idle connections; proxies are trusted only if they are named."""
        limits = Limits(keep_alive_seconds=7, grace_seconds=3)
        settings = ServiceSettings(Path(), trusted_proxies=("10.0.0.5",), limits=limits)
        config = server.ServiceProcess(settings, print).config
        assert (config.timeout_keep_alive, config.timeout_graceful_shutdown) == (7, 3)
        assert (config.proxy_headers, config.forwarded_allow_ips) == (True, ["10.0.0.5"])
        assert not server.ServiceProcess(ServiceSettings(Path()), print).config.proxy_headers

    def test_signals_at_once_are_one(self, monkeypatch):
        """A signal within a second of the first changes nothing; a later one ends the process."""
        clock, ends = iter([10.0, 11.0, 11.1]), []
        monkeypatch.setattr(server, "time", SimpleNamespace(monotonic=lambda: next(clock)))
        monkeypatch.setattr(server.threading, "Timer", mock.Mock())
        monkeypatch.setattr(server.os, "_exit", ends.append)
        process = server.ServiceProcess(ServiceSettings(Path()), print)
        process._app = SimpleNamespace()

        async def stop_thrice():
            for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
                assert ends == []
                process.stop(number, drains=True)

        asyncio.run(stop_thrice())
        assert ends == [128 + signal.SIGINT]


def _not_ready(client):
    found = client.get("/health/ready")
    return found if found.status_code == 503 else None


def _ended_by(service, number):
    """Send a signal ever again; it counts once the first is long enough ago."""
    if service.process.poll() is None:
        service.signal(number)
    return service.process.poll() is not None


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_systemd_is_told_the_state(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state arrives at a socket in the file system or in the abstract namespace."""
    address = str(tmp_path / "notify") if kind == "path" else f"@coterie-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiving:
        receiving.bind(address.replace("@", "\0") if kind == "abstract" else address)
        receiving.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        announce("http://127.0.0.1:8400")
        assert receiving.recv(100) == b"READY=1"


def test_service_works_without_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a socket, or if no process listens on it, the state is not sent."""
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    announce("http://127.0.0.1:8400")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    announce("http://127.0.0.1:8400")


def test_taken_port_is_refused():
    """A port in use is an error with advice; sockets that are shared can share it."""
    with bound_socket("127.0.0.1", 0, shared=True) as other:
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ServiceError, match=f"port {port} is taken; choose another"):
            bound_socket("127.0.0.1", port)
        with bound_socket("127.0.0.1", port, shared=True) as second:
            assert second.getsockname() == other.getsockname()


def test_host_of_another_machine_is_refused(monkeypatch):
    """What is not an address of this machine, or no name at all, cannot be listened on."""
    with pytest.raises(ServiceError, match=r"192\.0\.2\.1 is not an address of this machine"):
        bound_socket("192.0.2.1", 0)

    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ServiceError, match=r"cannot listen on nowhere\.example: Name or service"):
        bound_socket("nowhere.example", 0)


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_address_is_as_a_browser_takes_it(host, shown):
    """The address has the port that the system chose, and brackets in IPv6."""
    try:
        bound = bound_socket(host, 0)
    except ServiceError:
        pytest.skip("this machine has no IPv6")
    with bound:
        assert address_of(bound) == f"http://{shown}:{bound.getsockname()[1]}"


class Transport:
    """A connection whose client reads some bytes each second."""

    def __init__(self, size, speed=0):
        self.size, self.speed, self.aborted = size, speed, False

    def get_write_buffer_size(self):
        """Return what waits."""
        return max(self.size - self.speed * asyncio.get_running_loop().time(), 0)

    def abort(self):
        """Note the end."""
        self.aborted = True


class Clock:
    """The time of a loop, and its timers."""

    def __init__(self):
        self.now, self.timers = 0.0, []

    def call_later(self, delay, call, *arguments):
        """Return a timer; it is cancelled by taking it out."""
        entry = (self.now + delay, call, arguments)
        self.timers.append(entry)
        return SimpleNamespace(cancel=lambda: entry in self.timers and self.timers.remove(entry))

    def move(self, until):
        """Let time pass."""
        while due := [entry for entry in self.timers if entry[0] <= until]:
            entry = min(due, key=lambda one: one[0])
            self.timers.remove(entry)
            self.now, call, arguments = entry
            call(*arguments)
        self.now = until


@pytest.fixture
def clock(monkeypatch):
    """A clock in place of that of the loop."""
    made = Clock()
    loop = SimpleNamespace(call_later=made.call_later, time=lambda: made.now)
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    return made


@pytest.mark.parametrize(("speed", "ended"), [(0, True), (1, False)])
def test_client_that_does_not_read_is_left(clock, speed, ended):
    """Its connection is ended after a while; one that reads slowly keeps its connection."""
    unread, transport = UnreadAnswers(Limits(write_seconds=20)), Transport(1_000, speed)
    unread.add(transport)
    clock.move(19)
    assert not transport.aborted
    clock.move(70)
    assert transport.aborted == ended


def test_each_answer_has_its_own_time(clock):
    """The seconds count from when an answer began to wait, not one before it."""
    unread, transport = UnreadAnswers(Limits(write_seconds=20)), Transport(1_000)
    unread.add(transport)
    clock.move(10)
    unread.discard(transport)
    clock.move(19)
    unread.add(transport)
    clock.move(38)
    assert not transport.aborted
    clock.move(39)
    assert transport.aborted
    assert clock.timers == []


def test_unread_bytes_are_limited(clock):
    """If too much waits in all, the connections that wait longest are ended."""
    unread, transports = UnreadAnswers(Limits(unread_bytes=12_000)), []
    for number in range(10):
        transports.append(Transport(4_000))
        unread.add(transports[-1])
        assert [one.aborted for one in transports].count(False) == min(number + 1, 3)
    assert [one.aborted for one in transports] == [True] * 7 + [False] * 3
