"""A service that answers as it is told to, for tests of what asks it. Also a script that says
where it listens.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = tuple[int, bytes]


class CannedService(ThreadingHTTPServer):
    """Answers every request by a function of its number and its body."""

    daemon_threads = False
    request_queue_size = 256

    def __init__(self, answer: Callable[[int, bytes], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.numbers = itertools.count()
        self.bodies: set[bytes] = set()

    def handle_error(self, request: object, client_address: object) -> None:
        """A load ends with questions still open: that is no error here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # an answer is two writes: neither is to wait for the other's acknowledgement
    disable_nagle_algorithm = True
    server: CannedService

    def do_POST(self) -> None:
        """Answer by the function."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.add(body)
        self._send(*self.server.answer(next(self.server.numbers), body))

    def do_GET(self) -> None:
        """Health, and nothing else."""
        well = self.path == "/health"
        self._send(200 if well else 404, b'{"model":{"version":"abc"}}')

    def _send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """No log."""


@contextlib.contextmanager
def canned(answer: Callable[[int, bytes], Answer]) -> Iterator[CannedService]:
    """Such a service in a thread; at the end no thread and no socket is left."""
    with CannedService(answer) as service:
        thread = threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield service
        finally:
            service.shutdown()
            thread.join()


if __name__ == "__main__":
    alone = CannedService(lambda _number, body: (200, body))
    sys.stdout.write(f"listening on http://127.0.0.1:{alone.server_port}\n")
    sys.stdout.flush()
    alone.serve_forever()
