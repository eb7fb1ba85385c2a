"""HGPA."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

import coterie as ct
from all_partitions import same_partition
from coterie.consensus.cuts.graph_cuts import HBGF
from coterie.consensus.cuts.hypergraph_cut import HGPA
from label_matrices import label_matrices

NEEDED = "the extra 'partitioners' is not installed"


@pytest.fixture(params=["kahypar", "spectral"])
def partitioner(request):
    """mt-KaHyPar if it is there, and the relaxation."""
    if request.param == "kahypar":
        pytest.importorskip("mtkahypar", reason=NEEDED)
    return request.param


def incidence(P):
    """B (n, m) of all base clusters, dense, and the partition of each."""
    columns = [(v, c) for v in range(P.shape[1]) for c in np.unique(P[:, v]) if c >= 0]
    B = np.column_stack([P[:, v] == c for v, c in columns]).astype(float)
    return B, np.array([v for v, _ in columns])


def zhou_rows(P, weights, n_clusters):
    """Unit rows of H√Λ of Θ = D_v^−½ B W D_e^−1 Bᵀ D_v^−½ over all points."""
    B, partition = incidence(P)
    W = weights[partition]
    root = 1 / np.sqrt(B @ W)
    theta = root[:, None] * (B * (W / B.sum(axis=0))) @ B.T * root
    values, vectors = np.linalg.eigh(theta)
    rows = vectors[:, -n_clusters:] * np.sqrt(values[-n_clusters:])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_clusters_are_of_equal_size():
    """With mt-KaHyPar no cluster exceeds its share by more than the imbalance, rounded up."""
    pytest.importorskip("mtkahypar", reason=NEEDED)
    P = np.random.default_rng(0).integers(4, size=(90, 6))
    assert len(np.unique(P, axis=0)) == 90
    est = HGPA(4, partitioner="kahypar", random_state=0).fit(P)
    assert np.bincount(est.labels_).max() <= np.ceil(1.05 * np.ceil(90 / 4))


def test_the_relaxation_is_that_of_zhou_huang_and_scholkopf():
    """Labels equal k-means on the eigenvectors of their Laplacian over all points."""
    P, _ = ct.planted_partitions([60, 30, 20], 8, 2, 0.2, random_state=0)
    weights = np.array([1, 1, 2, 1, 0.5, 1, 1, 1])
    rows = zhou_rows(P, weights, 3)
    dense = KMeans(3, n_init=20, random_state=0).fit_predict(rows)
    est = HGPA(3, partitioner="spectral", partition_weights=weights, random_state=0).fit(P)
    assert same_partition(est.labels_, dense)


def test_the_relaxation_is_that_of_the_bipartite_graph():
    """The spectral variants of HGPA and HBGF have equal labels and different losses."""
    P = np.random.default_rng(1).integers(4, size=(80, 5))
    a, b = (m(3, partitioner="spectral", random_state=0).fit(P) for m in (HGPA, HBGF))
    assert (a.labels_ == b.labels_).all() and a.loss_ != b.loss_


@given(label_matrices(max_points=9), st.integers(1, 3), st.sampled_from(["auto", "spectral"]))
@settings(deadline=None, max_examples=25)
def test_the_loss_counts_the_pieces_of_base_clusters(P, n_clusters, partitioner):
    """The loss is Σ_c α_c (λ_c − 1), computed from the labels; −1 is in no base cluster."""
    weights = np.arange(1.0, P.shape[1] + 1)
    K = min(n_clusters, len(np.unique(P, axis=0)))
    est = HGPA(K, partitioner=partitioner, partition_weights=weights, random_state=0).fit(P)
    B, partition = incidence(P)
    pieces = np.array([len(set(est.labels_[column > 0])) for column in B.T])
    assert est.loss_ == pytest.approx(weights[partition] @ (pieces - 1))
    assert est.n_clusters_ <= K


def test_points_alike_stay_together():
    """Points with equal labels stay together, even if too many for a balanced part."""
    pytest.importorskip("mtkahypar", reason=NEEDED)
    kinds = np.array([[0, 0], [0, 1], [1, 2], [2, 2]])
    tuple_of_point = np.repeat([0, 1, 2, 3], [60, 3, 2, 2])
    est = HGPA(3, partitioner="kahypar", random_state=0).fit(kinds[tuple_of_point])
    assert est.n_clusters_ == 3
    assert all(len(set(est.labels_[tuple_of_point == a])) == 1 for a in range(4))


def test_base_clusters_of_one_point_say_nothing(partitioner):
    """If every base cluster has one point, there are still K clusters."""
    P = np.column_stack([np.arange(12), np.arange(12)[::-1]])
    est = HGPA(3, partitioner=partitioner, random_state=0).fit(P)
    assert est.n_clusters_ == 3 and est.loss_ == 0


def test_weights_decide(partitioner):
    """Of two independent partitions the one of larger weight decides."""
    a, b = np.repeat([0, 1], 8), np.tile([0, 1], 8)
    P = np.column_stack([a, b])
    for weights, winner in (([3, 1], a), ([1, 3], b), ([0, 1], b), ([0.9, 0.2], a)):
        est = HGPA(2, partitioner=partitioner, partition_weights=weights, random_state=0).fit(P)
        assert same_partition(est.labels_, winner)


def test_points_with_labels_of_weight_zero_only(partitioner):
    """Points with labels only in partitions of weight 0 follow these, outside balance and cut."""
    kinds = np.array([[0, 0, 0], [1, 1, 1], [1, 0, 1], [-1, -1, 0], [-1, -1, 1]])
    of_point = np.repeat(np.arange(5), [5, 6, 1, 20, 20])
    est = HGPA(2, partitioner=partitioner, partition_weights=[1, 2, 0], random_state=0)
    est.fit(kinds[of_point])
    assert same_partition(est.labels_, np.array([0, 1, 0, 0, 1])[of_point])
    assert est.loss_ == 1
