"""The discrete search on the ℓ1 objective."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from all_partitions import (
    all_partitions,
    all_single_moves,
    dense_objectives,
    least_objective,
    same_partition,
)
from coterie import clustering_accuracy, planted_partitions
from coterie.counts.cluster_tables import ClusterTables
from coterie.counts.contingency import all_contingencies
from coterie.labels.tuples import as_label_tuples
from coterie.search import median_search as median_search_module
from coterie.search.median_search import (
    Start,
    calibrated_majority,
    learn_partition_weights,
    max_partition_starts,
    median_search,
    partition_starts,
)
from soft_memberships import random_memberships, soft_objectives, soft_partitions


@pytest.fixture(autouse=True)
def messages(caplog):
    """Format all messages, as for users who ask for them: pytest fails where it cannot be done."""
    caplog.set_level("INFO", logger="coterie")
    return caplog


def search(P, K, weights=None, **options):
    """Return the labels of the points and the result, with the partitions as starts."""
    tuples = as_label_tuples(P)
    alpha = np.ones(tuples.n_partitions) if weights is None else weights[tuples.partition_order]
    starts = partition_starts(tuples, all_contingencies(tuples), alpha, K)
    result = median_search(tuples, alpha, K, starts, **options)
    return tuples.expand(result.labels), result


def test_small_cases_reach_the_optimum():
    """For random ensembles of eight points the optimum is nearly always found."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(30):
        P = rng.integers(0, 3, (8, 5))
        best, J = least_objective(P, 3), search(P, 3, threshold=0.5)[1].tables.objective()
        assert J >= best - 1e-9
        found += best + 1e-9 >= J
    assert found >= 27


def test_free_number_of_clusters_reaches_the_optimum():
    """With a free K the optimum for eight points is nearly always found."""
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(15):
        P = rng.integers(0, 4, (8, 5))
        found += least_objective(P) + 1e-9 >= search(P, None, threshold=0.5)[1].tables.objective()
    assert found >= 13


@settings(max_examples=25, deadline=None)
@given(
    arrays(np.int64, st.tuples(st.integers(2, 25), st.integers(1, 5)), elements=st.integers(0, 3))
)
def test_no_single_move_or_merge_improves_the_result(P):
    """The result is a local optimum of J for single moves and for merges."""
    labels, result = search(P, 3, threshold=0.5)
    J = dense_objectives(P, labels[None])[0]
    assert result.tables.objective() == pytest.approx(J)
    assert dense_objectives(P, all_single_moves(labels, 3)).min() >= J - 1e-6
    merged = np.array([np.where(labels == a, b, labels) for a in range(3) for b in range(3)])
    assert dense_objectives(P, merged).min() >= J - 1e-6


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_missing_labels_are_left_out_of_the_objective(seed):
    """With missing labels the result is a local optimum of J over labelled pairs."""
    rng = np.random.default_rng(seed)
    P = rng.integers(0, 3, (15, 4))
    P[rng.random(P.shape) < 0.3] = -1
    P[:, 0] = rng.integers(0, 3, 15)
    labels, result = search(P, 3, threshold=0.5)
    J = dense_objectives(P, labels[None])[0]
    assert result.tables.objective() == pytest.approx(J)
    assert dense_objectives(P, all_single_moves(labels, 3)).min() >= J - 1e-6


def test_weights_equal_copies():
    """A weight of 3 has the effect of three copies."""
    P, _ = planted_partitions([30, 20, 10], 4, 1, 0.4, random_state=0)
    copies = np.column_stack([P, P[:, 1], P[:, 1], P[:, 2]])
    weighted, a = search(P, 3, np.array([1.0, 3.0, 2.0, 1.0]), threshold=0.5)
    copied, b = search(copies, 3, threshold=0.5)
    assert a.tables.objective() == pytest.approx(b.tables.objective())
    assert clustering_accuracy(weighted, copied) == 1


