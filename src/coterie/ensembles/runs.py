"""The runs of an ensemble: what varies between them, and how they are executed.

A :class:`Kind` says what the runs of a name have in common, a :class:`Plan` draws what varies, and
a :class:`Run` holds the settings of one run.

:func:`execute_runs` gives the runs to joblib, which sends them to this process, to others, or to
other machines. A run that is fitted to a sample gets only the rows of the sample. The members of
these runs then label all rows together, by blocks of rows. So X is neither copied nor read once for
each run.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from typing import Any

import joblib
import numpy as np

from coterie.arrays import AnyArray, Bools, Floats
from coterie.ensembles.input_checks import check_number, check_whole
from coterie.ensembles.members import (
    MOST_LLOYD,
    LandmarkGraph,
    Member,
    fit_centroids,
    fit_clusterer,
    fit_landmark_spectral,
    fit_linkage,
    fit_mixture,
    fit_ward,
    label_rows,
    principal_axes,
    takes_weights,
)
from coterie.ensembles.scalings import Scaling
from coterie.errors import CoterieError, InvalidParameterError
from coterie.runtime.devices import on_one_thread
from coterie.runtime.messages import (
    ignore_duplicate_points_warning,
    ignore_unfinished_tasks_warning,
    track,
)
from coterie.runtime.wording import short_repr

#: A run of these kinds is fitted to a random sample of at most this many rows.
MOST_FITTED = {
    "kmeans": 200_000,
    "spectral": 10_000,
    "mixture": 4_000,
    "diagonal mixture": 4_000,
    "ward": 2_000,
    "linkage": 3_000,
}
#: Linkage runs are fitted to this share of the rows, so that they differ.
_SHARE_LINKED = 0.8


@dataclass(frozen=True)
class Kind:
    """One kind of run."""

    name: str  # the first word of the names of its partitions
    method: str = "kmeans"  # ``kind`` of its runs
    sizes: str = "given"  # how K_v is drawn: "given", "cut", "diverse", "coarse" or "fine"
    subsample: float | None = None  # the share of the rows that a run uses; None is all
    subspace: float | None = None  # the share of the columns
    scalings: bool = False  # whether its runs use three scalings in turn
    clusterer: Any = None  # of scikit-learn, if the method is "clusterer"


#: The kinds of runs by name.
KINDS = {
    kind.name: kind
    for kind in (
        Kind("spectral", method="spectral", sizes="fine"),
        Kind("mixture", method="mixture", sizes="coarse"),
        Kind("diagonal mixture", method="diagonal mixture", sizes="coarse"),
        Kind("linkage", method="linkage", sizes="cut"),
        Kind("ward", method="ward", sizes="diverse", subspace=0.7),
        Kind("kmeans"),
        Kind("diverse", sizes="diverse"),
        Kind("subspaces", subspace=0.5),
        Kind("subsample", subsample=0.8),
        Kind("scalings", scalings=True),
    )
}
#: Names of several kinds, in turn.
SEVERAL = {
    "auto": ("spectral", "mixture", "diagonal mixture", "diverse", "linkage"),
    "mixed": ("spectral", "mixture", "diagonal mixture", "mixture"),
}
#: Names of ensembles.
ENSEMBLES = (*SEVERAL, *KINDS)

#: Rows that one task labels.
_ROWS_PER_TASK = 1 << 18
#: K_v of runs that follow neither K nor a user is at most this, unless K itself is large, …
MOST_DRAWN = 100
#: … but not below this if each cluster can have this number of rows.
_FEWEST_DRAWN, _ROWS_PER_CLUSTER = 20, 5
_ROWS_PER_COMPONENT = 30
#: The smallest K_v is this part of the largest, or K if it is larger.
_COARSEST = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """Settings of one run."""

    kind: str  # a key of ``MOST_FITTED``, or "clusterer"
    n_clusters: int | None  # K_v; None leaves it to the clusterer
    scaling: Scaling
    drawn: Bools | None  # (n,) rows that may be fitted; None is all
    seed: int
    turn: int = 0  # how many runs of the kind were before it
    clusterer: Any = None
    axes: Floats | None = None  # principal axes for mixtures; None leaves them to the run
    graph: LandmarkGraph | None = None  # landmarks for spectral runs, in the same way

    __repr__ = short_repr


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The checked settings of an ensemble.

    ``sizes`` are the numbers of clusters to draw from; None is unknown. With ``same_samples``,
    every kind in turn clusters the same sample. ``row_odds`` (n,) and ``column_odds`` (p,) say how
    often rows and columns are drawn, relative to each other; None is equally often.
    """

    n_rows: int
    n_features: int
    sizes: tuple[int | None, ...]
    kinds: tuple[Kind, ...]
    same_samples: bool = False
    row_odds: Floats | None = field(default=None, repr=False)
    column_odds: Floats | None = field(default=None, repr=False)

    def runs(
        self,
        scalings: Sequence[Scaling],
        seeds: Iterable[np.random.SeedSequence],
        axes: Floats | None = None,
        graph: LandmarkGraph | None = None,
    ) -> Iterator[Run]:
        """Yield the runs one by one, so that only one mask of drawn rows is in memory.

        ``scalings`` are the scaling of runs without a clusterer of the user, and two more for
        kinds that vary it. ``axes`` and ``graph`` are shared by all runs on all columns.
        """
        times_drawn = np.zeros(self.n_rows, dtype=np.int32)
        drawn = None
        for turn, seed in enumerate(seeds):
            random = np.random.default_rng(seed)
            cycle, index = divmod(turn, len(self.kinds))
            kind = self.kinds[index]
            n_clusters = self._draw_size(kind, random)
            # clusterers of the user get the features unchanged
            scaling = Scaling()
            if kind.method != "clusterer":
                scaling = scalings[cycle % len(scalings) if kind.scalings else 0]
            if kind.subspace is not None:
                count, odds = max(1, round(kind.subspace * self.n_features)), self.column_odds
                if odds is None:
                    columns = random.permutation(self.n_features)[:count]
                else:
                    count = min(count, int(np.count_nonzero(odds)))
                    shares = odds / odds.sum()
                    columns = random.choice(self.n_features, count, replace=False, p=shares)
                scaling = scaling.restricted_to(np.sort(columns))
            if index == 0 or not self.same_samples:
                drawn, n_drawn = None, self._n_drawn(kind)
                if n_drawn is not None:
                    # the rows that were drawn least often; random numbers in [0, 1) break ties
                    order = times_drawn + random.random(self.n_rows)
                    if self.row_odds is not None:
                        order /= self.row_odds
                    drawn = np.zeros(self.n_rows, dtype=np.bool_)
                    drawn[np.argpartition(order, n_drawn - 1)[:n_drawn]] = True
                    times_drawn += drawn
            yield Run(
                kind=kind.method,
                n_clusters=n_clusters,
                scaling=scaling,
                drawn=drawn,
                seed=int(random.integers(2**31 - 1)),
                turn=cycle,
                clusterer=kind.clusterer,
                axes=axes if kind.subspace is None else None,
                graph=graph if kind.subspace is None else None,
            )

    def _draw_size(self, kind: Kind, random: np.random.Generator) -> int | None:
        """Draw K_v; None leaves it to a clusterer."""
        given = self.sizes[int(random.choice(len(self.sizes)))]
        if kind.method == "clusterer" or (kind.sizes == "given" and given is not None):
            return given
        n, K = self.n_rows, given or 1
        most = _most_drawn(n, 9 / 4 if kind.sizes == "fine" else 1)
        # coarse runs would hide clusters if K is large, and tell nothing about K
        low = max(2, most // (3 if kind.sizes == "fine" else _COARSEST), K)
        most = max(most, K, min(2 * K, n // _ROWS_PER_CLUSTER))
        size = int(random.integers(min(low, most), most, endpoint=True))
        if kind.sizes == "cut" and given is not None:
            return given  # it is drawn nevertheless, so that further numbers are the same
        if kind.sizes == "coarse":
            size = min(size, max(low, n // _ROWS_PER_COMPONENT))
        return min(size, n)

    def _n_drawn(self, kind: Kind) -> int | None:
        """Return the number of rows in a sample; None is all rows."""
        if kind.subsample is None:
            return None
        least = max(size or 1 for size in self.sizes)
        return min(max(round(kind.subsample * self.n_rows), least), self.n_rows)

    def shortcuts(self, graph: LandmarkGraph | None = None) -> tuple[str, ...]:
        """Say in words which runs are not fitted to all rows, or not in the usual way."""
        texts = []
        for kind in dict.fromkeys(self.kinds):
            drawn = self._n_drawn(kind) or self.n_rows
            fitted = min(MOST_FITTED.get(kind.method, drawn), drawn)
            batches = kind.method == "kmeans" and fitted > MOST_LLOYD
            shared = graph if kind.method == "spectral" else None
            if fitted == drawn and not batches and shared is None:
                continue
            text = f"{kind.name} runs are fitted to {fitted:,} of {self.n_rows:,} rows"
            if batches:
                text += " by mini-batch k-means"
            if shared is not None:
                text += f" and share {shared.landmarks.shape[0]:,} landmarks"
            texts.append(text)
        return tuple(texts)

    def check_draws(self, n_partitions: int) -> None:
        """Refuse samples that leave out rows or share none, and odds of what is not drawn."""
        drawn = [self._n_drawn(kind) for kind in self.kinds]
        columns = [kind.subspace for kind in self.kinds]
        for name, odds, used in (
            ("subsample", self.row_odds, drawn),
            ("subspace", self.column_odds, columns),
        ):
            if odds is not None and all(share is None for share in used):
                raise InvalidParameterError(
                    f"{name}_weight is given, but the runs draw no {name}; set {name}, such as "
                    f"{name}=0.8"
                )
        counts = [count for count in drawn if count is not None]
        if n_partitions == 1 or len(counts) < len(drawn):
            return
        n_samples = -(-n_partitions // len(self.kinds)) if self.same_samples else n_partitions
        n_drawn = n_samples * max(counts)
        if n_drawn < self.n_rows + (n_samples > 1):
            raise InvalidParameterError(
                f"{n_samples} samples with subsample={self.kinds[0].subsample} draw {n_drawn} of "
                f"the {self.n_rows} rows, but every row must be drawn, and samples must overlap; "
                "raise subsample or n_partitions"
            )
        if self.row_odds is not None:
            expected = n_drawn * self.row_odds.min() / self.row_odds.sum()
            if expected < 1:
                row = int(np.argmin(self.row_odds))
                raise InvalidParameterError(
                    f"subsample_weight[{row}] is so small that {n_samples} samples draw the row "
                    f"{expected:.2g} times on average; raise it, subsample or n_partitions"
                )


def _most_drawn(n_rows: int, finer: float = 1) -> int:
    """Return the largest K_v, unless K is large: the root of n, or more if there are few rows."""
    most = min(math.isqrt(int(finer * n_rows)), MOST_DRAWN)
    return max(most, min(_FEWEST_DRAWN, n_rows // _ROWS_PER_CLUSTER), 1)


def draws_depend_on(n_clusters: int, n_rows: int) -> bool:
    """Return whether K is so large that the K_v are drawn from other numbers.

    Otherwise a number that is given and one that is chosen have the same runs.
    """
    return n_clusters > _most_drawn(n_rows) // _COARSEST


def check_ensemble(
    ensemble: Any, subsample: float | None = None, subspace: float | None = None
) -> tuple[Kind, ...]:
    """Return the kinds of runs of an ``ensemble``: a name, a clusterer, or several of them.

    ``subsample`` and ``subspace``, if given, replace the shares of all kinds.
    """
    several = isinstance(ensemble, Iterable) and not isinstance(ensemble, str)
    entries = list(ensemble) if several and not hasattr(ensemble, "fit") else [ensemble]
    kinds: list[Kind] = []
    for entry in entries:
        if isinstance(entry, str) and entry in SEVERAL:
            kinds += [KINDS[name] for name in SEVERAL[entry]]
        elif isinstance(entry, str) and entry in KINDS:
            kinds.append(KINDS[entry])
        elif (
            hasattr(entry, "get_params")
            and hasattr(entry, "fit_predict")
            and not isinstance(entry, type)
        ):
            name = type(entry).__name__
            kinds.append(Kind(name, method="clusterer", clusterer=entry))
        else:
            raise InvalidParameterError(
                f"ensemble: {entry!r} is neither a name ({', '.join(ENSEMBLES)}) nor an instance "
                "of a scikit-learn clusterer, such as sklearn.cluster.KMeans()"
            )
    if not kinds:
        raise InvalidParameterError("ensemble is empty; give at least one name or clusterer")
    if subsample is not None:
        check_number("subsample", subsample, 0.0, most=1.0)
        kinds = [replace(kind, subsample=subsample) for kind in kinds]
    if subspace is not None:
        check_number("subspace", subspace, 0.0, most=1.0)
        kinds = [replace(kind, subspace=subspace) for kind in kinds]
    return tuple(kinds)


def check_sizes(n_clusters: Any, n_rows: int) -> tuple[int | None, ...]:
    """Return the numbers of clusters to draw from; None is unknown."""
    if n_clusters is None:
        return (None,)
    sizes = np.atleast_1d(np.asarray(n_clusters, dtype=object)).tolist()
    if not sizes:
        raise InvalidParameterError("n_clusters is empty; give at least one number of clusters")
    for size in sizes:
        if check_whole("n_clusters", size) > n_rows:
            raise InvalidParameterError(
                f"n_clusters={size} is more than the {n_rows} rows of X; give {n_rows} or fewer"
            )
    return tuple(int(size) for size in sizes)


# ---- Execution


def fit_run(X: Any, run: Run, sample_weight: Any = None) -> tuple[Member, AnyArray]:
    """Cluster the rows of ``X`` once.

    The labels (n,) are those of ``member.predict(X)``, with −1 for rows that were not drawn and
    for noise. Rows have weights in k-means, and in clusterers that know them. Elsewhere rows are
    drawn with probabilities proportional to their weights. Members of the kinds of this package
    have only clusters that fitted rows have.
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
            fitted = X if rows is None else X[rows]
            Z = run.scaling.transform(fitted)
            K = min(run.n_clusters or 1, Z.shape[0])
            # One cluster is the same for every kind, and other kinds need two rows.
            if run.kind == "kmeans" or K == 1:
                # k-means centres a dense array in place; it must not change the user's X
                Z = Z.copy() if Z is fitted else Z
                member = fit_centroids(Z, K, run.seed, run.scaling, weights)
            elif run.kind == "spectral":
                member = fit_landmark_spectral(Z, K, run.seed, run.scaling, run.graph)
            elif run.kind == "ward":
                member = fit_ward(Z, K, run.scaling)
            elif run.kind == "linkage":
                member = fit_linkage(Z, K, run.turn, run.scaling)
            else:
                covariance = "full" if run.kind == "mixture" else "diag"
                axes = principal_axes(Z, run.seed) if run.axes is None else run.axes
                member = fit_mixture(Z, K, run.seed, run.scaling, axes, covariance)
            # Labels come from predict, so that fit and predict agree on ties.
            labels = member.predict(fitted)
            used = np.unique(labels)
            if len(used) < (run.n_clusters or 1):  # some clusters have no fitted row
                member = member.with_clusters(used)
                labels = member.predict(fitted)
            if rows is not None:
                labels = member.predict(X)
        if run.drawn is not None:
            labels[~run.drawn] = -1
        return member, labels


def fitted_rows(n: int, run: Run, sample_weight: Any) -> tuple[AnyArray | None, Any]:
    """Return the rows to fit (None: all), and their weights if the run can use weights."""
    rows = np.arange(n) if run.drawn is None else np.flatnonzero(run.drawn)
    weights = None if sample_weight is None else sample_weight[rows]
    if weights is not None and not weights.any():
        raise InvalidParameterError(
            f"sample_weight is 0 for all {len(weights)} rows of a sample; raise subsample, or "
            "leave out rows of weight 0"
        )
    weighs = run.kind == "kmeans" or (run.kind == "clusterer" and takes_weights(run.clusterer))
    if weights is not None and weighs:
        rows, weights = rows[weights > 0], weights[weights > 0]
    most, rng = MOST_FITTED.get(run.kind, len(rows)), np.random.default_rng(run.seed)
    if run.kind == "linkage":
        most = min(most, max(round(_SHARE_LINKED * len(rows)), run.n_clusters or 1, 2))
    places = draw_rows(len(rows), most, None if weighs else weights, rng)
    if places is None:
        return (None if len(rows) == n else rows), weights if weighs else None
    return rows[places], weights[places] if weighs and weights is not None else None


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


def execute_runs(
    X: Any,
    runs: Iterable[Run],
    n_runs: int,
    weights: Any,
    n_jobs: int | None,
    verbose: bool,
) -> tuple[AnyArray, list[Member]]:
    """Return the labels (n, V) of the runs in the smallest integer type, and the members."""
    queue, table = CallQueue(), _LabelTable(X.shape[0], n_runs)
    members: list[Member] = []
    sampled: list[int] = []

    def tasks() -> Iterator[Any]:
        for v, run in enumerate(runs):
            if X.shape[0] <= MOST_FITTED.get(run.kind, X.shape[0]):
                yield joblib.delayed(queue)(fit_run, X, run, weights)
                continue
            rows, kept = fitted_rows(X.shape[0], run, weights)
            if run.drawn is not None:
                table.leave_out(~run.drawn, v)
            sample = X if rows is None else X[rows]
            yield joblib.delayed(queue)(_fit_sample, sample, replace(run, drawn=None), kept)

    with (
        on_one_thread(),
        ignore_duplicate_points_warning(),
        ignore_unfinished_tasks_warning(),
        contextlib.closing(queue),
    ):
        with contextlib.closing(_results(tasks(), n_jobs)) as results:
            # Labels are stored while later runs are computed.
            for v, (member, column) in enumerate(track(results, "partitions", n_runs, verbose)):
                members.append(member)
                if column is None:
                    sampled.append(v)
                else:
                    table.put(slice(None), [v], column[:, None])
        if sampled:
            chosen = [members[v] for v in sampled]
            blocks = [slice(a, a + _ROWS_PER_TASK) for a in range(0, X.shape[0], _ROWS_PER_TASK)]
            labelling = (joblib.delayed(queue)(_label_rows, chosen, X[rows]) for rows in blocks)
            # threads need no copy of X, and its rows are labelled without Python's global lock
            with contextlib.closing(_results(labelling, n_jobs, prefer="threads")) as results:
                tracked: Iterator[Any] = track(results, "blocks of rows", len(blocks), verbose)
                for rows, labels in zip(blocks, tracked, strict=True):
                    table.put(rows, sampled, labels)
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
        needed = smallest_type(labels)
        with self._changing:
            if needed.itemsize > self.labels.itemsize:
                self.labels = self.labels.astype(needed)
            left_out = self.labels[rows][:, runs] < 0
            self.labels[rows, runs] = np.where(left_out, self.labels.dtype.type(-1), labels)


def _fit_sample(rows: Any, run: Run, weights: Any) -> tuple[Member, None]:
    """Return no labels: all rows are labelled later, by all members together."""
    return fit_run(rows, run, weights)[0], None


def _label_rows(members: Sequence[Member], X: Any) -> AnyArray:
    with on_one_thread():
        labels = label_rows(members, X)
    return labels.astype(smallest_type(labels))


def smallest_type(labels: AnyArray) -> np.dtype[Any]:
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
