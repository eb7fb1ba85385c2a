"""Counts by values of dimensions equal brute-force sums over the rows."""

from __future__ import annotations

import datetime
from collections import Counter

import ibis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.histograms import target_counting
from coterie.ads.histograms.counting import read_histograms
from coterie.ads.histograms.target_counting import read_targets
from coterie.ads.histograms.target_counts import NO_VALUE, OTHER_VALUES, TargetCounts
from coterie.ads.logs.bid_logs import open_logs
from coterie.errors import InvalidParameterError

DAY = datetime.date(2026, 3, 2)


def table_of(rows: list[tuple]) -> pa.Table:
    """A log from rows of advertiser, bid, price or None, device and country."""
    names, bids, prices, devices, countries = zip(*rows, strict=True)
    return pa.table(
        {
            "advertiser_id": list(names),
            "day": [DAY] * len(rows),
            "bid_micros": list(bids),
            "won": [price is not None for price in prices],
            "price_micros": pa.array(prices, pa.int64()),
            "click": [price is not None and price % 2 == 0 for price in prices],
            "device": pa.array(devices, pa.string()),
            "country": pa.array(countries, pa.string()),
        }
    )


def counts_of(rows: list[tuple]) -> TargetCounts:
    """The target counts of such a log."""
    dimensions = ["device", "country"]
    logs = open_logs(ibis.memtable(table_of(rows)), dimensions=dimensions, auction="second")
    return read_targets(logs, read_histograms(logs))


def as_counter(counts: TargetCounts, name: str) -> Counter:
    """Sums by advertiser, dimension and value, without those that are 0."""
    found = Counter()
    for (a, v), number in np.ndenumerate(counts.totals(name)):
        key = (counts.advertisers[a], counts.dimensions[counts.dimension[v]], counts.values[v])
        found[tuple(map(str, key))] += number
    return +found


ROWS = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.integers(1_000, 5_000_000),
        st.none() | st.integers(1, 900),
        st.sampled_from(["phone", "tv", "", None]),
        st.sampled_from(["DE", "FR", "GB"]),
    ),
    min_size=1,
    max_size=80,
)


@settings(max_examples=4, deadline=None)
@given(ROWS)
def test_totals_are_those_of_the_rows(rows):
    """Bids, wins, costs and clicks by value are sums over the rows, missing values included."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target_counting, "_FEWEST_ADVERTISERS", 1)
        counts = counts_of(rows)
    sums = {
        "bids": lambda _: 1,
        "wins": lambda row: row[2] is not None,
        "prices": lambda row: row[2] is not None,
        "cost": lambda row: row[2] or 0,
        "clicks": lambda row: row[2] is not None and row[2] % 2 == 0,
    }
    for name, number in sums.items():
        expected = Counter()
        for row in rows:
            expected[row[0], "device", row[3] or NO_VALUE] += number(row)
            expected[row[0], "country", row[4]] += number(row)
        assert as_counter(counts, name) == +expected


def test_rare_values_are_counted_together(monkeypatch):
    """Values of fewer than three advertisers, and those beyond the limit, are one value."""
    monkeypatch.setattr(target_counting, "MOST_VALUES", 1)
    rows = [(name, 2_000_000, None, "tv", "DE") for name in "abc"]
    rows += [(name, 2_000_000, None, "phone", "FR") for name in "abcabc"]
    rows += [("a", 2_000_000, None, "user-17", "x" * 300)]
    counts = counts_of(rows)
    assert counts.values.tolist() == [OTHER_VALUES, "phone", OTHER_VALUES, "FR"]
    assert counts.totals("bids").sum(axis=0).tolist() == [4, 6, 4, 6]


def test_a_log_without_dimensions_is_refused():
    """The message says what to do."""
    logs = open_logs(ibis.memtable(table_of([("a", 2_000_000, 7, "tv", "DE")])))
    with pytest.raises(InvalidParameterError, match="no dimension is named"):
        read_targets(logs, read_histograms(logs))
