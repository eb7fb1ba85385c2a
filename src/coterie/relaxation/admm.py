"""The robust relaxation: M ≈ H D Hᵀ in ℓ1, by the alternating direction method on one state.

    min ‖M − L‖₁   s.t.  L = H D Hᵀ,  HᵀH = I_K,  D ≥ 0 diagonal

With E = M − L split off and Ω its multiplier, the augmented Lagrangian

    ‖E‖₁ + ⟨Ω, E − M + L⟩ + (μ/2) ‖E − M + L‖²_F

is minimised over E (soft threshold) and over L (K largest eigenpairs of B = M − E − Ω/μ, negative
ones cut to zero) in turn, then Ω ← Ω + μ(E − M + L). How μ grows is told in :mod:`.iteration`.
Substituting, with Y = Ω/μ and C = clip(M − L − Y, −1/μ, +1/μ),

    B  = L + C,       Y₊ = (L₊ − B) μ/μ₊,

so that B is the only full matrix: E and Ω are never stored. On compressed tuples with
multiplicities w, sums are w-weighted and the eigenproblem is that of S B S, S = diag(√w).
(Over-relaxation, which speeds up the convex case, was tried: some problems ended percents higher.)

B is symmetric and kept as the tiles of its upper triangle. One pass over them makes a tile of L,
updates that of B, and multiplies it with the last eigenvectors, from which the next ones take one
or two further products.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.counts.coassociation import TupleCoassociation, coassociation_bytes
from coterie.relaxation.admm_kernels import gap_sums, step_tile
from coterie.relaxation.eigenpairs import dense_eigenpairs, krylov_eigenpairs, lanczos_eigenpairs
from coterie.relaxation.iteration import RobustRelaxation, minimise
from coterie.relaxation.symmetric_tiles import SymmetricTiles, Tile, add_product, n_stored, summed
from coterie.runtime.devices import on_one_thread, readable_bytes

__all__ = ["TiledSolver", "required_bytes", "robust_factor"]

Matrix = NDArray[np.float64]

_log = logging.getLogger(__name__)

_DENSE_UP_TO = 400
_EXTRA_COLUMNS = 6
_SINGLE_PRECISION_ABOVE = 4000
_PRODUCTS = 8
_PROBES = 3


def required_bytes(n_tuples: int, counted: bool = True) -> int:
    """Memory the relaxation takes for u tuples: half of the state, and M.

    The state has 8 bytes an entry up to 4,000 tuples and 4 above. M is a byte an entry where
    counts say it all (``counted``: equal weights, no label missing), floats otherwise.
    """
    state = n_stored(n_tuples) * _state_dtype(n_tuples).itemsize
    return state + coassociation_bytes(n_tuples, counted)


def robust_factor(
    M: TupleCoassociation,
    start: Matrix,
    *,
    rho: float = 1.1,
    max_iter: int = 300,
    tol: float = 1e-3,
    eigen_tolerance: float = 1e-4,
    callback: Callable[[int, float], None] | None = None,
) -> RobustRelaxation:
    """Minimise ‖M − F Fᵀ‖₁ over F of shape (u, K).

    Above 4,000 tuples the state is in single precision; the objective at the end is summed in
    double, and differs from that of a state in double by less than one part in 10,000. An
    interrupt takes effect within a step.

    Parameters
    ----------
    M : co-association of u tuples with their weights
    start : (u, K)
        Where to begin; the ℓ2 solution by default of the callers.
    rho : float > 1
        Growth of μ a step: smaller is slower and ends at a slightly lower objective.
    max_iter, tol
        Stop when the primal residual is below ``tol`` and the dual one below 10 ``tol``, each
        relative to its scale (see :class:`RobustRelaxation`).
    eigen_tolerance
        Residual, relative to the largest eigenvalue, to which the eigenpairs are computed at
        each step. Ten times looser, some problems end a percent higher.
    callback : called with the step number and the objective

    Examples
    --------
    >>> from coterie.labels.tuples import as_label_tuples
    >>> from coterie.counts.coassociation import tuple_coassociation
    >>> tuples = as_label_tuples([[0, 0], [0, 0], [1, 1], [1, 1], [1, 0]])
    >>> M = tuple_coassociation(tuples, np.ones(2))
    >>> result = robust_factor(M, np.eye(3)[:, :2])
    >>> result.converged, result.factor.shape
    (True, (3, 2))
    """
    # the tiles are divided among threads, so what is done with one stays on its own
    with on_one_thread():
        solver = TiledSolver(M, start, eigen_tolerance)
        if _log.isEnabledFor(logging.INFO):
            _log.info(
                "robust relaxation of %d tuples: %s for the state and %s for M, "
                "about %.2g s a step",
                len(start),
                readable_bytes(solver.state.nbytes),
                readable_bytes(M.values.nbytes),
                solver.expected_seconds(),
            )
        return minimise(solver, rho, max_iter, tol, callback)


class TiledSolver:
    """The state of the iteration: B over tuples, the factor F of L, the eigenvector block.

    With a small ``eigen_tolerance`` every step is that of the textbook (:mod:`.reference_admm`),
    to rounding.
    """

    def __init__(
        self,
        M: TupleCoassociation,
        start: Matrix,
        eigen_tolerance: float = 1e-4,
    ) -> None:
        u, self.k = start.shape
        self.M = M
        self.n_points = float(M.weights.sum())
        self.eigen_tolerance = eigen_tolerance
        self.dtype = _state_dtype(u)
        self.root = np.sqrt(M.weights)[:, None]
        self.weights = M.weights.astype(self.dtype)
        self.state = SymmetricTiles(u, self.dtype)
        self.factor = start
        self.block = self._first_block(start)
        self.product = np.zeros_like(self.block)
        self.mean, self.norm = self._mean_and_norm()

    def step(self, shrink: float, bound: float) -> tuple[float, float]:
        """B ← L + C; the objective ‖M − L‖₁ and the residual after the E-step."""
        stepped = self._tile_step(shrink, bound)
        totals, products = zip(*self.state.map_shares(stepped), strict=True)
        objective, residual = summed(totals)
        self.product = self.root * summed(products)
        return float(objective), float(np.sqrt(residual))

    def advance(self) -> float:
        """L ← K largest eigenpairs of B, negative ones cut; returns ‖L₊ − L‖_F."""
        vectors, values = self._eigenpairs()
        before = self.root * self.factor
        after = vectors * np.sqrt(np.maximum(values, 0.0))
        self.factor = after / self.root
        return _distance(after, before)

    def objective(self) -> float:
        """‖M − L‖₁ of the current factor in double precision, without touching the state."""
        return self._gap_sums(self.factor)[0]

    def expected_seconds(self) -> float:
        """About how long a step will take: that of one tile, times the tiles of a thread."""
        first = self.state.shares[0][0]
        scratch = [Tile(first.rows, first.columns, first.values.copy())]
        stepped, seconds = self._tile_step(1.0, 1.0), np.inf
        for _ in range(_PROBES):  # the first of them may have to compile
            before = time.perf_counter()
            stepped(scratch)
            seconds = min(seconds, time.perf_counter() - before)
        # refining the eigenpairs, by more products and small algebra, takes about twice as long
        return 3.0 * seconds * len(self.state.shares[0])

    def _tile_step(
        self, shrink: float, bound: float
    ) -> Callable[[Sequence[Tile]], tuple[Matrix, Matrix]]:
        """What a thread does with its tiles: the step, its two sums, and B times the block."""
        scale, shrunk, bounded = (self.dtype.type(x) for x in (self.M.scale, shrink, bound))
        factor = self.factor.astype(self.dtype)
        turned = np.ascontiguousarray(factor.T)
        block = (self.root * self.block).astype(self.dtype)

        def work(share: Sequence[Tile]) -> tuple[Matrix, Matrix]:
            total, sums, product = np.zeros(2), np.empty(2), np.zeros(block.shape)
            for tile in share:
                low = factor[tile.rows] @ turned[:, tile.columns]
                values = self.M.values[tile.rows, tile.columns]
                rows, columns = self.weights[tile.rows], self.weights[tile.columns]
                step_tile(tile.values, low, values, scale, shrunk, bounded, rows, columns, sums)
                total += tile.copies * sums
                add_product(tile, block, product)
            return total, product

        return work

    def _eigenpairs(self) -> tuple[Matrix, Matrix]:
        """K largest eigenpairs of S B S: dense when small, else from the last block."""
        u, q = self.block.shape
        if u <= max(_DENSE_UP_TO, 3 * q):
            return dense_eigenpairs(self.root * self.state.dense() * self.root.T, self.k)
        size = float(np.linalg.norm(self.product, 2))
        self.block, values, met = krylov_eigenpairs(
            self.block, self.product, self._times, self.k, self.eigen_tolerance * size, _PRODUCTS
        )
        if met:
            return self.block[:, : self.k], values[: self.k]
        found = lanczos_eigenpairs(self._times, u, self.k, self.block[:, 0], self.eigen_tolerance)
        self.block = np.linalg.qr(np.column_stack([found[0], self.block[:, self.k :]]))[0]
        return found

    def _times(self, X: Matrix) -> Matrix:
        """S B S @ X."""
        return self.root * (self.state @ (self.root * X))

    def _first_block(self, start: Matrix) -> Matrix:
        u = len(start)
        extra = min(_EXTRA_COLUMNS, u - self.k)
        noise = np.random.default_rng(0).standard_normal((u, extra))
        return np.linalg.qr(np.column_stack([self.root * start, noise]))[0]

    def _mean_and_norm(self) -> tuple[float, float]:
        """Mean size of an entry of M over points, and ‖M‖_F."""
        size, square = self._gap_sums(np.zeros((self.state.n, 1)))
        return size / self.n_points**2, float(np.sqrt(square))

    def _gap_sums(self, factor: Matrix) -> tuple[float, float]:
        """‖M − F Fᵀ‖₁ and ‖M − F Fᵀ‖²_F over points, in double precision."""
        turned = np.ascontiguousarray(factor.T)
        weights = self.M.weights

        def work(share: Sequence[Tile]) -> Matrix:
            total, sums = np.zeros(2), np.empty(2)
            for tile in share:
                low = factor[tile.rows] @ turned[:, tile.columns]
                values = self.M.values[tile.rows, tile.columns]
                gap_sums(low, values, self.M.scale, weights[tile.rows], weights[tile.columns], sums)
                total += tile.copies * sums
            return total

        size, square = summed(self.state.map_shares(work))
        return float(size), float(square)


def _distance(A: Matrix, B: Matrix) -> float:
    """‖A Aᵀ − B Bᵀ‖_F for tall A and B, without the square matrices and without cancellation."""
    R = np.linalg.qr(np.column_stack([A, B]))[1]
    left, right = R[:, : A.shape[1]], R[:, A.shape[1] :]
    return float(np.linalg.norm(left @ left.T - right @ right.T))


def _state_dtype(n_tuples: int) -> np.dtype[Any]:
    return np.dtype(np.float32 if n_tuples > _SINGLE_PRECISION_ABOVE else np.float64)
