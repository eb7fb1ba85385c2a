"""Base partitions: many different clusterings of the same rows."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from coterie.ensembles.base_clusterers import (
    CentroidMember,
    EstimatorMember,
    Member,
    Run,
    RunQueue,
)
from coterie.ensembles.input_checks import check_features, check_number, check_whole
from coterie.ensembles.scalings import Scaling, centring, standard_and_min_max
from coterie.errors import CoterieError, InvalidParameterError, LabelWarning
from coterie.runtime.devices import on_one_thread
from coterie.runtime.user_warnings import (
    ignore_duplicate_points_warning,
    ignore_unfinished_tasks_warning,
)

__all__ = [
    "STRATEGIES",
    "CentroidMember",
    "Ensemble",
    "EstimatorMember",
    "fit_ensemble",
    "make_partitions",
]

STRATEGIES = ("kmeans", "diverse", "subspaces", "subsample", "scalings")

RandomState = int | np.random.RandomState | np.random.Generator | None


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Fitted base clusterings that can label new rows.

    ``labels`` (n, V) are the partitions of the fitted rows, −1 where a run left the row out;
    ``members`` are the V fitted clusterings; ``n_features`` is the number of columns of new rows.

    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> ensemble = fit_ensemble(X, 2, n_partitions=3, random_state=0)
    >>> bool((ensemble.predict(X) == ensemble.labels).all())
    True
    """

    labels: npt.NDArray[np.int32]
    members: list[Member]
    n_features: int

    @property
    def can_predict(self) -> bool:
        """Whether every member can label new rows."""
        return all(member.can_predict for member in self.members)

    def predict(self, X_new: Any) -> npt.NDArray[np.int32]:
        """Return labels (m, V) of rows (m, p), dense or sparse, one column for each member.

        A row that was fitted gets its labels in ``labels``. If that label is −1, because the row
        was not drawn or was noise, it is labelled like a new row.
        """
        if not self.can_predict:
            member = next(member for member in self.members if not member.can_predict)
            name = type(member.estimator).__name__  # type: ignore[union-attr]
            raise InvalidParameterError(
                f"clusterer={name} has no predict, so new rows cannot be labelled; "
                "use a clusterer with predict, or clusterer=None (k-means)"
            )
        X = check_features(X_new, "X_new")
        if X.shape[1] != self.n_features:
            raise InvalidParameterError(
                f"X_new has {X.shape[1]} columns, the ensemble was fitted on {self.n_features}; "
                "give the same columns in the same order"
            )
        labels = np.empty((X.shape[0], len(self.members)), dtype=np.int32)
        for column, member in enumerate(self.members):
            labels[:, column] = member.predict(X)
        return labels


def make_partitions(
    X: Any,
    n_clusters: int | Sequence[int],
    n_partitions: int = 40,
    *,
    strategy: str | Sequence[str] = "kmeans",
    clusterer: Any = None,
    subsample: float = 0.8,
    subspace: float = 0.5,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: RandomState = None,
) -> npt.NDArray[np.int32]:
    """Cluster the rows of ``X`` V times.

    The parameters are those of :func:`fit_ensemble`; only the labels are returned.

    Returns
    -------
    P : (n, V) int32 array
        ``P[i, v]`` is the label of row i in partition v: 0, 1, … without gaps, or −1 if the run
        left the row out.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> P = make_partitions(X, 2, n_partitions=5, random_state=0)
    >>> P.shape, bool((P[0] == P[1]).all())
    ((4, 5), True)
    """
    return fit_ensemble(
        X,
        n_clusters,
        n_partitions,
        strategy=strategy,
        clusterer=clusterer,
        subsample=subsample,
        subspace=subspace,
        n_jobs=n_jobs,
        progress=progress,
        random_state=random_state,
    ).labels


