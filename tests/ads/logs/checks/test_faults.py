"""Check rules mark the rows that plain Python finds faulty."""

from __future__ import annotations

import datetime

import ibis
import pyarrow as pa
import pyarrow.csv
from hypothesis import given, settings
from hypothesis import strategies as st

from bad_logs import (
    BAD_LOGS,
    checked,
    everywhere,
    first_price,
    found,
    good_rows,
    without,
)
from coterie.ads.logs.bid_logs import open_logs
from coterie.ads.logs.checks import check_queries
from coterie.ads.logs.checks.faults import row_rules

BIG = 2**63 - 1


amounts = st.sampled_from(
    [None, -BIG, -5, 0, 1, 900, 1000, 1001, 1002, 1003, 10**15, 10**15 + 1, BIG]
)


bid_rows = st.fixed_dictionaries(
    {
        "advertiser_id": st.sampled_from([None, "a", "b"]),
        "day": st.sampled_from(
            [None, *(datetime.date(year, 1, 1) for year in (1970, 2000, 2020, 2100, 2101))]
        ),
        "bid_micros": amounts,
        "won": st.sampled_from([None, True, False]),
        "price_micros": amounts,
        "auction_type": st.sampled_from([None, 1, 2, 7]),
        "floor_micros": amounts,
        "min_to_win_micros": amounts,
        "click": st.sampled_from([None, True, False]),
    }
)


TYPES = pa.schema(
    {
        "advertiser_id": pa.string(),
        "day": pa.date32(),
        "bid_micros": pa.int64(),
        "won": pa.bool_(),
        "price_micros": pa.int64(),
        "auction_type": pa.int64(),
        "floor_micros": pa.int64(),
        "min_to_win_micros": pa.int64(),
        "click": pa.bool_(),
    }
)


@given(st.lists(bid_rows, min_size=1, max_size=30))
@settings(deadline=None, max_examples=15)
def test_rules_count_what_plain_python_counts(rows):
    """Values are null, negative, small or the largest integers."""
    logs = open_logs(ibis.memtable(pa.Table.from_pylist(rows, schema=TYPES)))
    table = logs.rows
    rules = row_rules(table, logs)
    cells = check_queries.read_cells(table, rules, logs)
    counts = {
        rule.code: int(cells.rows[(cells.faults >> k) & 1 == 1].sum())
        for k, rule in enumerate(rules)
    }
    expected = dict.fromkeys(counts, 0)
    for row in rows:
        for code in broken_by_hand(row):
            expected[code] += 1
    assert counts == expected
    assert cells.rows.sum() == len(rows)


def broken_by_hand(row) -> list[str]:
    """The rules that a row breaks, evaluated in Python."""
    bid, price, won, day = (row[n] for n in ("bid_micros", "price_micros", "won", "day"))
    minimum, floor = (
        0 if row[n] is None else row[n] for n in ("min_to_win_micros", "floor_micros")
    )
    has_bid, has_price = bid is not None and bid > 0, price is not None and price >= 0
    paid = won is True and has_bid and has_price
    is_first = row["auction_type"] == 1
    is_far = paid and abs(price - bid) > bid / 1000 + 1
    broken = {
        "advertiser_missing": row["advertiser_id"] is None,
        "day_missing": day is None,
        "day_implausible": day is not None and not 2000 <= day.year <= 2100,
        "day_in_future": day is not None and day.year == 2100,
        "auction_type_unknown": row["auction_type"] == 7,
        "bid_missing": bid is None,
        "bid_not_positive": bid is not None and bid <= 0,
        "bid_too_large": has_bid and bid > 10**15,
        "won_missing": won is None,
        "price_missing": won is True and price is None,
        "price_negative": price is not None and price < 0,
        "price_above_bid": is_far and price > bid and not is_first,
        "price_not_bid": is_far and is_first,
        "prices_zero": won is True and price == 0,
        "price_on_loss": won is False and has_price and price > 0,
        "click_on_loss": won is False and row["click"] is True,
        "minimum_missing": has_bid and row["min_to_win_micros"] is None,
        "minimum_negative": minimum < 0 or floor < 0,
        "minimum_below_floor": row["min_to_win_micros"] is not None
        and 0 <= minimum
        and minimum + minimum / 1000 + 1 < floor,
        "won_below_minimum": won is True and has_bid and bid + bid / 1000 + 1 < minimum,
    }
    return [code for code, is_broken in broken.items() if is_broken]


def test_rounding_of_prices_is_no_fault():
    """A price may differ by a thousandth of the bid and one micro."""
    for rows in (good_rows(), first_price()):
        near = everywhere(
            without("min_to_win_micros", rows=rows),
            price_micros=lambda row: row["bid_micros"] + 1000 if row["won"] else None,
        )
        assert checked(near).faults == []


def test_minimum_that_no_row_has_is_not_missing():
    """An empty column is not a fault."""
    assert checked(everywhere(min_to_win_micros=None)).faults == []


def test_a_given_auction_replaces_auction_type():
    """Mixed or unknown types are no fault if the auction is given."""
    for code in ("auctions_mixed", "auction_type_unknown"):
        bad = BAD_LOGS[code]()
        assert checked(bad.rows, auction="second").faults == []
    assert found(checked(good_rows(), auction="first")) == [("price_not_bid", 48)]
