"""Members: k-means, Ward's linkage and given clusterers, and what members share in a block."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import DBSCAN, HDBSCAN, AgglomerativeClustering, KMeans, MeanShift
from sklearn.datasets import load_iris
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from coterie.ensembles.execution import fit_run
from coterie.ensembles.members import (
    CentroidMember,
    EstimatorMember,
    NearestRowMember,
    RowBlock,
    fit_centroids,
    fit_ward,
    run_parameters,
    takes_weights,
)
from coterie.ensembles.plans import Run
from coterie.ensembles.scalings import Scaling, centring
from coterie.errors import InvalidParameterError


def test_equal_parts_are_computed_once():
    """A function of equal arrays and numbers is called once, unless it was not used for long."""
    calls = []

    def add(shift, times):
        calls.append(times)
        return times * shift

    block = RowBlock(np.zeros((3, 2)))
    first = block.once(add, np.ones(2), 2.0)
    assert block.once(add, np.ones(2), 2.0) is first
    assert block.once(add, np.ones(2), 3.0) is not first
    assert block.once(add, np.ones(2, dtype=np.float32), 2.0) is not first
    assert block.once(add, np.array([1.0, 5.0]), 2.0) is not first
    assert calls == [2.0, 3.0, 2.0, 2.0]
    for factor in range(10, 60):  # memory does not grow with the number of members
        block.once(add, np.ones(2), 3.0)
        block.once(add, np.ones(2), float(factor))
    assert len(block._kept) < 10
    block.once(add, np.ones(2), 10.0)
    assert (calls.count(3.0), calls.count(10.0)) == (1, 2)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_new_rows_too_far_out_are_refused(make):
    """The message names the row whose squared distances overflow."""
    member = CentroidMember(centres=np.array([[0.0, 0.0], [1.0, 1.0]]))
    with pytest.raises(InvalidParameterError, match="row 1 of X"):
        member.predict(make(np.array([[0.0, 0.0], [1e200, 0.0]])))


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


#: Two groups and a point between them.
LINE = np.array([[0.0], [0.1], [0.2], [5.0], [9.0], [9.1], [9.2]])


def clusterer_run(clusterer, n_clusters=2, drawn=None, seed=0):
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
    member, labels = fit_run(X, clusterer_run(ThreeAndSeven()))
    assert isinstance(member, EstimatorMember)
    np.testing.assert_array_equal(labels, [1, 0, 1, 0])
    np.testing.assert_array_equal(member.predict(X), labels)
    np.testing.assert_array_equal(member.predict(np.array([[99.0], [0.0]])), [-1, 0])


def test_only_the_drawn_rows_are_labelled():
    """Rows that were not drawn are −1 in the labels; predict labels them."""
    drawn = np.arange(150) % 5 > 0
    member, labels = fit_run(FLOWERS, clusterer_run(GaussianMixture(3), 3, drawn))
    assert np.all(labels[~drawn] == -1)
    assert set(labels[drawn]) == set(range(len(member.clusters)))
    np.testing.assert_array_equal(member.predict(FLOWERS)[drawn], labels[drawn])
    assert np.all(member.predict(FLOWERS)[~drawn] >= 0)
    oracle = GaussianMixture(3, random_state=0).fit(FLOWERS[drawn])
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
    member, labels = fit_run(X, clusterer_run(clusterer, drawn=drawn))
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
    member, labels = fit_run(LINE, clusterer_run(clusterer))
    assert labels[3] == -1
    assert member.predict(LINE)[3] >= 0
    np.testing.assert_array_equal(np.delete(member.predict(LINE), 3), np.delete(labels, 3))


def test_the_clusterer_is_cloned_and_set():
    """The run sets seed and K of a clone, also in a pipeline; the original is not changed."""
    pipeline = make_pipeline(StandardScaler(), KMeans(8, n_init=1, random_state=99))
    member, labels = fit_run(FLOWERS, clusterer_run(pipeline, 3, seed=5))
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
    member, labels = fit_run(LINE, clusterer_run(ThreeAndSeven()), weights)
    np.testing.assert_array_equal(member.estimator.weights_, weights[weights > 0])
    np.testing.assert_array_equal(labels, LINE[:, 0] > 1)
    known = {c: takes_weights(c) for c in (KMeans(), DBSCAN(), ThreeAndSeven())}
    assert all(known.values())
    unknown = (GaussianMixture(), HDBSCAN(), make_pipeline(StandardScaler(), KMeans()))
    assert not any(takes_weights(clusterer) for clusterer in unknown)


def test_rows_that_are_drawn_several_times_have_one_label():
    """Copies of a row that a clusterer puts into different clusters leave no gaps."""
    weights = np.array([9.0, 0, 0, 0, 0, 0, 5])
    member, labels = fit_run(LINE, clusterer_run(AgglomerativeClustering(4)), weights)
    assert set(np.unique(labels)) == set(range(labels.max() + 1)) == {0, 1}
    np.testing.assert_array_equal(member.predict(LINE), labels)


class OneLabelLess(ClusterMixin, BaseEstimator):
    """A clusterer that forgets the last row."""

    def fit(self, X, y=None):  # noqa: ARG002  scikit-learn's signature and meaning
        self.labels_ = np.zeros(len(X) - 1, dtype=int)
        return self


@pytest.mark.parametrize(
    ("clusterer", "message"),
    [
        (DBSCAN(eps=-1), r"ensemble: DBSCAN\(eps=-1\) failed with n_clusters=2.*eps"),
        (OneLabelLess(), r"shape \(149,\).*150 rows"),
    ],
)
def test_failing_clusterers_are_reported(clusterer, message):
    """The message names the clusterer and K, or says which shape the labels have."""
    with pytest.raises(InvalidParameterError, match=message):
        fit_run(FLOWERS, clusterer_run(clusterer))
