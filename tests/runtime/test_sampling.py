"""Weighted subsamples represent all items."""

import numpy as np
import pytest

from coterie.runtime.sampling import (
    draw_weighted_subsample,
    evenly_spaced_points,
    sample_multiplicities,
    stratified_sample,
)


def test_draws_are_different_and_representative():
    """The items are distinct; weighted means over them estimate those over all items."""
    rng = np.random.default_rng(0)
    weights, values = rng.pareto(1.2, 2000) + 0.01, rng.random(2000)
    means = []
    for seed in range(50):
        chosen, sample_weights = draw_weighted_subsample(weights, 300, np.random.RandomState(seed))
        assert len(np.unique(chosen)) == 300
        means.append(sample_weights @ values[chosen] / sample_weights.sum())
    assert np.mean(means) == pytest.approx(np.average(values, weights=weights), rel=0.02)


def test_the_heaviest_item_is_drawn_and_keeps_its_weight():
    """An item that outweighs all others together is certain to be drawn."""
    weights = np.array([1.0] * 99 + [1e6])
    chosen, sample_weights = draw_weighted_subsample(weights, 10, np.random.RandomState(0))
    assert chosen[-1] == 99 and sample_weights[-1] == 1e6


@pytest.mark.parametrize("n", [1, 300, 1500, 1990, 2000])
def test_sums_are_those_of_all_items(n):
    """However many items are drawn: in all exactly, and of heavy and light items on average."""
    rng = np.random.default_rng(1)
    weights = np.append(np.full(500, 97.0), rng.random(1500) + 0.5)
    of_heavy = []
    for seed in range(100):
        chosen, sample_weights = draw_weighted_subsample(weights, n, np.random.RandomState(seed))
        assert len(np.unique(chosen)) == n
        assert sample_weights.sum() == pytest.approx(weights.sum())
        of_heavy.append(sample_weights[chosen < 500].sum() / weights.sum())
    expected = weights[:500].sum() / weights.sum()
    assert np.mean(of_heavy) == pytest.approx(expected, abs=0.05 / np.sqrt(n))


def test_tiny_weights_can_be_drawn():
    """A weight whose share rounds to zero is drawn if too few other items remain."""
    weights = np.array([1e300, 1e-300, 1e-300])
    chosen, _ = draw_weighted_subsample(weights, 2, np.random.RandomState(0))
    assert len(chosen) == 2


def test_evenly_spaced_points_are_in_proportion():
    """The count of each item is proportional to its weight, up to one point."""
    weights = np.random.default_rng(0).random(50)
    chosen, counts = evenly_spaced_points(weights, 1000)
    found = np.zeros(50)
    found[chosen] = counts
    assert np.abs(found - 1000 * weights / weights.sum()).max() <= 1


@pytest.mark.parametrize("scale", [1, 10**8, 0.37])
def test_multiplicities_of_a_sample(scale):
    """The sample has the requested size for counts, huge counts and fractional weights."""
    weights = np.arange(1.0, 101.0) * scale
    times = sample_multiplicities(weights, 500, 0)
    assert times.sum() == 500 and (times >= 0).all()
    np.testing.assert_array_equal(sample_multiplicities(weights, 10**12, 0), weights)


@pytest.mark.parametrize("n", [3, 10, 50, 200])
def test_a_stratified_sample_has_the_shares_of_the_clusters(n):
    """Every cluster is drawn from, each within one point of its share; no point twice."""
    labels = np.repeat([0, 1, 2], [60, 30, 10])
    chosen = stratified_sample(labels, n, np.random.default_rng(0))
    assert len(set(chosen.tolist())) == len(chosen) == min(n, 100)
    sizes = np.bincount(labels[chosen], minlength=3)
    assert sizes.min() > 0
    assert np.abs(sizes - len(chosen) * np.array([0.6, 0.3, 0.1])).max() <= 1
