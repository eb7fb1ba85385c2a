"""Runs without a rule for new rows: a new row gets the label of the nearest fitted row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import pairwise_distances_argmin

from coterie.ensembles.members import Member
from coterie.ensembles.row_blocks import RowBlock
from coterie.ensembles.scalings import Labels, Scaling
from coterie.runtime.short_reprs import short_repr

__all__ = ["NearestRowMember", "fit_ward", "renumber"]


@dataclass(frozen=True, kw_only=True, eq=False)
class NearestRowMember(Member):
    """Fitted rows (s, q), in the coordinates of the scaling, and their labels (s,).

    >>> import numpy as np
    >>> rows, labels = np.array([[0.0], [1.0], [5.0]]), np.array([0, 0, 1], dtype=np.int32)
    >>> NearestRowMember(rows=rows, row_labels=labels).predict(np.array([[0.8], [4.0]]))
    array([0, 1], dtype=int32)
    """

    rows: Any
    row_labels: Labels

    __repr__ = short_repr

    def labels_of(self, block: RowBlock) -> Labels:
        """Return the label of the nearest fitted row of each row; −1 if that is noise."""
        Z = self.coordinates(block, self.rows.dtype)
        return self.row_labels[pairwise_distances_argmin(Z, self.rows)]

    def with_clusters(self, kept: npt.NDArray[Any]) -> Self:
        """Return the same run with some of its clusters only."""
        return replace(self, row_labels=renumber(self.row_labels, kept))


def fit_ward(Z: Any, n_clusters: int, scaling: Scaling) -> NearestRowMember:
    """Cluster the rows of Z (n, q) by Ward's linkage, in time and memory O(n²)."""
    dense = Z.toarray() if hasattr(Z, "toarray") else Z
    found = AgglomerativeClustering(n_clusters).fit_predict(dense)
    return NearestRowMember(rows=Z, row_labels=found.astype(np.int32), **vars(scaling))


def renumber(labels: npt.NDArray[Any], clusters: npt.NDArray[np.integer[Any]]) -> Labels:
    """Return the index of each label in ``clusters`` (increasing), or −1 if it is not there.

    >>> renumber(np.array([7, 2, -1, 7]), np.array([2, 7]))
    array([ 1,  0, -1,  1], dtype=int32)
    """
    index = np.searchsorted(clusters, labels).astype(np.int32)
    return np.where(np.isin(labels, clusters), index, np.int32(-1))
