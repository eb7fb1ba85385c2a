"""The process: what it says, what it keeps to itself, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import resource
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
from fitted_models import small_model
from local_server import until
from running_service import PATIENCE, running_service, wait_until

TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A service on IPv6 where there is, with a token and a log in JSON."""
    host = "::1" if _has_ipv6() else "127.0.0.1"
    options = ("--host", host, "--log-format", "json", "--no-watch")
    folder = tmp_path_factory.mktemp("guarded")
    environment = {"COTERIE_TOKEN": TOKEN}
    with running_service(small_model(), folder, *options, environment=environment) as service:
        yield service


def test_token_is_needed_and_enough(guarded):
    """Without the token there is the page and a sign of life; with it there is everything."""
    with guarded.client() as client:
        assert client.get("/v1/model").status_code == 401
        assert client.get("/metrics").status_code == 401
        assert client.get("/health").json() == {"status": "ok"}
        assert client.get("/").status_code == 200
        shown = {"authorization": f"Bearer {TOKEN}"}
        assert client.get("/v1/model", headers=shown).status_code == 200
        assert client.get("/health", headers=shown).json()["model"]["advertisers"] > 0


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
    shown = {"authorization": f"Bearer {TOKEN}"}
    with guarded.client(headers=shown) as client:
        whole = guarded.model.read_bytes()
        guarded.model.write_bytes(b"nonsense")
        guarded.signal(signal.SIGHUP)
        wait_until(lambda: client.get("/health").json()["last_refusal"], "the refusal")
        guarded.model.write_bytes(whole)
        guarded.signal(signal.SIGHUP)
        wait_until(lambda: client.get("/health").json()["last_refusal"] is None, "the model")


def test_second_signal_ends_at_once(tmp_path, monkeypatch):
    """Told to end twice, the service does not wait for what is under way.

    Its standard error stream is a pipe that nobody reads any more, which it does not mind.
    """
    monkeypatch.delenv("COTERIE_TOKEN", raising=False)
    file = tmp_path / "market.coterie"
    save_model(small_model(), file)
    command = [sys.executable, "-m", "coterie", "ads", "serve", str(file), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            port = int(process.stdout.readline().rsplit(b":", 1)[1])
            process.stderr.close()
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
                head = b"POST /v1/forecast HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
                connection.sendall(head + b"Expect: 100-continue\r\n\r\n")
                assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
                process.send_signal(signal.SIGTERM)
                wait_until(lambda: _refuses(port), "the end of listening")
                assert process.poll() is None
                process.send_signal(signal.SIGTERM)
                assert process.wait(PATIENCE) == 128 + signal.SIGTERM
        finally:
            process.kill()


def test_second_signal_ends_at_once_though_threads_are_waited_for(tmp_path, monkeypatch):
    """A model that is being loaded, and does not come to an end, does not keep the process."""
    monkeypatch.delenv("COTERIE_TOKEN", raising=False)
    file = tmp_path / "market.coterie"
    save_model(small_model(), file)
    code = (
        "import os, runpy, sys, threading\n"
        "from coterie.ads.service import model_holder, server\n"
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
    command = [sys.executable, "-c", code, "ads", "serve", str(file), "--port", "0", "--no-watch"]
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
        "from coterie.ads.service import request_logs, server\n"
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
