"""Time formats: read days and times from dates, time stamps, numbers and texts, in any engine.

A text is a time if it is one of

- year, month, day, in this order: ``2026-03-02``, ``2026/3/2``, ``20260302``;
- day, month, year or month, day, year, if the order is given: ``31/12/2026``, ``12.31.2026``;
- one of these with a clock time, with or without AM or PM, fractions and a zone;
- 10, 14 or 17 digits, from the year to the hour, second or millisecond;
- seconds, milliseconds, microseconds or nanoseconds since 1970, of 10, 13, 16 or 19 digits;
  10 digits that are a date and an hour since 2000 are that hour.

Numbers are read like their digits. A time without a zone is in the zone of the format.
A day without a clock time is that day in every zone, and so is midnight in a column of days.
"""

from __future__ import annotations

import functools
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coterie.errors import InvalidParameterError, TableError
from coterie.tables.engines import fetch

__all__ = [
    "DATE_ORDERS",
    "TIME_KINDS",
    "TimeFormat",
    "clock_times",
    "date_order",
    "day_column",
    "utc_times",
]

DATE_ORDERS = ("day-first", "month-first")
#: Types of columns that can hold times.
TIME_KINDS = ("date", "timestamp", "integer", "floating", "string")

_UTC = "UTC"
_WITH_ZONE = "timestamp('UTC')"
_ZONE = r"(Z|z|UTC|[+-][0-9]{2}(:?[0-9]{2})?| [A-Za-z_]+/[A-Za-z_/]+)?"
_ISO = rf"^\s*[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([T ][0-9]{{2}}:[0-9]{{2}}(:[0-9.]+)?\s*{_ZONE})?\s*$"
#: A day in the form of ISO 8601, without a clock time or with midnight.
_MIDNIGHT = rf"^[0-9-]{{10}}([T ]00:00(:00(\.0*)?)?\s*{_ZONE})?$"
_YEAR_FIRST = r"^\s*([0-9]{4})[-/.]([0-9]{1,2})[-/.]([0-9]{1,2})"
_YEAR_LAST = r"^\s*([0-9]{1,2})[-/.]([0-9]{1,2})[-/.]([0-9]{4})"
_HALF = r"([AaPp]\.?[Mm]\.?)?"
#: What may follow a date that is not in the form of ISO 8601.
_CLOCK = (
    rf"([T, -]+[0-9]{{1,2}}:[0-9]{{2}}(:[0-9]{{2}}(\.[0-9]{{1,9}})?)?\s*{_HALF}\s*"
    r"(Z|z|UTC|[+-][0-9]{2}:?[0-9]{2})?)?\s*$"
)
#: Parts of a text that has a clock time.
_HOUR, _MINUTE, _SECOND = "([0-9]{1,2}):", ":([0-9]{2})", ":[0-9]{2}:([0-9.]+)"
_OWN_ZONE = ":[0-9:.]+[^0-9ZzU+-]*([ZzU+-][0-9TC:]*)"
#: Digits without separators: a date, an hour, minutes and seconds.
_DIGITS = r"^\s*([0-9]{4})([0-9]{2})([0-9]{2})([0-9]{2})?([0-9]{2})?([0-9]{2})?"
_COMPACT = r"^\s*[0-9]{8}([0-9]{6}([0-9]{3})?)?\s*$"
_COMPACT_HOUR = r"^\s*20[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])[0-9]{2}\s*$"
_EPOCH = r"^\s*([0-9]{10}([0-9]{3}){0,3})(\.[0-9]*)?\s*$"
_DAY_ONLY = r"^\s*([0-9]{8}|[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4})\s*$"
#: A text with a clock time and without a zone.
_LOCAL = rf"^\s*([0-9]{{10}}([0-9]{{4}}([0-9]{{3}})?)?|[^:]*:[0-9:.]+\s*{_HALF})\s*$"
#: Rows in which the order of dates is looked for, before all rows are read.
_FEW_ROWS = 100_000


@dataclass(frozen=True)
class TimeFormat:
    """How to read the times of a log."""

    zone: str = _UTC  # of times that have none
    day_zone: str = _UTC  # in which days begin and end
    order: str = ""  # one of DATE_ORDERS; without it, dates that end with the year are unreadable

    def __post_init__(self) -> None:
        if self.order and self.order not in DATE_ORDERS:
            raise InvalidParameterError(
                f"date_format={self.order!r}: it must be {' or '.join(DATE_ORDERS)}"
            )
        for name, zone in (("time_zone", self.zone), ("day_zone", self.day_zone)):
            if zone not in _zones():
                raise InvalidParameterError(
                    f"{name}={zone!r}: there is no such time zone; write it like Europe/Berlin, "
                    "America/New_York or UTC"
                )


