"""Log checks: find all faults of a log, count them, and show examples.

:data:`~coterie.ads.logs.checks.faults.FAULT_CODES` lists every fault. Amounts may differ by 0.1 %
and one micro before a rule about prices is broken.
"""

from __future__ import annotations

import functools
import logging
import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.ads.logs.bid_logs import MANY_WINS, BidLogs, read_descriptions, winners_pay_bids
from coterie.ads.logs.checks.check_queries import (
    EXAMPLES,
    UNIT_FACTOR,
    LogSums,
    RowCells,
    read_cells,
    read_medians,
    shares,
    sum_groups,
)
from coterie.ads.logs.checks.faults import (
    DOUBTS,
    FAULT_CODES,
    LONGEST_EXAMPLE,
    Fault,
    RowRule,
    fault_of,
    row_rules,
)
from coterie.ads.logs.column_recognition import CANONICAL, numbers_in_sample, words_of
from coterie.ads.logs.log_columns import MISSING_TEXTS, NO, WRITTEN
from coterie.arrays import AnyArray, Bools, Floats
from coterie.errors import TableError
from coterie.runtime.wording import number_of
from coterie.tables.engines import fetch

if TYPE_CHECKING:
    import ibis.expr.types as ir

log = logging.getLogger("coterie")

#: Repeats are searched among this many rows; longer logs are sampled by time.
_MOST_FOR_REPEATS = 2_000_000
_MICROS = 1e6
_PERSON = re.compile(
    r"(^|_)(ip(v[46])?|ip_?addr(ess)?|e?mail|phone|msisdn|cookies?|idf[av]|gaid|aaid|maid|ifa|imei"
    r"|(user|device|visitor|person|session|cookie|ipinyou)_?(id|name|key|tags?)|uid"
    r"|user_?agent|ua|url|uri|referr?er|lat(itude)?|lon(gitude)?|lng)(_|$)"
)
#: Columns shown in examples of repeated rows.
_IDENTIFYING = ("advertiser_id", "ts", "day", "bid_micros", "won", "price_micros")
#: Columns with more values are not compared by value.
_MOST_VALUES = 100
#: Units of whole numbers.
_WHOLE_UNITS = ("micros", "cents", "micros/impression")
#: Fewer amounts may all be whole by chance.
_FEWEST_AMOUNTS = 20
#: Currencies of small units, whose amounts are whole numbers and often above 1000.
WHOLE_CURRENCIES = frozenset(
    {"CLP", "COP", "CRC", "HUF", "IDR", "IQD", "IRR", "ISK", "JPY", "KRW", "LAK", "LBP", "MMK"}
    | {"MNT", "NGN", "PYG", "RWF", "TZS", "UGX", "UZS", "VND", "XAF", "XOF"}
)
#: Median bids in micros per thousand impressions; others suggest another unit.
_LEAST_MEDIAN, _MOST_MEDIAN, _MOST_WHOLE = 10**4, 10**9, 10**11
#: A mean share of the bid paid below this, or a quarter of the usual, suggests another unit; of an
#: advertiser that hardly lost, below a fifth of this.
_LEAST_SHARE = 0.1
#: Shares of wins that are free, or cost the bid, from which on it is no accident.
_FREE_WINS, _MANY_EQUAL = 0.01, 0.05
#: A usual share of the bid paid below this is one of amounts in different units.
_OTHER_UNIT = 1e-4
#: A share of rows that lost and were clicked, from which on it is no accident of the join.
_LOST_CLICKS = 1e-4
#: Of bids that win as often as they lose, the least share with a price close to the bid.
_CLOSE_PRICES = 0.06
#: A day with no win is a fault if this many are expected.
_FEWEST_WINS = 20
_FEWEST_BIDS = 10
#: Fewer bids may all win by chance.
_FEWEST_WITHOUT_LOSS = 50
_THIN_DAY = 1 / 3
#: Days are scattered if more than this many, and more than the log has, are missing.
_LONG_GAPS = 20
#: Odds to win over the usual ones that days, and values of columns, without missing losses do not
#: have, and the fall of the share of the bid paid that goes with e-fold odds at least.
_FEW_LOSSES, _NO_LOSSES, _FALL_OF_SHARE = 7.0, 100.0, 0.03


