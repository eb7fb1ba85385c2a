"""Leading eigenpairs."""

import numpy as np
import pytest

from coterie.relaxation.eigenpairs import (
    dense_eigenpairs,
    krylov_eigenpairs,
    lanczos_eigenpairs,
    refined_eigenpairs,
)


@pytest.fixture
def matrix():
    """A symmetric matrix with three large eigenvalues and large negative ones."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(80, 80)))[0]
    values = np.concatenate([[9.0, 7.0, 5.0], rng.uniform(-1, 1, 75), [-4.0, -6.0]])
    return (Q * values) @ Q.T


def check(matrix, vectors, values, tolerance):
    """Compare with the three largest pairs of the matrix."""
    assert np.allclose(values, [9, 7, 5], atol=tolerance)
    assert np.abs(matrix @ vectors - vectors * values).max() < tolerance
    assert np.allclose(vectors.T @ vectors, np.eye(3), atol=tolerance)


def test_dense_and_lanczos_find_the_algebraically_largest(matrix):
    """Both solvers give the three largest pairs in falling order, not the negative ones."""
    check(matrix, *dense_eigenpairs(matrix, 3), 1e-10)
    check(matrix, *lanczos_eigenpairs(lambda x: matrix @ x, 80, 3, np.ones(80)), 1e-8)


def test_lanczos_can_start_from_an_eigenvector():
    """A start that is an eigenvector, as a constant vector often is, does not stop it."""
    A = np.ones((30, 30)) + 5 * np.diag(np.arange(30) % 2)
    values = lanczos_eigenpairs(lambda x: A @ x, 30, 2, np.ones(30))[1]
    assert np.allclose(values, np.linalg.eigvalsh(A)[::-1][:2])


def test_refinement_converges_from_a_rough_block(matrix):
    """Power steps with Rayleigh–Ritz reach the tolerance."""
    rng = np.random.default_rng(1)
    exact = dense_eigenpairs(matrix, 3)[0]
    rough = np.column_stack([exact + 0.1 * rng.normal(size=exact.shape), rng.normal(size=(80, 5))])
    block, values, _, met = refined_eigenpairs(
        matrix @ rough, lambda x: matrix @ x, 3, 1e-9, max_steps=200
    )
    assert met
    check(matrix, block[:, :3], values[:3], 1e-6)
    assert not refined_eigenpairs(rough, lambda x: matrix @ x, 3, 1e-12, max_steps=1)[3]


def test_krylov_converges_from_any_start(matrix):
    """The block stays orthonormal; vectors within the tolerance need no further product."""
    guess = np.linalg.qr(np.random.default_rng(1).normal(size=(80, 8)))[0]
    block, values, met = krylov_eigenpairs(
        guess, matrix @ guess, lambda x: matrix @ x, 3, 1e-10, max_products=9
    )
    assert met
    check(matrix, block[:, :3], values[:3], 1e-8)
    assert np.allclose(block.T @ block, np.eye(8), atol=1e-12)
    block, values, met = krylov_eigenpairs(block, matrix @ block, pytest.fail, 3, 1e-8, 2)
    assert met
    check(matrix, block[:, :3], values[:3], 1e-8)


def test_krylov_is_exact_in_the_full_space(matrix):
    """If the spans fill the space, the pairs are exact and no column is added."""
    A = matrix[:10, :10]
    X = np.linalg.qr(np.random.default_rng(3).normal(size=(10, 4)))[0]
    block, values, _ = krylov_eigenpairs(X, A @ X, lambda x: A @ x, 3, 0.0, max_products=6)
    assert np.allclose(values[:3], np.linalg.eigvalsh(A)[::-1][:3], atol=1e-12)
    assert np.abs(A @ block[:, :3] - block[:, :3] * values[:3]).max() < 1e-12


@pytest.mark.parametrize("fails", [False, True])
def test_dense_finds_all_pairs_if_lapack_misses_some(matrix, monkeypatch, fails):
    """If LAPACK fails, or returns too few pairs of a subset, the full spectrum is computed."""

    def short(A, subset_by_index):
        if fails:
            raise np.linalg.LinAlgError("Internal Error")
        return np.empty(0), np.empty((len(A), 0))

    monkeypatch.setattr("coterie.relaxation.eigenpairs.eigh", short)
    check(matrix, *dense_eigenpairs(matrix, 3), 1e-10)
