"""The noise benchmark: its cells, its methods and the figures it reports."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmarks import noise
from benchmarks.harness import Context
from benchmarks.noise import CORE_CELLS, METHODS, MORE_CELLS, NoiseCell, most_central_partition
from coterie import RobustConsensus, mirkin_objective
from coterie.errors import LabelWarning

SMALL = NoiseCell((20, 12, 8), 6, 2, 0.1)


def test_a_run_reports_the_mean_of_the_kept_draws(monkeypatch, tmp_path):
    """Means are those of the draws, a second run reads the draws, and rows have all columns."""
    monkeypatch.setattr(noise, "CORE_CELLS", (SMALL, NoiseCell((15, 15), 4, 1, 0.2, False)))
    first = noise.run(Context(quick=True, keep=tmp_path), draws=2)
    draws = [json.loads(line) for line in (tmp_path / "noise.jsonl").read_text().splitlines()]
    assert len(draws) == 4
    for cell, own in zip(first.data["cells"], (draws[:2], draws[2:]), strict=True):
        for name, found in cell["methods"].items():
            accuracies = [draw["found"][name]["accuracy"] for draw in own]
            assert found["accuracies"] == accuracies
            assert found["mean"] == pytest.approx(np.mean(accuracies))
    assert noise.run(Context(quick=True, keep=tmp_path), draws=2).data == first.data
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


def test_methods_see_labels_clusters_and_seed_only():
    """Methods get the draw's labels, K and seed; exact labels score 1; warnings are counted."""
    seen = []

    def first_column(P, n_clusters, seed):
        seen.append((P, n_clusters, seed))
        warnings.warn("odd", LabelWarning, stacklevel=1)
        return P[:, 0]

    methods = {"first": first_column, "one": lambda P, *_: np.zeros(len(P), dtype=int)}
    cell = NoiseCell((20, 12, 8), 3, 0, 0.0)
    found = noise.run_draw(cell, 7, methods)
    assert found["first"]["accuracy"] == 1.0
    assert found["one"]["accuracy"] == 0.5
    assert (found["first"]["warnings"], found["one"]["warnings"]) == ({"LabelWarning": 1}, {})
    ((P, n_clusters, seed),) = seen
    assert (n_clusters, seed) == (3, 7)
    assert np.array_equal(P, cell.draw(7)[0])
    plain = RobustConsensus(3, random_state=7).fit(P).labels_
    assert np.array_equal(METHODS[noise.FLAGSHIP](P, 3, 7), plain)


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
