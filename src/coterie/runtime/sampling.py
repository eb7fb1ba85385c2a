"""Weighted subsamples: which items to draw, and the weight or count of each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "draw_weighted_subsample",
    "evenly_spaced_points",
    "sample_multiplicities",
    "stratified_sample",
]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

#: NumPy draws without replacement from fewer points than this.
_MAX_WITHOUT_REPLACEMENT = 10**9


def draw_weighted_subsample(weights: Array, n: int, rng: Any) -> tuple[Indices, Array]:
    """Draw a weighted subsample of n different items.

    An item of weight w is drawn with probability about min(1, n w / W), where W is the sum of all
    weights. Heavy items are certain to be drawn and keep their weight; the others get W / n each.
    Weighted means over the subsample then estimate those over all items. Return increasing indices
    (n,) and their weights (n,); ``weights`` (u,) are positive, n ≤ u, and ``rng`` a RandomState.

    >>> weights = np.array([1.0, 97.0, 1.0, 1.0])
    >>> chosen, counts = draw_weighted_subsample(weights, 2, np.random.RandomState(0))
    >>> 1 in chosen, sorted(counts.tolist())
    (True, [50.0, 97.0])
    """
    # a probability of exactly zero would leave too few items to draw from
    share = np.maximum(weights / weights.sum(), np.finfo(np.float64).tiny)
    chosen = np.sort(rng.choice(len(weights), n, replace=False, p=share / share.sum()))
    return chosen, np.maximum(weights[chosen], weights.sum() / n)


def evenly_spaced_points(weights: Array, n: int) -> tuple[Indices, Array]:
    """Return the items at n evenly spaced positions along the cumulative weights, with counts.

    >>> evenly_spaced_points(np.array([1.0, 2.0, 1.0]), 4)
    (array([0, 1, 2]), array([1., 2., 1.]))
    """
    marks = (np.arange(n) + 0.5) * (weights.sum() / n)
    chosen, counts = np.unique(np.searchsorted(np.cumsum(weights), marks), return_counts=True)
    return chosen, counts.astype(np.float64)


def sample_multiplicities(weights: Array, most: int, random_state: Any) -> Array:
    """Return the weights (u,) of a sample of at most ``most`` points.

    All points are kept if there are not more. The sample is drawn without replacement where the
    weights are counts of fewer than 10⁹ points.

    >>> int(sample_multiplicities(np.array([5.0, 3.0]), 4, 0).sum())
    4
    """
    if weights.sum() <= most:
        return weights
    rng = np.random.default_rng(random_state)
    counts = weights.astype(np.int64)
    if (counts == weights).all() and weights.sum() < _MAX_WITHOUT_REPLACEMENT:
        return rng.multivariate_hypergeometric(counts, most, method="marginals").astype(float)
    return rng.multinomial(most, weights / weights.sum()).astype(float)


def stratified_sample(labels: Indices, most: int, rng: np.random.Generator) -> Indices:
    """Draw at most ``most`` points: about the same share of each cluster 0, 1, …, at least one.

    >>> stratified_sample(np.array([0, 0, 0, 0, 1]), 2, np.random.default_rng(0)).tolist()
    [2, 4]
    """
    n = len(labels)
    if n <= most:
        return np.arange(n)
    shuffled = rng.permutation(n)
    by_cluster = shuffled[np.argsort(labels[shuffled], kind="stable")]
    sizes = np.bincount(labels)
    # rank of each point in its cluster divided by the size; the points with the least are kept
    rank = np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    share = rank / np.repeat(sizes, sizes)
    return by_cluster[np.argsort(share, kind="stable")[:most]]
