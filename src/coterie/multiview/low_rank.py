"""Low-rank consensus: the shared low-rank part of the co-associations of several views."""

from __future__ import annotations

import logging
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from coterie.arrays import Floats, Ints
from coterie.consensus.base import check_size
from coterie.counts.coassociation import tuple_coassociation
from coterie.ensembles.generate import fit_ensemble
from coterie.ensembles.input_checks import check_number, check_whole
from coterie.errors import InvalidParameterError
from coterie.labels.encode import as_label_matrix
from coterie.labels.tuples import compress_labels
from coterie.multiview.view_input import MultiViewMethod
from coterie.relaxation.spectral import dense_eigenpairs, spectral_labels
from coterie.runtime.messages import warn_user
from coterie.runtime.wording import short_repr

_log = logging.getLogger(__name__)

# The penalty μ grows from the first to the largest value.
_FIRST_PENALTY = 0.01
_PENALTY_GROWTH = 1.2
_LARGEST_PENALTY = 1e6
# Weight of the mean co-association that is added to Z before the cut.
_MEAN_SHARE = 1e-6


@dataclass(eq=False, repr=False)
class LowRankConsensus(MultiViewMethod):
    """LCC-style: a low-rank similarity that all views share, and a sparse error of each view.

    In each view v, k-means runs ``n_partitions`` times; S_v (n, n) is the share of the runs that
    put two points together. The problem is

        min over Z, E, H   ‖Z‖_* + λ₁ Σ_v ‖E_v‖₁ + λ₂ tr(Hᵀ L_Z H)
        s.t.  S_v = Z + E_v,  Z = Zᵀ ≥ 0,  HᵀH = I_K

    with ‖Z‖_* the sum of the singular values of Z (n, n), L_Z = diag(Z 1) − Z its Laplacian and
    H (n, K). Spectral clustering of Z gives the labels.

    Parameters
    ----------
    n_partitions : int, default=10
        k-means runs in each view.
    error_weight : float or None, default=None
        λ₁; None means 1 / (V√n), with V the number of views.
    cut_weight : float, default=0.01
        λ₂; 0 removes the third term.
    max_iter : int, default=100
    tol : float, default=1e-5
        Stop if the violation of each constraint is at most this share of the largest ‖S_v‖_F.
    max_points : int, default=5_000
        More distinct points are refused, because a step takes O(n³) time and 3V·n² numbers are
        in memory.
    n_clusters, standardize, random_state, verbose
        As in :class:`ConcatenatedSpectral`.

    Attributes
    ----------
    labels_, n_clusters_, view_names_
        As in :class:`ConcatenatedSpectral`.
    n_tuples_ : int
        Number of distinct points: those that at least one run separates. The problem is solved
        over these.
    rank_ : int
        Rank of the low-rank part.
    loss_ : float
        Value of the objective at the solution.
    history_ : dict
        ``"loss"`` and ``"residual"`` (largest relative violation of a constraint) of each step.
    n_iter_ : int

    Notes
    -----
    **Established.** A reconstruction from the abstract of the article: base partitions of each
    view are decomposed into a shared low-rank part and sparse errors, with spectral clustering in
    the same objective. The full article was not available. The constraint above, both λ, the solver
    (ADMM, penalty from 0.01, growing by 1.2 per step) and the labels from Z instead of H are our
    choice. Results measured here say nothing about the authors' method.

    **Limits.** The slowest of the multi-view methods: O(n³) per step, about sixty steps. A block of
    s equal points remains in Z if s·λ₁·V > 1; for the default λ₁ this is s > √n. Smaller clusters
    count as errors; only 1e-6 times the mean of the S_v, which is added to Z before the cut,
    separates them.

    **When to use.** For comparison. Spectral clustering of the mean co-association was as good in
    all our measurements and much faster; :class:`~coterie.MultiViewClusterer` also shows which
    views disagree.

    References
    ----------
    Z. Tao, H. Liu, S. Li, Z. Ding and Y. Fu, "From ensemble clustering to multi-view clustering",
    International Joint Conference on Artificial Intelligence, 2017.

    Examples
    --------
    >>> from coterie.multiview import LowRankConsensus
    >>> views = [[[0.0], [0.1], [0.2], [7.0], [7.1], [7.3]], [[1], [1], [2], [9], [9], [8]]]
    >>> LowRankConsensus(2, random_state=0).fit(views).labels_
    array([0, 0, 0, 1, 1, 1], dtype=int32)
    """

    _: KW_ONLY
    n_partitions: int = 10
    error_weight: float | None = None
    cut_weight: float = 0.01
    max_iter: int = 100
    tol: float = 1e-5
    max_points: int = 5_000

    def _label_points(
        self, views: dict[str, Any], n_clusters: int, rng: np.random.RandomState
    ) -> Ints:
        runs = [
            fit_ensemble(
                X, n_clusters, self.n_partitions, ensemble="kmeans", random_state=rng
            ).labels
            for X in views.values()
        ]
        tuples = compress_labels(as_label_matrix(np.hstack(runs)))
        check_size(tuples.n_tuples, self.max_points, "max_points", type(self).__name__)
        view_of = np.repeat(np.arange(len(views)), self.n_partitions)[tuples.partition_order]
        of_view = [(view_of == v).astype(np.float64) for v in range(len(views))]
        S = np.stack([tuple_coassociation(tuples, weights).dense() for weights in of_view])
        split = low_rank_consensus(
            S,
            n_clusters,
            tuples.weights,
            error_weight=self.error_weight,
            cut_weight=self.cut_weight,
            max_iter=self.max_iter,
            tol=self.tol,
        )
        if not split.converged:
            warn_user(
                f"stopped after max_iter={self.max_iter} steps; the constraints are violated by "
                f"{split.history['residual'][-1]:.1e}, more than tol={self.tol}; raise max_iter or "
                "tol",
                ConvergenceWarning,
            )
        if not split.shared.any():
            warn_user(
                "all similarities were classified as errors, so the labels come from the mean "
                "similarity; raise error_weight",
                ConvergenceWarning,
            )
        self.n_tuples_ = tuples.n_tuples
        self.rank_, self.loss_ = split.rank, split.loss
        self.history_, self.n_iter_ = split.history, split.n_iter
        # a small multiple of the mean S_v labels points that are zero in Z
        affinity = split.shared + _MEAN_SHARE * S.mean(axis=0)
        return tuples.expand(spectral_labels(affinity, tuples.weights, n_clusters, rng))


