"""What tells clusters apart: separation of features, features of each cluster, a map of the points.

Sums run over all points. Sparse features stay sparse, and dense ones are read by blocks of columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from coterie.arrays import AnyArray, Floats
from coterie.ensembles.input_checks import check_features, names_of_columns
from coterie.errors import InvalidParameterError
from coterie.inspection.displays.points import numbered_features, plane, sample_points
from coterie.multiview.view_input import named_views
from coterie.runtime.wording import visible

#: The most features of the table and of each cluster, clusters with features, and points.
_MOST_FEATURES, _MOST_DIFFERENCES, _MOST_CLUSTERS, _MOST_SHOWN = 100, 6, 30, 2_000
#: Values of dense features that are in memory a second time.
_MOST_VALUES = 10**7
#: Squares of larger values could overflow.
_LARGEST_VALUE = 1e150
_ROUNDING = 1e-13


def features_part(
    estimator: Any,
    X: Any,
    feature_names: Sequence[str] | None,
    row_names: Sequence[Any] | None,
) -> dict[str, Any]:
    """Compare the clusters of a fitted estimator by the features X of its points.

    ``rows`` are the features of the largest separation; each of the ``clusters`` has the features
    in which it differs most from the other points, in standard deviations; ``map`` are points in
    the plane, or None if there is nothing to draw.
    """
    X, names = named_features(X, feature_names, len(estimator.labels_))
    contrasts = feature_contrasts(X, estimator.labels_)
    separation, difference, cluster_mean, mean, deviation = contrasts
    # clusters are numbered by falling size; a single cluster differs from nothing
    sizes = np.bincount(estimator.labels_[estimator.labels_ >= 0]).tolist()
    clusters = []
    for b, size in enumerate(sizes[:_MOST_CLUSTERS] if len(sizes) > 1 else []):
        order = np.argsort(-np.abs(difference[b]), kind="stable")
        listed = [
            {
                "name": names[j],
                "difference": float(difference[b, j]),
                "cluster_mean": float(cluster_mean[b, j]),
                "mean": float(mean[j]),
            }
            for j in order[deviation[order] > 0][:_MOST_DIFFERENCES]
        ]
        clusters.append({"cluster": b, "size": size, "features": listed})
    differences = [abs(one["difference"]) for card in clusters for one in card["features"]]
    return {
        "n_features": len(names),
        "n_constant": int((deviation == 0).sum()),
        "rows": [
            {
                "name": names[j],
                "separation": float(separation[j]),
                "mean": float(mean[j]),
                "deviation": float(deviation[j]),
            }
            for j in np.argsort(-separation, kind="stable")[:_MOST_FEATURES]
        ],
        "clusters": clusters,
        "largest_difference": max(differences, default=0.0) or 1.0,
        "map": _points_map(estimator, X, names, contrasts, row_names),
    }


def _points_map(
    estimator: Any,
    X: Any,
    names: Sequence[str],
    contrasts: FeatureContrasts,
    row_names: Sequence[Any] | None,
) -> dict[str, Any] | None:
    """Place a sample of the points in the plane.

    Up to two features are used as they are. More have different units: they are scaled, and
    projected to two principal components.
    """
    points = sample_points(estimator.labels_, _MOST_SHOWN, 0)
    shown = X[points]
    varying = np.flatnonzero(np.less(*_extremes(shown)))
    if len(points) < 3 or len(varying) == 0:
        return None
    shown, deviation = shown[:, varying], contrasts.deviation[varying]
    if is_scaled := len(varying) > 2:
        if sp.issparse(shown):
            shown = (shown @ sp.diags_array(1 / deviation)).tocsr()
        else:
            shown = (shown - contrasts.mean[varying]) / deviation
    coordinates, axes = plane(shown, len(points), 0)
    if not is_scaled:
        axes = (names[varying[0]], names[varying[1]] if len(varying) == 2 else "row")
        if len(varying) == 1:
            coordinates[:, 1] = points
    return {
        "coordinates": coordinates,
        "cluster": estimator.labels_[points],
        "confidence": estimator.confidence_[points],
        "names": [str(i if row_names is None else row_names[i]) for i in points.tolist()],
        "axes": axes,
        "is_scaled": is_scaled,
        "total": len(estimator.labels_),
    }


class FeatureContrasts(NamedTuple):
    """Statistics of p features over the n points with a label, by K clusters."""

    separation: Floats  # (p,) η² in [0, 1]; 0 if the feature is constant
    difference: Floats  # (K, p) d_b; 0 if the feature is constant or there are no other points
    cluster_mean: Floats  # (K, p)
    mean: Floats  # (p,)
    deviation: Floats  # (p,)


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
            for column in names_of_columns(table) or numbered_features(views[view].shape[1])
        ]
        stack = sp.hstack if any(map(sp.issparse, views.values())) else np.hstack
        X = stack(list(views.values()))
    else:
        table, X = X, check_features(X, "X")
        column_names = names_of_columns(table) or numbered_features(X.shape[1])
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
    low, high = _extremes(X)
    largest = np.maximum(high, -low)
    if largest.max() > _LARGEST_VALUE:
        name = column_names[int(np.argmax(largest))]
        raise InvalidParameterError(
            f"feature {name!r} has values up to {largest.max():.0e}; divide it so that they are at "
            f"most {_LARGEST_VALUE:.0e}"
        )
    return X, column_names


# Moments of columns are the mean, a scale, and of (x − mean) / scale: the sum of squares, and the
# sum over each cluster (K, columns). The scale avoids overflow. The sum of squares is exactly 0 for
# a constant column, although its mean is rounded.
_Moments = tuple[Floats, Floats, Floats, Floats]


def _dense_moments(X: Floats, members: Any) -> Iterator[_Moments]:
    step = max(_MOST_VALUES // len(X), 1)
    for start in range(0, X.shape[1], step):
        block = X[:, start : start + step].astype(np.float64)
        mean, scale = _centre_and_scale(block.mean(axis=0), *_extremes(block))
        block = (block - mean) / scale
        yield mean, scale, (block**2).sum(axis=0), members @ block


def _sparse_moments(X: Any, members: Any) -> Iterator[_Moments]:
    n, p = X.shape
    X = X.astype(np.float64)
    stored = np.bincount(X.indices, minlength=p)
    low, high = _extremes(X)
    mean, scale = _centre_and_scale(np.asarray(X.mean(axis=0)).ravel(), low, high)
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


def _extremes(X: Any) -> tuple[Floats, Floats]:
    """Return the least and the largest value of each column, dense or CSR."""
    low, high = X.min(axis=0), X.max(axis=0)
    return (low.toarray().ravel(), high.toarray().ravel()) if sp.issparse(X) else (low, high)
