"""Times in many forms are the times that Python wrote."""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import ibis
import pyarrow as pa
import pytest

from coterie.ads.logs.time_formats import TimeFormat, date_order, day_column, utc_times
from coterie.errors import InvalidParameterError, TableError
from coterie.tables.engines import fetch

BERLIN = ZoneInfo("Europe/Berlin")
UTC = datetime.UTC
#: Forms of local times, and the order of their dates.
LOCAL_FORMS = {
    "%Y-%m-%d %H:%M:%S": "",
    "%Y/%m/%d %I:%M:%S %p": "",
    "%Y%m%d%H%M%S": "",
    "%Y-%m-%d-%H:%M:%S": "",
    "%d/%m/%Y %H:%M:%S": "day-first",
    "%d.%m.%Y, %H:%M:%S": "day-first",
    "%m/%d/%Y %I:%M:%S %p": "month-first",
    "%m-%d-%YT%H:%M:%S": "month-first",
}


def read(values, how: TimeFormat, kind: str = "string") -> list[tuple]:
    """The times in UTC and the days of values."""
    table = ibis.memtable(pa.table({"x": values}))
    found = table.select(
        time=utc_times(table.x, kind, how).cast("string"), day=day_column(table.x, kind, how)
    )
    return [(row["time"], row["day"]) for row in fetch(found).to_pylist()]


#: Local times of March, which are unique.
TIMES = [
    datetime.datetime(2026, 3, 1) + i * datetime.timedelta(hours=5, minutes=7, seconds=13)
    for i in range(120)
]


@pytest.mark.parametrize("form", LOCAL_FORMS)
@pytest.mark.parametrize("day_zone", ["UTC", "Europe/Berlin"])
def test_local_times_are_read_in_their_zone(form, day_zone):
    """All forms give the time in UTC, and the day in the zone of days."""
    in_utc = [time.replace(tzinfo=BERLIN).astimezone(UTC) for time in TIMES]
    clock = [str(time.replace(tzinfo=None)) for time in in_utc]
    days = [time.date() for time in (in_utc if day_zone == "UTC" else TIMES)]
    how = TimeFormat("Europe/Berlin", day_zone, LOCAL_FORMS[form])
    found = read([time.strftime(form) for time in TIMES], how)
    assert found == list(zip(clock, days, strict=True))


@pytest.mark.parametrize("kind", ["integer", "string"])
def test_numbers_since_1970_have_their_unit_by_their_digits(kind):
    """Seconds to nanoseconds, as numbers or texts, in every zone."""
    time = datetime.datetime(2026, 3, 2, 23, 59, 59, tzinfo=UTC)
    factors = (1, 10**3, 10**6, 10**9)
    numbers = [int(time.timestamp()) * factor + factor - 1 for factor in factors]
    values = numbers if kind == "integer" else [str(number) for number in numbers]
    found = read(values, TimeFormat("Europe/Berlin"), kind)
    assert [day for _, day in found] == [time.date()] * 4


def test_a_day_without_a_clock_time_is_that_day_in_every_zone():
    """Midnight of a zone is not converted."""
    how = TimeFormat("Asia/Tokyo", "America/New_York", "day-first")
    found = read(["2026-03-02", "2026/3/2", "20260302", "2/3/2026"], how)
    assert [day for _, day in found] == [datetime.date(2026, 3, 2)] * 4


#: Midnights of one day, by the kind of their column.
MIDNIGHTS = [
    (
        "string",
        [
            "2026-03-02",
            "2026-03-02 00:00:00",
            "2026-03-02T00:00:00.000Z",
            "2026-03-02T00:00+09:00",
            "20260302000000",
            "2/3/2026 12:00:00 AM",
        ],
    ),
    ("timestamp", [datetime.datetime(2026, 3, 2)]),
    ("timestamp", [datetime.datetime(2026, 3, 2, tzinfo=UTC)]),
]


@pytest.mark.parametrize(("kind", "values"), MIDNIGHTS)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_midnight_in_a_column_of_days_is_that_day_in_every_zone(kind, values, zone):
    """Days stored as times are not converted."""
    table = ibis.memtable(pa.table({"x": values}))
    zones = ("UTC", "Asia/Tokyo", "America/New_York")
    formats = [TimeFormat(zone, day_zone, "day-first") for day_zone in zones]
    days = [day_column(table.x, kind, how, is_day=True) for how in formats]
    found = fetch(table.select(one=days[0], two=days[1], three=days[2]))
    for column in found.columns:
        assert set(column.to_pylist()) == {datetime.date(2026, 3, 2)}


