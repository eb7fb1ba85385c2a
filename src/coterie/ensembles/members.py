"""Members of an ensemble: fitted clusterings that label blocks of rows.

What several members compute from a block is computed only once. The members of k-means, of Ward's
linkage and of clusterers that the user gives are here; the other kinds have modules of their own.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import AgglomerativeClustering, KMeans, MiniBatchKMeans
from sklearn.metrics import pairwise_distances_argmin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from coterie.arrays import AnyArray
from coterie.ensembles.scalings import Scaling, largest_coordinate, row_blocks
from coterie.errors import InvalidParameterError

#: Number of results that a block remembers. Runs on different columns share none of them.
_MOST_KEPT = 6
#: Up to this number of rows k-means uses all of them in every step, above it batches of rows.
MOST_LLOYD = 50_000
_BATCH_ROWS = 4_096


class RowBlock:
    """Some rows of the features X, with a memory of what was computed from them.

    >>> block = RowBlock(np.ones((2, 3)))
    >>> float(block.once(lambda X, times: X.sum() * times, block.X, 2.0))
    12.0
    """

    def __init__(self, X: Any) -> None:
        self.X = X
        self._kept: list[tuple[Any, tuple[Any, ...], Any]] = []

    def once(self, compute: Callable[..., Any], *parts: Any) -> Any:
        """Return ``compute(*parts)``, or the result of an earlier call with equal parts.

        The results that were used last are kept. Parts are compared by value: members that were
        fitted in other processes hold equal copies of what they share.
        """
        for place, (known, arguments, result) in enumerate(self._kept):
            if known is compute and all(map(_equal, arguments, parts)):
                self._kept.append(self._kept.pop(place))
                return result
        result = compute(*parts)
        self._kept = [*self._kept[1 - _MOST_KEPT :], (compute, parts, result)]
        return result


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Member(Scaling):
    """A fitted clustering, with the scaling that is applied before it."""

    def predict(self, X: Any) -> AnyArray:
        """Return labels of the rows of ``X``, from 0 to K_v − 1; −1 is noise."""
        return label_rows([self], X)[:, 0]

    @abstractmethod
    def labels_of(self, block: RowBlock) -> AnyArray:
        """Return labels of the rows of a block, as :meth:`predict` does."""

    def coordinates(self, block: RowBlock, dtype: Any) -> Any:
        """Return Z of a block in a float type; refuse rows whose squared distances overflow."""
        return block.once(
            _coordinates, block.X, self.features, self.shift, self.scale, np.dtype(dtype)
        )


def label_rows(members: Sequence[Member], X: Any, dtype: Any = np.int32) -> AnyArray:
    """Return the labels (n, V) of rows by V members, computed by blocks of rows.

    What members share, such as landmarks or principal axes, is computed once for each block.
    """
    labels = np.empty((X.shape[0], len(members)), dtype=dtype)
    for rows in row_blocks(*X.shape):
        block = RowBlock(X[rows])
        for column, member in enumerate(members):
            labels[rows, column] = member.labels_of(block)
    return labels


def _coordinates(X: Any, features: Any, shift: Any, scale: Any, dtype: Any) -> Any:
    with np.errstate(over="ignore"):  # such rows are refused below
        Z = Scaling(features=features, shift=shift, scale=scale).transform(
            X.astype(dtype, copy=False)
        )
    values, limit = Z.data if sp.issparse(Z) else Z, largest_coordinate(Z)
    if values.size == 0 or (-limit <= values.min() and values.max() <= limit):
        return Z
    first = int(np.argmax(~(abs(values) <= limit)))
    row = np.searchsorted(Z.indptr, first, "right") - 1 if sp.issparse(Z) else first // Z.shape[1]
    raise InvalidParameterError(
        f"row {row} of X has values so large that squared distances overflow in {Z.dtype}; "
        "correct that row, or rescale the columns of X before fitting"
    )


def _equal(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    # sparse landmarks are compared only by identity
    simple = (int, float, np.dtype)
    return isinstance(one, simple) and isinstance(other, simple) and bool(one == other)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CentroidMember(Member):
    """A fitted k-means run: the label of x is the index of the nearest row of ``centres``.

    ``centres`` (K_v, q) are in the coordinates of the scaling; each is nearest to some fitted row.

    >>> import numpy as np
    >>> member = CentroidMember(centres=np.array([[0.0], [4.0]]))
    >>> member.predict(np.array([[1.0], [3.0]]))
    array([0, 1], dtype=int32)
    """

    centres: AnyArray

    def labels_of(self, block: RowBlock) -> AnyArray:
        """Return the index of the nearest centre of each row."""
        Z = self.coordinates(block, self.centres.dtype)
        return pairwise_distances_argmin(Z, self.centres).astype(np.int32)

    def with_clusters(self, kept: AnyArray) -> Self:
        """Return the same run with some of its clusters only."""
        return replace(self, centres=self.centres[kept])


def fit_centroids(
    Z: Any, n_clusters: int, seed: int, scaling: Scaling, sample_weight: Any = None
) -> CentroidMember:
    """Run k-means once, from random rows of Z (n, q), and return its centres.

    Up to 50,000 rows it is Lloyd's, above it mini-batch k-means. Z is overwritten.
    """
    settings = {"n_clusters": n_clusters, "init": "random", "n_init": 1, "random_state": seed}
    if Z.shape[0] <= MOST_LLOYD:
        model = KMeans(algorithm="lloyd", copy_x=False, **settings)
    else:
        model = MiniBatchKMeans(batch_size=_BATCH_ROWS, **settings)
    model.fit(Z, sample_weight=sample_weight)
    return CentroidMember(centres=model.cluster_centers_, **vars(scaling))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NearestRowMember(Member):
    """Fitted rows (s, q), in the coordinates of the scaling, and their labels (s,).

    >>> import numpy as np
    >>> rows, labels = np.array([[0.0], [1.0], [5.0]]), np.array([0, 0, 1], dtype=np.int32)
    >>> NearestRowMember(rows=rows, row_labels=labels).predict(np.array([[0.8], [4.0]]))
    array([0, 1], dtype=int32)
    """

    rows: Any
    row_labels: AnyArray

    def labels_of(self, block: RowBlock) -> AnyArray:
        """Return the label of the nearest fitted row of each row; −1 if that is noise."""
        Z = self.coordinates(block, self.rows.dtype)
        return self.row_labels[pairwise_distances_argmin(Z, self.rows)]

    def with_clusters(self, kept: AnyArray) -> Self:
        """Return the same run with some of its clusters only."""
        return replace(self, row_labels=renumber(self.row_labels, kept))


def fit_ward(Z: Any, n_clusters: int, scaling: Scaling) -> NearestRowMember:
    """Cluster the rows of Z (n, q) by Ward's linkage, in time and memory O(n²)."""
    dense = Z.toarray() if hasattr(Z, "toarray") else Z
    labels = AgglomerativeClustering(n_clusters).fit_predict(dense)
    return NearestRowMember(rows=Z, row_labels=labels.astype(np.int32), **vars(scaling))


