"""MultiViewAffinityPropagation: exemplars chosen by messages, as many of them as asked for."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import affinity_propagation
from sklearn.exceptions import ConvergenceWarning

from coterie.consensus.base import check_size
from coterie.errors import InvalidParameterError
from coterie.labels.numbering import renumber_by_size
from coterie.multiview.spectral_views import squared_distances
from coterie.multiview.view_input import MultiViewMethod, check_whole

__all__ = ["MultiViewAffinityPropagation", "summed_similarity"]

Array = NDArray[np.float64]

_FACTORS = (0.1, 200.0)
_DAMPINGS = (0.9, 0.95, 0.98)
# messages keep 1 / (1 − damping) rounds in mind: ten times that without change is an end
_MEMORIES = 10
_ROUNDING = 1e-12


class MultiViewAffinityPropagation(MultiViewMethod):
    """AP: affinity propagation on the summed distances of all views.

    The similarity of two things is S_ij = −Σ_v d_v(i, j)² / mean(d_v²), shape (n, n). Affinity
    propagation chooses exemplars c_i among the things themselves so that

        Σ_i S(i, c_i) + Σ over exemplars of the preference

    is large. It has no K: the more negative the preference, the fewer exemplars. The preference is
    sought as a multiple f of the median similarity, by bisection of log f, until K exemplars come
    out.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of exemplars sought. It is not always met: ``n_clusters_`` tells.
    max_fits : int, default=20
        Preferences tried at most.
    max_iter : int, default=1000
        Rounds of messages a fit.
    standardize : bool, default=True
        Columns to mean 0 and variance 1 first. Sparse views are scaled without shifting.
    max_points : int, default=3_000
        More are refused: S has n² entries, and each round passes over all of them.
    random_state : int, RandomState or None, default=None
        For the rounding noise by which ties are broken.

    Attributes
    ----------
    labels_ : (n,) int
        Numbered by falling size.
    n_clusters_ : int
    exemplars_ : (K,) int
        The row of each cluster's exemplar.
    preference_ : float
        The preference of the fit that was kept; NaN where none was sought (K = 1 or n).
    view_names_ : list of str
    loss_ : float
        −Σ_i S(i, c_i).
    history_ : dict
        ``"preference"``, ``"n_clusters"`` and ``"loss"`` of the fits, in the order they were
        tried; a fit without exemplars has 0 clusters and infinite loss.
    n_iter_ : int
        Rounds of messages of the fit that was kept.

    Notes
    -----
    **Established.** Affinity propagation is that of Frey and Dueck, in scikit-learn's code. How
    the views are summed and how K is reached are our choice: f between 0.1 and 200, damping 0.9,
    stopped after 100 rounds without change (30 were at times too few); a fit that does not settle
    is tried again with damping 0.95 and 0.98, with 200 and 500 such rounds. Exemplars and clusters
    are then improved in turn, as in k-medoids, until each point is with its most similar exemplar.
    Equal points are one point that counts as many. K = 1 is the medoid of all, found directly.

    **Limits.** O(n²) a round, some hundreds of rounds a fit, up to 20 fits: minutes at 3,000
    points. Not every K can be reached; the nearest count is kept then, with a warning. Five views
    of 210 photographs in seven classes (MSRC-v1): seven exemplars at the sixth preference, accuracy
    0.705.

    **When to use.** A few hundred things, where each cluster should be shown by one of its members.

    References
    ----------
    D. Dueck and B. J. Frey, "Non-metric affinity propagation for unsupervised image
    categorization", IEEE International Conference on Computer Vision, 2007.

    B. J. Frey and D. Dueck, "Clustering by passing messages between data points", Science 315,
    2007.

    Examples
    --------
    >>> from coterie.multiview import MultiViewAffinityPropagation
    >>> views = [[[0.0], [0.1], [0.3], [7.0], [7.2]], [[1.0], [1.1], [1.3], [9.0], [9.5]]]
    >>> est = MultiViewAffinityPropagation(2, random_state=0).fit(views)
    >>> est.labels_, int(est.exemplars_[0])
    (array([0, 0, 0, 1, 1], dtype=int32), 1)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        max_fits: int = 20,
        max_iter: int = 1000,
        standardize: bool = True,
        max_points: int = 3_000,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.max_fits = max_fits
        self.max_iter = max_iter
        self.standardize = standardize
        self.max_points = max_points
        self.random_state = random_state

    def _label_points(
        self, views: dict[str, Any], n_clusters: int, rng: np.random.RandomState
    ) -> NDArray[np.int64]:
        n = next(iter(views.values())).shape[0]
        check_size(n, self.max_points, "max_points", type(self).__name__)
        max_fits = check_whole("max_fits", self.max_fits)
        max_iter = check_whole("max_iter", self.max_iter)
        S = summed_similarity(list(views.values()))
        distinct, member = _distinct_points(S)
        T = np.bincount(member)[:, None] * S[np.ix_(distinct, distinct)]
        fits = _fits(T, n_clusters, max_fits, max_iter, int(rng.randint(2**31 - 1)))
        # a tie between too few and too many goes to the more telling answer
        best = min(fits, key=lambda fit: (fit.count < 2, abs(fit.count - n_clusters), -fit.count))
        if best.count == 0:
            raise InvalidParameterError(
                f"max_iter={max_iter}: in none of {len(fits)} fits had a point become an exemplar "
                "by then; raise max_iter"
            )
        self._keep(best, fits, T)
        _warn(best, n_clusters, len(fits))
        labels = best.labels[member]
        self.exemplars_ = _by_cluster_size(distinct[best.exemplars], labels)
        return labels

    def _keep(self, best: _Fit, fits: list[_Fit], S: Array) -> None:
        self.preference_ = best.preference
        self.loss_ = best.loss(S)
        self.n_iter_ = best.n_iter
        self.history_ = {
            "preference": [fit.preference for fit in fits],
            "n_clusters": [fit.count for fit in fits],
            "loss": [fit.loss(S) for fit in fits],
        }


