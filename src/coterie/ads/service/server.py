"""The process of the service: it starts, listens, reloads when told to, and ends in good order."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from coterie.ads.protocol import Limits
from coterie.ads.service.access.listening import (
    address_of,
    bound_socket,
    cannot_listen,
    open_door,
    token_in,
)
from coterie.ads.service.access.request_logs import (
    LineWriter,
    LogFormat,
    RequestLog,
    standard_error,
)
from coterie.errors import MissingExtraError

if TYPE_CHECKING:
    from uvicorn import Config

    from coterie.ads.service.models.model_holder import ModelHolder

__all__ = ["check_can_serve", "serve", "server_settings"]

_LOG = logging.getLogger("coterie")
_PACKAGES = ("fastapi", "uvicorn", "httptools", "orjson", "prometheus_client")
#: Files that the process has open besides connections.
_OTHER_FILES = 128
#: Seconds after the grace in which a process that does not end is ended.
_LAST_SECONDS = 5.0
#: Seconds in which the last lines of the log are written where the process ends at once.
_LOG_SECONDS = 1.0


def serve(
    model: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8400,
    allowed_hosts: Sequence[str] = (),
    trusted_proxies: Sequence[str] = (),
    watch: bool = True,
    log_format: LogFormat = "text",
    quiet: bool = False,
    limits: Limits | None = None,
) -> None:
    """Serve a model until SIGTERM or SIGINT; requests under way are finished first.

    SIGHUP has the model file loaded again. A second SIGTERM or SIGINT ends the process at once.
    The token, where there is one, is in the environment as ``COTERIE_TOKEN``.

    Parameters
    ----------
    model : Path
        A model file of ``coterie ads segment``.
    host, port
        What to listen on; port 0 is one that the system chooses.
    allowed_hosts, trusted_proxies : sequence of str
        See :func:`~coterie.ads.service.access.listening.open_door`.
    watch : bool
        Whether a model file that is replaced is taken by itself.
    log_format : {"text", "json"}
    quiet : bool
        Whether the log leaves out all requests but those the service failed on (5xx).
    limits : Limits, optional

    Raises
    ------
    CoterieError
        Where the service cannot start: nothing listens then.
    """
    check_can_serve()
    door = open_door(host, allowed_hosts, trusted_proxies, token_in(os.environ))
    with (
        contextlib.closing(bound_socket(host, port)) as listening,
        _hangups_ignored(),
        _log(log_format, quiet) as logs,
    ):
        from coterie.ads.service.metrics import Metrics
        from coterie.ads.service.models.model_holder import ModelHolder
        from coterie.ads.service.models.served_model import begun

        within = _within_open_files(limits or Limits())
        metrics = Metrics()
        holder = ModelHolder(model, metrics=metrics, load_first=begun)
        _LOG.info("Loading %s", model.name)
        with ThreadPoolExecutor(1) as beside:
            loading = beside.submit(holder.load_first)
            # which takes about as long as loading a large model
            from coterie.ads.service.access.connections import connections_within
            from coterie.ads.service.access.gate import Gate
            from coterie.ads.service.application import application

            loading.result()
        app = application(holder, limits=within, metrics=metrics)
        gate = Gate(app, door=door, limits=within, metrics=metrics, logs=logs)
        protocol = connections_within(within, metrics, logs, door)
        _spare_the_collector()
        with (
            _ended_at_once(logs),
            # of its own, so that questions which take long do not keep a new model out
            ThreadPoolExecutor(1, "coterie-reload") as reloads,
            asyncio.Runner(loop_factory=_loop_factory()) as runner,
        ):
            process = _Process(gate, protocol, within, holder, reloads, logs, watch=watch)
            runner.run(process.run(listening, host))


def server_settings(gate: Any, protocol: Callable[..., Any], limits: Limits) -> Config:
    """Return what uvicorn is told: to serve a gate over connections that mind all else."""
    import uvicorn

    return uvicorn.Config(
        gate,
        http=protocol,  # type: ignore[arg-type]
        loop="none",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        # both are seconds, and may have parts of them
        timeout_keep_alive=limits.idle_seconds,  # type: ignore[arg-type]
        timeout_graceful_shutdown=limits.grace_seconds,  # type: ignore[arg-type]
    )


def check_can_serve() -> None:
    """Refuse, before anything is loaded, where what the service needs is not installed."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"the service needs {' and '.join(missing)}, not installed here: "
            "pip install 'coterie[service]'"
        )


