"""The processes of the service, from the socket to the application.

One process loads the model, listens, takes another model, and stops gracefully. Several are workers
that share a port under a supervisor.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import multiprocessing
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn
from threadpoolctl import threadpool_limits
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from coterie.ads.protocol import Limits
from coterie.ads.service.access import ServiceSettings, policy_of
from coterie.ads.service.monitoring import logging_to_stderr, shared_metrics
from coterie.ads.service.problems import PROBLEM_TYPE, Problem
from coterie.errors import CoterieError, ServiceError

if TYPE_CHECKING:
    from coterie.ads.service.application import Application

_LOG = logging.getLogger("coterie")
#: Seconds after the grace period after which a process that does not end is ended.
_LAST_SECONDS = 5.0
#: Signals within so many seconds are one.
_ONE_SIGNAL = 1.0
#: A worker that ends sooner than this after its start is replaced more and more slowly.
_SHORT_LIFE, _LONGEST_PAUSE = 10.0, 30.0


def serve_until_stopped(settings: ServiceSettings) -> None:
    """Do what :func:`coterie.ads.service.serve` says."""
    policy_of(settings)
    with _logging(settings):
        if settings.workers == 1:
            with contextlib.closing(bound_socket(settings.host, settings.port)) as bound:
                ServiceProcess(settings, announce, announce_end).serve_on(bound)
            return
        # without sharing, so that another service on the port is an error
        with contextlib.closing(bound_socket(settings.host, settings.port)) as free:
            port = free.getsockname()[1]
        # keeps the port for the workers
        reserved = bound_socket(settings.host, port, shared=True)
        with contextlib.closing(reserved), shared_metrics():
            _Supervisor(settings, reserved).run()


@contextlib.contextmanager
def _logging(settings: ServiceSettings) -> Iterator[None]:
    """Write the log while inside; ignore SIGHUP until there is a model that it could reload."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with logging_to_stderr(settings.log_format, settings.quiet):
            yield
    finally:
        signal.signal(signal.SIGHUP, before)


