"""WeightedConsensus: partition weights are learned together with a nonnegative factor."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils import check_random_state

from coterie.consensus.base import ConsensusFunction, Labelling
from coterie.consensus.factors.nonnegative_factor import (
    NonnegativeFactor,
    Product,
    best_factor,
    check_factor_settings,
    factor_labels,
    factor_loss,
    factor_starts,
    indicator_product,
    nonnegative_factor,
    scaled_indicator,
    warn_if_not_converged,
)
from coterie.counts.contingency import all_contingencies
from coterie.ensembles.input_checks import check_number, check_whole
from coterie.labels.tuples import LabelTuples
from coterie.runtime.devices import on_one_thread

__all__ = ["WeightedConsensus", "onto_simplex", "simplex_quadratic"]

Array = NDArray[np.float64]

_LEAST_IMPROVEMENT = 1e-4  # relative fall of the loss in a round
_GAP = 1e-10
_MOST_STEPS = 10_000


@dataclass(eq=False, repr=False)
class WeightedConsensus(ConsensusFunction):
    """Learned partition weights: min ‖Σ_v w_v M_v − H D Hᵀ‖²_F over w, H and D (WC).

    M_v (n, n) is 1 if partition v puts two points together, else 0. The weights w (V,) ≥ 0 sum to
    one; H (n, K) ≥ 0 with HᵀH = I_K and D (K, K) ≥ 0 diagonal are as in
    :class:`~coterie.NMFConsensus`. A round fits first H and D to the weighted average, then w to H
    and D, which is a quadratic problem:

        min wᵀA w − 2 bᵀw,   A_ab = ⟨M_a, M_b⟩,   b_v = Σ_k d_k h_kᵀ M_v h_k.

    Parameters
    ----------
    n_clusters : int or None, default=None
        Number of clusters, K. If a column of H is the largest of no row, there are fewer clusters.
        None: the number that :func:`~coterie.choose_k` recommends.
    max_outer : int, default=2
        Largest number of rounds; see Limits for why two. About 20 reach convergence.
    ridge : float, default=0.0
        ridge · mean(A_vv) · ‖w‖² is added to the loss, which makes the weights more equal.
    init : {"kmeans", "random"}, default="kmeans"
        Start of the first factor; a later one starts from the previous factor.
    n_init : int, default=3
        Number of starts of the first factor.
    max_iter : int, default=2000
        Largest number of sweeps per factor.
    tol : float, default=1e-6
        A factor is final if five sweeps in a row change the loss by less than this share of
        ‖Σ_v w_v M_v‖²_F.
    random_state : int, RandomState or None, default=None
    verbose : bool, default=False
        Show the stages of ``fit`` on the standard error stream.

    Attributes
    ----------
    labels_, n_clusters_, confidence_, objective_, n_tuples_
        As in :class:`~coterie.RobustConsensus`.
    partition_weights_ : array of shape (V,)
        The learned weights.
    loss_ : float
        The final loss, with the ridge.
    history_ : dict
        ``"loss"``: two values per round, after the fit of H and D and after that of w.
    n_iter_ : int
        Number of rounds.

    Notes
    -----
    **Established.** Problem and alternation are those of Li and Ding, taken from a port, not from
    the article. Warm starts, ``max_outer``, ``ridge``, the projected gradient for w and the
    treatment of missing labels are our choice.

    **Limits.** The optimum is degenerate: a single partition with K clusters is fitted without
    error, so all weight on it gives loss 0. Many rounds converge to it (raw wine, 40 k-means runs:
    all weight on copies of one partition). Hence only two rounds; a ridge helps too. The loss never
    rises. M_v is 0 for every pair that v does not label, so a partition with many missing labels
    seems to separate these points, and loses weight. The cost is O(u·V²) once, O(u·V·K) per sweep
    and O(V²) per step for w.

    **When to use.** To find the partitions that determine the ensemble, or if a few partitions are
    poor. If partitions share errors, use :class:`~coterie.RobustConsensus`.

    References
    ----------
    T. Li, C. Ding: Weighted Consensus Clustering. SIAM International Conference on Data Mining
    (SDM), 2008.

    Examples
    --------
    >>> from coterie import WeightedConsensus
    >>> P = [[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]]
    >>> est = WeightedConsensus(2, random_state=0).fit(P)
    >>> est.labels_, int(est.partition_weights_.argmin())
    (array([0, 0, 1, 1], dtype=int32), 2)
    """

    n_clusters: int | None = None
    _: KW_ONLY
    max_outer: int = 2
    ridge: float = 0.0
    init: str = "kmeans"
    n_init: int = 3
    max_iter: int = 2_000
    tol: float = 1e-6
    random_state: Any = None

    def _label_tuples(self, tuples: LabelTuples) -> Labelling:
        K = self._number_of_clusters(tuples)
        self._check_parameters()
        rng = check_random_state(self.random_state)
        with on_one_thread():
            equal = np.full(tuples.n_partitions, 1 / tuples.n_partitions)
            starts = factor_starts(tuples, equal, K, self.init, self.n_init, rng)
            problem = _Problem.of(tuples, float(self.ridge))
            factor, w, history = self._alternate(problem, starts, equal)
        warn_if_not_converged(factor, self.max_iter)
        self.loss_ = history[-1]
        self.history_ = {"loss": history}
        self.n_iter_ = len(history) // 2
        return Labelling(factor_labels(factor.H, tuples, w), w)

    def _alternate(
        self, problem: _Problem, starts: list[Array], w: Array
    ) -> tuple[NonnegativeFactor, Array, list[float]]:
        """Return factor, weights and losses (two per round), from initial weights w."""
        factor = best_factor(*problem.average(w), starts, self.max_iter, self.tol)
        history: list[float] = []
        for _ in range(self.max_outer):
            factor = self._refit(problem, factor, w) if history else factor
            history.append(problem.loss(factor, w))
            w = problem.better_weights(factor, w)
            history.append(problem.loss(factor, w))
            if len(history) > 2 and history[-3] - history[-1] <= _LEAST_IMPROVEMENT * history[-3]:
                break
        return factor, w, history

    def _refit(self, problem: _Problem, old: NonnegativeFactor, w: Array) -> NonnegativeFactor:
        """Fit the factor to new weights, starting from the old one; return the better of both."""
        product, norm = problem.average(w)
        new = nonnegative_factor(product, norm, old.H, self.max_iter, self.tol, old.d)
        return new if new.loss < factor_loss(product, norm, old.H, old.d) else old

    def _check_parameters(self) -> None:
        check_factor_settings(self.init, self.n_init, self.max_iter, self.tol)
        check_whole("max_outer", self.max_outer)
        check_number("ridge", self.ridge, above=0, or_equal=True)


def simplex_quadratic(A: Array, b: Array, start: Array) -> Array:
    """Minimise wᵀA w − 2 bᵀw over w ≥ 0, Σ w = 1, by accelerated projected gradient.

    Parameters
    ----------
    A : (V, V)
        Symmetric and positive semidefinite, with entries ≥ 0.
    b : (V,)
    start : (V,)
        w ≥ 0 with Σ w = 1.

    Returns
    -------
    w : (V,)
        Its value exceeds the minimum by at most 1e-10 of the largest A_vv, and never that of the
        start.

    Examples
    --------
    >>> simplex_quadratic(np.eye(2), np.array([0.5, 0.25]), np.array([0.5, 0.5]))
    array([0.625, 0.375])
    """
    step = 0.5 / A.sum(axis=1).max()  # no eigenvalue exceeds the largest row sum
    enough = _GAP * A.diagonal().max()
    w, Aw, momentum = start, A @ start, 1.0
    y, Ay = w, Aw
    for _ in range(_MOST_STEPS):
        slope = 2 * (Aw - b)
        # slope·w − min(slope) bounds the distance to the minimum, because the problem is convex
        if slope @ w - slope.min() <= enough:
            break
        moved = onto_simplex(y - step * 2 * (Ay - b))
        if (y - moved) @ (moved - w) > 0:  # momentum against the gradient: restart
            momentum, moved = 1.0, onto_simplex(w - step * slope)
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        push, momentum = (momentum - 1) / following, following
        Amoved = A @ moved
        y, Ay = moved + push * (moved - w), Amoved + push * (Amoved - Aw)
        w, Aw = moved, Amoved
    return w if w @ Aw - 2 * b @ w <= start @ A @ start - 2 * b @ start else start


def onto_simplex(x: Array) -> Array:
    """Return the nearest vector with entries ≥ 0 that sum to one.

    >>> onto_simplex(np.array([0.9, 0.5, -1.0]))
    array([0.7, 0.3, 0. ])
    """
    falling = np.sort(x)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(x) + 1)
    return np.maximum(x - excess[falling > excess][-1], 0.0)


@dataclass(frozen=True)
class _Problem:
    """The loss as a function of weights and factor, with H scaled by √multiplicity.

    ``indicator`` is diag(√multiplicity) Z (u, m), ``inner`` is A (V, V), ``ridge`` the factor of
    ‖w‖².
    """

    indicator: csr_array
    offsets: NDArray[np.int64]
    inner: Array
    ridge: float

    @classmethod
    def of(cls, tuples: LabelTuples, ridge: float) -> _Problem:
        """Compute A; ⟨M_a, M_b⟩ is the sum of squares of the contingency table of a and b."""
        starts = tuples.offsets[:-1]
        squares = all_contingencies(tuples) ** 2
        inner = np.add.reduceat(np.add.reduceat(squares, starts, axis=0), starts, axis=1)
        scale = float(inner.diagonal().mean())
        return cls(scaled_indicator(tuples), tuples.offsets, inner, ridge * scale)

    def average(self, w: Array) -> tuple[Product, float]:
        """Return the function X ↦ M(w) X, M(w) = Σ_v w_v M_v, and ‖M(w)‖²_F."""
        columns = np.repeat(w, np.diff(self.offsets))
        return indicator_product(self.indicator, columns), float(w @ self.inner @ w)

    def loss(self, factor: NonnegativeFactor, w: Array) -> float:
        """Return ‖M(w) − H D Hᵀ‖²_F + ridge ‖w‖²."""
        product, norm = self.average(w)
        return factor_loss(product, norm, factor.H, factor.d) + self.ridge * float(w @ w)

    def better_weights(self, factor: NonnegativeFactor, w: Array) -> Array:
        """Return the weights that fit the factor best."""
        A = self.inner + self.ridge * np.eye(len(w))
        return simplex_quadratic(A, self.products(factor), w)

    def products(self, factor: NonnegativeFactor) -> Array:
        """Return b_v = ⟨M_v, H D Hᵀ⟩, shape (V,)."""
        by_cluster = (self.indicator.T @ factor.H) ** 2 @ factor.d
        return np.add.reduceat(by_cluster, self.offsets[:-1])
