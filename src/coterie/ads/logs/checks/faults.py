"""Faults of logs: the catalogue of what checks may find, and the rules that faulty rows break.

A new check of rows needs an entry in the catalogue and a rule in :func:`row_rules`; one of a whole
log needs an entry and a function of :mod:`~coterie.ads.logs.checks.log_checks`. An error makes
results wrong; a warning limits what results can show.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.ads.logs.amount_codes import MOST_MICROS
from coterie.ads.logs.bid_logs import AUCTIONS, SLACK, BidLogs, priced_wins
from coterie.ads.logs.log_columns import MISSING_TEXTS, SUMS, WRITTEN
from coterie.tables.engines import is_written_as

if TYPE_CHECKING:
    import ibis.expr.types as ir

#: Texts in examples are cut to this many characters.
LONGEST_EXAMPLE = 80
#: Days outside this range are implausible.
FIRST_DAY = datetime.date(2000, 1, 1)
LAST_DAY = datetime.date(2100, 12, 31)

#: Weighted counts are sums of floats.
_ROUNDING = 1e-9
_REQUIRED = ("advertiser_id", "day", "bid_micros", "won", "weight", "bin_micros")


# ---- The catalogue


@dataclass(frozen=True)
class Fault:
    """A fault of a log."""

    code: str  # a key of FAULT_CODES, for programs
    severity: str  # "error" or "warning"
    what: str  # what is wrong, for people
    count: int  # number of rows, advertisers, … with the fault
    share: float  # count over the number of all units in the log, from 0 to 1
    # at most three, by column: numbers, texts, truth values or None
    examples: list[dict[str, Any]] = field(default_factory=list)
    remedy: str = ""  # the consequence, and what to do
    unit: str = "rows"  # or "advertisers", "days", "texts", "tables", "columns", "lines", …

    def as_dict(self) -> dict[str, Any]:
        """Return the fault as values that JSON can store."""
        return asdict(self)


class FaultCode(NamedTuple):
    """An entry of the catalogue; braces in ``what`` are filled in for each fault."""

    severity: str
    unit: str
    what: str
    remedy: str


def fault_of(
    code: str, count: int, total: int, examples: Iterable[dict[str, Any]] = (), **words: str
) -> Fault:
    """Make the fault of a code; ``words`` fill the braces of its sentence."""
    severity, unit, what, remedy = FAULT_CODES[code]
    shortened = [
        {
            name: value[:LONGEST_EXAMPLE] if isinstance(value, str) else value
            for name, value in example.items()
        }
        for example in examples
    ]
    share = float(count / total) if total else 0.0
    return Fault(code, severity, what.format(**words), int(count), share, shortened, remedy, unit)


_LEFT_OUT = "these rows are left out of all results; correct them where the log is made"
_SAME_UNIT = "check that both are in the same unit, and both before or after fees"
_SAME_IDS = "check that ids are spelled alike in both tables"

#: A code, the unit that is counted, what is wrong, and after the arrow what to do.
_ERRORS = f"""
no_rows (rows): the log has no rows
    -> check that the path names the right files
quote_open (lines): the line has a quote that does not close in it, so the lines after it, perhaps
    all, are not read
    -> the log is refused, with --allow-faults too; close the quote, or remove it
line_ragged (lines): the line is not a row: it has another number of fields than the header, or
    wrong quotes
    -> it is left out of all results; put quotes around fields that contain the delimiter
unreadable (rows): {{column}} cannot be read: it should be {{expected}}
    -> the value counts as missing; correct it where the log is made, or read it by SQL, such as
    strptime for dates and replace for decimal commas
advertiser_missing (rows): advertiser_id is missing
    -> {_LEFT_OUT}
day_missing (rows): the day is missing
    -> {_LEFT_OUT}
bid_missing (rows): the bid is missing
    -> {_LEFT_OUT}
bid_not_positive (rows): the bid is 0 or below
    -> {_LEFT_OUT}
bid_too_large (rows): the bid is above 10^15 micros, a billion for a thousand impressions
    -> these rows are left out of all results; check that amounts are in micros
