"""Cells, ratios and checks of the speed benchmark."""

from __future__ import annotations

import os

import pytest

from benchmarks import measuring, speed
from benchmarks.first_use import FirstUse
from benchmarks.measuring import Measurement
from benchmarks.speed import (
    FULL,
    QUICK,
    Check,
    Scale,
    run_speed,
    run_speed_cell,
    speed_cells,
    time_ratio,
)

TINY = Scale(n_rows=200, n_large=1000, n_tuples=50, n_iter=4)


def taking(seconds: float, peak_bytes: int = 0, **facts) -> Measurement:
    """A measurement of so many seconds."""
    return Measurement(seconds, peak_bytes, 0.0, "", facts)


def checks_of(name: str, measured: dict, tmp_path) -> dict[str, Check]:
    """The checks of the cell of that name, by what they check."""
    cell = next(cell for cell in speed_cells(FULL, tmp_path) if cell.name == name)
    return {check.what: check for check in cell.checks(measured)}


def test_ratio_is_to_the_faster_rival():
    """Our time over the least of the others'."""
    measured = {"coterie": taking(2.0), "sparse": taking(8.0), "dense": taking(4.0)}
    assert time_ratio(measured) == 0.5


@pytest.mark.parametrize(("name", "most"), [("fixed_k", 0.5), ("diverse_k", 1.0)])
def test_kmeans_cells_are_checked_for_time_and_memory(name, most, tmp_path):
    """Time against the faster rival, peak memory against the label matrix."""
    measured = {
        "coterie": taking(6.0, 300, label_bytes=100),
        "one-hot k-means, sparse": taking(10.0),
        "one-hot k-means, dense": taking(8.0),
    }
    checks = checks_of(name, measured, tmp_path)
    time, memory = checks.values()
    assert (time.value, time.limit, time.met) == (0.75, most, most == 1.0)
    assert (memory.value, memory.limit, memory.met) == (3.0, 4.0, True)


def test_the_relaxation_is_checked_for_speed_and_objective(tmp_path):
    """Twenty times as fast is enough; so is an objective a thousandth above, or any below."""
    measured = {"coterie": taking(1.0, objective=100.05), "textbook": taking(20.0, objective=100.0)}
    speed_up, objective = checks_of("relaxation", measured, tmp_path).values()
    assert (speed_up.value, speed_up.met) == (20.0, True)
    assert objective.value == pytest.approx(0.05)
    assert objective.met
    measured["coterie"] = taking(1.1, objective=100.2)
    assert [check.met for check in checks_of("relaxation", measured, tmp_path).values()] == [
        False
    ] * 2


def test_the_search_is_checked_for_speed_and_objective(tmp_path):
    """It is to be 1.6 times as fast as in turn, and J no more than a thousandth higher."""
    measured = {"coterie": taking(1.0, objective=100.0), "in turn": taking(2.0, objective=100.0)}
    speed_up, objective = checks_of("search", measured, tmp_path).values()
    assert (speed_up.value, speed_up.met) == (2.0, True)
    assert (objective.value, objective.met) == (0.0, True)
    measured["coterie"] = taking(1.5, objective=100.2)
    assert not any(check.met for check in checks_of("search", measured, tmp_path).values())


def test_scales_are_those_promised(tmp_path):
    """200,000 and a million rows and 3,000 tuples in full; a tenth of the rows when quick."""
    assert (FULL.n_rows, FULL.n_large, FULL.n_tuples) == (200_000, 1_000_000, 3_000)
    assert QUICK.n_rows * 10 <= FULL.n_rows
    assert [cell.name for cell in speed_cells(FULL, tmp_path)] == [
        "fixed_k", "diverse_k", "relaxation", "large", "search",
    ]  # fmt: skip
    assert "1,000,000 × 40" in speed_cells(FULL, tmp_path)[3].title


def test_a_cell_end_to_end_in_fresh_processes(tmp_path):
    """Labels are made and both contenders measured, each in a process of its own."""
    cell = speed_cells(TINY, tmp_path)[2]
    steps = []
    found = run_speed_cell(cell, 1, steps.append)
    assert [step.rsplit(": ", 1)[1] for step in steps] == [
        "making the labels",
        "coterie",
        "textbook",
    ]
    ours, reference = found.measured.values()
    assert ours.facts["n_tuples"] == reference.facts["n_tuples"] == 50
    assert ours.facts["n_iter"] == reference.facts["n_iter"] == 4
    assert found.checks[0].value == pytest.approx(reference.seconds / ours.seconds)


def test_all_cells_run(monkeypatch):
    """All contenders work at a tiny scale (here in this process), and the files are removed."""
    folders = set()

    def measure_here(work):
        if isinstance(work.load(), os.PathLike):
            folders.add(work.load().parent)
        return measuring._measured_here(work)

    for module in (measuring, speed):
        monkeypatch.setattr(module, "measure", measure_here)
    use = {"cold": FirstUse(0.1, 2.0, 9.0, 0.1), "warm": FirstUse(0.05, 2.0, 0.2, 0.1)}
    monkeypatch.setattr(speed, "measure_first_use", lambda: use)
    found = run_speed(TINY, repeats=1)
    assert {cell.name: list(cell.measured) for cell in found.cells} == {
        "fixed_k": ["coterie", "one-hot k-means, sparse", "one-hot k-means, dense"],
        "diverse_k": ["coterie", "one-hot k-means, sparse", "one-hot k-means, dense"],
        "relaxation": ["coterie", "textbook"],
        "large": ["coterie"],
        "search": ["coterie", "one tuple after the other"],
    }
    ours, in_turn = found.cells[4].measured.values()
    assert ours.facts == in_turn.facts
    assert found.cells[3].measured["coterie"].facts["accuracy"] > 0.9
    assert [check.value for check in found.first_use_checks] == [0.05]
    (folder,) = folders
    assert not folder.exists()