@dataclass(frozen=True)
class LogOverview:
    """Overview of a log, over the rows that histograms count."""

    source: str  # path or name
    kind: str  # "bids" or "histograms"
    engine: str
    rows: int  # all rows
    counted_rows: int  # rows that histograms count
    advertisers: int  # advertisers with a row
    days: int  # days with a bid
    first_day: str | None  # as in 2026-03-02
    last_day: str | None
    missing_days: list[str]  # days without a bid between the first and the last
    bids: float  # for a sampled log, the sum of weights, like wins
    wins: float
    win_rate: float | None  # wins / bids
    spend: float  # sum of prices in units of the currency; prices are for 1,000 impressions
    median_bid: float | None  # in the currency for 1,000 impressions, to two significant digits
    auction: str  # "first", "second" or "mixed"
    auction_source: str  # "given", "column", "prices" or "default", as in BidLogs
    revealed: str  # "paid", "minimum" or "none", as in BidHistograms
    currency: str  # ISO 4217; empty if the log has none, "mixed" if it has several
    weighted: bool  # whether the log is a sample with weights
    texts: int | None  # advertisers in the table of texts; None if there is no such table
    advertisers_with_text: int
    notes: list[str]  # what to know about how the log was read


@dataclass(frozen=True)
class LogCheck:
    """Result of the checks of a log."""

    overview: LogOverview
    faults: list[Fault]  # errors first

    def __repr__(self) -> str:
        counted = number_of(self.overview.rows, "row")
        errors = number_of(len(self.errors), "error")
        warnings = number_of(len(self.warnings), "warning")
        return f"LogCheck({self.overview.source}: {counted}, {errors}, {warnings})"

    @property
    def errors(self) -> list[Fault]:
        """The faults that make results wrong."""
        return [fault for fault in self.faults if fault.severity == "error"]

    @property
    def warnings(self) -> list[Fault]:
        """The other faults."""
        return [fault for fault in self.faults if fault.severity == "warning"]

    @property
    def doubts(self) -> list[Fault]:
        """The warnings that the log may be misread, rather than show too little."""
        return [fault for fault in self.warnings if fault.code in DOUBTS]

    @property
    def ok(self) -> bool:
        """Whether nothing makes results wrong."""
        return not self.errors

    def as_dict(self) -> dict[str, Any]:
        """Return the result as values that JSON can store."""
        return {
            "ok": self.ok,
            "overview": asdict(self.overview),
            "faults": [fault.as_dict() for fault in self.faults],
        }


def check_logs(logs: BidLogs) -> LogCheck:
    """Check every row of a log against every rule, in two passes of its engine.

    The log is not changed. Further queries fetch examples of the faults found; these contain only
    the columns that show the fault, and none that may identify a person.

    Parameters
    ----------
    logs : BidLogs
        From :func:`~coterie.ads.logs.bid_logs.open_logs`.

    Returns
    -------
    LogCheck

    Raises
    ------
    TableError
        The engine cannot read the whole log.

    Examples
    --------
    >>> import ibis, pyarrow as pa
    >>> from coterie.ads.logs.bid_logs import open_logs
    >>> rows = pa.table({"advertiser_id": ["a", "b", "b"], "day": ["2026-03-02"] * 3,
    ...                  "bid_micros": ["2500000", "many", "1200000"], "won": [1, 0, 1],
    ...                  "price_micros": [1_900_000, None, 1_500_000]})
    >>> check = check_logs(open_logs(ibis.memtable(rows)))
    >>> for fault in check.errors:
    ...     print(fault.code, fault.count, fault.examples[0])
    unreadable 1 {'advertiser_id': 'b', 'day': '2026-03-02', 'bid_micros': 'many'}
    price_above_bid 1 {'advertiser_id': 'b', 'day': '2026-03-02', 'bid_micros': 1200000,
                       'won': True, 'price_micros': 1500000}
    >>> check.ok, check.overview.counted_rows
    (False, 2)
    """
    rows = logs.rows
    rules = row_rules(rows, logs)
    log.info("Checking every row")
    median, medians = read_medians(rows, rules, logs)
    cells = read_cells(rows, rules, logs, median)
    left_out = sum(1 << k for k, rule in enumerate(rules) if rule.leaves_out)
    is_counted = (cells.faults & left_out) == 0
    read_one = functools.partial(read_medians, rows, rules, logs)
    sums = LogSums(cells, is_counted, median, medians, lambda name: read_one(name)[0])
    texts: dict[str, str] = {}
    faults, texts_are_read = [], True
    try:
        texts = read_descriptions(logs)
    except TableError as error:
        faults.append(fault_of("texts_unreadable", 1, 1, problem=str(error)))
        texts_are_read = False
    raw = _raw_table(logs)
    personal = [name for name in raw.columns if _PERSON.search("_".join(words_of(name)))]
    if personal:  # the examples list all of them, not only three
        examples = [{"column": name} for name in personal]
        faults.append(fault_of("person_columns", len(personal), len(raw.columns), examples))
    faults += _reading_faults(logs, sums.rows, _attribute(logs, "currency", "mixed"))
    if sums.rows:
        faults += [
            *_broken_rules(rows, rules, sums),
            *_repeats(logs, sums.rows, personal),
            *_values_without_losses(logs, sums.rows, personal),
            *aggregate_faults(sums, logs),
        ]
        if texts_are_read:
            faults += text_faults(sums, texts, logs.texts is not None)
    else:
        faults.append(fault_of("no_rows", 0, 0))
    order = list(FAULT_CODES)
    return LogCheck(
        overview=_overview(logs, sums, texts),
        faults=sorted(faults, key=lambda fault: order.index(fault.code)),
    )