def renumber(labels: AnyArray, clusters: AnyArray) -> AnyArray:
    """Return the index of each label in ``clusters`` (increasing), or −1 if it is not there.

    >>> renumber(np.array([7, 2, -1, 7]), np.array([2, 7]))
    array([ 1,  0, -1,  1], dtype=int32)
    """
    index = np.searchsorted(clusters, labels).astype(np.int32)
    return np.where(np.isin(labels, clusters), index, np.int32(-1))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class EstimatorMember(Member):
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
    clusters: AnyArray

    def labels_of(self, block: RowBlock) -> AnyArray:
        """Return the labels that the estimator predicts; −1 for clusters that no fitted row has."""
        return renumber(np.asarray(self.estimator.predict(self.transform(block.X))), self.clusters)


def fit_clusterer(
    X: Any,
    clusterer: Any,
    n_clusters: int | None,
    seed: int,
    scaling: Scaling,
    rows: AnyArray | None,
    sample_weight: Any = None,
) -> tuple[Member, AnyArray]:
    """Fit a clone of the clusterer to some rows of X (None: all); return it and all labels (n,).

    If the clusterer has a ``predict``, the labels are those that it predicts, so that equal new
    rows get equal labels. Otherwise rows that are not fitted get the label of the nearest fitted
    row. Noise is −1.
    """
    estimator = clone(clusterer).set_params(**run_parameters(clusterer, n_clusters, seed))
    Z = scaling.transform(X if rows is None else X[rows])
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    fitted_labels = np.asarray(estimator.fit_predict(Z, **weights))
    if fitted_labels.shape != (Z.shape[0],) or not np.issubdtype(fitted_labels.dtype, np.integer):
        raise InvalidParameterError(
            f"its labels have shape {fitted_labels.shape} and type {fitted_labels.dtype} for "
            f"{Z.shape[0]} rows; use a clusterer that gives one integer for each row"
        )
    member: EstimatorMember | NearestRowMember
    if not hasattr(estimator, "predict"):
        if rows is not None:  # rows can be drawn several times
            rows, first = np.unique(rows, return_index=True)
            Z, fitted_labels = Z[first], fitted_labels[first]
        fitted = renumber(fitted_labels, np.unique(fitted_labels[fitted_labels >= 0]))
        member = NearestRowMember(rows=Z, row_labels=fitted, **vars(scaling))
        if rows is None:
            return member, fitted
        labels = member.predict(X)
        labels[rows] = fitted
        return member, labels
    predicted = np.asarray(estimator.predict(scaling.transform(X)))
    noise = np.flatnonzero(fitted_labels < 0)
    predicted[noise if rows is None else rows[noise]] = -1
    clusters = np.unique(predicted[predicted >= 0] if rows is None else predicted[rows])
    clusters = clusters[clusters >= 0]
    member = EstimatorMember(estimator=estimator, clusters=clusters, **vars(scaling))
    return member, renumber(predicted, clusters)


