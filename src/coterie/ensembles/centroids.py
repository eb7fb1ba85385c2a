"""k-means runs: the label of a row is the index of the nearest centre."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin

from coterie.ensembles.scalings import Floats, Labels, Scaling
from coterie.runtime.short_reprs import short_repr

__all__ = ["CentroidMember", "fit_centroids"]


@dataclass(frozen=True, kw_only=True, eq=False)
class CentroidMember(Scaling):
    """A fitted k-means run: the label of x is the index of the nearest row of ``centres``.

    ``centres`` (K_v, q) are in the coordinates of the scaling; each is nearest to some fitted row.

    >>> import numpy as np
    >>> member = CentroidMember(centres=np.array([[0.0], [4.0]]))
    >>> member.predict(np.array([[1.0], [3.0]]))
    array([0, 1], dtype=int32)
    """

    centres: Floats

    __repr__ = short_repr

    def predict(self, X: Any) -> Labels:
        """Return labels of the rows of ``X``, from 0 to K_v − 1."""
        Z = self.coordinates(X, self.centres.dtype)
        return pairwise_distances_argmin(Z, self.centres).astype(np.int32)

    def with_clusters(self, kept: npt.NDArray[Any]) -> Self:
        """Return the same run with some of its clusters only."""
        return replace(self, centres=self.centres[kept])


def fit_centroids(
    Z: Any, n_clusters: int, seed: int, scaling: Scaling, sample_weight: Any = None
) -> CentroidMember:
    """Run Lloyd's k-means once, from random rows of Z (n, q), and return its centres.

    Z is overwritten.
    """
    model = KMeans(
        n_clusters=n_clusters,
        init="random",
        n_init=1,
        algorithm="lloyd",
        copy_x=False,
        random_state=seed,
    ).fit(Z, sample_weight=sample_weight)
    return CentroidMember(centres=model.cluster_centers_, **vars(scaling))
