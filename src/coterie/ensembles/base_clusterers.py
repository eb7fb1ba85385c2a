"""One run of an ensemble: what it sees of the data, how it clusters it, what it remembers.

A *view* says which columns a run sees, shifted and scaled how. A *member* is a view plus what
was learned in it, and labels new rows: arrays only, but for a scikit-learn clusterer's own.
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

from coterie.ensembles.scalings import Floats, Scaling, refuse_far_rows
from coterie.errors import InvalidParameterError
from coterie.runtime.devices import on_one_thread
from coterie.runtime.ignored_warnings import ignore_duplicate_points_warning

__all__ = [
    "CentroidMember",
    "EstimatorMember",
    "Member",
    "Run",
    "RunsUnderway",
    "fit_run",
]

Labels = npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, eq=False)
class CentroidMember(Scaling):
    """A fitted k-means run: the label of x is the nearest row of ``centres``.

    Parameters
    ----------
    centres : (K_v, q) float array
        Centres in the view's coordinates; every one is nearest to some row it was fitted on.
    features, shift, scale
        The :class:`Scaling`.

    Examples
    --------
    >>> import numpy as np
    >>> member = CentroidMember(centres=np.array([[0.0], [4.0]]))
    >>> member.predict(np.array([[1.0], [3.0]]))
    array([0, 1], dtype=int32)
    """

    centres: Floats

    can_predict = True

    def predict(self, X: Any) -> Labels:
        """Labels of the rows of ``X``, from 0 to K_v − 1."""
        with np.errstate(over="ignore"):  # what overflows is refused just below, by its place
            Z = self.transform(X.astype(self.centres.dtype, copy=False))
        refuse_far_rows(Z)
        return pairwise_distances_argmin(Z, self.centres).astype(np.int32)


@dataclass(frozen=True, kw_only=True, eq=False)
class EstimatorMember(Scaling):
    """A fitted scikit-learn clusterer, its clusters renumbered from 0.

    Parameters
    ----------
    estimator : fitted clusterer
    clusters : (K_v,) int array
        The estimator's own label of cluster 0, 1, …, ascending.
    features, shift, scale
        The :class:`Scaling`.

    Examples
    --------
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
        """Labels of the rows of ``X``; −1 where the estimator names a cluster it had not found."""
        return _renumber(np.asarray(self.estimator.predict(self.transform(X))), self.clusters)


Member = CentroidMember | EstimatorMember


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """The orders for one run.

    Parameters
    ----------
    n_clusters : int
        K_v, the number of clusters asked for.
    scaling : Scaling
    drawn : (n,) bool array or None
        The rows it is fitted on; None is all of them.
    seed : int
    """

    n_clusters: int
    scaling: Scaling
    drawn: npt.NDArray[np.bool_] | None
    seed: int


def fit_run(X: Any, run: Run, clusterer: Any = None) -> tuple[Member, Labels]:
    """Carry out one run; ``clusterer=None`` is one Lloyd k-means from random rows.

    Parameters
    ----------
    X : (n, p) float array or CSR matrix
    run : Run
    clusterer : scikit-learn clusterer or None
        Cloned, never fitted itself.

    Returns
    -------
    member : CentroidMember or EstimatorMember
    labels : (n,) int32 array
        ``member.predict(X)``, with −1 for the rows not drawn and those called noise.

    Examples
    --------
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


class RunsUnderway:
    """:func:`fit_run`, and a count of the runs under way in this process.

    When one run fails, or the user interrupts, runs in other threads go on. :meth:`close`
    waits for them, since they would undo later what is restored then, and the process would
    crash if it ended under them. Runs in other processes are joblib's to end.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._closed = False

    def __reduce__(self) -> tuple[type[RunsUnderway], tuple[()]]:
        return RunsUnderway, ()

    def __call__(self, X: Any, run: Run, clusterer: Any) -> tuple[Member, Labels] | None:
        """The result of the run; None if it was to begin after the end."""
        with self._changed:
            if self._closed:
                return None
            self._count += 1
        try:
            return fit_run(X, run, clusterer)
        finally:
            with self._changed:
                self._count -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Let no run begin any more, and wait for those that have."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: self._count == 0)


def _fit_centroids(X: Any, run: Run) -> tuple[CentroidMember, Labels]:
    Z = run.scaling.transform(_rows(X, run.drawn))
    model = KMeans(
        n_clusters=run.n_clusters,
        init="random",
        n_init=1,
        algorithm="lloyd",
        copy_x=Z is X,  # k-means centres a dense array in place: fine where the view made it
        random_state=run.seed,
    ).fit(Z)
    del Z
    member = CentroidMember(centres=model.cluster_centers_, **vars(run.scaling))
    # Labels come from the member itself, so that fit and predict cannot disagree on a tie.
    labels = member.predict(X)
    used = np.unique(_rows(labels, run.drawn))
    if len(used) < len(member.centres):
        member = replace(member, centres=member.centres[used])
        labels = member.predict(X)
    if run.drawn is not None:
        labels[~run.drawn] = -1
    return member, labels


def _fit_estimator(X: Any, run: Run, clusterer: Any) -> tuple[EstimatorMember, Labels]:
    estimator = clone(clusterer).set_params(**_settings(clusterer, run))
    Z = run.scaling.transform(_rows(X, run.drawn))
    whole = hasattr(estimator, "fit_predict")
    found = np.asarray(estimator.fit_predict(Z) if whole else estimator.fit(Z).labels_)
    if found.shape != (Z.shape[0],) or not np.issubdtype(found.dtype, np.integer):
        raise InvalidParameterError(
            f"it gave labels of shape {found.shape} and type {found.dtype} for {Z.shape[0]} rows; "
            "use a clusterer that gives one integer a row"
        )
    own = np.full(X.shape[0], -1)
    own[slice(None) if run.drawn is None else run.drawn] = found
    if hasattr(estimator, "predict"):
        own = np.where(own < 0, -1, np.asarray(estimator.predict(run.scaling.transform(X))))
    clusters = np.unique(own[own >= 0])
    member = EstimatorMember(estimator=estimator, clusters=clusters, **vars(run.scaling))
    return member, _renumber(own, clusters)


def _settings(clusterer: Any, run: Run) -> dict[str, int]:
    """The parameters of ``clusterer`` a run decides, for those it has."""
    names = clusterer.get_params()
    settings = {
        name: run.seed
        for name in names
        if name == "random_state" or name.endswith("__random_state")
    }
    last = f"{clusterer.steps[-1][0]}__" if isinstance(clusterer, Pipeline) else ""
    if f"{last}n_clusters" in names:
        settings[f"{last}n_clusters"] = run.n_clusters
    return settings


def _renumber(own: npt.NDArray[Any], clusters: npt.NDArray[np.integer[Any]]) -> Labels:
    """The place of each label among ``clusters`` (ascending); −1 where it is not there."""
    place = np.searchsorted(clusters, own).astype(np.int32)
    return np.where(np.isin(own, clusters), place, np.int32(-1))


def _rows(X: Any, drawn: npt.NDArray[np.bool_] | None) -> Any:
    return X if drawn is None else X[drawn]
