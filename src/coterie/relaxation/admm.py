"""The robust relaxation: M ≈ H D Hᵀ in the ℓ1 norm, by ADMM.

    min ‖M − L‖₁   s.t.  L = H D Hᵀ,  HᵀH = I_K,  D ≥ 0 diagonal

The alternating direction method of multipliers (ADMM) introduces E = M − L with the multiplier Ω.
It minimises the augmented Lagrangian

    ‖E‖₁ + ⟨Ω, E − M + L⟩ + (μ/2) ‖E − M + L‖²_F

in turn over E, by a soft threshold, and over L, by the K largest eigenpairs of B = M − E − Ω/μ with
negative eigenvalues set to zero. Then Ω ← Ω + μ(E − M + L). :mod:`.iteration` says how μ grows.
With Y = Ω/μ and C = clip(M − L − Y, −1/μ, +1/μ), the steps become

    B  = L + C,       Y₊ = (L₊ − B) μ/μ₊,

so E and Ω need not be stored. For tuples with weights w, sums are weighted, and the eigenproblem is
that of S B S, S = diag(√w). Over-relaxation was tried and rejected: some problems ended a few
percent higher.

B is symmetric; only the tiles of its upper triangle are stored. One pass over them computes each
tile of L, updates the tile of B, and multiplies it by the last eigenvectors. The next eigenvectors
need one or two more products.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.counts.coassociation import TupleCoassociation, coassociation_bytes
from coterie.relaxation.eigenpairs import dense_eigenpairs, krylov_eigenpairs, lanczos_eigenpairs
from coterie.relaxation.iteration import RobustRelaxation, minimise
from coterie.relaxation.kernels import gap_sums, step_tile
from coterie.relaxation.symmetric_tiles import SymmetricTiles, Tile, add_product, n_stored, summed
from coterie.runtime.devices import on_one_thread, readable_bytes

__all__ = ["TiledSolver", "required_bytes", "robust_factor"]

Matrix = NDArray[np.float64]

_log = logging.getLogger(__name__)

# Up to this many tuples LAPACK is faster than the Krylov method.
_DENSE_UP_TO = 400
# The block has this many columns beyond K, which speed up convergence.
_EXTRA_COLUMNS = 6
_SINGLE_PRECISION_ABOVE = 4000
# Products with B per step, before ARPACK is used.
_PRODUCTS = 8
_PROBES = 3


def required_bytes(n_tuples: int, counted: bool = True) -> int:
    """Return the memory in bytes that the relaxation of u tuples needs: half of B, and M.

    An entry of B has 8 bytes up to 4,000 tuples, and 4 above. An entry of M has one byte if M is
    stored as counts (``counted``: equal weights and no missing label), else it is a float.
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

    Above 4,000 tuples B is in single precision, which changes the final objective by less than one
    part in 10,000. An interrupt takes effect within a step.

    Parameters
    ----------
    M : co-association of u tuples with their weights
    start : (u, K)
        The initial factor, usually the ℓ2 solution.
    rho : float > 1
        Growth factor of μ per step. A smaller one is slower and gives a slightly lower objective.
    max_iter, tol
        Stop when the primal residual is below ``tol`` and the dual one below 10 ``tol``, each
        relative to its scale (see :class:`RobustRelaxation`).
    eigen_tolerance
        Residual of the eigenpairs of each step, relative to the largest eigenvalue. With a ten
        times larger tolerance, the objective of some problems is a percent higher.
    callback
        Called in each step with the step number and the objective.

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
    # Tiles are divided among threads, so the products of one tile use a single thread.
    with on_one_thread():
        solver = TiledSolver(M, start, eigen_tolerance)
        if _log.isEnabledFor(logging.INFO):
            _log.info(
                "robust relaxation of %d tuples: %s for the state and %s for M, "
                "about %.2g s per step",
                len(start),
                readable_bytes(solver.state.nbytes),
                readable_bytes(M.values.nbytes),
                solver.expected_seconds(),
            )
        return minimise(solver, rho, max_iter, tol, callback)


