"""The program in processes that are forked from one that has its modules: they start in no time.

A killed process is a real one, and so is what it leaves; only the imports are not repeated.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from coterie.errors import CoterieError

__all__ = ["Program", "error_of", "run_whole"]

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "benchmarks.kills.processes",
        "coterie.ads.decisions.portfolios",
        "coterie.ads.fitting.forecaster",
        "coterie.ads.logs.bid_logs",
        "coterie.ads.report.contents",
        "coterie.ads.report.rendering",
        "coterie.cli.program",
        "coterie.consensus.robust",
        "coterie.estimators.clusterer",
        "coterie.inspection.report.consensus_page",
        "ibis.backends.duckdb",
        "matplotlib.pyplot",
        "pyarrow.parquet",
        "sklearn.cluster",
    ]
)


class Program:
    """The program, started with some words; ``notes`` is a new path for its messages and status."""

    def __init__(self, words: Sequence[str], notes: Path) -> None:
        self._messages, self._status = notes, notes.with_name(f"{notes.name}-status")
        notes.touch()  # a process may be killed before it opens them
        self._process = _CONTEXT.Process(target=_run, args=(list(words), notes, self._status))
        self._process.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait at most so long; return whether it has ended."""
        self._process.join(seconds)
        return not self._process.is_alive()

    def kill(self) -> bool:
        """Kill it; return whether it had not ended by itself before."""
        self._process.kill()
        self._process.join()
        return self.end() is None

    def end(self) -> str | None:
        """Return how it failed, an empty text if it succeeded, and None if it was killed."""
        # not the exit code of the process: it is lost if two threads ask for it
        said = self._messages.read_text(encoding="utf-8", errors="replace").strip()
        status = self._status.read_text(encoding="utf-8") if self._status.exists() else None
        for path in (self._messages, self._status):
            path.unlink(missing_ok=True)
        return status if not status else f"exit code {status}: {said[-300:]}"


def error_of(words: Sequence[str], notes: Path) -> str:
    """Run the program; return how it failed, or an empty text."""
    program = Program(words, notes)
    program.wait()
    ended = program.end()
    return "it ended without a status" if ended is None else ended


def run_whole(words: Sequence[str], notes: Path) -> None:
    """Run the program; an error if it fails."""
    problem = error_of(words, notes)
    if problem:
        raise CoterieError(f"coterie {' '.join(words)} failed: {problem}")


def _run(words: list[str], messages: Path, status: Path) -> None:
    # what multiprocessing ignores, the program handles
    signal.signal(signal.SIGINT, signal.default_int_handler)
    target = os.open(messages, os.O_WRONLY | os.O_CREAT)
    os.dup2(target, 1)
    os.dup2(target, 2)
    sys.argv = ["coterie", *words]
    from coterie.cli import main

    code: object = "an exception"
    try:
        main()
    except SystemExit as end:
        code = end.code
    finally:
        status.write_text(str(code or ""), encoding="utf-8")
