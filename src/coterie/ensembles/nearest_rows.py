"""Runs in which a row has the label of the nearest centre (k-means) or fitted row (Ward)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.cluster import AgglomerativeClustering, KMeans, MiniBatchKMeans
from sklearn.metrics import pairwise_distances_argmin

from coterie.ensembles.members import Member, RowBlock
from coterie.ensembles.scalings import Floats, Labels, Scaling
from coterie.runtime.wording import short_repr

__all__ = [
    "MOST_LLOYD",
    "CentroidMember",
    "NearestRowMember",
    "fit_centroids",
    "fit_ward",
    "renumber",
]

#: Up to this number of rows all of them are used in every step, above it batches of rows.
MOST_LLOYD = 50_000
_BATCH_ROWS = 4_096


@dataclass(frozen=True, kw_only=True, eq=False)
class CentroidMember(Member):
    """A fitted k-means run: the label of x is the index of the nearest row of ``centres``.

    ``centres`` (K_v, q) are in the coordinates of the scaling; each is nearest to some fitted row.

    >>> import numpy as np
    >>> member = CentroidMember(centres=np.array([[0.0], [4.0]]))
    >>> member.predict(np.array([[1.0], [3.0]]))
    array([0, 1], dtype=int32)
    """

    centres: Floats

    __repr__ = short_repr

    def labels_of(self, block: RowBlock) -> Labels:
        """Return the index of the nearest centre of each row."""
        Z = self.coordinates(block, self.centres.dtype)
        return pairwise_distances_argmin(Z, self.centres).astype(np.int32)

    def with_clusters(self, kept: npt.NDArray[Any]) -> Self:
        """Return the same run with some of its clusters only."""
        return replace(self, centres=self.centres[kept])


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


def fit_centroids(
    Z: Any, n_clusters: int, seed: int, scaling: Scaling, sample_weight: Any = None
) -> CentroidMember:
    """Run k-means once, from random rows of Z (n, q), and return its centres.

    Up to 50,000 rows it is Lloyd's, above it mini-batch k-means. Z is overwritten.
    """
    settings = {"n_clusters": n_clusters, "init": "random", "n_init": 1, "random_state": seed}
    if Z.shape[0] <= MOST_LLOYD:
        model = KMeans(algorithm="lloyd", copy_x=False, **settings)
    else:
        model = MiniBatchKMeans(batch_size=_BATCH_ROWS, **settings)
    model.fit(Z, sample_weight=sample_weight)
    return CentroidMember(centres=model.cluster_centers_, **vars(scaling))


def fit_ward(Z: Any, n_clusters: int, scaling: Scaling) -> NearestRowMember:
    """Cluster the rows of Z (n, q) by Ward's linkage, in time and memory O(n²)."""
    dense = Z.toarray() if hasattr(Z, "toarray") else Z
    labels = AgglomerativeClustering(n_clusters).fit_predict(dense)
    return NearestRowMember(rows=Z, row_labels=labels.astype(np.int32), **vars(scaling))


def renumber(labels: npt.NDArray[Any], clusters: npt.NDArray[np.integer[Any]]) -> Labels:
    """Return the index of each label in ``clusters`` (increasing), or −1 if it is not there.

    >>> renumber(np.array([7, 2, -1, 7]), np.array([2, 7]))
    array([ 1,  0, -1,  1], dtype=int32)
    """
    index = np.searchsorted(clusters, labels).astype(np.int32)
    return np.where(np.isin(labels, clusters), index, np.int32(-1))
