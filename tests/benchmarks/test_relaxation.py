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
    facts = []

    def measure(work):
        watch = Stopwatch()
        facts.append(work(watch))
        return Measurement(facts=facts[-1], **watch.measured)

    monkeypatch.setattr(relaxation, "measure", measure)
    monkeypatch.setattr(relaxation, "SIZES", (150, 10_000))
    (size,) = check_result(relaxation.run(Context(quick=True), steps=4))["sizes"]
    assert (size["n_tuples"], size["n_runs"], size["n_steps"]) == (150, 2, 4)
    steps = min(np.mean(found["step_seconds"]) for found in facts)
    read_write = min(found["read_write_seconds"] for found in facts)
    product = min(found["product_seconds"] for found in facts)
    assert size["ratio"] == pytest.approx(steps / (read_write + 2 * product))
