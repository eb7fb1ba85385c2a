"""CSPA and HBGF."""

import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

import coterie as ct
from all_partitions import same_partition
from coterie.consensus.cuts import graph_cuts
from coterie.consensus.cuts.graph_cuts import CSPA, HBGF
from coterie.errors import InvalidParameterError, MissingExtraError, TooManyPointsError
from coterie.labels.tuples import as_label_tuples
from label_matrices import label_matrices, pair_votes

NEEDED = "the extra 'partitioners' is not installed"


@pytest.fixture(params=[CSPA, HBGF], ids=["CSPA", "HBGF"])
def method(request):
    """One of the two classes."""
    return request.param


@pytest.fixture(params=["metis", "spectral"])
def partitioner(request):
    """METIS if it is there, and the relaxation."""
    if request.param == "metis":
        pytest.importorskip("pymetis", reason=NEEDED)
    return request.param


def dense_graph(P, weights):
    """A (n, n): the total weight times the share of it that puts two points together."""
    together, both = (np.tensordot(weights, x, axes=1) for x in pair_votes(P))
    return weights.sum() * np.divide(together, both, out=np.zeros_like(together), where=both > 0)


def normalised_cut_by_the_book(A, n_clusters):
    """Rows of the leading eigenvectors of D^−½ A D^−½ over all points, unit length."""
    root = 1 / np.sqrt(A.sum(axis=1))
    rows = np.linalg.eigh(root[:, None] * A * root)[1][:, -n_clusters:]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_metis_balances_and_the_relaxation_does_not(method):
    """Unequal clusters are cut to the same size by METIS, and found without balance."""
    pytest.importorskip("pymetis", reason=NEEDED)
    P, y = ct.planted_partitions([200, 60, 40], 20, 0, 0.2, random_state=0)
    cut = method(3, partitioner="metis", random_state=0).fit(P)
    assert np.bincount(cut.labels_).max() < 1.1 * 100
    relaxed = method(3, partitioner="spectral", random_state=0).fit(P)
    assert ct.clustering_accuracy(y, relaxed.labels_) > 0.99
    loose = method(3, partitioner="metis", imbalance=2, random_state=0).fit(P)
    assert loose.loss_ < cut.loss_


def test_points_alike_stay_together(method):
    """Points with equal labels stay together, even if too many for a balanced part."""
    pytest.importorskip("pymetis", reason=NEEDED)
    kinds = np.array([[0, 0], [0, 1], [1, 2], [2, 2]])
    tuple_of_point = np.repeat([0, 1, 2, 3], [60, 3, 2, 2])
    est = method(3, partitioner="metis", random_state=0).fit(kinds[tuple_of_point])
    assert est.n_clusters_ == 3
    assert all(len(set(est.labels_[tuple_of_point == a])) == 1 for a in range(4))


@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_spectral_cspa_is_spectral_clustering_of_the_coassociation(holes):
    """Labels equal those of the textbook on the full matrix, with weights and missing labels."""
    P, _ = ct.planted_partitions([60, 30, 20], 8, 2, 0.2, random_state=0)
    P[:, 1:] = np.where(np.random.default_rng(4).random((110, 7)) < holes, -1, P[:, 1:])
    weights = np.array([1, 1, 2, 1, 0.5, 1, 1, 1])
    rows = normalised_cut_by_the_book(ct.coassociation(P, weights), 3)
    dense = KMeans(3, n_init=20, random_state=0).fit_predict(rows)
    est = CSPA(3, partitioner="spectral", partition_weights=weights, random_state=0).fit(P)
    assert same_partition(est.labels_, dense)


@given(label_matrices(max_points=9), st.integers(1, 3), st.sampled_from(["auto", "spectral"]))
@settings(deadline=None, max_examples=25)
def test_losses_are_what_is_cut(P, n_clusters, partitioner):
    """CSPA's loss is the weight of edges cut; HBGF's that of links, base clusters placed best."""
    weights = np.arange(1.0, P.shape[1] + 1)
    K = min(n_clusters, len(np.unique(P, axis=0)))
    kind = {"partitioner": partitioner, "partition_weights": weights, "random_state": 0}
    cspa = CSPA(K, **kind).fit(P)
    A = dense_graph(P, weights)
    assert cspa.loss_ == pytest.approx(A[cspa.labels_[:, None] != cspa.labels_].sum() / 2)
    hbgf = HBGF(K, **kind).fit(P)
    cut = 0.0
    for v, c in product(range(P.shape[1]), range(4)):
        places = hbgf.labels_[P[:, v] == c]
        cut += min((weights[v] * (places != b).sum() for b in range(K)), default=0.0)
    assert hbgf.loss_ == pytest.approx(cut)
    assert cspa.n_clusters_ <= K and hbgf.n_clusters_ <= K


@pytest.mark.parametrize("seed", range(4))
def test_edges_are_counts(seed):
    """Whole weights and complete labels give METIS the exact sum of weights of a pair."""
    rng = np.random.default_rng(seed)
    P, weights = rng.integers(3, size=(20, 4)), rng.integers(1, 5, size=4)
    tuples = as_label_tuples(P)
    edges = graph_cuts._edge_weights(tuples, weights[tuples.partition_order])
    counts = tuples.expand(tuples.expand(edges).T)
    assert (counts == np.tensordot(weights, pair_votes(P)[0], axes=1)).all()


