"""Start the service: one process, or several that share one port under a supervisor."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait

from coterie.ads.service.access import (
    ServiceSettings,
    address_of,
    bound_socket,
    policy_of,
)
from coterie.ads.service.server import (
    ServiceProcess,
    announce,
    announce_end,
    check_can_serve,
)
from coterie.errors import CoterieError, ServiceError

_LOG = logging.getLogger("coterie")
#: A worker that ends sooner than this after its start is replaced more and more slowly.
_SHORT_LIFE = 10.0
_LONGEST_PAUSE = 30.0


def serve(settings: ServiceSettings) -> None:
    """Serve a model until SIGTERM or SIGINT; running requests are finished first.

    SIGHUP reads model and tokens again. A second SIGTERM or SIGINT ends the service immediately.
    A token in the environment variable ``COTERIE_TOKEN`` is accepted, too.

    Raises
    ------
    CoterieError
        If the service cannot start. Nothing listens then.
    """
    check_can_serve()
    policy_of(settings)
    with _logging(settings):
        if settings.workers == 1:
            with contextlib.closing(bound_socket(settings.host, settings.port)) as bound:
                ServiceProcess(settings, announce, announce_end).run(bound)
        else:
            from coterie.ads.service.monitoring import shared_metrics

            # without sharing, so that another service on the port is an error
            with contextlib.closing(bound_socket(settings.host, settings.port)) as free:
                port = free.getsockname()[1]
            # keeps the port for the workers
            reserved = bound_socket(settings.host, port, shared=True)
            with contextlib.closing(reserved), shared_metrics():
                _Supervisor(settings, reserved).run()


class _Worker:
    """A worker process, and the pipe by which it reports; its end tells the worker to stop."""

    def __init__(self, settings: ServiceSettings, port: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.reports, theirs = context.Pipe()
        self.started_at = time.monotonic()
        self.is_ready = False
        self.process = context.Process(target=_work, args=(settings, port, theirs), daemon=False)
        self.process.start()
        theirs.close()


class _Supervisor:
    """Keeps a number of workers running, and passes signals on to them.

    Each worker binds the port by itself (``SO_REUSEPORT``), so that the system spreads connections
    evenly.
    """

    def __init__(self, settings: ServiceSettings, reserved: socket.socket) -> None:
        self._settings = settings
        self._address = address_of(reserved)
        self._port: int = reserved.getsockname()[1]
        self._workers: dict[int, _Worker] = {}
        self._pause = 0.1
        self._stopping = False
        self._failure = ""
        self._ready: set[int] = set()

    def run(self) -> None:
        """Run until all workers have ended."""
        wake, self._woken = socket.socketpair()
        wake.setblocking(False)
        with contextlib.closing(wake), contextlib.closing(self._woken), _signals_to(wake):
            for number in range(self._settings.workers):
                self._start(number)
            while self._workers:
                self._wait()
        if self._failure:
            raise ServiceError(self._failure)

    def _start(self, number: int) -> None:
        self._workers[number] = _Worker(self._settings, self._port)

    def _wait(self) -> None:
        """Wait for a signal, a report or the end of a worker, and act on it."""
        reports = {worker.reports: number for number, worker in self._workers.items()}
        sentinels = {worker.process.sentinel: number for number, worker in self._workers.items()}
        before = dict(self._workers)
        for one in wait([self._woken, *reports, *sentinels]):
            if one is self._woken:
                for number in self._woken.recv(64):
                    self._pass_on(number)
                continue
            number = (reports | sentinels)[one]  # type: ignore[index]
            if self._workers.get(number) is not before[number]:
                continue  # its pipe and its end are two events, and the first has replaced it
            if isinstance(one, Connection):
                self._take_report(number, one)
            else:
                self._replace(number)

    def _pass_on(self, number: int) -> None:
        if number in {signal.SIGTERM, signal.SIGINT}:
            if not self._stopping:
                announce_end()
            self._stopping = True
        for worker in self._workers.values():
            if number == signal.SIGHUP and not worker.is_ready:
                continue  # it would end; it reads the files anyway
            with contextlib.suppress(ProcessLookupError, TypeError):
                os.kill(worker.process.pid, number)  # type: ignore[arg-type]

    def _take_report(self, number: int, reports: Connection) -> None:
        """Read the report of a worker: empty if it is ready, else why it cannot start."""
        try:
            failure = reports.recv()
        except (EOFError, OSError):
            self._replace(number)
            return
        if failure and len(self._ready) == self._settings.workers:
            # the others go on with the model that they have, and this one is started again
            _LOG.error("Worker %d cannot start: %s", number, failure)
            return
        if failure:
            self._failure = failure
            self._pass_on(signal.SIGTERM)
            return
        self._workers[number].is_ready = True
        first = len(self._ready) < self._settings.workers
        self._ready.add(number)
        if first and len(self._ready) == self._settings.workers:
            announce(self._address)

    def _replace(self, number: int) -> None:
        """Start another worker for one that ended, unless the service is stopping."""
        from prometheus_client.multiprocess import mark_process_dead

        worker = self._workers.pop(number)
        worker.process.join()
        worker.reports.close()
        # its gauges are removed; its counters stay in the sums
        mark_process_dead(worker.process.pid)  # type: ignore[no-untyped-call]
        if self._stopping:
            return
        short = time.monotonic() - worker.started_at < _SHORT_LIFE
        self._pause = min(2 * self._pause, _LONGEST_PAUSE) if short else 0.1
        _LOG.error("Worker %d ended with %s; another starts", number, worker.process.exitcode)
        if short:
            wait([self._woken], self._pause)  # a signal ends the pause
        self._start(number)


def _work(settings: ServiceSettings, port: int, reports: Connection) -> None:
    """Run one worker; it ends with its supervisor."""

    def end_with_supervisor() -> None:
        with contextlib.suppress(EOFError, OSError):
            reports.recv()
        os.kill(os.getpid(), signal.SIGTERM)

    def report(failure: str) -> None:
        with contextlib.suppress(OSError):
            reports.send(failure)

    threading.Thread(target=end_with_supervisor, daemon=True).start()
    with _logging(settings):
        try:
            bound = bound_socket(settings.host, port, shared=True)
            ServiceProcess(settings, lambda _: report("")).run(bound)
        except CoterieError as error:
            report(str(error))


@contextlib.contextmanager
def _logging(settings: ServiceSettings) -> Iterator[None]:
    """Write the log while inside; ignore SIGHUP until there is a model that it could reload."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        from coterie.ads.service.monitoring import logging_to_stderr

        with logging_to_stderr(settings.log_format, settings.quiet):
            yield
    finally:
        signal.signal(signal.SIGHUP, before)


@contextlib.contextmanager
def _signals_to(wake: socket.socket) -> Iterator[None]:
    """Write the numbers of signals to a socket while inside."""
    handlers = {
        number: signal.signal(number, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    }
    before = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
