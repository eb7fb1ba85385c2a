"""Compiled loops that move tuples, compared with plain Python."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from coterie.counts.cluster_tables import ClusterTables
from coterie.labels.tuples import as_label_tuples
from coterie.search import kernels
from label_matrices import label_matrices, weights_for

properties = settings(deadline=None, max_examples=25)
thresholds = st.floats(0.1, 0.9)
K = 4


@st.composite
def searches(draw, missing=True):
    """Tuples, labels of them (−1 for none) in at most K clusters, weights of the partitions."""
    P = draw(label_matrices(max_points=20, missing=missing))
    tuples = as_label_tuples(P)
    labels = draw(arrays(np.int64, tuples.n_tuples, elements=st.integers(-1, K - 1)))
    alpha = draw(st.one_of(st.just(np.ones(P.shape[1])), weights_for(P)))
    return tuples, labels, alpha


def move(tuples, labels, tables, threshold, may_move=None, rows=None):
    """Move the marked tuples, all by default; labels and tables change in place."""
    marked = np.ones(tuples.n_tuples, dtype=bool) if may_move is None else may_move
    return kernels.move_rows(
        tuples.codes, None, tuples.partition_of, tuples.weights, tables.alpha, threshold,
        tables.complete, 0, tuples.n_tuples if rows is None else rows, marked.view(np.uint8),
        labels, tables.table, tables.present, tables.size,
    )  # fmt: skip


def assert_current(tables, tuples, labels):
    """The tables are those of the labels."""
    fresh = ClusterTables.of(tuples, labels, tables.alpha, len(tables.size))
    for name in ("table", "present", "size"):
        assert_array_equal(getattr(tables, name), getattr(fresh, name))


@properties
@given(searches(), thresholds)
def test_one_move_in_plain_python(case, threshold):
    """The first tuple moves to its largest gain, without its own contribution."""
    tuples, labels, alpha = case
    tables = ClusterTables.of(tuples, labels, alpha, K)
    row, w, old = tuples.codes[0], tuples.weights[0], labels[0]
    gains = np.zeros(K)
    for b in range(K):
        for v in np.flatnonzero(row >= 0):
            own = w if b == old else 0.0
            together, both = tables.table[row[v], b] - own, tables.present[v, b] - own
            gains[b] += alpha[v] * (together - threshold * both)
    move(tuples, labels, tables, threshold, rows=1)
    assert_allclose(gains[labels[0]], gains.max(), atol=1e-6)
    if old >= 0 and gains[old] >= gains.max() - 1e-12:
        assert labels[0] == old


def test_a_tuple_stays_on_a_tie():
    """Tuples that share no label gain nothing anywhere at τ = 0, so they do not move."""
    tuples = as_label_tuples([[0, 0], [1, 1], [2, 2]])
    for old in range(2):
        labels = np.full(3, old)
        tables = ClusterTables.of(tuples, labels, np.ones(2), 2)
        assert move(tuples, labels, tables, 0.0) == 0
        assert_array_equal(labels, old)


@properties
@given(searches(missing=False))
def test_sizes_replace_presence_if_no_label_is_missing(case):
    """The shortcut for complete tables makes the same moves."""
    tuples, labels, alpha = case
    ends = []
    for complete in (True, False):
        moved = labels.copy()
        # whole weights and τ = 1/2, so that no rounding makes a difference
        tables = ClusterTables.of(tuples, moved, np.ceil(alpha), K)
        tables.complete = complete
        move(tuples, moved, tables, 0.5)
        ends.append(moved)
    assert_array_equal(*ends)


@properties
@given(searches(), thresholds)
def test_only_marked_tuples_move(case, threshold):
    """Tuples that are not marked keep their label."""
    tuples, labels, alpha = case
    tables = ClusterTables.of(tuples, labels, alpha, K)
    before = labels.copy()
    may_move = np.arange(tuples.n_tuples) % 2 == 0
    move(tuples, labels, tables, threshold, may_move)
    assert_array_equal(labels[~may_move], before[~may_move])
    assert labels[may_move].min() >= 0
    assert_current(tables, tuples, labels)
