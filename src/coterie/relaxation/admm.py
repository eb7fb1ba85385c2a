"""The robust relaxation: M ≈ H D Hᵀ in the ℓ1 norm, by ADMM.

    min ‖M − L‖₁   s.t.  L = H D Hᵀ,  HᵀH = I_K,  D ≥ 0 diagonal

The alternating direction method of multipliers (ADMM; Boyd et al. 2011) introduces E = M − L with
the multiplier Ω. It minimises the augmented Lagrangian

    ‖E‖₁ + ⟨Ω, E − M + L⟩ + (μ/2) ‖E − M + L‖²_F

in turn over E, by a soft threshold, and over L, by the K largest eigenpairs of B = M − E − Ω/μ with
negative eigenvalues set to zero. Then Ω ← Ω + μ(E − M + L). :func:`reference_robust_relaxation`
does just this, with full matrices.

:func:`robust_factor` is the same in one matrix. With Y = Ω/μ and C = clip(M − L − Y, −1/μ, +1/μ),
the steps become

    B  = L + C,       Y₊ = (L₊ − B) μ/μ₊,

so E and Ω need not be stored. For tuples with weights w, sums are weighted, and the eigenproblem is
that of S B S, S = diag(√w). Over-relaxation was tried and rejected: some problems ended a few
percent higher.

:func:`minimise` is the loop. The penalty μ grows by the factor ρ if the primal residual is large
compared with the dual one. Otherwise μ stays the same, because L would stop changing too early if μ
always grew. It stays the same for at most 20 steps, because the steps can cycle at a fixed μ.

B is symmetric; only the tiles of its upper triangle are stored (:class:`SymmetricTiles`). One pass
over them computes each tile of L, updates the tile of B, and multiplies it by the last
eigenvectors. The next eigenvectors need one or two more products. Above 4,000 tuples B is in single
precision, which changes the final objective by less than one part in 10,000; sums over tiles are
always in double.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from coterie.arrays import AnyArray, Floats
from coterie.counts.coassociation import TupleCoassociation, float_dtype
from coterie.relaxation.kernels import gap_sums, step_tile
from coterie.relaxation.spectral import dense_eigenpairs, krylov_eigenpairs, lanczos_eigenpairs
from coterie.runtime.devices import map_in_threads, n_threads, on_one_thread, readable_bytes
from coterie.runtime.wording import short_repr

_log = logging.getLogger(__name__)

#: Defaults of all solvers: growth of μ, number of steps, residuals, residuals of eigenpairs.
RHO, MAX_ITER, TOL, EIGEN_TOLERANCE = 1.1, 300, 1e-3, 1e-4

# μ grows if the primal residual exceeds this share of the dual one.
_BALANCE = 0.1
_LONGEST_HOLD = 20
# The dual residual may be this many times ``tol``.
_DUAL_TOLERANCE = 10.0
_STEPS_PER_MESSAGE = 10
_HISTORY = ("objective", "primal_residual", "dual_residual", "mu")

# Up to this many tuples LAPACK is faster than the Krylov method.
_DENSE_UP_TO = 400
# The block has this many columns beyond K, which speed up convergence.
EXTRA_COLUMNS = 6
# Products with B per step, before ARPACK is used.
PRODUCTS = 8

# Rows of a tile: it fits in the second-level cache, so that a pass reads it from memory once.
_SIDE = 256
# A thread gets at least this many tiles.
_LEAST_SHARE = 8


@dataclass
class RobustRelaxation:
    """Result of the robust relaxation.

    ``factor`` F (u, K) gives L = F Fᵀ over tuples, with columns by decreasing eigenvalue.
    ``place`` says what computed it: "cpu", "cuda", "parts", or "l2" for least squares alone.
    ``objective`` is ‖M − F Fᵀ‖₁ over points, the smallest of all steps. ``converged`` says whether
    both residuals are below their tolerances.

    ``history`` has for each step ``objective``, ``mu``, ``primal_residual`` ‖E − M + L‖_F / ‖M‖_F
    and ``dual_residual`` μ‖L₊ − L‖_F / n. The scale n is the largest possible norm of the
    multiplier Ω, whose entries are in [−1, 1].
    """

    factor: Floats
    objective: float
    history: dict[str, list[float]] = field(repr=False)
    n_iter: int
    converged: bool
    place: str = "cpu"

    __repr__ = short_repr


def least_squares_result(factor: Floats) -> RobustRelaxation:
    """Return the ℓ2 factor as a result of zero steps."""
    return RobustRelaxation(factor, np.nan, {name: [] for name in _HISTORY}, 0, True, "l2")


def robust_factor(
    M: TupleCoassociation,
    start: Floats,
    *,
    rho: float = RHO,
    max_iter: int = MAX_ITER,
    tol: float = TOL,
    eigen_tolerance: float = EIGEN_TOLERANCE,
    callback: Callable[[int, float], None] | None = None,
) -> RobustRelaxation:
    """Minimise ‖M − F Fᵀ‖₁ over F of shape (u, K).

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
        _log.info(
            "robust relaxation of %d tuples: %s for the state and %s for M",
            len(start),
            readable_bytes(solver.state.numbers.nbytes),
            readable_bytes(M.values.nbytes),
        )
        return minimise(solver, rho, max_iter, tol, callback)


