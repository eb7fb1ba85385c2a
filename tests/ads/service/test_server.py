"""The real process: what it says and keeps to itself, faults around it, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coterie import save_model
from coterie.ads.protocol import Limits
from coterie.ads.service import server
from coterie.ads.service.access.request_logs import RequestLog
from coterie.ads.service.models.served_model import file_version
from fitted_models import small_model, textless_model
from local_server import until
from running_service import PATIENCE, running_service, wait_until

TOKEN = "a-token-that-nobody-guesses"
SHOWN = {"authorization": f"Bearer {TOKEN}"}
QUESTION = {"advertiser": "adv-00010", "bid": 2.5}
BODY = json.dumps(QUESTION).encode()
CONNECTIONS = 1_000

# services are shared: by one worker, so that each is started once
pytestmark = pytest.mark.xdist_group("the service's process")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two sound model files; nobody may write to them."""
    folder = tmp_path_factory.mktemp("models")
    save_model(small_model(), folder / "one.coterie")
    save_model(textless_model(), folder / "other.coterie")
    return folder / "one.coterie", folder / "other.coterie"


@pytest.fixture(scope="module")
def service(models, tmp_path_factory):
    """A service that watches its file; each test leaves it with a sound model."""
    folder = tmp_path_factory.mktemp("service")
    shutil.copy(models[0], folder / "market.coterie")
    with running_service(folder / "market.coterie", folder) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(models, tmp_path_factory):
    """A service on IPv6 where there is, with a token and a log in JSON; it watches nothing."""
    host = "::1" if _has_ipv6() else "127.0.0.1"
    options = ("--host", host, "--log-format", "json", "--no-watch")
    folder = tmp_path_factory.mktemp("guarded")
    shutil.copy(models[0], folder / "market.coterie")
    environment = {"COTERIE_TOKEN": TOKEN}
    with running_service(folder / "market.coterie", folder, *options, environment=environment) as s:
        yield s


def test_token_is_needed_and_enough(guarded):
    """Without the token there is the page and a sign of life; with it there is everything."""
    with guarded.client() as client:
        assert client.get("/v1/model").status_code == 401
        assert client.get("/metrics").status_code == 401
        assert client.get("/health").json() == {"status": "ok"}
        assert client.get("/").status_code == 200
        assert client.get("/v1/model", headers=SHOWN).status_code == 200
        assert client.get("/health", headers=SHOWN).json()["model"]["advertisers"] > 0


def test_token_is_kept_secret(guarded):
    """The token stands neither in the command line nor in the log nor in a problem."""
    with guarded.client() as client:
        problem = client.get("/v1/model", headers={"authorization": f"Basic {TOKEN}"})
    wait_until(lambda: problem.headers["x-request-id"] in guarded.logged, "the log")
    command = Path(f"/proc/{guarded.process.pid}/cmdline").read_text()
    assert "serve" in command
    assert TOKEN not in command + guarded.logged + problem.text


def test_log_is_json_line_by_line(guarded):
    """In JSON every line of the log is an object, those about requests with the same members."""
    with guarded.client() as client:
        client.get("/health", headers={"x-request-id": "this-one"})
    wait_until(lambda: '"this-one"' in guarded.logged, "the log")
    lines = [json.loads(line) for line in guarded.logged.splitlines()]
    (about,) = (line for line in lines if line.get("request_id") == "this-one")
    assert (about["method"], about["route"], about["status"]) == ("GET", "/health", 200)
    assert all({"time", "level"} <= line.keys() for line in lines)


def test_hangup_loads_the_model_again(guarded):
    """SIGHUP loads the model file, also where it is not watched."""
    with guarded.client(headers=SHOWN) as client:
        whole = guarded.model.read_bytes()
        guarded.model.write_bytes(b"nonsense")
        guarded.signal(signal.SIGHUP)
        wait_until(lambda: client.get("/health").json()["last_refusal"], "the refusal")
        guarded.model.write_bytes(whole)
        guarded.signal(signal.SIGHUP)
        wait_until(lambda: client.get("/health").json()["last_refusal"] is None, "the model")


