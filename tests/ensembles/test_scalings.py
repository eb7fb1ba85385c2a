"""Scalings of features and coordinates from distances: oracles of scikit-learn, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.metrics import pairwise_distances
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from coterie.ensembles import scalings
from coterie.ensembles.scalings import (
    DistanceEmbedding,
    Scaling,
    centring,
    check_distances,
    row_blocks,
    standard_and_min_max,
    unequal_spread,
)
from coterie.errors import InvalidParameterError

IRIS = load_iris().data


def test_scaling_selects_shifts_and_scales():
    """A scaling is (X[:, features] - shift) / scale, dense and sparse alike."""
    X = np.array([[1.0, 2.0, 3.0], [4.0, 0.0, 6.0]])
    features, shift, scale = np.array([0, 2]), np.array([1.0, 2.0]), np.array([2.0, 4.0])
    wanted = (X[:, features] - shift) / scale
    scaling = Scaling(features=features, shift=shift, scale=scale)
    np.testing.assert_array_equal(scaling.transform(X), wanted)
    np.testing.assert_array_equal(scaling.transform(sp.csr_array(X)), wanted)
    unshifted = Scaling(features=features, scale=scale).transform(sp.csr_array(X))
    assert sp.issparse(unshifted)
    np.testing.assert_array_equal(unshifted.toarray(), X[:, features] / scale)


def test_scalings_are_scikit_learns_scalers():
    """The two scalings are by deviation and by range; those of sparse data do not shift."""
    X = sp.random(60, 5, density=0.4, random_state=0, format="csr")
    for rows, *scalers in (
        (IRIS, StandardScaler(), MinMaxScaler()),
        (X, StandardScaler(with_mean=False), MaxAbsScaler()),
    ):
        for scaling, scaler in zip(standard_and_min_max(rows), scalers, strict=True):
            found, expected = scaling.transform(rows), scaler.fit_transform(rows)
            assert sp.issparse(found) == sp.issparse(rows)
            if sp.issparse(rows):
                found, expected = found.toarray(), expected.toarray()
            np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9])
def test_constant_columns_become_zero(value):
    """A constant column of any value is 0 in every scaling, even for new rows."""
    X = np.column_stack([np.arange(1000.0), np.full(1000, value)])
    for scaling in standard_and_min_max(X):
        assert np.all(scaling.transform(X)[:, 1] == 0)
        assert scaling.transform(np.array([[0.0, value + 5]]))[0, 1] == 0
    assert np.all(centring(X).transform(X)[:, 1] == 0)
    for scaling in standard_and_min_max(sp.csr_array(X)):
        assert np.all(scaling.transform(sp.csr_array(X)).toarray()[:, 1] == 0)


def test_column_too_small_to_square_is_constant():
    """A column whose variance underflows does not become a division by zero."""
    X = np.column_stack([np.arange(4.0), np.arange(4) * 1e-200])
    assert np.isfinite(standard_and_min_max(X)[0].transform(X)).all()


@pytest.mark.parametrize(("factor", "problem"), [(1e308, "overflow"), (1e-200, "underflow")])
def test_values_that_cannot_be_squared_are_refused(factor, problem):
    """Squared distances that overflow or underflow are refused; the message names the column."""
    X = np.array([[0.0, 0.1], [0.0, -1.0], [0.0, 1.0]]) * factor
    with pytest.raises(InvalidParameterError, match=rf"column 1\).*{problem}.*rescale"):
        centring(X)
    with pytest.raises(InvalidParameterError, match=problem):
        centring(sp.csr_array(X))


def test_the_note_on_unequal_spread_names_the_two_columns():
    """Above a ratio of 30 the columns of largest and least spread are named; constants are not.

    Squares that overflow and sparse columns give no note and no warning.
    """
    X = np.array([[0.0, 0.0, 7.0, 0.0], [1.0, 30.0, 7.0, 2.0]])
    too_large, sparse = np.array([[0.0, 0.0], [1.0, 1e300]]), sp.csr_array([[0.0, 0], [1, 99]])
    for quiet in (X, np.full((2, 2), 7.0), too_large, sparse):
        assert unequal_spread(quiet) == ""
    X[1, 1] = 31.0
    assert unequal_spread(X).startswith("column 1 varies 31 times as much as column 0 ")
    assert unequal_spread(X, ["a", "b", "c", "d"]).startswith("column 'b' varies 31 times as")


@pytest.mark.parametrize(("n", "p"), [(1, 1), (16_384, 3), (16_385, 3), (70_000, 5_000)])
def test_blocks_cover_all_rows_in_order(n, p):
    """Every row is in one block, and the blocks of wide tables have fewer rows."""
    blocks = row_blocks(n, p)
    rows = np.concatenate([np.arange(n)[block] for block in blocks])
    np.testing.assert_array_equal(rows, np.arange(n))
    assert max(block.stop - block.start for block in blocks) * p <= max(2**22, 256 * p)


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
    with pytest.raises(InvalidParameterError, match=message):
        check_distances(np.array(D))
