"""The robust relaxation in textbook form: full matrices, one eigendecomposition per step.

It is slow. The tests compare :mod:`coterie.relaxation.admm` with it. With ``signs="derived"`` the
updates minimise the augmented Lagrangian ‖E‖₁ + ⟨Ω, E − M + L⟩ + (μ/2)‖E − M + L‖². With
``signs="printed"`` they are those printed in the paper, where the argument of the soft threshold
and the multiplier in the eigenproblem have the opposite sign. These diverge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from coterie.runtime.short_reprs import short_repr

__all__ = ["ReferenceRelaxation", "reference_robust_relaxation"]

Matrix = NDArray[np.float64]


@dataclass
class ReferenceRelaxation:
    """L = H D Hᵀ (n, n); for each step ‖M − L‖₁, ‖E − M + L‖_F, and L if requested."""

    low_rank: Matrix
    objective: list[float]
    residual: list[float]
    steps: list[Matrix]

    __repr__ = short_repr


def reference_robust_relaxation(
    M: Matrix,
    start: Matrix,
    *,
    rho: float = 1.1,
    n_iter: int = 50,
    mu: float | None = None,
    signs: Literal["derived", "printed"] = "derived",
    keep_steps: bool = False,
) -> ReferenceRelaxation:
    """Run ``n_iter`` steps from L = start startᵀ, Ω = 0 and μ = 1/mean(M).

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
    mu = 1.0 / M.mean() if mu is None else mu
    sign = 1.0 if signs == "derived" else -1.0
    objective, residual, steps = [], [], []
    for _ in range(n_iter):
        E = _soft_threshold(sign * (M - L - omega / mu), 1.0 / mu)
        L = _leading_part(M - E - sign * omega / mu, k)
        omega = omega + mu * (E - M + L)
        mu *= rho
        objective.append(float(np.abs(M - L).sum()))
        residual.append(float(np.linalg.norm(E - M + L)))
        if keep_steps:
            steps.append(L)
    return ReferenceRelaxation(L, objective, residual, steps)


def _soft_threshold(A: Matrix, threshold: float) -> Matrix:
    return np.sign(A) * np.maximum(np.abs(A) - threshold, 0.0)


def _leading_part(B: Matrix, k: int) -> Matrix:
    """Return the part of B in its k largest eigenpairs, with negative eigenvalues set to zero."""
    values, vectors = np.linalg.eigh(B)
    return (vectors[:, -k:] * np.maximum(values[-k:], 0.0)) @ vectors[:, -k:].T
