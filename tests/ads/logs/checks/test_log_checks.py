"""Checks of logs find every fault, count it right, and show what is wrong."""

from __future__ import annotations

import dataclasses
import datetime
import json
import logging
import re

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bad_logs import (
    BAD_LOGS,
    DAYS,
    BadLog,
    changed,
    everywhere,
    first_price,
    good_cells,
    good_rows,
    without,
)
from coterie.ads.logs.bid_logs import open_logs
from coterie.ads.logs.checks import check_queries, log_checks
from coterie.ads.logs.checks.aggregate_checks import LogSums, aggregate_faults
from coterie.ads.logs.checks.check_queries import (
    cells_query,
    checked_rows,
    examples_query,
    repeats_query,
)
from coterie.ads.logs.checks.check_rules import row_rules
from coterie.ads.logs.checks.faults import FAULT_CODES
from coterie.ads.logs.checks.log_checks import check_logs

BIG = 2**63 - 1
#: Faults of no row in particular, and those whose examples are values, not rows.
OF_THE_WHOLE = {"no_wins", "all_wins", "bids_implausible", "no_texts", "texts_unreadable"}
BY_VALUE = {"currencies_mixed", "auctions_mixed", "advertiser_blank"}
IPINYOU = (
    "bid{i}\t2013060712000{i}123\t1\tperson\tMozilla\t10.0.0.*\t1\t2\t1\tdomain\thttp://url\t\tslot"
    "\t300\t250\t0\t0\t5\tcreative\t300\t{price}\tlanding\t1458\t10063"
)


def found(check) -> list[tuple[str, int]]:
    """The codes and counts of what was found."""
    return [(fault.code, fault.count) for fault in check.faults]


def checked(rows, **given):
    """The check of rows with all texts."""
    return check_logs(BadLog(rows, 0, given=given).open())


def test_log_without_a_fault_has_none():
    """Neither bids, of either auction, nor histograms."""
    for rows in (good_rows(), first_price(), good_cells(), without("ts", rows=on_days())):
        check = checked(rows)
        assert check.ok
        assert check.faults == []


@pytest.mark.parametrize("code", BAD_LOGS)
def test_fault_is_found_and_nothing_else(code):
    """Every fault is counted right, told in full, with examples, and in values of JSON."""
    bad = BAD_LOGS[code]()
    check = check_logs(bad.open())
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


def test_every_code_has_a_bad_log():
    """The bad logs of the tests cover the catalogue."""
    assert {"no_rows", *BAD_LOGS} == set(FAULT_CODES)


def test_all_faults_come_at_once_errors_first():
    """One check of a log with many faults names them all."""
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
    """Counts, days, money and texts of the good log, by plain sums."""
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
    """What is not logged, mixed, or revealed by prices alone is said so."""
    bare = checked(without("min_to_win_micros", "currency")).overview
    assert (bare.revealed, bare.currency) == ("paid", "")
    assert checked(without("min_to_win_micros", rows=first_price())).overview.revealed == "none"
    mixed = check_logs(BAD_LOGS["auctions_mixed"]().open()).overview
    assert (mixed.auction, mixed.revealed) == ("mixed", "minimum")
    assert check_logs(BAD_LOGS["currencies_mixed"]().open()).overview.currency == "mixed"
    assert check_logs(BAD_LOGS["days_missing"]().open()).overview.missing_days == ["2026-03-03"]
    cells = checked(good_cells()).overview
    assert (cells.bids, cells.wins, cells.win_rate, cells.revealed) == (240.0, 96.0, 0.4, "paid")


def test_rows_that_histograms_leave_out_do_not_count():
    """They are in the number of rows, and in nothing else."""
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


def test_infinite_weight_is_an_error_that_json_can_tell():
    """It is left out, and shown as text."""
    check = checked(changed(4, rows=everywhere(weight=1.0), weight=float("inf")))
    assert found(check) == [("weight_not_positive", 1)]
    assert check.errors[0].examples[0]["weight"] == "inf"
    assert check.overview.bids == 95.0
    json.dumps(check.as_dict(), allow_nan=False)


