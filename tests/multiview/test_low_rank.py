"""A shared low-rank similarity of several views, and their sparse errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

import coterie as ct
from coterie.ensembles.generate import fit_ensemble
from coterie.errors import InvalidParameterError
from coterie.labels.tuples import as_label_tuples
from coterie.multiview import LowRankConsensus, low_rank, low_rank_consensus
from coterie.relaxation.spectral import spectral_labels

seeds = st.integers(0, 10**6)


def blocks(*sizes):
    """The 0/1 similarity of clusters of these sizes."""
    z = np.repeat(np.arange(len(sizes)), sizes)
    return (z[:, None] == z).astype(float)


def random_problem(seed, u=7, n_views=2):
    """Co-associations of random partitions of u tuples, multiplicities, tuple of each point."""
    rng = np.random.default_rng(seed)
    omega = rng.integers(1, 5, u)
    P = rng.integers(0, 3, (n_views, u, 4))
    S = np.array([(labels[:, None] == labels[None]).mean(axis=2) for labels in P])
    return S, omega.astype(float), np.repeat(np.arange(u), omega)


def textbook_admm(S, n_clusters, lam1, lam2, n_steps):
    """The ADMM steps over points, with explicit singular values and Laplacian."""
    V, n = len(S), S.shape[1]
    Z, mu = S.mean(axis=0), 0.01
    Y, Y0 = np.zeros_like(S), np.zeros((n, n))

    def half_squared_distances(Z):
        vectors = np.linalg.eigh(np.diag(Z.sum(axis=1)) - Z)[1][:, :n_clusters]
        return ((vectors[:, None] - vectors[None]) ** 2).sum(axis=2) / 2

    P = half_squared_distances(Z)
    for _ in range(n_steps):
        left, values, right = np.linalg.svd(Z + Y0 / mu)
        J = left @ np.diag(np.maximum(values - 1 / mu, 0)) @ right
        R = S - Z + Y / mu
        E = np.sign(R) * np.maximum(np.abs(R) - lam1 / mu, 0)
        T = (J - Y0 / mu + (S - E + Y / mu).sum(axis=0) - lam2 / mu * P) / (V + 1)
        Z = np.maximum(0, (T + T.T) / 2)
        P = half_squared_distances(Z)
        Y += mu * (S - Z - E)
        Y0 += mu * (Z - J)
        mu = min(1.2 * mu, 1e6)
    return Z


@settings(max_examples=15)
@given(seeds, st.integers(3, 40))
def test_the_steps_are_the_textbook_ones_over_points(seed, n_steps):
    """Z over weighted tuples equals the textbook's Z over all points."""
    S, omega, member = random_problem(seed)
    n = len(member)
    lam1 = 1.5 / (2 * np.sqrt(n))
    keywords = {"error_weight": lam1, "cut_weight": 0.0, "max_iter": n_steps, "tol": 0.0}
    over_tuples = low_rank_consensus(S, 2, omega, **keywords)
    S_points = S[:, member][:, :, member]
    over_points = low_rank_consensus(S_points, 2, **keywords)
    expanded = over_tuples.shared[np.ix_(member, member)]
    np.testing.assert_allclose(expanded, over_points.shared, atol=1e-8)
    np.testing.assert_allclose(expanded, textbook_admm(S_points, 2, lam1, 0.0, n_steps), atol=1e-8)
    assert over_tuples.loss == pytest.approx(over_points.loss)
    np.testing.assert_allclose(over_tuples.history["residual"], over_points.history["residual"])
    assert over_tuples.rank == over_points.rank


def test_the_cut_term_is_the_textbook_one():
    """With λ₂ > 0, if the K smallest eigenvectors are unique and equal on equal points."""
    rng = np.random.default_rng(0)
    S = np.array([0.7 * blocks(4, 3) + 0.3 * rng.uniform(size=(7, 7)) for _ in range(2)])
    S = (S + S.transpose(0, 2, 1)) / 2
    member = np.repeat(np.arange(7), [2, 1, 1, 2, 1, 1, 2])
    keywords = {"error_weight": 0.3, "cut_weight": 0.05, "max_iter": 30, "tol": 0.0}
    Z = low_rank_consensus(S, 2, np.bincount(member), **keywords).shared
    expected = textbook_admm(S[:, member][:, :, member], 2, 0.3, 0.05, 30)
    np.testing.assert_allclose(Z[np.ix_(member, member)], expected, atol=1e-8)
    without = low_rank_consensus(S, 2, np.bincount(member), **{**keywords, "cut_weight": 0.0})
    assert np.abs(Z - without.shared).max() > 1e-4


