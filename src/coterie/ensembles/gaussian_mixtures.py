"""Gaussian mixtures on the leading principal axes: clusters that differ in size and direction."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from coterie.arrays import AnyArray, Floats
from coterie.ensembles.members import Member, RowBlock
from coterie.ensembles.scalings import Scaling

_MOST_AXES = 10
#: Added to all variances, as a share of the mean variance of the principal components.
_LEAST_VARIANCE = 0.01
# The runs differ on purpose, so they need not converge.
_STEPS = 50
#: In smallest standard deviations: squares of this number of them lose 6 of 16 digits.
_FAR = 1e3
_TINY = float(np.finfo(np.float64).tiny) ** 0.5


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MixtureMember(Member):
    """A fitted mixture of K_v Gaussians of y = axesᵀ z, for axes (q, r).

    The label of a row is the component k with the largest log π_k + log N(y; μ_k, Σ_k). ``means``
    (K_v, r) are the μ_k, ``factors`` (K_v, r, r) have Σ_k^−1 = F_k F_kᵀ, and ``offsets`` (K_v,)
    are log π_k + log |F_k|.
    """

    axes: Floats
    means: Floats
    factors: Floats
    offsets: Floats

    def labels_of(self, block: RowBlock) -> AnyArray:
        """Return the most likely component of each row.

        The scores are quadratic in y: one product of the matrix of all y_a and y_a y_b, which
        mixtures with the same axes share, and the coefficients.
        """
        Z = self.coordinates(block, self.axes.dtype)
        # 0, which mixtures share, or the mean of means that are far from 0, where the digits of
        # squares would cancel: features without a shift can be far from 0, and an outlier that
        # was not fitted can shift all others
        centre = self.means.mean(axis=0)
        if np.abs(centre).max() * np.abs(self.factors).max() <= _FAR:
            centre = np.zeros_like(centre)
        powers = block.once(_powers, Z, self.axes, centre)
        precisions = self.factors @ self.factors.transpose(0, 2, 1)
        means = self.means - centre
        slopes = np.einsum("kab,kb->ka", precisions, means)
        first, second = np.triu_indices(len(centre))
        # the entries off the diagonal count twice in yᵀ Σ⁻¹ y
        squares = np.where(first == second, -0.5, -1.0) * precisions[:, first, second]
        scores = powers.T @ np.hstack([slopes, squares]).T
        scores += self.offsets - 0.5 * np.einsum("ka,ka->k", means, slopes)
        return scores.argmax(axis=1).astype(np.int32)

    def with_clusters(self, kept: AnyArray) -> Self:
        """Return the same run with some of its clusters only."""
        parts = {name: getattr(self, name)[kept] for name in ("means", "factors", "offsets")}
        return replace(self, **parts)


def principal_axes(Z: Any, seed: int) -> Floats:
    """Return the leading principal axes of Z (n, q), (q, r) with r = min(10, q, n/4).

    For sparse rows they are the leading right singular vectors, because centring makes rows dense.

    >>> principal_axes(np.array([[0.0, 0.0], [3.0, 0.0], [6.0, 0.1], [9.0, 0.0]]), 0).shape
    (2, 1)
    """
    n, q = Z.shape
    r = max(1, min(_MOST_AXES, q, n // 4))
    with np.errstate(divide="ignore", invalid="ignore"):  # shares of a variance of 0
        if sp.issparse(Z):
            # the solver needs more columns than axes
            if q <= r + 1:
                return np.eye(q)
            return TruncatedSVD(r, random_state=seed).fit(Z).components_.T
        return PCA(r, random_state=seed).fit(Z).components_.T


def fit_mixture(
    Z: Any, n_clusters: int, seed: int, scaling: Scaling, axes: Floats, covariance: str = "full"
) -> MixtureMember:
    """Fit a mixture of K Gaussians to the rows of Z (n, q); ``covariance`` is "full" or "diag"."""
    Y = np.asarray(Z @ axes, dtype=np.float64)
    # sparse rows are not centred: far from 0 the digits of the variances would cancel
    centre = Y.mean(axis=0)
    Y = Y - centre
    rounding = (np.finfo(np.float64).eps * float(np.abs(centre).max())) ** 2
    model = GaussianMixture(
        n_clusters,
        covariance_type=covariance,
        reg_covar=max(_LEAST_VARIANCE * float(Y.var(axis=0).mean()), rounding, _TINY),
        max_iter=_STEPS,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(Y)
    factors = model.precisions_cholesky_
    if covariance == "diag":
        factors = factors[:, :, None] * np.eye(Y.shape[1])
    logs = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    return MixtureMember(
        axes=axes,
        means=model.means_ + centre,
        factors=factors,
        offsets=np.log(model.weights_) + logs,
        **vars(scaling),
    )


def _powers(Z: Any, axes: Floats, centre: Floats) -> Floats:
    """Return all y_a, then all y_a y_b with a ≤ b, for y = axesᵀ z − centre; one column a row."""
    r = len(centre)
    first, second = np.triu_indices(r)
    powers = np.empty((r + len(first), Z.shape[0]))
    np.subtract((Z @ axes).T, centre[:, None], out=powers[:r])
    np.multiply(powers[first], powers[second], out=powers[r:])
    return powers
