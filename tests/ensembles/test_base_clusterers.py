"""One run of an ensemble: members, and how they are fitted."""

from __future__ import annotations

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
from threadpoolctl import threadpool_info

from coterie.ensembles.base_clusterers import (
    CentroidMember,
    EstimatorMember,
    Run,
    fit_run,
)
from coterie.ensembles.scalings import Scaling, centring, standard_and_min_max
from coterie.errors import InvalidParameterError
from coterie.runtime.devices import on_one_thread

IRIS = load_iris().data

# Few values on a coarse lattice: many duplicates, and many rows equally far from two centres.
LATTICE = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 30), st.integers(1, 3)),
    elements=st.integers(-2, 2).map(lambda value: value / 10),
)


def a_run(n_clusters: int, scaling: Scaling | None = None, drawn=None, seed: int = 0) -> Run:
    """Orders for a run, all rows and columns as they are unless said otherwise."""
    return Run(n_clusters=n_clusters, scaling=scaling or Scaling(), drawn=drawn, seed=seed)


def test_centroid_run_is_scikit_learns_kmeans():
    """A run without a clusterer gives KMeans' labels for the same seed, on the same scaling."""
    for seed in range(5):
        _, labels = fit_run(IRIS, a_run(3, centring(IRIS), seed=seed))
        oracle = KMeans(3, init="random", n_init=1, random_state=seed).fit(IRIS)
        np.testing.assert_array_equal(labels, oracle.labels_)


def test_centroid_run_leaves_its_input_alone():
    """Fitting changes no bit of X, which runs share, whatever the scaling."""
    X = IRIS.copy()
    for scaling in (Scaling(), centring(X), *standard_and_min_max(X)):
        fit_run(X, a_run(3, scaling))
    np.testing.assert_array_equal(X, IRIS)


@settings(deadline=None, max_examples=25)
@given(X=LATTICE, data=st.data())
def test_centroid_labels_are_consecutive_and_predicted(X, data):
    """With duplicates and ties: labels from 0, none unused, and equal to predict where drawn."""
    drawn = data.draw(hnp.arrays(np.bool_, len(X)).filter(np.any))
    n_clusters = data.draw(st.integers(1, int(drawn.sum())))
    member, labels = fit_run(X, a_run(n_clusters, centring(X), drawn))
    assert labels.dtype == np.int32
    assert set(labels[~drawn]) <= {-1}
    assert set(labels[drawn]) == set(range(len(member.centres)))
    assert len(member.centres) <= min(n_clusters, len(np.unique(X[drawn], axis=0)))
    np.testing.assert_array_equal(member.predict(X)[drawn], labels[drawn])


@settings(deadline=None, max_examples=25)
@given(X=LATTICE, data=st.data())
def test_centroid_predict_does_not_depend_on_the_batch(X, data):
    """A row gets the same label alone, among others, and in another order."""
    n_clusters = data.draw(st.integers(1, len(X)))
    member, labels = fit_run(X, a_run(n_clusters, centring(X)))
    order = np.array(data.draw(st.permutations(range(len(X)))))
    np.testing.assert_array_equal(member.predict(X[order]), labels[order])
    row = order[:1]
    np.testing.assert_array_equal(member.predict(X[row]), labels[row])


