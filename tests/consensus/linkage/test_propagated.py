"""Similarities of base clusters that random walks propagate."""

import numpy as np
import pytest

import coterie as ct
from coterie.consensus.linkage import propagated_similarity
from coterie.counts.contingency import all_contingencies, jaccard_similarity
from coterie.errors import InvalidParameterError
from coterie.labels.tuples import as_label_tuples


def walks_of(E, n_steps):
    """The concatenated random walks of the definition, (m, m · T)."""
    E = E - np.diag(E.diagonal())
    P = E / np.maximum(E.sum(axis=1, keepdims=True), 1e-300)
    powers = [P]
    for _ in range(n_steps - 1):
        powers.append(powers[-1] @ P)
    return np.hstack(powers)


@pytest.mark.parametrize("n_steps", [1, 2, 20])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_similarity_is_the_cosine_of_the_walks(n_steps, missing):
    """The closed form equals the walks step by step."""
    P, _ = ct.planted_partitions([40, 20, 10], 6, 2, 0.3, random_state=0)
    P[np.random.default_rng(0).random(P.shape) < missing] = -1
    tuples = as_label_tuples(P[(P >= 0).any(axis=1)])
    E = jaccard_similarity(all_contingencies(tuples), tuples.offsets)
    walks = walks_of(E, n_steps)
    length = np.linalg.norm(walks, axis=1)
    expected = (walks @ walks.T) / np.outer(length, length)
    np.fill_diagonal(expected, 1.0)
    np.testing.assert_allclose(propagated_similarity(E, n_steps), expected, atol=1e-9)


def test_a_cluster_without_neighbours_is_similar_to_itself_only():
    """Empty clusters and clusters that no other overlaps have similarity 0 to all others."""
    E = np.array([[1.0, 0.5, 0], [0.5, 1, 0], [0, 0, 0]])
    np.testing.assert_allclose(propagated_similarity(E, 20)[2], [0, 0, 1])


def test_split_clusters_are_joined_through_other_partitions():
    """Clusters that one partition splits differently from the others are joined again."""
    y = np.repeat([0, 1, 2], 60)
    rng = np.random.default_rng(0)
    P = np.column_stack([4 * y + rng.integers(0, 4, 180) for _ in range(10)])
    est = ct.PropagatedConsensus(3).fit(P)
    assert ct.clustering_accuracy(y, est.labels_) == 1


def test_many_equal_eigenvalues_are_no_problem():
    """Copies of a partition are similar to each other, and clusters without overlap are not."""
    E = np.kron(np.ones((60, 60)), np.eye(4))
    walks = walks_of(E, 2)
    squares = (walks**2).sum(axis=1)
    expected = np.where(np.eye(240), 1.0, walks @ walks.T / squares)
    np.testing.assert_allclose(propagated_similarity(E, 2), expected, atol=1e-9)


def test_the_number_of_steps_is_checked():
    """Zero steps are refused by name."""
    with pytest.raises(InvalidParameterError, match="n_steps=0"):
        ct.PropagatedConsensus(2, n_steps=0).fit([[0, 0], [1, 1], [1, 0]])
