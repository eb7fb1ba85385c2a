"""The log: its lines, who writes them, and what never stands in them."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import threading
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ads.service.access.request_logs import LineWriter, RequestLog, trace_of
from running_service import wait_until

REQUEST = ("r-1", "GET", "/v1/advertisers/{id}", 200, 0.0123, 512)


@contextlib.contextmanager
def _pipe():
    """The two ends of a pipe, the reading one as a file; both closed afterwards if still open."""
    theirs, ours = os.pipe()
    with open(theirs, "rb", buffering=0) as reader:  # noqa: PTH123 — a number, not a path
        try:
            yield reader, ours
        finally:
            with contextlib.suppress(OSError):
                os.close(ours)


def test_json_has_the_same_members():
    """In JSON a line says the same, with numbers as numbers."""
    lines = []
    RequestLog(lines.append, log_format="json", clock=lambda: 0.5).request(*REQUEST)
    assert json.loads(lines[0]) == {
        "time": "1970-01-01T00:00:00.500Z",
        "level": "INFO",
        "request_id": "r-1",
        "method": "GET",
        "route": "/v1/advertisers/{id}",
        "status": 200,
        "ms": 12.3,
        "bytes": 512,
    }


@given(st.lists(st.floats(0, 4e9), min_size=1))
def test_time_is_the_clock(times):
    """The time of a line is that of the clock to the millisecond, whatever order times come in."""
    lines = []
    clock = iter(times)
    log = RequestLog(lines.append, clock=lambda: next(clock))
    for _ in times:
        log.request(*REQUEST)
    for line, seconds in zip(lines, times, strict=True):
        told = datetime.fromisoformat(line.split(" ")[0])
        assert 0 <= seconds - told.timestamp() < 0.001 + 1e-6
        assert told.tzinfo == UTC


@pytest.mark.parametrize(("status", "lines"), [(200, 0), (404, 0), (429, 0), (500, 1), (503, 1)])
def test_quiet_leaves_out_what_went_well(status, lines):
    """A quiet log has the failures of the service alone."""
    written = []
    RequestLog(written.append, quiet=True).request("r-1", "GET", "/", status, 0.0, 0)
    assert len(written) == lines


@given(st.text(st.characters(codec=None)))
def test_event_cannot_pass_for_another_line(message):
    """Whatever a message holds, it is one event: further lines are indented, nothing is obeyed."""
    for log_format in ("text", "json"):
        lines = []
        RequestLog(lines.append, log_format=log_format).event("WARNING", message)
        first, *rest = lines[0].removesuffix("\n").split("\n")
        assert all(line.startswith("    ") for line in rest)
        assert first.isprintable()
        if log_format == "json":
            assert json.loads(lines[0])["message"] == message


def test_trace_tells_where_but_not_what():
    """The trace of a defect names files, lines and kinds, never a message, of its cause neither."""

    def fail():
        try:
            {}["adv-secret"]
        except KeyError as error:
            raise ValueError("text-secret") from error

    with pytest.raises(ValueError, match="secret") as caught:
        fail()
    trace = trace_of(caught.value)
    assert "secret" not in trace
    assert trace.splitlines()[-1] == "ValueError"
    assert "KeyError" in trace
    assert re.search(r"test_request_logs\.py:\d+ in fail", trace)


def test_records_of_loggers_are_lines_too():
    """What the package and uvicorn log stands beside the requests, and loggers are as before."""
    lines = []
    logger = logging.getLogger("coterie")
    before = (logger.level, logger.propagate, list(logger.handlers))
    log = RequestLog(lines.append)
    with log.with_loggers():
        logger.info("a model of %d advertisers", 90)
        logging.getLogger("uvicorn.error").info("of no interest")
        try:
            raise KeyError("adv-secret")
        except KeyError:
            logging.getLogger("uvicorn.error").exception("a defect")
    assert (logger.level, logger.propagate, list(logger.handlers)) == before
    assert lines[0].endswith(" INFO a model of 90 advertisers\n")
    assert len(lines) == 2
    assert lines[1].endswith("\n    KeyError\n")
    assert "secret" not in lines[1]


def test_lines_of_many_threads_arrive_whole():
    """Every line is written, once and whole, whichever thread it came from."""
    with _pipe() as (reader, ours):
        writer = LineWriter(ours, pause=0.0)
        names = [f"{thread}-{i}" for thread in range(4) for i in range(200)]
        threads = [
            threading.Thread(target=lambda part: [writer.write(f"{n}\n") for n in part], args=(p,))
            for p in (names[i::4] for i in range(4))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        writer.close()
        os.close(ours)
        assert sorted(reader.readall().decode().split()) == sorted(names)


def test_line_is_written_without_waiting_for_the_next():
    """A single line comes out by itself."""
    with _pipe() as (reader, ours):
        writer = LineWriter(ours)
        writer.write("alone\n")
        assert reader.read(6) == b"alone\n"
        writer.close()


def test_reader_that_is_gone_is_no_failure():
    """Where nobody reads any more, lines vanish and nothing fails."""
    theirs, ours = os.pipe()
    os.close(theirs)
    writer = LineWriter(ours, pause=0.0)
    writer.write("into the void\n")
    writer.close()
    assert not writer._thread.is_alive()
    os.close(ours)


def test_reader_that_does_not_read_costs_lines_and_nothing_else():
    """Whoever writes never waits; lines beyond those that may wait are dropped, and counted."""
    with _pipe() as (reader, ours):
        writer = LineWriter(ours, most=10, pause=0.0, dropped="{} dropped\n".format)
        plug = "x" * 1_000_000 + "\n"
        writer.write(plug)
        wait_until(lambda: not writer._lines, "the plug")
        for i in range(25):
            writer.write(f"{i}\n")
        got = b""
        while not got.endswith(b"dropped\n"):
            got += reader.read(1 << 20)
        writer.close()
    lines = got.decode().splitlines()[1:]
    assert lines == [*map(str, range(10)), "15 dropped"]