def fit_ensemble(
    X: Any,
    n_clusters: int | Sequence[int],
    n_partitions: int = 40,
    *,
    strategy: str | Sequence[str] = "kmeans",
    clusterer: Any = None,
    subsample: float = 0.8,
    subspace: float = 0.5,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: RandomState = None,
) -> Ensemble:
    """Cluster the rows of ``X`` V times, and keep the fitted clusterings.

    Run v clusters ``(X[drawn, features] - shift) / scale`` into K_v clusters. The strategy says
    what varies between runs:

    ===============  ==========================================================================
    ``"kmeans"``     the random start only
    ``"diverse"``    K_v, drawn uniformly from {K, …, max(K, min(⌊√n⌋, 50))}
    ``"subspaces"``  the columns: a random half (``subspace``), at least one
    ``"subsample"``  the rows: a random 80% (``subsample``), at least K_v; the others are −1
    ``"scalings"``   the scaling: unchanged, standardised and min–max in turn
    ===============  ==========================================================================

    ``"subsample"`` draws the rows that were drawn least often so far, at random among ties. So the
    numbers of draws of two rows differ by at most one, and two runs at 80% draw every row.
    ``"scalings"`` maps constant columns to 0. A sparse ``X`` is not shifted: its columns are
    divided by their standard deviation, or by their largest absolute value.

    Parameters
    ----------
    X : (n, p) array or sparse matrix
    n_clusters : int or sequence of int
        K. If a sequence is given, each run draws one of its numbers.
    n_partitions : int
        V.
    strategy : str or sequence of str
        A name in the table. If a sequence is given, runs use its names in turn.
    clusterer : scikit-learn clusterer, optional
        Cloned for each run. ``random_state`` and ``n_clusters``, or ``n_components`` of a mixture,
        are set if it has these parameters (in a pipeline, those of the last step). The label −1 is
        noise. The default is Lloyd's k-means from K_v random rows. A deterministic clusterer gives
        V equal partitions unless the strategy varies its input.
    subsample, subspace : float in (0, 1]
        The shares of the rows and of the columns that a run uses.
    n_jobs : int, optional
        Number of parallel runs, as in joblib. None uses :func:`joblib.parallel_config`, which can
        also send runs to other machines. Each run uses one thread, so that the labels depend
        neither on ``n_jobs`` nor on the backend.
    progress : bool
        Show a progress bar on the standard error stream.
    random_state : int, RandomState, Generator or None
        Seed of all runs. With the same seed, a larger V adds runs and does not change the others.

    Returns
    -------
    Ensemble

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 5.0], [1.0, 5.0], [8.0, 5.0], [9.0, 5.0]])
    >>> ensemble = fit_ensemble(X, 2, n_partitions=6, strategy="scalings", random_state=0)
    >>> len(ensemble.members), ensemble.labels.shape
    (6, (4, 6))
    """
    X = check_features(X, "X")
    check_whole("n_partitions", n_partitions)
    _check_clusterer(clusterer)
    if n_jobs == 0:
        raise InvalidParameterError("n_jobs=0: give 1 or more, or −1 for all cores")
    plan = _Plan(
        n_rows=X.shape[0],
        n_features=X.shape[1],
        sizes=_cluster_counts(n_clusters, X.shape[0]),
        strategies=_strategies(strategy),
        subsample=check_number("subsample", subsample, 0.0, most=1.0),
        subspace=check_number("subspace", subspace, 0.0, most=1.0),
    )
    plan.check_every_row_is_drawn(n_partitions)
    # A clusterer of the user gets the features unchanged; a shift does not matter to k-means.
    scalings = [Scaling() if clusterer is not None else centring(X)]
    if "scalings" in plan.strategies:
        scalings += standard_and_min_max(X)
    seeds = _spawn_seeds(random_state, n_partitions)
    queue = RunQueue()
    tasks = (joblib.delayed(queue)(X, run, clusterer) for run in plan.runs(scalings, seeds))
    labels = np.empty((X.shape[0], n_partitions), dtype=np.int32)
    members: list[Member] = []
    with (
        on_one_thread(),
        ignore_duplicate_points_warning(),
        ignore_unfinished_tasks_warning(),
        contextlib.closing(queue),
        contextlib.closing(_results(tasks, n_jobs, n_partitions if progress else 0)) as results,
    ):
        # Labels are stored while later runs are computed.
        for member, column in results:
            labels[:, len(members)] = column
            members.append(member)
    _warn_about_empty_partitions(labels)
    return Ensemble(labels=labels, members=members, n_features=X.shape[1])


