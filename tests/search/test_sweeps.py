"""Sweeps on all cores, compared with moving one tuple after the other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from all_partitions import all_single_moves
from coterie import planted_partitions
from coterie.counts.cluster_tables import ClusterTables
from coterie.labels.encode import as_label_matrix
from coterie.labels.tuples import as_label_tuples, compress_labels
from coterie.search import kernels, sweeps
from coterie.search.sweeps import sweep
from soft_memberships import clustered, soft_partitions

properties = settings(deadline=None, max_examples=20)
seeds = st.integers(0, 10**6)
thresholds = st.sampled_from([0.2, 0.5, 0.7])


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Make blocks small, so that small cases have many blocks on several threads."""
    monkeypatch.setattr(sweeps, "_FIRST_BLOCK", 4)
    monkeypatch.setattr(sweeps, "_LARGEST_BLOCK", 64)
    monkeypatch.setattr(sweeps, "_SMALLEST_THREAD_PART", 1)


def random_search(seed, n=150, K=4, V=6):
    """Noisy tuples, some with missing labels, first labels, and weights of the partitions."""
    rng = np.random.default_rng(seed)
    P, y = planted_partitions([n // 2, n // 3, n // 6], V, 1, 0.4, random_state=int(seed))
    if seed % 2:
        P[rng.random(P.shape) < 0.2] = -1
        P[:, 0] = y
    tuples = as_label_tuples(P)
    alpha = rng.choice([1.0, 1.0, 0.3, 2.5], V)
    kinds = (rng.integers(-1, K, tuples.n_tuples), np.full(tuples.n_tuples, -1))
    return tuples, kinds[seed % 3 == 0].astype(np.int64), alpha


def one_by_one(tuples, labels, tables, threshold, rows=None):
    """Move every tuple (or those of a range) in turn, without blocks."""
    start, stop = rows or (0, tuples.n_tuples)
    return kernels.move_rows(
        tuples.codes, None, tuples.partition_of, tuples.weights, tables.alpha, threshold,
        tables.complete, start, stop, np.ones(tuples.n_tuples, dtype=np.uint8), labels,
        tables.table, tables.present, tables.size,
    )  # fmt: skip


def repeat(move, tuples, labels, alpha, threshold=0.5, K=4):
    """Repeat the moves until none is left; return labels and tables."""
    labels = labels.copy()
    tables = ClusterTables.of(tuples, labels, alpha, K)
    for _ in range(100):
        if not move(tuples, labels, tables, threshold):
            return labels, tables
    raise AssertionError("the sweeps do not end")


@properties
@given(seeds, thresholds)
def test_sweeps_raise_the_score_to_a_local_optimum(seed, threshold):
    """Each sweep raises the score or moves nothing; then no tuple moves on its own either."""
    tuples, labels, alpha = random_search(seed)
    tables = ClusterTables.of(tuples, labels, alpha, 4)
    sweep(tuples, labels, tables, threshold)
    assert labels.min() >= 0
    moved, score = 1, tables.score(threshold)
    while moved:
        before = labels.copy()
        moved = sweep(tuples, labels, tables, threshold)
        raised = tables.score(threshold)
        assert raised > score if moved else raised == score
        assert moved >= (labels != before).sum()
        score = raised
    fresh = ClusterTables.of(tuples, labels, alpha, 4)
    for name in ("table", "present", "size"):
        assert_array_equal(getattr(tables, name), getattr(fresh, name))
    assert one_by_one(tuples, labels, tables, threshold) == 0


def test_results_are_as_good_as_one_by_one():
    """From the same starts both ways mostly reach the same J, and on average nearly the same."""
    ratios = []
    for seed in range(40):
        tuples, labels, alpha = random_search(seed, n=300)
        ends = [repeat(move, tuples, labels, alpha)[1] for move in (sweep, one_by_one)]
        ratios.append(ends[0].objective() / ends[1].objective())
    assert abs(np.mean(ratios) - 1) < 0.002
    assert np.mean(np.abs(np.array(ratios) - 1) < 1e-9) > 0.8


@pytest.mark.parametrize("seed", range(2))
def test_the_number_of_threads_changes_nothing(seed, monkeypatch):
    """All labels are the same on one, two and five threads."""
    tuples, labels, alpha = random_search(seed, n=2_000)
    ends = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("COTERIE_NUM_THREADS", threads)
        ends.append(repeat(sweep, tuples, labels, alpha)[0])
    assert_array_equal(ends[0], ends[1])
    assert_array_equal(ends[0], ends[2])


@properties
@given(seeds, thresholds, st.floats(-30, 30))
def test_single_precision_misses_no_gain(seed, threshold, magnitude):
    """Every tuple that would move alone is marked, for weights of any size."""
    tuples, labels, alpha = random_search(seed)
    labels = np.maximum(labels, 0)
    alpha = alpha * 10.0**magnitude
    tables = ClusterTables.of(tuples, labels, alpha, 4)
    may_move = np.zeros(tuples.n_tuples, dtype=np.bool_)
    sweeps._mark_tuples_that_may_move(
        tuples, labels, tables, threshold, 0, tuples.n_tuples, may_move
    )
    for a in range(tuples.n_tuples):
        alone = labels.copy()
        now = ClusterTables.of(tuples, alone, alpha, 4)
        moved = one_by_one(tuples, alone, now, threshold, (a, a + 1))
        assert may_move[a] or not moved


def test_weights_may_be_fractions():
    """With fractional weights the search ends where no single tuple gains."""
    P, _ = planted_partitions([200, 150, 50], 8, 2, 0.4, random_state=0)
    weights = np.random.default_rng(0).uniform(0.1, 3.0, len(P))
    tuples = compress_labels(as_label_matrix(P), weights)
    start = np.random.default_rng(1).integers(0, 4, tuples.n_tuples)
    labels, tables = repeat(sweep, tuples, start, np.ones(8))
    assert one_by_one(tuples, labels, tables, 0.5) == 0


@given(P=soft_partitions(), seed=st.integers(0, 99), tau=thresholds)
@properties
def test_a_sweep_of_soft_partitions_follows_the_gains(P, seed, tau):
    """Every sweep raises the score, and at the end no single move gains."""
    tuples, alpha, labels = clustered(P, seed)
    alpha = alpha[tuples.partition_order]
    tables = ClusterTables.of(tuples, labels, alpha, 3)
    before = tables.score(tau)
    for _ in range(50):
        if not sweep(tuples, labels, tables, tau):
            break
    fresh = ClusterTables.of(tuples, labels, alpha, 3)
    for name in ("table", "present", "size"):
        assert getattr(tables, name) == pytest.approx(getattr(fresh, name), abs=1e-12)
    assert fresh.score(tau) >= before - 1e-9
    moves = [ClusterTables.of(tuples, z, alpha, 3).score(tau) for z in all_single_moves(labels, 3)]
    assert max(moves) <= fresh.score(tau) + 1e-6
