"""Spark gives the same results as DuckDB, on a cluster of a master and two workers."""

from __future__ import annotations

from pathlib import Path

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.local_spark import N_WORKERS
from bid_tables import as_arrow, assert_equal_histograms, bid_frame, sorted_rows, write_csv
from coterie.ads.histograms.counting import read_histograms, read_targets
from coterie.ads.logs.bid_logs import open_logs, read_descriptions
from coterie.ads.logs.checks.log_checks import check_logs
from coterie.ads.logs.simulation.simulated_logs import simulate_logs
from coterie.ads.logs.simulation.simulated_traits import MarketSettings
from coterie.errors import CoterieWarning, InvalidParameterError, TableError
from coterie.tables.engines import connect
from foreign_logs import SHAPES, auctions

pytestmark = [
    # PySpark leaves sockets to the collector
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def both(source, spark, **how) -> list:
    """The same log on DuckDB and on Spark."""
    return [open_logs(source, connection, **how) for connection in (connect(threads=1), spark)]


def test_the_work_is_done_by_two_executors(spark):
    """The driver does not compute."""
    context = spark._session.sparkContext
    assert context.master.startswith("spark://127.0.0.1:")
    context.parallelize(range(8), 8).count()
    assert context._jsc.sc().getExecutorMemoryStatus().size() == N_WORKERS + 1


@pytest.mark.parametrize("layout", ["parquet", "csv"])
def test_histograms_equal_duckdb(layout, spark, tmp_path):
    """They are equal for several files with faults and hostile names, Parquet and text.

    The text has weights, whose sums are added in another order.
    """
    frame = bid_frame(300)
    for i in range(2):
        part = frame.iloc[i::2]
        if layout == "parquet":
            table = as_arrow(part.drop(columns="weight"))
            pq.write_table(table, tmp_path / f"bids-[{i}].parquet")
        else:
            write_csv(part, tmp_path / f"bids {i}.csv.gz", compression="gzip")
    edges, rtol = (None, 0.0) if layout == "parquet" else ([1_000_000, 2_500_000, 9_000_000], 1e-12)
    here, there = (read_histograms(logs, edges) for logs in both(tmp_path, spark))
    assert_equal_histograms(here, there, rtol)


def test_other_logs_equal_duckdb(spark, tmp_path):
    """Odd edges, chosen days, prices paid, times with a zone, and partition folders."""
    frame = bid_frame(200, seed=3).drop(columns=["weight", "min_to_win_micros"])
    table = as_arrow(frame[frame.day.notna()])
    times = table["day"].cast(pa.timestamp("us", "UTC"))
    for day, rows in frame[frame.day.notna()].groupby("day"):
        (tmp_path / "days" / f"day={day}").mkdir(parents=True)
        pq.write_table(
            pa.Table.from_pandas(rows.drop(columns="day"), preserve_index=False),
            tmp_path / "days" / f"day={day}" / "part.parquet",
        )
    pq.write_table(table.drop(["day"]).append_column("ts", times), tmp_path / "times.parquet")
    edges, days = [1_234_567, 2_345_678, 9_000_001], ["2026-03-01", "2026-03-02"]
    expected = read_histograms(open_logs(ibis.memtable(table)), edges, days=days)
    for source in (tmp_path / "days", tmp_path / "times.parquet"):
        for logs in both(source, spark):
            assert_equal_histograms(read_histograms(logs, edges, days=days), expected)


def test_values_that_are_hard_to_read_are_read_alike(spark, tmp_path):
    """Numbers, days and truth values in texts give the same value or null."""
    numbers = ["1", " 2.0 ", "3e2", "-4", "x", "1,5", "0x10", "1f", "1d", "2.5", "9e99", "NaN"]
    days = ["2026-03-02", "2026-03-02T23:30:00-05:00", "2026", "20260302", "2026-02-30", "now"]
    words = ["true", "F", "1", "0.0", "won", "YES"]
    rows = [
        f'a{i},"{days[i % 6]}","{number}",{words[i % 6]},"{number}","{number}",x\n'
        for i, number in enumerate(numbers)
    ]
    header = "advertiser_id,ts,bid_micros,won,price_micros,weight,o'b`\n"
    (tmp_path / "odd.csv").write_text("\ufeff" + header + "".join(rows) + '"",,,,,,\n')
    here, there = both(tmp_path / "odd.csv", spark)
    assert sorted_rows(here) == sorted_rows(there)


def test_histograms_of_a_table_equal_duckdb(spark, tmp_path):
    """Ready-made histograms, and an iPinYou log with quotes and without a header."""
    lines = []
    for i in range(6):
        fields = [f'x"{n}' for n in range(24)]
        fields[1:3] = [f"2013102{i % 3}192300738", "1" if i else "2"]
        fields[17], fields[19:21], fields[22] = "5", [str(200 + i), str(90 * i)], "2821"
        lines.append("\t".join(fields))
    (tmp_path / "imp.txt").write_text("\n".join(lines) + "\n")
    histograms = {
        "advertiser_id": ["a", "a", "b"],
        "day": ["2026-03-01"] * 3,
        "bin_micros": [10, 1235, 10],
        "bids": [3, 4, 5],
        "wins": [1, 2, 3],
        "cost_micros": [8, None, 30],
    }
    pq.write_table(pa.table(histograms), tmp_path / "ready.parquet")
    query = """
        SELECT advertiser_id, left(timestamp, 8) AS day, CAST(bid_price AS INT) AS bid_micros,
            'won' AS won, CAST(pay_price AS INT) AS price_micros
        FROM log
    """
    for name, sql in (("imp.txt", query), ("ready.parquet", "")):
        edges = [10, 2_010_000, 9_000_001]
        logs = both(tmp_path / name, spark, sql=sql)
        assert_equal_histograms(*(read_histograms(one, edges) for one in logs))


def test_a_damaged_row_of_text_is_an_error(spark, tmp_path):
    """No row is dropped or filled silently: DuckDB leaves it out with a warning."""
    content = "advertiser_id,day,bid_micros,won,price_micros\n1,2026-03-02,5,true,4\n"
    (tmp_path / "bids.csv").write_text(content + "1,2026-03-02,5,true,4,more\n")
    here, there = both(tmp_path / "bids.csv", spark)
    with pytest.raises(TableError, match="cannot read the table"):
        read_histograms(there, [10])
    with pytest.warns(CoterieWarning, match="left out: 1, the first is line 3"):
        assert read_histograms(here, [10]).bids.count.sum() == 1


def test_the_active_session_is_used_and_its_views_are_logs(spark):
    """Views are found by name; another master or a late setting is refused."""
    again = connect("pyspark://?spark.sql.shuffle.partitions=3")
    assert again._session is spark._session
    assert spark._session.conf.get("spark.sql.shuffle.partitions") == "3"
    rows = [("a", "2026-03-02", 5, True, 4)]
    columns = "advertiser_id string, day string, bid_micros long, won boolean, price_micros long"
    spark._session.createDataFrame(rows, columns).createOrReplaceTempView("march")
    spark._session.sql("SELECT 'a' AS advertiser_id, 'shoes' AS description").createTempView(
        "advertisers"
    )
    logs = open_logs("march", again)
    assert logs.engine == "pyspark"
    assert read_histograms(logs, [5]).bids.cost.tolist() == [4]
    assert read_descriptions(logs) == {"a": "shoes"}
    with pytest.raises(InvalidParameterError, match="is active"):
        connect("pyspark://local[1]")
    with pytest.raises(InvalidParameterError, match=r"spark\.executor\.memory.*cannot change"):
        connect("pyspark://?spark.executor.memory=1g")


def test_checks_and_texts_equal_duckdb(spark, tmp_path):
    """Faults, overview and texts are equal; models need only texts and histograms."""
    settings = MarketSettings(advertisers=20, segments=2, days=2, bids_per_day=5, seed=3)
    market = simulate_logs(settings, tmp_path / "m")
    here, there = open_logs(market.folder), open_logs(market.folder, spark)
    found = [check_logs(logs).as_dict() for logs in (here, there)]
    assert [check["overview"].pop("engine") for check in found] == ["duckdb", "pyspark"]
    assert found[0] == found[1]
    assert read_descriptions(here) == read_descriptions(there)


#: A query of Spark for each shape, and what goes with it.
QUERIES = {
    "ad_manager": (
        "SELECT * EXCEPT (Time), to_timestamp(Time, 'MM/dd/yyyy hh:mm:ss a') AS Time FROM log",
        {"time_zone": "America/New_York"},
    ),
    "openrtb": (
        """
        SELECT `bid.seat` AS advertiser_id, `timestamp` AS ts, `bid.price` * 1e6 AS bid_micros,
            w.bid_id IS NOT NULL AS won, w.price * 1e6 AS price_micros
        FROM log LEFT JOIN (
            SELECT bid_id, max(price) AS price FROM json.`{folder}/wins.jsonl` GROUP BY bid_id
        ) AS w ON w.bid_id = `bid.id`;
        """,
        {},
    ),
}


@pytest.mark.parametrize("shape", QUERIES)
def test_queries_of_spark(tmp_path, spark, shape, monkeypatch):
    """Local times, notices and nested JSON give the histograms of DuckDB's recipe."""
    monkeypatch.chdir(tmp_path)
    source, _, recipe, *_ = SHAPES[shape](tmp_path, auctions(600))
    query, options = QUERIES[shape]
    expected = read_histograms(open_logs(source, sql=Path(recipe).read_text(), **options))
    there = open_logs(source, spark, sql=query.format(folder=tmp_path), **options)
    assert_equal_histograms(read_histograms(there, expected.edges), expected)


def test_a_suggested_query_is_in_the_dialect_of_spark(tmp_path, spark):
    """It runs as it is."""
    source = SHAPES["ad_manager"](tmp_path, auctions(600))[0]
    with pytest.raises(TableError, match="read by SQL") as refused:
        open_logs(source, spark)
    logs = open_logs(source, spark, sql=refused.value.__notes__[0], time_zone="America/New_York")
    assert read_histograms(logs, [10**7]).bids.count.sum() == 600


def test_zstandard_is_refused(tmp_path, spark):
    """Spark lacks the library; the message says what to use."""
    source = SHAPES["local_times"](tmp_path, auctions(10))[0]
    with pytest.raises(TableError, match="Spark does not read Zstandard; use gzip or DuckDB"):
        open_logs(source, spark)


def test_spark_counts_the_same_targets(spark, tmp_path):
    """Values of dimensions, hours included, have the same sums on both engines."""
    settings = MarketSettings(advertisers=12, segments=2, days=2, dimensions=1, seed=3)
    folder = simulate_logs(settings, tmp_path / "market").folder
    dimensions = {"screen": "device", "hour": "hour"}
    one, other = (
        read_targets(logs, read_histograms(logs))
        for logs in both(folder, spark, dimensions=dimensions)
    )
    assert one.values.tolist() == other.values.tolist()
    for name, part in vars(one.cells).items():
        assert np.array_equal(part, getattr(other.cells, name)), name
