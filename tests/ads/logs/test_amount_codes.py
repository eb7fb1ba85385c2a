"""Amount codes: rounding, order, and agreement of engines with NumPy."""

from __future__ import annotations

import ibis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.logs.amount_codes import (
    MOST_MICROS,
    amounts_of,
    by_bisection,
    code_column,
    codes_of,
)

amounts = st.lists(st.integers(1, MOST_MICROS), min_size=1, max_size=50)


@settings(deadline=None, max_examples=50)
@given(amounts)
def test_a_code_is_the_amount_rounded_up_to_three_digits(values):
    """The amount of a code is the smallest one with three significant digits that is not below."""
    for value, rounded in zip(values, amounts_of(codes_of(values)).tolist(), strict=True):
        step = 10 ** max(len(str(value)) - 3, 0)
        assert rounded == -(-value // step) * step


def test_codes_are_consecutive_and_grow_with_amounts():
    """Every code up to the largest is used, and codes increase with amounts."""
    codes = np.arange(1, int(codes_of(MOST_MICROS)) + 1)
    assert np.array_equal(codes_of(amounts_of(codes)), codes)
    assert np.all(np.diff(amounts_of(codes)) > 0)


@pytest.mark.parametrize("least", [1, 998, 1001, 99_999])
def test_engines_compute_the_codes_numpy_does(least):
    """Also near powers of ten, near rounded amounts, and for the largest amount."""
    near = np.array([10**d + i for d in range(3, 16) for i in (-1, 0, 1)])
    rounded = amounts_of(codes_of(near))
    values = np.unique(np.concatenate([near, rounded - 1, rounded, rounded + 1]))
    values = values[(values >= least) & (values <= MOST_MICROS)]
    table = ibis.memtable(pa.table({"amount": values}))
    found = table.select(amount="amount", code=code_column(table.amount, least)).to_pyarrow()
    assert np.array_equal(found["code"].to_numpy(), codes_of(found["amount"].to_numpy()))


def test_bisection_finds_the_first_edge_that_is_not_below():
    """It equals a search in a sorted list for every number of edges."""
    table = ibis.memtable(pa.table({"v": np.arange(-1, 12)}))
    for n in range(6):
        edges = [2 * i for i in range(n)]
        place = by_bisection(table.v, edges, lambda g: ibis.literal(g, "int64"))
        found = table.select(v="v", place=place).to_pyarrow()
        assert np.array_equal(found["place"].to_numpy(), np.searchsorted(edges, found["v"]))
