"""Canonical columns: the columns of a log under one name each, in one type and unit.

A value that cannot be read as the type of its column becomes null; checks count such values and
queries skip them. Columns that no stage needs, including those that identify a person, are not
selected.

A text is a time if it is ISO 8601, such as ``2026-03-02``, ``20260302`` or
``2026-03-02 13:45:00+01:00``, or the seconds, milliseconds, microseconds or nanoseconds since 1970,
of 10, 13, 16 or 19 digits. Numbers are read like their digits. A time without a zone is in the zone
of the log, days are those of UTC. A day without a clock time is that day in every zone, and so is
midnight in a column of days. Other forms are for SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from coterie.errors import TableError
from coterie.tables.engines import engine_errors, is_written_as
from coterie.tables.reading import TemporaryCopy

if TYPE_CHECKING:
    import ibis.expr.types as ir

#: Columns of sums that a table of histograms may have.
SUMS = (
    *("bids", "bid_micros", "wins", "cost_micros"),
    *("prices", "price_micros", "clicks", "conversions"),
)
#: Micros for a thousand impressions (CPM) that 1 in a unit is.
UNITS = {
    "micros": 1,
    "cents": 10**4,
    "currency": 10**6,
    "micros/impression": 10**3,
    "cents/impression": 10**7,
    "currency/impression": 10**9,
}
#: Texts that mean a missing value, in lower case.
MISSING_TEXTS = frozenset({"", "null", "none", "nan", "na", "n/a", "\\n", "-"})
YES = ("true", "t", "yes", "y", "1", "1.0", "win", "won")
NO = ("false", "f", "no", "n", "0", "0.0", "loss", "lost", "lose")
#: Prefix of the columns with the original values of a log.
WRITTEN = "written_"

_MOST_FLOAT = 9e15  # above 2^53 floats skip whole numbers
_NUMBER = r"^\s*[+-]?([0-9]{1,15}(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2})?\s*$"
#: Texts of JSON lists and objects, as patterns of SQL.
_NESTED = ('{"%}', '["%]', "[%,%]")


@dataclass(frozen=True)
class ColumnReading:
    """How the columns of a raw table are read; by default they have canonical names and units."""

    names: Mapping[str, str] | None = None  # column by canonical name; None if these are the same
    units: Mapping[str, str] = field(default_factory=dict)  # by canonical name, else micros
    zone: str = "UTC"  # of times that have none
    currency: str = ""  # of all amounts, if no column has it
    is_json: bool = False  # whether a text may be that of a list or an object
    # known values of columns in the first rows, by column; of those with a unit at least
    samples: Mapping[str, list[Any]] = field(default_factory=dict, repr=False)

    def column(self, name: str) -> str:
        """Return the column of the raw table for a canonical one, empty if it has none."""
        return name if self.names is None else self.names.get(name, "")


def canonical_table(
    raw: ir.Table,
    kind: str,
    source: str,
    lacking: Mapping[str, str] | None = None,
    dimensions: Mapping[str, str] | None = None,
    reading: ColumnReading | None = None,
) -> ir.Table:
    """Return the table of a log of bids or of histograms with canonical columns.

    Bids have ``advertiser_id`` string, ``day`` date, ``bid_micros`` int64, ``won`` boolean,
    ``price_micros`` int64, ``weight`` float64 and, if present, ``min_to_win_micros``,
    ``floor_micros``, ``auction_type``, ``currency``, ``click`` and ``conversion``. Histograms have
    ``advertiser_id``, ``day``, ``bin_micros``, then sums as float64. ``source`` is the name of the
    log for messages, and ``lacking`` gives, for each column that some files lack, the first such
    file. ``dimensions`` gives the column of the log for each dimension; dimension ``x`` becomes the
    string ``dimension_x``, and ``hour`` without such a column comes from the time stamp.
    """
    import ibis

    columns = _Columns(raw, source, lacking or {}, reading or ColumnReading())
    lacks_day = "day" not in columns or columns.reading.column("day") in columns.lacking
    when = "ts" if kind == "bids" and "ts" in columns and lacks_day else "day"
    amounts: dict[str, Any]
    if kind == "histograms":
        columns.require("advertiser_id", "day", "bin_micros", "bids", "wins", "cost_micros")
        amounts = {
            "bin_micros": columns.whole("bin_micros"),
            **columns.present(SUMS, columns.number),
        }
    else:
        columns.require("advertiser_id", when, "bid_micros", "won", "price_micros")
        amounts = {
            "bid_micros": columns.micros("bid_micros"),
            "won": columns.yes_or_no("won"),
            "price_micros": columns.micros("price_micros"),
            "weight": columns.number("weight") if "weight" in columns else ibis.literal(1.0),
            **columns.present(("min_to_win_micros", "floor_micros"), columns.micros),
        }
    amounts |= columns.present(("auction_type",), columns.whole)
    amounts |= columns.present(("currency",), columns.text)
    if columns.reading.currency:
        amounts["currency"] = ibis.literal(columns.reading.currency)
    if kind == "bids":
        amounts |= columns.present(("click", "conversion"), columns.yes_or_no)
    # dimensions are columns of the raw table, by their own names
    own = replace(columns, reading=ColumnReading(is_json=columns.reading.is_json))
    for name, column in (dimensions or {}).items():
        if column == "hour" and column not in own and kind == "bids" and "ts" in columns:
            hour = columns.times("ts").hour().cast("string").lpad(2, "0")
            amounts[f"dimension_{name}"] = hour
        else:
            own.require(column)
            amounts[f"dimension_{name}"] = own.text(column).strip()
    return raw.select(
        advertiser_id=columns.text("advertiser_id").strip().nullif(""),
        day=columns.day(when),
        **amounts,
    )


def with_campaigns(raw: ir.Table, source: str, reading: ColumnReading) -> ir.Table:
    """Return a raw table whose column of advertisers has ``ADVERTISER/CAMPAIGN``.

    A slash in the id of a campaign becomes an underscore, so that the last one divides the name. A
    row without a campaign belongs to the campaign ``-``.
    """
    advertiser, campaign = reading.column("advertiser_id"), reading.column("campaign_id")
    if not {advertiser, campaign} <= set(raw.columns):
        raise TableError(
            f"{source}: there is no column campaign_id; forecasts by campaign need it, next to "
            "advertiser_id; if the column has another name, say --column campaign=NAME"
        )
    name = raw[campaign].cast("string").strip().replace("/", "_").nullif("").fill_null("-")
    of_advertiser = raw[advertiser].cast("string").strip().nullif("")
    return raw.mutate(**{advertiser: of_advertiser + "/" + name})


@dataclass(frozen=True, eq=False)
class _Columns:
    """The columns of a raw table, converted on request."""

    raw: ir.Table
    source: str
    lacking: Mapping[str, str]
    reading: ColumnReading

    def __contains__(self, name: str) -> bool:
        return self.reading.column(name) in self.raw.columns

    def require(self, *names: str) -> None:
        """Raise TableError if the table, or one of its files, lacks a column."""
        missing = [name for name in names if name not in self]
        if missing:
            raise TableError(
                f"{self.source}: column{'s' * (len(missing) > 1)} {', '.join(missing)} missing; "
                f"the columns are {', '.join(self.raw.columns)}"
            )
        for name in map(self.reading.column, names):
            if name in self.lacking:
                raise TableError(
                    f"{self.lacking[name]}: column {name} missing; other files of the log have it"
                )

    def present(self, names: Iterable[str], read: Callable[[str], Any]) -> dict[str, Any]:
        return {name: read(name) for name in names if name in self}

    def whole(self, name: str) -> Any:
        """Read whole numbers; fractions are rounded, half away from zero."""
        column, kind = self._typed(name, "integer", "floating", "decimal", "string")
        if kind != "integer":
            return _rounded(self.number(name))
        return column.try_cast("int64") if column.type().is_uint64() else column.cast("int64")

    def number(self, name: str) -> Any:
        column, kind = self._typed(name, "integer", "floating", "decimal", "string")
        if kind == "string":
            column = column.re_search(_NUMBER).ifelse(column.strip(), None).try_cast("float64")
        number = column.cast("float64")
        return number if kind == "integer" else is_written_as(number, ["nan"]).ifelse(None, number)

    def micros(self, name: str) -> Any:
        """Read an amount in its unit as micros per thousand impressions."""
        factor = UNITS[self.reading.units.get(name, "micros")]
        return self.whole(name) if factor == 1 else _rounded(self.number(name) * factor)

    def yes_or_no(self, name: str) -> Any:
        import ibis

        column, kind = self._typed(name, "boolean", "integer", "floating", "string")
        if kind == "boolean":
            return column
        yes: Iterable[Any] = [1]
        no: Iterable[Any] = [0]
        if kind == "string":
            column, yes, no = column.strip().lower(), YES, NO
        return ibis.cases((column.isin(yes), True), (column.isin(no), False), else_=None)

    def text(self, name: str) -> Any:
        column, kind = self._typed(name, "string", "integer", "floating", "boolean")
        if kind == "floating":
            column = self.whole(name)
        if kind == "string" and self.reading.is_json:
            nested = [column.like(pattern) for pattern in _NESTED]
            column = (nested[0] | nested[1] | nested[2]).ifelse(None, column)
        return column.cast("string")

    def times(self, name: str) -> Any:
        return utc_times(*self._typed(name, *TIME_KINDS), self.reading.zone)

    def day(self, name: str) -> Any:
        return day_column(*self._typed(name, *TIME_KINDS), self.reading.zone, name == "day")

    def _typed(self, name: str, *kinds: str) -> tuple[Any, str]:
        """Return a column and which of the kinds it is."""
        column = self.raw[self.reading.column(name)]
        dtype = column.type()
        # Ibis has no type for DuckDB's NULL, the type of an empty Parquet column
        is_empty = dtype.is_unknown() and "NULL" in str(getattr(dtype, "raw_type", ""))
        if dtype.is_null() or is_empty:
            return column.cast("string"), "string"
        for kind in kinds:
            if getattr(dtype, f"is_{kind}")():
                return column, kind
        raise TableError(
            f"{self.source}: column {self.reading.column(name)} is of type {dtype}; it must be "
            f"{' or '.join(kinds)}"
        )


def _rounded(number: Any) -> Any:
    return (number.abs() < _MOST_FLOAT).ifelse(number.round().cast("int64"), None)


# ---- Times

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
    text = _digits(column, kind)
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
    millis = is_epoch.ifelse(millis, None)
    if column.get_backend().name == "pyspark":  # for which Ibis has only seconds
        since_1970 = _engine_function("timestamp_millis", ("int64",), "timestamp")(millis)
    else:
        since_1970 = _of_micros(millis * 1000)
    return times.fill_null(since_1970)


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
    text = _digits(column, kind)
    midnight = text.strip().left(len("2026-03-02")).try_cast("date")
    return text.re_search(_MIDNIGHT).ifelse(midnight, days)


def _digits(column: Any, kind: str) -> Any:
    return (column.floor().cast("int64") if kind == "floating" else column).cast("string")


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


# ---- Rows converted once


class StoredRows:
    """The rows of a log and, while it exists, the file that holds them.

    Reading numbers, truth values and times from text takes many times as long as all that is
    computed from them, and a log is checked, counted, and counted by its dimensions. DuckDB
    therefore writes the converted rows of such a log, or of a query of the user, to a temporary
    Parquet file, some bytes a row. Logs whose columns have the canonical types already are read as
    they are, and so is everything on Spark.
    """

    def __init__(self, is_query: bool = False) -> None:
        self._is_query = is_query  # a query of the user, which may take long
        self._table: ir.Table | None = None
        self._rows: ir.Table | None = None
        self._copy: TemporaryCopy | None = None

    def of(self, table: ir.Table, is_json: bool) -> ir.Table:
        """Return the columns of a table of canonical columns, and ``written_X`` where X is null.

        There is a column ``written_X`` for each X that may be unreadable; it has the value in the
        log. ``is_json`` is whether texts may be other values of JSON.
        """
        from ibis.expr.operations import Field, Project

        if self._rows is not None and self._table is table:
            return self._rows
        node = table.op()
        if not isinstance(node, Project):  # of one's own, such as a part of a log
            return table
        raw = node.parent.to_expr()
        values = {name: value.to_expr() for name, value in node.values.items()}
        written = {
            WRITTEN + name: value.isnull().ifelse(raw[found.name], None)
            for name, value in values.items()
            for found in value.op().find(Field)
            if found.rel == raw.op()
            and _may_be_unreadable(raw[found.name].type(), value.type(), is_json)
        }
        rows = raw.select(**values, **written)
        backend: Any = rows.get_backend()
        if (written or self._is_query) and backend.name == "duckdb":
            self._copy = TemporaryCopy()
            file = str(self._copy.path)
            with engine_errors(f"{backend.name} cannot read the table"):
                backend.to_parquet(rows, file, use_tmp_file=False)
                rows = backend.read_parquet(file)
        self._table, self._rows = table, rows
        return rows


def _may_be_unreadable(original: Any, canonical: Any, is_json: bool) -> bool:
    if canonical.is_date():
        return not original.is_temporal()
    if canonical.is_floating():
        return not original.is_numeric()
    if canonical.is_integer():
        return not original.is_integer()
    if canonical.is_string():
        return is_json and original.is_string()  # a list is not a text
    return not (canonical.is_boolean() and original.is_boolean())
