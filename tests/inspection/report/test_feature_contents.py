"""Tests of the part on features: which features are listed, and where points are drawn."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from consensus_pages import clustered_features, fitted
from coterie import EvidenceAccumulation
from coterie.inspection.report import feature_contents as module
from coterie.inspection.report.feature_contents import features_part
from coterie.inspection.report.feature_contrasts import feature_contrasts


@pytest.fixture(scope="module")
def case():
    """Return features and the consensus of their partitions."""
    X, P, _ = clustered_features()
    return X, fitted(P)


def test_features_are_listed_by_falling_separation(case):
    """The rows have the numbers of all points; the constant feature is last."""
    X, est = case
    part = features_part(est, X, list("abcd"), None)
    expected = feature_contrasts(X, est.labels_)
    assert [row.name for row in part.rows][-1] == "d"
    shown = [row.separation for row in part.rows]
    assert shown == sorted(expected.separation.tolist(), reverse=True)
    assert (part.n_features, part.n_constant) == (4, 1)


def test_each_cluster_has_its_largest_differences(case):
    """Features are in the order of their absolute difference; constant ones are left out."""
    X, est = case
    part = features_part(est, X, list("abcd"), None)
    expected = feature_contrasts(X, est.labels_)
    for card in part.clusters:
        assert card.size == (est.labels_ == card.cluster).sum()
        assert {one.name for one in card.features} == set("abc")
        sizes = [abs(one.difference) for one in card.features]
        assert sizes == sorted(sizes, reverse=True)
        for one in card.features:
            j = "abcd".index(one.name)
            assert one.difference == expected.difference[card.cluster, j]
            assert one.cluster_mean == pytest.approx(X[est.labels_ == card.cluster, j].mean())
            assert one.mean == pytest.approx(X[:, j].mean())


def test_tables_are_cut_and_count_all(case, monkeypatch):
    """Of many features and clusters the first are listed, and all are counted."""
    X, est = case
    monkeypatch.setattr(module, "_MOST_FEATURES", 2)
    monkeypatch.setattr(module, "_MOST_DIFFERENCES", 1)
    monkeypatch.setattr(module, "_MOST_CLUSTERS", 2)
    part = features_part(est, X, None, None)
    assert (len(part.rows), part.n_features, len(part.clusters)) == (2, 4, 2)
    assert [len(card.features) for card in part.clusters] == [1, 1]


def test_one_or_two_features_are_drawn_as_they_are(case):
    """Up to two varying features are the axes, without scaling."""
    X, est = case
    two = features_part(est, X[:, [0, 3, 1]], ["a", "constant", "b"], None).map
    np.testing.assert_array_equal(two.coordinates, X[:, :2])
    assert (two.axis_names, two.is_scaled) == (("a", "b"), False)
    one = features_part(est, sp.csr_array(X[:, [0]]), ["a"], None).map
    np.testing.assert_array_equal(one.coordinates, np.column_stack([X[:, 0], np.arange(len(X))]))
    assert one.axis_names == ("a", "row")


def test_more_features_are_scaled_and_projected(case):
    """The projection has no unit: a feature in other units gives the same picture."""
    X, est = case
    first, second = (
        features_part(est, X * scale, None, None).map for scale in (1.0, [1e3, 1, 1e-3, 1])
    )
    np.testing.assert_allclose(first.coordinates, second.coordinates, atol=1e-9)
    assert first.is_scaled
    assert first.axis_names[0].startswith("principal component 1 (")
    sparse = features_part(est, sp.csr_array(X), None, None).map
    assert sparse.axis_names[0].startswith("singular vector 1 (")


def test_a_sample_is_drawn_and_named(case, monkeypatch):
    """Of many points a share of each cluster is drawn, with its own names and confidences."""
    X, est = case
    monkeypatch.setattr(module, "_MOST_SHOWN", 20)
    names = np.array([f"point {i}" for i in range(len(X))], dtype=object)
    drawn = features_part(est, X, None, names).map
    rows = [int(name.removeprefix("point ")) for name in drawn.names]
    assert (len(rows), drawn.total) == (20, len(X))
    np.testing.assert_array_equal(drawn.labels, est.labels_[rows])
    np.testing.assert_array_equal(drawn.confidence, est.confidence_[rows])
    assert set(drawn.labels) == {0, 1, 2}


@pytest.mark.parametrize("X", [np.ones((4, 3)), sp.csr_array((4, 3))], ids=["dense", "sparse"])
def test_constant_features_have_no_map(X):
    """If no feature varies there is nothing to draw, and nothing differs."""
    est = EvidenceAccumulation(2).fit([[0, 0], [0, 0], [1, 1], [1, 1]])
    part = features_part(est, X, None, None)
    assert part.map is None
    assert part.n_constant == 3
    assert [card.features for card in part.clusters] == [[], []]


def test_one_cluster_differs_from_nothing():
    """A single cluster has no others to differ from."""
    est = EvidenceAccumulation(1).fit([[0, 0], [0, 0], [1, 1]])
    part = features_part(est, np.arange(6.0).reshape(3, 2), None, None)
    assert part.clusters == []
    assert [row.separation for row in part.rows] == [0.0, 0.0]
