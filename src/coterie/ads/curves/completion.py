"""Completion: an advertiser's own auctions complete the curve that the dictionary gives it.

The curve of the dictionary is a prior of strength m, a number of auctions:

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
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from coterie.ads.curves.auction_counts import AuctionCounts

__all__ = ["MOST_CERTAIN", "complete_curves"]

Floats = NDArray[np.float64]

#: No curve of the dictionary is as certain as more auctions than this.
MOST_CERTAIN = 100.0
_INFINITE = 1e9
#: Standard deviation of the smoothing, in bins of the price grid.
_WIDTH = 6.0
#: A sum over the kernel equals its value at the centre times this.
_KERNEL_SIZE = float(2.0 * np.sqrt(np.pi) * _WIDTH)
_TINY = 1e-7


def complete_curves(
    counts: AuctionCounts, prior: Floats, variance: Floats, strength: float
) -> tuple[Floats, Floats]:
    """Return F (A, G) at the upper edges of the bins, and its variance, (A, G).

    Two things are uncertain: the prior, as far as own auctions near a bid do not decide, and how
    far the advertiser is from its prior. For the second the strength counts as at most
    :data:`MOST_CERTAIN`, because no curve of the dictionary fits exactly.

    Parameters
    ----------
    counts : AuctionCounts
    prior, variance : (A, G + 1) arrays
        c.d.f. at the lower edge of the first bin and at all upper edges, and its variance.
    strength : float
        m, above 0.
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
    """Return F, its variance given the prior, and the share of the prior in it."""
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
