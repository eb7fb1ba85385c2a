"""CorrelationConsensus: codes of every point by few others, in several views that must agree.

The steps work on any views with unit rows, one-hot labels and features alike, and on things that
stand for several identical points. Identical points stay interchangeable in every step, so a code
is kept as one value for each thing: ``code[a, b]`` is the share that *each* point of b has in a
point of a. A point of a has ω_b points of b to choose from, but only ω_a − 1 of its own kind; that
is all there is to the rule that no point represents itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.consensus.base import ConsensusFunction, Labelling
from coterie.consensus.parameters import check_size
from coterie.errors import InvalidParameterError
from coterie.labels.tuples import LabelTuples
from coterie.relaxation.spectral_embedding import spectral_labels
from coterie.runtime.devices import on_one_thread

__all__ = ["CorrelationConsensus", "SelfRepresentation", "code_affinity", "self_representation"]

Array = NDArray[np.float64]

_STEPS = 30


class CorrelationConsensus(ConsensusFunction):
    """Sparse self-representation in bundles of partitions, then spectral clustering.

    A reconstruction in the style of the correlation consensus of Wang and others (2014), which the
    source paper calls CorC; the article's exact objective is not known to us. The partitions are
    split into bundles v with weights β_v; x_i (m_v,) are the one-hot labels of point i in a bundle,
    brought to length one. Each point is composed of few others, by codes c_i (n,), one for each
    bundle, that are drawn to a common direction u_i:

        min  Σ_v β_v Σ_i ( ½‖x_i − Σ_j c_ij x_j‖² + λ₁ Σ_j c_ij − λ₂ ⟨c_i, u_i⟩ ),

    over c_i ≥ 0 with c_ii = 0 and ‖u_i‖ ≤ 1. The affinity of two points is the cosine between
    their codes, averaged over bundles; normalised cut of it gives the labels.

    Parameters
    ----------
    n_clusters : int, default=8
    penalty : float, default=0.02
        λ₁, positive: larger gives sparser codes.
    angle_penalty : float, default=0.02
        λ₂, from 0 (bundles do not know of each other) to λ₁.
    n_bundles : int, default=8
        At most so many bundles, of equally many partitions up to one.
    threshold : float, default=0.05
        Entries of a code below this share of its largest are dropped, from 0 to below 1.
    n_rounds : int, default=3
        Turns of codes (30 gradient steps each) and directions.
    max_tuples : int, default=3000
        More distinct label tuples are refused.
    partition_weights : array of shape (V,) or None, default=None
        Squared distances in partition v count w_v times, and bundles by their sum.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    labels_, n_clusters_, confidence_, objective_, n_tuples_, partition_weights_
        As in :class:`~coterie.RobustConsensus`.
    loss_ : float
        The minimised sum, where it was left.
    history_ : dict
        ``"loss"``, its value after every round; it never rises.
    n_iter_ : int
        Rounds.

    Notes
    -----
    **Established.** From the abstracts of the conference article and its journal version: sparse
    self-representation in each view, an angular regulariser that draws the views together, a
    similarity of angles refined by sparsity, spectral clustering. Ours: the form of the
    regulariser, all constants, and bundles of partitions as views. Two choices were made on iris
    and wine with the classes in sight: λ₁ = λ₂ = 0.02, and that copies of a partition share a
    bundle instead of being dealt out. Figures of this class say nothing about the article's method.
    Points with the same labels stay interchangeable, so working on distinct tuples with their
    multiplicities is exact.

    **Limits.** Memory for ``n_bundles`` + 6 matrices over tuples, and O(u²m) a step, hence
    ``max_tuples``; 500 tuples of 40 partitions take a few seconds. Stopping early is part of the
    method: with 200 steps a turn instead of 30, nearly all of a code lies on points with the very
    same labels, the graph falls into more than K parts, and accuracy on iris falls from 0.89 to
    0.59 (mean of ten ensembles of 40 k-means runs). It is less stable than others on ensembles with
    varied numbers of clusters: 0.86 ± 0.08 on iris and 0.62 ± 0.08 on raw wine, where
    :class:`~coterie.L2Consensus` has 0.90 ± 0.00 and 0.72 ± 0.01 (ten ensembles each).

    **When to use.** To compare with the source paper, which says itself that the method suits runs
    badly: it is meant for views of features. :func:`self_representation` and
    :func:`code_affinity` of this module take such views.

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

    _needs_labels = "a point is coded by others of the same labels"

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        penalty: float = 0.02,
        angle_penalty: float = 0.02,
        n_bundles: int = 8,
        threshold: float = 0.05,
        n_rounds: int = 3,
        max_tuples: int = 3_000,
        partition_weights: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.penalty = penalty
        self.angle_penalty = angle_penalty
        self.n_bundles = n_bundles
        self.threshold = threshold
        self.n_rounds = n_rounds
        self.max_tuples = max_tuples
        self.partition_weights = partition_weights
        self.random_state = random_state

    def _label_tuples(self, tuples: LabelTuples) -> Labelling:
        K, weights = self._check_settings(tuples)
        self._check_parameters()
        check_size(tuples.n_tuples, self.max_tuples, "max_tuples", "CorrelationConsensus")
        # what no partition speaks of says nothing about the others, and follows them later
        heard: NDArray[np.bool_] = np.any((tuples.codes >= 0) & (weights > 0), axis=1)
        views, view_weights = _bundles(tuples, weights, heard, self.n_bundles)
        points = tuples.weights[heard]
        found = self_representation(
            views,
            points,
            penalty=self.penalty,
            angle_penalty=self.angle_penalty,
            view_weights=view_weights,
            n_rounds=self.n_rounds,
        )
        self.history_ = {"loss": found.losses}
        self.loss_, self.n_iter_ = found.losses[-1], len(found.losses)
        affinity = code_affinity(found, points, self.threshold)
        labels = np.zeros(tuples.n_tuples, dtype=np.int64)
        labels[heard] = spectral_labels(affinity, points, K, self.random_state)
        return Labelling(labels, weights)

    def _check_parameters(self) -> None:
        for name in ("n_bundles", "n_rounds"):
            value = getattr(self, name)
            if not _is_number(value) or not isinstance(value, Integral) or value < 1:
                raise InvalidParameterError(
                    f"{name}={value!r}: it must be a whole number from 1 up"
                )
        if not _is_number(self.penalty) or not 0 < self.penalty < np.inf:
            raise InvalidParameterError(f"penalty={self.penalty!r}: it must be a positive number")
        if not _is_number(self.angle_penalty) or not 0 <= self.angle_penalty <= self.penalty:
            raise InvalidParameterError(
                f"angle_penalty={self.angle_penalty!r}: it must be between 0 and "
                f"penalty={self.penalty!r}, or the loss has no lower bound"
            )
        if not _is_number(self.threshold) or not 0 <= self.threshold < 1:
            raise InvalidParameterError(
                f"threshold={self.threshold!r}: it must be at least 0 and below 1"
            )


