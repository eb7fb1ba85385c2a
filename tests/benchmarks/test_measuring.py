"""Time and memory of known works, measured in new processes."""

from __future__ import annotations

import os
import signal
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks import measuring
from benchmarks.measuring import Measurement, measure, measure_side_by_side
from coterie.errors import CoterieError

N = 15_000_000
BYTES = 8 * N


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Let the new process import the works of this module."""
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


def allocate(watch, keeps):
    """Hold 120 MB before the work; allocate as much in the work, and keep or free it."""
    held = np.ones(N)
    with watch.warm_up():
        warnings.warn("ignored", stacklevel=1)
    with watch.measure():
        made = np.ones(N) if keeps else np.var(held)
        warnings.warn("counted", stacklevel=1)
    return {"size": np.size(made), "held": held.size}


def fail(watch, number):
    """Raise an error, or a signal."""
    with watch.measure():
        signal.raise_signal(number) if number else int("x")
    return {}


@pytest.mark.parametrize("keeps", [True, False])
def test_memory_of_the_work_is_measured(keeps):
    """An array of 120 MB counts, also if it is freed; input and parent process do not count."""
    parent = np.ones(N)
    found = measure(partial(allocate, keeps=keeps))
    assert BYTES <= found.peak_bytes < 1.15 * BYTES
    assert found.runs == (found.seconds,) and found.seconds > 0 and found.warm_up_seconds > 0
    assert found.warnings == {"UserWarning": 1}
    assert found.facts == {"size": N if keeps else 1, "held": parent.size}


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
