"""Run one method on one task in its own process, with limits on time and memory.

Every outcome can be reported: an answer, a time-out, too little memory, a crash, wrong labels.
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
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import error_line
from benchmarks.peers.tasks import Material
from coterie.inspection.scores import clustering_accuracy, mirkin_objective

Status = Literal["done", "time-out", "memory", "crash", "wrong labels", "not installed"]
_RUNNER = Path(__file__).with_name("runner.py")
_POLL_SECONDS = 0.02


class Limits(NamedTuple):
    """What a trial may use."""

    seconds: float = 60.0  # wall time of the method
    memory: int = 6_000_000_000  # bytes of address space
    before: float = 180.0  # seconds for imports, loading and warm-up


def trial(status: Status, message: str = "", **figures: Any) -> dict[str, Any]:
    """Return an outcome; figures that are not known are None.

    ``seconds`` is the wall time of the method until it was done or failed. ``peak_bytes`` and
    ``bytes_before`` are the largest resident set of the process, in all and when the clock started.
    """
    unknown = ("seconds", "peak_bytes", "bytes_before", "accuracy", "objective", "n_clusters")
    return {"status": status, "message": message, **dict.fromkeys(unknown), **figures}


def run_trial(
    python: str, method: str, task: Path, material: Material, limits: Limits, runner: Path = _RUNNER
) -> dict[str, Any]:
    """Run a method on a task with the interpreter of its environment; score the labels.

    ``method`` is a key of ``runner.METHODS``, ``task`` a folder written by
    :func:`~benchmarks.peers.tasks.write_task`, and ``material`` the same task with its classes.
    """
    with tempfile.TemporaryDirectory(prefix="coterie-peer-") as folder:
        answer = Path(folder)
        command = [python, "-P", str(runner), method, str(task), folder, str(limits.memory)]
        # longer than it is watched: the process ends itself only if this one is gone
        command.append(f"{limits.before + limits.seconds + 10:.0f}")
        with (answer / "output").open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                env=_variables(python),
                start_new_session=True,
            )
            try:
                timed_out, seconds = _watch(process, answer / "started", limits)
            finally:
                # the process is the leader of a group with all that it started
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if timed_out:
            return trial("time-out", timed_out, seconds=seconds)
        return _outcome(process.returncode, answer, seconds, material, limits)


def _watch(
    process: subprocess.Popen[bytes], started: Path, limits: Limits
) -> tuple[str, float | None]:
    """Wait for the end; return which limit was passed, and the seconds since the clock started."""
    created = time.monotonic()
    clock: float | None = None
    while process.poll() is None:
        now = time.monotonic()
        if clock is None and started.exists():
            clock = now
        if clock is None and now - created > limits.before:
            return f"not ready to start after {limits.before:g} s", None
        if clock is not None and now - clock > limits.seconds:
            return f"no answer in {limits.seconds:g} s", now - clock
        time.sleep(_POLL_SECONDS)
    return "", None if clock is None else time.monotonic() - clock


def _outcome(
    returncode: int, answer: Path, seconds: float | None, material: Material, limits: Limits
) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((answer / "answer.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        output = (answer / "output").read_text(encoding="utf-8", errors="replace")
        return trial(*_cause_of_death(returncode, output), seconds=seconds)
    if "failure" in found:
        return trial(found["failure"], found["message"], seconds=seconds)
    if found["seconds"] > limits.seconds:
        return trial("time-out", f"no answer in {limits.seconds:g} s", seconds=found["seconds"])
    return _scored(answer / "labels.npy", found, material)


def _cause_of_death(returncode: int, output: str) -> tuple[Status, str]:
    """Return status and message of a process that ended without an answer."""
    if any(sign in output for sign in ("std::bad_alloc", "MemoryError", "emory allocation")):
        return "memory", error_line(output)
    if returncode == -signal.SIGKILL:
        return "memory", "killed by the system, which was out of memory"
    if returncode < 0:
        return "crash", f"ended by signal {signal.Signals(-returncode).name}"
    return "crash", error_line(output) or f"ended with status {returncode}"


def _scored(path: Path, figures: dict[str, Any], material: Material) -> dict[str, Any]:
    try:
        labels = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        return trial("wrong labels", f"the labels cannot be read: {error}", **figures)
    fault = _fault(labels, len(material.y))
    if fault:
        return trial("wrong labels", fault, **figures)
    codes = np.unique(labels, return_inverse=True)[1]
    scores = {
        "accuracy": clustering_accuracy(material.y, codes),
        "objective": None if material.P is None else mirkin_objective(material.P, codes),
        "n_clusters": int(codes.max()) + 1,
    }
    return trial("done", "", **figures, **scores)


def _fault(labels: NDArray[Any], n: int) -> str:
    if labels.shape != (n,):
        return f"labels of shape {labels.shape} for {n} points"
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        return f"{np.count_nonzero(~np.isfinite(labels))} of {n} labels are not numbers"
    return ""


def _variables(python: str) -> dict[str, str]:
    """Return our environment variables, without paths to our packages for another Python."""
    kept = {**os.environ, "MPLBACKEND": "Agg"}
    if python != sys.executable:
        for name in ("PYTHONPATH", "PYTHONHOME"):
            kept.pop(name, None)
    return kept
