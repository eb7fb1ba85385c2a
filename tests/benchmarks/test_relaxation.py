"""Time of a step beside the unavoidable work: figures of a small run."""

from __future__ import annotations

import numpy as np
import pytest

from benchmark_results import check_result
from benchmarks import relaxation
from benchmarks.harness import Context
from benchmarks.measuring import Measurement, Stopwatch


@pytest.mark.filterwarnings("ignore:.*stopped after:UserWarning")
def test_figures_of_a_small_run(monkeypatch):
    """The best run gives the steps, the least times give the unavoidable work."""
    watches = []

    def measure(work):
        watches.append(Stopwatch())
        facts = work(watches[-1])
        return Measurement(facts=facts, **watches[-1].measured)

    monkeypatch.setattr(relaxation, "measure", measure)
    monkeypatch.setattr(relaxation, "SIZES", (150, 10_000))
    data = check_result(relaxation.run(Context(quick=True), steps=4))
    (size,) = data["sizes"]
    assert (size["n_tuples"], size["n_runs"], len(size["step_seconds"])) == (150, 2, 4)
    unavoidable = size["read_write_seconds"] + 2 * size["product_seconds"]
    assert size["ratio"] == pytest.approx(np.mean(size["step_seconds"]) / unavoidable)
    assert size["peak_bytes"] == max(watch.measured["peak_bytes"] for watch in watches)