def test_majority_is_calibrated_under_heavy_noise(messages):
    """If most votes are noise, the threshold falls below 1/2 and the clusters are found."""
    P, y = planted_partitions([100, 50, 50, 30, 20], 40, 20, 0.4, correlated=False, random_state=0)
    labels, result = search(P, 5)
    assert result.threshold < 0.4
    assert f"threshold {result.threshold:.3f}" in messages.messages[-1]
    assert sum(result.tables.mean_agreement()) / 2 == pytest.approx(result.threshold, abs=0.005)
    assert clustering_accuracy(y, labels) > 0.98
    assert search(P, 5, threshold=0.5)[1].threshold == 0.5


@pytest.mark.parametrize(("together", "expected"), [(10, 0.25), (11, 0.5), (20, 0.5)])
def test_the_majority_is_one_half_from_a_mean_agreement_of_55_percent(together, expected):
    """Two points of a cluster are together in so many of 20 partitions; a third point never is."""
    P = np.where(np.arange(20) < together, [[0], [0], [2]], [[0], [1], [2]])
    tuples = as_label_tuples(P).without_compression()
    tables = ClusterTables.of(tuples, np.array([0, 0, 1]), np.ones(20))
    assert calibrated_majority(tables) == expected


@pytest.mark.parametrize("K", [2, None])
def test_clusters_that_a_majority_joins_are_merged(K):
    """Six of ten partitions join two clusters: the merge gains, though no single point does."""
    y, fine = (np.repeat(names, [10, 8, 14]) for names in ([0, 1, 1], [0, 1, 2]))
    tuples = as_label_tuples(np.column_stack([y] * 6 + [fine] * 4)).without_compression()
    result = median_search(tuples, np.ones(10), K, [Start("fine", fine)], threshold=0.5)
    assert same_partition(result.labels, y)
    assert (result.start, result.n_starts) == ("fine", 1)
    assert repr(result).startswith("SearchResult(labels=int64 (32,), tables=ClusterTables(")
    assert repr(Start("fine", fine)) == "Start(name='fine', labels=int64 (32,))"


@pytest.mark.parametrize("n", [7, 30])
def test_a_free_number_of_clusters_may_be_that_of_the_points(n):
    """If no two points are together, each is a cluster, from no start too."""
    tuples = as_label_tuples(np.column_stack([np.arange(n)] * 3))
    result = median_search(tuples, np.ones(3), None, [], threshold=0.5)
    assert result.tables.n_clusters == n


def test_finer_partitions_are_merged_down_to_k():
    """A partition that splits every cluster in two becomes a start of K clusters."""
    y = np.repeat([0, 1, 2], 20)
    fine = y * 2 + np.tile([0, 1], 30)
    tuples = as_label_tuples(np.column_stack([fine, y, y]))
    starts = partition_starts(tuples, all_contingencies(tuples), np.ones(3), 3)
    assert len(starts) == 3
    for start in starts:
        assert clustering_accuracy(y, tuples.expand(start.labels)) == 1


def test_starts_come_with_the_lowest_objective_first():
    """Starts are sorted by their objective."""
    P, _ = planted_partitions([60, 40], 6, 2, 0.2, random_state=3)
    tuples = as_label_tuples(P)
    starts = partition_starts(tuples, all_contingencies(tuples), np.ones(6), 2)
    values = [ClusterTables.of(tuples, s.labels, np.ones(6)).objective() for s in starts]
    assert values == sorted(values)
    kept = partition_starts(tuples, all_contingencies(tuples), np.ones(6), 2, at_most=2)
    assert [s.name for s in kept] == [s.name for s in starts[:2]]
    weights = np.array([0.0, 1, 1, 1, 1, 1])
    names = {s.name for s in partition_starts(tuples, all_contingencies(tuples), weights, 2)}
    assert names == {f"partition {name}" for name in tuples.partition_names[1:]}


def test_learned_weights_fall_with_distance():
    """The farther a partition is from the consensus, the smaller is its weight."""
    P, _ = planted_partitions([120, 60], 7, 2, 0.1, random_state=0)
    tuples = as_label_tuples(P)
    starts = partition_starts(tuples, all_contingencies(tuples), np.ones(7), 2)
    weights, result = learn_partition_weights(tuples, 2, starts)
    given = tuples.in_given_order(weights)
    assert given[:5].min() > 1.5 * given[5:].max()
    fixed = 1 / np.sqrt(result.tables.distances() + tuples.n_points)
    assert weights == pytest.approx(fixed / fixed.mean(), abs=1e-3)
    assert result.start in {start.name for start in starts} and result.n_starts == len(starts) + 1
    assert np.argsort(weights).tolist() == np.argsort(-result.tables.distances()).tolist()


