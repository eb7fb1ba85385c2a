"""Logs: one line a request, and nothing personal."""

from __future__ import annotations

import json
import logging
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ads.service import request_logs
from coterie.ads.service.request_logs import log_request, logging_to_stderr, trace_of

REQUEST = ("r-1", "GET", "/v1/advertisers/{id}", 200, 0.0123, 512)


def logged(capsys, work, log_format="text", quiet=False):
    """Return what some work logs, in lines."""
    with logging_to_stderr(log_format, quiet):
        work()
    return capsys.readouterr().err.splitlines()


def test_text_line_of_a_request(capsys):
    """A line has time, level, id, method, template, status, duration and size."""
    [line] = logged(capsys, lambda: log_request(*REQUEST))
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert re.fullmatch(time + r" INFO r-1 GET /v1/advertisers/\{id\} 200 12\.30ms 512B", line)


def test_json_line_of_a_request(capsys):
    """In JSON a line says the same, with numbers as numbers."""
    [line] = logged(capsys, lambda: log_request(*REQUEST), "json")
    told = json.loads(line)
    assert told.pop("time").endswith("Z")
    assert told == {
        "level": "INFO",
        "request_id": "r-1",
        "method": "GET",
        "route": "/v1/advertisers/{id}",
        "status": 200,
        "ms": 12.3,
        "bytes": 512,
    }


@pytest.mark.parametrize(("status", "lines"), [(200, 0), (404, 0), (429, 0), (500, 1), (503, 1)])
def test_quiet_log_has_failures_alone(capsys, status, lines):
    """A quiet log leaves out requests other than those the service failed on."""
    work = lambda: log_request("r-1", "GET", "/", status, 0.0, 0)  # noqa: E731
    assert len(logged(capsys, work, quiet=True)) == lines


@given(st.text(st.characters(codec=None)))
def test_message_cannot_pass_for_another_line(message):
    """Further lines of a message are indented, and no character controls a terminal."""
    record = logging.LogRecord("coterie", logging.WARNING, "", 0, "%s", (message,), None)
    first, *rest = request_logs._TextLines().format(record).split("\n")
    assert all(line.startswith("    ") for line in rest)
    assert all(line.isprintable() for line in [first, *rest])
    line = request_logs._JsonLines().format(record)
    assert "\n" not in line
    told = json.loads(line)["message"]
    assert told == message.rstrip().encode("utf-8", "backslashreplace").decode()


def test_trace_says_where_but_not_what():
    """The trace of a defect has files, lines and types, never a message, nor that of its cause."""

    def fail():
        try:
            {}["adv-secret"]
        except KeyError as error:
            raise ValueError("text-secret") from error

    with pytest.raises(ValueError, match="secret") as caught:
        fail()
    trace = trace_of(caught.value)
    assert "secret" not in trace and "KeyError" in trace
    assert trace.splitlines()[-1] == "ValueError"
    assert re.search(r"test_request_logs\.py:\d+ in fail", trace)


def test_loggers_are_as_before_afterwards(capsys):
    """Logs of the package and errors of uvicorn are written; afterwards all is as before."""
    loggers = [logging.getLogger(name) for name in ("coterie", "coterie.requests", "uvicorn.error")]

    def state():
        return [(one.level, one.propagate, list(one.handlers)) for one in loggers]

    before = state()

    def work():
        loggers[0].info("a model of %d advertisers", 90)
        loggers[2].info("of no interest")
        try:
            raise KeyError("adv-secret")
        except KeyError:
            loggers[2].exception("a defect")

    first, second, *trace = logged(capsys, work)
    assert first.endswith(" INFO a model of 90 advertisers")
    assert second.endswith(" ERROR a defect") and trace[-1] == "    KeyError"
    assert "secret" not in "".join(trace)
    assert state() == before


class Broken:
    """A stream whose reader is gone."""

    def write(self, _):
        """Fail as a closed pipe does."""
        raise BrokenPipeError

    flush = write


def test_reader_that_is_gone_is_no_failure(monkeypatch):
    """If nobody reads the log, requests go on."""
    monkeypatch.setattr(sys, "stderr", Broken())
    with logging_to_stderr("text", quiet=False):
        log_request(*REQUEST)


def test_lines_that_nobody_reads_are_dropped(capsys, monkeypatch):
    """A request never waits for the log: lines beyond those that may wait are dropped."""
    monkeypatch.setattr(request_logs, "_MOST_LINES", 10)
    monkeypatch.setattr(logging.handlers.QueueListener, "start", lambda _: None)
    monkeypatch.setattr(logging.handlers.QueueListener, "stop", lambda _: None)
    assert logged(capsys, lambda: [log_request(*REQUEST) for _ in range(1_000)]) == []
