"""Tables of a clustering, compared with brute force and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score, mutual_info_score

from coterie.counts.cluster_tables import ClusterTables
from coterie.labels.encode import as_label_matrix
from coterie.labels.tuples import as_label_tuples, compress_labels
from label_matrices import label_matrices
from soft_memberships import any_partitions, clustered, pair_matrices, soft_objectives

properties = settings(max_examples=25)
seeds, thresholds = st.integers(0, 99), st.floats(0.1, 0.9)


def clustering(P, seed, K=3):
    """Return tuples, weights in the order of P, the tables, and who is in which cluster (n, K)."""
    tuples, alpha, labels = clustered(P, seed, K)
    tables = ClusterTables.of(tuples, labels, alpha[tuples.partition_order], K)
    return tuples, alpha, tables, np.eye(K)[tuples.expand(labels)]


@given(P=any_partitions, seed=seeds)
@properties
def test_tables_count_points(P, seed):
    """N[c, b], sizes and presence are sums of memberships."""
    tuples, _, tables, member = clustering(P, seed)
    Z, mass = np.hstack([m[:, m.any(axis=0)] for m in P]), np.array([m.sum(axis=1) for m in P])
    assert_allclose(tables.table[tuples.recode], Z.T @ member, atol=1e-12)
    assert_allclose(tuples.in_given_order(tables.present), mass @ member, atol=1e-12)
    assert_array_equal(tables.size, member.sum(axis=0))
    assert tables.n_clusters == member.any(axis=0).sum()
    assert tables.complete == (tuples.memberships is None and (mass == 1).all())


@given(P=any_partitions, seed=seeds, threshold=thresholds)
@properties
def test_score_and_merge_gains(P, seed, threshold):
    """The score is Σ (M_ij − τ) over pairs in one cluster; a merge adds twice those between."""
    _, alpha, tables, member = clustering(P, seed)
    together, both = pair_matrices(P)
    pairs = np.tensordot(alpha / alpha.sum(), together - threshold * both, 1)
    sums = member.T @ pairs @ member
    assert tables.score(threshold) == pytest.approx(np.trace(sums), abs=1e-9)
    np.fill_diagonal(sums, -np.inf)
    assert_allclose(tables.merge_gains(threshold), sums, atol=1e-9)


@given(P=label_matrices(), seed=seeds)
@properties
def test_indices_are_those_of_scikit_learn(P, seed):
    """Adjusted Rand index and mutual information, in nats, over the points a partition labels."""
    tuples, _, tables, member = clustering(list(P.T), seed)
    labels = member.argmax(axis=1)
    for found, index in (
        (tables.agreement(), adjusted_rand_score),
        (tables.information(), mutual_info_score),
    ):
        expected = [index(column[column >= 0], labels[column >= 0]) for column in P.T]
        assert_allclose(tuples.in_given_order(found), expected, atol=1e-9)


@given(P=any_partitions, seed=seeds, threshold=thresholds)
@properties
def test_rows_join_the_cluster_of_largest_gain(P, seed, threshold):
    """A row keeps a given label, or joins the best cluster; rows in no cluster are new to it."""
    tuples, alpha, _ = clustered(P, seed)
    labels = np.random.default_rng(seed).integers(-1, 3, tuples.n_tuples)
    tables = ClusterTables.of(tuples, labels, alpha[tuples.partition_order], n_clusters=3)
    member = np.vstack([np.eye(3), np.zeros(3)])[tuples.expand(labels)]
    together, both = (np.tensordot(alpha, x, 1) @ member for x in pair_matrices(P))
    gains = together - threshold * both
    shares = np.divide(together, both, out=np.zeros_like(together), where=both > 0)
    rows = tuples.codes, tuples.memberships
    assert_allclose(tuples.expand(tables.vote_shares(*rows)), shares, atol=1e-9)
    free = tables.assign(tuples.codes, threshold, memberships=tuples.memberships)
    kept = tables.assign(tuples.codes, threshold, labels, tuples.memberships)
    assert_array_equal(kept[0], np.where(labels >= 0, labels, free[0]))
    best = np.take_along_axis(gains, tuples.expand(free[0])[:, None], axis=1)[:, 0]
    assert (best >= gains.max(axis=1) - 1e-9).all()
    for found, margins in (free, kept):
        for own, margin, share in zip(*map(tuples.expand, (found, margins)), shares, strict=True):
            rest = np.delete(share, own).max()
            assert margin == pytest.approx(max(share[own] - rest, 0.0), abs=1e-9)


def test_rows_without_a_label_join_nothing():
    """They get the label −1, the margin 0 and no votes; a given label is kept."""
    tuples, _, tables, _ = clustering([np.array([0, 1, 1]), np.array([0, 0, 1])], 0)
    blank = np.full((2, 2), -1, dtype=tuples.codes.dtype)
    assert [x.tolist() for x in tables.assign(blank, 0.5)] == [[-1, -1], [0, 0]]
    kept = tables.assign(blank, 0.5, np.array([1, -1]))
    assert [x.tolist() for x in kept] == [[1, -1], [0, 0]]
    assert not tables.vote_shares(blank).any()


@pytest.mark.parametrize("threshold", [0.3, 0.6])
def test_a_tie_does_not_depend_on_the_batch(threshold):
    """If clusters tie up to rounding, a missing label in another row changes nothing."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        tuples = as_label_tuples(rng.integers(0, 2, (12, 3)))
        labels = rng.integers(0, 3, tuples.n_tuples)
        tables = ClusterTables.of(tuples, labels, rng.choice([0.1, 0.2, 0.3, 0.7], 3))
        alone, _ = tables.assign(tuples.codes, threshold)
        missing = np.full_like(tuples.codes[:1], -1)
        together, _ = tables.assign(np.vstack([tuples.codes, missing]), threshold)
        assert_array_equal(together, [*alone, -1])


