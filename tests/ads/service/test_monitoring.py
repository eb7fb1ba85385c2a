"""What operators see: a line a request with nothing personal, and metrics of all processes."""

from __future__ import annotations

import io
import itertools
import json
import logging
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from coterie.ads.service import monitoring
from coterie.ads.service.monitoring import Metrics, log_request, logging_to_stderr, trace_of

ANSWERS = st.tuples(
    st.sampled_from(["/", "/v1/model"]),
    st.sampled_from(["GET", "POST"]),
    st.sampled_from([200, 404, 503]),
    st.floats(0, 20),
)
REQUEST = (False, "r-1", "GET", "/v1/advertisers/{id}", 200, 0.0123, 512)


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


def test_nothing_is_kept_while_nobody_writes(capsys):
    """Lines of requests are noted only while there is a log."""
    log_request(True, *REQUEST[1:])
    assert logged(capsys, lambda: None) == []


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


@pytest.mark.parametrize("failed", [False, True])
def test_quiet_log_has_failures_alone(capsys, failed):
    """A quiet log leaves out requests other than those the service failed on."""
    lines = logged(capsys, lambda: log_request(failed, *REQUEST[1:]), quiet=True)
    assert [" ERROR " in line for line in lines] == [True] * failed


@given(st.text(st.characters(codec=None)))
def test_message_cannot_pass_for_another_line(message):
    """Further lines of a message are indented, and no character controls a terminal."""
    with pytest.MonkeyPatch.context() as patch:
        for log_format in ("text", "json"):
            patch.setattr(sys, "stderr", io.StringIO())
            with logging_to_stderr(log_format, quiet=False):
                logging.getLogger("coterie").warning("%s", message)
            first, *rest = sys.stderr.getvalue().removesuffix("\n").split("\n")
            assert all(line.startswith("    ") for line in rest)
            assert all(line.isprintable() for line in [first, *rest] if log_format == "text")
    assert rest == []
    told = json.loads(first)["message"]
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
    assert re.search(r"test_monitoring\.py:\d+ in fail", trace)


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
    monkeypatch.setattr(monitoring, "_MOST_LINES", 10)
    monkeypatch.setattr(monitoring, "_PAUSE", 60)
    lines = logged(capsys, lambda: [log_request(*REQUEST) for _ in range(1_000)])
    assert len(lines) == 10


def samples(text):
    """Return each sample by its name and labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


@given(st.lists(ANSWERS))
def test_answers_are_counted(answers):
    """Numbers by route, method and status, and times by route, are those of a plain count."""
    metrics = Metrics()
    for answer in answers:
        metrics.answered(*answer)
    found = samples(metrics.text())
    for key in itertools.product(["/", "/v1/model"], ["GET", "POST"], [200, 404, 503]):
        route, method, status = key
        labels = [("method", method), ("route", route), ("status", str(status))]
        expected = sum(answer[:3] == key for answer in answers)
        assert found.get(("coterie_requests_total", *labels), 0) == expected
    for name, *labels in found:
        if name == "coterie_request_seconds_bucket":
            end, route = float(dict(labels)["le"]), dict(labels)["route"]
            within = sum(one[0] == route and one[3] <= end for one in answers)
            assert found[name, *labels] == within


def test_model_and_reloads_are_reported():
    """When the model was loaded, its size and what became of files; each service for itself."""
    metrics, other = Metrics(), Metrics()
    metrics.model_loaded.set(1.5e9)
    metrics.model_advertisers.set(90)
    metrics.reloads_taken.inc()
    metrics.reloads_refused.inc(2)
    metrics.forecasts.inc(41)
    metrics.queued_work.set(7)
    found = samples(metrics.text())
    assert found["coterie_model_loaded_timestamp_seconds",] == 1.5e9
    assert found["coterie_model_advertisers",] == 90
    assert found["coterie_model_reloads_total", ("outcome", "taken")] == 1
    assert found["coterie_model_reloads_total", ("outcome", "refused")] == 2
    assert found["coterie_queued_work",] == 7
    assert found["coterie_forecasts_total",] == 41
    assert samples(other.text())["coterie_forecasts_total",] == 0


def test_processes_are_summed(tmp_path, monkeypatch):
    """Counters of processes that have ended stay; the size of the model is not added up."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    code = (
        "from coterie.ads.service.monitoring import Metrics; metrics = Metrics();"
        "metrics.forecasts.inc(20); metrics.model_advertisers.set(90);"
        "metrics.answered('/v1/model', 'GET', 200, 0.01); print(metrics.text().decode())"
    )
    for number in (1, 2):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        found = samples(done.stdout)
        assert found["coterie_forecasts_total",] == 20 * number
        assert found["coterie_model_advertisers",] == 90
        assert found["coterie_request_seconds_count", ("route", "/v1/model")] == number
