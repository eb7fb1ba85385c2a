"""Probabilities of clusters from shares of votes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from coterie.consensus.probabilities import cluster_probabilities


@pytest.mark.parametrize("K", [1, 2, 7])
def test_shares_of_votes_become_probabilities(K):
    """Rows sum to 1, keep the order of the shares, and are at least 0.05/K."""
    shares = np.random.default_rng(K).random((50, K))
    shares[::10] = 0
    found = cluster_probabilities(shares, shares.argmax(axis=1))
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(found.argmax(axis=1), shares.argmax(axis=1))
    np.testing.assert_allclose(found[::10], 1 / K)
    assert found.min() >= 0.05 / K


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_the_label_has_the_largest_probability(K, seed):
    """It does for any shares, ties among them; rows still sum to 1, and a label −1 changes none."""
    rng = np.random.default_rng(seed)
    shares = rng.integers(0, 4, (30, K)) / 3
    labels = rng.integers(-1, K, 30)
    found = cluster_probabilities(shares, labels)
    labelled = labels >= 0
    np.testing.assert_array_equal(found.argmax(axis=1)[labelled], labels[labelled])
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert found.min() >= 0.05 / K - 1e-12
    free = cluster_probabilities(shares, np.full(30, -1))
    same = ~labelled | (free.argmax(axis=1) == labels)
    np.testing.assert_array_equal(found[same], free[same])


def test_probabilities_change_as_little_as_possible():
    """No other probabilities whose largest is that of the label are nearer to the shares."""
    shares = np.array([[0.1, 0.5, 0.3, 0.8]])
    found = cluster_probabilities(shares, np.array([0]))[0]
    free = cluster_probabilities(shares, np.array([3]))[0]
    nearest = minimize(
        lambda p: ((p - free) ** 2).sum(),
        np.full(4, 0.25),
        constraints=[
            {"type": "eq", "fun": lambda p: p.sum() - 1},
            {"type": "ineq", "fun": lambda p: p[0] - p[1:]},
        ],
    )
    np.testing.assert_allclose(found, nearest.x, atol=1e-5)
