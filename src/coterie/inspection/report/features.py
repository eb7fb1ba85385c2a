"""What tells clusters apart: separation of features, features of each cluster, a map of the points.

Sums run over all points. Sparse features stay sparse, and dense ones are read by blocks of columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from coterie.arrays import AnyArray, Floats, Ints
from coterie.ensembles.input_checks import check_features
from coterie.errors import InvalidParameterError
from coterie.inspection.displays.points import plane, sample_points
from coterie.multiview.view_input import named_views
from coterie.runtime.wording import short_repr, visible

#: The most features of the table and of each cluster, clusters with features, and points.
_MOST_FEATURES, _MOST_DIFFERENCES, _MOST_CLUSTERS, _MOST_SHOWN = 100, 6, 30, 2_000
#: Values of dense features that are in memory a second time.
_MOST_VALUES = 10**7
#: Squares of larger values could overflow.
_LARGEST_VALUE = 1e150
_ROUNDING = 1e-13


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

    coordinates: Floats
    labels: Ints
    confidence: Floats
    names: list[str]
    axis_names: tuple[str, str]
    is_scaled: bool
    total: int

    __repr__ = short_repr

    def as_json(self) -> dict[str, Any]:
        """Return coordinates from 0 to 1, clusters, confidences and names."""
        span = np.ptp(self.coordinates, axis=0)
        share = (self.coordinates - self.coordinates.min(axis=0)) / np.where(span > 0, span, 1.0)
        return {
            "x": share[:, 0].round(4).tolist(),
            "y": share[:, 1].round(4).tolist(),
            "cluster": self.labels.tolist(),
            "confidence": self.confidence.round(3).tolist(),
            "names": self.names,
            "axes": self.axis_names,
        }


@dataclass(frozen=True)
class FeaturesPart:
    """What tells clusters apart."""

    n_features: int
    n_constant: int  # features with a single value
    rows: list[FeatureRow]  # the features of the largest separation
    clusters: list[ClusterFeatures]
    map: PointsMap | None  # None if there is nothing to draw


def features_part(
    estimator: Any,
    X: Any,
    feature_names: Sequence[str] | None,
    row_names: AnyArray | None,
) -> FeaturesPart:
    """Compare the clusters of a fitted estimator by the features X of its points."""
    X, names = named_features(X, feature_names, len(estimator.labels_))
    contrasts = feature_contrasts(X, estimator.labels_)
    mean, deviation = contrasts.mean, contrasts.deviation
    first = np.argsort(-contrasts.separation, kind="stable")[:_MOST_FEATURES].tolist()
    # clusters are numbered by falling size; a single cluster differs from nothing
    sizes = np.bincount(estimator.labels_[estimator.labels_ >= 0]).tolist()
    clusters = []
    for b, size in enumerate(sizes[:_MOST_CLUSTERS] if len(sizes) > 1 else []):
        own, own_mean = contrasts.difference[b], contrasts.cluster_mean[b]
        order = np.argsort(-np.abs(own), kind="stable")
        order = order[deviation[order] > 0][:_MOST_DIFFERENCES]
        differences = [
            FeatureDifference(names[j], float(own[j]), float(own_mean[j]), float(mean[j]))
            for j in order.tolist()
        ]
        clusters.append(ClusterFeatures(b, size, differences))
    return FeaturesPart(
        n_features=len(names),
        n_constant=int((deviation == 0).sum()),
        rows=[
            FeatureRow(
                names[j], float(contrasts.separation[j]), float(mean[j]), float(deviation[j])
            )
            for j in first
        ],
        clusters=clusters,
        map=_points_map(estimator, X, names, contrasts, row_names),
    )


def _points_map(
    estimator: Any,
    X: Any,
    names: Sequence[str],
    contrasts: FeatureContrasts,
    row_names: AnyArray | None,
) -> PointsMap | None:
    """Draw a sample of the points and place them in the plane.

    Up to two features are used as they are. More have different units: they are scaled, and
    projected to two principal components.
    """
    points = sample_points(estimator.labels_, _MOST_SHOWN, 0)
    shown = X[points]
    low, high = shown.min(axis=0), shown.max(axis=0)
    if sp.issparse(shown):
        low, high = low.toarray().ravel(), high.toarray().ravel()
    varying = np.flatnonzero(low < high)
    if len(points) < 3 or len(varying) == 0:
        return None
    shown = shown[:, varying]
    is_scaled = len(varying) > 2
    deviation = contrasts.deviation[varying]
    if is_scaled and sp.issparse(shown):
        shown = (shown @ sp.diags_array(1 / deviation)).tocsr()
    elif is_scaled:
        shown = (shown - contrasts.mean[varying]) / deviation
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


@dataclass(frozen=True, eq=False)
class FeatureContrasts:
    """Statistics of p features over the n points with a label, by K clusters."""

    separation: Floats  # (p,) η² in [0, 1]; 0 if the feature is constant
    difference: Floats  # (K, p) d_b; 0 if the feature is constant or there are no other points
    cluster_mean: Floats  # (K, p)
    mean: Floats  # (p,)
    deviation: Floats  # (p,)

    __repr__ = short_repr


def feature_contrasts(X: Any, labels: AnyArray) -> FeatureContrasts:
    """Compute how well each feature separates the clusters, and where each cluster differs.

    With n_b points and mean m_b of cluster b, mean μ and variance σ² of all n points with a label,

        η² = Σ_b n_b (m_b − μ)² / (n σ²),   d_b = (m_b − m_{not b}) / σ.
    """
    labelled = labels >= 0
    if not labelled.all():
        X, labels = X[labelled], labels[labelled]
    sizes = np.bincount(labels).astype(np.float64)
    n = len(labels)
    members = sp.csr_array((np.ones(n), (labels, np.arange(n))), shape=(len(sizes), n))
    parts = _sparse_moments(X, members) if sp.issparse(X) else _dense_moments(X, members)
    mean, scale, square, offset = (
        np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)
    )
    offset /= sizes[:, None]
    varies = square > 0
    total = np.where(varies, square, 1.0)
    separation = np.where(varies, np.clip(sizes @ offset**2 / total, 0, 1), 0.0)
    # m_b − m_{not b} = (m_b − μ) n / (n − n_b)
    others = np.divide(n, n - sizes, out=np.zeros_like(sizes), where=sizes < n)
    deviation = np.sqrt(square / n)
    difference = offset * others[:, None] / np.where(varies, deviation, 1.0)
    cluster_mean = mean + scale * offset
    # a mean of 0 is the difference of two equal numbers, but for rounding
    cluster_mean[np.abs(cluster_mean) < _ROUNDING * (np.abs(mean) + scale)] = 0.0
    return FeatureContrasts(separation, difference, cluster_mean, mean, scale * deviation)


def named_features(X: Any, names: Sequence[str] | None, n_points: int) -> tuple[Any, list[str]]:
    """Return features (n, p), dense or CSR, and the names of their columns, both checked.

    The columns of several views are placed next to each other and named "view: column".
    """
    several = isinstance(X, list | tuple) and len(X) > 0 and np.ndim(X[0]) > 1
    if several or isinstance(X, Mapping):
        views = named_views(X)
        given = list(X.values()) if isinstance(X, Mapping) else X
        column_names = [
            f"{view}: {column}"
            for view, table in zip(views, given, strict=True)
            for column in _column_names(table, views[view].shape[1])
        ]
        stack = sp.hstack if any(map(sp.issparse, views.values())) else np.hstack
        X = stack(list(views.values()))
    else:
        table, X = X, check_features(X, "X")
        column_names = _column_names(table, X.shape[1])
    if sp.issparse(X):
        X = X.tocsr()
        X.sum_duplicates()
    if X.shape[0] != n_points:
        raise InvalidParameterError(
            f"X has {X.shape[0]} rows, but the estimator has labels of {n_points} points; give the "
            "points that it was fitted on"
        )
    if names is not None and len(names) != X.shape[1]:
        raise InvalidParameterError(
            f"feature_names has {len(names)} entries for {X.shape[1]} features; give one name per "
            "feature"
        )
    column_names = [visible(str(name)) for name in (column_names if names is None else names)]
    values = X.data if sp.issparse(X) else X
    if max(values.max(initial=0.0), -values.min(initial=0.0)) > _LARGEST_VALUE:
        largest = abs(X).max(axis=0)
        largest = largest.toarray().ravel() if sp.issparse(X) else largest
        name = column_names[int(np.argmax(largest))]
        raise InvalidParameterError(
            f"feature {name!r} has values up to {largest.max():.0e}; divide it so that they are at "
            f"most {_LARGEST_VALUE:.0e}"
        )
    return X, column_names


def _column_names(table: Any, p: int) -> list[str]:
    # tables of arrow have column_names, and their columns are the values
    names = getattr(table, "column_names", getattr(table, "columns", None))
    return [f"feature {column}" for column in range(p)] if names is None else list(map(str, names))


# Moments of columns are the mean, a scale, and of (x − mean) / scale: the sum of squares, and the
# sum over each cluster (K, columns). The scale avoids overflow. The sum of squares is exactly 0 for
# a constant column, although its mean is rounded.
_Moments = tuple[Floats, Floats, Floats, Floats]


def _dense_moments(X: Floats, members: Any) -> Iterator[_Moments]:
    step = max(_MOST_VALUES // len(X), 1)
    for start in range(0, X.shape[1], step):
        block = X[:, start : start + step].astype(np.float64)
        mean, low, high = block.mean(axis=0), block.min(axis=0), block.max(axis=0)
        mean, scale = _centre_and_scale(mean, low, high)
        block = (block - mean) / scale
        yield mean, scale, (block**2).sum(axis=0), members @ block


def _sparse_moments(X: Any, members: Any) -> Iterator[_Moments]:
    n, p = X.shape
    X = X.astype(np.float64)
    stored = np.bincount(X.indices, minlength=p)
    mean = np.asarray(X.mean(axis=0)).ravel()
    low, high = (edge(axis=0).toarray().ravel() for edge in (X.min, X.max))
    mean, scale = _centre_and_scale(mean, low, high)
    shift = mean / scale
    entries = X.data / scale[X.indices]
    square = np.bincount(X.indices, (entries - shift[X.indices]) ** 2, p) + (n - stored) * shift**2
    square[low == high] = 0.0
    sizes = np.asarray(members.sum(axis=1)).ravel()
    offset = (members @ X).toarray() / scale - np.outer(sizes, shift)
    offset[:, low == high] = 0.0
    yield mean, scale, square, offset


def _centre_and_scale(mean: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the means, exact for constant columns, and the largest distances from them."""
    constant = low == high
    mean = np.where(constant, low, np.clip(mean, low, high))
    return mean, np.where(constant, 1.0, np.maximum(high - mean, mean - low))
