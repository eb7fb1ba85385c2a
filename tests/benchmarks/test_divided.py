"""The relaxation in parts: cells, and figures of a small run."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from benchmark_results import check_result
from benchmarks import divided
from benchmarks.divided import Cell, cells_of
from benchmarks.harness import Context


def test_figures_of_a_small_run(monkeypatch):
    """A row for each size of parts; without the undivided relaxation its figures are missing."""
    draw = partial(divided._planted, (60, 40), 9, 0.5)
    cells = [Cell("both", 2, draw, (50, 30)), Cell("parts", 2, draw, (50,), undivided=False)]
    monkeypatch.setattr(divided, "cells_of", lambda _: cells)
    rows = check_result(divided.run(Context()))["rows"]
    assert [row["title"] for row in rows] == ["both", "both", "parts"]
    assert [row["part_size"] for row in rows] == [50, 30, 50]
    assert all(row["n_parts"] >= row["n_tuples"] / row["part_size"] for row in rows)
    assert set(rows[0]["accuracy"]) == {"l2", "undivided", "divided", "polished"}
    assert rows[0]["excess"]["l2"] >= rows[0]["excess"]["divided"] > -0.05
    assert "excess" not in rows[2] and "agreement" not in rows[2]
    shared = set(rows[2]["accuracy"])
    assert {n: rows[0]["accuracy"][n] for n in shared} == rows[2]["accuracy"]


@pytest.mark.parametrize("quick", [True, False])
def test_cells_have_the_named_structure(quick):
    """Titles are distinct; parts are smaller than the cell; a third of the labels is missing."""
    cells = cells_of(quick)
    assert len({cell.title for cell in cells}) == len(cells) == (7 if quick else 10)
    P, y = next(cell for cell in cells if cell.title == "a third missing").draw()
    assert (P < 0).mean() == pytest.approx(1 / 3, abs=0.02)
    assert np.bincount(y).tolist() == [k * (1 if quick else 4) for k in (400, 250, 200, 150)]
    assert max(cells[0].part_sizes) < len(y)
