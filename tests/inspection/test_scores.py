"""Scores, compared with scikit-learn, brute force and identities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linear_sum_assignment
from sklearn import metrics

from coterie.errors import InvalidLabelsError, InvalidParameterError
from coterie.inspection.scores import (
    adjusted_rand_index,
    clustering_accuracy,
    contingency,
    mirkin_distance,
    mirkin_objective,
    normalized_mutual_information,
)

PAIRWISE = [
    contingency,
    clustering_accuracy,
    normalized_mutual_information,
    adjusted_rand_index,
    mirkin_distance,
]
SCORES = PAIRWISE[1:]
TWO = [[0, 0], [1, 1]]

properties = settings(deadline=None, max_examples=50)


@st.composite
def two_partitions(draw, max_points=30, max_clusters=6):
    """Draw two label vectors of one length with few or many clusters."""
    n = draw(st.integers(1, max_points))
    return tuple(
        draw(arrays(np.int64, n, elements=st.integers(0, draw(st.integers(0, max_clusters - 1)))))
        for _ in range(2)
    )


@st.composite
def label_matrices(draw):
    """Draw a label matrix with missing labels, a partition and weights."""
    n, V = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    P = draw(arrays(np.int64, (n, V), elements=st.integers(-1, 3)))
    labels = draw(arrays(np.int64, n, elements=st.integers(0, 3)))
    # the first column and the first row are complete, so that no row or column is empty
    P[:, 0] = np.maximum(P[:, 0], 0)
    P[0] = np.maximum(P[0], 0)
    weights = draw(arrays(np.float64, V, elements=st.floats(0.125, 8)))
    return P, labels, weights


def same(labels):
    """Return the (n, n) matrix of "in the same cluster"."""
    return np.equal.outer(labels, labels)


@properties
@given(two_partitions())
def test_contingency_equals_sklearn(pair):
    """The table is that of scikit-learn, sparse and of integers."""
    table = contingency(*pair)
    assert table.dtype == np.int64
    assert table.format == "csr"
    assert_array_equal(table.toarray(), metrics.cluster.contingency_matrix(*pair))


def test_contingency_takes_any_names():
    """Labels may be text, negative numbers or floats."""
    table = contingency(np.array(["b", "a", "b"], dtype=object), [-1.0, 7.0, -1.0])
    assert_array_equal(table.toarray(), [[0, 1], [2, 0]])


@properties
@given(st.tuples(st.integers(1, 60), st.integers(1, 60)), st.integers(0, 99))
def test_accuracy_equals_dense_assignment(shape, seed):
    """The accuracy is the maximum over all matchings of clusters, which a dense solver finds."""
    rng = np.random.default_rng(seed)
    pair = [rng.integers(k, size=200) for k in shape]
    table = contingency(*pair).toarray()
    best = table[linear_sum_assignment(table, maximize=True)].sum()
    assert clustering_accuracy(*pair) == best / 200


def test_accuracy_of_any_number_of_clusters():
    """The smaller part of a split class is wrong; thousands of clusters need no dense table."""
    assert clustering_accuracy([0, 0, 0, 0], [0, 0, 0, 1]) == 0.75
    assert clustering_accuracy([0, 0, 0, 1], [0, 0, 0, 0]) == 0.75
    labels = np.arange(3_000)
    assert clustering_accuracy(labels, labels[::-1]) == 1.0


@properties
@given(two_partitions(), st.sampled_from(["arithmetic", "geometric", "max", "min"]))
def test_nmi_equals_sklearn(pair, average):
    """Every average agrees with scikit-learn, also for single clusters."""
    expected = metrics.normalized_mutual_info_score(*pair, average_method=average)
    assert_allclose(normalized_mutual_information(*pair, average=average), expected, atol=1e-10)


@properties
@given(two_partitions())
def test_ari_equals_sklearn(pair):
    """The adjusted Rand index is that of scikit-learn."""
    assert_allclose(adjusted_rand_index(*pair), metrics.adjusted_rand_score(*pair), atol=1e-12)


def test_ari_is_exact_where_products_of_pairs_overflow():
    """With 200,000 points the products of pair counts exceed 64 bits."""
    y = np.repeat([0, 1], 100_000)
    assert adjusted_rand_index(y, y) == 1.0
    assert_allclose(adjusted_rand_index(y, np.tile([0, 1], 100_000)), 0, atol=1e-4)


@properties
@given(two_partitions())
def test_mirkin_distance_counts_differing_pairs(pair):
    """The distance is the number of ordered pairs on which the two differ."""
    assert mirkin_distance(*pair) == (same(pair[0]) != same(pair[1])).sum()


@properties
@given(two_partitions(), st.randoms(use_true_random=False), st.sampled_from(SCORES))
def test_scores_ignore_names_and_order(pair, random, score):
    """Renamed clusters, shuffled points and swapped partitions do not change a score."""
    order = list(range(len(pair[0])))
    random.shuffle(order)
    names = [f"cluster {k}" for k in range(6)]
    random.shuffle(names)
    renamed = [names[k] for k in pair[1][order]]
    for other in (score(pair[0][order], renamed), score(*pair[::-1])):
        assert_allclose(other, score(*pair), atol=1e-12)


@properties
@given(label_matrices())
def test_objective_equals_brute_force(example):
    """J equals a sum over all ordered pairs and partitions."""
    P, labels, weights = example
    X = same(labels)
    total = 0.0
    for v, w in enumerate(weights):
        present = P[:, v] >= 0
        differ = same(P[:, v]) != X
        total += w * (differ & np.logical_and.outer(present, present)).sum()
    assert_allclose(mirkin_objective(P, labels, weights), total / weights.sum())


def test_objective_is_zero_for_the_common_partition():
    """Equal partitions with different names give J = 0."""
    y = np.array([0, 0, 1, 2])
    assert mirkin_objective(np.column_stack([y, 5 - y, y + 3]), ["a", "a", "b", "c"]) == 0.0
    # a partition of weight zero does not count
    assert mirkin_objective([[0, 0], [0, 1]], [4, 4], partition_weights=[1, 0]) == 0.0


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([0, 1, 2], [0, 1], "3 labels and .* has 2"),
        ([], [], "is empty"),
        ([[0, 1]], [0, 1], r"shape \(1, 2\)"),
        (0, [0], r"shape \(\)"),
        ([0.0, np.nan], [0, 1], "no label at row 1"),
        ([0, 1], [np.nan, 1.0], "no label at row 0"),
        ([0, 1], np.array([1.0, np.nan], dtype=object), "no label at row 1"),
        (["a", None], [0, 1], "mixes kinds"),
        (["a", np.nan], [0, 1], "mixes kinds"),
        ([0, "a"], [0, 1], "mixes kinds"),
        ([[0], [1, 2]], [0, 1], "ragged"),
    ],
)
def test_unusable_labels_are_refused(first, second, message):
    """Every score refuses the labels and names the place."""
    for score in PAIRWISE:
        with pytest.raises(InvalidLabelsError, match=message):
            score(first, second)


def test_unknown_average_is_refused():
    with pytest.raises(InvalidParameterError, match="arithmetic, geometric, max, min"):
        normalized_mutual_information([0], [0], average="harmonic")


@pytest.mark.parametrize(
    ("P", "labels", "weights", "error", "message"),
    [
        (TWO, [0, 1], [1.0], InvalidParameterError, r"shape \(1,\).*2 partitions"),
        (TWO, [0, 1], [1.0, -1.0], InvalidParameterError, r"partition_weights\[1\] is -1"),
        (TWO, [0, 1], [np.nan, 1.0], InvalidParameterError, r"partition_weights\[0\] is nan"),
        (TWO, [0, 1], [0.0, 0.0], InvalidParameterError, "all zero"),
        (TWO, [0, 1], ["a", "b"], InvalidParameterError, "give one number"),
        ([[0], [1]], [0, -1], None, InvalidLabelsError, "labels has no label at row 1"),
        ([[0], [1]], [0, 1, 1], None, InvalidLabelsError, "3 points and P has 2 rows"),
    ],
)
def test_the_objective_needs_a_label_per_point_and_usable_weights(
    P, labels, weights, error, message
):
    with pytest.raises(error, match=message):
        mirkin_objective(P, labels, weights)
