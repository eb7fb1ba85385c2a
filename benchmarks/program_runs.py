"""A command in a fresh process: its wall time, its peak memory, and what it said.

Run as a script, this module is the watcher: a small process between us and the command,

    python program_runs.py SECONDS FOLDER COMMAND …

which starts the command, ends it after SECONDS, and leaves ``output``, ``error`` and ``run.json``
in FOLDER. It is there because Linux counts the memory of the process that starts a command
towards the peak of the command: ours, which has written and judged large tables, would be taken
for that of the program. The watcher needs about ten megabytes.

Nothing but the standard library is imported here, lest the watcher grow.
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

__all__ = ["ProgramRun", "run_program"]


class ProgramRun(NamedTuple):
    """What came of a command.

    Attributes
    ----------
    status : int
        Its exit status; −s where signal s ended it.
    in_time : bool
        False if it was ended because its time was up.
    seconds : float
        Wall time from its start to its end.
    processor_seconds : float
        Of all its threads, and of processes it has waited for.
    peak_bytes : int
        The highest resident set (``ru_maxrss``).
    output, error : str
        What it wrote to the standard streams.
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
    r"""Run a command to its end, or for so many seconds.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments.
    seconds : float
        The most it may take.
    variables : dict of str to str, optional
        Environment variables it gets beside ours.

    Examples
    --------
    >>> run = run_program([sys.executable, "-c", "print(6 * 7)"], seconds=60)
    >>> run.status, run.in_time, run.output
    (0, True, '42\n')
    """
    from coterie.errors import CoterieError

    with tempfile.TemporaryDirectory(prefix="coterie-run-") as folder:
        watcher = [sys.executable, "-I", "-S", __file__, str(seconds), folder, *command]
        surroundings = {**os.environ, **(variables or {})}
        with subprocess.Popen(watcher, env=surroundings, stderr=subprocess.PIPE) as process:
            try:
                said_of_it = process.communicate()[1].decode(errors="replace").splitlines()
            except BaseException:
                process.terminate()  # it ends the command, and then itself
                raise
        if process.returncode != 0:
            raise CoterieError(f"{command[0]} could not be run: {said_of_it[-1]}")
        measured = json.loads((Path(folder) / "run.json").read_text(encoding="utf-8"))
        said: dict[str, Any] = {name: _text(Path(folder) / name) for name in ("output", "error")}
    return ProgramRun(**measured, **said)


def _watch(arguments: list[str]) -> None:
    seconds, folder, *command = arguments
    measured = _measured(command, float(seconds), Path(folder))
    (Path(folder) / "run.json").write_text(json.dumps(measured), encoding="utf-8")


def _measured(command: list[str], limit: float, folder: Path) -> dict[str, Any]:
    over: list[int] = []
    with (folder / "output").open("wb") as output, (folder / "error").open("wb") as error:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=error, start_new_session=True
        )

        def end(number: int, _: object) -> None:
            over.append(number)
            _end_group(process.pid)

        for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end)
        signal.setitimer(signal.ITIMER_REAL, limit)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        signal.setitimer(signal.ITIMER_REAL, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    _end_group(process.pid)  # what it may have left running
    return {
        "status": process.returncode,
        "in_time": signal.SIGALRM not in over,
        "seconds": seconds,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
    }


def _end_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


if __name__ == "__main__":
    _watch(sys.argv[1:])
