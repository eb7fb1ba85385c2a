"""The program in processes that are forked from one that has its modules: they start in no time.

A killed process is a real one, and so is what it leaves; only the imports are not repeated.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

from coterie.errors import CoterieError

__all__ = ["error_of", "run_whole", "start_program"]

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "benchmarks.kills.processes",
        "coterie.ads.decisions.portfolios",
        "coterie.ads.forecasts.forecaster",
        "coterie.ads.logs.bid_logs",
        "coterie.ads.report.contents",
        "coterie.ads.report.rendering",
        "coterie.command_line.program",
        "coterie.consensus.robust.estimator",
        "coterie.estimators.clusterer",
        "coterie.inspection.report.consensus_page",
        "ibis.backends.duckdb",
        "matplotlib.pyplot",
        "pyarrow.parquet",
        "sklearn.cluster",
    ]
)


def start_program(words: Sequence[str], error: Path | None = None) -> BaseProcess:
    """Start the program with some words; its messages go to a file, or nowhere."""
    process = _CONTEXT.Process(target=_run, args=(list(words), error))
    process.start()
    return process


def run_whole(words: Sequence[str], error: Path) -> None:
    """Run the program; an error if it fails."""
    problem = error_of(words, error)
    if problem:
        raise CoterieError(f"coterie {' '.join(words)} failed: {problem}")


def error_of(words: Sequence[str], error: Path) -> str:
    """Run the program; return how it failed, or an empty text. ``error`` is for its messages."""
    process = start_program(words, error)
    process.join()
    said = error.read_text(encoding="utf-8", errors="replace").strip()
    error.unlink()
    return "" if process.exitcode == 0 else f"exit code {process.exitcode}: {said[-300:]}"


def _run(words: list[str], error: Path | None) -> None:
    # what multiprocessing ignores, the program handles
    signal.signal(signal.SIGINT, signal.default_int_handler)
    target = os.open(error or os.devnull, os.O_WRONLY | os.O_CREAT)
    os.dup2(target, 1)
    os.dup2(target, 2)
    sys.argv = ["coterie", *words]
    from coterie.command_line import main

    main()
