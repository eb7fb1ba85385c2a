"""The compiled loops of the search, against plain Python."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from coterie.counts import cluster_kernels as kernels
from coterie.counts.cluster_tables import ClusterTables
from coterie.labels.tuples import as_label_tuples
from label_matrices import label_matrices, weights_for

properties = settings(deadline=None, max_examples=50)
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


def sweep(tuples, labels, tables, threshold, rows=None):
    """Every tuple in turn, or the first so many of them; labels and tables change in place."""
    return kernels.move_rows(
        tuples.codes,
        tuples.weights,
        tables.alpha,
        threshold,
        tables.complete,
        0,
        tuples.n_tuples if rows is None else rows,
        np.ones(tuples.n_tuples, dtype=np.bool_),
        labels,
        tables.table,
        tables.present,
        tables.size,
    )


def assert_current(tables, tuples, labels):
    """The tables are those of the labels."""
    fresh = ClusterTables.of(tuples, labels, tables.alpha, len(tables.size))
    assert_array_equal(tables.table, fresh.table)
    assert_array_equal(tables.present, fresh.present)
    assert_array_equal(tables.size, fresh.size)


@properties
@given(searches())
def test_add_to_tables(case):
    """Every labelled tuple of the block adds its weight to the cells of its clusters."""
    tuples, labels, _ = case
    stop = tuples.n_tuples
    start = stop // 3
    table, size = np.ones((tuples.n_columns, K)), np.ones(K)
    kernels.add_to_tables(tuples.codes, tuples.weights, labels, start, stop, table, size)
    expected_table, expected_size = np.ones_like(table), np.ones(K)
    for a in range(start, stop):
        b = labels[a]
        if b >= 0:
            expected_size[b] += tuples.weights[a]
            for c in tuples.codes[a][tuples.codes[a] >= 0]:
                expected_table[c, b] += tuples.weights[a]
    assert_array_equal(table, expected_table)
    assert_array_equal(size, expected_size)


@properties
@given(searches(), thresholds)
def test_sweeps_never_lower_the_score(case, threshold):
    """Once all tuples are placed each sweep raises the score, or moves nothing and leaves it."""
    tuples, labels, alpha = case
    tables = ClusterTables.of(tuples, labels, alpha, K)
    sweep(tuples, labels, tables, threshold)
    assert labels.min() >= 0
    score = tables.score(threshold)
    for _ in range(30):
        before = labels.copy()
        moved = sweep(tuples, labels, tables, threshold)
        assert (moved == 0) == (labels == before).all()
        raised = tables.score(threshold)
        assert raised >= score - 1e-12 * max(abs(score), 1)
        if moved == 0:
            assert raised == score
            return
        score = raised
    raise AssertionError("a sweep of at most 20 tuples still moves some after 30 rounds")


@properties
@given(searches(), thresholds)
def test_tables_stay_current(case, threshold):
    """After every sweep the tables are those one would compute anew."""
    tuples, labels, alpha = case
    tables = ClusterTables.of(tuples, labels, alpha, K)
    for _ in range(3):
        sweep(tuples, labels, tables, threshold)
        assert_current(tables, tuples, labels)


@properties
@given(searches(), thresholds)
def test_a_settled_search_is_a_local_optimum(case, threshold):
    """When nothing moves any more, no single tuple has a better place."""
    tuples, labels, alpha = case
    tables = ClusterTables.of(tuples, labels, alpha, K)
    while sweep(tuples, labels, tables, threshold):
        pass
    score = tables.score(threshold)
    for a in range(tuples.n_tuples):
        for b in range(K):
            moved = labels.copy()
            moved[a] = b
            other = ClusterTables.of(tuples, moved, alpha, K).score(threshold)
            assert other <= score + 1e-6 * max(abs(score), 1)


@properties
@given(searches(), thresholds)
def test_one_step_in_plain_python(case, threshold):
    """The first tuple goes where its gain is largest, its own contribution left out."""
    tuples, labels, alpha = case
    tables = ClusterTables.of(tuples, labels, alpha, K)
    row, w, old = tuples.codes[0], tuples.weights[0], labels[0]
    seen = np.flatnonzero(row >= 0)
    gains = np.zeros(K)
    for b in range(K):
        for v in seen:
            own = w if b == old else 0.0
            together, both = tables.table[row[v], b] - own, tables.present[v, b] - own
            gains[b] += alpha[v] * (together - threshold * both)
    sweep(tuples, labels, tables, threshold, rows=1)
    assert_allclose(gains[labels[0]], gains.max(), atol=1e-6)
    if old >= 0 and gains[old] >= gains.max() - 1e-12:
        assert labels[0] == old


def test_a_tuple_stays_on_a_tie():
    """Tuples that share nothing gain nothing anywhere at τ = 0, so all stay where they are."""
    tuples = as_label_tuples([[0, 0], [1, 1], [2, 2]])
    for old in range(2):
        labels = np.full(3, old)
        tables = ClusterTables.of(tuples, labels, np.ones(2), 2)
        assert sweep(tuples, labels, tables, 0.0) == 0
        assert_array_equal(labels, old)


def test_a_tuple_without_a_place_gets_one():
    """Labels of −1 are places to be found, each counted as a move."""
    tuples = as_label_tuples([[0, 0], [1, 1], [0, 1]])
    labels = np.array([-1, 1, -1])
    tables = ClusterTables.of(tuples, labels, np.ones(2), 2)
    assert sweep(tuples, labels, tables, 0.5) >= 2
    assert labels.min() >= 0


@properties
@given(searches(), thresholds)
def test_assign_rows_fills_its_block_alone(case, threshold):
    """Rows outside the block keep what they had; inside, the tables are read, not changed."""
    tuples, labels, alpha = case
    labels = np.maximum(labels, 0)
    tables = ClusterTables.of(tuples, labels, alpha, K)
    n = tuples.n_tuples
    found, confidence = np.full(n, 77), np.full(n, 77.0)
    start, stop = n // 3, n - n // 4
    kernels.assign_rows(
        tuples.codes,
        alpha,
        threshold,
        tables.complete,
        tables.table,
        tables.present,
        tables.size,
        start,
        stop,
        np.full(n, -1),
        found,
        confidence,
    )
    whole, sure = tables.assign(tuples.codes, threshold)
    inside = (np.arange(n) >= start) & (np.arange(n) < stop)
    assert_array_equal(found, np.where(inside, whole, 77))
    assert_array_equal(confidence, np.where(inside, sure, 77.0))
    assert_current(tables, tuples, labels)


@properties
@given(searches(missing=False))
def test_complete_tables_need_no_presence(case):
    """Where no label is missing, sizes stand in for presence: the same moves either way."""
    tuples, labels, alpha = case
    ends = []
    for complete in (True, False):
        chosen = labels.copy()
        # whole weights and τ = 1/2: no rounding that could tell the two ways apart
        tables = ClusterTables.of(tuples, chosen, np.ceil(alpha), K)
        tables.complete = complete
        sweep(tuples, chosen, tables, 0.5)
        ends.append(chosen)
    assert_array_equal(*ends)


@properties
@given(searches(), thresholds)
def test_tuples_at_rest_are_left_alone(case, threshold):
    """Only restless tuples move."""
    tuples, labels, alpha = case
    tables = ClusterTables.of(tuples, labels, alpha, K)
    before = labels.copy()
    restless = np.arange(tuples.n_tuples) % 2 == 0
    kernels.move_rows(
        tuples.codes, tuples.weights, alpha, threshold, tables.complete, 0, tuples.n_tuples,
        restless, labels, tables.table, tables.present, tables.size,
    )  # fmt: skip
    assert_array_equal(labels[~restless], before[~restless])
    assert labels[restless].min() >= 0
    assert_current(tables, tuples, labels)
