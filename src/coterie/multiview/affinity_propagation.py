"""Affinity propagation on several views, with a given number of clusters."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.cluster import affinity_propagation
from sklearn.exceptions import ConvergenceWarning

from coterie.arrays import Floats, Ints
from coterie.consensus.base import check_size
from coterie.ensembles.input_checks import check_whole
from coterie.errors import InvalidParameterError
from coterie.labels.encode import renumber_by_size
from coterie.multiview.spectral_views import squared_distances
from coterie.multiview.view_input import MultiViewMethod
from coterie.runtime.messages import warn_user

_log = logging.getLogger(__name__)

# Bounds of the preference, as multiples of the median similarity.
_FACTORS = (0.1, 200.0)
_DAMPINGS = (0.9, 0.95, 0.98)
# Messages decay over 1 / (1 − damping) rounds. A fit has converged after ten times as many rounds
# without change.
_QUIET_DECAYS = 10
_ROUNDING = 1e-12


@dataclass(eq=False, repr=False)
class MultiViewAffinityPropagation(MultiViewMethod):
    """AP: affinity propagation on the summed distances of all views.

    The similarity of two points is S_ij = −Σ_v d_v(i, j)² / mean(d_v²), shape (n, n). Affinity
    propagation chooses an exemplar c_i among the points for each point i, to maximise

        Σ_i S(i, c_i) + Σ over exemplars of the preference.

    K is not a parameter of affinity propagation: a more negative preference gives fewer exemplars.
    The preference is f times the median similarity. Bisection of log f searches for K exemplars.

    Parameters
    ----------
    n_clusters : int, default=None
        The number of exemplars to search for. It must be given; some numbers cannot be reached.
    max_fits : int, default=20
        Largest number of preferences to try.
    max_iter : int, default=1000
        Largest number of rounds of messages per fit.
    max_points : int, default=3_000
        More points are refused, because S has n² entries and each round reads all of them.
    random_state : int, RandomState or None, default=None
        Seed of the noise that breaks ties; it is as small as rounding errors.
    standardize, verbose
        As in :class:`ConcatenatedSpectral`.

    Attributes
    ----------
    labels_, n_clusters_, view_names_
        As in :class:`ConcatenatedSpectral`.
    exemplars_ : (K,) int
        The row of each cluster's exemplar.
    preference_ : float
        The preference of the selected fit; NaN if no search was needed (K = 1 or n).
    loss_ : float
        −Σ_i S(i, c_i).
    history_ : dict
        ``"preference"``, ``"n_clusters"`` and ``"loss"`` of the fits in the order of the search; a
        fit without exemplars has 0 clusters and infinite loss.
    n_iter_ : int
        Rounds of messages of the selected fit.

    Notes
    -----
    **Established.** Affinity propagation is that of Frey and Dueck, in scikit-learn's code. The
    sum over views and the search for K are our choice: f between 0.1 and 200, damping 0.9, and a
    stop after 100 rounds without change (30 were sometimes too few). A fit that does not converge
    is repeated with damping 0.95 and 200 such rounds, then with 0.98 and 500. Exemplars and
    clusters are then improved in turn, as in k-medoids, until each point has its most similar
    exemplar. Equal points are treated as one weighted point. For K = 1 the result is the medoid.

    **Limits.** O(n²) per round, hundreds of rounds per fit, up to 20 fits: minutes at 3,000
    points. If K cannot be reached, the fit with the nearest number is selected, with a warning.

    **When to use.** A few hundred points, if each cluster is to be represented by a member.

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

    _: KW_ONLY
    max_fits: int = 20
    max_iter: int = 1000
    max_points: int = 3_000

    def _label_points(
        self, views: dict[str, Any], n_clusters: int, rng: np.random.RandomState
    ) -> Ints:
        n = next(iter(views.values())).shape[0]
        check_size(n, self.max_points, "max_points", type(self).__name__)
        max_fits = check_whole("max_fits", self.max_fits)
        max_iter = check_whole("max_iter", self.max_iter)
        S = summed_similarity(views.values())
        # Equal points prevent each other from becoming exemplars. One point whose similarities are
        # multiplied by the size of the group gives the same sum.
        distinct, member = np.unique((S == 0).argmax(axis=1), return_inverse=True)
        T = np.bincount(member)[:, None] * S[np.ix_(distinct, distinct)]
        u, seed = len(T), int(rng.randint(2**31 - 1))
        fits: list[_Fit] = []
        if n_clusters == 1 or n_clusters >= u:  # the medoid, or all points
            single = n_clusters == 1 < u
            exemplars = np.array([T.sum(axis=0).argmax()]) if single else np.arange(u)
            z = np.zeros(u, dtype=np.int64) if single else np.arange(u)
            fits = [_Fit(math.nan, exemplars, z, _loss(T, exemplars, z))]
        else:  # bisection of log f, for the preferences f·median(T)
            median = float(np.median(T[~np.eye(u, dtype=np.bool_)]))
            low, high = (math.log(f) for f in _FACTORS)
            while len(fits) < max_fits and not (fits and fits[-1].count == n_clusters):
                _log.info(
                    "affinity propagation: preference %d of at most %d", len(fits) + 1, max_fits
                )
                middle = (low + high) / 2
                fits.append(_propagate(T, median * math.exp(middle), max_iter, seed))
                if fits[-1].count > n_clusters:  # a more negative preference gives fewer exemplars
                    low = middle
                else:
                    high = middle
        # The count nearest to K, the larger one on ties; a single cluster only if all have one.
        best = min(fits, key=lambda fit: (fit.count < 2, abs(fit.count - n_clusters), -fit.count))
        if best.count == 0:
            raise InvalidParameterError(
                f"max_iter={max_iter}: no point became an exemplar in any of {len(fits)} fits; "
                "raise max_iter"
            )
        problem = ""
        if best.count != n_clusters and math.isfinite(best.preference):
            problem = (
                f"none of {len(fits)} preferences gave n_clusters={n_clusters} exemplars, the "
                f"nearest number is {best.count}; raise max_fits, or use another number of clusters"
            )
        elif best.count != n_clusters:
            problem = (
                f"only {best.count} points are distinct, fewer than n_clusters={n_clusters}: "
                f"there are {best.count} clusters"
            )
        elif not best.converged:
            problem = (
                f"the messages did not converge in {best.n_iter} rounds; raise max_iter, or use "
                "another method"
            )
        if problem:
            warn_user(problem, ConvergenceWarning)
        self.preference_, self.loss_, self.n_iter_ = best.preference, best.loss, best.n_iter
        self.history_ = {
            "preference": [fit.preference for fit in fits],
            "n_clusters": [fit.count for fit in fits],
            "loss": [fit.loss for fit in fits],
        }
        labels = best.labels[member]
        # ``fit`` numbers the clusters by size; exemplars_[k] is the exemplar of cluster k.
        exemplars = distinct[best.exemplars]
        self.exemplars_ = np.empty_like(exemplars)
        self.exemplars_[renumber_by_size(labels)[exemplars]] = exemplars
        return labels


