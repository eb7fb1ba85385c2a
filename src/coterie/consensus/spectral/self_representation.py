"""CorrelationConsensus: each point as a sparse combination of the others, in several views.

A view is a matrix of one-hot labels or of features. Row a represents ω_a identical points, which
have identical codes in every step. So ``code[a, b]`` is the coefficient of *each* point of row b in
the code of a point of row a. Such a point can use ω_b points of row b, but only ω_a − 1 points of
row a, because no point represents itself.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.consensus.base import ConsensusFunction, Labelling
from coterie.consensus.parameters import check_size
from coterie.ensembles.input_checks import check_number, check_whole
from coterie.errors import InvalidParameterError
from coterie.labels.tuples import LabelTuples
from coterie.relaxation.spectral import spectral_labels
from coterie.runtime.devices import on_one_thread
from coterie.runtime.wording import short_repr

__all__ = ["CorrelationConsensus", "SelfRepresentation", "code_affinity", "self_representation"]

Array = NDArray[np.float64]

_log = logging.getLogger(__name__)

_STEPS = 30  # per round; more steps make the codes too sparse, see Limits


@dataclass(eq=False, repr=False)
class CorrelationConsensus(ConsensusFunction):
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
    n_clusters : int or None, default=None
        None: the number that :func:`~coterie.choose_k` recommends.
    penalty : float, default=0.02
        λ₁ > 0. A larger value gives sparser codes.
    angle_penalty : float, default=0.02
        λ₂, from 0 (independent bundles) to λ₁.
    n_bundles : int, default=8
        Largest number of bundles, which have equal numbers of partitions (± 1).
    threshold : float, default=0.05
        Entries of a code below this share of its largest entry become 0; from 0 to below 1.
    n_rounds : int, default=3
        Rounds; each updates the codes by 30 gradient steps, then the directions.
    max_tuples : int, default=3000
        More distinct label tuples are refused.
    partition_weights : array of shape (V,) or None, default=None
        Factors of the squared distances in each partition; β is their sum over a bundle.
    random_state : int, RandomState or None, default=None
    verbose : bool, default=False
        Show the stages of ``fit`` on the standard error stream.

    Attributes
    ----------
    labels_, n_clusters_, confidence_, objective_, n_tuples_, partition_weights_
        As in :class:`~coterie.RobustConsensus`.
    loss_ : float
        The minimised sum after the last round.
    history_ : dict
        ``"loss"``: its value after every round; it never rises.
    n_iter_ : int
        Rounds.

    Notes
    -----
    **Established.** From the abstracts of the conference article and its journal version: sparse
    self-representation in each view, a penalty on the angles between views, a similarity from
    angles and sparsity, spectral clustering. Our choices: the form of the penalty, all constants,
    and bundles of partitions as views. λ₁ = λ₂ = 0.02, and copies of a partition in one bundle,
    were chosen on iris and wine with known classes. So results of this class are not results of
    the article's method. The compression to distinct tuples is exact.

    **Limits.** It stores ``n_bundles`` + 6 matrices (u, u), and a step takes O(u²m); 500 tuples of
    40 partitions take a few seconds. Early stopping is part of the method: with 200 steps per round
    the codes use only points with identical labels, the graph has more than K components, and the
    accuracy on iris falls from 0.89 to 0.59 (mean of ten ensembles of 40 k-means runs). If the
    partitions have different numbers of clusters, it is less stable than
    :class:`~coterie.L2Consensus`: iris 0.86 ± 0.08 and 0.90 ± 0.00, raw wine 0.62 ± 0.08 and
    0.72 ± 0.01 (ten ensembles each).

    **When to use.** To compare with the source paper. The article's method is meant for views of
    features; for these use :func:`self_representation` and :func:`code_affinity` of this module.

    References
    ----------
    Y. Wang, X. Lin, L. Wu, W. Zhang, Q. Zhang: Exploiting correlation consensus: towards subspace
    clustering for multi-modal data. ACM Multimedia 2014.

    Examples
    --------
    >>> from coterie import CorrelationConsensus
    >>> P = [[0, 0], [0, 0], [0, 1], [1, 2], [1, 2]]
    >>> CorrelationConsensus(2, random_state=0).fit(P).labels_
    array([0, 0, 0, 1, 1], dtype=int32)
    """

    n_clusters: int | None = None
    _: KW_ONLY
    penalty: float = 0.02
    angle_penalty: float = 0.02
    n_bundles: int = 8
    threshold: float = 0.05
    n_rounds: int = 3
    max_tuples: int = 3_000
    partition_weights: Any = None
    random_state: Any = None

    _reason_against_soft = "it represents points by points with equal labels"

    def _label_tuples(self, tuples: LabelTuples) -> Labelling:
        K, weights = self._check_settings(tuples)
        self._check_parameters()
        check_size(tuples.n_tuples, self.max_tuples, "max_tuples", "CorrelationConsensus")
        # tuples without a weighted label are labelled by the base class
        labelled = tuples.has_weighted_label(weights)
        views, view_weights = _bundles(tuples, weights, labelled, self.n_bundles)
        points = tuples.weights[labelled]
        representation = self_representation(
            views,
            points,
            penalty=self.penalty,
            angle_penalty=self.angle_penalty,
            view_weights=view_weights,
            n_rounds=self.n_rounds,
        )
        self.history_ = {"loss": representation.losses}
        self.loss_, self.n_iter_ = representation.losses[-1], len(representation.losses)
        affinity = code_affinity(representation, points, self.threshold)
        labels = np.zeros(tuples.n_tuples, dtype=np.int64)
        labels[labelled] = spectral_labels(affinity, points, K, self.random_state)
        return Labelling(labels, weights)

    def _check_parameters(self) -> None:
        check_whole("n_bundles", self.n_bundles)
        check_whole("n_rounds", self.n_rounds)
        check_number("penalty", self.penalty, above=0)
        # with λ₂ > λ₁ the loss is unbounded below
        check_number("angle_penalty", self.angle_penalty, above=0, or_equal=True, most=self.penalty)
        if check_number("threshold", self.threshold, above=0, or_equal=True) >= 1:
            raise InvalidParameterError(f"threshold={self.threshold!r}: give a number below 1")


