"""Accuracies of methods on draws of cells: kept, timed, and limited in processor time.

Cells run in parallel, each in one process on one thread. Every outcome can be reported: a method
that ran, one for which the points are too many, one that is too slow, and one that fails.
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
import signal
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.environment import one_thread_each
from benchmarks.harness import Context, in_parallel
from benchmarks.results import standard_error
from coterie.errors import TooManyPointsError

Score = Callable[[str], float | Mapping[str, float]]


class Cell(NamedTuple):
    """A way to make partitions or features of points whose classes are known, and methods.

    ``load()`` reads the dataset, ``load()(seed)`` makes a draw, and ``load()(seed)(method)`` is the
    accuracy of a method on that draw, or several scores by name with "accuracy" among them.
    """

    name: str
    methods: Sequence[str]
    load: Callable[[], Callable[[int], Score]]


def run_cells(
    cells: Sequence[Cell], n_draws: int, context: Context, jobs: int, patience: float = math.inf
) -> dict[str, list[dict[str, dict[str, Any]]]]:
    """Run all cells, started in this order; return the outcomes of :func:`run_cell` by name."""
    tasks = [(cell, n_draws, context, patience) for cell in cells]
    running = context.track(in_parallel(run_cell, tasks, jobs), "clustering", total=len(cells))
    found = {cells[place].name: outcomes for place, outcomes in running}
    return {cell.name: found[cell.name] for cell in cells}


def run_cell(
    cell: Cell, n_draws: int, context: Context, patience: float = math.inf
) -> list[dict[str, dict[str, Any]]]:
    """Run the methods of a cell on draws 0, 1, …; return the outcomes by method for each draw.

    A method gets no further draws after ``patience`` seconds of processor time, and a single fit is
    stopped after ten times as long. Kept outcomes are used, except failures.
    """
    kept = context.trials(re.sub(r"[^\w.]+", "-", cell.name))
    load = functools.cache(cell.load)  # a cell with all draws kept needs no data
    limit = 10 * patience
    spent = dict.fromkeys(cell.methods, 0.0)
    draws = []
    with one_thread_each(context.data):
        for seed in range(n_draws):
            known = kept.find({"draw": seed}) or {}
            done = {m: known[m] for m in cell.methods if m in known and _is_final(known[m], limit)}
            wanted = [m for m in cell.methods if m not in done and spent[m] < patience]
            if wanted:
                score = load()(seed)
                done |= {method: _outcome(score, method, limit) for method in wanted}
                kept.add({"draw": seed}, {**known, **done})
            for method, outcome in done.items():
                spent[method] += outcome["seconds"]
            draws.append(done)
    return draws


def summarise(outcomes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Combine the draws of a method: one failure makes it "failed", else one run is enough."""
    statuses = {outcome["status"] for outcome in outcomes}
    order = ("failed", "ran", "too slow", "too large")
    status = next(status for status in order if status in statuses)
    ran = [o["accuracy"] for o in outcomes if o["status"] == "ran"] if status == "ran" else []
    messages = [
        f"{o['status']}: {' '.join(o['message'].split())}" for o in outcomes if o["status"] != "ran"
    ]
    return {
        "status": status,
        "mean": float(np.mean(ran)) if ran else None,
        "se": standard_error(ran) if ran else None,
        "draws": len(ran),
        "seconds": float(np.mean([outcome["seconds"] for outcome in outcomes])),
        "accuracies": ran,
        "messages": list(dict.fromkeys(messages)),
        "warnings": dict(sum((Counter(o["warnings"]) for o in outcomes), Counter[str]())),
    }


def _outcome(score: Score, method: str, limit: float) -> dict[str, Any]:
    """Run a method; return status, processor seconds, scores, message and counted warnings."""
    scores: float | Mapping[str, float] | None = None
    message, least = "", 0.0
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with _processor_time_limit(limit):
                scores = score(method)
            status = "ran"
        except TooManyPointsError as error:
            status, message = "too large", str(error)
        except _OutOfTimeError:
            # the timer is coarse and may fire a little early
            status, message, least = "too slow", f"stopped after {limit:g} s", limit
        except Exception as error:  # reported in the result; the other methods go on
            status, message = "failed", f"{type(error).__name__}: {error}"
    return {
        "status": status,
        "seconds": max(least, time.process_time() - start),
        **(scores if isinstance(scores, Mapping) else {"accuracy": scores}),
        "message": message,
        "warnings": dict(Counter(warning.category.__name__ for warning in caught)),
    }


def _is_final(outcome: Mapping[str, Any], limit: float) -> bool:
    """Return whether a kept outcome would be the same if it were computed again."""
    stopped_early = outcome["status"] == "too slow" and outcome["seconds"] < limit
    return outcome["status"] != "failed" and not stopped_early


class _OutOfTimeError(BaseException):
    """A fit has used its processor time; no Exception, so that no method catches it."""


@contextlib.contextmanager
def _processor_time_limit(seconds: float) -> Iterator[None]:
    """Raise after so much processor time; without effect outside the main thread."""
    if threading.current_thread() is not threading.main_thread() or math.isinf(seconds):
        yield
        return

    def stop(*_: Any) -> None:
        raise _OutOfTimeError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
