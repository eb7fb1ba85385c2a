"""One method on one task in a process of its own, with limits on time and memory.

Whatever happens is an outcome that can be reported: an answer, a time-out, too little memory, a
crash, labels that are none.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import error_line
from benchmarks.peer_tasks import Material
from coterie.inspection.scores import clustering_accuracy, mirkin_objective

__all__ = ["Limits", "Status", "Trial", "run_trial"]

Status = Literal["done", "time-out", "memory", "crash", "wrong labels", "not installed"]

RUNNER = Path(__file__).with_name("peer_runner.py")
_LOOK_EVERY = 0.02


@dataclass(frozen=True)
class Limits:
    """What a trial may use.

    Attributes
    ----------
    seconds : float
        For the method itself.
    memory : int
        Bytes of address space (RLIMIT_AS).
    before : float
        Seconds for what comes before it: imports, loading, warming up.
    """

    seconds: float = 60.0
    memory: int = 6_000_000_000
    before: float = 180.0


@dataclass(frozen=True)
class Trial:
    """What came of it.

    Attributes
    ----------
    status : "done", or why there is no answer
    message : str
        The last line of the error; empty where there is none.
    seconds : float or None
        Wall time of the method: until it was done, or until it failed.
    peak_bytes, bytes_before : int or None
        Highest resident set of the process, in all and when the clock started.
    accuracy, objective : float or None
        Against the classes, and J against the partitions, where the task has such.
    n_clusters : int or None
    """

    status: Status
    message: str = ""
    seconds: float | None = None
    peak_bytes: int | None = None
    bytes_before: int | None = None
    accuracy: float | None = None
    objective: float | None = None
    n_clusters: int | None = None


def run_trial(
    python: str, method: str, task: Path, material: Material, limits: Limits, runner: Path = RUNNER
) -> Trial:
    """Have an interpreter run a method on a task, and judge the labels it returns.

    Parameters
    ----------
    python : str
        The interpreter of the peer's environment.
    method : str
        A name in ``peer_runner.METHODS``.
    task : Path
        Folder that :func:`~benchmarks.peer_tasks.write_task` has written.
    material : Material
        The same task with its classes.
    limits : Limits
    runner : Path
        The script.
    """
    with tempfile.TemporaryDirectory(prefix="coterie-peer-") as folder:
        answer = Path(folder)
        command = [python, "-P", str(runner), method, str(task), folder, str(limits.memory)]
        # a little longer than it is watched: it ends by itself only if we are not there to do it
        command.append(f"{limits.before + limits.seconds + 10:.0f}")
        with (answer / "said").open("wb") as said:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=folder,
                env=_surroundings(python),
                start_new_session=True,
            )
            try:
                stopped, seconds = _watched(process, answer / "started", limits)
            finally:
                _end(process)
        if stopped:
            return Trial("time-out", stopped, seconds)
        return _outcome(process.returncode, answer, seconds, material, limits)


def _watched(
    process: subprocess.Popen[bytes], started: Path, limits: Limits
) -> tuple[str, float | None]:
    """Wait until it ends or runs out of time: which limit, and seconds since the clock started."""
    born = time.monotonic()
    clock: float | None = None
    while process.poll() is None:
        now = time.monotonic()
        if clock is None and started.exists():
            clock = now
        if clock is None and now - born > limits.before:
            return f"not ready to start after {limits.before:g} s", None
        if clock is not None and now - clock > limits.seconds:
            return f"no answer in {limits.seconds:g} s", now - clock
        time.sleep(_LOOK_EVERY)
    return "", None if clock is None else time.monotonic() - clock


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and all it has started; they are a group of their own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _outcome(
    returncode: int, answer: Path, seconds: float | None, material: Material, limits: Limits
) -> Trial:
    try:
        found: dict[str, Any] = json.loads((answer / "answer.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return _died(returncode, answer, seconds)
    if "failure" in found:
        return Trial(found["failure"], found["message"], seconds)
    if found["seconds"] > limits.seconds:
        return Trial("time-out", f"no answer in {limits.seconds:g} s", found["seconds"])
    return _judged(answer / "labels.npy", found, material)


def _died(returncode: int, answer: Path, seconds: float | None) -> Trial:
    """A process that ended without a word: by a signal, or before it could catch the error."""
    said = (answer / "said").read_text(encoding="utf-8", errors="replace")
    if any(sign in said for sign in ("std::bad_alloc", "MemoryError", "emory allocation")):
        return Trial("memory", error_line(said), seconds)
    if returncode == -signal.SIGKILL:
        return Trial("memory", "killed by the system, which was out of memory", seconds)
    if returncode < 0:
        return Trial("crash", f"ended by signal {signal.Signals(-returncode).name}", seconds)
    return Trial("crash", error_line(said) or f"ended with status {returncode}", seconds)


def _judged(path: Path, found: dict[str, Any], material: Material) -> Trial:
    facts = {name: found[name] for name in ("seconds", "peak_bytes", "bytes_before")}
    n = len(material.y)
    try:
        labels = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        return Trial("wrong labels", f"the labels cannot be read: {error}", **facts)
    wrong = _what_is_wrong(labels, n)
    if wrong:
        return Trial("wrong labels", wrong, **facts)
    codes = np.unique(labels, return_inverse=True)[1]
    objective = None if material.P is None else mirkin_objective(material.P, codes)
    accuracy = clustering_accuracy(material.y, codes)
    n_clusters = int(codes.max()) + 1
    return Trial("done", "", **facts, accuracy=accuracy, objective=objective, n_clusters=n_clusters)


def _what_is_wrong(labels: NDArray[Any], n: int) -> str:
    if labels.ndim != 1:
        return f"labels of shape {labels.shape} for {n} points"
    if len(labels) != n:
        return f"{len(labels)} labels for {n} points"
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        return f"{np.count_nonzero(~np.isfinite(labels))} of {n} labels are not numbers"
    return ""


def _surroundings(python: str) -> dict[str, str]:
    """Our environment variables; without the paths that lead to our packages for another Python."""
    kept = {**os.environ, "MPLBACKEND": "Agg"}
    if python != sys.executable:
        for name in ("PYTHONPATH", "PYTHONHOME"):
            kept.pop(name, None)
    return kept
