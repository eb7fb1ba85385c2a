"""One connection: slow clients are cut off, too many are turned away, nonsense gets a problem.

uvicorn's protocol has a limit on idle connections alone. This one adds limits on the time and the
size of headers, on clients that do not read their answers, and on the number of connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from coterie.ads.service.answer_headers import RequestIds, rendered_problem
from coterie.ads.service.limits import Limits
from coterie.ads.service.metrics import Metrics
from coterie.ads.service.problems import Problem
from coterie.ads.service.request_logs import RequestLog

__all__ = ["Connection", "connections_within"]

#: Bytes of a request's first line and headers.
_HEADER_BYTES = 65_536
#: Seconds that a client has to take the last of an answer before the connection is cut.
_CLOSING_SECONDS = 5.0
#: Connections above the limit that are told so; any more are closed without a word.
_TOLD = 64
#: Requests that a client may send before the first of them is answered.
_SENT_AHEAD = 100
#: What logs and metrics call a request that cannot be read.
_UNREADABLE = "(unreadable)"


def connections_within(
    limits: Limits, metrics: Metrics, logs: RequestLog
) -> Callable[..., Connection]:
    """What uvicorn calls, as ``http``, for every connection that is made."""
    ids = RequestIds()

    def connection(**given: Any) -> Connection:
        return Connection(limits, metrics, logs, ids, **given)

    return connection


class Connection(HttpToolsProtocol):
    """A connection within limits.

    Parameters
    ----------
    limits : Limits
        ``connections``, ``header_seconds``, ``idle_seconds`` and ``request_seconds``.
    metrics : Metrics
    logs : RequestLog
    ids : RequestIds
        For answers to what is no request.
    **given
        What uvicorn gives to a protocol.
    """

    def __init__(
        self, limits: Limits, metrics: Metrics, logs: RequestLog, ids: RequestIds, **given: Any
    ) -> None:
        super().__init__(**given)
        self._limits = limits
        self._metrics = metrics
        self._logs = logs
        self._ids = ids
        self._in_headers = self._headers_timed = False
        self._header_bytes = 0
        self._deaf = False
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, unless there are too many already."""
        super().connection_made(transport)
        above = len(self.connections) - self._limits.connections
        if above > _TOLD:
            transport.abort()
        elif above > 0:
            self._turn_away(_too_many())
        else:
            self._allow(self._limits.idle_seconds, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """End; nothing is timed any more."""
        self._disallow()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; a request's headers must come whole within their time and size."""
        if self._deaf:
            return
        super().data_received(data)
        if self._in_headers:
            self._header_bytes += len(data)
            if self._header_bytes > _HEADER_BYTES:
                self._turn_away(_too_large())
            elif not self._headers_timed:
                self._headers_timed = True
                self._allow(self._limits.header_seconds, self._too_slow)
        elif self._deadline is None and not self._under_way():
            # ends of lines, which begin no request, do not keep a connection open
            self._allow(self._limits.header_seconds, self.transport.abort)

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """A client that sends no more may still wait for its answer, and gets it."""
        if self._deaf or not self._under_way() or self.cycle.more_body:
            return None
        self._listen_no_more()
        return True

    def on_message_begin(self) -> None:
        """Note that headers come now."""
        self._in_headers = True
        self._header_bytes = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers, which come after a body, are nobody's headers."""
        if self._in_headers:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin with a request, unless too many of the same client's come before it."""
        self._in_headers = self._headers_timed = False
        self._disallow()
        if len(self.pipeline) >= _SENT_AHEAD:
            # the parser stops here, and those that came before are answered
            raise RuntimeError("too many requests were sent ahead")
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Go on to the next request, or see the last of the answer off."""
        super().on_response_complete()
        if self._deaf and not self.pipeline:
            self.transport.close()
        if self.transport.is_closing():
            self._allow(_CLOSING_SECONDS, self.transport.abort)

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that was idle for too long, also where answers were not read."""
        super().timeout_keep_alive_handler()
        self._allow(_CLOSING_SECONDS, self.transport.abort)

    def pause_writing(self) -> None:
        """The client does not read: give it some time."""
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(self._limits.idle_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (uvicorn's name and words)
        """What came cannot be read as HTTP."""
        if not self._under_way():
            self._turn_away(_unreadable())
        elif self.pipeline or not self.cycle.more_body:
            # the requests before the nonsense are sound, and are answered
            self._listen_no_more()
        else:
            # the nonsense is in the body of the request under way, which so never ends
            answered = self.cycle.response_started
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self.transport.close() if answered else self._turn_away(_unreadable())

    def _unsupported_upgrade_warning(self) -> None:
        """A request for another protocol is answered in this one, and is the last."""
        self._listen_no_more()

    def _should_upgrade(self) -> bool:
        return False

    def _under_way(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _listen_no_more(self) -> None:
        """Answer what has come, then close."""
        self._deaf = True
        if self._under_way():
            self.cycle.keep_alive = False
        patience = self._limits.request_seconds + self._limits.body_seconds
        self._allow(patience, self.transport.abort)

    def _turn_away(self, problem: Problem) -> None:
        """Tell a client what is wrong, and close once it has read it, or does not."""
        self._deaf = True
        if self.transport.is_closing():
            return
        request_id = self._ids.of(None)
        answer = rendered_problem(problem, request_id)
        self._metrics.answered(_UNREADABLE, "OTHER", problem.status, 0.0)
        self._logs.request(request_id, "OTHER", _UNREADABLE, problem.status, 0.0, len(answer))
        self.transport.write(answer)
        # not closed yet: that would lose the answer where the client is still sending
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._allow(_CLOSING_SECONDS, self.transport.abort)

    def _too_slow(self) -> None:
        """The headers of a request did not come whole in time."""
        self._turn_away(_slow_headers(self._limits.header_seconds))

    def _allow(self, seconds: float, then: Callable[[], None]) -> None:
        """Do something unless the connection gets on within some seconds."""
        self._disallow()
        self._deadline = self.loop.call_later(seconds, then)

    def _disallow(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _too_many() -> Problem:
    return Problem(
        503,
        "Service Unavailable",
        "too many connections are open; try again after the seconds in Retry-After",
        headers={"Retry-After": "5"},
    )


def _too_large() -> Problem:
    return Problem(
        431,
        "Request Header Fields Too Large",
        f"the first line and the headers are larger than {_HEADER_BYTES} bytes",
    )


def _slow_headers(seconds: float) -> Problem:
    return Problem(408, "Request Timeout", f"the headers did not arrive within {seconds:g} seconds")


def _unreadable() -> Problem:
    return Problem(400, "Bad Request", "this cannot be read as a request of HTTP/1.1")
