"""The contenders of the benchmarks speed and growing, and the ratios of their figures."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.preprocessing import OneHotEncoder

from benchmark_results import check_result
from benchmarks import growing, measuring, speed
from benchmarks import speed_works as works
from benchmarks.harness import Context
from benchmarks.measuring import Measurement, Stopwatch
from coterie import RobustConsensus, clustering_accuracy, mirkin_objective
from coterie.errors import InvalidLabelsError

STEPS = ("import_package", "import_estimator", "first_fit", "second_fit")


@pytest.fixture
def planted(tmp_path):
    """Return a file of planted labels and its arrays."""
    path = tmp_path / "planted.npz"
    works.write_planted_labels(path, (40, 30, 20), 10, 3, 0.1)
    with np.load(path) as arrays:
        return path, arrays["P"], arrays["y"]


@pytest.fixture
def in_this_process(monkeypatch):
    """Run works in this process, which is quicker."""

    def measure(work):
        watch = Stopwatch()
        facts = work(watch)
        return Measurement(facts=facts, **watch.measured)

    monkeypatch.setattr(measuring, "measure", measure)


def test_a_small_run_of_speed(monkeypatch, in_this_process):
    """Every cell has all contenders; ratios follow from the measured figures."""
    sizes = {"n_rows": 200, "n_large": 1000, "n_tuples": 50, "n_iter": 8}
    first_use = {state: dict.fromkeys(STEPS, 1.0) for state in ("cold", "warm")}
    monkeypatch.setattr(speed, "QUICK", sizes)
    monkeypatch.setattr(speed, "measure_first_use", lambda: first_use)
    data = check_result(speed.run(Context(quick=True), repeats=1))
    cells = {cell["name"]: cell for cell in data["cells"]}
    assert [len(cell["contenders"]) for cell in cells.values()] == [3, 3, 2, 1, 2]
    ours, sparse, dense = cells["fixed_k"]["contenders"].values()
    fastest = min(sparse["seconds"], dense["seconds"])
    assert cells["fixed_k"]["time_ratio"] == ours["seconds"] / fastest
    assert cells["fixed_k"]["memory_ratio"] == ours["peak_bytes"] / (4 * 200 * 40)
    assert cells["large"]["time_ratio"] is None
    ours, textbook = cells["relaxation"]["contenders"].values()
    assert ours["facts"]["n_iter"] == textbook["facts"]["n_iter"] == 8
    assert ours["facts"]["objective"] == pytest.approx(textbook["facts"]["objective"], rel=1e-3)
    blocks, in_turn = (found["facts"] for found in cells["search"]["contenders"].values())
    assert blocks["objective"] == pytest.approx(in_turn["objective"], rel=0.01)


def test_a_small_run_of_growing(in_this_process):
    """partial_fit sees all partitions and gets near the objective of fit."""
    data = check_result(growing.run(Context(), rows=400, repeats=1))
    for cell in data["cells"]:
        ours, whole = (found["facts"] for found in cell["contenders"].values())
        assert ours["n_tuples"] == whole["n_tuples"]
        above = 100 * (ours["objective"] / whole["objective"] - 1)
        assert cell["objective_percent"] == pytest.approx(above)
        assert abs(above) < 5


def test_first_use_compiles_once():
    """Times are positive; the first fit is slower when nothing is compiled."""
    found = speed.measure_first_use()
    assert all(seconds > 0 for state in found.values() for seconds in state.values())
    assert found["cold"]["first_fit"] > found["warm"]["first_fit"]


@pytest.mark.parametrize(("strategy", "most"), [("kmeans", 3), ("diverse", 17)])
def test_kmeans_labels(tmp_path, strategy, most):
    """Runs of k-means have K clusters, or from K to √n."""
    works.write_kmeans_labels(tmp_path / "kmeans.npz", 300, 3, 8, strategy)
    with np.load(tmp_path / "kmeans.npz") as arrays:
        P = arrays["P"]
        assert (P.shape, arrays["y"].shape, P.dtype) == ((300, 8), (300,), np.int32)
    counts = [len(np.unique(column)) for column in P.T]
    assert 3 <= min(counts) <= max(counts) <= most
    assert len(set(counts)) > 1 or strategy == "kmeans"


def test_facts_of_a_consensus(planted):
    """Tuples, accuracy and objective are those of the estimator."""
    path, P, y = planted
    fitted = RobustConsensus(3, relaxation="l2", random_state=0).fit(P)
    assert works.fit_consensus(Stopwatch(), path, 3, relaxation="l2") == {
        "n_tuples": fitted.n_tuples_,
        "n_iter": 0,
        "method": fitted.selected_["method"],
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
    facts = works.fit_one_hot_kmeans(Stopwatch(), path, 3, dense)
    assert facts["accuracy"] == clustering_accuracy(y, labels)
    assert facts["objective"] == mirkin_objective(P, labels)


def test_the_reference_refuses_labels_that_compress(tmp_path):
    """The textbook form has no multiplicities, so equal rows are an error."""
    works.write_planted_labels(tmp_path / "equal.npz", (30, 30), 3, 0, 0.0)
    with pytest.raises(InvalidLabelsError, match=r"equal\.npz are equal"):
        works.relax_by_the_book(Stopwatch(), tmp_path / "equal.npz", 2, n_iter=3)
