"""Cluster consensus and item consensus: how firmly the partitions hold clusters together.

Monti et al. (2003) define both as means of the co-association M: over the pairs of points in a
cluster, and over the pairs of one point with the points of a cluster.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.consensus.diagnostics import fitted_consensus
from coterie.counts.cluster_tables import ClusterTables

__all__ = ["cluster_consensus", "fitted_rows", "item_consensus"]

Array = NDArray[np.float64]

# sums of fractional weights and memberships are rounded: smaller shares of the pairs count as none
_NO_PAIRS = 1e-9


def cluster_consensus(estimator: Any) -> Array:
    """Compute the mean co-association of the pairs of points in each cluster.

    For cluster b of n_b points,

        m(b) = Σ_{i < j in b} M_ij / (n_b (n_b − 1) / 2).

    It is 1 if all partitions put all points of b together. If labels are missing, the mean is over
    the votes of all partitions that label both points. It takes time O(u·V + m·K) for u distinct
    tuples and m base clusters.

    Parameters
    ----------
    estimator : fitted consensus function, or fitted clusterer that holds one

    Returns
    -------
    (K,) array
        In the order of the labels; nan for a cluster of a single point.

    Examples
    --------
    >>> from coterie import EvidenceAccumulation
    >>> P = [[0, 0], [0, 0], [0, 1], [1, 2], [1, 2]]
    >>> cluster_consensus(EvidenceAccumulation(2).fit(P)).round(2)
    array([0.67, 1.  ])
    """
    consensus = fitted_consensus(estimator)
    tuples, labels = consensus._tuples, consensus._tuple_labels
    tables = _tables_of(consensus)
    together, pairs = (matrix.diagonal() for matrix in tables.cluster_affinity())
    share = tables.alpha / tables.alpha.sum()
    # the sums over pairs include every point with itself
    own = tuples.weights * (tuples.squares @ share), tuples.weights * (tuples.mass**2 @ share)
    own_together, own_pairs = (np.bincount(labels, values, len(pairs)) for values in own)
    return _mean(together - own_together, pairs - own_pairs, pairs)


def item_consensus(estimator: Any) -> Array:
    """Compute the mean co-association of each point with the points of each cluster.

    For point i and cluster b,

        m_i(b) = Σ_{j in b, j ≠ i} M_ij / |{j in b, j ≠ i}|.

    A point that the partitions put into one cluster has a value near 1 for it, and values near 0
    for the others. If labels are missing, the mean is over the votes of all partitions that label
    both points. It takes time O(u·V·K) for u distinct tuples.

    Parameters
    ----------
    estimator : fitted consensus function, or fitted clusterer that holds one

    Returns
    -------
    (n, K) array
        Columns are in the order of the labels. nan if a point is alone in its cluster, for points
        without a label, and for points of weight 0.

    Examples
    --------
    >>> from coterie import EvidenceAccumulation
    >>> P = [[0, 0], [0, 0], [0, 1], [1, 1], [1, 1]]
    >>> item_consensus(EvidenceAccumulation(2).fit(P))[2]
    array([0.5, 0.5])
    """
    consensus = fitted_consensus(estimator)
    tuples, labels = consensus._tuples, consensus._tuple_labels
    tables = _tables_of(consensus)
    alpha, every = tables.alpha, np.arange(tuples.n_tuples)
    together = tuples.indicator(alpha) @ tables.table
    all_pairs = (tuples.mass * alpha) @ tables.present
    pairs = all_pairs.copy()
    together[every, labels] -= tuples.squares @ alpha
    pairs[every, labels] -= tuples.mass**2 @ alpha
    means = np.full((len(consensus.labels_), tables.n_clusters), np.nan)
    means[fitted_rows(consensus)] = tuples.expand(_mean(together, pairs, all_pairs))
    return means


def fitted_rows(consensus: Any) -> NDArray[np.int64]:
    """Return the rows of the input that the tuples of a fitted consensus function hold.

    Rows without any label and rows of weight 0 are not among them.
    """
    rows = consensus._fitted_rows
    return np.arange(len(consensus._tuples.inverse)) if rows is None else rows


def _tables_of(consensus: Any) -> ClusterTables:
    """Count the tables of the fitted tuples.

    The stored tables can hold more rows: those of a table that was streamed from an engine.
    """
    alpha = consensus._tables.alpha
    return ClusterTables.of(consensus._tuples, consensus._tuple_labels, alpha)


def _mean(total: Array, number: Array, scale: Array) -> Array:
    """Return total / number, or nan if the number is 0 but for rounding."""
    known = number > _NO_PAIRS * scale
    return np.divide(total, number, out=np.full_like(number, np.nan), where=known)
