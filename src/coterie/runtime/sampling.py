"""Weighted subsamples: indices of the drawn items, and their weights or counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.arrays import Floats, Ints

#: NumPy can draw without replacement only from fewer points than this.
_MAX_WITHOUT_REPLACEMENT = 10**9


def draw_weighted_subsample(weights: Floats, n: int, rng: Any) -> tuple[Ints, Floats]:
    """Draw a weighted subsample of n different items.

    An item of weight w is drawn with probability about min(1, n w / W), where W is the sum of all
    weights. Items with w > W / n keep their weight; the others get the weight W / n. So weighted
    means over the subsample estimate those over all items if n is much smaller than u. For larger
    n, light items get too much weight.

    ``weights`` (u,) are positive, n ≤ u, and ``rng`` is a RandomState. Return the indices (n,),
    increasing, and the new weights (n,).
    """
    # a probability of exactly zero would leave too few items to draw from
    share = np.maximum(weights / weights.sum(), np.finfo(np.float64).tiny)
    chosen = np.sort(rng.choice(len(weights), n, replace=False, p=share / share.sum()))
    return chosen, np.maximum(weights[chosen], weights.sum() / n)


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
