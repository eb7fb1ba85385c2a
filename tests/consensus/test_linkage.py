"""Linkage methods, compared with their definitions and with SciPy's trees of single points."""

from fractions import Fraction
from itertools import combinations
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cophenet, fcluster, linkage
from scipy.sparse import csr_array
from scipy.spatial.distance import squareform

import coterie as ct
from all_partitions import same_partition
from coterie.consensus.linkage import (
    LEAST_SHARE,
    cluster_weights,
    cut_into,
    locally_weighted_similarity,
    propagated_similarity,
    sizable_cut,
    weighted_linkage,
)
from coterie.counts.contingency import all_contingencies, jaccard_similarity
from coterie.labels.tuples import as_label_tuples
from coterie.relaxation.spectral import transfer_cut
from label_matrices import label_matrices, pair_votes, weights_for

LINKAGES = ("average", "single", "complete")
STRATEGIES = ("linkage", "graph")


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


@settings(max_examples=25)
@given(st.integers(1, 7), st.integers(0, 2**31), st.sampled_from(LINKAGES))
def test_linkage_follows_its_definition_with_ties(u, seed, kind):
    """With many ties, every merge is that of the definition."""
    rng = np.random.default_rng(seed)
    D = np.triu(rng.integers(0, 4, (u, u)), 1).astype(float)
    D += D.T
    weights = rng.integers(1, 4, u).astype(float)
    expected = greedy_tree(D, weights, kind)
    np.testing.assert_array_equal(weighted_linkage(D.copy(), weights, kind), expected)


@settings(max_examples=20)
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


def block_similarity(sizes, inside=0.9, outside=0.1, seed=0):
    """Return a noisy block similarity and the block of each point."""
    blocks = np.repeat(np.arange(len(sizes)), sizes)
    S = np.where(blocks[:, None] == blocks, inside, outside)
    noise = np.random.default_rng(seed).uniform(-0.05, 0.05, S.shape)
    S = np.clip(S + (noise + noise.T) / 2, 0.0, 1.0)
    np.fill_diagonal(S, 1.0)
    return S, blocks


def sizable_clusters(S, weights, n_clusters):
    """Return the clusters of the tree of average linkage on 1 − S."""
    return sizable_cut(weighted_linkage(1.0 - S, weights), S, weights, n_clusters)


def test_stray_points_form_no_clusters():
    """Points that are similar to none join the nearest cluster; the plain cut leaves them alone."""
    S, blocks = block_similarity([40, 40, 1, 1, 1])
    stray = blocks >= 2
    S[stray] *= 0.2
    S[:, stray] *= 0.2
    np.fill_diagonal(S, 1.0)
    weights = np.ones(len(S))
    plain = cut_into(weighted_linkage(1.0 - S, weights), 2)
    assert np.bincount(plain).min() <= 3
    labels = sizable_clusters(S, weights, 2)
    assert same_partition(labels[~stray], blocks[~stray])

    S, blocks = block_similarity([30, 30, 1])
    S[60, :30] = S[:30, 60] = 0.01
    S[60, 30:60] = S[30:60, 60] = 0.03
    labels = sizable_clusters(S, np.ones(61), 2)
    assert labels[60] == labels[30] != labels[0]
    assert same_partition(labels[:60], blocks[:60])


def test_weights_are_repeated_points():
    """A point of weight w gives the labels of w equal points."""
    S, _ = block_similarity([6, 9, 4])
    times = np.random.default_rng(1).integers(1, 4, len(S))
    repeated = np.repeat(np.repeat(S, times, axis=0), times, axis=1)
    which = np.repeat(np.arange(len(S)), times)
    repeated[which[:, None] == which] = 1.0
    weighted = sizable_clusters(S, times.astype(float), 3)
    assert same_partition(weighted[which], sizable_clusters(repeated, np.ones(len(which)), 3))


def test_without_k_large_clusters_the_plain_cut_is_returned():
    """If no cut has K clusters of the least size, the result is that of plain linkage."""
    S = block_similarity([30, 1, 1])[0]
    weights = np.where(np.arange(32) == 0, 1e6, 1.0)
    assert LEAST_SHARE * weights.sum() / 3 > 31
    plain = cut_into(weighted_linkage(1.0 - S, weights), 3)
    np.testing.assert_array_equal(sizable_clusters(S, weights, 3), plain)


