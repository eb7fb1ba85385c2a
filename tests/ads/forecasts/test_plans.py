"""Plans: bids to forecast, and what came of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.forecasts.plans import outcome_of, plans_of
from markets import EASY, log_of, market

EDGES = [10, 20, 40, 80]

auctions = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 90)), min_size=1, max_size=40
)


def log_with(drawn):
    """A log of lost bids (advertiser, day, bid)."""
    who, day, bid = np.array(drawn).T
    return log_of(advertiser=who, day=day, bid=bid, won=False, price=0, edges=EDGES)


@settings(max_examples=40)
@given(auctions, st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True).map(sorted))
def test_the_bids_of_some_days_are_plans(drawn, days):
    """One plan of each advertiser that bid; one item of each day and bin, at the mean bid."""
    log = log_with(drawn)
    days = [day for day in days if day < len(log.days)]
    found = plans_of(log, days)
    numbers = sorted({day for _, day, _ in drawn})
    names = sorted({who for who, _, _ in drawn})
    items = {}
    for who, day, bid in drawn:
        if numbers.index(day) in days:
            bins = next((g for g, edge in enumerate(EDGES) if bid <= edge), 3)
            key = names.index(who), days.index(numbers.index(day)), bins
            items.setdefault(key, []).append(bid)
    expected = [(key, items[key]) for key in sorted(items)]
    plan = np.repeat(np.arange(len(found.rows)), np.diff(found.starts))
    assert found.rows[plan].tolist() == [key[0] for key, _ in expected]
    assert sorted(set(found.rows.tolist())) == found.rows.tolist()
    assert found.days.tolist() == [key[1] for key, _ in expected]
    assert found.counts.tolist() == [len(bids) for _, bids in expected]
    np.testing.assert_allclose(found.bids, [np.mean(bids) / 1e6 for _, bids in expected])
    np.testing.assert_array_equal(found.dates, log.days[days])


@settings(max_examples=40)
@given(auctions)
def test_supplies_and_shares_of_days_are_those_of_the_items(drawn):
    """Auctions of each plan, and how they are divided between days."""
    log = log_with(drawn)
    days = list(range(len(log.days)))
    found = plans_of(log, days)
    daily = log.daily("count")[found.rows]
    np.testing.assert_allclose(found.supplies, daily.sum(axis=1))
    np.testing.assert_allclose(found.day_shares, daily / daily.sum(axis=1, keepdims=True))


@settings(max_examples=40)
@given(auctions, st.lists(st.booleans(), min_size=4, max_size=4))
def test_plans_of_some_advertisers_are_theirs_alone(drawn, wanted):
    """As if the others had not bid."""
    log = log_with(drawn)
    mask = np.array(wanted)[: len(log.advertisers)]
    days = list(range(len(log.days)))
    found = plans_of(log, days).of_rows(mask)
    whole = plans_of(log, days)
    kept = [q for q, row in enumerate(whole.rows) if mask[row]]
    assert found.rows.tolist() == [int(whole.rows[q]) for q in kept]
    for name in ("bids", "counts", "days"):
        parts = [getattr(whole, name)[whole.starts[q] : whole.starts[q + 1]] for q in kept]
        expected = np.concatenate(parts) if parts else np.zeros(0)
        np.testing.assert_array_equal(getattr(found, name), expected)
    assert len(found.starts) == len(kept) + 1 and found.starts[-1] == len(found.bids)
    assert len(found.supplies) == len(kept) and found.day_shares.shape == (len(kept), len(days))


def test_no_bids_are_no_plans():
    """Of days without bids of the advertisers, and of no days."""
    log = log_with([(0, 0, 5), (1, 1, 5)])
    found = plans_of(log, []).of_rows(np.ones(2, bool))
    assert len(found.rows) == 0 and found.starts.tolist() == [0] and len(found.supplies) == 0
    assert plans_of(log, [1]).rows.tolist() == [1]


@pytest.mark.parametrize("days", [[0], [1, 3], [0, 1, 2, 3]])
def test_outcomes_are_sums_over_the_rows_of_the_log(days):
    """Wins, clicks and conversions are numbers; spend is in units of currency."""
    made = market(replace(EASY, auction="first"))
    rows = made.rows
    found = outcome_of(made.histograms, days)
    here = np.isin(rows["day"], days) & rows["won"]
    who, n = rows["advertiser"][here], len(made.histograms.advertisers)
    np.testing.assert_allclose(found.impressions, np.bincount(who, None, n))
    paid = np.bincount(who, rows["price"][here], n)
    np.testing.assert_allclose(found.spend, paid / 1000 / 1e6)
    np.testing.assert_allclose(found.clicks, np.bincount(who, rows["click"][here], n))
    np.testing.assert_allclose(found.conversions, np.bincount(who, rows["conversion"][here], n))
