"""Demand: bids in cells, and their expected wins and spend."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.curves.demand import demand_of, expected_outcome, outcome_of
from coterie.ads.curves.landscapes import curve_at, evidence_of, own_curves, spend_curves
from markets import log_of, market

EDGES = np.array([10, 20, 40, 80])


@settings(deadline=None, max_examples=20)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(1, 90)),
        min_size=1,
        max_size=30,
    ),
    st.sampled_from([("second", "paid"), ("first", "none")]),
)
def test_forecasts_of_cells_are_sums_over_single_bids(drawn, kind):
    """For equal bids in a cell; bids above the last edge win as much as at the last edge."""
    # one amount for each advertiser and bin, however many bids
    amount = {}
    for who, _, bid in drawn:
        amount.setdefault((who, int(np.searchsorted(EDGES[:-1], bid))), bid)
    bids = [amount[who, int(np.searchsorted(EDGES[:-1], bid))] for who, _, bid in drawn]
    who, luck = [a for a, _, _ in drawn], [won > 1 for _, won, _ in drawn]
    auction, revealed = kind
    log = log_of(
        advertiser=who,
        bid=bids,
        won=luck,
        price=np.array(bids) // 2,
        edges=EDGES,
        auction=auction,
        revealed=revealed,
    )
    evidence = evidence_of(log)
    win = own_curves(evidence)
    paid = spend_curves(win, evidence)
    variance = np.full_like(win, 0.01) * np.arange(1, 5)
    found = expected_outcome(demand_of(log, [0]), win, evidence, variance)
    for row, name in enumerate(sorted(set(who))):
        mine = [bid for a, bid in zip(who, bids, strict=True) if a == name]
        w, c, sd = (
            curve_at(curves[[row]], EDGES, mine)[0] for curves in (win, paid, np.sqrt(variance))
        )
        assert found.impressions[row] == pytest.approx(w.sum())
        assert found.spend[row] == pytest.approx(c.sum())
        assert found.spread[row] == pytest.approx(np.sqrt(sd.sum() ** 2 + (w * (1 - w)).sum()))


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 30)), min_size=1, max_size=30))
def test_one_bid_forecasts_its_own_past(auctions):
    """The curve of an advertiser with one bid reproduces its wins and spend."""
    won, price = np.array(auctions).T
    log = log_of(bid=40, won=won, price=price, edges=EDGES)
    evidence = evidence_of(log)
    found = expected_outcome(demand_of(log, [0]), own_curves(evidence), evidence)
    happened = outcome_of(log, [0])
    np.testing.assert_allclose(found.impressions, happened.impressions, atol=1e-9)
    np.testing.assert_allclose(found.spend, happened.spend, atol=1e-9)
    assert found.spread is None


def test_outcomes_are_sums_of_the_log():
    """Wins and prices of the given days, by advertiser."""
    made = market()
    rows = made.rows
    happened = outcome_of(made.histograms, [1, 3])
    chosen = np.isin(rows["day"], [1, 3]) & rows["won"]
    n = len(made.histograms.advertisers)
    assert (
        happened.impressions.tolist() == np.bincount(rows["advertiser"][chosen], None, n).tolist()
    )
    cost = np.bincount(rows["advertiser"][chosen], rows["price"][chosen], n)
    np.testing.assert_allclose(happened.spend, cost, rtol=1e-12)
    assert happened.spread is None


def test_demand_counts_the_bids_of_the_given_days():
    """It also has the position of their mean in the bin."""
    log = log_of(
        bid=[1, 9, 12, 20, 99, 40], won=False, price=0, day=[0, 0, 0, 0, 0, 1], edges=EDGES
    )
    demand = demand_of(log, [0])
    assert demand.bin.tolist() == [0, 1, 3]
    assert demand.count.tolist() == [2, 2, 1]
    # means 5 of (0, 10], 16 of (10, 20], and 99, above the last edge
    np.testing.assert_allclose(demand.within, [0.5, 0.6, 1.0])
    assert demand_of(log, [1]).count.tolist() == [1]
    nothing = demand_of(log, [])
    assert not len(nothing.bin)
    evidence = evidence_of(log)
    assert expected_outcome(nothing, own_curves(evidence), evidence).impressions.tolist() == [0]
