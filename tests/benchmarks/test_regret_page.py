"""The page of the regrets and its picture."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.environment import environment
from benchmarks.regret_page import as_page, as_picture
from benchmarks.regret_report import as_tables, notes, summary_lines
from coterie.consensus.registry import Method
from regret_cells import CELLS, COLUMNS, measured, replace_suite


@pytest.fixture
def results(monkeypatch):
    """Two draws of the made-up cells."""
    replace_suite(monkeypatch)
    return measured()


def test_the_page_tells_all(results):
    """What is measured, how cells are dealt, every table, sentence and note, and the command."""
    page = as_page(results, environment())
    for part in (
        "# Regret",
        "- planted (2): ",
        "- real (2): ",
        "was decided on the develop half; the report half was looked at afterwards",
        "mean regret ≤ .01, worst regret ≤ .04",
        "python -m benchmarks regret -o regret-report",
        "](regret.png)",
        *summary_lines(results),
        *notes(results),
        *(table.markdown() for table in as_tables(results)),
        "Measured ",
    ):
        assert part in page


def test_the_page_says_which_methods_cut_evenly(results, monkeypatch):
    """Those that were run, while their packages are there."""
    assert "CSPA cut a graph into parts of equal size: balance helps" in as_page(
        results, environment()
    )
    monkeypatch.setattr(Method, "missing_packages", lambda self: list(self.packages))
    assert "None of the methods compared here has a balanced cut." in as_page(
        results, environment()
    )


def test_the_picture_has_a_mark_for_each_cell_and_method(results):
    """Strips with the flagship on top; marks at the regrets, filled for the report half."""
    figure = as_picture(results)
    axes = figure.axes[0]
    titles = [label.get_text() for label in axes.get_yticklabels()]
    assert titles[0] == "RobustConsensus"
    assert set(titles) == {"RobustConsensus", "L2CC", "CSPA", "EAC"}
    drawn = np.sort(np.concatenate([marks.get_offsets()[:, 0] for marks in axes.collections]))
    regrets = sorted(own for one in results.regrets for own in one.regret.values())
    assert np.allclose(drawn, regrets)
    assert len(drawn) == len(CELLS) * len(COLUMNS)
    filled = [len(marks.get_facecolors()) > 0 for marks in axes.collections]
    assert filled == [True, False, True, False]
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert named == ["planted", "real"]


def test_the_picture_names_the_worst_cells(results):
    """On the right of each strip; a method that is best everywhere has none."""
    figure = as_picture(results)
    right = figure.axes[0].child_axes[0]
    texts = [label.get_text() for label in right.get_yticklabels()]
    assert texts[0] == "worst .125: 2×10; b"
    alone = as_picture(measured(1, ("l2",))).axes[0].child_axes[0]
    assert [label.get_text() for label in alone.get_yticklabels()] == ["worst .000"]


def test_the_picture_can_be_written(results, tmp_path):
    """At 100 dots an inch it is 900 wide."""
    as_picture(results).savefig(tmp_path / "regret.png", dpi=100)
    content = (tmp_path / "regret.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert int.from_bytes(content[16:20], "big") == 900
