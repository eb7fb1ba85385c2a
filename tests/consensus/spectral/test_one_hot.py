"""OneHotKMeans."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.preprocessing import OneHotEncoder

import coterie as ct


def test_compressed_equals_kmeans_on_all_points():
    """The sum of squares reached equals that of scikit-learn's k-means on the one-hot labels."""
    P, _ = ct.planted_partitions([60, 40, 20], 6, 0, 0.2, random_state=0)
    Z = OneHotEncoder(sparse_output=False).fit_transform(P)
    full = KMeans(3, n_init=20, random_state=0).fit(Z)
    ours = ct.OneHotKMeans(3, n_init=20, random_state=0).fit(P)
    assert ours.inertia_ == pytest.approx(full.inertia_)
    assert ct.clustering_accuracy(full.labels_, ours.labels_) == 1


def test_missing_labels_are_zeros():
    """A missing label is a block of zeros in the encoding."""
    P = np.array([[0, 0], [0, -1], [1, 1], [1, 1]])
    est = ct.OneHotKMeans(2, random_state=0).fit(P)
    assert est.labels_[0] == est.labels_[1] != est.labels_[2] == est.labels_[3]
    assert est.inertia_ == pytest.approx(0.5)