def required_bytes(n_tuples: int, counted: bool = True) -> int:
    """Return the memory in bytes that the relaxation of u tuples needs: half of B, and M.

    M is stored as counts of one byte (``counted``) if weights are equal and no label is missing.
    """
    itemsize = float_dtype(n_tuples).itemsize
    return _n_stored(n_tuples) * itemsize + n_tuples**2 * (1 if counted else itemsize)


class Solver(Protocol):
    """State and steps of the iteration: here on the CPU, on a GPU in :mod:`.gpu`.

    ``mean`` is the mean |entry| of M over points, ``norm`` is ‖M‖_F, ``n_points`` is the sum of
    the weights of the tuples, and ``factor`` (u, K) is F of the current L = F Fᵀ.
    """

    mean: float
    norm: float
    n_points: float
    factor: Floats

    def step(self, shrink: float, bound: float) -> tuple[float, float]:
        """Set B ← L + clip(M − L − Y, ±bound); return ‖M − L‖₁ and the residual after the E-step.

        Y = shrink·(L − B).
        """

    def advance(self) -> float:
        """Set L to the K largest eigenpairs of B, at least zero; return ‖L₊ − L‖_F."""

    def objective(self) -> float:
        """Return ‖M − L‖₁ of the current factor; the state does not change."""


def minimise(
    solver: Solver,
    rho: float,
    max_iter: int,
    tol: float,
    callback: Callable[[int, float], None] | None,
) -> RobustRelaxation:
    """Step until both residuals are small, at most ``max_iter`` times; return the best factor."""
    began, mu = time.perf_counter(), 1.0 / solver.mean
    history: dict[str, list[float]] = {name: [] for name in _HISTORY}
    best, best_objective = solver.factor, np.inf
    shrink, n_held, converged = 0.0, 0, False
    for iteration in range(max_iter):
        objective, residual = solver.step(shrink, 1.0 / mu)
        if objective < best_objective:
            best, best_objective = solver.factor, objective
        # ``objective`` above is that of the factor before this step.
        change = solver.advance()
        primal, dual = residual / solver.norm, mu * change / solver.n_points
        for name, value in zip(_HISTORY, (objective, primal, dual, mu), strict=True):
            history[name].append(float(value))
        if callback is not None:
            callback(iteration, objective)
        if (iteration + 1) % _STEPS_PER_MESSAGE == 0:
            _log.info(
                "robust relaxation: step %d, objective %.6g, %.2g s per step",
                iteration + 1,
                objective,
                (time.perf_counter() - began) / (iteration + 1),
            )
        if primal <= tol and dual <= _DUAL_TOLERANCE * tol:
            converged = True
            break
        n_held = 0 if primal > _BALANCE * dual or n_held == _LONGEST_HOLD else n_held + 1
        next_mu = mu if n_held else rho * mu
        shrink, mu = mu / next_mu, next_mu
    final = solver.objective()
    if final < best_objective:
        best, best_objective = solver.factor, final
    return RobustRelaxation(best, float(best_objective), history, iteration + 1, converged)


