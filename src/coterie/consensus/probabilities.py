"""Probabilities of clusters from shares of votes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.counts.cluster_tables import ClusterTables

__all__ = ["cluster_probabilities", "label_probabilities"]

Array = NDArray[np.float64]

#: Probability of errors that all partitions share. Chosen so that the probability of the label is
#: calibrated over datasets with known classes.
SHARED_ERRORS = 0.05
_CELLS_A_BLOCK = 1 << 22  # of the shares of votes that are in memory together


def cluster_probabilities(shares: Array, labels: NDArray[Any]) -> Array:
    """Return the probabilities of clusters from shares of votes (n, K), see ``predict_proba``.

    The largest probability of a row is that of its label; the label −1 is none.

    >>> cluster_probabilities(np.array([[0.6, 0.2], [0.0, 0.0]]), np.array([0, -1]))
    array([[0.7375, 0.2625],
           [0.5   , 0.5   ]])
    """
    K = shares.shape[1]
    total = shares.sum(axis=1, keepdims=True)
    equal = np.full_like(shares, 1.0 / K)
    probabilities = np.divide(shares, total, out=equal, where=total > 0)
    probabilities *= 1 - SHARED_ERRORS
    probabilities += SHARED_ERRORS / K
    outvoted = np.flatnonzero((labels >= 0) & (probabilities.argmax(axis=1) != labels))
    probabilities[outvoted] = _level(probabilities[outvoted], labels[outvoted])
    return probabilities


def label_probabilities(
    tables: ClusterTables, codes: NDArray[Any], memberships: Array | None, labels: NDArray[Any]
) -> Array:
    """Return the probability of the label of each row, (n,); 0 for the label −1."""
    probabilities = np.zeros(len(labels))
    step = max(_CELLS_A_BLOCK // max(len(tables.size), codes.shape[1]), 1)
    for start in range(0, len(labels), step):
        rows = slice(start, start + step)
        soft = None if memberships is None else memberships[rows]
        each = cluster_probabilities(tables.vote_shares(codes[rows], soft), labels[rows])
        own = each[np.arange(len(each)), np.maximum(labels[rows], 0)]
        probabilities[rows] = np.where(labels[rows] >= 0, own, 0.0)
    return probabilities


def _level(probabilities: Array, labels: NDArray[Any]) -> Array:
    """Return the nearest probabilities, by squares, in which no cluster is above the label's.

    The label and the clusters above it get their common mean.
    """
    rows = np.arange(len(labels))
    falling = -np.sort(-probabilities, axis=1)
    n_levelled = np.arange(2, falling.shape[1] + 2)
    # the mean of the label and the j largest rises with j as long as they are above it, and falls
    # from the label itself on
    means = (probabilities[rows, labels][:, None] + np.cumsum(falling, axis=1)) / n_levelled
    level = means[:, :-1].max(axis=1, initial=0.0)
    levelled = np.minimum(probabilities, level[:, None])
    # above the others by rounding, so that argmax finds it
    levelled[rows, labels] = np.nextafter(level, 1.0)
    return levelled
