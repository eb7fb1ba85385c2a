"""k-means runs: the label of a row is the index of the nearest centre."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.metrics import pairwise_distances_argmin

from coterie.ensembles.members import Member
from coterie.ensembles.row_blocks import RowBlock
from coterie.ensembles.scalings import Floats, Labels, Scaling
from coterie.runtime.short_reprs import short_repr

__all__ = ["MOST_LLOYD", "CentroidMember", "fit_centroids"]

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
