"""A second look at a view: where its points lie in the graph of who is close to whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances_argmin

from coterie.multiview.spectral_views import self_tuning_affinity, squared_distances
from coterie.relaxation.spectral_embedding import normalized_cut_rows

__all__ = ["SpectralLook", "spectral_look"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SpectralLook:
    """The spectral embedding of the rows of a view; a new row is seen where its nearest one is.

    Attributes
    ----------
    rows : (n, p) array or CSR matrix
        What it was made from.
    embedding : (n, k) array
        Rows of length one; those of equal rows are equal.
    """

    rows: Any
    embedding: Array

    def see(self, X: Any) -> Array:
        """Embedding of the rows of ``X``."""
        return self.embedding[pairwise_distances_argmin(X, self.rows)]


def spectral_look(X: Any, n_components: int, random_state: Any = None) -> SpectralLook:
    """Embed the rows of a view by the leading eigenvectors of its normalised self-tuning affinity.

    Parameters
    ----------
    X : (n, p) array or CSR matrix
    n_components : int
        At most n are taken.
    random_state : int, RandomState or None
        For the start of the eigensolver.

    Examples
    --------
    >>> look = spectral_look(np.array([[0.0], [0.1], [9.0], [9.1]]), 2, random_state=0)
    >>> bool(look.see(np.array([[0.05]]))[0] @ look.embedding[3] < 0.1)
    True
    """
    n = X.shape[0]
    affinity = self_tuning_affinity(squared_distances([X]))
    embedding = normalized_cut_rows(affinity, np.ones(n), min(n_components, n), random_state)
    return SpectralLook(X, embedding[pairwise_distances_argmin(X, X)])