def utc_times(column: Any, kind: str, how: TimeFormat) -> Any:
    """Return the times of a column of a kind of TIME_KINDS, in UTC and without a zone."""
    if kind == "date":
        return column.cast("timestamp")
    if kind == "timestamp":
        is_local = column.type().timezone is None and how.zone != _UTC
        return _from_zone(column, how.zone) if is_local else _utc(column)
    return _times_of_text(_text(column, kind), how)


def clock_times(column: Any, kind: str, how: TimeFormat) -> Any:
    """Return the times of a column of a kind of TIME_KINDS on the clocks of the day zone."""
    times = utc_times(column, kind, how)
    return times if how.day_zone == _UTC else _to_zone(times, how.day_zone)


def day_column(column: Any, kind: str, how: TimeFormat, is_day: bool = False) -> Any:
    """Return the days of a column of a kind of TIME_KINDS, as dates in the day zone.

    With ``is_day`` the column is meant to have days: midnight is no clock time.
    """
    if kind == "date":
        return column
    days = clock_times(column, kind, how).date()
    if kind == "timestamp":
        clock = _utc(column)
        is_midnight = clock == clock.date().cast("timestamp")
        return is_midnight.ifelse(clock.date(), days) if is_day else days
    if how.zone == how.day_zone == _UTC and not is_day:
        return days
    text = _text(column, kind)
    iso = _iso_text(text, how.order)
    is_plain = iso.re_search(_MIDNIGHT) if is_day else text.re_search(_DAY_ONLY)
    return is_plain.ifelse(iso.left(len("2026-03-02")).try_cast("date"), days)


def date_order(column: Any, name: str) -> str:
    """Return the order of the dates in a text column that end with the year.

    It is decided by numbers above 12, and is empty if there are no such dates.

    Raises
    ------
    TableError
        The dates can be read in both orders, or in neither.
    """
    table = column.name("text").as_table()
    dated = table.filter(table.text.re_search(_YEAR_LAST + _CLOCK))
    for rows in (dated.limit(_FEW_ROWS), dated):
        parts = rows.mutate(
            part1=rows.text.re_extract(_YEAR_LAST, 1).try_cast("int64"),
            part2=rows.text.re_extract(_YEAR_LAST, 2).try_cast("int64"),
        )
        (found,) = fetch(
            parts.aggregate(
                part1=parts.part1.max(), part2=parts.part2.max(), example=parts.text.max()
            )
        ).to_pylist()
        if found["part1"] is None:
            return ""
        above = [found["part1"] > 12, found["part2"] > 12]
        if any(above):
            break
    if above == [True, False]:
        return "day-first"
    if above == [False, True]:
        return "month-first"
    problem = "may begin with the day or with the month" if not any(above) else "have mixed orders"
    raise TableError(
        f"the dates in column {name} {problem}, as in {found['example']}; say --date-format "
        "day-first or --date-format month-first"
    )


@functools.cache
def _zones() -> frozenset[str]:
    """Return the names of time zones, for which Python reads many files."""
    return frozenset(zoneinfo.available_timezones())


def _text(column: Any, kind: str) -> Any:
    if kind == "floating":
        column = column.floor().cast("int64")
    return column.cast("string")


def _iso_text(text: Any, order: str) -> Any:
    """Return the times of texts in the form of ISO 8601, null if they have another.

    Engines get this expression as text, several times in a query, so that its parts are found by
    short patterns after a long one has matched, and no part is written twice.
    """
    import ibis

    # engines read no blank before a zone
    iso = text.strip().replace(" +", "+").replace(" -", "-").replace(" Z", "Z")
    cases = [
        (text.re_search(_ISO), iso),
        (text.re_search(_YEAR_FIRST + _CLOCK), _date(text, _YEAR_FIRST, 1, 2, 3) + _clock(text)),
        (
            text.re_search(_COMPACT) | text.re_search(_COMPACT_HOUR),
            _date(text, _DIGITS, 1, 2, 3) + _compact_clock(text),
        ),
    ]
    if order:
        month, day = (2, 1) if order == "day-first" else (1, 2)
        written = _date(text, _YEAR_LAST, 3, month, day) + _clock(text)
        cases.append((text.re_search(_YEAR_LAST + _CLOCK), written))
    return ibis.cases(*cases, else_=None)


