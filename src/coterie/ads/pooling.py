"""Partial pooling: an advertiser's own evidence, completed by that of those it resembles.

Let x successes among y trials be an advertiser's evidence in a bin (see
:mod:`coterie.ads.curves`) and q the rate of its segment there. With a Beta(m·q, m·(1−q)) prior
in every bin — for hazards, a beta process — the pooled rate is

    (x + m·q) / (y + m).

The strength m counts in trials: where the advertiser has many more than m, its own rate stands;
where it has none, as at bids it never made, the segment's does. So pooling is decided bin by
bin, not once for an advertiser.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from coterie.ads.curves import Evidence, own_curves, win_curves

__all__ = [
    "SEGMENT_STRENGTH",
    "mixed_rates",
    "pooled_curves",
    "pooled_rates",
    "segment_rates",
    "win_variance",
]

Floats = NDArray[np.float64]

#: Trials a bin that a segment itself borrows from the rate of all advertisers.
SEGMENT_STRENGTH = 20.0
_MOST_CERTAIN = 1e-9


def segment_rates(
    evidence: Evidence, memberships: Floats, max_observations: float | None = None
) -> Floats:
    """The rate of success of every segment in every bin, (K, G).

    q_s = (Σ_a π_as x_a + m₀ q) / (Σ_a π_as y_a + m₀), with q the rate of all advertisers and
    m₀ = :data:`SEGMENT_STRENGTH`, so that a small segment leans on all.

    Parameters
    ----------
    evidence : Evidence
        Of A advertisers.
    memberships : (A, K) array
        π, the share of each advertiser in each segment.
    max_observations : float, optional
        An advertiser with more bids than this counts as if it had this many, so that the
        largest does not stand for its whole segment.
    """
    shares = memberships
    if max_observations is not None:
        excess = np.maximum(evidence.observations, max_observations)
        shares = memberships * (max_observations / excess)[:, None]
    return pooled_rates(
        shares.T @ evidence.successes,
        shares.T @ evidence.trials,
        overall_rate(evidence),
        SEGMENT_STRENGTH,
    )


def overall_rate(evidence: Evidence) -> Floats:
    """The rate of success of all advertisers together, (1, G).

    In a bin without trials it is what leaves the curve as it is there: the hazard 0, or the win
    rate of the bins beside it.
    """
    total = evidence.pooled
    silent = np.zeros_like(total.trials) if evidence.form == "hazard" else own_curves(total)
    return np.divide(total.successes, total.trials, out=silent, where=total.trials > 0)


def mixed_rates(shares: Floats, rates: Floats, form: str) -> Floats:
    """The rates of a mixture of segments, (A, G).

    The mixture is one of curves. Rates of the rate form are curves and are mixed as they are;
    hazards are not: with S_s(g) the probability that a price of segment s is above bin g,

        h_g = Σ_s π_s S_s(g−1) h_sg / Σ_s π_s S_s(g−1).

    Parameters
    ----------
    shares : (A, K) array
        π; rows sum to 1.
    rates : (K, G) array
    form : {"hazard", "rate"}

    Examples
    --------
    Of two segments one has all prices in the first bin, the other in the second: half of all
    auctions are won in the first, and all of the others in the second.

    >>> mixed_rates(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0], [0.0, 1.0]]), "hazard")
    array([[0.5, 1. ]])
    """
    if form != "hazard":
        return shares @ rates
    above = np.cumprod(1.0 - rates, axis=1)
    before = np.concatenate([np.ones((len(rates), 1)), above[:, :-1]], axis=1)
    at_risk = shares @ before
    return np.divide(
        shares @ (before * rates), at_risk, out=shares @ rates, where=at_risk > _MOST_CERTAIN
    )


def pooled_rates(successes: Floats, trials: Floats, prior: Floats, strength: float) -> Floats:
    """(x + m·q) / (y + m) in every bin.

    Examples
    --------
    >>> pooled_rates(np.array([[8.0, 0.0]]), np.array([[10.0, 0.0]]), np.array([[0.2, 0.3]]), 10.0)
    array([[0.5, 0.3]])
    """
    if np.isinf(strength):
        return np.broadcast_to(prior, successes.shape).copy()
    total = trials + strength
    return np.divide(
        successes + strength * prior,
        total,
        out=np.zeros(np.broadcast_shapes(successes.shape, prior.shape)),
        where=total > 0,
    )


def pooled_curves(evidence: Evidence, prior: Floats, strength: float) -> Floats:
    """W of each advertiser from its own evidence and its prior rates, (A, G).

    Parameters
    ----------
    evidence : Evidence
    prior : (A, G) array
        q, the rates of each advertiser's segment (or mixture of segments).
    strength : float
        m; 0 is the advertiser's own curve, infinity that of its segment.
    """
    rates = pooled_rates(evidence.successes, evidence.trials, prior, strength)
    weights = prior * 0 + 1 if np.isinf(strength) else evidence.trials + strength
    return win_curves(rates, weights, evidence.form)


def win_variance(evidence: Evidence, prior: Floats, strength: float) -> Floats:
    """The posterior variance of W in every bin, (A, G).

    With independent Beta(α, β) hazards the first two moments of the product are products of
    moments: E[1−h] = β/(α+β), E[(1−h)²] = β(β+1)/((α+β)(α+β+1)). For rates it is that of
    the Beta distribution of all trials that isotonic regression takes together there.
    """
    m = min(strength, 1e6)
    alpha = evidence.successes + m * prior
    total = np.maximum(evidence.trials + m, _MOST_CERTAIN)
    beta = np.maximum(total - alpha, 0.0)
    mean = beta / total
    if evidence.form == "rate":
        return np.array([_block_variance(*row) for row in zip(1 - mean, total, strict=True)])
    second = np.cumprod(mean * (beta + 1) / (total + 1), axis=1)
    return np.maximum(second - np.cumprod(mean, axis=1) ** 2, 0.0)


def _block_variance(rates: Floats, trials: Floats) -> Floats:
    """p(1 − p)/(n + 1) with p and n those of the isotonic block that each bin is in."""
    fitted = isotonic_regression(rates, weights=trials)
    in_block = np.repeat(fitted.weights, np.diff(fitted.blocks))
    return np.asarray(fitted.x * (1 - fitted.x) / (in_block + 1))
