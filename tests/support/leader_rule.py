"""Clusters of a graph by the leader rule, vertex by vertex."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def leader_clusters(graph: Any, observations: Any) -> np.ndarray:
    """Return labels (A,) from 0 in the order of leaders, −1 for a vertex without neighbours.

    The vertex with the most observations, then with the most neighbours, leads and takes all of its
    neighbours that are left.
    """
    similar = sp.csr_array(graph).toarray() > 0
    degrees = similar.sum(axis=1)
    labels = np.full(len(similar), -1)
    for leader in np.lexsort((-degrees, -np.asarray(observations, dtype=float))):
        if labels[leader] < 0 and degrees[leader] > 0:
            taken = similar[leader] & (labels < 0)
            taken[leader] = True
            labels[taken] = labels.max() + 1
    return labels
