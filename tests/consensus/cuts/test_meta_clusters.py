"""MCLA."""

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.spatial.distance import squareform

import coterie as ct
from coterie.consensus.cuts import meta_clusters, partitioners
from coterie.consensus.cuts.meta_clusters import MCLA
from coterie.errors import InvalidParameterError, MissingExtraError
from coterie.labels.tuples import as_label_tuples
from label_matrices import label_matrices

NEEDED = "the extra 'partitioners' is not installed"


@pytest.fixture(params=["metis", "linkage"])
def partitioner(request):
    """METIS if it is there, and average linkage."""
    if request.param == "metis":
        pytest.importorskip("pymetis", reason=NEEDED)
    return request.param


def base_clusters(tuples):
    """The points of each base cluster, its partition, and the points each partition labels."""
    codes = tuples.codes[tuples.inverse]
    members = [set(np.flatnonzero((codes == c).any(axis=1))) for c in range(tuples.n_columns)]
    labelled = [set(np.flatnonzero(column >= 0)) for column in codes.T]
    return members, np.repeat(np.arange(tuples.n_partitions), tuples.n_labels), labelled


def same_partition(a, b):
    """Whether two labellings differ in names alone."""
    return ((a[:, None] == a) == (b[:, None] == b)).all()


@given(label_matrices())
@settings(deadline=None, max_examples=40)
def test_similarities_are_those_of_sets(P):
    """|c ∩ d| / |c ∪ d| of sets of points, those left out that either partition does not label."""
    tuples = as_label_tuples(P)
    similarity = meta_clusters._jaccard(tuples)
    members, partition, labelled = base_clusters(tuples)
    for c, d in np.ndindex(similarity.shape):
        both = labelled[partition[c]] & labelled[partition[d]]
        union = (members[c] | members[d]) & both
        share = len(members[c] & members[d]) / len(union) if union else 0.0
        assert similarity[c, d] == pytest.approx(share)


@given(label_matrices())
@settings(deadline=None, max_examples=40)
def test_shares_are_means_over_members(P):
    """The weighted mean of the members' indicators, over partitions that label the point."""
    tuples = as_label_tuples(P)
    alpha = np.arange(1.0, P.shape[1] + 1)
    meta = np.arange(tuples.n_columns) % 3
    shares = tuples.expand(meta_clusters._shares(tuples, alpha, meta))
    members, partition, labelled = base_clusters(tuples)
    for i, b in np.ndindex(shares.shape):
        own = [c for c in np.flatnonzero(meta == b) if i in labelled[partition[c]]]
        weights = alpha[partition[own]]
        inside = [i in members[c] for c in own]
        assert shares[i, b] == pytest.approx(np.average(inside, weights=weights) if own else 0.0)


def test_ties_are_drawn():
    """Equal shares are decided by the seed, each in its turn; a row of nothing gets −1."""
    shares = np.tile([0.5, 0.5 - 1e-15, 0.1], (200, 1))
    draws = meta_clusters._winners(shares, np.random.RandomState(0))
    assert 60 < (draws == 0).sum() < 140 and set(draws) == {0, 1}
    again = meta_clusters._winners(shares, np.random.RandomState(0))
    assert (draws == again).all()
    assert meta_clusters._winners(np.zeros((1, 3)), np.random.RandomState(0)) == [-1]


def test_linkage_is_scipys():
    """Meta-clusters without METIS are those of average linkage on 1 − similarity."""
    tuples = as_label_tuples(ct.planted_partitions([30, 20, 15], 7, 0, 0.3, random_state=0)[0])
    similarity = meta_clusters._jaccard(tuples)
    tree = linkage(squareform(1 - similarity, checks=False), "average")
    ours = meta_clusters._groups_by_linkage(similarity, 3)
    assert same_partition(ours, cut_tree(tree, 3).ravel())


def test_meta_clusters_are_balanced():
    """METIS gives every meta-cluster its share of the base clusters."""
    pytest.importorskip("pymetis", reason=NEEDED)
    tuples = as_label_tuples(ct.planted_partitions([30, 20, 15], 8, 0, 0.3, random_state=0)[0])
    similarity = meta_clusters._jaccard(tuples)
    meta = meta_clusters._groups_by_cut(similarity, 3, 0.05, np.random.RandomState(0))
    assert (np.bincount(meta) == 8).all()


def test_unequal_clusters_are_found(partitioner):
    """Balance is of base clusters, not of points: unequal clusters do not hurt."""
    P, y = ct.planted_partitions([200, 60, 40], 12, 0, 0.2, random_state=0)
    est = MCLA(3, partitioner=partitioner, random_state=0).fit(P)
    assert est.partitioner_ == partitioner
    assert ct.clustering_accuracy(y, est.labels_) > 0.99