won_missing (rows): won is missing, so it is unknown whether the bid won
    -> {_LEFT_OUT}
price_missing (rows): the bid won, but its price is missing
    -> the price is not counted, so win rates and spend are too low; add the price paid
price_negative (rows): the price is below 0
    -> the cost counts as 0; correct it, and keep refunds in another table
price_above_bid (rows): the price is above the bid, which is impossible
    -> {_SAME_UNIT}
price_not_bid (rows): the price differs from the bid, which is impossible in a first-price auction
    -> check whether these are second-price auctions, or bid and price are in different units
prices_far_below (rows): prices are about 1/{{factor}} of bids in most wins: amounts are in
    different units
    -> read both in one unit; prices in units of the currency are given by SQL as price * 1000000
no_wins (rows): no bid won
    -> prices would be unknown and win rates 0; check the column that says whether a bid won, and
    log the won bids too
clicks_on_losses (rows): many bids that lost were clicked
    -> wins seem to be marked as lost; check the column that says whether a bid won, and whether win
    notices are missing
weight_not_positive (rows): the weight is missing, infinite, 0 or below
    -> {_LEFT_OUT}
auction_type_unknown (rows): auction_type is neither 1 (first price) nor 2 (second price)
    -> give the auction type when the log is opened, or leave these rows out
auctions_mixed (rows): first-price and second-price auctions are mixed
    -> split the log by auction_type, because the two need different curves
currencies_mixed (rows): the currency is not {{currency}}, the currency of most rows
    -> convert all amounts to one currency, or split the log
units_mixed (advertisers): the advertiser's median bid is at least {{factor}} times the median of
    all bids, or at most 1/{{factor}} of it
    -> check whether some amounts are for one impression and others for a thousand, or some in
    micros and others not
units_change (days): the day's median bid is at least {{factor}} times the median of all bids, or
    at most 1/{{factor}} of it
    -> check whether some files have amounts for one impression and others for a thousand, or some
    in micros and others not
bin_not_positive (rows): the upper edge of the bin, bin_micros, is missing, 0 or below
    -> {_LEFT_OUT}
counts_missing (rows): bids, wins or cost_micros is missing
    -> the value counts as 0; write 0 if there were none
counts_negative (rows): a count or an amount is below 0
    -> correct it where the histograms are made
wins_above_bids (rows): there are more wins than bids
    -> check that both are counted by the bin of the bid
cost_above_bids (rows): the cost is above the total of the winning bids of the bin
    -> check that bin_micros is the upper edge of the bin and cost_micros a sum of prices
texts_unreadable (tables): the table of advertisers cannot be read: {{problem}}
    -> give another table, or none
"""
_DOUBTS = """
prices_equal_bids (rows): the log is read as second price, but the price equals the bid in
    {share} of {wins} wins
    -> if winners pay their bids, give --auction first; if only some do, split the log, or give
    auction_type; nothing is wrong if these bids equal floors
prices_zero (rows): the bid won at a price of 0
    -> if these impressions were not free, their prices are missing, and forecasts of spend are too
    low; add the prices, or leave these rows out
prices_net (rows): hardly any of {wins} winners paid nearly its bid, though bids often lost
    -> prices seem to be net of a fee, or in another unit than bids; give those of the auction
bids_implausible (rows): the median bid is {median} of the currency for a thousand impressions
    -> check that amounts are micros for a thousand impressions: 2.50 is written 2500000; if they
    are in another unit, say --amounts
prices_implausible (advertisers): the advertiser paid a far smaller share of its bids than is usual
    -> check that its prices are in the unit and the currency of its bids; if they are not, convert
    one by SQL
amounts_whole (columns): all amounts are whole numbers, but they are read as units of the currency
    -> check whether they are cents or micros, and say --amounts
amounts_with_decimals (columns): most amounts have decimals, but they are read as cents or micros
    -> check whether they are units of the currency, and say --amounts
