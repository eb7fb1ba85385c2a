"""Marginal costs: differences of spend over differences of impressions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from coterie.ads.curves.marginal_costs import marginal_costs

_steps = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=30
).map(lambda pairs: np.array(pairs, dtype=np.float64))


@given(_steps)
def test_marginal_costs_add_up_to_the_spend(steps):
    """Costs of all further impressions add up to the spend at the highest bid."""
    impressions, price = np.cumsum(steps[:, 0]), steps[:, 1]
    spend = np.cumsum(steps[:, 0] * price / 1000)
    found = marginal_costs(spend, impressions)
    bought = steps[:, 0] > 0
    assert np.array_equal(np.isnan(found), ~bought)
    assert_allclose(found[bought], price[bought], atol=1e-6)
    assert_allclose(np.nansum(found * steps[:, 0]) / 1000, spend[-1], atol=1e-6)


def test_curves_of_many_advertisers_are_rows():
    """Each row of a matrix is the curve of one advertiser."""
    spend, impressions = np.array([[1.0, 3.0], [2.0, 2.0]]), np.array([[1.0, 2.0], [4.0, 4.0]])
    found = marginal_costs(spend, impressions)
    for row in range(2):
        assert np.array_equal(found[row], marginal_costs(spend[row], impressions[row]), True)
