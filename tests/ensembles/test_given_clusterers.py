"""Runs of the user's clusterers: settings, labels, noise, new rows, weights and failures."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import DBSCAN, HDBSCAN, AgglomerativeClustering, KMeans, MeanShift
from sklearn.datasets import load_iris
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from coterie.ensembles.execution import fit_run
from coterie.ensembles.members import (
    EstimatorMember,
    NearestRowMember,
    run_parameters,
    takes_weights,
)
from coterie.ensembles.plans import Run
from coterie.ensembles.scalings import Scaling
from coterie.errors import InvalidParameterError

IRIS = load_iris().data
#: Two groups and a point between them.
LINE = np.array([[0.0], [0.1], [0.2], [5.0], [9.0], [9.1], [9.2]])


def run_of(clusterer, n_clusters=2, drawn=None, seed=0):
    """Return a run of a clusterer on features that are not scaled."""
    return Run(
        kind="clusterer",
        n_clusters=n_clusters,
        scaling=Scaling(),
        drawn=drawn,
        seed=seed,
        clusterer=clusterer,
    )


class ThreeAndSeven(ClusterMixin, BaseEstimator):
    """A clusterer with labels 3 (below 1) and 7; predict has also 9 (above 10)."""

    def fit(self, X, y=None, sample_weight=None):  # noqa: ARG002  scikit-learn's signature and meaning
        self.labels_ = np.where(X[:, 0] < 1, 3, 7)
        self.weights_ = sample_weight
        return self

    def predict(self, X):
        return np.where(X[:, 0] < 1, 3, np.where(X[:, 0] > 10, 9, 7))


def test_labels_of_the_estimator_are_renumbered():
    """Labels 3 and 7 become 0 and 1; a label that is new at predict becomes −1."""
    X = np.array([[5.0], [0.0], [6.0], [0.5]])
    member, labels = fit_run(X, run_of(ThreeAndSeven()))
    assert isinstance(member, EstimatorMember)
    np.testing.assert_array_equal(labels, [1, 0, 1, 0])
    np.testing.assert_array_equal(member.predict(X), labels)
    np.testing.assert_array_equal(member.predict(np.array([[99.0], [0.0]])), [-1, 0])


def test_only_the_drawn_rows_are_labelled():
    """Rows that were not drawn are −1 in the labels; predict labels them."""
    drawn = np.arange(150) % 5 > 0
    member, labels = fit_run(IRIS, run_of(GaussianMixture(3), 3, drawn))
    assert np.all(labels[~drawn] == -1)
    assert set(labels[drawn]) == set(range(len(member.clusters)))
    np.testing.assert_array_equal(member.predict(IRIS)[drawn], labels[drawn])
    assert np.all(member.predict(IRIS)[~drawn] >= 0)
    oracle = GaussianMixture(3, random_state=0).fit(IRIS[drawn])
    np.testing.assert_array_equal(member.estimator.means_, oracle.means_)


@pytest.mark.parametrize(
    "clusterer",
    [DBSCAN(eps=0.6), HDBSCAN(copy=True), AgglomerativeClustering(2)],
)
@pytest.mark.parametrize("every", [1, 2])
def test_without_predict_new_rows_get_the_label_of_the_nearest(clusterer, every):
    """Labels are those of the clusterer, noise is −1; new rows get those of the nearest row."""
    rng = np.random.default_rng(0)
    X = np.vstack(
        [rng.normal(size=(40, 2)), rng.normal(9, 1, (40, 2)), rng.uniform(-9, 18, (20, 2))]
    )
    rng.shuffle(X)
    drawn = None if every == 1 else np.arange(len(X)) % every == 0
    member, labels = fit_run(X, run_of(clusterer, drawn=drawn))
    assert isinstance(member, NearestRowMember)
    oracle = clusterer.fit_predict(X[::every])
    assert -1 in oracle or isinstance(clusterer, AgglomerativeClustering)
    np.testing.assert_array_equal(labels[::every], oracle)
    new = rng.uniform(-9, 18, (200, 2))
    nearest = KNeighborsClassifier(1).fit(X[::every], oracle)
    np.testing.assert_array_equal(member.predict(new), nearest.predict(new))


def test_noise_of_a_clusterer_that_predicts_stays_missing():
    """Noise of MeanShift is −1 in the labels, although predict would label it."""
    clusterer = MeanShift(bandwidth=1, cluster_all=False, seeds=np.array([[0.1], [9.1]]))
    member, labels = fit_run(LINE, run_of(clusterer))
    assert labels[3] == -1
    assert member.predict(LINE)[3] >= 0
    np.testing.assert_array_equal(np.delete(member.predict(LINE), 3), np.delete(labels, 3))


def test_the_clusterer_is_cloned_and_set():
    """The run sets seed and K of a clone, also in a pipeline; the original is not changed."""
    pipeline = make_pipeline(StandardScaler(), KMeans(8, n_init=1, random_state=99))
    member, labels = fit_run(IRIS, run_of(pipeline, 3, seed=5))
    assert member.estimator[-1].get_params()["random_state"] == 5
    assert len(np.unique(labels)) == 3
    assert pipeline[-1].get_params()["random_state"] == 99
    assert not hasattr(pipeline[-1], "labels_")


@pytest.mark.parametrize(
    ("clusterer", "number"),
    [
        (KMeans(), {"n_clusters": 5}),
        (KMeans(3), {}),
        (GaussianMixture(), {"n_components": 5}),
        (GaussianMixture(2), {}),
        (HDBSCAN(), {}),
        (AgglomerativeClustering(n_clusters=None, distance_threshold=1.0), {}),
        (make_pipeline(StandardScaler(), KMeans()), {"kmeans__n_clusters": 5}),
        (make_pipeline(StandardScaler(), KMeans(3)), {}),
    ],
)
def test_the_number_of_clusters_is_set_where_it_has_its_default(clusterer, number):
    """A number that the user chose stays; None leaves the default."""
    seeded = {"random_state", "kmeans__random_state"} & clusterer.get_params().keys()
    seeds = dict.fromkeys(seeded, 7)
    assert run_parameters(clusterer, 5, 7) == number | seeds
    assert run_parameters(clusterer, None, 7) == seeds


def test_clusterers_that_know_weights_get_them():
    """Weights reach ``fit``, without rows of weight 0; the others draw rows instead."""
    weights = np.array([1.0, 0, 2, 3, 0, 1, 1])
    member, labels = fit_run(LINE, run_of(ThreeAndSeven()), weights)
    np.testing.assert_array_equal(member.estimator.weights_, weights[weights > 0])
    np.testing.assert_array_equal(labels, LINE[:, 0] > 1)
    known = {c: takes_weights(c) for c in (KMeans(), DBSCAN(), ThreeAndSeven())}
    assert all(known.values())
    unknown = (GaussianMixture(), HDBSCAN(), make_pipeline(StandardScaler(), KMeans()))
    assert not any(takes_weights(clusterer) for clusterer in unknown)


def test_rows_that_are_drawn_several_times_have_one_label():
    """Copies of a row that a clusterer puts into different clusters leave no gaps."""
    weights = np.array([9.0, 0, 0, 0, 0, 0, 5])
    member, labels = fit_run(LINE, run_of(AgglomerativeClustering(4)), weights)
    assert set(np.unique(labels)) == set(range(labels.max() + 1)) == {0, 1}
    np.testing.assert_array_equal(member.predict(LINE), labels)


def test_a_failing_clusterer_is_reported():
    """The message names the clusterer and K."""
    with pytest.raises(
        InvalidParameterError, match=r"ensemble: DBSCAN\(eps=-1\) failed with n_clusters=2.*eps"
    ):
        fit_run(IRIS, run_of(DBSCAN(eps=-1)))


class OneLabelLess(ClusterMixin, BaseEstimator):
    """A clusterer that forgets the last row."""

    def fit(self, X, y=None):  # noqa: ARG002  scikit-learn's signature and meaning
        self.labels_ = np.zeros(len(X) - 1, dtype=int)
        return self


def test_labels_of_the_wrong_shape_are_refused():
    """The message says which shape the labels have."""
    with pytest.raises(InvalidParameterError, match=r"shape \(149,\).*150 rows"):
        fit_run(IRIS, run_of(OneLabelLess()))
