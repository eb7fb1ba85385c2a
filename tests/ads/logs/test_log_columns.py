"""Conversion of the columns of a log to canonical columns, times included, once."""

from __future__ import annotations

import datetime
import decimal
import tempfile
import weakref
from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bid_tables import as_arrow, bid_frame, cells_of, write_csv
from coterie.ads.histograms.counting import read_histograms
from coterie.ads.logs import log_columns
from coterie.ads.logs.bid_logs import open_logs
from coterie.ads.logs.checks.log_checks import check_logs
from coterie.ads.logs.log_columns import canonical_table, day_column, utc_times
from coterie.errors import InvalidParameterError, TableError
from coterie.tables.engines import fetch
from coterie.tables.reading import TemporaryCopy

DAY = datetime.date(2026, 3, 2)
PLAIN = {
    "advertiser_id": ["a"],
    "day": [DAY],
    "bid_micros": [5],
    "won": [True],
    "price_micros": [4],
}


def read(column: str, values: list | pa.Array, **others: list) -> list:
    """The values of a canonical column for a log with these values."""
    given = {name: value * len(values) for name, value in PLAIN.items()}
    table = pa.table({**given, **others, column: values})
    return fetch(canonical_table(ibis.memtable(table), "bids", "x").select(column))[
        column
    ].to_pylist()


def test_only_needed_columns_are_selected():
    """Columns that identify a person are not selected; a missing weight is 1."""
    persons = {name: ["x"] for name in ("user_id", "ip", "user_agent", "url", "campaign_id")}
    found = canonical_table(ibis.memtable(pa.table({**PLAIN, **persons})), "bids", "x")
    assert set(found.columns) == {*PLAIN, "weight"}
    assert fetch(found)["weight"].to_pylist() == [1.0]


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        ("bid_micros", pa.array([1, None], pa.int32()), [1, None]),
        ("bid_micros", pa.array([1, 2**40, 2**63], pa.uint64()), [1, 2**40, None]),
        (
            "bid_micros",
            [1.0, 2.5, -2.5, float("nan"), float("inf"), 1e300, None],
            [1, 3, -3] + [None] * 4,  # half away from zero
        ),
        ("bid_micros", [decimal.Decimal("12.50"), None], [13, None]),
        (
            "bid_micros",
            ["1", " 2.0 ", "3e2", "-4", "", "x", "1,5", "0x10", "1_000", "nan", "1f", None],
            [1, 2, 300, -4] + [None] * 8,
        ),
        ("bid_micros", pa.nulls(2), [None, None]),
        ("min_to_win_micros", [3.0], [3]),
        ("floor_micros", ["1"], [1]),
        ("auction_type", pa.array([2], pa.int8()), [2]),
        ("weight", [".54", "-.5", " .5e1 ", "1.", ".", "-", "e1"], [0.54, -0.5, 5, 1] + [None] * 3),
        ("won", [True, None], [True, None]),
        ("won", [1, 0, 2, None], [True, False, None, None]),
        ("won", [1.0, 0.0, 0.5], [True, False, None]),
        (
            "won",
            ["true", "FALSE", " T ", "0", "1.0", "Lost", "WIN", "n", "Y", "maybe", "", None],
            [True, False] * 4 + [True] + [None] * 3,
        ),
        ("won", pa.nulls(1), [None]),
        ("click", [1], [True]),
        ("conversion", ["no"], [False]),
        ("currency", ["EUR"], ["EUR"]),
        ("advertiser_id", ["a", None], ["a", None]),
        ("advertiser_id", [" a", "b  ", "c d"], ["a", "b", "c d"]),
        ("advertiser_id", [7, None], ["7", None]),
        ("advertiser_id", [7.0, float("nan")], ["7", None]),
        ("advertiser_id", pa.array(["a", "b"]).dictionary_encode(), ["a", "b"]),
    ],
)
def test_values_come_in_many_types(column, values, expected):
    """What cannot be read is null."""
    assert read(column, values) == expected


def test_nan_in_a_parquet_file_is_null(tmp_path):
    """NaN is found although the statistics of the file leave it out."""
    file = tmp_path / "bids.parquet"
    pq.write_table(pa.table({**PLAIN, "bid_micros": [float("nan")]}), file)
    table = ibis.duckdb.connect().read_parquet(file)
    assert fetch(canonical_table(table, "bids", "x"))["bid_micros"].to_pylist() == [None]


