"""Plans of held-out days: those of known, compared and new advertisers."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.ads.evaluation.held_out_plans import HeldOutPlans
from coterie.ads.forecasts.plans import plans_of
from markets import log_of

#: Advertisers 0, 2 and 4 bid before the last day; 1 and 3 are new on it, and 4 is gone.
LOG = log_of(
    bid=[5, 6, 7, 5, 6, 7, 8],
    won=True,
    price=3,
    advertiser=[0, 2, 4, 0, 1, 2, 3],
    day=[0, 0, 0, 1, 1, 1, 1],
    edges=[10],
)


@pytest.fixture
def held_out():
    """The last day; of the known advertisers 0, 2 and 4, the last two are representatives."""
    texts = {"a001": "shoes", "a003": None}
    return HeldOutPlans(LOG, LOG.for_days([0]), [1], texts, np.array([1, 2]))


def test_plans_have_the_numbers_of_those_who_forecast_them(held_out):
    """Of the model for known advertisers, of the representatives for compared ones."""
    assert held_out.is_known.tolist() == [True, False, True, False, True]
    assert held_out.is_compared.tolist() == [False, False, True, False, True]
    assert held_out.known_plans.rows.tolist() == [0, 1]
    assert held_out.compared_plans.rows.tolist() == [0]
    whole = plans_of(LOG, [1])
    np.testing.assert_array_equal(held_out.known_plans.bids, whole.bids[[0, 2]])


def test_figures_are_spread_to_all_advertisers(held_out):
    """Those that a source does not forecast have 0."""
    assert held_out.of_known(np.array([7.0, 8.0, 9.0])).tolist() == [7, 0, 8, 0, 9]
    impressions, spend = held_out.spread((np.array([1.0, 2.0]), np.array([3.0, 4.0])))
    assert (impressions.tolist(), spend.tolist()) == ([0, 0, 1, 0, 2], [0, 0, 3, 0, 4])


@pytest.mark.parametrize("size", [1, 9])
def test_new_advertisers_come_with_their_texts(held_out, size):
    """In blocks of any size; a missing text is empty."""
    blocks = list(held_out.new_blocks(size))
    assert max(len(texts) for _, texts in blocks) <= size
    assert [row for plans, _ in blocks for row in plans.rows.tolist()] == [1, 3]
    assert [text for _, texts in blocks for text in texts] == ["shoes", ""]
