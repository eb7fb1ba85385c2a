"""Cluster and item consensus, compared with means of the co-association of all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from coterie import (
    ConsensusClusterer,
    EvidenceAccumulation,
    L2Consensus,
    MultiViewKMeans,
    coassociation,
    planted_partitions,
)
from coterie.consensus.cluster_consensus import cluster_consensus, fitted_rows, item_consensus
from coterie.errors import InvalidParameterError
from label_matrices import label_matrices, pair_votes, weights_for
from soft_memberships import pair_matrices, soft_partitions

Array = np.ndarray


def _by_definition(together: Array, both: Array, labels: Array) -> tuple[Array, Array]:
    """Return the cluster and item consensus from the votes of every pair, (n, n) each."""
    members = np.eye(labels.max() + 1)[labels]
    others = 1 - np.eye(len(labels))
    sums, numbers = ((x * others) @ members for x in (together, both))
    of_clusters = members.T @ (together * others) @ members, members.T @ (both * others) @ members
    with np.errstate(invalid="ignore", divide="ignore"):
        item = np.where(numbers > 1e-9, sums / numbers, np.nan)
        total, number = (x.diagonal() for x in of_clusters)
        return np.where(number > 1e-9, total / number, np.nan), item


def _assert_equal(est: object, together: Array, both: Array) -> None:
    cluster, item = _by_definition(together, both, est.labels_)  # type: ignore[attr-defined]
    np.testing.assert_allclose(cluster_consensus(est), cluster, atol=1e-9)
    np.testing.assert_allclose(item_consensus(est), item, atol=1e-9)


@given(data=st.data(), K=st.integers(1, 4))
def test_means_of_labels_equal_their_definition(data: st.DataObject, K: int) -> None:
    """Both equal a loop over all pairs and partitions, with weights and missing labels."""
    P = data.draw(label_matrices(max_points=9))
    weights = data.draw(weights_for(P))
    n_tuples = len(np.unique(P, axis=0))
    est = EvidenceAccumulation(min(K, n_tuples), partition_weights=weights).fit(P)
    _assert_equal(est, *(np.tensordot(weights, votes, axes=1) for votes in pair_votes(P)))


@given(P=soft_partitions(), K=st.integers(1, 3))
def test_means_of_memberships_equal_their_definition(P: list[Array], K: int) -> None:
    """For soft partitions, votes are products of memberships."""
    n_tuples = len(np.unique(np.hstack(P), axis=0))
    est = EvidenceAccumulation(min(K, n_tuples)).fit(P)
    _assert_equal(est, *(matrices.sum(axis=0) for matrices in pair_matrices(P)))


def test_means_are_those_of_the_coassociation() -> None:
    """Without missing labels both are plain means of M."""
    P, _ = planted_partitions([30, 20, 10], 8, n_bad=2, noise=0.3, random_state=0)
    est = L2Consensus(3, random_state=0).fit(P)
    M, labels = coassociation(P), est.labels_
    for b, value in enumerate(cluster_consensus(est)):
        inside = M[np.ix_(labels == b, labels == b)]
        assert value == pytest.approx(inside[np.triu_indices(len(inside), 1)].mean())
    item = item_consensus(est)
    assert item[0, labels[0]] == pytest.approx(np.delete(M[0], 0)[labels[1:] == labels[0]].mean())
    other = (labels[0] + 1) % 3
    assert item[0, other] == pytest.approx(M[0, labels == other].mean())


def test_row_weights_are_copies() -> None:
    """A row of weight 2 counts as two points, each of which has a companion."""
    P = np.array([[0, 0], [0, 1], [1, 2], [1, 2], [2, 2]])
    counts = np.array([2, 1, 3, 1, 1])
    heavy = EvidenceAccumulation(2).fit(P, sample_weight=counts)
    copied = EvidenceAccumulation(2).fit(np.repeat(P, counts, axis=0))
    np.testing.assert_allclose(cluster_consensus(heavy), cluster_consensus(copied))
    first = np.cumsum(counts) - counts
    np.testing.assert_allclose(item_consensus(heavy), item_consensus(copied)[first])


def test_points_outside_the_fit_have_no_item_consensus() -> None:
    """Rows without a label and rows of weight 0 are nan; the others keep their place."""
    P, _ = planted_partitions([20, 10], 6, n_bad=0, noise=0.2, random_state=0)
    P[[0, 9]] = -1
    weights = np.ones(30)
    weights[[4, 29]] = 0
    est = L2Consensus(2, random_state=0).fit(P, sample_weight=weights)
    item = item_consensus(est)
    outside = [0, 4, 9, 29]
    assert np.isnan(item[outside]).all()
    kept = np.delete(np.arange(30), outside)
    assert fitted_rows(est).tolist() == kept.tolist()
    alone = L2Consensus(2, random_state=0).fit(P[kept])
    np.testing.assert_allclose(item[kept], item_consensus(alone))
    np.testing.assert_allclose(cluster_consensus(est), cluster_consensus(alone))


def test_a_cluster_of_one_point_has_no_pairs() -> None:
    """Its cluster consensus and the item consensus of its point are nan; others are not."""
    est = EvidenceAccumulation(2).fit([[0, 0], [0, 0], [1, 1]])
    np.testing.assert_array_equal(cluster_consensus(est), [1.0, np.nan])
    np.testing.assert_array_equal(item_consensus(est), [[1, 0], [1, 0], [0, np.nan]])


def test_clusterers_are_read_through_their_consensus() -> None:
    """A clusterer of features has the values of its consensus; others have no partitions."""
    X = np.append(np.linspace(0, 1, 12), np.linspace(5, 6, 12))[:, None]
    est = ConsensusClusterer(2, n_partitions=5, random_state=0).fit(X)
    np.testing.assert_array_equal(cluster_consensus(est), cluster_consensus(est.consensus_))
    assert item_consensus(est).shape == (24, 2)
    with pytest.raises(InvalidParameterError, match="not a consensus of partitions"):
        cluster_consensus(MultiViewKMeans(2, random_state=0).fit([X, X]))
    with pytest.raises(NotFittedError):
        item_consensus(L2Consensus(2))
