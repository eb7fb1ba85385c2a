"""From the start of a process to the first answer, in one or several environments.

The environments take turns on the same inputs. The first run of each step is reported apart from
the later ones: what is compiled or cached at the first use is only in it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness import CONSENSUS, Context
from benchmarks.results import Result, Table, item, seconds_text
from coterie.errors import InvalidParameterError
from coterie.runtime.devices import readable_bytes

_SIZE = """
import pathlib, sysconfig
files = pathlib.Path(sysconfig.get_path("purelib")).rglob("*")
print(sum(file.stat().st_size for file in files if file.is_file()))
"""
_FIT = """
from coterie import RobustConsensus, planted_partitions
P, _ = planted_partitions([60, 30, 10], 10, 4, 0.1, random_state=0)
RobustConsensus(3, random_state=0).fit(P)
"""
_ROWS = [f"{row},{row % 3},{row % 3},{row % 2},{row % 3},{row // 7}" for row in range(20)]
_LABELS = "\n".join(["id,a,b,c,d,e", *_ROWS]) + "\n"

MEASURES = (*CONSENSUS, "runtime")


def run(
    context: Context,  # noqa: ARG001 (one size)
    *,
    environments: str = "",
    model: str = "",
    repeats: int = 5,
) -> Result:
    """Measure ``environments``, such as ``"before=a/bin/python,after=b/bin/python"``.

    By default it is the one that runs this. ``model`` is a model file; with it the start of the
    service is measured, too. ``{environment}`` in it stands for the name of the environment.
    """
    pythons = dict(one.split("=", 1) for one in environments.split(",") if "=" in one)
    if environments and len(pythons) != len(environments.split(",")):
        raise InvalidParameterError(f"environments={environments!r}; use NAME=PYTHON,NAME=PYTHON")
    pythons = pythons or {"this environment": sys.executable}
    trials = []
    with tempfile.TemporaryDirectory(prefix="coterie-first-") as temporary:
        folder = Path(temporary)
        (folder / "labels.csv").write_text(_LABELS, encoding="utf-8")
        steps: dict[str, Callable[[str, str], float]] = {
            "import, and the first consensus": lambda _, python: _run(python, "-c", _FIT),
            "`coterie consensus` on 20 rows": lambda _, python: _run(
                *(python, "-m", "coterie", "consensus", str(folder / "labels.csv")),
                *("--id", "id", "-k", "3", "-o", str(folder / "out.csv"), "--quiet"),
            ),
        }
        if model:
            steps["`coterie ads serve` until it answers"] = lambda name, python: _serve(
                python, model.format(environment=name)
            )
        for step, measure in steps.items():
            seconds = {name: [measure(name, python)] for name, python in pythons.items()}
            for _ in range(repeats):
                for name, python in pythons.items():
                    seconds[name].append(measure(name, python))
            trials += [
                {"step": step, "environment": name, "first": first, "later": median(later)}
                for name, (first, *later) in seconds.items()
            ]
    sizes = [
        {"environment": name, "bytes": int(subprocess.check_output([python, "-c", _SIZE]))}
        for name, python in pythons.items()
    ]
    data: dict[str, Any] = {"trials": trials, "sizes": sizes}
    columns = {
        "step": item("step"),
        "environment": item("environment"),
        "first run, s": item("first", form=seconds_text),
        "later runs, s": item("later", form=seconds_text),
    }
    size = {"environment": item("environment"), "installed": item("bytes", form=readable_bytes)}
    tables = [
        Table.of("From the start of a process to the first answer", trials, columns, n_named=2),
        Table.of("Size of the environment", sizes, size),
    ]
    return Result("first_use", tables, data)


def _run(*command: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def _serve(python: str, model: str) -> float:
    """Return the seconds until the service prints its address, and stop it."""
    command = [python, "-m", "coterie", "ads", "serve", model, "--port", "0"]
    start = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as service:
        assert service.stdout is not None
        try:
            next(line for line in service.stdout if "listening on" in line)
            return time.perf_counter() - start
        finally:
            service.terminate()