def test_matched_labels_give_the_majority(partitioner):
    """Where base clusters match one to one, a point goes with the most of its labels."""
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1, 2], [30, 25, 20])
    P = np.where(rng.random((75, 7)) < 0.3, rng.integers(3, size=(75, 7)), y[:, None])
    est = MCLA(3, partitioner=partitioner, random_state=0).fit(P)
    votes = np.array([(P == c).sum(axis=1) for c in range(3)])
    decided = (votes == votes.max(axis=0)).sum(axis=0) == 1
    assert decided.mean() > 0.9
    assert same_partition(est.labels_[decided], votes.argmax(axis=0)[decided])
    assert est.loss_ == pytest.approx(1 - votes.max(axis=0).mean() / 7)


def test_weights_equal_copies_in_the_vote(partitioner):
    """A partition of weight 2 votes twice."""
    P, _ = ct.planted_partitions([30, 25, 20], 5, 0, 0.15, random_state=2)
    weights = np.array([2, 1, 1, 3, 2])
    weighted = MCLA(3, partitioner=partitioner, partition_weights=weights / 4, random_state=0).fit(
        P
    )
    copied = MCLA(3, partitioner=partitioner, random_state=0).fit(np.repeat(P, weights, axis=1))
    assert weighted.loss_ == pytest.approx(copied.loss_)
    assert ct.clustering_accuracy(weighted.labels_, copied.labels_) == 1


def test_partitions_of_weight_zero_are_left_out(partitioner):
    """They neither form meta-clusters nor vote, but points that they alone label follow them."""
    P = np.array([[0, 0, 0]] * 6 + [[1, 1, 1]] * 6 + [[-1, -1, 0], [-1, -1, 1]])
    est = MCLA(2, partitioner=partitioner, partition_weights=[1, 1, 0], random_state=0).fit(P)
    assert est.labels_[12] == est.labels_[0] != est.labels_[6] == est.labels_[13]
    assert est.loss_ == 0


def test_compression_changes_nothing(partitioner):
    """Points and their tuples have the same winning shares, and the same labels but for ties."""
    P, _ = ct.planted_partitions([60, 30, 20], 7, 0, 0.1, random_state=3)
    tuples = as_label_tuples(P)
    whole, compressed = (MCLA(3, partitioner=partitioner, random_state=0) for _ in range(2))
    of_points = whole._label_tuples(tuples.without_compression()).labels
    of_tuples = tuples.expand(compressed._label_tuples(tuples).labels)
    assert whole.loss_ == pytest.approx(compressed.loss_)
    assert ct.clustering_accuracy(of_points, of_tuples) > 0.95


def test_order_and_names_change_nothing(partitioner):
    """Points, partitions and names may come in any order."""
    rng = np.random.default_rng(1)
    P = rng.integers(3, size=(60, 4))
    points, partitions = rng.permutation(60), rng.permutation(4)
    a, b = (
        MCLA(3, partitioner=partitioner, random_state=0).fit(labels).labels_
        for labels in (P, (2 - P)[points][:, partitions])
    )
    assert (b == a[points]).all()


def test_a_missing_label_is_no_vote(partitioner):
    """A point's share is taken among the partitions that label it."""
    P = np.repeat([[0, 0, 0], [1, 1, 1]], 5, axis=0)
    P[0, :2] = -1
    est = MCLA(2, partitioner=partitioner, random_state=0).fit(P)
    assert same_partition(est.labels_, np.repeat([0, 1], 5)) and est.loss_ == 0


def test_one_partition(partitioner):
    """V = 1: as many clusters as it has gives it back, fewer merges whole clusters of it."""
    y = np.repeat([0, 1, 2, 3], 6)[:, None]
    four, two, one = (MCLA(K, partitioner=partitioner, random_state=0).fit(y) for K in (4, 2, 1))
    assert same_partition(four.labels_, y.ravel()) and four.loss_ == 0
    assert two.n_clusters_ == 2 and one.n_clusters_ == 1
    assert all(len(set(two.labels_[y.ravel() == c])) == 1 for c in range(4))


def test_more_clusters_than_base_clusters(partitioner):
    """Each base cluster is a meta-cluster; no more than those come out."""
    P = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    est = MCLA(8, partitioner=partitioner, random_state=0).fit(P)
    assert 2 <= est.n_clusters_ <= 6


def test_without_the_package(monkeypatch):
    """auto falls back to linkage; METIS by name is refused with what to install."""
    monkeypatch.setattr(partitioners, "find_spec", lambda _: None)
    P, y = ct.planted_partitions([30, 20, 10], 8, 0, 0.1, random_state=0)
    est = MCLA(3, random_state=0).fit(P)
    assert est.partitioner_ == "linkage" and ct.clustering_accuracy(y, est.labels_) == 1
    with pytest.raises(MissingExtraError, match=r"pip install 'coterie\[partitioners\]'"):
        MCLA(3, partitioner="metis").fit(P)


def test_bad_parameters_are_named():
    """A partitioner that is none and an imbalance below zero are refused in fit."""
    with pytest.raises(InvalidParameterError, match="partitioner='spectral'"):
        MCLA(2, partitioner="spectral").fit([[0], [1], [2]])
    with pytest.raises(InvalidParameterError, match="imbalance=-1"):
        MCLA(2, imbalance=-1).fit([[0], [1], [2]])
