"""Consensus by k-means on rows: of M, its eigenvectors, one-hot labels, or sparse codes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from coterie.arrays import Bools, Floats, Ints
from coterie.consensus.base import CommonSettings, check_size
from coterie.counts.coassociation import labelled_coassociation
from coterie.counts.contingency import all_contingencies
from coterie.ensembles.input_checks import check_number, check_whole
from coterie.errors import InvalidParameterError
from coterie.labels.tuples import LabelTuples
from coterie.relaxation.spectral import (
    dense_eigenpairs,
    least_squares_factor,
    round_by_kmeans,
    spectral_labels,
)
from coterie.runtime.devices import on_one_thread
from coterie.runtime.messages import ignore_duplicate_points_warning
from coterie.runtime.wording import short_repr

_log = logging.getLogger(__name__)

_NEGLIGIBLE = 1e-12  # eigenvalues below this share of the largest are rounding errors
_DENSE_UP_TO = 2_000
_STEPS = 30  # per round of codes; more steps make them too sparse, see Limits


class L2Consensus(CommonSettings):
    """Least-squares consensus: min ‖M − H D Hᵀ‖²_F with HᵀH = I_K, D ≥ 0, then k-means on H√D.

    M (n, n) is the share of partitions that put two points together. The solution is the K largest
    eigenpairs of M, computed from contingency tables in time linear in n, without an n × n matrix.

    Parameters
    ----------
    n_clusters : int or None, default=None
        Number of clusters, K. None: the number that :func:`~coterie.choose_k` recommends.
    partition_weights : (V,) numbers or None, default=None
        A partition of weight 2 counts as two copies, one of weight 0 does not count; all are equal
        by default.
    random_state, verbose : as in :class:`~coterie.RobustConsensus`

    Attributes
    ----------
    labels_, n_clusters_, confidence_, partition_weights_ : as in :class:`~coterie.RobustConsensus`

    Notes
    -----
    **Established.** The problem is that of the paper of :class:`~coterie.RobustConsensus`; k-means
    on H√D is our choice.

    **Limits.** Memory is O(m²) and time O(m³) in the number m of base clusters. An error that
    several partitions share looks like a cluster, and small clusters are lost first.

    **When to use.** Many points, partitions with independent errors, or partitions with more than K
    clusters. If partitions share errors, use :class:`~coterie.RobustConsensus`.

    Examples
    --------
    >>> from coterie import L2Consensus
    >>> L2Consensus(2, random_state=0).fit([[0, 0], [0, 0], [0, 1], [1, 2], [1, 2]]).labels_
    array([0, 0, 0, 1, 1], dtype=int32)
    """

    def _cluster(self, tuples: LabelTuples, partition_weights: Floats, n_clusters: int) -> Ints:
        factor = least_squares_factor(tuples, partition_weights, n_clusters)
        return round_by_kmeans(factor, tuples.weights, n_clusters, self.random_state)


@dataclass(eq=False, repr=False)
class KMeansConsensus(CommonSettings):
    """k-means on co-association profiles: min Σ_i ‖M_i − c_{label(i)}‖² (KC).

    M (n, n) is the share of partitions that put two points together. Its row M_i (n,) is the
    profile of point i. k-means works in at most min(u, m) coordinates with the same distances
    (u distinct label tuples, m clusters of all partitions), so no n × n matrix is needed.

    Parameters
    ----------
    n_clusters, partition_weights, random_state, verbose : as in :class:`~coterie.L2Consensus`
    max_tuples : int, default=5000
        Limit on u if labels are missing, because then a (u, u) matrix is needed.

    Attributes
    ----------
    labels_, n_clusters_, confidence_, partition_weights_ : as in :class:`~coterie.RobustConsensus`
    loss_ : float
        The minimised sum, over points with a label in a partition of positive weight.

    Notes
    -----
    **Established.** The paper of :class:`~coterie.RobustConsensus` compares KC, k-means on the rows
    of M, without details. The best of ten k-means++ starts is our choice.

    **Limits.** A profile has an entry for every point, so large clusters influence it more than
    small ones. Time is O(u·V·m + m³), then O(u·m·K) per step of k-means; memory is O(u·m). Above
    20,000 tuples k-means runs on a sample. With missing labels the cost is O(u²·V).

    **When to use.** As a baseline that is easy to explain; its results were close to those of
    :class:`~coterie.L2Consensus`.

    Examples
    --------
    >>> from coterie import KMeansConsensus
    >>> KMeansConsensus(2, random_state=0).fit([[0, 0], [0, 0], [0, 1], [1, 2], [1, 2]]).labels_
    array([0, 0, 0, 1, 1], dtype=int32)
    """

    _: KW_ONLY
    max_tuples: int = 5_000

    def _cluster(self, tuples: LabelTuples, partition_weights: Floats, n_clusters: int) -> Ints:
        # only missing labels need a (u, u) matrix
        quadratic = tuples.n_tuples if tuples.has_missing else 0
        check_size(quadratic, self.max_tuples, "max_tuples", "KMeansConsensus with missing labels")
        labels, self.loss_ = profile_labels(
            tuples, partition_weights, n_clusters, self.random_state
        )
        return labels


def profile_labels(
    tuples: LabelTuples, partition_weights: Floats, n_clusters: int, random_state: Any = None
) -> tuple[Ints, float]:
    """Return labels (u,) by k-means on the rows of M, and their sum of squares."""
    rows = profile_coordinates(tuples, partition_weights)
    labelled = rows.any(axis=1)  # tuples without a weighted label are at zero
    rows, counts = rows[labelled], tuples.weights[labelled]
    found = round_by_kmeans(rows, counts, min(n_clusters, len(rows)), random_state)
    labels = np.zeros(tuples.n_tuples, dtype=np.int64)
    labels[labelled] = found
    member = csr_array((counts, (found, np.arange(len(rows)))))
    centres = (member @ rows) / member.sum(axis=1)[:, None]
    return labels, float(counts @ ((rows - centres[found]) ** 2).sum(axis=1))


def profile_coordinates(tuples: LabelTuples, partition_weights: Floats) -> Floats:
    """Return coordinates (u, r) of the tuples that have the distances between the rows of M.

    The squared distance of two rows is Σ_j w_j (M_aj − M_bj)², with the multiplicities w of the
    tuples. Let Y = Z A^½ (u, m) be the indicator, scaled by the partition weights. Then M = Y Yᵀ,
    and the squared distance is (y_a − y_b)ᵀ G (y_a − y_b) with G = Yᵀ diag(w) Y = Q Λ Qᵀ (m, m).
    So the rows of Y Q Λ^½ have these distances. If labels are missing, or if there are few tuples,
    the coordinates are M diag(w)^½.
    """
    few = tuples.n_tuples <= min(tuples.n_columns, _DENSE_UP_TO)
    if few or not tuples.is_complete(partition_weights):
        return labelled_coassociation(tuples, partition_weights) * np.sqrt(tuples.weights)
    alpha = partition_weights / partition_weights.sum()
    root = np.sqrt(np.repeat(alpha, tuples.n_labels))
    gram = root[:, None] * all_contingencies(tuples) * root
    vectors, values = dense_eigenpairs(gram, len(gram))
    kept = values > values[0] * _NEGLIGIBLE
    rotated = root[:, None] * vectors[:, kept] * np.sqrt(values[kept])
    if tuples.memberships is not None:
        return np.asarray(tuples.indicator(np.ones(tuples.n_partitions)) @ rotated)
    rows = np.zeros((tuples.n_tuples, int(kept.sum())))
    # a row of the indicator has one entry per partition: add these rows of the product
    for v in np.flatnonzero(alpha):
        rows += rotated[tuples.codes[:, v]]
    return rows


@dataclass(eq=False, repr=False)
class OneHotKMeans(CommonSettings):
    """k-means on the one-hot encoded labels: min Σ_i ‖z_i − c_{label(i)}‖².

    z_i (m,) has a one for each base cluster that contains point i. k-means runs on the distinct
    tuples, weighted by their number of points, which has the same objective.

    Parameters
    ----------
    n_clusters, partition_weights, random_state, verbose : as in :class:`~coterie.L2Consensus`
    n_init : int, default=10
        Number of k-means++ starts.

    Attributes
    ----------
    labels_, n_clusters_, confidence_, partition_weights_ : as in :class:`~coterie.RobustConsensus`
    inertia_ : float
        The minimised sum of squares.

    Notes
    -----
    **Established.** Textbook: k-means on indicator vectors, whose objective is the quadratic mutual
    information of the article below. The k-means++ starts are our choice.

    **Limits.** A missing label has half the squared distance to a label that two different labels
    have. Partitions that share an error move the centres.

    **When to use.** As a fast and simple reference.

    References
    ----------
    A. Topchy, A. K. Jain and W. Punch. Clustering ensembles: models of consensus and weak
    partitions. IEEE Transactions on Pattern Analysis and Machine Intelligence 27, 2005.

    Examples
    --------
    >>> from coterie import OneHotKMeans
    >>> OneHotKMeans(2, random_state=0).fit([[0, 0], [0, 0], [0, 1], [1, 2], [1, 2]]).labels_
    array([0, 0, 0, 1, 1], dtype=int32)
    """

    _: KW_ONLY
    n_init: int = 10

    def _cluster(self, tuples: LabelTuples, partition_weights: Floats, n_clusters: int) -> Ints:
        rng = check_random_state(self.random_state)
        model = KMeans(n_clusters, n_init=self.n_init, random_state=rng)
        Z = tuples.indicator(np.sqrt(partition_weights))
        # scikit-learn's k-means needs 32-bit indices
        Z.indices, Z.indptr = Z.indices.astype(np.int32), Z.indptr.astype(np.int32)
        with ignore_duplicate_points_warning():
            model.fit(Z, sample_weight=tuples.weights)
        self.inertia_ = float(model.inertia_)
        return model.labels_.astype(np.int64)


@dataclass(eq=False, repr=False)
class CorrelationConsensus(CommonSettings):
    """Sparse self-representation in bundles of partitions, then spectral clustering.

    A reconstruction of the correlation consensus of Wang and others (2014), called CorC in the
    source paper, from its abstract. The partitions are split into bundles v with weights β_v. In a
    bundle, x_i (m_v,) are the one-hot labels of point i, scaled to unit length, and the code c_i
    (n,) represents x_i by a few other points. A penalty makes the codes of a point in all bundles
    similar to a common direction u_i (n,):

        min  Σ_v β_v Σ_i ( ½‖x_i − Σ_j c_ij x_j‖² + λ₁ Σ_j c_ij − λ₂ ⟨c_i, u_i⟩ ),

    over c_i ≥ 0 with c_ii = 0 and ‖u_i‖ ≤ 1. The affinity of two points is the cosine between
    their codes, averaged over bundles. Spectral clustering of the affinity gives the labels.

    Parameters
    ----------
    n_clusters, partition_weights, random_state, verbose : as in :class:`~coterie.L2Consensus`
        The weight β_v of a bundle is the sum of those of its partitions.
    penalty, angle_penalty : float, default=0.02
        λ₁ > 0, with which codes become sparser; λ₂, from 0 (independent bundles) to λ₁.
    n_bundles : int, default=8
        Largest number of bundles, which have equal numbers of partitions (± 1).
    least_code : float, default=0.05
        Entries of a code below this share of its largest entry become 0; from 0 to below 1.
    n_rounds : int, default=3
        Rounds; each updates the codes by 30 gradient steps, then the directions.
    max_tuples : int, default=3000
        More distinct label tuples are refused.

    Attributes
    ----------
    labels_, n_clusters_, confidence_, partition_weights_ : as in :class:`~coterie.RobustConsensus`
    loss_, history_, n_iter_ : float, dict, int
        The minimised sum after the last round, ``"loss"`` after every round, and their number.

    Notes
    -----
    **Established.** From the abstracts of the article and its journal version: sparse
    self-representation in each view, a penalty on the angles between views, a similarity from
    angles and sparsity, spectral clustering. Our choices: the form of the penalty, all constants
    (λ₁ and λ₂ were chosen on iris and wine with known classes), and bundles of partitions as views.
    So results of this class are not results of the article's method.

    **Limits.** It stores ``n_bundles`` + 6 matrices (u, u), and a step takes O(u²m). Early stopping
    is part of the method: with 200 steps per round the codes use only points with identical labels,
    and the accuracy on iris falls from 0.89 to 0.59 (ten ensembles of 40 k-means runs).

    **When to use.** To compare with the source paper. The article's method is meant for views of
    features; for these use :func:`self_representation` and :func:`code_affinity` of this module.

    References
    ----------
    Y. Wang, X. Lin, L. Wu, W. Zhang, Q. Zhang: Exploiting correlation consensus: towards subspace
    clustering for multi-modal data. ACM Multimedia 2014.

    Examples
    --------
    >>> from coterie import CorrelationConsensus
    >>> est = CorrelationConsensus(2, random_state=0)
    >>> est.fit_predict([[0, 0], [0, 0], [0, 1], [1, 2], [1, 2]])
    array([0, 0, 0, 1, 1], dtype=int32)
    """

    _: KW_ONLY
    penalty: float = 0.02
    angle_penalty: float = 0.02
    n_bundles: int = 8
    least_code: float = 0.05
    n_rounds: int = 3
    max_tuples: int = 3_000

    _reason_against_soft = "it represents points by points with equal labels"

    def _cluster(self, tuples: LabelTuples, partition_weights: Floats, n_clusters: int) -> Ints:
        check_whole("n_bundles", self.n_bundles)
        check_whole("n_rounds", self.n_rounds)
        check_number("penalty", self.penalty, above=0)
        # with λ₂ > λ₁ the loss is unbounded below
        check_number("angle_penalty", self.angle_penalty, above=0, or_equal=True, most=self.penalty)
        if check_number("least_code", self.least_code, above=0, or_equal=True) >= 1:
            raise InvalidParameterError(f"least_code={self.least_code!r}: give a number below 1")
        check_size(tuples.n_tuples, self.max_tuples, "max_tuples", "CorrelationConsensus")
        views, beta = bundle_partitions(tuples, partition_weights, self.n_bundles)
        points, penalties = tuples.weights, (self.penalty, self.angle_penalty)
        representation = self_representation(views, points, *penalties, beta, self.n_rounds)
        self.history_ = {"loss": representation.losses}
        self.loss_, self.n_iter_ = representation.losses[-1], len(representation.losses)
        affinity = code_affinity(representation, points, self.least_code)
        return spectral_labels(affinity, points, n_clusters, self.random_state)


def bundle_partitions(
    tuples: LabelTuples, weights: Floats, most: int
) -> tuple[list[Floats], Floats]:
    """Split the partitions into at most ``most`` one-hot views; return them and their weights."""
    # copies of a partition are neighbouring columns and should share a bundle
    bundles = np.array_split(np.arange(len(weights)), min(most, len(weights)))
    one_hot = tuples.indicator(np.sqrt(weights)).toarray()
    views = [one_hot[:, np.isin(tuples.partition_of, bundle)] for bundle in bundles]
    return views, np.array([weights[bundle].sum() for bundle in bundles])


@dataclass(frozen=True)
class SelfRepresentation:
    """Codes of u rows in several views."""

    codes: list[Floats]  # (u, u) of each view
    present: Bools  # (number of views, u), whether the row is not zero in the view
    view_weights: Floats  # they sum to one
    losses: list[float]  # after every round

    __repr__ = short_repr


def self_representation(
    views: Sequence[Floats],
    points: Floats,
    penalty: float,
    angle_penalty: float,
    view_weights: Floats | None = None,
    n_rounds: int = 3,
) -> SelfRepresentation:
    """Compute sparse nonnegative codes of every point in every view, with similar directions.

    The problem is that of :class:`CorrelationConsensus`. The rows of the ``views`` (u, p_v) are
    scaled to unit length; a row of zeros is missing in the view, and row a stands for ``points[a]``
    identical points. A round updates the codes by accelerated proximal gradient, then each
    direction u_i: it is the sum of the views' codes, scaled to unit length. The loss never rises.

    >>> X = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
    >>> found = self_representation([X], np.ones(4), penalty=0.1, angle_penalty=0.0)
    >>> found.codes[0].argmax(axis=1)
    array([1, 0, 3, 2])
    """
    beta = np.ones(len(views)) if view_weights is None else view_weights
    beta = beta / beta.sum()
    unit = []
    for X in views:
        norms = np.linalg.norm(X, axis=1, keepdims=True)
        unit.append(np.divide(X, norms, out=np.zeros_like(X, dtype=np.float64), where=norms > 0))
    u = len(points)
    codes = [np.zeros((u, u)) for _ in unit]
    direction = np.zeros((u, u))
    losses = []
    for number in range(n_rounds):
        _log.info("round %d of %d of the codes of %d rows", number + 1, n_rounds, u)
        slope = penalty - angle_penalty * direction
        with on_one_thread():  # more threads do not speed up products with few columns
            for v, X in enumerate(unit):
                codes[v] = _improve_codes(X, points, codes[v], slope)
        # the directions u_a are rows of unit length or 0, the lengths are ‖Σ_v β_v c_a‖
        total = beta[0] * codes[0]
        for weight, C in zip(beta[1:], codes[1:], strict=True):
            total += weight * C
        length = np.sqrt((_masses(total, points) * total).sum(axis=1))
        column = length[:, None]
        direction = np.divide(total, column, out=total, where=column > 0)
        fits = [_code_losses(X, points, C, penalty) for X, C in zip(unit, codes, strict=True)]
        losses.append(float(points @ (beta @ fits - angle_penalty * length)))
    present = np.array([X.any(axis=1) for X in unit])
    return SelfRepresentation(codes, present, beta, losses)


def _improve_codes(X: Floats, points: Floats, codes: Floats, slope: Floats) -> Floats:
    """Improve the codes of one view; no row's loss rises.

    By accelerated proximal gradient (Beck and Teboulle 2009).
    """
    single = np.flatnonzero(points == 1)
    # the gradient of row a is (masses_a X − x_a) Xᵀ; its Lipschitz constant is ‖diag(√ω) X‖²
    step = 1.0 / max(float(np.linalg.norm(np.sqrt(points)[:, None] * X, 2)) ** 2, 1.0)
    old, extrapolated, momentum = codes, codes, 1.0
    for _ in range(_STEPS):
        residual = _masses(extrapolated, points) @ X - X
        new = residual @ X.T
        new += slope
        new *= -step
        new += extrapolated
        np.maximum(new, 0.0, out=new)
        new[single, single] = 0.0
        following = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        extrapolated = new + (momentum - 1.0) / following * (new - old)
        old, momentum = new, following
    better = _code_losses(X, points, old, slope) < _code_losses(X, points, codes, slope)
    return np.where(better[:, None], old, codes)


def _code_losses(X: Floats, points: Floats, codes: Floats, slope: Floats | float) -> Floats:
    """Return ½‖x_a − Σ_j c_aj x_j‖² + Σ_j slope_aj c_aj over all points j, for every row a."""
    masses = _masses(codes, points)
    residual = X - masses @ X
    losses: Floats = 0.5 * (residual**2).sum(axis=1) + (slope * masses).sum(axis=1)
    return losses


def _masses(codes: Floats, points: Floats) -> Floats:
    """Return codes summed over the points of row b, for b = a without the point itself."""
    masses = codes * points
    np.einsum("aa->a", masses)[:] -= codes.diagonal()
    return masses


def code_affinity(representation: SelfRepresentation, points: Floats, least: float) -> Floats:
    """Return the mean over views of the cosine between codes, shape (u, u).

    Entries of a code below ``least`` times its largest entry become 0; the entry of a point in its
    own code is set to the largest entry. Only views with both rows count. The diagonal is the mean
    over all pairs of points of a row, including a point with itself.
    """
    total = np.zeros((len(points), len(points)))
    for beta, codes in zip(representation.view_weights, representation.codes, strict=True):
        largest = codes.max(axis=1)
        C = np.where(codes >= least * largest[:, None], codes, 0.0)
        # in ``cosines`` the entry of a point in its own code is that of an identical point: correct
        correction = largest - C.diagonal()
        crossed = C * correction
        cosines = (C * points) @ C.T
        squares = cosines.diagonal() + largest**2 - C.diagonal() ** 2
        cosines += crossed
        cosines += crossed.T
        inverse = np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0)
        cosines = inverse[:, None] * cosines * inverse
        # the diagonal is the cosine of two different points of a row; a point with itself has 1
        diagonal = np.einsum("aa->a", cosines)  # a view, so that the update changes ``cosines``
        diagonal += (np.sign(largest) - diagonal) / points
        total += beta * cosines
    both = (representation.present.T * representation.view_weights) @ representation.present
    return np.divide(total, both, out=total, where=both > 0)
