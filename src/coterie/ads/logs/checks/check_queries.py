"""Check queries: what checks ask of the engine that holds a log.

One pass gathers rows into cells, of which there are no more than in a histogram; what is wrong is
counted on these. Further queries bring a few rows as examples and look for repeated rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.ads.logs.amount_codes import MOST_MICROS, by_bisection
from coterie.ads.logs.bid_logs import AUCTIONS, BidLogs
from coterie.ads.logs.checks.check_rules import WRITTEN, RowRule
from coterie.ads.logs.checks.faults import LONGEST_EXAMPLE
from coterie.engines.queries import fetch

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = [
    "EXAMPLES",
    "RowCells",
    "as_written",
    "cells_query",
    "checked_rows",
    "examples_query",
    "person_columns",
    "read_cells",
    "repeats_query",
]

#: The most examples of one fault.
EXAMPLES = 3

_LARGEST = [10 ** (d + 2) - 1 for d in range(14)]  # the largest amount that drops d digits
#: Fields of iPinYou's log without a header that tell of the person who saw the page.
_IPINYOU_PERSON = {
    "field_3": "field 4 (iPinYou id)",
    "field_4": "field 5 (user agent)",
    "field_5": "field 6 (IP)",
    "field_10": "field 11 (URL)",
    "field_11": "field 12 (anonymous URL)",
    "field_23": "field 24 (user tags)",
}
_PERSON = re.compile(
    r"(^|_)(ip(v[46])?|ip_?addr(ess)?|e?mail|phone|msisdn|cookies?|idf[av]|gaid|aaid|maid|ifa|imei"
    r"|(user|device|visitor|person|session|cookie|ipinyou)_?(id|name|key|tags?)|uid"
    r"|user_?agent|ua|url|uri|referr?er|lat(itude)?|lon(gitude)?|lng)(_|$)"
)
#: Columns that tell which row it is, by all names they may have.
_TELLING = (
    *("advertiser_id", "ts", "day", "bid_micros", "won", "price_micros"),
    *("timestamp", "bid_price", "pay_price"),
    *("field_22", "field_1", "field_19", "field_20"),
)


@dataclass(frozen=True)
class RowCells:
    """Rows that agree in advertiser, day, height of the bid and faults; arrays of N cells.

    Attributes
    ----------
    advertisers : list of str
        Sorted.
    advertiser : (N,) int array
        Index into ``advertisers``, −1 where there is none.
    day : (N,) datetime64[D] array
        NaT where there is none.
    amount : (N,) int array
        The bid in micros to two significant digits, the bin in a histogram; 0 where there is none.
    faults : (N,) int array
        Bit k is set where the rows break rule k.
    auction_type, currency : (N,) arrays of int and of str
        0 and empty where the log does not say.
    rows : (N,) int array
    bids, wins, cost : (N,) float arrays
        As they count in histograms, cost in micros.
    """

    advertisers: list[str]
    advertiser: NDArray[np.int64]
    day: NDArray[np.datetime64]
    amount: NDArray[np.int64]
    faults: NDArray[np.int64]
    auction_type: NDArray[np.int64]
    currency: NDArray[np.str_]
    rows: NDArray[np.int64]
    bids: NDArray[np.float64]
    wins: NDArray[np.float64]
    cost: NDArray[np.float64]


def as_written(logs: BidLogs) -> ir.Table:
    """The log with all the columns it has, before any of them was read as ours."""
    from ibis.expr.operations import Filter

    raw = _under(logs.table)
    if raw is None:
        return logs.table
    node = raw.op()
    if logs.kind == "ipinyou" and isinstance(node, Filter):
        # of the log without a header a few fields were named and the impressions kept
        named = _under(node.parent.to_expr())
        return raw if named is None else named
    return raw


def checked_rows(logs: BidLogs) -> ir.Table:
    """The rows of a log, with what stands in it beside the canonical columns.

    Returns
    -------
    ibis table
        The canonical columns, and ``written_X`` for every X of another type than the log's.
    """
    raw = _under(logs.table)
    if raw is None:
        return logs.table
    values = {name: value.to_expr() for name, value in logs.table.op().values.items()}
    written = {}
    for name, value in values.items():
        for source in _fields(value, raw):
            if _may_be_unreadable(raw[source].type(), value.type()):
                written[WRITTEN + name] = raw[source]
    return raw.select(**values, **written)


def cells_query(rows: ir.Table, rules: Sequence[RowRule], logs: BidLogs) -> ir.Table:
    """The cells of a log, gathered in one pass of its engine."""
    import ibis

    zero = ibis.literal(0, type="int64")
    faults = zero
    for k, rule in enumerate(rules):
        faults += rule.broken.fill_null(False).ifelse(ibis.literal(1 << k, type="int64"), zero)
    keys = {"advertiser_id": rows.advertiser_id, "day": rows.day, "faults": faults}
    # whatever may stand there, the number of cells is bounded
    if "auction_type" in rows.columns:
        known = rows.auction_type.isin(list(AUCTIONS)).fill_null(False)
        keys["auction_type"] = known.ifelse(rows.auction_type, 0)
    if "currency" in rows.columns:
        keys["currency"] = (rows.currency.length() <= 3).ifelse(rows.currency, "other")
    if logs.kind == "histograms":
        values = {
            "amount": rows.bin_micros,
            "bids": rows.bids.fill_null(0.0),
            "wins": rows.wins.fill_null(0.0),
            "cost": rows.cost_micros.fill_null(0.0),
        }
    else:
        values = _of_bids(rows, logs.weighted)
    marked = rows.select(**keys, **values)
    return marked.group_by(*keys, "amount").agg(
        rows=marked.count(), **{name: marked[name].sum() for name in ("bids", "wins", "cost")}
    )


def read_cells(rows: ir.Table, rules: Sequence[RowRule], logs: BidLogs) -> RowCells:
    """Run :func:`cells_query` and bring the cells here."""
    found = fetch(cells_query(rows, rules, logs))
    n = found.num_rows
    names, advertiser = _numbered(found["advertiser_id"])
    days = found["day"].cast(pa.date32()).cast(pa.int32())

    def whole(name: str) -> NDArray[np.int64]:
        if name not in found.column_names:
            return np.zeros(n, dtype=np.int64)
        return found[name].fill_null(0).to_numpy().astype(np.int64)

    def number(name: str) -> NDArray[np.float64]:
        return found[name].fill_null(0).to_numpy().astype(np.float64)

    has_currency = "currency" in found.column_names
    currency = found["currency"].fill_null("").to_pylist() if has_currency else [""] * n
    day = days.fill_null(0).to_numpy().astype("datetime64[D]")
    day[days.is_null().to_numpy()] = np.datetime64("NaT")
    return RowCells(
        advertisers=names,
        advertiser=advertiser,
        day=day,
        amount=whole("amount"),
        faults=whole("faults"),
        auction_type=whole("auction_type"),
        currency=np.array(currency, dtype=str),
        rows=whole("rows"),
        bids=number("bids"),
        wins=number("wins"),
        cost=number("cost"),
    )


def examples_query(rows: ir.Table, rules: Iterable[tuple[int, RowRule]]) -> ir.Table:
    """A few rows that break each of some rules, the same ones at every run.

    Parameters
    ----------
    rows : ibis table
    rules : iterable of (int, RowRule)
        Rules and the numbers to know them by.

    Returns
    -------
    ibis table
        ``rule``, the number, then all columns that the rules tell by.
    """
    import ibis

    numbered = list(rules)
    told = dict.fromkeys(name for _, rule in numbered for name in rule.columns)
    columns = ["advertiser_id", "day", *told]
    parts = []
    for number, rule in numbered:
        broken = rows.filter(rule.broken.fill_null(False))
        few = broken.select(**_to_show(broken, columns)).order_by(columns).limit(EXAMPLES)
        parts.append(few.mutate(rule=ibis.literal(number, type="int64")))
    return parts[0] if len(parts) == 1 else ibis.union(*parts)


def repeats_query(logs: BidLogs, one_in: int = 1) -> ir.Table | None:
    """How often each row stands in a log, by all columns but those that identify a person.

    Parameters
    ----------
    logs : BidLogs
    one_in : int
        Look only at one in so many of the times.

    Returns
    -------
    ibis table or None
        The columns that tell which row it is, and ``n``, how often it is there; None for a log
        without times, in which rows are alike of themselves.
    """
    raw = as_written(logs)
    time = next((name for name in ("ts", "timestamp", "field_1") if name in raw.columns), None)
    if time is None or logs.kind == "histograms":
        return None
    hidden = {*person_columns(logs), *_IPINYOU_PERSON}
    columns = [name for name in raw.columns if name not in hidden and _is_plain(raw[name].type())]
    if one_in > 1:
        raw = raw.filter(raw[time].hash() % one_in == 0)
    counted = raw.group_by(columns).agg(n=raw.count())
    shown = [name for name in _TELLING if name in columns]
    return counted.select(**_to_show(counted, shown), n=counted.n)


def person_columns(logs: BidLogs) -> list[str]:
    """The columns of a log that, by their names, may identify a person."""
    columns = as_written(logs).columns
    if "field_23" in columns:
        return list(_IPINYOU_PERSON.values())
    return [name for name in columns if _PERSON.search(_in_snake_case(name))]


def _under(table: ir.Table) -> ir.Table | None:
    """The table that a table is a selection of columns of."""
    from ibis.expr.operations import Project

    node = table.op()
    return node.parent.to_expr() if isinstance(node, Project) else None


def _fields(value: Any, raw: ir.Table) -> set[str]:
    """The columns of a table that an expression reads."""
    from ibis.expr.operations import Field

    return {field.name for field in value.op().find(Field) if field.rel == raw.op()}


def _numbered(column: pa.ChunkedArray) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct names, sorted, and the number of each row's, −1 where it has none.

    >>> _numbered(pa.chunked_array([["b", None, "a", "b"]]))
    (['a', 'b'], array([ 1, -1,  0,  1]))
    """
    encoded = pc.dictionary_encode(column).combine_chunks()
    names = encoded.dictionary.to_pylist()
    order = sorted(range(len(names)), key=names.__getitem__)
    # the last place is for those that have none
    rank = np.full(len(names) + 1, -1)
    rank[order] = np.arange(len(names))
    return [names[i] for i in order], rank[encoded.indices.fill_null(-1).to_numpy()]


