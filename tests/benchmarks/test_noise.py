"""The noise benchmark: its cells, its methods and the figures it reports."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmarks import noise
from benchmarks.harness import Context
from benchmarks.noise import CORE_CELLS, MORE_CELLS, NoiseCell, most_central_partition
from coterie import RobustConsensus, clustering_accuracy, mirkin_objective

SMALL = NoiseCell((20, 12, 8), 6, 2, 0.1)


def test_a_run_reports_the_methods_on_its_draws(monkeypatch, tmp_path):
    """Methods get the draw's labels, K and seed; kept draws are used; rows have all columns."""
    cells = (SMALL, NoiseCell((15, 15), 4, 1, 0.2, False))
    monkeypatch.setattr(noise, "CORE_CELLS", cells)
    context = Context(quick=True, keep=tmp_path)
    first = noise.run(context, draws=2)
    for cell, found in zip(cells, first.data["cells"], strict=True):
        K, robust = len(cell.sizes), found["methods"][noise.FLAGSHIP]
        for seed, accuracy in enumerate(robust["accuracies"]):
            P, y = cell.draw(seed)
            labels = RobustConsensus(K, random_state=seed).fit(P).labels_
            assert accuracy == clustering_accuracy(y, labels)
        assert robust["mean"] == pytest.approx(np.mean(robust["accuracies"]))
    assert noise.run(context, draws=2).data == first.data
    assert json.loads(first.json_text())["summary"]["core"]["n_cells"] == 2
    assert all(len(row) == len(t.headings) for t in first.tables for row in t.rows)
    assert first.plots[""]().axes


def test_cells_are_distinct_and_follow_their_seed():
    """There are 35 different cells; a draw has the planted sizes and depends on its seed only."""
    assert len({*CORE_CELLS, *MORE_CELLS}) == 35
    P, y = SMALL.draw(3)
    assert P.shape == (40, 6)
    assert np.bincount(y).tolist() == [20, 12, 8]
    assert np.array_equal(P, SMALL.draw(3)[0])
    assert not np.array_equal(P, SMALL.draw(4)[0])


@settings(deadline=None, max_examples=50)
@given(
    arrays(np.int32, st.tuples(st.integers(1, 12), st.integers(1, 5)), elements=st.integers(0, 3))
)
def test_the_most_central_partition_has_the_lowest_objective(P):
    """It is one of the given partitions, and no given partition has a lower J."""
    labels = most_central_partition(P)
    assert any(np.array_equal(labels, column) for column in P.T)
    lowest = min(mirkin_objective(P, column) for column in P.T)
    assert mirkin_objective(P, labels) == pytest.approx(lowest)


def test_the_summary_names_the_cell_with_the_largest_shortfall():
    """The shortfall is the better of ℓ2 and ADMM less the flagship."""
    described = {"sizes": [9, 9], "n_partitions": 3, "noise": 0.1, "correlated": True}
    figures = [(0, 0.5, 0.9, 0.95), (1, 0.75, 0.5, 0.65)]
    names = ("l2", "admm", noise.FLAGSHIP)
    cells = [
        {
            **described,
            "n_bad": n_bad,
            "methods": {name: {"mean": mean} for name, mean in zip(names, means, strict=True)},
        }
        for n_bad, *means in figures
    ]
    summary = noise._summary(cells)
    assert summary["mean"] == pytest.approx({"l2": 0.625, "admm": 0.7, noise.FLAGSHIP: 0.8})
    assert summary["lowest"] == {"l2": 0.5, "admm": 0.5, noise.FLAGSHIP: 0.65}
    assert summary["shortfall"] == pytest.approx(0.1)
    assert "1 bad together" in summary["shortfall_cell"]
