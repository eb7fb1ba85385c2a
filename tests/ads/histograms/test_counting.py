"""Grids and histograms, counted by an engine."""

from __future__ import annotations

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bid_tables import MICROS, as_arrow, bid_frame, cells_of, count_by_hand, write_csv
from coterie.ads.histograms.counting import read_histograms
from coterie.ads.histograms.price_grid import on_price_grid, price_grid
from coterie.ads.logs.amount_codes import amounts_of, codes_of
from coterie.ads.logs.bid_logs import open_logs
from coterie.errors import InvalidParameterError, TableError

ROUND = [MICROS // 2, MICROS, 2 * MICROS, 4_560_000, 8 * MICROS]
ODD = [123_457, 1_000_001, 2_718_281, 8 * MICROS]


def logs_of(frame: pd.DataFrame, *without: str, **how):
    """A frame as an open log, without some columns."""
    return open_logs(ibis.memtable(as_arrow(frame.drop(columns=list(without)))), **how)


def three_bids(**changed: list) -> pa.Table:
    """Three plain bids, with some columns changed."""
    columns = {
        "advertiser_id": ["a", "b", "b"],
        "day": ["2026-03-02"] * 3,
        "bid_micros": [2 * MICROS, 3 * MICROS, 4 * MICROS],
        "won": [True, True, False],
        "price_micros": [MICROS, 2 * MICROS, None],
    }
    return pa.table({**columns, **changed})


def lost_bids(bids) -> pa.Table:
    """Bids of one advertiser on one day, all lost."""
    n = len(bids)
    columns = {"advertiser_id": ["a"] * n, "day": ["2026-03-02"] * n, "bid_micros": bids}
    return pa.table({**columns, "won": [False] * n, "price_micros": pa.nulls(n, pa.int64())})


@pytest.mark.parametrize(("edges", "weighted"), [(ROUND, True), (ODD, False), ([3_000_000], False)])
@pytest.mark.parametrize(
    ("revealed", "without", "auction"),
    [
        ("paid", ["min_to_win_micros"], "second"),
        ("minimum", [], "first"),
        ("none", ["min_to_win_micros"], "first"),
    ],
)
def test_cells_are_those_counted_by_hand(edges, weighted, revealed, without, auction):
    """With faulty rows, hostile names, round and odd edges, with and without weights."""
    frame = bid_frame(300)
    logs = logs_of(frame, *without, *([] if weighted else ["weight"]), auction=auction)
    found = read_histograms(logs, edges)
    assert (found.revealed, found.auction) == (revealed, auction)
    assert found.edges.tolist() == edges
    expected = count_by_hand(frame, edges, revealed=revealed, weighted=weighted)
    for part, cells in cells_of(found).items():
        assert cells.keys() == expected[part].keys()
        for place, sums in cells.items():
            assert sums == pytest.approx(expected[part][place], rel=1e-12 if weighted else 0)


# few examples of many bids: a query takes longer than its rows
@settings(deadline=None, max_examples=6)
@given(
    st.lists(st.integers(1, 10**13), min_size=1, max_size=150),
    st.lists(st.integers(1, 10**12), min_size=1, max_size=20, unique=True),
    st.booleans(),
)
def test_every_bid_is_in_its_bin(bids, edges, is_round):
    """For any bids and any edges, round or not."""
    grid = np.unique(amounts_of(codes_of(edges))) if is_round else np.unique(edges)
    found = read_histograms(open_logs(ibis.memtable(lost_bids(bids))), grid).dense()
    place = np.minimum(np.searchsorted(grid, bids), len(grid) - 1)
    assert found.bids[0].tolist() == np.bincount(place, minlength=len(grid)).tolist()
    assert found.bid.sum() == sum(bids)


def test_cells_do_not_depend_on_the_files_or_their_order(tmp_path):
    """One Parquet file, several in another order, and text give the same cells."""
    frame = bid_frame(300)
    pq.write_table(as_arrow(frame), tmp_path / "one.parquet")
    for i, part in enumerate(np.array_split(np.random.default_rng(1).permutation(300), 4)):
        pq.write_table(as_arrow(frame.iloc[part]), tmp_path / f"part-{i}.parquet")
    write_csv(frame, tmp_path / "one.csv")
    one = read_histograms(open_logs(tmp_path / "one.parquet"))
    first = cells_of(one)
    for source in (str(tmp_path / "part-*.parquet"), tmp_path / "one.csv"):
        other = read_histograms(open_logs(source))
        np.testing.assert_array_equal(other.edges, one.edges)
        again = cells_of(other)
        assert again["bids"].keys() == first["bids"].keys()
        for part, cells in again.items():
            for place, sums in cells.items():
                assert sums == pytest.approx(first[part][place], rel=1e-12)


@pytest.mark.parametrize(
    ("without", "auction"),
    [(["min_to_win_micros"], "second"), ([], "second"), (["min_to_win_micros"], "first")],
)
def test_the_default_grid_holds_all_amounts_and_no_more(without, auction):
    """Bids, and the prices that are counted; a price of 0 is in the first bin."""
    frame = bid_frame(400, faults=False)
    frame.loc[frame.index[frame.won][:3], "price_micros"] = 0
    paid = frame.price_micros[frame.won] if auction == "second" else frame.bid_micros[:0]
    shown = frame.min_to_win_micros if not without else paid
    amounts = np.concatenate([frame.bid_micros, shown]).astype(int)
    found = read_histograms(logs_of(frame, *without, "weight", auction=auction))
    expected = price_grid(amounts[amounts > 0].min(), amounts.max())
    np.testing.assert_array_equal(found.edges, expected)
    assert on_price_grid(found) is found
    np.testing.assert_allclose(found.dense().prices.sum(), len(shown))


@settings(deadline=None, max_examples=6)
@given(st.lists(st.integers(1, 10**15), min_size=1, max_size=80))
def test_amounts_of_any_size_have_a_bin_of_the_grid(bids):
    """From a millionth of a unit to a billion of them."""
    found = read_histograms(open_logs(ibis.memtable(lost_bids(bids))))
    np.testing.assert_array_equal(found.edges, price_grid(min(bids), max(bids)))
    upper = found.edges[found.bids.bin]
    lower = np.append(0, found.edges)[found.bids.bin]
    mean = found.bids.bid / found.bids.count
    assert (lower < mean * (1 + 1e-12)).all() and (mean <= upper * (1 + 1e-12)).all()


@pytest.mark.parametrize(
    "days",
    [
        ["2026-03-01", "2026-03-03"],
        np.array(["2026-03-03", "2026-03-01"], dtype="datetime64[D]"),
    ],
)
def test_days_may_be_chosen(days):
    """Days restrict the grid and the cells, in any form and order."""
    frame = bid_frame(300)
    some = frame[frame.day.isin(["2026-03-01", "2026-03-03"])]
    logs = logs_of(frame)
    np.testing.assert_array_equal(
        read_histograms(logs, days=days).edges, read_histograms(logs_of(some)).edges
    )
    found = read_histograms(logs, ROUND, days=days)
    assert [str(day) for day in found.days] == ["2026-03-01", "2026-03-03"]
    assert cells_of(found) == cells_of(read_histograms(logs_of(some), ROUND))


def test_an_advertiser_that_never_won_has_bids_and_no_cost():
    """Its wins and cost are 0, not null."""
    rows = three_bids(won=[True, False, False], price_micros=[MICROS, None, None])
    dense = read_histograms(open_logs(ibis.memtable(rows))).dense()
    assert dense.wins.sum(axis=1).tolist() == [1, 0]
    assert dense.cost.sum(axis=1).tolist() == [MICROS, 0]
    assert np.isfinite(dense.cost).all()


def test_a_log_in_which_nobody_won_has_no_prices():
    """A column of prices that is null throughout is accepted."""
    rows = three_bids(won=[False] * 3, price_micros=pa.nulls(3))
    found = read_histograms(open_logs(ibis.memtable(rows)))
    assert (found.revealed, len(found.prices.bin)) == ("paid", 0)
    assert found.edges.tolist() == price_grid(2 * MICROS, 4 * MICROS).tolist()


def test_huge_amounts_do_not_count():
    """Amounts above a billion currency units are left out, so that sums do not overflow."""
    rows = three_bids(bid_micros=[2 * MICROS, 2**62, 2**62], price_micros=[2**62, 1, 1])
    found = read_histograms(open_logs(ibis.memtable(rows)))
    assert found.bids.bid.tolist() == [2 * MICROS]
    assert found.bids.cost.tolist() == [0]


def test_invalid_weights_do_not_count():
    """Weights that are 0, negative, infinite, NaN or missing are left out."""
    n = 6
    rows = pa.table(
        {
            "advertiser_id": ["a"] * n,
            "day": ["2026-03-02"] * n,
            "bid_micros": [MICROS] * n,
            "won": [True] * n,
            "price_micros": [MICROS // 2] * n,
            "weight": [2.0, 0.0, -1.0, np.inf, np.nan, None],
        }
    )
    found = read_histograms(open_logs(ibis.memtable(rows)))
    assert (found.bids.count.tolist(), found.bids.square.tolist()) == ([2.0], [4.0])
    assert (found.prices.count.tolist(), found.bids.cost.tolist()) == ([2.0], [float(MICROS)])


def test_currency_and_auction_are_kept():
    """Histograms have the currency and the auction of the log."""
    rows = three_bids().append_column("currency", pa.array(["EUR"] * 3))
    found = read_histograms(open_logs(ibis.memtable(rows), auction="first"))
    assert (found.currency, found.auction, found.revealed) == ("EUR", "first", "none")


def histogram_rows(**more: list) -> pa.Table:
    """A table of histograms of two advertisers."""
    return pa.table(
        {
            "advertiser_id": ["b", "a", "a", "a"],
            "day": ["2026-03-02"] * 4,
            "bin_micros": [1_234_567, 10, 20, 20],
            "bids": [3.0, 4.0, 5.0, 6.5],
            "wins": [1, 2, 3, 0],
            "cost_micros": [1000, 18, 55, None],
            **more,
        }
    )


def test_ready_made_histograms_on_their_own_bins():
    """Given sums are added; missing sums of bids are taken from the upper edges."""
    found = read_histograms(open_logs(ibis.memtable(histogram_rows())), [10, 20, 1_234_567])
    dense = found.dense()
    assert found.edges.tolist() == [10, 20, 1_234_567]
    assert (found.advertisers.tolist(), found.revealed) == (["a", "b"], "none")
    assert dense.bids.tolist() == [[4, 11.5, 0], [0, 0, 3]]
    assert dense.bid.tolist() == [[40, 230, 0], [0, 0, 3 * 1_234_567]]
    assert dense.cost.tolist() == [[18, 55, 0], [0, 0, 1000]]
    assert dense.clicks.tolist() == [0, 0]


def test_ready_made_histograms_may_have_prices_and_all_sums():
    """Given sums of bids and prices are used, also with coarser bins."""
    more = {
        "bid_micros": [3_000_000.0, 39, 95, 130],
        "prices": [0, 2, 3, 0],
        "price_micros": [0, 18, 55, 0],
        "clicks": [1, 0, 0, 2],
    }
    logs = open_logs(ibis.memtable(histogram_rows(**more)))
    found = read_histograms(logs, [20, 2_000_000])
    assert found.revealed == "paid"
    assert found.dense().bid.tolist() == [[264, 0], [0, 3_000_000]]
    assert found.dense().prices.tolist() == [[5, 0], [0, 0]]
    assert found.dense().price.tolist() == [[73, 0], [0, 0]]
    assert found.dense().clicks.tolist() == [2, 1]


def test_ready_made_histograms_may_have_bids_and_prices_in_rows_of_their_own():
    """What a row does not have counts as 0, also where sums are taken from the upper edges."""
    bids, prices = [3.0, None, 5.0, None], [None, 2.0, None, 3.0]
    rows = histogram_rows(bids=bids, wins=[1, None, 3, None], prices=prices)
    found = read_histograms(open_logs(ibis.memtable(rows)), [10, 20, 1_234_567])
    assert found.dense().bid.tolist() == [[0, 100, 0], [0, 0, 3 * 1_234_567]]
    assert found.dense().price.tolist() == [[20, 60, 0], [0, 0, 0]]


def test_ready_made_histograms_are_counted_on_the_grid():
    """A bin goes to that of the grid which holds its upper edge; sums stay as they are."""
    found = read_histograms(open_logs(ibis.memtable(histogram_rows())))
    np.testing.assert_array_equal(found.edges, price_grid(10, 1_234_567))
    upper = {
        (str(found.advertisers[a]), int(found.edges[g])): (float(n), float(total))
        for a, g, n, total in zip(
            found.bids.advertiser, found.bids.bin, found.bids.count, found.bids.bid, strict=True
        )
    }
    [last] = price_grid(1_234_567, 1_234_567).tolist()
    assert upper == {
        ("a", 10): (4.0, 40.0),
        ("a", 20): (11.5, 230.0),
        ("b", last): (3.0, 3 * 1_234_567.0),
    }


@pytest.mark.parametrize(
    "rows",
    [
        three_bids().slice(0, 0),
        three_bids(bid_micros=[0, -1, None]),
        three_bids(won=pa.nulls(3, pa.bool_())),
        three_bids(advertiser_id=[None, "", None]),
        three_bids(day=pa.nulls(3, pa.date32())),
        histogram_rows().slice(0, 0),
    ],
)
def test_a_log_without_a_usable_row_is_refused(rows):
    """The message lists what a row needs."""
    with pytest.raises(TableError, match="no row has an advertiser, a day, a bid above 0"):
        read_histograms(open_logs(ibis.memtable(rows)))


def test_days_without_a_row_are_refused():
    """The message mentions the given days."""
    logs = open_logs(ibis.memtable(three_bids()))
    for days in (["1999-01-01"], []):
        with pytest.raises(TableError, match="no row on the given days"):
            read_histograms(logs, days=days)


@pytest.mark.parametrize("edges", [[], [0, 5], [5, 5], [1.5], [[1]], ["x"], [10**16], [True]])
def test_edges_that_cannot_be_used_are_refused(edges):
    """Edges must be increasing whole micros."""
    with pytest.raises(InvalidParameterError, match="edges: they must be"):
        read_histograms(open_logs(ibis.memtable(three_bids())), edges)


@pytest.mark.parametrize("days", [["soon"], ["2026-02-30"], "today or so"])
def test_days_that_are_no_dates_are_refused(days):
    """The message says what they must be."""
    with pytest.raises(InvalidParameterError, match=r"^days=.*they must be dates such as"):
        read_histograms(open_logs(ibis.memtable(three_bids())), days=days)
