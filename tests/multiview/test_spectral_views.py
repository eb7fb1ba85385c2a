"""Spectral clustering of one view, and of all side by side."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.base import clone

import coterie as ct
from coterie.errors import InvalidParameterError, TooManyPointsError
from coterie.multiview import ConcatenatedSpectral, SpectralView
from coterie.multiview.spectral_views import self_tuning_affinity, squared_distances


@pytest.fixture(scope="module")
def rings():
    """Two rings around each other, their coordinates in two views; another split in a third."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [80, 60])
    angle = rng.uniform(0, 2 * np.pi, 140)
    radius = np.where(y == 0, 4.0, 1.0) + rng.normal(0, 0.05, 140)
    other = rng.integers(0, 2, 140)
    return (
        {
            "x": (radius * np.cos(angle))[:, None],
            "y": (radius * np.sin(angle))[:, None],
            "other": 5.0 * other[:, None] + rng.normal(0, 0.3, (140, 1)),
        },
        y,
        other,
    )


def test_what_no_view_shows_alone_all_show_together(rings):
    """Rings are seen in both coordinates and in neither of them."""
    views, y, _ = rings
    two = {"x": views["x"], "y": views["y"]}
    both = ConcatenatedSpectral(2, random_state=0).fit(two)
    assert ct.clustering_accuracy(y, both.labels_) == 1.0
    assert both.view_names_ == ["x", "y"] and both.n_clusters_ == 2
    assert both.labels_.dtype == np.int32 and np.bincount(both.labels_).tolist() == [80, 60]
    assert ct.clustering_accuracy(y, SpectralView(2, random_state=0).fit(two).labels_) < 0.9


def test_one_view_is_chosen_by_name_or_place(rings):
    """SpectralView is ConcatenatedSpectral of that view alone."""
    views, _, other = rings
    named = SpectralView(2, view="other", random_state=0).fit(views).labels_
    placed = SpectralView(2, view=2, random_state=0).fit(list(views.values())).labels_
    alone = ConcatenatedSpectral(2, random_state=0).fit([views["other"]]).labels_
    assert (named == placed).all() and (named == alone).all()
    assert ct.clustering_accuracy(other, named) == 1.0


@pytest.mark.parametrize("view", ["z", 3, -1, True, None])
def test_a_view_that_is_not_there_is_refused(rings, view):
    """The names there are, and the range of places, are told."""
    with pytest.raises(InvalidParameterError, match=r"give a name \(x, y, other\) or a place"):
        SpectralView(2, view=view).fit(rings[0])


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(1, 4))
def test_distances_are_those_of_the_concatenation(seed, n, p):
    """Dense and sparse views add up to the squared distances of the views side by side."""
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n, p)), rng.integers(0, 3, (n, 2)).astype(float)
    expected = cdist(np.hstack([X, Z]), np.hstack([X, Z]), "sqeuclidean")
    np.testing.assert_allclose(squared_distances([X, csr_array(Z)]), expected, atol=1e-12)


def test_equal_rows_are_at_distance_zero():
    """Rounding does not part equal rows, so that a scale is never made of it."""
    X = np.random.default_rng(1).normal(size=(40, 30)).repeat(3, axis=0)
    D2 = squared_distances([X])
    assert (D2[np.kron(np.eye(40), np.ones((3, 3))) == 1] == 0).all()


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(9, 25))
def test_the_affinity_is_the_formula(seed, n):
    """W_ij = exp(−d² / (s_i s_j)) with the seventh neighbour's distance, term by term."""
    X = np.random.default_rng(seed).normal(size=(n, 3))
    D = cdist(X, X)
    s = np.sort(D, axis=1)[:, 7]
    expected = np.exp(-(D**2) / np.outer(s, s))
    np.testing.assert_allclose(self_tuning_affinity(squared_distances([X])), expected, atol=1e-9)


def test_the_affinity_knows_no_units():
    """Stretching space changes no affinity."""
    X = np.random.default_rng(3).normal(size=(30, 2))
    near, far = (self_tuning_affinity(squared_distances([c * X])) for c in (1.0, 1e3))
    np.testing.assert_allclose(near, far, rtol=1e-8, atol=1e-12)


def test_crowds_of_equal_points_have_a_scale():
    """Where the seventh neighbour coincides, the nearest other point sets the scale."""
    X = np.repeat([[0.0], [1.0], [4.0]], [10, 10, 2], axis=0)
    W = self_tuning_affinity(squared_distances([X]))
    assert np.isfinite(W).all() and W[0, 1] == 1.0
    np.testing.assert_allclose(W[0, 10], np.exp(-1.0))  # both scales are 1
    assert (self_tuning_affinity(np.zeros((9, 9))) == 1.0).all()
    labels = ConcatenatedSpectral(3, random_state=0).fit([X]).labels_
    assert len({tuple(labels[X[:, 0] == x]) for x in (0.0, 1.0, 4.0)}) == 3


@pytest.mark.parametrize("n_clusters", [1, 5])
def test_one_cluster_and_as_many_as_points(n_clusters):
    """K = 1 and K = n work."""
    X = np.arange(5.0)[:, None] ** 2
    est = ConcatenatedSpectral(n_clusters, random_state=0).fit([X])
    assert est.n_clusters_ == n_clusters == len(set(est.labels_))


def test_settings_are_checked_in_fit():
    """Bad settings and too many points are refused with their names."""
    X = np.arange(6.0)[:, None]
    with pytest.raises(InvalidParameterError, match="n_neighbors=0"):
        ConcatenatedSpectral(2, n_neighbors=0).fit([X])
    with pytest.raises(InvalidParameterError, match="n_clusters=7 is more than the 6 points"):
        ConcatenatedSpectral(7).fit([X])
    with pytest.raises(TooManyPointsError, match="max_points=5"):
        ConcatenatedSpectral(2, max_points=5).fit([X])


def test_it_can_be_cloned_and_seeded(rings):
    """clone keeps the settings, and the same seed gives the same labels."""
    est = SpectralView(2, view="x", n_neighbors=5, random_state=3)
    again = clone(est)
    assert again.get_params() == est.get_params()
    assert (est.fit(rings[0]).labels_ == again.fit_predict(rings[0])).all()


def test_equal_things_stay_together():
    """Three distinct things make three clusters at most, however many are asked for."""
    D = np.repeat([[0.0, 0.0], [1.0, 1.0], [5.0, 5.0]], 20, axis=0)
    labels = ConcatenatedSpectral(5, random_state=0).fit([D, D]).labels_
    assert len(set(zip(np.repeat(range(3), 20).tolist(), labels.tolist(), strict=True))) == 3
