"""Probabilities of clusters from shares of votes."""

import numpy as np
import pytest

from coterie.consensus.probabilities import cluster_probabilities


@pytest.mark.parametrize("K", [1, 2, 7])
def test_shares_of_votes_become_probabilities(K):
    """Rows sum to 1, keep the order of the shares, and are at least 0.05/K."""
    shares = np.random.default_rng(K).random((50, K))
    shares[::10] = 0
    found = cluster_probabilities(shares)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(found.argmax(axis=1), shares.argmax(axis=1))
    np.testing.assert_allclose(found[::10], 1 / K)
    assert found.min() >= 0.05 / K
