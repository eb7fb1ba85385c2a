"""Opening logs: files, databases and tables, their auction, currency and texts."""

from __future__ import annotations

import datetime

import duckdb
import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bid_tables import as_arrow, bid_frame, sorted_rows, write_csv
from coterie.ads.logs.bid_logs import open_logs, read_descriptions, winners_pay_bids
from coterie.errors import InvalidParameterError, TableError
from coterie.tables.engines import connect, fetch

DAY = datetime.date(2026, 3, 2)
TWO = {
    "advertiser_id": ["a", "b"],
    "day": [DAY, DAY],
    "bid_micros": [5, 6],
    "won": [True, False],
    "price_micros": [4, None],
}


def given(**more: list) -> ibis.expr.types.Table:
    """Two bids, with further columns."""
    return ibis.memtable(pa.table({**TWO, **more}))


def won_at(prices: list[int | None], **more: list) -> ibis.expr.types.Table:
    """Won bids of 1.00 with these prices, and one lost bid."""
    n = len(prices) + 1
    log = {
        "advertiser_id": ["a"] * n,
        "day": [DAY] * n,
        "bid_micros": [1_000_000] * n,
        "won": [True] * (n - 1) + [False],
        "price_micros": pa.array([*prices, None], pa.int64()),
    }
    return ibis.memtable(pa.table({**log, **more}))


def paid(equal: int, other: int = 0) -> ibis.expr.types.Table:
    """Won bids, some of which paid their bid and others half of it."""
    return won_at([1_000_000] * equal + [500_000] * other)


def new_database(path, **tables: pa.Table) -> None:
    """A database with these tables."""
    with duckdb.connect(str(path)) as database:
        for name, table in tables.items():
            database.register("given", table)
            database.execute(f'CREATE TABLE "{name}" AS SELECT * FROM given')


def test_parquet_text_and_tables_hold_the_same_rows(tmp_path):
    """Faulty rows and hostile names are read alike from all of them."""
    frame = bid_frame(200)
    table = as_arrow(frame)
    pq.write_table(table, tmp_path / "bids.parquet")
    write_csv(frame, tmp_path / "bids.csv")
    write_csv(frame, tmp_path / "bids.tsv.gz", sep="\t", compression="gzip")
    new_database(tmp_path / "bids.db", bids=table, advertisers=pa.table({"x": [1]}))
    sources = [tmp_path / name for name in ("bids.csv", "bids.tsv.gz", "bids.db")]
    expected = sorted_rows(open_logs(tmp_path / "bids.parquet"))
    assert len(expected) == 200
    for source in [*sources, ibis.memtable(table)]:
        assert sorted_rows(open_logs(source)) == expected


def test_a_folder_and_a_glob_are_all_their_files(tmp_path):
    """A folder, a glob and a list give the rows of all files."""
    frame = bid_frame(90)
    for day, part in frame.groupby("day"):
        (tmp_path / "bids").mkdir(exist_ok=True)
        pq.write_table(as_arrow(part), tmp_path / "bids" / f"bids-{day}.parquet")
    whole = sorted_rows(open_logs(tmp_path))
    assert len(whole) == frame.day.notna().sum()
    assert sorted_rows(open_logs(str(tmp_path / "b*" / "*.parquet"))) == whole
    assert sorted_rows(open_logs(sorted((tmp_path / "bids").iterdir()))) == whole


@pytest.mark.parametrize("name", ["o'brien; DROP TABLE x.db", "🦊.db"])
def test_a_database_file_is_known_by_its_content(tmp_path, name):
    """The table bids is the log and the table advertisers has the texts; it can be opened twice."""
    texts = pa.table({"advertiser_id": ["a"], "description": ["shoes"]})
    new_database(tmp_path / name, bids=pa.table(TWO), advertisers=texts, other=texts)
    connection = connect()
    for _ in range(2):
        logs = open_logs(tmp_path / name, connection)
        assert fetch(logs.table).num_rows == 2
    assert read_descriptions(logs) == {"a": "shoes"}
    assert logs.source.endswith(f"{name}, table bids")


def test_databases_of_the_same_name_are_distinguished(tmp_path):
    """Two files of one name can be opened on one connection."""
    connection = connect()
    for n in (1, 2):
        (tmp_path / str(n)).mkdir()
        new_database(tmp_path / str(n) / "x.db", log=pa.table(TWO).slice(0, n))
    found = [open_logs(tmp_path / str(n) / "x.db", connection) for n in (1, 2)]
    assert [fetch(logs.table).num_rows for logs in found] == [1, 2]


def test_the_table_of_a_database_can_be_chosen(tmp_path):
    """With several candidates it must be chosen."""
    new_database(tmp_path / "x.db", first=pa.table(TWO), second=pa.table(TWO))
    with pytest.raises(TableError, match=r"name the table of the log.* first, second"):
        open_logs(tmp_path / "x.db")
    with pytest.raises(TableError, match=r"no table third.* first, second"):
        open_logs(tmp_path / "x.db", table="third")
    assert open_logs(tmp_path / "x.db", table="second").source.endswith("table second")


