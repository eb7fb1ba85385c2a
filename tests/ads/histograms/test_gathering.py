"""Gathering: batches of cells, as an engine returns them, become sorted cells."""

from __future__ import annotations

import datetime
import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.histograms.gathering import gather_cells
from coterie.errors import TableError

DAYS = [datetime.date(2026, 2, 27) + datetime.timedelta(days=d) for d in range(4)]
N_BINS = 5

places = st.tuples(st.sampled_from(["", "a", "B", "é", "🦊"]), st.integers(0, 3), st.integers(0, 4))


def engine_rows(cells: list[tuple[str, int, int]], **sums: list) -> pa.Table:
    """Rows as an engine returns them, each with its number as its count."""
    return pa.table(
        {
            "advertiser_id": pa.array([name for name, _, _ in cells], pa.string()),
            "day": pa.array([DAYS[day] for _, day, _ in cells], pa.date32()),
            "bin": pa.array([b for _, _, b in cells], pa.int16()),
            "count": pa.array([float(i) for i in range(len(cells))], pa.float64()),
            **sums,
        }
    )


@settings(deadline=None, max_examples=50)
@given(st.lists(places, unique=True, max_size=40), st.integers(1, 3))
def test_cells_are_sorted_and_keep_their_sums(cells, n_chunks):
    """Cells are the same for any order and chunks of rows; rows without a name do not count."""
    table = engine_rows(cells)
    cuts = np.linspace(0, len(table), n_chunks + 1, dtype=int).tolist()
    parts = [table.slice(start, end - start) for start, end in itertools.pairwise(cuts)]
    names, days, bids, prices = gather_cells(pa.concat_tables(parts).to_batches(), [], N_BINS, "x")
    expected = sorted((*cell, float(i)) for i, cell in enumerate(cells) if cell[0])
    assert [
        (str(names[a]), DAYS.index(days[d].astype(object)), b, n)
        for a, d, b, n in zip(bids.advertiser, bids.day, bids.bin, bids.count, strict=True)
    ] == expected
    assert names.tolist() == sorted({name for name, _, _ in cells if name})
    assert len(prices.bin) == 0


def test_sums_that_are_missing_are_zero_and_squares_are_counts():
    """Missing sums are 0, and a missing Σw² is Σw, as in a log without weights."""
    rows = engine_rows([("a", 0, 0), ("a", 0, 1)], wins=[1.0, 2.0])
    found = gather_cells(rows.to_batches(), [], N_BINS, "x")[2]
    assert found.square is found.count
    assert found.square.tolist() == found.count.tolist() == [0.0, 1.0]
    assert found.wins.tolist() == [1.0, 2.0]
    assert found.clicks.tolist() == found.cost.tolist() == [0.0, 0.0]


def test_rows_without_a_name_or_a_day_do_not_count():
    """Rows of bids and of prices need an advertiser and a day."""
    table = engine_rows([("a", 1, 0), ("b", 2, 0), ("", 3, 0), ("c", 0, 0)])
    days = pa.array([DAYS[1], None, DAYS[3], None], pa.date32())
    table = table.set_column(1, "day", days)
    prices = table.append_column("price", pa.array([7.0] * 4))
    names, dates, _, found = gather_cells(table.to_batches(), prices.to_batches(), N_BINS, "x")
    assert (names.tolist(), dates.tolist()) == (["a"], [DAYS[1]])
    assert (found.advertiser.tolist(), found.price.tolist()) == ([0], [7.0])


def test_a_very_long_name_is_refused():
    """The array of names reserves the length of the longest for each."""
    with pytest.raises(TableError, match="x: an advertiser_id has 1001 characters"):
        gather_cells(engine_rows([("a" * 1001, 0, 0)]).to_batches(), [], N_BINS, "x")


def test_cells_in_the_order_of_another_collation_are_sorted():
    """A database may sort capital letters after small ones; results are in one order."""
    table = engine_rows([("a", 0, 0), ("B", 1, 1), ("B", 0, 0), ("é", 0, 0)])
    names, _, bids, _ = gather_cells(table.to_batches(max_chunksize=2), [], N_BINS, "x")
    assert names.tolist() == ["B", "a", "é"]
    assert bids.advertiser.tolist() == [0, 0, 1, 2] and bids.count.tolist() == [2, 1, 0, 3]


def test_cells_have_small_types():
    """Whole numbers are int32; one batch with weights makes all of the column float64."""
    rows = engine_rows([("a", 0, 0), ("b", 0, 1)], wins=[1.0, 0.5], bid=[1.0, 2.0])
    found = gather_cells(rows.to_batches(max_chunksize=1), [], N_BINS, "x")[2]
    names = ("advertiser", "day", "bin", "count", "wins", "bid", "cost", "clicks")
    assert [getattr(found, name).dtype.name for name in names] == [
        *("int32", "int16", "int16", "int32", "float64", "float64", "float64", "int32")
    ]
