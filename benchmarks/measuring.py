"""Time and peak memory of a function, measured in a new process. Linux only.

The function gets a :class:`Stopwatch`. It loads its input, warms up (compilers, thread pools), does
the work inside ``with watch.measure()`` and returns facts about the result. Peak memory is the
highest resident set during the work minus the resident set before it: the memory needed beyond the
input.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness import error_line
from coterie.errors import CoterieError

_CHILD = "from benchmarks.measuring import _measure_in_child; _measure_in_child()"


@dataclass(frozen=True)
class Measurement:
    """Time and memory of one run, or of several runs of the same work.

    Of several runs, ``seconds`` is the median, and memory and warm-up are the largest, because only
    the first run compiles. Memory is the peak beyond the input. ``facts`` are those of the first
    run, ``warnings`` the number of warnings by category, ``runs`` the seconds of every run.
    """

    seconds: float
    peak_bytes: int
    warm_up_seconds: float
    facts: dict[str, Any] = field(default_factory=dict)
    warnings: dict[str, int] = field(default_factory=dict)
    runs: tuple[float, ...] = ()


class Stopwatch:
    """Time, memory and warnings of the blocks of one process."""

    def __init__(self) -> None:
        self.measured: dict[str, Any] = {"warm_up_seconds": 0.0}

    @contextlib.contextmanager
    def warm_up(self) -> Iterator[None]:
        """Time the warm-up and ignore its warnings."""
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
        self.measured["warm_up_seconds"] = time.perf_counter() - start

    @contextlib.contextmanager
    def measure(self) -> Iterator[None]:
        """Measure the work."""
        gc.collect()
        # memory that the allocator keeps would be used by the work without being counted
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # sets VmHWM to the present resident set
        before = _status_bytes("VmRSS")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            start = time.perf_counter()
            yield
            seconds = time.perf_counter() - start
        self.measured |= {
            "seconds": seconds,
            "peak_bytes": max(0, _status_bytes("VmHWM") - before),
            "warnings": dict(Counter(warning.category.__name__ for warning in caught)),
            "runs": (seconds,),
        }


#: A function of a stopwatch that returns facts; importable, because it is pickled.
Work = Callable[[Stopwatch], Mapping[str, Any]]


def measure(work: Work) -> Measurement:
    """Run the work once in a new process."""
    with tempfile.TemporaryDirectory(prefix="coterie-measure-") as folder:
        answer = Path(folder) / "answer"
        child = subprocess.run(
            [sys.executable, "-c", _CHILD, str(answer)],
            input=pickle.dumps(work),
            capture_output=True,
            check=False,
        )
        if child.returncode != 0:
            message = error_line(child.stderr.decode(errors="replace"))
            raise CoterieError(
                f"the measured process ended with status {child.returncode} "
                f"(−9: memory ran out): {message}"
            )
        found: Measurement = pickle.loads(answer.read_bytes())
    return found


def measure_side_by_side(
    works: Mapping[str, Work], repeats: int = 3, enough_seconds: float = 60.0
) -> dict[str, Measurement]:
    """Measure several works in turn, so that a busy moment of the machine affects all of them.

    A work that has taken ``enough_seconds`` in total is not repeated.
    """
    runs: dict[str, list[Measurement]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            if not runs[name] or sum(run.seconds for run in runs[name]) < enough_seconds:
                runs[name].append(measure(work))
    return {name: combine(several) for name, several in runs.items()}


def combine(runs: Sequence[Measurement]) -> Measurement:
    """Return several measurements of the same work as one.

    >>> combined = combine([Measurement(s, b, 0.0) for s, b in [(3.0, 10), (1.0, 30), (2.0, 20)]])
    >>> combined.seconds, combined.peak_bytes, combined.runs
    (2.0, 30, (3.0, 1.0, 2.0))
    """
    return replace(
        runs[0],
        seconds=median(run.seconds for run in runs),
        peak_bytes=max(run.peak_bytes for run in runs),
        warm_up_seconds=max(run.warm_up_seconds for run in runs),
        warnings=dict(sum((Counter(run.warnings) for run in runs), Counter())),
        runs=tuple(run.seconds for run in runs),
    )


def _measure_in_child() -> None:
    """Read the work from standard input; write its measurement to the file in ``argv``."""
    work: Work = pickle.load(sys.stdin.buffer)
    watch = Stopwatch()
    facts = dict(work(watch))
    Path(sys.argv[1]).write_bytes(pickle.dumps(Measurement(facts=facts, **watch.measured)))


def _status_bytes(name: str) -> int:
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith(name)).split()[1]) * 1024
