"""Log checks: all that is wrong with a log, counted, with examples, at once.

Errors make results wrong:

=========================  ===========  =========================================================
code                       counts       what
=========================  ===========  =========================================================
no_rows                    rows         the log is empty
unreadable                 rows         a column's text is not of its type; one fault a column
advertiser_missing         rows         no advertiser
day_missing                rows         no day
bid_missing                rows         no bid
bid_not_positive           rows         bid ≤ 0
bid_too_large              rows         bid > 10^15 micros
won_missing                rows         not known whether it won
price_missing              rows         won without a price
price_negative             rows         price < 0
price_above_bid            rows         second price: won and price > bid, by over 0.1 % and 1 micro
price_not_bid              rows         first price: won and price ≠ bid, by over 0.1 % and 1 micro
weight_not_positive        rows         weight missing, infinite or ≤ 0
auction_type_unknown       rows         neither 1 nor 2, and the auction was not given
auctions_mixed             rows         both 1 and 2, and the auction was not given
currencies_mixed           rows         not the most common currency
units_mixed                advertisers  median bid ≥ 300 or ≤ 1/300 times that of all bids
units_change               days         the same by day
bin_not_positive           rows         histograms: no upper edge, or ≤ 0
counts_missing             rows         histograms: no bids, wins or cost
counts_negative            rows         histograms: a sum < 0
wins_above_bids            rows         histograms: wins > bids
cost_above_bids            rows         histograms: cost > wins × bin, by over 0.1 %
texts_unreadable           tables       the table of advertisers is damaged or has other columns
=========================  ===========  =========================================================

Warnings say what to expect of results:

=========================  ===========  =========================================================
code                       counts       what
=========================  ===========  =========================================================
advertiser_blank           rows         the advertiser's name is blank, "null", "none", "nan" …
price_on_loss              rows         lost, with a price > 0; it is not used
click_on_loss              rows         lost, with a click; it is not used
minimum_missing            rows         some rows have a minimum to win, others not: none is used
minimum_negative           rows         minimum to win or floor < 0
minimum_below_floor        rows         minimum to win < floor
won_below_minimum          rows         won, with bid < minimum to win
day_implausible            rows         day before 2000 or after 2100
day_in_future              rows         day after today (UTC)
bids_implausible           rows         median bid of all < 0.001 or > 10,000 of the currency
duplicate_rows             rows         repeats of a row, columns of persons apart; needs times
duplicate_cells            rows         histograms: repeats of advertiser, day and bin
days_missing               days         days between first and last without a bid
days_thin                  days         less than a third of the median day's rows
one_day                    days         all bids are of one day
one_advertiser             advertisers  all bids are of one advertiser
no_wins                    rows         no bid won
all_wins                   rows         every bid won
never_won                  advertisers  bids, but no win
few_bids                   advertisers  fewer than 10 bids
no_texts                   advertisers  there is no table of advertisers
advertisers_without_text   advertisers  not in that table, or with an empty description
texts_without_bids         texts        of advertisers that are not in the log
texts_damaged              texts        not UTF-8
person_columns             columns      columns that may identify a person; they are not read
=========================  ===========  =========================================================
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from coterie.ads.logs.bid_logs import BidLogs, read_descriptions
from coterie.ads.logs.checks.check_queries import (
    EXAMPLES,
    as_written,
    checked_rows,
    examples_query,
    person_columns,
    read_cells,
    repeats_query,
)
from coterie.ads.logs.checks.check_rules import WRITTEN, RowRule, row_rules
from coterie.ads.logs.checks.faults import FAULT_CODES, Fault, fault_of
from coterie.ads.logs.checks.log_findings import LogSums, log_findings, text_findings
from coterie.engines.queries import fetch
from coterie.errors import TableError

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["LogCheck", "LogOverview", "check_logs"]

log = logging.getLogger("coterie")

#: Rows among which repeats are looked for; of longer logs, a sample of the times.
_MOST_FOR_REPEATS = 2_000_000
_MICROS = 1_000_000
_THOUSAND = 1_000


@dataclass(frozen=True)
class LogOverview:
    """What a log holds, over the rows that histograms count.

    Attributes
    ----------
    source, kind, engine : str
        Where it is, what it is ("bids", "ipinyou" or "histograms"), and what reads it.
    rows, counted_rows : int
        All rows, and those that histograms count.
    advertisers : int
        Those with a row.
    days : int
        Those with a bid.
    first_day, last_day : str or None
        As in 2026-03-02.
    missing_days : list of str
        Days between these two without a bid.
    bids, wins : float
        Their number; of a sampled log, the sum of weights.
    win_rate : float or None
        wins / bids.
    spend : float
        In units of the currency: the sum of prices, which are for a thousand impressions, / 1000.
    median_bid : float or None
        In units of the currency for a thousand impressions, to two significant digits.
    auction : {"first", "second", "mixed"}
    revealed : {"paid", "minimum", "none"}
        What is known of prices: see :class:`~coterie.ads.histograms.bid_histograms.BidHistograms`.
    currency : str
        ISO 4217; empty where the log does not say, "mixed" where there are several.
    weighted : bool
        Whether the log is a sample with weights.
    texts : int or None
        Rows of the table of advertisers; None where there is no such table.
    advertisers_with_text : int
    """

    source: str
    kind: str
    engine: str
    rows: int
    counted_rows: int
    advertisers: int
    days: int
    first_day: str | None
    last_day: str | None
    missing_days: list[str]
    bids: float
    wins: float
    win_rate: float | None
    spend: float
    median_bid: float | None
    auction: str
    revealed: str
    currency: str
    weighted: bool
    texts: int | None
    advertisers_with_text: int


@dataclass(frozen=True)
class LogCheck:
    """What checks found.

    Attributes
    ----------
    overview : LogOverview
    faults : list of Fault
        Errors first.
    """

    overview: LogOverview
    faults: list[Fault]

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
        """All of it in values that JSON has."""
        return {
            "ok": self.ok,
            "overview": asdict(self.overview),
            "faults": [fault.as_dict() for fault in self.faults],
        }


def check_logs(logs: BidLogs) -> LogCheck:
    """Check a log: every rule, every row, in one pass of the engine that holds it.

    Nothing is changed and no row is refused here; the tables at the top of this module say what
    is looked at and how bad each fault is. Examples are fetched of the faults that are there,
    and hold none but the columns that tell the fault, never one that may identify a person.

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
        The engine cannot read the log to its end.

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
    rows = checked_rows(logs)
    rules = row_rules(rows, logs)
    log.info("Checking every row")
    cells = read_cells(rows, rules, logs)
    left_out = sum(1 << k for k, rule in enumerate(rules) if rule.leaves_out)
    sums = LogSums(cells, (cells.faults & left_out) == 0)
    texts, faults = _read_texts(logs)
    faults += _person_columns(logs)
    if sums.rows:
        faults += [
            *_broken_rules(rows, rules, sums),
            *_repeats(logs, sums.rows),
            *log_findings(sums, logs),
        ]
        if not any(fault.code == "texts_unreadable" for fault in faults):
            faults += text_findings(sums, texts, logs.texts is not None)
    else:
        faults.append(fault_of("no_rows", 0, 0))
    order = list(FAULT_CODES)
    return LogCheck(
        overview=_overview(logs, sums, texts),
        faults=sorted(faults, key=lambda fault: order.index(fault.code)),
    )