@settings(max_examples=60)
@given(u=st.integers(1, 25), data=st.data())
def test_labels_are_zero_to_k_without_gaps(u, data):
    """For any similarity and weights there are exactly K clusters, none of them empty."""
    K = data.draw(st.integers(1, u))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    # few different values: many ties
    S = rng.integers(0, data.draw(st.sampled_from([2, 5, 1000])), (u, u)) / 1000.0
    S = np.maximum(S, S.T)
    np.fill_diagonal(S, 1.0)
    weights = rng.integers(1, data.draw(st.sampled_from([2, 50])), u).astype(float)
    labels = sizable_clusters(S, weights, K)
    np.testing.assert_array_equal(np.unique(labels), np.arange(K))


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
    est = ct.EvidenceAccumulation(3, linkage=kind, partition_weights=weights).fit(P)
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
    est = ct.EvidenceAccumulation(3, linkage=kind, partition_weights=weights).fit(P)
    of_leaf = np.unique(est.leaves_, return_index=True)[1]
    D = dense_distances(P[of_leaf], weights)
    expected = weighted_linkage(D, est.leaf_sizes_.astype(float), kind)
    np.testing.assert_allclose(est.linkage_, expected, atol=1e-12)


@settings(max_examples=25)
@given(label_matrices(missing=False), st.integers(1, 4), st.sampled_from(LINKAGES))
def test_compression_is_exact_with_ties(P, K, kind):
    """Uncompressed tuples give the same labels despite ties."""
    P = P[np.argsort(as_label_tuples(P).inverse, kind="stable")]
    tuples = as_label_tuples(P)
    K = min(K, tuples.n_tuples)
    est = ct.EvidenceAccumulation(K, linkage=kind)
    compressed = tuples.expand(est._label_tuples(tuples).labels)
    full = est._label_tuples(tuples.without_compression()).labels
    assert (np.diff(tuples.inverse) >= 0).all()
    assert ct.clustering_accuracy(full, compressed) == 1
    assert len(np.unique(compressed)) == K


@pytest.mark.parametrize("kind", LINKAGES)
def test_longest_lifetime_finds_clear_clusters(kind):
    """It finds planted clusters with little noise, copies of a partition, and a single cluster."""
    P, y = ct.planted_partitions([60, 30, 20], 9, 0, 0.02, random_state=0)
    est = ct.EvidenceAccumulation(None, linkage=kind).fit(P)
    assert est.n_clusters_ == 3 == np.argmax(est.lifetimes_) + 1
    assert ct.clustering_accuracy(y, est.labels_) == 1
    y = np.repeat([0, 1, 2], [5, 4, 3])
    nearly_one = np.eye(8, dtype=int)
    for P, K in ((np.column_stack([y, y]), 3), (np.zeros((6, 3), int), 1), (nearly_one, 1)):
        assert ct.EvidenceAccumulation(None, linkage=kind).fit(P).n_clusters_ == K


def looped_weights(P, alpha, theta):
    """exp(−h/θ) of every cluster of every partition, in the order of labels, point by point."""
    found = []
    for v in range(P.shape[1]):
        of_partition = []
        for label in np.unique(P[P[:, v] >= 0, v]):
            members = P[P[:, v] == label]
            entropy = total = 0.0
            for w in range(P.shape[1]):
                seen = members[members[:, w] >= 0, w]
                shares = [np.mean(seen == other) for other in np.unique(seen)]
                entropy -= alpha[w] * len(seen) * sum(p * log2(p) for p in shares)
                total += alpha[w] * len(seen)
            of_partition.append(np.exp(-entropy / total / theta))
        found.append(np.array(of_partition))
    return found


def looped_similarity(P, alpha, weights):
    """S (n, n) pair by pair, labels 0, 1, … in every partition."""
    n, V = P.shape
    S = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            both = [v for v in range(V) if P[i, v] >= 0 and P[j, v] >= 0]
            shared = sum(alpha[v] * weights[v][P[i, v]] for v in both if P[i, v] == P[j, v])
            S[i, j] = shared / sum(alpha[v] for v in both) if both else 0.0
    return S


def without_gaps(P):
    """The same partitions with labels 0..K_v − 1; −1 stays."""
    columns = [np.unique(np.append(column, -1), return_inverse=True)[1][:-1] - 1 for column in P.T]
    return np.column_stack(columns)


@pytest.fixture(scope="module")
def ensemble():
    """Ten noisy partitions of 70 points, and weights under which nothing ties."""
    P, y = ct.planted_partitions([35, 20, 15], 10, 0, 0.15, random_state=0)
    return P, y, np.random.default_rng(0).random(10) + 0.5


@settings(max_examples=25)
@given(st.data(), st.floats(0.1, 5))
def test_cluster_weights_are_those_of_the_formula(data, theta):
    """Entropies counted point by point, in the user's order of partitions and labels."""
    P = data.draw(label_matrices())
    alpha = data.draw(weights_for(P))
    est = ct.LocallyWeightedConsensus(1, theta=theta, partition_weights=alpha).fit(P)
    expected = looped_weights(P, alpha, theta)
    assert len(est.cluster_weights_) == P.shape[1]
    for found, wanted in zip(est.cluster_weights_, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9)


