"""Log columns: convert the columns of a log to canonical names and types.

A value that cannot be read as the type of its column becomes null; checks count such values and
queries skip them. Columns that no stage needs, including those that identify a person, are not
selected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from coterie.ads.logs.column_roles import UNITS
from coterie.ads.logs.time_formats import TIME_KINDS, day_column, utc_times
from coterie.errors import TableError
from coterie.tables.engines import is_written_as

if TYPE_CHECKING:
    import ibis.expr.types as ir

#: Columns of sums that a table of histograms may have.
SUMS = (
    *("bids", "bid_micros", "wins", "cost_micros"),
    *("prices", "price_micros", "clicks", "conversions"),
)
#: Texts that mean a missing value, in lower case.
MISSING_TEXTS = frozenset({"", "null", "none", "nan", "na", "n/a", "\\n", "-"})

_MOST_FLOAT = 9e15  # above 2^53 floats skip whole numbers
_NUMBER = r"^\s*[+-]?([0-9]{1,15}(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2})?\s*$"
#: Texts of JSON lists and objects, as patterns of SQL.
_NESTED = ('{"%}', '["%]', "[%,%]")
YES = ("true", "t", "yes", "y", "1", "1.0", "win", "won")
NO = ("false", "f", "no", "n", "0", "0.0", "loss", "lost", "lose")


@dataclass(frozen=True)
class ColumnReading:
    """How the columns of a raw table are read; by default they have canonical names and units."""

    names: Mapping[str, str] | None = None  # column by canonical name; None if these are the same
    units: Mapping[str, str] = field(default_factory=dict)  # by canonical name, else micros
    zone: str = "UTC"  # of times that have none
    currency: str = ""  # of all amounts, if no column has it
    is_json: bool = False  # whether a text may be that of a list or an object

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
    ``reading`` says which columns of a log of bids have these meanings, and in which units.
    """
    build = _histograms if kind == "histograms" else _bids
    given = reading or ColumnReading()
    return build(_Columns(raw, source, lacking or {}, dimensions or {}, given))


def with_campaigns(raw: ir.Table, source: str, reading: ColumnReading | None = None) -> ir.Table:
    """Return a raw table whose column of advertisers has ``ADVERTISER/CAMPAIGN``.

    A slash in the id of a campaign becomes an underscore, so that the last one divides the name. A
    row without a campaign belongs to the campaign ``-``.
    """
    given = reading or ColumnReading()
    advertiser, campaign = given.column("advertiser_id"), given.column("campaign_id")
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
    dimensions: Mapping[str, str] = field(default_factory=dict)
    reading: ColumnReading = field(default_factory=ColumnReading)

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
            number = self.number(name)
            return (number.abs() < _MOST_FLOAT).ifelse(number.round().cast("int64"), None)
        is_wider = column.type().is_uint64()
        return column.try_cast("int64") if is_wider else column.cast("int64")

    def number(self, name: str) -> Any:
        column, kind = self._typed(name, "integer", "floating", "decimal", "string")
        if kind == "string":
            column = column.re_search(_NUMBER).ifelse(column.strip(), None).try_cast("float64")
        number = column.cast("float64")
        return number if kind == "integer" else is_written_as(number, ["nan"]).ifelse(None, number)

    def micros(self, name: str) -> Any:
        """Read an amount in its unit as micros per thousand impressions."""
        factor = UNITS[self.reading.units.get(name, "micros")]
        if factor == 1:
            return self.whole(name)
        number = self.number(name) * factor
        return (number.abs() < _MOST_FLOAT).ifelse(number.round().cast("int64"), None)

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

    def advertiser(self) -> Any:
        return self.text("advertiser_id").strip().nullif("")

    def by_dimension(self, hour: Callable[[], Any] | None = None) -> dict[str, Any]:
        """Return the columns of the dimensions; ``hour`` reads the hour of the time stamp."""
        found = {}
        # dimensions are columns of the raw table, by their own names
        raw = replace(self, reading=ColumnReading(is_json=self.reading.is_json))
        for name, column in self.dimensions.items():
            if column == "hour" and column not in raw and hour is not None:
                found[f"dimension_{name}"] = hour()
            else:
                raw.require(column)
                found[f"dimension_{name}"] = raw.text(column).strip()
        return found

    def hour(self, name: str) -> Any:
        """Return the hour of a time stamp in UTC, as text from 00 to 23."""
        times = utc_times(*self._typed(name, *TIME_KINDS), self.reading.zone)
        return times.hour().cast("string").lpad(2, "0")

    def day(self, name: str) -> Any:
        return day_column(*self._typed(name, *TIME_KINDS), self.reading.zone, name == "day")

    def _typed(self, name: str, *kinds: str) -> tuple[Any, str]:
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


def _bids(columns: _Columns) -> ir.Table:
    import ibis

    lacks_day = "day" not in columns or columns.reading.column("day") in columns.lacking
    when = "ts" if "ts" in columns and lacks_day else "day"
    columns.require("advertiser_id", when, "bid_micros", "won", "price_micros")
    return columns.raw.select(
        advertiser_id=columns.advertiser(),
        day=columns.day(when),
        bid_micros=columns.micros("bid_micros"),
        won=columns.yes_or_no("won"),
        price_micros=columns.micros("price_micros"),
        weight=columns.number("weight") if "weight" in columns else ibis.literal(1.0),
        **columns.present(("min_to_win_micros", "floor_micros"), columns.micros),
        **columns.present(("auction_type",), columns.whole),
        **columns.present(("currency",), columns.text),
        **(
            {"currency": ibis.literal(columns.reading.currency)} if columns.reading.currency else {}
        ),
        **columns.present(("click", "conversion"), columns.yes_or_no),
        **columns.by_dimension((lambda: columns.hour("ts")) if "ts" in columns else None),
    )


def _histograms(columns: _Columns) -> ir.Table:
    columns.require("advertiser_id", "day", "bin_micros", "bids", "wins", "cost_micros")
    return columns.raw.select(
        advertiser_id=columns.advertiser(),
        day=columns.day("day"),
        bin_micros=columns.whole("bin_micros"),
        **columns.present(SUMS, columns.number),
        **columns.present(("auction_type",), columns.whole),
        **columns.present(("currency",), columns.text),
        **columns.by_dimension(),
    )
