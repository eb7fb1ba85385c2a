"""Services in processes of their own: their files, workers, connections and load."""

from __future__ import annotations

import contextlib
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from coterie.ads.protocol import Answer
from running_service import PATIENCE, RunningService

QUESTION = {"advertiser": "adv-00010", "bid": 2.5}
BODY = msgspec.json.encode(QUESTION)


def put(source: Path, service: RunningService) -> None:
    """Put another file in the place of the model's, in one step."""
    beside = service.model.with_suffix(".new")
    shutil.copy(source, beside)
    beside.replace(service.model)


def worker_pids(service: RunningService) -> list[int]:
    """Return the processes of the workers."""
    pid, found = service.process.pid, []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError):
            if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text():
                found.append(int(child))
    return found


@contextlib.contextmanager
def half_asked(port: int) -> Iterator[socket.socket]:
    """Begin a request whose body is still to come, and make sure that it runs."""
    head = (
        b"POST /v1/forecast HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY)
    )
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        connection.sendall(head)
        assert connection.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        yield connection


def whole_answer(connection: socket.socket) -> tuple[bytes, bytes]:
    """Return the head and the body of an answer after which the connection is closed."""
    with connection.makefile("rb") as answers:
        head, _, body = answers.read().partition(b"\r\n\r\n")
    return head, body


def refuses(port: int) -> bool:
    """Whether nothing listens on a port."""
    try:
        socket.create_connection(("127.0.0.1", port), PATIENCE).close()
    except ConnectionRefusedError:
        return True
    except ConnectionError:
        return False
    return False


class Load:
    """Clients that ask all the time; each answer must be that of the model that it names."""

    def __init__(self, service: RunningService, models: dict[str, Any], clients: int = 3) -> None:
        self.faults: list[str] = []
        self.versions: set[str] = set()
        self.answered = 0
        self._expected = {version: one.forecast(**QUESTION) for version, one in models.items()}
        self._service = service
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(clients)]

    def _ask(self) -> None:
        with self._service.client() as client:
            while not self._over.is_set():
                try:
                    reply = client.post("/v1/forecast", json=QUESTION)
                    answer = msgspec.json.decode(reply.content, type=Answer)
                    [told] = answer.each()
                    known = self._expected[answer.model.version]
                    if (told.why, told.spend_interval) != (known.why, known.spend_interval):
                        self.faults.append(f"not the answer of {answer.model.version}")
                    self.versions.add(answer.model.version)
                    self.answered += 1
                except Exception as error:
                    self.faults.append(repr(error))

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE)
