"""Compiled loops over soft partitions: hard memberships give what the loops over labels give."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from coterie.counts import cluster_kernels, coassociation_kernels, soft_kernels
from coterie.counts.cluster_tables import ClusterTables
from coterie.labels.tuples import as_label_tuples
from label_matrices import label_matrices, weights_for

properties = settings(deadline=None, max_examples=25)
K = 3


@st.composite
def clusterings(draw):
    """Tuples, their slots, labels (−1 for none), tables in the order of columns, and a block."""
    P = draw(label_matrices())
    tuples = as_label_tuples(P)
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    labels = rng.integers(-1, K, tuples.n_tuples)
    tables = ClusterTables.of(tuples, labels, draw(weights_for(P)), K)
    stop = draw(st.integers(0, tuples.n_tuples))
    return tuples, labels, tables, (draw(st.integers(0, stop)), stop)


@properties
@given(clusterings())
def test_counts_are_those_of_labels(case):
    """Tables and contingencies of a block equal those of the labels; other counts stay."""
    tuples, labels, tables, block = case
    codes, memberships = tuples.slots()
    found, expected = ((np.ones_like(tables.table), np.ones(K)) for _ in range(2))
    soft_kernels.add_to_tables(codes, memberships, tuples.weights, labels, *block, *found)
    cluster_kernels.add_to_tables(tuples.codes, tuples.weights, labels, *block, *expected)
    assert_array_equal(found[0], expected[0])
    assert_array_equal(found[1], expected[1])
    found, expected = np.ones((2, tuples.n_columns, tuples.n_columns))
    soft_kernels.add_contingencies(codes, memberships, tuples.weights, *block, found)
    coassociation_kernels.add_contingencies(tuples.codes, tuples.weights, *block, expected)
    assert_array_equal(found, expected)


@properties
@given(clusterings(), st.floats(0.1, 0.9))
def test_rows_are_those_of_labels(case, threshold):
    """Labels, confidences, shares and silhouettes of a block are equal; other rows stay."""
    tuples, labels, tables, block = case
    u, given_labels = tuples.n_tuples, labels.copy()
    hard = (tuples.codes, tables.alpha, tables.complete, tables.table, tables.present, tables.size)
    soft = (*tuples.slots(), tuples.partition_of, tables.alpha, tables.table, tables.present)
    found = []
    for kernels, arrays in ((cluster_kernels, hard), (soft_kernels, soft)):
        assigned, shares = (np.full(u, 7), np.full(u, 7.0)), np.full((u, K), 7.0)
        kernels.assign_rows(*arrays, threshold, given_labels, *block, *assigned)
        kernels.vote_share_rows(*arrays, *block, shares)
        silhouettes = np.full(u, 7.0)
        kernels.silhouette_rows(*arrays, np.maximum(labels, 0), *block, silhouettes)
        found.append((*assigned, shares, silhouettes))
    for by_labels, by_memberships in zip(*found, strict=True):
        assert_allclose(by_memberships, by_labels, atol=1e-9)


@pytest.mark.parametrize("block", [(0, 4), (1, 3), (2, 2)])
def test_sums_over_clusters_are_products(block):
    """Rows of a block are those of Z·values; other rows stay."""
    codes = np.array([[0, 2], [1, -1], [0, 1], [2, -1]])
    memberships = np.array([[0.5, 0.5], [1.0, 0.0], [0.25, 0.5], [0.75, 0.0]])
    Z = np.array([[0.5, 0, 0.5], [0, 1, 0], [0.25, 0.5, 0], [0, 0, 0.75]])
    values, sums = np.arange(6.0).reshape(3, 2), np.full((4, 2), 7.0)
    soft_kernels.sum_over_clusters(codes, memberships, values, *block, sums)
    expected = np.full((4, 2), 7.0)
    expected[slice(*block)] = (Z @ values)[slice(*block)]
    assert_array_equal(sums, expected)
