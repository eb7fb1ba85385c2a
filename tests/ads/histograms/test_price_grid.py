"""The price grid: the same bins for every log."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.histograms.bid_histograms import bin_of
from coterie.ads.histograms.price_grid import BINS_PER_DECADE, on_price_grid, price_grid
from coterie.ads.logs.amount_codes import MOST_MICROS, amounts_of, codes_of
from markets import EASY, log_of, market

WHOLE = price_grid(1, MOST_MICROS)

amounts = st.integers(1, MOST_MICROS)
auctions = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 10**7), st.integers(1, 10**7)),
    min_size=1,
    max_size=40,
)


def log_with(drawn, edges):
    """A log of some auctions (advertiser, day, bid, minimum) on given edges."""
    who, day, bid, minimum = np.array(drawn).T
    return log_of(
        advertiser=who,
        day=day,
        bid=bid,
        won=bid >= minimum,
        price=minimum,
        click=bid % 2,
        weight=1 + bid % 3,
        edges=edges,
    )


@given(amounts, amounts)
def test_grids_are_parts_of_one_grid(least, most):
    """Those bins of it that hold the amounts, and no more."""
    least, most = sorted((least, most))
    found = price_grid(least, most)
    first = int(np.searchsorted(WHOLE, found[0]))
    np.testing.assert_array_equal(found, WHOLE[first : first + len(found)])
    assert least <= found[0] and most <= found[-1]
    assert first == 0 or WHOLE[first - 1] < least
    assert len(found) == 1 or found[-2] < most


def test_every_edge_has_three_significant_digits():
    """So that engines find bins by the codes of amounts."""
    np.testing.assert_array_equal(amounts_of(codes_of(WHOLE)), WHOLE)
    assert WHOLE[0] == 1 and WHOLE[-1] == MOST_MICROS and (np.diff(WHOLE) > 0).all()


def test_bins_are_narrow():
    """96 in each decade from a thousand micros up, no one wider than 3.5%."""
    for decade in range(3, 15):
        inside = (WHOLE > 10**decade) & (WHOLE <= 10 ** (decade + 1))
        assert inside.sum() == BINS_PER_DECADE
    wide = WHOLE[WHOLE >= 1000]
    assert (wide[1:] / wide[:-1]).max() < 1.035


@settings(max_examples=40)
@given(auctions, st.lists(st.integers(1, 10**7), min_size=1, max_size=12, unique=True).map(sorted))
def test_moving_to_the_grid_keeps_every_sum(drawn, edges):
    """By advertiser and day; a cell goes to the bin that holds its upper edge."""
    before = log_with(drawn, edges)
    found = on_price_grid(before)
    for name in ("count", "square", "bid", "wins", "cost", "clicks", "conversions"):
        np.testing.assert_allclose(found.daily(name), before.daily(name))
    assert found.prices.count.sum() == pytest.approx(before.prices.count.sum())
    assert found.prices.price.sum() == pytest.approx(before.prices.price.sum())
    np.testing.assert_array_equal(found.advertisers, before.advertisers)
    np.testing.assert_array_equal(found.days, before.days)
    place = bin_of(before.edges, found.edges)
    expected = np.zeros((len(before.advertisers), len(found.edges)))
    np.add.at(expected, (slice(None), place), before.dense().bids)
    np.testing.assert_allclose(found.dense().bids, expected)


@settings(max_examples=40)
@given(auctions, st.lists(st.integers(1, 10**7), min_size=1, max_size=12, unique=True).map(sorted))
def test_the_grid_of_a_log_has_its_first_and_last_bin_in_use(drawn, edges):
    """And moving a log twice is moving it once."""
    found = on_price_grid(log_with(drawn, edges))
    used = np.concatenate([found.bids.bin, found.prices.bin])
    assert (used.min(), used.max()) == (0, len(found.edges) - 1)
    assert on_price_grid(found) is found
    for cells in (found.bids, found.prices):
        place = np.ravel_multi_index((cells.advertiser, cells.day, cells.bin), found.shape)
        assert (np.diff(place) > 0).all()


@settings(max_examples=30)
@given(auctions)
def test_a_log_on_more_of_the_grid_loses_only_unused_bins(drawn):
    """Cells stay in their bins, whose edges are the same."""
    whole = log_with(drawn, price_grid(1, 10**8))
    found = on_price_grid(whole)
    np.testing.assert_array_equal(found.edges[found.bids.bin], whole.edges[whole.bids.bin])
    np.testing.assert_array_equal(found.bids.bid, whole.bids.bid)
    np.testing.assert_array_equal(found.edges[found.prices.bin], whole.edges[whole.prices.bin])


def test_logs_that_are_on_the_grid_stay_as_they_are():
    """No copy is made."""
    log = market(EASY).histograms
    assert on_price_grid(log) is log
    assert on_price_grid(market(EASY, bins=20).histograms).shape[:2] == log.shape[:2]
