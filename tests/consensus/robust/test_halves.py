"""Stability of K clusters, compared with partitions of which the answer is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.consensus.robust.halves import stability_of_halves
from coterie.consensus.robust.votes import Votes
from coterie.labels.tuples import as_label_tuples


def stability_of(P, ks, seed=0):
    """Return the stability for equal votes, and the answers."""
    votes = Votes.from_tuples(as_label_tuples(P), None)
    return stability_of_halves(votes, np.asarray(ks), np.random.RandomState(seed))


def copies(sizes, n_partitions, seed=0):
    """Return copies of one partition with other names of labels."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    return np.column_stack([rng.permutation(len(sizes))[y] for _ in range(n_partitions)])


@pytest.mark.parametrize("n_partitions", [4, 5, 8])
def test_identical_partitions_are_stable(n_partitions):
    """All halves find their clusters; so the stability is 1, and the answers are the partition."""
    stability, answers = stability_of(copies([50, 30, 20, 10], n_partitions), [4])
    assert stability == pytest.approx([1.0])
    assert sorted(np.bincount(answers.labels[0], answers.tuples.weights)) == [10, 20, 30, 50]


def test_independent_partitions_are_not_stable():
    """Halves of random partitions agree as by chance."""
    P = np.random.default_rng(0).integers(0, 12, (300, 12))
    assert abs(stability_of(P, range(2, 8))[0]).max() < 0.02


@settings(deadline=None, max_examples=5)
@given(seed=st.integers(0, 2**31))
def test_order_and_names_change_nothing(seed):
    """Permuted points, partitions and names give the same stability with the same seed."""
    rng = np.random.default_rng(seed)
    P = copies([20, 15, 10, 5, 5], 6, seed)
    P[rng.random(P.shape) < 0.2] = 0
    other = (7 - P)[rng.permutation(len(P))][:, rng.permutation(6)]
    (a, _), (b, _) = stability_of(P, [2, 3, 5]), stability_of(other, [2, 3, 5])
    np.testing.assert_allclose(a, b, atol=1e-12)


def test_fewer_than_four_partitions_have_no_stability():
    """Halves of three partitions are too few; nan, and no answers."""
    stability, answers = stability_of(copies([5, 5], 3), [2, 3])
    assert np.isnan(stability).all() and stability.shape == (2,) and answers is None


def test_halves_are_compared_on_the_points_that_both_label():
    """Points with a label in a single partition do not lower the stability."""
    P = copies([30, 20, 10], 6)
    P[::4, 1:] = -1
    assert stability_of(P, [3])[0] == pytest.approx([1.0])


def test_numbers_above_the_number_of_tuples_count_as_it():
    """Two distinct tuples have at most two clusters."""
    stability, answers = stability_of(copies([5, 5], 4), [2, 9])
    assert stability == pytest.approx([1.0, 1.0])
    assert [labels.max() for labels in answers.labels] == [1, 1]
