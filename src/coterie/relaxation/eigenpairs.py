"""The K algebraically largest eigenpairs of a symmetric matrix, from where they last were."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, eigsh

__all__ = [
    "dense_eigenpairs",
    "lanczos_eigenpairs",
    "refined_eigenpairs",
    "repeatable_restarts",
]

Matrix = NDArray[np.float64]
Product = Callable[[Matrix], Matrix]


def dense_eigenpairs(A: Matrix, k: int) -> tuple[Matrix, Matrix]:
    """Eigenvectors (n, k) and eigenvalues (k,) by LAPACK, largest first.

    >>> vectors, values = dense_eigenpairs(np.diag([1.0, 3.0, 2.0]), 2)
    >>> values
    array([3., 2.])
    """
    n = len(A)
    values, vectors = eigh(A, subset_by_index=[n - k, n - 1])
    if len(values) < k:  # LAPACK may miss some of a part of the spectrum, never of the whole
        values, vectors = (part[..., -k:] for part in eigh(A))
    return vectors[:, ::-1], values[::-1]


def lanczos_eigenpairs(
    product: Product, n: int, k: int, start: Matrix, tolerance: float = 0.0
) -> tuple[Matrix, Matrix]:
    """Eigenvectors (n, k) and eigenvalues (k,) by ARPACK from products with the matrix alone.

    The starting vector must not be an eigenvector (a constant vector often is one), so a
    fixed pseudo-random one is added to ``start``.
    """
    operator = LinearOperator(
        (n, n), matvec=lambda x: product(x.reshape(n, -1)).ravel(), dtype=float
    )
    rng = np.random.default_rng(0)
    v0 = start + rng.standard_normal(n) * np.linalg.norm(start) / n
    values, vectors = eigsh(
        operator, k=k, which="LA", v0=v0, tol=tolerance, **repeatable_restarts(rng)
    )
    order = np.argsort(-values)
    return vectors[:, order], values[order]


def repeatable_restarts(rng: np.random.Generator) -> dict[str, np.random.Generator]:
    """What makes ``eigsh`` give the same answer each time: since 1.17 SciPy draws restarts."""
    return {"rng": rng} if "rng" in inspect.signature(eigsh).parameters else {}


def refined_eigenpairs(
    first: Matrix, product: Product, k: int, tolerance: float, max_steps: int
) -> tuple[Matrix, Matrix, Matrix, bool]:
    """Improve a block of approximate eigenvectors by power steps and Rayleigh–Ritz.

    Parameters
    ----------
    first : (n, q), q ≥ k
        A @ (the last block), which the caller has from the pass that made A. The columns
        beyond k speed up convergence.
    product : X ↦ A @ X
    tolerance
        Stop when the residuals ‖A h − λ h‖ of the top k are below this share of λ_1.

    Returns
    -------
    block (n, q), values (q,), vectors' residual norms (k,), whether all met the tolerance
    """
    AQ = first
    for _ in range(max_steps):
        Q = np.linalg.qr(AQ)[0]
        AQ = product(Q)
        values, rotation = np.linalg.eigh(Q.T @ AQ)
        rotation = rotation[:, ::-1]
        values = values[::-1]
        Q, AQ = Q @ rotation, AQ @ rotation
        residuals = np.linalg.norm(AQ[:, :k] - Q[:, :k] * values[:k], axis=0)
        if residuals.max() <= tolerance * max(values[0], 0.0):
            return Q, values, residuals, True
    return Q, values, residuals, False
