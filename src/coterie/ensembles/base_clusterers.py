"""One run of an ensemble: cluster some rows, and keep what is needed to label new rows.

A :class:`Run` holds the settings of one run. Its result is a *member*: a fitted k-means as arrays,
or a fitted scikit-learn clusterer, with the :class:`~.scalings.Scaling` applied before it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin
from sklearn.pipeline import Pipeline

from coterie.ensembles.scalings import Floats, Scaling, refuse_overflowing_rows
from coterie.errors import InvalidParameterError
from coterie.runtime.devices import on_one_thread
from coterie.runtime.user_warnings import ignore_duplicate_points_warning

__all__ = ["CentroidMember", "EstimatorMember", "Member", "Run", "RunQueue", "fit_run"]

Labels = npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, eq=False)
class CentroidMember(Scaling):
    """A fitted k-means run: the label of x is the index of the nearest row of ``centres``.

    ``centres`` (K_v, q) are in the coordinates of the scaling; each is nearest to some fitted row.

    >>> import numpy as np
    >>> member = CentroidMember(centres=np.array([[0.0], [4.0]]))
    >>> member.predict(np.array([[1.0], [3.0]]))
    array([0, 1], dtype=int32)
    """

    centres: Floats

    can_predict = True

    def predict(self, X: Any) -> Labels:
        """Return labels of the rows of ``X``, from 0 to K_v − 1."""
        with np.errstate(over="ignore"):  # refuse_overflowing_rows refuses rows that overflow
            Z = self.transform(X.astype(self.centres.dtype, copy=False))
        refuse_overflowing_rows(Z)
        return pairwise_distances_argmin(Z, self.centres).astype(np.int32)


@dataclass(frozen=True, kw_only=True, eq=False)
class EstimatorMember(Scaling):
    """A fitted scikit-learn clusterer whose clusters are renumbered from 0.

    ``clusters`` (K_v,) are the estimator's labels of clusters 0, 1, …, in increasing order.

    >>> import numpy as np
    >>> from sklearn.cluster import MeanShift
    >>> X = np.array([[0.0], [0.1], [5.0]])
    >>> member = EstimatorMember(estimator=MeanShift(bandwidth=1).fit(X), clusters=np.arange(2))
    >>> len(set(member.predict(X)))
    2
    """

    estimator: Any
    clusters: npt.NDArray[np.integer[Any]]

    @property
    def can_predict(self) -> bool:
        """Whether the estimator has a ``predict``."""
        return hasattr(self.estimator, "predict")

    def predict(self, X: Any) -> Labels:
        """Return labels of the rows of ``X``; −1 for clusters that no fitted row has."""
        return _renumber(np.asarray(self.estimator.predict(self.transform(X))), self.clusters)


Member = CentroidMember | EstimatorMember


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """Settings of one run: K_v, scaling, the rows to fit on (a mask; None is all), and seed."""

    n_clusters: int
    scaling: Scaling
    drawn: npt.NDArray[np.bool_] | None
    seed: int


def fit_run(X: Any, run: Run, clusterer: Any = None) -> tuple[Member, Labels]:
    """Cluster the rows of ``X`` once; ``clusterer=None`` is Lloyd's k-means from random rows.

    The labels (n,) are those of ``member.predict(X)``, with −1 for rows that were not drawn and
    for noise. ``clusterer`` is cloned.

    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [9.0]])
    >>> member, labels = fit_run(X, Run(n_clusters=2, scaling=Scaling(), drawn=None, seed=0))
    >>> member.centres.shape, bool(labels[0] == labels[1] != labels[2])
    ((2, 1), True)
    """
    with on_one_thread(), ignore_duplicate_points_warning():
        if clusterer is None:
            return _fit_centroids(X, run)
        try:
            return _fit_estimator(X, run, clusterer)
        except ValueError as error:
            raise InvalidParameterError(
                f"clusterer={clusterer!r} failed with n_clusters={run.n_clusters}: {error}"
            ) from error


class RunQueue:
    """Callable :func:`fit_run` that counts the running calls in this process.

    After an error or an interrupt, runs in other threads continue. :meth:`close` waits for them.
    Otherwise they would reset thread pools and warning filters later, and the process could crash
    if it ended first. joblib ends runs in other processes.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._n_running = 0
        self._closed = False

    def __reduce__(self) -> tuple[type[RunQueue], tuple[()]]:
        return RunQueue, ()

    def __call__(self, X: Any, run: Run, clusterer: Any) -> tuple[Member, Labels] | None:
        """Return the result of the run, or None if the queue is closed."""
        with self._changed:
            if self._closed:
                return None
            self._n_running += 1
        try:
            return fit_run(X, run, clusterer)
        finally:
            with self._changed:
                self._n_running -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Refuse further runs, and wait for the running ones."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: self._n_running == 0)