def test_edges_with_missing_labels_are_shares():
    """With a missing label the edge is the share among the partitions that label both."""
    P = np.array([[0, 0, 0], [0, 1, -1], [1, 1, 0]])
    tuples = as_label_tuples(P)
    edges = tuples.expand(tuples.expand(graph_cuts._edge_weights(tuples, np.ones(3, int))).T)
    assert (edges == [[1000, 500, 333], [500, 1000, 500], [333, 500, 1000]]).all()


def test_fractional_weights_equal_copies(method, partitioner):
    """Weights with whole ratios equal copies of the partitions."""
    partition_weights = [0.5, 0.25, 0.25, 0.75, 0.25, 0.25]
    P, _ = ct.planted_partitions([40, 40, 40], 6, 1, 0.1, random_state=2)
    kind = {"partitioner": partitioner, "random_state": 0}
    weighted = method(3, partition_weights=partition_weights, **kind).fit(P)
    copied = method(3, **kind).fit(np.repeat(P, [2, 1, 1, 3, 1, 1], axis=1))
    assert same_partition(weighted.labels_, copied.labels_)
    assert weighted.loss_ * 9 / sum(partition_weights) == pytest.approx(copied.loss_)


def test_points_with_labels_of_weight_zero_only(method, partitioner):
    """Points with labels only in partitions of weight 0 follow these, outside balance and cut."""
    kinds = np.array([[0, 0, 0], [1, 1, 1], [1, 0, 1], [-1, -1, 0], [-1, -1, 1]])
    of_point = np.repeat(np.arange(5), [5, 6, 1, 20, 20])
    weights = [1, 2, 0]
    est = method(2, partitioner=partitioner, partition_weights=weights, random_state=0)
    est.fit(kinds[of_point])
    assert same_partition(est.labels_, np.array([0, 1, 0, 0, 1])[of_point])
    assert est.loss_ == pytest.approx({CSPA: 6, HBGF: 1}[method])


def test_one_partition(method, partitioner):
    """V = 1: as many clusters as it has gives it back, fewer merges whole clusters of it."""
    y = np.repeat([0, 1, 2, 3], 6)[:, None]
    four, two = (method(K, partitioner=partitioner, random_state=0).fit(y) for K in (4, 2))
    assert same_partition(four.labels_, y.ravel()) and four.loss_ == 0
    assert two.n_clusters_ == 2 and two.loss_ == 0


def test_many_points_of_a_base_cluster_are_not_merged_blindly():
    """HBGF with METIS finds five clusters of thousands of points that share few base clusters."""
    pytest.importorskip("pymetis", reason=NEEDED)
    P, y = ct.planted_partitions([1200] * 5, 20, 0, 0.2, random_state=0)
    est = HBGF(5, partitioner="metis", random_state=0).fit(P)
    assert ct.clustering_accuracy(y, est.labels_) > 0.99


def test_base_clusters_do_not_count_in_the_balance():
    """HBGF balances points only, even if the halves have different numbers of base clusters."""
    pytest.importorskip("pymetis", reason=NEEDED)
    column = np.concatenate([np.arange(20), np.full(20, 20)])
    P = np.column_stack([column] * 3)
    est = HBGF(2, partitioner="metis", imbalance=0.01, random_state=0).fit(P)
    assert est.loss_ == 0 and np.bincount(est.labels_).max() <= 21


def test_without_the_package(method, monkeypatch):
    """auto uses the relaxation; METIS by name is refused with the command to install it."""
    monkeypatch.setitem(sys.modules, "pymetis", None)
    P, y = ct.planted_partitions([30, 20, 10], 8, 0, 0.1, random_state=0)
    est = method(3, random_state=0).fit(P)
    assert est.partitioner_ == "spectral" and ct.clustering_accuracy(y, est.labels_) == 1
    with pytest.raises(MissingExtraError, match=r"pip install .*\[partitioners\]'"):
        method(3, partitioner="metis").fit(P)


def test_bad_parameters_are_named(method):
    """An unknown partitioner and a negative imbalance are refused in fit."""
    P = [[0], [1], [2]]
    with pytest.raises(InvalidParameterError, match="partitioner='kahypar'"):
        method(2, partitioner="kahypar").fit(P)
    with pytest.raises(InvalidParameterError, match="imbalance=-1"):
        method(2, imbalance=-1).fit(P)


def test_too_large_a_graph_is_refused(partitioner):
    """CSPA limits points with METIS and tuples without it; the other limit is ignored."""
    P = np.repeat(np.arange(4), 5)[:, None]
    limit, other = ("max_points", "max_tuples")[:: 1 if partitioner == "metis" else -1]
    kind = {"partitioner": partitioner, "random_state": 0}
    with pytest.raises(TooManyPointsError, match=f"{limit}=3"):
        CSPA(2, **kind, **{limit: 3}).fit(P)
    assert CSPA(2, **kind, **{other: 3}).fit(P).n_clusters_ == 2


@pytest.mark.parametrize("method", [ct.CSPA, ct.HBGF, ct.MCLA])
def test_a_few_points_need_not_be_cut_into_equal_parts(method):
    """Seven points in parts of 3, 2 and 2: the example of Strehl and Ghosh comes out right."""
    P = [
        [1, 1, 1, 2, 2, 3, 3],
        [2, 2, 2, 3, 3, 1, 1],
        [1, 1, 2, 2, 3, 3, 3],
        [1, 2, -1, 1, 2, -1, -1],
    ]
    for seed in range(3):
        labels = method(3, random_state=seed).fit(np.transpose(P)).labels_
        assert same_partition(labels, np.array([0, 0, 0, 1, 1, 2, 2]))
