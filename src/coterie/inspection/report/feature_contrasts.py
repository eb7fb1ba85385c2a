"""What tells clusters apart: separation of features, and features in which a cluster differs.

Sums run over all points. Sparse features stay sparse, and dense ones are read by blocks of columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from coterie.ensembles.input_checks import check_features
from coterie.errors import InvalidParameterError
from coterie.multiview.view_input import named_views
from coterie.runtime.wording import short_repr, visible

__all__ = ["FeatureContrasts", "feature_contrasts", "named_features"]

Array = NDArray[np.float64]

#: Values of dense features that are in memory a second time.
_MOST_VALUES = 10**7
#: Squares of larger values could overflow.
_LARGEST_VALUE = 1e150
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class FeatureContrasts:
    """Statistics of p features over the points with a label, by K clusters.

    Attributes
    ----------
    separation : (p,) in [0, 1]
        η², the share of the variance that is between clusters; 0 if the feature is constant.
    difference : (K, p)
        Mean of the cluster minus mean of the other points, in standard deviations of all points;
        0 if the feature is constant or there are no other points.
    cluster_mean : (K, p)
    mean, deviation : (p,)
        Mean and standard deviation of all points.
    """

    separation: Array
    difference: Array
    cluster_mean: Array
    mean: Array
    deviation: Array

    __repr__ = short_repr


def feature_contrasts(X: Any, labels: NDArray[Any]) -> FeatureContrasts:
    """Compute how well each feature separates the clusters, and where each cluster differs.

    With n_b points and mean m_b of cluster b, mean μ and variance σ² of all n points,

        η² = Σ_b n_b (m_b − μ)² / (n σ²),   d_b = (m_b − m_{not b}) / σ.

    Parameters
    ----------
    X : (n, p) array or CSR matrix
    labels : (n,) int
        Clusters 0, 1, … without gaps; points with −1 are left out.

    Examples
    --------
    >>> X = np.array([[0.0, 7.0], [0.0, 7.0], [1.0, 7.0], [1.0, 7.0]])
    >>> found = feature_contrasts(X, np.array([0, 0, 1, 1]))
    >>> found.separation, found.difference[0]
    (array([1., 0.]), array([-2.,  0.]))
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

    Parameters
    ----------
    X : (n, p) array, table or sparse matrix; or list or dict of several views
        The columns of views are placed side by side and named "view: column".
    names : sequence of p str, optional
        By default the names of the columns of X.
    n_points : int
        The number of rows that X must have.
    """
    if _are_views(X):
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
    _refuse_large(X, column_names)
    return X, column_names


def _are_views(X: Any) -> bool:
    if isinstance(X, Mapping):
        return True
    return isinstance(X, list | tuple) and len(X) > 0 and np.ndim(X[0]) > 1


def _column_names(table: Any, p: int) -> list[str]:
    # tables of arrow have column_names, and their columns are the values
    names = getattr(table, "column_names", getattr(table, "columns", None))
    return [f"feature {column}" for column in range(p)] if names is None else list(map(str, names))


def _refuse_large(X: Any, names: Sequence[str]) -> None:
    values = X.data if sp.issparse(X) else X
    if max(values.max(initial=0.0), -values.min(initial=0.0)) <= _LARGEST_VALUE:
        return
    largest = abs(X).max(axis=0)
    largest = largest.toarray().ravel() if sp.issparse(X) else largest
    name = names[int(np.argmax(largest))]
    raise InvalidParameterError(
        f"feature {name!r} has values up to {largest.max():.0e}; divide it so that they are at "
        f"most {_LARGEST_VALUE:.0e}"
    )


# Moments of columns are the mean, a scale, and of (x − mean) / scale: the sum of squares, and the
# sum over each cluster (K, columns). The scale avoids overflow. The sum of squares is exactly 0 for
# a constant column, although its mean is rounded.
_Moments = tuple[Array, Array, Array, Array]


def _dense_moments(X: Array, members: Any) -> Iterator[_Moments]:
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


def _centre_and_scale(mean: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Return the means, exact for constant columns, and the largest distances from them."""
    constant = low == high
    mean = np.where(constant, low, np.clip(mean, low, high))
    return mean, np.where(constant, 1.0, np.maximum(high - mean, mean - low))
