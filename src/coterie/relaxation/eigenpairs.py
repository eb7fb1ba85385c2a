"""The K algebraically largest eigenpairs of a symmetric matrix, with or without a good guess."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, eigsh

from coterie.arrays import Floats

Product = Callable[[Floats], Floats]


def dense_eigenpairs(A: Floats, k: int) -> tuple[Floats, Floats]:
    """Return eigenvectors (n, k) and eigenvalues (k,) by LAPACK, largest first."""
    n = len(A)
    try:
        values, vectors = eigh(A, subset_by_index=[n - k, n - 1])
    except np.linalg.LinAlgError:  # many equal eigenvalues
        values, vectors = np.empty(0), np.empty((n, 0))
    if len(values) < k:  # LAPACK can miss eigenvalues of a subset, but not of the full spectrum
        values, vectors = (part[..., -k:] for part in np.linalg.eigh(A))
    return vectors[:, ::-1], values[::-1]


def lanczos_eigenpairs(
    product: Product, n: int, k: int, start: Floats, tolerance: float = 0.0
) -> tuple[Floats, Floats]:
    """Return eigenvectors (n, k) and eigenvalues (k,) by ARPACK, from products with the matrix.

    If the starting vector is an eigenvector, as a constant vector often is, ARPACK stops early. So
    a fixed pseudo-random vector is added to ``start``.
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
    """Return the option that makes ``eigsh`` repeatable; SciPy 1.17 restarts at random."""
    return {"rng": rng} if "rng" in inspect.signature(eigsh).parameters else {}


def symmetric_part(A: Floats) -> Floats:
    """Return (A + Aᵀ) / 2, which removes asymmetry by rounding."""
    return (A + A.T) / 2.0


def refined_eigenpairs(
    first: Floats, product: Product, k: int, tolerance: float, max_steps: int
) -> tuple[Floats, Floats, Floats, bool]:
    """Improve a block of approximate eigenvectors by power steps and Rayleigh–Ritz.

    ``first`` (n, q) is A @ block, q ≥ k; columns beyond k speed up convergence. The steps end when
    the residuals ‖A h − λ h‖ of the k largest pairs are at most ``tolerance`` times λ_1. Return the
    block (n, q), values (q,), residual norms (k,), and whether the tolerance was met.
    """
    AQ = first
    for _ in range(max_steps):
        Q = np.linalg.qr(AQ)[0]
        AQ = product(Q)
        values, rotation = np.linalg.eigh(Q.T @ AQ)
        values, rotation = values[::-1], rotation[:, ::-1]
        Q, AQ = Q @ rotation, AQ @ rotation
        residuals = np.linalg.norm(AQ[:, :k] - Q[:, :k] * values[:k], axis=0)
        if residuals.max() <= tolerance * max(values[0], 0.0):
            return Q, values, residuals, True
    return Q, values, residuals, False


def krylov_eigenpairs(
    X: Floats, AX: Floats, product: Product, k: int, tolerance: float, max_products: int
) -> tuple[Floats, Floats, bool]:
    """Return the k largest eigenpairs of A in the block Krylov space of a good guess X.

    X (n, q), q ≥ k, has orthonormal columns that approximate the leading eigenvectors; columns
    beyond k speed up convergence. AX (n, q) is A @ X. Rayleigh–Ritz gives the best pairs (H, Λ) in
    the span of X. While ‖A H − H Λ‖_F of the k leading pairs is above the tolerance, the span is
    extended by the residuals of the leading q pairs, with one product each time. Return an
    orthonormal block (n, q), values (q,), and whether the tolerance was met.
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
        # an orthonormal basis of the part of the residuals that is orthogonal to the span
        n, n_columns = basis.shape
        added = residual[:, : max(0, n - n_columns)]
        added = added / np.maximum(np.linalg.norm(added, axis=0), np.finfo(float).tiny)
        for _ in range(2):  # the second pass removes the rounding errors of the first
            added = np.linalg.qr(added - basis @ (basis.T @ added))[0]
        basis, image = np.column_stack([basis, added]), np.column_stack([image, product(added)])
    return block, values, met
