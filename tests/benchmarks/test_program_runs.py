"""Commands run in processes of their own, and end when their time is up."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from benchmarks.program_runs import failure_text, run_program

#: Holds a pipe open, and writes to it only if nobody ends this process.
HOLD = "import os, sys, time; pipe = open(sys.argv[1], 'w'); {}time.sleep(60); pipe.write('alive')"


def python(code: str) -> list[str]:
    """Return the command that runs some Python."""
    return [sys.executable, "-S", "-c", code]


@pytest.fixture
def pipe(tmp_path):
    """A named pipe, and a function that returns what came once no process holds it open."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reading, True)
    yield str(path), lambda: os.read(reading, 9)
    os.close(reading)


def test_streams_status_and_variables(tmp_path):
    """Both streams, the exit status, a signal and environment variables; no path in a failure."""
    code = f"import os, sys; print('é', os.environ['COLOUR']); sys.exit('error: {tmp_path}/x: no')"
    run = run_program(python(code), 60, {"COLOUR": "red"})
    assert (run.status, run.output) == (1, "é red\n")
    assert failure_text(run, tmp_path) == "error: x: no"
    killed = run_program(python("import os; os.kill(os.getpid(), 9)"), 60)
    assert (killed.status, killed.in_time) == (-signal.SIGKILL, True)
    assert failure_text(killed, tmp_path) == "exit status -9"


def test_a_program_ends_with_its_children_when_the_time_is_up(pipe):
    """Neither the program nor its child continues."""
    path, rest = pipe
    child = [sys.executable, "-c", HOLD.format(""), path]
    run = run_program(python(f"import subprocess; subprocess.run({child!r})"), 0.5)
    assert (run.in_time, run.status) == (False, -signal.SIGKILL)
    assert rest() == b""


def test_an_interrupt_ends_the_program(pipe):
    """An interrupt while the program runs leaves no process behind."""
    path, rest = pipe
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_program(
                [*python(HOLD.format(f"os.kill({os.getpid()}, {signal.SIGALRM:d}); ")), path], 60
            )
    finally:
        signal.signal(signal.SIGALRM, before)
    assert rest() == b""
