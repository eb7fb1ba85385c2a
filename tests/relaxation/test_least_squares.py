"""The ℓ2 relaxation from contingency tables."""

import numpy as np
import pytest
from hypothesis import given, settings

from coterie import coassociation, planted_partitions
from coterie.labels.tuples import as_label_tuples
from coterie.relaxation import least_squares
from coterie.relaxation.least_squares import least_squares_factor, least_squares_spectrum
from soft_memberships import soft_partitions


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_factor_is_the_best_approximation_of_m(monkeypatch, dense, weighted):
    """F Fᵀ equals the K leading eigenpairs of M, by either eigensolver, for any weights."""
    if not dense:
        monkeypatch.setattr(least_squares, "_DENSE_UP_TO", 0)
    P, _ = planted_partitions([50, 30, 20], 9, 3, 0.3, random_state=0)
    weights = np.arange(1.0, 10.0) if weighted else np.ones(9)
    tuples = as_label_tuples(P)
    F = tuples.expand(least_squares_factor(tuples, weights[tuples.partition_order], 3))
    values, vectors = np.linalg.eigh(coassociation(P, weights))
    best = (vectors[:, -3:] * values[-3:]) @ vectors[:, -3:].T
    assert np.abs(F @ F.T - best).max() < 1e-8


def test_spectrum_is_that_of_m():
    """The eigenvalues of the small matrix are the leading eigenvalues of M."""
    P, _ = planted_partitions([50, 30], 7, 2, 0.2, random_state=1)
    tuples = as_label_tuples(P)
    _, values = least_squares_spectrum(tuples, np.ones(7), 6)
    assert np.allclose(values, np.linalg.eigvalsh(coassociation(P))[::-1][:6])


def test_partitions_of_weight_zero_are_ignored():
    """A weight of zero equals removing the partition."""
    P, _ = planted_partitions([50, 30], 7, 2, 0.2, random_state=1)
    weights = np.array([1.0, 1, 1, 1, 1, 0, 0])
    all_seven, five = as_label_tuples(P), as_label_tuples(P[:, :5])
    F = all_seven.expand(least_squares_factor(all_seven, weights[all_seven.partition_order], 2))
    G = five.expand(least_squares_factor(five, np.ones(5), 2))
    assert np.allclose(F @ F.T, G @ G.T)


def test_rank_below_k_gives_zero_columns():
    """More columns than M has rank are zero, not noise."""
    tuples = as_label_tuples([[0, 0], [0, 0], [1, 1], [1, 1]])
    F = least_squares_factor(tuples, np.ones(2), 2)
    assert np.allclose(F @ F.T, np.eye(2))
    wide = least_squares_factor(as_label_tuples([[0, 0], [1, 1]]), np.ones(2), 4)
    assert np.abs(wide[:, 2:]).max() == 0


@given(P=soft_partitions(missing=False))
@settings(max_examples=20, deadline=None)
def test_factor_of_soft_partitions_gives_m(P):
    """F Fᵀ of full rank is M if no mass is missing."""
    tuples = as_label_tuples(P)
    F = least_squares_factor(tuples, np.ones(len(P)), tuples.n_columns)
    F = tuples.expand(F)
    assert F @ F.T == pytest.approx(coassociation(P), abs=1e-9)
