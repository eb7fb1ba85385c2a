"""Base class of the consensus functions.

A consensus function is a scikit-learn clusterer whose ``X`` is a label matrix P (n, V). A method
implements :meth:`ConsensusFunction._label_tuples`, which labels the distinct rows of P. A method
that needs only K and partition weights implements :meth:`ConsensusFunction._cluster` instead, and
never sees a weight of 0. The base class does the rest: input, compression, numbering, confidence,
objective, ``predict``.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from coterie.arrays import AnyArray, Bools, Floats, Ints
from coterie.consensus.constraints import check_links, enforce_links
from coterie.consensus.results import ConsensusResults
from coterie.counts.cluster_tables import ClusterTables
from coterie.counts.coassociation import check_partition_weights
from coterie.ensembles.input_checks import check_row_weights, check_whole
from coterie.errors import InvalidLabelsError, InvalidParameterError, TooManyPointsError
from coterie.labels.encode import (
    LabelMatrix,
    are_memberships,
    as_label_matrix,
    column_names_of,
    encode_like,
    refuse_other_rows,
    renumber_by_size,
    row_index_of,
    warn_if_transposed,
    warn_of_ids,
)
from coterie.labels.soft import Memberships, as_memberships, memberships_like
from coterie.labels.tuples import (
    LabelTuples,
    append_partitions,
    compress_labels,
    compress_memberships,
    known_tuples,
)
from coterie.runtime.messages import shows_stages, warn_user
from coterie.runtime.wording import short_repr

if TYPE_CHECKING:
    from coterie.consensus.robust import Votes

_log = logging.getLogger(__name__)

#: Probability of errors that all partitions share. Chosen so that the probability of the label is
#: calibrated over datasets with known classes.
SHARED_ERRORS = 0.05


@dataclass(frozen=True)
class Labelling:
    """Result of a method: labels of the tuples, weights of their columns, and threshold τ.

    Unless ``is_final``, tuples without a label in a weighted partition are labelled later.
    """

    labels: Ints
    partition_weights: Floats
    threshold: float = 0.5
    is_final: bool = False

    __repr__ = short_repr


@dataclass(eq=False, repr=False)
class ConsensusFunction(ConsensusResults, ClusterMixin, BaseEstimator):
    """Base class of the consensus functions.

    Attributes that all methods have and that are not listed here are described in
    :class:`~coterie.RobustConsensus`.

    Attributes
    ----------
    feature_names_in_ : (V,)
        Names of the columns, if the fitted table has names that are all texts.
    index_ : pandas Index or None
        The index of the fitted table, if it has one besides the numbers of the rows.
    constraints_ : dict
        If ``fit`` had constraints: the numbers of ``must_link`` and ``cannot_link`` pairs, the rows
        that were ``moved``, and whether the assignment is ``exact``.
    """

    _: KW_ONLY
    verbose: bool = False

    #: Features of the rows, which a clusterer of features sets to describe the choice of K.
    _features: ClassVar[Any] = None
    #: Probability of errors that all partitions share, which a clusterer of features knows better.
    _shared_errors: ClassVar[float] = SHARED_ERRORS
    #: Why the method cannot use soft partitions; empty if it can.
    _reason_against_soft = ""

    @shows_stages
    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002 (y is scikit-learn's convention)
        sample_weight: Any = None,
        *,
        must_link: Any = None,
        cannot_link: Any = None,
    ) -> Self:
        """Find the consensus of the partitions in the columns of X, the label matrix P.

        Parameters
        ----------
        X : (n, V) labels, or list of V membership matrices
            An array, a list of rows, a pandas, polars or arrow table, a list of V arrays (n,), or
            a mapping of names to V vectors (n,). Labels may be numbers or texts; −1, NaN, None and
            blanks are missing labels. Membership matrices (n, K_v) are dense or sparse, with
            entries ≥ 0 and row sums ≤ 1.
        y : ignored
        sample_weight : (n,) numbers, optional
            Number of points that each row represents, by default 1. Fractional weights are scaled
            to a mean of 1. Rows of weight 0, or below 1e−12 of the largest weight, do not
            influence the fit; ``predict`` labels them.
        must_link, cannot_link : (m, 2) row numbers, optional
            Pairs of rows that get the same label, and pairs that get different labels. The clusters
            are found without them. Where they break a pair, the rows connected with it by pairs
            join other clusters, so that the sum of their votes is largest; ``constraints_`` says
            which. ``predict`` does not know the pairs.

        Notes
        -----
        A row without any label gets the label −1 and confidence 0. A column without any label is
        left out, with a warning.
        """
        index = row_index_of(X)
        matrix = _read(X)
        if isinstance(matrix, LabelMatrix) and matrix is not X:
            warn_if_transposed(matrix)
            warn_of_ids(matrix.names, matrix.n_labels.tolist(), matrix.n_points)
        weights = check_row_weights(sample_weight, matrix.n_points)
        links = check_links(must_link, cannot_link, matrix.n_points)
        used = matrix.labelled_rows
        if weights is not None:
            used &= weights > 0
            weights = weights[used]
        if not used.all():
            matrix = matrix.rows(used)
            for v in np.flatnonzero(np.asarray(matrix.n_labels) == 0):
                raise InvalidLabelsError(
                    f"partition '{matrix.names[v]}' (column {v}) labels only rows of weight 0; "
                    "leave it out"
                )
            links = None if links is None else links.among(used)
        tuples = _compressed(matrix, weights)
        self._refuse_soft(tuples)
        n, u = matrix.n_points, tuples.n_tuples
        _log.info("%s of %d rows, %d distinct label tuples", type(self).__name__, n, u)
        with self._restored_on_failure():
            for earlier in ("k_choice_", "constraints_", "feature_names_in_"):
                self.__dict__.pop(earlier, None)
            if (columns := column_names_of(X)) is not None:
                self.feature_names_in_ = columns
            self._vocabulary, self._row_weights = matrix.without_rows(), weights
            self.index_ = index
            # rows of the input that the tuples hold; None if they hold all of them
            self._fitted_rows = None if used.all() else np.flatnonzero(used)
            del matrix  # frees memory: it is as large as the input
            labelling = self._label_tuples(tuples)
            if links is not None:  # a moved point becomes a separate tuple
                labels, alpha = labelling.labels, labelling.partition_weights
                labels = label_undecided_tuples(tuples, labels, alpha, labelling.threshold)
                tuples, labels, self.constraints_ = enforce_links(
                    links, tuples, labels, alpha, weights, self._fitted_rows
                )
                labelling = replace(labelling, labels=labels, is_final=True)
            self._finish(tuples, labelling)
            self.n_tuples_ = u  # not counting those that constraints made
            if not used.all():
                fitted = self.labels_, self.margin_, self.confidence_
                rows = self._encode_rows(X)
                self.labels_, self.margin_ = self._assign(*rows)
                self.confidence_ = label_probabilities(
                    self._tables, *rows, self.labels_, self._shared_errors
                )
                # predict does not know constraints
                self.labels_[used], self.margin_[used], self.confidence_[used] = fitted
        return self

    @shows_stages
    def add_partitions(self, P_new: Any) -> Self:
        """Add partitions of the same points: columns, not rows.

        The result is that of ``fit`` on all columns, the earlier ones first, and ``predict`` needs
        all of them. An unfitted estimator is fitted. After a failure the estimator is unchanged.

        Parameters
        ----------
        P_new : (n, V') labels, or list of V' membership matrices
            New partitions of the fitted points, with rows in the same order. A point may have no
            label in them.

        Notes
        -----
        If ``partition_weights`` is an array, first set it for the old and new partitions:
        ``est.set_params(partition_weights=…).add_partitions(P_new)``. Row weights are those of
        ``fit``. If some of them are 0, or some rows had no label, call ``fit`` on all partitions
        instead.
        """
        if not hasattr(self, "_tuples"):
            return self.fit(P_new)
        if len(self._tuples.inverse) < len(self.labels_):
            raise InvalidParameterError(
                "the fit had rows of weight 0 or without any label, which were not stored; fit "
                "again on all partitions, or leave these rows out of the first fit"
            )
        if hasattr(self, "constraints_"):
            raise InvalidParameterError(
                "the fit had must_link or cannot_link pairs; fit again on all partitions"
            )
        index, before = row_index_of(P_new), getattr(self, "index_", None)
        refuse_other_rows(index, before, "the new partitions", "the fit")
        n_before = self._tuples.n_partitions
        tuples, vocabulary = append_partitions(
            self._tuples, self._vocabulary, P_new, self._row_weights
        )
        self._refuse_soft(tuples)
        given: Any = getattr(self, "partition_weights", None)
        if np.shape(given) == (n_before,):
            raise InvalidParameterError(
                f"partition_weights has {n_before} numbers, but with the new partitions there are "
                f"{tuples.n_partitions}; call est.set_params(partition_weights=...) with all "
                "weights, those of the earlier partitions first"
            )
        with self._restored_on_failure():
            for earlier in ("k_choice_", "feature_names_in_"):  # of the earlier partitions only
                self.__dict__.pop(earlier, None)
            self._vocabulary = vocabulary
            self.index_ = index if before is None else before
            self._finish(tuples, self._label_after_growth(tuples))
        return self

    def predict(self, X: Any, return_confidence: bool = False) -> Any:
        """Return the labels of points from their labels in the fitted partitions.

        A row that occurred in ``fit`` keeps its label. Another row joins the cluster that improves
        the objective most, in time O(V·K). Labels that did not occur in ``fit`` count as missing; a
        row without a known label gets −1. A row with labels only in partitions of weight 0 is
        labelled by these.

        Parameters
        ----------
        X : (n', V) labels, columns as in ``fit``; membership matrices if ``fit`` had them
        return_confidence : bool
            Also return the entry of ``predict_proba`` for each label; 0 for the label −1.
        """
        check_is_fitted(self)
        rows = self._encode_rows(X)
        labels = self._assign(*rows)[0]
        if not return_confidence:
            return labels
        return labels, label_probabilities(self._tables, *rows, labels, self._shared_errors)

    def predict_proba(self, X: Any) -> Floats:
        """Return the estimated probability of each cluster for points, (n', K).

        With a_k the mean share of votes that put a point together with members of cluster k,

            p_k = 0.95 a_k / Σ_l a_l + 0.05 / K.

        The second term allows for errors that all partitions share. If the predicted label does not
        have the largest share, it and the clusters above it get the mean of their shares, so that
        it is the most probable. :class:`~coterie.ConsensusClusterer` replaces 0.05 by a probability
        that falls with the trust in its runs; then the probability of the label is calibrated: over
        many datasets, about this share of the labels was right. For other partitions it is only a
        scale. A point without a known label gets 1/K.

        Parameters
        ----------
        X : (n', V) labels, columns as in ``fit``; membership matrices if ``fit`` had them
        """
        check_is_fitted(self)
        rows = self._encode_rows(X)
        shares, labels = self._tables.vote_shares(*rows), self._assign(*rows)[0]
        return cluster_probabilities(shares, labels, self._shared_errors)

    @property
    def label_names_(self) -> list[str] | None:
        """For labels that are words: the word for each cluster, (K,); None for numbers.

        It is the label that the voting partitions use most for the members of the cluster. Each
        cluster gets a different word, and the assignment has the most votes. A cluster for which no
        word is left has an empty one.

        >>> from coterie import EvidenceAccumulation
        >>> P = [["red", "red"], ["red", "red"], ["red", "red"], ["red", "blue"]]
        >>> EvidenceAccumulation(2).fit(P).label_names_
        ['red', 'blue']
        """
        check_is_fitted(self)
        vocabulary, tables = self._vocabulary, self._tables
        if isinstance(vocabulary, Memberships):
            return None
        voting = np.flatnonzero(self.partition_weights_)
        if any(vocabulary.categories[v].dtype.kind != "U" for v in voting):
            return None
        counts = np.split(tables.table[self._tuples.recode], np.cumsum(vocabulary.n_labels)[:-1])
        words, place = np.unique(
            np.concatenate([vocabulary.categories[v] for v in voting]), return_inverse=True
        )
        votes = np.zeros((len(words), tables.n_clusters))
        weighted = [self.partition_weights_[v] * counts[v] for v in voting]
        np.add.at(votes, place, np.concatenate(weighted))
        names = [""] * tables.n_clusters
        for word, cluster in zip(*linear_sum_assignment(votes, maximize=True), strict=True):
            if votes[word, cluster] > 0:
                names[cluster] = str(words[word])
        return names

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002 (y is scikit-learn's convention)
        """Return how well partitions agree with the predicted labels, at most 1.

        It is the mean adjusted Rand index of ``predict(X)`` with the columns of X. It compares
        methods and settings on points that were not fitted, as a search with cross-validation does.
        It does not choose the number of clusters if the partitions have more clusters than the
        answer; ``n_clusters=None`` does.

        Parameters
        ----------
        X : (n', V) labels, columns as in ``fit``; membership matrices if ``fit`` had them
        y : ignored
        """
        labels = self.predict(X).astype(np.int64)
        labelled = labels >= 0
        if not labelled.any():
            raise InvalidLabelsError("no row has a label that the fit knows; nothing to compare")
        matrix = _read(X).rows(labelled)
        if isinstance(matrix, LabelMatrix):
            # columns without a label in these rows agree and disagree with nothing
            matrix = matrix.without_columns(np.flatnonzero(matrix.n_labels == 0).tolist())
        tuples = _compressed(matrix, None)
        first = np.unique(tuples.inverse, return_index=True)[1]
        weights = np.ones(tuples.n_partitions)
        tables = ClusterTables.of(tuples, labels[labelled][first], weights)
        return float(tables.agreement().mean())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inputs = tags.input_tags
        inputs.categorical = inputs.string = inputs.allow_nan = True
        return tags

    def _label_tuples(self, tuples: LabelTuples) -> Labelling:
        """Label the distinct tuples: by default those of the partitions of positive weight."""
        K, weights = self._check_settings(tuples)
        voting, place = voting_tuples(tuples, weights)
        labels = self._cluster(voting, weights[weights > 0], min(K, voting.n_tuples))
        return Labelling(labels[place], weights)

    def _cluster(self, tuples: LabelTuples, partition_weights: Floats, n_clusters: int) -> Ints:
        """Return labels (u,) of tuples that all have a label; the weights are positive, K ≤ u."""
        raise NotImplementedError

    def _label_after_growth(self, tuples: LabelTuples) -> Labelling:
        """Label the distinct tuples after partitions were added; by default as in ``fit``."""
        return self._label_tuples(tuples)

    def _check_settings(self, tuples: LabelTuples) -> tuple[int, Floats]:
        """Return K and the partition weights in the order of the tuples' columns, checked."""
        weights = self._weights_in_use()
        checked = check_partition_weights(weights, tuples.n_partitions)[tuples.partition_order]
        return self._number_of_clusters(tuples, weights), checked

    def _weights_in_use(self) -> Any:
        """Return the given partition weights without those of partitions that are left out."""
        weights: Any = self.partition_weights
        given: Any = getattr(self, "_vocabulary", None)
        left_out = getattr(given, "empty", ())  # tuples without a fit have none
        if left_out and np.shape(weights) == (len(given.names) + len(left_out),):
            return np.delete(weights, left_out)
        return weights

    def _number_of_clusters(self, tuples: LabelTuples, partition_weights: Any = None) -> int:
        """Return K, checked; if it is None, the number that the weighted partitions recommend."""
        if self.n_clusters is not None:
            return check_n_clusters(self.n_clusters, tuples)
        from coterie.consensus.robust import Votes  # it builds on this module

        return self._choose_n_clusters(Votes.from_tuples(tuples, partition_weights))

    def _choose_n_clusters(self, votes: Votes) -> int:
        """Return the recommended number of clusters; keep the comparison in ``k_choice_``."""
        from coterie.consensus.choice_of_k import choose_n_clusters, warn_if_weak

        if votes.tuples.n_points < 2:
            return 1
        seed, features = getattr(self, "random_state", None), self._features
        if features is not None and self._fitted_rows is not None:
            features = features.among(self._fitted_rows)
        self.k_choice_ = choose_n_clusters(votes, random_state=seed, features=features)
        warn_if_weak(self.k_choice_)
        return self.k_choice_.best_k

    def _finish(self, tuples: LabelTuples, labelling: Labelling) -> None:
        """Set the attributes that all methods have, with clusters numbered by falling size."""
        labels, weights = labelling.labels, labelling.partition_weights
        if not labelling.is_final:
            labels = label_undecided_tuples(tuples, labels, weights, labelling.threshold)
        labels = renumber_by_size(labels, tuples.weights)
        tables = ClusterTables.of(tuples, labels, weights)
        codes, memberships = tuples.codes, tuples.memberships
        _, margin = tables.assign(codes, labelling.threshold, labels, memberships)
        confidence = label_probabilities(tables, codes, memberships, labels, self._shared_errors)
        self.labels_ = tuples.expand(labels).astype(np.int32)
        self.margin_, self.confidence_ = tuples.expand(margin), tuples.expand(confidence)
        self.n_clusters_ = tables.n_clusters
        self.n_tuples_ = tuples.n_tuples
        self.n_features_in_ = tuples.n_partitions + len(getattr(self._vocabulary, "empty", ()))
        self.objective_ = tables.objective()
        self.threshold_ = labelling.threshold
        self.partition_weights_ = tuples.in_given_order(weights)
        self.partition_agreement_ = tuples.in_given_order(tables.agreement())
        self.partition_coverage_ = tuples.in_given_order(tables.coverage())
        self._tables, self._tuple_labels, self._tuples = tables, labels, tuples

    def _assign(
        self, codes: AnyArray, memberships: Floats | None
    ) -> tuple[NDArray[np.int32], Floats]:
        """Return labels and margins of encoded rows, see ``predict``."""
        known = np.append(self._tuple_labels, -1)[known_tuples(codes, memberships, self._tuples)]
        labels, margin = self._tables.assign(codes, self.threshold_, known, memberships)
        undecided = (labels < 0) & (codes >= 0).any(axis=1)
        if undecided.any():
            labels[undecided] = assign_by_equal_votes(
                self._tables, codes, memberships, undecided, self.threshold_
            )
        return labels.astype(np.int32), margin

    def _encode_rows(self, P: Any) -> tuple[AnyArray, Floats | None]:
        """Return the indicator columns of new rows, and their memberships if they are soft."""
        if not isinstance(self._vocabulary, Memberships):
            return self._tuples.columns_of(encode_like(P, self._vocabulary)), None
        soft = memberships_like(P, self._vocabulary)
        if self._tuples.memberships is None and soft.is_hard:
            return self._tuples.columns_of(soft.codes()), None
        return self._tuples.slots_of(soft)

    @contextlib.contextmanager
    def _restored_on_failure(self) -> Iterator[None]:
        """Restore the attributes of the estimator after an exception or interrupt."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _refuse_soft(self, tuples: LabelTuples) -> None:
        if tuples.memberships is not None and self._reason_against_soft:
            raise InvalidLabelsError(
                f"{type(self).__name__} cannot use soft partitions: {self._reason_against_soft}; "
                "pass coterie.hard_labels(P) or use another method"
            )


def check_n_clusters(n_clusters: Any, tuples: LabelTuples) -> int:
    """Return K as an int between 1 and the number of distinct tuples.

    More clusters than points raise an error. More clusters than distinct tuples give a warning,
    as in scikit-learn's k-means, and K becomes the number of tuples.
    """
    K = check_whole("n_clusters", n_clusters)
    if K > tuples.n_points:
        raise InvalidParameterError(
            f"n_clusters={K} is more than the {tuples.n_points} points; give a smaller number"
        )
    if K > tuples.n_tuples:
        warn_user(
            f"the points have only {tuples.n_tuples} distinct combinations of labels, fewer than "
            f"n_clusters={K}: there will be at most {tuples.n_tuples} clusters",
            ConvergenceWarning,
        )
    return min(K, tuples.n_tuples)


def check_size(size: int, largest: Any, parameter: str, method: str) -> None:
    """Refuse more tuples or points than the limit of a method of quadratic cost.

    ``parameter``, "max_tuples" or "max_points", is the name of the limit ``largest`` in messages.

    >>> check_size(100, 5000, "max_tuples", "CSPA")
    """
    check_whole(parameter, largest)
    if size > largest:
        counted = "distinct label tuples" if parameter == "max_tuples" else "points"
        raise TooManyPointsError(
            f"the cost of {method} is quadratic, and there are {size:,} {counted}, more than "
            f"{parameter}={largest:,}; use a linear method (RobustConsensus, L2Consensus, HBGF) or "
            f"a sample of the points, or raise {parameter}"
        )


@dataclass(eq=False, repr=False)
class CommonSettings(ConsensusFunction):
    """Base class of the methods that have K, weights of partitions, and a seed."""

    n_clusters: int | None = None
    _: KW_ONLY
    partition_weights: Any = None
    random_state: Any = None


def voting_tuples(tuples: LabelTuples, weights: Floats) -> tuple[LabelTuples, Ints]:
    """Return the distinct tuples of the partitions of positive weight, and their indices (u,).

    A tuple without a label in these partitions has no distance to others, and would become a
    separate cluster. It is left out and has index −1.
    """
    voting, group = tuples.restricted_to(weights > 0)
    labelled = voting.has_weighted_label(weights[weights > 0])
    if np.all(labelled):
        return voting, group
    place = np.where(labelled, np.cumsum(labelled) - 1, -1)
    return voting.subset(labelled), place[group]


def _read(P: Any) -> LabelMatrix | Memberships:
    read = as_memberships if are_memberships(P) else as_label_matrix
    matrix: LabelMatrix | Memberships = read(P, allow_unlabelled_rows=True)
    return matrix


def _compressed(matrix: LabelMatrix | Memberships, weights: Floats | None) -> LabelTuples:
    if isinstance(matrix, Memberships):
        return compress_memberships(matrix, weights)
    return compress_labels(matrix, weights)


def label_undecided_tuples(
    tuples: LabelTuples, labels: Ints, partition_weights: Floats, threshold: float
) -> Ints:
    """Return labels (u,) in which tuples without a weighted label are labelled by the others."""
    if not tuples.has_missing:
        return labels
    decided = tuples.has_weighted_label(partition_weights)
    if decided.all():
        return labels
    labels = np.where(decided, labels, -1)
    tables = ClusterTables.of(tuples, labels, partition_weights)
    labels[~decided] = assign_by_equal_votes(
        tables, tuples.codes, tuples.memberships, ~decided, threshold
    )
    return labels


def assign_by_equal_votes(
    tables: ClusterTables,
    codes: AnyArray,
    memberships: Floats | None,
    rows: Bools,
    threshold: float,
) -> Ints:
    """Return the labels of some rows if every partition has weight 1."""
    equal = replace(tables, alpha=np.ones_like(tables.alpha))
    chosen = None if memberships is None else memberships[rows]
    return equal.assign(codes[rows], threshold, memberships=chosen)[0]


def cluster_probabilities(
    shares: Floats, labels: AnyArray, shared_errors: float = SHARED_ERRORS
) -> Floats:
    """Return the probabilities of clusters from shares of votes (n, K), see ``predict_proba``.

    The largest probability of a row is that of its label; the label −1 is none.
    """
    K = shares.shape[1]
    total = shares.sum(axis=1, keepdims=True)
    equal = np.full_like(shares, 1.0 / K)
    probabilities = np.divide(shares, total, out=equal, where=total > 0)
    probabilities *= 1 - shared_errors
    probabilities += shared_errors / K
    outvoted = np.flatnonzero((labels >= 0) & (probabilities.argmax(axis=1) != labels))
    if not len(outvoted):
        return probabilities
    # the nearest probabilities, by squares, in which no cluster is above the label's: the label and
    # the clusters above it get their mean. The mean of the label and the j largest rises with j as
    # long as they are above it, and falls from the label itself on
    own = probabilities[outvoted, labels[outvoted]]
    falling = -np.sort(-probabilities[outvoted], axis=1)
    means = (own[:, None] + np.cumsum(falling, axis=1)) / np.arange(2, K + 2)
    level = means[:, :-1].max(axis=1, initial=0.0)
    probabilities[outvoted] = np.minimum(probabilities[outvoted], level[:, None])
    # above the others by rounding, so that argmax finds it
    probabilities[outvoted, labels[outvoted]] = np.nextafter(level, 1.0)
    return probabilities


def label_probabilities(
    tables: ClusterTables,
    codes: AnyArray,
    memberships: Floats | None,
    labels: AnyArray,
    shared_errors: float = SHARED_ERRORS,
) -> Floats:
    """Return the probability of the label of each row, (n,); 0 for the label −1."""
    probabilities = np.zeros(len(labels))
    for rows, shares in tables.vote_share_blocks(codes, memberships):
        each = cluster_probabilities(shares, labels[rows], shared_errors)
        own = each[np.arange(len(each)), np.maximum(labels[rows], 0)]
        probabilities[rows] = np.where(labels[rows] >= 0, own, 0.0)
    return probabilities