@pytest.mark.parametrize(
    "values",
    [
        [DAY],
        [datetime.datetime(2026, 3, 2, 23, 59, 59, 999_999)],
        [datetime.datetime(2026, 3, 2, 23, 59, 59, 999_999, tzinfo=datetime.UTC)],
        [
            datetime.datetime(
                *(2026, 3, 3, 1, 30), tzinfo=datetime.timezone(datetime.timedelta(hours=2))
            )
        ],
        [
            *("2026-03-02", "2026-03-02T23:59:59Z", "2026-03-02 23:59:59.999999"),
            "2026-03-03T01:30:00+02:00",
        ],
    ],
)
@pytest.mark.parametrize("name", ["day", "ts"])
def test_days_are_in_utc(values, name):
    """Dates, times with and without a zone, and texts, in ``ts`` or ``day``."""
    rows = {key: value * len(values) for key, value in PLAIN.items() if key != "day"}
    table = ibis.memtable(pa.table({**rows, name: values}))
    found = fetch(canonical_table(table, "bids", "x"))["day"].to_pylist()
    assert found == [DAY] * len(values)


def test_a_time_before_1970_is_on_its_day():
    """Negative microseconds are rounded down."""
    before = datetime.datetime(1969, 12, 31, 12, tzinfo=datetime.UTC)
    assert read("day", [before]) == [before.date()]


def test_all_missing_columns_are_named():
    """The message also lists the columns of the table."""
    table = ibis.memtable(pa.table({"advertiser_id": ["a"], "bid": [1], "ts": ["2026-03-02"]}))
    with pytest.raises(
        TableError,
        match=r"logs/: columns bid_micros, won, price_micros missing; "
        "the columns are advertiser_id, bid, ts",
    ):
        canonical_table(table, "bids", "logs/")


def test_a_column_that_one_file_lacks_is_missing_there():
    """A required column is missing; ``ts`` replaces ``day``."""
    table = ibis.memtable(pa.table({**PLAIN, "ts": ["2026-03-09"]}))
    with pytest.raises(TableError, match=r"b\.parquet: column won missing"):
        canonical_table(table, "bids", "x", {"won": "b.parquet"})
    found = canonical_table(table, "bids", "x", {"day": "b.parquet"})
    assert fetch(found)["day"].to_pylist() == [datetime.date(2026, 3, 9)]


@pytest.mark.parametrize(
    ("column", "values"),
    [("day", [True]), ("won", [DAY]), ("bid_micros", [[1]]), ("advertiser_id", [b"a"])],
)
def test_a_column_of_a_wrong_type_is_refused(column, values):
    """The message has the column and its type."""
    with pytest.raises(TableError, match=f"x: column {column} is of type"):
        read(column, values)


def test_an_empty_parquet_column_is_null(tmp_path):
    """A column without values may have no type."""
    pq.write_table(pa.table({**PLAIN, "price_micros": pa.nulls(1)}), tmp_path / "log.parquet")
    logs = open_logs(tmp_path / "log.parquet")
    assert logs.table.price_micros.to_pyarrow().to_pylist() == [None]


def test_dimensions_are_kept_as_text_under_their_own_names():
    """A dimension is read as text without spaces around it, from the column named for it."""
    table = pa.table({**PLAIN, "os": ["  iOS "], "level": [2.0], "user_id": ["x"]})
    found = open_logs(ibis.memtable(table), dimensions={"system": "os", "level": "level"})
    assert found.dimensions == ("system", "level")
    assert set(found.table.columns) == {*PLAIN, "weight", "dimension_system", "dimension_level"}
    row = fetch(found.table).to_pylist()[0]
    assert (row["dimension_system"], row["dimension_level"]) == ("iOS", "2")


