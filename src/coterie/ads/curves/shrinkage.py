"""Shrinkage: an advertiser's own evidence, completed by its segments or by the dictionary.

**Towards segments.** Let x successes among y trials be an advertiser's evidence in a bin (see
:mod:`coterie.ads.curves.landscapes`) and q the rate of its segment there. With a Beta(m·q,
m·(1−q)) prior in every bin — for hazards, a beta process — the pooled rate is

    (x + m·q) / (y + m).

The strength m is a number of trials. With many more trials than m the advertiser's own rate
dominates; without trials, as at bids it never made, the rate is the segment's. The weight is
decided bin by bin, not once for an advertiser.

A higher bid wins at least as often. In the rate form, the rates of segments are therefore made
monotone before pooling; an advertiser without evidence then has exactly the curve of its segments.

**Towards the dictionary.** The curve of the dictionary is a prior of strength m, a number of
auctions:

- If prices are revealed, F_a is a beta process. With h the hazard of the prior and S its survival
  function, the hazard in bin g becomes (revealed + m·S·h) / (at risk + m·S), where a lost auction
  is at risk up to the middle of its bin.
- If only wins and losses are known, the differences between wins and expected wins are smoothed
  along the bid axis over a width of about 14%, and divided by their variance plus m.

An infinite m gives the prior.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.ads.curves.auction_counts import AuctionCounts
from coterie.ads.curves.landscapes import Evidence, win_curves
from coterie.arrays import Floats

#: Strength with which a segment is pooled with all advertisers, in trials per bin.
SEGMENT_STRENGTH = 20.0
_LEAST_AT_RISK = 1e-9
_LARGEST_STRENGTH = 1e6
_LARGEST_CONCENTRATION = 1e6
_ROUNDING = 1e-12  # smaller differences of win rates are due to rounding

#: No curve of the dictionary is as certain as more auctions than this.
MOST_CERTAIN = 100.0
_INFINITE = 1e9
#: Standard deviation of the smoothing, in bins of the price grid.
_WIDTH = 6.0
#: A sum over the kernel equals its value at the centre times this.
_KERNEL_SIZE = float(2.0 * np.sqrt(np.pi) * _WIDTH)
_TINY = 1e-7


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
    successes, trials = (
        part.sum(axis=0, keepdims=True) for part in (evidence.successes, evidence.trials)
    )
    rate = np.divide(successes, trials, out=np.zeros_like(trials), where=trials > 0)
    return rate if evidence.form == "hazard" else win_curves(rate, trials, "rate")


def mixed_rates(shares: Floats, rates: Floats, form: str) -> Floats:
    """Compute the rates (A, G) of mixtures of segments from shares π (A, K) and rates (K, G).

    Win curves are mixed. In the rate form the rates are win curves, which must be monotone. For
    hazards, with S_s(g) the probability that a price of segment s is above bin g,

        h_g = Σ_s π_s S_s(g−1) h_sg / Σ_s π_s S_s(g−1).

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
        # arrays are flattened; prepending −1 starts a new run in every row
        rises = np.diff(win, axis=1, prepend=-1.0) > _ROUNDING
        run = np.cumsum(rises) - 1
        tried = (evidence.trials > 0).ravel()
        upto = np.cumsum(tried)
        in_runs_before = np.concatenate([[0], upto])[np.flatnonzero(rises)]
        before = upto - tried - in_runs_before[run]
        between = tried | ((before > 0) & (before < np.bincount(run, tried)[run]))
        n = np.where(between, np.bincount(run, evidence.trials.ravel())[run], 0.0)
        return win * (1 - win) / (n.reshape(win.shape) + m + 1)
    alpha = evidence.successes + m * prior
    total = np.maximum(evidence.trials + m, _LEAST_AT_RISK)
    beta = np.maximum(total - alpha, 0.0)
    mean = beta / total
    second = np.cumprod(mean * (beta + 1) / (total + 1), axis=1)
    return np.maximum(second - np.cumprod(mean, axis=1) ** 2, 0.0)


