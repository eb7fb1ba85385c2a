"""Tables of a clustering, compared with brute force and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score, mutual_info_score

from coterie.counts.cluster_tables import ClusterTables
from coterie.labels.encode import as_label_matrix
from coterie.labels.tuples import as_label_tuples, compress_labels
from label_matrices import label_matrices, pair_votes, weights_for
from soft_memberships import any_partitions, clustered, pair_matrices, soft_objectives

properties = settings(max_examples=25)
thresholds = st.floats(0.1, 0.9)


@st.composite
def clusterings(draw, missing=True):
    """A label matrix, a clustering of its points, partition weights, and the tables.

    Weights and partitions are in the order of the tuples' columns.
    """
    P = draw(label_matrices(missing=missing))
    tuples = as_label_tuples(P)
    labels = draw(arrays(np.int64, tuples.n_tuples, elements=st.integers(0, 3)))
    alpha = draw(weights_for(P))
    return (
        P[:, tuples.partition_order],
        tuples.expand(labels),
        alpha,
        ClusterTables.of(tuples, labels, alpha),
    )


def same_cluster(labels):
    """Return which pairs of points are in one cluster, (n, n)."""
    return labels[:, None] == labels[None, :]


def brute_score(P, labels, alpha, threshold):
    """Σ_{same cluster} Σ_v α_v ([together] − τ [both labelled]) / Σ α."""
    together, both = pair_votes(P)
    kept = (together - threshold * both) * same_cluster(labels)
    return alpha @ kept.sum(axis=(1, 2)) / alpha.sum()


@properties
@given(clusterings())
def test_tables_count_points(case):
    """N[c, b], sizes and presence count the points."""
    P, labels, _, tables = case
    assert_array_equal(tables.size, np.bincount(labels))
    assert tables.n_clusters == len(set(labels.tolist()))
    assert tables.complete == (P >= 0).all()
    for v, column in enumerate(P.T):
        assert_array_equal(
            tables.present[v], np.bincount(labels[column >= 0], minlength=len(tables.size))
        )
        block = tables.table[tables.offsets[v] : tables.offsets[v + 1]]
        names = np.unique(column[column >= 0])
        expected = [np.bincount(labels[column == c], minlength=len(tables.size)) for c in names]
        assert sorted(block.tolist()) == sorted(np.array(expected, dtype=float).tolist())


def test_points_in_no_cluster_are_not_counted():
    """A tuple of label −1 is not counted; clusters may be empty if their number is given."""
    tuples = as_label_tuples([[0, 0], [1, 1], [1, 1]])
    labels = np.where(tuples.weights == 2, 0, -1)
    tables = ClusterTables.of(tuples, labels, np.ones(2), n_clusters=3)
    assert tables.size.tolist() == [2, 0, 0]
    assert tables.table.shape == (4, 3)
    assert tables.table.sum() == 4
    assert tables.n_clusters == 1


@properties
@given(clusterings(), thresholds)
def test_score(case, threshold):
    """The score is Σ (M_ij − τ) over the labelled pairs in one cluster."""
    P, labels, alpha, tables = case
    assert_allclose(tables.score(threshold), brute_score(P, labels, alpha, threshold), atol=1e-9)


@properties
@given(clusterings())
def test_indices_are_those_of_scikit_learn(case):
    """Adjusted Rand index and mutual information, in nats, over the points a partition labels."""
    P, labels, _, tables = case
    for found, index in (
        (tables.agreement(), adjusted_rand_score),
        (tables.information(), mutual_info_score),
    ):
        expected = [index(column[column >= 0], labels[column >= 0]) for column in P.T]
        assert_allclose(found, expected, atol=1e-9)


@properties
@given(clusterings(), thresholds)
def test_merge_gains(case, threshold):
    """Merging a and b raises the score, which counts ordered pairs, by twice the gain."""
    P, labels, alpha, tables = case
    gains = tables.merge_gains(threshold)
    before = brute_score(P, labels, alpha, threshold)
    assert (np.diag(gains) == -np.inf).all()
    for a in range(len(gains)):
        for b in range(a):
            merged = brute_score(P, np.where(labels == a, b, labels), alpha, threshold)
            assert_allclose(2 * gains[[a, b], [b, a]], merged - before, atol=1e-9)


def brute_gains(P, labels, alpha, threshold, rows, n_clusters):
    """Return the gain of each cluster for each new row (n', K), and its share of votes."""
    gains, shares = np.zeros((2, len(rows), n_clusters))
    for i, row in enumerate(rows):
        both = (row >= 0) & (P >= 0)
        together = both & (row == P)
        for b in range(n_clusters):
            same, seen = ((alpha * x[labels == b]).sum() for x in (together, both))
            gains[i, b] = same - threshold * seen
            shares[i, b] = same / seen if seen > 0 else 0.0
    return gains, shares


@st.composite
def clusterings_and_new_rows(draw):
    """A clustering with its tables, and rows of labels to be assigned: (V,) each, −1 missing."""
    P = draw(label_matrices())
    matrix = as_label_matrix(P)
    tuples = compress_labels(matrix)
    labels = draw(arrays(np.int64, tuples.n_tuples, elements=st.integers(0, 3)))
    alpha = draw(weights_for(P))
    n_labels = matrix.n_labels
    rows = draw(
        st.lists(st.tuples(*(st.integers(-1, k - 1) for k in n_labels)), min_size=1, max_size=8)
    )
    codes = tuples.columns_of(np.array(rows, dtype=matrix.codes.dtype))
    return tuples, labels, alpha, codes, ClusterTables.of(tuples, labels, alpha)


@properties
@given(clusterings_and_new_rows(), thresholds, st.data())
def test_rows_join_the_cluster_of_largest_gain(case, threshold, data):
    """A row keeps a given label, or joins the best cluster; without labels it gets −1 and 0."""
    tuples, labels, alpha, codes, tables = case
    K = len(tables.size)
    rows, expanded = tuples.expand(tuples.codes), tuples.expand(labels)
    gains, shares = brute_gains(rows, expanded, alpha, threshold, codes, K)
    free, free_margin = tables.assign(codes, threshold)
    blank = (codes < 0).all(axis=1)
    assert_array_equal(free == -1, blank)
    assert_array_equal(free_margin[blank], 0.0)
    given_labels = data.draw(arrays(np.int64, len(codes), elements=st.integers(-1, K - 1)))
    kept, kept_margin = tables.assign(codes, threshold, given_labels)
    assert_array_equal(kept, np.where(given_labels >= 0, given_labels, free))
    assert (kept_margin[blank] == 0).all()
    for i in np.flatnonzero(~blank):
        assert gains[i, free[i]] >= gains[i].max() - 1e-9
        for found, margin in ((free, free_margin), (kept, kept_margin)):
            others = np.delete(shares[i], found[i]).max(initial=0.0)
            assert_allclose(margin[i], max(shares[i, found[i]] - others, 0.0), atol=1e-9)


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


@given(any_partitions, st.integers(0, 1000))
@properties
def test_vote_shares_are_means_over_all_pairs(P, seed):
    """They are the means of ⟨π_i, π_j⟩ over m_i m_j; a row without a label gets 0."""
    tuples, alpha, labels = clustered(P, seed)
    tables = ClusterTables.of(tuples, labels, alpha[tuples.partition_order], n_clusters=3)
    shares = tuples.expand(tables.vote_shares(tuples.codes, tuples.memberships))
    member = np.eye(3)[tuples.expand(labels)]
    together, both = (np.tensordot(alpha, x, 1) @ member for x in pair_matrices(P))
    expected = np.divide(together, both, out=np.zeros_like(together), where=both > 0)
    assert_allclose(shares, expected, atol=1e-9)
    assert not tables.vote_shares(np.full((1, len(P)), -1, dtype=np.int16)).any()


@given(P=any_partitions, seed=st.integers(0, 99))
@properties
def test_objective_and_distances(P, seed):
    """J and the distances are sums over pairs."""
    tuples, alpha, labels = clustered(P, seed)
    tables = ClusterTables.of(tuples, labels, alpha[tuples.partition_order])
    points = tuples.expand(labels)[None]
    assert tables.objective() == pytest.approx(soft_objectives(P, points, alpha)[0], abs=1e-9)
    each = [soft_objectives([m], points)[0] for m in P]
    assert tuples.in_given_order(tables.distances()) == pytest.approx(each, abs=1e-9)


@given(P=any_partitions, seed=st.integers(0, 99))
@properties
def test_agreement_and_means(P, seed):
    """Adjusted Rand indices and means inside and between clusters are sums over pairs i ≠ j."""
    tuples, alpha, labels = clustered(P, seed)
    tables = ClusterTables.of(tuples, labels, alpha[tuples.partition_order])
    together, both = pair_matrices(P)
    same, others = same_cluster(tuples.expand(labels)), ~np.eye(len(P[0]), dtype=bool)
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
    for found, pairs, without in zip(tables.mean_agreement(), (same, other), (1, 0), strict=True):
        if b[pairs].sum() > 1e-6:
            assert found == pytest.approx(a[pairs].sum() / b[pairs].sum())
        elif not pairs.any():
            assert found == without


@given(P=any_partitions, seed=st.integers(0, 99))
@properties
def test_silhouettes_and_margins(P, seed):
    """Silhouettes are (b − a) / max(a, b) without the point itself; margins include it."""
    tuples, alpha, labels = clustered(P, seed)
    tables = ClusterTables.of(tuples, labels, alpha[tuples.partition_order])
    together, both = (np.tensordot(alpha, x, 1) for x in pair_matrices(P))
    points = tuples.expand(labels)
    margin = tables.assign(tuples.codes, 0.5, labels, tuples.memberships)[1]
    silhouettes = tables.silhouettes(tuples, labels)
    for i, own in enumerate(points):
        shares, others = np.zeros((2, 3))
        for b in range(3):
            members = points == b
            shares[b] = together[i][members].sum() / max(both[i][members].sum(), 1e-300)
            members[i] = False
            others[b] = together[i][members].sum() / max(both[i][members].sum(), 1e-300)
        rest = np.delete(shares, own).max(initial=0)
        assert tuples.expand(margin)[i] == pytest.approx(max(shares[own] - rest, 0))
        alone = both[i][(points == own) & (np.arange(len(points)) != i)].sum() < 1e-9
        a, b = 1 - others[own], 1 - rest
        expected = 0.0 if alone or max(a, b) < 1e-12 else (b - a) / max(a, b)
        assert tuples.expand(silhouettes)[i] == pytest.approx(expected, abs=1e-7)