@pytest.mark.parametrize("kind", ["integer", "string"])
def test_ten_digits_that_are_a_date_and_an_hour_are_that_hour(kind):
    """They are no seconds since 1970, which would be in 2034, even if the date is wrong."""
    values = [2026030213, 2026030225, 2026023013, 1772460000]
    found = read([v if kind == "integer" else str(v) for v in values], TimeFormat(), kind)
    assert [time for time, _ in found] == ["2026-03-02 13:00:00", None, None, "2026-03-02 14:00:00"]


@pytest.mark.parametrize("local", ["UTC", "Europe/Berlin"])
def test_a_blank_before_the_zone_does_not_matter(local):
    """The time has its own zone."""
    zones = ["+05:30", " +05:30", " +0530", "-05:00", " -05:00", " Z", " UTC"]
    offsets = [zone.strip().replace("UTC", "Z") for zone in zones]
    times = [datetime.datetime.fromisoformat(f"2026-03-02T12:30:00{offset}") for offset in offsets]
    expected = [str(time.astimezone(UTC).replace(tzinfo=None)) for time in times]
    found = read([f"2026-03-02 12:30:00{zone}" for zone in zones], TimeFormat(local))
    assert [time for time, _ in found] == expected


def test_a_point_before_the_zone_does_not_matter():
    """The time has its own zone."""
    values = ["2026-03-02 12:30:00.Z", "2026-03-02 12:30:00.+02:00"]
    found = [time for time, _ in read(values, TimeFormat("Europe/Berlin"))]
    assert found == ["2026-03-02 12:30:00", "2026-03-02 10:30:00"]


def test_hours_of_half_days_are_those_of_the_day():
    """Midnight and noon are 12 AM and 12 PM; a clock of 24 hours may say PM, too."""
    hours = {"12:05 AM": 0, "1:05 am": 1, "12:05 PM": 12, "1:05 p.m.": 13, "13:05 PM": 13}
    found = read([f"2026/3/2 {text}" for text in hours], TimeFormat())
    assert [time for time, _ in found] == [f"2026-03-02 {h:02}:05:00" for h in hours.values()]
    found = read([f"2/3/2026 {text} -0500" for text in hours], TimeFormat(order="day-first"))
    assert [time for time, _ in found] == [f"2026-03-02 {h + 5:02}:05:00" for h in hours.values()]


@pytest.mark.parametrize("dialect", ["duckdb", "pyspark"])
def test_the_query_is_short(dialect):
    """Engines take seconds for queries of hundreds of kilobytes."""
    table = ibis.memtable(pa.table({"x": ["2026-03-02"]}))
    how = TimeFormat("Europe/Berlin", "Europe/Berlin", "day-first")
    query = table.select(day=day_column(table.x, "string", how, is_day=True))
    assert len(" ".join(ibis.to_sql(query, dialect=dialect).split())) < 20_000


def test_other_times_in_a_column_of_days_are_converted():
    """A minute after midnight in Tokyo is the day before in UTC."""
    for value, kind in (
        ("2026-03-02 00:01:00", "string"),
        (TIMES[0].replace(minute=1), "timestamp"),
    ):
        table = ibis.memtable(pa.table({"x": [value]}))
        found = day_column(table.x, kind, TimeFormat("Asia/Tokyo"), is_day=True)
        (day,) = fetch(table.select(day=found))["day"].to_pylist()
        assert day == datetime.date.fromisoformat(str(value)[:10]) - datetime.timedelta(days=1)


def test_what_is_no_time_is_null():
    """Engines must not guess."""
    values = ["soon", "", "2026", "31/12/26", "13/13/2026", "2026-02-30"]
    assert read(values, TimeFormat(order="day-first")) == [(None, None)] * 6


@pytest.mark.parametrize(
    ("values", "order"),
    [
        (["2026-03-02", "soon"], ""),
        (["01/02/2026", "13/02/2026", "1/13/2026 soon"], "day-first"),
        (["1.2.2026 10:00", "1.13.2026 10:00"], "month-first"),
    ],
)
def test_the_order_of_dates_is_decided_by_numbers_above_12(values, order):
    """Other texts do not matter."""
    assert date_order(ibis.memtable(pa.table({"x": values})).x, "x") == order


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["01/02/2026"], "may begin with the day or with the month, as in 01/02/2026"),
        (["13/01/2026", "01/13/2026"], "have mixed orders"),
    ],
)
def test_an_order_that_is_not_decided_is_an_error(values, message):
    """The message has an example and the options."""
    with pytest.raises(TableError, match=f"{message}.*--date-format"):
        date_order(ibis.memtable(pa.table({"x": values})).x, "x")


def test_zones_and_orders_are_checked():
    """The message says how to write them."""
    with pytest.raises(InvalidParameterError, match=r"time_zone='Berlin'.*Europe/Berlin"):
        TimeFormat("Berlin")
    with pytest.raises(InvalidParameterError, match=r"date_format='us': .*day-first"):
        TimeFormat(order="us")
