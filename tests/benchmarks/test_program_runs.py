"""Programs are measured as they are, and none outlives its time."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks import program_runs
from benchmarks.program_runs import run_program
from coterie.errors import CoterieError

MEGABYTE = 1_000_000


def python(code: str) -> list[str]:
    """The command that runs some Python."""
    return [sys.executable, "-S", "-c", code]


def test_the_watcher_imports_the_standard_library_alone():
    """Anything more would count towards the memory of the program."""
    names = set()
    for node in ast.parse(Path(program_runs.__file__).read_text()).body:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.split(".")[0])
    assert names <= set(sys.stdlib_module_names)


def test_peak_memory_is_the_programs_and_not_ours():
    """Our own large arrays do not count; those of the program do."""
    ours = np.ones(300 * MEGABYTE // 8)
    small = run_program(python("pass"), 60)
    large = run_program(python(f"bytearray(b'x') * {200 * MEGABYTE}"), 60)
    assert ours.nbytes == 300 * MEGABYTE
    assert MEGABYTE < small.peak_bytes < 60 * MEGABYTE
    assert 190 * MEGABYTE < large.peak_bytes - small.peak_bytes < 220 * MEGABYTE


def test_what_a_program_said_and_how_it_ended_is_told():
    """Streams apart, exit status, signals, variables, and time on processors within wall time."""
    run = run_program(python("import sys; print('é'); sys.exit('no')"), 60)
    assert (run.status, run.output, run.error) == (1, "é\n", "no\n")
    assert 0 < run.seconds < 60
    assert run.processor_seconds > 0
    killed = run_program(python("import os; os.kill(os.getpid(), 9)"), 60)
    assert (killed.status, killed.in_time) == (-signal.SIGKILL, True)
    told = run_program(python("import os; print(os.environ['COLOUR'])"), 60, {"COLOUR": "red"})
    assert told.output == "red\n"


def test_a_program_is_ended_with_all_it_started_when_its_time_is_up(tmp_path):
    """Neither it nor its own child goes on."""
    child = "import time, sys; time.sleep(2); open(sys.argv[1], 'w')"
    code = f"import subprocess as s, sys; s.run([sys.executable, '-c', {child!r}, sys.argv[1]])"
    run = run_program([*python(code), str(tmp_path / "alive")], 0.5)
    assert not run.in_time
    assert run.status == -signal.SIGKILL
    time.sleep(2.5)
    assert not (tmp_path / "alive").exists()


def test_an_interrupt_ends_the_program(monkeypatch, tmp_path):
    """Interrupted while we wait, we leave no program behind."""
    started = tmp_path / "started"

    def interrupt(_):
        while not started.exists() or not started.read_text():
            time.sleep(0.01)
        raise KeyboardInterrupt

    code = "import os, sys, time; print(os.getpid(), file=open(sys.argv[1], 'w'), flush=True)"
    monkeypatch.setattr(subprocess.Popen, "communicate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_program([*python(f"{code}; time.sleep(60)"), str(started)], 60)
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


def test_a_command_that_is_not_there_is_told():
    """The name and the reason, not a traceback."""
    with pytest.raises(CoterieError, match=r"no-such-program could not be run: .*No such file"):
        run_program(["no-such-program"], 10)
