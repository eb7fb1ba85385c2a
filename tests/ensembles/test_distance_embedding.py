"""Coordinates from distances: exact for Euclidean ones, near with landmarks, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import pairwise_distances

from coterie.ensembles import scalings
from coterie.ensembles.scalings import DistanceEmbedding, check_distances
from coterie.errors import InvalidParameterError


def distances(X, Y=None):
    """Return Euclidean distances with an exact diagonal."""
    D = pairwise_distances(X, Y)
    if Y is None:
        np.fill_diagonal(D, 0)
    return D


@given(st.integers(2, 40), st.integers(1, 6), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_euclidean_distances_are_kept(n, p, seed):
    """Coordinates of fitted and new points have the given distances to the fitted points."""
    rng = np.random.default_rng(seed)
    X, new = rng.normal(size=(n, p)), rng.normal(size=(5, p))
    D = distances(X)
    embedding = DistanceEmbedding.fit(D, np.random.RandomState(0))
    Z = embedding.transform(D)
    np.testing.assert_allclose(distances(Z), D, atol=1e-6)
    if n > p:  # a new point is outside the plane of fewer points
        moved = embedding.transform(distances(new, X))
        np.testing.assert_allclose(distances(moved, Z), distances(new, X), atol=1e-5)


def test_landmarks_keep_euclidean_distances(monkeypatch):
    """More landmarks than columns are enough; rows that are not allowed are no landmarks."""
    monkeypatch.setattr(scalings, "MOST_LANDMARKS", 10)
    X = np.random.default_rng(0).normal(size=(60, 3))
    D, allowed = distances(X), np.arange(60) % 2 == 0
    embedding = DistanceEmbedding.fit(D, np.random.RandomState(0), allowed)
    assert len(embedding.landmarks) == 10
    assert allowed[embedding.landmarks].all()
    np.testing.assert_allclose(distances(embedding.transform(D)), D, atol=1e-6)


@pytest.mark.parametrize("metric", ["cosine", "cityblock"])
def test_roots_of_distances_that_are_not_euclidean_are_kept(metric):
    """Roots of cosine and Manhattan distances are Euclidean, and are embedded."""
    X = np.abs(np.random.default_rng(0).normal(size=(30, 5)))
    D = np.maximum(pairwise_distances(X, metric=metric), 0)
    embedding = DistanceEmbedding.fit(D, np.random.RandomState(0))
    assert embedding.is_rooted
    np.testing.assert_allclose(distances(embedding.transform(D)), np.sqrt(D), atol=1e-5)


def test_equal_rows_are_at_one_place():
    """Distances that are all 0 give one coordinate, 0."""
    Z = DistanceEmbedding.fit(np.zeros((3, 3)), np.random.RandomState(0)).transform(
        np.zeros((3, 3))
    )
    assert Z.tolist() == [[0.0]] * 3


@pytest.mark.parametrize(
    ("D", "message"),
    [
        (np.ones((3, 2)), r"needs the distances of all pairs of rows, \(n, n\), .* \(3, 2\)"),
        ([[0, -1.0], [-1.0, 0]], "Negative values in data: -1 at row 0, column 1"),
        ([[0, 1.0], [2.0, 0]], "not symmetric: 1 at row 0, column 1, but 2"),
        ([[1, 0.5], [0.5, 1]], "row 0 has the distance 1 to itself"),
    ],
)
def test_what_is_no_distance_is_refused(D, message):
    """The message names the place."""
    with pytest.raises(InvalidParameterError, match=message):
        check_distances(np.array(D))
