"""Grids, histograms and target counts, counted by an engine."""

from __future__ import annotations

import datetime
import itertools
from collections import Counter

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bid_tables import MICROS, as_arrow, bid_frame, cells_of, count_by_hand, write_csv
from coterie.ads.histograms import counting
from coterie.ads.histograms.counting import gather_cells, read_histograms, read_targets
from coterie.ads.histograms.price_grid import on_price_grid, price_grid
from coterie.ads.histograms.target_counts import NO_VALUE, OTHER_VALUES, TargetCounts
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


DAY = datetime.date(2026, 3, 2)


def table_of(rows: list[tuple]) -> pa.Table:
    """A log from rows of advertiser, bid, price or None, device and country."""
    names, bids, prices, devices, countries = zip(*rows, strict=True)
    return pa.table(
        {
            "advertiser_id": list(names),
            "day": [DAY] * len(rows),
            "bid_micros": list(bids),
            "won": [price is not None for price in prices],
            "price_micros": pa.array(prices, pa.int64()),
            "click": [price is not None and price % 2 == 0 for price in prices],
            "device": pa.array(devices, pa.string()),
            "country": pa.array(countries, pa.string()),
        }
    )


def counts_of(rows: list[tuple]) -> TargetCounts:
    """The target counts of such a log."""
    dimensions = ["device", "country"]
    logs = open_logs(ibis.memtable(table_of(rows)), dimensions=dimensions, auction="second")
    return read_targets(logs, read_histograms(logs))


def as_counter(counts: TargetCounts, name: str) -> Counter:
    """Sums by advertiser, dimension and value, without those that are 0."""
    found = Counter()
    for (a, v), number in np.ndenumerate(counts.totals(name)):
        key = (counts.advertisers[a], counts.dimensions[counts.dimension[v]], counts.values[v])
        found[tuple(map(str, key))] += number
    return +found


ROWS = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.integers(1_000, 5_000_000),
        st.none() | st.integers(1, 900),
        st.sampled_from(["phone", "tv", "", None]),
        st.sampled_from(["DE", "FR", "GB"]),
    ),
    min_size=1,
    max_size=80,
)


@settings(max_examples=4, deadline=None)
@given(ROWS)
def test_totals_are_those_of_the_rows(rows):
    """Bids, wins, costs and clicks by value are sums over the rows, missing values included."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_FEWEST_ADVERTISERS", 1)
        counts = counts_of(rows)
    sums = {
        "bids": lambda _: 1,
        "wins": lambda row: row[2] is not None,
        "prices": lambda row: row[2] is not None,
        "cost": lambda row: row[2] or 0,
        "clicks": lambda row: row[2] is not None and row[2] % 2 == 0,
    }
    for name, number in sums.items():
        expected = Counter()
        for row in rows:
            expected[row[0], "device", row[3] or NO_VALUE] += number(row)
            expected[row[0], "country", row[4]] += number(row)
        assert as_counter(counts, name) == +expected


def test_rare_values_are_counted_together(monkeypatch):
    """Values of fewer than three advertisers, and those beyond the limit, are one value."""
    monkeypatch.setattr(counting, "MOST_VALUES", 1)
    rows = [(name, 2_000_000, None, "tv", "DE") for name in "abc"]
    rows += [(name, 2_000_000, None, "phone", "FR") for name in "abcabc"]
    rows += [("a", 2_000_000, None, "user-17", "x" * 300)]
    counts = counts_of(rows)
    assert counts.values.tolist() == [OTHER_VALUES, "phone", OTHER_VALUES, "FR"]
    assert counts.totals("bids").sum(axis=0).tolist() == [4, 6, 4, 6]


def test_values_that_may_name_a_person_are_counted_together():
    """A value of two advertisers, and one of more than 200 characters."""
    rows = [(name, 2_000_000, None, "tv", "x" * 201) for name in "abc"]
    rows += [(name, 2_000_000, None, "phone", "y" * 200) for name in "abab"]
    rows += [("c", 2_000_000, None, "tv", "y" * 200)]
    assert counts_of(rows).values.tolist() == [OTHER_VALUES, "tv", OTHER_VALUES, "y" * 200]


def test_a_log_without_dimensions_is_refused():
    """The message says what to do."""
    logs = open_logs(ibis.memtable(table_of([("a", 2_000_000, 7, "tv", "DE")])))
    with pytest.raises(InvalidParameterError, match="no dimension is named"):
        read_targets(logs, read_histograms(logs))
