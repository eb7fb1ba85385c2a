"""One run of an ensemble: members, their labels and predictions."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import DBSCAN, FeatureAgglomeration, KMeans, MeanShift
from sklearn.datasets import load_iris
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import coterie as ct
from coterie.ensembles.base_clusterers import (
    CentroidMember,
    EstimatorMember,
    Run,
    fit_run,
)
from coterie.ensembles.scalings import Scaling, centring
from coterie.errors import InvalidParameterError

IRIS = load_iris().data

# Few values on a coarse lattice: many duplicates, and many rows equally far from two centres.
LATTICE = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 30), st.integers(1, 3)),
    elements=st.integers(-2, 2).map(lambda value: value / 10),
)


def a_run(n_clusters: int, scaling: Scaling | None = None, drawn=None, seed: int = 0) -> Run:
    """Return settings of a run; by default all rows and columns, not scaled."""
    return Run(n_clusters=n_clusters, scaling=scaling or Scaling(), drawn=drawn, seed=seed)


def test_centroid_run_is_scikit_learns_kmeans():
    """A run without a clusterer gives the labels of KMeans with the same seed."""
    for seed in range(2):
        _, labels = fit_run(IRIS, a_run(3, centring(IRIS), seed=seed))
        oracle = KMeans(3, init="random", n_init=1, random_state=seed).fit(IRIS)
        np.testing.assert_array_equal(labels, oracle.labels_)


@settings(deadline=None, max_examples=15)
@given(X=LATTICE, data=st.data())
def test_centroid_labels_are_consecutive_and_predicted(X, data):
    """With duplicates and ties, labels are 0, 1, … without gaps, and equal predict."""
    drawn = data.draw(hnp.arrays(np.bool_, len(X)).filter(np.any))
    n_clusters = data.draw(st.integers(1, int(drawn.sum())))
    member, labels = fit_run(X, a_run(n_clusters, centring(X), drawn))
    assert labels.dtype == np.int32
    assert set(labels[~drawn]) <= {-1}
    assert set(labels[drawn]) == set(range(len(member.centres)))
    assert len(member.centres) <= min(n_clusters, len(np.unique(X[drawn], axis=0)))
    np.testing.assert_array_equal(member.predict(X)[drawn], labels[drawn])


@settings(deadline=None, max_examples=15)
@given(X=LATTICE, data=st.data())
def test_centroid_predict_does_not_depend_on_the_batch(X, data):
    """A row gets the same label alone, among others, and in another order."""
    n_clusters = data.draw(st.integers(1, len(X)))
    member, labels = fit_run(X, a_run(n_clusters, centring(X)))
    order = np.array(data.draw(st.permutations(range(len(X)))))
    np.testing.assert_array_equal(member.predict(X[order]), labels[order])
    row = order[:1]
    np.testing.assert_array_equal(member.predict(X[row]), labels[row])


def test_large_offsets_keep_their_digits():
    """A column far from 0, such as a time stamp, is clustered as well as one around 0."""
    X = np.repeat([[0.0], [1.0], [2.0]], 20, axis=0)
    member, labels = fit_run(X + 1.7e9, a_run(3, centring(X + 1.7e9), seed=3))
    assert len(member.centres) == 3
    np.testing.assert_array_equal(labels, fit_run(X, a_run(3, centring(X), seed=3))[1])


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_new_rows_too_far_out_are_refused(make):
    """The message names the row whose squared distances overflow."""
    member = CentroidMember(centres=np.array([[0.0, 0.0], [1.0, 1.0]]))
    with pytest.raises(InvalidParameterError, match="row 1 of X"):
        member.predict(make(np.array([[0.0, 0.0], [1e200, 0.0]])))


class ThreeAndSeven(ClusterMixin, BaseEstimator):
    """A clusterer with labels 3 (below 1) and 7; predict has also 9 (above 10)."""

    def fit(self, X, y=None):  # noqa: ARG002, D102  scikit-learn's signature and meaning
        self.labels_ = np.where(X[:, 0] < 1, 3, 7)
        return self

    def predict(self, X):  # noqa: D102  scikit-learn's meaning
        return np.where(X[:, 0] < 1, 3, np.where(X[:, 0] > 10, 9, 7))


def test_labels_of_the_estimator_are_renumbered():
    """Labels 3 and 7 become 0 and 1; a label that is new at predict becomes −1."""
    X = np.array([[5.0], [0.0], [6.0], [0.5]])
    member, labels = fit_run(X, a_run(2), ThreeAndSeven())
    assert isinstance(member, EstimatorMember)
    np.testing.assert_array_equal(labels, [1, 0, 1, 0])
    np.testing.assert_array_equal(member.predict(X), labels)
    np.testing.assert_array_equal(member.predict(np.array([[99.0], [0.0]])), [-1, 0])


def test_estimator_labels_only_the_rows_drawn():
    """Rows that were not drawn are −1 in the labels; predict labels them."""
    drawn = np.arange(150) % 5 > 0
    member, labels = fit_run(IRIS, a_run(3, drawn=drawn), GaussianMixture(3))
    assert np.all(labels[~drawn] == -1)
    assert set(labels[drawn]) == set(range(len(member.clusters)))
    np.testing.assert_array_equal(member.predict(IRIS)[drawn], labels[drawn])
    assert np.all(member.predict(IRIS)[~drawn] >= 0)
    oracle = GaussianMixture(3, random_state=0).fit(IRIS[drawn])
    np.testing.assert_array_equal(member.estimator.means_, oracle.means_)


def test_noise_stays_missing():
    """DBSCAN's noise is −1, and its clusters are numbered from 0; it cannot predict."""
    X = np.array([[0.0], [0.1], [0.2], [5.0], [9.0], [9.1], [9.2]])
    member, labels = fit_run(X, a_run(2), DBSCAN(eps=0.5, min_samples=2))
    np.testing.assert_array_equal(labels, [0, 0, 0, -1, 1, 1, 1])
    assert not member.can_predict


