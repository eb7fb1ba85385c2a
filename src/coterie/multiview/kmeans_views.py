"""Robust k-means on several views, with shared labels and learned view weights."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import row_norms
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import check_is_fitted

from coterie.arrays import AnyArray, Bools, Floats, Ints
from coterie.ensembles.input_checks import check_number, check_whole
from coterie.labels.encode import renumber_by_size
from coterie.multiview.view_input import (
    MultiViewMethod,
    check_same_views,
    named_views,
    scaled_views,
)
from coterie.runtime.devices import on_one_thread
from coterie.runtime.messages import ignore_duplicate_points_warning, warn_user

_log = logging.getLogger(__name__)

# A point is on a centre if their distance is at most this share of the spread of the view.
_ON_CENTRE = 1e-7
_LARGEST_GAMMA = 100.0


@dataclass(eq=False, repr=False)
class MultiViewKMeans(MultiViewMethod):
    """MVKmean (RMKMC): robust k-means on all views, with learned view weights.

    The labels z (n,) are shared by all views; view v has centres f_k^v (p_v,):

        min over z, f, a   Σ_v a_v^γ Σ_i ‖x_i^v − f^v_{z_i}‖₂,   a ≥ 0, Σ_v a_v = 1

    Distances are not squared, which limits the influence of outliers. Centres, labels and
    weights are updated in turn; the loss never rises.

    Parameters
    ----------
    gamma : float in (1, 100], default=2.0
        γ. Near 1 the view with the lowest loss gets all the weight; large γ gives equal weights.
    n_init : int, default=10
        Number of starts, from k-means on the concatenated views; the lowest loss is selected.
    max_iter : int, default=200
    tol : float, default=1e-7
        Stop if a round reduces the loss by at most this share of it.
    n_clusters, standardize, random_state, verbose
        As in :class:`ConcatenatedSpectral`.

    Attributes
    ----------
    labels_, n_clusters_, view_names_
        As in :class:`ConcatenatedSpectral`.
    view_weights_ : dict of str to float
        a_v; their sum is 1.
    cluster_centers_ : dict of str to (K, p_v) array
        f^v, in the units of the given views.
    loss_ : float
    history_ : dict
        ``"loss"`` after each round of the best start.
    n_iter_ : int
        Rounds of the best start.

    Notes
    -----
    **Established.** Problem and updates follow two independent implementations of the method of
    Cai, Nie and Huang, which agree; the article itself was not available. Our choices: labels
    minimise the loss instead of its quadratic bound; a centre on a data point moves by the rule of
    Vardi and Zhang; a constant view has weight 0; ten starts; γ = 2.

    **Limits.** Time O(nK·Σp_v) per round, memory linear in the views. Results vary more with the
    start than with γ. A view with few distinct rows gets a large weight, even if it is not
    informative.

    **When to use.** Many points, round clusters, and views of different quality; ``predict``
    labels new points.

    References
    ----------
    X. Cai, F. Nie and H. Huang, "Multi-view K-means clustering on big data", International Joint
    Conference on Artificial Intelligence, 2013.

    Y. Vardi and C.-H. Zhang, "The multivariate L1-median and associated data depth", Proceedings
    of the National Academy of Sciences 97, 2000.

    Examples
    --------
    >>> from coterie.multiview import MultiViewKMeans
    >>> views = {"size": [[0.0], [0.1], [0.2], [7.0]], "noise": [[1.0], [5.0], [2.0], [4.0]]}
    >>> est = MultiViewKMeans(2, random_state=0).fit(views)
    >>> est.labels_, est.view_weights_["size"] > est.view_weights_["noise"]
    (array([0, 0, 0, 1], dtype=int32), True)
    """

    _: KW_ONLY
    gamma: float = 2.0
    n_init: int = 10
    max_iter: int = 200
    tol: float = 1e-7

    def predict(self, X: Any) -> NDArray[np.int32]:
        """Label new points in the same views: argmin over k of Σ_v a_v^γ ‖x^v − f_k^v‖.

        Parameters
        ----------
        X : mapping of str to (n, p_v) array, or sequence of arrays
            The same views as in ``fit``, in the same order or with the same names.
        """
        check_is_fitted(self)
        named = named_views(X)
        n_columns = {name: centres.shape[1] for name, centres in self._centres.items()}
        check_same_views(named, self.view_names_, n_columns)
        tables = [_Table(view) for view in scaled_views(named, self._scalings).values()]
        return _nearest(tables, list(self._centres.values()), self._factors).astype(np.int32)

    @property
    def cluster_centers_(self) -> dict[str, Floats]:
        """Centres of every view, in the units of the given views."""
        given = dict(self._centres)
        for name, scaling in self._scalings.items():
            if scaling.scale is not None:
                given[name] = given[name] * np.where(np.isfinite(scaling.scale), scaling.scale, 0.0)
            if scaling.shift is not None:
                given[name] = given[name] + scaling.shift
        return given

    def _label_points(
        self, views: dict[str, Any], n_clusters: int, rng: np.random.RandomState
    ) -> Ints:
        gamma = check_number("gamma", self.gamma, above=1.0, most=_LARGEST_GAMMA)
        tol = check_number("tol", self.tol, above=0.0, or_equal=True)
        max_iter = check_whole("max_iter", self.max_iter)
        n_init = check_whole("n_init", self.n_init)
        X = list(views.values())
        tables = [_Table(x) for x in X]
        joined = sp.hstack(X, format="csr") if any(map(sp.issparse, X)) else np.hstack(X)
        with on_one_thread(joined.shape[0]), ignore_duplicate_points_warning():
            starts = [
                KMeans(n_clusters, n_init=1, random_state=rng).fit(joined).labels_
                for _ in range(n_init)
            ]
            fits = [_descend(tables, z, n_clusters, gamma, max_iter, tol, rng) for z in starts]
            best = min(fits, key=lambda fit: fit.history[-1])
            # Number the clusters by size, so that ``predict`` gives fitted points the same labels.
            # Ties go to the first centre, so sorting the centres can move points and change the
            # sizes. Therefore sorting is repeated. Centres without points are dropped.
            centres, factors = best.centres, _factors(best.weights, gamma)
            for _ in range(n_clusters + 1):
                labels = _nearest(tables, centres, factors)
                ranks, first = np.unique(renumber_by_size(labels), return_index=True)
                order = labels[first]
                if len(ranks) == len(centres[0]) and (order == ranks).all():
                    break
                centres = [F[order] for F in centres]
            labels = _nearest(tables, centres, factors)
        if not best.converged:
            warn_user(
                f"stopped after max_iter={self.max_iter} rounds before the loss converged to "
                f"tol={self.tol}; raise max_iter or tol",
                ConvergenceWarning,
            )
        if len(centres[0]) < n_clusters:
            warn_user(
                f"only {len(centres[0])} of n_clusters={n_clusters} clusters have points, because "
                "too many points are equal or nearly equal; reduce n_clusters",
                ConvergenceWarning,
            )
        self._centres, self._factors = dict(zip(views, centres, strict=True)), factors
        self.view_weights_ = dict(zip(views, best.weights.tolist(), strict=True))
        self.history_ = {"loss": best.history}
        self.n_iter_ = len(best.history)
        self.loss_ = float(best.weights**gamma @ _view_losses(tables, centres, labels))
        return labels


class _Table:
    """One view: rows X (n, p), dense or CSR, their squared norms (n,), and its spread.

    The spread is the square root of the total variance, or 0 if all rows are equal up to rounding.
    """

    def __init__(self, X: Any) -> None:
        self.rows, self.squares = X, row_norms(X, squared=True)
        if sp.issparse(X):
            mean, variance = mean_variance_axis(X, axis=0)
        else:
            mean, variance = X.mean(axis=0), X.var(axis=0)
        spread = float(np.sqrt(variance.sum()))
        self.spread = 0.0 if spread <= _ON_CENTRE * float(np.linalg.norm(mean)) else spread

    def distances(self, centres: Floats) -> Floats:
        """Return ‖x_i − f_k‖, shape (n, K)."""
        squares = -2.0 * (self.rows @ centres.T)
        squares += self.squares[:, None]
        squares += row_norms(centres, squared=True)
        return np.sqrt(np.maximum(squares, 0.0, out=squares), out=squares)

    def residuals(self, centres: Floats, labels: Ints) -> Floats:
        """Return r_i = ‖x_i − f_{z_i}‖, shape (n,), without cancellation if the view is dense."""
        if not sp.issparse(self.rows):
            return np.linalg.norm(self.rows - centres[labels], axis=1)
        return self.distances(centres)[np.arange(len(labels)), labels]

    def means(self, labels: AnyArray, n_clusters: int, weights: Floats | None = None) -> Floats:
        """Return the weighted cluster means (K, p); zero for clusters without weight."""
        n = len(labels)
        w = np.ones(n) if weights is None else weights
        total = sp.csc_array((w, labels, np.arange(n + 1)), (n_clusters, n)) @ self.rows
        dense = total.toarray() if sp.issparse(total) else total
        mass = np.bincount(labels, weights=w, minlength=n_clusters)
        return dense / np.where(mass > 0, mass, 1.0)[:, None]


@dataclass(frozen=True)
class _Fit:
    """Result of one start: centres (V of (K, p_v)), view weights (V,), losses of the rounds."""

    centres: list[Floats]
    weights: Floats
    history: list[float]
    converged: bool


def _descend(
    tables: Sequence[_Table],
    labels: AnyArray,
    n_clusters: int,
    gamma: float,
    max_iter: int,
    tol: float,
    rng: np.random.RandomState,
) -> _Fit:
    """Update centres, labels and view weights in turn until the loss stops falling."""
    _log.info("k-means of %d views from one start", len(tables))
    varies = np.array([table.spread > 0 for table in tables])
    weights = _view_weights(np.ones(len(tables)), varies, gamma)
    centres = [table.means(labels, n_clusters) for table in tables]
    history: list[float] = []
    for _ in range(max_iter):
        if history:  # the first centres are the means
            centres = [
                _moved_centres(table, F, labels) for table, F in zip(tables, centres, strict=True)
            ]
        labels = _nearest(tables, centres, _factors(weights, gamma))
        _fill_empty_clusters(tables, centres, labels, rng)
        h = _view_losses(tables, centres, labels)
        weights = _view_weights(h, varies, gamma)
        history.append(float(weights**gamma @ h))
        if len(history) > 1 and history[-2] - history[-1] <= tol * history[-2]:
            return _Fit(centres, weights, history, converged=True)
    return _Fit(centres, weights, history, converged=False)


def _moved_centres(table: _Table, centres: Floats, labels: Ints) -> Floats:
    """Move each centre f one step towards the geometric median of its cluster.

    With r_i = ‖x_i − f‖, Weiszfeld's step goes to the mean with weights 1/r_i. This weight is not
    defined for points on the centre. By the rule of Vardi and Zhang, η such points shorten the
    step by the share η / ‖Σ (x_i − f)/r_i‖. The sum of the r_i never rises.
    """
    K = len(centres)
    r = table.residuals(centres, labels)
    on_centre = r <= _ON_CENTRE * table.spread
    inverse = np.where(on_centre, 0.0, 1.0 / np.where(on_centre, 1.0, r))
    step = table.means(labels, K, inverse) - centres
    mass = np.bincount(labels, weights=inverse, minlength=K)
    n_on_centre = np.bincount(labels[on_centre], minlength=K)
    pull = mass * np.linalg.norm(step, axis=1)
    share = np.where(pull > n_on_centre, 1.0 - n_on_centre / np.where(pull > 0, pull, 1.0), 0.0)
    return centres + share[:, None] * step


def _nearest(tables: Sequence[_Table], centres: Sequence[Floats], factors: Floats) -> Ints:
    """Return argmin over k of Σ_v c_v ‖x_i^v − f_k^v‖, with c the factors; the first on ties."""
    total = np.zeros((len(tables[0].squares), len(centres[0])))
    for table, F, factor in zip(tables, centres, factors, strict=True):
        if factor > 0:
            total += factor * table.distances(F)
    return total.argmin(axis=1)


def _factors(weights: Floats, gamma: float) -> Floats:
    """Return a_v^γ, scaled so that the largest is 1."""
    return (weights / weights.max()) ** gamma


def _view_losses(tables: Sequence[_Table], centres: Sequence[Floats], labels: Ints) -> Floats:
    """Return h_v = Σ_i ‖x_i^v − f^v_{z_i}‖, shape (V,)."""
    pairs = zip(tables, centres, strict=True)
    return np.array([table.residuals(F, labels).sum() for table, F in pairs])


def _view_weights(h: Floats, varies: Bools, gamma: float) -> Floats:
    """Minimise Σ_v a_v^γ h_v over the simplex: a_v ∝ h_v^(1/(1−γ)); 0 for constant views."""
    if not varies.any():
        return np.full(len(h), 1.0 / len(h))
    # A view with loss 0 gets a finite weight; logarithms avoid overflow for γ near 1.
    floor = np.finfo(np.float64).eps * max(h.sum(), np.finfo(np.float64).tiny)
    exponent = np.log(np.maximum(h[varies], floor)) / (1.0 - gamma)
    weights = np.zeros(len(h))
    powers = np.exp(exponent - exponent.max())
    weights[varies] = powers / powers.sum()
    return weights


def _fill_empty_clusters(
    tables: Sequence[_Table], centres: list[Floats], labels: Ints, rng: np.random.RandomState
) -> None:
    """Fill each empty cluster with a random point of a larger cluster, which becomes its centre.

    Labels and centres change in place. A cluster stays empty if every point is on its centre.
    """
    K = len(centres[0])
    for k in np.flatnonzero(np.bincount(labels, minlength=K) == 0):
        larger = np.bincount(labels, minlength=K)[labels] > 1
        away = np.zeros(len(labels), dtype=np.bool_)
        for table, F in zip(tables, centres, strict=True):
            away |= (table.residuals(F, labels) > _ON_CENTRE * table.spread) & (table.spread > 0)
        movable = np.flatnonzero(larger & away)
        if movable.size == 0:
            return
        point = rng.choice(movable)
        labels[point] = k
        for table, F in zip(tables, centres, strict=True):
            row = table.rows[[point]]
            F[k] = row.toarray() if sp.issparse(row) else row
