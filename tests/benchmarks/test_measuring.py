"""Works that are measured in new processes, and what is counted of them."""

from __future__ import annotations

import os
import signal
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import measuring
from benchmarks.measuring import Measurement, Stopwatch, measure, measure_side_by_side
from coterie.errors import CoterieError


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Let the new process import the works of this module."""
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


def warn(watch):
    """Warn before and during the work."""
    with watch.warm_up():
        warnings.warn("ignored", stacklevel=1)
    with watch.measure():
        warnings.warn("counted", stacklevel=1)
    return {"process": os.getpid()}


def fail(watch, number):
    """Raise an error, or a signal."""
    with watch.measure():
        signal.raise_signal(number) if number else int("x")
    return {}


def test_a_work_runs_in_a_new_process():
    """Its facts come back, and the warnings of the work alone are counted."""
    found = measure(warn)
    assert found.facts["process"] != os.getpid()
    assert found.warnings == {"UserWarning": 1}
    assert found.runs == (found.seconds,)


def test_memory_and_time_are_those_of_the_work(monkeypatch):
    """Resident memory before the work does not count; warm-up and work are timed apart."""
    clock = iter([0.0, 2.0, 10.0, 15.0])
    monkeypatch.setattr(measuring, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr(measuring, "_status_bytes", {"VmRSS": 100, "VmHWM": 350}.get)
    warn(watch := Stopwatch())
    counted = {"seconds": 5.0, "runs": (5.0,), "peak_bytes": 250, "warnings": {"UserWarning": 1}}
    assert watch.measured == {"warm_up_seconds": 2.0, **counted}


def test_failures_are_reported():
    """The error of the work or the signal that ended it, in one line."""
    with pytest.raises(CoterieError, match=r"status 1 .*ValueError: .*'x'"):
        measure(partial(fail, number=0))
    with pytest.raises(CoterieError, match="status -9"):
        measure(partial(fail, number=signal.SIGKILL))


def test_works_take_turns_until_they_took_enough_time(monkeypatch):
    """Rounds go through all works; a work that took enough time is not repeated."""
    order = []

    def record(work):
        order.append(work)
        seconds = {"slow": 40.0, "quick": 1.0}[work]
        return Measurement(seconds, 0, 0.0, runs=(seconds,))

    monkeypatch.setattr(measuring, "measure", record)
    works = {"slow": "slow", "quick": "quick"}
    found = measure_side_by_side(works, repeats=4, enough_seconds=60.0)
    assert order == ["slow", "quick", "slow", "quick", "quick", "quick"]
    assert found["slow"].runs == (40.0, 40.0) and found["quick"].runs == (1.0,) * 4