@dataclass(frozen=True)
class SelfRepresentation:
    """Codes of u rows in several views.

    Attributes
    ----------
    codes : list of (u, u) arrays
        Codes of each view, see the module docstring.
    present : (number of views, u) bool array
        True if the row is not zero in the view.
    view_weights : (number of views,) array
        They sum to one.
    losses : list of float
        The loss after every round.
    """

    codes: list[Array]
    present: NDArray[np.bool_]
    view_weights: Array
    losses: list[float]

    __repr__ = short_repr


def self_representation(
    views: Sequence[Array],
    points: Array,
    *,
    penalty: float,
    angle_penalty: float,
    view_weights: Array | None = None,
    n_rounds: int = 3,
) -> SelfRepresentation:
    """Compute sparse nonnegative codes of every point in every view, with similar directions.

    The problem is that of :class:`CorrelationConsensus`, with unit rows x_i of each view. A round
    updates the codes by accelerated proximal gradient, then each direction u_i: it is the sum of
    the views' codes, scaled to unit length. The loss never rises.

    Parameters
    ----------
    views : sequence of (u, p_v) arrays
        Rows are scaled to unit length; a row of zeros is missing in the view.
    points : (u,) array
        ω, the number of identical points of each row.
    penalty, angle_penalty : float
        λ₁ and λ₂, with λ₂ ≤ λ₁.
    view_weights : array, optional
        β, equal by default.
    n_rounds : int
        Number of rounds, of 30 gradient steps in each view.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
    >>> found = self_representation([X], np.ones(4), penalty=0.1, angle_penalty=0.0)
    >>> found.codes[0].argmax(axis=1)
    array([1, 0, 3, 2])
    """
    beta = np.ones(len(views)) if view_weights is None else view_weights
    beta = beta / beta.sum()
    unit = [_unit_rows(X) for X in views]
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
        direction, length = _common_direction(codes, beta, points)
        fits = [_code_losses(X, points, C, penalty) for X, C in zip(unit, codes, strict=True)]
        losses.append(float(points @ (beta @ fits - angle_penalty * length)))
    present = np.array([X.any(axis=1) for X in unit])
    return SelfRepresentation(codes, present, beta, losses)