@settings(max_examples=10)
@given(seeds)
def test_no_other_matrix_has_a_lower_loss(seed):
    """Without the cut term the problem is convex, and the solution is its optimum."""
    S, omega, member = random_problem(seed)
    split = low_rank_consensus(S, 2, omega, error_weight=0.2, cut_weight=0, max_iter=150, tol=1e-8)
    assert split.converged and (split.shared >= 0).all()
    np.testing.assert_allclose(split.shared, split.shared.T)

    def loss(Z):
        errors = omega @ np.abs(S - Z).sum(axis=0) @ omega
        return np.linalg.norm(Z[np.ix_(member, member)], "nuc") + 0.2 * errors

    assert loss(split.shared) == pytest.approx(split.loss)
    rng = np.random.default_rng(seed)
    others = [np.zeros_like(S[0]), S.mean(axis=0), S.min(axis=0), S[0]]
    for size in (1.0, 0.1, 0.01):
        noise = rng.normal(0, size, (10, *S[0].shape))
        others += [np.maximum(split.shared + (N + N.T) / 2, 0) for N in noise]
    # The growing penalty stops the steps near the optimum, not at it.
    assert split.loss <= min(map(loss, others)) * (1 + 5e-3)


def test_only_large_blocks_remain():
    """A cluster of s points that is equal in all views remains if s·λ₁·V > 1, else vanishes."""
    S = np.stack([blocks(6, 3)] * 3)
    split = low_rank_consensus(S, 2, error_weight=0.2 / 3, cut_weight=0.0, tol=1e-7, max_iter=150)
    expected = blocks(6, 3) * (np.arange(9) < 6)
    np.testing.assert_allclose(split.shared, expected, atol=1e-5)
    assert split.rank == 1


def test_each_view_has_its_own_coassociation(monkeypatch):
    """S_v is the co-association of the runs of view v, in any order of the partitions."""
    rng = np.random.default_rng(1)
    views = [rng.normal(size=(20, p)) for p in (1, 2, 3)]
    seed = np.random.RandomState(0)
    runs = [fit_ensemble(X, 3, 4, ensemble="kmeans", random_state=seed).labels for X in views]
    seen = []
    original = low_rank.low_rank_consensus
    monkeypatch.setattr(
        low_rank, "low_rank_consensus", lambda S, *a, **k: seen.append(S) or original(S, *a, **k)
    )
    LowRankConsensus(3, n_partitions=4, random_state=0).fit(views)
    inverse = as_label_tuples(np.hstack(runs)).inverse
    for S_v, labels in zip(seen[0], runs, strict=True):
        np.testing.assert_allclose(S_v[np.ix_(inverse, inverse)], ct.coassociation(labels))


@pytest.fixture(scope="module")
def blobs():
    """Three groups of 30, 20 and 15 in two views of two columns each."""
    X, y = make_blobs([30, 20, 15], centers=5 * np.eye(3, 4), random_state=0)
    return {"left": X[:, :2], "right": X[:, 2:]}, y


def test_groups_that_no_view_shows_alone_are_found(blobs):
    """The left view separates two groups and the right one the third; all three are found."""
    views, y = blobs
    est = LowRankConsensus(3, random_state=0).fit(views)
    assert ct.clustering_accuracy(y, est.labels_) > 0.9
    assert est.n_tuples_ <= 65 and est.rank_ >= 1
    assert len(est.history_["loss"]) == len(est.history_["residual"]) == est.n_iter_
    assert est.history_["residual"][-1] <= est.tol


def test_small_clusters_are_found_although_they_vanish_from_z():
    """Clusters below √n vanish from Z; the added mean of the views still separates them."""
    flips = np.triu(np.random.default_rng(0).uniform(size=(4, 74, 74)) < 0.04, 1)
    S = np.abs(blocks(60, 7, 7) - (flips | flips.transpose(0, 2, 1)))
    split = low_rank_consensus(S, 3)
    assert split.rank == 1 and split.shared[60:].max() < 1e-6
    affinity = split.shared + low_rank._MEAN_SHARE * S.mean(axis=0)
    labels = spectral_labels(affinity, np.ones(74), 3, 0)
    assert ct.clustering_accuracy(np.repeat([0, 1, 2], [60, 7, 7]), labels) == 1.0


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("error_weight", 1e-6, "classified as errors.*raise error_weight"),
        ("max_iter", 5, "max_iter=5 steps.*raise max_iter or tol"),
    ],
)
def test_a_poor_end_is_reported(blobs, setting, value, message):
    """Too few steps give a warning; so does an empty shared part, and the mean is clustered."""
    views, y = blobs
    with pytest.warns(ConvergenceWarning, match=message):
        est = LowRankConsensus(3, **{setting: value}, random_state=0).fit(views)
    assert est.n_iter_ <= est.max_iter and ct.clustering_accuracy(y, est.labels_) > 0.9


@pytest.mark.parametrize(
    ("S", "weights", "message"),
    [
        (np.eye(3), None, r"S has shape \(3, 3\)"),
        ([np.eye(2), np.eye(3)], None, "V matrices of one size"),
        ([-np.eye(3)], None, r"S\[0\] has entries that are negative"),
        ([np.eye(3), np.triu(np.ones((3, 3)))], None, r"S\[1\] is not symmetric"),
        ([np.eye(3)], [1.0, 2.0, 0.0], "give 3 positive numbers"),
    ],
)
def test_unusable_similarities_are_refused(S, weights, message):
    with pytest.raises(InvalidParameterError, match=message):
        low_rank_consensus(S, 2, weights)