amounts = st.sampled_from(
    [None, -BIG, -5, 0, 1, 900, 1000, 1001, 1002, 1003, 10**15, 10**15 + 1, BIG]
)
bid_rows = st.fixed_dictionaries(
    {
        "advertiser_id": st.sampled_from([None, "a", "b"]),
        "day": st.sampled_from(
            [None, *(datetime.date(year, 1, 1) for year in (1970, 2000, 2026, 2100, 2101))]
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
    """Whatever is null, negative or as large as an integer can be."""
    logs = open_logs(ibis.memtable(pa.Table.from_pylist(rows, schema=TYPES)))
    table = checked_rows(logs)
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
    """The rules that a row breaks, one by one."""
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
        "day_in_future": day is not None
        and datetime.datetime.now(datetime.UTC).date() < day
        and day.year <= 2100,
        "auction_type_unknown": row["auction_type"] == 7,
        "bid_missing": bid is None,
        "bid_not_positive": bid is not None and bid <= 0,
        "bid_too_large": has_bid and bid > 10**15,
        "won_missing": won is None,
        "price_missing": won is True and price is None,
        "price_negative": price is not None and price < 0,
        "price_above_bid": is_far and price > bid and not is_first,
        "price_not_bid": is_far and is_first,
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


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 10**15), st.integers(1, 4)),
        min_size=1,
        max_size=40,
    )
)
@settings(deadline=None, max_examples=15)
def test_medians_are_those_of_the_bids_to_two_digits(bids):
    """Of all bids and of every advertiser, weights taken as so many rows."""
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
    """Cells by hand, of advertisers and days by number, half of the rows won."""
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
    """What the cells tell of the whole log: codes, and the first value of every example."""
    sums = LogSums(cells, np.ones(len(cells.rows), dtype=bool))
    logs = BadLog(good_rows(), 0).open()
    return {
        fault.code: [next(iter(example.values())) for example in fault.examples]
        for fault in aggregate_faults(sums, logs)
    }


@pytest.mark.parametrize(("ratio", "is_far"), [(299, False), (300, True), (1000, True)])
def test_bids_of_another_unit_are_three_hundred_times_the_median_or_a_three_hundredth(
    ratio, is_far
):
    """By advertiser and by day, above and below."""
    unit = 2000
    few = cells_of([0, 1, 2], [0, 0, 0], [unit * ratio, unit, unit * ratio * ratio], [20, 60, 20])
    many = cells_of([0, 0, 0], [0, 1, 2], [unit, unit * ratio, unit * ratio], [20, 30, 30])
    assert codes_of(few).get("units_mixed") == (["adv-0", "adv-2"] if is_far else ["adv-2"])
    assert codes_of(many).get("units_change") == (["2026-03-02"] if is_far else None)


def test_days_are_thin_below_a_third_of_the_median_day():
    """Of at least three days: of two, neither is the usual one."""
    three = ([0] * 3, [0, 1, 2], [5000] * 3)
    assert codes_of(cells_of(*three, [90, 29, 90]))["days_thin"] == ["2026-03-03"]
    assert "days_thin" not in codes_of(cells_of(*three, [90, 30, 90]))
    assert "days_thin" not in codes_of(cells_of([0, 0], [0, 1], [5000] * 2, [90, 10]))


def test_few_bids_are_fewer_than_ten_and_never_won_has_bids():
    """Over all days and heights of bids together."""
    found = codes_of(
        cells_of([0, 0, 1, 2], [0, 1, 0, 1], [5000] * 4, [9, 1, 9, 50], wins=[0, 1, 9, 0])
    )
    assert found == {"few_bids": ["adv-1"], "never_won": ["adv-2"]}


@pytest.mark.parametrize(("median", "is_odd"), [(990, True), (1000, False), (1.1e10, True)])
def test_median_bid_of_less_than_a_thousandth_or_of_ten_thousand_is_odd(median, is_odd):
    """In units of the currency for a thousand impressions."""
    cells = cells_of([0, 1], [0, 1], [int(median)] * 2, [20, 20])
    assert ("bids_implausible" in codes_of(cells)) == is_odd


def test_text_and_parquet_have_the_same_faults(tmp_path):
    """A log says the same however it is stored."""
    for code in ("price_above_bid", "duplicate_rows"):
        table = BAD_LOGS[code]().table
        pq.write_table(table, tmp_path / f"{code}.parquet")
        pyarrow.csv.write_csv(table, tmp_path / f"{code}.csv")
        one, other = (
            check_logs(open_logs(tmp_path / f"{code}.{ending}")) for ending in ("parquet", "csv")
        )
        assert found(one) == found(other) == [(code, one.faults[0].count), ("no_texts", 4)]


