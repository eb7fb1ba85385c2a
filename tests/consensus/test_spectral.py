"""L2Consensus, KMeansConsensus, OneHotKMeans and CorrelationConsensus, from dense formulas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.preprocessing import OneHotEncoder

import coterie as ct
from all_partitions import all_partitions
from coterie.consensus import spectral
from coterie.consensus.spectral import (
    bundle_partitions,
    code_affinity,
    profile_coordinates,
    self_representation,
)
from coterie.labels.tuples import as_label_tuples
from coterie.relaxation.spectral import spectral_labels
from label_matrices import label_matrices


def test_l2_is_kmeans_on_the_leading_eigenvectors():
    """Labels equal those of k-means on H√D computed from the dense co-association matrix."""
    P, _ = ct.planted_partitions([60, 40, 20], 10, 2, 0.3, random_state=0)
    values, vectors = np.linalg.eigh(ct.coassociation(P))
    embedding = vectors[:, -3:] * np.sqrt(values[-3:])
    dense = KMeans(3, n_init=20, random_state=0).fit_predict(embedding)
    assert ct.clustering_accuracy(dense, ct.L2Consensus(3, random_state=0).fit(P).labels_) == 1


def random_labels(seed, n=30, V=4, missing=0.0):
    """Labels 0..2 at random, repeated rows among them, no row or column wholly missing."""
    rng = np.random.default_rng(seed)
    P = rng.integers(0, 3, (n, V))[rng.integers(0, n, n)]
    P[rng.random(P.shape) < missing] = -1
    P[0] = 0
    return P[(P >= 0).any(axis=1)]


def sum_of_squares(rows, labels):
    """Squared distances to the cluster means, from the definition."""
    clusters = [rows[labels == k] for k in np.unique(labels)]
    return float(sum(((own - own.mean(axis=0)) ** 2).sum() for own in clusters))


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), missing=st.sampled_from([0.0, 0.3]), dense=st.booleans())
def test_coordinates_have_the_distances_of_the_rows(seed, missing, dense):
    """Distances between tuples are those between their points' rows of the dense matrix."""
    P = random_labels(seed, missing=missing)
    weights = np.random.default_rng(seed).choice([0.0, 1.0, 2.5], 4)
    weights[0] += 1
    tuples = as_label_tuples(P)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spectral, "_DENSE_UP_TO", 10_000 if dense else 0)
        E = profile_coordinates(tuples, weights[tuples.partition_order])[tuples.inverse]
    labelled = ((P >= 0) & (weights > 0)).any(axis=1)
    M = ct.coassociation(P, weights)[labelled]
    assert cdist(E[labelled], E[labelled], "sqeuclidean") == pytest.approx(
        cdist(M, M, "sqeuclidean"), abs=1e-9
    )
    assert not E[~labelled].any()


def test_profiles_are_the_rows_of_the_matrix(labels):
    """Loss and labels equal those of scikit-learn's k-means on the dense rows."""
    P, _ = labels
    M = ct.coassociation(P)
    est = ct.KMeansConsensus(3, random_state=0).fit(P)
    full = KMeans(3, n_init=20, random_state=0).fit(M)
    assert est.loss_ == pytest.approx(sum_of_squares(M, est.labels_))
    assert est.loss_ == pytest.approx(full.inertia_)
    assert ct.clustering_accuracy(full.labels_, est.labels_) == 1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_least_over_all_partitions_of_few_points(seed, missing):
    """On eight points no partition into at most three clusters has a smaller loss."""
    P = random_labels(seed, n=8, missing=missing)
    M = ct.coassociation(P)
    K = min(3, len(np.unique(P, axis=0)))
    least = min(sum_of_squares(M, z) for z in all_partitions(len(P), K))
    assert ct.KMeansConsensus(K, random_state=0).fit(P).loss_ == pytest.approx(least, abs=1e-9)


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


@pytest.fixture(scope="module")
def labels():
    """Ten noisy partitions of 60 points, and the planted one."""
    return ct.planted_partitions([30, 20, 10], 10, 0, 0.2, random_state=0)


def textbook_codes(views, lam1, lam2, n_rounds):
    """Codes of single points in the columns of C, from the formulas, and the losses."""
    X = [x.T / np.linalg.norm(x.T, axis=0) for x in views]
    n = X[0].shape[1]
    C, U, losses = [np.zeros((n, n)) for _ in X], np.zeros((n, n)), []
    for _ in range(n_rounds):
        for v, x in enumerate(X):
            C[v] = fista(x, C[v], lam1 - lam2 * U)
        total = np.mean(C, axis=0)
        U = total / np.maximum(np.linalg.norm(total, axis=0), 1e-300)
        fit = [0.5 * ((x - x @ c) ** 2).sum() + lam1 * c.sum() for x, c in zip(X, C, strict=True)]
        losses.append(np.mean(fit) - lam2 * (total * U).sum())
    return C, losses


def fista(x, C, slope):
    """Thirty steps for min ½‖x − xC‖² + Σ slope∘C over C ≥ 0 with an empty diagonal."""
    step, y, t = 1 / np.linalg.norm(x, 2) ** 2, C, 1.0
    for _ in range(30):
        new = np.maximum(y - step * (x.T @ (x @ y - x) + slope), 0)
        np.fill_diagonal(new, 0)
        following = (1 + np.sqrt(1 + 4 * t * t)) / 2
        y, C, t = new + (t - 1) / following * (new - C), new, following
    return C


def textbook_affinity(codes, threshold):
    """Mean cosine between thresholded columns with their maximum on the diagonal."""
    cosines = []
    for C in codes:
        kept = np.where(C >= threshold * C.max(axis=0), C, 0)
        np.fill_diagonal(kept, C.max(axis=0))
        kept /= np.linalg.norm(kept, axis=0)
        cosines.append(kept.T @ kept)
    return np.mean(cosines, axis=0)


