"""Affinity propagation on the summed distances of views."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

import coterie as ct
from coterie.errors import InvalidParameterError
from coterie.multiview import MultiViewAffinityPropagation, affinity_propagation
from coterie.multiview.affinity_propagation import improved_exemplars, summed_similarity

#: Three groups of 30, 20 and 15.
BLOBS = make_blobs([30, 20, 15], centers=6 * np.eye(3, 4), cluster_std=0.8, random_state=0)[0]


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(2, 15))
def test_the_similarity_is_the_formula(seed, n):
    """S = −Σ d_v² / mean(d_v²), dense or sparse; a constant view adds nothing."""
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n, 2)), rng.normal(size=(n, 3))
    squares = [cdist(x, x, "sqeuclidean") for x in (X, Z)]
    expected = -sum(d2 / d2.mean() for d2 in squares)
    found = summed_similarity([X, csr_array(Z), np.ones((n, 2))])
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_each_point_is_with_its_most_similar_exemplar():
    """Labels are those of the nearest exemplar; exemplars are medoids; the loss is their sum."""
    views = [BLOBS[:, :2], BLOBS[:, 2:]]
    est = MultiViewAffinityPropagation(5, random_state=0, standardize=False).fit(views)
    assert est.preference_ == est.history_["preference"][-1] < 0
    assert est.history_["n_clusters"][-1] == 5
    S = summed_similarity(views)
    np.testing.assert_allclose(
        S[np.arange(65), est.exemplars_[est.labels_]], S[:, est.exemplars_].max(axis=1), atol=1e-9
    )
    for k, exemplar in enumerate(est.exemplars_):
        own = np.flatnonzero(est.labels_ == k)
        sums = S[np.ix_(own, own)].sum(axis=0)
        assert sums[own == exemplar] == pytest.approx(sums.max())
    assert est.loss_ == pytest.approx(-S[:, est.exemplars_].max(axis=1).sum())


@pytest.mark.parametrize("n_clusters", [2, 3])
def test_few_points_have_the_best_exemplars(n_clusters):
    """On nine points the loss is the lowest over all choices of exemplars."""
    X = make_blobs(9, centers=n_clusters, cluster_std=0.5, random_state=3)[0]
    est = MultiViewAffinityPropagation(n_clusters, standardize=True, random_state=0).fit([X])
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    S = summed_similarity([Z])
    choices = itertools.combinations(range(9), n_clusters)
    assert est.loss_ == pytest.approx(min(-S[:, c].max(axis=1).sum() for c in choices))


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_improving_never_raises_the_loss(seed):
    """From any exemplars, even of equal points, the number of clusters stays the same."""
    rng = np.random.default_rng(seed)
    S = summed_similarity([rng.integers(0, 4, (20, 2)).astype(float)])
    first = rng.choice(20, 4, replace=False)
    start = S[:, first].argmax(axis=1)
    start[first] = np.arange(4)
    exemplars, labels = improved_exemplars(S, first, start)
    before = S[np.arange(20), first[start]].sum()
    assert S[np.arange(20), exemplars[labels]].sum() >= before - 1e-9
    assert (labels[exemplars] == np.arange(4)).all()


#: Points, number of clusters and of rounds, how many there are, and the warning.
POOR_ENDS = [
    # four equidistant points never have two exemplars
    (np.eye(4), 2, 1000, 4, "gave n_clusters=2 exemplars, the nearest number is 4"),
    (np.repeat([[0.0], [1.0], [1.2]], [30, 3, 3], axis=0), 5, 9, 3, "only 3 points are distinct"),
    (np.ones((4, 1)), 2, 9, 1, "only 1 points are distinct"),
    (BLOBS, 3, 1, None, "not converge in 1 rounds; raise max_iter"),
]


@pytest.mark.parametrize(("X", "n_clusters", "max_iter", "found", "message"), POOR_ENDS)
def test_poor_ends_are_reported(X, n_clusters, max_iter, found, message):
    """If K cannot be reached, the nearest number is selected; too few rounds are reported."""
    options = {"max_iter": max_iter, "standardize": True, "random_state": 0}
    est = MultiViewAffinityPropagation(n_clusters, **options)
    with pytest.warns(ConvergenceWarning, match=message):
        est.fit([X])
    assert found is None or est.n_clusters_ == len(est.exemplars_) == found


def test_a_fit_that_does_not_converge_is_damped_more(monkeypatch):
    """Three dampings are tried; each stops after ten times as many rounds as messages last."""
    tried = []
    original = affinity_propagation.affinity_propagation
    monkeypatch.setattr(
        affinity_propagation,
        "affinity_propagation",
        lambda S, **given: tried.append(given) or original(S, **given),
    )
    with pytest.raises(InvalidParameterError, match="no point became an exemplar"):
        MultiViewAffinityPropagation(3, max_iter=9, max_fits=1, random_state=0).fit([BLOBS])
    found = [(given["damping"], given["convergence_iter"]) for given in tried]
    assert found == [(0.9, 100), (0.95, 200), (0.98, 500)]


def test_no_exemplars_are_an_error():
    with pytest.raises(InvalidParameterError, match="max_iter=9: no point became an exemplar"):
        MultiViewAffinityPropagation(3, max_iter=9, random_state=0).fit([BLOBS])


@settings(max_examples=10)
@given(st.integers(0, 10**6))
def test_equal_points_are_one_weighted_point(seed):
    """Copies of a point share its label, and the loss is the sum over all copies."""
    rng = np.random.default_rng(seed)
    X = 8.0 * np.repeat(np.eye(3), 3, axis=0) + rng.normal(size=(9, 3))
    copies = rng.integers(1, 6, 9)
    est = MultiViewAffinityPropagation(3, standardize=True, random_state=0).fit(
        [np.repeat(X, copies, axis=0)]
    )
    assert [len(set(own)) for own in np.split(est.labels_, np.cumsum(copies)[:-1])] == [1] * 9
    assert ct.clustering_accuracy(np.repeat(np.arange(9) // 3, copies), est.labels_) == 1.0
    Z = np.repeat(X, copies, axis=0)
    S = summed_similarity([(Z - Z.mean(axis=0)) / Z.std(axis=0)])
    assert est.loss_ == pytest.approx(-S[:, est.exemplars_].max(axis=1).sum())


@pytest.mark.parametrize("n", [1, 6])
def test_one_cluster_and_as_many_as_points(n):
    """K = 1 gives the medoid of all points, K = n every point, both without a search."""
    X = np.arange(float(n))[:, None] ** 2
    one = MultiViewAffinityPropagation(1).fit([X])
    assert one.n_clusters_ == 1 and not one.labels_.any() and np.isnan(one.preference_)
    assert one.exemplars_[0] == np.argmin(cdist(X, X, "sqeuclidean").sum(axis=0))
    every = MultiViewAffinityPropagation(n).fit([X])
    assert every.n_clusters_ == n and every.loss_ == 0.0
