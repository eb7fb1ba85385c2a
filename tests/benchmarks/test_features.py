"""The benchmark of feature tables: its sets, its scores and the figures it reports."""

from __future__ import annotations

import json
from functools import partial
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_blobs

from benchmark_results import measured_here
from benchmarks import feature_scale, feature_tables, features
from benchmarks.feature_sets import LISTS, FeatureSet
from benchmarks.feature_tables import FLAGSHIP, METHODS
from benchmarks.features import is_right, reliability
from benchmarks.harness import Context
from coterie import ConsensusClusterer, clustering_accuracy
from coterie.inspection.scores import adjusted_rand_index

_load = partial(make_blobs, 60, centers=3, cluster_std=1.5, random_state=1)


@pytest.fixture
def small_lists(monkeypatch):
    """Reduce both lists to a set each, without views and times; the second cannot be read."""
    lists = {
        "first": (FeatureSet("blobs", _load),),
        "second": (FeatureSet("absent", _load, "msrc_v1"),),
    }
    for module in (features, feature_tables):
        monkeypatch.setattr(module, "LISTS", lists)
    monkeypatch.setattr(features, "_VIEWS", {"msrc_v1": 0.5})
    monkeypatch.setattr(features, "_TIMED", {})
    monkeypatch.setattr(feature_scale, "SIZES", {"features": (600,), "views": (600,)})
    monkeypatch.setattr(feature_scale, "REAL_SETS", {})
    monkeypatch.setattr(feature_scale, "measure", measured_here)


def test_a_run_reports_every_method(small_lists, tmp_path):
    """Methods get K and the seed; kept trials are used; a missing dataset is a note."""
    (tmp_path / "empty").mkdir()
    context = Context(data=tmp_path / "empty", keep=tmp_path / "trials")
    first = features.run(context, seeds=2, jobs=1)
    (found,) = first.data["sets"]
    X, y = _load()
    for seed, ari in enumerate(found["methods"][FLAGSHIP]["accuracies"]):
        labels = ConsensusClusterer(3, random_state=seed).fit(X).labels_
        assert ari == adjusted_rand_index(y, labels)
    assert {name: len(one["accuracies"]) for name, one in found["methods"].items()} == {
        name: 1 if name in ("ward", "hdbscan") else 2 for name in METHODS
    }
    assert np.array(found["bins"])[:, 0].sum() == pytest.approx(1.0)
    assert (found["half"], found["n"], found["p"], found["K"]) == ("develop", 60, 2, 3)
    assert any("msrc_v1" in note for note in first.notes)
    trials = first.data["sizes"]["trials"]
    assert [(t["kind"], t["n"]) for t in trials[::2]] == [("features", 600), ("views", 600)]
    assert all(0 < t["nmi"] <= 1 for t in trials)
    assert features.run(context, seeds=2, jobs=1).data == first.data
    assert json.loads(first.json_text())["summary"]["first list"]["n_sets"] == 1
    assert all(len(row) == len(t.headings) for t in first.tables for row in t.rows)
    assert all(draw().axes for draw in first.plots.values())


def test_the_lists_have_thirteen_and_fifteen_sets():
    """All names differ, because finished trials are kept by name."""
    names = [one.name for sets in LISTS.values() for one in sets]
    assert [len(sets) for sets in LISTS.values()] == [13, 15]
    assert len(set(names)) == 28


@pytest.mark.parametrize(
    "one",
    [one for sets in LISTS.values() for one in sets if one.dataset is None],
    ids=lambda one: one.name,
)
def test_sets_are_the_same_in_every_run(one):
    """A set is a finite table with a class for each row, and loading it again changes nothing."""
    (X, y), (again, _) = one.load(), one.load()
    assert X.shape[0] == len(y)
    assert np.isfinite(X).all()
    assert np.array_equal(X, again)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 2)), min_size=1, max_size=12))
def test_right_labels_are_those_of_the_best_matching(pairs):
    """The share of right labels is the accuracy, the most that any matching reaches."""
    y, labels = np.array(pairs).T
    right = is_right(y, labels)
    assert right.mean() == pytest.approx(clustering_accuracy(y, labels))
    matchings = (
        dict(zip(range(-1, 3), classes, strict=True)) for classes in permutations(range(4))
    )
    assert right.sum() == max(sum(m[b] == a for a, b in pairs) for m in matchings)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30))
def test_bins_keep_the_totals(pairs):
    """Sums over the bins are 1, the mean confidence and the share of right labels."""
    confidence, right = np.array([c for c, _ in pairs]), np.array([r for _, r in pairs])
    bins = reliability(confidence, right)
    assert bins.shape == (10, 3)
    assert bins.sum(axis=0) == pytest.approx([1.0, confidence.mean(), right.mean()])
    filled = bins[bins[:, 0] > 0]
    means = filled[:, 1] / filled[:, 0]
    assert (np.abs(means - (np.flatnonzero(bins[:, 0]) + 0.5) / 10) <= 0.05 + 1e-9).all()


def test_sets_have_equal_weight_in_the_summary():
    """The calibration error pools the bins; errors of two sets in opposite directions cancel."""
    bins = np.zeros((2, 10, 3))
    bins[0, 8], bins[1, 8] = (1.0, 0.85, 0.95), (1.0, 0.85, 0.75)
    method = {"mean": 0.5}
    sets = [{"bins": b.tolist(), "methods": dict.fromkeys(METHODS, method)} for b in bins]
    summary = feature_tables._summary(sets)
    assert summary["calibration_error"] == pytest.approx(0.0)
    assert summary["set_gap"] == pytest.approx(0.1)
    assert summary["mean"] == pytest.approx(dict.fromkeys(METHODS, 0.5))
