"""The divided relaxation's results as JSON, table, page and picture."""

from __future__ import annotations

import json

import pytest

from benchmarks import divided_report as report
from benchmarks.divided import DividedRow
from benchmarks.environment import environment

RESULTS = [
    DividedRow(
        "three clusters", 4000, 3200, 1000, 4, 0.6,
        {"divided": 1.5, "undivided": 6.0},
        {"l2": 0.02, "divided": 0.004},
        {"l2": 0.9, "divided": 0.93, "polished": 0.95, "undivided": 0.94},
        0.987,
    ),
    DividedRow(
        "wrong together", 4000, 2800, 1000, 3, 0.0,
        {"divided": 2.0, "undivided": 9.0},
        {"l2": 0.01, "divided": 0.01},
        {"l2": 0.9, "divided": 0.9, "polished": 0.89, "undivided": 0.7},
        0.5,
    ),
    DividedRow(
        "many", 50_000, 48_000, 4000, 12, 1.0,
        {"divided": 40.0}, {}, {"l2": 0.9, "divided": 0.91, "polished": 0.92}, None,
    ),
]  # fmt: skip


def test_json_has_its_fields_and_survives_the_round_trip():
    """Rows, method and environment; what was not measured is empty or null."""
    found = report.as_json(RESULTS, environment())
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert list(found) == ["rows", "method", "environment"]
    assert found["rows"][0]["excess"] == {"l2": 0.02, "divided": 0.004}
    assert (found["rows"][2]["excess"], found["rows"][2]["agreement"]) == ({}, None)


def test_the_table_holds_the_figures():
    """A row for each result, blanks for what was not measured."""
    table = report.as_table(RESULTS)
    assert table.rows[0] == (
        "three clusters", "4,000", "3,200", "1,000", "4", "0.6", "6.00", "1.50", "2.00%", "0.40%",
        "0.987", "0.900", "0.940", "0.930", "0.950",
    )  # fmt: skip
    assert table.rows[2][6:] == ("", "40.0", "", "", "", "0.900", "", "0.910", "0.920")
    assert {len(row) for row in table.rows} == {len(table.headings)}


def test_the_summary_says_how_far_from_the_undivided():
    """Median and largest excess, how often below least squares, and the cost in accuracy."""
    objective, accuracy = report.summary_lines(RESULTS)
    assert "median 0.70%, at most 1.00%" in objective
    assert "in 1 of 2 rows" in objective
    assert "at most 0.010. After" in accuracy
    assert accuracy.endswith("by at most 0.010.")
    assert report.summary_lines(RESULTS[2:]) == []


def test_the_page_says_it_all():
    """Method, table, picture, summary and machine are on the page."""
    described = environment()
    page = report.as_page(RESULTS, described)
    assert report.METHOD in page
    assert report.as_table(RESULTS).markdown() in page
    assert "(divided.png)" in page
    assert all(line in page for line in report.summary_lines(RESULTS))
    assert described["cpu"] in page


def test_the_picture_shows_every_figure(tmp_path):
    """Objectives on the left where there are some, accuracies on the right, all rows named."""
    figure = report.as_picture(RESULTS)
    left, right = figure.axes
    assert [tick.get_text() for tick in left.get_yticklabels()] == [
        "three clusters; 4 parts of 1,000",
        "wrong together; 3 parts of 1,000",
        "many; 12 parts of 4,000",
    ]
    dots = {line.get_label(): line.get_xdata() for line in right.get_lines()}
    assert dots["ℓ2"] == pytest.approx([0.9, 0.9, 0.9])
    assert dots["undivided"] == pytest.approx([0.94, 0.7])
    assert [len(line.get_xdata()) for line in left.get_lines()] == [2, 2]
    figure.savefig(tmp_path / "divided.png")
    assert (tmp_path / "divided.png").stat().st_size > 10_000