@dataclass(frozen=True)
class SelfRepresentation:
    """Codes of u things in several views.

    Attributes
    ----------
    codes : list of (u, u) arrays
        A row for each thing: the share of every point of each other thing in its points.
    present : (number of views, u) bool array
        Whether the thing has anything in the view.
    view_weights : (number of views,) array
        They sum to one.
    losses : list of float
        After every round.
    """

    codes: list[Array]
    present: NDArray[np.bool_]
    view_weights: Array
    losses: list[float]


def self_representation(
    views: Sequence[Array],
    points: Array,
    *,
    penalty: float,
    angle_penalty: float,
    view_weights: Array | None = None,
    n_rounds: int = 3,
) -> SelfRepresentation:
    """Sparse nonnegative codes of every point by the others, drawn to one direction by all views.

    With unit rows x_i in each view, over all points i and codes c_i ≥ 0 with c_ii = 0,

        min  Σ_v β_v Σ_i ( ½‖x_i − Σ_j c_ij x_j‖² + λ₁ Σ_j c_ij − λ₂ ⟨c_i, u_i⟩ ),  ‖u_i‖ ≤ 1,

    by turns: codes by accelerated proximal gradient from where they are, directions u_i in closed
    form (the sum of the views' codes, brought to length one). The loss never rises.

    Parameters
    ----------
    views : sequence of (u, p_v) arrays
        Things by features. Rows are brought to length one; a row of zeros is not in the view.
    points : (u,) array
        ω, how many identical points each row stands for.
    penalty, angle_penalty : float
        λ₁ and λ₂, with λ₂ ≤ λ₁.
    view_weights : array, optional
        β, equal by default.
    n_rounds : int
        How many turns; 30 gradient steps a turn and view.

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
    for _ in range(n_rounds):
        slope = penalty - angle_penalty * direction
        with on_one_thread():  # many products with few columns
            for v, X in enumerate(unit):
                codes[v] = _improved_codes(X, points, codes[v], slope)
        direction, length = _common_direction(codes, beta, points)
        fits = [_code_losses(X, points, C, penalty) for X, C in zip(unit, codes, strict=True)]
        losses.append(float(points @ (beta @ fits - angle_penalty * length)))
    present = np.array([X.any(axis=1) for X in unit])
    return SelfRepresentation(codes, present, beta, losses)


def code_affinity(found: SelfRepresentation, points: Array, threshold: float) -> Array:
    """Mean over views of the cosine between codes, shape (u, u).

    Entries of a code below ``threshold`` times its largest are dropped, and each point enters its
    own code with the largest. Views that lack one of two things say nothing about them. The
    diagonal is the mean over all pairs of points of a thing, a point and itself among them.

    Parameters
    ----------
    found : SelfRepresentation
    points : (u,) array
        ω, as it was given to :func:`self_representation`.
    threshold : float
        From 0 to below 1.
    """
    total = np.zeros((len(points), len(points)))
    for beta, C in zip(found.view_weights, found.codes, strict=True):
        total += beta * _code_cosines(C, points, threshold)
    both = (found.present.T * found.view_weights) @ found.present
    return np.divide(total, both, out=total, where=both > 0)


def _improved_codes(X: Array, points: Array, codes: Array, slope: Array) -> Array:
    """Codes of one view after accelerated proximal gradient steps; no row's loss rises."""
    alone = np.flatnonzero(points == 1)
    step = 1.0 / max(float(np.linalg.norm(np.sqrt(points)[:, None] * X, 2)) ** 2, 1.0)
    old, look_ahead, momentum = codes, codes, 1.0
    for _ in range(_STEPS):
        residual = _masses(look_ahead, points) @ X - X
        new = residual @ X.T
        new += slope
        new *= -step
        new += look_ahead
        np.maximum(new, 0.0, out=new)
        new[alone, alone] = 0.0
        following = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        look_ahead = new + (momentum - 1.0) / following * (new - old)
        old, momentum = new, following
    better = _code_losses(X, points, old, slope) < _code_losses(X, points, codes, slope)
    return np.where(better[:, None], old, codes)


