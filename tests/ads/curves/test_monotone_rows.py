"""Isotonic regression of many rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from coterie.ads.curves.monotone_rows import monotone_rows

entries = st.lists(
    st.tuples(st.floats(-10, 10), st.sampled_from([0.0, 0.5, 1.0, 7.0])), min_size=1, max_size=20
)


@settings(max_examples=60)
@given(entries)
def test_a_row_is_the_isotonic_regression_of_its_weighted_entries(drawn):
    """Equal to SciPy's over the entries with weight, on straight lines between them."""
    values, weights = np.array(drawn).T
    [found] = monotone_rows(values[None], weights[None])
    counted = np.flatnonzero(weights > 0)
    if not len(counted):
        assert not found.any()
        return
    expected = isotonic_regression(values[counted], weights=weights[counted]).x
    expected = np.interp(np.arange(len(values)), counted, expected)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_rows_do_not_affect_each_other():
    """Many rows together are the rows one by one, and weights may be common to all."""
    rng = np.random.default_rng(0)
    values, weights = rng.random((50, 12)), rng.integers(0, 3, (50, 12)) * 1.0
    together = monotone_rows(values, weights)
    for row in range(50):
        alone = monotone_rows(values[[row]], weights[[row]])
        np.testing.assert_array_equal(together[[row]], alone)
    np.testing.assert_array_equal(
        monotone_rows(values, weights[:1]), monotone_rows(values, np.tile(weights[0], (50, 1)))
    )


@pytest.mark.parametrize("shape", [(0, 4), (3, 1)])
def test_small_tables(shape):
    """No rows, and rows of one entry."""
    values = np.arange(np.prod(shape), dtype=float).reshape(shape)
    np.testing.assert_array_equal(monotone_rows(values, np.ones(shape)), values)