def test_noise_of_a_clusterer_that_predicts_stays_missing():
    """Noise of MeanShift is −1 in the labels, although predict would label it."""
    X = np.array([[0.0], [0.1], [0.2], [5.0], [9.0], [9.1], [9.2]])
    clusterer = MeanShift(bandwidth=1, cluster_all=False, seeds=np.array([[0.1], [9.1]]))
    member, labels = fit_run(X, a_run(2), clusterer)
    assert labels[3] == -1
    assert member.predict(X)[3] >= 0
    np.testing.assert_array_equal(np.delete(member.predict(X), 3), np.delete(labels, 3))


def test_clusterer_is_cloned_and_set():
    """The run sets seed and K of a clone, also in a pipeline; the original is not changed."""
    pipeline = make_pipeline(StandardScaler(), KMeans(8, n_init=1, random_state=99))
    member, labels = fit_run(IRIS, a_run(3, seed=5), pipeline)
    assert member.estimator[-1].get_params()["random_state"] == 5
    assert len(np.unique(labels)) == 3
    assert pipeline[-1].get_params()["random_state"] == 99
    assert not hasattr(pipeline[-1], "labels_")


def test_failing_clusterer_is_reported():
    """The message names the clusterer and K."""
    with pytest.raises(InvalidParameterError, match=r"clusterer=DBSCAN.*n_clusters=2.*eps"):
        fit_run(IRIS, a_run(2), DBSCAN(eps=-1))


def test_labels_of_the_wrong_shape_are_refused():
    """A clusterer of columns is refused."""
    with pytest.raises(InvalidParameterError, match=r"shape \(4,\).*150 rows"):
        fit_run(IRIS, a_run(2), FeatureAgglomeration())


def test_mixtures_get_their_number_of_components():
    """GaussianMixture has n_components where other clusterers have n_clusters."""
    X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0, 0], [9, 0], [0, 9]], 20, 0)
    P = ct.make_partitions(X, 3, n_partitions=2, clusterer=GaussianMixture(), random_state=0)
    assert [len(np.unique(column)) for column in P.T] == [3, 3]
