"""Column recognition: decide how the columns of a log are read, from options, names and values.

A name is compared without case, blanks, dots and underscores, and without words for units:
``Bid Price (USD)`` is ``bidprice``. A canonical name always has its role. A usual name has its role
if no other column has a usual name of that role. Columns of other names that may have a required
role, such as ``price``, which is the bid in some logs and the price paid in others, are candidates.

Nothing doubtful is decided in silence: what is left open is an error, whose note is a query that
settles it.
"""

from __future__ import annotations

import datetime
import functools
import re
import statistics
import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coterie.ads.logs.log_columns import NO, UNITS, YES, ColumnReading, is_time
from coterie.errors import InvalidParameterError, TableError
from coterie.tables.columns import sql_name, sql_text
from coterie.tables.engines import fetch

if TYPE_CHECKING:
    import ibis.expr.types as ir

#: The canonical column of each role.
CANONICAL = {
    "advertiser": "advertiser_id",
    "time": "ts",
    "day": "day",
    "bid": "bid_micros",
    "won": "won",
    "price": "price_micros",
    "min_to_win": "min_to_win_micros",
    "floor": "floor_micros",
    "auction_type": "auction_type",
    "currency": "currency",
    "weight": "weight",
    "click": "click",
    "conversion": "conversion",
    "campaign": "campaign_id",
}
#: Roles that hold money.
AMOUNTS = ("bid", "price", "min_to_win", "floor")
#: Roles that a log must have, next to a time or a day.
REQUIRED = ("advertiser", "bid", "won", "price")

_USUAL = {
    "advertiser": "advertiser advertiserid advid accountid",
    "time": "ts timestamp time datetime eventtime bidtime requesttime auctiontime eventtimestamp "
    "createdat occurredat unixtime epoch timeusec timeusec2 eventtimeusec2",
    "day": "day date eventdate eventday",
    "bid": "bid bidprice bidamount bidvalue submittedbid",
    "won": "won win iswin iswon winflag wonauction bidwon iswinner",
    "price": "payprice pricepaid paidprice clearingprice winprice winningprice auctionprice "
    "clearprice",
    "min_to_win": "mintowin minimumtowin minbidtowin minimumbidtowin auctionmintowin",
    "floor": "floor floorprice bidfloor impbidfloor reserveprice slotfloorprice pricefloor",
    "auction_type": "auctiontype",
    "currency": "currency currencycode cur",
    "weight": "weight sampleweight samplingweight",
    "click": "click clicked isclick isclicked",
    "conversion": "conversion converted isconversion",
    "campaign": "campaign campaignid",
}
_DOUBTFUL = {
    "advertiser": "seat seatid buyer buyerid client clientid advertisername brand adomain",
    "day": "dt",
    "bid": "price cpm maxbid",
    "won": "result outcome status bidstatus auctionresult",
    "price": "price paid cost spend",
}
_UNIT_WORDS = frozenset(
    {"micros", "micro", "cents", "cent", "fen", "pence", "cpm", "ecpm", "dollars", "euros"}
    | {"usd", "eur", "gbp", "chf", "cny", "jpy", "inr", "aud", "cad"}
)

#: Rows in which the values of columns are looked at.
_SAMPLE = 10_000
#: Forms of days and of clock times that a suggested query may have.
_DAYS = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y"),
    *("%Y/%m/%d", "%Y%m%d", "%d %b %Y"),
)
_CLOCKS = ("", " %H:%M:%S", " %H:%M", " %I:%M:%S %p", " %I:%M %p", ", %H:%M:%S", "%H%M%S", "%H")