@dataclass(frozen=True)
class _Plan:
    """The checked settings of an ensemble; ``sizes`` are the numbers of clusters to draw from."""

    n_rows: int
    n_features: int
    sizes: tuple[int, ...]
    strategies: tuple[str, ...]
    subsample: float
    subspace: float

    def runs(
        self, scalings: list[Scaling], seeds: Iterable[np.random.SeedSequence]
    ) -> Iterator[Run]:
        """Yield the runs one by one, so that only one mask of drawn rows is in memory."""
        times_drawn = np.zeros(self.n_rows, dtype=np.int32)
        for turn, seed in enumerate(seeds):
            random = np.random.default_rng(seed)
            cycle, index = divmod(turn, len(self.strategies))
            strategy = self.strategies[index]
            size = int(random.choice(self.sizes))
            if strategy == "diverse":
                most = max(size, min(math.isqrt(self.n_rows), 50))
                size = int(random.integers(size, most, endpoint=True))
            scaling = scalings[cycle % len(scalings) if strategy == "scalings" else 0]
            if strategy == "subspaces":
                count = max(1, round(self.subspace * self.n_features))
                columns = np.sort(random.permutation(self.n_features)[:count])
                scaling = scaling.restricted_to(columns)
            drawn = None
            if strategy == "subsample":
                drawn = self._least_drawn_rows(times_drawn, size, random)
                times_drawn += drawn
            run_seed = int(random.integers(2**31 - 1))
            yield Run(n_clusters=size, scaling=scaling, drawn=drawn, seed=run_seed)

    def check_every_row_is_drawn(self, n_partitions: int) -> None:
        """Refuse subsampling runs that together draw fewer rows than there are."""
        n_drawn = n_partitions * self._n_drawn(min(self.sizes))
        if n_partitions > 1 and set(self.strategies) == {"subsample"} and n_drawn < self.n_rows:
            raise InvalidParameterError(
                f"{n_partitions} runs with subsample={self.subsample} draw at most {n_drawn} of "
                f"the {self.n_rows} rows; raise subsample or n_partitions"
            )

    def _n_drawn(self, size: int) -> int:
        return max(round(self.subsample * self.n_rows), size)

    def _least_drawn_rows(
        self, times_drawn: npt.NDArray[np.int32], size: int, random: np.random.Generator
    ) -> npt.NDArray[np.bool_]:
        count = self._n_drawn(size)
        # Random numbers in [0, 1) break ties between equal counts.
        order = np.argpartition(times_drawn + random.random(self.n_rows), count - 1)
        drawn = np.zeros(self.n_rows, dtype=np.bool_)
        drawn[order[:count]] = True
        return drawn


def _results(
    tasks: Iterable[Any], n_jobs: int | None, bar_length: int
) -> Generator[Any, None, None]:
    """Yield the results of the tasks in order, with a progress bar if ``bar_length`` > 0."""
    backend, _ = joblib.parallel.get_active_backend()
    kind = "generator" if getattr(backend, "supports_return_generator", False) else "list"
    results = joblib.Parallel(n_jobs=n_jobs, return_as=kind)(tasks)
    if bar_length:
        from rich.console import Console
        from rich.progress import track

        results = track(results, "partitions", total=bar_length, console=Console(stderr=True))
    try:
        yield from results
    except CancelledError as error:
        raise CoterieError(
            "runs on other machines were cancelled: they were stopped, or the worker with the "
            "only copy of X was lost; run again, and with Dask copy X to every worker: "
            "joblib.parallel_config(backend='dask', scatter=[X])"
        ) from error


def _spawn_seeds(random_state: RandomState, count: int) -> list[np.random.SeedSequence]:
    """Return one seed for each run; a generator of the user is advanced by four numbers."""
    if isinstance(random_state, np.random.Generator):
        entropy = random_state.integers(2**32, size=4)
    else:
        try:
            entropy = check_random_state(random_state).randint(2**32, size=4, dtype=np.int64)
        except ValueError as error:
            raise InvalidParameterError(
                f"random_state={random_state!r}: give an int from 0 to 2**32 − 1, a RandomState, "
                "a Generator or None"
            ) from error
    return np.random.SeedSequence([int(word) for word in entropy]).spawn(count)


def _cluster_counts(n_clusters: int | Sequence[int], n_rows: int) -> tuple[int, ...]:
    sizes = np.atleast_1d(np.asarray(n_clusters, dtype=object)).tolist()
    if not sizes:
        raise InvalidParameterError("n_clusters is empty; give at least one number of clusters")
    for size in sizes:
        if check_whole("n_clusters", size) > n_rows:
            raise InvalidParameterError(
                f"n_clusters={size} is more than the {n_rows} rows of X; give {n_rows} or fewer"
            )
    return tuple(int(size) for size in sizes)


def _strategies(strategy: Any) -> tuple[str, ...]:
    several = isinstance(strategy, Iterable) and not isinstance(strategy, str)
    strategies = tuple(strategy) if several else (strategy,)
    if not strategies or any(name not in STRATEGIES for name in strategies):
        raise InvalidParameterError(
            f"strategy={strategy!r} is not known; give one or several of {', '.join(STRATEGIES)}"
        )
    return strategies


def _check_clusterer(clusterer: Any) -> None:
    usable = hasattr(clusterer, "get_params") and hasattr(clusterer, "fit")
    if clusterer is not None and (isinstance(clusterer, type) or not usable):
        raise InvalidParameterError(
            f"clusterer={clusterer!r}: give an instance of a scikit-learn clusterer, "
            "such as sklearn.cluster.MiniBatchKMeans()"
        )


def _warn_about_empty_partitions(labels: npt.NDArray[np.int32]) -> None:
    empty = np.flatnonzero((labels < 0).all(axis=0))
    if empty.size:
        warnings.warn(
            f"partitions {', '.join(map(str, empty))} label no row, because the clusterer "
            "classified every row as noise; change its parameters",
            LabelWarning,
            stacklevel=3,
        )
