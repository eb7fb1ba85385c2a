"""Checks of settings and row weights; checks of features are tested with make_partitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ensembles.input_checks import check_number, check_odds, check_row_weights, check_whole
from coterie.errors import InvalidParameterError, LabelWarning


@pytest.mark.parametrize("value", [0, -1, 6, 1.5, True, "3", None])
def test_whole_numbers_in_bounds_are_required(value):
    """Other values are refused, and the message names setting and bounds."""
    with pytest.raises(InvalidParameterError, match=r"n_init=.* from 1 to 5"):
        check_whole("n_init", value, most=5)
    assert check_whole("n_init", np.int64(5), most=5) == 5


@pytest.mark.parametrize("value", [1.0, 0.5, 9.5, np.inf, np.nan, True, "2", None])
def test_finite_numbers_in_bounds_are_required(value):
    """Other values are refused; the lower bound is allowed only with ``or_equal``."""
    with pytest.raises(InvalidParameterError, match=r"gamma=.* above 1, at most 9"):
        check_number("gamma", value, above=1.0, most=9.0)
    assert check_number("gamma", 1, above=1.0, or_equal=True) == 1.0


@given(st.lists(st.integers(0, 10**6), min_size=1).filter(any), st.sampled_from([0.3, 1e200]))
def test_whole_row_weights_are_kept_and_others_have_mean_one(weights, unit):
    """Counts stay counts; other weights keep their ratios, with mean 1 over the positive ones."""
    counts = check_row_weights(weights, len(weights))
    np.testing.assert_array_equal(counts, weights)
    scaled = check_row_weights((np.array(weights) + 0.5) * unit, len(weights))
    assert scaled.mean() == pytest.approx(1.0)
    np.testing.assert_allclose(scaled / scaled[0], (counts + 0.5) / (counts[0] + 0.5))


def test_negligible_row_weights_become_zero_with_a_warning():
    """Weights below 1e-12 of the largest one are dropped, and the warning counts them."""
    with pytest.warns(LabelWarning, match="1 rows have less than 1e-12"):
        weights = check_row_weights([1e-20, 1.0, 0.0, 1.0], 4)
    np.testing.assert_array_equal(weights, [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], r"sample_weight has shape \(2,\); give one number for each of the 3 rows"),
        ([1.0, -1.0, 1.0], r"sample_weight\[1\] is -1.0"),
        ([1.0, np.nan, 1.0], r"sample_weight\[1\] is nan"),
        ([0, 0, 0], "sample_weight is all zero"),
        (["a", 1, 2], "sample_weight: give one number for each row"),
    ],
)
def test_unusable_weights_are_refused(weights, message):
    with pytest.raises(InvalidParameterError, match=message):
        check_row_weights(weights, 3)
    with pytest.raises(InvalidParameterError, match=r"w\[1\] is 0.0; give finite positive"):
        check_odds("w", [1, 0], 2, "column", positive=True)
