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
    "eigsh_rng_option",
    "krylov_eigenpairs",
    "lanczos_eigenpairs",
    "refined_eigenpairs",
    "symmetric_part",
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
        operator, k=k, which="LA", v0=v0, tol=tolerance, **eigsh_rng_option(rng)
    )
    order = np.argsort(-values)
    return vectors[:, order], values[order]


def eigsh_rng_option(rng: np.random.Generator) -> dict[str, np.random.Generator]:
    """What makes ``eigsh`` give the same answer each time: since 1.17 SciPy draws restarts."""
    return {"rng": rng} if "rng" in inspect.signature(eigsh).parameters else {}


def symmetric_part(A: Matrix) -> Matrix:
    """A without what rounding has left of a difference from its transpose."""
    return (A + A.T) / 2.0


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


def krylov_eigenpairs(
    X: Matrix, AX: Matrix, product: Product, k: int, tolerance: float, max_products: int
) -> tuple[Matrix, Matrix, bool]:
    """The k algebraically largest eigenpairs of A in the block Krylov space of a good guess.

    Rayleigh–Ritz in the span of X; while the residual of the k leading pairs is above the
    tolerance, the span is widened by the residuals of its leading q pairs, at one product with A
    a time. The spans are those of X, AX, A²X …, of which this finds the best pairs, where
    power steps look in the last one only.

    Parameters
    ----------
    X : (n, q) with orthonormal columns, q ≥ k
        The last known leading vectors; the columns beyond k speed up convergence.
    AX : (n, q)
        A @ X, which the caller has from the pass that made A.
    product : X ↦ A @ X
    tolerance
        Stop when ‖A H − H Λ‖_F ≤ tolerance for the k leading pairs (H, Λ).

    Returns
    -------
    block (n, q) with orthonormal columns, values (q,), whether the tolerance was met

    Examples
    --------
    >>> A = np.diag([1.0, 3.0, 2.0])
    >>> X = np.linalg.qr(np.array([[0.1], [1.0], [0.2]]))[0]
    >>> krylov_eigenpairs(X, A @ X, lambda Y: A @ Y, 1, 1e-9, 2)[1]
    array([3.])
    """
    q = X.shape[1]
    basis, image = X, AX
    for n_products in range(max_products + 1):
        values, rotation = np.linalg.eigh(symmetric_part(basis.T @ image))
        values, rotation = values[: -q - 1 : -1], rotation[:, : -q - 1 : -1]
        block = basis @ rotation
        residual = image @ rotation - block * values
        met = bool(np.linalg.norm(residual[:, :k]) <= tolerance)
        if met or n_products == max_products:
            break
        fresh = _orthonormal_beside(basis, residual)
        basis, image = np.column_stack([basis, fresh]), np.column_stack([image, product(fresh)])
    return block, values, met


def _orthonormal_beside(basis: Matrix, Y: Matrix) -> Matrix:
    """Orthonormal columns, orthogonal to the basis, that span with it what Y does with it."""
    n, taken = basis.shape
    Y = Y[:, : max(0, n - taken)]
    Y = Y / np.maximum(np.linalg.norm(Y, axis=0), np.finfo(float).tiny)
    # twice is enough: the second pass removes what rounding left of the first
    for _ in range(2):
        Y = np.linalg.qr(Y - basis @ (basis.T @ Y))[0]
    return Y
