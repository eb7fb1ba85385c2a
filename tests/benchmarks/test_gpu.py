"""The GPU benchmark: its result, its tensor code on the CPU, and a run if there is a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from benchmark_results import check_result
from benchmarks import gpu
from benchmarks.harness import Context
from coterie.counts.coassociation import tuple_coassociation
from coterie.errors import MissingExtraError
from coterie.relaxation.admm import minimise, robust_factor
from coterie.relaxation.least_squares import least_squares_factor
from coterie.runtime.devices import gpu_obstacle


def test_a_result_shows_what_was_not_measured():
    """The CPU and plain tensor code are missing for many points."""
    fused = dict.fromkeys(("fused", "fused: state", "fused: eigenvectors", "bytes"), 2.0)
    row = {"n_points": 2000, "milliseconds": {**fused, "plain": 3.0, "cpu": 20.0}, "passes": 2.1}
    row |= {"peak_bytes": 10**7, "above_cpu": 1e-9, "accuracy": 1.0}
    large = {**row, "n_points": 200_000, "milliseconds": fused}
    result = gpu.result_of({"rows": [row, large], "device": "X", "copy_bytes_a_second": 4e12})
    check_result(result)
    assert result.tables[0].rows[1][5:7] == ("–", "–")
    assert "X copies 4.00 TB/s." in result.notes


@pytest.mark.filterwarnings("ignore:.*stopped after:UserWarning")
def test_plain_tensor_code_takes_the_steps_of_the_library():
    """On the CPU both reach the same objective after as many steps."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    tuples, _ = gpu._planted(300)
    alpha = np.ones(gpu.N_PARTITIONS)
    start = least_squares_factor(tuples, alpha, gpu.N_CLUSTERS)
    solver = gpu.PlainTensorSolver(tuples.codes, alpha, tuples.weights, start, device="cpu")
    found = minimise(solver, 1.1, 15, 0.0, None)
    M = tuple_coassociation(tuples, alpha)
    expected = robust_factor(M, start, max_iter=15, tol=0.0)
    assert found.objective == pytest.approx(expected.objective, rel=1e-3)


@pytest.mark.skipif(not gpu_obstacle(), reason="there is a GPU")
def test_without_a_gpu_the_run_is_refused():
    """The error says what is missing."""
    with pytest.raises(MissingExtraError, match="no GPU"):
        gpu.run(Context(quick=True))


@pytest.mark.skipif(bool(gpu_obstacle()), reason="there is no GPU")
def test_a_small_run_on_a_gpu(monkeypatch):
    """Every figure is positive, and the objectives of GPU and CPU agree."""
    monkeypatch.setattr(gpu, "QUICK_SIZES", (600,))
    (row,) = check_result(gpu.run(Context(quick=True), steps=5))["rows"]
    assert all(value > 0 for value in row["milliseconds"].values())
    assert abs(row["above_cpu"]) < 1e-3