def reading_of(
    raw: ir.Table,
    kind: str,
    source: str,
    columns: Mapping[str, str],
    amounts: str,
    time_zone: str,
    currency: str,
) -> ColumnReading:
    """Return how the columns of a raw table are read; the options are those of ``open_logs``.

    A few rows of columns that have no canonical name are read.
    """
    given = _given_columns(columns)
    if amounts and amounts not in UNITS:
        raise InvalidParameterError(
            f"amounts={amounts!r}: the units are {', '.join(UNITS)}; without /impression they are "
            "for a thousand impressions"
        )
    if currency and not re.fullmatch("[A-Z]{3}", currency):
        raise InvalidParameterError(
            f"currency={currency!r}: it must be a code of three letters, such as EUR"
        )
    if time_zone and time_zone not in _zones():
        raise InvalidParameterError(
            f"time_zone={time_zone!r}: there is no such time zone; write it like Europe/Berlin, "
            "America/New_York or UTC"
        )
    zone = time_zone or "UTC"
    if kind != "bids":
        if given or amounts or time_zone or currency:
            raise InvalidParameterError(
                f"{source}: columns, amounts, zones and currencies are said of logs of bids; this "
                f"log is read as {kind}"
            )
        return ColumnReading()
    required = {CANONICAL[role] for role in REQUIRED}
    is_canonical = required <= set(raw.columns) and not {"ts", "day"}.isdisjoint(raw.columns)
    has_own_currency = currency and "currency" in raw.columns
    if is_canonical and not (given or amounts or has_own_currency):
        return ColumnReading(zone=zone, currency=currency)
    found = _Recognition(raw, given, amounts, currency)
    problems = [*found.problems()]
    if problems:
        error = TableError(
            f"{source}: {'; '.join(problems)}. The columns are {', '.join(raw.columns)}; say it by "
            "options, or correct the query that comes with this error, and give it as sql "
            "(to the program: --sql FILE)"
        )
        error.add_note(found.query())
        raise error
    return ColumnReading(
        names={CANONICAL[role]: name for role, name in found.chosen.items()},
        units={CANONICAL[role]: unit for role, unit in found.units.items()},
        zone=zone,
        currency=currency,
        samples=found.values,
    )


@functools.cache
def _zones() -> frozenset[str]:
    """Return the names of time zones, for which Python reads many files."""
    return frozenset(zoneinfo.available_timezones())


def numbers_in_sample(values: Sequence[Any], decimal_comma: bool = False) -> list[float]:
    """Return the numbers above 0 among values, which may be texts.

    >>> numbers_in_sample(["2,50", "x", 3, 0], decimal_comma=True)
    [2.5, 3.0]
    """
    numbers = []
    for value in values:
        try:
            number = float(str(value).replace(",", ".") if decimal_comma else value)
        except ValueError:
            continue
        if number > 0:
            numbers.append(number)
    return numbers


def _given_columns(columns: Mapping[str, str]) -> dict[str, str]:
    """Return the columns that the user named, by role; refuse a role or a column with two."""
    roles = {name: role for role, name in CANONICAL.items()} | {role: role for role in CANONICAL}
    given: dict[str, str] = {}
    for name, column in columns.items():
        role = roles.get(name)
        if role is None:
            raise InvalidParameterError(
                f"{name!r} is no role of a column; the roles are {', '.join(CANONICAL)}"
            )
        if role in given:
            raise InvalidParameterError(f"columns: {role} is given twice")
        for other, same in given.items():
            # only a time has a day too
            if column and same == column and {role, other} != {"time", "day"}:
                raise InvalidParameterError(
                    f"columns: {column} is given for {other} and {role}; a column has one role"
                )
        given[role] = column
    return given


