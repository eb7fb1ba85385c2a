"""Making base partitions: many clusterings of the same rows, different on purpose."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import joblib
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils import check_array, check_random_state

from coterie.ensembles.base_clusterers import (
    CentroidMember,
    EstimatorMember,
    Member,
    Run,
    RunsUnderway,
)
from coterie.ensembles.scalings import Scaling, centring, standard_and_min_max
from coterie.errors import CoterieError, InvalidParameterError, LabelWarning
from coterie.runtime.devices import on_one_thread
from coterie.runtime.ignored_warnings import (
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
    """Fitted base clusterings, which can label new rows.

    Parameters
    ----------
    labels : (n, V) int32 array
        The partitions of the rows it was fitted on; −1 is left out.
    members : list of CentroidMember or EstimatorMember
        The V fitted clusterings.
    n_features : int
        The number of columns a new row must have.

    Examples
    --------
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
        """Label new rows by every member.

        A row the ensemble was fitted on gets the labels it has; where it had none (it was not
        drawn, or was noise) it gets one.

        Parameters
        ----------
        X_new : (m, p) array or sparse matrix

        Returns
        -------
        (m, V) int32 array
        """
        if not self.can_predict:
            unable = next(member for member in self.members if not member.can_predict)
            name = type(unable.estimator).__name__  # type: ignore[union-attr]
            raise InvalidParameterError(
                f"clusterer={name} has no predict, so new rows cannot be labelled; "
                "use one that has, or clusterer=None (k-means)"
            )
        X = _as_features(X_new, "X_new")
        if X.shape[1] != self.n_features:
            raise InvalidParameterError(
                f"X_new has {X.shape[1]} columns, the ensemble was fitted on {self.n_features}; "
                "give it the same columns in the same order"
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

    The parameters are those of :func:`fit_ensemble`, of which this gives the labels alone.

    Returns
    -------
    P : (n, V) int32 array
        ``P[i, v]`` is the label of row i in partition v: from 0, no number unused; −1 where
        the row was left out.

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
    """Cluster the rows of ``X`` V times, and keep what labels new rows.

    Run v clusters ``(X[drawn, features] - shift) / scale`` into K_v clusters, K_v being K
    unless the strategy says otherwise:

    ===============  ==========================================================================
    ``"kmeans"``     nothing varies but the random start
    ``"diverse"``    K_v is uniform on {K, …, max(K, min(⌊√n⌋, 50))}
    ``"subspaces"``  a random half of the columns (``subspace``), at least one
    ``"subsample"``  a random 80% of the rows (``subsample``), at least K_v; the rest are −1
    ``"scalings"``   in turn as given, standardised, min–max; constant columns become 0
    ===============  ==========================================================================

    *Subsample* draws the rows drawn least so far, ties at random. So how often two rows were
    drawn never differs by more than one, and every row is drawn as soon as the draws add up
    to n: by two runs at 80%. *Scalings* of a sparse ``X`` do not shift it: columns are
    divided by their standard deviation, and by their largest absolute value.

    Parameters
    ----------
    X : (n, p) array or sparse matrix
    n_clusters : int or sequence of int
        K; of a sequence, each run draws one.
    n_partitions : int
        V.
    strategy : str or sequence of str
        One of the table; of a sequence, runs take one after the other, round and round.
    clusterer : scikit-learn clusterer, optional
        Cloned for each run, its ``random_state`` and ``n_clusters`` set if it has them (in a
        pipeline, its last step's ``n_clusters``). Without it: Lloyd's k-means, one start from
        K_v random rows. Noise (−1) is left out. A clusterer that draws nothing at random gives
        V equal partitions unless the strategy varies what it sees.
    subsample, subspace : float in (0, 1]
        The shares of the rows and of the columns.
    n_jobs : int, optional
        Runs at a time, as in joblib; None follows :func:`joblib.parallel_config`, whose backends
        take runs to other machines too. Each run computes on one thread, so that the labels
        depend neither on ``n_jobs`` nor on the backend.
    progress : bool
        Show a bar on the standard error stream.
    random_state : int, RandomState, Generator or None
        The one seed. The first runs of a longer ensemble are those of a shorter one.

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
    X = _as_features(X, "X")
    _check_count("n_partitions", n_partitions)
    _check_clusterer(clusterer)
    if n_jobs == 0:
        raise InvalidParameterError("n_jobs=0 runs nothing; give 1 or more, −1 for all cores")
    recipe = _Recipe(
        n_rows=X.shape[0],
        n_features=X.shape[1],
        sizes=_cluster_counts(n_clusters, X.shape[0]),
        strategies=_strategies(strategy),
        subsample=_share("subsample", subsample),
        subspace=_share("subspace", subspace),
    )
    recipe.check_every_row_is_drawn(n_partitions)
    scalings = [Scaling() if clusterer is not None else centring(X)]
    if "scalings" in recipe.strategies:
        scalings += standard_and_min_max(X)
    seeds = _spawn(random_state, n_partitions)
    underway = RunsUnderway()
    tasks = (joblib.delayed(underway)(X, run, clusterer) for run in recipe.runs(scalings, seeds))
    labels = np.empty((X.shape[0], n_partitions), dtype=np.int32)
    members: list[Member] = []
    with (
        on_one_thread(),
        ignore_duplicate_points_warning(),
        ignore_unfinished_tasks_warning(),
        contextlib.closing(underway),
        contextlib.closing(_carry_out(tasks, n_jobs, n_partitions if progress else 0)) as results,
    ):
        for member, column in results:
            labels[:, len(members)] = column
            members.append(member)
    _warn_of_empty_partitions(labels)
    return Ensemble(labels=labels, members=members, n_features=X.shape[1])


@dataclass(frozen=True)
class _Recipe:
    """The checked settings of an ensemble, and the runs that follow from them."""

    n_rows: int
    n_features: int
    sizes: tuple[int, ...]
    strategies: tuple[str, ...]
    subsample: float
    subspace: float

    def runs(
        self, scalings: list[Scaling], seeds: Iterable[np.random.SeedSequence]
    ) -> Iterator[Run]:
        """The orders, one at a time: a million rows' draws are never all in memory."""
        times_drawn = np.zeros(self.n_rows, dtype=np.int32)
        for turn, seed in enumerate(seeds):
            random = np.random.default_rng(seed)
            lap, place = divmod(turn, len(self.strategies))
            strategy = self.strategies[place]
            size = int(random.choice(self.sizes))
            if strategy == "diverse":
                most = max(size, min(math.isqrt(self.n_rows), 50))
                size = int(random.integers(size, most, endpoint=True))
            scaling = scalings[lap % len(scalings) if strategy == "scalings" else 0]
            if strategy == "subspaces":
                scaling = scaling.restricted_to(self._random_columns(random))
            drawn = None
            if strategy == "subsample":
                drawn = self._least_drawn_rows(times_drawn, size, random)
                times_drawn += drawn
            yield Run(
                n_clusters=size, scaling=scaling, drawn=drawn, seed=int(random.integers(2**31 - 1))
            )

    def check_every_row_is_drawn(self, n_partitions: int) -> None:
        """Refuse an ensemble of several runs, all of them of too few rows to reach every row."""
        reached = n_partitions * self._n_drawn(min(self.sizes))
        if n_partitions > 1 and set(self.strategies) == {"subsample"} and reached < self.n_rows:
            raise InvalidParameterError(
                f"{n_partitions} runs of subsample={self.subsample} draw {reached} of the "
                f"{self.n_rows} rows at most; raise subsample or n_partitions"
            )

    def _n_drawn(self, size: int) -> int:
        return max(round(self.subsample * self.n_rows), size)

    def _least_drawn_rows(
        self, times_drawn: npt.NDArray[np.int32], size: int, random: np.random.Generator
    ) -> npt.NDArray[np.bool_]:
        count = self._n_drawn(size)
        order = np.argpartition(times_drawn + random.random(self.n_rows), count - 1)
        drawn = np.zeros(self.n_rows, dtype=np.bool_)
        drawn[order[:count]] = True
        return drawn

    def _random_columns(self, random: np.random.Generator) -> npt.NDArray[np.intp]:
        count = max(1, round(self.subspace * self.n_features))
        return np.sort(random.permutation(self.n_features)[:count])


def _carry_out(tasks: Iterable[Any], n_jobs: int | None, bar: int) -> Generator[Any, None, None]:
    """The results of the tasks in their order; a progress bar of that length, unless it is 0."""
    backend, _ = joblib.parallel.get_active_backend()
    way = "generator" if getattr(backend, "supports_return_generator", False) else "list"
    results = joblib.Parallel(n_jobs=n_jobs, return_as=way)(tasks)
    if bar:
        from rich.console import Console
        from rich.progress import track

        results = track(results, "partitions", total=bar, console=Console(stderr=True))
    try:
        yield from results
    except CancelledError as error:
        raise CoterieError(
            "runs on other machines were cancelled: they were stopped there, or a worker was lost "
            "that had the only copy of X; run again, and with Dask give every worker a copy: "
            "joblib.parallel_config(backend='dask', scatter=[X])"
        ) from error


def _spawn(random_state: RandomState, count: int) -> list[np.random.SeedSequence]:
    """One seed a run, all from one; drawing them takes four numbers from a given generator."""
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


def _as_features(X: Any, name: str) -> Any:
    """``X`` as a finite C-ordered float array, or CSR matrix without duplicate entries."""
    try:
        X = check_array(
            X,
            accept_sparse="csr",
            accept_large_sparse=False,
            dtype=(np.float64, np.float32),
            order="C",
            ensure_all_finite=False,
            input_name=name,
        )
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(f"{name} is not a table of numbers: {error}") from error
    if sp.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    _refuse_missing(X, name)
    return X


def _refuse_missing(X: Any, name: str) -> None:
    values = X.data if sp.issparse(X) else X.ravel()
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size == 0:
        return
    place = bad[0]
    if sp.issparse(X):
        row, column = np.searchsorted(X.indptr, place, "right") - 1, X.indices[place]
    else:
        row, column = divmod(place, X.shape[1])
    what = "NaN" if np.isnan(values[place]) else "infinity (inf)"
    raise InvalidParameterError(
        f"{name} has {what} at row {row}, column {column} ({bad.size} such cells in all); "
        "fill these cells or drop their rows"
    )


def _cluster_counts(n_clusters: int | Sequence[int], n_rows: int) -> tuple[int, ...]:
    sizes = tuple(np.atleast_1d(np.asarray(n_clusters, dtype=object)).tolist())
    if not sizes:
        raise InvalidParameterError("n_clusters is empty; give at least one number of clusters")
    for size in sizes:
        _check_count("n_clusters", size)
        if size > n_rows:
            raise InvalidParameterError(
                f"n_clusters={size} is more than the {n_rows} rows of X; ask for {n_rows} or fewer"
            )
    return tuple(int(size) for size in sizes)


def _strategies(strategy: Any) -> tuple[str, ...]:
    several = isinstance(strategy, Iterable) and not isinstance(strategy, str)
    strategies = tuple(strategy) if several else (strategy,)
    unknown = [name for name in strategies if name not in STRATEGIES]
    if unknown or not strategies:
        raise InvalidParameterError(
            f"strategy={strategy!r} is not known; give one or several of {', '.join(STRATEGIES)}"
        )
    return strategies


def _share(name: str, value: Any) -> float:
    usable = isinstance(value, Real) and not isinstance(value, bool)
    if not usable or not 0 < float(value) <= 1:
        raise InvalidParameterError(f"{name}={value!r}: give a share above 0 and up to 1")
    return float(value)


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InvalidParameterError(f"{name}={value!r}: give a whole number, 1 or more")


def _check_clusterer(clusterer: Any) -> None:
    if clusterer is None:
        return
    usable = hasattr(clusterer, "get_params") and hasattr(clusterer, "fit")
    if isinstance(clusterer, type) or not usable:
        raise InvalidParameterError(
            f"clusterer={clusterer!r}: give an instance of a scikit-learn clusterer, "
            "such as sklearn.cluster.MiniBatchKMeans()"
        )


def _warn_of_empty_partitions(labels: npt.NDArray[np.int32]) -> None:
    empty = np.flatnonzero((labels < 0).all(axis=0))
    if empty.size:
        warnings.warn(
            f"partitions {', '.join(map(str, empty))} label no row: the clusterer called all "
            "noise; loosen its settings",
            LabelWarning,
            stacklevel=3,
        )
