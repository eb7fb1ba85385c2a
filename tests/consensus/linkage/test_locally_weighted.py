"""LocallyWeightedConsensus against loops over points and clusters."""

from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import csr_array
from scipy.spatial.distance import squareform

import coterie as ct
from coterie.consensus.linkage import (
    EvidenceAccumulation,
    LocallyWeightedConsensus,
    cluster_weights,
    locally_weighted_similarity,
)
from coterie.errors import CoterieError
from coterie.labels.tuples import as_label_tuples
from coterie.relaxation.spectral import transfer_cut
from label_matrices import label_matrices, weights_for

STRATEGIES = ("linkage", "graph")


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


@settings(deadline=None, max_examples=25)
@given(st.data(), st.floats(0.1, 5))
def test_cluster_weights_are_those_of_the_formula(data, theta):
    """Entropies counted point by point, in the user's order of partitions and labels."""
    P = data.draw(label_matrices())
    alpha = data.draw(weights_for(P))
    est = LocallyWeightedConsensus(1, theta=theta, partition_weights=alpha).fit(P)
    expected = looped_weights(P, alpha, theta)
    assert len(est.cluster_weights_) == P.shape[1]
    for found, wanted in zip(est.cluster_weights_, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9)


@settings(deadline=None, max_examples=25)
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
    est = LocallyWeightedConsensus(K, partition_weights=alpha).fit(P)
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
    est = LocallyWeightedConsensus(
        3, strategy="graph", partition_weights=alpha, random_state=0
    ).fit(P)
    assert ct.clustering_accuracy(full, est.labels_) == 1


def test_large_theta_is_evidence_accumulation(ensemble):
    """With a very large theta LWEA is EAC."""
    P, _, alpha = ensemble
    plain = EvidenceAccumulation(4, partition_weights=alpha).fit(P)
    est = LocallyWeightedConsensus(4, theta=1e9, partition_weights=alpha).fit(P)
    assert ct.clustering_accuracy(plain.labels_, est.labels_) == 1
    np.testing.assert_allclose(np.concatenate(est.cluster_weights_), 1, atol=1e-8)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_theta_next_to_nothing_silences_no_point(ensemble, strategy):
    """With a tiny theta weights stay positive, and there are K clusters."""
    est = LocallyWeightedConsensus(3, strategy=strategy, theta=1e-6, random_state=0)
    est.fit(ensemble[0])
    assert est.n_clusters_ == 3
    assert np.concatenate(est.cluster_weights_).min() > 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_scattered_clusters_do_not_mislead(strategy):
    """Partitions that are random in one region do not decide there."""
    rng = np.random.default_rng(4)
    y = np.repeat([0, 1, 2], [40, 30, 20])
    P = np.column_stack([y] * 9)
    P[:, 5:] = np.where(y[:, None] == 2, 2, rng.integers(0, 2, (90, 4)))
    est = LocallyWeightedConsensus(3, strategy=strategy, random_state=0).fit(P)
    assert ct.clustering_accuracy(y, est.labels_) == 1
    # the cluster that all nine know is certain, those that four scatter are not
    assert est.cluster_weights_[0][2] == 1 > est.cluster_weights_[0][0]
    assert est.cluster_weights_[0][0] > est.cluster_weights_[8][0]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_partitions_of_weight_zero_separate_no_points(strategy):
    """A partition of weight 0 separates no points, but its clusters have weights."""
    P = np.array([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1]])
    est = LocallyWeightedConsensus(
        4, strategy=strategy, partition_weights=[1, 0], random_state=0
    ).fit(P)
    assert est.labels_.tolist() == [0, 0, 0, 1, 1]
    np.testing.assert_allclose(est.cluster_weights_[0], 1)
    np.testing.assert_allclose(est.cluster_weights_[1], np.exp([-2.5, -2.5, 0]))


def test_only_linkage_minds_the_number_of_tuples(ensemble):
    """``max_tuples`` does not limit the graph, which needs no matrix over tuples."""
    P = ensemble[0]
    with pytest.raises(CoterieError, match=r'strategy="linkage"\) is quadratic.* max_tuples=5'):
        LocallyWeightedConsensus(3, max_tuples=5).fit(P)
    est = LocallyWeightedConsensus(3, strategy="graph", max_tuples=5, random_state=0).fit(P)
    assert est.n_clusters_ == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strategy": "tree"}, "strategy='tree': give 'linkage'"),
        ({"theta": 0}, "theta=0: give a finite number above 0"),
        ({"max_tuples": 1.5}, "max_tuples=1.5"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    """The message names the parameter and its valid values."""
    with pytest.raises(ValueError, match=message) as caught:
        LocallyWeightedConsensus(**{"n_clusters": 2, **settings}).fit([[0, 0], [0, 1], [1, 1]])
    assert isinstance(caught.value, CoterieError)