def _may_be_unreadable(theirs: Any, ours: Any) -> bool:
    if ours.is_date():
        return not theirs.is_temporal()
    if ours.is_floating():
        return not theirs.is_numeric()
    same = (theirs.is_integer() and ours.is_integer()) or (
        theirs.is_boolean() and ours.is_boolean()
    )
    return not (ours.is_string() or same)


def _of_bids(rows: ir.Table, weighted: bool) -> dict[str, Any]:
    import ibis

    bid, price = rows.bid_micros, rows.price_micros
    # not the column: Spark takes a constant 1.0 for a decimal
    weight = rows.weight if weighted else ibis.literal(1, type="int64")
    # no sum is too large for a float, and whole ones are exact up to 9·10^15
    cost = price.cast("float64") * weight
    return {
        "amount": bid.between(1, MOST_MICROS).ifelse(_two_digits(bid), ibis.null("int64")),
        "bids": weight,
        "wins": rows.won.ifelse(weight, 0),
        "cost": (rows.won & price.between(0, MOST_MICROS)).ifelse(cost, 0.0),
    }


def _two_digits(amount: Any) -> Any:
    """An amount from 1 to 10^15 rounded to two significant digits, by whole numbers alone."""

    def rounded(dropped: int) -> Any:
        step = 10**dropped
        above = amount + step // 2
        return above - above % step

    return by_bisection(amount, _LARGEST, rounded)


def _to_show(rows: ir.Table, columns: Iterable[str]) -> dict[str, Any]:
    """Columns as examples have them: numbers as they are, all else as text of some length."""

    def shown(column: Any) -> Any:
        dtype = column.type()
        if dtype.is_numeric() or dtype.is_boolean():
            return column
        if dtype.is_timestamp():
            return column.strftime("%Y-%m-%d %H:%M:%S")
        return column.cast("string")[:LONGEST_EXAMPLE]

    return {name: shown(rows[name]) for name in columns}


def _is_plain(dtype: Any) -> bool:
    return bool(
        dtype.is_numeric() or dtype.is_boolean() or dtype.is_string() or dtype.is_temporal()
    )


def _in_snake_case(name: str) -> str:
    """The words of a name, parted by underscores.

    >>> _in_snake_case("UserAgent"), _in_snake_case("page-URL"), _in_snake_case("IP")
    ('user_agent', 'page_url', 'ip')
    """
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"\W+", "_", parted).lower()
