"""Faults of whole logs are found at their thresholds."""

from __future__ import annotations

from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bad_logs import (
    DAYS,
    BadLog,
    everywhere,
    first_price,
    good_cells,
    good_rows,
    without,
)
from coterie.ads.logs.bid_logs import open_logs
from coterie.ads.logs.checks import check_queries
from coterie.ads.logs.checks.aggregate_checks import LogSums, aggregate_faults, median_amount
from coterie.ads.logs.checks.check_queries import read_amounts
from coterie.ads.logs.checks.check_rules import row_rules
from coterie.ads.logs.checks.log_checks import check_logs


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
    assert median_amount(read_amounts(table, rules, logs)) == lower_median(amount, weight)
    for name in set(names):
        chosen = [(v, w) for n, v, w in bids if n == name]
        found = median_amount(read_amounts(table, rules, logs, name))
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
    amounts = read_amounts(table, rules, logs)
    sums = LogSums(cells, np.ones(len(cells.rows), dtype=bool), amounts, lambda _: 0)
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
    median = median_amount(check_queries.AmountCells(np.array(day), amount, bids))
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
        priced=np.zeros(n, dtype=np.int64),
        equal=np.zeros(n, dtype=np.int64),
    )


def codes_of(cells, rows=None) -> dict[str, list[Any]]:
    """Codes of the faults of the cells, and the first value of every example.

    ``rows`` give the columns of the log, by default those of the good rows.
    """
    amounts = check_queries.AmountCells(cells.day, cells.amount, cells.bids)
    sums = LogSums(cells, np.ones(len(cells.rows), dtype=bool), amounts, lambda _: 0)
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
    assert faults_of(rows) == {}


def test_a_stated_first_price_is_not_recognised():
    """Neither a given auction nor the column is a warning if prices equal bids."""
    rows = bare(first_price())
    assert faults_of(rows) == {}
    assert faults_of(without("auction_type", rows=rows), auction="first") == {}


def test_prices_that_equal_bids_contradict_second_price():
    """Stated by the column or given, second price is doubted from 100 wins and 99 % on."""
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
    rows[won[2]]["price_micros"] = 900_000
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
    assert list(faults_of(some)) == ["minimum_missing", "no_losses"]
    assert list(faults_of(won)) == ["minimum_missing", "no_losses_at_all"]


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
