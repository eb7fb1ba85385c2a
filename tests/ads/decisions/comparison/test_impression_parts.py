"""Impression parts: Shapley values of the factors of a change."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from coterie.ads.decisions.comparison.impression_parts import (
    FACTORS,
    impression_parts,
    shapley_values,
)

_values = st.floats(-1e6, 1e6)
_rates = st.floats(1e-6, 1.0)
_numbers = st.floats(0.1, 1e5)


def by_orders(values):
    """The mean over all orders of what each factor does when it changes, (k,)."""
    k = values.ndim
    found, orders = np.zeros(k), list(permutations(range(k)))
    for order in orders:
        state = [0] * k
        for factor in order:
            without = values[tuple(state)]
            state[factor] = 1
            found[factor] += values[tuple(state)] - without
    return found / len(orders)


@given(st.integers(1, 4).flatmap(lambda k: arrays(float, (2,) * k, elements=_values)))
def test_shapley_values_are_means_over_orders(values):
    """The formula gives what going through all orders gives."""
    found = shapley_values(values[..., None])[:, 0]
    assert_allclose(found, by_orders(values), atol=1e-6)


@given(arrays(float, (2, 2, 2, 2, 2, 3), elements=_values))
def test_shapley_values_add_up_to_the_change(values):
    """The parts of all factors are the whole change."""
    change = values[1, 1, 1, 1, 1] - values[0, 0, 0, 0, 0]
    assert_allclose(shapley_values(values).sum(axis=0), change, atol=1e-6)


@given(arrays(float, (4, 5), elements=_numbers), arrays(float, (2, 2, 2, 5), elements=_rates))
def test_parts_add_up_to_the_change_of_impressions(numbers, win_rates):
    """With the unexplained part, the parts are exactly the change of impressions."""
    before, after, *supply = numbers
    parts = impression_parts((before, after), tuple(supply), 1.1, win_rates)
    assert list(parts) == [*FACTORS, "unexplained"]
    assert_allclose(sum(parts.values()), after - before, rtol=1e-9, atol=1e-6)


def test_a_factor_that_does_not_change_has_no_part():
    """If only the market's supply doubles, it explains everything."""
    win_rates = np.full((2, 2, 2, 1), 0.5)
    ten, twenty = np.array([10.0]), np.array([20.0])
    parts = impression_parts((ten / 2, ten), (ten, twenty), 2.0, win_rates)
    assert_allclose(parts.pop("market_supply"), 5.0)
    assert_allclose(list(parts.values()), 0.0, atol=1e-12)
