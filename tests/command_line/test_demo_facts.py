"""What the demo tells: the planted truth beside what was found."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.command_line.demo_facts import (
    SHOWN,
    PlantedTruth,
    error_facts,
    example_forecast,
    read_truth,
    recovery_facts,
)
from coterie.inspection.scores import adjusted_rand_index

TRUTH = PlantedTruth(
    np.array([0, 0, 0, 2, 2]),
    ["travel", "games", "shoes"],
    np.array([True, False, False, True, False]),
)


def fitted(labels, outliers=()):
    """As much of a fitted forecaster as is looked at."""
    names = [SimpleNamespace(name=f"segment {s}") for s in range(max(labels) + 1)]
    return SimpleNamespace(
        labels_=np.array(labels), segments_=names, outliers_=np.array(outliers, dtype=int)
    )


def test_truth_is_in_the_order_of_the_advertisers(tmp_path):
    """Rows are found by id; a segment that nobody asked about still has its name."""
    table = {
        "advertiser_id": ["a", "b", "c"],
        "segment": [1, 0, 1],
        "theme": ["games", "travel", "games"],
        "outlier": [False, True, False],
        "volume": [1.0, 2.0, 3.0],
    }
    pq.write_table(pa.table(table), tmp_path / "truth.parquet")
    truth = read_truth(tmp_path / "truth.parquet", np.array(["c", "b"]))
    assert truth.segment.tolist() == [1, 0]
    assert truth.themes == ["travel", "games"]
    assert truth.outlier.tolist() == [False, True]


def test_each_planted_segment_has_the_one_that_most_of_it_is_in():
    """Segments nobody was planted in are left out; shares are of the planted advertisers."""
    facts = recovery_facts(fitted([1, 1, 0, 0, 0], outliers=[0, 4]), TRUTH)
    assert (facts["planted"], facts["found"]) == (2, 2)
    assert facts["segments"] == [
        {"planted": "travel", "advertisers": 3, "found_as": "segment 1", "share": 2 / 3},
        {"planted": "shoes", "advertisers": 2, "found_as": "segment 0", "share": 1.0},
    ]
    expected = adjusted_rand_index(TRUTH.segment, [1, 1, 0, 0, 0])
    assert facts["adjusted_rand"] == pytest.approx(expected)


def test_outliers_are_counted_by_whether_they_are_right():
    """Planted, found, and both."""
    facts = recovery_facts(fitted([0, 0, 0, 1, 1], outliers=[0, 4]), TRUTH)
    counts = [facts[f"outliers_{what}"] for what in ("planted", "found", "right")]
    assert counts == [2, 2, 1]


def test_errors_are_those_of_the_evaluation():
    """Impressions and spend over all, and impressions over the thin."""
    names = (*SHOWN, "text")

    def measured(shift):
        return {
            name: {
                "impressions": {"wape": shift + 0.01 * i},
                "spend": {"wape": shift + 0.02 * i},
            }
            for i, name in enumerate(names)
        }

    strata = [
        {"name": "new", "sources": measured(0.5)},
        {"name": "10–199 bids", "sources": measured(0.3)},
    ]
    evaluation = SimpleNamespace(as_dict=lambda: {"sources": measured(0.1), "strata": strata})
    facts = error_facts(evaluation)
    assert list(facts) == list(SHOWN)
    assert facts["global"] == pytest.approx(
        {"impressions": 0.11, "spend": 0.12, "impressions_of_thin": 0.31}
    )


def test_the_example_has_few_bids_and_is_no_odd_one():
    """Of the advertisers whose place is clear, the one with about a hundred bids."""
    asked = {}

    def forecast(name, bid, supply):
        asked.update(name=name, bid=bid, supply=supply)
        return "the forecast"

    model = SimpleNamespace(
        labels_=np.zeros(4, dtype=int),
        outliers_=np.array([0]),
        doubtful_=np.array([1]),
        observations_=np.array([100.0, 101.0, 5000.0, 90.0]),
        bid_=np.array([1e6, 1e6, 1e6, 2_345_678.0]),
        advertisers_=np.array(["a", "b", "c", "d"]),
        forecast=forecast,
    )
    assert example_forecast(model) == "the forecast"
    assert asked == {"name": "d", "bid": 2.35, "supply": 100_000}
