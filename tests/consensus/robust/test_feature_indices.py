"""Indices of clusters on features, compared with scikit-learn's on all rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn import metrics
from sklearn.datasets import make_blobs

from coterie.consensus.robust.feature_indices import MOST_ROWS, FeatureSample


@pytest.fixture(scope="module")
def blobs():
    """Four overlapping groups of points and their numbers."""
    return make_blobs(240, 5, centers=4, cluster_std=4, random_state=0)


def test_indices_are_those_of_scikit_learn(blobs):
    """With few rows, the indices are computed from all of them."""
    X, y = blobs
    assert FeatureSample.draw(X).indices(y) == pytest.approx(
        {
            "silhouette": metrics.silhouette_score(X, y),
            "calinski_harabasz": metrics.calinski_harabasz_score(X, y),
            "davies_bouldin": metrics.davies_bouldin_score(X, y),
        }
    )


def test_rows_without_a_label_are_left_out(blobs):
    """Labels of −1 have the same effect as rows that are not there."""
    X, y = blobs
    some = np.where(np.arange(len(y)) % 3 == 0, -1, y)
    kept = np.flatnonzero(some >= 0)
    found = FeatureSample.draw(X).indices(some)
    assert found == pytest.approx(FeatureSample.draw(X[kept]).indices(y[kept]))
    assert found == pytest.approx(FeatureSample.draw(X).among(kept).indices(y[kept]))


def test_sparse_features_and_distances_have_a_silhouette(blobs):
    """The silhouette is that of the dense features; the others are unknown."""
    X, y = blobs
    dense = FeatureSample.draw(X).indices(y)["silhouette"]
    distances = metrics.pairwise_distances(X)
    np.fill_diagonal(distances, 0)
    for sample in (FeatureSample.draw(csr_array(X)), FeatureSample.draw(distances, "precomputed")):
        found = sample.indices(y)
        assert found["silhouette"] == pytest.approx(dense)
        assert np.isnan([found["calinski_harabasz"], found["davies_bouldin"]]).all()


@pytest.mark.parametrize("labels", [[0, 0, 0], [0, 1, 2], [-1, -1, 0]])
def test_trivial_clusters_have_no_index(labels):
    """One cluster, or one row in each, gives nan."""
    found = FeatureSample.draw(np.eye(3)).indices(np.array(labels))
    assert np.isnan(list(found.values())).all()


def test_many_rows_are_sampled():
    """Above the limit a fixed sample is used, and rows are found again among fewer."""
    X = np.arange(MOST_ROWS + 1000.0)[:, None]
    sample = FeatureSample.draw(X)
    assert len(sample.rows) == MOST_ROWS
    assert (sample.X[:, 0] == sample.rows).all()
    assert (FeatureSample.draw(X).rows == sample.rows).all()
    even = np.arange(0, len(X), 2)
    fewer = sample.among(even)
    assert (fewer.X[:, 0] == even[fewer.rows]).all()
    assert len(fewer.rows) == (sample.rows % 2 == 0).sum()


def test_rounded_diagonals_are_accepted_and_overflow_has_no_index(blobs):
    """Distances are not changed; features whose distances overflow give nan without a warning."""
    X, y = blobs
    D = metrics.pairwise_distances(X) + 1e-12
    before = D.copy()
    found = FeatureSample.draw(D, "precomputed").indices(y)
    assert found["silhouette"] == pytest.approx(FeatureSample.draw(X).indices(y)["silhouette"])
    assert (D == before).all()
    D[0, 1] = D[1, 0] = np.inf
    assert np.isnan(list(FeatureSample.draw(D, "precomputed").indices(y).values())).all()
