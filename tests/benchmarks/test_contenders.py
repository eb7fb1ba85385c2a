"""The work of the speed benchmark, done here rather than in fresh processes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.preprocessing import OneHotEncoder

from benchmarks import contenders
from benchmarks.measuring import Work
from coterie import RobustConsensus, clustering_accuracy, mirkin_objective
from coterie.errors import InvalidLabelsError


def carried_out(work: Work) -> dict:
    """The facts of work that has travelled as it does to a fresh process."""
    work = pickle.loads(pickle.dumps(work))
    data = work.load()
    if work.warm_up is not None:
        work.warm_up(data)
    result = work.run(data)
    return {} if work.describe is None else work.describe(data, result)


@pytest.fixture
def planted(tmp_path):
    """A file of planted labels."""
    path = tmp_path / "planted.npz"
    carried_out(contenders.planted_labels(path, (40, 30, 20), 10, 3, 0.1))
    return path


def labels_at(path) -> tuple[np.ndarray, np.ndarray]:
    """P and y of a file of labels."""
    with np.load(path) as arrays:
        return arrays["P"], arrays["y"]


def test_planted_labels(planted):
    """The file has the labels and the classes, as int32."""
    P, y = labels_at(planted)
    assert (P.shape, P.dtype, y.dtype) == ((90, 10), np.int32, np.int32)
    assert np.bincount(y).tolist() == [40, 30, 20]


@pytest.mark.parametrize(("strategy", "fewest", "most"), [("kmeans", 3, 3), ("diverse", 3, 17)])
def test_kmeans_labels(tmp_path, strategy, fewest, most):
    """Runs of k-means with K fixed, or with K from K to √n."""
    path = tmp_path / "kmeans.npz"
    carried_out(contenders.kmeans_labels(path, 300, 3, 8, strategy))
    P, y = labels_at(path)
    assert (P.shape, len(y), P.dtype) == ((300, 8), 300, np.int32)
    counts = [len(np.unique(column)) for column in P.T]
    assert fewest <= min(counts) <= max(counts) <= most
    assert len(set(counts)) > 1 or strategy == "kmeans"


def test_robust_consensus_facts(planted):
    """Tuples, accuracy and objective are those of the estimator with these settings."""
    P, y = labels_at(planted)
    fitted = RobustConsensus(3, relaxation="l2", random_state=0).fit(P)
    assert carried_out(contenders.robust_consensus(planted, 3, relaxation="l2")) == {
        "n_tuples": fitted.n_tuples_,
        "n_iter": 0,
        "method": fitted.selected_["method"],
        "accuracy": clustering_accuracy(y, fitted.labels_),
        "objective": mirkin_objective(P, fitted.labels_),
        "label_bytes": 4 * 90 * 10,
    }


def test_the_warm_up_reaches_the_kernels_for_many_tuples(planted, monkeypatch):
    """Labels of many rows warm up with more tuples than double precision is used for."""
    monkeypatch.setattr(contenders, "_SINGLE_PRECISION_ROWS", 60)
    fitted = []
    fit = RobustConsensus.fit
    monkeypatch.setattr(
        RobustConsensus, "fit", lambda self, P: fitted.append((self, len(P))) or fit(self, P)
    )
    work = contenders.robust_consensus(planted, 3, relaxation="admm")
    with pytest.warns(UserWarning, match="stopped after 2 steps"):
        work.warm_up(work.load())
    assert [n for _, n in fitted] == [90, 63]
    assert fitted[1][0].max_iter == 2


@pytest.mark.parametrize("dense", [False, True])
def test_one_hot_kmeans_is_scikit_learns(planted, dense):
    """Ten starts of scikit-learn's k-means on its own encoding of the labels."""
    P, y = labels_at(planted)
    work = contenders.one_hot_kmeans(planted, 3, dense)
    encoded = work.load().encoded
    assert sp.issparse(encoded) is not dense
    assert encoded.dtype == (np.float32 if dense else np.float64)
    expected = OneHotEncoder().fit_transform(P)
    assert np.array_equal(encoded if dense else encoded.toarray(), expected.toarray())
    labels = KMeans(3, n_init=10, random_state=0).fit(encoded).labels_
    facts = carried_out(work)
    assert facts["accuracy"] == clustering_accuracy(y, labels)
    assert facts["objective"] == mirkin_objective(P, labels)


def test_both_relaxations_reach_the_same_objective(tmp_path):
    """As many steps as asked for, to an objective within a thousandth."""
    path = tmp_path / "distinct.npz"
    carried_out(contenders.planted_labels(path, (30, 30), 20, 0, 0.6))
    ours = carried_out(contenders.robust_relaxation(path, 2, n_iter=15))
    reference = carried_out(contenders.reference_relaxation(path, 2, n_iter=15))
    assert (
        (ours["n_tuples"], ours["n_iter"])
        == (reference["n_tuples"], reference["n_iter"])
        == (60, 15)
    )
    assert ours["objective"] == pytest.approx(reference["objective"], rel=1e-3)


def test_the_reference_refuses_labels_that_compress(tmp_path):
    """The textbook form knows no multiplicities, so equal rows are refused."""
    path = tmp_path / "equal.npz"
    carried_out(contenders.planted_labels(path, (30, 30), 3, 0, 0.0))
    with pytest.raises(InvalidLabelsError, match=r"equal\.npz are equal.*plant more noise"):
        contenders.reference_relaxation(path, 2, n_iter=3).load()
