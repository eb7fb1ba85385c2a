"""Checks of logs find every fault, count it right, and show examples."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bad_logs import (
    BAD_LOGS,
    DAYS,
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
from coterie.ads.logs.checks import check_queries
from coterie.ads.logs.checks.check_queries import lower_median as median_of_cells
from coterie.ads.logs.checks.check_queries import read_medians
from coterie.ads.logs.checks.faults import FAULT_CODES, row_rules
from coterie.ads.logs.checks.log_checks import LogSums, aggregate_faults, check_logs

BIG = 2**63 - 1


#: Faults of no row in particular, and those whose examples are values, not rows.
OF_THE_WHOLE = {
    *("no_wins", "all_wins", "no_losses_at_all", "bids_implausible"),
    *("auction_recognised", "prices_equal_bids", "no_texts", "texts_unreadable"),
    *("prices_net", "prices_far_below"),
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


#: Bad logs of the faults that need many rows, next to the short ones.
LONG_BAD_LOGS = {
    "auction_recognised": lambda: BadLog(without("auction_type", rows=first_price()), 48),
    "prices_equal_bids": lambda: BadLog(
        distinct(everywhere(first_price(), auction_type=2) * 3), 144
    ),
    "days_without_win": lambda: BadLog(distinct(_without_wins_on("2026-03-03") * 5), 1),
    "days_few_losses": lambda: BadLog(
        distinct(kept(lambda row: row["won"] or row["ts"].day != 3) * 8), 1
    ),
    "values_without_losses": lambda: BadLog(
        [
            row | {"exchange": "b" if row["auction_id"] % 5 < 2 else "a"}
            for row in distinct(good_rows() * 10)
            if row["won"] or row["auction_id"] % 5 >= 2
        ],
        1,
    ),
    "losses_at_one_bid": lambda: BadLog(
        everywhere(
            distinct(good_rows() * 2),
            bid_micros=lambda row: (
                row["bid_micros"] if row["won"] or row["advertiser_id"] != "elm" else 1_400_000
            ),
        ),
        1,
    ),
    "prices_implausible": lambda: BadLog(
        everywhere(
            distinct(good_rows() * 2),
            price_micros=lambda row: (
                row["price_micros"]
                and row["price_micros"] // (20 if row["advertiser_id"] == "elm" else 1)
            ),
        ),
        1,
    ),
    "prices_far_below": lambda: BadLog(
        everywhere(distinct(good_rows() * 2), price_micros=lambda row: row["price_micros"] and 1),
        96,
    ),
    "clicks_on_losses": lambda: BadLog(
        everywhere(distinct(good_rows()), click=lambda row: not row["won"]), 48
    ),
    "prices_net": lambda: BadLog(
        everywhere(
            distinct(good_rows() * 14),
            price_micros=lambda row: row["price_micros"] and 850_000,
        ),
        672,
    ),
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


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 10**15), st.integers(1, 4)),
        min_size=1,
        max_size=40,
    )
)
@settings(deadline=None, max_examples=8)
def test_medians_are_those_of_the_bids_to_two_digits(bids):
    """Medians of all bids and by advertiser equal those of rows repeated by weight."""
    names, amount, weight = (list(part) for part in zip(*bids, strict=True))
    logs, table, rules = weighted_bids(names, amount, weight)
    assert read_medians(table, rules, logs)[0] == lower_median(amount, weight)
    for name in set(names):
        chosen = [(v, w) for n, v, w in bids if n == name]
        found = read_medians(table, rules, logs, name)[0]
        assert found == lower_median(*zip(*chosen, strict=True))


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from([1, 300, 90_000]), st.integers(1, 5)),
        min_size=1,
        max_size=30,
    )
)
@settings(deadline=None, max_examples=8)
def test_advertisers_in_other_units_are_those_whose_median_is_far(bids):
    """Bids far below and above the median of all are enough to know it."""
    names, unit, weight = (list(part) for part in zip(*bids, strict=True))
    amount = [1000 * one for one in unit]
    logs, table, rules = weighted_bids(names, amount, weight)
    median = lower_median(amount, weight)
    cells = check_queries.read_cells(table, rules, logs, median)
    every = np.ones(len(cells.rows), dtype=bool)
    sums = LogSums(cells, every, *read_medians(table, rules, logs), lambda _: 0)
    own = {
        name: lower_median(*zip(*((v, w) for n, v, w in zip(names, amount, weight, strict=True)
                                  if n == name), strict=True))
        for name in set(names)
    }  # fmt: skip
    far = [name for name, m in own.items() if m >= 300 * median or 300 * m <= median]
    assert sums.in_other_units() == sorted(far)


def weighted_bids(names, amounts, weights):
    """A log of lost bids with weights, its rows as they are checked, and the rules for them."""
    log = {
        "advertiser_id": names,
        "day": [DAYS[0].date()] * len(names),
        "bid_micros": amounts,
        "won": [False] * len(names),
        "price_micros": pa.nulls(len(names), pa.int64()),
        "weight": [float(w) for w in weights],
    }
    logs = open_logs(ibis.memtable(pa.table(log)))
    table = logs.rows
    return logs, table, row_rules(table, logs)


def lower_median(values, weights) -> int:
    """The lower median of repeated values, rounded half up to two digits."""
    repeated = sorted(np.repeat(np.array(values, dtype=object), weights).tolist())
    middle = repeated[(len(repeated) - 1) // 2]
    step = 10 ** max(len(str(middle)) - 2, 0)
    return (middle + step // 2) // step * step


def cells_of(advertiser, day, amount, rows, wins=None) -> check_queries.RowCells:
    """Cells made by hand; half of the rows are won."""
    rows = np.array(rows)
    wins = rows / 2 if wins is None else np.array(wins, dtype=float)
    n = len(rows)
    bids, amount = rows.astype(float), np.array(amount)
    median = median_of_cells(amount, bids)
    return check_queries.RowCells(
        advertisers=[f"adv-{i}" for i in range(max(advertiser) + 1)],
        advertiser=np.array(advertiser),
        day=np.datetime64(DAYS[0].date()) + np.array(day),
        amount=amount,
        faults=np.zeros(n, dtype=np.int64),
        auction_type=np.full(n, 2),
        currency=np.full(n, "USD"),
        rows=rows,
        with_bid=rows,
        bids=bids,
        wins=wins,
        cost=wins * 1000,
        low=np.where(300 * amount <= median, bids, 0),
        high=np.where(amount >= 300 * median, bids, 0),
        **dict.fromkeys(("priced", "equal", "close"), np.zeros(n, dtype=np.int64)),
        **dict.fromkeys(check_queries._ENDS, np.zeros(n, dtype=np.int64)),
        share=np.zeros(n),
    )


def codes_of(cells, rows=None) -> dict[str, list[Any]]:
    """Codes of the faults of the cells, and the first value of every example.

    ``rows`` give the columns of the log, by default those of the good rows.
    """
    median = median_of_cells(cells.amount, cells.bids)
    medians = {
        str(day): median_of_cells(cells.amount[cells.day == day], cells.bids[cells.day == day])
        for day in np.unique(cells.day)
    }
    every = np.ones(len(cells.rows), dtype=bool)
    sums = LogSums(cells, every, median, medians, lambda _: 0)
    logs = BadLog(good_rows() if rows is None else rows, 0).open()
    return {
        fault.code: [next(iter(example.values())) for example in fault.examples]
        for fault in aggregate_faults(sums, logs)
    }


@pytest.mark.parametrize(("ratio", "is_far"), [(299, False), (300, True), (1000, True)])
def test_units_differ_by_a_factor_of_three_hundred(ratio, is_far):
    """By advertiser and by day, above and below the median."""
    unit = 2000
    few = cells_of([0, 1, 2], [0, 0, 0], [unit * ratio, unit, unit * ratio * ratio], [20, 60, 20])
    many = cells_of([0, 0, 0], [0, 1, 2], [unit, unit * ratio, unit * ratio], [20, 30, 30])
    assert codes_of(few).get("units_mixed") == (["adv-0", "adv-2"] if is_far else ["adv-2"])
    assert codes_of(many).get("units_change") == (["2026-03-02"] if is_far else None)


def test_days_are_thin_below_a_third_of_the_median_day():
    """At least three days are needed."""
    three = ([0] * 3, [0, 1, 2], [5000] * 3)
    assert codes_of(cells_of(*three, [90, 29, 90]))["days_thin"] == ["2026-03-03"]
    assert "days_thin" not in codes_of(cells_of(*three, [90, 30, 90]))
    assert "days_thin" not in codes_of(cells_of([0, 0], [0, 1], [5000] * 2, [90, 10]))


def test_few_bids_are_fewer_than_ten_and_never_won_has_bids():
    """Bids are counted over all days and bins."""
    found = codes_of(
        cells_of([0, 0, 1, 2], [0, 1, 0, 1], [50_000] * 4, [9, 1, 9, 50], wins=[0, 1, 9, 0])
    )
    assert found == {"few_bids": ["adv-1"], "never_won": ["adv-2"]}


@pytest.mark.parametrize(("median", "is_odd"), [(9900, True), (10_000, False), (1.1e9, True)])
def test_median_bids_outside_the_plausible_range(median, is_odd):
    """The range is 0.01 to 1,000 of the currency for a thousand impressions."""
    cells = cells_of([0, 1], [0, 1], [int(median)] * 2, [20, 20])
    assert ("bids_implausible" in codes_of(cells)) == is_odd


@pytest.mark.parametrize(("currency", "most"), [("USD", 10**9), ("IDR", 10**11)])
def test_currencies_of_small_units_have_larger_amounts(currency, most):
    """A bid of 2,000 dollars is doubted, one of 2,000 rupiah is not."""
    for median, is_odd in ((most, False), (most * 2, True)):
        cells = cells_of([0, 1], [0, 1], [median] * 2, [20, 20])
        cells.currency[:] = currency
        assert ("bids_implausible" in codes_of(cells)) == is_odd


@pytest.mark.parametrize("unit", ["micros", "cents", "micros/impression"])
def test_units_of_whole_numbers_have_no_decimals(unit):
    """The warning has the unit that amounts were read in."""
    rows = BAD_LOGS["amounts_with_decimals"]().rows
    fault = faults_of(rows, amounts=unit)["amounts_with_decimals"]
    assert {example["unit"] for example in fault.examples} == {unit}
    for i, row in enumerate(rows):
        if i % 5 < 3:  # most have none
            row |= {name: row[name] and row[name] // 1 for name in ("bid", "paid_price")}
    assert "amounts_with_decimals" not in faults_of(rows, amounts=unit)


def bare(rows=None, copies: int = 3):
    """Rows without the minimum to win, several times; each has an id, so none is repeated."""
    rows = without("min_to_win_micros", rows=good_rows() if rows is None else rows)
    return [{**row, "auction_id": i} for i, row in enumerate(rows * copies)]


def faults_of(rows, **given):
    """The faults of a log by code."""
    return {fault.code: fault for fault in check_logs(BadLog(rows, 0, given=given).open()).faults}


def test_a_recognised_auction_is_a_warning():
    """The sentence gives the share of wins and their number; a few other prices are no errors."""
    rows = without("auction_type", rows=bare(first_price(), 5))
    (fault,) = faults_of(rows).values()
    assert (fault.code, fault.severity, fault.count) == ("auction_recognised", "warning", 240)
    assert "first price" in fault.what
    assert "100% of 240 wins" in fault.what
    assert "--auction first or second" in fault.remedy
    assert "auction_type" in fault.remedy
    won = [i for i, row in enumerate(rows) if row["won"]]
    rows[won[0]]["price_micros"] = 900_000
    (fault,) = faults_of(rows).values()
    assert (fault.code, fault.count) == ("auction_recognised", 239)
    assert "99.5% of 240 wins" in fault.what
    for i in won[:3]:
        rows[i]["price_micros"] = 900_000
    assert list(faults_of(rows)) == ["prices_equal_bids"]


def test_a_stated_first_price_is_not_recognised():
    """Neither a given auction nor the column is a warning if prices equal bids."""
    rows = bare(first_price())
    assert faults_of(rows) == {}
    assert faults_of(without("auction_type", rows=rows), auction="first") == {}


def test_prices_that_equal_bids_contradict_second_price():
    """Stated by the column or given, second price is doubted if 5% of 100 wins paid their bid."""
    rows = everywhere(bare(first_price(), 5), auction_type=2)
    given = faults_of(without("auction_type", rows=rows), auction="second")
    assert list(given) == ["prices_equal_bids"]
    (fault,) = faults_of(rows).values()
    assert (fault.code, fault.severity, fault.count) == ("prices_equal_bids", "warning", 240)
    assert "second price" in fault.what
    assert "give --auction first" in fault.remedy
    won = [i for i, row in enumerate(rows) if row["won"]]
    assert faults_of([row for i, row in enumerate(rows) if i not in won[99:]]) == {}
    for place in won[:2]:
        rows[place]["price_micros"] = 900_000
    assert "99.1% of 240 wins" in faults_of(rows)["prices_equal_bids"].what
    for place in won[2:-20]:
        rows[place]["price_micros"] = 900_000
    assert "8.3% of 240 wins" in faults_of(rows)["prices_equal_bids"].what
    for place in won[-20:-10]:
        rows[place]["price_micros"] = 900_000
    assert faults_of(rows) == {}


def test_mixed_auctions_are_the_only_fault_of_the_auction():
    """Prices that equal bids say nothing about a log of both auctions."""
    rows = bare(first_price())
    rows[0]["auction_type"] = 2
    assert list(faults_of(rows)) == ["auctions_mixed"]


def test_advertisers_without_losses_are_counted():
    """The examples are those with the most bids, if they have at least 50."""
    wins_only = {"ash": 50, "birch": 49, "cedar": 60}
    rows = [row for row in bare(copies=8) if row["won"] or row["advertiser_id"] not in wins_only]
    seen = dict.fromkeys(wins_only, 0)
    kept = []
    for row in rows:
        name = row["advertiser_id"]
        seen[name] = seen.get(name, 0) + 1
        if seen[name] <= wins_only.get(name, 10**6):
            kept.append(row)
    (fault,) = faults_of(kept).values()
    assert (fault.code, fault.severity, fault.unit) == ("no_losses", "warning", "advertisers")
    assert (fault.count, fault.share) == (2, 0.5)
    assert fault.examples == [
        {"advertiser_id": "cedar", "bids": 60},
        {"advertiser_id": "ash", "bids": 50},
    ]
    assert "lost bids seem not to be logged for these advertisers" in fault.remedy
    lost = next(row for row in bare() if row["advertiser_id"] == "ash" and not row["won"])
    (fault,) = faults_of([*kept, {**lost, "auction_id": -1}]).values()
    assert [example["advertiser_id"] for example in fault.examples] == ["cedar"]


def test_a_log_of_wins_only_has_one_warning():
    """From 50 bids on it says that win rates would be 1; fewer bids just all won."""
    won = [row for row in bare(copies=5) if row["won"]]
    (fault,) = faults_of(won).values()
    assert (fault.code, fault.severity) == ("no_losses_at_all", "warning")
    assert (fault.count, fault.share) == (240, 1.0)
    assert "win rates would be 1 at every bid" in fault.what
    assert {"no_losses_at_all"} <= faults_of(won[:50]).keys()
    assert {"all_wins"} <= faults_of(won[:49]).keys()


def test_logs_with_the_minimum_to_win_need_no_losses():
    """Nothing is censored there; one missing minimum ends the exemption."""
    rows = [{**row, "auction_id": i} for i, row in enumerate(good_rows() * 5)]
    some = [row for row in rows if row["won"] or row["advertiser_id"] != "ash"]
    assert faults_of(some) == {}
    won = [row for row in rows if row["won"]]
    assert list(faults_of(won)) == ["all_wins"]
    some[0]["min_to_win_micros"] = won[0]["min_to_win_micros"] = None
    assert list(faults_of(some)) == ["no_losses", "minimum_missing"]
    assert list(faults_of(won)) == ["no_losses_at_all", "minimum_missing"]


def test_losses_of_a_sample_are_counted_by_rows():
    """Weights are no evidence: 49 rows are too few, whatever they weigh."""
    heavy = cells_of([0, 1], [0, 1], [5000] * 2, [49, 60], wins=[490, 300])
    heavy.bids[:] = [490, 600]
    rows = bare()
    assert "no_losses" not in codes_of(heavy, rows)
    heavy.rows[0] = 50
    assert codes_of(heavy, rows)["no_losses"] == ["adv-0"]


def test_histograms_without_losses_are_found():
    """A row of ready-made histograms has many bids, and wins are compared with bids."""
    ash = [i for i, row in enumerate(good_cells()) if row["advertiser_id"] == "ash"]
    rows = good_cells()
    for i in ash:
        rows[i]["wins"] = rows[i]["bids"]
    (fault,) = faults_of(rows).values()
    assert (fault.code, fault.count) == ("no_losses", 1)
    assert fault.examples == [{"advertiser_id": "ash", "bids": 60}]
    rows[ash[0]]["wins"] -= 1
    assert faults_of(rows) == {}
    everything = everywhere(good_cells(), wins=lambda row: row["bids"])
    assert list(faults_of(everything)) == ["no_losses_at_all"]
    assert list(faults_of(everywhere(everything, bids=2, wins=2, cost_micros=0))) == ["all_wins"]


def test_bins_far_too_large_are_found():
    """They do not overflow, either: 2^63 micros is the largest amount that an engine knows."""
    rows = good_cells()
    rows[0]["bin_micros"] = 2**63 - 1
    fault = faults_of(rows)["bid_too_large"]
    assert fault.count == 1 and fault.examples[0]["bin_micros"] == 2**63 - 1
