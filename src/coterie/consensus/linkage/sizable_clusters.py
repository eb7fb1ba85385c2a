"""Linkage into K clusters that are not just stray points.

Average linkage joins stray points last, so a cut into K clusters may consist of a few of them and
one cluster of all other points. Here small clusters do not count, and their points join others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.consensus.linkage.evidence_accumulation import cut_into, weighted_linkage

__all__ = ["sizable_clusters", "sizable_cut"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

#: A cluster counts if it has at least this share of the mean size n/K.
LEAST_SHARE = 0.05
# Cuts into up to 12 K + 40 clusters are tried.
_CUTS_PER_CLUSTER, _MORE_CUTS = 12, 40


def sizable_clusters(similarity: Array, weights: Array, n_clusters: int) -> Labels:
    """Cluster points by average linkage on 1 − S into K clusters of at least n/(20 K) points.

    The tree is cut into as few clusters as possible so that K of them are large enough. Then every
    point joins the large cluster with which its mean similarity is largest. This also corrects
    points that linkage joined early. If no cut has K large clusters, the plain cut is returned.

    Parameters
    ----------
    similarity : (u, u)
        S of u distinct points.
    weights : (u,)
        Their multiplicities.
    n_clusters : int
        K ≤ u.

    Examples
    --------
    >>> S = np.kron(np.eye(2), np.full((30, 30), 0.9)) + 0.05
    >>> S[59, :] = S[:, 59] = 0.0  # a stray point
    >>> np.bincount(sizable_clusters(S, np.ones(60), 2))
    array([31, 29])
    """
    return sizable_cut(weighted_linkage(1.0 - similarity, weights), similarity, weights, n_clusters)


def sizable_cut(tree: Array, similarity: Array, weights: Array, n_clusters: int) -> Labels:
    """Cut the tree of average linkage as :func:`sizable_clusters` does."""
    labels = _first_cut(tree, weights, n_clusters)
    if labels is None:
        return cut_into(tree, n_clusters)
    sizes = np.bincount(labels, weights)
    large = np.flatnonzero(sizes >= LEAST_SHARE * weights.sum() / n_clusters)
    members = (labels[:, None] == large) * weights[:, None]
    nearest = (similarity @ members / sizes[large]).argmax(axis=1)
    if len(np.unique(nearest)) == len(large):
        return nearest
    return np.where(np.isin(labels, large), np.searchsorted(large, labels), nearest)


def _first_cut(tree: Array, weights: Array, K: int) -> Labels | None:
    """Return the labels of the cut with the fewest clusters of which K are large, or None."""
    least = LEAST_SHARE * weights.sum() / K
    most = min(len(weights), _CUTS_PER_CLUSTER * K + _MORE_CUTS)
    for k in range(K, most + 1):
        labels = cut_into(tree, k)
        if (np.bincount(labels, weights) >= least).sum() >= K:
            return labels
    return None
