"""The benchmark of partitions that come later."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from benchmarks import incremental
from benchmarks.incremental import as_table, growing_cells, run_growing
from benchmarks.measuring import Measurement
from benchmarks.program import app
from benchmarks.speed import CellTimes


@pytest.fixture
def cells(tmp_path):
    """One cell as if measured: a fifth of the time, an objective half a percent above."""
    cell = growing_cells(200, tmp_path)[0]
    measured = {
        "coterie": Measurement(2.0, 0, 0.0, "", {"objective": 100.5, "n_tuples": 1200}),
        "fit": Measurement(10.0, 0, 0.0, "", {"objective": 100.0, "n_tuples": 1200}),
    }
    return [CellTimes(cell.name, cell.title, measured, cell.checks(measured))]


def test_the_table_has_the_ratio_and_the_objective(cells):
    """Seconds of both, their ratio, and how much higher the objective is."""
    table = as_table(cells)
    assert table.rows == [("k-means, K = 8", "1,200", "2.00", "10.0", "0.20", "0.50")]


def test_cells_end_to_end_in_fresh_processes():
    """Every cell is measured; both ways of a cell see the same labels."""
    said: list[str] = []
    found = run_growing(120, repeats=1, before_step=said.append)
    assert [cell.name for cell in found] == ["same", "diverse", "planted"]
    for cell in found:
        ours, whole = cell.measured.values()
        assert ours.seconds > 0 and ours.facts["n_tuples"] == whole.facts["n_tuples"]
        # so few tuples are answered as in a fit
        assert ours.facts["objective"] == whole.facts["objective"]
    assert any("making the labels" in line for line in said)


def test_the_command_writes_and_shows(cells, monkeypatch, tmp_path):
    """``python -m benchmarks growing`` prints the JSON that it writes."""
    monkeypatch.setattr(incremental, "run_growing", lambda *_, **__: cells)
    found = CliRunner().invoke(app, ["growing", "--quick", "--json", "-o", str(tmp_path)])
    assert found.exit_code == 0, found.output
    assert (tmp_path / "growing.json").read_text() == found.stdout
    assert json.loads(found.stdout)["cells"][0]["title"] == "k-means, K = 8"
