"""Logs of the service on standard error: one line a request, with nothing personal.

A line has the time, the level, the id of the request, its method, the *template* of its route, the
status, the milliseconds and the bytes of the answer. It never has an advertiser's id, a text, an
address, a query or a token. A thread writes the lines, because the reader of the stream may be slow
or gone.
"""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import queue
import time
import traceback
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

__all__ = ["LogFormat", "log_request", "logging_to_stderr", "trace_of"]

LogFormat = Literal["text", "json"]

_REQUESTS = logging.getLogger("coterie.requests")
#: Lines that may wait for a slow reader; further ones are dropped.
_MOST_LINES = 100_000


def log_request(
    request_id: str, method: str, route: str, status: int, seconds: float, size: int
) -> None:
    """Write the line of an answer."""
    level = logging.INFO if status < 500 else logging.ERROR
    if not _REQUESTS.isEnabledFor(level):
        return
    # made by hand: Logger.log looks for the caller's frame, which takes longer than all else
    record = logging.LogRecord(_REQUESTS.name, level, "", 0, "", None, None)
    record.request = (request_id, method, route, status, seconds * 1e3, size)
    _REQUESTS.handle(record)


@contextlib.contextmanager
def logging_to_stderr(log_format: LogFormat, quiet: bool) -> Iterator[None]:
    """Write logs of the package, of uvicorn and of OpenTelemetry to standard error while inside.

    Parameters
    ----------
    log_format : {"text", "json"}
    quiet : bool
        Whether to leave out requests other than those the service failed on (5xx).
    """
    writer = _Unbreakable()
    writer.setFormatter(_JsonLines() if log_format == "json" else _TextLines())
    lines: queue.Queue[logging.LogRecord] = queue.Queue(_MOST_LINES)
    handler = _Dropping(lines)
    listener = logging.handlers.QueueListener(lines, writer)
    kept = []
    for name, level in (
        ("coterie", logging.INFO),
        # uvicorn warns of every request that it cannot parse
        ("uvicorn.error", logging.ERROR),
        # a collector of traces that does not answer
        ("opentelemetry", logging.WARNING),
        (_REQUESTS.name, logging.ERROR if quiet else logging.INFO),
    ):
        logger = logging.getLogger(name)
        kept.append((logger, logger.level, logger.propagate))
        logger.setLevel(level)
        if logger is not _REQUESTS:
            logger.propagate = False
            logger.addHandler(handler)
    listener.start()
    try:
        yield
    finally:
        with contextlib.suppress(queue.Full):
            listener.stop()
        for logger, level, propagate in kept:
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate


def trace_of(error: BaseException) -> str:
    """Return where an exception came from, and its type; not its message, which may quote data.

    >>> try:
    ...     {}["adv-00042"]
    ... except KeyError as error:
    ...     "adv-00042" in trace_of(error).splitlines()[-1]
    False
    """
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    parts = [trace_of(before), "which led to:"] if before is not None else []
    frames = traceback.extract_tb(error.__traceback__)
    parts += [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    return "\n".join([*parts, type(error).__qualname__])


class _Dropping(logging.handlers.QueueHandler):
    """Hands records to the thread that writes them; drops them if too many wait."""

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record  # formatted by the other thread

    def enqueue(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(queue.Full):
            self.queue.put_nowait(record)


class _Unbreakable(logging.StreamHandler[Any]):
    """Writes to standard error; a stream that is closed or broken is no reason to fail."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802, ARG002 (logging's)
        return


class _TextLines(logging.Formatter):
    """One line of text a record; further lines of a message are indented."""

    def format(self, record: logging.LogRecord) -> str:
        head = f"{_time(record)} {record.levelname}"
        request = getattr(record, "request", None)
        if request is not None:
            who, method, route, status, milliseconds, size = request
            return f"{head} {who} {method} {route} {status} {milliseconds:.2f}ms {size}B"
        # a message cannot pass for a line of the log, nor control a terminal
        text = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in _said(record))
        return f"{head} {text}".replace("\n", "\n    ")


class _JsonLines(logging.Formatter):
    """One JSON object a record."""

    def format(self, record: logging.LogRecord) -> str:
        members: dict[str, Any] = {"time": _time(record), "level": record.levelname}
        request = getattr(record, "request", None)
        if request is None:
            members["message"] = _said(record)
        else:
            names = ("request_id", "method", "route", "status", "ms", "bytes")
            members |= zip(names, request, strict=True)
            members["ms"] = round(members["ms"], 2)
        return msgspec.json.encode(members).decode()


def _time(record: logging.LogRecord) -> str:
    date = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{date}.{int(record.msecs):03d}Z"


def _said(record: logging.LogRecord) -> str:
    message = record.getMessage().rstrip().encode("utf-8", "backslashreplace").decode()
    error = record.exc_info[1] if record.exc_info else None
    return message if error is None else f"{message}\n{trace_of(error)}"
