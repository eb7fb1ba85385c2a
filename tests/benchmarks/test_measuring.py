"""Time and memory of known work, in fresh processes."""

from __future__ import annotations

import signal
import warnings
from functools import partial

import numpy as np
import pytest

from benchmarks import measuring
from benchmarks.measuring import Measurement, Work, measure, measure_side_by_side
from coterie.errors import CoterieError

N = 15_000_000
BYTES = 8 * N


def taking(seconds: float) -> Measurement:
    """A measurement of so many seconds."""
    return Measurement(seconds, 0, 0.0, "", runs=(seconds,))


def test_an_allocation_is_seen():
    """A result of 120 MB needs 120 MB beyond the input, give or take a little."""
    found = measure(Work(load=partial(int, N), run=np.ones))
    assert BYTES <= found.peak_bytes < 1.15 * BYTES
    assert found.seconds > 0
    assert found.runs == (found.seconds,)


def test_memory_that_is_freed_again_is_seen():
    """The deviations that a variance makes and frees count, though a number is left."""
    found = measure(Work(load=partial(np.ones, N), run=np.var))
    assert BYTES <= found.peak_bytes < 1.15 * BYTES


def test_neither_input_nor_parent_count():
    """What the input holds, and what the parent process holds, is not memory of the work."""
    held = np.ones(N)
    found = measure(Work(load=partial(np.ones, N), run=np.sum))
    assert found.peak_bytes < 0.1 * BYTES
    assert held[0] == 1


def test_warm_up_comes_first_and_facts_come_last():
    """The warm-up sees the input before the run; the facts are made from input and result."""
    work = Work(load=partial(list, "ab"), warm_up=list.pop, run=len, describe=dict.fromkeys)
    assert measure(work).facts == {"a": 1}


def test_warnings_are_counted_not_shown(capfd):
    """A warning of the work is counted by its kind and printed nowhere."""
    assert measure(Work(load=partial(str, "odd"), run=warnings.warn)).warnings == {"UserWarning": 1}
    assert capfd.readouterr() == ("", "")


def test_failure_is_told():
    """Work that raises gives one error with its message, no traceback from the depths."""
    with pytest.raises(CoterieError, match=r"failed: ValueError: .*'x'"):
        measure(Work(load=partial(str, "x"), run=int))


def test_a_killed_child_is_told():
    """Work that is killed gives an error that names the signal."""
    with pytest.raises(CoterieError, match="ended by signal 9; if that is 9, memory ran out"):
        measure(Work(load=partial(int, signal.SIGKILL), run=signal.raise_signal))


def test_without_a_resettable_mark_the_largest_resident_set_is_used(monkeypatch, tmp_path):
    """Where the high-water mark cannot be reset the method says that the figure is a bound."""
    monkeypatch.setattr(measuring, "_CLEAR", tmp_path / "none" / "clear_refs")
    before = measuring._largest_resident_set()
    found = measuring._measured_here(Work(run=type))
    assert "ru_maxrss" in found.memory_method
    assert 0 <= found.peak_bytes <= measuring._largest_resident_set() - before


def test_works_take_turns(monkeypatch):
    """Rounds go through all works; one that has taken enough time is not repeated."""
    order = []
    works = {"slow": Work(run=abs), "quick": Work(run=len)}
    seconds = {works["slow"].run: 40.0, works["quick"].run: 1.0}
    monkeypatch.setattr(measuring, "measure", lambda work: taking(seconds[work.run]))
    found = measure_side_by_side(works, repeats=4, enough_seconds=60.0, before_run=order.append)
    assert order == ["slow", "quick", "slow", "quick", "quick", "quick"]
    assert found["slow"].runs == (40.0, 40.0)
    assert found["quick"].runs == (1.0,) * 4


def test_several_runs_become_one():
    """The median time, the largest memory and warm-up, the sum of warnings, all times kept."""
    runs = [
        Measurement(3.0, 10, 0.5, "m", {"a": 1}, {"W": 1}, (3.0,)),
        Measurement(1.0, 30, 9.0, "m", {"a": 2}, {"W": 2, "X": 1}, (1.0,)),
    ]
    expected = Measurement(2.0, 30, 9.0, "m", {"a": 1}, {"W": 3, "X": 1}, (3.0, 1.0))
    assert measuring.combined(runs) == expected