def _date(text: Any, pattern: str, year: int, month: int, day: int) -> Any:
    """Return the date of texts, whose parts are groups of a pattern."""
    of_two = [_two_digits(text.re_extract(pattern, group)) for group in (month, day)]
    return text.re_extract(pattern, year) + "-" + of_two[0] + "-" + of_two[1]


def _clock(text: Any) -> Any:
    """Return the clock time and the zone of texts, empty if they have none."""
    lower = text.lower()
    hours = lower.contains("m").ifelse(12, 100)  # AM or PM
    hour = text.re_extract(_HOUR, 1).try_cast("int64") % hours
    hour += lower.contains("p").ifelse(12, 0)
    minute, zone = (text.re_extract(pattern, 1) for pattern in (_MINUTE, _OWN_ZONE))
    # Spark reads no zone after minutes
    second = text.re_extract(_SECOND, 1).nullif("").fill_null("00")
    clock = "T" + _two_digits(hour.cast("string")) + ":" + minute + ":" + second + zone
    return clock.fill_null("")


def _compact_clock(text: Any) -> Any:
    """Return the clock time of texts of digits, empty if they have none."""
    hour, minute, second = (text.re_extract(_DIGITS, i) for i in (4, 5, 6))
    has_minute = (minute != "").ifelse(":" + minute + ":" + second, ":00:00")
    return (hour != "").ifelse("T" + hour + has_minute, "")


def _two_digits(number: Any) -> Any:
    return ("0" + number).right(2)


def _times_of_text(text: Any, how: TimeFormat) -> Any:
    # 13 digits are milliseconds since 1970, in any unit of the others
    millis = (text.re_extract(_EPOCH, 1) + "000").left(13).try_cast("int64")
    is_epoch = text.re_search(_EPOCH) & ~text.re_search(_COMPACT_HOUR)
    times = _utc(_iso_text(text, how.order).try_cast(_WITH_ZONE))
    if how.zone != _UTC:
        times = text.re_search(_LOCAL).ifelse(_from_zone(times, how.zone), times)
    return times.fill_null(_since_1970(is_epoch.ifelse(millis, None)))


def _since_1970(millis: Any) -> Any:
    """Return the time of milliseconds since 1970, without a zone."""
    # Ibis has only seconds for Spark, and returns a time with a zone for DuckDB
    engine = millis.get_backend().name
    if engine == "pyspark":
        return _engine_function("timestamp_millis", ("int64",), "timestamp")(millis)
    return _of_micros(millis * 1000) if engine == "duckdb" else _utc(millis.as_timestamp("ms"))


def _of_micros(micros: Any) -> Any:
    """Return the time of microseconds since 1970 in DuckDB, without a zone."""
    return _engine_function("make_timestamp", ("int64",), "timestamp")(micros)


def _utc(times: Any) -> Any:
    """Return times in UTC, without a zone.

    For a time with a zone, DuckDB's own conversion is five times slower than this one through
    microseconds, which are always in UTC.
    """
    engine = times.get_backend().name
    if times.type().timezone is None or engine != "duckdb":
        return times
    return _of_micros(_engine_function("epoch_us", (_WITH_ZONE,), "int64")(times))


def _from_zone(times: Any, zone: str) -> Any:
    """Return times without a zone, which are in a zone, in UTC."""
    if _engine(times) == "pyspark":
        convert = _engine_function("to_utc_timestamp", ("timestamp", "string"), "timestamp")
        return convert(times, zone)
    return _utc(_engine_function("timezone", ("string", "timestamp"), _WITH_ZONE)(zone, times))


def _to_zone(times: Any, zone: str) -> Any:
    """Return times in UTC as clock times of a zone."""
    if _engine(times) == "pyspark":
        convert = _engine_function("from_utc_timestamp", ("timestamp", "string"), "timestamp")
        return convert(times, zone)
    convert = _engine_function("timezone", ("string", _WITH_ZONE), "timestamp")
    return convert(zone, times.cast(_WITH_ZONE))


def _engine_function(name: str, kinds: tuple[str, ...], result: str) -> Callable[..., Any]:
    """Return a function of an engine that Ibis lacks, by the types of arguments and result."""
    import ibis

    def of_one(value: Any) -> Any: ...

    def of_two(first: Any, second: Any) -> Any: ...

    declared = of_one if len(kinds) == 1 else of_two
    return ibis.udf.scalar.builtin(declared, name=name, signature=(kinds, result))


def _engine(times: Any) -> str:
    name = str(times.get_backend().name)
    if name not in {"duckdb", "pyspark"}:
        raise TableError(f"time zones are converted by DuckDB or Spark, not by {name}; use UTC")
    return name
