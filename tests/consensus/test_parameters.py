"""Checks of parameters that several consensus functions have."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from coterie.consensus.parameters import check_choice, check_n_clusters, check_size
from coterie.errors import InvalidParameterError, TooManyPointsError
from coterie.labels.tuples import as_label_tuples


def test_k_is_limited_by_points_and_tuples():
    """More clusters than points are refused; more than distinct tuples give a warning."""
    tuples = as_label_tuples([[0], [0], [1], [1]])
    assert check_n_clusters(np.int64(2), tuples) == 2
    with pytest.warns(ConvergenceWarning, match="only 2 distinct"):
        assert check_n_clusters(3, tuples) == 2
    with pytest.raises(InvalidParameterError, match="n_clusters=5 is more than the 4 points"):
        check_n_clusters(5, tuples)


def test_a_size_above_the_limit_is_refused():
    """The message names method, number, limit and parameter."""
    check_size(5, 5, "max_tuples", "CSPA")
    with pytest.raises(TooManyPointsError, match=r"CSPA .* 6,000 points.*max_points=5,000"):
        check_size(6_000, 5_000, "max_points", "CSPA")
    with pytest.raises(InvalidParameterError, match=r"max_tuples=0\.5"):
        check_size(1, 0.5, "max_tuples", "CSPA")


@pytest.mark.parametrize("value", ["c", "A", "", None, ["a"], np.array(["a", "b"])])
def test_only_the_choices_are_accepted(value):
    """Any other value is refused with the choices, also a list or array."""
    check_choice("letter", "a", ("a", "b"))
    with pytest.raises(InvalidParameterError, match=r"letter=.*: give 'a' or 'b'"):
        check_choice("letter", value, ("a", "b"))
