"""The benchmark of the relaxation's steps: what is measured, reported and shown."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks import relaxation_speed
from benchmarks import relaxation_speed_report as report
from benchmarks.environment import environment
from benchmarks.measuring import Measurement
from benchmarks.program import app
from benchmarks.relaxation_speed import StepTimes, run_relaxation_speed, yardstick
from coterie.relaxation.admm import required_bytes

QUICK_STEP = StepTimes(2_000, (0.1, 0.3), 0.02, 0.09, 4_000_000, 18_000_000, 22_000_000, 5.0)
SLOW_STEP = StepTimes(20_000, (4.0, 4.0), 0.2, 0.4, 25_000_000, 50_000_000, 75_000_000, 9.0)
FAST_STEP = replace(SLOW_STEP, step_seconds=(2.0, 3.0))


def test_a_small_size_is_measured():
    """Counted steps, the yardstick and memory, each from a process of its own."""
    said = []
    (found,) = run_relaxation_speed([300], n_steps=5, repeats=2, before_step=said.append)
    assert said == ["300 tuples, run 1 of 2", "300 tuples, run 2 of 2"]
    assert (found.n_runs, len(found.step_seconds)) == (2, 5)
    assert min(found.step_seconds) > 0 < found.yardstick
    assert found.ratio == pytest.approx(np.mean(found.step_seconds) / found.yardstick)
    assert found.matrix_bytes == 300**2
    assert found.estimated_bytes == required_bytes(300)
    assert 0 < found.objective < 300**2


def test_the_quietest_of_several_runs_counts(monkeypatch):
    """Steps of the run with the least mean, the least of each part, and the highest peak."""
    facts = {"matrix_bytes": 1, "objective": 2.0}
    runs = iter(
        Measurement(0, peak, 0, "m", {**facts, "step_seconds": steps, **parts})
        for peak, steps, parts in (
            (9, [3.0, 1.0], {"read_write_seconds": 0.1, "product_seconds": 0.4}),
            (5, [1.0, 1.0], {"read_write_seconds": 0.2, "product_seconds": 0.3}),
        )
    )
    monkeypatch.setattr(relaxation_speed, "measure", lambda _: next(runs))
    (found,) = run_relaxation_speed([10])
    assert found.step_seconds == (1.0, 1.0)
    assert (found.read_write_seconds, found.product_seconds, found.peak_bytes) == (0.1, 0.3, 9)


def test_a_part_of_a_large_matrix_stands_for_it(monkeypatch):
    """Above its most numbers, the yardstick works on some rows and is scaled up."""
    shapes = []
    monkeypatch.setattr(relaxation_speed, "_YARDSTICK_NUMBERS", 100 * 25)
    monkeypatch.setattr(relaxation_speed, "_least_seconds", lambda work: shapes.append(work) or 1)
    assert yardstick(100) == (4.0, 4.0)
    assert yardstick(50) == (1.0, 1.0)
    assert len(shapes) == 6


def test_json_survives_the_round_trip():
    """Every size with its ratio and whether that is too large."""
    found = report.as_json([QUICK_STEP, SLOW_STEP], environment())
    again = json.loads(json.dumps(found, allow_nan=False))
    assert list(again) == ["sizes", "most_ratio", "method", "environment"]
    assert [size["ratio"] for size in again["sizes"]] == pytest.approx([1.0, 4.0])
    assert [size["too_slow"] for size in again["sizes"]] == [False, True]


def test_table_and_verdict():
    """Figures a row, ratios above the limit in bold; the verdict names the sizes."""
    table = report.as_table([QUICK_STEP, SLOW_STEP])
    assert table.rows[0] == (
        "2,000", "1", "2", "0.200", "0.020", "0.090", "0.200", "1.00", "4.0 MB", "18.0 MB",
        "22.0 MB", "22.0 MB",
    )  # fmt: skip
    assert table.stressed == {(1, 7)}
    assert "fewer were measured" in report.summary_lines([QUICK_STEP])[0]
    assert report.summary_lines([QUICK_STEP, FAST_STEP])[0].startswith("Met: ")
    assert report.summary_lines([QUICK_STEP, SLOW_STEP])[0].endswith("takes more at 20,000.")


def test_no_limit_where_the_matrix_fits_the_caches():
    """A small size is never too slow."""
    assert SLOW_STEP.too_slow
    assert not FAST_STEP.too_slow
    assert not replace(SLOW_STEP, n_tuples=5_000).too_slow


@pytest.mark.parametrize(
    ("arguments", "sizes"),
    [
        ((), [2_000, 5_000, 10_000, 20_000]),
        (("--quick",), [2_000, 5_000]),
        (("--most", "40000"), [2_000, 5_000, 10_000, 20_000, 40_000]),
    ],
)
def test_the_command_writes_its_report(arguments, sizes, monkeypatch, tmp_path):
    """Sizes as asked for; JSON as printed, and a page."""
    asked = []

    def run(some_sizes, steps, repeats, before_step):
        before_step("measuring")
        asked.append((some_sizes, steps, repeats))
        return [QUICK_STEP]

    monkeypatch.setattr(relaxation_speed, "run_relaxation_speed", run)
    command = ["relaxation", *arguments, "--json", "-o", str(tmp_path)]
    found = CliRunner().invoke(app, command, catch_exceptions=False)
    assert asked == [(sizes, 10, 2)]
    assert (tmp_path / "relaxation.json").read_text() == found.stdout
    page = (tmp_path / "relaxation.md").read_text()
    assert report.as_table([QUICK_STEP]).markdown() in page
    assert report.summary_lines([QUICK_STEP])[0] in page