def columns_by_role(
    columns: Sequence[str], given: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the column of each role, and the candidates of roles that are not decided.

    ``given`` has the columns that the user named, by role; an empty name leaves the role out.

    >>> columns_by_role(["AdvertiserID", "bid_price", "price", "ts"], {})
    ({'time': 'ts', 'advertiser': 'AdvertiserID', 'bid': 'bid_price'}, {'price': ['price']})
    """
    chosen = dict(given)
    for role, name in CANONICAL.items():
        if role not in chosen and name in columns and name not in given.values():
            chosen[role] = name
    candidates: dict[str, list[str]] = {}
    for names, are_decisive in ((_USUAL, True), (_DOUBTFUL, False)):
        free = [name for name in columns if name not in chosen.values()]
        for role, words in names.items():
            found = [name for name in free if _plain(name) in words.split()]
            if role in chosen or role in candidates or not found:
                continue
            if are_decisive and len(found) == 1:
                chosen[role] = found[0]
            else:
                candidates[role] = found
    return {role: name for role, name in chosen.items() if name}, candidates


def says_micros(name: str) -> bool:
    """Return whether a column name says that its amounts are micros.

    >>> says_micros("Price paid (Micros)"), says_micros("bid_usd")
    (True, False)
    """
    return bool({"micros", "micro"} & set(words_of(name)))


def _plain(name: str) -> str:
    """Return a name for comparisons.

    >>> _plain("Bid Price (USD)"), _plain("imp.0.bidfloor"), _plain("bid_micros"), _plain("CPM")
    ('bidprice', 'impbidfloor', 'bid', 'cpm')
    """
    words = words_of(re.sub(r"\.\d+(?=\.|$)", "", name))
    return "".join([word for word in words if word not in _UNIT_WORDS] or words)


def words_of(name: str) -> list[str]:
    """Return the words of a column name in lower case.

    >>> words_of("UserAgent"), words_of("page-URL"), words_of("bid_id")
    (['user', 'agent'], ['page', 'url'], ['bid', 'id'])
    """
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return [word for word in re.split(r"[\W_]+", parted.lower()) if word]


class _Recognition:
    """What names and values say about the columns of a table of bids."""

    def __init__(
        self, raw: ir.Table, given: Mapping[str, str], amounts: str, currency: str
    ) -> None:
        self.raw, self.given, self.amounts, self.currency = raw, given, amounts, currency
        chosen, candidates = columns_by_role(raw.columns, given)
        for one, other in (("time", "day"), ("day", "time")):
            if one in chosen:  # one of the two is enough
                candidates.pop(other, None)
        self.absent = {role: name for role, name in chosen.items() if name not in raw.columns}
        self.chosen = {role: chosen[role] for role in CANONICAL if chosen.get(role) in raw.columns}
        self.candidates = candidates
        whole = amounts.partition("/")[0]
        self.units = {
            role: "micros" if says_micros(name) and whole != "micros" else amounts
            for role, name in self.chosen.items()
            if role in AMOUNTS
        }
        # the columns of a suggested query
        self.columns = self.chosen | {role: names[0] for role, names in candidates.items()}
        names = dict.fromkeys(self.columns.values())
        rows = fetch(raw.select(*names).limit(_SAMPLE)).to_pydict() if names else {}
        self.values = {
            name: [value for value in values if value is not None and str(value).strip()]
            for name, values in rows.items()
        }

    def problems(self) -> Iterator[str]:
        """Yield what is not decided, with the option that decides it if there is one."""
        for role, name in self.absent.items():
            yield f"there is no column {name} for the role {role}"
        known = {*self.chosen, *self.candidates, *self.absent}
        missing = [role for role in REQUIRED if role not in known]
        for role in missing if {"time", "day"} & known else [*missing, "time"]:
            yield f"no column has the role {role}: say --column {role}=NAME"
        if self.currency and "currency" in self.chosen:
            named = self.chosen["currency"]
            yield f"column {named} has the currency: say --column currency=, or no --currency"
        for role, names in self.candidates.items():
            options = " or ".join(f"--column {role}={name}" for name in names)
            none = "" if role in REQUIRED else f", or --column {role}= for none of them"
            yield f"the {role} may be column {' or '.join(names)}: say {options}{none}"
        unknown = [role for role, unit in self.units.items() if not unit]
        if unknown:
            amounts = " and ".join(f"{role} (column {self.chosen[role]})" for role in unknown)
            median = self._median(self.chosen[unknown[0]])
            options = ", ".join(
                f"--amounts {unit} if this is {_shown(median * UNITS[unit] / 1e6)} CPM"
                for unit in ("currency", "cents", "micros")
            )
            yield (
                f"the unit of {amounts} is unknown; the median {unknown[0]} is {_shown(median)}: "
                f"say {options}; add /impression to the unit if amounts are for one impression"
            )
        for role, name in self.chosen.items():
            doubt = self._read(role, name)[2]
            if doubt:
                yield doubt

    def query(self) -> str:
        """Return a query of the table ``log`` that settles what is open, for users to correct."""
        lines = []
        needed = [role for role in REQUIRED if role not in self.columns]
        if not {"time", "day"} & self.columns.keys():
            needed.append("time")
        for role, canonical in CANONICAL.items():
            if role in self.columns:
                value, remark, _ = self._read(role, self.columns[role])
                others = " or ".join(map(sql_name, self.candidates.get(role, ())[1:]))
                remarks = [one for one in (remark, others and f"or {others}") if one]
            elif role == "won" and role in needed and "price" in self.columns:
                price = sql_name(self.columns["price"])
                value = f"coalesce(CAST({price} AS DOUBLE), 0) > 0"
                remarks = ["if only bids that won have a price"]
            elif role in needed:
                value, remarks = "NULL", [f"which column has the role {role}?"]
            else:
                continue
            said = "; ".join(remarks).replace("*/", "* /")
            lines.append(f"    {value} AS {canonical}" + (f" /* {said} */" if said else ""))
        query = "SELECT\n" + ",\n".join(lines) + "\nFROM log"
        if self.raw.get_backend().name != "pyspark":
            return query
        import sqlglot

        return sqlglot.transpile(query, read="duckdb", write="spark", pretty=True)[0]

    def _read(self, role: str, name: str) -> tuple[str, str, str]:
        """Return the SQL for a column in a role, a remark for the user, and what is in doubt."""
        quoted, values = sql_name(name), self.values.get(name, [])
        is_text = self.raw[name].type().is_string()
        if role in AMOUNTS:
            doubt = ""
            if self._has_comma(name):
                example = next(value for value in values if "," in str(value))
                doubt = (
                    f"numbers in column {name} have a comma, as in {example}, which SQL replaces"
                )
            if is_text:
                number = f"replace({quoted}, ',', '.')" if doubt else quoted
                quoted = f"CAST({number} AS DOUBLE)"
            unit = self.units.get(role) or ("micros" if says_micros(name) else self.amounts)
            if unit:
                return quoted if UNITS[unit] == 1 else f"{quoted} * {UNITS[unit]}", "", doubt
            remark = (
                f"if a median of {_shown(self._median(name))} is of the currency; 10000 for cents, "
                "1 for micros, 1000 times as much if amounts are for one impression"
            )
            return f"{quoted} * {UNITS['currency']}", remark if role == "bid" else "", doubt
        if not (is_text and values):
            return quoted, "", ""
        if role in {"time", "day"} and not any(map(is_time, values)):
            doubt = f"times in column {name}, such as {values[0]}, are read by SQL only"
            every = (day + clock for day in _DAYS for clock in _CLOCKS)
            forms = [form for form in every if _fits(values, form)]
            others = ", or ".join(map(sql_text, forms[1:]))
            remark = f"or {others}" if others else "" if forms else f"the form of {values[0]}"
            return f"strptime({quoted}, {sql_text((forms or ['%d.%m.%Y'])[0])})", remark, doubt
        if role == "won":
            found = dict.fromkeys(value.strip() for value in values)
            answers = {value.lower() for value in found}
            # some values may be wrong, but not all of one kind
            if not (answers <= {*YES, *NO} or (answers & {*YES} and answers & {*NO})):
                doubt = (
                    f"column {name} does not say yes or no, but {values[0]}, which SQL tells apart"
                )
                remark = f"its values are {', '.join(list(found)[:5])}"
                return f"trim({quoted}) = {sql_text(values[0].strip())}", remark, doubt
        return quoted, "", ""

    def _median(self, name: str) -> float:
        numbers = numbers_in_sample(self.values.get(name, ()), self._has_comma(name))
        return statistics.median(numbers) if numbers else 0.0

    def _has_comma(self, name: str) -> bool:
        values = self.values.get(name, ())
        return len(numbers_in_sample(values, decimal_comma=True)) > len(numbers_in_sample(values))


def _fits(values: Sequence[str], form: str) -> bool:
    try:
        for value in values:
            datetime.datetime.strptime(value.strip(), form)
    except ValueError:
        return False
    return True


def _shown(number: float) -> str:
    return f"{number:.10f}".rstrip("0").rstrip(".") if number < 0.1 else f"{number:,.6g}"
