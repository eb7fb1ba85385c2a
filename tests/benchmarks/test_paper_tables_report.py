"""The paper's tables computed anew: JSON, tables and sentences."""

from __future__ import annotations

import json

import pytest

from benchmarks import paper_tables_report as report
from benchmarks.environment import environment
from benchmarks.paper_figures import TABLE2, TABLE3
from benchmarks.paper_tables import RunSettings, TableResults
from paper_results import ran, table2_results, table3_results


@pytest.fixture
def table2():
    """Two conditions, two sets."""
    return table2_results()


@pytest.fixture
def table3():
    """One set of two views."""
    return table3_results()


def test_json_has_its_fields_and_survives_the_round_trip(table2):
    """What was measured and what is printed; a figure that is not at hand is null."""
    found = report.as_json(table2, environment())
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert list(found) == [
        "table", "draws", "patience", "printed", "cells", "absent", "environment",
    ]  # fmt: skip
    assert found["printed"]["RCC"]["wine"] == 0.96
    assert set(found["printed"]["CSPA"].values()) == {None}
    assert found["absent"] == {"reuters": "it is far away"}
    cell = found["cells"][1]
    assert (cell["condition"], cell["dataset"]) == ("mixed, fixed", "wine")
    assert cell["methods"]["robust"] == {
        "status": "ran",
        "mean": pytest.approx(0.97),
        "se": pytest.approx(0.01),
        "draws": 2,
        "seconds": 2.0,
        "accuracies": [0.96, 0.98],
        "messages": [],
        "warnings": {"LabelWarning": 3},
    }
    assert cell["methods"]["cspa"]["mean"] is None
    assert cell["methods"]["cspa"]["status"] == "failed"


def test_the_printed_table_invents_nothing():
    """Known figures to two digits, n/a for the others."""
    rows = {row[0]: row[1:] for row in report.printed_table(TABLE2).rows}
    assert rows["RCC"] == (".52", ".72", ".89", "1.00", ".96", ".84", ".65", ".45")
    assert set(rows["NMFC"]) == {"n/a"}
    assert list(rows) == list(TABLE2.columns)


def test_tables_name_what_did_not_run_and_stress_the_best(table2):
    """A table a condition, a column a set; fewer draws are counted, printed figures stand below."""
    raw, mixed = report.as_tables(table2)
    assert raw.title == "Accuracy, recipe raw, fixed K: mean ± standard error of 2 ensembles"
    assert mixed.headings == ("", "Wine", "Zoo")
    rows = {row[0]: row[1:] for row in mixed.rows}
    assert rows["CSPA"] == ("failed", ".900 (1)")
    assert rows["RobustConsensus"] == (".970 ± .010", ".800 ± .000")
    assert rows["RCC, printed"] == (".96", ".84")
    assert list(rows)[-2:] == ["k-means, printed", "RCC, printed"]
    assert {row[0]: row[1] for row in raw.rows}["CSPA"] == "too large"
    assert mixed.stressed == {(3, 1), (1, 2)}
    assert raw.stressed == {(2, 1), (3, 1)}


def test_a_method_without_a_row_is_a_dash():
    """Views that a set does not have are dashes, not zeros."""
    rows = {"": {"msrc_v1": {"rcc": ran(0.8)}, "caltech101_7": {"gabor": ran(0.3)}}}
    (table,) = report.as_tables(TableResults(TABLE3, rows, {}, RunSettings(1)))
    assert list(table.rows)[:2] == [("RCC", ".800", "–"), ("GABOR", "–", ".300")]


def test_summary_compares_with_the_printed_figures(table2):
    """Sentences on the mean, on RCC as printed to two digits, and on the distance to the best."""
    lines = report.summary_lines(table2)
    assert lines == [
        "Recipe raw, fixed K: RobustConsensus reaches the figure printed for RCC on 0 of 1 set; "
        "below on Wine (.70, printed .96).",
        "Recipe raw, fixed K: RCC reaches the figure printed for RCC on 0 of 1 set; below on Wine "
        "(.70, printed .96).",
        "Recipe mixed, fixed K: Mean accuracy over 2 sets: k-means .725, RCC .830, "
        "RobustConsensus .885.",
        "Recipe mixed, fixed K: RobustConsensus reaches the figure printed for RCC on 1 of 2 sets; "
        "below on Zoo (.80, printed .84).",
        "Recipe mixed, fixed K: RCC reaches the figure printed for RCC on 1 of 2 sets; below on "
        "Zoo (.70, printed .84).",
        "Behind the best of these methods, mean over all 3 cells (most in a cell), those that ran "
        "in every cell: RobustConsensus .000 (.000), RCC .037 (.100), k-means .123 (.200).",
    ]


def test_notes_say_what_did_not_go_smoothly(table2):
    """Missing sets, refusals and failures with what they said, fewer draws, and warnings."""
    assert report.notes(table2) == [
        "Not here: Reuters, because it is far away",
        "Did not run: CSPA, too large: CSPA has limits [Wine (raw, fixed)]",
        "Did not run: CSPA, failed: <b> & co [Wine (mixed, fixed)]",
        "Fewer draws: CSPA: Zoo (mixed, fixed)",
        "Warnings: RobustConsensus, LabelWarning: 3 times",
    ]


def test_nothing_is_noted_where_all_went_well(table3):
    """There are no notes."""
    assert report.notes(table3) == []
