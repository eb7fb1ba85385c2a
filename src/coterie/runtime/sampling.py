"""Weighted subsamples: indices of the drawn items, and their weights or counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.arrays import Floats, Ints

#: NumPy can draw without replacement only from fewer points than this.
_MAX_WITHOUT_REPLACEMENT = 10**9


def draw_weighted_subsample(weights: Floats, n: int, rng: Any) -> tuple[Ints, Floats]:
    """Draw a weighted subsample of n different items that represents all of them.

    An item of weight w is drawn with probability p = min(1, c w), where c is such that these add up
    to n, and gets the weight w / p. So sums over the subsample are those over all items on average,
    and light items, which are drawn more rarely, count for the others.

    ``weights`` (u,) are positive, n ≤ u, and ``rng`` is a RandomState. Return the indices (n,),
    increasing, and the new weights (n,).
    """
    # if the k heaviest items are certain, the others share n − k draws in proportion to weight
    falling = np.sort(weights)[::-1]
    rest = np.cumsum(falling[::-1])[::-1]
    scale = (n - np.arange(n)) / rest[:n]
    in_doubt = np.flatnonzero(scale * falling[:n] < 1)
    probability = np.ones(len(weights))
    if len(in_doubt):
        with np.errstate(over="ignore"):  # far above 1 is certain
            probability = np.minimum(1.0, scale[in_doubt[0]] * weights)
    # systematic draws: items in random order, as intervals of these lengths, at steps of 1
    order = rng.permutation(len(weights))
    ends = np.cumsum(probability[order])
    marks = (rng.random_sample() + np.arange(n)) * (ends[-1] / n)
    chosen = np.sort(order[np.minimum(np.searchsorted(ends, marks, "right"), len(order) - 1)])
    return chosen, weights[chosen] / probability[chosen]


def evenly_spaced_points(weights: Floats, n: int) -> tuple[Ints, Floats]:
    """Return the items at n evenly spaced positions of the cumulative weights, and their counts."""
    marks = (np.arange(n) + 0.5) * (weights.sum() / n)
    chosen, counts = np.unique(np.searchsorted(np.cumsum(weights), marks), return_counts=True)
    return chosen, counts.astype(np.float64)


def sample_multiplicities(weights: Floats, max_points: int, random_state: Any) -> Floats:
    """Draw at most ``max_points`` of the points of u items, and return the number of each, (u,).

    ``weights`` (u,) are the numbers of points. Points are drawn without replacement if these are
    whole numbers with a sum below 10⁹, else with replacement.
    """
    if weights.sum() <= max_points:
        return weights
    rng = np.random.default_rng(random_state)
    counts = weights.astype(np.int64)
    if (counts == weights).all() and weights.sum() < _MAX_WITHOUT_REPLACEMENT:
        drawn = rng.multivariate_hypergeometric(counts, max_points, method="marginals")
    else:
        drawn = rng.multinomial(max_points, weights / weights.sum())
    return drawn.astype(float)


def stratified_sample(labels: Ints, max_points: int, rng: np.random.Generator) -> Ints:
    """Draw at most ``max_points`` points, about the same share of each cluster, at least one.

    The clusters in ``labels`` (n,) are 0, 1, …; the result holds indices of points.
    """
    n = len(labels)
    if n <= max_points:
        return np.arange(n)
    shuffled = rng.permutation(n)
    by_cluster = shuffled[np.argsort(labels[shuffled], kind="stable")]
    sizes = np.bincount(labels)
    # a point's random rank in its cluster, divided by the cluster size; the smallest are kept
    rank = np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    share = rank / np.repeat(sizes, sizes)
    return by_cluster[np.argsort(share, kind="stable")[:max_points]]
