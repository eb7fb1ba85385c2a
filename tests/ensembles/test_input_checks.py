"""Checks of settings; checks of features are tested with make_partitions."""

import numpy as np
import pytest

from coterie.ensembles.input_checks import check_number, check_whole
from coterie.errors import InvalidParameterError


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
