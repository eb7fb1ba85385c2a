"""Runs of a scikit-learn clusterer that the user gives."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from coterie.ensembles.members import Member, RowBlock
from coterie.ensembles.nearest_rows import NearestRowMember, renumber
from coterie.ensembles.scalings import Labels, Scaling
from coterie.errors import InvalidParameterError
from coterie.runtime.wording import short_repr

__all__ = ["EstimatorMember", "fit_clusterer", "takes_weights"]


@dataclass(frozen=True, kw_only=True, eq=False)
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
    clusters: npt.NDArray[np.integer[Any]]

    __repr__ = short_repr

    def labels_of(self, block: RowBlock) -> Labels:
        """Return the labels that the estimator predicts; −1 for clusters that no fitted row has."""
        return renumber(np.asarray(self.estimator.predict(self.transform(block.X))), self.clusters)


def fit_clusterer(
    X: Any,
    clusterer: Any,
    n_clusters: int | None,
    seed: int,
    scaling: Scaling,
    rows: npt.NDArray[np.intp] | None,
    sample_weight: Any = None,
) -> tuple[EstimatorMember | NearestRowMember, Labels]:
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
