"""Log checks: find all faults of a log, count them, and show examples.

:data:`~coterie.ads.logs.checks.faults.FAULT_CODES` lists every fault. Amounts may differ by 0.1 %
and one micro before a rule about prices is broken.
"""

from __future__ import annotations

import logging
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from coterie.ads.logs.bid_logs import BidLogs, read_descriptions
from coterie.ads.logs.checks.aggregate_checks import (
    WHOLE_CURRENCIES,
    LogSums,
    aggregate_faults,
    median_amount,
    text_faults,
)
from coterie.ads.logs.checks.check_queries import (
    EXAMPLES,
    examples_query,
    person_columns,
    raw_table,
    read_amounts,
    read_cells,
    repeats_query,
)
from coterie.ads.logs.checks.check_rules import RowRule, row_rules
from coterie.ads.logs.checks.faults import FAULT_CODES, Fault, fault_of
from coterie.ads.logs.column_recognition import numbers_in_sample, sample_values
from coterie.ads.logs.stored_rows import WRITTEN
from coterie.errors import TableError
from coterie.runtime.wording import number_of
from coterie.tables.engines import fetch

if TYPE_CHECKING:
    import ibis.expr.types as ir

log = logging.getLogger("coterie")

#: Repeats are searched among this many rows; longer logs are sampled by time.
_MOST_FOR_REPEATS = 2_000_000
_MICROS = 1e6
#: Units of whole numbers.
_WHOLE_UNITS = ("micros", "cents", "micros/impression")
#: Fewer amounts may all be whole by chance.
_FEWEST_AMOUNTS = 20


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
    amounts = read_amounts(rows, rules, logs)
    cells = read_cells(rows, rules, logs, median_amount(amounts))
    left_out = sum(1 << k for k, rule in enumerate(rules) if rule.leaves_out)

    def median_of(advertiser: str) -> int:
        return median_amount(read_amounts(rows, rules, logs, advertiser))

    sums = LogSums(cells, (cells.faults & left_out) == 0, amounts, median_of)
    texts: dict[str, str] = {}
    faults, texts_are_read = [], True
    try:
        texts = read_descriptions(logs)
    except TableError as error:
        faults.append(fault_of("texts_unreadable", 1, 1, problem=str(error)))
        texts_are_read = False
    names = person_columns(logs)
    if names:  # the examples list all of them, not only three
        examples = [{"column": name} for name in names]
        total = len(raw_table(logs).columns)
        faults.append(fault_of("person_columns", len(names), total, examples))
    faults += _reading_faults(logs, sums.rows, _attribute(logs, "currency", "mixed"))
    if sums.rows:
        faults += [
            *_broken_rules(rows, rules, sums),
            *_repeats(logs, sums.rows),
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
        found = [line for line in lines if line.hides_others == hides_others]
        if found:
            examples = [
                {"file": line.path, "line": line.number, "fault": line.fault}
                for line in found[:EXAMPLES]
            ]
            yield fault_of(code, len(found), rows + len(lines), examples)
    yield from _decimals(logs, currency)


def _decimals(logs: BidLogs, currency: str) -> Iterator[Fault]:
    """Yield the faults of amounts whose decimals contradict the unit they were read in."""
    units = {logs.reading.column(name): unit for name, unit in logs.reading.units.items()}
    if not units:
        return
    values = sample_values(raw_table(logs), list(units))
    found: dict[str, list[dict[str, object]]] = {}
    for column, unit in units.items():
        numbers = numbers_in_sample(values[column])
        whole = sum(number.is_integer() for number in numbers)
        if len(numbers) < _FEWEST_AMOUNTS:
            continue
        example = {"column": column, "unit": unit, "median": statistics.median(numbers)}
        if unit in _WHOLE_UNITS and 2 * whole < len(numbers):
            found.setdefault("amounts_with_decimals", []).append(example)
        if unit == "currency" and whole == len(numbers) and currency not in WHOLE_CURRENCIES:
            found.setdefault("amounts_whole", []).append(example)
    for code, examples in found.items():
        yield fault_of(code, len(examples), len(units), examples)


def _broken_rules(rows: ir.Table, rules: Sequence[RowRule], sums: LogSums) -> Iterator[Fault]:
    counts = {
        k: int(sums.cells.rows[(sums.cells.faults >> k) & 1 == 1].sum()) for k in range(len(rules))
    }
    with_bid = int(sums.cells.with_bid.sum())
    broken = {
        k: rule
        for k, rule in enumerate(rules)
        # an empty column of minimums is not a fault
        if counts[k] and not (rule.code == "minimum_missing" and counts[k] == with_bid)
    }
    if not broken:
        return
    log.info("Fetching examples of %d faults", len(broken))
    faulty = fetch(examples_query(rows, broken)).to_pylist()
    for k, rule in broken.items():
        columns = ("advertiser_id", "day", *rule.columns)
        examples = [
            # the original value replaces the one that could not be read
            {name.removeprefix(WRITTEN): _plain(row[name]) for name in columns}
            for row in faulty
            if row["rule"] == k
        ]
        yield fault_of(rule.code, counts[k], sums.rows, examples, **rule.words)


def _plain(value: Any) -> Any:
    """Convert a value to one that JSON can store."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, int | float | str) or value is None else str(value)


def _repeats(logs: BidLogs, rows: int) -> Iterator[Fault]:
    one_in = -(-rows // _MOST_FOR_REPEATS)
    counted = repeats_query(logs, one_in)
    if counted is None:
        return
    log.info("Looking for repeated rows")
    sums = counted.agg(rows=counted.n.sum(), copies=(counted.n - 1).sum())
    examined, copies = (int(value or 0) for value in fetch(sums).to_pylist()[0].values())
    if not copies:
        return
    repeated = counted.filter(counted.n > 1)
    columns = [name for name in repeated.columns if name != "n"]
    few = fetch(repeated.order_by(repeated.n.desc(), *columns).limit(EXAMPLES)).to_pylist()
    examples = [{name: _plain(value) for name, value in row.items()} for row in few]
    sampled = f" (estimated from one in {one_in} times)" if one_in > 1 else ""
    count = round(copies * rows / examined) if one_in > 1 else copies
    yield fault_of("duplicate_rows", count, rows, examples, sampled=sampled)


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
