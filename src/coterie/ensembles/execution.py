"""Execution of the runs by joblib: in this process, in others, or on other machines.

A run that is fitted to a sample gets only the rows of the sample. The members of these runs then
label all rows together, by blocks of rows. So X is neither copied nor read once for each run.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
import numpy.typing as npt

from coterie.ensembles.members import Member, label_rows
from coterie.ensembles.runs import MOST_FITTED, Run, fit_rows, fit_run, fitted_rows
from coterie.errors import CoterieError
from coterie.runtime.devices import on_one_thread
from coterie.runtime.messages import (
    ignore_duplicate_points_warning,
    ignore_unfinished_tasks_warning,
    track,
)

__all__ = ["execute_runs", "is_sampled"]

#: Rows that one task labels.
_ROWS_PER_TASK = 1 << 18


def execute_runs(
    X: Any,
    runs: Iterable[Run],
    n_runs: int,
    weights: Any = None,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> tuple[npt.NDArray[Any], list[Member]]:
    """Return the labels (n, V) of the runs in the smallest integer type, and the members."""
    queue, table = CallQueue(), _LabelTable(X.shape[0], n_runs)
    tasks = (joblib.delayed(queue)(*_task(X, run, weights, table, v)) for v, run in enumerate(runs))
    members: list[Member] = []
    sampled: list[int] = []
    with (
        on_one_thread(),
        ignore_duplicate_points_warning(),
        ignore_unfinished_tasks_warning(),
        contextlib.closing(queue),
    ):
        with contextlib.closing(_results(tasks, n_jobs)) as results:
            # Labels are stored while later runs are computed.
            for v, (member, column) in enumerate(track(results, "partitions", n_runs, verbose)):
                members.append(member)
                if column is None:
                    sampled.append(v)
                else:
                    table.put(slice(None), [v], column[:, None])
        if sampled:
            _label_all_rows(X, members, sampled, table, queue, n_jobs, verbose)
    return table.labels, members


def is_sampled(method: str, n_rows: int) -> bool:
    """Return whether runs of a kind are fitted to a sample of the rows."""
    return n_rows > MOST_FITTED.get(method, n_rows)


class CallQueue:
    """Callable that calls functions, and counts the running calls in this process.

    After an error or an interrupt, calls in other threads continue. :meth:`close` waits for them.
    Otherwise they would reset thread pools and warning filters later, and the process could crash
    if it ended first. joblib ends calls in other processes.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._n_running = 0
        self._closed = False

    def __reduce__(self) -> tuple[type[CallQueue], tuple[()]]:
        return CallQueue, ()

    def __call__(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(*args)``, or None if the queue is closed."""
        with self._changed:
            if self._closed:
                return None
            self._n_running += 1
        try:
            return function(*args)
        finally:
            with self._changed:
                self._n_running -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Refuse further calls, and wait for the running ones."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: self._n_running == 0)


class _LabelTable:
    """Labels (n, V) in the smallest integer type that holds them; −1 is missing."""

    def __init__(self, n_rows: int, n_runs: int) -> None:
        self.labels: npt.NDArray[Any] = np.zeros((n_rows, n_runs), dtype=np.int8)
        # joblib prepares further runs in other threads while labels are stored
        self._changing = threading.Lock()

    def leave_out(self, rows: npt.NDArray[np.bool_], v: int) -> None:
        """Mark rows as left out by run v."""
        with self._changing:
            self.labels[rows, v] = -1

    def put(self, rows: slice, runs: Sequence[int], labels: npt.NDArray[Any]) -> None:
        """Store labels (n', V'), except for rows that a run left out."""
        needed = _smallest_type(labels)
        with self._changing:
            if needed.itemsize > self.labels.itemsize:
                self.labels = self.labels.astype(needed)
            left_out = self.labels[rows][:, runs] < 0
            self.labels[rows, runs] = np.where(left_out, self.labels.dtype.type(-1), labels)


def _task(X: Any, run: Run, weights: Any, table: _LabelTable, v: int) -> tuple[Any, ...]:
    """Return a function that fits the run, and its arguments."""
    if not is_sampled(run.kind, X.shape[0]):
        return fit_run, X, run, weights
    rows, kept = fitted_rows(X.shape[0], run, weights)
    if run.drawn is not None:
        table.leave_out(~run.drawn, v)
    return _fit_sample, X if rows is None else X[rows], replace(run, drawn=None), kept


def _fit_sample(rows: Any, run: Run, weights: Any) -> tuple[Member, None]:
    return fit_rows(rows, run, weights)[0], None


def _label_all_rows(
    X: Any,
    members: Sequence[Member],
    sampled: Sequence[int],
    table: _LabelTable,
    queue: CallQueue,
    n_jobs: int | None,
    verbose: bool,
) -> None:
    """Label all rows by the members of the sampled runs."""
    chosen = [members[v] for v in sampled]
    starts = range(0, X.shape[0], _ROWS_PER_TASK)
    tasks = (
        joblib.delayed(queue)(_label_on_one_thread, chosen, X[a : a + _ROWS_PER_TASK])
        for a in starts
    )
    # threads need no copy of X, and its rows are labelled without Python's global lock
    results = _results(tasks, n_jobs, prefer="threads")
    with contextlib.closing(results):
        tracked: Iterator[Any] = track(results, "blocks of rows", len(starts), verbose)
        for a, labels in zip(starts, tracked, strict=True):
            table.put(slice(a, a + _ROWS_PER_TASK), sampled, labels)


def _label_on_one_thread(members: Sequence[Member], X: Any) -> npt.NDArray[Any]:
    with on_one_thread():
        labels = label_rows(members, X)
    return labels.astype(_smallest_type(labels))


def _smallest_type(labels: npt.NDArray[Any]) -> np.dtype[Any]:
    """Return the smallest integer type that holds labels and −1."""
    return np.min_scalar_type(-int(labels.max(initial=0)) - 1)


def _results(
    tasks: Iterable[Any], n_jobs: int | None, prefer: str | None = None
) -> Generator[Any, None, None]:
    """Yield the results of the tasks in order."""
    backend, _ = joblib.parallel.get_active_backend(prefer=prefer)
    kind = "generator" if getattr(backend, "supports_return_generator", False) else "list"
    try:
        yield from joblib.Parallel(n_jobs=n_jobs, return_as=kind, prefer=prefer)(tasks)
    except CancelledError as error:
        raise CoterieError(
            "runs on other machines were cancelled: they were stopped, or the worker with the "
            "only copy of X was lost; run again, and with Dask copy X to every worker: "
            "joblib.parallel_config(backend='dask', scatter=[X])"
        ) from error
