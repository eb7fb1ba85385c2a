"""A service in the test's own loop, on a real port, with limits that a test can wait for."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import uvicorn
import uvloop

from coterie.ads.protocol import Limits
from coterie.ads.service.access.connections import connections_within
from coterie.ads.service.access.gate import Gate
from coterie.ads.service.access.listening import Door, bound_socket
from coterie.ads.service.access.request_logs import RequestLog
from coterie.ads.service.metrics import Metrics
from coterie.ads.service.server import server_settings

PATIENCE = 60.0


class LocalServer:
    """Where the service listens, what it logged and counted, and its open connections."""

    def __init__(self, app: Any, limits: Limits, door: Door) -> None:
        self.lines: list[str] = []
        self.metrics = Metrics()
        logs = RequestLog(self.lines.append)
        gate = Gate(app, door=door, limits=limits, metrics=self.metrics, logs=logs)
        protocol = connections_within(limits, self.metrics, logs, door)
        self.server = uvicorn.Server(server_settings(gate, protocol, limits))
        self.listening = bound_socket("127.0.0.1", 0)

    @property
    def port(self) -> int:
        """The port that the system chose."""
        return int(self.listening.getsockname()[1])

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self.server.server_state.connections)

    @contextlib.asynccontextmanager
    async def client(self, source: str = "127.0.0.1") -> AsyncIterator[Client]:
        """A connection to the service, from an address of this machine; closed afterwards."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, local_addr=(source, 0)
        )
        try:
            yield Client(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


class Client:
    """One end of a connection, in bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, data: bytes) -> None:
        """Send some bytes."""
        self.writer.write(data)
        with contextlib.suppress(ConnectionError):
            await self.writer.drain()

    def finish(self) -> None:
        """Send no more; the other end may have closed already."""
        with contextlib.suppress(RuntimeError, OSError):
            self.writer.write_eof()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """The status, headers and body of the next answer."""
        async with asyncio.timeout(PATIENCE):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.rstrip().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines)
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
            return int(first.split(" ")[1]), headers, body

    async def rest(self) -> bytes:
        """What comes until the connection is closed."""
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                return await self.reader.read()
            return b""


@contextlib.asynccontextmanager
async def local_server(
    app: Any, door: Door | None = None, **limits: Any
) -> AsyncIterator[LocalServer]:
    """Serve an application while inside."""
    local = LocalServer(app, Limits(**{"grace_seconds": 5.0} | limits), door or Door())
    server = local.server
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup(sockets=[local.listening])
    try:
        yield local
    finally:
        await server.shutdown(sockets=[local.listening])


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test that is a coroutine, on the loop that the service has."""

    @functools.wraps(test)
    def runs(*given: Any, **named: Any) -> None:
        run(test(*given, **named))

    return runs


def run(scenario: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine gives, on the loop that the service has."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(scenario)


async def until(condition: Any) -> None:
    """Wait for a condition; a failure where that takes unreasonably long."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)
