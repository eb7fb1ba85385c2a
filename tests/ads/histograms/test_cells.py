"""Cells as engines give them, gathered into sorted arrays."""

from __future__ import annotations

import datetime
import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.histograms.cells import gather_cells
from coterie.errors import TableError

DAYS = [datetime.date(2026, 2, 27) + datetime.timedelta(days=d) for d in range(4)]
N_BINS = 5

places = st.tuples(st.sampled_from(["", "a", "B", "é", "🦊"]), st.integers(0, 3), st.integers(0, 4))


def rows(cells: list[tuple[str, int, int]], **sums: list) -> pa.Table:
    """Rows in the order given, each with its number as its count."""
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
    """Whatever the order they come in and the chunks they come in; without a name none counts."""
    table = rows(cells)
    cuts = np.linspace(0, len(table), n_chunks + 1, dtype=int).tolist()
    parts = [table.slice(start, end - start) for start, end in itertools.pairwise(cuts)]
    found = gather_cells(pa.concat_tables(parts), None, N_BINS, "x")
    expected = sorted((*cell, float(i)) for i, cell in enumerate(cells) if cell[0])
    bids = found.bids
    assert [
        (str(found.advertisers[a]), DAYS.index(found.days[d].astype(object)), b, n)
        for a, d, b, n in zip(bids.advertiser, bids.day, bids.bin, bids.count, strict=True)
    ] == expected
    assert found.advertisers.tolist() == sorted({name for name, _, _ in cells if name})
    assert len(found.prices.bin) == 0


def test_sums_that_are_missing_are_zero_and_squares_are_counts():
    """As in a log without weights, clicks or conversions."""
    found = gather_cells(rows([("a", 0, 0), ("a", 0, 1)], wins=[1.0, 2.0]), None, N_BINS, "x").bids
    assert found.square.tolist() == found.count.tolist() == [0.0, 1.0]
    assert found.wins.tolist() == [1.0, 2.0]
    assert found.clicks.tolist() == found.cost.tolist() == [0.0, 0.0]
    assert found.wins.dtype == np.float64


def test_rows_without_a_name_or_a_day_do_not_count():
    """Of bids and of prices."""
    table = rows([("a", 1, 0), ("b", 2, 0), ("", 3, 0), ("c", 0, 0)])
    days = pa.array([DAYS[1], None, DAYS[3], None], pa.date32())
    table = table.set_column(1, "day", days)
    prices = table.append_column("price", pa.array([7.0] * 4))
    found = gather_cells(table, prices, N_BINS, "x")
    assert found.advertisers.tolist() == ["a"]
    assert found.days.tolist() == [DAYS[1]]
    assert (found.prices.advertiser.tolist(), found.prices.price.tolist()) == ([0], [7.0])


def test_a_name_without_end_is_refused():
    """An array of names has room for the longest in every place."""
    with pytest.raises(TableError, match="x: an advertiser_id has 1001 characters"):
        gather_cells(rows([("a" * 1001, 0, 0)]), None, N_BINS, "x")