amounts_multiplied (advertisers): all bids of the advertiser are multiples of one odd number,
    unlike those of others
    -> check whether they were converted from another currency or unit; nothing is wrong if the
    advertiser bids in such steps
days_scattered (days): the days of the log are scattered over {span} days
    -> check that day and month of its dates are read in the right order; nothing is wrong if the
    log has only these days
days_without_win (days): no bid of the day won, which chance does not explain
    -> check whether the wins or the win notices of the day are missing
days_few_losses (days): bids of the day hardly ever lost, unlike those of other days at prices like
    these
    -> lost bids of the day seem to be missing or sampled; log every bid, or leave the day out
values_without_losses (values): no bid with this value of a column lost, unlike those with other
    values
    -> lost bids with the value seem to be missing; log every bid, or leave these rows out
losses_at_one_bid (advertisers): all bids of the advertiser that lost are of one amount, but not
    those that won
    -> the amount seems to stand for bids that are not known; log the bids as they were made
no_losses_at_all (rows): the log holds wins only, so win rates would be 1 at every bid
    -> lost bids seem not to be logged, and forecasts are far too high; log every bid
no_losses (advertisers): the advertiser won every one of at least {fewest} bids
    -> lost bids seem not to be logged for these advertisers; their win rates cannot be known; log
    every bid
"""
_LIMITS = f"""
advertiser_blank (rows): advertiser_id is a word for nothing, such as null
    -> the rows count as an advertiser of that name; leave the id empty if there is none
auction_recognised (rows): no auction type is given; the log is read as first price, because the
    price equals the bid in {{share}} of {{wins}} wins
    -> give --auction first or second, or add the column auction_type
price_on_loss (rows): the bid lost, but it has a price
    -> the price is not used; if it is the minimum to win, name it min_to_win_micros
click_on_loss (rows): the bid lost, but it was clicked
    -> the click is not used; check that clicks are joined to the right bids
minimum_missing (rows): the minimum to win is missing, but other rows have it
    -> it is used only if every bid has it; without it, curves use only the prices paid
minimum_negative (rows): the minimum to win or the floor is below 0
    -> leave it empty if it is not known
minimum_below_floor (rows): the minimum to win is below the floor
    -> check that both are in the same unit
won_below_minimum (rows): the bid won below the minimum to win
    -> {_SAME_UNIT}
day_implausible (rows): the day is before {{first}} or after {{last}}
    -> check the unit of times; the first and the last day of the log ignore these rows
day_in_future (rows): the day is after today, {{today}}
    -> check clocks and time zones; days are in UTC
duplicate_rows (rows): the row equals another row in every column that is read{{sampled}}
    -> both rows are counted; check for files or exports that are there twice; if the bids differ,
    keep a column with the id of each, such as bid_id
duplicate_cells (rows): the row has the advertiser, the day and the bin of another row
    -> the counts are added; check for histograms that are there twice
days_missing (days): days between the first and the last have no bid
    -> supply is forecast from the other days; check whether files are missing
days_thin (days): the day has fewer than a third of the rows of the median day
    -> supply is underestimated; leave out incomplete days; if the first or the last day is thin
    because times are local, say --time-zone; for the days of that zone give --sql a query with
    CAST(strptime(…) AS DATE) AS day
one_day (days): all bids are on one day
    -> weekdays cannot be compared, and no day can be held out to test forecasts
one_advertiser (advertisers): there is only one advertiser
    -> there are no segments to find; forecasts use the advertiser's own curve
all_wins (rows): every bid won
    -> if the log leaves out the bids that lost, win rates and forecasts are far too high; log the
    lost bids too
never_won (advertisers): the advertiser never won
    -> the prices of its segment or of all advertisers are used
few_bids (advertisers): the advertiser has fewer than {{fewest}} bids
    -> its forecasts use mainly its segment, which is found from its text
no_texts (advertisers): there is no table of advertisers
    -> segments are found without texts, and new advertisers get the average curve; put
    advertisers.parquet next to the logs, or name the table
advertisers_without_text (advertisers): the advertiser has no text
    -> its segment is found without one; {_SAME_IDS}
