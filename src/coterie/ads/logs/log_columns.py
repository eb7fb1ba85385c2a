"""Log columns: convert the columns of a log to canonical names and types.

A value that cannot be read as the type of its column becomes null; checks count such values and
queries skip them. Columns that no stage needs, including those that identify a person, are not
selected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coterie.ads.logs.amount_codes import MOST_MICROS
from coterie.engines.queries import is_written_as
from coterie.errors import InvalidParameterError, TableError

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["KINDS", "SUMS", "canonical_table", "kind_of", "with_campaigns"]

KINDS = ("bids", "ipinyou", "histograms")

#: iPinYou gives amounts in fen per thousand impressions; a fen is a hundredth of a yuan.
_MICROS_PER_FEN = 10_000
#: Field numbers in an iPinYou log without a header.
_IPINYOU_FIELDS = {
    "timestamp": 1,
    "log_type": 2,
    "slot_floor_price": 17,
    "bid_price": 19,
    "pay_price": 20,
    "advertiser_id": 22,
}
#: Columns of sums that a table of histograms may have.
SUMS = (
    *("bids", "bid_micros", "wins", "cost_micros"),
    *("prices", "price_micros", "clicks", "conversions"),
)
_MOST_FLOAT = 9e15  # above 2^53 floats skip whole numbers
_NUMBER = r"^\s*[+-]?[0-9]{1,15}(\.[0-9]*)?([eE][+-]?[0-9]{1,2})?\s*$"
_TIME = r"^\s*[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}.*)?$"
_DAY = r"^[0-9]{8}"


def kind_of(columns: Iterable[str]) -> str:
    """Return the kind of a table by its columns: "bids", "ipinyou" or "histograms".

    >>> kind_of(["advertiser_id", "day", "bin_micros", "bids", "wins", "cost_micros"])
    'histograms'
    """
    names = set(columns)
    if {"bin_micros", "bids"} <= names:
        return "histograms"
    if {"timestamp", "bid_price", "pay_price"} <= names or "field_23" in names:
        return "ipinyou"
    return "bids"


def canonical_table(
    raw: ir.Table,
    kind: str,
    source: str,
    lacking: Mapping[str, str] | None = None,
    dimensions: Mapping[str, str] | None = None,
) -> ir.Table:
    """Return the table of a log of some kind with canonical columns.

    Bids have ``advertiser_id`` string, ``day`` date, ``bid_micros`` int64, ``won`` boolean,
    ``price_micros`` int64, ``weight`` float64 and, if present, ``min_to_win_micros``,
    ``floor_micros``, ``auction_type``, ``currency``, ``click`` and ``conversion``. Histograms have
    ``advertiser_id``, ``day``, ``bin_micros``, then sums as float64. ``source`` is the name of the
    log for messages, and ``lacking`` gives, for each column that some files lack, the first such
    file. ``dimensions`` gives the column of the log for each dimension; dimension ``x`` becomes the
    string ``dimension_x``, and ``hour`` without such a column comes from the time stamp.
    """
    if kind not in KINDS:
        raise InvalidParameterError(f"kind={kind!r}: it must be {', '.join(KINDS)}")
    build = {"bids": _bids, "ipinyou": _ipinyou, "histograms": _histograms}[kind]
    return build(_Columns(raw, source, lacking or {}, dimensions or {}))


def with_campaigns(raw: ir.Table, source: str) -> ir.Table:
    """Return a raw table whose ``advertiser_id`` is ``ADVERTISER/CAMPAIGN``.

    A slash in the id of a campaign becomes an underscore, so that the last one divides the name. A
    row without a campaign belongs to the campaign ``-``.
    """
    if "campaign_id" not in raw.columns or "advertiser_id" not in raw.columns:
        raise TableError(
            f"{source}: there is no column campaign_id; forecasts by campaign need it, beside "
            "advertiser_id"
        )
    campaign = raw.campaign_id.cast("string").strip().replace("/", "_")
    campaign = campaign.nullif("").fill_null("-")
    return raw.mutate(advertiser_id=raw.advertiser_id.cast("string").strip() + "/" + campaign)


@dataclass(frozen=True, eq=False)
class _Columns:
    """The columns of a raw table, converted on request."""

    raw: ir.Table
    source: str
    lacking: Mapping[str, str]
    dimensions: Mapping[str, str] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.raw.columns

    def require(self, *names: str) -> None:
        """Raise TableError if the table, or one of its files, lacks a column."""
        missing = [name for name in names if name not in self]
        if missing:
            raise TableError(
                f"{self.source}: column{'s' * (len(missing) > 1)} {', '.join(missing)} missing; "
                f"the columns are {', '.join(self.raw.columns)}"
            )
        for name in names:
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

    def yes_or_no(self, name: str) -> Any:
        import ibis

        column, kind = self._typed(name, "boolean", "integer", "floating", "string")
        if kind == "boolean":
            return column
        yes: list[Any] = [1]
        no: list[Any] = [0]
        if kind == "string":
            column = column.strip().lower()
            yes, no = ["true", "t", "yes", "1", "1.0"], ["false", "f", "no", "0", "0.0"]
        return ibis.cases((column.isin(yes), True), (column.isin(no), False), else_=None)

    def text(self, name: str) -> Any:
        column, kind = self._typed(name, "string", "integer", "floating", "boolean")
        if kind == "floating":
            column = self.whole(name)
        return column.cast("string")

    def by_dimension(self, hour: Callable[[], Any] | None = None) -> dict[str, Any]:
        """Return the columns of the dimensions; ``hour`` reads the hour of the time stamp."""
        found = {}
        for name, column in self.dimensions.items():
            if column == "hour" and column not in self and hour is not None:
                found[f"dimension_{name}"] = hour()
            else:
                self.require(column)
                found[f"dimension_{name}"] = self.text(column).strip()
        return found

    def hour(self, name: str) -> Any:
        """Return the hour (UTC) of a time stamp, as text from 00 to 23."""
        times, kind = self._typed(name, "timestamp", "string")
        if kind == "string":
            times = times.re_search(_TIME).ifelse(times.strip(), None).try_cast("timestamp('UTC')")
        return _utc(times).hour().cast("string").lpad(2, "0")

    def day(self, name: str) -> Any:
        column, kind = self._typed(name, "date", "timestamp", "string")
        if kind == "date":
            return column
        if kind == "timestamp":
            return _utc(column).date()
        times = column.re_search(_TIME).ifelse(column.strip(), None)
        return _utc(times.try_cast("timestamp('UTC')")).date()

    def _typed(self, name: str, *kinds: str) -> tuple[Any, str]:
        column = self.raw[name]
        dtype = column.type()
        # Ibis has no type for DuckDB's NULL, the type of an empty Parquet column
        is_empty = dtype.is_unknown() and "NULL" in str(getattr(dtype, "raw_type", ""))
        if dtype.is_null() or is_empty:
            return column.cast("string"), "string"
        for kind in kinds:
            if getattr(dtype, f"is_{kind}")():
                return column, kind
        raise TableError(
            f"{self.source}: column {name} is of type {dtype}; it must be {' or '.join(kinds)}"
        )


def _bids(columns: _Columns) -> ir.Table:
    import ibis

    when = "ts" if "ts" in columns and ("day" not in columns or "day" in columns.lacking) else "day"
    columns.require("advertiser_id", when, "bid_micros", "won", "price_micros")
    return columns.raw.select(
        advertiser_id=columns.text("advertiser_id"),
        day=columns.day(when),
        bid_micros=columns.whole("bid_micros"),
        won=columns.yes_or_no("won"),
        price_micros=columns.whole("price_micros"),
        weight=columns.number("weight") if "weight" in columns else ibis.literal(1.0),
        **columns.present(("min_to_win_micros", "floor_micros", "auction_type"), columns.whole),
        **columns.present(("currency",), columns.text),
        **columns.present(("click", "conversion"), columns.yes_or_no),
        **columns.by_dimension((lambda: columns.hour("ts")) if "ts" in columns else None),
    )


def _ipinyou(columns: _Columns) -> ir.Table:
    import ibis

    raw = columns.raw
    if "field_23" in columns:
        raw = raw.select(**{name: raw[f"field_{i}"] for name, i in _IPINYOU_FIELDS.items()})
        # a click repeats its impression with another log type
        raw = raw.filter(raw.log_type.strip() == "1")
        columns = _Columns(raw, columns.source, {}, columns.dimensions)
    columns.require("advertiser_id", "timestamp", "bid_price", "pay_price")
    stamp = columns.text("timestamp")
    dashed = stamp[0:4] + "-" + stamp[4:6] + "-" + stamp[6:8]
    fields = {
        "bid_micros": "bid_price",
        "price_micros": "pay_price",
        "floor_micros": "slot_floor_price",
    }
    micros = {
        name: _micros_of_fen(columns.whole(field))
        for name, field in fields.items()
        if field in columns
    }
    return raw.select(
        advertiser_id=columns.text("advertiser_id"),
        day=stamp.re_search(_DAY).ifelse(dashed, None).try_cast("date"),
        won=ibis.literal(True),
        weight=ibis.literal(1.0),
        currency=ibis.literal("CNY"),
        **micros,
        **columns.present(("click",), columns.yes_or_no),
        **columns.by_dimension(lambda: stamp[8:10]),
    )


def _histograms(columns: _Columns) -> ir.Table:
    columns.require("advertiser_id", "day", "bin_micros", "bids", "wins", "cost_micros")
    return columns.raw.select(
        advertiser_id=columns.text("advertiser_id"),
        day=columns.day("day"),
        bin_micros=columns.whole("bin_micros"),
        **columns.present(SUMS, columns.number),
        **columns.present(("auction_type",), columns.whole),
        **columns.present(("currency",), columns.text),
        **columns.by_dimension(),
    )


def _micros_of_fen(fen: Any) -> Any:
    most = MOST_MICROS // _MICROS_PER_FEN
    return fen.between(-most, most).ifelse(fen * _MICROS_PER_FEN, None)


def _utc(times: Any) -> Any:
    """Return times in UTC, without a zone.

    For a time with a zone, DuckDB's own conversion is five times slower than this one through
    microseconds, which are always in UTC.
    """
    import ibis

    if times.type().timezone is None or times.get_backend().name != "duckdb":
        return times

    @ibis.udf.scalar.builtin(signature=(("timestamp('UTC')",), "int64"))
    def epoch_us(times: Any) -> Any: ...

    @ibis.udf.scalar.builtin(signature=(("int64",), "timestamp"))
    def make_timestamp(microseconds: Any) -> Any: ...

    return make_timestamp(epoch_us(times))
