"""The noise benchmark's results as JSON, table, page and picture."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import noise_report as report
from benchmarks.environment import environment
from benchmarks.noise import (
    CORE_CELLS,
    METHODS,
    MORE_CELLS,
    CellResult,
    MethodScores,
    NoiseCell,
)

NAMES = list(METHODS)


def result_of(cell: NoiseCell, accuracies: list[tuple[float, ...]], warnings=None) -> CellResult:
    """A result with these accuracies of the methods, in their order."""
    scores = [MethodScores(draws, (0.25,) * len(draws)) for draws in accuracies]
    return CellResult(cell, dict(zip(NAMES, scores, strict=True)), warnings or {})


@pytest.fixture
def results():
    """A core cell, in which the flagship is best, and another, in which it falls short."""
    return [
        result_of(
            CORE_CELLS[2], [(0.4, 0.6), (0.5, 0.5), (0.6, 0.7), (0.5, 0.5), (0.8, 0.9), (1, 1)]
        ),
        result_of(
            MORE_CELLS[2],
            [(0.4, 0.6), (0.5, 0.5), (0.9, 0.9), (0.5, 0.5), (0.8, 0.8), (0.85, 0.85)],
            {("admm", "ConvergenceWarning"): 2},
        ),
    ]


def test_json_has_its_fields_and_survives_the_round_trip(results):
    """Cells, summary and environment; every figure is a plain number."""
    found = report.as_json(results, environment())
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert list(found) == ["cells", "summary", "environment"]
    cell = found["cells"][1]
    assert list(cell) == [
        "sizes", "n_partitions", "n_bad", "noise", "correlated", "core", "methods", "warnings",
    ]  # fmt: skip
    assert (cell["sizes"], cell["correlated"], cell["core"]) == ([250, 50], False, False)
    assert list(cell["methods"]) == NAMES
    assert cell["methods"]["best_single"] == {
        "mean": pytest.approx(0.5),
        "se": pytest.approx(0.1),
        "seconds": 0.25,
        "accuracies": [0.4, 0.6],
    }
    assert cell["warnings"] == [{"method": "admm", "kind": "ConvergenceWarning", "times": 2}]
    assert found["summary"]["core"]["n_cells"] == 1
    assert found["summary"]["all"]["shortfall"] == pytest.approx(0.05)
    assert found["summary"]["all"]["shortfall_cell"]["sizes"] == [250, 50]
    assert {"versions", "cpu_count", "date"} <= set(found["environment"])


def test_one_draw_gives_null_for_the_error():
    """Without a spread the standard error is null in JSON and absent from the table."""
    single = [result_of(MORE_CELLS[0], [(0.5,)] * 6)]
    found = report.as_json(single, {})
    assert found["cells"][0]["methods"]["l2"]["se"] is None
    assert list(found["summary"]) == ["all"]
    assert report.as_table(single).rows[0][4:] == ("0.500",) * 6


def test_the_table_shows_means_errors_and_the_best(results):
    """A row a cell; ties for the best are all in bold."""
    table = report.as_table([*results, result_of(CORE_CELLS[0], [(0.5, 0.5)] * 6)])
    assert table.rows[0][:6] == ("200, 60, 40", "5", "2c", "0.1", "0.500 ± 0.100", "0.500 ± 0.000")
    assert table.rows[1][:4] == ("250, 50", "5", "2r", "0.1")
    assert "mean ± standard error of 2 draws" in table.title
    assert table.stressed == {(0, 9), (1, 6)} | {(2, c) for c in range(4, 10)}


def test_cells_without_bad_partitions_are_of_neither_kind():
    """0 bad partitions are neither wrong together nor apart."""
    cell = NoiseCell((5, 4), 3, 0, 0.4)
    assert report.as_table([result_of(cell, [(1.0, 1.0)] * 6)]).rows[0][2] == "0"


def test_summary_lines_name_the_worst_cell(results):
    """A sentence for the core cells and one for all; the shortfall says where, or nowhere."""
    core, everything = report.summary_lines(results)
    assert core.startswith("Core cells (1)")
    assert "RobustConsensus 1.000 (lowest cell 1.000)" in core
    assert core.endswith("falls short of the better of ℓ2 and ADMM nowhere.")
    assert everything.endswith("by 0.050 at most (250, 50;  5 votes, 2 bad apart, noise 0.1).")


def test_notes_count_over_cells(results):
    """Warnings of the same kind and method are added up."""
    again = result_of(MORE_CELLS[3], [(1.0, 1.0)] * 6, {("admm", "ConvergenceWarning"): 3})
    assert report.notes([*results, again]) == ["ADMM (paper): ConvergenceWarning, 5 times"]


def test_the_page_says_it_all(results):
    """Table, picture, summary, warnings and machine are on the page."""
    described = environment()
    page = report.as_page(results, described)
    assert report.as_table(results).markdown() in page
    assert "(noise.png)" in page
    assert all(line in page for line in report.summary_lines(results))
    assert "- ADMM (paper): ConvergenceWarning, 2 times" in page
    assert described["cpu"] in page


def test_the_picture_shows_the_means(results):
    """Each method has a point a cell, at its mean, in its own colour; cells run downwards."""
    axes = report.as_picture(results).axes[0]
    drawn = {container.get_label(): container for container in axes.containers}
    assert list(drawn) == [report.TITLES[name] for name in NAMES]
    colours = set()
    for name in NAMES:
        points = drawn[report.TITLES[name]].lines[0]
        assert points.get_xdata() == pytest.approx([r.methods[name].mean for r in results])
        assert np.asarray(points.get_ydata(), dtype=float).round().tolist() == [0, 1]
        colours.add(points.get_color())
    assert len(colours) == len(NAMES)
    assert axes.yaxis_inverted()
    assert "200, 60, 40" in axes.get_yticklabels()[0].get_text()


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=8))
def test_sizes_in_short_lose_nothing(sizes):
    """Runs of equal sizes are counted; written out again they are the sizes."""
    parts = report.sizes_in_short(sizes).split(", ")
    pairs = [part.split("×") if "×" in part else ["1", part] for part in parts]
    assert [int(size) for count, size in pairs for _ in range(int(count))] == sizes
