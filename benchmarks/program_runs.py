"""Run a command in a new process: wall time, peak memory and output.

Run as a script, this module is the watcher, a small process between this one and the command::

    python program_runs.py SECONDS FOLDER COMMAND …

It starts the command, ends it after SECONDS, and writes ``output``, ``error`` and ``run.json`` to
FOLDER. Linux counts the memory of the process that starts a command towards the peak of the
command. Started from here, a benchmark with large tables in memory would be counted as memory of
the program. The watcher needs about ten megabytes; to keep it small, the module imports only the
standard library.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

#: The command that runs coterie.
PROGRAM = (sys.executable, "-P", "-m", "coterie")
# load average up to which a machine counts as idle
_IDLE_LOAD = 1.5


class ProgramRun(NamedTuple):
    """The outcome of a command.

    ``status`` is the exit status, or −s if signal s ended the command; ``in_time`` is False if the
    time was up. Processor time is that of all threads and awaited processes; ``peak_bytes`` is the
    highest resident set.
    """

    status: int
    in_time: bool
    seconds: float
    processor_seconds: float
    peak_bytes: int
    output: str
    error: str


def run_program(
    command: Sequence[str], seconds: float, variables: Mapping[str, str] | None = None
) -> ProgramRun:
    r"""Run a command for at most ``seconds``; ``variables`` are added to its environment.

    >>> run = run_program([sys.executable, "-c", "print(6 * 7)"], seconds=60)
    >>> run.status, run.in_time, run.output
    (0, True, '42\n')
    """
    with tempfile.TemporaryDirectory(prefix="coterie-run-") as name:
        watcher = [sys.executable, "-I", "-S", __file__, str(seconds), name, *command]
        environment = {**os.environ, **(variables or {})}
        with subprocess.Popen(watcher, env=environment, start_new_session=True) as process:
            try:
                process.wait()
            finally:  # also after an interrupt: the command and what it has started
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        measured: dict[str, Any] = json.loads((Path(name) / "run.json").read_text(encoding="utf-8"))
        for stream in ("output", "error"):
            measured[stream] = (Path(name) / stream).read_text(encoding="utf-8", errors="replace")
    return ProgramRun(**measured)


def failure_text(run: ProgramRun, folder: Path) -> str:
    """Return why a command failed, without the path of the folder; empty if it did not."""
    from benchmarks.harness import error_line

    if run.status == 0:
        return ""
    return error_line(run.error).replace(f"{folder}{os.sep}", "") or f"exit status {run.status}"


def busy_notes(load: float) -> list[str]:
    """Return a note if the load average before the first run shows that the machine was busy."""
    if load <= _IDLE_LOAD:
        return []
    return [f"The load average before the first run was {load:.1f}: wall times are too long."]


def _watch(limit: str, name: str, *command: str) -> None:
    folder = Path(name)
    in_time = True

    def end(*_: object) -> None:
        nonlocal in_time
        in_time = False
        os.kill(process.pid, signal.SIGKILL)

    signal.signal(signal.SIGALRM, end)
    with (folder / "output").open("wb") as output, (folder / "error").open("wb") as error:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=error)
        signal.setitimer(signal.ITIMER_REAL, float(limit))
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
    measured = {
        "status": os.waitstatus_to_exitcode(status),
        "in_time": in_time,
        "seconds": seconds,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
    }
    (folder / "run.json").write_text(json.dumps(measured), encoding="utf-8")


if __name__ == "__main__":
    _watch(*sys.argv[1:])
