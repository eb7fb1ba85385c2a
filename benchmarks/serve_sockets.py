"""Load from sockets of our own, where wrk is not to be had; nothing but the standard library.

Run as a script in a folder with ``bodies.txt``,

    python serve_sockets.py PORT CONNECTIONS SECONDS KEEP_EVERY

it posts the bodies to ``/v1/forecast`` in turn, on every connection one after the other, and
leaves ``load.json`` and, with KEEP_EVERY above 0, ``kept.txt``, as
:mod:`benchmarks.serve_load` says.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Load", "main", "percentile"]

_HOST = "127.0.0.1"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_LAST = re.compile(rb"\r\nconnection:[ \t]*close", re.IGNORECASE)
_VERSION = re.compile(rb'"version":\s*"([0-9a-f]+)"')


class Load:
    """Connections that ask, and what they were answered.

    Parameters
    ----------
    port : int
    bodies : list of bytes
    keep_every : int
        Look at the answers and keep the first of every so many; 0 looks at none.
    """

    def __init__(self, port: int, bodies: list[bytes], keep_every: int = 0) -> None:
        self.port, self.keep_every = port, keep_every
        self.requests: Iterator[bytes] = itertools.cycle(
            [_as_request(body, port) for body in bodies]
        )
        self.seconds: list[float] = []
        self.failures: Counter[str] = Counter(connect=0, read=0, status=0)
        self.versions: Counter[str] = Counter()
        self.kept: list[bytes] = []

    async def run(self, connections: int, seconds: float) -> float:
        """Ask for so long; gives the seconds it took. Questions then open are not counted."""
        start = time.perf_counter()
        asking = [asyncio.create_task(self._ask_on()) for _ in range(connections)]
        await asyncio.sleep(seconds)
        for task in asking:
            task.cancel()
        ended = await asyncio.gather(*asking, return_exceptions=True)
        for end in ended:
            if isinstance(end, Exception):
                raise end
        return time.perf_counter() - start

    async def _ask_on(self) -> None:
        """Ask on one connection, and on another where it was closed."""
        while True:
            try:
                reader, writer = await asyncio.open_connection(_HOST, self.port)
            except OSError:
                self.failures["connect"] += 1
                await asyncio.sleep(0.01)
                continue
            try:
                while await self._ask(reader, writer):
                    pass
            except (OSError, EOFError, ValueError):
                self.failures["read"] += 1
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One question and its answer; False where it was the connection's last."""
        start = time.perf_counter()
        writer.write(next(self.requests))
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if length is None:
            raise ValueError("an answer that does not tell its length")
        body = await reader.readexactly(int(length[1]))
        self.seconds.append(time.perf_counter() - start)
        status = int(head[9:12])
        if status >= 400:
            self.failures["status"] += 1
        elif self.keep_every:
            self._look_at(body)
        return _LAST.search(head) is None

    def _look_at(self, body: bytes) -> None:
        if self.versions.total() % self.keep_every == 0:
            self.kept.append(body)
        version = _VERSION.search(body)
        self.versions[version[1].decode() if version else "none"] += 1


def percentile(values: list[float], percent: float) -> float:
    """The smallest value that so many percent do not exceed; 0 of none.

    >>> percentile([3.0, 1.0, 2.0, 4.0], 50), percentile([1.0], 99), percentile([], 50)
    (2.0, 1.0, 0.0)
    """
    ordered = sorted(values)
    at = math.ceil(len(ordered) * percent / 100) - 1
    return ordered[max(at, 0)] if ordered else 0.0


def main(arguments: list[str]) -> None:
    """Load as the arguments say, from and to files in the present folder."""
    port, connections, seconds, keep_every = (int(argument) for argument in arguments)
    bodies = Path("bodies.txt").read_bytes().splitlines()
    load = Load(port, bodies, keep_every)
    taken = asyncio.run(load.run(connections, seconds))
    if keep_every:
        Path("kept.txt").write_bytes(b"".join(body + b"\n" for body in load.kept))
    found = {
        "requests": len(load.seconds),
        "seconds": taken,
        "p50": percentile(load.seconds, 50),
        "p99": percentile(load.seconds, 99),
        "slowest": max(load.seconds, default=0.0),
        "failures": load.failures,
        "versions": load.versions,
    }
    Path("load.json").write_text(json.dumps(found), encoding="utf-8")


def _as_request(body: bytes, port: int) -> bytes:
    head = (
        f"POST /v1/forecast HTTP/1.1\r\nHost: {_HOST}:{port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


if __name__ == "__main__":
    main(sys.argv[1:])