class TiledSolver:
    """State of the iteration: B in tiles, the factor F (u, K) of L, and a block of eigenvectors.

    With a small ``eigen_tolerance`` every step equals that of the textbook form up to rounding.
    ``root`` is √w, ``block`` (u, q) has approximate eigenvectors of S B S, and ``product`` is
    S B S @ block.
    """

    def __init__(
        self, M: TupleCoassociation, start: Floats, eigen_tolerance: float = EIGEN_TOLERANCE
    ) -> None:
        u, self.k = start.shape
        self.M = M
        self.n_points = float(M.weights.sum())
        self.eigen_tolerance = eigen_tolerance
        self.dtype = float_dtype(u)
        self.root = np.sqrt(M.weights)[:, None]
        self.weights = M.weights.astype(self.dtype)
        self.state = SymmetricTiles(u, self.dtype)
        self.factor = start
        noise = np.random.default_rng(0).standard_normal((u, min(EXTRA_COLUMNS, u - self.k)))
        self.block = np.linalg.qr(np.column_stack([self.root * start, noise]))[0]
        self.product = np.zeros_like(self.block)
        size, square = self._gap_sums(np.zeros((u, 1)))
        self.mean, self.norm = size / self.n_points**2, float(np.sqrt(square))

    def step(self, shrink: float, bound: float) -> tuple[float, float]:
        scale, shrink_, bound_ = (self.dtype.type(x) for x in (self.M.scale, shrink, bound))
        factor = self.factor.astype(self.dtype)
        transposed = np.ascontiguousarray(factor.T)
        block = (self.root * self.block).astype(self.dtype)

        def update(share: Sequence[Tile]) -> tuple[Floats, Floats]:
            total, sums, product = np.zeros(2), np.empty(2), np.zeros(block.shape)
            for tile in share:
                low = factor[tile.rows] @ transposed[:, tile.columns]
                values = self.M.values[tile.rows, tile.columns]
                rows, columns = self.weights[tile.rows], self.weights[tile.columns]
                step_tile(tile.values, low, values, scale, shrink_, bound_, rows, columns, sums)
                total += tile.copies * sums
                tile.add_product(block, product)
            return total, product

        totals, products = zip(*map_in_threads(update, self.state.shares), strict=True)
        objective, residual = sum(totals)
        self.product = self.root * sum(products)
        return float(objective), float(np.sqrt(residual))

    def advance(self) -> float:
        # the K largest eigenpairs of S B S; if it is large, start from the last block
        (u, q), k = self.block.shape, self.k
        if u <= max(_DENSE_UP_TO, 3 * q):
            vectors, values = dense_eigenpairs(self.root * self.state.dense() * self.root.T, k)
        else:
            tolerance = self.eigen_tolerance
            size = float(np.linalg.norm(self.product, 2))
            self.block, values, met = krylov_eigenpairs(
                self.block, self.product, self._times, k, tolerance * size, PRODUCTS
            )
            vectors, values = self.block[:, :k], values[:k]
            if not met:
                start = self.block[:, 0]
                vectors, values = lanczos_eigenpairs(self._times, u, k, start, tolerance)
                self.block = np.linalg.qr(np.column_stack([vectors, self.block[:, k:]]))[0]
        before = self.root * self.factor
        after = vectors * np.sqrt(np.maximum(values, 0.0))
        self.factor = after / self.root
        # ‖A Aᵀ − B Bᵀ‖_F from the triangle of a QR needs no (u, u) matrix and does not cancel.
        R = np.linalg.qr(np.column_stack([after, before]))[1]
        left, right = R[:, :k], R[:, k:]
        return float(np.linalg.norm(left @ left.T - right @ right.T))

    def objective(self) -> float:
        return self._gap_sums(self.factor)[0]

    def _times(self, X: Floats) -> Floats:
        """Return S B S @ X."""
        return self.root * (self.state @ (self.root * X))

    def _gap_sums(self, factor: Floats) -> tuple[float, float]:
        """Return ‖M − F Fᵀ‖₁ and ‖M − F Fᵀ‖²_F over points, in double precision."""
        transposed = np.ascontiguousarray(factor.T)
        weights = self.M.weights

        def work(share: Sequence[Tile]) -> Floats:
            total, sums = np.zeros(2), np.empty(2)
            for tile in share:
                low = factor[tile.rows] @ transposed[:, tile.columns]
                values = self.M.values[tile.rows, tile.columns]
                gap_sums(low, values, self.M.scale, weights[tile.rows], weights[tile.columns], sums)
                total += tile.copies * sums
            return total

        size, square = sum(map_in_threads(work, self.state.shares), np.zeros(2))
        return float(size), float(square)


class Tile(NamedTuple):
    """Position and values of a tile of a symmetric matrix A."""

    rows: slice
    columns: slice
    values: AnyArray

    @property
    def copies(self) -> int:
        """Return how often the tile is in A: twice off the diagonal, because of its transpose."""
        return 1 if self.rows == self.columns else 2

    def add_product(self, X: AnyArray, total: Floats) -> None:
        """Add the products of the tile and of its transpose with X to ``total`` (n, q) = A @ X."""
        total[self.rows] += self.values @ X[self.columns]
        if self.copies == 2:
            total[self.columns] += self.values.T @ X[self.rows]


