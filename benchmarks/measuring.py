"""Time and peak memory of a function, each measurement in a fresh process.

The child loads the input, warms up on whatever the work says (compilers, thread pools), gives freed
memory back, and only then starts the clock and the memory gauge. Peak memory is the highest
resident set during the work less the resident set right before it: what the work needs beyond
its input. Linux lets a process reset its high-water mark; elsewhere the growth of ``ru_maxrss``
takes its place, which misses what fits into memory that loading had used and freed.
"""

from __future__ import annotations

import ctypes
import gc
import pickle
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from coterie.errors import CoterieError

__all__ = ["Measurement", "Work", "combined", "measure", "measure_side_by_side"]

_CHILD = "from benchmarks.measuring import _answer; _answer()"
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def _nothing() -> None:
    """The input of work that needs none."""


@dataclass(frozen=True)
class Work:
    """Something to measure. All functions must be importable: they travel by name.

    Attributes
    ----------
    run : function of the input
        What is measured.
    load : function without arguments
        Makes the input; not measured.
    warm_up : function of the input, optional
        Runs before the measurement; timed apart.
    describe : function of the input and the result, optional
        Facts about the result (accuracy, objective …); not measured.
    """

    run: Callable[[Any], Any]
    load: Callable[[], Any] = _nothing
    warm_up: Callable[[Any], Any] | None = None
    describe: Callable[[Any, Any], dict[str, Any]] | None = None


@dataclass(frozen=True)
class Measurement:
    """What a measurement found.

    Attributes
    ----------
    seconds : float
        Wall time of the work; the median where it was done several times.
    peak_bytes : int
        Peak resident memory beyond the input; the largest of several runs.
    warm_up_seconds : float
        Wall time of the warm-up; the largest of several runs, as only the first may compile.
    memory_method : str
        How the peak was measured.
    facts : dict
        What ``describe`` says of the result of the first run.
    warnings : dict
        How often the work gave each kind of warning.
    runs : tuple of float
        Seconds of every run.
    """

    seconds: float
    peak_bytes: int
    warm_up_seconds: float
    memory_method: str
    facts: dict[str, Any] = field(default_factory=dict)
    warnings: dict[str, int] = field(default_factory=dict)
    runs: tuple[float, ...] = ()


def measure(work: Work) -> Measurement:
    """Do the work once in a fresh process.

    Examples
    --------
    >>> from functools import partial
    >>> found = measure(Work(load=partial(range, 4), run=sum))
    >>> len(found.runs), found.warnings
    (1, {})
    """
    with tempfile.TemporaryDirectory(prefix="coterie-measure-") as folder:
        answer = Path(folder) / "answer"
        child = subprocess.run(
            [sys.executable, "-c", _CHILD, str(answer)],
            input=pickle.dumps(work),
            capture_output=True,
            check=False,
        )
        if child.returncode != 0:
            raise CoterieError(_what_failed(child))
        found: Measurement = pickle.loads(answer.read_bytes())
    return found


def measure_side_by_side(
    works: Mapping[str, Work],
    repeats: int = 3,
    enough_seconds: float = 60.0,
    before_run: Callable[[str], None] | None = None,
) -> dict[str, Measurement]:
    """Measure several works in turn, round after round, so that none has the quieter machine.

    A work that has taken ``enough_seconds`` in all is not repeated again.
    """
    runs: dict[str, list[Measurement]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            if runs[name] and sum(run.seconds for run in runs[name]) >= enough_seconds:
                continue
            if before_run is not None:
                before_run(name)
            runs[name].append(measure(work))
    return {name: combined(several) for name, several in runs.items()}


def combined(runs: list[Measurement]) -> Measurement:
    """Several measurements of the same work as one.

    >>> runs = [Measurement(s, b, 0.0, "") for s, b in [(3.0, 10), (1.0, 30), (2.0, 20)]]
    >>> both = combined(runs)
    >>> both.seconds, both.peak_bytes, both.runs
    (2.0, 30, (3.0, 1.0, 2.0))
    """
    counts: Counter[str] = Counter()
    for run in runs:
        counts.update(run.warnings)
    return replace(
        runs[0],
        seconds=median(run.seconds for run in runs),
        peak_bytes=max(run.peak_bytes for run in runs),
        warm_up_seconds=max(run.warm_up_seconds for run in runs),
        warnings=dict(counts),
        runs=tuple(run.seconds for run in runs),
    )


def _answer() -> None:
    """The child: read the work from standard input, write the measurement to the file named."""
    work: Work = pickle.load(sys.stdin.buffer)
    Path(sys.argv[1]).write_bytes(pickle.dumps(_measured_here(work)))


def _measured_here(work: Work) -> Measurement:
    data = work.load()
    warm_up_seconds = _warmed_up(work, data)
    gauge = _MemoryGauge()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        result = work.run(data)
        seconds = time.perf_counter() - start
    peak = gauge.beyond_the_start()
    facts = {} if work.describe is None else work.describe(data, result)
    counts = Counter(warning.category.__name__ for warning in caught)
    return Measurement(
        seconds, peak, warm_up_seconds, gauge.method, facts, dict(counts), (seconds,)
    )


def _warmed_up(work: Work, data: Any) -> float:
    start = time.perf_counter()
    if work.warm_up is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            work.warm_up(data)
    return time.perf_counter() - start


class _MemoryGauge:
    """Peak resident memory of this process from now on."""

    def __init__(self) -> None:
        gc.collect()
        _return_freed_memory()
        self._resets = _reset_high_water_mark()
        if self._resets:
            self.method = "peak resident set during the work (VmHWM, reset) less that before it"
            self._before = _status_bytes("VmRSS")
        else:
            self.method = "growth of ru_maxrss during the work (a lower bound)"
            self._before = _largest_resident_set()

    def beyond_the_start(self) -> int:
        now = _status_bytes("VmHWM") if self._resets else _largest_resident_set()
        return max(0, now - self._before)


def _reset_high_water_mark() -> bool:
    """Set VmHWM to the present resident set; False where the system does not allow it."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return True


def _status_bytes(name: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def _largest_resident_set() -> int:
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


def _return_freed_memory() -> None:
    """Have the allocator give back what it holds, lest the work use it unseen."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _what_failed(child: subprocess.CompletedProcess[bytes]) -> str:
    if child.returncode < 0:
        return (
            f"the process that was measured was ended by signal {-child.returncode}; "
            "if that is 9, memory ran out: measure something smaller"
        )
    lines = child.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
    return f"the work that was to be measured failed: {lines[-1]}"