class _Process:
    """A uvicorn server, the signals it obeys, and the tasks beside it."""

    def __init__(
        self,
        gate: Any,
        protocol: Callable[..., Any],
        limits: Limits,
        holder: ModelHolder,
        reloads: Executor,
        logs: RequestLog,
        *,
        watch: bool,
    ) -> None:
        import uvicorn

        self._limits = limits
        self._holder = holder
        self._reloads = reloads
        self._logs = logs
        self._watch = watch
        self._hung_up = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server = uvicorn.Server(server_settings(gate, protocol, limits))

    async def run(self, listening: socket.socket, host: str) -> None:
        """Listen until told to end."""
        config = self._server.config
        config.load()
        self._server.lifespan = config.lifespan_class(config)
        try:
            await self._server.startup(sockets=[listening])
        except OSError as error:
            raise cannot_listen(host, listening.getsockname()[1], error) from error
        with self._signals():
            self._begin(self._holder.current.with_details(), "making the details of the model")
            self._begin(self._reload_when_told(), "loading the model again when told to")
            if self._watch:
                self._begin(self._holder.watch(), "the watch over the model file")
            _say(f"coterie is listening on {address_of(listening)}")
            await self._server.main_loop()
            for task in list(self._tasks):
                task.cancel()
            await self._server.shutdown(sockets=[listening])

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Obey SIGTERM, SIGINT and SIGHUP while inside."""
        loop = asyncio.get_running_loop()
        kept = {number: signal.getsignal(number) for number in _SIGNALS}
        loop.add_signal_handler(signal.SIGHUP, self._hung_up.set)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end, number)
        try:
            yield
        finally:
            for number, handler in kept.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    async def _reload_when_told(self) -> None:
        """Load the model again after SIGHUP; once more, however many come meanwhile."""
        loop = asyncio.get_running_loop()
        while True:
            await self._hung_up.wait()
            self._hung_up.clear()
            await loop.run_in_executor(self._reloads, self._holder.reload)

    def _end(self, number: int) -> None:
        """End in good order; when told again, or where that takes too long, at once."""
        if self._server.should_exit:
            _end_at_once(self._logs, number)
        _LOG.info("The service is ending; requests under way are finished first")
        self._server.should_exit = True
        last = threading.Timer(self._limits.grace_seconds + _LAST_SECONDS, os._exit, (1,))
        last.daemon = True
        last.start()

    def _begin(self, work: Any, what: str) -> None:
        """Do something beside the requests; where it fails, that is told and no more."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)

        def done(task: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                _LOG.error("A defect ended %s", what, exc_info=error)

        task.add_done_callback(done)


_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@contextlib.contextmanager
def _ended_at_once(logs: RequestLog) -> Iterator[None]:
    """Let SIGTERM and SIGINT end the process while threads are waited for and no loop obeys."""
    ending = (signal.SIGTERM, signal.SIGINT)
    kept = {number: signal.getsignal(number) for number in ending}
    for number in ending:
        signal.signal(number, lambda number, _: _end_at_once(logs, number))
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _end_at_once(logs: RequestLog, number: int) -> NoReturn:
    """End the process, whatever it is at, as one that a signal ended; its log is written first."""
    logs.settle(_LOG_SECONDS)
    os._exit(128 + number)


@contextlib.contextmanager
def _hangups_ignored() -> Iterator[None]:
    """Mind no SIGHUP while there is no model yet that could be loaded again."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@contextlib.contextmanager
def _log(log_format: LogFormat, quiet: bool) -> Iterator[RequestLog]:
    """Return the log on the standard error stream; nowhere, where that is closed."""
    descriptor = standard_error()
    if descriptor is None:
        yield RequestLog(lambda _: None, log_format=log_format, quiet=quiet)
        return
    writer = LineWriter(
        descriptor,
        dropped=lambda n: logs.event_line("WARNING", f"{n} lines of the log were dropped"),
    )
    logs = RequestLog(writer.write, log_format=log_format, quiet=quiet, settle=writer.settle)
    try:
        with logs.with_loggers():
            yield logs
    finally:
        writer.close()
        os.close(descriptor)


def _spare_the_collector() -> None:
    """Have Python's collector look at what requests leave behind, not at modules and the model."""
    # a batch of answers is thousands of small objects, all of which go by themselves
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _within_open_files(limits: Limits) -> Limits:
    """Return the limits, with no more connections than the process may have files open."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + _OTHER_FILES
    if soft < wanted and soft != resource.RLIM_INFINITY:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < wanted:
            fewer = max(soft - _OTHER_FILES, 1)
            share = max(limits.connections_per_client * fewer // limits.connections, 1)
            _LOG.warning("Open files are limited to %d, so connections are to %d", soft, fewer)
            return replace(limits, connections=fewer, connections_per_client=share)
    return limits


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the loop of uvloop where there is one."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _say(line: str) -> None:
    """Print a line at once; a stream that is closed is no reason to end."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.write(sys.stdout.fileno(), f"{line}\n".encode())