texts_without_bids (texts): the text belongs to an advertiser without bids
    -> it is not used; {_SAME_IDS}
texts_damaged (texts): the text has characters that are not UTF-8
    -> they are replaced; save the table of advertisers as UTF-8
person_columns (columns): the column may identify a person
    -> it is not read; leave it out of exports
"""
_ENTRY = re.compile(r"^(\w+) \((\w+)\): (.+?)\s-> (.+?)(?=^\w|\Z)", re.MULTILINE | re.DOTALL)


def _entries(severity: str, catalogue: str) -> dict[str, FaultCode]:
    entries = ([" ".join(text.split()) for text in entry] for entry in _ENTRY.findall(catalogue))
    return {code: FaultCode(severity, *texts) for code, *texts in entries}


#: Warnings that the log may be misread; they are repeated where a model is made of it.
DOUBTS = _entries("warning", _DOUBTS)
#: All codes, errors first.
FAULT_CODES = _entries("error", _ERRORS) | DOUBTS | _entries("warning", _LIMITS)


# ---- Rules for rows


@dataclass(frozen=True, eq=False)
class RowRule:
    """A rule for rows."""

    code: str  # a key of FAULT_CODES
    broken: Any  # Ibis column, true for the rows that break the rule, else false or null
    columns: tuple[str, ...] = ()  # shown in examples, next to advertiser and day
    leaves_out: bool = False  # whether histograms ignore these rows
    words: dict[str, str] = field(default_factory=dict)  # for the braces in the code's sentence


def row_rules(rows: ir.Table, logs: BidLogs) -> list[RowRule]:
    """Return the rules for the rows of a log, whose breaches an engine counts in one pass.

    ``rows`` has the canonical columns and, for each that may be unreadable, the original one with
    the prefix ``written_``.
    """
    written = [name.removeprefix(WRITTEN) for name in rows.columns if name.startswith(WRITTEN)]
    unreadable = {name: _is_unreadable(rows, name) for name in written}

    def missing(name: str) -> Any:
        absent = rows[name].isnull()
        return absent & ~unreadable[name] if name in unreadable else absent

    today = datetime.datetime.now(datetime.UTC).date()
    span = {"first": str(FIRST_DAY.year), "last": str(LAST_DAY.year)}
    is_ahead = (rows.day > today) & (rows.day <= LAST_DAY)
    rules = [
        RowRule("advertiser_missing", missing("advertiser_id"), leaves_out=True),
        RowRule("day_missing", missing("day"), leaves_out=True),
        RowRule("day_implausible", ~rows.day.between(FIRST_DAY, LAST_DAY), words=span),
        RowRule("day_in_future", is_ahead, words={"today": str(today)}),
    ]
    if "auction_type" in rows.columns and logs.given_auction is None:
        is_unknown = ~rows.auction_type.isin(list(AUCTIONS))
        rules.append(RowRule("auction_type_unknown", is_unknown, ("auction_type",)))
    if logs.kind == "histograms":
        rules += _histogram_rules(rows, missing)
    else:
        rules += _bid_rules(rows, logs, missing)
    if logs.weighted:
        is_wrong = missing("weight") | (rows.weight <= 0) | rows.weight.isinf()
        rules.append(RowRule("weight_not_positive", is_wrong, ("weight",), leaves_out=True))
    for name, broken in unreadable.items():
        words = {"column": name, "expected": _expected(rows[name].type())}
        rules.append(RowRule("unreadable", broken, (WRITTEN + name,), name in _REQUIRED, words))
    return rules


def _is_unreadable(rows: ir.Table, name: str) -> Any:
    """Mark the rows with a value in the log that is not of the column's type."""
    written = rows[WRITTEN + name]
    is_there = written.notnull()
    if written.type().is_string():
        is_there &= ~written.strip().lower().isin(sorted(MISSING_TEXTS))
    elif written.type().is_floating():
        is_there &= ~is_written_as(written, ["nan"])
    return rows[name].isnull() & is_there.fill_null(False)