def test_tuples_with_multiplicities_equal_single_points():
    """Codes, losses, affinity and labels equal those of the dense formulas on all points."""
    P, _ = ct.planted_partitions([25, 15, 10], 6, 0, 0.15, random_state=1)
    tuples = as_label_tuples(P)
    assert tuples.n_tuples < 50
    views, weights = bundle_partitions(tuples, np.ones(6), 3)
    found = self_representation(
        views, tuples.weights, penalty=0.03, angle_penalty=0.02, view_weights=weights
    )
    codes, losses = textbook_codes([tuples.expand(X) for X in views], 0.03, 0.02, 3)
    np.testing.assert_allclose(found.losses, losses, rtol=1e-9)
    apart = tuples.inverse[:, None] != tuples.inverse
    for ours, theirs in zip(found.codes, codes, strict=True):
        expanded = ours[np.ix_(tuples.inverse, tuples.inverse)]
        np.testing.assert_allclose(expanded[apart], theirs.T[apart], atol=1e-9)
    affinity = code_affinity(found, tuples.weights, 0.05)
    W = textbook_affinity(codes, 0.05)
    np.testing.assert_allclose(
        affinity[np.ix_(tuples.inverse, tuples.inverse)][apart], W[apart], atol=1e-8
    )
    of_tuple = tuples.inverse[:, None] == np.arange(tuples.n_tuples)
    means = (of_tuple.T @ W @ of_tuple).diagonal() / tuples.weights**2
    np.testing.assert_allclose(affinity.diagonal(), means, atol=1e-8)
    ours = tuples.expand(spectral_labels(affinity, tuples.weights, 3, 0))
    assert ct.clustering_accuracy(spectral_labels(W, np.ones(50), 3, 0), ours) == 1


def test_many_steps_reach_the_nonnegative_lasso(monkeypatch):
    """Without the angle each code is a nonnegative lasso, which NNLS solves too."""
    monkeypatch.setattr(spectral, "_STEPS", 4000)
    X = np.abs(np.random.default_rng(0).standard_normal((7, 4)))
    found = self_representation([X], np.ones(7), penalty=0.1, angle_penalty=0.0, n_rounds=1)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    total = 0.0
    for a in range(7):
        others = np.delete(unit, a, axis=0)
        # ½‖x − Oᵀc‖² + λΣc = ½‖Lᵀc − L⁻¹(Ox − λ)‖² + const with LLᵀ = OOᵀ, made regular
        L = np.linalg.cholesky(others @ others.T + 1e-9 * np.eye(6))
        code = nnls(L.T, np.linalg.solve(L, others @ unit[a] - 0.1))[0]
        total += 0.5 * ((unit[a] - code @ others) ** 2).sum() + 0.1 * code.sum()
    assert found.losses[-1] == pytest.approx(total, rel=1e-5)


@settings(max_examples=20)
@given(label_matrices(), st.floats(0.01, 0.5), st.floats(0, 1), st.integers(1, 4))
def test_loss_never_rises_and_affinities_are_cosines(P, penalty, share, n_bundles):
    """Rounds lower the loss, bounded below by 0; affinities are symmetric and within [0, 1]."""
    tuples = as_label_tuples(P)
    views, weights = bundle_partitions(tuples, np.ones(P.shape[1]), n_bundles)
    found = self_representation(
        views,
        tuples.weights,
        penalty=penalty,
        angle_penalty=share * penalty,
        view_weights=weights,
        n_rounds=4,
    )
    assert (np.diff(found.losses) <= 1e-9 * P.shape[0]).all() and found.losses[-1] >= -1e-9
    affinity = code_affinity(found, tuples.weights, 0.05)
    np.testing.assert_allclose(affinity, affinity.T, atol=1e-12)
    assert affinity.min() >= 0 and affinity.max() <= 1 + 1e-9


def test_no_point_represents_itself(labels):
    """The diagonal of codes is 0 for a tuple of one point and may be positive for several."""
    tuples = as_label_tuples(labels[0])
    views, weights = bundle_partitions(tuples, np.ones(10), 2)
    found = self_representation(views, tuples.weights, penalty=0.02, angle_penalty=0.02)
    own = np.array([C.diagonal() for C in found.codes])
    assert (own[:, tuples.weights == 1] == 0).all() and (own[:, tuples.weights > 1] > 0).any()
    assert weights.tolist() == [5.0, 5.0]


def test_a_view_without_a_row_does_not_influence_it():
    """The affinities of a row that is zero in the second view are those of the first view."""
    X, _ = make_blobs(20, centers=2, n_features=3, random_state=0)
    gap = X.copy()
    gap[4] = 0
    settings_ = {"penalty": 0.1, "angle_penalty": 0.0}
    both = code_affinity(self_representation([X, gap], np.ones(20), **settings_), np.ones(20), 0.0)
    first = code_affinity(self_representation([X], np.ones(20), **settings_), np.ones(20), 0.0)
    np.testing.assert_allclose(both[4], first[4])


def test_bundles_take_neighbouring_partitions(labels):
    """Bundles have almost equal sizes and scale partitions by weight."""
    tuples = as_label_tuples(labels[0])
    weights = np.array([4.0, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    views, totals = bundle_partitions(tuples, weights, 4)
    assert totals.tolist() == [6.0, 3.0, 2.0, 2.0]
    np.testing.assert_allclose((views[0] ** 2).sum(axis=1), 6.0)
    assert len(bundle_partitions(tuples, weights, 20)[0]) == 10
