"""Auction counts: what auctions reveal, on days of different price levels and weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.curves.auction_counts import (
    count_auctions,
    log_edges,
    moved_along,
)
from markets import log_of

#: Bins of equal width in the logarithm: a shift by log 2 is a shift by one bin.
EDGES = 1000 * 2 ** np.arange(8)
KINDS = [("second", "paid"), ("second", "minimum"), ("first", "none"), ("first", "minimum")]

auctions = st.lists(
    st.tuples(
        st.integers(0, 2),  # advertiser
        st.integers(0, 2),  # day
        st.integers(1, 120_000),  # bid
        st.integers(1, 120_000),  # minimum to win
    ),
    min_size=1,
    max_size=40,
)


def log_with(drawn, kind=("second", "paid"), weight=1.0):
    """The log of some auctions."""
    who, day, bid, minimum = np.array(drawn).T
    auction, revealed = kind
    return log_of(
        advertiser=who,
        day=day,
        bid=bid,
        won=bid >= minimum,
        price=bid if auction == "first" else minimum,
        minimum=minimum,
        weight=weight,
        edges=EDGES,
        auction=auction,
        revealed=revealed,
    )


def parts(counts):
    """The three kinds of evidence, (3, A, G)."""
    return np.stack([counts.revealed, counts.won, counts.lost])


@settings(max_examples=40)
@given(auctions, st.sampled_from(KINDS))
def test_every_auction_is_evidence_of_one_kind(drawn, kind):
    """Counted one by one: a revealed price by its bin, a win or loss by the bin of the bid."""
    found = count_auctions(log_with(drawn, kind))
    expected = np.zeros((3, len({who for who, *_ in drawn}), len(EDGES)))
    rows = {who: row for row, who in enumerate(sorted({who for who, *_ in drawn}))}
    for who, _, bid, minimum in drawn:
        won = bid >= minimum
        if kind[1] == "minimum":
            place = 0, minimum
        elif kind[1] == "paid":
            place = (0, minimum) if won else (2, bid)
        else:
            place = (1 if won else 2), bid
        bins = next((g for g, edge in enumerate(EDGES) if place[1] <= edge), len(EDGES) - 1)
        expected[place[0], rows[who], bins] += 1
    np.testing.assert_allclose(parts(found), expected, atol=1e-12)
    np.testing.assert_allclose(found.total, expected.sum(axis=(0, 2)))
    assert found.reveals == bool(expected[0].any())


@settings(max_examples=40)
@given(auctions, st.sampled_from(KINDS), st.lists(st.floats(-9, 9), min_size=3, max_size=3))
def test_totals_do_not_depend_on_price_levels(drawn, kind, shifts):
    """An auction moves to other bins, also to the ends of the grid, and is never lost."""
    log = log_with(drawn, kind)
    plain, moved = count_auctions(log), count_auctions(log, shifts=shifts[: len(log.days)])
    np.testing.assert_allclose(parts(moved).sum(axis=2), parts(plain).sum(axis=2), atol=1e-9)
    assert (parts(moved) >= 0).all()


@pytest.mark.parametrize("bins", [-2, -1, 0, 1, 3])
def test_a_level_of_whole_bins_moves_counts_by_whole_bins(bins):
    """On an expensive day amounts count as lower ones, by the ratio of the levels."""
    at = 3
    log = log_of(bid=[EDGES[at]] * 3, won=[True, True, False], price=EDGES[at], edges=EDGES)
    found = count_auctions(log, shifts=[bins * np.log(2)])
    assert np.flatnonzero(found.revealed[0] > 1e-9).tolist() == [at - bins]
    assert found.revealed[0, at - bins] == pytest.approx(2)
    assert found.lost[0, at - bins] == pytest.approx(1)


def test_a_level_between_bins_divides_counts_in_proportion():
    """A quarter of a bin moves a quarter of the auctions; the mean of log amounts moves exactly."""
    log = log_of(bid=[EDGES[4]] * 8, won=False, price=0, edges=EDGES)
    found = count_auctions(log, shifts=[np.log(2) / 4])
    np.testing.assert_allclose(found.lost[0, [3, 4]], [2, 6])


def test_levels_are_those_of_each_day():
    """Days of levels 0 and one bin add up as if the second had been cheaper."""
    log = log_of(bid=[EDGES[4]] * 5, won=False, price=0, day=[0, 0, 1, 1, 1], edges=EDGES)
    found = count_auctions(log, shifts=[0.0, np.log(2)])
    np.testing.assert_allclose(found.lost[0, [3, 4]], [3, 2])
    # and in the order in which days are given
    turned = count_auctions(log, [1, 0], shifts=[np.log(2), 0.0])
    np.testing.assert_array_equal(turned.lost, found.lost)


@settings(max_examples=30)
@given(auctions, st.sampled_from(KINDS))
def test_days_add_up_with_their_weights(drawn, kind):
    """The counts of weighted days are the weighted sum of the counts of the days."""
    log = log_with(drawn, kind)
    n_days = len(log.days)
    weights = np.array([0.25, 1.0, 3.0])[:n_days]
    together = count_auctions(log, weights=weights)
    each = [parts(count_auctions(log, [day])) for day in range(n_days)]
    expected = sum(weight * part for weight, part in zip(weights, each, strict=True))
    np.testing.assert_allclose(parts(together), expected, atol=1e-9)
    some = list(range(n_days))[1:]
    expected = sum((each[day] for day in some), np.zeros_like(each[0]))
    np.testing.assert_allclose(parts(count_auctions(log, some)), expected, atol=1e-9)


@settings(max_examples=20)
@given(auctions, st.sampled_from(KINDS), st.floats(0.01, 1000))
def test_a_common_weight_of_all_rows_changes_nothing(drawn, kind, weight):
    """A sample of one row in a hundred tells as much as it has rows."""
    np.testing.assert_allclose(
        parts(count_auctions(log_with(drawn, kind, weight))),
        parts(count_auctions(log_with(drawn, kind))),
        rtol=1e-9,
        atol=1e-9,
    )


def test_weighted_rows_count_as_their_effective_number():
    """(Σw)² / Σw² of each advertiser in all, divided between bins by weight."""
    log = log_of(bid=EDGES[[1, 2, 2]], won=False, price=0, weight=[4.0, 1.0, 1.0], edges=EDGES)
    found = count_auctions(log)
    assert found.total.tolist() == pytest.approx([36 / 18])
    np.testing.assert_allclose(found.lost[0, [1, 2]], [36 / 18 * 4 / 6, 36 / 18 * 2 / 6])


@pytest.mark.parametrize("edges", [[10], [10, 20], EDGES])
def test_the_first_bin_is_as_wide_as_the_second(edges):
    """There is one edge more than bins, and they increase."""
    found = log_edges(np.asarray(edges))
    assert len(found) == len(edges) + 1 and (np.diff(found) > 0).all()
    np.testing.assert_allclose(found[1:], np.log(edges))
    if len(edges) > 1:
        assert found[1] - found[0] == pytest.approx(found[2] - found[1])


@settings(max_examples=30)
@given(st.floats(-20, 20))
def test_bins_stay_in_order_and_on_the_grid_when_moved(shift):
    """Any shift gives places from the first to the last bin, none out of order."""
    found = moved_along(EDGES, np.array([shift, 0.0]))
    assert found.shape == (2, len(EDGES))
    assert (found >= 0).all() and (found <= len(EDGES) - 1).all()
    assert (np.diff(found, axis=1) >= 0).all()
    np.testing.assert_allclose(found[1], np.arange(len(EDGES)), atol=1e-9)
