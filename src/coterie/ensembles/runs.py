"""One run of an ensemble: cluster some rows, and keep what is needed to label new rows.

A :class:`Run` holds the settings of one run. Its result is a *member*: a fitted clustering as
arrays, or a fitted scikit-learn clusterer, with the :class:`~.scalings.Scaling` applied before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.ensembles.gaussian_mixtures import MixtureMember, fit_mixture, principal_axes
from coterie.ensembles.given_clusterers import fit_clusterer, takes_weights
from coterie.ensembles.landmark_spectral import (
    LandmarkGraph,
    SpectralMember,
    fit_landmark_spectral,
)
from coterie.ensembles.members import Member
from coterie.ensembles.nearest_rows import CentroidMember, NearestRowMember, fit_centroids, fit_ward
from coterie.ensembles.scalings import Floats, Labels, Scaling
from coterie.errors import InvalidParameterError
from coterie.runtime.devices import on_one_thread
from coterie.runtime.messages import ignore_duplicate_points_warning
from coterie.runtime.wording import short_repr

__all__ = ["MOST_FITTED", "Run", "draw_rows", "fit_rows", "fit_run", "fitted_rows"]

BuiltInMember = CentroidMember | SpectralMember | MixtureMember | NearestRowMember
Rows = npt.NDArray[np.intp]

#: A run of these kinds is fitted to a random sample of at most this many rows.
MOST_FITTED = {
    "kmeans": 200_000,
    "spectral": 10_000,
    "mixture": 4_000,
    "diagonal mixture": 4_000,
    "ward": 2_000,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """Settings of one run.

    ``kind`` is "kmeans", "spectral", "mixture", "diagonal mixture", "ward" or "clusterer".
    ``n_clusters`` is K_v; None leaves it to the clusterer. ``drawn`` (n,) marks the rows that may
    be fitted; None means all. ``axes`` are the principal axes for mixtures, ``graph`` the
    landmarks for spectral runs; None leaves them to the run.
    """

    kind: str
    n_clusters: int | None
    scaling: Scaling
    drawn: npt.NDArray[np.bool_] | None
    seed: int
    clusterer: Any = None
    axes: Floats | None = None
    graph: LandmarkGraph | None = None

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
    rows, weights = fitted_rows(X.shape[0], run, sample_weight)
    with on_one_thread(), ignore_duplicate_points_warning():
        if run.kind == "clusterer":
            member, labels = _fit_given(X, run, rows, weights)
        else:
            member, labels = fit_rows(X if rows is None else X[rows], run, weights)
            if rows is not None:
                labels = member.predict(X)
        if run.drawn is not None:
            labels[~run.drawn] = -1
        return member, labels


def fit_rows(rows: Any, run: Run, weights: Any = None) -> tuple[BuiltInMember, Labels]:
    """Fit a run of a kind of this package to all given rows; return it and their labels.

    The member has only clusters that the rows have.
    """
    with on_one_thread(), ignore_duplicate_points_warning():
        member = _fit_member(run, rows, weights)
        # Labels come from predict, so that fit and predict agree on ties.
        labels = member.predict(rows)
        used = np.unique(labels)
        if len(used) < (run.n_clusters or 1):  # some clusters have no fitted row
            member = member.with_clusters(used)
            labels = member.predict(rows)
        return member, labels


def fitted_rows(n: int, run: Run, sample_weight: Any) -> tuple[Rows | None, Any]:
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


def draw_rows(n: int, most: int, weights: Any, rng: np.random.Generator) -> Rows | None:
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


def _fit_member(run: Run, rows: Any, weights: Any) -> BuiltInMember:
    Z = run.scaling.transform(rows)
    K = min(run.n_clusters or 1, Z.shape[0])
    # One cluster is the same for every kind, and other kinds need two rows.
    if run.kind == "kmeans" or K == 1:
        # k-means centres a dense array in place; it must not change the user's X
        Z = Z.copy() if Z is rows else Z
        return fit_centroids(Z, K, run.seed, run.scaling, weights)
    if run.kind == "spectral":
        return fit_landmark_spectral(Z, K, run.seed, run.scaling, run.graph)
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
