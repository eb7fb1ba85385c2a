"""k-means runs: scikit-learn's labels, duplicates, ties, weights and large offsets."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris

from coterie.ensembles.centroids import CentroidMember, fit_centroids
from coterie.ensembles.runs import Run, fit_run
from coterie.ensembles.scalings import Scaling, centring
from coterie.errors import InvalidParameterError

IRIS = load_iris().data

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
        _, labels = fit_run(IRIS, kmeans_run(3, IRIS, seed=seed))
        oracle = KMeans(3, init="random", n_init=1, random_state=seed).fit(IRIS)
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
    member = fit_centroids(IRIS[rows], 3, 0, Scaling(), weights[rows].astype(float))
    repeated = np.repeat(IRIS, weights, axis=0)
    labels = member.predict(repeated)
    means = [repeated[labels == k].mean(axis=0) for k in range(3)]
    np.testing.assert_allclose(member.centres, means, atol=1e-3)  # the tolerance of KMeans


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_new_rows_too_far_out_are_refused(make):
    """The message names the row whose squared distances overflow."""
    member = CentroidMember(centres=np.array([[0.0, 0.0], [1.0, 1.0]]))
    with pytest.raises(InvalidParameterError, match="row 1 of X"):
        member.predict(make(np.array([[0.0, 0.0], [1e200, 0.0]])))