def _put(source, service):
    """Put another file in the place of the model's, in one step, and have it loaded."""
    beside = service.model.with_suffix(".new")
    shutil.copy(source, beside)
    beside.replace(service.model)
    service.signal(signal.SIGHUP)


def _health(client):
    return client.get("/health").raise_for_status().json()


def test_broken_model_is_refused_and_the_old_one_stays(service, models, tmp_path):
    """A damaged file is not taken: the model stays, health says why, and a sound file heals it."""
    whole = models[1].read_bytes()
    damaged = tmp_path / "damaged"
    damaged.write_bytes(whole[: len(whole) // 2])
    with service.client() as client:
        before = _health(client)["model"]["version"]
        answer = client.post("/v1/forecast", json=QUESTION).json()
        _put(damaged, service)
        refusal = wait_until(lambda: _health(client)["last_refusal"], "the refusal")
        assert "market.coterie" in refusal["reason"]
        assert "/" not in refusal["reason"]
        assert _health(client)["model"]["version"] == before
        assert client.post("/v1/forecast", json=QUESTION).json() == answer
        counted = re.search(r'reloads_total{outcome="refused"} (\S+)', client.get("/metrics").text)
        assert float(counted[1]) >= 1
        _put(models[1], service)
        wait_until(lambda: _health(client)["model"]["version"] != before, "the sound model")
        wait_until(lambda: _health(client)["last_refusal"] is None, "the end of the refusal")


def test_replaced_file_is_taken_without_being_told(service, models):
    """The service notices by itself that its file was replaced."""
    with service.client() as client:
        for source in reversed(models):
            beside = service.model.with_suffix(".new")
            shutil.copy(source, beside)
            beside.replace(service.model)
            wanted = file_version(source)
            wait_until(lambda: _health(client)["model"]["version"] == wanted, "the model")  # noqa: B023


def test_missing_file_leaves_the_service_as_it_is(service, models):
    """A model file that is deleted is missed by nobody but whoever loads it again."""
    with service.client() as client:
        version = _health(client)["model"]["version"]
        service.model.unlink()
        service.signal(signal.SIGHUP)
        wait_until(lambda: _health(client)["last_refusal"], "the refusal")
        assert _health(client)["model"]["version"] == version
        _put(models[0], service)
        wait_until(lambda: _health(client)["last_refusal"] is None, "the sound model")


def test_models_swapped_under_load_fail_no_request(service, models):
    """While models take each other's place, every request is answered by one of them, whole."""
    versions = {file_version(source) for source in models}
    with service.client() as client, _Load(service, 4) as load:
        for swap in range(4):
            source = models[swap % 2]
            wanted = file_version(source)
            _put(source, service)
            wait_until(lambda: _health(client)["model"]["version"] == wanted, "the swap")  # noqa: B023
            before = load.answered
            wait_until(lambda: load.answered > before + 20 or load.faults, "load")  # noqa: B023
    assert load.faults == []
    assert load.versions == versions


@pytest.mark.parametrize("declared", [True, False])
def test_oversized_body_is_refused(service, declared):
    """A body beyond the limit gets 413, whether it says its size or comes in chunks."""
    body = b"[" + b" " * 2_000_000 + b"]"
    content = body if declared else iter([body[:1_500_000], body[1_500_000:]])
    with service.client() as client:
        headers = {"content-type": "application/json"}
        answer = client.post("/v1/forecast", content=content, headers=headers)
        assert answer.status_code == 413
        assert answer.json()["status"] == 413
        assert answer.headers["connection"] == "close"
        assert client.post("/v1/forecast", json=QUESTION).status_code == 200


def test_thousand_connections_at_once_are_served(service):
    """So many clients that are connected and ask at the same time all get their answers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # of which one client may have a part only
    if hard != resource.RLIM_INFINITY and hard < 4 * CONNECTIONS + 200:
        pytest.skip(f"this process may have no more than {hard} files open")
    wanted = CONNECTIONS + 200 if soft == resource.RLIM_INFINITY else max(soft, CONNECTIONS + 200)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        answers = asyncio.run(_all_at_once(service.port))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(answers) == CONNECTIONS
    assert all(answer.startswith(b"HTTP/1.1 200 ") for answer in answers)
    assert len({json.loads(answer.split(b"\r\n\r\n")[1])["supply"] for answer in answers}) == 1


async def _all_at_once(port):
    """Every client is connected and has sent all but its last byte before any sends that."""
    request = _post(b"Connection: close\r\n")
    writers, readers = [], []
    async with asyncio.timeout(PATIENCE):
        try:
            for _ in range(CONNECTIONS):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                readers.append(reader)
                writers.append(writer)
                writer.write(request[:-1])
            for writer in writers:
                writer.write(request[-1:])
            return await asyncio.gather(*(reader.read() for reader in readers))
        finally:
            for writer in writers:
                writer.close()
            closed = (writer.wait_closed() for writer in writers)
            await asyncio.gather(*closed, return_exceptions=True)


def test_log_of_all_that_holds_nothing_personal(service):
    """The log names no advertiser, no address and no folder."""
    with service.client() as client:
        client.get("/v1/advertisers/adv-00011")
        client.get("/v1/advertisers", params={"search": "adv-00012"})
    wait_until(lambda: "/v1/advertisers 200" in service.logged, "the log")
    assert " /v1/advertisers/{id} 200 " in service.logged
    for secret in ("adv-000", "127.0.0.1", str(service.model.parent), "search"):
        assert secret not in service.logged


def test_second_signal_ends_at_once_and_another_takes_the_port(models, tmp_path, monkeypatch):
    """Told to end twice, a service waits for nothing; its port can be listened on at once.

    Its standard error stream is a pipe that nobody reads any more, which it does not mind.
    """
    monkeypatch.delenv("COTERIE_TOKEN", raising=False)
    port = _free_port()
    command = [sys.executable, "-m", "coterie", "ads", "serve", str(models[0]), "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline().endswith(b":%d\n" % port)
            process.stderr.close()
            with _under_way(port):
                process.send_signal(signal.SIGTERM)
                wait_until(lambda: _refuses(port), "the end of listening")
                assert process.poll() is None
                process.send_signal(signal.SIGTERM)
                assert process.wait(PATIENCE) == 128 + signal.SIGTERM
        finally:
            process.kill()
    with running_service(models[0], tmp_path, "--quiet", port=port) as service:
        with service.client() as client:
            assert client.post("/v1/forecast", json=QUESTION).status_code == 200
        with _under_way(port) as connection:
            service.signal(signal.SIGTERM)
            wait_until(lambda: _refuses(port), "the end of listening")
            assert service.process.poll() is None
            connection.sendall(BODY)
            with connection.makefile("rb") as answers:
                answer = answers.read()
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"\r\nconnection: close\r\n" in answer
        assert json.loads(answer.split(b"\r\n\r\n")[1])["advertiser"] == QUESTION["advertiser"]
        assert service.wait() == 0
        # quiet: the requests that went well are not in the log
        assert "/v1/forecast" not in service.logged


def test_second_signal_ends_at_once_though_threads_are_waited_for(models, monkeypatch):
    """A model that is being loaded, and does not come to an end, does not keep the process."""
    monkeypatch.delenv("COTERIE_TOKEN", raising=False)
    code = (
        "import os, runpy, sys, threading\n"
        "from coterie.ads.service import server\n"
        "from coterie.ads.service.models import model_holder\n"
        "def reload(_):\n"
        "    os.write(1, b'loading\\n')\n"
        "    threading.Event().wait()\n"
        "async def run(*given, run=server._Process.run):\n"
        "    await run(*given)\n"
        "    os.write(1, b'over\\n')\n"
        "model_holder.ModelHolder.reload, server._Process.run = reload, run\n"
        "sys.argv[0] = 'coterie'\n"
        "runpy.run_module('coterie', run_name='__main__')\n"
    )
    command = [sys.executable, "-c", code, "ads", "serve", str(models[0])]
    command += ["--port", "0", "--no-watch"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline().startswith(b"coterie is listening")
            process.send_signal(signal.SIGHUP)
            assert process.stdout.readline() == b"loading\n"
            process.send_signal(signal.SIGTERM)
            assert process.stdout.readline() == b"over\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 128 + signal.SIGTERM
        finally:
            process.kill()


def test_hangup_needs_no_thread_that_questions_take():
    """A model is loaded though all common threads are busy; further signals are one more load."""

    class Holder:
        loads = 0
        ready = threading.Event()

        def reload(self):
            self.loads += 1
            self.ready.wait()

    async def scenario(reloads, busy):
        loop, holder = asyncio.get_running_loop(), Holder()
        loop.set_default_executor(ThreadPoolExecutor(1))
        question = loop.run_in_executor(None, busy.wait)
        logs = RequestLog(lambda _: None)
        process = server._Process(None, None, Limits(), holder, reloads, logs, watch=False)
        task = asyncio.create_task(process._reload_when_told())
        process._hung_up.set()
        try:
            await until(lambda: holder.loads == 1)
            for _ in range(3):
                process._hung_up.set()
                await asyncio.sleep(0)
            holder.ready.set()
            await until(lambda: holder.loads == 2)
            await until(lambda: not process._hung_up.is_set())
        finally:
            holder.ready.set()
            busy.set()
            await question
            task.cancel()
        return holder.loads

    with ThreadPoolExecutor(1) as reloads:
        assert asyncio.run(scenario(reloads, threading.Event())) == 2


def test_closed_standard_error_stream_is_no_failure():
    """Without a standard error stream there is no log, and nothing is written into other files."""
    code = (
        "from coterie.ads.service import server\n"
        "from coterie.ads.service.access import request_logs\n"
        "assert request_logs.standard_error() is None\n"
        "with server._log('text', False) as log:\n"
        "    log.event('INFO', 'into the void')\n"
    )
    closed = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-c", code]
    assert subprocess.run(closed, check=False).returncode == 0


def test_open_files_are_raised_to_what_connections_need(monkeypatch):
    """The limit on open files is raised as far as it may be; connections keep within it."""
    given = {}
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1_000))
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: given.update(pair=pair))
    assert server._within_open_files(Limits(connections=500)).connections == 500
    assert given["pair"][0] >= 500
    fewer = server._within_open_files(Limits(connections=5_000))
    assert given["pair"] == (1_000, 1_000)
    assert 0 < fewer.connections < 1_000
    assert 0 < fewer.connections_per_client < fewer.connections


def test_descriptor_of_the_log_is_given_back(tmp_path, monkeypatch):
    """A log that is over has written all, and closes what it opened."""
    descriptor = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    monkeypatch.setattr(server, "standard_error", lambda: descriptor)
    with server._log("text", quiet=False) as log:
        log.event("INFO", "the last word")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    assert (tmp_path / "log").read_text().endswith("INFO the last word\n")


class _Load:
    """Clients that ask again and again over connections they keep, until they are told to stop."""

    def __init__(self, service, clients):
        self.answered, self.faults, self.versions = 0, [], set()
        self._service = service
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(clients)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self):
        with self._service.client() as client:
            while not self._stop.is_set():
                try:
                    answer = client.post("/v1/forecast", json=[QUESTION, QUESTION])
                    told = answer.json()
                    assert answer.status_code == 200, answer.text
                    assert told["answers"][0] == told["answers"][1]
                except Exception as fault:
                    self.faults.append(repr(fault))
                    return
                self.versions.add(told["model"]["version"])
                self.answered += 1


def _post(headers):
    """A question as bytes."""
    head = b"POST /v1/forecast HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return head + b"Content-Length: %d\r\n" % len(BODY) + headers + b"\r\n" + BODY


@contextlib.contextmanager
def _under_way(port):
    """A connection on which the service has asked for the body of a request."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(_post(b"Expect: 100-continue\r\n")[: -len(BODY)])
        told = b""
        while not told.endswith(b"\r\n\r\n"):
            told += connection.recv(1)
        assert told.startswith(b"HTTP/1.1 100 ")
        yield connection


def _has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def _refuses(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def _free_port():
    """A port below those that the system gives away by itself, so that it stays free meanwhile."""
    while True:
        port = 20_000 + secrets.randbelow(10_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
