"""The robust relaxation: M ≈ H D Hᵀ in ℓ1, by the alternating direction method on one state.

    min ‖M − L‖₁   s.t.  L = H D Hᵀ,  HᵀH = I_K,  D ≥ 0 diagonal

With E = M − L split off and Ω its multiplier, the augmented Lagrangian

    ‖E‖₁ + ⟨Ω, E − M + L⟩ + (μ/2) ‖E − M + L‖²_F

is minimised over E (soft threshold) and over L (K largest eigenpairs of B = M − E − Ω/μ, negative
ones cut to zero) in turn, then Ω ← Ω + μ(E − M + L). μ grows by the factor ρ for as long as the
primal residual is large beside the dual one, then is held, so that both go to zero: growing it
for ever would freeze L wherever it is. (It is never held for more than 20 steps at a time,
which ends the cycles that a fixed μ can run into.) Substituting, with Y = Ω/μ,

    B  = L + clip(M − L − Y, −1/μ, +1/μ),       Y₊ = (L₊ − B) μ/μ₊,

so that B is the only full matrix: E and Ω are never stored. On compressed tuples with
multiplicities w, sums are w-weighted and the eigenproblem is that of S B S, S = diag(√w).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.coassociation_matrix import TupleCoassociation
from coterie.devices import for_row_blocks, n_threads, on_one_thread
from coterie.relaxation.admm_kernels import step_rows
from coterie.relaxation.eigenpairs import dense_eigenpairs, lanczos_eigenpairs, refined_eigenpairs
from coterie.relaxation.iteration import RobustRelaxation, minimise

__all__ = ["required_bytes", "robust_factor"]

Matrix = NDArray[np.float64]

_DENSE_UP_TO = 400
_EXTRA_COLUMNS = 6
_SINGLE_PRECISION_ABOVE = 4000
_POWER_STEPS = 8
_ONE_THREAD_UP_TO = 3000
_ROWS_AT_ONCE = 256


def required_bytes(n_tuples: int, counted: bool = True) -> int:
    """Memory the relaxation takes for u tuples: the state and M.

    M is a byte an entry where counts say it all (``counted``: equal weights, no label missing);
    otherwise eight, and eight more while it is made.
    """
    return n_tuples * n_tuples * (_state_dtype(n_tuples).itemsize + (1 if counted else 16))


def robust_factor(
    M: TupleCoassociation,
    start: Matrix,
    *,
    rho: float = 1.1,
    max_iter: int = 300,
    tol: float = 1e-3,
    eigen_tolerance: float = 1e-6,
    callback: Callable[[int, float], None] | None = None,
) -> RobustRelaxation:
    """Minimise ‖M − F Fᵀ‖₁ over F of shape (u, K).

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
        Relative residual to which the eigenpairs are computed at each step.
    callback : called with the step number and the objective

    Examples
    --------
    >>> from coterie.label_tuples import as_label_tuples
    >>> from coterie.coassociation_matrix import tuple_coassociation
    >>> tuples = as_label_tuples([[0, 0], [0, 0], [1, 1], [1, 1], [1, 0]])
    >>> M = tuple_coassociation(tuples, np.ones(2))
    >>> result = robust_factor(M, np.eye(3)[:, :2])
    >>> result.converged, result.factor.shape
    (True, (3, 2))
    """
    with on_one_thread() if len(start) <= _ONE_THREAD_UP_TO else contextlib.nullcontext():
        return minimise(_Solver(M, start, eigen_tolerance), rho, max_iter, tol, callback)


class _Solver:
    """The state of the iteration: B over tuples, the factor F of L, the eigenvector block."""

    def __init__(self, M: TupleCoassociation, start: Matrix, eigen_tolerance: float) -> None:
        u, self.k = start.shape
        self.M = M
        self.n_points = float(M.weights.sum())
        self.eigen_tolerance = eigen_tolerance
        self.dtype = _state_dtype(u)
        self.root = np.sqrt(M.weights)
        self.weights = M.weights.astype(self.dtype)
        self.state = np.zeros((u, u), dtype=self.dtype)
        self.factor = start
        self.block = self._first_block(start)
        self.product = np.empty((u, self.block.shape[1]), dtype=self.dtype)
        self.mean, self.norm = self._mean_and_norm()

    def step(self, shrink: float, bound: float) -> tuple[float, float]:
        """B ← L + clip(M − L − Y); the objective ‖M − L‖₁ and the residual after the E-step."""
        turned = np.ascontiguousarray(self.factor.T, dtype=self.dtype)
        block = np.ascontiguousarray((self.root[:, None] * self.block).T, dtype=self.dtype)
        parts = np.zeros((n_threads(), 2))
        number = self.dtype.type

        def rows(b: int, start: int, stop: int) -> None:
            step_rows(
                self.state,
                self.M.values,
                number(self.M.scale),
                turned,
                number(shrink),
                number(bound),
                self.weights,
                block,
                start,
                stop,
                self.product,
                parts[b],
            )

        for_row_blocks(rows, len(self.state))
        objective, residual = parts.sum(axis=0)
        return objective, np.sqrt(residual)

    def advance(self) -> float:
        """L ← K largest eigenpairs of B, negative ones cut; returns ‖L₊ − L‖_F."""
        vectors, values = self._eigenpairs()
        before = self.root[:, None] * self.factor
        after = vectors * np.sqrt(np.maximum(values, 0.0))
        self.factor = after / self.root[:, None]
        return _distance(after, before)

    def objective(self) -> float:
        """‖M − L‖₁ of the current factor, without touching the state."""
        total = 0.0
        for start in range(0, len(self.state), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            gap = self.M.values[rows] * self.M.scale - self.factor[rows] @ self.factor.T
            total += float(self.M.weights[rows] @ np.abs(gap) @ self.M.weights)
        return total

    def _eigenpairs(self) -> tuple[Matrix, Matrix]:
        """K largest eigenpairs of S B S: dense when small, else refined from the last block."""
        u = len(self.state)
        if self.block.shape[1] >= u or u <= _DENSE_UP_TO:
            vectors, values = dense_eigenpairs(self.root[:, None] * self.state * self.root, self.k)
            return vectors, values
        first = self.root[:, None] * self.product
        self.block, values, _, met = refined_eigenpairs(
            first, self._times, self.k, self.eigen_tolerance, _POWER_STEPS
        )
        if not met:
            vectors, values = lanczos_eigenpairs(
                self._times, u, self.k, self.block[:, 0], self.eigen_tolerance
            )
            self.block[:, : self.k] = vectors
        return self.block[:, : self.k], values[: self.k]

    def _times(self, X: Matrix) -> Matrix:
        """S B S @ X."""
        scaled = np.asarray(self.root[:, None] * X, dtype=self.dtype)
        return self.root[:, None] * (self.state @ scaled)

    def _first_block(self, start: Matrix) -> Matrix:
        u = len(start)
        extra = min(_EXTRA_COLUMNS, u - self.k)
        noise = np.random.default_rng(0).standard_normal((u, extra))
        return np.linalg.qr(np.column_stack([self.root[:, None] * start, noise]))[0]

    def _mean_and_norm(self) -> tuple[float, float]:
        """Mean size of an entry of M over points, and ‖M‖_F."""
        w, values = self.M.weights, self.M.values
        total = squares = 0.0
        for start in range(0, len(values), _ROWS_AT_ONCE):
            rows = values[start : start + _ROWS_AT_ONCE] * self.M.scale
            total += float(w[start : start + _ROWS_AT_ONCE] @ np.abs(rows) @ w)
            squares += float(w[start : start + _ROWS_AT_ONCE] @ rows**2 @ w)
        return total / w.sum() ** 2, float(np.sqrt(squares))


def _distance(A: Matrix, B: Matrix) -> float:
    """‖A Aᵀ − B Bᵀ‖_F for tall A and B, without the square matrices and without cancellation."""
    R = np.linalg.qr(np.column_stack([A, B]))[1]
    left, right = R[:, : A.shape[1]], R[:, A.shape[1] :]
    return float(np.linalg.norm(left @ left.T - right @ right.T))


def _state_dtype(n_tuples: int) -> np.dtype[Any]:
    return np.dtype(np.float32 if n_tuples > _SINGLE_PRECISION_ABOVE else np.float64)