def _code_losses(X: Array, points: Array, codes: Array, slope: Array | float) -> Array:
    """½‖x_a − Σ_j c_aj x_j‖² + Σ_j slope_aj c_aj over all points j, for every thing a."""
    masses = _masses(codes, points)
    residual = X - masses @ X
    losses: Array = 0.5 * (residual**2).sum(axis=1) + (slope * masses).sum(axis=1)
    return losses


def _common_direction(codes: list[Array], beta: Array, points: Array) -> tuple[Array, Array]:
    """u_a, the sum of the views' codes at length one (0 where all are 0), and the length before."""
    total = beta[0] * codes[0]
    for weight, C in zip(beta[1:], codes[1:], strict=True):
        total += weight * C
    length = np.sqrt((_masses(total, points) * total).sum(axis=1))
    return np.divide(total, length[:, None], out=total, where=length[:, None] > 0), length


def _masses(codes: Array, points: Array) -> Array:
    """Share of all points of b together in a point of a, which is itself none of them."""
    masses = codes * points
    np.einsum("aa->a", masses)[:] -= codes.diagonal()
    return masses


def _code_cosines(codes: Array, points: Array, threshold: float) -> Array:
    """Cosines between the codes of points, 0 for empty codes; the diagonal as in code_affinity."""
    largest = codes.max(axis=1)
    C = np.where(codes >= threshold * largest[:, None], codes, 0.0)
    # a point's entry in its own code, less that of its twins, which the first product counts there
    own = largest - C.diagonal()
    crossed = C * own
    inner = (C * points) @ C.T
    squares = inner.diagonal() + largest**2 - C.diagonal() ** 2
    inner += crossed
    inner += crossed.T
    inverse = np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0)
    cosines: Array = inverse[:, None] * inner * inverse
    # so far the diagonal holds the cosine of twins; a point and itself have 1
    twins = np.einsum("aa->a", cosines)
    twins += (np.sign(largest) - twins) / points
    return cosines


def _bundles(
    tuples: LabelTuples, weights: Array, rows: NDArray[np.bool_], most: int
) -> tuple[list[Array], Array]:
    """One-hot views, at most so many, of neighbouring partitions each, and their weights."""
    used = np.flatnonzero(weights > 0)
    # copies of a partition are neighbours in the columns' order; dealt out in turn, they would make
    # every bundle a copy of the others
    bundles = np.array_split(used, min(most, len(used)))
    views = [_one_hot(tuples.codes[rows][:, own], np.sqrt(weights[own])) for own in bundles]
    return views, np.array([weights[own].sum() for own in bundles])


def _one_hot(codes: NDArray[Any], scale: Array) -> Array:
    """Indicator of the clusters of some partitions, scaled by partition; a missing label is 0."""
    names, column = np.unique(codes, return_inverse=True)
    indicator = np.zeros((len(codes), len(names)))
    indicator[np.arange(len(codes))[:, None], column.reshape(codes.shape)] = scale
    return indicator[:, names >= 0]


def _unit_rows(X: Array) -> Array:
    """Rows of length one; rows of zeros stay."""
    length = np.linalg.norm(X, axis=1, keepdims=True)
    return np.divide(X, length, out=np.zeros_like(X, dtype=np.float64), where=length > 0)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