def test_without_a_start_the_search_begins_from_nothing():
    """If all partitions have too many clusters for a start, a clustering is still found."""
    rng = np.random.default_rng(0)
    fine = np.column_stack([rng.permutation(np.arange(620) // 2) for _ in range(3)])
    labels, result = search(fine, 3)
    assert result.start == "nothing" and set(labels) <= {0, 1, 2}


def test_many_tuples_are_searched_from_few_starts():
    """All partitions are starts for few tuples, four for many."""
    few = as_label_tuples(np.random.default_rng(0).integers(0, 2, (50, 10)))
    many = few.subset(np.zeros(60_000, dtype=int))
    assert max_partition_starts(few) > 10
    assert max_partition_starts(many) == 4


def test_starts_compete_on_a_sample_when_tuples_are_many(monkeypatch):
    """Above the limit the best start on a sample continues, to nearly the same objective."""
    P, y = planted_partitions([900, 600, 500], 9, 3, 0.3, random_state=0)
    full = search(P, 3)[1]
    monkeypatch.setattr(median_search_module, "_SAMPLE_ABOVE", 500)
    monkeypatch.setattr(median_search_module, "_SAMPLE_POINTS", 300)
    labels, sampled = search(P, 3)
    assert sampled.n_starts == 1 and sampled.start.startswith("partition ")
    assert sampled.tables.objective() == pytest.approx(full.tables.objective(), rel=0.01)
    assert clustering_accuracy(y, labels) > 0.9


@given(P=soft_partitions(most=6), K=st.sampled_from([2, 3, None]))
@settings(max_examples=20, deadline=None)
def test_the_search_finds_the_minimum_of_soft_partitions(P, K):
    """With every labelling as a start, the search finds the smallest J."""
    tuples = as_label_tuples(P)
    every = np.array(list(all_partitions(tuples.n_tuples, K)))
    starts = [Start(str(i), z) for i, z in enumerate(every)]
    found = median_search(tuples, np.ones(len(P)), K, starts, threshold=0.5)
    least = soft_objectives(P, every[:, tuples.inverse]).min()
    assert found.tables.objective() == pytest.approx(least, abs=1e-9)


def test_starts_of_soft_partitions_are_their_most_likely_labels():
    """The start of a soft partition has its most likely labels."""
    P = random_memberships(np.random.default_rng(1), 20, [3, 3], missing=False)
    tuples = as_label_tuples(P)
    starts = partition_starts(tuples, all_contingencies(tuples), np.ones(2), 3)
    for start in starts:
        v = int(start.name.split()[1])
        expected = P[v].argmax(axis=1)
        pairs = start.labels[tuples.inverse][:, None] == start.labels[tuples.inverse]
        assert (pairs == (expected[:, None] == expected)).all()


def test_soft_starts_compete_on_a_sample(monkeypatch):
    """Tuples outside the sample join clusters by their memberships."""
    y = np.repeat([0, 1, 2], 60)
    noise = random_memberships(np.random.default_rng(0), 180, [3] * 5, missing=False)
    tuples = as_label_tuples([0.6 * np.eye(3)[y] + 0.4 * m for m in noise])
    starts = partition_starts(tuples, all_contingencies(tuples), np.ones(5), 3)
    monkeypatch.setattr(median_search_module, "_SAMPLE_ABOVE", 50)
    monkeypatch.setattr(median_search_module, "_SAMPLE_POINTS", 40)
    monkeypatch.setattr(median_search_module, "_MAX_SWEEPS", 1)
    result = median_search(tuples, np.ones(5), 3, starts)
    assert clustering_accuracy(y, tuples.expand(result.labels)) > 0.95
    assert result.n_starts == 1
