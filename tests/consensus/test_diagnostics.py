"""Reports on a fitted consensus, compared with scores of each column and with all pairs."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score

import coterie as ct
from coterie.consensus.results import fitted_rows
from coterie.errors import InvalidParameterError
from coterie.inspection.scores import mirkin_distance
from label_matrices import label_matrices, pair_votes, weights_for
from soft_memberships import pair_matrices, soft_partitions

pytestmark = pytest.mark.filterwarnings("ignore:all . partitions are the same")


@pytest.fixture(scope="module")
def spoilt():
    """Return six noisy copies of one partition, and four of a wrong one."""
    return ct.planted_partitions([60, 30, 10], 10, n_bad=4, noise=0.1, random_state=0)[0]


@pytest.fixture(scope="module")
def fitted(spoilt):
    """Return their consensus."""
    return ct.RobustConsensus(3, random_state=0).fit(spoilt)


def test_rows_equal_pairwise_scores(spoilt, fitted):
    """Agreement, distance and number of clusters equal scores of each column, the best first."""
    n = len(spoilt)
    rows = ct.partition_report(fitted)
    assert sorted(row.name for row in rows) == sorted(map(str, range(10)))
    for row in rows:
        column = spoilt[:, int(row.name)]
        assert row.n_clusters == len(np.unique(column))
        assert row.agreement == pytest.approx(adjusted_rand_score(column, fitted.labels_))
        distance = mirkin_distance(column, fitted.labels_)
        assert row.mirkin_share == pytest.approx(distance / (n * (n - 1)))
        assert row.weight == fitted.partition_weights_[int(row.name)]
        assert row.camp == fitted.partition_groups_[int(row.name)]
    assert [r.agreement for r in rows] == sorted((r.agreement for r in rows), reverse=True)
    assert [r.odd_one_out for r in rows] == [False] * 6 + [True] * 4
    # with equal weights the dissenters vote, and are still marked
    equal = ct.RobustConsensus(3, partition_weights=None, random_state=0).fit(spoilt)
    rows = ct.partition_report(equal)
    assert {row.name for row in rows if row.odd_one_out} == {"6", "7", "8", "9"}
    assert {row.weight for row in rows} == {1.0}


def test_missing_labels_are_left_out_of_both_scores(spoilt):
    """A partition is compared with the consensus over the points it labels."""
    P = spoilt.copy()
    P[:40, 2] = -1
    est = ct.RobustConsensus(3, random_state=0).fit(P)
    row = next(row for row in ct.partition_report(est) if row.name == "2")
    seen, labels = P[40:, 2], est.labels_[40:]
    assert row.agreement == pytest.approx(adjusted_rand_score(seen, labels))
    assert row.mirkin_share == pytest.approx(mirkin_distance(seen, labels) / (60 * 59))
    assert row.coverage == est.partition_coverage_[2] == 0.6


def test_methods_without_camps_get_them_found(spoilt, fitted):
    """The camps do not depend on the consensus function."""
    camps = {
        row.name: row.camp
        for row in ct.partition_report(ct.L2Consensus(3, random_state=0).fit(spoilt))
    }
    assert camps == {row.name: row.camp for row in ct.partition_report(fitted)}


def test_names_come_from_the_caller_or_the_table(spoilt):
    """Given names win over column names; a wrong number of them is refused."""
    est = ct.RobustConsensus(3, random_state=0).fit(pd.DataFrame(spoilt).add_prefix("view"))
    assert {row.name for row in ct.partition_report(est)} == {f"view{v}" for v in range(10)}
    assert {row.name for row in ct.partition_report(est, names=list("abcdefghij"))} == set(
        "abcdefghij"
    )
    with pytest.raises(InvalidParameterError, match="2 entries for 10 partitions"):
        ct.partition_report(est, names=["a", "b"])


def test_points_come_by_rising_confidence(fitted):
    """The n least certain points have their cluster and confidence; n is an integer from 1 up."""
    rows = ct.point_report(fitted, n=7)
    assert [r.confidence for r in rows] == np.sort(fitted.confidence_)[:7].tolist()
    assert [r.cluster for r in rows] == fitted.labels_[[r.point for r in rows]].tolist()
    assert len(ct.point_report(fitted, n=1000)) == 100
    for n in (0, -1, 2.5, True):
        with pytest.raises(InvalidParameterError, match="n="):
            ct.point_report(fitted, n=n)


def test_what_is_no_fitted_consensus_is_refused():
    """Unfitted estimators and other clusterers are refused."""
    with pytest.raises(NotFittedError):
        ct.partition_report(ct.RobustConsensus(2))
    with pytest.raises(InvalidParameterError, match="KMeans is not a consensus"):
        ct.point_report(KMeans(2, n_init=1).fit([[0.0], [1.0]]))


Array = np.ndarray


def _by_definition(together, both, labels):
    """Return the cluster and item consensus from the votes of every pair, (n, n) each."""
    members = np.eye(labels.max() + 1)[labels]
    others = 1 - np.eye(len(labels))
    sums, numbers = ((x * others) @ members for x in (together, both))
    of_clusters = members.T @ (together * others) @ members, members.T @ (both * others) @ members
    with np.errstate(invalid="ignore", divide="ignore"):
        item = np.where(numbers > 1e-9, sums / numbers, np.nan)
        total, number = (x.diagonal() for x in of_clusters)
        return np.where(number > 1e-9, total / number, np.nan), item


def _assert_equal(est, together, both):
    cluster, item = _by_definition(together, both, est.labels_)
    np.testing.assert_allclose(ct.cluster_consensus(est), cluster, atol=1e-9)
    np.testing.assert_allclose(ct.item_consensus(est), item, atol=1e-9)


@given(data=st.data(), K=st.integers(1, 4))
def test_means_of_labels_equal_their_definition(data, K):
    """Both equal a loop over all pairs and partitions, with weights and missing labels."""
    P = data.draw(label_matrices(max_points=9))
    weights = data.draw(weights_for(P))
    n_tuples = len(np.unique(P, axis=0))
    est = ct.EvidenceAccumulation(min(K, n_tuples), partition_weights=weights).fit(P)
    _assert_equal(est, *(np.tensordot(weights, votes, axes=1) for votes in pair_votes(P)))


@given(P=soft_partitions(), K=st.integers(1, 3))
def test_means_of_memberships_equal_their_definition(P, K):
    """For soft partitions, votes are products of memberships."""
    n_tuples = len(np.unique(np.hstack(P), axis=0))
    est = ct.EvidenceAccumulation(min(K, n_tuples)).fit(P)
    _assert_equal(est, *(matrices.sum(axis=0) for matrices in pair_matrices(P)))


def test_row_weights_are_copies():
    """A row of weight 2 counts as two points, each of which has a companion."""
    P = np.array([[0, 0], [0, 1], [1, 2], [1, 2], [2, 2]])
    counts = np.array([2, 1, 3, 1, 1])
    heavy = ct.EvidenceAccumulation(2).fit(P, sample_weight=counts)
    copied = ct.EvidenceAccumulation(2).fit(np.repeat(P, counts, axis=0))
    np.testing.assert_allclose(ct.cluster_consensus(heavy), ct.cluster_consensus(copied))
    first = np.cumsum(counts) - counts
    np.testing.assert_allclose(ct.item_consensus(heavy), ct.item_consensus(copied)[first])


def test_points_outside_the_fit_have_no_item_consensus():
    """Rows without a label and rows of weight 0 are nan; the others keep their place."""
    P, _ = ct.planted_partitions([20, 10], 6, n_bad=0, noise=0.2, random_state=0)
    P[[0, 9]] = -1
    weights = np.ones(30)
    weights[[4, 29]] = 0
    est = ct.L2Consensus(2, random_state=0).fit(P, sample_weight=weights)
    item = ct.item_consensus(est)
    outside = [0, 4, 9, 29]
    assert np.isnan(item[outside]).all()
    kept = np.delete(np.arange(30), outside)
    assert fitted_rows(est).tolist() == kept.tolist()
    alone = ct.L2Consensus(2, random_state=0).fit(P[kept])
    np.testing.assert_allclose(item[kept], ct.item_consensus(alone))
    np.testing.assert_allclose(ct.cluster_consensus(est), ct.cluster_consensus(alone))


def test_a_cluster_of_one_point_has_no_pairs():
    """Its cluster consensus and the item consensus of its point are nan; others are not."""
    est = ct.EvidenceAccumulation(2).fit([[0, 0], [0, 0], [1, 1]])
    np.testing.assert_array_equal(ct.cluster_consensus(est), [1.0, np.nan])
    np.testing.assert_array_equal(ct.item_consensus(est), [[1, 0], [1, 0], [0, np.nan]])
