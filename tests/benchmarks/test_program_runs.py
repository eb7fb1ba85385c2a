"""Commands are measured without the memory of this process, and end in time."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks.program_runs import failure_text, run_compiled, run_program

MEGABYTE = 1_000_000


def python(code: str) -> list[str]:
    """Return the command that runs some Python."""
    return [sys.executable, "-S", "-c", code]


def test_peak_memory_is_that_of_the_program():
    """Large arrays of this process do not count; those of the program do."""
    ours = np.ones(300 * MEGABYTE // 8)
    small = run_program(python("pass"), 60)
    large = run_program(python(f"bytearray(b'x') * {200 * MEGABYTE}"), 60)
    assert ours.nbytes == 300 * MEGABYTE
    assert MEGABYTE < small.peak_bytes < 60 * MEGABYTE
    assert 190 * MEGABYTE < large.peak_bytes - small.peak_bytes < 220 * MEGABYTE


def test_a_run_that_compiles_is_repeated(tmp_path):
    """Its seconds are those of the first use; without a new file there is one run."""
    code = "import os, pathlib; pathlib.Path(os.environ['NUMBA_CACHE_DIR'], 'k').touch(); print(1)"
    for compiles in (True, False):
        run, first_seconds = run_compiled(["-S", "-c", code], 60, tmp_path)
        assert run.output == "1\n"
        assert (first_seconds is not None) is compiles


def test_streams_status_and_variables(tmp_path):
    """Both streams, the exit status, a signal and environment variables; no path in a failure."""
    code = f"import os, sys; print('é', os.environ['COLOUR']); sys.exit('error: {tmp_path}/x: no')"
    run = run_program(python(code), 60, {"COLOUR": "red"})
    assert (run.status, run.output) == (1, "é red\n")
    assert failure_text(run, tmp_path) == "error: x: no"
    assert 0 < run.processor_seconds and 0 < run.seconds < 60
    killed = run_program(python("import os; os.kill(os.getpid(), 9)"), 60)
    assert (killed.status, killed.in_time) == (-signal.SIGKILL, True)
    assert failure_text(killed, tmp_path) == "exit status -9"


def test_a_program_ends_with_its_children_when_the_time_is_up(tmp_path):
    """Neither the program nor its child continues."""
    child = "import time, sys; time.sleep(1.5); open(sys.argv[1], 'w')"
    code = f"import subprocess as s, sys; s.run([sys.executable, '-c', {child!r}, sys.argv[1]])"
    run = run_program([*python(code), str(tmp_path / "alive")], 0.5)
    assert (run.in_time, run.status) == (False, -signal.SIGKILL)
    time.sleep(1.5)
    assert not (tmp_path / "alive").exists()


def test_an_interrupt_ends_the_program(tmp_path):
    """An interrupt while the program runs leaves no process behind."""
    started = tmp_path / "started"

    def interrupt(*_):
        raise KeyboardInterrupt

    code = "import os, sys, time; print(os.getpid(), file=open(sys.argv[1], 'w'), flush=True)"
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 1.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_program([*python(f"{code}; time.sleep(60)"), str(started)], 60)
    finally:
        signal.signal(signal.SIGALRM, before)
    pid = int(started.read_text())
    deadline = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()
