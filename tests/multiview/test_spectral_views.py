"""Spectral clustering and spectral features of views."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

import coterie as ct
from coterie.errors import InvalidParameterError
from coterie.multiview import ConcatenatedSpectral, SpectralView, spectral_views
from coterie.multiview.spectral_views import self_tuning_affinity, squared_distances


@pytest.fixture(scope="module")
def rings():
    """Two concentric rings, their coordinates in two views; other groups in a third view."""
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


def test_views_together_show_what_no_single_view_shows(rings):
    """The rings are found from both coordinates, but not from one."""
    views, y, _ = rings
    two = {"x": views["x"], "y": views["y"]}
    both = ConcatenatedSpectral(2, random_state=0).fit(two)
    assert ct.clustering_accuracy(y, both.labels_) == 1.0
    assert ct.clustering_accuracy(y, SpectralView(2, random_state=0).fit(two).labels_) < 0.9


def test_one_view_is_chosen_by_name_or_index(rings):
    """SpectralView equals ConcatenatedSpectral of that view alone."""
    views, _, other = rings
    named = SpectralView(2, view="other", random_state=0).fit(views).labels_
    placed = SpectralView(2, view=2, random_state=0).fit(list(views.values())).labels_
    alone = ConcatenatedSpectral(2, random_state=0).fit([views["other"]]).labels_
    assert (named == placed).all() and (named == alone).all()
    assert ct.clustering_accuracy(other, named) == 1.0


@pytest.mark.parametrize("view", ["z", 3, -1, True])
def test_an_unknown_view_is_refused(rings, view):
    with pytest.raises(InvalidParameterError, match=r"give a name \(x, y, other\) or an index"):
        SpectralView(2, view=view).fit(rings[0])


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(1, 4))
def test_distances_are_those_of_the_concatenation(seed, n, p):
    """The sum over dense and sparse views equals the distances of the joined table."""
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n, p)), rng.integers(0, 3, (n, 2)).astype(float)
    expected = cdist(np.hstack([X, Z]), np.hstack([X, Z]), "sqeuclidean")
    np.testing.assert_allclose(squared_distances([X, csr_array(Z)]), expected, atol=1e-12)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(9, 25))
def test_the_affinity_is_the_formula(seed, n):
    """W_ij = exp(−d² / (s_i s_j)), with s_i the distance to the seventh neighbour."""
    X = np.random.default_rng(seed).normal(size=(n, 3))
    D = cdist(X, X)
    s = np.sort(D, axis=1)[:, 7]
    expected = np.exp(-(D**2) / np.outer(s, s))
    np.testing.assert_allclose(self_tuning_affinity(squared_distances([X]), 7), expected, atol=1e-9)


def test_equal_points_are_one_weighted_point(monkeypatch):
    """The cut is over distinct points, each with its number of copies."""
    X = np.repeat([[0.0], [1.0], [4.0], [5.0]], [3, 1, 2, 5], axis=0)
    seen = []
    original = spectral_views.spectral_labels
    monkeypatch.setattr(
        spectral_views, "spectral_labels", lambda *args: seen.append(args) or original(*args)
    )
    ConcatenatedSpectral(2, random_state=0).fit([X])
    ((W, counts, *_),) = seen
    assert W.shape == (4, 4) and counts.tolist() == [3, 1, 2, 5]


def test_many_equal_points_have_a_scale():
    """If the seventh neighbour coincides, the nearest different point sets the scale."""
    X = np.repeat([[0.0], [1.0], [4.0]], [10, 10, 2], axis=0)
    W = self_tuning_affinity(squared_distances([X]), 7)
    assert np.isfinite(W).all() and W[0, 1] == 1.0
    np.testing.assert_allclose(W[0, 10], np.exp(-1.0))  # both scales are 1
    assert (self_tuning_affinity(np.zeros((9, 9)), 7) == 1.0).all()
    labels = ConcatenatedSpectral(3, random_state=0).fit([X]).labels_
    assert len({tuple(labels[X[:, 0] == x]) for x in (0.0, 1.0, 4.0)}) == 3
