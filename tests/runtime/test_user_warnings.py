"""Two harmless warnings are ignored, and no other."""

import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning

from coterie import RobustConsensus, choose_k, planted_partitions
from coterie.errors import DissentWarning
from coterie.runtime.messages import (
    ignore_duplicate_points_warning,
    ignore_unfinished_tasks_warning,
)


def test_only_the_warning_about_duplicate_points_is_ignored():
    """Other convergence warnings pass."""
    with ignore_duplicate_points_warning():
        warnings.warn("Number of distinct clusters (1) found", ConvergenceWarning, stacklevel=1)
        with pytest.warns(ConvergenceWarning, match="did not converge"):
            warnings.warn("did not converge", ConvergenceWarning, stacklevel=1)


def test_only_the_warning_about_unfinished_tasks_is_ignored():
    """Other warnings about tasks pass."""
    with ignore_unfinished_tasks_warning():
        warnings.warn("3 tasks have been successfully executed", UserWarning, stacklevel=1)
        warnings.warn("3 tasks which were still being processed", UserWarning, stacklevel=1)
        with pytest.warns(UserWarning, match="tasks failed"):
            warnings.warn("tasks failed", UserWarning, stacklevel=1)


def test_a_warning_points_at_the_line_of_the_user():
    """The file of a warning is the one that called the package, at any depth."""
    P, _ = planted_partitions([60, 40], 8, 4, 0.1, random_state=0)
    for fit in (RobustConsensus(2, random_state=0).fit, choose_k):
        with pytest.warns(DissentWarning) as caught:
            fit(P)
        assert {warning.filename for warning in caught} == {__file__}
