"""Spectral clustering and spectral embedding of one view, or of all views concatenated."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.metrics import euclidean_distances
from sklearn.utils.extmath import row_norms

from coterie.arrays import Floats, Ints
from coterie.consensus.base import check_size
from coterie.ensembles.input_checks import check_whole
from coterie.errors import InvalidParameterError
from coterie.multiview.view_input import MultiViewMethod
from coterie.relaxation.spectral import spectral_labels

_log = logging.getLogger(__name__)

# Squared distances up to this share of the squared norms, times p, are rounding errors.
_ROUNDING = 1e-14


@dataclass(eq=False, repr=False)
class ConcatenatedSpectral(MultiViewMethod):
    """FC: spectral clustering of the concatenated views.

    With x_i the features of point i in all views together, the affinity is

        W_ij = exp(−‖x_i − x_j‖² / (s_i s_j)),   shape (n, n),

    where s_i is the distance of x_i to its ``n_neighbors``-th neighbour. The scales s_i adapt the
    affinity to dense and sparse regions. The K leading eigenvectors of Δ^−½ W Δ^−½ (Δ the diagonal
    of the row sums) are scaled to rows of length one, and k-means on these rows gives the labels.
    This is a relaxation of the normalised cut.

    Parameters
    ----------
    n_clusters : int, default=None
        Number of clusters, K. It must be given.
    n_neighbors : int, default=7
        The neighbour that sets the scale s_i; at most n − 1.
    standardize : bool, default=False
        Scale columns to mean 0 and variance 1, then divide each view by the root of its number
        of columns, so that all views have the same weight. Sparse views are scaled but not
        shifted.
    max_points : int, default=10_000
        More points are refused, because W has n² entries.
    random_state : int, RandomState or None, default=None
    verbose : bool, default=False
        Show the stages of ``fit`` on the standard error stream.

    Attributes
    ----------
    labels_ : (n,) int
        Numbered by decreasing size.
    n_clusters_ : int
        Smaller than ``n_clusters`` only if there are fewer distinct points, or with a warning.
    view_names_ : list of str

    Notes
    -----
    **Established.** Concatenation with spectral clustering is the usual baseline of multi-view
    articles. The kernel is that of Zelnik-Manor and Perona, with their seventh neighbour. Our
    choices: ones on the diagonal of W instead of zeros, the scaling of the views, and k-means (ten
    starts) instead of their rotations. If ``n_neighbors`` or more points equal a point, its scale
    is the distance to the nearest different point.

    **Limits.** About 30·n² bytes of memory, time O(n²·Σp_v). All views have the same weight, even
    those without structure.

    **When to use.** As a baseline, and if all views are good. For views of unequal quality use
    :class:`~coterie.MultiViewClusterer`.

    References
    ----------
    L. Zelnik-Manor and P. Perona, "Self-tuning spectral clustering", Advances in Neural
    Information Processing Systems 17, 2004.

    Examples
    --------
    >>> from coterie.multiview import ConcatenatedSpectral
    >>> views = [[[0.0], [0.1], [0.2], [7.0], [7.1]], [[1.0], [1.1], [1.3], [9.0], [9.2]]]
    >>> ConcatenatedSpectral(2, n_neighbors=1, random_state=0).fit(views).labels_
    array([0, 0, 0, 1, 1], dtype=int32)
    """

    _: KW_ONLY
    n_neighbors: int = 7
    max_points: int = 10_000

    def _label_points(
        self, views: dict[str, Any], n_clusters: int, rng: np.random.RandomState
    ) -> Ints:
        chosen = self._chosen_views(views)
        n_neighbors = check_whole("n_neighbors", self.n_neighbors)
        n = chosen[0].shape[0]
        check_size(n, self.max_points, "max_points", type(self).__name__)
        _log.info("affinities of %d points", n)
        D2 = squared_distances(chosen)
        # Points that are equal in all views are one weighted point, so they get the same label.
        first = np.argmax(D2 == 0, axis=1)
        distinct, index, counts = np.unique(first, return_inverse=True, return_counts=True)
        _log.info("spectral clustering of %d distinct points", len(distinct))
        W = self_tuning_affinity(D2, n_neighbors)[np.ix_(distinct, distinct)]
        return spectral_labels(W, counts.astype(np.float64), n_clusters, rng)[index]

    def _chosen_views(self, views: dict[str, Any]) -> list[Any]:
        return list(views.values())


@dataclass(eq=False, repr=False)
class SpectralView(ConcatenatedSpectral):
    """Spectral clustering of one view, as in :class:`ConcatenatedSpectral`, to compare views.

    The other views are checked, then ignored.

    Parameters
    ----------
    view : int or str, default=0
        Index or name of the view.
    n_clusters, n_neighbors, standardize, max_points, random_state, verbose
        As in :class:`ConcatenatedSpectral`.

    Attributes
    ----------
    labels_, n_clusters_, view_names_
        As in :class:`ConcatenatedSpectral`.

    Examples
    --------
    >>> from coterie.multiview import SpectralView
    >>> views = {"size": [[0.0], [0.1], [7.0]], "colour": [[1.0], [5.0], [5.1]]}
    >>> SpectralView(2, view="size", n_neighbors=1, random_state=0).fit(views).labels_
    array([0, 0, 1], dtype=int32)
    """

    _: KW_ONLY
    view: int | str = 0

    def _chosen_views(self, views: dict[str, Any]) -> list[Any]:
        wanted: Any = self.view
        if isinstance(wanted, str) and wanted in views:
            return [views[wanted]]
        is_index = isinstance(wanted, Integral) and not isinstance(wanted, bool)
        if is_index and 0 <= int(wanted) < len(views):
            return [list(views.values())[int(wanted)]]
        raise InvalidParameterError(
            f"view={wanted!r}: give a name ({', '.join(views)}) or an index "
            f"from 0 to {len(views) - 1}"
        )


def self_tuning_affinity(D2: Floats, n_neighbors: int) -> Floats:
    """Compute W_ij = exp(−d_ij² / (s_i s_j)) from squared distances d_ij².

    The scale s_i is the distance of i to its ``n_neighbors``-th neighbour, or to the last one if
    there are fewer. If it is zero, s_i is the distance to the nearest different point. D2 (n, n)
    is overwritten by W.
    """
    neighbour = min(n_neighbors, len(D2) - 1)
    scale2 = np.partition(D2, neighbour, axis=1)[:, neighbour].copy()
    for row in np.flatnonzero(scale2 == 0):
        different = D2[row][D2[row] > 0]
        scale2[row] = different.min() if different.size else 1.0
    scale = np.sqrt(scale2)
    D2 /= -scale[:, None]
    D2 /= scale
    return np.exp(D2, out=D2)


def squared_distances(views: Iterable[Any]) -> Floats:
    """Compute d_ij² = Σ_v ‖x_i^v − x_j^v‖² over all views, without concatenating them.

    Distances within rounding errors are set to zero, so that equal rows have distance 0.
    """
    total: Any = 0.0
    for X in views:
        D2 = euclidean_distances(X, squared=True)
        norms = row_norms(X, squared=True)
        D2[D2 <= _ROUNDING * X.shape[1] * np.maximum(norms[:, None], norms)] = 0.0
        total = np.add(total, D2, out=D2)
    return np.asarray(total)
