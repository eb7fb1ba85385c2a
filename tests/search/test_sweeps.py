"""Sweeps on all cores, against one tuple after the other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from coterie import planted_partitions
from coterie.counts import cluster_kernels as kernels
from coterie.counts.cluster_tables import ClusterTables
from coterie.labels.label_matrix import as_label_matrix
from coterie.labels.tuples import as_label_tuples, compress_labels
from coterie.search import sweeps as search_sweeps
from coterie.search.sweeps import sweep

properties = settings(deadline=None, max_examples=40)
seeds = st.integers(0, 10**6)
thresholds = st.sampled_from([0.2, 0.5, 0.5, 0.7])


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of a few tuples, so that small cases have many, of all sizes and on many threads."""
    monkeypatch.setattr(search_sweeps, "_FIRST_BLOCK", 4)
    monkeypatch.setattr(search_sweeps, "_LARGEST_BLOCK", 64)
    monkeypatch.setattr(search_sweeps, "_LEAST_OF_A_THREAD", 1)


def random_search(seed, n=150, K=4, V=6):
    """Noisy tuples, some of them with gaps, labels to begin with, weights of the partitions."""
    rng = np.random.default_rng(seed)
    P, y = planted_partitions([n // 2, n // 3, n // 6], V, 1, 0.4, random_state=int(seed))
    if seed % 2:
        P[rng.random(P.shape) < 0.2] = -1
        P[:, 0] = y
    tuples = as_label_tuples(P)
    alpha = rng.choice([1.0, 1.0, 0.3, 2.5], V)
    kinds = (rng.integers(-1, K, tuples.n_tuples), np.full(tuples.n_tuples, -1))
    return tuples, kinds[seed % 3 == 0].astype(np.int64), alpha


def one_by_one(tuples, labels, tables, threshold):
    """Every tuple in turn against the tables as they are: the search without blocks."""
    everyone = np.ones(tuples.n_tuples, dtype=np.bool_)
    return kernels.move_rows(
        tuples.codes, tuples.weights, tables.alpha, threshold, tables.complete, 0,
        tuples.n_tuples, everyone, labels, tables.table, tables.present, tables.size,
    )  # fmt: skip


def settled(tuples, labels, alpha, threshold, move=sweep, K=4):
    """Labels and tables once nothing moves any more."""
    labels = labels.copy()
    tables = ClusterTables.of(tuples, labels, alpha, K)
    for _ in range(100):
        if not move(tuples, labels, tables, threshold):
            return labels, tables
    raise AssertionError("sweeps do not come to an end")


@properties
@given(seeds, thresholds)
def test_sweeps_never_lower_the_score(seed, threshold):
    """Once every tuple has a place, each sweep raises the score or moves nothing."""
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
    assert_array_equal(tables.table, fresh.table)
    assert_array_equal(tables.present, fresh.present)
    assert_array_equal(tables.size, fresh.size)


@properties
@given(seeds, thresholds)
def test_the_end_is_an_end_for_one_tuple_at_a_time_too(seed, threshold):
    """Where blocks find nothing to move, neither does a look at every tuple in turn."""
    tuples, labels, alpha = random_search(seed)
    labels, tables = settled(tuples, labels, alpha, threshold)
    assert one_by_one(tuples, labels, tables, threshold) == 0


def test_ends_are_as_good_as_one_by_one():
    """From the same starts both ways mostly end at the same J, and in mean close to it.

    Both end in local optima, single ones of which may lie some percent apart.
    """
    ratios = []
    for seed in range(60):
        tuples, labels, alpha = random_search(seed, n=300)
        ends = [settled(tuples, labels, alpha, 0.5, move)[1] for move in (sweep, one_by_one)]
        ratios.append(ends[0].objective() / ends[1].objective())
    assert abs(np.mean(ratios) - 1) < 0.002
    assert np.mean(np.abs(np.array(ratios) - 1) < 1e-9) > 0.8


@pytest.mark.parametrize("seed", range(6))
def test_the_number_of_threads_changes_nothing(seed, monkeypatch):
    """Labels are the same to the last one on one thread and on five."""
    tuples, labels, alpha = random_search(seed, n=2_000)
    ends = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("COTERIE_NUM_THREADS", threads)
        ends.append(settled(tuples, labels, alpha, 0.5)[0])
    assert_array_equal(ends[0], ends[1])
    assert_array_equal(ends[0], ends[2])


@properties
@given(seeds, thresholds, st.floats(-30, 30))
def test_no_gain_is_overlooked_in_single_precision(seed, threshold, magnitude):
    """Whoever moves when looked at alone is restless, whatever the weights of the partitions."""
    tuples, labels, alpha = random_search(seed)
    labels = np.maximum(labels, 0)
    alpha = alpha * 10.0**magnitude
    tables = ClusterTables.of(tuples, labels, alpha, 4)
    restless = np.zeros(tuples.n_tuples, dtype=np.bool_)
    search_sweeps._mark_restless(tuples, labels, tables, threshold, 0, tuples.n_tuples, restless)
    alone = np.zeros(tuples.n_tuples, dtype=np.bool_)
    for a in range(tuples.n_tuples):
        alone[:] = False
        alone[a] = True
        chosen = labels.copy()
        now = ClusterTables.of(tuples, chosen, alpha, 4)
        moved = kernels.move_rows(
            tuples.codes, tuples.weights, alpha, threshold, now.complete, a, a + 1,
            alone, chosen, now.table, now.present, now.size,
        )  # fmt: skip
        assert restless[a] or not moved


def test_rows_with_fractional_weights():
    """Weights need not be whole: the search settles where no single tuple gains."""
    P, _ = planted_partitions([200, 150, 50], 8, 2, 0.4, random_state=0)
    weights = np.random.default_rng(0).uniform(0.1, 3.0, len(P))
    tuples = compress_labels(as_label_matrix(P), weights)
    start = np.random.default_rng(1).integers(0, 4, tuples.n_tuples)
    labels, tables = settled(tuples, start, np.ones(8), 0.5)
    assert one_by_one(tuples, labels, tables, 0.5) == 0