def bound_socket(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Return a socket that is bound but does not listen yet; port 0 is chosen by the system.

    Sockets that are ``shared`` can be bound to one port several times: the system then spreads
    new connections over those that listen.
    """
    try:
        addresses = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # IPv4 if there is a choice
        family, _, _, _, address = min(addresses, key=lambda entry: entry[0] != socket.AF_INET)
        bound = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ServiceError(f"cannot listen on {host}: {error.strerror}") from error
    try:
        # without it the port of a service that was killed stays taken for a minute
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        reasons = {
            errno.EADDRINUSE: f"port {port} is taken; choose another with --port",
            errno.EACCES: f"port {port} needs privileges; choose one above 1023 with --port",
            errno.EADDRNOTAVAIL: f"{host} is not an address of this machine; choose another --host",
        }
        reason = reasons.get(error.errno or 0, error.strerror or str(error))
        raise ServiceError(f"cannot listen on {host}: {reason}") from error
    return bound


def address_of(bound: socket.socket) -> str:
    """Return the address of a socket, as a browser takes it."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def announce(address: str) -> None:
    """Print the address, and tell systemd that the service is ready."""
    # without a buffer; a closed stream is no reason to fail
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.write(sys.stdout.fileno(), f"coterie is listening on {address}\n".encode())
    _notify("READY=1")


def announce_end() -> None:
    _notify("STOPPING=1")


def _notify(state: str) -> None:
    """Send a state to systemd (``sd_notify``); without systemd, do nothing."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    # a leading @ means the abstract namespace
    path = "\0" + address[1:] if address.startswith("@") else address
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to_systemd,
    ):
        to_systemd.connect(path)
        to_systemd.sendall(state.encode())


class ServiceProcess(uvicorn.Server):
    """A server with a model, and the signals that it obeys.

    ``on_ready`` is called with the address once the service listens, ``on_stopping`` when it begins
    to stop.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        on_ready: Callable[[str], object],
        on_stopping: Callable[[], object] = lambda: None,
    ) -> None:
        http: Any = partial(HttpConnection, UnreadAnswers(settings.limits))
        config = uvicorn.Config(
            "",  # the application comes with its model
            http=http,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=list(settings.trusted_proxies),
            timeout_keep_alive=settings.limits.keep_alive_seconds,
            timeout_graceful_shutdown=settings.limits.grace_seconds,
        )
        super().__init__(config)
        self._settings = settings
        self._on_ready, self._on_stopping = on_ready, on_stopping
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopped_at: float | None = None

    def serve_on(self, listening: socket.socket) -> None:
        """Serve until SIGTERM or SIGINT; before it listens, these end the process immediately."""
        # these imports take long, and a supervisor does without them
        from coterie.ads.service.application import Application
        from coterie.ads.service.fair_queue import FairQueue
        from coterie.ads.service.monitoring import Metrics, exporting_provider, traced
        from coterie.ads.service.served_model import ModelHolder

        settings, metrics = self._settings, Metrics()
        with _ending_at_start():
            policy = policy_of(settings)
            provider = exporting_provider() if settings.traces else None
            holder = ModelHolder(settings.model, metrics)
        queue = FairQueue(settings.limits, metrics.queued_work.set)
        self._app: Application = Application(holder, queue, metrics, policy, settings.limits)
        self.config.app = self._app
        if provider is not None:
            self.config.app = traced(self._app, self._app.template_of, provider)
        # the collector need not look at modules and the model again
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        # products that are split over threads wait for the slowest, long if other work goes on
        threadpool_limits(1)
        # the thread of the queue gives way to the event loop sooner than by default (5 ms)
        sys.setswitchinterval(0.001)
        self.run(sockets=[listening])
        if provider is not None:
            # tries for at most OTEL_EXPORTER_OTLP_TIMEOUT seconds (10 by default)
            provider.shutdown()
        queue.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, obey signals, watch the model file, and say that the service is ready."""
        await super().startup(sockets)
        loop, holder = asyncio.get_running_loop(), self._app.holder
        # these replace the handlers of uvicorn, which would close the socket without draining
        loop.add_signal_handler(signal.SIGTERM, self.stop, signal.SIGTERM, True)
        loop.add_signal_handler(signal.SIGINT, self.stop, signal.SIGINT, False)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._begin(self.reload(), "the reload"))
        self._begin(holder.current.with_details(), "making the details of the model")
        if self._settings.watch:
            self._begin(holder.watch(), "the watch over the model file")
        self._on_ready(address_of((sockets or [])[0]))

    def stop(self, number: int, drains: bool) -> None:
        """Shut down gracefully; exit at once on a second signal or after the timeout.

        If it ``drains``, the service first goes on to listen for ``drain_seconds``, with
        ``/health/ready`` failing, so that a balancer can take it out.
        """
        now = time.monotonic()
        if self._stopped_at is not None:
            # a terminal and systemd send a signal to workers, too, to which it is also passed on
            if now - self._stopped_at > _ONE_SIGNAL:
                os._exit(128 + number)
            return
        self._stopped_at = now
        _LOG.info("Stopping; running requests are finished first")
        self._on_stopping()
        self._app.stopping = True
        seconds = self._settings.drain_seconds if drains else 0.0
        asyncio.get_running_loop().call_later(seconds, setattr, self, "should_exit", True)
        patience = seconds + self._settings.limits.grace_seconds + _LAST_SECONDS
        last = threading.Timer(patience, os._exit, (1,))
        last.daemon = True
        last.start()

    async def reload(self) -> None:
        """Read the tokens and the model file again."""
        try:
            self._app.policy.tokens = policy_of(self._settings).tokens
        except CoterieError as error:
            _LOG.warning("The former tokens stay: %s", error)
        await self._app.holder.reload_soon()

    def _begin(self, work: Coroutine[Any, Any, object], name: str) -> None:
        """Do work next to the requests until the loop ends; log its failure."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)

        def done(task: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                _LOG.error("A defect ended %s", name, exc_info=error)

        task.add_done_callback(done)


@contextlib.contextmanager
def _ending_at_start() -> Iterator[None]:
    """Let signals end the process immediately; if starting fails, they act as before."""

    def end(number: int, _: object) -> None:
        with contextlib.suppress(OSError):
            os.write(2, b"stopped while starting\n")
        os._exit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    except BaseException:
        for number, handler in before.items():
            signal.signal(number, handler)
        raise


class HttpConnection(HttpToolsProtocol):
    """One connection of a service; ``unread`` is shared by all of its connections."""

    def __init__(self, unread: UnreadAnswers, **settings: Any) -> None:
        super().__init__(**settings)
        self._unread = unread

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (uvicorn's words)
        """Refuse what is not HTTP as all else is refused, with a problem in JSON."""
        problem = Problem("malformed-request", "this is not a request in HTTP/1.1; correct it")
        request_id = f"{secrets.token_hex(4)}-000000"
        body = msgspec.json.encode(problem.document(request_id))
        head = (
            f"HTTP/1.1 {problem.status} Bad Request\r\ncontent-type: {PROBLEM_TYPE}\r\n"
            f"content-length: {len(body)}\r\ncache-control: no-store\r\n"
            f"x-request-id: {request_id}\r\nx-content-type-options: nosniff\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def pause_writing(self) -> None:
        """Note that the client reads more slowly than it is answered."""
        super().pause_writing()
        self._unread.add(self.transport)

    def resume_writing(self) -> None:
        """Note that the client has read nearly all."""
        super().resume_writing()
        self._unread.discard(self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what the client did not read."""
        self._unread.discard(self.transport)
        super().connection_lost(exc)


class UnreadAnswers:
    """Ends connections whose clients do not read their answers.

    One on which nothing was read for ``write_seconds`` is ended. If more than ``unread_bytes`` wait
    on all connections, those that wait longest are ended.
    """

    def __init__(self, limits: Limits) -> None:
        self._most, self._seconds = limits.unread_bytes, limits.write_seconds
        # the oldest first, each with the timer of the next look at it
        self._waiting: dict[asyncio.WriteTransport, asyncio.TimerHandle] = {}

    def add(self, transport: asyncio.WriteTransport) -> None:
        """Note a connection on which an answer waits."""
        self._watch(transport)
        sizes = {one: one.get_write_buffer_size() for one in self._waiting}
        total = sum(sizes.values())
        for one, size in sizes.items():
            if total <= self._most:
                break
            total -= size
            self._end(one)

    def discard(self, transport: asyncio.WriteTransport) -> None:
        """Forget a connection on which nothing waits any more."""
        timer = self._waiting.pop(transport, None)
        if timer is not None:
            timer.cancel()

    def _watch(self, transport: asyncio.WriteTransport) -> None:
        size, later = transport.get_write_buffer_size(), asyncio.get_running_loop().call_later
        self._waiting[transport] = later(self._seconds, self._look, transport, size)

    def _look(self, transport: asyncio.WriteTransport, before: int) -> None:
        if transport.get_write_buffer_size() < before:
            self._watch(transport)
        else:
            self._end(transport)

    def _end(self, transport: asyncio.WriteTransport) -> None:
        self.discard(transport)
        transport.abort()


class _Worker:
    """A worker process, and the pipe by which it reports; its end tells the worker to stop."""

    def __init__(self, settings: ServiceSettings, port: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.reports, theirs = context.Pipe()
        self.started_at = time.monotonic()
        self.is_ready = False
        self.process = context.Process(target=_work, args=(settings, port, theirs), daemon=False)
        self.process.start()
        theirs.close()  # so that the pipe ends when the worker does


class _Supervisor:
    """Keeps a number of workers running, and passes signals on to them.

    Each worker binds the port by itself (``SO_REUSEPORT``), so that the system spreads connections
    evenly.
    """

    def __init__(self, settings: ServiceSettings, reserved: socket.socket) -> None:
        self._settings, self._reserved = settings, reserved
        self._workers: dict[int, _Worker] = {}
        self._pause = 0.1
        self._stopping = False
        self._failure = ""
        self._ready: set[int] = set()  # the workers that have ever been ready

    def run(self) -> None:
        """Run until all workers have ended."""
        before = {
            number: signal.signal(number, self._pass_on)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        }
        try:
            for number in range(self._settings.workers):
                self._start(number)
            while self._workers:
                self._wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._failure:
            raise ServiceError(self._failure)

    def _start(self, number: int) -> None:
        self._workers[number] = _Worker(self._settings, self._reserved.getsockname()[1])
        if self._stopping:  # a signal came before there was a worker to pass it on to
            self._send(number, signal.SIGTERM)

    def _send(self, number: int, signal_number: int) -> None:
        with contextlib.suppress(ProcessLookupError, TypeError):
            os.kill(self._workers[number].process.pid, signal_number)  # type: ignore[arg-type]

    def _pass_on(self, signal_number: int, _: object = None) -> None:
        """Pass a signal on to the workers; called while this process waits."""
        if signal_number != signal.SIGHUP and not self._stopping:
            self._stopping = True
            announce_end()
        for number, worker in list(self._workers.items()):
            # SIGHUP would end one that is not ready, which reads the files anyway
            if signal_number != signal.SIGHUP or worker.is_ready:
                self._send(number, signal_number)

    def _wait(self) -> None:
        """Wait for workers to report or to end, and act on it."""
        numbers = {worker.reports: number for number, worker in self._workers.items()}
        for reports in wait([*numbers]):
            number = numbers[reports]  # type: ignore[index]
            try:
                failure = self._workers[number].reports.recv()  # empty if it is ready
            except (EOFError, OSError):
                self._replace(number)
                continue
            all_were_ready = len(self._ready) == self._settings.workers
            if failure and all_were_ready:
                # the others go on with the model that they have, and this one is started again
                _LOG.error("Worker %d cannot start: %s", number, failure)
            elif failure:
                self._failure = failure
                self._pass_on(signal.SIGTERM)
            else:
                self._workers[number].is_ready = True
                self._ready.add(number)
                if not all_were_ready and len(self._ready) == self._settings.workers:
                    announce(address_of(self._reserved))

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
        until = time.monotonic() + (self._pause if short else 0.0)
        while not self._stopping and time.monotonic() < until:
            time.sleep(0.1)
        if not self._stopping:
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
            ServiceProcess(settings, lambda _: report("")).serve_on(bound)
        except CoterieError as error:
            report(str(error))