def shrunk_shares(successes: Floats, trials: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Shrink the rate of a rare event of each advertiser towards that of its segments.

    Successes (A,) among trials (A,), for example clicks among impressions, are beta-binomial. The
    mean is the rate p of the advertiser's segments, by its shares (A, K) in them; the concentration
    M is common and fitted by maximum likelihood. Returns the shrunk rates (successes + M·p) /
    (trials + M) and their effective numbers of trials, M + trials.

    >>> rates, _ = shrunk_shares(np.array([1.0, 99.0]), np.array([2.0, 1000.0]), np.ones((2, 1)))
    >>> bool(0.09 < rates[0] < 0.3), bool(0.098 < rates[1] < 0.1)
    (True, True)
    """
    # imported here because they are slow and forecasts do not need them
    from scipy.optimize import minimize_scalar
    from scipy.special import betaln

    overall = successes.sum() / max(trials.sum(), 1.0)
    in_segment, at_risk = shares.T @ successes, shares.T @ trials
    # segments are pooled with all advertisers, with the weight of a hundred events
    weight = 100.0 / max(overall, 1e-6)
    rate = (in_segment + weight * overall) / (at_risk + weight)
    prior = np.clip(shares @ rate, 1e-9, 1 - 1e-9)
    tried = trials > 0

    def negative_log_likelihood(log_concentration: float) -> float:
        m = np.exp(log_concentration)
        a, b = m * prior[tried], m * (1 - prior[tried])
        s, n = successes[tried], trials[tried]
        return -float(np.sum(betaln(a + s, b + np.maximum(n - s, 0)) - betaln(a, b)))

    if not tried.any() or successes.sum() == 0:
        return prior, trials + _LARGEST_CONCENTRATION
    bounds = (0.0, np.log(_LARGEST_CONCENTRATION))
    best = minimize_scalar(negative_log_likelihood, bounds=bounds, method="bounded").x
    concentration = float(np.exp(best))
    return (successes + concentration * prior) / (trials + concentration), trials + concentration


def complete_curves(
    counts: AuctionCounts, prior: Floats, variance: Floats, strength: float
) -> tuple[Floats, Floats]:
    """Return F (A, G) at the upper edges of the bins, and its variance, (A, G).

    Two things are uncertain: the prior, as far as own auctions near a bid do not decide, and how
    far the advertiser is from its prior. For the second the strength counts as at most
    :data:`MOST_CERTAIN`, because no curve of the dictionary fits exactly. The prior and its
    variance are (A, G + 1): they begin at the lower edge of the first bin.
    """
    complete = _beta_process if counts.reveals else _smoothed
    win, own, share = complete(counts, prior, min(strength, _INFINITE))
    if strength > MOST_CERTAIN:
        _, own, _ = complete(counts, prior, MOST_CERTAIN)
    return win, own + variance[:, 1:] * share**2


def _beta_process(counts: AuctionCounts, prior: Floats, m: float) -> tuple[Any, Any, Any]:
    """Return F, its variance given the prior, and the share of the prior in it."""
    above = 1.0 - prior
    above[:, 0] = 1.0  # the first bin has no lower limit
    hazard = np.clip(1.0 - above[:, 1:] / np.maximum(above[:, :-1], 1e-9), 0.0, 1.0)
    strength = m * above[:, :-1]
    ended = counts.revealed + counts.lost
    at_risk = np.cumsum(ended[:, ::-1], axis=1)[:, ::-1] - counts.lost / 2
    total = np.maximum(at_risk + strength, 1e-9)
    # the hazard is Beta(α, β); survival is a product of independent factors with known moments
    beta = np.maximum(total - (counts.revealed + strength * hazard), 0.0)
    stays = np.cumprod(beta / total, axis=1)
    square = np.cumprod(beta / total * (beta + 1.0) / (total + 1.0), axis=1)
    return 1.0 - stays, np.maximum(square - stays**2, 0.0), strength / total


def _smoothed(counts: AuctionCounts, prior: Floats, m: float) -> tuple[Any, Any, Any]:
    """Return the same for won and lost auctions."""
    # imported here because it is slow and reading a model does not need it
    from scipy.ndimage import gaussian_filter1d

    middle = (prior[:, 1:] + prior[:, :-1]) / 2
    trials = counts.won + counts.lost
    spread = middle * (1.0 - middle)

    def around(values: Floats) -> Floats:
        return np.asarray(gaussian_filter1d(values, _WIDTH, axis=1)) * _KERNEL_SIZE

    informed = around(trials * spread)
    moved = around(counts.won - trials * middle) / (informed + m) * spread
    # from the middles of the bins to their upper edges
    at_edges = prior[:, 1:] + (moved + np.hstack([moved[:, 1:], moved[:, -1:]])) / 2
    at_edges = np.clip(np.maximum.accumulate(at_edges, axis=1), _TINY, 1.0 - _TINY)
    # m is in units of trials · spread, which is 1/4 of a trial at most
    variance = at_edges * (1.0 - at_edges) / (around(trials) + 4.0 * m + 1.0)
    return at_edges, variance, m / (informed + m)
