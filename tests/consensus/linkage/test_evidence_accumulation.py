"""EvidenceAccumulation, and linkage that begins with sizes."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cophenet, dendrogram, fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.base import clone

import coterie as ct
from coterie.consensus.linkage import (
    EvidenceAccumulation,
    cut_into,
    weighted_linkage,
)
from coterie.errors import CoterieError
from coterie.labels.tuples import as_label_tuples
from label_matrices import label_matrices, pair_votes, weights_for

LINKAGES = ("average", "single", "complete")


def random_distances(n, seed):
    """Symmetric distances without ties."""
    D = np.random.default_rng(seed).random((n, n))
    D = (D + D.T) / 2
    np.fill_diagonal(D, 0)
    return D


def greedy_tree(D, weights, kind):
    """The definition: exact distances of all pairs of clusters, the first closest pair merged."""
    clusters = {a: [a] for a in range(len(D))}
    names = {a: a for a in clusters}
    tree = []

    def distance(a, b):
        pairs = [(i, j) for i in clusters[a] for j in clusters[b]]
        if kind != "average":
            return {"single": min, "complete": max}[kind](D[i, j] for i, j in pairs)
        total = sum(Fraction(int(D[i, j] * weights[i] * weights[j])) for i, j in pairs)
        return total / int(sum(weights[i] * weights[j] for i, j in pairs))

    while len(clusters) > 1:
        height, a, b = min((distance(a, b), a, b) for a, b in combinations(sorted(clusters), 2))
        clusters[a] += clusters.pop(b)
        tree.append([*sorted((names[a], names[b])), float(height), len(clusters[a])])
        names[a] = len(D) + len(tree) - 1
    return np.array(tree).reshape(-1, 4)


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 7), st.integers(0, 2**31), st.sampled_from(LINKAGES))
def test_linkage_follows_its_definition_with_ties(u, seed, kind):
    """With many ties, every merge is that of the definition."""
    rng = np.random.default_rng(seed)
    D = np.triu(rng.integers(0, 4, (u, u)), 1).astype(float)
    D += D.T
    weights = rng.integers(1, 4, u).astype(float)
    expected = greedy_tree(D, weights, kind)
    np.testing.assert_array_equal(weighted_linkage(D.copy(), weights, kind), expected)


@pytest.mark.parametrize("kind", LINKAGES)
def test_unit_sizes_give_scipys_tree(kind):
    """With one point each the tree is SciPy's."""
    D = random_distances(60, 0)
    expected = linkage(squareform(D), kind)
    np.testing.assert_allclose(weighted_linkage(D.copy(), np.ones(60), kind), expected)


@settings(deadline=None, max_examples=20)
@given(st.integers(2, 9), st.integers(0, 2**31), st.sampled_from(LINKAGES))
def test_sizes_are_copies(u, seed, kind):
    """A point of weight w equals w points at distance 0 in SciPy's tree."""
    D = random_distances(u, seed)
    weights = np.random.default_rng(seed).integers(1, 4, u)
    copies = np.repeat(np.arange(u), weights)
    full = linkage(squareform(D[np.ix_(copies, copies)]), kind)
    tree = weighted_linkage(D.copy(), weights.astype(float), kind)
    heights = squareform(cophenet(tree))[np.ix_(copies, copies)]
    np.testing.assert_allclose(heights, squareform(cophenet(full)), atol=1e-12)


@pytest.mark.parametrize("K", [1, 2, 5, 30])
def test_cut_is_scipys(K):
    """Cutting into K clusters agrees with SciPy if no heights are equal."""
    tree = linkage(squareform(random_distances(30, 1)), "average")
    expected = fcluster(tree, K, "maxclust")
    labels = cut_into(tree, K)
    assert len(np.unique(labels)) == K
    assert ct.clustering_accuracy(expected, labels) == 1


def holed_ensemble(seed, holes):
    """Labels of 60 points in 12 partitions, some missing, and weights under which nothing ties."""
    rng = np.random.default_rng(seed)
    P, _ = ct.planted_partitions([30, 20, 10], 12, 0, 0.1, random_state=seed)
    P = np.where(rng.random(P.shape) < holes, -1, P)
    P[:, 0] = np.maximum(P[:, 0], 0)
    return P, rng.random(12) + 0.5


