"""True curves: win rates by bid of a simulated market, its daily prices, and later days of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from coterie.ads.logs.simulation.simulated_logs import draw_charges, draw_day, draw_floors
from coterie.ads.logs.simulation.simulated_traits import (
    COMMON_FLOORS,
    PRICE_RISE_DAYS,
    MarketSettings,
    Traits,
    in_micros,
)
from coterie.errors import InvalidParameterError

__all__ = ["day_shifts", "draw_outcomes", "true_win_rates"]


def true_win_rates(
    settings: MarketSettings, traits: Traits, level_shift: ArrayLike, edges: ArrayLike
) -> NDArray[np.float64]:
    """Return the probability that a bid wins, for each advertiser and amount.

    A bid b wins if it reaches the highest competing bid and the floor. The competing bid is drawn
    from two log-normal components c of share π, log level μ and spread σ, so that with the shift δ
    of the log level

        W(b) = Σ_c π_c Φ((log b − μ_c − δ) / σ_c)  if b ≥ floor, else 0,

    averaged over the floors of an advertiser's auctions.

    The rounding of logged amounts to whole steps is ignored.

    Parameters
    ----------
    settings : MarketSettings
    traits : Traits
        The A advertisers drawn from the settings.
    level_shift : float or (A,) array
        Change δ of the log price level from ``traits.market_level``, as in a row of
        :func:`day_shifts`.
    edges : (G,) array of int
        Bids in micros.

    Returns
    -------
    (A, G) array

    Examples
    --------
    >>> from coterie.ads.logs.simulation.simulated_traits import draw_traits
    >>> settings = MarketSettings(advertisers=3, segments=3)
    >>> traits = draw_traits(settings)
    >>> rates = true_win_rates(settings, traits, 0.0, [1000, 2_000_000, 100_000_000])
    >>> rates[:, 0].tolist(), bool((rates[:, 2] > 0.999).all())
    ([0.0, 0.0, 0.0], True)
    >>> dearer = true_win_rates(settings, traits, 0.26, [2_000_000])
    >>> bool((dearer[:, 0] < rates[:, 1]).all())
    True
    """
    a = settings.advertisers
    if len(traits.market_level) != a:
        raise InvalidParameterError(
            f"traits of {len(traits.market_level)} advertisers: the settings have {a}; "
            "draw the traits from these settings"
        )
    shift = np.asarray(level_shift, dtype=np.float64)
    if shift.shape not in {(), (a,)}:
        raise InvalidParameterError(f"level_shift of shape {shift.shape}: give a number or ({a},)")
    amount = np.asarray(edges, dtype=np.float64) / 1e6
    # a bid of 0 has the logarithm −∞ and never wins
    with np.errstate(divide="ignore"):
        log_amount = np.log(np.maximum(amount, 0.0))
    level = traits.market_level + shift[..., None]
    rates = np.zeros((a, len(amount)))
    for component in (0, 1):
        z = (log_amount - level[:, component, None]) / traits.market_spread[:, component, None]
        rates += traits.market_share[:, component, None] * ndtr(z)
    common = traits.common_floors
    reached = (1.0 - common.sum(axis=1, keepdims=True)) * (amount >= traits.floor[:, None])
    return rates * (reached + common @ (amount >= COMMON_FLOORS[:, None]))


def day_shifts(settings: MarketSettings, traits: Traits) -> NDArray[np.float64]:
    """Return the change of each advertiser's log price level on each day, (days, A).

    It is the sum of the weekday's effect, the advertiser's drift on that day and, on the last four
    days, the rise of prices. The days are those that :func:`draw_day` draws.

    Examples
    --------
    >>> from coterie.ads.logs.simulation.simulated_traits import draw_traits
    >>> settings = MarketSettings(advertisers=400, price_rise=0.26, weekday_effect=0)
    >>> (day_shifts(settings, draw_traits(settings)).mean(axis=1) > 0.25).tolist()
    [False, False, False, True, True, True, True]
    """
    days = range(settings.days)
    return np.stack([draw_day(settings, traits, day).level_shift for day in days])


def draw_outcomes(
    settings: MarketSettings, traits: Traits, days: range, bids: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw what constant bids would win and pay on some days, of the log or after it.

    Newcomers and moves of bids have no part: all bid on every day from their first one on.

    Parameters
    ----------
    settings : MarketSettings
    traits : Traits
        The A advertisers drawn from the settings.
    days : range
        From 0, the first day of the log.
    bids : (A, B) array
        B bids of each advertiser, in currency units.

    Returns
    -------
    auctions : (A, days) array
    outcomes : (2, A, B, days) array
        Impressions and spend.
    """
    # a day more, because newcomers and moves are those of the last day; the rise has its own days
    longer = replace(settings, days=days.stop + 1, price_rise=0.0)
    traits = replace(traits, newcomer=np.zeros_like(traits.newcomer))
    A, B = bids.shape
    auctions, outcomes = np.zeros((A, len(days))), np.zeros((2, A, B, len(days)))
    for place, day in enumerate(days):
        market, rng = draw_day(longer, traits, day), np.random.default_rng([settings.seed, day])
        auctions[:, place] = market.counts
        who = np.repeat(np.arange(A), market.counts)
        component = (rng.random(len(who)) >= traits.market_share[who, 0]).astype(np.int64)
        noise = traits.market_spread[who, component] * rng.standard_normal(len(who))
        rise = settings.price_rise if day >= settings.days - PRICE_RISE_DAYS else 0.0
        competing = np.exp(market.market_level[who, component] + noise + rise)
        minimum = in_micros(np.maximum(competing, draw_floors(settings, traits, who, rng)))
        for b in range(B):
            bid = bids[who, b] * 1e6
            price = draw_charges(settings, minimum, bid, rng) / 1e9
            outcomes[0, :, b, place] = np.bincount(who, bid >= minimum, A)
            outcomes[1, :, b, place] = np.bincount(who, (bid >= minimum) * price, A)
    return auctions, outcomes
