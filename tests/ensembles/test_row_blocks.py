"""Blocks of rows: they cover all rows, and what members share is computed once."""

import numpy as np
import pytest

from coterie.ensembles.row_blocks import RowBlock, row_blocks


@pytest.mark.parametrize(("n", "p"), [(1, 1), (16_384, 3), (16_385, 3), (70_000, 5_000)])
def test_blocks_cover_all_rows_in_order(n, p):
    """Every row is in one block, and the blocks of wide tables have fewer rows."""
    blocks = row_blocks(n, p)
    rows = np.concatenate([np.arange(n)[block] for block in blocks])
    np.testing.assert_array_equal(rows, np.arange(n))
    assert max(block.stop - block.start for block in blocks) * p <= max(2**22, 256 * p)


def test_equal_parts_are_computed_once():
    """The same function of equal arrays and numbers is called once, of other ones again."""
    calls = []

    def add(X, shift, times):
        calls.append(times)
        return X + times * shift

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

    def times(X, factor):
        calls.append(factor)
        return X * factor

    block = RowBlock(np.ones((3, 2)))
    for factor in range(1, 50):
        block.once(times, 0.0)
        block.once(times, float(factor))
    assert len(block._kept) < 10
    assert calls.count(0.0) == 1
    block.once(times, 1.0)
    assert calls.count(1.0) == 2
