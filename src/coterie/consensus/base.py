"""The one contract of all consensus functions: labels in, one partition out, new rows by vote.

A consensus function is a scikit-learn clusterer whose ``X`` is a label matrix P (n, V). It says how
tuples get their labels (:meth:`ConsensusFunction._label_tuples`); reading labels, compression,
numbering, confidence, the objective and ``predict`` are the same for all and live here.
"""

from __future__ import annotations

import contextlib
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from coterie.counts.cluster_tables import ClusterTables
from coterie.counts.coassociation import check_partition_weights
from coterie.counts.growth import Growth, append_partitions
from coterie.errors import (
    InvalidLabelsError,
    InvalidParameterError,
    ModelFileError,
    TooManyPointsError,
)
from coterie.labels import tuple_kernels as label_tuple_kernels
from coterie.labels.label_matrix import (
    MISSING,
    LabelMatrix,
    are_memberships,
    as_label_matrix,
    encode_like,
)
from coterie.labels.numbering import renumber_by_size
from coterie.labels.soft_memberships import Memberships, as_memberships, memberships_like
from coterie.labels.tuples import LabelTuples, compress_labels, compress_memberships

__all__ = ["ConsensusFunction", "Labelling", "check_n_clusters", "check_size"]

Array = NDArray[np.float64]