def run_parameters(clusterer: Any, n_clusters: int | None, seed: int) -> dict[str, int]:
    """Return the parameters that a run sets: every ``random_state``, and the number of clusters.

    That is ``n_clusters`` or, for mixtures, ``n_components``; in a pipeline, of the last step. It
    is set only if it has its default value: another number was chosen by the user.

    >>> from sklearn.mixture import GaussianMixture
    >>> run_parameters(GaussianMixture(), 3, 7), run_parameters(GaussianMixture(5), 3, 7)
    ({'random_state': 7, 'n_components': 3}, {'random_state': 7})
    """
    values = clusterer.get_params()
    settings = {
        name: seed for name in values if name == "random_state" or name.endswith("__random_state")
    }
    last, prefix = clusterer, ""
    if isinstance(clusterer, Pipeline):
        prefix, last = f"{clusterer.steps[-1][0]}__", clusterer.steps[-1][1]
    defaults = inspect.signature(type(last)).parameters
    # spectral clusterings have both; there n_components is the dimension of the embedding
    numbers = [n for n in ("n_clusters", "n_components") if prefix + n in values and n in defaults]
    if numbers and n_clusters is not None:
        name = numbers[0]
        if values[prefix + name] == defaults[name].default:
            settings[prefix + name] = n_clusters
    return settings


def takes_weights(clusterer: Any) -> bool:
    """Return whether the clusterer has weights of rows.

    ``fit_predict`` of scikit-learn's ClusterMixin passes all keywords on to ``fit``.

    >>> from sklearn.cluster import DBSCAN, Birch
    >>> takes_weights(DBSCAN()), takes_weights(Birch())
    (True, False)
    """
    keywords = inspect.signature(clusterer.fit_predict).parameters.values()
    passes_on = any(keyword.kind is keyword.VAR_KEYWORD for keyword in keywords)
    named = any(keyword.name == "sample_weight" for keyword in keywords)
    return named or (passes_on and has_fit_parameter(clusterer, "sample_weight"))
