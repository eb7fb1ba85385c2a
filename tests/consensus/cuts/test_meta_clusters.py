"""MCLA."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.spatial.distance import squareform

import coterie as ct
from all_partitions import same_partition
from coterie.consensus.cuts import meta_clusters
from coterie.consensus.cuts.meta_clusters import MCLA
from coterie.counts.contingency import all_contingencies, jaccard_similarity
from coterie.errors import MissingExtraError
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


@given(label_matrices())
@settings(deadline=None, max_examples=25)
def test_similarities_are_those_of_sets(P):
    """Similarities are |c ∩ d| / |c ∪ d| over the points that both partitions label."""
    tuples = as_label_tuples(P)
    similarity = jaccard_similarity(all_contingencies(tuples), tuples.offsets)
    members, partition, labelled = base_clusters(tuples)
    for c, d in np.ndindex(similarity.shape):
        both = labelled[partition[c]] & labelled[partition[d]]
        union = (members[c] | members[d]) & both
        share = len(members[c] & members[d]) / len(union) if union else 0.0
        assert similarity[c, d] == pytest.approx(share)


@given(label_matrices())
@settings(deadline=None, max_examples=25)
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
    """Equal shares are drawn by the seed, row by row; a row of zeros gets −1."""
    shares = np.tile([0.5, 0.5 - 1e-15, 0.1], (200, 1))
    draws = meta_clusters._winners(shares, np.random.RandomState(0))
    assert 60 < (draws == 0).sum() < 140 and set(draws) == {0, 1}
    again = meta_clusters._winners(shares, np.random.RandomState(0))
    assert (draws == again).all()
    assert meta_clusters._winners(np.zeros((1, 3)), np.random.RandomState(0)) == [-1]


def test_linkage_is_scipys():
    """Meta-clusters without METIS are those of average linkage on 1 − similarity."""
    tuples = as_label_tuples(ct.planted_partitions([30, 20, 15], 7, 0, 0.3, random_state=0)[0])
    similarity = jaccard_similarity(all_contingencies(tuples), tuples.offsets)
    tree = linkage(squareform(1 - similarity, checks=False), "average")
    ours = meta_clusters._group_base_clusters(similarity, 3, "linkage", 0.05, None)
    assert same_partition(ours, cut_tree(tree, 3).ravel())


def test_meta_clusters_are_balanced():
    """METIS gives every meta-cluster its share of the base clusters."""
    pytest.importorskip("pymetis", reason=NEEDED)
    tuples = as_label_tuples(ct.planted_partitions([30, 20, 15], 8, 0, 0.3, random_state=0)[0])
    similarity = jaccard_similarity(all_contingencies(tuples), tuples.offsets)
    meta = meta_clusters._group_base_clusters(similarity, 3, "metis", 0.05, 0)
    assert (np.bincount(meta) == 8).all()


def test_unequal_clusters_are_found(partitioner):
    """Base clusters are balanced, not points, so clusters of unequal size are found."""
    P, y = ct.planted_partitions([200, 60, 40], 12, 0, 0.2, random_state=0)
    est = MCLA(3, partitioner=partitioner, random_state=0).fit(P)
    assert est.partitioner_ == partitioner
    assert ct.clustering_accuracy(y, est.labels_) > 0.99


def test_matched_labels_give_the_majority(partitioner):
    """If base clusters match one to one, a point gets its most common label."""
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


def test_a_missing_label_is_no_vote(partitioner):
    """A point's share is taken among the partitions that label it."""
    P = np.repeat([[0, 0, 0], [1, 1, 1]], 5, axis=0)
    P[0, :2] = -1
    est = MCLA(2, partitioner=partitioner, random_state=0).fit(P)
    assert same_partition(est.labels_, np.repeat([0, 1], 5)) and est.loss_ == 0


def test_more_clusters_than_base_clusters(partitioner):
    """There are at most as many clusters as base clusters."""
    P = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    est = MCLA(8, partitioner=partitioner, random_state=0).fit(P)
    assert 2 <= est.n_clusters_ <= 6


def test_without_the_package(monkeypatch):
    """auto uses linkage; METIS by name is refused with the command to install it."""
    monkeypatch.setitem(sys.modules, "pymetis", None)
    P, y = ct.planted_partitions([30, 20, 10], 8, 0, 0.1, random_state=0)
    est = MCLA(3, random_state=0).fit(P)
    assert est.partitioner_ == "linkage" and ct.clustering_accuracy(y, est.labels_) == 1
    with pytest.raises(MissingExtraError, match=r"pip install .*\[partitioners\]'"):
        MCLA(3, partitioner="metis").fit(P)
