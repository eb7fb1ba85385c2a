"""The page of histograms and similarities says what was measured, and what it was to be."""

from __future__ import annotations

from benchmarks import ads_speed_report as report

FOUND = {
    "engine": {
        "rows": 20_000_000,
        "cells": 1_000_000,
        "seconds": {"coterie": 3.0, "sql": 2.5, "from_the_start": 4.0},
        "peak_bytes": {"coterie": 6e8, "sql": 5e8, "from_the_start": 7e8},
        "ratio": 1.2,
        "target_ratio": 1.3,
        "equal": True,
    },
    "similarity": {
        "advertisers": 20_000,
        "points": 256,
        "seconds": {"graph": 3.0, "distances": 6.0, "cdist": 60.0},
        "cpu_seconds": {"graph": 5.0, "distances": 11.0, "cdist": 60.0},
        "times_as_fast": {"graph": 20.0, "distances": 10.0},
        "target": 8.0,
        "differing_decisions": 0,
    },
}
DESCRIBED = {
    "date": "2026-03-02",
    "cpu": "a processor",
    "threads": 2,
    "platform": "Linux",
    "versions": {"python": "3.11"},
}


def test_ratios_stand_beside_their_targets():
    """Both ratios, both targets, and whether the answers were the same."""
    engine, similarity = report.summary_lines(FOUND)
    assert "1.20 × the time of hand-written SQL (target 1.3), the same cells" in engine
    assert "20 × as fast as cdist (target 8); 0 decisions differ" in similarity


def test_different_answers_are_not_passed_over():
    """A faster wrong answer is told as wrong."""
    wrong = FOUND | {"engine": FOUND["engine"] | {"equal": False}}
    assert "DIFFERENT CELLS" in report.summary_lines(wrong)[0]


def test_page_has_both_tables():
    """Three ways to histograms, three to similarities."""
    page = report.as_page(FOUND, DESCRIBED)
    assert [len(table.rows) for table in report.as_tables(FOUND)] == [3, 3]
    for text in ("hand-written SQL", "SciPy's cdist", "600.0 MB", "20,000,000 bids"):
        assert text in page
