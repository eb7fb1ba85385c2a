"""What a run sees of the data."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from coterie.ensembles.scalings import View, centred_view, scaled_views
from coterie.errors import InvalidParameterError

IRIS = load_iris().data


def test_view_selects_shifts_and_scales():
    """A view is (X[:, features] - shift) / scale, dense and sparse alike."""
    X = np.array([[1.0, 2.0, 3.0], [4.0, 0.0, 6.0]])
    features, shift, scale = np.array([0, 2]), np.array([1.0, 2.0]), np.array([2.0, 4.0])
    wanted = (X[:, features] - shift) / scale
    view = View(features=features, shift=shift, scale=scale)
    np.testing.assert_array_equal(view.see(X), wanted)
    np.testing.assert_array_equal(view.see(sp.csr_array(X)), wanted)
    unshifted = View(features=features, scale=scale).see(sp.csr_array(X))
    assert sp.issparse(unshifted)
    np.testing.assert_array_equal(unshifted.toarray(), X[:, features] / scale)


def test_view_narrowed_sees_the_same_columns():
    """Narrowing a view and selecting from what it sees are the same."""
    view = scaled_views(IRIS)[0]
    columns = np.array([1, 3])
    np.testing.assert_array_equal(view.only(columns).see(IRIS), view.see(IRIS)[:, columns])


def test_scaled_views_are_scikit_learns_scalers():
    """The two scalings of a dense array are StandardScaler and MinMaxScaler."""
    for view, scaler in zip(scaled_views(IRIS), (StandardScaler(), MinMaxScaler()), strict=True):
        np.testing.assert_allclose(view.see(IRIS), scaler.fit_transform(IRIS), atol=1e-12)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
def test_scaled_views_of_sparse_data_do_not_shift(kind):
    """The two scalings of a sparse matrix are division by deviation and by largest value."""
    X = kind(sp.random(60, 5, density=0.4, random_state=0, format="csr"))
    scalers = (StandardScaler(with_mean=False), MaxAbsScaler())
    for view, scaler in zip(scaled_views(X), scalers, strict=True):
        seen = view.see(X)
        assert sp.issparse(seen)
        np.testing.assert_allclose(seen.toarray(), scaler.fit_transform(X).toarray())


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9, -7.0])
def test_constant_columns_become_zero(value):
    """A constant column is 0 in every scaling, whatever its value, and so for new rows."""
    X = np.column_stack([np.arange(1000.0), np.full(1000, value)])
    for view in scaled_views(X):
        assert np.all(view.see(X)[:, 1] == 0)
        assert view.see(np.array([[0.0, value + 5]]))[0, 1] == 0
    assert np.all(centred_view(X).see(X)[:, 1] == 0)
    for view in scaled_views(sp.csr_array(X)):
        assert np.all(view.see(sp.csr_array(X)).toarray()[:, 1] == 0)


def test_column_too_small_to_square_is_constant():
    """A column whose variance underflows does not become a division by zero."""
    X = np.column_stack([np.arange(4.0), np.arange(4) * 1e-200])
    assert np.isfinite(scaled_views(X)[0].see(X)).all()


@pytest.mark.parametrize(
    ("factor", "problem"), [(1e200, "overflow"), (1e308, "overflow"), (1e-200, "vanish")]
)
def test_values_that_cannot_be_squared_are_refused(factor, problem):
    """Data whose squared distances overflow or vanish is refused, with the column named."""
    X = np.array([[0.0, 0.1], [0.0, -1.0], [0.0, 1.0]]) * factor
    with pytest.raises(InvalidParameterError, match=rf"column 1\).*{problem}.*rescale"):
        centred_view(X)
    with pytest.raises(InvalidParameterError, match=problem):
        centred_view(sp.csr_array(X))
