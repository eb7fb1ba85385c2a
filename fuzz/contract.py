"""The contract of everything that reads input, and the record of what broke it.

An input gives a valid answer or a documented :class:`~coterie.errors.CoterieError`; within bounds
of time and memory; without warnings other than coterie's own; without starting programs, opening
connections or writing files.
"""

from __future__ import annotations

import atexit
import json
import resource
import shutil
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from coterie.errors import CoterieError, CoterieWarning

#: Bounds of one input, wide enough for the compilation of kernels. Seconds are of the processor,
#: which a busy machine does not make longer.
MOST_SECONDS = 20.0
MOST_BYTES = 1 << 30
#: Part of the names of folders that targets write their inputs to.
OWN_FOLDER = "coterie-fuzz-"
_REMOVAL = ("os.remove", "os.rmdir", "shutil.rmtree")
_STORED_ROWS = ("coterie-rows-", "rows.parquet")
#: What no input may cause: programs, connections, unpickling, removal of files.
_FORBIDDEN = frozenset(
    {
        "os.exec",
        "os.fork",
        "os.posix_spawn",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.system",
        "pickle.find_class",
        "shutil.rmtree",
        "socket.connect",
        "subprocess.Popen",
    }
)


class BrokenContractError(AssertionError):
    """An input took too long, took too much memory, or caused what it must not cause."""


@dataclass(frozen=True)
class Target:
    """What is fuzzed.

    Attributes
    ----------
    name : str
    check : callable
        Takes an input. Returns what it was: a short text that is counted, such as "answered".
        Raises a CoterieError, or anything else if the contract is broken.
    inputs : strategy
        Structured inputs for Hypothesis.
    seeds : callable
        Yields valid inputs as bytes, for the coverage-guided engine to mutate.
    from_bytes : callable
        Makes an input of the bytes of that engine.
    refusals : tuple of types
        The documented errors.
    prepare : callable
        Called once, before the first input: fits models, fills caches.
    """

    name: str
    check: Callable[[Any], str]
    inputs: st.SearchStrategy[Any]
    seeds: Callable[[], Iterator[bytes]]
    from_bytes: Callable[[bytes], Any]
    refusals: tuple[type[CoterieError], ...]
    prepare: Callable[[], object] = field(default=lambda: None)


@cache
def own_folder() -> Path:
    """Return the folder of this process for files that targets read; it is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix=OWN_FOLDER))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class Record:
    """Counts of one run, and its findings, which are written to a folder as they occur.

    Two findings are the same if they have the same exception and the same place in the code.
    """

    def __init__(self, target: Target, folder: Path | None = None) -> None:
        self.outcomes: Counter[str] = Counter()
        self.findings: dict[str, str] = {}
        self.slowest = 0.0
        self._target, self._folder = target, folder
        self._written = 0.0
        self._highest = _peak_bytes()
        target.prepare()

    @property
    def executions(self) -> int:
        """The number of inputs so far."""
        return self.outcomes.total()

    def run(self, value: Any) -> None:
        """Give one input to the target, and count what happened."""
        start = time.process_time()
        try:
            with _watched(), warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", CoterieWarning)
                warnings.filterwarnings("ignore", r"fetch_arrow_table\(\)", DeprecationWarning)
                outcome = self._target.check(value)
            self._check_bounds(time.process_time() - start)
        except self._target.refusals as error:
            outcome = f"refused by {type(error).__name__}"
        except Exception as error:
            outcome = "finding"
            self._add(error, value)
        self.outcomes[outcome] += 1
        self.slowest = max(self.slowest, time.process_time() - start)
        if time.perf_counter() > self._written + 1:
            self.write()

    def summary(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        return {
            "executions": self.executions,
            "outcomes": dict(self.outcomes.most_common()),
            "slowest": self.slowest,
            "peak_bytes": _peak_bytes(),
            "findings": sorted(self.findings),
        }

    def write(self) -> None:
        """Write the counts: the coverage-guided engine ends the process without a word."""
        self._written = time.perf_counter()
        if self._folder is not None:
            text = json.dumps(self.summary())
            (self._folder / "counts.json").write_text(text, encoding="utf-8")

    def _check_bounds(self, seconds: float) -> None:
        if seconds > MOST_SECONDS:
            raise BrokenContractError(f"it took {seconds:.0f} s")
        highest = _peak_bytes()
        grown, self._highest = highest - self._highest, max(self._highest, highest)
        if grown > MOST_BYTES:
            raise BrokenContractError(f"it took {grown / 2**20:,.0f} MiB")

    def _add(self, error: Exception, value: Any) -> None:
        signature = _signature(error)
        if signature in self.findings:
            return
        text = f"{value!r:.2000}\n\n{''.join(traceback.format_exception(error))}"
        self.findings[signature] = text
        if self._folder is not None:
            number = len(self.findings)
            (self._folder / f"finding-{number}.txt").write_text(text, encoding="utf-8")
            self.write()


def _signature(error: Exception) -> str:
    """Return the kind of an error and its place: the last frame within coterie."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "coterie" in Path(frame.filename).parts] or frames
    place = f"{Path(own[-1].filename).name}:{own[-1].name}" if own else "?"
    return f"{type(error).__name__} in {place}"


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


_watching = threading.local()


class _watched:  # noqa: N801 (used like a function)
    """Notice events of the interpreter that no input may cause, in this thread."""

    def __enter__(self) -> None:
        _hook_once()
        _watching.seen = []

    def __exit__(self, *_: object) -> None:
        seen, _watching.seen = _watching.seen, None
        if seen:
            raise BrokenContractError(f"it caused {', '.join(sorted(set(seen)))}")


_hooked: list[bool] = []


def _hook_once() -> None:
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    seen = getattr(_watching, "seen", None)
    if seen is None:
        return
    if event in _FORBIDDEN:
        # a log removes the rows that it stored
        if not any(own in str(arguments[0]) for own in _STORED_ROWS if event in _REMOVAL):
            seen.append(event)
    elif event == "open":
        path, mode = str(arguments[0]), str(arguments[1])
        # targets that need a file write it to a folder of their own
        if OWN_FOLDER not in path and set(mode) & set("wax+"):
            seen.append(f"open of {path:.80}")