class SymmetricTiles:
    """A symmetric (n, n) matrix, initially zero, as tiles: half the memory, half the work.

    A consists of tiles A_IJ with A_JI = A_IJᵀ; only those with I ≤ J are stored, each contiguous.
    ``shares`` has the tiles of each thread. They depend only on n and on the number of threads, so
    results do not vary between runs.
    """

    def __init__(self, n: int, dtype: np.dtype[Any]) -> None:
        self.n, self.dtype = n, dtype
        edges = _tile_edges(n)
        self.numbers = np.zeros(_n_stored(n), dtype=dtype)
        tiles, begin = [], 0
        for index, rows in enumerate(edges):
            for columns in edges[index:]:
                shape = rows.stop - rows.start, columns.stop - columns.start
                end = begin + shape[0] * shape[1]
                tiles.append(Tile(rows, columns, self.numbers[begin:end].reshape(shape)))
                begin = end
        n_shares = min(n_threads(), max(1, len(tiles) // _LEAST_SHARE))
        self.shares: list[list[Tile]] = [tiles[share::n_shares] for share in range(n_shares)]

    def __matmul__(self, X: AnyArray) -> Floats:
        """Return A @ X for X (n, q): products in A's type, summed over tiles in double."""
        X = np.ascontiguousarray(X, dtype=self.dtype)

        def multiply(share: Sequence[Tile]) -> Floats:
            partial = np.zeros(X.shape)
            for tile in share:
                tile.add_product(X, partial)
            return partial

        return sum(map_in_threads(multiply, self.shares), np.zeros(X.shape))

    def dense(self) -> AnyArray:
        A = np.empty((self.n, self.n), dtype=self.dtype)
        for share in self.shares:
            for tile in share:
                A[tile.rows, tile.columns] = tile.values
                A[tile.columns, tile.rows] = tile.values.T
        return A


def _tile_edges(n: int) -> list[slice]:
    """Split the rows 0..n into nearly equal pieces of at most 256."""
    n_pieces = -(-n // _SIDE)
    return [slice(n * p // n_pieces, n * (p + 1) // n_pieces) for p in range(n_pieces)]


def _n_stored(n: int) -> int:
    """Return the number of entries in the upper block triangle of an (n, n) matrix."""
    return (n * n + sum((piece.stop - piece.start) ** 2 for piece in _tile_edges(n))) // 2


@dataclass
class ReferenceRelaxation:
    """L = H D Hᵀ (n, n); for each step ‖M − L‖₁, ‖E − M + L‖_F, and L if requested."""

    low_rank: Floats
    objective: list[float]
    residual: list[float]
    steps: list[Floats]

    __repr__ = short_repr


def reference_robust_relaxation(
    M: Floats,
    start: Floats,
    *,
    rho: float = RHO,
    n_iter: int = 50,
    signs: Literal["derived", "printed"] = "derived",
    keep_steps: bool = False,
) -> ReferenceRelaxation:
    """Run the textbook form: full matrices, one eigendecomposition per step.

    It is slow; it explains :func:`robust_factor`, and tests compare the two. There are ``n_iter``
    steps from L = start startᵀ, Ω = 0 and μ = 1/mean(M), and μ grows in each.

    With ``signs="derived"`` the updates minimise the augmented Lagrangian. With
    ``signs="printed"`` they are those printed in the paper, where the argument of the soft
    threshold and the multiplier in the eigenproblem have the opposite sign. These diverge.

    Examples
    --------
    >>> M = np.kron(np.eye(2), np.ones((3, 3)))
    >>> result = reference_robust_relaxation(M, np.eye(6)[:, :2], n_iter=60)
    >>> bool(np.abs(result.low_rank - M).max() < 1e-3)
    True
    """
    k = start.shape[1]
    L = start @ start.T
    omega = np.zeros_like(M)
    mu = 1.0 / M.mean()
    sign = 1.0 if signs == "derived" else -1.0
    objective, residual, steps = [], [], []
    for _ in range(n_iter):
        A = sign * (M - L - omega / mu)
        E = np.sign(A) * np.maximum(np.abs(A) - 1.0 / mu, 0.0)
        values, vectors = np.linalg.eigh(M - E - sign * omega / mu)
        L = (vectors[:, -k:] * np.maximum(values[-k:], 0.0)) @ vectors[:, -k:].T
        omega = omega + mu * (E - M + L)
        mu *= rho
        objective.append(float(np.abs(M - L).sum()))
        residual.append(float(np.linalg.norm(E - M + L)))
        if keep_steps:
            steps.append(L)
    return ReferenceRelaxation(L, objective, residual, steps)