def test_unreadable_values_are_shown_as_written_and_words_for_nothing_are_not_unreadable():
    """Each column has a fault of its own; NULL, NaN and blanks are missing, not unreadable."""
    values = {"bid_micros": ["2.5 USD"], "won": ["maybe"], "ts": ["yesterday"], "click": ["twice"]}
    rows = everywhere(
        **{name: (lambda row, name=name: str(row[name])) for name in values},
        price_micros=lambda row: str(row["price_micros"]) if row["won"] else "NaN",
    )
    for place, (name, (value,)) in enumerate(values.items()):
        rows[place][name] = value
    rows[5]["bid_micros"] = " null "
    check = checked(rows)
    assert [(f.code, f.count) for f in check.errors] == [("unreadable", 1)] * 4 + [
        ("bid_missing", 1)
    ]
    shown = {
        (name, value)
        for fault in check.errors[:4]
        for name, value in fault.examples[0].items()
        if name not in {"advertiser_id", "day"} or value == "yesterday"
    }
    assert shown == {
        ("bid_micros", "2.5 USD"),
        ("won", "maybe"),
        ("day", "yesterday"),
        ("click", "twice"),
    }
    assert "whole number" in next(f for f in check.errors if "bid_micros" in f.what).what


def test_time_is_what_is_unreadable_where_only_some_files_have_a_day(tmp_path):
    """What is shown is the column that was read."""
    with_day = [{**row, "day": row["ts"][:10]} for row in good_text()[:48]]
    without_day = changed(3, rows=good_text()[48:], ts="noon")
    for name, rows in (("a", with_day), ("b", without_day)):
        pq.write_table(BadLog(rows, 0).table, tmp_path / f"{name}.parquet")
    (fault,) = check_logs(open_logs(tmp_path)).errors
    assert (fault.code, fault.examples[0]["day"]) == ("unreadable", "noon")


def test_long_values_are_cut():
    """An example is never longer than a line."""
    rows = changed(
        3, rows=everywhere(bid_micros=lambda r: str(r["bid_micros"])), bid_micros="x" * 999
    )
    rows = changed(4, rows=rows, advertiser_id="y" * 999)
    check = checked(rows)
    texts = [v for f in check.faults for e in f.examples for v in e.values() if isinstance(v, str)]
    assert {len(text) for text in texts if text[0] in "xy"} == {80}


def test_minimum_that_no_row_has_is_not_missing():
    """An empty column says no more than none; what is there in part is a warning."""
    assert checked(everywhere(min_to_win_micros=None)).faults == []


def test_rounding_of_prices_is_no_fault():
    """A price may be off by a thousandth of the bid and one micro."""
    for rows in (good_rows(), first_price()):
        near = everywhere(
            without("min_to_win_micros", rows=rows),
            price_micros=lambda row: row["bid_micros"] + 1000 if row["won"] else None,
        )
        assert checked(near).faults == []


def test_given_auction_settles_what_the_log_leaves_open():
    """Types that are mixed or unknown are no fault once the user has said which it is."""
    for code in ("auctions_mixed", "auction_type_unknown"):
        bad = BAD_LOGS[code]()
        assert checked(bad.rows, auction="second").faults == []
    assert found(checked(good_rows(), auction="first")) == [("price_not_bid", 48)]


def test_examples_hold_nothing_of_a_person():
    """Neither rows that repeat, whoever saw them, nor rows that break a rule."""
    rows = everywhere(user_id="alice", ip="10.9.8.7", page_url="https://secret.example")
    rows = changed(0, 1, 2, 3, rows=rows, bid_micros=0)
    check = checked([*rows, *everywhere([dict(row) for row in rows], user_id="bob")])
    assert {fault.code for fault in check.faults} == {
        "bid_not_positive",
        "duplicate_rows",
        "person_columns",
    }
    assert not re.search(r"alice|bob|10\.9|secret", json.dumps(check.as_dict()))


def test_names_that_tell_of_a_person():
    """By words of the name, in any spelling; ids of auctions and kinds of devices are none."""
    columns = {
        **dict.fromkeys(("IP", "userAgent", "user-id", "device_id", "e_mail", "referer"), "x"),
        **dict.fromkeys(("auction_id", "device_type", "ship", "tip", "curl", "campaign_id"), "x"),
    }
    (fault,) = checked(everywhere(**columns)).faults
    named = {example["column"] for example in fault.examples}
    assert named == {"IP", "userAgent", "user-id", "device_id", "referer", "e_mail"}


def on_days(rows=None):
    """The good rows with a day beside the time."""
    return everywhere(rows, day=lambda row: row["ts"].date())


def good_text():
    """The good rows with times as text."""
    return everywhere(ts=lambda row: str(row["ts"]))


def test_rows_repeat_of_themselves_where_there_is_no_time():
    """Without times equal rows are different auctions."""
    rows = without("ts", rows=on_days())
    assert checked([*rows, *rows]).faults == []