_FIRST_INEXACT_COUNT = 2.0**53


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
    #: Why a method cannot take soft partitions, where it cannot: "it …".
    _needs_labels = ""

    def fit(
        self,
        P: Any,
        y: Any = None,  # noqa: ARG002 (y is scikit-learn's convention)
        sample_weight: Any = None,
    ) -> Self:
        """Find the consensus of the partitions in the columns of P.

        Parameters
        ----------
        P : (n, V) labels, or list of V membership matrices
            Array, list of rows, or pandas, polars or arrow table. Any names of labels; −1,
            NaN, None or a blank where a point has no label. Or soft partitions: a list of
            matrices (n, K_v), dense or sparse, of entries ≥ 0 whose rows sum to at most 1.
        y : ignored
        sample_weight : (n,) numbers, optional
            How many points each row stands for; one each by default. Weights that are not whole
            numbers count beside each other only: they are scaled to one a row on average. Rows
            of weight 0 have no say, and get the label that ``predict`` gives them.
        """
        matrix = as_memberships(P) if are_memberships(P) else as_label_matrix(P)
        weights = _checked_row_weights(sample_weight, matrix.n_points)
        silent = None if weights is None or weights.all() else weights == 0
        if weights is not None and silent is not None:
            matrix, weights = matrix.rows(~silent), weights[~silent]
            _refuse_unlabelled_partitions(matrix)
        tuples = _compressed(matrix, weights)
        self._refuse_soft(tuples)
        with self._unchanged_by_failure():
            self._vocabulary, self._row_weights = matrix.without_rows(), weights
            del matrix  # as large as the input, and no longer needed
            self._finish(tuples, self._label_tuples(tuples))
            if silent is not None:
                self.labels_, self.confidence_ = self.predict(P, return_confidence=True)
        return self

    def partial_fit(self, P: Any, y: Any = None) -> Self:  # noqa: ARG002 (y as in fit)
        """Let more partitions of the same points join in: columns, not rows.

        Afterwards everything is as after a ``fit`` on all columns, those before and then these:
        ``predict`` wants all of them. The label tuples are kept and split, the labels before are
        not read again, and the method answers anew from the tuples;
        :class:`~coterie.RobustConsensus` goes on from the answer it had. On an estimator that is
        not fitted this is ``fit``. If it fails, the estimator is as it was.

        Parameters
        ----------
        P : (n, V') labels, or list of V' membership matrices
            New partitions of the fitted points, rows in the same order, as in ``fit``. A point may
            have no label in any of them.
        y : ignored

        Notes
        -----
        ``partition_weights`` given as numbers must be set for all partitions before:
        ``est.set_params(partition_weights=…).partial_fit(P)``. The weights of the rows
        are those of ``fit``; where some are 0, fit again instead.
        """
        if not hasattr(self, "_tuples"):
            return self.fit(P)
        self._refuse_to_grow()
        growth = append_partitions(self._tuples, self._vocabulary, P, self._row_weights)
        self._refuse_soft(growth.tuples)
        _refuse_old_weights(getattr(self, "partition_weights", None), growth)
        with self._unchanged_by_failure():
            self._vocabulary = growth.vocabulary
            self._finish(growth.tuples, self._label_grown(growth))
        return self

    def predict(self, P: Any, return_confidence: bool = False) -> Any:
        """Labels of points from the labels the fitted partitions give them.

        A tuple seen in ``fit`` gets the label it got there. A new one joins the cluster with
        the largest gain of the objective, the fitted tables unchanged: O(V·K) a point. Labels
        that ``fit`` has not seen count as missing; a row of nothing but those gets −1. A row
        that only partitions without a vote label follows these, with confidence 0.

        Parameters
        ----------
        P : (n', V) labels, columns as in ``fit``; membership matrices where ``fit`` had them
        return_confidence : bool
            Also return the confidence of each label, as ``confidence_`` has it.
        """
        check_is_fitted(self)
        codes, memberships = self._rows_like(P)
        known = _labels_of_known(codes, memberships, self._tuples, self._tuple_labels)
        labels, confidence = self._tables.assign(codes, self.threshold_, known, memberships)
        voiceless = (labels < 0) & (codes >= 0).any(axis=1)
        if voiceless.any():
            labels[voiceless] = _by_all_votes(
                self._tables, codes, memberships, voiceless, self.threshold_
            )
        labels = labels.astype(np.int32)
        return (labels, confidence) if return_confidence else labels

    def _rows_like(self, P: Any) -> tuple[NDArray[Any], Array | None]:
        """Indicator columns of new rows, and their memberships where they are soft."""
        if not isinstance(self._vocabulary, Memberships):
            return self._tuples.columns_of(encode_like(P, self._vocabulary)), None
        soft = memberships_like(P, self._vocabulary)
        if self._tuples.memberships is None and soft.is_hard:
            return self._tuples.columns_of(soft.codes()), None
        return self._tuples.slots_of(soft)

    def _refuse_soft(self, tuples: LabelTuples) -> None:
        if tuples.memberships is not None and self._needs_labels:
            raise InvalidLabelsError(
                f"{type(self).__name__} takes no soft partitions: {self._needs_labels}; give it "
                "labels, coterie.hard_labels(P), or take another method"
            )

    @contextlib.contextmanager
    def _unchanged_by_failure(self) -> Iterator[None]:
        """Whatever fails within, an interrupt too, leaves the estimator as it was before."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _checked_settings(self, tuples: LabelTuples) -> tuple[int, Array]:
        """K, and the partition weights in the order of the tuples' columns, both checked."""
        weights = check_partition_weights(self.partition_weights, tuples.n_partitions)
        return check_n_clusters(self.n_clusters, tuples), weights[tuples.partition_order]

    @abstractmethod
    def _label_tuples(self, tuples: LabelTuples) -> Labelling:
        """Labels of the distinct tuples."""

    def _label_grown(self, growth: Growth) -> Labelling:
        """Labels of the distinct tuples after partitions came: those of a fit on all of them."""
        return self._label_tuples(growth.tuples)

    def _refuse_to_grow(self) -> None:
        """Refuse more partitions where the fit did not keep what they need."""
        if not len(self._tuples.inverse) or not hasattr(self, "_row_weights"):
            raise ModelFileError(
                "this model comes from a file of an earlier version of coterie, which does not say "
                "which point is which; fit it again, on all partitions"
            )
        if len(self._tuples.inverse) < len(self.labels_):
            raise InvalidParameterError(
                "rows of weight 0 had no say in the fit, and their labels were not kept; fit again "
                "on all partitions, or leave these rows out from the beginning"
            )

    def _finish(self, tuples: LabelTuples, found: Labelling) -> None:
        """Number the clusters by falling size and set the attributes all methods share."""
        labels = _settle_voiceless(tuples, found)
        labels = renumber_by_size(labels, tuples.weights)
        tables = ClusterTables.of(tuples, labels, found.partition_weights)
        _, confidence = tables.assign(tuples.codes, found.threshold, labels, tuples.memberships)
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
        self._tuples = tuples


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
    shares = weights / weights.max()  # which can be added up, however large the weights are
    countable = weights.max() * shares.sum() < _FIRST_INEXACT_COUNT
    if countable and (weights == np.floor(weights)).all():
        return weights
    return shares * (np.count_nonzero(weights) / shares.sum())


