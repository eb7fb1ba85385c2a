"""Several workers on one port: together they are one service."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.ads.service.served_model import file_version
from running_service import PATIENCE, running_service, wait_until
from service_processes import BODY, QUESTION, half_asked, put, refuses, whole_answer, worker_pids

pytestmark = pytest.mark.slow

# services are shared: by one worker, so that each is started once


@pytest.fixture(scope="module")
def service(models, tmp_path_factory):
    """A service of two workers that watch their file; each test leaves it with two."""
    folder = tmp_path_factory.mktemp("workers")
    shutil.copy(models[0], folder / "market.coterie")
    options = ("--workers", "2", "--drain-seconds", "0")
    with running_service(folder / "market.coterie", folder, *options) as running:
        yield running


def by_worker(service, ask):
    """Return what workers answer on new connections, by the prefix of their request ids."""
    found = {}
    for _ in range(40):
        with service.client() as client, contextlib.suppress(OSError):
            reply = ask(client)
            found[reply.headers["x-request-id"].split("-")[0]] = reply
            if len(found) == 2:
                break
    return found


def versions(service):
    """Return the versions of the model that workers serve."""
    found = by_worker(service, lambda client: client.get("/v1/model")).values()
    return [one.json()["version"] for one in found]


def counted(service, name):
    """Return a counter of the metrics."""
    with service.client() as client:
        text = client.get("/metrics").text
    return sum(float(one) for one in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))


def test_both_workers_answer_alike(service):
    """New connections reach either worker; answers and tags are the same."""
    assert len(worker_pids(service)) == 2
    for ask, part in (
        (lambda client: client.post("/v1/forecast", json=QUESTION), lambda reply: reply.content),
        (lambda client: client.get("/v1/segments"), lambda reply: reply.headers["etag"]),
    ):
        found: dict = {}
        wait_until(lambda: found.update(by_worker(service, ask)) or len(found) == 2)  # noqa: B023
        assert len({part(reply) for reply in found.values()}) == 1


@pytest.mark.parametrize("number", [1, 0])
def test_new_model_reaches_both(service, models, number):
    """Each worker takes a file that is replaced, by itself or when SIGHUP tells it."""
    put(models[number], service)
    if number:
        service.signal(signal.SIGHUP)
    wanted = file_version(models[number])
    wait_until(lambda: versions(service) == [wanted] * 2, "the model in both workers")


def test_killed_worker_is_replaced_and_counters_do_not_fall(service):
    """Metrics are the sum over workers, those that have ended too; there is no gap in service."""
    ask = lambda client: client.post("/v1/forecast", json=QUESTION)  # noqa: E731
    before, asked = counted(service, "coterie_forecasts_total"), 0
    while asked < 40:
        with service.client() as client:
            assert ask(client).status_code == 200
        asked += 1
    assert counted(service, "coterie_forecasts_total") == before + asked
    first, second = worker_pids(service)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: set(worker_pids(service)) - {first, second}, "another worker")
    wait_until(lambda: len(by_worker(service, ask)) == 2, "its answers")
    assert counted(service, "coterie_forecasts_total") >= before + asked
    assert counted(service, "coterie_model_advertisers") == 60
    assert "Worker 0 ended with -9; another starts" in service.logged
    assert second in worker_pids(service)


def test_worker_that_cannot_start_again_does_not_end_the_others(service, models):
    """With a bad model file one worker goes on alone; with a sound one there are two again."""
    service.model.write_bytes(b"nonsense")
    first, second = worker_pids(service)
    os.kill(second, signal.SIGKILL)
    wait_until(lambda: "cannot start: " in service.logged, "the failure")
    assert first in worker_pids(service)
    assert by_worker(service, lambda client: client.post("/v1/forecast", json=QUESTION))
    put(models[0], service)
    wait_until(lambda: len(versions(service)) == 2, "two workers")


def test_requests_are_finished_and_all_processes_end(models, tmp_path):
    """The supervisor passes SIGTERM on to its workers."""
    with running_service(models[0], tmp_path, "--workers", "2", "--drain-seconds", "0") as service:
        pids = worker_pids(service)
        with half_asked(service.port) as connection:
            service.signal(signal.SIGTERM)
            wait_until(lambda: refuses(service.port), "the end of listening")
            connection.sendall(BODY)
            head, _ = whole_answer(connection)
        assert head.startswith(b"HTTP/1.1 200 ")
        assert service.wait() == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def start(*arguments):
    """Run a service that cannot start; return what it did."""
    command = [sys.executable, "-m", "coterie", "ads", "serve", "--workers", "2", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_bad_model_ends_the_start(tmp_path):
    """A model that cannot be served is one clear message and exit code 1; nothing listens."""
    (tmp_path / "bad.coterie").write_bytes(b"nonsense")
    done = start(str(tmp_path / "bad.coterie"), "--port", "0")
    assert (done.returncode, done.stdout) == (1, "")
    [message] = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert "bad.coterie" in message
    assert "Traceback" not in done.stderr


def test_port_in_use_ends_the_start(service, models):
    """Another service of several workers is no reason to share its port."""
    done = start(str(models[0]), "--port", str(service.port))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"port {service.port} is taken" in done.stderr


# this test is the last, because it ends the service that the others share
def test_workers_end_with_their_supervisor(service):
    """If the supervisor is killed, no worker is left behind on the port."""
    pids = worker_pids(service)
    assert len(pids) == 2
    service.signal(signal.SIGKILL)
    wait_until(lambda: refuses(service.port), "the end of listening")
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the end")
