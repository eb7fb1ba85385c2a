"""The loop of ADMM: penalty and stopping rule, for any solver of its steps.

The penalty μ grows by the factor ρ if the primal residual is large compared with the dual one.
Otherwise μ stays the same, because L would stop changing too early if μ always grew. It stays the
same for at most 20 steps, because the steps can cycle at a fixed μ.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from coterie.runtime.short_reprs import short_repr

__all__ = ["RobustRelaxation", "Solver", "minimise"]

Matrix = NDArray[np.float64]

_log = logging.getLogger(__name__)

# μ grows if the primal residual exceeds this share of the dual one.
_BALANCE = 0.1
_LONGEST_HOLD = 20
# The dual residual may be this many times ``tol``.
_DUAL_TOLERANCE = 10.0
_STEPS_PER_MESSAGE = 10


@dataclass
class RobustRelaxation:
    """Result of the robust relaxation.

    ``factor`` F (u, K) gives L = F Fᵀ over tuples, with columns by decreasing eigenvalue.
    ``objective`` is ‖M − F Fᵀ‖₁ over points, the smallest of all steps. ``converged`` says whether
    both residuals are below their tolerances.

    ``history`` has for each step ``objective``, ``mu``, ``primal_residual`` ‖E − M + L‖_F / ‖M‖_F
    and ``dual_residual`` μ‖L₊ − L‖_F / n. The scale n is the largest possible norm of the
    multiplier Ω, whose entries are in [−1, 1].
    """

    factor: Matrix
    objective: float
    history: dict[str, list[float]] = field(repr=False)
    n_iter: int
    converged: bool

    __repr__ = short_repr


class Solver(Protocol):
    """State and steps of the iteration: on the CPU :mod:`.admm`, on a GPU :mod:`.gpu_admm`.

    ``mean`` is the mean |entry| of M over points, ``norm`` is ‖M‖_F, ``n_points`` is the sum of
    the weights of the tuples, and ``factor`` (u, K) is F of the current L = F Fᵀ.
    """

    mean: float
    norm: float
    n_points: float
    factor: Matrix

    def step(self, shrink: float, bound: float) -> tuple[float, float]:
        """Set B ← L + clip(M − L − Y); return ‖M − L‖₁ and the residual after the E-step."""

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
    mu = 1.0 / solver.mean
    history: dict[str, list[float]] = {
        name: [] for name in ("objective", "primal_residual", "dual_residual", "mu")
    }
    best, best_objective = solver.factor, np.inf
    shrink, n_held, converged = 0.0, 0, False
    for iteration in range(max_iter):
        objective, residual = solver.step(shrink, 1.0 / mu)
        if objective < best_objective:
            best, best_objective = solver.factor, objective
        # ``objective`` above is that of the factor before this step.
        change = solver.advance()
        primal, dual = residual / solver.norm, mu * change / solver.n_points
        for name, value in zip(history, (objective, primal, dual, mu), strict=True):
            history[name].append(float(value))
        if callback is not None:
            callback(iteration, objective)
        if (iteration + 1) % _STEPS_PER_MESSAGE == 0:
            _log.info("robust relaxation: step %d, objective %.6g", iteration + 1, objective)
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
