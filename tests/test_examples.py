"""The gallery runs, and the consensus function of the contributors' page is correct."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from coterie import mirkin_objective, planted_partitions
from coterie.inspection.scores import adjusted_rand_index

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
PivotConsensus = runpy.run_path(str(ROOT / "docs" / "development" / "pivot_consensus.py"))[
    "PivotConsensus"
]


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_example_runs_and_draws(example: Path) -> None:
    """A page of the gallery runs without warnings and draws at least one figure with data."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.close("all")
    try:
        runpy.run_path(str(example), run_name="__main__")
        figures = [plt.figure(number) for number in plt.get_fignums()]
        assert figures
        assert all(any(ax.has_data() for ax in figure.axes) for figure in figures)
    finally:
        plt.close("all")


label_matrices = arrays(
    np.int64, st.tuples(st.integers(2, 12), st.integers(1, 5)), elements=st.integers(0, 3)
)


@settings(deadline=None, max_examples=25)
@given(P=label_matrices, seed=st.integers(0, 100))
def test_pivot_answer_does_not_depend_on_names_or_order_of_points(P: Any, seed: int) -> None:
    """Permuting points and renaming labels does not change the cluster sizes."""
    order = np.random.default_rng(seed).permutation(len(P))
    est = PivotConsensus(random_state=0).fit(P)
    again = PivotConsensus(random_state=0).fit((P * 5 + 2)[order] % 17)
    assert again.objective_ == pytest.approx(mirkin_objective(P[order], again.labels_))
    assert sorted(np.bincount(est.labels_)) == sorted(np.bincount(again.labels_))


def test_pivots_recover_a_clear_majority() -> None:
    """The planted partition is found if two thirds of the partitions are right."""
    P, y = planted_partitions([60, 30, 10], 9, n_bad=3, noise=0.02, random_state=0)
    est = PivotConsensus(random_state=0).fit(P)
    assert adjusted_rand_index(y, est.labels_) > 0.9
    assert est.objective_ == pytest.approx(mirkin_objective(P, est.labels_))


def test_pivots_ignore_missing_labels() -> None:
    """A partition that does not label both points of a pair has no vote on it."""
    P = np.array([[0, -1], [0, 0], [1, 0], [1, -1]])
    labels = PivotConsensus(random_state=0).fit(P).labels_
    assert labels[0] == labels[1] != labels[2] == labels[3]
