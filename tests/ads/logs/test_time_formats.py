"""Times in many forms are the times that Python wrote."""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import ibis
import pyarrow as pa
import pytest

from coterie.ads.logs.time_formats import day_column, utc_times
from coterie.tables.engines import fetch

UTC = datetime.UTC


def read(values, zone: str = "UTC", kind: str = "string") -> list[tuple]:
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
    assert read(values, zone, "timestamp" if form is None else "string") == expected


@pytest.mark.parametrize("kind", ["integer", "floating", "string"])
def test_numbers_since_1970_have_their_unit_by_their_digits(kind):
    """Seconds to nanoseconds, as numbers or texts, in every zone."""
    time = datetime.datetime(2026, 3, 2, 23, 59, 59, tzinfo=UTC)
    numbers = [int(time.timestamp()) * factor for factor in (1, 10**3, 10**6, 10**9)]
    values = [{"integer": int, "floating": float, "string": str}[kind](n) for n in numbers]
    assert [day for _, day in read(values, "Europe/Berlin", kind)] == [time.date()] * 4


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_a_day_without_a_clock_time_is_that_day_in_every_zone(zone):
    """It is not converted."""
    found = read(["2026-03-02", " 2026-03-02 ", "20260302"], zone)
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
    found = read([f"2026-03-02 12:30:00{written}" for written in zones], zone)
    assert [time for time, _ in found] == expected


@pytest.mark.parametrize("kind", ["string", "integer"])
def test_what_is_no_time_is_null(kind):
    """Engines must not guess; ten digits that may be a date and an hour are no seconds."""
    values = [2026, 2026030213, 20263002]
    if kind == "string":
        texts = ["soon", "", "31/12/2026", "2026-02-30", "2026-03-02 25:00", "02.03.2026"]
        values = [*map(str, values), *texts]
    assert read(values, "Europe/Berlin", kind) == [(None, None)] * len(values)


@pytest.mark.parametrize("dialect", ["duckdb", "pyspark"])
def test_the_query_is_short(dialect):
    """Engines take seconds for queries of hundreds of kilobytes."""
    table = ibis.memtable(pa.table({"x": ["2026-03-02"]}))
    query = table.select(day=day_column(table.x, "string", "Europe/Berlin", is_day=True))
    assert len(" ".join(ibis.to_sql(query, dialect=dialect).split())) < 5_000
