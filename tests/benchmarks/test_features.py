"""The benchmark of feature tables: its sets, its scores and the figures it reports."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import feature_tables
from benchmarks.feature_tables import METHODS
from benchmarks.features import is_right, reliability
from coterie import clustering_accuracy


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
