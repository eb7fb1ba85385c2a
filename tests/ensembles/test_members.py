"""Members of every kind, each with an oracle, and what members share in a block."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import DBSCAN, HDBSCAN, AgglomerativeClustering, KMeans, MeanShift
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from coterie.ensembles import members
from coterie.ensembles.members import (
    CentroidMember,
    EstimatorMember,
    NearestRowMember,
    RowBlock,
    _embedding,
    _links,
    fit_centroids,
    fit_mixture,
    fit_ward,
    link_to_landmarks,
    principal_axes,
    run_parameters,
    takes_weights,
)
from coterie.ensembles.runs import Run, fit_run
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


def run_of(kind, n_clusters, X, drawn=None, seed=0):
    """Return a run on centred features."""
    return Run(kind=kind, n_clusters=n_clusters, scaling=centring(X), drawn=drawn, seed=seed)


def test_a_run_is_scikit_learns_kmeans():
    """A run gives the labels of KMeans with the same seed, bit for bit."""
    for seed in range(3):
        _, labels = fit_run(FLOWERS, run_of("kmeans", 3, FLOWERS, seed=seed))
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
    member, labels = fit_run(X, run_of("kmeans", n_clusters, X, drawn))
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
    settings = {"n_clusters": n_clusters, "drawn": drawn, "seed": seed, "clusterer": clusterer}
    return Run(kind="clusterer", scaling=Scaling(), **settings)


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
    """The run sets seed and K of a clone, even in a pipeline; the original is not changed."""
    pipeline = make_pipeline(StandardScaler(), KMeans(8, n_init=1, random_state=99))
    member, labels = fit_run(FLOWERS, clusterer_run(pipeline, 3, seed=5))
    assert [one[-1].random_state for one in (member.estimator, pipeline)] == [5, 99]
    assert len(np.unique(labels)) == 3 and not hasattr(pipeline[-1], "labels_")


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


DIGITS = load_digits().data[:400]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_labels_are_those_of_scikit_learns_mixture(covariance):
    """Predict equals GaussianMixture.predict on the principal coordinates, even of new rows."""
    Z = DIGITS - DIGITS.mean(axis=0)
    fitted, new = Z[::2], Z[1::2]
    axes = principal_axes(fitted, 0)
    Y = fitted @ axes
    member = fit_mixture(fitted, 6, 3, Scaling(), axes, covariance)
    oracle = GaussianMixture(
        6,
        covariance_type=covariance,
        reg_covar=0.01 * Y.var(axis=0).mean(),
        max_iter=50,
        random_state=3,
    ).fit(Y)
    np.testing.assert_array_equal(member.predict(fitted), oracle.predict(Y))
    np.testing.assert_array_equal(member.predict(new), oracle.predict(new @ axes))


@pytest.mark.parametrize(("n", "q", "r"), [(200, 64, 10), (20, 64, 5), (200, 3, 3), (3, 9, 1)])
def test_axes_are_the_leading_principal_axes(n, q, r):
    """There are min(10, q, n/4) axes, at least one; they span those of PCA."""
    Z = np.random.default_rng(0).normal(size=(n, q)) * np.linspace(9, 1, q)
    axes = principal_axes(Z, 0)
    assert axes.shape == (q, r)
    oracle = PCA(r, svd_solver="full").fit(Z).components_.T
    np.testing.assert_allclose(axes @ axes.T, oracle @ oracle.T, atol=1e-6)


def test_axes_of_sparse_rows_are_singular_vectors():
    """A sparse matrix is not centred; if it has few columns, they are the axes."""
    Z = sp.random(100, 30, density=0.2, random_state=0, format="csr")
    axes = principal_axes(Z, 0)
    assert axes.shape == (30, 10)
    singular = np.linalg.svd(Z.toarray(), full_matrices=False)[1]
    kept = np.linalg.norm(Z @ axes)
    assert 0.98 * np.linalg.norm(singular[:10]) <= kept <= np.linalg.norm(singular[:10]) + 1e-9
    np.testing.assert_array_equal(principal_axes(Z[:, :8], 0), np.eye(8))


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_the_origin_does_not_matter(covariance):
    """Features far from 0 have the same labels: sparse ones, and others with an outlier."""
    far = np.round(FLOWERS * 10) + np.array([0.0, 2.0**30, 0.0, -(2.0**30)])
    near = fit_mixture(np.round(FLOWERS * 10), 3, 0, Scaling(), np.eye(4), covariance)
    shift = np.zeros(4)  # an outlier that was not fitted can be the cause of a useless shift
    for make, scaling in (
        (np.asarray, Scaling()),
        (sp.csr_array, Scaling()),
        (np.asarray, Scaling(shift=shift)),
    ):
        shifted = fit_mixture(make(far), 3, 0, scaling, np.eye(4), covariance)
        np.testing.assert_allclose(shifted.factors, near.factors, rtol=1e-5, atol=1e-9)
        labels = near.predict(np.round(FLOWERS * 10))
        np.testing.assert_array_equal(shifted.predict(make(far)), labels)


def spectral_run(X, n_clusters):
    """Return member and labels of a spectral run."""
    return fit_run(X, run_of("spectral", n_clusters, X))


@pytest.mark.parametrize("n_axes", [2, 5])
def test_the_embedding_is_that_of_the_dense_normalised_cut(n_axes):
    """The embedding equals that of the graph B R⁻¹ Bᵀ of the rows, which it approximates.

    That graph has row sums D, with R and D the column and row sums in the module. Its normalised
    cut embeds row i by row i of D^−½ V, for the leading eigenvectors V of D^−½ B R⁻¹ Bᵀ D^−½. The
    inner products of unit rows do not depend on the basis.
    """
    X = np.unique(FLOWERS[::2], axis=0)
    graph, links = link_to_landmarks(X, n_axes, np.random.RandomState(0), 30)
    B = links.toarray()
    D, R = B.sum(axis=1), B.sum(axis=0)
    values, V = np.linalg.eigh(B @ np.diag(1 / R) @ B.T / np.sqrt(np.outer(D, D)))
    V, gap = V[:, ::-1][:, :n_axes], values[-n_axes] - values[-n_axes - 1]
    assert gap > 1e-6  # the space of the leading eigenvectors is unique
    # the landmark form scales axis r by the root of its eigenvalue
    rows = V / np.sqrt(D)[:, None] * np.sqrt(values[::-1][:n_axes])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    found = _embedding(links, graph.axes)
    np.testing.assert_allclose(found @ found.T, rows @ rows.T, atol=1e-7)


def test_links_fall_with_the_squared_distance():
    """Each row is linked to its nearest landmarks, relative to the nearest by the Gaussian."""
    landmarks, rows = np.array([[0.0], [1.0], [5.0]]), np.array([[0.25], [4.0]])
    links, width = _links(rows, landmarks, 2)
    assert width == pytest.approx(np.mean([0.25, 0.75, 1.0, 3.0]))
    squares = np.array([[0.25**2, 0.75**2, np.inf], [np.inf, 9.0, 1.0]])
    expected = np.exp(-(squares - squares.min(axis=1, keepdims=True)) / (2 * width**2))
    np.testing.assert_allclose(links.toarray(), expected)


def test_curved_clusters_are_not_mixed():
    """The clusters of a fine run of two moons are pure, for rows and for new rows."""
    X, y = make_moons(1500, noise=0.04, random_state=0)
    member, labels = spectral_run(X[::2], 15)
    table = np.zeros((labels.max() + 1, 2), dtype=int)
    np.add.at(table, (labels, y[::2]), 1)
    assert (table.min(axis=1) == 0).all()
    np.testing.assert_array_equal(table.argmax(axis=1)[member.predict(X[1::2])], y[1::2])


def test_sparse_rows_are_landmarks_themselves(monkeypatch):
    """Landmarks of sparse rows are some of them, so that they stay sparse."""
    monkeypatch.setattr(members, "_LANDMARKS", 20)
    X = sp.random(90, 30, density=0.2, random_state=0, format="csr")
    member, _ = spectral_run(X, 4)
    assert sp.issparse(member.landmarks)
    assert member.landmarks.shape[0] <= 20
    rows = {tuple(row) for row in X.toarray()}
    assert {tuple(row) for row in member.landmarks.toarray()} <= rows


def test_few_distinct_rows_are_separated():
    """Repeated rows give one cluster for each distinct row, in any batch and order."""
    rng = np.random.default_rng(0)
    distinct = rng.normal(size=(4, 20))
    which = rng.integers(4, size=200)
    member, labels = spectral_run(distinct[which], 10)
    assert len(np.unique(labels)) == 4
    assert len(set(zip(labels.tolist(), which.tolist(), strict=True))) == 4
    np.testing.assert_array_equal(member.predict(distinct)[which], labels)


@pytest.mark.slow
@pytest.mark.parametrize("make", [np.asarray, np.float32, sp.csr_array])
def test_ties_between_landmarks_do_not_depend_on_the_batch(make):
    """Rows of zeros and ones are equally far from many landmarks; one rule chooses among them."""
    dense = (np.random.default_rng(0).random((400, 20)) < 0.2).astype(float)
    X = make(dense)
    member, labels = spectral_run(X, 20)
    order = np.random.default_rng(1).permutation(400)
    np.testing.assert_array_equal(member.predict(X[order]), labels[order])
    alone = [member.predict(X[i : i + 1])[0] for i in order[:40]]
    np.testing.assert_array_equal(alone, labels[order[:40]])
    np.testing.assert_array_equal(member.predict(dense), labels)
    np.testing.assert_array_equal(member.predict(sp.csr_array(dense)), labels)
