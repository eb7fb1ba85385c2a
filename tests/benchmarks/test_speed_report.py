"""The speed benchmark's results as JSON, tables and page."""

from __future__ import annotations

import json

import pytest

from benchmarks import speed_report as report
from benchmarks.environment import environment
from benchmarks.first_use import FirstUse
from benchmarks.measuring import Measurement
from benchmarks.speed import FULL, QUICK, CellTimes, Check, Scale, SpeedResults


def results_at(scale: Scale) -> SpeedResults:
    """One cell with a check that is met and one that is not."""
    facts = {"n_tuples": 1234, "accuracy": 0.9, "objective": 2.5e6, "label_bytes": 100}
    measured = {
        "coterie": Measurement(1.5, 2_000_000, 9.0, "m", facts, {"LabelWarning": 2}, (1.4, 1.6)),
        "rival": Measurement(3.0, 4_000_000, 0.1, "m", {"objective": 3e6}, {}, (3.0,)),
    }
    checks = [Check("time ratio", 0.5, 0.5), Check("speed-up", 2.0, 20.0, at_most=False)]
    use = {"cold": FirstUse(0.1, 2.0, 9.0, 0.1), "warm": FirstUse(0.05, 2.0, 0.2, 0.1)}
    cell = CellTimes("small", "ten rows", measured, checks)
    return SpeedResults(scale, [cell], use, [Check("import", 0.05, 1.0)])


def test_json_has_its_fields_and_survives_the_round_trip():
    """Cells with contenders and checks, first use, scale, method and environment."""
    found = report.as_json(results_at(FULL), environment())
    again = json.loads(json.dumps(found, allow_nan=False))
    assert list(again) == ["cells", "first_use", "scale", "method", "environment"]
    (cell,) = again["cells"]
    assert list(cell) == ["name", "title", "contenders", "checks"]
    assert set(cell["contenders"]["coterie"]) == {
        "seconds", "runs", "peak_bytes", "warm_up_seconds", "memory_method", "facts", "warnings",
    }  # fmt: skip
    assert cell["contenders"]["coterie"]["runs"] == [1.4, 1.6]
    assert cell["checks"][1] == {
        "what": "speed-up", "value": 2.0, "limit": 20.0, "at_most": False, "met": False,
    }  # fmt: skip
    assert again["first_use"]["cold"]["first_fit"] == 9.0
    assert again["first_use"]["checks"][0]["met"] is True
    assert again["scale"]["n_rows"] == 200_000


def test_tables_hold_the_figures():
    """A row a contender, blanks for facts it has not; limits met and missed; first use."""
    times, limits, use = report.as_tables(results_at(FULL))
    assert times.rows == [
        ("ten rows", "coterie", "1.50", "2", "2.0 MB", "9.00", "1,234", "2.5e+06", "0.900"),
        ("", "rival", "3.00", "1", "4.0 MB", "0.100", "", "3e+06", ""),
    ]
    assert [row[2:] for row in limits.rows] == [
        ("0.5", "≤ 0.5", "met"), ("2", "≥ 20", "missed"), ("0.05", "≤ 1", "met"),
    ]  # fmt: skip
    assert limits.stressed == {(1, 4)}
    assert [row[1:] for row in use.rows] == [
        ("0.100", "2.00", "9.00", "0.100"), ("0.050", "2.00", "0.200", "0.100"),
    ]  # fmt: skip


@pytest.mark.parametrize(("scale", "title"), [(FULL, "Limits"), (QUICK, "Limits, which are meant")])
def test_limits_of_a_small_scale_are_qualified(scale, title):
    """Limits are for the full scale; a quick run says so."""
    assert report.as_tables(results_at(scale))[1].title.startswith(title)


def test_the_page_says_it_all():
    """Method, tables, warnings and machine are on the page."""
    results, described = results_at(FULL), environment()
    page = report.as_page(results, described)
    assert report.METHOD in page
    assert all(table.markdown() in page for table in report.as_tables(results))
    assert "- ten rows, coterie: LabelWarning, 2 times" in page
    assert described["cpu"] in page
