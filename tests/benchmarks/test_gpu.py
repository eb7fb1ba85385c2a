"""The report of the GPU benchmark, from figures made up, and the command where there is no GPU."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks import gpu, gpu_report
from benchmarks.command_steps import as_json_text
from benchmarks.environment import environment
from benchmarks.gpu import GpuResults, GpuRow
from benchmarks.program import app
from coterie.errors import MissingExtraError
from coterie.runtime.devices import gpu_obstacle


def row(n, fused, **others):
    """A row of figures."""
    parts = {"fused": fused, "fused: state": 0.6 * fused, "fused: eigenvectors": 0.4 * fused}
    times = {**parts, "bytes": fused / 2, **others}
    above = 1e-5 if "cpu" in others else None
    return GpuRow(n, n, 60, times, 2.1, n * n * 3, above, 1.0)


@pytest.fixture
def results():
    """Three sizes, the last without a CPU beside it."""
    rows = [row(2_000, 2.0, plain=2.0, cpu=20.0), row(100_000, 40.0, plain=400.0), row(200_000, 99)]
    return GpuResults(rows, "a device", 4e12)


def test_page_has_every_figure_and_the_verdict(results):
    """The page names the device, each size, what was not measured, and what was aimed for."""
    page = gpu_report.as_page(results, environment())
    assert "a device, copies at 4.00 TB/s" in page
    assert "| 200,000 | 99 |" in page and "–" in page
    assert "40.0 ms a step, at most 65 aimed for: met; 2.0 × the bytes alone" in page
    assert "Peak memory 30.0 GB, below 60.0 GB aimed for: met" in page


def test_a_miss_is_called_one(results):
    """A step that takes longer than aimed for is said to."""
    slow = GpuResults([row(100_000, 80.0)], "a device", 4e12)
    assert "missed" in gpu_report.verdicts(slow)[0]
    assert "not measured" in gpu_report.verdicts(GpuResults([], "a device", 4e12))[0]


def test_json_holds_what_was_measured(results):
    """The JSON can be read back, and has the rows as they are."""
    read = json.loads(as_json_text(gpu_report.as_json(results, environment())))
    assert [r["n_points"] for r in read["rows"]] == [2_000, 100_000, 200_000]
    assert read["rows"][0]["milliseconds"]["cpu"] == 20.0


def test_picture_has_a_line_for_each_way(results):
    """Fused, plain, CPU and bytes are drawn, each where it was measured."""
    axes = gpu_report.as_picture(results).axes[0]
    lengths = {line.get_label(): len(line.get_xdata()) for line in axes.get_lines()}
    assert lengths["fused kernels"] == lengths["bytes alone"] == 3
    assert lengths["plain tensor code"] == 2 and lengths["CPU, all cores"] == 1


def test_planted_points_are_all_kept_apart():
    """The benchmark relaxes one tuple a point, whatever their labels."""
    tuples, truth = gpu._planted(500)
    assert tuples.n_tuples == len(truth) == 500 and np.bincount(truth).min() == 50


@pytest.mark.skipif(not gpu_obstacle(), reason="there is a GPU")
def test_without_a_gpu_the_command_says_so():
    """No figures are made up: the command ends with what is missing."""
    with pytest.raises(MissingExtraError, match="there is no GPU to measure"):
        CliRunner().invoke(app, ["gpu"], catch_exceptions=False)