def test_rows_that_differ_in_any_column_are_no_repeats():
    """An id of the auction tells apart what else is alike."""
    rows = [*good_rows(), *good_rows()]
    for number, row in enumerate(rows):
        row["auction_id"] = number
    assert checked(rows).faults == []


def test_repeats_in_long_logs_are_estimated_from_some_of_the_times(monkeypatch):
    """A file that is there twice shows in every sample."""
    monkeypatch.setattr(log_checks, "_MOST_FOR_REPEATS", 50)
    (fault,) = checked([*good_rows(), *good_rows()]).faults
    assert (fault.code, fault.count, fault.share) == ("duplicate_rows", 96, 0.5)
    assert "one in 4 times" in fault.what


def test_few_queries_do(monkeypatch):
    """One pass counts everything; examples of all faults are one more."""
    asked = []

    def counting(expression):
        asked.append(expression)
        return fetch(expression)

    fetch = check_queries.fetch
    monkeypatch.setattr(check_queries, "fetch", counting)
    monkeypatch.setattr(log_checks, "fetch", counting)
    rows = without("ts", rows=on_days())
    assert checked(rows).ok
    assert len(asked) == 1
    asked.clear()
    assert len(checked(changed(1, rows=changed(0, rows=rows, bid_micros=0), won=None)).errors) == 2
    assert len(asked) == 2


def test_queries_compile_for_spark():
    """The same expressions, unchanged."""
    ibis.pyspark  # noqa: B018 — the backend brings the settings its compiler reads
    for rows in (good_rows(), everywhere(weight="1.5", bid_micros="12"), good_cells()):
        logs = BadLog(rows, 0).open()
        table = checked_rows(logs)
        rules = row_rules(table, logs)
        queries = [cells_query(table, rules, logs), examples_query(table, enumerate(rules))]
        queries += [query for query in [repeats_query(logs, 7)] if query is not None]
        for query in queries:
            assert "SELECT" in ibis.to_sql(query, dialect="pyspark")


def test_log_made_by_hand_is_checked_too():
    """A canonical table that is no selection of a file's columns keeps all rules but one."""
    logs = BadLog(changed(0, 1, bid_micros=0), 0).open()
    filtered = dataclasses.replace(logs, table=logs.table.filter(logs.table.advertiser_id != "elm"))
    check = check_logs(filtered)
    assert found(check) == [("bid_not_positive", 2), ("texts_without_bids", 1)]
    assert check.overview.rows == 72


def test_ipinyou_without_header(tmp_path):
    """Persons' fields are named by number, and a bid that is there twice is found."""
    lines = [IPINYOU.format(i=i, price=100 + i) for i in (1, 2, 3, 3)]
    lines.append(IPINYOU.format(i=4, price=301))
    (tmp_path / "imp.tsv").write_text("\n".join(lines) + "\n")
    check = check_logs(open_logs(tmp_path / "imp.tsv"))
    codes = dict(found(check))
    assert codes == {
        "price_above_bid": 1,
        "duplicate_rows": 1,
        "one_day": 1,
        "one_advertiser": 1,
        "all_wins": 5,
        "few_bids": 1,
        "no_texts": 1,
        "person_columns": 6,
    }
    assert "person" not in json.dumps([fault.examples for fault in check.errors])
    assert check.overview.currency == "CNY"
    assert check.overview.median_bid == 3.0


def test_ipinyou_with_header(tmp_path):
    """Amounts in fen that cannot be read are shown as the file has them."""
    (tmp_path / "imp.csv").write_text(
        "advertiser_id,timestamp,bid_price,pay_price,click,user_tags\n"
        "2821,20131021192300738,294,201,0,10063\n2821,20131021210002124,much,36,0,10048\n"
    )
    check = check_logs(open_logs(tmp_path / "imp.csv"))
    assert check.errors[0].examples == [
        {"advertiser_id": "2821", "day": "2013-10-21", "bid_micros": "much"}
    ]
    assert [fault.code for fault in check.errors] == ["unreadable"]


def test_empty_log_is_an_error_and_nothing_else():
    """No rows: nothing more can be said."""
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
    """Whatever order an engine reads rows in."""
    rows = changed(*range(0, 90, 7), bid_micros=-3)
    assert checked(rows).as_dict() == checked(rows[::-1]).as_dict()


def test_stages_are_logged(caplog):
    """So that a program can show how far it is."""
    with caplog.at_level(logging.INFO, logger="coterie"):
        checked(changed(0, bid_micros=0))
    assert [record.getMessage() for record in caplog.records] == [
        "Checking every row",
        "Fetching examples of 1 faults",
        "Looking for repeated rows",
    ]
