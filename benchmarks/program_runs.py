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

__all__ = ["PROGRAM", "ProgramRun", "busy_notes", "failure_text", "run_program"]

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
    from coterie.errors import CoterieError

    with tempfile.TemporaryDirectory(prefix="coterie-run-") as name:
        folder = Path(name)
        watcher = [sys.executable, "-I", "-S", __file__, str(seconds), name, *command]
        environment = {**os.environ, **(variables or {})}
        with subprocess.Popen(watcher, env=environment, stderr=subprocess.PIPE) as process:
            try:
                errors = process.communicate()[1].decode(errors="replace").splitlines()
            except BaseException:
                process.terminate()  # the watcher then ends the command and itself
                raise
        if process.returncode != 0:
            raise CoterieError(f"{command[0]} could not be run: {errors[-1]}")
        measured: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        for stream in ("output", "error"):
            measured[stream] = (folder / stream).read_text(encoding="utf-8", errors="replace")
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


def _watch(seconds: str, folder: str, *command: str) -> None:
    measured = _measure(command, float(seconds), Path(folder))
    (Path(folder) / "run.json").write_text(json.dumps(measured), encoding="utf-8")


def _measure(command: Sequence[str], limit: float, folder: Path) -> dict[str, Any]:
    signals: list[int] = []
    with (folder / "output").open("wb") as output, (folder / "error").open("wb") as error:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=error, start_new_session=True
        )

        def end(number: int, _: object) -> None:
            signals.append(number)
            _kill_group(process.pid)

        for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end)
        signal.setitimer(signal.ITIMER_REAL, limit)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        signal.setitimer(signal.ITIMER_REAL, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    _kill_group(process.pid)  # processes that the command has left running
    return {
        "status": process.returncode,
        "in_time": signal.SIGALRM not in signals,
        "seconds": seconds,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
    }


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


if __name__ == "__main__":
    _watch(*sys.argv[1:])
