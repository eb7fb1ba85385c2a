"""Runs with the label of the nearest centre or row: k-means and Ward's linkage."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier

from coterie.ensembles.execution import fit_run
from coterie.ensembles.members import NearestRowMember, fit_centroids, fit_ward
from coterie.ensembles.plans import Run
from coterie.ensembles.scalings import Scaling, centring

FLOWERS = load_iris().data
IRIS = np.unique(FLOWERS, axis=0)
ROWS, NEW = IRIS[::2], IRIS[1::2]

# Few values on a coarse lattice: many duplicates, and many rows equally far from two centres.
LATTICE = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 30), st.integers(1, 3)),
    elements=st.integers(-2, 2).map(lambda value: value / 10),
)


def kmeans_run(n_clusters, X, drawn=None, seed=0):
    """Return a k-means run on centred features."""
    return Run(kind="kmeans", n_clusters=n_clusters, scaling=centring(X), drawn=drawn, seed=seed)


def test_a_run_is_scikit_learns_kmeans():
    """A run gives the labels of KMeans with the same seed, bit for bit."""
    for seed in range(3):
        _, labels = fit_run(FLOWERS, kmeans_run(3, FLOWERS, seed=seed))
        oracle = KMeans(3, init="random", n_init=1, random_state=seed).fit(FLOWERS)
        np.testing.assert_array_equal(labels, oracle.labels_)


@settings(max_examples=15)
@given(X=LATTICE, data=st.data())
def test_labels_are_consecutive_and_predicted_in_any_batch(X, data):
    """With duplicates and ties, labels have no gaps and are those of predict.

    A row gets the same label alone, among others, and in another order.
    """
    drawn = data.draw(hnp.arrays(np.bool_, len(X)).filter(np.any))
    n_clusters = data.draw(st.integers(1, int(drawn.sum())))
    member, labels = fit_run(X, kmeans_run(n_clusters, X, drawn))
    assert labels.dtype == np.int32
    assert set(labels[~drawn]) <= {-1}
    assert set(labels[drawn]) == set(range(len(member.centres)))
    assert len(member.centres) <= min(n_clusters, len(np.unique(X[drawn], axis=0)))
    predicted = member.predict(X)
    np.testing.assert_array_equal(predicted[drawn], labels[drawn])
    order = np.array(data.draw(st.permutations(range(len(X)))))
    np.testing.assert_array_equal(member.predict(X[order]), predicted[order])
    np.testing.assert_array_equal(member.predict(X[order[:1]]), predicted[order[:1]])


def test_large_offsets_keep_their_digits():
    """A column far from 0, such as a time stamp, is clustered as well as one around 0."""
    X = np.repeat([[0.0], [1.0], [2.0]], 20, axis=0)
    member, labels = fit_run(X + 1.7e9, kmeans_run(3, X + 1.7e9, seed=3))
    assert len(member.centres) == 3
    np.testing.assert_array_equal(labels, fit_run(X, kmeans_run(3, X, seed=3))[1])


def test_weights_count_as_repeated_rows():
    """Each centre is the weighted mean of its rows, as if they were repeated."""
    weights = np.arange(150) % 4
    rows = weights > 0
    member = fit_centroids(FLOWERS[rows], 3, 0, Scaling(), weights[rows].astype(float))
    repeated = np.repeat(FLOWERS, weights, axis=0)
    labels = member.predict(repeated)
    means = [repeated[labels == k].mean(axis=0) for k in range(3)]
    np.testing.assert_allclose(member.centres, means, atol=1e-3)  # the tolerance of KMeans


@pytest.mark.parametrize("make", [np.asarray, np.float32, sp.csr_array])
def test_ward_is_scikit_learns(make):
    """Labels are those of AgglomerativeClustering; new rows get those of the nearest row."""
    member = fit_ward(make(ROWS), 5, Scaling())
    oracle = AgglomerativeClustering(5).fit_predict(ROWS)
    np.testing.assert_array_equal(member.predict(make(ROWS)), oracle)
    nearest = KNeighborsClassifier(1).fit(ROWS, oracle)
    # distances to rows of different clusters can be equal
    distances = np.sort(nearest.kneighbors(NEW, 2)[0], axis=1)
    unique = distances[:, 0] < distances[:, 1] - 1e-6
    np.testing.assert_array_equal(member.predict(make(NEW))[unique], nearest.predict(NEW)[unique])


def test_equal_rows_have_equal_labels():
    """Clusters of Ward's linkage that contain only copies of other rows are dropped."""
    X = np.repeat([[0.0, 1.0], [2.0, 3.0], [9.0, 9.0]], 4, axis=0)
    run = Run(kind="ward", n_clusters=8, scaling=Scaling(), drawn=None, seed=0)
    member, labels = fit_run(X, run)
    np.testing.assert_array_equal(np.unique(labels), [0, 1, 2])
    assert (labels.reshape(3, 4) == labels[::4, None]).all()
    np.testing.assert_array_equal(member.predict(X[::-1]), labels[::-1])


def test_noise_stays_noise():
    """A new row whose nearest row is noise is −1."""
    member = NearestRowMember(
        rows=np.array([[0.0], [4.0]]), row_labels=np.array([0, -1], dtype=np.int32)
    )
    np.testing.assert_array_equal(member.predict(np.array([[3.0], [1.0]])), [-1, 0])


def test_dropped_clusters_are_renumbered():
    """``with_clusters`` numbers the kept clusters from 0."""
    rows = np.arange(4.0)[:, None]
    member = NearestRowMember(rows=rows, row_labels=np.array([0, 1, 2, 2], dtype=np.int32))
    np.testing.assert_array_equal(member.with_clusters(np.array([0, 2])).row_labels, [0, -1, 1, 1])
