"""Clients of the soak: some that ask at a steady pace, and some that are rude or slow."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from benchmarks.soak.requests import MixedRequests, Sent

#: A connection is closed after so many requests on average, so that connections come and go.
_REQUESTS_PER_CONNECTION = 10
_TIMEOUT = 60.0


class Window(NamedTuple):
    """What happened since the last look: latencies in seconds, and failures by their text."""

    latencies: list[float]
    failures: list[str]
    requests: int


class Tally:
    """Counts of all clients, safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.by_kind: Counter[str] = Counter()
        self.latencies: dict[str, list[float]] = {}
        self.failures: list[str] = []
        self.kept: list[bytes] = []
        self._recent: list[float] = []
        self._recent_failures: list[str] = []

    def add(self, sent: Sent, seconds: float, failure: str, body: bytes = b"") -> None:
        """Count one request; ``failure`` is empty if the answer was the right one."""
        with self._lock:
            self.by_kind[sent.kind] += 1
            self.latencies.setdefault(sent.kind, []).append(seconds)
            self._recent.append(seconds)
            if failure:
                self.failures.append(failure)
                self._recent_failures.append(failure)
            elif sent.kind == "forecast" and self.by_kind["forecast"] % 20 == 1:
                self.kept.append(body)

    def count(self, kind: str) -> None:
        """Count a rude client, which has no latency."""
        with self._lock:
            self.by_kind[kind] += 1

    def look(self) -> Window:
        """Return what happened since the last look."""
        with self._lock:
            latencies, failures = self._recent, self._recent_failures
            self._recent, self._recent_failures = [], []
            return Window(latencies, failures, sum(self.by_kind.values()))


class SteadyClient(threading.Thread):
    """Asks at a steady pace over connections that are kept for a while."""

    def __init__(
        self, port: int, mixed: MixedRequests, tally: Tally, interval: float, stop: threading.Event
    ) -> None:
        super().__init__(daemon=True)
        self._port, self._mixed, self._tally = port, mixed, tally
        self._interval, self._stop_event = interval, stop
        self._connection: http.client.HTTPConnection | None = None

    def run(self) -> None:
        """Ask until told to stop; an answer that is late delays the next request, not skips it."""
        due = time.perf_counter()
        while not self._stop_event.wait(max(0.0, due - time.perf_counter())):
            due = max(due + self._interval, time.perf_counter() - 5)
            self.ask(self._mixed.draw())
            if self._mixed.one_of(range(_REQUESTS_PER_CONNECTION)) == 0:
                self.close()
        self.close()

    def ask(self, sent: Sent) -> None:
        """Send one request and count it."""
        start, failure, body = time.perf_counter(), "", b""
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, _TIMEOUT)
        try:
            self._connection.request(sent.method, sent.path, sent.body, sent.headers)
            answer = self._connection.getresponse()
            body = answer.read()
            if answer.status != sent.expected:
                failure = f"{sent.kind}: status {answer.status}, not {sent.expected}"
            if answer.will_close:
                self.close()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            # the service may answer a body that is too large, and close, before all of it is sent
            if not (sent.expected == 413 and isinstance(error, ConnectionError)):
                failure = f"{sent.kind}: {error!r}"
        self._tally.add(sent, time.perf_counter() - start, failure, body)

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class RudeClient(threading.Thread):
    """Sends requests that stop half-way, drip, or whose sender leaves before the answer."""

    def __init__(
        self,
        port: int,
        mixed: MixedRequests,
        tally: Tally,
        interval: float,
        stop: threading.Event,
        rng: Generator,
    ) -> None:
        super().__init__(daemon=True)
        self._port, self._mixed, self._tally = port, mixed, tally
        self._interval, self._stop_event, self._rng = interval, stop, rng

    def run(self) -> None:
        """Be rude in one way after the other until told to stop."""
        ways: list[tuple[str, Callable[[socket.socket], None]]] = [
            ("aborted head", self._aborted_head),
            ("aborted body", self._aborted_body),
            ("left before the answer", self._left),
            ("slow body", self._slow),
            ("not HTTP", lambda s: s.sendall(b"\x16\x03\x01\x02\x00nonsense\r\n\r\n")),
            ("idle connection", lambda _: self._pause(5)),
            ("answer not read", self._unread),
        ]
        while not self._stop_event.wait(self._interval):
            kind, act = ways[int(self._rng.integers(len(ways)))]
            with contextlib.suppress(OSError):
                with socket.create_connection(("127.0.0.1", self._port), _TIMEOUT) as connection:
                    act(connection)
                self._tally.count(kind)

    def _head(self, size: int) -> bytes:
        head = f"POST /v1/forecast HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
        return f"{head}Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n".encode()

    def _aborted_head(self, connection: socket.socket) -> None:
        connection.sendall(self._head(10)[:40])

    def _aborted_body(self, connection: socket.socket) -> None:
        connection.sendall(self._head(1_000) + b'[{"advertiser": ')

    def _left(self, connection: socket.socket) -> None:
        body = b"[" + b",".join([b'{"text": "a hotel", "supply": 9, "bid": 1}'] * 90) + b"]"
        connection.sendall(self._head(len(body)) + body)

    def _slow(self, connection: socket.socket) -> None:
        body = b'{"advertiser": "adv-00001", "bid": 2.5}'
        connection.sendall(self._head(len(body)))
        for place in range(0, len(body), 10):
            self._pause(0.7)
            connection.sendall(body[place : place + 10])
        connection.recv(65_536)

    def _unread(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.sendall(
            f"GET /v1/curves HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n\r\n".encode()
        )
        self._pause(3)

    def _pause(self, seconds: float) -> None:
        self._stop_event.wait(seconds)


def quantiles(latencies: list[float]) -> dict[str, Any]:
    """Return the number of latencies, their median, the 99th percentile and the largest."""
    if not latencies:
        return {"requests": 0, "p50": None, "p99": None, "slowest": None}
    p50, p99, most = np.percentile(latencies, [50, 99, 100]).tolist()
    return {"requests": len(latencies), "p50": p50, "p99": p99, "slowest": most}
