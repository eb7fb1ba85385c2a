"""Bid histograms: cells in the smallest types, bins, and sums over them."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bid_tables import cells_of
from coterie.ads.histograms import bid_histograms
from coterie.ads.histograms.bid_histograms import (
    BidCells,
    PriceCells,
    bin_of,
    compact,
    index_type,
    keys_in_order,
    narrow_counts,
    of_advertisers,
    refuse_many_days,
    summed,
)
from coterie.ads.histograms.counting import read_histograms
from coterie.ads.logs.bid_logs import open_logs
from coterie.ads.logs.simulation.simulated_logs import simulate_logs
from coterie.errors import InvalidParameterError, TableError
from markets import EASY, log_of, market

DENSE = {
    "bids": ("bids", "count"),
    "squares": ("bids", "square"),
    "bid": ("bids", "bid"),
    "wins": ("bids", "wins"),
    "cost": ("bids", "cost"),
    "prices": ("prices", "count"),
    "price": ("prices", "price"),
}


def weighted_log(seed=0, n=300):
    """Bids with weights of four advertisers on three days."""
    rng = np.random.default_rng(seed)
    bid = rng.integers(1, 100, n)
    return log_of(
        bid=bid,
        won=rng.random(n) < 0.6,
        price=(bid * rng.random(n)).astype(int),
        advertiser=rng.integers(0, 4, n),
        day=rng.integers(0, 3, n),
        click=rng.random(n) < 0.4,
        conversion=rng.random(n) < 0.2,
        weight=rng.choice([0.5, 1.0, 3.0], n),
        edges=[10, 25, 50, 80],
    )


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.integers(-5, 60), max_size=30),
    st.lists(st.integers(1, 50), min_size=1, max_size=6, unique=True),
)
def test_a_value_is_in_the_first_bin_whose_edge_it_does_not_pass(values, edges):
    """Values above the last edge are in the last bin."""
    grid = np.array(sorted(edges))
    expected = [
        next((g for g, edge in enumerate(grid) if value <= edge), len(grid) - 1) for value in values
    ]
    assert bin_of(np.array(values, dtype=np.int64), grid).tolist() == expected


@pytest.mark.parametrize("kind", [{}, {"auction": "first", "minimum_logged": True}])
def test_an_engine_counts_the_cells_that_plain_counting_gives(tmp_path, kind):
    """DuckDB on files and counting row by row in memory give exactly the same cells."""
    chosen = replace(EASY, advertisers=25, days=2, bids_per_day=8, **kind)
    in_memory = market(chosen).histograms
    simulate_logs(chosen, tmp_path / "market")
    read = read_histograms(open_logs(tmp_path / "market"), in_memory.edges)
    assert cells_of(read) == cells_of(in_memory)
    assert (read.auction, read.revealed) == (in_memory.auction, in_memory.revealed)
    assert read.advertisers.tolist() == in_memory.advertisers.tolist()
    assert read.days.tolist() == in_memory.days.tolist()
    assert read.currency == in_memory.currency == "USD"


@pytest.mark.parametrize("days", [None, [0], [2, 1], [1, 1], []])
def test_dense_counts_are_sums_of_cells(days):
    """Dense counts equal a loop over cells; a day given twice counts once."""
    log = weighted_log()
    counts = log.dense(days)
    chosen = set(range(3)) if days is None else set(days)
    for name, (part, column) in DENSE.items():
        cells = getattr(log, part)
        expected = np.zeros((4, 4))
        for a, d, g, value in zip(
            cells.advertiser, cells.day, cells.bin, getattr(cells, column), strict=True
        ):
            expected[a, g] += value * (d in chosen)
        np.testing.assert_allclose(getattr(counts, name), expected, rtol=1e-12)
    for name in ("clicks", "conversions"):
        by_day = log.daily(name)[:, sorted(chosen)]
        np.testing.assert_allclose(getattr(counts, name), by_day.sum(axis=1), rtol=1e-12)


def test_daily_sums_are_those_of_dense_rows():
    """Daily sums are by advertiser and day, over all bins."""
    log = weighted_log()
    assert log.shape == (4, 3, 4)
    for name, (part, column) in DENSE.items():
        if part == "bids":
            by_day = [getattr(log.dense([day]), name).sum(axis=1) for day in range(3)]
            np.testing.assert_allclose(log.daily(column), np.stack(by_day, axis=1), rtol=1e-12)


def test_observations_are_effective_numbers_of_bids():
    """They are (Σw)²/Σw²: the number of bids for equal weights, and 0 without bids."""
    log = log_of(
        bid=[5, 5, 5, 5, 5],
        won=False,
        price=0,
        advertiser=[0, 0, 0, 1, 1],
        day=[0, 0, 0, 0, 1],
        weight=[1.0, 1.0, 4.0, 2.0, 2.0],
        edges=[10],
    )
    assert log.dense().observations.tolist() == [36 / 18, 2.0]
    assert log.dense([1]).observations.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("days", [[-1], [0, 3]])
def test_days_that_are_not_there_are_refused(days):
    """The message gives the range of indices."""
    with pytest.raises(InvalidParameterError, match="days: indices must be from 0 to 2"):
        weighted_log().dense(days)


@pytest.mark.parametrize("days", [[0], [2, 1], [1, 1], [0, 1, 2], []])
def test_histograms_of_some_days_are_those_of_a_log_of_these_days(days):
    """Of the advertisers that bid then; days given twice or in another order are the same."""
    log = weighted_log()
    found = log.for_days(days)
    chosen = sorted(set(days))
    assert found.days.tolist() == log.days[chosen].tolist()
    assert found.edges.tolist() == log.edges.tolist()
    kept = {str(day) for day in log.days[chosen]}
    whole = cells_of(log)
    expected = {
        part: {place: sums for place, sums in whole[part].items() if place[1] in kept}
        for part in whole
    }
    assert cells_of(found) == expected
    bidding = sorted({name for name, _, _ in expected["bids"]})
    assert found.advertisers.tolist() == bidding
    assert (found.auction, found.revealed, found.currency) == ("second", "paid", "USD")


def test_advertisers_that_do_not_bid_on_some_days_are_left_out():
    """The others are numbered anew."""
    log = log_of(bid=[5, 6, 7], won=True, price=3, advertiser=[0, 1, 2], day=[0, 1, 0], edges=[10])
    found = log.for_days([0])
    assert found.advertisers.tolist() == ["a000", "a002"]
    assert found.bids.advertiser.tolist() == [0, 1] and found.prices.advertiser.tolist() == [0, 1]


@pytest.mark.parametrize("rows", [[1, 3], [0, 1, 2, 3], []])
def test_histograms_of_some_advertisers_are_their_rows(rows):
    """Dense counts are those rows of all; days and bins stay."""
    log = weighted_log()
    found = log.for_advertisers(rows)
    assert found.advertisers.tolist() == log.advertisers[rows].tolist()
    assert found.shape[1:] == log.shape[1:]
    for name in DENSE:
        assert np.array_equal(getattr(found.dense(), name), getattr(log.dense(), name)[rows])


def test_campaigns_have_the_advertiser_in_their_name():
    """Before the last slash; advertisers have no parents."""
    log = log_of(bid=[5, 6, 7], won=True, price=3, advertiser=[0, 1, 2], edges=[10])
    assert log.unit == "advertiser" and log.parents is None
    names = np.array(["a/1", "a/2", "b/c/1"])
    assert replace(log, advertisers=names, unit="campaign").parents.tolist() == ["a", "a", "b/c"]


SHAPE = (6, 3, 5)


def price_cells(rng, n=200, weighted=False):
    """Sorted cells of six advertisers, some of which have none."""
    keys = np.unique(rng.integers(0, np.prod(SHAPE), n))
    keys = keys[np.unravel_index(keys, SHAPE)[0] != 2]
    count = rng.integers(1, 9, len(keys)) * (0.37 if weighted else 1.0)
    return PriceCells(*np.unravel_index(keys, SHAPE), count, count * 1_234_567.0)


@pytest.mark.parametrize("weighted", [False, True])
def test_small_types_hold_the_same_numbers(weighted):
    """Twenty bytes for a cell of prices; weighted numbers stay floats of 64 bits."""
    before = price_cells(np.random.default_rng(0), weighted=weighted)
    found = compact(before)
    for field in fields(before):
        np.testing.assert_array_equal(getattr(found, field.name), getattr(before, field.name))
    size = sum(column.itemsize for column in vars(found).values())
    assert size == (24 if weighted else 20)
    assert compact(found).price is found.price and compact(found).count is found.count


def test_without_weights_squares_are_the_counts():
    """They are one array, also after a choice of advertisers or days; a cell has 40 bytes."""
    log = market(EASY).histograms
    some = (log, log.for_advertisers(range(5)), log.for_advertisers([1, 7]), log.for_days([0, 2]))
    for one in some:
        assert one.bids.square is one.bids.count
        distinct = {id(column): column.itemsize for column in vars(one.bids).values()}
        assert sum(distinct.values()) == 40


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, 2**31 - 1], "int32"),
        ([2**31], "float64"),
        ([0.5], "float64"),
        ([np.nan], "float64"),
        ([], "int32"),
    ],
)
def test_counts_are_whole_numbers_of_32_bits_only_if_they_are(values, kind):
    """Nothing is rounded, and nothing overflows."""
    found = narrow_counts(np.array(values, dtype=np.float64))
    assert found.dtype == kind
    np.testing.assert_array_equal(found, values)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 40), st.sampled_from(["day", "bin", None]))
def test_sums_in_blocks_are_sums(seed, block, by):
    """For blocks of any size, by day, by bin and by advertiser alone, on all and on some days."""
    rng = np.random.default_rng(seed)
    cells = compact(price_cells(rng, weighted=True))
    kept = rng.random(3) < 0.5
    n = {"day": 3, "bin": 5, None: 1}[by]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bid_histograms, "_BLOCK", block)
        found = [summed(cells, "price", by, (6, n), days) for days in (None, kept)]
    for days, sums in zip((np.ones(3, bool), kept), found, strict=True):
        expected = np.zeros((6, n))
        other = np.zeros(len(cells.bin), int) if by is None else getattr(cells, by)
        some = days[cells.day]
        np.add.at(expected, (cells.advertiser[some], other[some]), cells.price[some])
        np.testing.assert_array_equal(sums, expected)


def test_keys_do_not_overflow():
    """A million advertisers, a year and thousands of bins have more places than 32 bits."""
    last = [np.array([n - 1], dtype=kind) for n, kind in zip(
        (1_000_000, 366, 3000), (np.int32, np.int16, np.int16), strict=True)]  # fmt: skip
    cells = PriceCells(*last, np.ones(1, np.int32), np.ones(1))
    assert keys_in_order(cells, (1_000_000, 366, 3000)).tolist() == [1_000_000 * 366 * 3000 - 1]
    assert summed(cells, "count", "bin", (1_000_000, 3000))[-1, -1] == 1


def test_many_bins_have_wider_indices():
    """The place after the last bin fits, too, because curves have one more edge."""
    assert [index_type(n).__name__ for n in (5, 32_766, 32_767)] == ["int16", "int16", "int32"]
    edges = np.arange(1, 40_001)
    log = log_of(bid=[1, 40_000], won=True, price=1, advertiser=[0, 1], edges=edges)
    assert log.bids.bin.tolist() == [0, 39_999]
    assert log.dense().bids[1, -1] == 1


def test_more_days_than_fit_are_refused():
    """Dates that were read wrongly may give any number."""
    refuse_many_days(32_767, "a log")
    with pytest.raises(TableError, match="a log: it has 32,768 different days"):
        refuse_many_days(32_768, "a log")


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.sets(st.integers(0, 5)))
def test_cells_of_some_advertisers_are_those_a_mask_gives(seed, chosen):
    """Also of advertisers without cells; types stay."""
    cells = compact(price_cells(np.random.default_rng(seed)))
    rows = np.array(sorted(chosen), dtype=np.int64)
    found = of_advertisers(cells, rows)
    kept = np.isin(cells.advertiser, rows)
    assert found.advertiser.tolist() == np.searchsorted(rows, cells.advertiser[kept]).tolist()
    for name in ("day", "bin", "count", "price"):
        np.testing.assert_array_equal(getattr(found, name), getattr(cells, name)[kept])
    assert [c.dtype for c in vars(found).values()] == [c.dtype for c in vars(cells).values()]


def test_consecutive_advertisers_share_memory():
    """No sum is copied."""
    cells = market(EASY).histograms.bids
    found = of_advertisers(cells, np.arange(3, 9))
    assert all(
        np.shares_memory(getattr(found, field.name), getattr(cells, field.name))
        for field in fields(BidCells)
        if field.name != "advertiser"
    )


@pytest.mark.parametrize("rows", [[1, 1], [2, 1], [-1, 0], [90], [[0]]])
def test_rows_that_are_not_increasing_are_refused(rows):
    """A wrong order would give cells in a wrong order."""
    with pytest.raises(InvalidParameterError, match="rows: they must be increasing indices"):
        market(replace(EASY, newcomers=0.0)).histograms.for_advertisers(rows)
