"""One connection: slow clients are cut off, too many are turned away, nonsense gets a problem.

uvicorn's protocol has a limit on idle connections alone. This one adds limits on the time, the size
and the number of headers, on clients that do not read their answers, and on the number of
connections, in all and of one client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NoReturn

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from coterie.ads.protocol import Limits
from coterie.ads.service.access.admission import OpenConnections, UnreadAnswers
from coterie.ads.service.access.listening import Door
from coterie.ads.service.access.request_logs import RequestLog
from coterie.ads.service.metrics import Metrics
from coterie.ads.service.problems import Problem, RequestIds, busy, rendered_problem

__all__ = ["Connection", "connections_within"]

#: Seconds that a client has to take the last of an answer before the connection is cut.
_CLOSING_SECONDS = 5.0
#: Connections above the limit that are told so; any more are closed without a word.
_TOLD = 64
#: Bytes of an answer beyond which a client has the time of a slow reader to take the rest.
_LARGE = 65_536
#: Requests that a client may send before the first of them is answered.
_SENT_AHEAD = 100
#: What logs and metrics call a request that cannot be read.
_UNREADABLE = "(unreadable)"


def connections_within(
    limits: Limits, metrics: Metrics, logs: RequestLog, door: Door
) -> Callable[..., Connection]:
    """Return what uvicorn calls, as ``http``, for every connection that is made."""
    company = Company(limits, metrics, logs, door)

    def connection(**given: Any) -> Connection:
        return Connection(company, **given)

    return connection


class Company:
    """What all connections of a service share."""

    def __init__(self, limits: Limits, metrics: Metrics, logs: RequestLog, door: Door) -> None:
        self.limits = limits
        self.metrics = metrics
        self.logs = logs
        self.door = door
        self.ids = RequestIds()
        self.open = OpenConnections()
        self.unread = UnreadAnswers(limits.unsent_bytes)


class Connection(HttpToolsProtocol):
    """A connection within limits."""

    def __init__(self, company: Company, **given: Any) -> None:
        super().__init__(**given)
        self._company = company
        self._limits = company.limits
        self._counted_as = ""
        self._in_headers = self._headers_timed = False
        self._read_bytes = self._first_read = self._further_reads = 0
        self._at_start = self._read_alone = False
        self._refusal: Problem | None = None
        self._deaf = False
        self._unread: int | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, unless there are too many already."""
        super().connection_made(transport)
        above, own = len(self.connections) - self._limits.connections, self._own_above()
        if max(above, own) > _TOLD:
            transport.abort()
        elif above > 0:
            told = "too many connections are open; try again after the seconds in Retry-After"
            self._turn_away(busy(told, seconds=5))
        elif own > 0:
            told = "this client has too many connections open; use those it has, or close some"
            self._turn_away(busy(told, seconds=5))
        else:
            # who connects has something to ask; between requests there is more time
            self._allow(self._limits.header_seconds, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """End; nothing is timed any more."""
        self._disallow()
        self.resume_writing()
        self._company.open.closed(self._counted_as)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; a request's headers must come whole within their time and size."""
        if not self._deaf:
            self._read_bytes = len(data)
            if self._in_headers:
                self._further_reads += self._read_bytes
            ended = self.cycle is None or not self.cycle.more_body
            self._at_start = ended and not self._in_headers
            super().data_received(data)
            self._mind_headers()

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Keep the connection of a client that sends no more but waits for its answer."""
        if self._deaf or not self._under_way() or self.cycle.more_body:
            return None
        self._listen_no_more()
        return True

    def on_message_begin(self) -> None:
        """Note that headers come now."""
        self._in_headers = True
        self._first_read, self._further_reads = self._read_bytes, 0
        self._read_alone, self._at_start = self._at_start, False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers, which come after a body, are nobody's headers."""
        if self._in_headers:
            if len(self.headers) >= self._limits.headers:
                self._stop_parsing(_too_large(self._limits))
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin with a request, unless too many of the same client's come before it."""
        if self._are_too_large():
            self._stop_parsing(_too_large(self._limits))
        self._in_headers = self._headers_timed = False
        self._disallow()
        if len(self.pipeline) >= _SENT_AHEAD:
            # those that came before are answered
            self._stop_parsing(_unreadable())
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Go on to the next request, or see the last of the answer off."""
        super().on_response_complete()
        if self._deaf and not self.pipeline:
            self.transport.close()
        if self.transport.is_closing():
            much = self.transport.get_write_buffer_size() > _LARGE
            patience = self._limits.idle_seconds if much else _CLOSING_SECONDS
            self._allow(patience, self.transport.abort)

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that was idle for too long, also where answers were not read."""
        super().timeout_keep_alive_handler()
        self._allow(_CLOSING_SECONDS, self.transport.abort)

    def pause_writing(self) -> None:
        """Wait some time for a client that does not read."""
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(self._limits.idle_seconds, self.transport.abort)
            size = self.transport.get_write_buffer_size()
            self._unread = self._company.unread.add(self._counted_as, size, self._cut_soon)

    def resume_writing(self) -> None:
        """Go on writing: the client reads again."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        if self._unread is not None:
            self._company.unread.remove(self._counted_as, self._unread)
            self._unread = None

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (uvicorn's name and words)
        """Answer input that is not HTTP or exceeds a limit."""
        problem = self._refusal or _unreadable()
        if not self._under_way() or self.pipeline or not self.cycle.more_body:
            self._answer_or_finish(problem)
        else:
            # the nonsense is in the body of the request under way, which so never ends
            answered = self.cycle.response_started
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self.transport.close() if answered else self._turn_away(problem)

    def _unsupported_upgrade_warning(self) -> None:
        """Answer a request for another protocol in HTTP/1.1, and close the connection."""
        self._listen_no_more()

    def _should_upgrade(self) -> bool:
        return False

    def _under_way(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _own_above(self) -> int:
        """By how many connections a client has more than it may; proxies have many clients."""
        company, address = self._company, self.client[0] if self.client else ""
        self._counted_as = company.door.client_of(address, ())
        number = company.open.opened(self._counted_as)
        if not address or company.door.is_proxy(address):
            return 0
        return number - self._limits.connections_per_client

    def _mind_headers(self) -> None:
        """See to it, after a read, that headers which are not complete yet come to an end."""
        if self._deaf:
            return
        if self._in_headers:
            if self._is_all_too_large():
                self._answer_or_finish(_too_large(self._limits))
            elif not self._headers_timed:
                self._headers_timed = True
                self._allow(self._limits.header_seconds, self._too_slow)
        elif self._deadline is None and not self._under_way():
            # ends of lines, which begin no request, do not keep a connection open
            self._allow(self._limits.header_seconds, self.transport.abort)

    def _are_too_large(self) -> bool:
        """Whether first line and headers are, as far as they have come."""
        # The parser does not tell where in a read they begin and end. As long as all reads are
        # small there is nothing to count.
        most = self._limits.header_bytes
        if self._first_read + self._further_reads <= most:
            return False
        size = len(self.url) + sum([len(name) + len(value) for name, value in self.headers])
        return size > most

    def _is_all_too_large(self) -> bool:
        """Whether headers without an end are: all that was read since they began is theirs."""
        most = self._limits.header_bytes
        surely = self._further_reads + (self._first_read if self._read_alone else 0)
        return surely > most or self._are_too_large()

    def _stop_parsing(self, problem: Problem) -> NoReturn:
        """Have the parser give up, within one of its calls; :meth:`send_400_response` follows."""
        self._refusal = problem
        raise RuntimeError(problem.detail)

    def _answer_or_finish(self, problem: Problem) -> None:
        """Tell what is wrong, unless earlier requests are to be answered first: then only those."""
        if self._under_way():
            self._listen_no_more()
        else:
            self._turn_away(problem)

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
        company, status = self._company, problem.status
        request_id = company.ids.of(None)
        answer = rendered_problem(problem, request_id)
        company.metrics.answered(_UNREADABLE, "OTHER", status, 0.0)
        company.logs.request(request_id, "OTHER", _UNREADABLE, status, 0.0, len(answer))
        self.transport.write(answer)
        # not closed yet: that would lose the answer where the client is still sending
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._allow(_CLOSING_SECONDS, self.transport.abort)

    def _too_slow(self) -> None:
        """Close the connection: the headers of a request did not come in time."""
        if self.flow.read_paused:
            # they were not read either, since earlier requests come first
            self._allow(self._limits.header_seconds, self._too_slow)
        else:
            told = f"the headers did not arrive within {self._limits.header_seconds:g} seconds"
            self._answer_or_finish(Problem(408, "Request Timeout", told))

    def _cut_soon(self) -> None:
        """End the connection, though not while the transport is at something."""
        self.loop.call_soon(self.transport.abort)

    def _allow(self, seconds: float, then: Callable[[], None]) -> None:
        """Do something unless the connection gets on within some seconds."""
        self._disallow()
        self._deadline = self.loop.call_later(seconds, then)

    def _disallow(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _too_large(limits: Limits) -> Problem:
    return Problem(
        431,
        "Request Header Fields Too Large",
        f"a request has at most {limits.headers} headers, and {limits.header_bytes} bytes in its "
        "first line and headers",
    )


def _unreadable() -> Problem:
    return Problem(400, "Bad Request", "this cannot be read as a request of HTTP/1.1")