def code_affinity(representation: SelfRepresentation, points: Array, threshold: float) -> Array:
    """Return the mean over views of the cosine between codes, shape (u, u).

    Entries of a code below ``threshold`` times its largest entry become 0. The entry of a point in
    its own code is set to the largest entry. Only views with both rows count. The diagonal is the
    mean over all pairs of points of a row, including a point with itself. ``points`` is ω (u,) as
    in :func:`self_representation`.
    """
    total = np.zeros((len(points), len(points)))
    for beta, C in zip(representation.view_weights, representation.codes, strict=True):
        total += beta * _code_cosines(C, points, threshold)
    both = (representation.present.T * representation.view_weights) @ representation.present
    return np.divide(total, both, out=total, where=both > 0)


def _improve_codes(X: Array, points: Array, codes: Array, slope: Array) -> Array:
    """Improve the codes of one view by accelerated proximal gradient; no row's loss rises."""
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


def _code_losses(X: Array, points: Array, codes: Array, slope: Array | float) -> Array:
    """Return ½‖x_a − Σ_j c_aj x_j‖² + Σ_j slope_aj c_aj over all points j, for every row a."""
    masses = _masses(codes, points)
    residual = X - masses @ X
    losses: Array = 0.5 * (residual**2).sum(axis=1) + (slope * masses).sum(axis=1)
    return losses


def _common_direction(codes: list[Array], beta: Array, points: Array) -> tuple[Array, Array]:
    """Return the directions u_a (rows of unit length or 0), and the norms ‖Σ_v β_v c_a‖."""
    total = beta[0] * codes[0]
    for weight, C in zip(beta[1:], codes[1:], strict=True):
        total += weight * C
    length = np.sqrt((_masses(total, points) * total).sum(axis=1))
    return np.divide(total, length[:, None], out=total, where=length[:, None] > 0), length


def _masses(codes: Array, points: Array) -> Array:
    """Return codes summed over the points of row b, for b = a without the point itself."""
    masses = codes * points
    np.einsum("aa->a", masses)[:] -= codes.diagonal()
    return masses


def _code_cosines(codes: Array, points: Array, threshold: float) -> Array:
    """Return cosines between codes, 0 for zero codes; see :func:`code_affinity`."""
    largest = codes.max(axis=1)
    C = np.where(codes >= threshold * largest[:, None], codes, 0.0)
    # in ``inner`` the entry of a point in its own code is that of an identical point: correct it
    correction = largest - C.diagonal()
    crossed = C * correction
    inner = (C * points) @ C.T
    squares = inner.diagonal() + largest**2 - C.diagonal() ** 2
    inner += crossed
    inner += crossed.T
    inverse = np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0)
    cosines: Array = inverse[:, None] * inner * inverse
    # the diagonal is the cosine of two different points of a row; that of a point with itself is 1
    diagonal = np.einsum("aa->a", cosines)  # a view, so that the update changes ``cosines``
    diagonal += (np.sign(largest) - diagonal) / points
    return cosines


def _bundles(
    tuples: LabelTuples, weights: Array, rows: NDArray[np.bool_], most: int
) -> tuple[list[Array], Array]:
    """Split the partitions into at most ``most`` one-hot views; return them and their weights."""
    used = np.flatnonzero(weights > 0)
    # copies of a partition are neighbouring columns and should share a bundle
    bundles = np.array_split(used, min(most, len(used)))
    views = [
        _one_hot(tuples.codes[rows][:, bundle], np.sqrt(weights[bundle])) for bundle in bundles
    ]
    return views, np.array([weights[bundle].sum() for bundle in bundles])


def _one_hot(codes: NDArray[Any], scale: Array) -> Array:
    """Return the one-hot labels of some partitions, scaled by partition; zeros if missing."""
    names, column = np.unique(codes, return_inverse=True)
    indicator = np.zeros((len(codes), len(names)))
    indicator[np.arange(len(codes))[:, None], column.reshape(codes.shape)] = scale
    return indicator[:, names >= 0]


def _unit_rows(X: Array) -> Array:
    """Scale rows to unit length; rows of zeros stay."""
    length = np.linalg.norm(X, axis=1, keepdims=True)
    return np.divide(X, length, out=np.zeros_like(X, dtype=np.float64), where=length > 0)
