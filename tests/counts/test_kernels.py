"""Compiled loops that count, compared with NumPy, and those of shares with those of labels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from both_builds import assert_same_bits
from coterie.counts import kernels
from coterie.counts.cluster_tables import ClusterTables
from coterie.labels.tuples import as_label_tuples
from label_matrices import label_matrices, weights_for

properties = settings(max_examples=25)
K = 4


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
    kernels.add_to_tables(codes, memberships, tuples.weights, labels, *block, *found)
    kernels.add_to_tables(tuples.codes, None, tuples.weights, labels, *block, *expected)
    assert_array_equal(found[0], expected[0])
    assert_array_equal(found[1], expected[1])
    found, expected = np.ones((2, tuples.n_columns, tuples.n_columns))
    kernels.add_soft_contingencies(codes, memberships, tuples.weights, *block, found)
    kernels.add_contingencies(tuples.codes, tuples.weights, *block, expected)
    assert_array_equal(found, expected)


@properties
@given(clusterings(), st.floats(0.1, 0.9))
def test_rows_are_those_of_labels(case, threshold):
    """Labels, margins, shares and silhouettes of a block are equal; other rows stay."""
    tuples, labels, tables, block = case
    u, given_labels = tuples.n_tuples, labels.copy()
    rest = (tuples.partition_of, tables.alpha, tables.complete, tables.table, tables.present)
    found = []
    for rows in ((tuples.codes, None), tuples.slots()):
        arrays = (*rows, *rest, tables.size)
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
    codes = np.array([[0, 2], [1, -1], [0, 1], [2, -1]], dtype=np.int16)
    memberships = np.array([[0.5, 0.5], [1.0, 0.0], [0.25, 0.5], [0.75, 0.0]])
    Z = np.array([[0.5, 0, 0.5], [0, 1, 0], [0.25, 0.5, 0], [0, 0, 0.75]])
    values, sums = np.arange(6.0).reshape(3, 2), np.full((4, 2), 7.0)
    kernels.sum_over_clusters(codes, memberships, values, *block, sums)
    expected = np.full((4, 2), 7.0)
    expected[slice(*block)] = (Z @ values)[slice(*block)]
    assert_array_equal(sums, expected)


#: Yields the results of every kernel, on random inputs of several widths.
RUN = """
def run(kernels):
    rng = np.random.default_rng(0)
    for K in (1, 3, 4, 7, 50):
        n, V, m = 200, 11, 66
        codes = (rng.integers(-1, 6, (n, V)) + 6 * np.arange(V)).astype(np.int16)
        codes[rng.random((n, V)) < 0.1] = -1
        table, alpha, size = rng.random((m, K)), rng.random(V), rng.random(K)
        present, part = rng.random((V, K)), np.repeat(np.arange(V), 6)
        labels, margin, M = np.empty(n, np.int64), np.empty(n), np.empty((n, n))
        tables = part, alpha, K % 2 == 0, table, present, size
        kernels.assign_rows(codes, None, *tables, 0.5, np.full(n, -1), 0, n, labels, margin)
        shares = np.ascontiguousarray(codes.T), alpha, 0, n
        kernels.share_rows(*shares, np.empty(n), np.empty(n), M)
        counts = np.zeros((m, m))
        kernels.add_contingencies(codes, np.full(n, 0.1), 0, n, counts)
        yield from (labels, margin, M, counts)
"""


def test_wide_vectors_give_the_same_bits():
    """The build for AVX2 adds in the same order, and contracts no product with a sum."""
    assert_same_bits("coterie.counts", "assign_rows", RUN)
