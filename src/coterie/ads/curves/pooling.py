"""Partial pooling: combine an advertiser's own evidence with that of its segment.

Let x successes among y trials be an advertiser's evidence in a bin (see
:mod:`coterie.ads.curves.landscapes`) and q the rate of its segment there. With a Beta(m·q,
m·(1−q)) prior in every bin — for hazards, a beta process — the pooled rate is

    (x + m·q) / (y + m).

The strength m is a number of trials. With many more trials than m the advertiser's own rate
dominates; without trials, as at bids it never made, the rate is the segment's. The weight is
decided bin by bin, not once for an advertiser.

A higher bid wins at least as often. In the rate form, the rates of segments are therefore made
monotone before pooling; an advertiser without evidence then has exactly the curve of its segments.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.landscapes import Evidence, own_curves, win_curves

__all__ = [
    "SEGMENT_STRENGTH",
    "mixed_rates",
    "pooled_curves",
    "pooled_rates",
    "segment_rates",
    "win_variance",
]

Floats = NDArray[np.float64]

#: Strength with which a segment is pooled with all advertisers, in trials per bin.
SEGMENT_STRENGTH = 20.0
_LEAST_AT_RISK = 1e-9
_LARGEST_STRENGTH = 1e6
_ROUNDING = 1e-12  # smaller differences of win rates are due to rounding


def segment_rates(
    evidence: Evidence, memberships: Floats, max_observations: float | None = None
) -> Floats:
    """Compute the rate of success of every segment in every bin, (K, G).

    With π the shares (A, K) of advertisers in segments, q the rate of all advertisers and
    m₀ = :data:`SEGMENT_STRENGTH`,

        q_s = (Σ_a π_as x_a + m₀ q) / (Σ_a π_as y_a + m₀).

    In the rate form they are made monotone by isotonic regression. The evidence of an advertiser
    with more than ``max_observations`` bids is scaled down to this many, so that the largest
    advertiser does not dominate its segment.
    """
    shares = memberships
    if max_observations is not None:
        excess = np.maximum(evidence.observations, max_observations)
        shares = memberships * (max_observations / excess)[:, None]
    trials = shares.T @ evidence.trials
    rates = pooled_rates(
        shares.T @ evidence.successes, trials, overall_rate(evidence), SEGMENT_STRENGTH
    )
    if evidence.form == "hazard":
        return rates
    return win_curves(rates, trials + SEGMENT_STRENGTH, "rate")


def overall_rate(evidence: Evidence) -> Floats:
    """Compute the rate of success of all advertisers together, (1, G).

    In a bin without trials the curve is continued: the hazard is 0, the win rate is interpolated.
    In the rate form the rates are monotone.
    """
    total = evidence.pooled
    if evidence.form != "hazard":
        return own_curves(total)
    rate = np.zeros_like(total.trials)
    return np.divide(total.successes, total.trials, out=rate, where=total.trials > 0)


def mixed_rates(shares: Floats, rates: Floats, form: str) -> Floats:
    """Compute the rates (A, G) of mixtures of segments from shares π (A, K) and rates (K, G).

    Win curves are mixed. In the rate form the rates are win curves, which must be monotone. For
    hazards, with S_s(g) the probability that a price of segment s is above bin g,

        h_g = Σ_s π_s S_s(g−1) h_sg / Σ_s π_s S_s(g−1).

    Examples
    --------
    One segment has all prices in the first bin, the other in the second. The mixture wins half of
    the auctions in the first bin and all others in the second.

    >>> mixed_rates(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0], [0.0, 1.0]]), "hazard")
    array([[0.5, 1. ]])
    """
    if form != "hazard":
        return shares @ rates
    above = np.cumprod(1.0 - rates, axis=1)
    before = np.concatenate([np.ones((len(rates), 1)), above[:, :-1]], axis=1)
    at_risk = shares @ before
    return np.divide(
        shares @ (before * rates), at_risk, out=shares @ rates, where=at_risk > _LEAST_AT_RISK
    )


def pooled_rates(successes: Floats, trials: Floats, prior: Floats, strength: float) -> Floats:
    """Compute (x + m·q) / (y + m) in every bin.

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
    """Compute W of each advertiser from its own evidence and its prior rates q, all (A, G).

    The strength m = 0 gives the advertiser's own curve, infinity that of its segment.
    """
    rates = pooled_rates(evidence.successes, evidence.trials, prior, strength)
    weights = np.ones_like(prior) if np.isinf(strength) else evidence.trials + strength
    return win_curves(rates, weights, evidence.form)


def win_variance(evidence: Evidence, prior: Floats, strength: float) -> Floats:
    """Compute the posterior variance of W in every bin, (A, G).

    With independent Beta(α, β) hazards the first two moments of the product are products of
    moments: E[1−h] = β/(α+β), E[(1−h)²] = β(β+1)/((α+β)(α+β+1)).

    For rates it is W(1 − W)/(n + m + 1). Isotonic regression gives one value to a run of bins, and
    n is the number of the advertiser's own trials in the run. In bins before the first or after
    the last trial of the run, n is 0, because the trials bound W there on one side only. The prior
    counts as m trials in a run, not in each of its bins, because an advertiser differs from its
    segment in a similar way in adjacent bins.
    """
    m = min(strength, _LARGEST_STRENGTH)
    if evidence.form == "rate":
        win = pooled_curves(evidence, prior, m)
        return win * (1 - win) / (_trials_together(win, evidence.trials) + m + 1)
    alpha = evidence.successes + m * prior
    total = np.maximum(evidence.trials + m, _LEAST_AT_RISK)
    beta = np.maximum(total - alpha, 0.0)
    mean = beta / total
    second = np.cumprod(mean * (beta + 1) / (total + 1), axis=1)
    return np.maximum(second - np.cumprod(mean, axis=1) ** 2, 0.0)


def _trials_together(win: Floats, trials: Floats) -> Floats:
    """Return Σ y over the run of equal W of each bin, (A, G); 0 outside the bins with trials."""
    # arrays are flattened; prepending −1 starts a new run in every row
    rises = np.diff(win, axis=1, prepend=-1.0) > _ROUNDING
    run = np.cumsum(rises) - 1
    tried = (trials > 0).ravel()
    upto = np.cumsum(tried)
    in_runs_before = np.concatenate([[0], upto])[np.flatnonzero(rises)]
    in_run = np.bincount(run, tried)
    before = upto - tried - in_runs_before[run]
    between = tried | ((before > 0) & (before < in_run[run]))
    summed = np.bincount(run, trials.ravel())
    return np.where(between, summed[run], 0.0).reshape(win.shape)