def _compressed(matrix: LabelMatrix | Memberships, weights: Array | None) -> LabelTuples:
    if isinstance(matrix, Memberships):
        return compress_memberships(matrix, weights)
    return compress_labels(matrix, weights)


def _refuse_unlabelled_partitions(matrix: LabelMatrix | Memberships) -> None:
    for v, n_labels in enumerate(matrix.n_labels):
        if n_labels == 0:
            raise InvalidLabelsError(
                f"partition '{matrix.names[v]}' (column {v}) labels only rows of weight 0; "
                "leave it out"
            )


def _refuse_old_weights(partition_weights: Any, growth: Growth) -> None:
    """Refuse weights of the partitions there were, once there are more."""
    if partition_weights is None or isinstance(partition_weights, str):
        return
    V = growth.before.n_partitions
    if np.shape(partition_weights) == (V,):
        raise InvalidParameterError(
            f"partition_weights has {V} numbers, and with the new partitions there are "
            f"{growth.tuples.n_partitions}: set them all before, old ones first, "
            "est.set_params(partition_weights=...).partial_fit(P)"
        )


def _settle_voiceless(tuples: LabelTuples, found: Labelling) -> NDArray[np.int64]:
    """Labels in which points that no believed partition labels follow the other partitions."""
    if not tuples.has_missing:
        return found.labels
    heard = tuples.has_weighted_label(found.partition_weights)
    if heard.all():
        return found.labels
    labels = np.where(heard, found.labels, -1)
    tables = ClusterTables.of(tuples, labels, found.partition_weights)
    labels[~heard] = _by_all_votes(
        tables, tuples.codes, tuples.memberships, ~heard, found.threshold
    )
    return labels


def _by_all_votes(
    tables: ClusterTables,
    codes: NDArray[Any],
    memberships: Array | None,
    rows: NDArray[np.bool_],
    threshold: float,
) -> NDArray[np.int64]:
    """Labels of some rows by every partition alike, those without a vote too."""
    everyone = replace(tables, alpha=np.ones_like(tables.alpha))
    chosen = None if memberships is None else memberships[rows]
    return everyone.assign(codes[rows], threshold, memberships=chosen)[0]


def _labels_of_known(
    codes: NDArray[Any],
    memberships: Array | None,
    tuples: LabelTuples,
    labels: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Fitted labels of rows that are among the fitted tuples, −1 for new rows."""
    fitted = tuples.codes
    if memberships is not None:
        fitted, codes = _slot_keys(*tuples.slots(), codes, memberships)
    _, group, _ = label_tuple_kernels.group_equal_rows(np.vstack([fitted, codes]))
    u = len(fitted)
    # fitted tuples are distinct and come first, so tuple a is group a
    return np.append(labels, -1)[np.minimum(group[u:], u)]


def _slot_keys(
    fitted: NDArray[Any], fitted_shares: Array, codes: NDArray[Any], shares: Array
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Keys of fitted and new rows, of equal length; empty slots at the end change nothing."""
    width = max(fitted.shape[1], codes.shape[1])

    def keys(columns: NDArray[Any], values: Array) -> NDArray[np.int64]:
        more = ((0, 0), (0, width - columns.shape[1]))
        columns = np.pad(columns, more, constant_values=MISSING)
        return label_tuple_kernels.slot_keys(columns, np.pad(values, more))

    return keys(fitted, fitted_shares), keys(codes, shares)
