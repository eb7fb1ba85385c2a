"""The choice between the search and linkage: the effective number, and the reasons."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import coterie as ct
from coterie.consensus.robust.similar_sizes import answer_by_sizes, effective_number
from coterie.consensus.robust.votes import Votes
from coterie.labels.tuples import as_label_tuples

SIZES = st.lists(st.integers(1, 10**6), min_size=1, max_size=8)


def answer_of(P, K):
    """Return the answer and the search result for equal votes."""
    votes = Votes.from_tuples(as_label_tuples(P), None)
    return answer_by_sizes(votes, K, {}, np.random.RandomState(0))


@given(SIZES)
def test_the_effective_number_is_between_one_and_the_number(sizes):
    """Its bounds are 1 and K; empty clusters and the unit do not count."""
    values = np.array(sizes, dtype=float)
    number = effective_number(values)
    assert 1 <= number <= len(sizes) + 1e-9
    assert effective_number(np.append(values / 7, 0.0)) == pytest.approx(number)


@given(st.integers(1, 40), st.floats(0.5, 1e6))
def test_equal_clusters_have_their_number(K, size):
    """The effective number is K exactly for clusters of one size, and less for others."""
    assert effective_number(np.full(K, size)) == pytest.approx(K)
    assert effective_number(np.append(np.full(K, size), 2 * size)) < K + 1


def test_clusters_of_similar_size_are_those_of_the_search():
    """The search is the answer if halves of the partitions find its clusters too."""
    P, y = ct.planted_partitions([50, 45, 40], 8, 0, 0.1, random_state=0)
    answer, found = answer_of(P, 3)
    assert answer.method == "search" and found is not None
    np.testing.assert_array_equal(answer.labels, found.labels)
    assert "of similar size" in answer.reason and "find them too" in answer.reason
    assert ct.clustering_accuracy(y, as_label_tuples(P).expand(answer.labels)) > 0.98


def test_clusters_of_different_size_are_those_of_linkage():
    """The reason says so, and there is no search result."""
    P, y = ct.planted_partitions([150, 20, 10], 8, 0, 0.1, random_state=0)
    answer, found = answer_of(P, 3)
    assert answer.method == "local linkage" and found is None
    assert "of different size" in answer.reason
    assert ct.clustering_accuracy(y, as_label_tuples(P).expand(answer.labels)) > 0.98


def test_clusters_that_halves_do_not_find_are_those_of_linkage():
    """Random partitions give clusters of similar size that other partitions do not confirm."""
    P = np.random.default_rng(0).integers(0, 3, (200, 8))
    answer, found = answer_of(P, 3)
    assert answer.method == "local linkage" and found is None
    assert "halves of the partitions find other clusters" in answer.reason


def test_points_without_a_label_in_a_half_do_not_make_it_unstable():
    """Halves are compared on the points that both label."""
    P, _ = ct.planted_partitions([40, 40, 40], 6, 0, 0.0, random_state=0)
    P[::4, 1:] = -1
    assert "adjusted Rand index 1.00" in answer_of(P, 3)[0].reason


def test_few_partitions_have_no_halves():
    """Below four partitions only the sizes decide."""
    P, _ = ct.planted_partitions([30, 30], 3, 0, 0.1, random_state=0)
    assert answer_of(P, 2)[0].method == "search"


def test_the_estimator_tells_which_answer_it_selected():
    """refine="sizes" of RobustConsensus uses this choice."""
    for sizes, method in ([40, 40, 40], "search"), ([150, 20, 10], "local linkage"):
        P, y = ct.planted_partitions(sizes, 8, 0, 0.1, random_state=0)
        est = ct.RobustConsensus(3, refine="sizes", random_state=0).fit(P)
        assert est.selected_["method"] == method
        assert ct.clustering_accuracy(y, est.labels_) > 0.98