def test_a_table_of_the_connection_is_found_by_name(tmp_path):
    """Its texts are in the table advertisers."""
    texts = pa.table({"advertiser_id": ["b"], "description": ["boots"]})
    new_database(tmp_path / "x.db", march=pa.table(TWO), advertisers=texts)
    logs = open_logs("march", connect(f"duckdb://{tmp_path}/x.db"))
    assert (logs.engine, logs.source) == ("duckdb", "march")
    assert read_descriptions(logs) == {"b": "boots"}


def test_databases_are_opened_by_duckdb_only(tmp_path):
    """Another engine, or a table of a file that is not a database, is refused."""

    class Spark:
        name = "pyspark"

    new_database(tmp_path / "x.db", bids=pa.table(TWO))
    with pytest.raises(TableError, match="open it with DuckDB, not pyspark"):
        open_logs(tmp_path / "x.db", Spark())
    pq.write_table(pa.table(TWO), tmp_path / "x.parquet")
    with pytest.raises(
        InvalidParameterError, match=r"table='bids': .*x\.parquet is not a database"
    ):
        open_logs(tmp_path / "x.parquet", table="bids")


def test_a_database_that_is_written_to_is_refused(tmp_path):
    """A database locked by a writer is refused."""
    with duckdb.connect(str(tmp_path / "x.db")) as database:
        database.execute("CREATE TABLE bids (a INT)")
        database.execute("CHECKPOINT")
        with pytest.raises(TableError, match=r"x\.db: DuckDB cannot open it"):
            open_logs(tmp_path / "x.db")


def test_the_auction_is_given_or_logged_or_second():
    """A given auction comes before the logged one; the default is second price."""
    assert open_logs(given()).auction == "second"
    assert open_logs(given(auction_type=[1, 1])).auction == "first"
    assert open_logs(given(auction_type=[2, None])).auction == "second"
    assert open_logs(given(auction_type=[1, 1]), auction="second").auction == "second"
    with pytest.raises(InvalidParameterError, match="auction='third'"):
        open_logs(given(), auction="third")


@pytest.mark.parametrize(
    ("equal", "other", "is_first"),
    [
        *[(100, 0, True), (99, 1, True), (20, 0, True)],
        *[(989, 11, False), (98, 1, False), (19, 0, False), (20, 1, False), (0, 0, False)],
    ],
)
def test_winners_pay_their_bids(equal, other, is_first):
    """99 % of 100 wins, or all of 20, must pay their bid."""
    assert winners_pay_bids(equal + other, equal) == is_first


def test_a_stated_auction_is_not_recognised():
    """A given auction comes first, then the column; an empty column states nothing."""
    first, types = [1_000_000] * 100, [2] * 101
    logs = open_logs(won_at(first), auction="second")
    assert (logs.auction, logs.auction_source) == ("second", "given")
    logs = open_logs(won_at(first, auction_type=types), auction="first")
    assert (logs.auction, logs.auction_source) == ("first", "given")
    logs = open_logs(won_at(first, auction_type=types))
    assert (logs.auction, logs.auction_source) == ("second", "column")
    logs = open_logs(won_at(first, auction_type=pa.nulls(101, pa.int8())))
    assert (logs.auction, logs.auction_source) == ("first", "prices")


def test_prices_are_bids_up_to_rounding():
    """A price may differ by a thousandth and one micro; wins without a price do not count."""
    for price, auction in ((998_999, "first"), (1_001_001, "first"), (998_998, "second")):
        assert open_logs(won_at([price] * 100)).auction == auction
    assert open_logs(won_at([1_000_000] * 20 + [None] * 80)).auction == "first"
    assert open_logs(won_at([1_000_000] * 19 + [None] * 80)).auction == "second"
    assert open_logs(won_at([1_000_000] * 100 + [0] * 2)).auction == "second"


def test_rows_are_recognised_not_weights():
    """A heavy weight does not change the share of rows."""
    prices = [1_000_000] * 199 + [500_000]
    logs = open_logs(won_at(prices, weight=[1.0] * 199 + [1000.0] * 2))
    assert logs.weighted
    assert logs.auction == "first"


def test_the_auction_is_recognised_once(monkeypatch):
    """One query is enough for the auction, its source and what prices reveal."""
    asked = []

    def counting(expression):
        asked.append(expression)
        return fetch(expression)

    monkeypatch.setattr("coterie.ads.logs.bid_logs.fetch", counting)
    logs = open_logs(paid(100))
    for _ in range(2):
        assert (logs.auction, logs.auction_source, logs.revealed) == ("first", "prices", "none")
    assert len(asked) == 1


