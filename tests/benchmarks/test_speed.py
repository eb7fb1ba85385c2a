"""The contenders of the benchmarks speed and growing, and the ratios of their figures."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.preprocessing import OneHotEncoder

from benchmark_results import check_result, measured_here
from benchmarks import growing, measuring, speed
from benchmarks.harness import Context
from benchmarks.measuring import Stopwatch
from coterie import RobustConsensus, clustering_accuracy, mirkin_objective


@pytest.fixture
def planted(tmp_path):
    """Return a file of planted labels and its arrays."""
    path = tmp_path / "planted.npz"
    speed.write_planted_labels(path, (40, 30, 20), 10, 3, 0.1)
    return path, *speed.load_labels(path)


@pytest.fixture
def in_this_process(monkeypatch):
    """Run works in this process, which is quicker."""
    monkeypatch.setattr(measuring, "measure", measured_here)


def test_a_small_run_of_speed(monkeypatch, in_this_process):
    """Every cell has all contenders; ratios follow from the measured figures."""
    sizes = {"n_rows": 200, "n_large": 250, "n_tuples": 50, "n_iter": 8}
    monkeypatch.setattr(speed, "QUICK", sizes)
    for name in ("WARM_UP_ROWS", "_WARM_UP_TUPLES"):
        monkeypatch.setattr(speed, name, 50)
    cells = check_result(speed.run(Context(quick=True), repeats=1))["cells"]
    assert [len(cell["contenders"]) for cell in cells] == [3, 3, 2, 1, 2]
    fixed, _, relaxation, large, search = cells
    ours, sparse, dense = fixed["contenders"].values()
    fastest = min(sparse["seconds"], dense["seconds"])
    assert fixed["time_ratio"] == ours["seconds"] / fastest
    assert fixed["memory_ratio"] == ours["peak_bytes"] / (4 * 200 * 40)
    assert "time_ratio" not in large
    ours, textbook = (found["facts"] for found in relaxation["contenders"].values())
    assert ours["n_tuples"] == textbook["n_tuples"] == 50
    assert ours["objective"] == pytest.approx(textbook["objective"], rel=1e-3)
    blocks, in_turn = (found["facts"] for found in search["contenders"].values())
    assert blocks["objective"] == pytest.approx(in_turn["objective"], rel=0.01)


def test_a_small_run_of_growing(monkeypatch, in_this_process):
    """add_partitions sees all partitions and gets near the objective of fit."""
    monkeypatch.setattr(growing, "N_BEFORE", 8)
    monkeypatch.setattr(growing, "N_NEW", 2)
    data = check_result(growing.run(Context(), rows=100, repeats=1))
    for cell in data["cells"]:
        ours, whole = (found["facts"] for found in cell["contenders"].values())
        assert ours["n_tuples"] == whole["n_tuples"]
        above = 100 * (ours["objective"] / whole["objective"] - 1)
        assert cell["objective_percent"] == pytest.approx(above)
        assert abs(above) < 5


def test_facts_of_a_consensus(planted):
    """Tuples, accuracy and objective are those of the estimator."""
    path, P, y = planted
    fitted = RobustConsensus(3, relaxation="l2", random_state=0).fit(P)
    assert speed.fit_consensus(Stopwatch(), path, 3, relaxation="l2") == {
        "n_tuples": fitted.n_tuples_,
        "accuracy": clustering_accuracy(y, fitted.labels_),
        "objective": mirkin_objective(P, fitted.labels_),
        "label_bytes": 4 * 90 * 10,
    }


@pytest.mark.parametrize("dense", [False, True])
def test_one_hot_kmeans_is_that_of_scikit_learn(planted, dense):
    """Ten starts of scikit-learn's k-means on its encoding of the labels."""
    path, P, y = planted
    encoded = OneHotEncoder().fit_transform(P)
    encoded = encoded.toarray().astype(np.float32) if dense else encoded
    labels = KMeans(3, n_init=10, random_state=0).fit(encoded).labels_
    facts = speed.fit_one_hot_kmeans(Stopwatch(), path, 3, dense)
    assert facts["accuracy"] == clustering_accuracy(y, labels)
    assert facts["objective"] == mirkin_objective(P, labels)
