"""Some of many weighted things stand for all of them."""

import numpy as np
import pytest

from coterie.runtime.sampling import (
    draw_weighted_subsample,
    evenly_spaced_points,
    sample_multiplicities,
)


def test_draws_are_different_and_stand_for_all():
    """As many as asked for, each once; means over them are those over all, but for chance."""
    rng = np.random.default_rng(0)
    weights, values = rng.pareto(1.2, 2000) + 0.01, rng.random(2000)
    means = []
    for seed in range(200):
        chosen, stand_for = draw_weighted_subsample(weights, 300, np.random.RandomState(seed))
        assert len(np.unique(chosen)) == 300
        means.append(stand_for @ values[chosen] / stand_for.sum())
    assert np.mean(means) == pytest.approx(np.average(values, weights=weights), rel=0.02)


def test_the_heaviest_are_sure_to_be_drawn_and_keep_their_weight():
    """What outweighs all others together is drawn, and weighs what it did."""
    weights = np.array([1.0] * 99 + [1e6])
    chosen, stand_for = draw_weighted_subsample(weights, 10, np.random.RandomState(0))
    assert chosen[-1] == 99 and stand_for[-1] == 1e6


def test_weights_that_vanish_beside_others_do_no_harm():
    """So small a weight that its share is zero can still be drawn where too few others are."""
    chosen, _ = draw_weighted_subsample(
        np.array([1e300, 1e-300, 1e-300]), 2, np.random.RandomState(0)
    )
    assert len(chosen) == 2


def test_evenly_spaced_points_are_in_proportion():
    """Each has as many of the points as its weight asks for, to one more or less."""
    weights = np.random.default_rng(0).random(50)
    chosen, counts = evenly_spaced_points(weights, 1000)
    found = np.zeros(50)
    found[chosen] = counts
    assert np.abs(found - 1000 * weights / weights.sum()).max() <= 1


@pytest.mark.parametrize("scale", [1, 10**8, 0.37])
def test_multiplicities_of_a_sample(scale):
    """As many points as asked for, whether the weights are counts, huge counts or fractions."""
    weights = np.arange(1.0, 101.0) * scale
    times = sample_multiplicities(weights, 500, 0)
    assert times.sum() == 500 and (times >= 0).all()
    np.testing.assert_array_equal(sample_multiplicities(weights, 10**12, 0), weights)
