"""What the service writes on its standard error stream: one line a request, nothing personal.

A line has the time, the level, the request's id, its method, the *template* of its route, the
status, the milliseconds and the bytes of the answer. It never has an advertiser's id, a text, an
address, a query or a token. Lines go out in batches from a thread of their own: whoever reads
them may be slow, or gone, and the service answers all the same.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal

__all__ = ["LineWriter", "LogFormat", "RequestLog", "standard_error", "trace_of"]

LogFormat = Literal["text", "json"]

#: Loggers whose records are written beside the requests.
_LOGGERS = ("coterie", "uvicorn.error")


class LineWriter:
    """Lines for an open file descriptor, written in batches by a thread.

    Where whoever reads is so slow that ``most`` lines wait, further ones are dropped, and how many
    is told once there is room, by a line that ``dropped`` makes. Where nobody reads any more, all
    are. Lines gather for ``pause`` seconds before they are written.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        most: int = 100_000,
        pause: float = 0.05,
        dropped: Callable[[int], str] = "{} lines of the log were dropped\n".format,
    ) -> None:
        self._descriptor = descriptor
        self._most = most
        self._pause = pause
        self._told = dropped
        self._lines: deque[str] = deque()
        self._dropped = 0
        self._writing = False
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="coterie-log", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Put a line, with its end, on the way; returns at once."""
        if len(self._lines) >= self._most:
            self._dropped += 1
            return
        self._lines.append(line)
        if not self._wake.is_set():
            self._wake.set()

    def settle(self, patience: float) -> None:
        """Wait so long at most for lines to be written; without a lock, for handlers of signals."""
        until = time.monotonic() + patience
        while (self._lines or self._writing) and time.monotonic() < until:
            time.sleep(0.005)

    def close(self, patience: float = 5.0) -> None:
        """Write what waits, and end; a reader that does not read is waited for no longer."""
        self._ending.set()
        self._wake.set()
        self._thread.join(patience)

    def _run(self) -> None:
        while not self._ending.is_set():
            self._wake.wait()
            self._ending.wait(self._pause)
            self._wake.clear()
            self._flush()
        self._flush()

    def _flush(self) -> None:
        self._writing = True
        lines = [self._lines.popleft() for _ in range(len(self._lines))]
        if self._dropped:
            lines.append(self._told(self._dropped))
            self._dropped = 0
        rest = "".join(lines).encode("utf-8", "backslashreplace")
        with suppress(OSError):
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        self._writing = False


class RequestLog:
    r"""Requests and events of a service, as lines of text or of JSON.

    ``write`` takes a line with its end; a ``quiet`` log leaves out all requests but those that the
    service failed on (5xx).

    >>> lines = []
    >>> log = RequestLog(lines.append, clock=lambda: 0.0)
    >>> log.request("r-1", "GET", "/v1/advertisers/{id}", 200, 0.00123, 512)
    >>> lines
    ['1970-01-01T00:00:00.000Z INFO r-1 GET /v1/advertisers/{id} 200 1.23ms 512B\n']
    """

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        log_format: LogFormat = "text",
        quiet: bool = False,
        clock: Callable[[], float] = time.time,
        settle: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._write = write
        self.settle = settle
        self._json = log_format == "json"
        self._quiet = quiet
        self._clock = clock
        self._date = (-1, "")

    def request(
        self, request_id: str, method: str, route: str, status: int, seconds: float, size: int
    ) -> None:
        """Write one line about an answer: its route's template, its seconds, its size in bytes."""
        if self._quiet and status < 500:
            return
        level = "INFO" if status < 500 else "ERROR"
        if self._json:
            line = (
                f'{{"time":"{self._now()}","level":"{level}","request_id":"{request_id}",'
                f'"method":"{method}","route":"{route}","status":{status},'
                f'"ms":{seconds * 1e3:.2f},"bytes":{size}}}\n'
            )
        else:
            line = (
                f"{self._now()} {level} {request_id} {method} {route} {status} "
                f"{seconds * 1e3:.2f}ms {size}B\n"
            )
        self._write(line)

    def event(self, level: str, message: str, request_id: str = "") -> None:
        """Write what happened: a model taken or refused, a defect with its trace."""
        self._write(self.event_line(level, message, request_id))

    def event_line(self, level: str, message: str, request_id: str = "") -> str:
        """Return the line of an event, with its end."""
        if self._json:
            members = {"time": self._now(), "level": level, "message": message}
            if request_id:
                members["request_id"] = request_id
            return json.dumps(members, separators=(",", ":")) + "\n"
        who = f"{request_id} " if request_id else ""
        # further lines are indented: nothing in a message can pass for a line of the log
        text = "\n    ".join(_visible(message).split("\n"))
        return f"{self._now()} {level} {who}{text}\n"

    def failure(self, request_id: str, error: BaseException) -> None:
        """Log a defect of the service: where it is in the code, without the request."""
        self.event("ERROR", f"a request failed by a defect\n{trace_of(error)}", request_id)

    @contextmanager
    def with_loggers(self) -> Iterator[None]:
        """Also write what Python's loggers of the package and of uvicorn tell, while inside."""
        handler = _Handler(self)
        kept = []
        for name in _LOGGERS:
            logger = logging.getLogger(name)
            kept.append((logger, logger.level, logger.propagate))
            logger.addHandler(handler)
            # uvicorn warns of every request that it cannot read; those have lines of their own
            logger.setLevel(logging.INFO if name == "coterie" else logging.ERROR)
            logger.propagate = False
        try:
            yield
        finally:
            for logger, level, propagate in kept:
                logger.removeHandler(handler)
                logger.setLevel(level)
                logger.propagate = propagate

    def _now(self) -> str:
        """Return the time in UTC to the millisecond; the date is written anew once a second."""
        now = self._clock()
        second, date = self._date
        if second != int(now):
            second = int(now)
            date = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            # in one assignment: events come from several threads
            self._date = (second, date)
        return f"{date}.{int((now - second) * 1000):03d}Z"


def trace_of(error: BaseException) -> str:
    """Where an exception came from, and its kind; not its message, which may quote a request.

    >>> try:
    ...     {}["adv-00042"]
    ... except KeyError as error:
    ...     trace = trace_of(error)
    >>> trace.splitlines()[-1], "adv-00042" in trace.splitlines()[-1]
    ('KeyError', False)
    """
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    parts = [trace_of(before), "which led to:"] if before is not None else []
    frames = traceback.extract_tb(error.__traceback__)
    parts += [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    return "\n".join([*parts, type(error).__qualname__])


def standard_error() -> int | None:
    """Return a copy of the standard error stream's descriptor; none where the stream is closed."""
    try:
        return os.dup(sys.__stderr__.fileno()) if sys.__stderr__ is not None else None
    except (OSError, ValueError):
        return None


class _Handler(logging.Handler):
    """Hands the records of Python's loggers to the log."""

    def __init__(self, log: RequestLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage().rstrip()
            if record.exc_info and record.exc_info[1] is not None:
                message += "\n" + trace_of(record.exc_info[1])
        except Exception:
            message = f"a record of {record.name} cannot be written"
        self._log.event(record.levelname, message)


def _visible(text: str) -> str:
    """Return the text without what a terminal would obey."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
