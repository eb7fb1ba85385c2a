"""Outcomes of methods on draws: status, limits, kept outcomes and their summary."""

from __future__ import annotations

import signal
import warnings
from functools import partial
from types import SimpleNamespace

from benchmarks import accuracy
from benchmarks.accuracy import Cell, run_cell, summarise
from benchmarks.harness import Context
from coterie.errors import LabelWarning, TooManyPointsError

MEMORY = Context()


def fake_cell(*methods: str, clock: SimpleNamespace | None = None) -> tuple[Cell, list]:
    """Return a cell whose methods do what their names say, and a list of what was run.

    A slow method advances the clock, and an endless one is stopped by the signal of the timer.
    """
    ran: list = []

    def score(seed, method):
        ran.append((seed, method))
        if method == "large":
            raise TooManyPointsError("too many\npoints")
        if method == "broken":
            raise ZeroDivisionError("no such thing")
        if method == "warns":
            warnings.warn("odd", LabelWarning, stacklevel=1)
        if method == "slow":
            clock.now += 0.06
        if method == "endless":
            signal.raise_signal(signal.SIGPROF)
        return seed / 4

    def load():
        ran.append("loaded")
        return lambda seed: partial(score, seed)

    return Cell("fake cell", methods, load), ran


def test_outcomes_of_methods():
    """Draw d is seeded with d; refusals, failures and warnings are distinguished."""
    cell, ran = fake_cell("good", "warns", "large", "broken")
    draws = run_cell(cell, 3, MEMORY, 60)
    assert [draw["good"]["accuracy"] for draw in draws] == [0, 0.25, 0.5]
    assert draws[0]["warns"]["warnings"] == {"LabelWarning": 1}
    assert draws[0]["large"]["status"] == "too large"
    assert draws[0]["broken"]["message"] == "ZeroDivisionError: no such thing"
    assert ran.count("loaded") == 1


def test_slow_methods_get_fewer_draws(monkeypatch):
    """Patience limits the draws of a method; a fit that does not end is stopped."""
    clock, timer = SimpleNamespace(now=0.0), []
    monkeypatch.setattr(accuracy, "time", SimpleNamespace(process_time=lambda: clock.now))
    monkeypatch.setattr(signal, "setitimer", lambda _, seconds: timer.append(seconds))
    draws = run_cell(fake_cell("slow", "good", clock=clock)[0], 4, MEMORY, 0.1)
    assert ["slow" in draw for draw in draws] == [True, True, False, False]
    assert all("good" in draw for draw in draws)
    first, second = run_cell(fake_cell("endless", "good")[0], 2, MEMORY, 0.02)
    assert (first["endless"]["status"], first["endless"]["seconds"]) == ("too slow", 0.2)
    assert set(second) == {"good"}
    assert set(timer) == {1.0, 0.2, 0}


def test_kept_outcomes_are_used_unless_they_may_change(tmp_path):
    """A run adds what is missing; failures and fits stopped too early are run again."""
    context = Context(keep=tmp_path)
    first = run_cell(fake_cell("good", "broken")[0], 1, context, 60)
    cell, ran = fake_cell("good", "large", "broken")
    (draw,) = run_cell(cell, 1, context, 60)
    assert draw["good"] == first[0]["good"]
    assert ran == ["loaded", (0, "large"), (0, "broken")]
    slow = {"status": "too slow", "seconds": 10.0, "message": "", "warnings": {}, "accuracy": None}
    context.trials("fake-cell").add({"draw": 0}, {"good": slow})
    assert run_cell(fake_cell("good")[0], 1, context, 1.0)[0]["good"]["status"] == "too slow"
    assert run_cell(fake_cell("good")[0], 1, context, 2.0)[0]["good"]["status"] == "ran"


def test_one_failed_draw_is_not_averaged_away():
    """The mean is that of the draws that ran; a failure in any draw is the status."""

    def outcome(status, accuracy=None):
        message = "" if status == "ran" else "m"
        figures = {"seconds": 1.0, "warnings": {"W": 1}, "accuracy": accuracy}
        return {**figures, "status": status, "message": message}

    found = summarise([outcome("ran", 0.5), outcome("too large"), outcome("ran", 1)])
    assert (found["status"], found["mean"], found["draws"]) == ("ran", 0.75, 2)
    assert (found["messages"], found["warnings"]) == (["too large: m"], {"W": 3})
    failed = summarise([outcome("ran", 0.5), outcome("failed")])
    assert (failed["status"], failed["mean"], failed["draws"]) == ("failed", None, 0)
