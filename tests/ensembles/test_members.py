"""Members: what they share is computed once in a block; rows that are too far out are refused."""

import numpy as np
import pytest
import scipy.sparse as sp

from coterie.ensembles.members import CentroidMember, RowBlock
from coterie.errors import InvalidParameterError


def test_equal_parts_are_computed_once():
    """The same function of equal arrays and numbers is called once, of other ones again."""
    calls = []

    def add(shift, times):
        calls.append(times)
        return times * shift

    block = RowBlock(np.zeros((3, 2)))
    first = block.once(add, np.ones(2), 2.0)
    assert block.once(add, np.ones(2), 2.0) is first
    assert block.once(add, np.ones(2), 3.0) is not first
    assert block.once(add, np.ones(2, dtype=np.float32), 2.0) is not first
    assert block.once(add, np.array([1.0, 5.0]), 2.0) is not first
    assert calls == [2.0, 3.0, 2.0, 2.0]


def test_results_that_were_not_used_for_long_are_forgotten():
    """Memory does not grow with the number of members; what is used again and again stays."""
    calls = []

    def times(factor):
        calls.append(factor)
        return 2 * factor

    block = RowBlock(np.ones((3, 2)))
    for factor in range(1, 50):
        block.once(times, 0.0)
        block.once(times, float(factor))
    assert len(block._kept) < 10
    assert calls.count(0.0) == 1
    block.once(times, 1.0)
    assert calls.count(1.0) == 2


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_new_rows_too_far_out_are_refused(make):
    """The message names the row whose squared distances overflow."""
    member = CentroidMember(centres=np.array([[0.0, 0.0], [1.0, 1.0]]))
    with pytest.raises(InvalidParameterError, match="row 1 of X"):
        member.predict(make(np.array([[0.0, 0.0], [1e200, 0.0]])))