@dataclass(frozen=True)
class LowRankSplit:
    """Result of :func:`low_rank_consensus`."""

    shared: Floats  # Z (u, u), symmetric and not negative; E_v is S[v] - shared
    rank: int  # of the low-rank copy of Z
    loss: float  # ‖Z‖_* + λ₁ Σ_v ‖S_v − Z‖₁ + λ₂ tr(Hᵀ L_Z H)
    n_iter: int
    converged: bool
    history: dict[str, list[float]]  # "loss" and "residual" of each step

    __repr__ = short_repr


def low_rank_consensus(
    S: Any,
    n_clusters: int,
    weights: Any = None,
    *,
    error_weight: float | None = None,
    cut_weight: float = 0.01,
    max_iter: int = 100,
    tol: float = 1e-5,
) -> LowRankSplit:
    """Split similarities S_v into a shared low-rank Z and sparse errors, by ADMM.

    The problem is that of :class:`LowRankConsensus`. Row a of S represents ω_a equal points; let
    C (n, u) be the indicator of the row of each point and Ω = diag ω. Then Z = C Z̃ Cᵀ has the
    singular values of Ω^½ Z̃ Ω^½, because C Ω^−½ has orthonormal columns. The other terms are sums
    over pairs with weights ω_a ω_b, and soft thresholds and Z ≥ 0 act on single entries. So each
    step over n points is computed over u rows. Equal points have equal rows in H.

    Parameters
    ----------
    S : (V, u, u) array
        Symmetric, not negative.
    n_clusters, error_weight, cut_weight, max_iter, tol
        As in :class:`LowRankConsensus`.
    weights : (u,) array, optional
        ω; ones by default.

    Examples
    --------
    >>> block = np.kron(np.eye(2), np.ones((4, 4)))
    >>> noisy = block.copy()
    >>> noisy[0, 7] = noisy[7, 0] = 1.0
    >>> split = low_rank_consensus([block, block, noisy], 2)
    >>> bool(np.allclose(split.shared, block, atol=1e-3)), split.rank
    (True, 2)
    """
    try:
        S = np.asarray(S, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameterError("S cannot be read as V matrices of one size") from None
    if S.ndim != 3 or S.shape[1] != S.shape[2] or 0 in S.shape:
        raise InvalidParameterError(
            f"S has shape {S.shape}; give V square similarities, shape (V, u, u)"
        )
    for v, S_v in enumerate(S):
        if not np.isfinite(S_v).all() or S_v.min() < 0:
            raise InvalidParameterError(f"S[{v}] has entries that are negative or not finite")
        if not np.allclose(S_v, S_v.T, rtol=1e-8, atol=1e-8 * float(S_v.max())):
            raise InvalidParameterError(f"S[{v}] is not symmetric; use (S + S.T) / 2")
    V, u = S.shape[:2]
    omega = np.ones(u) if weights is None else np.asarray(weights, dtype=np.float64)
    if omega.shape != (u,) or not np.isfinite(omega).all() or omega.min() <= 0:
        raise InvalidParameterError(f"weights: give {u} positive numbers, one for each row of S")
    K = min(check_whole("n_clusters", n_clusters), u)
    if error_weight is None:
        error_weight = 1.0 / (V * np.sqrt(omega.sum()))
    error_weight = check_number("error_weight", error_weight, above=0.0)
    cut_weight = check_number("cut_weight", cut_weight, above=0.0, or_equal=True)
    tol = check_number("tol", tol, above=0.0, or_equal=True)
    max_iter = check_whole("max_iter", max_iter)
    root = np.sqrt(omega)
    roots = np.outer(root, root)

    def norm(A: Floats) -> float:
        """Return ‖C A Cᵀ‖_F = (Σ_ab ω_a ω_b A_ab²)^½."""
        return float(np.sqrt(omega @ (A * A) @ omega))

    def cut_distances(Z: Floats) -> Floats | None:
        """Return P_ab = ‖h_a − h_b‖² / 2, so that tr(Hᵀ L_Z H) = ⟨Z, P⟩; None if λ₂ = 0.

        The rows h are those of the K eigenvectors of L_Z with the smallest eigenvalues. Over
        tuples L_Z is diag(Z ω) − Ω^½ Z Ω^½.
        """
        if cut_weight == 0:
            return None
        negated = Z * roots
        negated[np.diag_indices_from(negated)] -= Z @ omega
        H = dense_eigenpairs(negated, K)[0] / root[:, None]
        squares = np.einsum("ak,ak->a", H, H)
        return np.maximum((squares[:, None] + squares) / 2 - H @ H.T, 0.0)

    def loss(nuclear_norm: float) -> float:
        """Return ‖Z‖_* + λ₁ Σ_v ‖S_v − Z‖₁ + λ₂ ⟨Z, P⟩, where ‖Z‖_* is given."""
        errors = sum(float(omega @ np.abs(S_v - Z) @ omega) for S_v in S)
        cut = 0.0 if P is None else float(omega @ (Z * P) @ omega)
        return nuclear_norm + error_weight * errors + cut_weight * cut

    Z = S.mean(axis=0)
    Y, Y_copy = np.zeros_like(S), np.zeros_like(Z)
    P = cut_distances(Z)
    scale = max(norm(S_v) for S_v in S) or 1.0
    mu = _FIRST_PENALTY
    history: dict[str, list[float]] = {"loss": [], "residual": []}
    converged = False
    while len(history["loss"]) < max_iter and not converged:
        # J, a copy of Z for the nuclear norm, whose proximal map shrinks the eigenvalues (Cai,
        # Candès and Shen 2010)
        values, vectors = np.linalg.eigh((Z + Y_copy / mu) * roots)
        values = _soft(values, 1.0 / mu)
        kept = values != 0
        rows = vectors[:, kept] / root[:, None]
        J = (rows * values[kept]) @ rows.T
        # E (ℓ1 norm), and Z (least squares, symmetric, not negative)
        E = _soft(S - Z + Y / mu, error_weight / mu)
        total = J - Y_copy / mu + (S - E + Y / mu).sum(axis=0)
        if P is not None:
            total -= cut_weight / mu * P
        Z = np.maximum((total + total.T) / (2 * (V + 1)), 0.0)
        P = cut_distances(Z)
        # the multipliers of the constraints S_v = Z + E_v and Z = J
        gap, copy_gap = S - Z - E, Z - J
        Y += mu * gap
        Y_copy += mu * copy_gap
        mu = min(_PENALTY_GROWTH * mu, _LARGEST_PENALTY)
        residual = max(norm(A) for A in (*gap, copy_gap)) / scale
        _log.info("low-rank consensus: step %d, residual %.1e", len(history["loss"]) + 1, residual)
        history["residual"].append(residual)
        history["loss"].append(loss(float(np.abs(values).sum())))
        converged = residual <= tol
    rank = int(np.count_nonzero(values))
    nuclear_norm = float(np.abs(np.linalg.eigvalsh(Z * roots)).sum())
    return LowRankSplit(Z, rank, loss(nuclear_norm), len(history["loss"]), converged, history)


def _soft(A: Floats, threshold: float) -> Floats:
    """Soft-threshold the entries."""
    return A - np.clip(A, -threshold, threshold)