@pytest.mark.parametrize("gaps", [False, True])
def test_tables_are_counted_in_blocks(gaps, monkeypatch):
    """Many blocks give the same tables as one, on any number of threads."""
    rng = np.random.default_rng(0)
    P = rng.integers(0, 5, (1_000, 6))
    if gaps:
        P[rng.random(P.shape) < 0.1] = -1
        P[:, 0] = rng.integers(0, 5, 1_000)
    matrix = as_label_matrix(P)
    for weights in (None, rng.uniform(0.1, 2.0, len(P))):
        tuples = compress_labels(matrix, weights)
        labels = rng.integers(-1, 2, tuples.n_tuples)
        whole = ClusterTables.of(tuples, labels, np.ones(6))
        found = []
        for threads in ("1", "3"):
            with monkeypatch.context() as patch:
                patch.setenv("COTERIE_NUM_THREADS", threads)
                patch.setattr("coterie.counts.cluster_tables._ROWS_AT_ONCE", 10)
                found.append(ClusterTables.of(tuples, labels, np.ones(6)))
        for name in ("table", "present", "size"):
            assert_array_equal(getattr(found[0], name), getattr(found[1], name))
            assert_allclose(getattr(found[0], name), getattr(whole, name), rtol=1e-12)


@given(P=any_partitions, seed=seeds)
@properties
def test_objective_and_distances(P, seed):
    """J and the distances are sums over pairs."""
    tuples, alpha, labels = clustered(P, seed)
    tables = ClusterTables.of(tuples, labels, alpha[tuples.partition_order])
    points = tuples.expand(labels)[None]
    assert tables.objective() == pytest.approx(soft_objectives(P, points, alpha)[0], abs=1e-9)
    each = [soft_objectives([m], points)[0] for m in P]
    assert tuples.in_given_order(tables.distances()) == pytest.approx(each, abs=1e-9)


@given(P=any_partitions, seed=seeds)
@properties
def test_agreement_and_means(P, seed):
    """Adjusted Rand indices and means inside and between clusters are sums over pairs i ≠ j."""
    tuples, alpha, labels = clustered(P, seed)
    tables = ClusterTables.of(tuples, labels, alpha[tuples.partition_order])
    together, both = pair_matrices(P)
    points = tuples.expand(labels)
    same, others = points[:, None] == points, ~np.eye(len(points), dtype=bool)
    same, other = same & others, ~same
    agreement = tuples.in_given_order(tables.agreement())
    for v in range(len(P)):
        rand, label = together[v][same].sum(), together[v][same | other].sum()
        cluster, pairs = both[v][same].sum(), both[v][same | other].sum()
        expected = label * cluster / max(pairs, 1)
        span = (label + cluster) / 2 - expected
        if span > 1e-9:
            assert agreement[v] == pytest.approx((rand - expected) / span, abs=1e-7)
    a, b = np.tensordot(alpha, together, 1), np.tensordot(alpha, both, 1)
    for found, pairs, without in zip(
        tables.mean_coassociation(), (same, other), (1, 0), strict=True
    ):
        if b[pairs].sum() > 1e-6:
            assert found == pytest.approx(a[pairs].sum() / b[pairs].sum())
        elif not pairs.any():
            assert found == without


@given(P=any_partitions, seed=seeds)
@properties
def test_silhouettes(P, seed):
    """They are (b − a) / max(a, b): a in its cluster without the point itself, b in the nearest."""
    tuples, alpha, labels = clustered(P, seed)
    tables = ClusterTables.of(tuples, labels, alpha[tuples.partition_order])
    points = tuples.expand(labels)
    member = np.eye(3)[points]
    together, both = (np.tensordot(alpha, x, 1) for x in pair_matrices(P))
    for x in (together, both):
        np.fill_diagonal(x, 0)
    silhouettes = tuples.expand(tables.silhouettes(tuples, labels))
    shares = (together @ member) / np.maximum(both @ member, 1e-300)
    for i, own in enumerate(points):
        a, b = 1 - shares[i, own], 1 - np.delete(shares[i], own).max()
        alone = (both @ member)[i, own] < 1e-9
        expected = 0.0 if alone or max(a, b) < 1e-12 else (b - a) / max(a, b)
        assert silhouettes[i] == pytest.approx(expected, abs=1e-7)
