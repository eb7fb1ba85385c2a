"""Execution of runs: each clusters some rows and keeps what is needed to label new rows.

joblib sends the runs to this process, to others, or to other machines. A run that is fitted to a
sample gets only the rows of the sample. The members of these runs then label all rows together, by
blocks of rows. So X is neither copied nor read once for each run.
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

from coterie.arrays import AnyArray, Bools
from coterie.ensembles.gaussian_mixtures import MixtureMember, fit_mixture, principal_axes
from coterie.ensembles.landmark_spectral import SpectralMember, fit_landmark_spectral
from coterie.ensembles.members import (
    CentroidMember,
    Member,
    NearestRowMember,
    fit_centroids,
    fit_clusterer,
    fit_ward,
    label_rows,
    takes_weights,
)
from coterie.ensembles.plans import MOST_FITTED, Run
from coterie.errors import CoterieError, InvalidParameterError
from coterie.runtime.devices import on_one_thread
from coterie.runtime.messages import (
    ignore_duplicate_points_warning,
    ignore_unfinished_tasks_warning,
    track,
)

#: Rows that one task labels.
_ROWS_PER_TASK = 1 << 18


def fit_run(X: Any, run: Run, sample_weight: Any = None) -> tuple[Member, AnyArray]:
    """Cluster the rows of ``X`` once.

    The labels (n,) are those of ``member.predict(X)``, with −1 for rows that were not drawn and
    for noise. Rows have weights in k-means, and in clusterers that know them. Elsewhere rows are
    drawn with probabilities proportional to their weights.

    >>> from coterie.ensembles.scalings import Scaling
    >>> X = np.array([[0.0], [1.0], [9.0]])
    >>> run = Run(kind="kmeans", n_clusters=2, scaling=Scaling(), drawn=None, seed=0)
    >>> member, labels = fit_run(X, run)
    >>> member.centres.shape, bool(labels[0] == labels[1] != labels[2])
    ((2, 1), True)
    """
    rows, weights = fitted_rows(X.shape[0], run, sample_weight)
    member: Member
    with on_one_thread(), ignore_duplicate_points_warning():
        if run.kind == "clusterer":
            try:
                member, labels = fit_clusterer(
                    X, run.clusterer, run.n_clusters, run.seed, run.scaling, rows, weights
                )
            except ValueError as error:
                raise InvalidParameterError(
                    f"ensemble: {run.clusterer!r} failed with n_clusters={run.n_clusters}: {error}"
                ) from error
        else:
            member, labels = _fit_rows(X if rows is None else X[rows], run, weights)
            if rows is not None:
                labels = member.predict(X)
        if run.drawn is not None:
            labels[~run.drawn] = -1
        return member, labels


def _fit_rows(rows: Any, run: Run, weights: Any) -> tuple[Member, AnyArray]:
    """Fit a run of a kind of this package to all given rows; return it and their labels.

    The member has only clusters that the rows have.
    """
    Z = run.scaling.transform(rows)
    K = min(run.n_clusters or 1, Z.shape[0])
    member: CentroidMember | NearestRowMember | SpectralMember | MixtureMember
    # One cluster is the same for every kind, and other kinds need two rows.
    if run.kind == "kmeans" or K == 1:
        # k-means centres a dense array in place; it must not change the user's X
        Z = Z.copy() if Z is rows else Z
        member = fit_centroids(Z, K, run.seed, run.scaling, weights)
    elif run.kind == "spectral":
        member = fit_landmark_spectral(Z, K, run.seed, run.scaling, run.graph)
    elif run.kind == "ward":
        member = fit_ward(Z, K, run.scaling)
    else:
        covariance = "full" if run.kind == "mixture" else "diag"
        axes = principal_axes(Z, run.seed) if run.axes is None else run.axes
        member = fit_mixture(Z, K, run.seed, run.scaling, axes, covariance)
    # Labels come from predict, so that fit and predict agree on ties.
    labels = member.predict(rows)
    used = np.unique(labels)
    if len(used) < (run.n_clusters or 1):  # some clusters have no fitted row
        member = member.with_clusters(used)
        labels = member.predict(rows)
    return member, labels


def fitted_rows(n: int, run: Run, sample_weight: Any) -> tuple[AnyArray | None, Any]:
    """Return the rows to fit (None: all), and their weights if the run can use weights."""
    weighs = run.kind == "kmeans" or (run.kind == "clusterer" and takes_weights(run.clusterer))
    allowed = None if run.drawn is None else np.flatnonzero(run.drawn)
    weights = sample_weight if allowed is None or sample_weight is None else sample_weight[allowed]
    if weights is not None and not weights.any():
        raise InvalidParameterError(
            f"sample_weight is 0 for all {len(weights)} rows of a sample; raise subsample, or "
            "leave out rows of weight 0"
        )
    if weights is not None and weighs:
        places = np.flatnonzero(weights)
        allowed, weights = (places if allowed is None else allowed[places]), weights[places]
    count = n if allowed is None else len(allowed)
    most, rng = MOST_FITTED.get(run.kind, count), np.random.default_rng(run.seed)
    places_or_all = draw_rows(count, most, None if weighs else weights, rng)
    kept = weights if weighs else None
    if places_or_all is None:
        return allowed, kept
    rows = places_or_all if allowed is None else allowed[places_or_all]
    return rows, None if kept is None else kept[places_or_all]


def draw_rows(n: int, most: int, weights: Any, rng: np.random.Generator) -> AnyArray | None:
    """Draw at most ``most`` of n rows, increasing; None is each row once.

    Without weights rows are different. With weights, row i is drawn most · w_i / Σw times, ± 1.
    """
    most = min(most, n)
    if weights is not None:
        # equal steps through the cumulative weights
        steps = (np.arange(most) + rng.random()) / most * weights.sum()
        return np.minimum(np.searchsorted(np.cumsum(weights), steps, "right"), n - 1)
    if most == n:
        return None
    return np.sort(rng.choice(n, most, replace=False, shuffle=False))


def is_sampled(method: str, n_rows: int) -> bool:
    """Return whether runs of a kind are fitted to a sample of the rows."""
    return n_rows > MOST_FITTED.get(method, n_rows)


def execute_runs(
    X: Any,
    runs: Iterable[Run],
    n_runs: int,
    weights: Any = None,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> tuple[AnyArray, list[Member]]:
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
        self.labels: AnyArray = np.zeros((n_rows, n_runs), dtype=np.int8)
        # joblib prepares further runs in other threads while labels are stored
        self._changing = threading.Lock()

    def leave_out(self, rows: Bools, v: int) -> None:
        """Mark rows as left out by run v."""
        with self._changing:
            self.labels[rows, v] = -1

    def put(self, rows: slice, runs: Sequence[int], labels: AnyArray) -> None:
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
    with on_one_thread(), ignore_duplicate_points_warning():
        return _fit_rows(rows, run, weights)[0], None


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


def _label_on_one_thread(members: Sequence[Member], X: Any) -> AnyArray:
    with on_one_thread():
        labels = label_rows(members, X)
    return labels.astype(_smallest_type(labels))


def _smallest_type(labels: AnyArray) -> np.dtype[Any]:
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