def summed_similarity(views: Sequence[Any]) -> Array:
    """S_ij = −Σ_v d_v(i, j)² / mean(d_v²), the mean over all pairs; a constant view adds nothing.

    Parameters
    ----------
    views : arrays (n, p_v) or CSR matrices

    Returns
    -------
    S : (n, n) array, not positive, zero on the diagonal

    Examples
    --------
    >>> summed_similarity([np.array([[0.0], [3.0]]), np.ones((2, 1))])
    array([[ 0., -2.],
           [-2.,  0.]])
    """
    n = views[0].shape[0]
    S = np.zeros((n, n))
    for X in views:
        D2 = squared_distances([X])
        mean = D2.mean()
        if mean > 0:
            D2 /= mean
            S -= D2
    return S


@dataclass(frozen=True)
class _Fit:
    """One run of affinity propagation: exemplars (k,), labels (n,) with −1 where there are none."""

    preference: float
    exemplars: NDArray[np.int64]
    labels: NDArray[np.int64]
    n_iter: int
    settled: bool

    @property
    def count(self) -> int:
        return len(self.exemplars)

    def loss(self, S: Array) -> float:
        """−Σ_i S(i, c_i)."""
        if self.count == 0:
            return math.inf
        return -float(S[np.arange(len(S)), self.exemplars[self.labels]].sum())


def _distinct_points(S: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first of each group of equal points, (u,), and which of them each point is, (n,).

    Equal points hinder each other from becoming exemplars. One with its similarities multiplied
    by their number stands for all: the sum that is maximised is the same.
    """
    first = (S == 0).argmax(axis=1)
    return np.unique(first, return_inverse=True)


def _fits(S: Array, n_clusters: int, max_fits: int, max_iter: int, seed: int) -> list[_Fit]:
    """The fits tried; a single one where there is nothing to search."""
    u = len(S)
    if n_clusters == 1 < u:
        medoid = np.array([S.sum(axis=0).argmax()], dtype=np.int64)
        return [_Fit(math.nan, medoid, np.zeros(u, dtype=np.int64), 0, settled=True)]
    if n_clusters >= u:
        return [_Fit(math.nan, np.arange(u), np.arange(u), 0, settled=True)]
    return _search(S, n_clusters, max_fits, max_iter, seed)


def _search(S: Array, n_clusters: int, max_fits: int, max_iter: int, seed: int) -> list[_Fit]:
    """Fits at preferences f·median(S), log f by bisection, up to the first with K exemplars."""
    usual = float(np.median(S[~np.eye(len(S), dtype=np.bool_)]))
    low, high = (math.log(f) for f in _FACTORS)
    fits: list[_Fit] = []
    while len(fits) < max_fits:
        middle = (low + high) / 2
        fits.append(_propagate(S, usual * math.exp(middle), max_iter, seed))
        if fits[-1].count == n_clusters:
            break
        if fits[-1].count > n_clusters:  # a more negative preference leaves fewer
            low = middle
        else:
            high = middle
    return fits


def _propagate(S: Array, preference: float, max_iter: int, seed: int) -> _Fit:
    """Affinity propagation at one preference, damped more if it does not settle."""
    for damping in _DAMPINGS:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            exemplars, labels, n_iter = affinity_propagation(
                S,
                preference=preference,
                damping=damping,
                convergence_iter=round(_MEMORIES / (1.0 - damping)),
                max_iter=max_iter,
                return_n_iter=True,
                random_state=seed,
            )
        settled = not any(issubclass(word.category, ConvergenceWarning) for word in said)
        if settled:
            break
    places, z = _polished(S, np.asarray(exemplars, dtype=np.int64), np.asarray(labels, np.int64))
    return _Fit(preference, places, z, int(n_iter), settled)


def _polished(
    S: Array, exemplars: NDArray[np.int64], labels: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Exemplars most similar to their clusters and points with their most similar exemplars.

    Messages may stand still for a while before they are done, and then this is not so. Each step
    lowers the loss, so there is an end.
    """
    ranks = np.arange(len(exemplars))
    loss = math.inf
    while len(exemplars):
        now = -float(S[np.arange(len(S)), exemplars[labels]].sum())
        if now >= loss * (1.0 - _ROUNDING):
            break
        loss = now
        members = [np.flatnonzero(labels == k) for k in ranks]
        exemplars = np.array([own[S[np.ix_(own, own)].sum(axis=0).argmax()] for own in members])
        labels = S[:, exemplars].argmax(axis=1)
        labels[exemplars] = ranks  # points too near to tell apart may both be exemplars
    return exemplars, labels


def _by_cluster_size(exemplars: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Exemplars in the order in which the clusters are numbered."""
    ordered = np.empty_like(exemplars)
    ordered[renumber_by_size(labels)[exemplars]] = exemplars
    return ordered


def _warn(best: _Fit, n_clusters: int, n_fits: int) -> None:
    if best.count != n_clusters:
        problem = (
            f"none of {n_fits} preferences gave n_clusters={n_clusters} exemplars, the nearest "
            f"count is {best.count}; raise max_fits, or take another number of clusters"
            if math.isfinite(best.preference)
            else f"only {best.count} points differ, fewer than n_clusters={n_clusters}: that many "
            "clusters come out"
        )
    elif not best.settled:
        problem = (
            f"the messages had not settled in {best.n_iter} rounds; raise max_iter, or take "
            "another method"
        )
    else:
        return
    warnings.warn(problem, ConvergenceWarning, stacklevel=4)