def test_only_bids_are_recognised():
    """Histograms are second price unless the auction is given."""
    cells = {"bin_micros": [1000], "bids": [200], "wins": [100], "cost_micros": [100_000]}
    histograms = ibis.memtable(pa.table({"advertiser_id": ["a"], "day": [DAY], **cells}))
    logs = open_logs(histograms)
    assert (logs.auction, logs.auction_source) == ("second", "default")
    assert open_logs(histograms, auction="first").auction_source == "given"


@pytest.mark.parametrize(("types", "listed"), [([1, 2], "1, 2"), ([3, 3], "3")])
def test_mixed_or_unknown_auctions_are_refused(types, listed):
    """The message lists the values of auction_type."""
    logs = open_logs(given(auction_type=types))
    with pytest.raises(TableError, match=f"auction_type has {listed}; it must be 1"):
        _ = logs.auction


def test_there_is_one_currency_or_none():
    """Several currencies are refused."""
    assert open_logs(given()).currency == ""
    assert open_logs(given(currency=["EUR", None])).currency == "EUR"
    with pytest.raises(TableError, match="currency has EUR, USD; amounts"):
        _ = open_logs(given(currency=["USD", "EUR"])).currency


def test_a_given_auction_leaves_the_column_aside():
    """Its many values do not hide a missing minimum, nor another currency."""
    n = 3000
    log = {
        "advertiser_id": ["a"] * n,
        "day": [DAY] * n,
        "bid_micros": [5] * n,
        "won": [False] * n,
        "price_micros": pa.nulls(n, pa.int64()),
        "auction_type": list(range(n)),
        "min_to_win_micros": [6] * (n - 1) + [None],
        "currency": ["EUR"] * (n - 1) + ["USD"],
    }
    logs = open_logs(ibis.memtable(pa.table(log)), auction="first")
    assert not logs.logs_minimum
    with pytest.raises(TableError, match="EUR, USD"):
        _ = logs.currency


def test_the_minimum_to_win_counts_only_if_every_bid_has_it():
    """A missing or negative minimum would bias the curve."""
    assert open_logs(given(min_to_win_micros=[4, 9])).logs_minimum
    assert not open_logs(given(min_to_win_micros=[4, None])).logs_minimum
    assert not open_logs(given(min_to_win_micros=[4, -1])).logs_minimum
    assert not open_logs(given()).logs_minimum


def test_histograms_are_known_by_their_columns():
    """Sums become floats and the bin an integer."""
    table = pa.table(
        {
            "advertiser_id": [1],
            "day": ["2026-03-02"],
            "bin_micros": ["1000"],
            "bids": [3],
            "wins": ["2"],
            "cost_micros": [1500],
            "secret": ["x"],
        }
    )
    logs = open_logs(ibis.memtable(table))
    assert (logs.kind, logs.weighted, logs.auction) == ("histograms", False, "second")
    assert fetch(logs.table).to_pylist() == [
        {
            "advertiser_id": "1",
            "day": DAY,
            "bin_micros": 1000,
            "bids": 3.0,
            "wins": 2.0,
            "cost_micros": 1500.0,
        }
    ]


def test_texts_are_found_near_the_logs_or_one_folder_up(tmp_path, tmp_path_factory):
    """A given table replaces the one found."""
    (tmp_path / "bids").mkdir()
    pq.write_table(pa.table(TWO), tmp_path / "bids" / "bids.parquet")
    log = tmp_path / "bids" / "bids.parquet"
    assert read_descriptions(open_logs(log)) == {}
    (tmp_path / "advertisers.csv").write_text("advertiser_id,description\na,above\n")
    other = tmp_path_factory.mktemp("elsewhere") / "other.csv"
    other.write_text("advertiser_id,description\na,other\n")
    for source in (log, tmp_path, tmp_path / "bids", str(tmp_path / "bids" / "*.parquet"), [log]):
        assert read_descriptions(open_logs(source)) == {"a": "above"}
    (tmp_path / "bids" / "advertisers.csv").write_text("advertiser_id,description\na,near\n")
    assert read_descriptions(open_logs(log)) == {"a": "near"}
    assert read_descriptions(open_logs(log, advertisers=other)) == {"a": "other"}
    texts = ibis.memtable(pa.table({"advertiser_id": [7], "description": ["table"]}))
    assert read_descriptions(open_logs(log, advertisers=texts)) == {"7": "table"}
    with pytest.raises(TableError, match=r"absent\.csv: there is no such file"):
        open_logs(log, advertisers=tmp_path / "absent.csv")


def test_logs_are_shown_in_one_line():
    """The repr names the log, not the expression of its table."""
    assert "\n" not in repr(open_logs(given()))
    assert repr(open_logs(given())).startswith("BidLogs(kind='bids', source=")
