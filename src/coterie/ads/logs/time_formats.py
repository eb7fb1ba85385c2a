"""Time formats: days and times from dates, time stamps, numbers and texts, in any engine.

A text is a time if it is ISO 8601, such as ``2026-03-02``, ``20260302`` or
``2026-03-02 13:45:00+01:00``, or the seconds, milliseconds, microseconds or nanoseconds since 1970,
of 10, 13, 16 or 19 digits. Numbers are read like their digits. A time without a zone is in the zone
of the log, days are those of UTC. A day without a clock time is that day in every zone, and so is
midnight in a column of days. Other forms are for SQL.
"""

from __future__ import annotations

import functools
import re
import zoneinfo
from collections.abc import Callable
from typing import Any

from coterie.errors import InvalidParameterError

#: Types of columns that can hold times.
TIME_KINDS = ("date", "timestamp", "integer", "floating", "string")

_UTC = "UTC"
_WITH_ZONE = "timestamp('UTC')"
_ZONE = r"(Z|z|UTC|[+-][0-9]{2}(:?[0-9]{2})?| [A-Za-z_]+/[A-Za-z_/]+)?"
_ISO = rf"^\s*[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([T ][0-9]{{2}}:[0-9]{{2}}(:[0-9.]+)?\s*{_ZONE})?\s*$"
#: A day in the form of ISO 8601, without a clock time or with midnight.
_MIDNIGHT = rf"^\s*[0-9-]{{10}}([T ]00:00(:00(\.0*)?)?\s*{_ZONE})?\s*$"
_COMPACT = r"^\s*[0-9]{8}\s*$"
#: A text with a clock time and without a zone.
_LOCAL = r"^\s*[0-9-]{10}[T ][0-9:.]+\s*$"
_EPOCH = r"^\s*([0-9]{10}([0-9]{3}){0,3})(\.[0-9]*)?\s*$"
#: Ten digits that may be a date and an hour rather than seconds, which they would be from 2033 on.
_DATE_AND_HOUR = r"^\s*20[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])[0-9]{2}\s*$"


def check_zone(zone: str) -> str:
    """Return the name of a time zone, UTC for an empty one."""
    if zone and zone not in _zones():
        raise InvalidParameterError(
            f"time_zone={zone!r}: there is no such time zone; write it like Europe/Berlin, "
            "America/New_York or UTC"
        )
    return zone or _UTC


def is_time(text: str) -> bool:
    """Return whether a text has the form of a time.

    >>> is_time("2026-03-02 10:00"), is_time("1772445600"), is_time("02.03.2026")
    (True, True, False)
    """
    forms = (_ISO, _COMPACT, _EPOCH)
    return any(re.search(form, text) for form in forms) and not re.search(_DATE_AND_HOUR, text)


def utc_times(column: Any, kind: str, zone: str) -> Any:
    """Return the times of a column of a kind of TIME_KINDS, in UTC and without a zone."""
    import ibis

    if kind == "date":
        return column.cast("timestamp")
    if kind == "timestamp":
        is_local = column.type().timezone is None and zone != _UTC
        return _from_zone(column, zone) if is_local else _utc(column)
    text = _text(column, kind)
    digits = text.strip()
    dashed = digits[0:4] + "-" + digits[4:6] + "-" + digits[6:8]
    # engines read no blank before a zone
    iso = digits.replace(" +", "+").replace(" -", "-").replace(" Z", "Z")
    known = ibis.cases((text.re_search(_ISO), iso), (text.re_search(_COMPACT), dashed), else_=None)
    times = _utc(known.try_cast(_WITH_ZONE))
    if zone != _UTC:
        times = text.re_search(_LOCAL).ifelse(_from_zone(times, zone), times)
    # 13 digits are milliseconds since 1970, in any unit of the others
    millis = (text.re_extract(_EPOCH, 1) + "000").left(13).try_cast("int64")
    is_epoch = text.re_search(_EPOCH) & ~text.re_search(_DATE_AND_HOUR)
    return times.fill_null(_since_1970(is_epoch.ifelse(millis, None)))


def day_column(column: Any, kind: str, zone: str, is_day: bool = False) -> Any:
    """Return the days of a column of a kind of TIME_KINDS, as dates in UTC.

    With ``is_day`` the column is meant to have days: midnight is no clock time.
    """
    if kind == "date":
        return column
    days = utc_times(column, kind, zone).date()
    if not is_day:
        return days
    if kind == "timestamp":
        clock = _utc(column)
        return (clock == clock.date().cast("timestamp")).ifelse(clock.date(), days)
    text = _text(column, kind)
    midnight = text.strip().left(len("2026-03-02")).try_cast("date")
    return text.re_search(_MIDNIGHT).ifelse(midnight, days)


@functools.cache
def _zones() -> frozenset[str]:
    """Return the names of time zones, for which Python reads many files."""
    return frozenset(zoneinfo.available_timezones())


def _text(column: Any, kind: str) -> Any:
    if kind == "floating":
        column = column.floor().cast("int64")
    return column.cast("string")


def _since_1970(millis: Any) -> Any:
    """Return the time of milliseconds since 1970, without a zone."""
    if millis.get_backend().name == "pyspark":  # for which Ibis has only seconds
        return _engine_function("timestamp_millis", ("int64",), "timestamp")(millis)
    return _of_micros(millis * 1000)


def _of_micros(micros: Any) -> Any:
    """Return the time of microseconds since 1970 in DuckDB, without a zone."""
    return _engine_function("make_timestamp", ("int64",), "timestamp")(micros)


def _utc(times: Any) -> Any:
    """Return times in UTC, without a zone.

    For a time with a zone, DuckDB's own conversion is five times slower than this one through
    microseconds, which are always in UTC.
    """
    if times.type().timezone is None or times.get_backend().name == "pyspark":
        return times
    return _of_micros(_engine_function("epoch_us", (_WITH_ZONE,), "int64")(times))


def _from_zone(times: Any, zone: str) -> Any:
    """Return times without a zone, which are in a zone, in UTC."""
    if times.get_backend().name == "pyspark":
        convert = _engine_function("to_utc_timestamp", ("timestamp", "string"), "timestamp")
        return convert(times, zone)
    return _utc(_engine_function("timezone", ("string", "timestamp"), _WITH_ZONE)(zone, times))


def _engine_function(name: str, kinds: tuple[str, ...], result: str) -> Callable[..., Any]:
    """Return a function of an engine that Ibis lacks, by the types of arguments and result."""
    import ibis

    def of_one(value: Any) -> Any: ...

    def of_two(first: Any, second: Any) -> Any: ...

    declared = of_one if len(kinds) == 1 else of_two
    return ibis.udf.scalar.builtin(declared, name=name, signature=(kinds, result))
