"""Faults of whole logs are found at their thresholds."""

from __future__ import annotations

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
    good_rows,
)
from coterie.ads.logs.bid_logs import open_logs
from coterie.ads.logs.checks import check_queries
from coterie.ads.logs.checks.aggregate_checks import LogSums, aggregate_faults
from coterie.ads.logs.checks.check_queries import (
    checked_rows,
)
from coterie.ads.logs.checks.check_rules import row_rules


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 10**15), st.integers(1, 4)),
        min_size=1,
        max_size=40,
    )
)
@settings(deadline=None, max_examples=15)
def test_medians_are_those_of_the_bids_to_two_digits(bids):
    """Medians of all bids and by advertiser equal those of rows repeated by weight."""
    names, amount, weight = (list(part) for part in zip(*bids, strict=True))
    log = {
        "advertiser_id": names,
        "day": [DAYS[0].date()] * len(bids),
        "bid_micros": amount,
        "won": [False] * len(bids),
        "price_micros": pa.nulls(len(bids), pa.int64()),
        "weight": [float(w) for w in weight],
    }
    logs = open_logs(ibis.memtable(pa.table(log)))
    table = checked_rows(logs)
    cells = check_queries.read_cells(table, row_rules(table, logs), logs)
    sums = LogSums(cells, np.ones(len(cells.rows), dtype=bool))
    assert sums.median_bid == lower_median(amount, weight)
    for name, median in zip(cells.advertisers, sums.medians_by_advertiser(), strict=True):
        chosen = [(v, w) for n, v, w in bids if n == name]
        assert median == lower_median(*zip(*chosen, strict=True))


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
    return check_queries.RowCells(
        advertisers=[f"adv-{i}" for i in range(max(advertiser) + 1)],
        advertiser=np.array(advertiser),
        day=np.datetime64(DAYS[0].date()) + np.array(day),
        amount=np.array(amount),
        faults=np.zeros(n, dtype=np.int64),
        auction_type=np.full(n, 2),
        currency=np.full(n, "USD"),
        rows=rows,
        bids=rows.astype(float),
        wins=wins,
        cost=wins * 1000,
    )


def codes_of(cells) -> dict[str, list[str]]:
    """Codes of the faults of the cells, and the first value of every example."""
    sums = LogSums(cells, np.ones(len(cells.rows), dtype=bool))
    logs = BadLog(good_rows(), 0).open()
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
        cells_of([0, 0, 1, 2], [0, 1, 0, 1], [5000] * 4, [9, 1, 9, 50], wins=[0, 1, 9, 0])
    )
    assert found == {"few_bids": ["adv-1"], "never_won": ["adv-2"]}


@pytest.mark.parametrize(("median", "is_odd"), [(990, True), (1000, False), (1.1e10, True)])
def test_median_bids_outside_the_plausible_range(median, is_odd):
    """The range is 0.001 to 10,000 of the currency for a thousand impressions."""
    cells = cells_of([0, 1], [0, 1], [int(median)] * 2, [20, 20])
    assert ("bids_implausible" in codes_of(cells)) == is_odd
