"""The similarity benchmark at a size for tests."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from benchmarks import ads_similarity
from benchmarks.ads_similarity import TARGET, compare_similarity, market_curves
from coterie.ads.segments.similarity import ks_distances


@pytest.fixture(scope="module")
def found():
    """Results for rows that do not fill their last block."""
    return compare_similarity(advertisers=600, points=40)


def test_results_are_ready_for_json(found):
    """Everything is a plain number, under the names documented."""
    assert json.loads(json.dumps(found)) == found
    assert (found["advertisers"], found["points"], found["target"]) == (600, 40, TARGET)
    for clock in ("seconds", "cpu_seconds"):
        assert set(found[clock]) == {"graph", "distances", "cdist"}
        assert all(value >= 0 for value in found[clock].values())
    for name, ratio in found["times_as_fast"].items():
        assert ratio == found["seconds"]["cdist"] / found["seconds"][name]


def test_decisions_are_equal(found):
    """The graph decides as float64 arithmetic, and distances are right to 2⁻²⁴."""
    assert found["differing_decisions"] == 0
    assert found["largest_error"] <= 2**-24
    assert 0 < found["density"] < 1


def test_differing_decisions_are_seen(monkeypatch):
    """A graph with other thresholds is found out, pair by pair."""
    curves, observations = market_curves(100, 20)
    right = ads_similarity.ks_graph(curves, observations, 0.05)
    wrong = ads_similarity.ks_graph(curves, observations, 0.5)
    monkeypatch.setattr(ads_similarity, "ks_graph", lambda *_: wrong)
    found = compare_similarity(100, 20)
    assert found["differing_decisions"] == (right.nnz - wrong.nnz) // 2 > 0


def test_curves_are_those_of_segments():
    """They are c.d.f.s; the same seed gives the same; an advertiser is nearest to some, not all."""
    curves, observations = market_curves(200, 50, seed=4)
    again, _ = market_curves(200, 50, seed=4)
    assert_array_equal(curves, again)
    assert (np.diff(curves, axis=1) >= 0).all()
    assert_array_equal(curves[:, -1], 1)
    well_known = curves[observations > 500]
    distances = ks_distances(well_known)
    np.fill_diagonal(distances, 1)
    assert np.median(distances.min(axis=1)) < 0.2 < np.median(distances)