def _expected(dtype: Any) -> str:
    if dtype.is_date():
        return "a day or a time, such as 2026-03-02 or 2026-03-02T13:45:00Z"
    if dtype.is_boolean():
        return "true or false, yes or no, won or lost, or 1 or 0"
    if dtype.is_string():
        return "one text, not a list or an object"
    return "a number of at most 15 digits"


def _bid_rules(rows: ir.Table, logs: BidLogs, missing: Callable[[str], Any]) -> Iterator[RowRule]:
    import ibis

    bid, price, won = rows.bid_micros, rows.price_micros, rows.won
    for code, broken in (
        ("bid_missing", missing("bid_micros")),
        ("bid_not_positive", bid <= 0),
        ("bid_too_large", bid > MOST_MICROS),
    ):
        yield RowRule(code, broken, ("bid_micros",), leaves_out=True)
    yield RowRule("won_missing", missing("won"), ("bid_micros", "won"), leaves_out=True)
    # only a stated auction makes prices errors; one that is recognised may have a few others
    if logs.given_auction is not None or "auction_type" not in rows.columns:
        is_first = ibis.literal(logs.given_auction == "first")
    else:
        is_first = (rows.auction_type == 1).fill_null(False)
    paid, is_bid = priced_wins(rows)
    for code, broken in (
        ("price_missing", won & missing("price_micros")),
        ("price_negative", price < 0),
        ("price_above_bid", paid & ~is_first & ~is_bid & (price > bid)),
        ("price_not_bid", paid & is_first & ~is_bid),
        ("prices_zero", won & (price == 0)),
        ("price_on_loss", ~won & (price > 0)),
    ):
        yield RowRule(code, broken, ("bid_micros", "won", "price_micros"))
    if "click" in rows.columns:
        yield RowRule("click_on_loss", ~won & rows.click, ("bid_micros", "won", "click"))
    names = [name for name in ("min_to_win_micros", "floor_micros") if name in rows.columns]
    if names:
        yield RowRule("minimum_negative", _any_negative(rows, names), tuple(names))
    if "min_to_win_micros" not in names:
        return
    minimum = rows.min_to_win_micros
    is_absent = missing("min_to_win_micros") & (bid > 0)
    yield RowRule("minimum_missing", is_absent, ("bid_micros", "min_to_win_micros"))
    if "floor_micros" in names:
        is_below = (minimum >= 0) & (minimum * (1 + SLACK) + 1 < rows.floor_micros)
        yield RowRule("minimum_below_floor", is_below, tuple(names))
    is_below = won & (bid > 0) & (bid * (1 + SLACK) + 1 < minimum)
    yield RowRule("won_below_minimum", is_below, ("bid_micros", "won", "min_to_win_micros"))


def _histogram_rules(rows: ir.Table, missing: Callable[[str], Any]) -> Iterator[RowRule]:
    top, bids, wins, cost = rows.bin_micros, rows.bids, rows.wins, rows.cost_micros
    is_absent = missing("bids") | missing("wins") | missing("cost_micros")
    sums = [name for name in SUMS if name in rows.columns]
    is_too_much = (top > 0) & (wins >= 0) & (cost > wins * (top * (1 + SLACK) + 1))
    for code, broken, columns in (
        ("counts_missing", is_absent, ("bids", "wins", "cost_micros")),
        ("counts_negative", _any_negative(rows, sums), tuple(sums)),
        ("wins_above_bids", wins > bids * (1 + _ROUNDING), ("bids", "wins")),
        ("cost_above_bids", is_too_much, ("wins", "cost_micros")),
    ):
        yield RowRule(code, broken, ("bin_micros", *columns))
    is_wrong = missing("bin_micros") | (top <= 0)
    yield RowRule("bin_not_positive", is_wrong, ("bin_micros",), leaves_out=True)
    yield RowRule("bid_too_large", top > MOST_MICROS, ("bin_micros",), leaves_out=True)


def _any_negative(rows: ir.Table, names: list[str]) -> Any:
    import ibis

    return ibis.or_(*((rows[name] < 0).fill_null(False) for name in names))
