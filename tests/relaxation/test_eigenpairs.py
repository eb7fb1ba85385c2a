"""Leading eigenpairs."""

import numpy as np
import pytest

from coterie.relaxation.eigenpairs import (
    dense_eigenpairs,
    lanczos_eigenpairs,
    refined_eigenpairs,
)


@pytest.fixture
def matrix():
    """A symmetric matrix with three large eigenvalues, and negative ones as large."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(80, 80)))[0]
    values = np.concatenate([[9.0, 7.0, 5.0], rng.uniform(-1, 1, 75), [-4.0, -6.0]])
    return (Q * values) @ Q.T


def check(matrix, vectors, values, tolerance):
    """The pairs are the three largest of the matrix."""
    assert np.allclose(values, [9, 7, 5], atol=tolerance)
    assert np.abs(matrix @ vectors - vectors * values).max() < tolerance
    assert np.allclose(vectors.T @ vectors, np.eye(3), atol=tolerance)


def test_dense_and_lanczos_find_the_algebraically_largest(matrix):
    """Both direct solvers give the three largest, falling, whatever the negative ones."""
    check(matrix, *dense_eigenpairs(matrix, 3), 1e-10)
    check(matrix, *lanczos_eigenpairs(lambda x: matrix @ x, 80, 3, np.ones(80)), 1e-8)


def test_lanczos_starts_from_an_eigenvector_all_the_same():
    """A start that is an eigenvector (as a constant vector often is) does not stall it."""
    A = np.ones((30, 30)) + 5 * np.diag(np.arange(30) % 2)
    values = lanczos_eigenpairs(lambda x: A @ x, 30, 2, np.ones(30))[1]
    assert np.allclose(values, np.linalg.eigvalsh(A)[::-1][:2])


def test_refinement_converges_from_a_rough_block(matrix):
    """Power steps with Rayleigh–Ritz reach the tolerance and say so."""
    rng = np.random.default_rng(1)
    exact = dense_eigenpairs(matrix, 3)[0]
    rough = np.column_stack([exact + 0.1 * rng.normal(size=exact.shape), rng.normal(size=(80, 5))])
    block, values, _, met = refined_eigenpairs(
        matrix @ rough, lambda x: matrix @ x, 3, 1e-9, max_steps=200
    )
    assert met
    check(matrix, block[:, :3], values[:3], 1e-6)


def test_refinement_says_when_it_fell_short(matrix):
    """One step from noise does not meet a tight tolerance, and that is reported."""
    noise = np.random.default_rng(2).normal(size=(80, 5))
    assert not refined_eigenpairs(noise, lambda x: matrix @ x, 3, 1e-12, max_steps=1)[3]


def test_dense_finds_all_it_is_asked_for_when_lapack_misses_some(matrix, monkeypatch):
    """A part of the spectrum may come back short; then the whole is computed."""
    whole = np.linalg.eigh

    def short(A, subset_by_index=None):
        values, vectors = whole(A)
        return (values[:0], vectors[:, :0]) if subset_by_index else (values, vectors)

    monkeypatch.setattr("coterie.relaxation.eigenpairs.eigh", short)
    check(matrix, *dense_eigenpairs(matrix, 3), 1e-10)
