"""NMFConsensus: the co-association matrix as a product of nonnegative, nearly orthogonal factors.

    min ‖M − H D Hᵀ‖²_F   s.t.  H ≥ 0,  HᵀH = I_K,  D ≥ 0 diagonal,   M (n, n), H (n, K)

Points of one tuple have equal rows in H at the start and after every update. Let w be the
multiplicities of the u tuples. The scaled matrices diag(√w) M diag(√w) (u, u) and diag(√w) H (u, K)
have the same updates, HᵀH, HᵀMH and loss as M and H over points. The functions below take these
scaled matrices, and M only as a function X ↦ M X.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from coterie.consensus.base import ConsensusFunction, Labelling
from coterie.consensus.parameters import check_choice, check_size
from coterie.consensus.spectral.coassociation_profiles import labelled_coassociation
from coterie.counts.cluster_tables import ClusterTables
from coterie.counts.contingency import all_contingencies
from coterie.ensembles.input_checks import check_number, check_whole
from coterie.labels.numbering import renumber_by_appearance
from coterie.labels.tuples import LabelTuples
from coterie.relaxation.least_squares import least_squares_factor
from coterie.runtime.devices import on_one_thread
from coterie.runtime.messages import ignore_duplicate_points_warning, warn_user
from coterie.runtime.wording import short_repr

__all__ = ["NMFConsensus", "NonnegativeFactor", "nonnegative_factor"]

Array = NDArray[np.float64]
Product = Callable[[Array], Array]

_log = logging.getLogger(__name__)

_SMOOTHING = 0.2  # multiplicative updates cannot change an entry that is 0
_CALM_SWEEPS = 5
_TINY = 1e-300  # avoids a division by 0


@dataclass(eq=False, repr=False)
class NMFConsensus(ConsensusFunction):
    """Nonnegative factor of the co-association matrix: min ‖M − H D Hᵀ‖²_F (NMFC).

    M (n, n) is the share of partitions that put two points together. It is approximated with
    H (n, K) ≥ 0, HᵀH = I_K, and D (K, K) ≥ 0 diagonal. Then H has at most one positive entry per
    row, which is a partition. The multiplicative updates are

        H ← H ∘ √( M H / H HᵀMH ),    d ← d ∘ √( diag(HᵀMH) / (HᵀH)^{∘2} d ),    D = diag(d),

    where the diagonal D cancels in the first. The label of a point is the column of the largest
    entry in its row of H.

    Parameters
    ----------
    n_clusters : int or None, default=None
        Number of clusters, K. If a column of H is the largest of no row, there are fewer clusters.
        None: the number that :func:`~coterie.choose_k` recommends.
    init : {"kmeans", "random"}, default="kmeans"
        Start from k-means on the ℓ2 factor (indicator + 0.2), or from uniform random numbers.
    n_init : int, default=5
        Number of starts; the one with the least loss is kept.
    max_iter : int, default=2000
        Largest number of sweeps per start.
    tol : float, default=1e-6
        Stop if five sweeps in a row change the loss by less than this share of ‖M‖²_F.
    max_tuples : int, default=5000
        Limit on the number u of distinct label tuples if labels are missing, because then a (u, u)
        matrix is needed.
    partition_weights : array of shape (V,) or None, default=None
        M is the weighted share of partitions.
    random_state : int, RandomState or None, default=None
    verbose : bool, default=False
        Show the stages of ``fit`` on the standard error stream.

    Attributes
    ----------
    labels_, n_clusters_, confidence_, objective_, n_tuples_, partition_weights_
        As in :class:`~coterie.RobustConsensus`.
    loss_ : float
        ‖M − H D Hᵀ‖²_F.
    history_ : dict
        ``"loss"``: the loss after every sweep of the best start.
    n_iter_ : int
        Number of these sweeps.

    Notes
    -----
    **Established.** Problem and updates are those of Li, Ding and Jordan, taken from two
    independent ports that agree, not from the article. Starts and stopping rule are our choice.

    **Limits.** HᵀH = I holds only in the limit; after the last sweep HᵀH differed from I by 0.01 to
    0.1 on data with clusters, by 0.2 on noise. The loss first falls, but may then rise slowly while
    H becomes orthogonal: in our runs by up to 12 % in one sweep, and to more than twice its minimum
    if nearly all partitions are equal. The error falls like 1/sweeps; the labels are final much
    earlier. A random start ends in a poor optimum more often than one from k-means. A sweep costs
    O(u·V·K), with missing labels O(u²·K).

    **When to use.** For nonnegative memberships of the points in the clusters. Its labels are close
    to those of :class:`~coterie.L2Consensus`, which is faster and has no local optima.

    References
    ----------
    T. Li, C. Ding, M. I. Jordan: Solving Consensus and Semi-supervised Clustering Problems Using
    Nonnegative Matrix Factorization. IEEE International Conference on Data Mining (ICDM), 2007.

    Examples
    --------
    >>> from coterie import NMFConsensus
    >>> NMFConsensus(2, random_state=0).fit([[0, 0], [0, 0], [0, 1], [1, 2], [1, 2]]).labels_
    array([0, 0, 0, 1, 1], dtype=int32)
    """

    n_clusters: int | None = None
    _: KW_ONLY
    init: str = "kmeans"
    n_init: int = 5
    max_iter: int = 2_000
    tol: float = 1e-6
    max_tuples: int = 5_000
    partition_weights: Any = None
    random_state: Any = None

    def _label_tuples(self, tuples: LabelTuples) -> Labelling:
        K, weights = self._check_settings(tuples)
        check_factor_settings(self.init, self.n_init, self.max_iter, self.tol)
        voting, group = tuples.restricted_to(weights > 0)
        votes, K = weights[weights > 0], min(K, voting.n_tuples)
        # only missing labels need a (u, u) matrix
        quadratic = voting.n_tuples if voting.has_missing else 0
        check_size(quadratic, self.max_tuples, "max_tuples", "NMFConsensus with missing labels")
        rng = check_random_state(self.random_state)
        with on_one_thread():
            starts = factor_starts(voting, votes, K, self.init, self.n_init, rng)
            product, squared_norm = _coassociation_product(voting, votes)
            factor = best_factor(product, squared_norm, starts, self.max_iter, self.tol)
        warn_if_not_converged(factor, self.max_iter)
        self.loss_ = factor.loss
        self.history_ = {"loss": factor.history}
        self.n_iter_ = len(factor.history)
        return Labelling(factor_labels(factor.H, voting, votes)[group], weights)


@dataclass(frozen=True)
class NonnegativeFactor:
    """H (u, K) and the diagonal d (K,) of D, with the loss after each sweep."""

    H: Array
    d: Array
    history: list[float]
    converged: bool

    __repr__ = short_repr

    @property
    def loss(self) -> float:
        """‖M − H D Hᵀ‖²_F after the last sweep."""
        return self.history[-1]


def nonnegative_factor(
    product: Product,
    squared_norm: float,
    H: Array,
    max_iter: int,
    tol: float,
    d: Array | None = None,
) -> NonnegativeFactor:
    """Update H and d from a start until the loss is stable.

    Parameters
    ----------
    product : X (u, K) ↦ M X
        M is symmetric with entries ≥ 0.
    squared_norm : float
        ‖M‖²_F.
    H : (u, K)
        The start, ≥ 0.
    max_iter, tol
        As in :class:`NMFConsensus`.
    d : (K,), optional
        The start of D; by default diag(HᵀMH).

    Examples
    --------
    >>> M = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> start = np.array([[0.8, 0.3], [0.8, 0.3], [0.3, 0.8]])
    >>> found = nonnegative_factor(lambda X: M @ X, 5.0, start, 500, 1e-9)
    >>> np.round(found.H * np.sqrt(found.d), 3)
    array([[1., 0.],
           [1., 0.],
           [0., 1.]])
    """
    _log.info("nonnegative factor of %d rows and %d columns", *H.shape)
    MH = product(H)
    d = _diagonal(H, MH) if d is None else d
    history: list[float] = []
    for _ in range(max_iter):
        H = H * np.sqrt(MH / np.maximum(H @ (H.T @ MH), _TINY))
        MH = product(H)
        explained, overlap = _diagonal(H, MH), (H.T @ H) ** 2
        d = d * np.sqrt(explained / np.maximum(overlap @ d, _TINY))
        # rounding can make the loss of a perfect fit negative
        history.append(max(float(squared_norm - 2 * d @ explained + d @ overlap @ d), 0.0))
        recent = history[-1 - _CALM_SWEEPS :]
        # the loss may fall and then rise: one small change is not convergence
        if len(recent) > _CALM_SWEEPS and np.abs(np.diff(recent)).max() <= tol * squared_norm:
            return NonnegativeFactor(H, d, history, True)
    return NonnegativeFactor(H, d, history, False)


def best_factor(
    product: Product, squared_norm: float, starts: Iterable[Array], max_iter: int, tol: float
) -> NonnegativeFactor:
    """Return the factor of least loss from several starts."""
    found = (nonnegative_factor(product, squared_norm, H, max_iter, tol) for H in starts)
    return min(found, key=lambda factor: factor.loss)


def factor_loss(product: Product, squared_norm: float, H: Array, d: Array) -> float:
    """Compute ‖M − H D Hᵀ‖²_F = ‖M‖²_F − 2 Σ_k d_k (HᵀMH)_kk + dᵀ(HᵀH)^{∘2} d."""
    overlap = (H.T @ H) ** 2
    return max(float(squared_norm - 2 * d @ _diagonal(H, product(H)) + d @ overlap @ d), 0.0)


def factor_starts(
    tuples: LabelTuples,
    partition_weights: Array,
    n_clusters: int,
    init: str,
    n_init: int,
    rng: np.random.RandomState,
) -> list[Array]:
    """Draw at most ``n_init`` different starts diag(√w) H (u, K) with columns of unit length."""
    if init == "random":
        drawn = [rng.random_sample((tuples.n_tuples, n_clusters)) for _ in range(n_init)]
    else:
        rows = least_squares_factor(tuples, partition_weights, n_clusters)
        model = KMeans(n_clusters, n_init=1, random_state=rng)
        with ignore_duplicate_points_warning():
            fits = [model.fit(rows, sample_weight=tuples.weights).labels_ for _ in range(n_init)]
        # equal partitions would be equal starts
        labels = {z.tobytes(): z for z in map(renumber_by_appearance, fits)}.values()
        drawn = [np.eye(n_clusters)[z] + _SMOOTHING for z in labels]
    scaled = [np.sqrt(tuples.weights)[:, None] * H for H in drawn]
    return [H / np.linalg.norm(H, axis=0) for H in scaled]


def scaled_indicator(tuples: LabelTuples) -> csr_array:
    """Return diag(√w) Z, shape (u, m): √w_a in the columns of the clusters of tuple a.

    >>> from coterie.labels.tuples import as_label_tuples
    >>> Z = scaled_indicator(as_label_tuples([[0, 0], [0, 0], [0, 1]]))
    >>> np.sort((Z.T @ Z).diagonal()).round(9)  # sizes of the clusters
    array([1., 2., 3.])
    """
    return tuples.indicator(np.sqrt(tuples.weights)[:, None])


def indicator_product(Z: csr_array, column_weights: Array) -> Product:
    """Return the function X ↦ Z A Zᵀ X, of cost O(u·V·K), A = diag(column weights (m,))."""
    transposed = Z.T.tocsr()
    return lambda X: Z @ (column_weights[:, None] * (transposed @ X))


def factor_labels(H: Array, tuples: LabelTuples, partition_weights: Array) -> NDArray[np.int64]:
    """Return the column of the largest entry in each row of H (u, K), numbered by appearance.

    The row of a tuple that is rarely together with others may become zero. Such a tuple is labelled
    like a new point in ``predict``.
    """
    labels = H.argmax(axis=1)
    kept: NDArray[np.bool_] = np.any(H > 0, axis=1)
    # no gaps: a tuple that fits no cluster would join an empty one
    labels[kept] = renumber_by_appearance(labels[kept])
    if not kept.all():
        labels[~kept] = -1
        tables = ClusterTables.of(tuples, labels, partition_weights)
        lost = tuples.subset(~kept)
        labels[~kept] = tables.assign(lost.codes, 0.5, memberships=lost.memberships)[0]
    return labels


def check_factor_settings(init: Any, n_init: Any, max_iter: Any, tol: Any) -> None:
    """Refuse invalid settings of the factorisation."""
    check_choice("init", init, ("kmeans", "random"))
    check_whole("n_init", n_init)
    check_whole("max_iter", max_iter)
    check_number("tol", tol, above=0, or_equal=True)


def warn_if_not_converged(factor: NonnegativeFactor, max_iter: int) -> None:
    """Warn if the updates did not converge."""
    if not factor.converged:
        warn_user(
            f"the nonnegative factor did not converge in max_iter={max_iter} sweeps; raise "
            "max_iter or tol",
            ConvergenceWarning,
        )


def _coassociation_product(tuples: LabelTuples, partition_weights: Array) -> tuple[Product, float]:
    """Return the function X ↦ diag(√w) M diag(√w) X, and ‖M‖²_F over points."""
    if tuples.is_complete(partition_weights):
        alpha = np.repeat(partition_weights / partition_weights.sum(), tuples.n_labels)
        squared_norm = float(alpha @ all_contingencies(tuples) ** 2 @ alpha)
        return indicator_product(scaled_indicator(tuples), alpha), squared_norm
    root = np.sqrt(tuples.weights)
    M = root[:, None] * labelled_coassociation(tuples, partition_weights) * root
    return lambda X: M @ X, float((M**2).sum())


def _diagonal(H: Array, MH: Array) -> Array:
    """Return diag(Hᵀ M H), shape (K,)."""
    return np.einsum("ik,ik->k", H, MH)
