"""Compiled loops that fill and read cluster tables, compared with plain Python."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from coterie.counts import cluster_kernels as kernels
from coterie.counts.cluster_tables import ClusterTables
from coterie.labels.tuples import as_label_tuples
from label_matrices import label_matrices, weights_for

properties = settings(deadline=None, max_examples=25)
K = 4


@st.composite
def clusterings(draw):
    """Tuples, labels of them (−1 for none) in at most K clusters, weights of the partitions."""
    P = draw(label_matrices(max_points=20))
    tuples = as_label_tuples(P)
    labels = draw(arrays(np.int64, tuples.n_tuples, elements=st.integers(-1, K - 1)))
    return tuples, labels, draw(weights_for(P))


@properties
@given(clusterings(), st.floats(0.1, 0.9))
def test_assign_rows_writes_only_its_block(case, threshold):
    """Rows outside the block are unchanged, and so are the tables."""
    tuples, labels, alpha = case
    labels = np.maximum(labels, 0)
    tables = ClusterTables.of(tuples, labels, alpha, K)
    n = tuples.n_tuples
    found, confidence = np.full(n, 77), np.full(n, 77.0)
    start, stop = n // 3, n - n // 4
    kernels.assign_rows(
        tuples.codes, alpha, tables.complete, tables.table, tables.present, tables.size,
        threshold, np.full(n, -1), start, stop, found, confidence,
    )  # fmt: skip
    all_labels, all_confidence = tables.assign(tuples.codes, threshold)
    inside = (np.arange(n) >= start) & (np.arange(n) < stop)
    assert_array_equal(found, np.where(inside, all_labels, 77))
    assert_array_equal(confidence, np.where(inside, all_confidence, 77.0))
    assert_array_equal(tables.table, ClusterTables.of(tuples, labels, alpha, K).table)


@given(arrays(np.int64, st.integers(1, 6), elements=st.integers(-2, 2)))
def test_the_first_of_equal_values_is_the_largest(values):
    """Ties go to the first cluster, as in numpy."""
    assert kernels.first_largest(values) == values.argmax()
