"""The noise benchmark: its cells, its methods and the figures it reports."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmarks.noise import most_central_partition
from coterie import mirkin_objective


@settings(deadline=None, max_examples=50)
@given(
    arrays(np.int32, st.tuples(st.integers(1, 12), st.integers(1, 5)), elements=st.integers(0, 3))
)
def test_the_most_central_partition_has_the_lowest_objective(P):
    """It is one of the given partitions, and no given partition has a lower J."""
    labels = most_central_partition(P)
    assert any(np.array_equal(labels, column) for column in P.T)
    lowest = min(mirkin_objective(P, column) for column in P.T)
    assert mirkin_objective(P, labels) == pytest.approx(lowest)
