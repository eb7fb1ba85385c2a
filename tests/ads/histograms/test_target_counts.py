"""Target counts: logs merged equal one log of the rows of both, and packed counts come back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ads.histograms import target_counts
from coterie.ads.histograms.bid_histograms import bin_of
from coterie.ads.histograms.price_grid import price_grid
from coterie.ads.histograms.target_counts import (
    BINS_TOGETHER,
    NO_VALUE,
    OTHER_VALUES,
    TargetCounts,
    merge_targets,
    pack_targets,
    sum_cells,
    unpack_targets,
)
from coterie.errors import InvalidParameterError

ROWS = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.integers(1_000, 5_000_000),
        st.booleans(),
        st.sampled_from(["phone", "tv", NO_VALUE]),
        st.sampled_from(["DE", "FR", "GB"]),
    ),
    min_size=1,
    max_size=40,
)


def counts_of(rows, dimensions=("device", "country"), revealed="paid"):
    """The counts of rows of an advertiser, a bid, whether it won, and a value of each dimension."""
    names, bids, won, *columns = zip(*rows, strict=True)
    edges = price_grid(min(bids), max(bids), BINS_TOGETHER)
    advertisers = np.unique(names)
    values = [(d, v) for d in range(len(dimensions)) for v in sorted(set(columns[d]))]
    number = len(dimensions)
    cells = {
        "advertiser": np.tile(np.searchsorted(advertisers, names), number),
        "value": np.array([values.index((d, v)) for d in range(number) for v in columns[d]]),
        "bin": np.tile(bin_of(bids, edges), number),
        "bids": np.ones(number * len(rows)),
        "bid": np.tile(bids, number),
        "wins": np.tile(won, number),
    }
    return TargetCounts(
        advertisers,
        edges,
        list(dimensions),
        np.array([v for _, v in values]),
        np.array([d for d, _ in values]),
        sum_cells(cells, (len(advertisers), len(values), len(edges))),
        revealed,
    )


def assert_same(one, other):
    """Require the same cells of the same advertisers, values and edges."""
    for name in ("advertisers", "edges", "dimensions", "values", "dimension"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for name, part in vars(one.cells).items():
        np.testing.assert_array_equal(part, getattr(other.cells, name))


@given(ROWS, ROWS)
def test_merging_counts_equals_counting_together(first, second):
    """Two logs merged have the cells of one log with the rows of both."""
    assert_same(merge_targets(counts_of(first), counts_of(second)), counts_of(first + second))


@given(ROWS, ROWS)
def test_the_order_of_dimensions_does_not_matter(first, second):
    """The second log is counted by the dimensions of the first."""
    turned = [(*row[:3], row[4], row[3]) for row in second]
    merged = merge_targets(counts_of(first), counts_of(turned, ("country", "device")))
    assert_same(merged, counts_of(first + second))


def test_values_beyond_the_limit_are_one(monkeypatch):
    """The most frequent values of both logs are kept; the others are counted together."""
    monkeypatch.setattr(target_counts, "MOST_VALUES", 1)
    first = [("a", 2_000_000, True, "tv", "DE")] * 2
    second = [("a", 2_000_000, True, "phone", "DE")] * 3
    merged = merge_targets(counts_of(first), counts_of(second))
    assert merged.values.tolist() == [OTHER_VALUES, "phone", "DE"]
    assert merged.totals("bids").tolist() == [[2, 3, 5]]


@given(ROWS)
def test_packed_counts_come_back(rows):
    """Unpacking gives the cells that were packed."""
    counts = counts_of(rows)
    assert_same(unpack_targets(pack_targets(counts), counts.advertisers), counts)


@given(ROWS, st.sets(st.sampled_from("abcdef"), min_size=1))
def test_counts_of_other_advertisers(rows, names):
    """Those that were counted keep their sums; the others have none."""
    counts, wanted = counts_of(rows), np.array(sorted(names))
    totals = counts.of_advertisers(wanted).totals("bids")
    for name, sums in zip(wanted.tolist(), totals, strict=True):
        known = counts.totals("bids")[counts.advertisers == name]
        assert sums.tolist() == (known[0].tolist() if len(known) else [0] * len(counts.values))


def test_counts_that_do_not_fit_are_not_merged():
    """Other dimensions, or prices of another kind, are refused, and both are named."""
    row = ("a", 2_000_000, True, "tv", "DE")
    counts = counts_of([row])
    with pytest.raises(InvalidParameterError, match=r"device, country .* new log device"):
        merge_targets(counts, counts_of([row[:4]], ("device",)))
    with pytest.raises(InvalidParameterError, match="the known prices of the model are 'paid'"):
        merge_targets(counts, replace(counts, revealed="minimum"))
