"""The number of clusters that the votes recommend."""

import numpy as np
import pytest

import coterie as ct
from coterie.consensus.robust.number_of_clusters import (
    choose_n_clusters,
    default_ks,
    measure_each_k,
    recommend,
)
from coterie.consensus.robust.votes import Votes
from coterie.labels.tuples import as_label_tuples


def votes_of(P):
    """The votes of all partitions alike."""
    return Votes.from_tuples(as_label_tuples(P), None)


@pytest.mark.parametrize("sizes", [[60] * 6, [200, 60, 40], [200, 100, 50, 25, 12]])
def test_the_planted_number_is_found_under_noise(sizes):
    """Also with unequal clusters and 40% of the labels redrawn."""
    P, _ = ct.planted_partitions(sizes, 20, 0, 0.4, random_state=5)
    assert choose_n_clusters(votes_of(P), 0) == len(sizes)


def test_measures_have_one_value_for_each_k():
    """J does not rise with K, agreement is an adjusted Rand index, and λ_K falls."""
    P, _ = ct.planted_partitions([60, 40, 30], 8, 0, 0.2, random_state=0)
    ks = np.arange(2, 7)
    measures = measure_each_k(votes_of(P), ks, 0)
    assert (np.diff(measures["objective"]) <= 1e-9).all()
    assert measures["agreement"].shape == ks.shape and measures["agreement"].max() <= 1
    assert (np.diff(measures["eigenvalues"]) <= 1e-9).all() and len(measures["eigenvalues"]) == 7


def test_the_smaller_k_wins_a_tie():
    """Equal products recommend the first K, and a negative agreement never wins."""
    measures = {
        "relative_eigengap": np.array([0.9, 0.5, 0.5]),
        "confidence": np.array([1.0, 0.8, 0.8]),
        "agreement": np.array([-0.5, 0.9, 0.9]),
    }
    best, reason = recommend(measures)
    assert best == 1 and "0.50" in reason and "0.90" in reason


def test_the_range_follows_the_partitions():
    """At least 2 to 10, to the median K_v if that is larger, and never above n."""
    assert default_ks(np.array([4]), 100).tolist() == list(range(2, 11))
    assert default_ks(np.array([2, 17, 40]), 100)[-1] == 17
    assert default_ks(np.array([2]), 3).tolist() == [2, 3]
