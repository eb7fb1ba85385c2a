"""Run one method on one task in its own process and environment, with limits on time and memory.

Peers pin versions that exclude each other, so each has a virtual environment, made with pip when it
is first needed, and kept. Every outcome of a trial can be reported: an answer, a time-out, too
little memory, a crash, wrong labels.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import error_line
from coterie.inspection.scores import clustering_accuracy, mirkin_objective

#: For each peer: what is installed with its dependencies, wheels only; and what is installed
#: afterwards without them.
REQUIREMENTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # It asks for pymetis 2020.1 and scikit-learn < 1.1, which have no wheels for Python 3.11 and do
    # not build. With SciPy 1.12 its cspa, mcla and hbgf raise an AttributeError.
    "ensembleclustering": (
        ("numpy<2", "scipy<1.11", "scikit-learn<1.3", "pymetis", "kahypar"),
        ("ensembleclustering==1.0.2",),
    ),
    # It asks for NumPy 1.19, pandas 1.2 and scikit-learn 0.24, which do not build on Python 3.11,
    # and needs from_numpy_matrix, which networkx 3 removed.
    "OpenEnsembles": (
        ("numpy<2", "scipy<1.11", "scikit-learn<1.3", "pandas<2", "networkx<3", "matplotlib<3.8",
         "hdbscan"),
        ("OpenEnsembles==2.0.0",),
    ),
    # It imports joblib without asking for it, and clusters with scikit-learn.
    "consensusclustering": (("consensusclustering==0.2.4", "scikit-learn", "joblib"), ()),
    # It has no wheel for Linux: the build needs a C compiler.
    "pyckmeans": (
        ("numpy", "scipy", "scikit-learn", "pandas", "matplotlib", "tqdm"),
        ("pyckmeans==0.9.4",),
    ),
    # It asks for matplotlib ≤ 3.3.4, which does not build on Python 3.11.
    "mvlearn": (
        ("numpy<2", "scipy<1.13", "scikit-learn<1.3", "matplotlib<3.8", "seaborn", "joblib"),
        ("mvlearn==0.5.0",),
    ),
    "scikit-network": (("scikit-network==0.33.5",), ()),
}  # fmt: skip
_RUNNER = Path(__file__).with_name("runner.py")
_POLL_SECONDS = 0.02


class Environment(NamedTuple):
    """An interpreter with a package (versions by distribution), or the last error of pip."""

    python: str
    installed: Mapping[str, str]
    error: str = ""


class Material(NamedTuple):
    """Classes (n,), what the methods get, and labels (n, V) for J.

    Methods get ``P`` (n, V), ``X`` (n, p), or ``view_0``, ``view_1`` … For features, the labels for
    J are k-means runs that no method gets.
    """

    y: NDArray[Any]
    given: dict[str, NDArray[Any]]
    P: NDArray[Any] | None = None


class Limits(NamedTuple):
    """What a trial may use."""

    seconds: float = 60.0  # wall time of the method
    memory: int = 6_000_000_000  # bytes of address space
    before: float = 180.0  # seconds for imports, loading and warm-up


def find_or_make(package: str, folder: Path) -> Environment:
    """Return the environment of a package, made in ``folder`` if it is not there yet.

    A package without requirements is used from the present environment. The name of an environment
    depends on the requirements and on this Python. If pip fails, the next call tries again.
    """
    if package not in REQUIREMENTS:
        return Environment(sys.executable, {package: version(package)})
    made_for = hashlib.sha256(f"{REQUIREMENTS[package]} {sys.version}".encode()).hexdigest()
    # absolute, because trials run in other folders
    home = folder.expanduser().absolute() / f"{package}-{made_for[:12]}"
    python, finished = str(home / "bin" / "python"), home / "installed.json"
    if not finished.exists():
        sys.stderr.write(f"installing {package} into {home}\n")
        with_dependencies, alone = REQUIREMENTS[package]
        pip = [python, "-m", "pip", "--disable-pip-version-check"]
        try:
            _output([sys.executable, "-m", "venv", "--clear", str(home)])
            # wheels only: builds of old packages take minutes and then fail
            _output([*pip, "install", "--only-binary", ":all:", *with_dependencies])
            if alone:
                _output([*pip, "install", "--no-deps", *alone])
            finished.write_text(_output([*pip, "list", "--format", "json"]), encoding="utf-8")
        except subprocess.CalledProcessError as error:
            return Environment("", {}, error_line(error.stderr) or str(error))
    listed = json.loads(finished.read_text(encoding="utf-8"))
    installed = {entry["name"].lower().replace("_", "-"): entry["version"] for entry in listed}
    return Environment(python, installed)


def run_trial(
    python: str, method: str, task: Path, material: Material, limits: Limits, runner: Path = _RUNNER
) -> dict[str, Any]:
    """Run a method on a task with the interpreter of its environment; score the labels.

    ``method`` is a key of ``runner.METHODS``, ``task`` the folder of its input, and ``material``
    the same task with its classes. In the outcome, ``seconds`` is the wall time of the method until
    it was done or failed. ``peak_bytes`` and ``bytes_before`` are the largest resident set of the
    process, in all and when the clock started.
    """
    with tempfile.TemporaryDirectory(prefix="coterie-peer-") as folder:
        answer = Path(folder)
        command = [python, "-P", str(runner), method, str(task), folder, str(limits.memory)]
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
            return {"status": "time-out", "message": timed_out, "seconds": seconds}
        if (answer / "answer.json").exists():
            found = json.loads((answer / "answer.json").read_text(encoding="utf-8"))
            return _scored(answer / "labels.npy", found, material, limits)
        said = (answer / "output").read_text(encoding="utf-8", errors="replace")
        # the process was killed, or C++ code ended it
        no_memory = process.returncode == -signal.SIGKILL or "std::bad_alloc" in said
        message = error_line(said) or f"ended with status {process.returncode}"
        status = "memory" if no_memory else "crash"
        return {"status": status, "message": message, "seconds": seconds}


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


def _scored(
    path: Path, found: dict[str, Any], material: Material, limits: Limits
) -> dict[str, Any]:
    """Compute accuracy and J of an answer, unless it is a failure or late."""
    if "status" in found:
        return found
    if found["seconds"] > limits.seconds:
        message = f"no answer in {limits.seconds:g} s"
        return {"status": "time-out", "message": message, "seconds": found["seconds"]}
    labels, n = np.load(path, allow_pickle=False), len(material.y)
    if labels.shape != (n,):
        message = f"labels of shape {labels.shape} for {n} points"
        return {"status": "wrong labels", "message": message, **found}
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        return {"status": "wrong labels", "message": "some labels are not numbers", **found}
    codes = np.unique(labels, return_inverse=True)[1]
    return {
        "status": "done",
        **found,
        "accuracy": clustering_accuracy(material.y, codes),
        "objective": None if material.P is None else mirkin_objective(material.P, codes),
        "n_clusters": int(codes.max()) + 1,
    }


def _output(command: list[str]) -> str:
    variables = _variables(command[0])
    return subprocess.run(command, capture_output=True, text=True, check=True, env=variables).stdout


def _variables(python: str) -> dict[str, str]:
    """Return our environment variables, without paths to our packages for another Python."""
    kept = {**os.environ, "MPLBACKEND": "Agg"}
    if python != sys.executable:
        for name in ("PYTHONPATH", "PYTHONHOME"):
            kept.pop(name, None)
    return kept
