"""What disturbs a service: a greedy client, new models, a worker that is killed."""

from __future__ import annotations

import http.client
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serve.processes import RunningService, get, run_load, running_service, serve_command
from coterie.ads.client import Client
from coterie.ads.service.served_model import file_version
from coterie.errors import CoterieError

#: The other client has an address of its own, so that the service can tell the two apart.
_OTHER_ADDRESS = "127.0.0.2"
#: Seconds between the requests of the other client.
_INTERVAL = 0.02
_THREADS = 4


def measure_greedy(
    service: RunningService,
    batches: Sequence[bytes],
    questions: Sequence[bytes],
    connections: int,
    seconds: int,
) -> dict[str, Any]:
    """Ask single questions and signs of life while another client sends batches without pause.

    Return latencies in seconds: of the other client's questions before and meanwhile, of
    questions from the greedy client's own address, and of ``/health/live``.
    """
    other, own = (_OTHER_ADDRESS, 0), ("127.0.0.1", 0)
    port = service.port
    asked: dict[str, Callable[[int], float]] = {
        "other client": lambda n: _post(port, questions[n % len(questions)], other),
        "same client": lambda n: _post(port, questions[n % len(questions)], own),
        "/health/live": lambda _: _get(port, other),
    }
    alone = _latencies(asked["other client"], 2.0)
    meanwhile: dict[str, list[float]] = {}

    def ask() -> None:
        time.sleep(1.0)  # until all connections are busy
        threads = [
            threading.Thread(
                target=lambda n=name: meanwhile.update({n: _latencies(asked[n], seconds)})
            )
            for name in asked
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    load, _ = run_load(port, batches, connections, seconds + 3, meanwhile=ask)
    return {
        "connections": connections,
        "greedy": load,
        "alone": _summary(alone),
        **{name: _summary(found) for name, found in meanwhile.items()},
    }


def measure_reloads(
    files: Sequence[Path], questions: Sequence[bytes], seconds: int, reloads: int = 5
) -> tuple[dict[str, Any], list[bytes]]:
    """Replace a model by another and back under load; return figures, and answers to check."""
    served = files[0].with_name("served.coterie")
    os.link(files[0], served)
    waits: list[float | None] = []
    with running_service(serve_command(served)) as service:
        run_load(service.port, questions, 8, 1)
        before = service.memory()
        found, kept = run_load(
            service.port,
            questions,
            8,
            seconds,
            keep_every=200,
            meanwhile=lambda: waits.extend(_replace(service, served, files, seconds, reloads)),
        )
        return {"run": found, "waits": waits, "before": before, "after": service.memory()}, kept


def measure_kill(
    files: Sequence[Path], advertisers: Sequence[str], seconds: int, reloads: int = 5
) -> dict[str, Any]:
    """Ask with Clients while models are replaced and one of two workers is killed (SIGKILL)."""
    served = files[0].with_name("killed.coterie")
    os.link(files[0], served)
    stop, answers, failures = threading.Event(), [0] * _THREADS, list[str]()

    def ask(thread: int) -> None:
        rng = np.random.default_rng(thread)
        with Client(f"http://127.0.0.1:{service.port}") as client:
            while not stop.is_set():
                try:
                    client.forecast(advertisers[int(rng.integers(len(advertisers)))], 2.5)
                    answers[thread] += 1
                except CoterieError as error:
                    failures.append(str(error))

    with running_service(serve_command(served, workers=2)) as service:
        threads = [threading.Thread(target=ask, args=(n,)) for n in range(_THREADS)]
        for thread in threads:
            thread.start()
        before = service.workers()
        killer = threading.Timer(seconds / 2, os.kill, (before[0], signal.SIGKILL))
        killer.start()
        waits = _replace(service, served, files, seconds, reloads)
        stop.wait(seconds / (reloads + 1))
        stop.set()
        for thread in threads:
            thread.join()
        replaced = _replaced_workers(service, before)
    return {
        "answers": sum(answers),
        "failures": failures,
        "reloads": len([wait for wait in waits if wait is not None]),
        "workers_replaced": replaced,
    }


def wait_for_version(port: int, version: str, since: float) -> float | None:
    """Return the seconds until the service names a version; None after half a minute."""
    while time.perf_counter() < since + 30:
        found = get(port, "/v1/model")
        if found is not None and found["version"] == version:
            return time.perf_counter() - since
        time.sleep(0.05)
    return None


def _replaced_workers(service: RunningService, before: Sequence[int]) -> int:
    """Return how many workers are new, once there are as many as before or half a minute passed."""
    end = time.perf_counter() + 30
    while len(found := service.workers()) < len(before) and time.perf_counter() < end:
        time.sleep(0.1)  # a worker takes seconds to start on a busy machine
    return len(set(found) - set(before))


def _replace(
    service: RunningService, served: Path, files: Sequence[Path], seconds: int, reloads: int
) -> list[float | None]:
    """Replace the served file several times; return the seconds until each was taken."""
    start, waits = time.perf_counter(), []
    for number in range(1, reloads + 1):
        at = start + number * seconds / (reloads + 1)
        time.sleep(max(0.0, at - time.perf_counter()))
        following = served.with_name("following.coterie")
        os.link(files[number % 2], following)
        replaced = time.perf_counter()
        following.replace(served)
        waits.append(wait_for_version(service.port, file_version(files[number % 2]), replaced))
    return waits


def _latencies(ask: Callable[[int], float], seconds: float) -> list[float]:
    """Ask at fixed moments, so that a slow answer does not hide those that wait behind it."""
    found, start = [], time.perf_counter()
    try:
        for number in range(int(seconds / _INTERVAL)):
            due = start + number * _INTERVAL
            time.sleep(max(0.0, due - time.perf_counter()))
            ask(number)
            found.append(time.perf_counter() - due)
    finally:
        _open.connection.close()
        del _open.connection
    return found


_open = threading.local()


def _connection(port: int, source: tuple[str, int]) -> http.client.HTTPConnection:
    """Return the connection of this thread, which is kept open."""
    if not hasattr(_open, "connection"):
        _open.connection = http.client.HTTPConnection("127.0.0.1", port, 60, source_address=source)
    return _open.connection


def _answered(connection: http.client.HTTPConnection) -> float:
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        raise CoterieError(f"the service answered {answer.status}")
    return 0.0


def _post(port: int, body: bytes, source: tuple[str, int]) -> float:
    connection = _connection(port, source)
    connection.request("POST", "/v1/forecast", body, {"Content-Type": "application/json"})
    return _answered(connection)


def _get(port: int, source: tuple[str, int]) -> float:
    connection = _connection(port, source)
    connection.request("GET", "/health/live")
    return _answered(connection)


def _summary(latencies: Sequence[float]) -> dict[str, float]:
    p50, p99, most = np.percentile(latencies, [50, 99, 100]).tolist()
    return {"requests": len(latencies), "p50": p50, "p99": p99, "slowest": most}
