"""The part of the report on features: tables over all points, and a map of a sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from coterie.consensus.robust.feature_indices import indices_in_words
from coterie.inspection.displays.frames import sample_points
from coterie.inspection.displays.points import plane
from coterie.inspection.report.feature_contrasts import (
    FeatureContrasts,
    feature_contrasts,
    named_features,
)
from coterie.runtime.wording import short_repr

__all__ = [
    "ClusterFeatures",
    "FeatureDifference",
    "FeatureRow",
    "FeaturesPart",
    "PointsMap",
    "features_part",
]

Array = NDArray[np.float64]

#: The most features of the table and of each cluster, clusters with features, and points.
_MOST_FEATURES, _MOST_DIFFERENCES, _MOST_CLUSTERS, _MOST_SHOWN = 100, 6, 30, 2_000


@dataclass(frozen=True)
class FeatureRow:
    """One feature: its separation η², and its mean and standard deviation over all points."""

    name: str
    separation: float
    mean: float
    deviation: float


@dataclass(frozen=True)
class FeatureDifference:
    """A feature in which a cluster differs from the other points, in standard deviations."""

    name: str
    difference: float
    cluster_mean: float
    mean: float


@dataclass(frozen=True)
class ClusterFeatures:
    """The features in which a cluster differs most, by falling absolute difference."""

    cluster: int
    size: int
    features: list[FeatureDifference]


@dataclass(frozen=True, eq=False)
class PointsMap:
    """A sample of s points in the plane: ``coordinates`` (s, 2), clusters, confidences, names."""

    coordinates: Array
    labels: NDArray[np.int64]
    confidence: Array
    names: list[str]
    axis_names: tuple[str, str]
    is_scaled: bool
    total: int

    __repr__ = short_repr


@dataclass(frozen=True)
class FeaturesPart:
    """What tells clusters apart.

    ``rows`` are the features of the largest separation; ``n_features`` and ``n_constant`` count
    all features and those with a single value. ``map`` is None if there is nothing to draw.
    ``indices`` are those of the clusters on features in words; empty if they are unknown.
    """

    n_features: int
    n_constant: int
    rows: list[FeatureRow]
    clusters: list[ClusterFeatures]
    map: PointsMap | None
    indices: str = ""


def features_part(
    estimator: Any,
    X: Any,
    feature_names: Sequence[str] | None,
    row_names: NDArray[np.object_] | None,
) -> FeaturesPart:
    """Compare the clusters of a fitted estimator by the features X of its points.

    >>> from coterie import EvidenceAccumulation
    >>> est = EvidenceAccumulation(2).fit([[0, 0], [0, 0], [1, 1], [1, 1]])
    >>> part = features_part(est, [[0, 5], [0, 4], [3, 5], [3, 4]], ["height", "width"], None)
    >>> [(row.name, row.separation) for row in part.rows]
    [('height', 1.0), ('width', 0.0)]
    """
    X, names = named_features(X, feature_names, len(estimator.labels_))
    contrasts = feature_contrasts(X, estimator.labels_)
    indices = getattr(estimator, "feature_indices_", {})
    return FeaturesPart(
        n_features=len(names),
        n_constant=int((contrasts.deviation == 0).sum()),
        rows=[
            FeatureRow(
                names[j],
                float(contrasts.separation[j]),
                float(contrasts.mean[j]),
                float(contrasts.deviation[j]),
            )
            for j in np.argsort(-contrasts.separation, kind="stable")[:_MOST_FEATURES].tolist()
        ],
        clusters=[]
        if len(contrasts.difference) == 1
        else _differences(estimator, contrasts, names),
        map=_points_map(estimator, X, names, contrasts, row_names),
        indices=indices_in_words(indices) if indices else "",
    )


def _differences(
    estimator: Any, contrasts: FeatureContrasts, names: Sequence[str]
) -> list[ClusterFeatures]:
    """Return the features in which each cluster differs; clusters are numbered by falling size."""
    sizes = np.bincount(estimator.labels_[estimator.labels_ >= 0])
    return [
        ClusterFeatures(
            cluster=b,
            size=int(sizes[b]),
            features=[
                FeatureDifference(
                    names[j],
                    float(contrasts.difference[b, j]),
                    float(contrasts.cluster_mean[b, j]),
                    float(contrasts.mean[j]),
                )
                for j in np.argsort(-np.abs(contrasts.difference[b]), kind="stable").tolist()
                if contrasts.deviation[j] > 0
            ][:_MOST_DIFFERENCES],
        )
        for b in range(min(len(sizes), _MOST_CLUSTERS))
    ]


def _points_map(
    estimator: Any,
    X: Any,
    names: Sequence[str],
    contrasts: FeatureContrasts,
    row_names: NDArray[np.object_] | None,
) -> PointsMap | None:
    """Draw a sample of the points and place them in the plane.

    Up to two features are used as they are. More have different units: they are scaled, and
    projected to two principal components.
    """
    points = sample_points(estimator.labels_, _MOST_SHOWN, 0)
    shown = X[points]
    varying = _varying(shown)
    if len(points) < 3 or len(varying) == 0:
        return None
    shown = shown[:, varying]
    is_scaled = len(varying) > 2
    if is_scaled:
        shown = _scaled(shown, contrasts, varying)
    elif len(varying) == 1:
        values = shown.toarray() if sp.issparse(shown) else shown
        shown = np.column_stack([values[:, 0], points])
    coordinates, axis_names = plane(shown, len(points), 0)
    if not is_scaled:
        axis_names = (names[varying[0]], names[varying[1]] if len(varying) == 2 else "row")
    return PointsMap(
        coordinates=np.asarray(coordinates, dtype=np.float64),
        labels=estimator.labels_[points].astype(np.int64),
        confidence=estimator.confidence_[points],
        names=[str(i) if row_names is None else str(row_names[i]) for i in points.tolist()],
        axis_names=axis_names,
        is_scaled=is_scaled,
        total=len(estimator.labels_),
    )


def _varying(X: Any) -> NDArray[np.int64]:
    """Return the columns with more than one value."""
    low, high = X.min(axis=0), X.max(axis=0)
    if sp.issparse(X):
        low, high = low.toarray().ravel(), high.toarray().ravel()
    return np.flatnonzero(low < high)


def _scaled(X: Any, contrasts: FeatureContrasts, columns: NDArray[np.int64]) -> Any:
    """Return columns of variance 1; dense ones also with mean 0."""
    deviation = contrasts.deviation[columns]
    if sp.issparse(X):
        return (X @ sp.diags_array(1 / deviation)).tocsr()
    return (X - contrasts.mean[columns]) / deviation
