"""The discrete search on the ℓ1 objective: its sweeps and merges, and the optimum of few points."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from all_partitions import (
    all_partitions,
    all_single_moves,
    dense_objectives,
    same_partition,
)
from coterie import RobustConsensus, clustering_accuracy, planted_partitions
from coterie.counts.cluster_tables import ClusterTables
from coterie.counts.contingency import all_contingencies
from coterie.labels.tuples import as_label_tuples
from coterie.search import kernels
from coterie.search import median_search as module
from coterie.search.median_search import (
    Start,
    calibrated_majority,
    learn_partition_weights,
    mark_candidates,
    median_search,
    partition_starts,
    sweep,
)
from label_matrices import label_matrices, weights_for
from soft_memberships import clustered, random_memberships, soft_objectives, soft_partitions

properties = settings(max_examples=20)
seeds = st.integers(0, 10**6)
thresholds = st.sampled_from([0.2, 0.5, 0.7])


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


@settings(max_examples=40)
@given(label_matrices(max_points=25))
def test_no_single_move_or_merge_improves_the_result(P):
    """The result is a local optimum of J, over labelled pairs, for single moves and merges."""
    labels, result = search(P, 3, threshold=0.5)
    J = dense_objectives(P, labels[None])[0]
    assert result.tables.objective() == pytest.approx(J)
    assert dense_objectives(P, all_single_moves(labels, 3)).min() >= J - 1e-6
    merged = np.array([np.where(labels == a, b, labels) for a in range(3) for b in range(3)])
    assert dense_objectives(P, merged).min() >= J - 1e-6


def exact_optimum(P):
    """Solve min Σ_ij |M_ij − X_ij| over equivalence relations X (clique partitioning)."""
    n = len(P)
    number = {pair: i for i, pair in enumerate(combinations(range(n), 2))}
    M = np.array([(P[i] == P[j]).mean() for i, j in number])
    # i ~ j and j ~ k imply i ~ k: x_ij + x_jk − x_ik ≤ 1, and the same for the other two
    triangles = [
        (number[i, j], number[j, k], number[i, k]) for i, j, k in combinations(range(n), 3)
    ]
    places = [(a, b, c) for t in triangles for a, b, c in (t, t[1:] + t[:1], t[2:] + t[:2])]
    rows = csr_array(
        (np.tile([1, 1, -1], len(places)), (np.repeat(np.arange(len(places)), 3), np.ravel(places)))
    )
    found = milp(
        1 - 2 * M,
        constraints=LinearConstraint(rows, -np.inf, 1),
        integrality=np.ones(len(M)),
        bounds=Bounds(0, 1),
    )
    assert found.status == 0
    return 2 * (found.fun + M.sum())


@pytest.mark.filterwarnings("ignore::coterie.errors.CoterieWarning")
def test_the_search_is_near_the_exact_optimum():
    """refine="search" is within 0.5% of the optimum on average, and the bound is never above it."""
    excess = []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        n, K, V = rng.integers((8, 2, 3), (16, 6, 12))
        y, noise = rng.integers(0, K, n), rng.choice([0.2, 0.4, 0.6, 0.8])
        P = np.column_stack(
            [np.where(rng.random(n) < noise, rng.integers(0, K, n), y) for _ in range(V)]
        )
        best = exact_optimum(P)
        est = RobustConsensus("free", refine="search", partition_weights=None, random_state=0)
        est.fit(P)
        assert est.lower_bound_ <= best + 1e-9 <= est.objective_ + 2e-9
        excess.append(est.objective_ / best - 1 if best > 0 else est.objective_)
    assert np.mean(excess) < 0.005


def test_majority_is_calibrated_under_heavy_noise(messages):
    """If most votes are noise, the threshold falls below 1/2 and the clusters are found."""
    P, y = planted_partitions([100, 50, 50, 30, 20], 40, 20, 0.4, correlated=False, random_state=0)
    labels, result = search(P, 5)
    assert result.threshold < 0.4
    assert f"threshold {result.threshold:.3f}" in messages.messages[-1]
    assert sum(result.tables.mean_coassociation()) / 2 == pytest.approx(result.threshold, abs=0.005)
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


@pytest.mark.parametrize("seed", range(3))
def test_the_best_end_of_all_starts_is_returned(seed):
    """It is the best of the searches from each start alone, whatever their order."""
    P = np.random.default_rng(seed).integers(0, 5, (30, 6))
    tuples = as_label_tuples(P)
    starts = partition_starts(tuples, all_contingencies(tuples), np.ones(6), 4)

    def least(*starts):
        found = median_search(tuples, np.ones(6), 4, starts, threshold=0.5)
        return found.tables.objective(), found.start

    ends = [least(start) for start in starts]
    assert min(ends)[0] < max(ends)[0] - 1
    for some in (starts, starts[::-1]):
        objective, start = least(*some)
        assert objective == pytest.approx(min(ends)[0])
        assert objective == pytest.approx(dict(map(reversed, ends))[start])


def test_finer_partitions_are_merged_down_to_k():
    """A partition that splits every cluster in two becomes a start of K clusters."""
    y = np.repeat([0, 1, 2], 20)
    fine = y * 2 + np.tile([0, 1], 30)
    tuples = as_label_tuples(np.column_stack([fine, y, y]))
    starts = partition_starts(tuples, all_contingencies(tuples), np.ones(3), 3)
    assert len(starts) == 3
    for start in starts:
        assert clustering_accuracy(y, tuples.expand(start.labels)) == 1


def test_starts_come_with_the_lowest_objective_first(monkeypatch):
    """Starts are sorted by their objective."""
    P, _ = planted_partitions([60, 40], 6, 2, 0.2, random_state=3)
    tuples = as_label_tuples(P)
    starts = partition_starts(tuples, all_contingencies(tuples), np.ones(6), 2)
    values = [ClusterTables.of(tuples, s.labels, np.ones(6)).objective() for s in starts]
    assert values == sorted(values)
    monkeypatch.setattr(module, "_CELLS_OF_ALL_STARTS", 0)  # as for many tuples
    kept = partition_starts(tuples, all_contingencies(tuples), np.ones(6), 2)
    assert [s.name for s in kept] == [s.name for s in starts[:4]]
    monkeypatch.undo()
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


def test_starts_compete_on_a_sample_when_tuples_are_many(monkeypatch):
    """Above the limit the best start on a sample continues, to nearly the same objective."""
    P, y = planted_partitions([900, 600, 500], 9, 3, 0.3, random_state=0)
    full = search(P, 3)[1]
    monkeypatch.setattr(module, "_SAMPLE_ABOVE", 500)
    monkeypatch.setattr(module, "_SAMPLE_POINTS", 300)
    labels, sampled = search(P, 3)
    assert sampled.n_starts == 1 and sampled.start.startswith("partition ")
    assert sampled.tables.objective() == pytest.approx(full.tables.objective(), rel=0.01)
    assert clustering_accuracy(y, labels) > 0.9


@given(P=soft_partitions(most=6), K=st.sampled_from([2, 3, None]))
@settings(max_examples=20)
def test_the_search_finds_the_minimum_of_soft_partitions(P, K):
    """With every labelling as a start, the search finds the smallest J."""
    tuples = as_label_tuples(P)
    every = np.array(list(all_partitions(tuples.n_tuples, K)))
    starts = [Start(str(i), z) for i, z in enumerate(every)]
    found = median_search(tuples, np.ones(len(P)), K, starts, threshold=0.5)
    least = soft_objectives(P, every[:, tuples.inverse]).min()
    assert found.tables.objective() == pytest.approx(least, abs=1e-9)


def test_soft_starts_compete_on_a_sample(monkeypatch):
    """Tuples outside the sample join clusters by their memberships."""
    y = np.repeat([0, 1, 2], 60)
    noise = random_memberships(np.random.default_rng(0), 180, [3] * 5, missing=False)
    tuples = as_label_tuples([0.6 * np.eye(3)[y] + 0.4 * m for m in noise])
    starts = partition_starts(tuples, all_contingencies(tuples), np.ones(5), 3)
    monkeypatch.setattr(module, "_SAMPLE_ABOVE", 50)
    monkeypatch.setattr(module, "_SAMPLE_POINTS", 40)
    monkeypatch.setattr(module, "_MAX_SWEEPS", 1)
    result = median_search(tuples, np.ones(5), 3, starts)
    assert clustering_accuracy(y, tuples.expand(result.labels)) > 0.95
    assert result.n_starts == 1


@pytest.fixture
def small_blocks(monkeypatch):
    """Make blocks small, so that small cases have many blocks on several threads."""
    monkeypatch.setattr(module, "_FIRST_BLOCK", 4)
    monkeypatch.setattr(module, "_LARGEST_BLOCK", 64)
    monkeypatch.setattr(module, "_SMALLEST_THREAD_PART", 1)


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


@pytest.mark.usefixtures("small_blocks")
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


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("seed", range(2))
def test_the_number_of_threads_changes_nothing(seed, monkeypatch):
    """All labels are the same on one, two and five threads."""
    tuples, labels, alpha = random_search(seed, n=2_000)
    ends = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("COTERIE_NUM_THREADS", threads)
        ends.append(labels.copy())
        tables = ClusterTables.of(tuples, ends[-1], alpha, 4)
        for _ in range(20):
            sweep(tuples, ends[-1], tables, 0.5)
    assert_array_equal(ends[0], ends[1])
    assert_array_equal(ends[0], ends[2])


@pytest.mark.usefixtures("small_blocks")
@properties
@given(seeds, thresholds, st.floats(-30, 30))
def test_single_precision_misses_no_gain(seed, threshold, magnitude):
    """Every tuple that would move alone is marked, for weights of any size."""
    tuples, labels, alpha = random_search(seed)
    labels = np.maximum(labels, 0)
    alpha = alpha * 10.0**magnitude
    tables = ClusterTables.of(tuples, labels, alpha, 4)
    may_move = np.zeros(tuples.n_tuples, dtype=np.bool_)
    mark_candidates(tuples, labels, tables, threshold, 0, tuples.n_tuples, may_move)
    for a in range(tuples.n_tuples):
        alone = labels.copy()
        now = ClusterTables.of(tuples, alone, alpha, 4)
        moved = one_by_one(tuples, alone, now, threshold, (a, a + 1))
        assert may_move[a] or not moved


@pytest.mark.usefixtures("small_blocks")
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


@properties
@given(label_matrices(max_points=20), st.data())
def test_one_move_in_plain_python(P, data):
    """A tuple moves to its largest gain, without its own contribution, or stays on a tie."""
    tuples, K, threshold = as_label_tuples(P), 4, data.draw(thresholds)
    labels = data.draw(arrays(np.int64, tuples.n_tuples, elements=st.integers(-1, K - 1)))
    alpha = data.draw(st.one_of(st.just(np.ones(P.shape[1])), weights_for(P)))
    tables = ClusterTables.of(tuples, labels, alpha, K)
    row, w, old, others = tuples.codes[0], tuples.weights[0], labels[0], labels[1:].copy()
    gains = np.zeros(K)
    for b in range(K):
        for v in np.flatnonzero(row >= 0):
            own = w if b == old else 0.0
            together, both = tables.table[row[v], b] - own, tables.present[v, b] - own
            gains[b] += alpha[v] * (together - threshold * both)
    one_by_one(tuples, labels, tables, threshold, (0, 1))
    assert_allclose(gains[labels[0]], gains.max(), atol=1e-6)
    if old >= 0 and gains[old] >= gains.max() - 1e-12:
        assert labels[0] == old
    assert_array_equal(labels[1:], others)
    fresh = ClusterTables.of(tuples, labels, alpha, K)
    for name in ("table", "present", "size"):
        assert_array_equal(getattr(tables, name), getattr(fresh, name))


@properties
@given(label_matrices(max_points=20, missing=False), seeds)
def test_sizes_replace_presence_if_no_label_is_missing(P, seed):
    """The shortcut for complete tables makes the same moves."""
    tuples = as_label_tuples(P)
    rng, ends = np.random.default_rng(seed), []
    labels = rng.integers(-1, 4, tuples.n_tuples)
    # whole weights and τ = 1/2, so that no rounding makes a difference
    alpha = rng.integers(1, 9, P.shape[1]).astype(float)
    for complete in (True, False):
        ends.append(labels.copy())
        tables = ClusterTables.of(tuples, ends[-1], alpha, 4)
        tables.complete = complete
        one_by_one(tuples, ends[-1], tables, 0.5)
    assert_array_equal(*ends)
