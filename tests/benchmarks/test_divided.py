"""The divided relaxation's benchmark: what it measures, and its command."""

from __future__ import annotations

import json
from functools import partial

import pytest
from typer.testing import CliRunner

from benchmarks import divided
from benchmarks.divided import CELLS, QUICK_CELLS, DividedCell, run_divided
from benchmarks.program import app
from coterie.ensembles.planted import planted_partitions

DRAW = partial(planted_partitions, (120, 80), 10, 0, 0.5, random_state=0)
SMALL = (
    DividedCell("small", DRAW, 2, (60, 1000)),
    DividedCell("not at once", DRAW, 2, (60,), undivided=False),
)


def run(*arguments: str):
    """What the program does with these arguments; its errors are raised here."""
    return CliRunner().invoke(app, ["divided", *arguments], catch_exceptions=False)


@pytest.fixture
def small_cells(monkeypatch):
    """Small cells in place of the others, told apart by their number."""
    monkeypatch.setattr(divided, "CELLS", SMALL)
    monkeypatch.setattr(divided, "QUICK_CELLS", SMALL[1:])


@pytest.fixture(scope="module")
def rows():
    """The results of the small cells."""
    return run_divided(SMALL)


def test_a_row_for_each_size_of_parts(rows):
    """Cells in order, sizes within them; all points and tuples are counted."""
    assert [(row.title, row.part_size) for row in rows] == [
        ("small", 60), ("small", 1000), ("not at once", 60),
    ]  # fmt: skip
    assert all(row.n_points == 200 for row in rows)
    assert rows[0].n_parts == -(-rows[0].n_tuples // 60)


def test_one_part_measures_no_difference(rows):
    """Parts as large as the whole give the objective and the labels of the undivided."""
    whole = rows[1]
    assert (whole.n_parts, whole.theta, whole.agreement) == (1, 1.0, 1.0)
    assert whole.excess["divided"] == pytest.approx(0.0, abs=1e-9)
    assert whole.excess["l2"] > 0
    assert whole.accuracy["divided"] == whole.accuracy["undivided"]


def test_without_the_undivided_nothing_is_compared_with_it(rows):
    """No objective relative to it, no agreement, no time; accuracies all the same."""
    alone = rows[2]
    assert (alone.excess, alone.agreement, list(alone.seconds)) == ({}, None, ["divided"])
    assert set(alone.accuracy) == {"l2", "divided", "polished"}
    assert alone.accuracy["divided"] == rows[0].accuracy["divided"]


def test_every_step_is_announced():
    """A few words before each, with the cell's title."""
    said: list[str] = []
    run_divided(SMALL[:1], before_step=said.append)
    assert said == [
        "small: least squares", "small: undivided", "small: parts of 60", "small: parts of 1,000",
    ]  # fmt: skip


def test_cells_divide_and_bring_what_they_say():
    """Every quick cell has more tuples than its parts; labels are missing where they should be."""
    for cell in QUICK_CELLS:
        P, y = cell.draw()
        assert len(P) == len(y) > max(cell.part_sizes)
        assert len(set(y.tolist())) == cell.n_clusters
        assert (P < 0).any() == ("missing" in cell.title)
    assert {cell.title for cell in QUICK_CELLS} < {cell.title for cell in CELLS}


def test_the_digits_are_among_the_cells():
    """Real data needs no folder; subsamples leave labels missing."""
    draws = {cell.title: cell.draw for cell in CELLS if cell.title.startswith("digits")}
    assert list(draws) == ["digits, subspaces", "digits, subsamples"]
    P, y = divided._digits("subsample", 3)
    assert P.shape == (1797, 3)
    assert len(y) == 1797
    assert (P < 0).any()


def test_the_command_writes_its_report(small_cells, tmp_path):
    """Table and sentences are shown; JSON, page and picture are written."""
    found = run("-o", str(tmp_path / "report"))
    assert found.exit_code == 0
    assert "not at once" in found.stdout
    assert "above that of the undivided relaxation" in found.stdout
    written = {path.name for path in (tmp_path / "report").iterdir()}
    assert written == {"divided.json", "divided.md", "divided.png"}
    assert len(json.loads((tmp_path / "report" / "divided.json").read_text())["rows"]) == 3


def test_quick_takes_the_quick_cells_and_json_is_pure(small_cells):
    """One JSON object and nothing else."""
    found = json.loads(run("--quick", "--json").stdout)
    assert [row["title"] for row in found["rows"]] == ["not at once"]