def dense_distances(P, weights):
    """1 − M pair by pair, (n, n)."""
    together, both = (np.tensordot(weights, votes, axes=1) for votes in pair_votes(P))
    return 1 - together / both


@pytest.mark.parametrize("kind", LINKAGES)
def test_tree_of_tuples_is_scipys_tree_of_points(kind):
    """All pairs of points meet at the heights SciPy finds from the dense 1 − M."""
    P, weights = holed_ensemble(0, 0.0)
    D = dense_distances(P, weights)
    est = EvidenceAccumulation(3, linkage=kind, partition_weights=weights).fit(P)
    full = linkage(squareform(D, checks=False), kind)
    heights = squareform(cophenet(est.linkage_))[np.ix_(est.leaves_, est.leaves_)]
    np.testing.assert_allclose(heights, squareform(cophenet(full)), atol=1e-12)
    assert ct.clustering_accuracy(fcluster(full, 3, "maxclust"), est.labels_) == 1
    # a lifetime is the share of thresholds in [0, 1] that give k clusters
    thresholds = (np.arange(200_000) + 0.5) / 200_000
    left = len(est.lifetimes_) - np.searchsorted(est.linkage_[:, 2], thresholds)
    shares = np.bincount(left, minlength=len(est.lifetimes_) + 1)[1:] / 200_000
    np.testing.assert_allclose(est.lifetimes_, shares, atol=2e-5)


@pytest.mark.parametrize("kind", LINKAGES)
@pytest.mark.parametrize("seed", range(3))
def test_missing_labels_count_for_no_pair(kind, seed):
    """With holes the tree is that of together / both labelled, pair by pair."""
    P, weights = holed_ensemble(seed, 0.15)
    est = EvidenceAccumulation(3, linkage=kind, partition_weights=weights).fit(P)
    of_leaf = np.unique(est.leaves_, return_index=True)[1]
    D = dense_distances(P[of_leaf], weights)
    expected = weighted_linkage(D, est.leaf_sizes_.astype(float), kind)
    np.testing.assert_allclose(est.linkage_, expected, atol=1e-12)


@settings(deadline=None, max_examples=25)
@given(label_matrices(missing=False), st.integers(1, 4), st.sampled_from(LINKAGES))
def test_compression_is_exact_with_ties(P, K, kind):
    """Uncompressed tuples give the same labels despite ties."""
    P = P[np.argsort(as_label_tuples(P).inverse, kind="stable")]
    tuples = as_label_tuples(P)
    K = min(K, tuples.n_tuples)
    est = EvidenceAccumulation(K, linkage=kind)
    compressed = tuples.expand(est._label_tuples(tuples).labels)
    full = est._label_tuples(tuples.without_compression()).labels
    assert (np.diff(tuples.inverse) >= 0).all()
    assert ct.clustering_accuracy(full, compressed) == 1
    assert len(np.unique(compressed)) == K


@settings(deadline=None, max_examples=20)
@given(st.data(), st.sampled_from(LINKAGES))
def test_any_holes_and_weights_give_a_whole_tree(data, kind):
    """The tree has every point once and rising heights from 0 to 1."""
    P = data.draw(label_matrices())
    weights = data.draw(weights_for(P))
    est = EvidenceAccumulation(1, linkage=kind, partition_weights=weights).fit(P)
    heights = est.linkage_[:, 2]
    assert (np.diff(heights) >= 0).all() and (heights >= 0).all() and (heights <= 1 + 1e-12).all()
    assert est.lifetimes_.sum() == pytest.approx(1)
    assert (np.bincount(est.leaves_) == est.leaf_sizes_).all()
    assert len(est.leaf_sizes_) == est.n_tuples_ == len(heights) + 1


