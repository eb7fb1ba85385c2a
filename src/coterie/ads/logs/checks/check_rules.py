"""Check rules: which rows of a log are faulty, as Ibis expressions.

Each rule is an expression that is true for the rows that break it. An engine counts the breaches
of all rules in one pass, and selects examples of each.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coterie.ads.logs.amount_codes import MOST_MICROS
from coterie.ads.logs.bid_logs import AUCTIONS, SLACK, BidLogs, priced_wins
from coterie.ads.logs.log_columns import MISSING_TEXTS, SUMS
from coterie.ads.logs.stored_rows import WRITTEN
from coterie.tables.engines import is_written_as

if TYPE_CHECKING:
    import ibis.expr.types as ir

#: Days outside this range are implausible.
FIRST_DAY = datetime.date(2000, 1, 1)
LAST_DAY = datetime.date(2100, 12, 31)

#: Weighted counts are sums of floats.
_ROUNDING = 1e-9
_REQUIRED = ("advertiser_id", "day", "bid_micros", "won", "weight", "bin_micros")
_IsMissing = Callable[[str], Any]


@dataclass(frozen=True, eq=False)
class RowRule:
    """A rule for rows."""

    code: str  # a key of FAULT_CODES
    broken: Any  # Ibis column, true for the rows that break the rule, else false or null
    columns: tuple[str, ...] = ()  # shown in examples, beside advertiser and day
    leaves_out: bool = False  # whether histograms ignore these rows
    words: dict[str, str] = field(default_factory=dict)  # for the braces in the code's sentence


def row_rules(rows: ir.Table, logs: BidLogs) -> list[RowRule]:
    """Return the rules for the rows of a log.

    ``rows`` has the canonical columns and, for each that may be unreadable, the original one with
    the prefix ``written_``.
    """
    written = [name.removeprefix(WRITTEN) for name in rows.columns if name.startswith(WRITTEN)]
    unreadable = {name: _is_unreadable(rows, name) for name in written}

    def missing(name: str) -> Any:
        absent = rows[name].isnull()
        return absent & ~unreadable[name] if name in unreadable else absent

    rules = [*_key_rules(rows, missing)]
    if "auction_type" in rows.columns and logs.given_auction is None:
        is_unknown = ~rows.auction_type.isin(list(AUCTIONS))
        rules.append(RowRule("auction_type_unknown", is_unknown, ("auction_type",)))
    if logs.kind == "histograms":
        rules += _histogram_rules(rows, missing)
    else:
        rules += [
            *_bid_rules(rows, missing),
            *_price_rules(rows, logs, missing),
            *_minimum_rules(rows, missing),
        ]
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


def _key_rules(rows: ir.Table, missing: _IsMissing) -> Iterator[RowRule]:
    today = datetime.datetime.now(datetime.UTC).date()
    span = {"first": str(FIRST_DAY.year), "last": str(LAST_DAY.year)}
    is_ahead = (rows.day > today) & (rows.day <= LAST_DAY)
    yield RowRule("advertiser_missing", missing("advertiser_id"), leaves_out=True)
    yield RowRule("day_missing", missing("day"), leaves_out=True)
    yield RowRule("day_implausible", ~rows.day.between(FIRST_DAY, LAST_DAY), words=span)
    yield RowRule("day_in_future", is_ahead, words={"today": str(today)})


def _bid_rules(rows: ir.Table, missing: _IsMissing) -> Iterator[RowRule]:
    bid = rows.bid_micros
    for code, broken in (
        ("bid_missing", missing("bid_micros")),
        ("bid_not_positive", bid <= 0),
        ("bid_too_large", bid > MOST_MICROS),
    ):
        yield RowRule(code, broken, ("bid_micros",), leaves_out=True)
    yield RowRule("won_missing", missing("won"), ("bid_micros", "won"), leaves_out=True)


def _price_rules(rows: ir.Table, logs: BidLogs, missing: _IsMissing) -> Iterator[RowRule]:
    import ibis

    bid, price, won = rows.bid_micros, rows.price_micros, rows.won
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
        ("price_on_loss", ~won & (price > 0)),
    ):
        yield RowRule(code, broken, ("bid_micros", "won", "price_micros"))
    if "click" in rows.columns:
        yield RowRule("click_on_loss", ~won & rows.click, ("bid_micros", "won", "click"))


def _minimum_rules(rows: ir.Table, missing: _IsMissing) -> Iterator[RowRule]:
    """Yield the rules for the minimum to win and the floor, if the log has them."""
    names = [name for name in ("min_to_win_micros", "floor_micros") if name in rows.columns]
    if names:
        yield RowRule("minimum_negative", _any_negative(rows, names), tuple(names))
    if "min_to_win_micros" not in names:
        return
    minimum, bid = rows.min_to_win_micros, rows.bid_micros
    is_absent = missing("min_to_win_micros") & (bid > 0)
    yield RowRule("minimum_missing", is_absent, ("bid_micros", "min_to_win_micros"))
    if len(names) == 2:
        is_below = (minimum >= 0) & (minimum * (1 + SLACK) + 1 < rows.floor_micros)
        yield RowRule("minimum_below_floor", is_below, tuple(names))
    is_below = rows.won & (bid > 0) & (bid * (1 + SLACK) + 1 < minimum)
    yield RowRule("won_below_minimum", is_below, ("bid_micros", "won", "min_to_win_micros"))


def _any_negative(rows: ir.Table, names: list[str]) -> Any:
    import ibis

    return ibis.or_(*((rows[name] < 0).fill_null(False) for name in names))


def _histogram_rules(rows: ir.Table, missing: _IsMissing) -> Iterator[RowRule]:
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