def _read_texts(logs: BidLogs) -> tuple[dict[str, str], list[Fault]]:
    try:
        return read_descriptions(logs), []
    except TableError as error:
        return {}, [fault_of("texts_unreadable", 1, 1, problem=str(error))]


def _person_columns(logs: BidLogs) -> list[Fault]:
    names = person_columns(logs)
    if not names:
        return []
    # all of them: to name them is the purpose
    examples = [{"column": name} for name in names]
    return [fault_of("person_columns", len(names), len(as_written(logs).columns), examples)]


def _broken_rules(rows: ir.Table, rules: Sequence[RowRule], sums: LogSums) -> Iterator[Fault]:
    counts = {
        k: int(sums.cells.rows[(sums.cells.faults >> k) & 1 == 1].sum()) for k in range(len(rules))
    }
    with_bid = int(sums.cells.rows[sums.cells.amount > 0].sum())
    broken = {
        k: rule
        for k, rule in enumerate(rules)
        # where no row has a minimum to win, none misses it
        if counts[k] and not (rule.code == "minimum_missing" and counts[k] == with_bid)
    }
    if not broken:
        return
    log.info("Fetching examples of %d faults", len(broken))
    found = fetch(examples_query(rows, broken.items())).to_pylist()
    for k, rule in broken.items():
        examples = [_example(row, rule) for row in found if row["rule"] == k]
        yield fault_of(rule.code, counts[k], sums.rows, examples, **rule.words)


def _example(row: dict[str, Any], rule: RowRule) -> dict[str, Any]:
    columns = ("advertiser_id", "day", *rule.columns)
    # what was written takes the place of what could not be read
    return {name.removeprefix(WRITTEN): _plain(row[name]) for name in columns}


def _plain(value: Any) -> Any:
    """A value that JSON has."""
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
    looked_at, copies = (int(value or 0) for value in fetch(sums).to_pylist()[0].values())
    if not copies:
        return
    repeated = counted.filter(counted.n > 1)
    columns = [name for name in repeated.columns if name != "n"]
    few = fetch(repeated.order_by(repeated.n.desc(), *columns).limit(EXAMPLES)).to_pylist()
    examples = [{name: _plain(value) for name, value in row.items()} for row in few]
    sampled = f", by one in {one_in} of its times" if one_in > 1 else ""
    count = round(copies * rows / looked_at) if one_in > 1 else copies
    yield fault_of("duplicate_rows", count, rows, examples, sampled=sampled)


def _overview(logs: BidLogs, sums: LogSums, texts: dict[str, str]) -> LogOverview:
    bids, wins = sums.total("bids"), sums.total("wins")
    first, last = (str(sums.days[i]) if len(sums.days) else None for i in (0, -1))
    with_text = sum(bool(texts.get(name, "").strip()) for name in sums.cells.advertisers)
    auction, currency, revealed = _market(logs)
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
        spend=sums.total("cost") / _MICROS / _THOUSAND,
        median_bid=sums.median_bid / _MICROS or None,
        auction=auction,
        revealed=revealed,
        currency=currency,
        weighted=logs.weighted,
        texts=None if logs.texts is None else len(texts),
        advertisers_with_text=with_text,
    )


def _market(logs: BidLogs) -> tuple[str, str, str]:
    """Auction, currency, and what is revealed of prices; "mixed" where there are several."""

    def one(name: str) -> str:
        try:
            return str(getattr(logs, name))
        except TableError:
            return "mixed"

    auction = one("auction")
    if logs.kind == "histograms":
        revealed = "paid" if "prices" in logs.table.columns else "none"
    elif logs.logs_minimum:
        revealed = "minimum"
    else:
        revealed = "paid" if auction == "second" else "none"
    return auction, one("currency"), revealed
