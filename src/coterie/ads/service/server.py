"""One process of the service: it loads the model, listens, reloads, and stops gracefully."""

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
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits

from coterie.ads.service.access import ServiceSettings, address_of, policy_of
from coterie.errors import CoterieError
from coterie.runtime.imports import require_extra

if TYPE_CHECKING:
    from coterie.ads.service.fair_queue import FairQueue
    from coterie.ads.service.model_holder import ModelHolder
    from coterie.ads.service.routes import Routes

_LOG = logging.getLogger("coterie")
_PACKAGES = ("starlette", "uvicorn", "httptools", "msgspec", "prometheus_client")
#: Seconds after the grace period after which a process that does not end is ended.
_LAST_SECONDS = 5.0
#: Signals within so many seconds are one.
_ONE_SIGNAL = 1.0


def check_can_serve() -> None:
    """Refuse to start if a package that the service needs is not installed."""
    require_extra("ads", "the service needs", *_PACKAGES)


def announce(address: str) -> None:
    """Print the address, and tell systemd that the service is ready."""
    # without a buffer; a closed stream is no reason to fail
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.write(sys.stdout.fileno(), f"coterie is listening on {address}\n".encode())
    _notify("READY=1")


def announce_end() -> None:
    """Tell systemd that the service is stopping."""
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


class ServiceProcess:
    """A uvicorn server with a model, and the signals that it obeys.

    ``on_ready`` is called with the address once the service listens, ``on_stopping`` when it begins
    to stop.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        on_ready: Callable[[str], object],
        on_stopping: Callable[[], object] = lambda: None,
    ) -> None:
        self._settings = settings
        self._on_ready, self._on_stopping = on_ready, on_stopping
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopped_at: float | None = None

    def run(self, listening: socket.socket) -> None:
        """Serve until SIGTERM or SIGINT; before it listens, these end the process immediately.

        Raises
        ------
        CoterieError
            If the model cannot be served. Nothing listens then.
        """
        with _ending_at_start():
            app, queue = self._make_app()
        # the collector need not look at modules and the model again
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        # products that are split over threads wait for the slowest, long if other work goes on
        threadpool_limits(1)
        # the thread of the queue gives way to the event loop sooner than by default (5 ms)
        sys.setswitchinterval(0.001)
        self._server = self._make_server(app)
        self._listening = listening
        self._server.run(sockets=[listening])
        queue.close()

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
        self._routes.stopping = True
        seconds = self._settings.drain_seconds if drains else 0.0
        asyncio.get_running_loop().call_later(seconds, setattr, self._server, "should_exit", True)
        patience = seconds + self._settings.limits.grace_seconds + _LAST_SECONDS
        last = threading.Timer(patience, os._exit, (1,))
        last.daemon = True
        last.start()

    async def reload(self) -> None:
        """Read the tokens and the model file again."""
        try:
            self._policy.tokens = policy_of(self._settings).tokens
        except CoterieError as error:
            _LOG.warning("The former tokens stay: %s", error)
        await self._holder.reload_soon()

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: object) -> AsyncIterator[None]:  # noqa: ARG002 (Starlette's)
        """Obey signals and watch the model file while inside."""
        loop = asyncio.get_running_loop()
        # these replace the handlers of uvicorn, which would close the socket without draining
        loop.add_signal_handler(signal.SIGTERM, self.stop, signal.SIGTERM, True)
        loop.add_signal_handler(signal.SIGINT, self.stop, signal.SIGINT, False)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._begin(self.reload(), "the reload"))
        self._begin(self._announce(), "the start")
        self._begin(self._holder.current.with_details(), "making the details of the model")
        if self._settings.watch:
            self._begin(self._holder.watch(), "the watch over the model file")
        try:
            yield
        finally:
            for task in list(self._tasks):
                task.cancel()

    async def _announce(self) -> None:
        """Announce the service once it listens."""
        while not self._server.started:
            await asyncio.sleep(0.005)
        if not self._routes.stopping:
            self._on_ready(address_of(self._listening))

    def _make_app(self) -> tuple[Any, FairQueue]:
        """Load the model; return the application and the queue of its work."""
        from coterie.ads.service.application import Application
        from coterie.ads.service.fair_queue import FairQueue
        from coterie.ads.service.model_holder import ModelHolder
        from coterie.ads.service.monitoring import Metrics, traced
        from coterie.ads.service.routes import Routes

        settings = self._settings
        self._policy, metrics = policy_of(settings), Metrics()
        self._holder: ModelHolder = ModelHolder(settings.model, metrics)
        self._holder.load_first()
        queue = FairQueue(settings.limits, metrics.queued_work.set)
        self._routes: Routes = Routes(self._holder, queue, metrics, settings.limits)
        app: Any = Application(self._routes, self._policy, metrics, self._lifespan)
        return traced(app, app.template_of) if settings.traces else app, queue

    def _make_server(self, app: Any) -> Any:
        import uvicorn

        from coterie.ads.service.connections import connections

        settings = self._settings
        return uvicorn.Server(
            uvicorn.Config(
                app,
                http=connections(settings.limits),  # type: ignore[arg-type]
                ws="none",
                lifespan="on",
                interface="asgi3",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=bool(settings.trusted_proxies),
                forwarded_allow_ips=list(settings.trusted_proxies),
                timeout_keep_alive=settings.limits.keep_alive_seconds,
                timeout_graceful_shutdown=settings.limits.grace_seconds,
            )
        )

    def _begin(self, work: Any, name: str) -> None:
        """Do work beside the requests; log its failure."""
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
    before = {
        number: signal.signal(number, _end_at_start) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    except BaseException:
        for number, handler in before.items():
            signal.signal(number, handler)
        raise


def _end_at_start(number: int, _: object) -> None:
    """End while nothing was asked yet."""
    with contextlib.suppress(OSError):
        os.write(2, b"stopped while starting\n")
    os._exit(128 + number)
