"""Planted partitions: noise rates, wrong columns, names and order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from coterie.ensembles.generate import planted_partitions
from coterie.errors import InvalidParameterError
from coterie.inspection.scores import adjusted_rand_index, clustering_accuracy

SIZES = [6_000, 3_000, 1_000]


@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=5),
    st.integers(1, 6),
    st.integers(0, 6),
    st.floats(0, 1),
    st.booleans(),
    st.integers(0, 100),
)
def test_shapes_sizes_and_seed(sizes, n_partitions, n_bad, noise, correlated, seed):
    """Cluster sizes are the given ones, labels are 0..K−1, and a seed fixes all draws."""
    arguments = (sizes, n_partitions, min(n_bad, n_partitions), noise)
    P, y = planted_partitions(*arguments, correlated=correlated, random_state=seed)
    assert P.shape == (sum(sizes), n_partitions)
    assert P.dtype == y.dtype == np.int32
    assert P.min() >= 0 and P.max() < len(sizes)
    assert_array_equal(np.bincount(y), sizes)
    again = planted_partitions(*arguments, correlated=correlated, random_state=seed)
    assert_array_equal(P, again[0])
    assert_array_equal(y, again[1])


def test_without_noise_copies_are_exact():
    """At noise 0 good columns equal y up to names; correlated wrong columns equal each other."""
    P, y = planted_partitions(SIZES, 6, 2, noise=0.0, random_state=0)
    scores = [adjusted_rand_index(y, column) for column in P.T]
    assert scores[:4] == [1.0] * 4
    assert_allclose(scores[4:], 0, atol=0.01)
    assert adjusted_rand_index(P[:, 4], P[:, 5]) == 1.0


def test_independent_wrong_partitions_agree_by_chance():
    """Wrong partitions that are not correlated have an adjusted Rand index near 0."""
    P, _ = planted_partitions(SIZES, 3, 3, noise=0.0, correlated=False, random_state=1)
    pairs = [(0, 1), (0, 2), (1, 2)]
    assert_allclose([adjusted_rand_index(P[:, v], P[:, w]) for v, w in pairs], 0, atol=0.005)


@pytest.mark.parametrize("noise", [0.1, 0.5])
def test_noise_redraws_its_share(noise):
    """A share noise·(1 − 1/K) of the labels changes, in good and in correlated wrong columns."""
    P, y = planted_partitions(SIZES, 3, 2, noise, random_state=2)
    kept = 1 - noise * (1 - 1 / len(SIZES))
    assert_allclose(clustering_accuracy(y, P[:, 0]), kept, atol=0.015)
    # Two noisy copies of one partition agree where both kept the label, or by chance.
    agree = (1 - noise) ** 2 + (1 - (1 - noise) ** 2) / len(SIZES)
    assert_allclose(clustering_accuracy(P[:, 1], P[:, 2]), agree, atol=0.015)


def test_names_and_order_are_random():
    """Columns have different label names, and points of a class are not adjacent."""
    P, y = planted_partitions([25] * 12, 20, 0, noise=0.0, random_state=5)
    assert len({tuple(column) for column in P.T}) == 20
    assert (np.diff(y) != 0).sum() > 200


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": []}, "sizes is empty"),
        ({"sizes": [3, 0]}, r"sizes\[1\]=0"),
        ({"n_bad": -1}, "n_bad=-1: .* 0 to 5"),
        ({"n_bad": 6}, "n_bad=6: .* 0 to 5"),
        ({"noise": 1.5}, "noise=1.5"),
        ({"bad_clusters": 0}, "bad_clusters=0"),
    ],
)
def test_bad_settings_are_refused(change, message):
    """The message names the setting, its value and its bounds."""
    arguments = {"sizes": [3, 2], "n_partitions": 5, "n_bad": 1, "noise": 0.1} | change
    with pytest.raises(InvalidParameterError, match=message):
        planted_partitions(**arguments)


@pytest.mark.parametrize("correlated", [True, False])
def test_number_of_wrong_clusters(correlated):
    """Wrong columns have ``bad_clusters`` equally likely labels; good columns have K."""
    P, y = planted_partitions(SIZES, 3, 2, 0.2, 7, correlated=correlated, random_state=4)
    assert len(np.unique(P[:, 0])) == 3
    for column in P[:, 1:].T:
        assert_allclose(np.bincount(column) / len(y), 1 / 7, atol=0.02)
