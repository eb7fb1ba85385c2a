"""Pooled effects: an advertiser's own evidence completed by its segments and by everybody.

Effects of V values of one dimension on A advertisers follow a hierarchy of two steps. With s_ak
the share of advertiser a in segment k, the last of them "no segment in particular":

===========  ===================================  ========================================
             shift δ of the log price level       factor λ of a rate
===========  ===================================  ========================================
segment      μ_kv ~ N(m_v, ω²)                    ρ_kv ~ gamma of mean 1, variance 1/S
advertiser   δ_av ~ N(Σ_k s_ak μ_kv, τ²)          λ_av ~ gamma of mean λ_v Σ_k s_ak ρ_kv and
                                                  relative variance 1/M
evidence     x_av ~ N(δ_av, 1/h_av)               c_av ~ Poisson(E_av λ_av)
===========  ===================================  ========================================

τ, ω, M and S are common to the values of a dimension and fitted by maximum likelihood. For M and S
a weak prior is added, since a few clicks say nothing about them: 10, within a factor of 2.7. An
advertiser with many auctions counts in its segment as one draw of δ or λ, not by its auctions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Pooled", "pool_factors", "pool_shifts"]

Floats = NDArray[np.float64]

_ROUNDS = 6
_VARIANCES = (1e-5, 1.0)
_SHAPES = (0.3, 1e5)
_LEAST_FACTOR = 1e-3
_USUAL_LOG_SHAPE = float(np.log(10.0))


class Pooled(NamedTuple):
    """Means and standard deviations; of factors, the deviation over the mean."""

    mean: Floats  # (A, V)
    sd: Floats
    segment_mean: Floats  # (K + 1, V), of a new advertiser of each segment, or of any
    segment_sd: Floats
    within: float  # τ², or 1/M
    between: float  # ω², or 1/S


def pool_shifts(x: Floats, information: Floats, shares: Floats) -> Pooled:
    """Pool shifts x (A, V) with information h (A, V), 0 where nothing is known.

    ``shares`` are (A, K + 1).

    Examples
    --------
    Without evidence, an advertiser gets the shift of its segment.

    >>> x = np.array([[0.2], [0.2], [0.2], [0.0]])
    >>> found = pool_shifts(x, np.array([[1e4], [1e4], [1e4], [0.0]]), np.ones((4, 1)))
    >>> found.mean.round(3).ravel().tolist()
    [0.2, 0.2, 0.2, 0.2]
    """
    within, between = 0.01, 0.04
    for _ in range(_ROUNDS):
        weight = information / (1 + information * within)
        segment, variance, far, spread = _segments(x, weight, shares, between, None)
        prior = shares @ segment
        known = information > 0
        noise, residual = 1 / information[known], (x - prior)[known]
        within = _best_variance(residual, noise)
        between = _best_variance(far, spread) if len(far) else between
    prior, doubt = _mixed(shares, segment, variance)
    total = doubt + within
    precision = information + 1 / total
    mean = (information * x + prior / total) / precision
    return Pooled(
        mean, np.sqrt(1 / precision), segment, np.sqrt(variance + within), within, between
    )


def pool_factors(events: Floats, expected: Floats, shares: Floats) -> Pooled:
    """Pool the factors of events c (A, V) over the expected numbers E (A, V).

    Examples
    --------
    >>> found = pool_factors(np.array([[0.0, 0.0], [90.0, 10.0]]),
    ...                      np.array([[0.0, 0.0], [50.0, 50.0]]), np.ones((2, 1)))
    >>> bool((np.diff(found.mean) < -0.2).all())
    True
    """
    seen = expected > 0
    ratio = np.divide(events, expected, out=np.zeros_like(events), where=seen)
    overall = np.ones(events.shape[1])
    prior = np.ones(events.shape)
    within, between, of_values = 0.1, 0.1, 0.1
    for _ in range(_ROUNDS):
        # effective number of events: chance and the variation within segments together
        mean = prior * expected
        weight = mean / (1 + within * mean)
        total = weight.sum(axis=0)
        mean = np.divide(
            (weight * ratio).sum(axis=0), total, out=np.ones_like(total), where=total > 0
        )
        of_values = 1 / _best_shape(total * mean, total)
        overall = (total * mean + 1 / of_values) / (total + 1 / of_values)
        segment, variance, far, spread = _segments(ratio / overall, weight, shares, between, 1.0)
        segment = np.maximum(segment, _LEAST_FACTOR)
        prior = overall * (shares @ segment)
        within = 1 / _best_shape(events[seen], (prior * expected)[seen])
        between = 1 / _best_shape((1 + far) / spread, 1 / spread) if len(far) else between
    mixed, doubt = _mixed(shares, segment, variance)
    shape = 1 / (within + doubt / mixed**2)
    mean = (events + shape) / (expected + shape / (overall * mixed))
    of_new = np.sqrt(within + variance / segment**2)
    return Pooled(mean, 1 / np.sqrt(events + shape), overall * segment, of_new, within, between)


def _segments(
    x: Floats, weight: Floats, shares: Floats, between: float, centre: float | None
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return means and variances of the segments, (K + 1, V) each, pooled with everybody's.

    Also return, of the segments with evidence, how far each is from the centre, and the variance of
    this: what the variation between segments is fitted to. ``centre`` is everybody's mean, found
    from the segments unless given.
    """
    members = shares[:, :-1] if shares.shape[1] > 1 else shares
    total = members.T @ weight
    mean = np.divide(members.T @ (weight * x), total, out=np.zeros_like(total), where=total > 0)
    if centre is None:
        trust = total / (1 + total * between)
        trust = np.where(trust.sum(axis=0) > 0, trust, 1.0)
        centres = (trust * mean).sum(axis=0) / trust.sum(axis=0)
    else:
        centres = np.full(x.shape[1], centre)
    precision = total + 1 / between
    segment = (total * mean + centres / between) / precision
    known = total > 0
    far, spread = (mean - centres)[known], 1 / total[known]
    if shares.shape[1] == 1:  # no segments: everybody is one
        return segment, 1 / precision, np.empty(0), np.empty(0)
    return (
        np.vstack([segment, centres]),
        np.vstack([1 / precision, np.full((1, x.shape[1]), between)]),
        far,
        spread,
    )


