"""The co-association matrix, its weights, and its lower bound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from coterie.counts import coassociation as coassociation_matrix
from coterie.counts.coassociation import (
    coassociation,
    pairwise_lower_bound,
    self_coassociation,
    tuple_coassociation,
)
from coterie.errors import InvalidParameterError
from coterie.labels.tuples import as_label_tuples
from label_matrices import label_matrices, pair_votes
from soft_memberships import any_partitions, clustered, pair_matrices, soft_partitions

properties = settings(max_examples=25)


def brute_force(P, weights):
    """Return M by its formula."""
    same, both = (np.tensordot(weights, x, axes=1) for x in pair_votes(P))
    M = np.divide(same, both, out=np.zeros_like(same), where=both > 0)
    np.fill_diagonal(M, 1.0)
    return M


def test_points_without_weighted_labels_are_apart():
    """Points that no partition of positive weight labels are apart, even if rows are equal."""
    P = [[0, -1], [0, -1], [1, 1]]
    assert_array_equal(coassociation(P, [0, 1]), np.eye(3))


@pytest.mark.parametrize("n_partitions", [49, 256])
def test_unanimous_votes_are_exactly_one(n_partitions):
    """V of V votes give exactly 1, so that 1 − M is zero on the diagonal."""
    rng = np.random.default_rng(0)
    P = rng.integers(0, 2, (6, n_partitions))[[0, 1, 2, 3, 4, 5, 5]]
    M = coassociation(P)
    assert_array_equal(np.diag(M), 1.0)
    assert M[5, 6] == 1.0
    assert_array_equal(M, M.T)
    assert_allclose(M, brute_force(P, np.ones(n_partitions)), rtol=1e-15)


@properties
@given(P=label_matrices(missing=False), weight=st.floats(0.1, 10))
def test_counts_for_equal_weights(P, weight):
    """For equal weights and complete labels, M is counts of the smallest type and a scale."""
    tuples = as_label_tuples(P)
    M = tuple_coassociation(tuples, np.full(P.shape[1], weight))
    assert M.values.dtype == np.uint8
    assert M.n_tuples == tuples.n_tuples
    assert M.scale == 1 / P.shape[1]
    assert M.weights is tuples.weights
    assert_allclose(tuples.expand(tuples.expand(M.dense()).T), coassociation(P))


@pytest.mark.parametrize(("n_partitions", "dtype"), [(255, "u1"), (256, "u2")])
def test_counts_do_not_overflow(n_partitions, dtype):
    """The type of the counts is large enough for any number of partitions."""
    P = np.zeros((2, n_partitions), dtype=np.int8)
    P[1, 0] = 1
    M = tuple_coassociation(as_label_tuples(P), np.ones(n_partitions))
    assert M.values.dtype == dtype
    assert M.values.tolist() == [[n_partitions, n_partitions - 1], [n_partitions - 1, n_partitions]]


@pytest.mark.parametrize("n_clusters", [256, 257])
def test_many_clusters_are_separated(n_clusters):
    """Codes are narrowed to a byte only if they fit."""
    column = np.arange(n_clusters)
    P = np.column_stack([column, column // 2])
    assert_array_equal(coassociation(P), brute_force(P, np.ones(2)))


@pytest.mark.parametrize(("most", "dtype"), [(0, np.float32), (4000, np.float64)])
def test_many_tuples_take_half_the_bytes(most, dtype, monkeypatch):
    """Above the limit, M is in single precision and equal up to rounding."""
    monkeypatch.setattr(coassociation_matrix, "_SINGLE_PRECISION_ABOVE", most)
    P = np.random.default_rng(0).integers(-1, 5, (50, 6))
    tuples = as_label_tuples(P)
    M = tuple_coassociation(tuples, np.ones(6))
    assert M.values.dtype == dtype
    assert M.dense().dtype == np.float64
    assert_allclose(coassociation(P), brute_force(P, np.ones(6)), atol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("threads", ["1", "5"])
@pytest.mark.parametrize("missing", [0, 1])
def test_any_number_of_threads(threads, missing, monkeypatch):
    """Matrix and bound do not depend on the number of threads."""
    monkeypatch.setenv("COTERIE_NUM_THREADS", threads)
    P = np.random.default_rng(0).integers(-missing, 5, (400, 6))
    P[:, 0] = np.abs(P[:, 0])
    M = brute_force(P, np.ones(6))
    assert_allclose(coassociation(P), M, atol=1e-12)
    together, both = (x.mean(axis=0) for x in pair_votes(P))
    bound = np.minimum(together, both - together).sum()
    assert_allclose(pairwise_lower_bound(as_label_tuples(P), np.ones(6)), bound)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (["a", "b"], "partition_weights=.*one number for each partition"),
        ([[1], [1, 2]], "one number for each partition"),
        ([1, 1, 1], r"shape \(3,\).*each of the 2"),
        ([1, -1], r"partition_weights\[1\] is -1.0"),
        ([np.nan, 1], r"partition_weights\[0\] is nan"),
        ([0, 0], "all zero"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    """Invalid weights are refused; the message names them."""
    with pytest.raises(InvalidParameterError, match=message):
        coassociation([[0, 0], [1, 1]], weights)


@given(
    P=st.one_of(any_partitions, soft_partitions(missing=False)),
    seed=st.integers(0, 99),
    weighting=st.sampled_from(["equal", "unequal", "one is zero"]),
)
@properties
def test_coassociation_follows_its_formula(P, seed, weighting):
    """M is the ratio of the weighted sums, also on the diagonal, and exactly symmetric."""
    tuples, alpha, _ = clustered(P, seed)
    if weighting == "equal":
        alpha = np.ones(len(P))
    elif weighting == "one is zero" and len(P) > 1:
        alpha[seed % len(P)] = 0
    a, b = (np.tensordot(alpha, x, 1) for x in pair_matrices(P))
    # points that no partition of positive weight labels are apart
    expected = np.divide(a, b, out=np.eye(len(a)), where=b > 0)
    M = coassociation(P, alpha)
    assert M == pytest.approx(expected, abs=1e-12) and (M == M.T).all()
    ordered = alpha[tuples.partition_order]
    dense = tuple_coassociation(tuples, ordered).dense()
    assert dense.diagonal() == pytest.approx(self_coassociation(tuples, ordered))
    smaller = np.minimum(a, b - a) / alpha.sum()
    np.fill_diagonal(smaller, 0)
    assert pairwise_lower_bound(tuples, ordered) == pytest.approx(smaller.sum(), abs=1e-9)
