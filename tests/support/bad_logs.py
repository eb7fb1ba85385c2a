"""A log without a fault, and one log for every fault."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ibis
import pyarrow as pa

from coterie.ads.logs.bid_logs import BidLogs, open_logs
from coterie.ads.logs.checks.log_checks import LogCheck, check_logs

Rows = list[dict[str, Any]]

_AMOUNTS = ("bid_micros", "price_micros", "floor_micros", "min_to_win_micros")

ADVERTISERS = ("ash", "birch", "cedar", "elm")
DAYS = tuple(datetime.datetime(2026, 3, d, tzinfo=datetime.UTC) for d in (2, 3, 4))
TEXTS = {name: f"{name} furniture" for name in ADVERTISERS}


@dataclass
class BadLog:
    """A log with one fault, and how often it has it."""

    rows: Rows
    count: int  # expected by the checks
    texts: dict[str, Any] | None = field(default_factory=lambda: dict(TEXTS))
    given: dict[str, Any] = field(default_factory=dict)  # settings to open it with

    @property
    def table(self) -> pa.Table:
        """The log as an Arrow table; a column with a text is all text, a null column integer."""
        columns = {name: [row[name] for row in self.rows] for name in self.rows[0]}
        for name, values in columns.items():
            if any(isinstance(value, str) for value in values):
                columns[name] = [value if value is None else str(value) for value in values]
        table = pa.table(columns)
        types = [pa.int64() if pa.types.is_null(kind) else kind for kind in table.schema.types]
        return table.cast(pa.schema(zip(table.column_names, types, strict=True)))

    def open(self) -> BidLogs:
        """The log, opened in memory."""
        given = dict(self.given)
        if self.texts is not None:
            ids, texts = list(self.texts), list(self.texts.values())
            given["advertisers"] = ibis.memtable(
                pa.table({"advertiser_id": ids, "description": texts})
            )
        return open_logs(ibis.memtable(self.table), **given)


def checked(rows: Rows, **given: Any) -> LogCheck:
    """Check rows with all texts."""
    return check_logs(BadLog(rows, 0, given=given).open())


def found(check: LogCheck) -> list[tuple[str, int]]:
    """Codes and counts of the faults."""
    return [(fault.code, fault.count) for fault in check.faults]


def good_rows() -> Rows:
    """Eight bids of each of four advertisers on each of three days: second price, no fault."""
    rows = []
    for d, day in enumerate(DAYS):
        for a, name in enumerate(ADVERTISERS):
            for i in range(8):
                bid = 1_000_000 + 50_000 * i + 10_000 * a
                minimum = 900_000 if (i + d) % 2 else 1_500_000
                won = bid >= minimum
                row = {
                    "advertiser_id": name,
                    "ts": day + datetime.timedelta(hours=i, minutes=a),
                    "bid_micros": bid,
                    "won": won,
                    "price_micros": minimum if won else None,
                    "auction_type": 2,
                    "floor_micros": 500_000,
                    "min_to_win_micros": minimum,
                    "currency": "USD",
                    "click": won and i == 1,
                }
                rows.append(row)
    return rows


def good_cells() -> Rows:
    """Ready-made histograms without a fault."""
    return [
        {
            "advertiser_id": name,
            "day": str(day.date()),
            "bin_micros": edge,
            "bids": 10,
            "wins": 4,
            "cost_micros": 3 * edge,
            "prices": 4,
        }
        for name in ADVERTISERS
        for day in DAYS
        for edge in (1_000_000, 2_000_000)
    ]


def changed(*places: int, rows: Rows | None = None, **values: Any) -> Rows:
    """The good rows, or others, with some of them changed; a callable value gets the row."""
    rows = good_rows() if rows is None else rows
    for place in places:
        for name, value in values.items():
            rows[place][name] = value(rows[place]) if callable(value) else value
    return rows


def everywhere(rows: Rows | None = None, **values: Any) -> Rows:
    """The good rows, or others, with all of them changed."""
    rows = good_rows() if rows is None else rows
    return changed(*range(len(rows)), rows=rows, **values)


def places(won: bool, n: int = 3) -> list[int]:
    """Indices of the first few good rows that won, or that lost."""
    return [i for i, row in enumerate(good_rows()) if row["won"] is won][:n]


def without(*names: str, rows: Rows | None = None) -> Rows:
    """The good rows, or others, without some columns."""
    rows = good_rows() if rows is None else rows
    return [{name: row[name] for name in row if name not in names} for row in rows]


def kept(keep: Callable[[dict[str, Any]], bool]) -> Rows:
    """Some of the good rows."""
    return [row for row in good_rows() if keep(row)]


def first_price(rows: Rows | None = None) -> Rows:
    """The good rows as first-price auctions."""
    return everywhere(
        rows,
        auction_type=1,
        price_micros=lambda row: row["bid_micros"] if row["won"] else None,
    )


def _in_cents(more: float) -> Rows:
    """The good rows with amounts in cents, and some more, in columns that do not say so."""
    return [
        {
            "bid": row["bid_micros"] // 10_000 + more,
            "paid_price": row["price_micros"] and row["price_micros"] // 10_000 + more,
            **{name: row[name] for name in row if not name.endswith("_micros")},
        }
        for row in good_rows()
    ]


def _of_cpm_and_unit(is_other: Callable[[dict[str, Any]], bool]) -> Rows:
    rows = good_rows()
    for row in filter(is_other, rows):
        row |= {k: v and v * 1000 for k, v in row.items() if k.endswith("_micros")}
    return rows


def _in_other_columns() -> Rows:
    rows = everywhere(price_micros=lambda row: "\\N" if row["price_micros"] is None else 900_000)
    return changed(4, rows=rows, won="perhaps")


def _one_bid(name: str) -> Rows:
    rows = kept(lambda row: row["advertiser_id"] != name)
    return rows + kept(lambda row: row["advertiser_id"] == name and row["won"])[:1]


#: By code; every one is made anew.
BAD_LOGS: dict[str, Callable[[], BadLog]] = {
    "unreadable": lambda: BadLog(_in_other_columns(), 1),
    "advertiser_missing": lambda: BadLog(changed(3, 9, advertiser_id=None), 2),
    "advertiser_blank": lambda: BadLog(
        changed(*range(0, 96, 8), advertiser_id=" NULL "), 12, {**TEXTS, " NULL ": "?"}
    ),
    "day_missing": lambda: BadLog(changed(3, 9, ts=None), 2),
    "bid_missing": lambda: BadLog(changed(3, 9, bid_micros=None), 2),
    "bid_not_positive": lambda: BadLog(changed(*places(won=False, n=2), bid_micros=-1), 2),
    "bid_too_large": lambda: BadLog(changed(*places(won=True, n=2), bid_micros=10**16), 2),
    "won_missing": lambda: BadLog(changed(3, 9, won=None), 2),
    "price_missing": lambda: BadLog(changed(*places(won=True), price_micros=None), 3),
    "price_negative": lambda: BadLog(changed(*places(won=True), price_micros=-1), 3),
    "price_above_bid": lambda: BadLog(
        changed(*places(won=True), price_micros=lambda row: row["bid_micros"] + 2_000), 3
    ),
    "price_not_bid": lambda: BadLog(
        changed(
            *places(won=True, n=1),
            rows=changed(*places(won=True), rows=first_price(), price_micros=950_000),
            price_micros=1_900_000,
        ),
        3,
    ),
    "weight_not_positive": lambda: BadLog(
        changed(5, 6, rows=changed(0, 1, rows=everywhere(weight=2.0), weight=0.0), weight=None), 4
    ),
    "auction_type_unknown": lambda: BadLog(changed(3, 9, auction_type=3), 2),
    "auctions_mixed": lambda: BadLog(changed(*places(won=False, n=5), auction_type=1), 5),
    "currencies_mixed": lambda: BadLog(
        changed(5, rows=changed(3, 9, currency="EUR"), currency="Canadian dollar"), 3
    ),
    "units_mixed": lambda: BadLog(_of_cpm_and_unit(lambda row: row["advertiser_id"] == "elm"), 1),
    "units_change": lambda: BadLog(
        _of_cpm_and_unit(lambda row: row["ts"].date() == DAYS[1].date()), 1
    ),
    "bin_not_positive": lambda: BadLog(
        changed(1, rows=changed(0, rows=good_cells(), bin_micros=0), bin_micros=None), 2
    ),
    "counts_missing": lambda: BadLog(changed(3, rows=good_cells(), wins=None), 1),
    "counts_negative": lambda: BadLog(changed(3, rows=good_cells(), prices=-4), 1),
    "wins_above_bids": lambda: BadLog(changed(3, rows=good_cells(), wins=11), 1),
    "cost_above_bids": lambda: BadLog(changed(3, rows=good_cells(), cost_micros=9 * 10**6), 1),
    "price_on_loss": lambda: BadLog(changed(*places(won=False), price_micros=1_500_000), 3),
    "click_on_loss": lambda: BadLog(changed(*places(won=False), click=True), 3),
    "minimum_missing": lambda: BadLog(changed(3, 9, min_to_win_micros=None), 2),
    "minimum_negative": lambda: BadLog(changed(3, 9, floor_micros=-1), 2),
    "minimum_below_floor": lambda: BadLog(changed(3, 9, floor_micros=1_600_000), 2),
    "won_below_minimum": lambda: BadLog(
        changed(*places(won=True), min_to_win_micros=lambda row: 2 * row["bid_micros"]), 3
    ),
    "day_implausible": lambda: BadLog(
        changed(3, 9, ts=datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)), 2
    ),
    "day_in_future": lambda: BadLog(everywhere(ts=lambda row: row["ts"].replace(year=2099)), 96),
    "bids_implausible": lambda: BadLog(
        everywhere(
            rows=without("floor_micros", "min_to_win_micros"),
            bid_micros=lambda row: row["bid_micros"] // 10**6,
            price_micros=lambda row: None if row["price_micros"] is None else 1,
        ),
        96,
    ),
    "prices_zero": lambda: BadLog(changed(*places(won=True), price_micros=0), 3),
    "amounts_multiplied": lambda: BadLog(
        [
            row | {name: row[name] and row[name] * 713 // 1000 for name in _AMOUNTS}
            if row["advertiser_id"] == "elm"
            else row
            for row in good_rows()
        ],
        1,
    ),
    "days_scattered": lambda: BadLog(
        everywhere(ts=lambda row: row["ts"] + 30 * (row["ts"].day - 2) * datetime.timedelta(1)), 3
    ),
    "amounts_whole": lambda: BadLog(_in_cents(0), 2, given={"amounts": "currency"}),
    "amounts_with_decimals": lambda: BadLog(_in_cents(0.5), 2, given={"amounts": "cents"}),
    "duplicate_rows": lambda: BadLog([*good_rows(), *good_rows()[:5], good_rows()[0]], 6),
    "duplicate_cells": lambda: BadLog([*good_cells(), *good_cells()[:5]], 5),
    "days_missing": lambda: BadLog(kept(lambda row: row["ts"].date() != DAYS[1].date()), 1),
    "days_thin": lambda: BadLog(
        kept(lambda row: row["ts"].date() != DAYS[1].date() or row["ts"].hour < 2), 1
    ),
    "one_day": lambda: BadLog(everywhere(ts=lambda row: DAYS[0] + (row["ts"] - DAYS[0]) / 10), 1),
    "one_advertiser": lambda: BadLog(
        kept(lambda row: row["advertiser_id"] == "elm"), 1, {"elm": "elm furniture"}
    ),
    "no_wins": lambda: BadLog(
        everywhere(won=False, click=False, price_micros=None, min_to_win_micros=1_500_000), 96
    ),
    "all_wins": lambda: BadLog(kept(lambda row: row["won"]), 48),
    "never_won": lambda: BadLog(
        kept(lambda row: row["advertiser_id"] != "elm" or not row["won"]), 1
    ),
    "few_bids": lambda: BadLog(_one_bid("elm"), 1),
    "no_texts": lambda: BadLog(good_rows(), 4, None),
    "advertisers_without_text": lambda: BadLog(good_rows(), 2, {**TEXTS, "elm": None, "ash": " "}),
    "texts_without_bids": lambda: BadLog(good_rows(), 1, {**TEXTS, "fir": "fir furniture"}),
    "texts_damaged": lambda: BadLog(good_rows(), 1, {**TEXTS, "elm": "caf\ufffd"}),
    "texts_unreadable": lambda: BadLog(
        good_rows(), 1, None, {"advertisers": ibis.memtable(pa.table({"advertiser_id": ["a"]}))}
    ),
    "person_columns": lambda: BadLog(
        everywhere(user_agent="Mozilla/5.0", userId="alice", IP="10.0.0.1", device_type=1), 3
    ),
}