@pytest.mark.parametrize("kind", LINKAGES)
def test_longest_lifetime_finds_clear_clusters(kind):
    """The longest lifetime finds three planted clusters with little noise."""
    P, y = ct.planted_partitions([60, 30, 20], 9, 0, 0.02, random_state=0)
    est = EvidenceAccumulation(None, linkage=kind).fit(P)
    assert est.n_clusters_ == 3 == np.argmax(est.lifetimes_) + 1
    assert ct.clustering_accuracy(y, est.labels_) == 1


def test_longest_lifetime_at_both_ends():
    """Copies of one partition give that partition; a constant partition gives one cluster."""
    y = np.repeat([0, 1, 2], [5, 4, 3])
    assert EvidenceAccumulation(None).fit(np.column_stack([y, y])).n_clusters_ == 3
    assert EvidenceAccumulation(None).fit(np.zeros((6, 3), dtype=int)).n_clusters_ == 1
    nearly_one = np.zeros((8, 8), dtype=int)
    np.fill_diagonal(nearly_one, 1)
    assert EvidenceAccumulation(None).fit(nearly_one).n_clusters_ == 1


def test_single_linkage_is_a_threshold_graph():
    """Single linkage at k clusters is the connected components above some co-association."""
    P = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 1], [2, 2, 2], [2, 2, 3]])
    labels = EvidenceAccumulation(2, linkage="single").fit(P).labels_
    assert labels.tolist() == [0, 0, 0, 1, 1]


def test_points_without_a_weighted_label_are_no_cluster():
    """A point with a label only in a partition of weight 0 is not one of the K clusters."""
    P = np.array([[0, 0], [0, 0], [0, 0], [1, 1], [1, 1], [-1, 0]])
    est = EvidenceAccumulation(2, partition_weights=[1, 0]).fit(P)
    assert est.labels_.tolist() == [0, 0, 0, 1, 1, 0]
    assert est.leaves_[-1] == -1 and est.n_clusters_ == 2
    assert est.leaf_sizes_[est.leaves_[:5]].tolist() == [3, 3, 3, 2, 2]


def test_partitions_of_weight_zero_separate_no_points():
    """Tuples that differ only in a partition of weight 0 are one leaf."""
    P = np.array([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1]])
    est = EvidenceAccumulation(4, partition_weights=[1, 0]).fit(P)
    assert est.labels_.tolist() == [0, 0, 0, 1, 1]
    assert sorted(est.leaf_sizes_) == [2, 3]


def test_order_and_names_change_nothing_in_spite_of_ties():
    """The order of points, partitions and names does not influence the labels."""
    P, _ = ct.planted_partitions([40, 20, 15], 6, 0, 0.25, random_state=1)
    rng = np.random.default_rng(2)
    points, partitions = rng.permutation(75), rng.permutation(6)
    for kind in LINKAGES:
        a = EvidenceAccumulation(3, linkage=kind).fit(P)
        b = clone(a).fit((2 - P)[points][:, partitions])
        assert (b.labels_ == a.labels_[points]).all()
        np.testing.assert_array_equal(b.linkage_, a.linkage_)


def test_scipy_draws_the_tree():
    """SciPy's dendrogram accepts the tree."""
    P, _ = ct.planted_partitions([20, 10], 5, 0, 0.2, random_state=0)
    est = EvidenceAccumulation(2).fit(P)
    drawn = dendrogram(est.linkage_, no_plot=True)
    assert sorted(drawn["leaves"]) == sorted(set(est.leaves_))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"linkage": "ward"}, "linkage='ward': give 'average'"),
        ({"linkage": ["single"]}, r"linkage=\['single'\]"),
        ({"max_tuples": 0}, "max_tuples=0"),
        ({"max_tuples": 2}, "3 distinct label tuples"),
        ({"n_clusters": 0}, "n_clusters=0"),
        ({"partition_weights": [1]}, "partition_weights has shape"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    """The message names the parameter and its valid values."""
    with pytest.raises(ValueError, match=message) as caught:
        EvidenceAccumulation(**{"n_clusters": 2, **settings}).fit([[0, 0], [0, 1], [1, 1]])
    assert isinstance(caught.value, CoterieError)
