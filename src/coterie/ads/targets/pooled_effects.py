"""Pooled effects: an advertiser's own evidence completed by its segments and by all advertisers.

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

τ, ω, M and S are common to the values of a dimension. τ and ω are fitted by maximum likelihood, M
and S by moments, with a weak prior, since a few clicks say nothing about them: 1/M = 0.1 ± 0.1. An
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
_LEAST_FACTOR = 1e-3
#: Relative variance of factors that is assumed, within its own size, before any is seen.
_USUAL_VARIANCE = 0.1


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
        segment, variance, raw, effective = _segments(x, weight, shares, between, None)
        prior = shares @ segment
        known = information > 0
        noise, residual = 1 / information[known], (x - prior)[known]
        within = _best_variance(residual, noise)
        if len(effective):
            seen = effective > 0
            far = (raw - segment[-1])[seen]
            between = _best_variance(far, 1 / effective[seen])
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
    within, between = 0.1, 0.1
    for _ in range(_ROUNDS):
        # the variation within segments bounds what an advertiser with many events counts
        weight = expected / (1 + within * prior * expected)
        total, found = weight.sum(axis=0), (weight * ratio).sum(axis=0)
        of_values = _relative_variance(found[None], total[None])
        overall = (found + 1 / of_values) / (total + 1 / of_values)
        segment, variance, raw, effective = _segments(
            ratio / overall, weight * overall, shares, between, 1.0
        )
        segment = np.maximum(segment, _LEAST_FACTOR)
        variance *= segment  # of a gamma variable, chance being Poisson; that of the last is S
        prior = overall * (shares @ segment)
        within = _relative_variance(events, prior * expected)
        if len(effective):
            between = _relative_variance(effective * raw, effective)
    mixed, doubt = _mixed(shares, segment, variance)
    shape = 1 / (within + doubt / mixed**2)
    mean = (events + shape) / (expected + shape / (overall * mixed))
    of_new = np.sqrt(within + variance / segment**2)
    return Pooled(mean, 1 / np.sqrt(events + shape), overall * segment, of_new, within, between)


def _segments(
    x: Floats, weight: Floats, shares: Floats, between: float, centre: float | None
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return means and variances of the segments, (K + 1, V) each, pooled with that of all.

    Also return the means of the segments alone and their weights, (K, V) each: what the variation
    between segments is fitted to. ``centre`` is the mean of all advertisers, found from the
    segments unless given.
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
    if shares.shape[1] == 1:  # no segments: all advertisers are one
        return segment, 1 / precision, mean[:0], total[:0]
    return (
        np.vstack([segment, centres]),
        np.vstack([1 / precision, np.full((1, x.shape[1]), between)]),
        mean,
        total,
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


def _relative_variance(counts: Floats, mean: Floats) -> float:
    """Return the relative variance v of the factors of counts, given the totals of rows.

    With q the share of a mean m in its row, counts given their total have the variance

        m (1 − q) + v m² (1 − 2q + Σ q²)

    v is the weighted mean of what squares exceed the first term by, over the second. The condition
    matters: rates that were fitted to the same row make its counts agree better with their means.
    """
    total, expected = (part.sum(axis=1, keepdims=True) for part in (counts, mean))
    usable = (total > 0)[:, 0] & (expected > 0)[:, 0]
    total, counts = total[usable], counts[usable]
    q = mean[usable] / expected[usable]
    m = q * total
    noise, signal = m * (1 - q), m**2 * (1 - 2 * q + (q**2).sum(axis=1, keepdims=True))
    excess, v = (counts - m) ** 2 - noise, _USUAL_VARIANCE
    for _ in range(_ROUNDS):
        # the variance of a square of a Poisson number, at the current v
        weight = signal / np.maximum(2 * (noise + v * signal) ** 2 + noise, 1e-300)
        information = (weight * signal).sum() + 1 / _USUAL_VARIANCE**2
        v = float(((weight * excess).sum() + 1 / _USUAL_VARIANCE) / information)
        v = min(max(v, _VARIANCES[0]), _VARIANCES[1])
    return v


def _best(cost: Callable[[float], float], bounds: tuple[float, float]) -> float:
    # imported here because it is slow and forecasts do not need it
    from scipy.optimize import minimize_scalar

    limits = (float(np.log(bounds[0])), float(np.log(bounds[1])))
    return float(np.exp(minimize_scalar(cost, bounds=limits, method="bounded").x))