class TiledSolver:
    """State of the iteration: B in tiles, the factor F (u, K) of L, and a block of eigenvectors.

    With a small ``eigen_tolerance`` every step equals that of :mod:`.reference_admm` up to
    rounding. ``root`` is √w, ``block`` (u, q) has approximate eigenvectors of S B S, and
    ``product`` is S B S @ block.
    """

    def __init__(self, M: TupleCoassociation, start: Matrix, eigen_tolerance: float = 1e-4) -> None:
        u, self.k = start.shape
        self.M = M
        self.n_points = float(M.weights.sum())
        self.eigen_tolerance = eigen_tolerance
        self.dtype = _state_dtype(u)
        self.root = np.sqrt(M.weights)[:, None]
        self.weights = M.weights.astype(self.dtype)
        self.state = SymmetricTiles(u, self.dtype)
        self.factor = start
        noise = np.random.default_rng(0).standard_normal((u, min(_EXTRA_COLUMNS, u - self.k)))
        self.block = np.linalg.qr(np.column_stack([self.root * start, noise]))[0]
        self.product = np.zeros_like(self.block)
        size, square = self._gap_sums(np.zeros((u, 1)))
        self.mean, self.norm = size / self.n_points**2, float(np.sqrt(square))

    def step(self, shrink: float, bound: float) -> tuple[float, float]:
        """Set B ← L + C; return ‖M − L‖₁ and the residual after the E-step."""
        update = self._tile_update(shrink, bound)
        totals, products = zip(*self.state.map_shares(update), strict=True)
        objective, residual = summed(totals)
        self.product = self.root * summed(products)
        return float(objective), float(np.sqrt(residual))

    def advance(self) -> float:
        """Set L to the K largest eigenpairs of B, at least zero; return ‖L₊ − L‖_F."""
        vectors, values = self._eigenpairs()
        before = self.root * self.factor
        after = vectors * np.sqrt(np.maximum(values, 0.0))
        self.factor = after / self.root
        # ‖A Aᵀ − B Bᵀ‖_F from the triangle of a QR needs no (u, u) matrix and does not cancel.
        R = np.linalg.qr(np.column_stack([after, before]))[1]
        left, right = R[:, : self.k], R[:, self.k :]
        return float(np.linalg.norm(left @ left.T - right @ right.T))

    def objective(self) -> float:
        """Return ‖M − L‖₁ of the current factor in double precision."""
        return self._gap_sums(self.factor)[0]

    def expected_seconds(self) -> float:
        """Estimate the time of a step from that of one tile."""
        first = self.state.shares[0][0]
        scratch = [Tile(first.rows, first.columns, first.values.copy())]
        update, seconds = self._tile_update(1.0, 1.0), np.inf
        for _ in range(_PROBES):
            before = time.perf_counter()
            update(scratch)
            seconds = min(seconds, time.perf_counter() - before)
        # The products for the eigenpairs take about twice as long as the pass itself.
        return 3.0 * seconds * len(self.state.shares[0])

    def _tile_update(
        self, shrink: float, bound: float
    ) -> Callable[[Sequence[Tile]], tuple[Matrix, Matrix]]:
        """Return the function that updates the tiles of a thread.

        It returns the two sums of :func:`step_tile`, and the part of its tiles in B @ (S block).
        """
        scale, shrink_, bound_ = (self.dtype.type(x) for x in (self.M.scale, shrink, bound))
        factor = self.factor.astype(self.dtype)
        transposed = np.ascontiguousarray(factor.T)
        block = (self.root * self.block).astype(self.dtype)

        def work(share: Sequence[Tile]) -> tuple[Matrix, Matrix]:
            total, sums, product = np.zeros(2), np.empty(2), np.zeros(block.shape)
            for tile in share:
                low = factor[tile.rows] @ transposed[:, tile.columns]
                values = self.M.values[tile.rows, tile.columns]
                rows, columns = self.weights[tile.rows], self.weights[tile.columns]
                step_tile(tile.values, low, values, scale, shrink_, bound_, rows, columns, sums)
                total += tile.copies * sums
                add_product(tile, block, product)
            return total, product

        return work

    def _eigenpairs(self) -> tuple[Matrix, Matrix]:
        """Return the K largest eigenpairs of S B S; if it is large, start from the last block."""
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
        """Return S B S @ X."""
        return self.root * (self.state @ (self.root * X))

    def _gap_sums(self, factor: Matrix) -> tuple[float, float]:
        """Return ‖M − F Fᵀ‖₁ and ‖M − F Fᵀ‖²_F over points, in double precision."""
        transposed = np.ascontiguousarray(factor.T)
        weights = self.M.weights

        def work(share: Sequence[Tile]) -> Matrix:
            total, sums = np.zeros(2), np.empty(2)
            for tile in share:
                low = factor[tile.rows] @ transposed[:, tile.columns]
                values = self.M.values[tile.rows, tile.columns]
                gap_sums(low, values, self.M.scale, weights[tile.rows], weights[tile.columns], sums)
                total += tile.copies * sums
            return total

        size, square = summed(self.state.map_shares(work))
        return float(size), float(square)


def _state_dtype(n_tuples: int) -> np.dtype[Any]:
    return np.dtype(np.float32 if n_tuples > _SINGLE_PRECISION_ABOVE else np.float64)