@pytest.mark.parametrize(
    "stamp",
    [
        datetime.datetime(2026, 3, 2, 5, 59, tzinfo=datetime.UTC),
        datetime.datetime(2026, 3, 2, 7, 59, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
        "2026-03-02T05:59:00Z",
    ],
)
def test_the_hour_comes_from_the_time_stamp(stamp):
    """Without a column of that name, the hour is that of the time stamp in UTC."""
    rows = {name: value for name, value in PLAIN.items() if name != "day"}
    table = pa.table({**rows, "ts": [stamp]})
    found = fetch(open_logs(ibis.memtable(table), dimensions=["hour"]).table)
    assert found["dimension_hour"].to_pylist() == ["05"]


def test_a_dimension_without_a_column_is_refused():
    """The message names the missing column; an hour needs a time stamp."""
    for name in ("device", "hour"):
        with pytest.raises(TableError, match=f"column {name} missing"):
            open_logs(ibis.memtable(pa.table(PLAIN)), dimensions=[name])


@pytest.mark.parametrize("dimensions", ["device", ["a", "a"], [""], ["a=b"], {"a": 3}])
def test_what_is_no_list_of_dimensions_is_refused(dimensions):
    """One text, a name twice, an empty one, one with = and what is no text are refused."""
    with pytest.raises(InvalidParameterError, match="dimensions"):
        open_logs(ibis.memtable(pa.table(PLAIN)), dimensions=dimensions)


UTC = datetime.UTC


def times_and_days(values, zone: str = "UTC", kind: str = "string") -> list[tuple]:
    """The times in UTC and the days of values."""
    table = ibis.memtable(pa.table({"x": values}))
    found = table.select(
        time=utc_times(table.x, kind, zone).cast("string"), day=day_column(table.x, kind, zone)
    )
    return [(row["time"], row["day"]) for row in fetch(found).to_pylist()]


#: Local times of March, which are unique.
TIMES = [
    datetime.datetime(2026, 3, 1) + i * datetime.timedelta(hours=5, minutes=7, seconds=13)
    for i in range(120)
]


@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.000", None])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_local_times_are_read_in_their_zone(form, zone):
    """Texts and time stamps without a zone give the time and the day in UTC."""
    in_utc = [time.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) for time in TIMES]
    expected = [(str(time.replace(tzinfo=None)), time.date()) for time in in_utc]
    values = TIMES if form is None else [time.strftime(form) for time in TIMES]
    assert times_and_days(values, zone, "timestamp" if form is None else "string") == expected


@pytest.mark.parametrize("kind", ["integer", "floating", "string"])
def test_numbers_since_1970_have_their_unit_by_their_digits(kind):
    """Seconds to nanoseconds, as numbers or texts, in every zone."""
    time = datetime.datetime(2026, 3, 2, 23, 59, 59, tzinfo=UTC)
    numbers = [int(time.timestamp()) * factor for factor in (1, 10**3, 10**6, 10**9)]
    values = [{"integer": int, "floating": float, "string": str}[kind](n) for n in numbers]
    assert [day for _, day in times_and_days(values, "Europe/Berlin", kind)] == [time.date()] * 4


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_a_day_without_a_clock_time_is_that_day_in_every_zone(zone):
    """It is not converted."""
    found = times_and_days(["2026-03-02", " 2026-03-02 ", "20260302"], zone)
    assert [day for _, day in found] == [datetime.date(2026, 3, 2)] * 3


#: Midnights of one day, by the kind of their column.
MIDNIGHTS = [
    (
        "string",
        ["2026-03-02", "2026-03-02 00:00:00", "2026-03-02T00:00:00.000Z", "2026-03-02T00:00+09:00"],
    ),
    ("timestamp", [datetime.datetime(2026, 3, 2)]),
    ("timestamp", [datetime.datetime(2026, 3, 2, tzinfo=UTC)]),
]


@pytest.mark.parametrize(("kind", "values"), MIDNIGHTS)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_midnight_in_a_column_of_days_is_that_day_in_every_zone(kind, values, zone):
    """Days stored as times are not converted; a minute after midnight is."""
    table = ibis.memtable(pa.table({"x": values}))
    days = fetch(table.select(day=day_column(table.x, kind, zone, is_day=True)))["day"]
    assert set(days.to_pylist()) == {datetime.date(2026, 3, 2)}


@pytest.mark.parametrize(("column", "day"), [("day", 2), ("ts", 1)])
def test_only_a_column_of_days_has_midnight_without_a_zone(column, day):
    """A time stamp of midnight in Tokyo is the day before in UTC."""
    rows = {name: values for name, values in PLAIN.items() if name != "day"}
    table = ibis.memtable(pa.table({**rows, column: ["2026-03-02 00:00:00"]}))
    found = fetch(open_logs(table, time_zone="Asia/Tokyo").table)["day"].to_pylist()
    assert found == [datetime.date(2026, 3, day)]


