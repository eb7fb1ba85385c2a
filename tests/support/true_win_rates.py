"""The true win rates of a simulated market, in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr

from coterie.ads.logs.simulation.simulated_traits import (
    PRICE_BY_WEEKDAY,
    PRICE_DRIFT,
    STEP_MICROS,
    Traits,
    in_micros,
)


def true_win_rate(
    traits: Traits, advertiser: Any, bids: Any, weekday: Any, drift: float = PRICE_DRIFT
) -> np.ndarray:
    """Return the probability that a bid in micros wins; the arguments are broadcast.

    With components c of share π, log level μ and spread σ, the weekday's price factor f, the
    standard deviation τ of the daily drift, and half a step h for rounding,

        W(b) = Σ_c π_c Φ((log(b + h) − μ_c − log f) / √(σ_c² + τ²))  if b ≥ floor, else 0,

    where b is rounded down to a whole step.
    """
    who, steps, day = np.broadcast_arrays(advertiser, np.floor_divide(bids, STEP_MICROS), weekday)
    level = traits.market_level[who] + np.log(PRICE_BY_WEEKDAY[day])[..., None]
    reached = np.log((steps + 0.5) * (STEP_MICROS / 1e6))
    below = ndtr((reached[..., None] - level) / np.hypot(traits.market_spread[who], drift))
    possible = steps * STEP_MICROS >= in_micros(traits.floor[who])
    return np.where(possible, (traits.market_share[who] * below).sum(axis=-1), 0.0)
