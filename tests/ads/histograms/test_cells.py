"""Cells: the smallest types that are exact, and sums that do not depend on them."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.histograms import cells as cell_module
from coterie.ads.histograms.cells import (
    BidCells,
    PriceCells,
    compact,
    index_type,
    keys_in_order,
    looked_up,
    narrow_counts,
    of_advertisers,
    refuse_many_days,
    summed,
)
from coterie.errors import InvalidParameterError, TableError
from markets import EASY, log_of, market

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
        patch.setattr(cell_module, "_BLOCK", block)
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


def test_a_table_is_looked_up_in_blocks(monkeypatch):
    """The result has the type of the table."""
    monkeypatch.setattr(cell_module, "_BLOCK", 3)
    table, index = np.array([5, 7, 9], dtype=np.int16), np.array([2, 0, 1, 1, 0], dtype=np.int16)
    found = looked_up(table, index)
    assert (found.dtype, found.tolist()) == (np.int16, [9, 5, 7, 7, 5])