@pytest.mark.parametrize("kind", ["string", "timestamp"])
def test_other_times_in_a_column_of_days_are_converted(kind):
    """A minute after midnight in Tokyo is the day before in UTC."""
    value = datetime.datetime(2026, 3, 2, 0, 1)
    table = ibis.memtable(pa.table({"x": [str(value) if kind == "string" else value]}))
    days = fetch(table.select(day=day_column(table.x, kind, "Asia/Tokyo", is_day=True)))["day"]
    assert days.to_pylist() == [datetime.date(2026, 3, 1)]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_a_time_with_a_zone_has_its_own(zone):
    """A blank before the zone and a point before it do not matter."""
    zones = ["+05:30", " +05:30", " +0530", "-05:00", " -05:00", "Z", " Z", " UTC", ".Z", ".+02:00"]
    offsets = [zone.strip(" .").replace("UTC", "Z") for zone in zones]
    times = [datetime.datetime.fromisoformat(f"2026-03-02T12:30:00{offset}") for offset in offsets]
    expected = [str(time.astimezone(UTC).replace(tzinfo=None)) for time in times]
    found = times_and_days([f"2026-03-02 12:30:00{written}" for written in zones], zone)
    assert [time for time, _ in found] == expected


@pytest.mark.parametrize("kind", ["string", "integer"])
def test_what_is_no_time_is_null(kind):
    """Engines must not guess; ten digits that may be a date and an hour are no seconds."""
    values = [2026, 2026030213, 20263002]
    if kind == "string":
        texts = ["soon", "", "31/12/2026", "2026-02-30", "2026-03-02 25:00", "02.03.2026"]
        values = [*map(str, values), *texts]
    assert times_and_days(values, "Europe/Berlin", kind) == [(None, None)] * len(values)


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Return a function that lists the copies that exist; none has a name in any folder."""
    folder, made = tmp_path / "temporary", []
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))

    class Watched(TemporaryCopy):
        def __init__(self):
            super().__init__()
            made.append(weakref.ref(self))

    monkeypatch.setattr(log_columns, "TemporaryCopy", Watched)

    def existing():
        assert list(folder.iterdir()) == []
        return [copy() for copy in made if copy() is not None]

    return existing


def test_text_is_read_once(tmp_path, stored):
    """Histograms and auction are those of a Parquet log; the text may be gone by then."""
    frame = bid_frame(200)
    pq.write_table(as_arrow(frame), tmp_path / "log.parquet")
    write_csv(frame, tmp_path / "log.csv")
    logs = open_logs(tmp_path / "log.csv")
    assert not stored()
    assert len(fetch(logs.rows)) == 200 and len(stored()) == 1
    (tmp_path / "log.csv").unlink()
    found, expected = read_histograms(logs), read_histograms(open_logs(tmp_path / "log.parquet"))
    assert cells_of(found) == cells_of(expected)
    assert len(stored()) == 1


def test_the_file_goes_with_the_log(tmp_path, stored):
    """A log with another auction type shares the rows."""
    write_csv(bid_frame(20), tmp_path / "log.csv")
    logs = open_logs(tmp_path / "log.csv")
    assert logs.auction == "second"
    other = replace(logs, given_auction="first")
    del logs
    assert len(fetch(other.rows)) == 20 and len(stored()) == 1
    del other
    assert not stored()


def test_a_query_is_run_once(tmp_path, stored):
    """Its rows are stored even if they have canonical types."""
    pq.write_table(as_arrow(bid_frame(20)), tmp_path / "log.parquet")
    logs = open_logs(tmp_path / "log.parquet", sql="FROM log")
    read_histograms(logs)
    check_logs(logs)
    assert len(stored()) == 1


def test_canonical_columns_are_not_copied(stored):
    """They are read where they are."""
    logs = open_logs(ibis.memtable(as_arrow(bid_frame(20))))
    read_histograms(logs)
    assert not stored()


def test_values_that_cannot_be_read_are_kept(tmp_path, stored):
    """The check shows them as they are written; those that can be read are not stored twice."""
    path = Path(tmp_path / "log.csv")
    path.write_text("advertiser_id,day,bid_micros,won,price_micros\na,2026-03-02,2500000,1,1\n"
                    "a,2026-03-02,many,0,\n")  # fmt: skip
    logs = open_logs(path)
    assert sorted(fetch(logs.rows)["written_bid_micros"].to_pylist(), key=str) == [None, "many"]
    faults = {fault.code: fault for fault in check_logs(logs).faults}
    assert faults["unreadable"].examples[0]["bid_micros"] == "many"
    assert len(stored()) == 1
