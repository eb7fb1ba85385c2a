"""Scalings: selection, shift, scale, and refusal of numbers that cannot be squared."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from coterie.ensembles.scalings import (
    Scaling,
    centring,
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
    """The two scalings of a dense array are StandardScaler and MinMaxScaler."""
    for scaling, scaler in zip(
        standard_and_min_max(IRIS), (StandardScaler(), MinMaxScaler()), strict=True
    ):
        np.testing.assert_allclose(scaling.transform(IRIS), scaler.fit_transform(IRIS), atol=1e-12)


def test_scalings_of_sparse_data_do_not_shift():
    """The two scalings of a sparse matrix are division by deviation and by largest value."""
    X = sp.random(60, 5, density=0.4, random_state=0, format="csr")
    scalers = (StandardScaler(with_mean=False), MaxAbsScaler())
    for scaling, scaler in zip(standard_and_min_max(X), scalers, strict=True):
        scaled = scaling.transform(X)
        assert sp.issparse(scaled)
        np.testing.assert_allclose(scaled.toarray(), scaler.fit_transform(X).toarray())


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9])
def test_constant_columns_become_zero(value):
    """A constant column of any value is 0 in every scaling, also for new rows."""
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
    """Above a ratio of 30 the columns of largest and least spread are named; constants are not."""
    X = np.array([[0.0, 0.0, 7.0, 0.0], [1.0, 30.0, 7.0, 2.0]])
    assert unequal_spread(X) == ""
    X[1, 1] = 31.0
    assert unequal_spread(X).startswith("column 1 varies 31 times as much as column 0 ")
    assert unequal_spread(X, ["a", "b", "c", "d"]).startswith("column 'b' varies 31 times as")


@pytest.mark.parametrize(
    "X",
    [np.full((2, 2), 7.0), np.array([[0.0, 0.0], [1.0, 1e300]]), sp.csr_array([[0.0, 0], [1, 99]])],
    ids=["constant", "too large", "sparse"],
)
def test_columns_without_a_spread_have_no_note(X):
    """Constant columns, squares that overflow and sparse columns give no note and no warning."""
    assert unequal_spread(X) == ""


@pytest.mark.parametrize(("n", "p"), [(1, 1), (16_384, 3), (16_385, 3), (70_000, 5_000)])
def test_blocks_cover_all_rows_in_order(n, p):
    """Every row is in one block, and the blocks of wide tables have fewer rows."""
    blocks = row_blocks(n, p)
    rows = np.concatenate([np.arange(n)[block] for block in blocks])
    np.testing.assert_array_equal(rows, np.arange(n))
    assert max(block.stop - block.start for block in blocks) * p <= max(2**22, 256 * p)
