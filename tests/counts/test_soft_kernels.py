"""Soft partitions in tables, contingencies and co-association, compared with sums over pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from all_partitions import all_partitions, all_single_moves
from coterie import coassociation
from coterie.consensus.robust.camps import chance_scores
from coterie.counts.cluster_tables import ClusterTables
from coterie.counts.coassociation import (
    pairwise_lower_bound,
    self_coassociation,
    tuple_coassociation,
)
from coterie.counts.contingency import agreement_lower_bound, all_contingencies, count_pairs
from coterie.labels.tuples import as_label_tuples
from coterie.relaxation.least_squares import least_squares_factor
from coterie.search.median_search import Start, median_search, partition_starts
from coterie.search.sweeps import sweep
from soft_memberships import pair_matrices, random_memberships, soft_objectives, soft_partitions

SOME = settings(max_examples=20, deadline=None)


def drawn(P, seed, K=3):
    """Return tuples, weights α in the order of P, and random labels of the tuples."""
    rng = np.random.default_rng(seed)
    tuples = as_label_tuples(P)
    return tuples, rng.random(len(P)) + 0.1, rng.integers(K, size=tuples.n_tuples)


def same_pairs(labels):
    """Return which pairs i ≠ j of points are in one cluster, (n, n)."""
    same = labels[:, None] == labels
    np.fill_diagonal(same, False)
    return same


@given(P=soft_partitions(), seed=st.integers(0, 99))
@SOME
def test_tables_give_the_objective(P, seed):
    """J and the distances are sums over pairs."""
    tuples, alpha, labels = drawn(P, seed)
    tables = ClusterTables.of(tuples, labels, alpha[tuples.partition_order])
    points = tuples.expand(labels)[None]
    assert tables.objective() == pytest.approx(soft_objectives(P, points, alpha)[0], abs=1e-9)
    each = [soft_objectives([m], points)[0] for m in P]
    assert tuples.in_given_order(tables.distances()) == pytest.approx(each, abs=1e-9)


@given(P=soft_partitions(), seed=st.integers(0, 99))
@SOME
def test_tables_give_agreement_and_means(P, seed):
    """Adjusted Rand indices and means inside and between clusters are sums over pairs."""
    tuples, alpha, labels = drawn(P, seed)
    tables = ClusterTables.of(tuples, labels, alpha[tuples.partition_order])
    together, both = pair_matrices(P)
    same = same_pairs(tuples.expand(labels))
    other = ~same & ~np.eye(len(same), dtype=bool)
    agreement = tuples.in_given_order(tables.agreement())
    for v in range(len(P)):
        rand, label = together[v][same].sum(), together[v][same | other].sum()
        cluster, pairs = both[v][same].sum(), both[v][same | other].sum()
        expected = label * cluster / max(pairs, 1)
        span = (label + cluster) / 2 - expected
        if span > 1e-9:
            assert agreement[v] == pytest.approx((rand - expected) / span, abs=1e-7)
    a, b = np.tensordot(alpha, together, 1), np.tensordot(alpha, both, 1)
    inside, between = tables.mean_agreement()
    if b[same].sum() > 1e-6:
        assert inside == pytest.approx(a[same].sum() / b[same].sum())
    if b[other].sum() > 1e-6:
        assert between == pytest.approx(a[other].sum() / b[other].sum())


@given(P=soft_partitions(), seed=st.integers(0, 99))
@SOME
def test_silhouettes_and_confidence(P, seed):
    """Silhouettes exclude the point itself, confidence includes it."""
    tuples, alpha, labels = drawn(P, seed)
    tables = ClusterTables.of(tuples, labels, alpha[tuples.partition_order])
    together, both = (np.tensordot(alpha, x, 1) for x in pair_matrices(P))
    points = tuples.expand(labels)
    confidence = tables.assign(tuples.codes, 0.5, labels, tuples.memberships)[1]
    silhouettes = tables.silhouettes(tuples, labels)
    for i, own in enumerate(points):
        shares, others = np.zeros((2, 3))
        for b in range(3):
            members = points == b
            shares[b] = together[i][members].sum() / max(both[i][members].sum(), 1e-300)
            members[i] = False
            others[b] = together[i][members].sum() / max(both[i][members].sum(), 1e-300)
        rest = np.delete(shares, own).max(initial=0)
        assert tuples.expand(confidence)[i] == pytest.approx(max(shares[own] - rest, 0))
        alone = both[i][(points == own) & (np.arange(len(points)) != i)].sum() < 1e-9
        a, b = 1 - others[own], 1 - rest
        expected = 0.0 if alone or max(a, b) == 0 else (b - a) / max(a, b)
        assert tuples.expand(silhouettes)[i] == pytest.approx(expected, abs=1e-7)


@given(P=soft_partitions(), seed=st.integers(0, 99), tau=st.sampled_from([0.3, 0.5, 0.6]))
@SOME
def test_a_sweep_follows_the_gains(P, seed, tau):
    """Every sweep raises the score, and at the end no single move gains."""
    tuples, alpha, labels = drawn(P, seed)
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


@given(P=soft_partitions(most=6), K=st.sampled_from([2, 3, None]))
@SOME
def test_the_search_finds_the_minimum(P, K):
    """With every labelling as a start, the search finds the smallest J."""
    tuples = as_label_tuples(P)
    every = np.array(list(all_partitions(tuples.n_tuples, K)))
    starts = [Start(str(i), z) for i, z in enumerate(every)]
    found = median_search(tuples, np.ones(len(P)), K, starts, threshold=0.5)
    least = soft_objectives(P, every[:, tuples.inverse]).min()
    assert found.tables.objective() == pytest.approx(least, abs=1e-9)


@given(P=soft_partitions(most=6), seed=st.integers(0, 99))
@SOME
def test_bounds_hold(P, seed):
    """No partition of the points has a J below either bound."""
    tuples, alpha, _ = drawn(P, seed)
    every = np.array(list(all_partitions(len(P[0]))))
    least = soft_objectives(P, every, alpha).min()
    together, both = pair_matrices(P)
    a, b = (np.tensordot(alpha / alpha.sum(), x, 1) for x in (together, both))
    by_pairs = np.minimum(a, b - a)
    np.fill_diagonal(by_pairs, 0)
    ordered = alpha[tuples.partition_order]
    bound = pairwise_lower_bound(tuples, ordered)
    assert bound == pytest.approx(by_pairs.sum(), abs=1e-9) and bound <= least + 1e-9
    counts = count_pairs(tuples, all_contingencies(tuples))
    assert agreement_lower_bound(counts, ordered) <= least + 1e-9


@given(P=soft_partitions(), seed=st.integers(0, 99))
@SOME
def test_coassociation_follows_its_formula(P, seed):
    """M is the ratio of the weighted sums, also on the diagonal, and exactly symmetric."""
    tuples, alpha, _ = drawn(P, seed)
    a, b = (np.tensordot(alpha, x, 1) for x in pair_matrices(P))
    expected = np.divide(a, b, out=np.zeros_like(a), where=b > 0)
    M = coassociation(P, alpha)
    assert M == pytest.approx(expected, abs=1e-12) and (M == M.T).all()
    ordered = alpha[tuples.partition_order]
    dense = tuple_coassociation(tuples, ordered).dense()
    assert dense.diagonal() == pytest.approx(self_coassociation(tuples, ordered))


@given(P=soft_partitions())
@SOME
def test_contingencies_are_products(P):
    """C = Zᵀ Z in the order of the given columns."""
    tuples, given_columns = as_label_tuples(P), np.hstack(P)
    Z = given_columns[:, given_columns.any(axis=0)]
    C = all_contingencies(tuples)
    assert C[np.ix_(tuples.recode, tuples.recode)] == pytest.approx(Z.T @ Z)


@given(P=soft_partitions(missing=False))
@SOME
def test_least_squares_are_eigenpairs(P):
    """F Fᵀ of full rank is M if no mass is missing."""
    tuples = as_label_tuples(P)
    F = least_squares_factor(tuples, np.ones(len(P)), tuples.n_columns)
    F = tuples.expand(F)
    assert F @ F.T == pytest.approx(coassociation(P), abs=1e-9)


@given(P=soft_partitions(most=7), seed=st.integers(0, 9))
@SOME
def test_pairs_are_counted(P, seed):
    """All pair counts are sums over pairs of different points."""
    tuples, _, _ = drawn(P, seed)
    counts = count_pairs(tuples, all_contingencies(tuples))
    together, both = pair_matrices(P)
    n = len(P[0])
    together[:, np.arange(n), np.arange(n)] = both[:, np.arange(n), np.arange(n)] = 0
    mass = np.array([m.sum(axis=1) for m in P])[tuples.partition_order]
    a, b = together[tuples.partition_order], both[tuples.partition_order]
    for v in range(len(P)):
        for w in range(len(P)):
            row = a[v] * b[w]
            assert counts.in_row[v, w] == pytest.approx(row.sum(), abs=1e-9)
            assert counts.together[v, w] == pytest.approx((a[v] * a[w]).sum(), abs=1e-9)
            if counts.row_squares is not None:  # chance may draw nothing but labels
                assert counts.row_squares[v, w] == pytest.approx((row**2).sum(), abs=1e-9)
            assert counts.row_cubes[v, w] == pytest.approx((row.sum(axis=1) ** 2).sum(), abs=1e-9)
            assert counts.n_points[v, w] == pytest.approx(mass[v] @ mass[w])
            assert counts.n_pairs[v, w] == pytest.approx((b[v] * b[w]).sum(), abs=1e-9)


def test_chance_scores_match_permutations():
    """Agreement is in standard deviations over random permutations of the rows."""
    rng = np.random.default_rng(3)
    P = random_memberships(rng, 60, [3, 4], missing=False)
    P[1][:30, :3] = (P[1][:30, :3] + P[0][:30]) / 2
    P[1] /= P[1].sum(axis=1, keepdims=True)
    tuples = as_label_tuples(P)
    agreement, scores = chance_scores(count_pairs(tuples, all_contingencies(tuples)))
    a, b = pair_matrices(P)[0]
    np.fill_diagonal(a, 0)
    np.fill_diagonal(b, 0)
    orders = [rng.permutation(60) for _ in range(1_000)]
    draws = np.array([(a * b[np.ix_(p, p)]).sum() for p in orders])
    mean, span = a.sum() * b.sum() / (60 * 59), (a.sum() + b.sum()) / 2
    assert draws.mean() == pytest.approx(mean, rel=0.01)
    deviation = draws.std() / (span - mean)
    assert agreement[0, 1] == pytest.approx(((a * b).sum() - mean) / (span - mean))
    assert scores[0, 1] == pytest.approx(agreement[0, 1] / deviation, rel=0.05)


def test_starts_are_the_most_likely_labels():
    """The start of a soft partition has its most likely labels."""
    P = random_memberships(np.random.default_rng(1), 20, [3, 3], missing=False)
    tuples = as_label_tuples(P)
    starts = partition_starts(tuples, all_contingencies(tuples), np.ones(2), 3)
    for start in starts:
        v = int(start.name.split()[1])
        expected = P[v].argmax(axis=1)
        pairs = start.labels[tuples.inverse][:, None] == start.labels[tuples.inverse]
        assert (pairs == (expected[:, None] == expected)).all()
