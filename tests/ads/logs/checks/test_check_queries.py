"""Check queries count in one pass, show examples without persons, and find repeated rows."""

from __future__ import annotations

import json
import re

import ibis
import pyarrow.parquet as pq
import pytest

from bad_logs import (
    BadLog,
    changed,
    checked,
    everywhere,
    good_cells,
    good_rows,
    without,
)
from coterie.ads.logs import bid_logs
from coterie.ads.logs.bid_logs import open_logs
from coterie.ads.logs.checks import check_queries, log_checks
from coterie.ads.logs.checks.log_checks import check_logs


def on_days(rows=None):
    """The good rows with a day next to the time."""
    return everywhere(rows, day=lambda row: row["ts"].date())


def good_text():
    """The good rows with times as text."""
    return everywhere(ts=lambda row: str(row["ts"]))


def test_examples_hold_nothing_of_a_person():
    """Examples of repeated rows and of broken rules have no personal column."""
    rows = everywhere(user_id="alice", ip="10.9.8.7", page_url="https://secret.example")
    rows = changed(0, 1, 2, 3, rows=rows, bid_micros=0)
    check = checked([*rows, *everywhere([dict(row) for row in rows], user_id="bob")])
    assert {fault.code for fault in check.faults} == {
        "bid_not_positive",
        "duplicate_rows",
        "person_columns",
    }
    assert not re.search(r"alice|bob|10\.9|secret", json.dumps(check.as_dict()))


def test_personal_columns_are_found_by_name():
    """Any spelling is found; ids of auctions and types of devices are not personal."""
    columns = {
        **dict.fromkeys(
            ("IP", "userAgent", "user-id", "device_id", "e_mail", "latitude", "lng"), "x"
        ),
        **dict.fromkeys(("auction_id", "device_type", "ship", "tip", "curl", "campaign_id"), "x"),
    }
    (fault,) = checked(everywhere(**columns)).faults
    named = {example["column"] for example in fault.examples}
    assert named == {"IP", "userAgent", "user-id", "device_id", "e_mail", "latitude", "lng"}


def test_equal_rows_without_times_are_no_repeats():
    """Without times, equal rows are different auctions."""
    rows = without("ts", rows=on_days())
    assert checked([*rows, *rows]).faults == []


def test_rows_that_differ_in_any_column_are_no_repeats():
    """An id of the auction distinguishes otherwise equal rows."""
    rows = [*good_rows(), *good_rows()]
    for number, row in enumerate(rows):
        row["auction_id"] = number
    assert checked(rows).faults == []


def test_repeats_in_long_logs_are_estimated_from_a_sample(monkeypatch):
    """A duplicate file is found in every sample of times."""
    monkeypatch.setattr(log_checks, "_MOST_FOR_REPEATS", 50)
    (fault,) = checked([*good_rows(), *good_rows()]).faults
    assert (fault.code, fault.count, fault.share) == ("duplicate_rows", 96, 0.5)
    assert "one in 4 times" in fault.what


def test_three_queries_are_enough(monkeypatch):
    """Two passes count everything, and a third query fetches the examples."""
    asked = []

    def counting(expression):
        asked.append(expression)
        return fetch(expression)

    fetch = check_queries.fetch
    monkeypatch.setattr(check_queries, "fetch", counting)
    monkeypatch.setattr(log_checks, "fetch", counting)
    rows = without("ts", rows=on_days())
    assert checked(rows).ok
    assert len(asked) == 2
    asked.clear()
    assert len(checked(changed(1, rows=changed(0, rows=rows, bid_micros=0), won=None)).errors) == 2
    assert len(asked) == 3


def test_queries_compile_for_spark(monkeypatch):
    """The same expressions compile to Spark SQL."""
    pytest.importorskip("pyspark", reason="PySpark is not installed: nothing was compiled for it")
    ibis.pyspark  # noqa: B018 — the backend brings the settings its compiler reads
    compiled = []

    def compiling(expression):
        compiled.append(ibis.to_sql(expression, dialect="pyspark"))
        return fetch(expression)

    fetch = check_queries.fetch
    for module in (check_queries, log_checks, bid_logs):
        monkeypatch.setattr(module, "fetch", compiling)
    cells = changed(0, rows=good_cells(), bids=-1)
    for rows in (changed(0, bid_micros=0), everywhere(weight="1.5", bid_micros="x"), cells):
        compiled.clear()
        assert checked(rows).errors
        # amounts, cells, examples; facts and repeats of logs of bids
        assert len(compiled) >= 3 + 2 * ("ts" in rows[0])


def test_unreadable_values_are_shown_as_written():
    """Each column has a separate fault; NULL, NaN and blanks are missing, not unreadable."""
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
    assert "a number" in next(f for f in check.errors if "bid_micros" in f.what).what


def test_the_time_is_shown_if_only_some_files_have_a_day(tmp_path):
    """Examples show the column that was read."""
    with_day = [{**row, "day": row["ts"][:10]} for row in good_text()[:48]]
    without_day = changed(3, rows=good_text()[48:], ts="noon")
    for name, rows in (("a", with_day), ("b", without_day)):
        pq.write_table(BadLog(rows, 0).table, tmp_path / f"{name}.parquet")
    (fault,) = check_logs(open_logs(tmp_path)).errors
    assert (fault.code, fault.examples[0]["day"]) == ("unreadable", "noon")


def test_long_values_are_cut():
    """Texts in examples have at most 80 characters."""
    rows = changed(
        3, rows=everywhere(bid_micros=lambda r: str(r["bid_micros"])), bid_micros="x" * 999
    )
    rows = changed(4, rows=rows, advertiser_id="y" * 999)
    check = checked(rows)
    texts = [v for f in check.faults for e in f.examples for v in e.values() if isinstance(v, str)]
    assert {len(text) for text in texts if text[0] in "xy"} == {80}