def _reading_faults(logs: BidLogs, rows: int, currency: str) -> Iterator[Fault]:
    """Yield the faults of reading a log; its ``rows`` have been read at least once."""
    lines = logs.ragged_lines()
    for code, hides_others in (("quote_open", True), ("line_ragged", False)):
        found = [
            {"file": line.path, "line": line.number, "fault": line.fault}
            for line in lines
            if line.hides_others == hides_others
        ]
        yield from _found(code, found, rows + len(lines))
    # amounts whose decimals contradict the unit they were read in
    units = {logs.reading.column(name): unit for name, unit in logs.reading.units.items()}
    odd: dict[str, list[dict[str, object]]] = {"amounts_with_decimals": [], "amounts_whole": []}
    for column, unit in units.items():
        numbers = numbers_in_sample(logs.reading.samples[column])
        if len(numbers) < _FEWEST_AMOUNTS:
            continue
        whole = sum(number.is_integer() for number in numbers)
        example = {"column": column, "unit": unit, "median": statistics.median(numbers)}
        if unit in _WHOLE_UNITS and 2 * whole < len(numbers):
            odd["amounts_with_decimals"].append(example)
        if unit == "currency" and whole == len(numbers) and currency not in WHOLE_CURRENCIES:
            odd["amounts_whole"].append(example)
    for code, examples in odd.items():
        yield from _found(code, examples, len(units))


def _broken_rules(rows: ir.Table, rules: Sequence[RowRule], sums: LogSums) -> Iterator[Fault]:
    import ibis

    counts = {
        k: int(sums.cells.rows[(sums.cells.faults >> k) & 1 == 1].sum()) for k in range(len(rules))
    }
    with_bid = int(sums.cells.with_bid.sum())
    broken = {
        k: rule
        for k, rule in enumerate(rules)
        # an empty column of minimums is not a fault
        if counts[k]
        and not (rule.code == "minimum_missing" and counts[k] == with_bid)
        # a few wins may be free
        and not (rule.code == "prices_zero" and counts[k] < _FREE_WINS * sums.total("priced"))
    }
    if not broken:
        return
    log.info("Fetching examples of %d faults", len(broken))
    shown = dict.fromkeys(name for rule in broken.values() for name in rule.columns)
    columns, few = ["advertiser_id", "day", *shown], []
    for k, rule in broken.items():
        faulty = rows.filter(rule.broken.fill_null(False))
        # ordered, so that they are the same in every run
        faulty = faulty.select(**_displayed(faulty, columns)).order_by(columns).limit(EXAMPLES)
        few.append(faulty.mutate(rule=ibis.literal(k, type="int64")))
    found = fetch(few[0] if len(few) == 1 else ibis.union(*few)).to_pylist()
    for k, rule in broken.items():
        examples = [
            # the original value replaces the one that could not be read
            {
                name.removeprefix(WRITTEN): _plain(row[name])
                for name in ("advertiser_id", "day", *rule.columns)
            }
            for row in found
            if row["rule"] == k
        ]
        is_many = counts[k] >= max(_FEWEST_WINS, _LOST_CLICKS * sums.rows)
        code = "clicks_on_losses" if rule.code == "click_on_loss" and is_many else rule.code
        yield fault_of(code, counts[k], sums.rows, examples, **rule.words)


