"""The one contract of all consensus functions: labels in, one partition out, new rows by vote.

A consensus function is a scikit-learn clusterer whose ``X`` is a label matrix P (n, V). It says how
tuples get their labels (:meth:`ConsensusFunction._label_tuples`); reading labels, compression,
numbering, confidence, the objective and ``predict`` are the same for all and live here.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from coterie import label_tuple_kernels
from coterie.cluster_tables import ClusterTables
from coterie.coassociation_matrix import check_partition_weights
from coterie.errors import InvalidLabelsError, InvalidParameterError, TooManyPointsError
from coterie.label_tuples import LabelTuples, compress_labels
from coterie.labels import LabelMatrix, as_label_matrix, encode_like
from coterie.numbering import by_falling_size

__all__ = ["ConsensusFunction", "Labelling", "check_n_clusters", "check_size"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Labelling:
    """What a method hands over: labels of the tuples, weights of the partitions, threshold τ.

    ``partition_weights`` is in the order of the tuples' columns.
    """

    labels: NDArray[np.int64]
    partition_weights: Array
    threshold: float = 0.5


class ConsensusFunction(ClusterMixin, BaseEstimator):
    """Base of the consensus functions; see the module for the contract."""

    n_clusters: int | None
    partition_weights: Any
    labels_: NDArray[np.int32]

    def fit(
        self,
        P: Any,
        y: Any = None,  # noqa: ARG002 (y is scikit-learn's convention)
        sample_weight: Any = None,
    ) -> Self:
        """Find the consensus of the partitions in the columns of P.

        Parameters
        ----------
        P : (n, V) labels
            Array, list of rows, or pandas, polars or arrow table. Any names of labels; −1,
            NaN, None or a blank where a point has no label.
        y : ignored
        sample_weight : (n,) numbers, optional
            How many points each row stands for; one each by default. Rows of weight 0 have no
            say, and get the label that ``predict`` gives them.
        """
        matrix = as_label_matrix(P)
        weights = _checked_row_weights(sample_weight, matrix.n_points)
        silent = None if weights is None or weights.all() else weights == 0
        if weights is not None and silent is not None:
            matrix, weights = matrix.rows(~silent), weights[~silent]
            _refuse_unlabelled_partitions(matrix)
        tuples = compress_labels(matrix, weights)
        self._vocabulary = matrix.without_rows()
        del matrix  # as large as the input, and no longer needed
        self._finish(tuples, self._label_tuples(tuples))
        if silent is not None:
            self.labels_, self.confidence_ = self.predict(P, return_confidence=True)
        return self

    def predict(self, P: Any, return_confidence: bool = False) -> Any:
        """Labels of points from the labels the fitted partitions give them.

        A tuple seen in ``fit`` gets the label it got there. A new one joins the cluster with
        the largest gain of the objective, the fitted tables unchanged: O(V·K) a point. Labels
        that ``fit`` has not seen count as missing; a row of nothing but those gets −1. A row
        that only partitions without a vote label follows these, with confidence 0.

        Parameters
        ----------
        P : (n', V) labels, columns as in ``fit``
        return_confidence : bool
            Also return the confidence of each label, as ``confidence_`` has it.
        """
        check_is_fitted(self)
        codes = self._tuples.columns_of(encode_like(P, self._vocabulary))
        known = _labels_of_known(codes, self._tuples.codes, self._tuple_labels)
        labels, confidence = self._tables.assign(codes, self.threshold_, known)
        voiceless = (labels < 0) & (codes >= 0).any(axis=1)
        if voiceless.any():
            labels[voiceless] = _by_all_votes(self._tables, codes[voiceless], self.threshold_)
        labels = labels.astype(np.int32)
        return (labels, confidence) if return_confidence else labels

    def _checked_settings(self, tuples: LabelTuples) -> tuple[int, Array]:
        """K, and the partition weights in the order of the tuples' columns, both checked."""
        weights = check_partition_weights(self.partition_weights, tuples.n_partitions)
        return check_n_clusters(self.n_clusters, tuples), weights[tuples.partition_order]

    @abstractmethod
    def _label_tuples(self, tuples: LabelTuples) -> Labelling:
        """Labels of the distinct tuples."""

    def _finish(self, tuples: LabelTuples, found: Labelling) -> None:
        """Number the clusters by falling size and set the attributes all methods share."""
        labels = _settle_voiceless(tuples, found)
        labels = by_falling_size(labels, tuples.weights)
        tables = ClusterTables.of(tuples, labels, found.partition_weights)
        _, confidence = tables.assign(tuples.codes, found.threshold, labels)
        self.labels_ = tuples.expand(labels).astype(np.int32)
        self.confidence_ = tuples.expand(confidence)
        self.n_clusters_ = tables.n_clusters
        self.n_tuples_ = tuples.n_tuples
        self.n_features_in_ = tuples.n_partitions
        self.objective_ = tables.objective()
        self.threshold_ = found.threshold
        self.partition_weights_ = tuples.in_given_order(found.partition_weights)
        self.partition_agreement_ = tuples.in_given_order(tables.agreement())
        self._tables, self._tuple_labels = tables, labels
        self._tuples = tuples.without_points()


def check_n_clusters(n_clusters: Any, tuples: LabelTuples) -> int:
    """K as an int between 1 and the number of distinct tuples.

    More clusters than points are refused; more than distinct tuples, as in scikit-learn's
    k-means, give a warning and as many clusters as there are tuples.
    """
    whole = isinstance(n_clusters, Integral) and not isinstance(n_clusters, bool)
    if not whole or int(n_clusters) < 1:
        raise InvalidParameterError(
            f"n_clusters={n_clusters!r}: it must be a whole number from 1 up"
        )
    K = int(n_clusters)
    if K > tuples.n_points:
        raise InvalidParameterError(
            f"n_clusters={n_clusters} is more than the {tuples.n_points} points there are"
        )
    if K > tuples.n_tuples:
        warnings.warn(
            f"the partitions tell only {tuples.n_tuples} kinds of points apart, "
            f"fewer than n_clusters={n_clusters}: at most {tuples.n_tuples} clusters can come out",
            ConvergenceWarning,
            stacklevel=4,
        )
    return min(K, tuples.n_tuples)


def check_size(size: int, largest: Any, parameter: str, method: str) -> None:
    """Refuse more tuples (or points) than a method with quadratic cost should be given.

    Parameters
    ----------
    size : int
        How many there are.
    largest : int
        The limit, from the parameter of that name.
    parameter : {"max_tuples", "max_points"}
    method : str
        Its name, for the message.

    >>> check_size(100, 5000, "max_tuples", "CSPA")
    """
    whole = isinstance(largest, Integral) and not isinstance(largest, bool)
    if not whole or int(largest) < 1:
        raise InvalidParameterError(f"{parameter}={largest!r}: give a whole number from 1 up")
    if size > largest:
        what = "distinct label tuples" if parameter == "max_tuples" else "points"
        raise TooManyPointsError(
            f"{method} grows with the square of its input, and there are {size:,} {what}, more "
            f"than {parameter}={largest:,}; take a method that is linear (RobustConsensus, "
            f"L2Consensus, HBGF), a sample of the points, or raise {parameter}"
        )


def _checked_row_weights(sample_weight: Any, n_rows: int) -> Array | None:
    """Weights of the rows as floats, not negative and not all zero; None for one each."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameterError("sample_weight: give one number a row") from None
    if weights.shape != (n_rows,):
        raise InvalidParameterError(
            f"sample_weight has shape {weights.shape}; one number for each of the {n_rows} rows "
            "is needed"
        )
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidParameterError(
            f"sample_weight[{row}] is {weights[row]}; weights are finite and not negative"
        )
    if not weights.any():
        raise InvalidParameterError("sample_weight is all zero; at least one row must count")
    return weights


def _refuse_unlabelled_partitions(matrix: LabelMatrix) -> None:
    for v, categories in enumerate(matrix.categories):
        if len(categories) == 0:
            raise InvalidLabelsError(
                f"partition '{matrix.names[v]}' (column {v}) labels only rows of weight 0; "
                "leave it out"
            )


def _settle_voiceless(tuples: LabelTuples, found: Labelling) -> NDArray[np.int64]:
    """Labels in which points that no believed partition labels follow the other partitions."""
    heard = ((tuples.codes >= 0) & (found.partition_weights > 0)).any(axis=1)
    if heard.all():
        return found.labels
    labels = np.where(heard, found.labels, -1)
    tables = ClusterTables.of(tuples, labels, found.partition_weights)
    labels[~heard] = _by_all_votes(tables, tuples.codes[~heard], found.threshold)
    return labels


def _by_all_votes(
    tables: ClusterTables, codes: NDArray[Any], threshold: float
) -> NDArray[np.int64]:
    """Labels of rows by every partition alike, those without a vote too."""
    everyone = replace(tables, alpha=np.ones_like(tables.alpha))
    return everyone.assign(np.ascontiguousarray(codes), threshold)[0]


def _labels_of_known(
    codes: NDArray[Any], fitted: NDArray[Any], labels: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Fitted labels of rows that are among the fitted tuples, −1 for new rows."""
    _, group, _ = label_tuple_kernels.group_equal_rows(np.vstack([fitted, codes]))
    u = len(fitted)
    # fitted tuples are distinct and come first, so tuple a is group a
    return np.append(labels, -1)[np.minimum(group[u:], u)]
