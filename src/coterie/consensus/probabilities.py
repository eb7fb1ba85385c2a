"""Probabilities of clusters from shares of votes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["cluster_probabilities"]

Array = NDArray[np.float64]

#: Probability of errors that all partitions share. Chosen so that the probability of the label is
#: calibrated over datasets with known classes.
SHARED_ERRORS = 0.05


def cluster_probabilities(shares: Array) -> Array:
    """Return the probabilities of clusters from shares of votes (n, K), see ``predict_proba``.

    >>> cluster_probabilities(np.array([[0.6, 0.2], [0.0, 0.0]]))
    array([[0.7375, 0.2625],
           [0.5   , 0.5   ]])
    """
    K = shares.shape[1]
    total = shares.sum(axis=1, keepdims=True)
    equal = np.full_like(shares, 1.0 / K)
    return (1 - SHARED_ERRORS) * np.divide(
        shares, total, out=equal, where=total > 0
    ) + SHARED_ERRORS / K
