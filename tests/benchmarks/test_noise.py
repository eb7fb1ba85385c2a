"""Cells, methods and statistics of the noise benchmark."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import sem

from benchmarks.noise import (
    CORE_CELLS,
    FLAGSHIP,
    METHODS,
    MORE_CELLS,
    CellResult,
    MethodScores,
    NoiseCell,
    most_central_partition,
    run_cell,
    run_noise,
    summarise,
)
from coterie import OneHotKMeans, RobustConsensus, mirkin_objective
from coterie.errors import LabelWarning

SMALL = NoiseCell((20, 12, 8), 6, 2, 0.1)


def result_of(cell: NoiseCell, **means: float) -> CellResult:
    """A result in which each method has the same accuracy in two draws."""
    return CellResult(
        cell, {name: MethodScores((m, m), (0.1, 0.3)) for name, m in means.items()}, {}
    )


def test_the_cells_span_what_is_promised():
    """11 core cells, 24 others, all different: 2–20 clusters, 3–100 partitions, to 5,000 points."""
    cells = CORE_CELLS + MORE_CELLS
    assert (len(CORE_CELLS), len(MORE_CELLS), len(set(cells))) == (11, 24, 35)
    for spread, least, most in (
        ([cell.n_clusters for cell in cells], 2, 20),
        ([cell.n_partitions for cell in cells], 3, 100),
        ([sum(cell.sizes) for cell in cells], 240, 5000),
    ):
        assert (min(spread), max(spread)) == (least, most)
    assert {cell.correlated for cell in MORE_CELLS} == {True, False}


def test_a_draw_is_what_the_cell_says():
    """A draw has the planted sizes and the partitions asked for, and follows its seed."""
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
    """It is one of the given partitions, and none of these has a lower J."""
    labels = most_central_partition(P)
    assert any(np.array_equal(labels, column) for column in P.T)
    lowest = min(mirkin_objective(P, column) for column in P.T)
    assert mirkin_objective(P, labels) == pytest.approx(lowest)


def test_the_best_single_partition_knows_nothing_of_the_answer():
    """When most partitions are wrong together it takes a wrong one, though one is perfect."""
    assert list(inspect.signature(most_central_partition).parameters) == ["P"]
    cell = NoiseCell((60, 30), 5, 4, 0.0)
    found = run_cell(cell, 3, {"best_single": METHODS["best_single"]})
    assert max(found.methods["best_single"].accuracies) < 0.75


@pytest.mark.parametrize(
    ("name", "settings_"),
    [
        ("l2", {"relaxation": "l2", "refine": False, "partition_weights": None}),
        ("admm", {"relaxation": "admm", "refine": False, "partition_weights": None}),
        ("search", {"refine": True, "partition_weights": None}),
        (FLAGSHIP, {}),
    ],
)
def test_methods_are_the_estimator_with_these_settings(name, settings_):
    """Each method gives the labels of RobustConsensus with its settings and the draw's seed."""
    P, _ = SMALL.draw(0)
    expected = RobustConsensus(3, random_state=5, **settings_).fit(P).labels_
    assert np.array_equal(METHODS[name](P, 3, 5), expected)


def test_one_hot_kmeans_is_the_estimator():
    """One-hot k-means is that of the library with its default ten starts."""
    P, _ = SMALL.draw(0)
    expected = OneHotKMeans(3, random_state=5).fit(P).labels_
    assert np.array_equal(METHODS["one_hot_kmeans"](P, 3, 5), expected)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=8))
def test_mean_and_standard_error(accuracies):
    """The mean, and the standard error scipy gives."""
    scores = MethodScores(tuple(accuracies), (0.1,) * len(accuracies))
    assert scores.mean == pytest.approx(np.mean(accuracies))
    assert scores.standard_error == pytest.approx(sem(accuracies))


def test_one_draw_has_no_standard_error():
    """A single draw says nothing of the spread."""
    scores = MethodScores((0.7,), (0.1,))
    assert scores.standard_error is None
    assert scores.mean_seconds == 0.1


def test_methods_see_the_same_draws_and_no_truth():
    """Every method gets the draw's labels, K and seed; perfect labels score 1, one cluster ½."""
    seen = []

    def first_column(P, n_clusters, seed):
        seen.append((P.copy(), n_clusters, seed))
        return P[:, 0]

    def one_cluster(P, n_clusters, seed):
        return np.zeros(len(P), dtype=int)

    cell = NoiseCell((20, 12, 8), 3, 0, 0.0)
    draws_done = []
    found = run_cell(
        cell, 2, {"first": first_column, "one": one_cluster}, lambda: draws_done.append(len(seen))
    )
    assert found.methods["first"].accuracies == (1.0, 1.0)
    assert found.methods["one"].accuracies == (0.5, 0.5)
    assert [(K, seed) for _, K, seed in seen] == [(3, 0), (3, 1)]
    assert all(np.array_equal(P, cell.draw(seed)[0]) for P, _, seed in seen)
    assert draws_done == [1, 2]


def test_warnings_are_counted_by_method():
    """A warning in a draw reaches nobody but the count (here any other would be an error)."""

    def noisy(P, n_clusters, seed):
        warnings.warn("odd", LabelWarning, stacklevel=1)
        return P[:, 0]

    found = run_cell(SMALL, 3, {"noisy": noisy, "best_single": METHODS["best_single"]})
    assert found.warnings == {("noisy", "LabelWarning"): 3}


def test_all_methods_run_and_repeat_themselves():
    """Two runs of small cells give every method the same accuracies."""
    cells = [SMALL, NoiseCell((15, 15), 4, 1, 0.2, correlated=False)]
    first, second = (run_noise(cells, 2) for _ in range(2))
    assert [found.cell for found in first] == cells
    for a, b in zip(first, second, strict=True):
        assert set(a.methods) == set(METHODS)
        for name, scores in a.methods.items():
            assert scores.accuracies == b.methods[name].accuracies
            assert len(scores.seconds) == 2


def test_summary_figures():
    """Means and lowest cells of each method, and the flagship's worst cell against ℓ2 and ADMM."""
    other = NoiseCell((9, 9), 3, 1, 0.1)
    results = [
        result_of(SMALL, l2=0.5, admm=0.9, robust_consensus=0.95),
        result_of(other, l2=0.75, admm=0.5, robust_consensus=0.65),
    ]
    summary = summarise(results)
    assert summary.n_cells == 2
    assert summary.mean == pytest.approx({"l2": 0.625, "admm": 0.7, "robust_consensus": 0.8})
    assert summary.lowest == {"l2": 0.5, "admm": 0.5, "robust_consensus": 0.65}
    assert summary.shortfall == pytest.approx(0.1)
    assert summary.shortfall_cell == other
    assert summarise(results[:1]).shortfall == pytest.approx(-0.05)
