"""Partial pooling: an advertiser's own evidence, completed by that of those it resembles.

Let x successes among y trials be an advertiser's evidence in a bin (see
:mod:`coterie.ads.curves.landscapes`) and q the rate of its segment there. With a Beta(m·q,
m·(1−q)) prior in every bin — for hazards, a beta process — the pooled rate is

    (x + m·q) / (y + m).

The strength m counts in trials: where the advertiser has many more than m, its own rate stands;
where it has none, as at bids it never made, the segment's does. So pooling is decided bin by
bin, not once for an advertiser.

A higher bid wins no less often. In the rate form, where nothing else sees to that, the rates of
segments rise with the bid before anybody is pooled with them: an advertiser without evidence has
the curve of its segments, whatever the weights of the isotonic regression.
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
    "rising_rates",
    "segment_rates",
    "win_variance",
]

Floats = NDArray[np.float64]

#: Trials a bin that a segment itself borrows from the rate of all advertisers.
SEGMENT_STRENGTH = 20.0
_MOST_CERTAIN = 1e-9
_AS_GOOD_AS_INFINITE = 1e6
# what differs by less differs by rounding
_SAME_HEIGHT = 1e-12


def segment_rates(
    evidence: Evidence, memberships: Floats, max_observations: float | None = None
) -> Floats:
    """The rate of success of every segment in every bin, (K, G).

    q_s = (Σ_a π_as x_a + m₀ q) / (Σ_a π_as y_a + m₀), with q the rate of all advertisers and
    m₀ = :data:`SEGMENT_STRENGTH`, so that a small segment leans on all. In the rate form they
    rise with the bid, by isotonic regression.

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
    trials = shares.T @ evidence.trials
    rates = pooled_rates(
        shares.T @ evidence.successes, trials, overall_rate(evidence), SEGMENT_STRENGTH
    )
    if evidence.form == "hazard":
        return rates
    return win_curves(rates, trials + SEGMENT_STRENGTH, "rate")


def overall_rate(evidence: Evidence) -> Floats:
    """The rate of success of all advertisers together, (1, G).

    In a bin without trials it is what leaves the curve as it is there: the hazard 0, or the win
    rate of the bins beside it. In the rate form it rises with the bid.
    """
    total = evidence.pooled
    if evidence.form != "hazard":
        return own_curves(total)
    silent = np.zeros_like(total.trials)
    return np.divide(total.successes, total.trials, out=silent, where=total.trials > 0)


def mixed_rates(shares: Floats, rates: Floats, form: str) -> Floats:
    """The rates of a mixture of segments, (A, G).

    The mixture is one of curves. Rates of the rate form are curves, once they rise with the bid,
    and are mixed as they are; hazards are not: with S_s(g) the probability that a price of
    segment s is above bin g,

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
        return shares @ rising_rates(rates)
    above = np.cumprod(1.0 - rates, axis=1)
    before = np.concatenate([np.ones((len(rates), 1)), above[:, :-1]], axis=1)
    at_risk = shares @ before
    return np.divide(
        shares @ (before * rates), at_risk, out=shares @ rates, where=at_risk > _MOST_CERTAIN
    )


def rising_rates(rates: Floats) -> Floats:
    """Rates of the rate form as curves, (K, G): as they are where they rise with the bid.

    Segments have had rising rates from the start in this version; those in older model files
    may not, and every bin counts alike then.

    Examples
    --------
    >>> rising_rates(np.array([[0.1, 0.3, 0.3], [0.2, 0.1, 0.6]])).round(2).tolist()
    [[0.1, 0.3, 0.3], [0.15, 0.15, 0.6]]
    """
    if (np.diff(rates, axis=1) >= 0).all():
        return rates
    return win_curves(rates, np.ones_like(rates), "rate")


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
    moments: E[1−h] = β/(α+β), E[(1−h)²] = β(β+1)/((α+β)(α+β+1)).

    For rates it is W(1 − W)/(n + m + 1), where n are the advertiser's own trials in the bins
    that isotonic regression takes together. They count for the bins between the first and the
    last that was tried: what lies beyond is bounded by them on one side only. The prior counts
    once: how an advertiser differs from its segment in one bin is how it differs in the next,
    so that m trials borrowed in each of fifty bins tell no more than m.
    """
    m = min(strength, _AS_GOOD_AS_INFINITE)
    if evidence.form == "rate":
        win = pooled_curves(evidence, prior, m)
        return win * (1 - win) / (_trials_together(win, evidence.trials) + m + 1)
    alpha = evidence.successes + m * prior
    total = np.maximum(evidence.trials + m, _MOST_CERTAIN)
    beta = np.maximum(total - alpha, 0.0)
    mean = beta / total
    second = np.cumprod(mean * (beta + 1) / (total + 1), axis=1)
    return np.maximum(second - np.cumprod(mean, axis=1) ** 2, 0.0)


def _trials_together(win: Floats, trials: Floats) -> Floats:
    """Σ y over the bins of one height with each bin, (A, G); 0 outside those that were tried."""
    rises = np.diff(win, axis=1, prepend=-1.0) > _SAME_HEIGHT  # as every row does at its start
    run = np.cumsum(rises) - 1
    tried = (trials > 0).ravel()
    upto = np.cumsum(tried)
    in_runs_before = np.concatenate([[0], upto])[np.flatnonzero(rises)]
    in_run = np.bincount(run, tried)
    before = upto - tried - in_runs_before[run]
    between = tried | ((before > 0) & (before < in_run[run]))
    summed = np.bincount(run, trials.ravel())
    return np.where(between, summed[run], 0.0).reshape(win.shape)
