"""Checks of logs find every fault, count it right, and show examples."""

from __future__ import annotations

import dataclasses
import json
import re

import ibis
import pyarrow as pa
import pytest

from bad_logs import (
    BAD_LOGS,
    BadLog,
    changed,
    checked,
    everywhere,
    first_price,
    found,
    good_cells,
    good_rows,
    kept,
    without,
)
from coterie.ads.histograms.counting import read_histograms
from coterie.ads.logs.bid_logs import open_logs
from coterie.ads.logs.checks.faults import FAULT_CODES
from coterie.ads.logs.checks.log_checks import check_logs

BIG = 2**63 - 1


#: Faults of no row in particular, and those whose examples are values, not rows.
OF_THE_WHOLE = {
    *("no_wins", "all_wins", "no_losses_at_all", "bids_implausible"),
    *("auction_recognised", "prices_equal_bids", "no_texts", "texts_unreadable"),
    *("prices_implausible", "notices_without_bid"),
}


#: Histograms refuse these logs.
MIXED = {"currencies_mixed", "auctions_mixed", "auction_type_unknown"}


BY_VALUE = {"currencies_mixed", "auctions_mixed", "advertiser_blank"}


def distinct(rows):
    """Rows without the minimum to win, each with an id."""
    rows = without("min_to_win_micros", rows=rows)
    return [{**row, "auction_id": i} for i, row in enumerate(rows)]


def _without_wins_on(day):
    """The good rows, all lost on a day."""
    places = [i for i, row in enumerate(good_rows()) if str(row["ts"].date()) == day]
    return changed(*places, won=False, price_micros=None, click=False)


#: Bad logs of the faults that need many rows, beside the short ones.
LONG_BAD_LOGS = {
    "auction_recognised": lambda: BadLog(without("auction_type", rows=first_price()), 48),
    "prices_equal_bids": lambda: BadLog(
        distinct(everywhere(first_price(), auction_type=2) * 3), 144
    ),
    "days_without_win": lambda: BadLog(distinct(_without_wins_on("2026-03-03") * 5), 1),
    "no_losses_at_all": lambda: BadLog(distinct(kept(lambda row: row["won"]) * 2), 96),
    "no_losses": lambda: BadLog(
        distinct(kept(lambda row: row["won"] or row["advertiser_id"] != "elm") * 5), 1
    ),
}


ALL_BAD_LOGS = {**BAD_LOGS, **LONG_BAD_LOGS}


def test_log_without_a_fault_has_none():
    """Good bids of both auctions and good histograms have no faults."""
    for rows in (
        good_rows(),
        first_price(),
        good_cells(),
        without("ts", rows=everywhere(day=lambda row: row["ts"].date())),
    ):
        check = checked(rows)
        assert check.ok
        assert check.faults == []


@pytest.mark.slow
@pytest.mark.parametrize("code", ALL_BAD_LOGS)
def test_fault_is_found_and_nothing_else(code):
    """Each fault is the only one, with its count, sentence and examples, and fits JSON.

    The sums of the check equal those of the histograms.
    """
    bad = ALL_BAD_LOGS[code]()
    logs = bad.open()
    check = check_logs(logs)
    assert found(check) == [(code, bad.count)]
    fault = check.faults[0]
    assert fault.severity == FAULT_CODES[code].severity
    assert check.ok == (fault.severity == "warning")
    assert 0 < fault.share <= 1
    assert not re.search("[{}]", fault.what)
    assert json.loads(json.dumps(check.as_dict(), allow_nan=False)) == check.as_dict()
    assert bool(fault.examples) == (code not in OF_THE_WHOLE)
    if fault.unit == "rows" and code not in OF_THE_WHOLE | BY_VALUE:
        assert len(fault.examples) == min(3, bad.count)
        assert all("advertiser_id" in example for example in fault.examples)
    if code not in MIXED:
        sums, overview = read_histograms(logs).dense(), check.overview
        assert sums.bids.sum() == pytest.approx(overview.bids)
        assert sums.wins.sum() == pytest.approx(overview.wins)
        assert sums.cost.sum() / 1e9 == pytest.approx(overview.spend)


def test_every_code_has_a_bad_log():
    """The bad logs of the tests cover the catalogue."""
    assert {"no_rows", "line_ragged", "quote_open", *ALL_BAD_LOGS} == set(FAULT_CODES)


def test_all_faults_are_listed_errors_first():
    """One check of a log with many faults lists them all."""
    rows = changed(0, bid_micros=None)
    rows = changed(1, rows=rows, price_micros=BIG, won=True)
    rows = changed(2, rows=rows, currency="EUR", floor_micros=-5)
    rows = changed(3, rows=rows, advertiser_id=None, ts=None)
    check = checked([*rows, rows[9]])
    assert found(check) == [
        ("advertiser_missing", 1),
        ("day_missing", 1),
        ("bid_missing", 1),
        ("price_above_bid", 1),
        ("currencies_mixed", 1),
        ("minimum_negative", 1),
        ("duplicate_rows", 1),
    ]
    assert [fault.severity for fault in check.faults] == ["error"] * 5 + ["warning"] * 2
    assert check.errors + check.warnings == check.faults


