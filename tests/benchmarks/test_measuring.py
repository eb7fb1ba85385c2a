"""What is counted of works and programs that are measured in processes of their own."""

import os
import signal
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import measuring
from benchmarks.measuring import Measurement, Stopwatch, measure, measure_side_by_side
from benchmarks.program_runs import failure_text, run_program
from coterie.errors import CoterieError

#: Holds a pipe open, and writes to it only if nobody ends this process.
HOLD = "import sys, time; pipe = open(sys.argv[1], 'w'); time.sleep(60); pipe.write('alive')"


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


def python(code):
    """Return the command that runs some Python."""
    return [sys.executable, "-S", "-c", code]


def test_streams_status_and_variables_of_a_program(tmp_path):
    """Output, exit status, a signal and environment variables; no path in a failure."""
    code = f"import os, sys; print('é', os.environ['COLOUR']); sys.exit('error: {tmp_path}/x: no')"
    run = run_program(python(code), 60, {"COLOUR": "red"})
    assert (run.status, run.output) == (1, "é red\n")
    assert failure_text(run, tmp_path) == "error: x: no"
    killed = run_program(python("import os; os.kill(os.getpid(), 9)"), 60)
    assert (killed.status, killed.in_time) == (-signal.SIGKILL, True)
    assert failure_text(killed, tmp_path) == "exit status -9"


def test_a_program_ends_with_its_children_when_the_time_is_up(tmp_path):
    """Neither the program nor its child continues: nobody holds the pipe open."""
    os.mkfifo(path := str(tmp_path / "pipe"))
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reading, True)
    child = [*python(HOLD), path]
    run = run_program(python(f"import subprocess; subprocess.run({child!r})"), 0.5)
    assert (run.in_time, run.status) == (False, -signal.SIGKILL)
    assert os.read(reading, 9) == b""
    os.close(reading)


def test_bytes_of_sockets_are_counted():
    """Methods of sockets and of files made of them."""
    code = """
import socket
from benchmarks.counted_sockets import count_socket_bytes
counts = count_socket_bytes()
one, other = socket.socketpair()
one.sendall(b"x" * 1000)
one.send(b"y" * 10)
file = other.makefile("rwb")
assert len(file.read(1010)) == 1010
file.write(b"z" * 5)
file.flush()
one.recv(3)
one.recv_into(bytearray(9))
print(counts)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "{'sent': 1015, 'received': 1015}\n"
