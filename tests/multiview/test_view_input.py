"""Reading, checking and scaling views."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix

from coterie.errors import InvalidParameterError
from coterie.multiview.view_input import check_same_views, named_views, view_scaling


def test_lists_get_names_and_dicts_keep_theirs():
    """Views of a list are named by their index; names of a dict are converted to text."""
    X = np.ones((3, 2))
    assert list(named_views([X, X])) == ["view 0", "view 1"]
    assert list(named_views({"a": X, 7: X})) == ["a", "7"]


@pytest.mark.parametrize(
    ("views", "message"),
    [
        (np.ones((4, 2)), "a list of arrays or a dict"),
        ([], "no views"),
        ({1: np.ones((3, 2)), "1": np.zeros((3, 2))}, "several views have the name '1'"),
        ([np.ones((4, 2)), np.ones((5, 2))], "view 0: 4, view 1: 5"),
        ({"a": [[np.nan]]}, "a has NaN at row 0, column 0"),
        ([np.ones((4, 2)), np.ones(4)], "view 1 cannot be used"),
        ([np.ones((2, 1)), [["Rome"], ["Oslo"]]], "view 1: column 0 holds text"),
        ([pa.table({"x": [0.0, np.nan]})], "view 0 has NaN at row 1, column 'x'"),
    ],
)
def test_unusable_views_are_refused(views, message):
    with pytest.raises(InvalidParameterError, match=message):
        named_views(views)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(1, 6), st.booleans())
def test_a_standardised_view_has_total_variance_one(seed, n, p, sparse):
    """The sum of variances is 1 for any number of columns, with constant ones, dense or sparse."""
    rng = np.random.default_rng(seed)
    X = rng.normal(3.0, 10.0 ** rng.integers(-3, 4, p), (n, p))
    X = np.hstack([X, np.full((n, 2), 5.0)])
    view = csr_array(X) if sparse else X
    scaled = view_scaling(view, True).transform(view)
    scaled = scaled.toarray() if sparse else scaled
    np.testing.assert_allclose(scaled.var(axis=0).sum(), 1.0)
    np.testing.assert_allclose(scaled.var(axis=0)[:p], 1.0 / p)


def test_without_standardising_no_distance_changes():
    """Only the mean is subtracted, and only from dense views; squares must not overflow."""
    X = np.array([[1e9, 1.0], [1e9 + 2, 4.0], [1e9, 5.0]])
    scaled = view_scaling(X, False).transform(X)
    np.testing.assert_allclose(np.ptp(scaled, axis=0), np.ptp(X, axis=0))
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-7)
    sparse = csr_matrix(X)
    assert view_scaling(sparse, False).transform(sparse) is sparse
    with pytest.raises(InvalidParameterError, match=r"colour cannot be used: .*column 1"):
        view_scaling(np.array([[0.0, 1e200], [1.0, -1e200]]), True, "colour")


def test_views_at_prediction_must_be_the_fitted_ones():
    """Names, order and columns are compared."""
    X = np.ones((2, 3))
    check_same_views({"a": X, "b": X}, ["a", "b"], {"a": 3, "b": 3})
    with pytest.raises(InvalidParameterError, match=r"\['b', 'a'\], .* the fit were \['a', 'b'\]"):
        check_same_views({"b": X, "a": X}, ["a", "b"], {"a": 3, "b": 3})
    with pytest.raises(InvalidParameterError, match="a has 3 columns, but 2 in the fit"):
        check_same_views({"a": X}, ["a"], {"a": 2})