def test_overview_is_what_the_rows_add_up_to():
    """Counts, days, money and texts of the good log equal plain sums."""
    rows = good_rows()
    overview = checked(rows).overview
    wins = [row["price_micros"] for row in rows if row["won"]]
    assert (overview.rows, overview.counted_rows, overview.bids) == (96, 96, 96.0)
    assert (overview.advertisers, overview.texts, overview.advertisers_with_text) == (4, 4, 4)
    assert (overview.first_day, overview.last_day, overview.days) == ("2026-03-02", "2026-03-04", 3)
    assert (overview.wins, overview.win_rate) == (len(wins), len(wins) / 96)
    assert overview.spend == pytest.approx(sum(wins) / 1e9)
    assert (overview.auction, overview.revealed, overview.currency) == ("second", "minimum", "USD")
    assert overview.missing_days == []


def test_overview_of_other_logs():
    """Missing and mixed values and revealed prices are reported."""
    bare = checked(without("min_to_win_micros", "currency")).overview
    assert (bare.revealed, bare.currency) == ("paid", "")
    mixed = check_logs(BAD_LOGS["auctions_mixed"]().open()).overview
    assert (mixed.auction, mixed.revealed) == ("mixed", "minimum")
    assert check_logs(BAD_LOGS["currencies_mixed"]().open()).overview.currency == "mixed"
    assert check_logs(BAD_LOGS["days_missing"]().open()).overview.missing_days == ["2026-03-03"]
    cells = checked(good_cells()).overview
    assert (cells.bids, cells.wins, cells.win_rate, cells.revealed) == (240.0, 96.0, 0.4, "paid")


def test_overview_says_how_the_auction_is_known():
    """As the log knows it; a mixture is in the column."""
    recognised = checked(without("auction_type", rows=first_price())).overview
    assert (recognised.auction, recognised.auction_source) == ("first", "prices")
    mixed = check_logs(BAD_LOGS["auctions_mixed"]().open()).overview
    assert (mixed.auction, mixed.auction_source) == ("mixed", "column")


def test_a_recognised_first_price_reveals_no_price():
    """The check and the log agree, and no row is an error."""
    check = checked(without("auction_type", "min_to_win_micros", rows=first_price()))
    assert (check.overview.revealed, found(check)) == ("none", [("auction_recognised", 48)])


def test_rows_that_histograms_leave_out_do_not_count():
    """They count only in the number of rows."""
    overview = checked(changed(0, 1, 2, bid_micros=0)).overview
    assert (overview.rows, overview.counted_rows, overview.bids) == (96, 93, 93.0)


def test_weights_count():
    """Bids, wins and spend of a sample are sums of weights."""
    rows = everywhere(weight=lambda row: 3.0 if row["won"] else 1.0)
    overview = checked(rows).overview
    wins = sum(row["won"] for row in rows)
    assert overview.weighted
    assert (overview.wins, overview.bids) == (3 * wins, 3 * wins + 96 - wins)
    assert overview.spend == pytest.approx(3 * checked(good_rows()).overview.spend)


def test_infinite_weight_is_an_error():
    """The row is left out, and the example shows the weight as text."""
    check = checked(changed(4, rows=everywhere(weight=1.0), weight=float("inf")))
    assert found(check) == [("weight_not_positive", 1)]
    assert check.errors[0].examples[0]["weight"] == "inf"
    assert check.overview.bids == 95.0
    json.dumps(check.as_dict(), allow_nan=False)


def test_log_made_by_hand_is_checked_too():
    """A table that is not a selection of columns is checked without the original values."""
    logs = BadLog(changed(0, 1, bid_micros=0), 0).open()
    filtered = dataclasses.replace(logs, table=logs.table.filter(logs.table.advertiser_id != "elm"))
    check = check_logs(filtered)
    assert found(check) == [("bid_not_positive", 2), ("texts_without_bids", 1)]
    assert check.overview.rows == 72


def test_empty_log_is_an_error_and_nothing_else():
    """A log without rows has one fault."""
    logs = BadLog(good_rows(), 0).open()
    check = check_logs(dataclasses.replace(logs, table=logs.table.limit(0)))
    assert found(check) == [("no_rows", 0)]
    assert not check.ok
    overview = check.overview
    assert (overview.rows, overview.win_rate, overview.median_bid, overview.first_day) == (
        0,
        None,
        None,
        None,
    )


def test_checks_are_the_same_at_every_run():
    """The order of rows has no effect."""
    rows = changed(*range(0, 90, 7), bid_micros=-3)
    assert checked(rows).as_dict() == checked(rows[::-1]).as_dict()


def test_a_check_is_shown_by_its_numbers():
    """The repr has the source, and how many errors and warnings there are."""
    check = check_logs(open_logs(ibis.memtable(pa.Table.from_pylist(good_rows()))))
    shown = repr(check)
    assert f"{len(good_rows())} rows" in shown
    assert f"{len(check.errors)} error" in shown and f"{len(check.warnings)} warning" in shown
