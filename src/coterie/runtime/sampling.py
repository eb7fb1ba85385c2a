"""Some of many weighted things, so that they stand for all: which, and how often each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["draw_weighted_subsample", "evenly_spaced_points", "sample_multiplicities"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

#: NumPy draws without replacement from fewer points than this.
_MOST_WITHOUT_REPLACEMENT = 10**9


def draw_weighted_subsample(weights: Array, n: int, rng: Any) -> tuple[Indices, Array]:
    """n different indices drawn by weight, and the weights with which they stand for all.

    One of weight w is drawn with a chance of about min(1, n w / W), W the sum of all weights. So
    the heavy ones, which are sure to be drawn, keep their weight, and the others weigh W / n each.

    Parameters
    ----------
    weights : (u,), positive
    n : int, at most u
    rng : RandomState

    Returns
    -------
    indices (n,), rising, and their weights (n,)

    Examples
    --------
    >>> weights = np.array([1.0, 97.0, 1.0, 1.0])
    >>> chosen, counts = draw_weighted_subsample(weights, 2, np.random.RandomState(0))
    >>> 1 in chosen, sorted(counts.tolist())
    (True, [50.0, 97.0])
    """
    share = np.maximum(weights / weights.sum(), np.finfo(np.float64).tiny)
    chosen = np.sort(rng.choice(len(weights), n, replace=False, p=share / share.sum()))
    return chosen, np.maximum(weights[chosen], weights.sum() / n)


def evenly_spaced_points(weights: Array, n: int) -> tuple[Indices, Array]:
    """The things that n points lie in, which are evenly spaced along their weights laid in a row.

    >>> evenly_spaced_points(np.array([1.0, 2.0, 1.0]), 4)
    (array([0, 1, 2]), array([1., 2., 1.]))
    """
    marks = (np.arange(n) + 0.5) * (weights.sum() / n)
    chosen, counts = np.unique(np.searchsorted(np.cumsum(weights), marks), return_counts=True)
    return chosen, counts.astype(np.float64)


def sample_multiplicities(weights: Array, most: int, random_state: Any) -> Array:
    """Weights (u,) of a sample of at most so many points: all of them if they are not more.

    Without replacement where the weights are counts of fewer than 10⁹ points.

    >>> int(sample_multiplicities(np.array([5.0, 3.0]), 4, 0).sum())
    4
    """
    if weights.sum() <= most:
        return weights
    rng = np.random.default_rng(random_state)
    counts = weights.astype(np.int64)
    if (counts == weights).all() and weights.sum() < _MOST_WITHOUT_REPLACEMENT:
        return rng.multivariate_hypergeometric(counts, most, method="marginals").astype(float)
    return rng.multinomial(most, weights / weights.sum()).astype(float)