def _fit_centroids(X: Any, run: Run) -> tuple[CentroidMember, Labels]:
    Z = run.scaling.transform(_rows(X, run.drawn))
    model = KMeans(
        n_clusters=run.n_clusters,
        init="random",
        n_init=1,
        algorithm="lloyd",
        # Without a copy, k-means centres a dense array in place; it must not change the user's X.
        copy_x=Z is X,
        random_state=run.seed,
    ).fit(Z)
    del Z
    member = CentroidMember(centres=model.cluster_centers_, **vars(run.scaling))
    # Labels come from member.predict, so that fit and predict agree on ties.
    labels = member.predict(X)
    used = np.unique(_rows(labels, run.drawn))
    if len(used) < len(member.centres):
        member = replace(member, centres=member.centres[used])
        labels = member.predict(X)
    if run.drawn is not None:
        labels[~run.drawn] = -1
    return member, labels


def _fit_estimator(X: Any, run: Run, clusterer: Any) -> tuple[EstimatorMember, Labels]:
    estimator = clone(clusterer).set_params(**_run_parameters(clusterer, run))
    Z = run.scaling.transform(_rows(X, run.drawn))
    has_fit_predict = hasattr(estimator, "fit_predict")
    found = np.asarray(estimator.fit_predict(Z) if has_fit_predict else estimator.fit(Z).labels_)
    if found.shape != (Z.shape[0],) or not np.issubdtype(found.dtype, np.integer):
        raise InvalidParameterError(
            f"its labels have shape {found.shape} and type {found.dtype} for {Z.shape[0]} rows; "
            "use a clusterer that gives one integer for each row"
        )
    labels = np.full(X.shape[0], -1)
    labels[slice(None) if run.drawn is None else run.drawn] = found
    if hasattr(estimator, "predict"):
        predicted = np.asarray(estimator.predict(run.scaling.transform(X)))
        labels = np.where(labels < 0, -1, predicted)
    clusters = np.unique(labels[labels >= 0])
    member = EstimatorMember(estimator=estimator, clusters=clusters, **vars(run.scaling))
    return member, _renumber(labels, clusters)


def _run_parameters(clusterer: Any, run: Run) -> dict[str, int]:
    """Return the parameters that a run sets: every ``random_state``, and the number of clusters.

    That is ``n_clusters`` or, for mixtures, ``n_components``; in a pipeline, of the last step.
    """
    names = clusterer.get_params()
    settings = {
        name: run.seed
        for name in names
        if name == "random_state" or name.endswith("__random_state")
    }
    last = f"{clusterer.steps[-1][0]}__" if isinstance(clusterer, Pipeline) else ""
    # spectral clusterings have both; there n_components is the dimension of the embedding
    numbers = [name for name in (f"{last}n_clusters", f"{last}n_components") if name in names]
    if numbers:
        settings[numbers[0]] = run.n_clusters
    return settings


def _renumber(labels: npt.NDArray[Any], clusters: npt.NDArray[np.integer[Any]]) -> Labels:
    """Return the index of each label in ``clusters`` (increasing), or −1 if it is not there."""
    index = np.searchsorted(clusters, labels).astype(np.int32)
    return np.where(np.isin(labels, clusters), index, np.int32(-1))


def _rows(X: Any, drawn: npt.NDArray[np.bool_] | None) -> Any:
    return X if drawn is None else X[drawn]
