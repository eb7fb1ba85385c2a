"""One run of an ensemble: cluster some rows, and keep what is needed to label new rows.

A :class:`Run` holds the settings of one run. Its result is a *member*: a fitted clustering as
arrays, or a fitted scikit-learn clusterer, with the :class:`~.scalings.Scaling` applied before it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.ensembles.centroids import CentroidMember, fit_centroids
from coterie.ensembles.gaussian_mixtures import MixtureMember, fit_mixture, principal_axes
from coterie.ensembles.given_clusterers import EstimatorMember, fit_clusterer, takes_weights
from coterie.ensembles.landmark_spectral import SpectralMember, fit_landmark_spectral
from coterie.ensembles.nearest_rows import NearestRowMember, fit_ward
from coterie.ensembles.scalings import Floats, Labels, Scaling
from coterie.errors import InvalidParameterError
from coterie.runtime.devices import on_one_thread
from coterie.runtime.short_reprs import short_repr
from coterie.runtime.user_warnings import ignore_duplicate_points_warning

__all__ = ["MOST_FITTED", "Member", "Run", "RunQueue", "fit_run", "predict_rows"]

BuiltInMember = CentroidMember | SpectralMember | MixtureMember | NearestRowMember
Member = BuiltInMember | EstimatorMember
Rows = npt.NDArray[np.intp]

#: A run of these kinds is fitted to a random sample of at most this many rows.
MOST_FITTED = {"spectral": 10_000, "mixture": 4_000, "diagonal mixture": 4_000, "ward": 2_000}
_ROWS_PER_BLOCK = 1 << 16


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """Settings of one run.

    ``kind`` is "kmeans", "spectral", "mixture", "diagonal mixture", "ward" or "clusterer".
    ``n_clusters`` is K_v; None leaves it to the clusterer. ``drawn`` (n,) marks the rows that may
    be fitted; None means all. ``axes`` are the principal axes for mixtures.
    """

    kind: str
    n_clusters: int | None
    scaling: Scaling
    drawn: npt.NDArray[np.bool_] | None
    seed: int
    clusterer: Any = None
    axes: Floats | None = None

    __repr__ = short_repr


def fit_run(X: Any, run: Run, sample_weight: Any = None) -> tuple[Member, Labels]:
    """Cluster the rows of ``X`` once.

    The labels (n,) are those of ``member.predict(X)``, with −1 for rows that were not drawn and
    for noise. Rows have weights in k-means, and in clusterers that know them. Elsewhere rows are
    drawn with probabilities proportional to their weights.

    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [9.0]])
    >>> run = Run(kind="kmeans", n_clusters=2, scaling=Scaling(), drawn=None, seed=0)
    >>> member, labels = fit_run(X, run)
    >>> member.centres.shape, bool(labels[0] == labels[1] != labels[2])
    ((2, 1), True)
    """
    with on_one_thread(), ignore_duplicate_points_warning():
        rows, weights = _fitted_rows(X.shape[0], run, sample_weight)
        if run.kind == "clusterer":
            member, labels = _fit_given(X, run, rows, weights)
        else:
            member, labels = _fit_kind(X, run, rows, weights)
        if run.drawn is not None:
            labels[~run.drawn] = -1
        return member, labels


def predict_rows(member: Member, X: Any) -> Labels:
    """Return the labels of the rows of ``X``, computed by blocks of rows."""
    n = X.shape[0]
    if n <= _ROWS_PER_BLOCK:
        return member.predict(X)
    blocks = range(0, n, _ROWS_PER_BLOCK)
    return np.concatenate([member.predict(X[a : a + _ROWS_PER_BLOCK]) for a in blocks])


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

    def __call__(self, X: Any, run: Run, sample_weight: Any) -> tuple[Member, Labels] | None:
        """Return the result of the run, or None if the queue is closed."""
        with self._changed:
            if self._closed:
                return None
            self._n_running += 1
        try:
            return fit_run(X, run, sample_weight)
        finally:
            with self._changed:
                self._n_running -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Refuse further runs, and wait for the running ones."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: self._n_running == 0)


def _fit_kind(X: Any, run: Run, rows: Rows | None, weights: Any) -> tuple[Member, Labels]:
    """Fit a run of a kind of this package to the given rows; keep the clusters that they have."""
    member = _fit_member(run, X if rows is None else X[rows], weights)
    # Labels come from predict, so that fit and predict agree on ties.
    labels = predict_rows(member, X)
    used = np.unique(labels if rows is None else labels[rows])
    if len(used) < (run.n_clusters or 1):  # some clusters have no fitted row
        member = member.with_clusters(used)
        labels = predict_rows(member, X)
    return member, labels


def _fit_member(run: Run, rows: Any, weights: Any) -> BuiltInMember:
    Z = run.scaling.transform(rows)
    K = min(run.n_clusters or 1, Z.shape[0])
    # One cluster is the same for every kind, and other kinds need two rows.
    if run.kind == "kmeans" or K == 1:
        # k-means centres a dense array in place; it must not change the user's X
        Z = Z.copy() if Z is rows else Z
        return fit_centroids(Z, K, run.seed, run.scaling, weights)
    if run.kind == "spectral":
        return fit_landmark_spectral(Z, K, run.seed, run.scaling)
    if run.kind == "ward":
        return fit_ward(Z, K, run.scaling)
    covariance = "full" if run.kind == "mixture" else "diag"
    axes = principal_axes(Z, run.seed) if run.axes is None else run.axes
    return fit_mixture(Z, K, run.seed, run.scaling, axes, covariance)


def _fit_given(X: Any, run: Run, rows: Rows | None, weights: Any) -> tuple[Member, Labels]:
    given = (run.clusterer, run.n_clusters, run.seed, run.scaling)
    try:
        return fit_clusterer(X, *given, rows, weights)
    except ValueError as error:
        raise InvalidParameterError(
            f"ensemble: {run.clusterer!r} failed with n_clusters={run.n_clusters}: {error}"
        ) from error


def _fitted_rows(n: int, run: Run, sample_weight: Any) -> tuple[Rows | None, Any]:
    """Return the rows to fit (None: all), and their weights if the run can use weights."""
    weighs = run.kind == "kmeans" or (run.kind == "clusterer" and takes_weights(run.clusterer))
    drawn = None if run.drawn is None else np.flatnonzero(run.drawn)
    weights = sample_weight if drawn is None or sample_weight is None else sample_weight[drawn]
    if weights is not None and not weights.any():
        raise InvalidParameterError(
            f"sample_weight is 0 for all {len(weights)} rows of a sample; raise subsample, or "
            "leave out rows of weight 0"
        )
    if weights is not None and weighs:
        places = np.flatnonzero(weights)
        return places if drawn is None else drawn[places], weights[places]
    count = n if drawn is None else len(drawn)
    most = min(count, MOST_FITTED.get(run.kind, count))
    rng = np.random.default_rng(run.seed)
    if weights is not None:
        # equal steps through the cumulative weights: row i is drawn most · w_i / Σw times, ± 1
        steps = (np.arange(most) + rng.random()) / most * weights.sum()
        places = np.minimum(np.searchsorted(np.cumsum(weights), steps, "right"), count - 1)
        return places if drawn is None else drawn[places], None
    if most < count:
        places = np.sort(rng.permutation(count)[:most])
        return places if drawn is None else drawn[places], None
    return drawn, None