def _plain(value: Any) -> Any:
    """Convert a value to one that JSON can store."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, int | float | str) or value is None else str(value)


def _raw_table(logs: BidLogs) -> ir.Table:
    """Return the table of a log with its original columns."""
    from ibis.expr.operations import Project

    node = logs.table.op()
    return node.parent.to_expr() if isinstance(node, Project) else logs.table


def _displayed(rows: ir.Table, columns: Iterable[str]) -> dict[str, Any]:
    """Return columns for examples: numbers and truth values unchanged, all else as short text."""

    def displayed(column: Any) -> Any:
        dtype = column.type()
        if dtype.is_numeric() or dtype.is_boolean():
            return column
        if dtype.is_timestamp():
            return column.strftime("%Y-%m-%d %H:%M:%S")
        return column.cast("string")[:LONGEST_EXAMPLE]

    return {name: displayed(rows[name]) for name in columns}


def _is_plain(dtype: Any) -> bool:
    return bool(
        dtype.is_numeric() or dtype.is_boolean() or dtype.is_string() or dtype.is_temporal()
    )


def _repeats(logs: BidLogs, rows: int, personal: Sequence[str]) -> Iterator[Fault]:
    raw, time = _raw_table(logs), logs.reading.column("ts")
    # without times, different auctions may have equal rows
    if time not in raw.columns or logs.kind == "histograms":
        return
    log.info("Looking for repeated rows")
    one_in = -(-rows // _MOST_FOR_REPEATS)
    if one_in > 1:
        raw = raw.filter(raw[time].hash() % one_in == 0)
    columns = [name for name in raw.columns if name not in personal and _is_plain(raw[name].type())]
    counted = raw.group_by(columns).agg(n=raw.count())
    names = dict.fromkeys(map(logs.reading.column, _IDENTIFYING))
    shown = [name for name in names if name in columns]
    counted = counted.select(**_displayed(counted, shown), n=counted.n)
    sums = counted.agg(rows=counted.n.sum(), copies=(counted.n - 1).sum())
    examined, copies = (int(value or 0) for value in fetch(sums).to_pylist()[0].values())
    if not copies:
        return
    repeated = counted.filter(counted.n > 1)
    few = fetch(repeated.order_by(repeated.n.desc(), *shown).limit(EXAMPLES)).to_pylist()
    examples = [{name: _plain(value) for name, value in row.items()} for row in few]
    sampled = f" (estimated from one in {one_in} times)" if one_in > 1 else ""
    count = round(copies * rows / examined) if one_in > 1 else copies
    yield fault_of("duplicate_rows", count, rows, examples, sampled=sampled)


def _values_without_losses(logs: BidLogs, rows: int, personal: Sequence[str]) -> Iterator[Fault]:
    """Yield the fault of values of columns, such as one exchange, whose losses are missing.

    The columns are those of few values that have no role.
    """
    from ibis.expr.operations import Project

    node, raw, name_of = logs.table.op(), _raw_table(logs), logs.reading.column
    if logs.logs_minimum or logs.kind == "histograms" or not isinstance(node, Project):
        return
    hidden = {*personal, *map(name_of, CANONICAL.values())} - {name_of("campaign_id")}
    types = {name: raw[name].type() for name in raw.columns if name not in hidden}
    others = [name for name, kind in types.items() if _is_plain(kind) and not kind.is_temporal()]
    if not others:
        return
    one_in = -(-rows // _MOST_FOR_REPEATS)
    read = {name: node.values[name].to_expr() for name in ("won", "bid_micros", "price_micros")}
    # names of the log may be those of read columns
    of_value = {f"value_{name}": raw[name].cast("string") for name in others}
    time = raw[name_of("ts")] if one_in > 1 and name_of("ts") in raw.columns else raw[others[0]]
    bids = raw.select(**read, **of_value, part=time.hash() % one_in)
    bids = bids.filter(bids.part == 0, bids.won.notnull(), bids.bid_micros > 0)
    numbers = fetch(bids.aggregate(**{name: bids[name].approx_nunique() for name in of_value}))
    few = [name for name, (n,) in numbers.to_pydict().items() if 1 < n <= _MOST_VALUES]
    if not few:
        return
    paid = {name: shares(bids)[name] for name in ("priced", "share")}
    bids = bids.select(*few, lost=(~bids.won).ifelse(1, 0), **paid)
    long = bids.pivot_longer(few, names_to="column", values_to="value")
    sums = {name: long[name].sum().cast("float64") for name in ("lost", "priced", "share")}
    values = fetch(long.group_by("column", "value").agg(rows=long.count(), **sums)).to_pylist()
    found = []
    for column in sorted(few):
        of_column = [row for row in values if row["column"] == column]
        lost_with = {str(row["value"] or "").strip().lower() for row in of_column if row["lost"]}
        # what is written of wins alone says nothing of losses
        if not lost_with <= {*MISSING_TEXTS, *NO}:
            seen, lost, priced, share = (
                np.array([row[name] for row in of_column], dtype=np.float64)
                for name in ("rows", "lost", "priced", "share")
            )
            without = _few_losses(seen, lost, priced, share, _NO_LOSSES)
            found += [of_column[i] for i in np.flatnonzero(without)]
    found.sort(key=lambda row: -row["rows"])
    examples = [
        {"column": row["column"].removeprefix("value_"), "value": row["value"], "rows": row["rows"]}
        for row in found
    ]
    yield from _found("values_without_losses", examples, len(values))


# ---- Faults of a whole log


def aggregate_faults(sums: LogSums, logs: BidLogs) -> Iterator[Fault]:
    """Yield the faults of a whole log, which has at least one row."""
    yield from _mixtures(sums, logs)
    yield from _recognition(sums, logs)
    yield from _units(sums, logs)
    yield from _days(sums)
    yield from _outcomes(sums, logs)
    yield from _advertisers(sums)
    if logs.kind == "histograms":
        yield from _repeated_cells(sums)


def text_faults(sums: LogSums, texts: Mapping[str, str], has_table: bool) -> Iterator[Fault]:
    """Yield the faults of the texts, given by advertiser."""
    advertisers = sums.cells.advertisers
    if not has_table:
        yield fault_of("no_texts", len(advertisers), len(advertisers))
        return
    without = [name for name in advertisers if not texts.get(name, "").strip()]
    unknown = set(texts).difference(advertisers)
    damaged = [name for name, text in texts.items() if "\ufffd" in text]
    yield from _named("advertisers_without_text", without, len(advertisers))
    yield from _named("texts_without_bids", unknown, len(texts))
    yield from _named("texts_damaged", damaged, len(texts))


def _mixtures(sums: LogSums, logs: BidLogs) -> Iterator[Fault]:
    cells = sums.cells
    rows_of = _rows_by_value(cells.currency, cells.currency != "", cells)
    if len(rows_of) > 1:
        most, *others = rows_of
        examples = [{"currency": name, "rows": n} for name, n in rows_of.items()][:EXAMPLES]
        count = sum(rows_of[name] for name in others)
        yield fault_of("currencies_mixed", count, sums.rows, examples, currency=most)
    rows_of = _rows_by_value(cells.auction_type, cells.auction_type > 0, cells)
    if len(rows_of) > 1 and logs.given_auction is None:
        examples = [{"auction_type": name, "rows": n} for name, n in rows_of.items()]
        yield fault_of("auctions_mixed", min(rows_of.values()), sums.rows, examples)
    blank = [i for i, name in enumerate(cells.advertisers) if name.strip().lower() in MISSING_TEXTS]
    count = int(cells.rows[np.isin(cells.advertiser, blank)].sum())
    examples = [{"advertiser_id": cells.advertisers[i]} for i in blank]
    yield from _found("advertiser_blank", examples, sums.rows, count)


def _recognition(sums: LogSums, logs: BidLogs) -> Iterator[Fault]:
    """Yield the fault of an auction type that was recognised, or that prices contradict."""
    priced, equal, close = (int(sums.total(name)) for name in ("priced", "equal", "close"))
    try:
        auction, source = logs.auction, logs.auction_source
    except TableError:  # mixed or unknown types, which are faults already
        return
    # rounded down, because 100% means all
    share, wins = f"{1000 * equal // max(priced, 1) / 10:g}%", f"{priced:,}"
    if source == "prices":
        yield fault_of("auction_recognised", equal, sums.rows, share=share, wins=wins)
    if auction == "first" or priced < MANY_WINS:
        return
    # of smooth prices, many more are close to the bid; those of some advertisers may be bids
    of_each = zip(sums.by_advertiser("priced"), sums.by_advertiser("equal"), strict=True)
    pays_bid = [n >= MANY_WINS and winners_pay_bids(n, same) for n, same in of_each]
    if (equal >= _MANY_EQUAL * priced and 3 * equal > 2 * close) or any(pays_bid):
        yield fault_of("prices_equal_bids", equal, sums.rows, share=share, wins=wins)
    # where bids win and lose, some prices are close to the bid
    lost = _seen(sums, logs, "advertiser")[1]
    expected = _CLOSE_PRICES * np.minimum(lost, sums.by_advertiser("priced")).sum()
    if expected >= _FEWEST_WINS and equal + close < expected / 5:
        yield fault_of("prices_net", priced, sums.rows, wins=wins)


def _units(sums: LogSums, logs: BidLogs) -> Iterator[Fault]:
    if not sums.median_bid:
        return
    ratios = {day: median / sums.median_bid for day, median in sums.medians.items()}
    days = sums.days.astype(str).tolist()
    far = [day for day in days if not 1 / UNIT_FACTOR < ratios.get(day, 1) < UNIT_FACTOR]
    names, advertisers = sums.in_other_units(), sums.cells.advertisers
    for code, column, found, total, median_of in (
        ("units_mixed", "advertiser_id", names, len(advertisers), sums.median_of),
        ("units_change", "day", far, len(days), sums.medians.__getitem__),
    ):
        # the median of an advertiser is read, so only those of examples are
        medians = {name: median_of(name) for name in found[:EXAMPLES]}
        of_all = {"median_bid_micros_of_all": sums.median_bid}
        examples = [{column: k, "median_bid_micros": m, **of_all} for k, m in medians.items()]
        yield from _found(code, examples, total, len(found), factor=str(UNIT_FACTOR))
    rows, median = int(sums.total("rows")), f"{sums.median_bid / 1e6:g}"
    is_small = bool(np.isin(sums.cells.currency, list(WHOLE_CURRENCIES)).any())
    if not _LEAST_MEDIAN <= sums.median_bid <= (_MOST_WHOLE if is_small else _MOST_MEDIAN):
        yield fault_of("bids_implausible", rows, sums.rows, median=median)
    yield from _named("amounts_multiplied", sums.in_multiples(), len(advertisers))
    priced, (bids, lost) = sums.by_advertiser("priced"), _seen(sums, logs, "advertiser")
    share = sums.by_advertiser("share") / np.maximum(priced, 1)
    is_known, often_lost = priced >= _FEWEST_WINS, lost >= bids / _FEWEST_WINS
    usual = np.median(share[is_known]) if is_known.any() else 0.0
    if 0 < usual < _OTHER_UNIT:
        factor = f"{10 ** round(-math.log10(usual)):,}"
        yield fault_of("prices_far_below", int(priced.sum()), sums.rows, factor=factor)
        return
    least = np.where(often_lost, max(_LEAST_SHARE, usual / 4), _LEAST_SHARE / 5)
    names = [advertisers[i] for i in np.flatnonzero(is_known & (share < least))]
    yield from _named("prices_implausible", names, len(advertisers))


def _days(sums: LogSums) -> Iterator[Fault]:
    days, missing, rows = sums.days, sums.missing_days, sums.by_day("rows")
    if len(days) == 1:
        yield fault_of("one_day", 1, 1, [{"day": str(days[0])}])
    if len(missing) > max(len(days), _LONG_GAPS):
        examples, span = [{"day": str(day)} for day in days], str(len(days) + len(missing))
        yield from _found("days_scattered", examples, len(days), span=span)
    else:
        absent = [{"day": str(day)} for day in missing]
        yield from _found("days_missing", absent, len(days) + len(missing))
    # the median of two days is not typical of either
    if len(days) > 2:
        yield from _of_days("days_thin", rows < _THIN_DAY * np.median(rows), rows, sums)


def _outcomes(sums: LogSums, logs: BidLogs) -> Iterator[Fault]:
    """Yield the faults of a log without wins, or without the losses of some advertisers.

    A log with the minimum to win is not censored: its curves need no losses.
    """
    rows, bids, wins = int(sums.total("rows")), sums.total("bids"), sums.total("wins")
    by_day, lost = _seen(sums, logs, "day")
    if rows and wins <= 0:
        yield fault_of("no_wins", rows, sums.rows)
    elif rows and math.isclose(wins, bids):
        is_long = by_day.sum() >= _FEWEST_WITHOUT_LOSS and not logs.logs_minimum
        yield fault_of("no_losses_at_all" if is_long else "all_wins", rows, sums.rows)
    elif not logs.logs_minimum:
        few = _few_losses(by_day, lost, sums.by_day("priced"), sums.by_day("share"), _FEW_LOSSES)
        yield from _of_days("days_few_losses", few, by_day, sums)
        yield from _losses(sums, logs)
    never = (by_day - lost <= 0) & (by_day * wins >= _FEWEST_WINS * bids) & (bids > 0)
    yield from _of_days("days_without_win", never, by_day, sums)


def _seen(sums: LogSums, logs: BidLogs, by: str) -> tuple[Floats, Floats]:
    """Return the numbers of bids, and of those that lost, by "day" or "advertiser".

    Weights are no evidence, so rows are counted; a row of histograms has many bids.
    """
    rows, bids, wins = (getattr(sums, f"by_{by}")(name) for name in ("rows", "bids", "wins"))
    seen = bids if logs.kind == "histograms" else rows
    share = np.divide(wins, bids, out=np.zeros_like(bids), where=bids > 0)
    return seen, np.where(np.isclose(share, 1, rtol=1e-9), 0, seen * (1 - share))


def _of_days(code: str, found: Bools, rows: Floats, sums: LogSums) -> Iterator[Fault]:
    examples = [{"day": str(sums.days[i]), "rows": int(rows[i])} for i in np.flatnonzero(found)]
    yield from _found(code, examples, len(sums.days))


def _few_losses(rows: Floats, lost: Floats, priced: Floats, share: Floats, factor: float) -> Bools:
    """Return which groups of bids, (N,), have far fewer losses than others.

    Their odds to win are at least ``factor`` times those of the group at the lower quartile,
    although winners paid as large a ``share`` (Σ price / bid over the ``priced``) of their bids:
    where bids win more often because prices are lower, the share is lower, too.
    """
    is_large = rows * lost.sum() >= rows.sum() * _FEWEST_WITHOUT_LOSS
    large = np.flatnonzero(is_large)
    if not len(large):
        return is_large
    odds = np.log((rows - lost + 0.5) / (lost + 0.5))
    paid = np.divide(share, priced, out=np.ones_like(share), where=priced > 0)
    usual = large[np.argsort(odds[large], kind="stable")[(len(large) - 1) // 4]]
    more = odds - odds[usual]
    return is_large & (more > np.log(factor)) & (paid[usual] - paid < _FALL_OF_SHARE * more)


def _losses(sums: LogSums, logs: BidLogs) -> Iterator[Fault]:
    """Yield the faults of advertisers without losses, or with losses that are not known."""
    names, (seen, lost) = sums.cells.advertisers, _seen(sums, logs, "advertiser")
    # those with the most bids first
    bids = sums.by_advertiser("bids")
    order = np.argsort(-bids, kind="stable")
    winners = order[((seen >= _FEWEST_WITHOUT_LOSS) & (lost <= 0))[order]]
    examples = [{"advertiser_id": names[i], "bids": round(bids[i])} for i in winners]
    yield from _found("no_losses", examples, len(names), fewest=str(_FEWEST_WITHOUT_LOSS))
    lost_least, lost_most, won_least, won_most = sums.ends()
    is_one = (lost_least == lost_most) & (won_least < won_most)
    is_one &= np.minimum(lost, seen - lost) >= _FEWEST_WINS
    of_one = [names[i] for i in np.flatnonzero(is_one)]
    yield from _named("losses_at_one_bid", of_one, len(names))


def _advertisers(sums: LogSums) -> Iterator[Fault]:
    names = sums.cells.advertisers
    bids, wins = sums.by_advertiser("bids"), sums.by_advertiser("wins")
    active = bids > 0
    if len(names) == 1:
        yield fault_of("one_advertiser", 1, 1, [{"advertiser_id": names[0]}])
    if wins.sum() > 0:
        never = [names[i] for i in np.flatnonzero(active & (wins <= 0))]
        yield from _named("never_won", never, len(names))
    few = [names[i] for i in np.flatnonzero(active & (bids < _FEWEST_BIDS))]
    yield from _named("few_bids", few, len(names), fewest=str(_FEWEST_BIDS))


def _repeated_cells(sums: LogSums) -> Iterator[Fault]:
    """Yield the fault of rows of one advertiser, day and bin, if any.

    Such rows may be in different cells, because cells also differ in faults.
    """
    cells = sums.cells
    keys = np.stack([cells.advertiser, cells.day.astype(np.int64), cells.amount], axis=1)
    distinct, which = np.unique(keys[sums.counts], axis=0, return_inverse=True)
    rows = sum_groups(which.ravel(), cells.rows[sums.counts], len(distinct))
    repeated = np.flatnonzero(rows > 1)
    examples = [
        {
            "advertiser_id": cells.advertisers[advertiser],
            "day": str(np.datetime64(int(day), "D")),
            "bin_micros": int(amount),
        }
        for advertiser, day, amount in distinct[repeated[:EXAMPLES]]
    ]
    copies = int(rows[repeated].sum()) - len(repeated)
    yield from _found("duplicate_cells", examples, sums.rows, copies)


def _named(code: str, names: Iterable[str], total: int, **words: str) -> Iterator[Fault]:
    """Yield the fault of the advertisers of these names, if there are any."""
    examples = [{"advertiser_id": name} for name in sorted(names)]
    yield from _found(code, examples, total, None, **words)


def _found(
    code: str,
    examples: Sequence[dict[str, Any]],
    total: int,
    count: int | None = None,
    **words: str,
) -> Iterator[Fault]:
    """Yield the fault of these examples, if there are any; by default they are all that exist."""
    if examples:
        count = len(examples) if count is None else count
        yield fault_of(code, count, total, examples[:EXAMPLES], **words)


def _rows_by_value(values: AnyArray, known: Bools, cells: RowCells) -> dict[Any, int]:
    """Return the number of rows with each known value, the most common first."""
    distinct, which = np.unique(values[known], return_inverse=True)
    n = sum_groups(which, cells.rows[known], len(distinct))
    return {distinct[i].item(): int(n[i]) for i in np.argsort(-n, kind="stable")}


# ---- The overview


def _overview(logs: BidLogs, sums: LogSums, texts: dict[str, str]) -> LogOverview:
    bids, wins = sums.total("bids"), sums.total("wins")
    first, last = (str(sums.days[i]) if len(sums.days) else None for i in (0, -1))
    auction = _attribute(logs, "auction", "mixed")
    with_text = sum(bool(texts.get(name, "").strip()) for name in sums.cells.advertisers)
    return LogOverview(
        source=logs.source,
        kind=logs.kind,
        engine=logs.engine,
        rows=sums.rows,
        counted_rows=int(sums.total("rows")),
        advertisers=len(sums.cells.advertisers),
        days=len(sums.days),
        first_day=first,
        last_day=last,
        missing_days=sums.missing_days.astype(str).tolist(),
        bids=bids,
        wins=wins,
        win_rate=wins / bids if bids > 0 else None,
        spend=sums.total("cost") / _MICROS / 1000,
        median_bid=sums.median_bid / _MICROS or None,
        auction=auction,
        auction_source="column" if auction == "mixed" else logs.auction_source,
        revealed=_attribute(logs, "revealed", "none"),
        currency=_attribute(logs, "currency", "mixed"),
        weighted=logs.weighted,
        texts=None if logs.texts is None else len(texts),
        advertisers_with_text=with_text,
        notes=list(logs.notes),
    )


def _attribute(logs: BidLogs, name: str, otherwise: str) -> str:
    """Return an attribute of a log, or another value if the log has several."""
    try:
        return str(getattr(logs, name))
    except TableError:
        return otherwise
