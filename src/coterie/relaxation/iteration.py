"""The steps of the alternating direction method, whatever computes them.

A :class:`Solver` holds the state and makes one step of each kind; :func:`minimise` says how the
penalty μ grows from step to step, when it is held, and when the two residuals are small enough.

μ grows by the factor ρ for as long as the primal residual is large beside the dual one, then is
held, so that both go to zero: growing it for ever would freeze L wherever it is. It is never held
for more than 20 steps at a time, which ends the cycles that a fixed μ can run into.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["RobustRelaxation", "Solver", "minimise"]

Matrix = NDArray[np.float64]

_log = logging.getLogger(__name__)

_BALANCE = 0.1
_LONGEST_HOLD = 20
_DUAL_TOLERANCE = 10.0
_STEPS_A_MESSAGE = 10


@dataclass
class RobustRelaxation:
    """Result of the robust relaxation.

    Attributes
    ----------
    factor : (u, K)
        F with L = F Fᵀ over tuples: rows of H√D, columns by falling eigenvalue.
    objective : float
        ‖M − F Fᵀ‖₁ over points, at the step where it was least.
    history : dict of lists
        ``objective``, ``primal_residual`` ‖E − M + L‖_F and ``dual_residual`` μ‖L₊ − L‖_F a step,
        the first relative to ‖M‖_F, the second to n, the largest norm the multiplier Ω can have
        (its entries lie in [−1, 1]); and ``mu``.
    n_iter : int
    converged : bool
        Whether both residuals fell below their tolerance.
    """

    factor: Matrix
    objective: float
    history: dict[str, list[float]] = field(repr=False)
    n_iter: int
    converged: bool


class Solver(Protocol):
    """What makes the steps: on the CPU :mod:`.robust_admm`, on a GPU :mod:`.gpu_admm`.

    ``mean`` and ``norm`` are the mean size of an entry of M over points and ‖M‖_F; ``n_points``
    is the sum of the tuples' weights; ``factor`` is F of the current L = F Fᵀ, (u, K).
    """

    mean: float
    norm: float
    n_points: float
    factor: Matrix

    def step(self, shrink: float, bound: float) -> tuple[float, float]:
        """B ← L + clip(M − L − Y); the objective ‖M − L‖₁ and the residual after the E-step."""

    def advance(self) -> float:
        """L ← K largest eigenpairs of B, negative ones cut; returns ‖L₊ − L‖_F."""

    def objective(self) -> float:
        """‖M − L‖₁ of the current factor, without touching the state."""


def minimise(
    solver: Solver,
    rho: float,
    max_iter: int,
    tol: float,
    callback: Callable[[int, float], None] | None,
) -> RobustRelaxation:
    """Step until both residuals are small, or ``max_iter`` times; the best factor met is kept.

    μ grows by the factor ``rho`` while the primal residual is large beside the dual one, is held
    otherwise, and is never held more than 20 steps in a row. Every tenth step is logged.
    """
    mu = 1.0 / solver.mean
    history: dict[str, list[float]] = {
        name: [] for name in ("objective", "primal_residual", "dual_residual", "mu")
    }
    best, best_objective = solver.factor, np.inf
    shrink, held, converged = 0.0, 0, False
    for iteration in range(max_iter):
        objective, residual = solver.step(shrink, 1.0 / mu)
        if objective < best_objective:
            best, best_objective = solver.factor, objective
        moved = solver.advance()
        primal, dual = residual / solver.norm, mu * moved / solver.n_points
        for name, value in zip(history, (objective, primal, dual, mu), strict=True):
            history[name].append(float(value))
        if callback is not None:
            callback(iteration, objective)
        if (iteration + 1) % _STEPS_A_MESSAGE == 0:
            _log.info("robust relaxation: step %d, objective %.6g", iteration + 1, objective)
        if primal <= tol and dual <= _DUAL_TOLERANCE * tol:
            converged = True
            break
        held = 0 if primal > _BALANCE * dual or held == _LONGEST_HOLD else held + 1
        grown = mu if held else rho * mu
        shrink, mu = mu / grown, grown
    final = solver.objective()
    if final < best_objective:
        best, best_objective = solver.factor, final
    return RobustRelaxation(best, float(best_objective), history, iteration + 1, converged)