def _mixed(shares: Floats, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of mixtures of segments, (A, V) each."""
    mixed = shares @ mean
    return mixed, np.maximum(shares @ (variance + mean**2) - mixed**2, 0.0)


def _best_variance(residual: Floats, noise: Floats) -> float:
    """Return the variance v that makes residuals ~ N(0, v + noise) most likely."""

    def cost(log_variance: float) -> float:
        total = np.exp(log_variance) + noise
        return float((np.log(total) + residual**2 / total).sum())

    return _best(cost, _VARIANCES)


def _best_shape(events: Floats, mean: Floats) -> float:
    """Return the shape M that makes events ~ negative binomial (mean, M) most likely."""
    from scipy.special import gammaln

    def cost(log_shape: float) -> float:
        m = np.exp(log_shape)
        likelihood = gammaln(events + m) - gammaln(m) - m * np.log1p(mean / m)
        likelihood = (likelihood - events * np.log(m + mean)).sum()
        return (log_shape - _USUAL_LOG_SHAPE) ** 2 / 2 - float(likelihood)

    return _best(cost, _SHAPES)


def _best(cost: Callable[[float], float], bounds: tuple[float, float]) -> float:
    # imported here because it is slow and forecasts do not need it
    from scipy.optimize import minimize_scalar

    limits = (float(np.log(bounds[0])), float(np.log(bounds[1])))
    return float(np.exp(minimize_scalar(cost, bounds=limits, method="bounded").x))