def test_centroid_labels_are_nearest_centres():
    """Labels are the brute-force nearest centre, in the coordinates of the scaling."""
    scaling = standard_and_min_max(IRIS)[1].restricted_to(np.array([0, 2]))
    member, labels = fit_run(IRIS, a_run(4, scaling))
    Z = scaling.transform(IRIS)
    distances = ((Z[:, None, :] - member.centres[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(labels, distances.argmin(axis=1))


def test_large_offsets_keep_their_digits():
    """A column far from 0, like a time stamp, is told apart as well as one around 0."""
    X = np.repeat([[0.0], [1.0], [2.0]], 20, axis=0)
    member, labels = fit_run(X + 1.7e9, a_run(3, centring(X + 1.7e9), seed=3))
    assert len(member.centres) == 3
    np.testing.assert_array_equal(labels, fit_run(X, a_run(3, centring(X), seed=3))[1])


def test_single_precision_is_kept():
    """float32 data is clustered as float32, and predicted alike from float64 copies."""
    X = IRIS.astype(np.float32)
    member, labels = fit_run(X, a_run(3, centring(X)))
    assert member.centres.dtype == np.float32
    np.testing.assert_array_equal(member.predict(X.astype(np.float64)), labels)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_new_rows_too_far_out_are_refused(make):
    """A new row whose squared distances overflow is refused by its number."""
    member = CentroidMember(centres=np.array([[0.0, 0.0], [1.0, 1.0]]))
    with pytest.raises(InvalidParameterError, match="row 1 of X"):
        member.predict(make(np.array([[0.0, 0.0], [1e200, 0.0]])))


class ThreeAndSeven(ClusterMixin, BaseEstimator):
    """Calls rows below 1 cluster 3, the others 7, and at predict those above 10 cluster 9."""

    def fit(self, X, y=None):  # noqa: ARG002, D102  scikit-learn's signature and meaning
        self.labels_ = np.where(X[:, 0] < 1, 3, 7)
        return self

    def predict(self, X):  # noqa: D102  scikit-learn's meaning
        return np.where(X[:, 0] < 1, 3, np.where(X[:, 0] > 10, 9, 7))


def test_estimators_own_label_names_are_replaced():
    """Labels such as 3 and 7 become 0 and 1; a name not found at fit becomes −1."""
    X = np.array([[5.0], [0.0], [6.0], [0.5]])
    member, labels = fit_run(X, a_run(2), ThreeAndSeven())
    assert isinstance(member, EstimatorMember)
    np.testing.assert_array_equal(labels, [1, 0, 1, 0])
    np.testing.assert_array_equal(member.predict(X), labels)
    np.testing.assert_array_equal(member.predict(np.array([[99.0], [0.0]])), [-1, 0])


def test_estimator_labels_only_the_rows_drawn():
    """A clusterer is fitted on the rows drawn; the rest are −1, and predict places them."""
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
    """MeanShift's orphans are −1 in the labels, though predict would place them."""
    X = np.array([[0.0], [0.1], [0.2], [5.0], [9.0], [9.1], [9.2]])
    clusterer = MeanShift(bandwidth=1, cluster_all=False, seeds=np.array([[0.1], [9.1]]))
    member, labels = fit_run(X, a_run(2), clusterer)
    assert labels[3] == -1
    assert member.predict(X)[3] >= 0
    np.testing.assert_array_equal(np.delete(member.predict(X), 3), np.delete(labels, 3))


def test_clusterer_is_cloned_and_set():
    """The run sets the seed and K of a clone, also inside a pipeline; the original stays as is."""
    pipeline = make_pipeline(StandardScaler(), KMeans(8, n_init=1, random_state=99))
    member, labels = fit_run(IRIS, a_run(3, seed=5), pipeline)
    assert member.estimator[-1].get_params()["random_state"] == 5
    assert len(np.unique(labels)) == 3
    assert pipeline[-1].get_params()["random_state"] == 99
    assert not hasattr(pipeline[-1], "labels_")


def test_clusterer_with_labels_only():
    """A clusterer with fit and labels_ but no fit_predict is enough."""

    class Halves(DBSCAN):
        fit_predict = property()  # hides the inherited one: reading it is an AttributeError

        def fit(self, X):
            self.labels_ = (X[:, 0] > np.median(X[:, 0])).astype(int)
            return self

    _, labels = fit_run(IRIS, a_run(2), Halves())
    assert set(labels) == {0, 1}


def test_failing_clusterer_is_named():
    """An error inside a clusterer says which clusterer, with which K."""
    with pytest.raises(InvalidParameterError, match=r"clusterer=DBSCAN.*n_clusters=2.*eps"):
        fit_run(IRIS, a_run(2), DBSCAN(eps=-1))


def test_labels_of_the_wrong_shape_are_refused():
    """A clusterer of something else than rows is refused."""
    with pytest.raises(InvalidParameterError, match=r"shape \(4,\).*150 rows"):
        fit_run(IRIS, a_run(2), FeatureAgglomeration())


def test_one_thread_and_back():
    """Inside, every pool has one thread; outside, what it had."""

    def pools() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info()]

    before = pools()
    with on_one_thread():
        assert set(pools()) == {1}
    assert pools() == before
