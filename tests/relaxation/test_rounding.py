"""Rounding of factors to labels."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from coterie.relaxation import rounding
from coterie.relaxation.rounding import round_by_kmeans, round_by_pivoted_qr


@pytest.fixture(params=[5_000, 100], ids=["all rows", "sample"])
def factor(request, monkeypatch):
    """A rotated, noisy indicator of three clusters, below or above the sample size."""
    monkeypatch.setattr(rounding, "_SAMPLE", request.param)
    rng = np.random.default_rng(0)
    y = rng.choice(3, 600, p=[0.6, 0.3, 0.1])
    H = np.eye(3)[y] / np.sqrt(np.bincount(y))[None]
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return (H + rng.normal(0, 0.05 * H.max(), H.shape) * H.max(axis=1, keepdims=True)) @ rotation, y


def test_both_find_the_clusters(factor):
    """Pivoted QR and k-means find the clusters, even above the sample size."""
    F, y = factor
    weights = np.ones(len(F))
    assert adjusted_rand_score(y, round_by_pivoted_qr(F, weights)) > 0.98
    assert adjusted_rand_score(y, round_by_kmeans(F * 100, weights, 3, 0)) > 0.9


def test_fewer_distinct_rows_than_clusters_give_fewer_labels():
    """Two distinct rows give two clusters, without a warning."""
    F = np.repeat([[1.0, 0.0], [0.0, 1.0]], 5, axis=0)
    assert set(round_by_kmeans(F, np.ones(10), 4, 0)) == {0, 1}


def test_samples_respect_weights(monkeypatch):
    """With very unequal weights, k-means on a sample is near k-means on all rows."""
    rng = np.random.default_rng(0)
    rows, weights = rng.normal(size=(4000, 3)), rng.pareto(0.8, 4000) + 1e-3

    def inertia(labels):
        total = 0.0
        for cluster in range(labels.max() + 1):
            own = labels == cluster
            centre = np.average(rows[own], axis=0, weights=weights[own])
            total += weights[own] @ ((rows[own] - centre) ** 2).sum(axis=1)
        return total

    whole = inertia(round_by_kmeans(rows, weights, 5, 0))
    monkeypatch.setattr(rounding, "_SAMPLE", 1000)
    assert inertia(round_by_kmeans(rows, weights, 5, 0)) < 1.1 * whole


def test_weights_equal_repetition():
    """A row of weight 3 counts as three rows."""
    rng = np.random.default_rng(1)
    F, weights = rng.normal(size=(60, 2)), rng.integers(1, 4, 60)
    repeated = np.repeat(F, weights, axis=0)
    inertia = []
    for rows, w, z in (
        (repeated, np.ones(len(repeated)), round_by_kmeans(repeated, np.ones(len(repeated)), 3, 0)),
        (F, weights, round_by_kmeans(F, weights.astype(float), 3, 0)),
    ):
        centres = [np.average(rows[z == k], axis=0, weights=w[z == k]) for k in range(3)]
        inertia.append((w * ((rows - np.array(centres)[z]) ** 2).sum(axis=1)).sum())
    assert inertia[0] == pytest.approx(inertia[1], rel=1e-6)