def summed_similarity(views: Iterable[Any]) -> Floats:
    """Compute S_ij = −Σ_v d_v(i, j)² / mean(d_v²), the mean over all pairs.

    A constant view adds nothing.
    """
    S: Any = 0.0
    for X in views:
        D2 = squared_distances([X])
        D2 /= D2.mean() or 1.0
        S = np.subtract(S, D2, out=D2)
    return np.asarray(S)


@dataclass(frozen=True)
class _Fit:
    """Exemplars (k,) and labels (n,) of affinity propagation at one preference."""

    preference: float
    exemplars: Ints
    labels: Ints
    loss: float
    n_iter: int = 0
    converged: bool = True

    @property
    def count(self) -> int:
        return len(self.exemplars)


def _propagate(S: Floats, preference: float, max_iter: int, seed: int) -> _Fit:
    """Run affinity propagation at one preference, with more damping if it does not converge."""
    converged = False
    for damping in _DAMPINGS:
        if converged:
            break
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found, z, n_iter = affinity_propagation(
                S,
                preference=preference,
                damping=damping,
                convergence_iter=round(_QUIET_DECAYS / (1.0 - damping)),
                max_iter=max_iter,
                return_n_iter=True,
                random_state=seed,
            )
        converged = not any(issubclass(item.category, ConvergenceWarning) for item in caught)
    exemplars, labels = np.asarray(found, dtype=np.int64), np.asarray(z, dtype=np.int64)
    exemplars, labels = improved_exemplars(S, exemplars, labels)
    loss = _loss(S, exemplars, labels)
    return _Fit(preference, exemplars, labels, loss, int(n_iter), converged)


def improved_exemplars(S: Floats, exemplars: Ints, labels: Ints) -> tuple[Ints, Ints]:
    """Update the exemplar of each cluster and the labels in turn, until the loss stops falling.

    Messages can stop changing before the exemplars are optimal.
    """
    ranks = np.arange(len(exemplars))
    loss = math.inf
    while len(exemplars):
        new_loss = _loss(S, exemplars, labels)
        if new_loss >= loss * (1.0 - _ROUNDING):
            break
        loss = new_loss
        clusters = [np.flatnonzero(labels == k) for k in ranks]
        exemplars = np.array([c[S[np.ix_(c, c)].sum(axis=0).argmax()] for c in clusters])
        labels = S[:, exemplars].argmax(axis=1)
        labels[exemplars] = ranks  # because of rounding, another exemplar can be as similar
    return exemplars, labels


def _loss(S: Floats, exemplars: Ints, labels: Ints) -> float:
    """Return −Σ_i S(i, c_i)."""
    if len(exemplars) == 0:
        return math.inf
    return -float(S[np.arange(len(S)), exemplars[labels]].sum())