@settings(max_examples=25)
@given(st.data())
def test_similarity_is_that_of_the_formula(data):
    """S over tuples agrees with loops over points, holes and weights included."""
    P = without_gaps(data.draw(label_matrices()))
    alpha = data.draw(weights_for(P))
    tuples = as_label_tuples(P)
    own = alpha[tuples.partition_order]
    omega = cluster_weights(tuples, own)
    S = locally_weighted_similarity(tuples, own, omega)
    expected = looped_similarity(P, alpha, looped_weights(P, alpha, 0.4))
    np.testing.assert_allclose(S[np.ix_(tuples.inverse, tuples.inverse)], expected, atol=1e-12)


@pytest.mark.parametrize("K", [1, 2, 3, 4])
def test_linkage_is_average_linkage_over_all_points(ensemble, K):
    """LWEA is SciPy's tree of the dense 1 − S over points, cut between distinct tuples."""
    P, _, alpha = ensemble
    S = looped_similarity(P, alpha / alpha.sum(), looped_weights(P, alpha, 0.4))
    D = 1 - S
    np.fill_diagonal(D, 0)
    full = fcluster(linkage(squareform(D, checks=False), "average"), K, "maxclust")
    inverse = as_label_tuples(P).inverse
    assert len(np.unique(np.column_stack([inverse, full]), axis=0)) == inverse.max() + 1
    est = ct.LocallyWeightedConsensus(K, partition_weights=alpha).fit(P)
    assert ct.clustering_accuracy(full, est.labels_) == 1


def test_graph_is_the_transfer_cut_over_all_points(ensemble):
    """LWGP is the cut of the weighted one-hot labels of the points."""
    P, _, alpha = ensemble
    weights = looped_weights(P, alpha, 0.4)
    columns = [
        alpha[v] * w[label] * (P[:, v] == label)
        for v, w in enumerate(weights)
        for label in range(len(w))
    ]
    B = csr_array(np.column_stack(columns))
    full = transfer_cut(B, np.ones(len(P)), 3, random_state=1)
    est = ct.LocallyWeightedConsensus(
        3, strategy="graph", partition_weights=alpha, random_state=0
    ).fit(P)
    assert ct.clustering_accuracy(full, est.labels_) == 1


def test_large_theta_is_evidence_accumulation(ensemble):
    """With a very large theta LWEA is EAC."""
    P, _, alpha = ensemble
    plain = ct.EvidenceAccumulation(4, partition_weights=alpha).fit(P)
    est = ct.LocallyWeightedConsensus(4, theta=1e9, partition_weights=alpha).fit(P)
    assert ct.clustering_accuracy(plain.labels_, est.labels_) == 1
    np.testing.assert_allclose(np.concatenate(est.cluster_weights_), 1, atol=1e-8)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_theta_next_to_nothing_silences_no_point(ensemble, strategy):
    """With a tiny theta weights stay positive, and there are K clusters."""
    est = ct.LocallyWeightedConsensus(3, strategy=strategy, theta=1e-6, random_state=0)
    est.fit(ensemble[0])
    assert est.n_clusters_ == 3
    assert np.concatenate(est.cluster_weights_).min() > 0


def walks_of(E, n_steps):
    """The concatenated random walks of the definition, (m, m · T)."""
    E = E - np.diag(E.diagonal())
    P = E / np.maximum(E.sum(axis=1, keepdims=True), 1e-300)
    powers = [P]
    for _ in range(n_steps - 1):
        powers.append(powers[-1] @ P)
    return np.hstack(powers)


@pytest.mark.parametrize("n_steps", [1, 2, 20])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_similarity_is_the_cosine_of_the_walks(n_steps, missing):
    """The closed form equals the walks step by step."""
    P, _ = ct.planted_partitions([40, 20, 10], 6, 2, 0.3, random_state=0)
    P[np.random.default_rng(0).random(P.shape) < missing] = -1
    tuples = as_label_tuples(P[(P >= 0).any(axis=1)])
    E = jaccard_similarity(all_contingencies(tuples), tuples.offsets)
    walks = walks_of(E, n_steps)
    length = np.linalg.norm(walks, axis=1)
    expected = (walks @ walks.T) / np.outer(length, length)
    np.fill_diagonal(expected, 1.0)
    np.testing.assert_allclose(propagated_similarity(E, n_steps), expected, atol=1e-9)


def test_many_equal_eigenvalues_are_no_problem():
    """Copies of a partition are similar to each other, and clusters without overlap are not."""
    E = np.kron(np.ones((60, 60)), np.eye(4))
    walks = walks_of(E, 2)
    squares = (walks**2).sum(axis=1)
    expected = np.where(np.eye(240), 1.0, walks @ walks.T / squares)
    np.testing.assert_allclose(propagated_similarity(E, 2), expected, atol=1e-9)
