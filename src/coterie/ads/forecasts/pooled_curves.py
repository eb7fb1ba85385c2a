"""Forecasts at a bid, by the book: a pooled curve and a supply give impressions, spend and clicks.

One advertiser at a time, on the whole grid of bids. :mod:`coterie.ads.forecasts.forecast_tables`
gives the same figures of many at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.landscapes import (
    PER_UNIT,
    Evidence,
    curve_at,
    own_curves,
    spend_curves,
    win_curves,
)
from coterie.ads.curves.pooling import pooled_rates, win_variance

__all__ = ["NINE_IN_TEN", "Choice", "PooledCurve", "Rates", "forecast_at", "pool"]

Floats = NDArray[np.float64]
_MICROS = 1_000_000
_AS_GOOD_AS_INFINITE = 1e6
#: Half the width, in standard deviations, of the intervals that are to hold nine in ten.
NINE_IN_TEN = 1.6448536269514722


@dataclass(frozen=True)
class PooledCurve:
    """The curves of one advertiser on the grid of bids, (G,) arrays."""

    edges: NDArray[np.int64]  # in micros
    win: Floats  # the pooled win rate
    spread: Floats  # its posterior standard deviation
    paid: Floats  # the mean cost of an auction, in micros
    pays_bid: bool  # whether a winner pays its bid (first price)
    own: Floats  # the two win rates that were pooled
    segment: Floats

    @property
    def bid(self) -> Floats:
        """The grid, in units of currency per thousand impressions."""
        return self.edges / _MICROS

    @property
    def low(self) -> Floats:
        """The lower end of the interval of the win rate that is to hold nine in ten."""
        return np.clip(self.win - NINE_IN_TEN * self.spread, 0.0, 1.0)

    @property
    def high(self) -> Floats:
        """The upper end."""
        return np.clip(self.win + NINE_IN_TEN * self.spread, 0.0, 1.0)

    @property
    def cost(self) -> Floats:
        """What a thousand impressions cost, in units of currency."""
        return (
            np.divide(self.paid, self.win, out=np.zeros_like(self.paid), where=self.win > 0)
            / _MICROS
        )


@dataclass(frozen=True)
class Rates:
    """Clicks and conversions per impression, and the doubt of each; None where the log has none."""

    click: float | None = None
    click_doubt: float = 0.0
    conversion: float | None = None
    conversion_doubt: float = 0.0


def pool(evidence: Evidence, prior: Floats, strength: float) -> PooledCurve:
    """Pool the evidence of one advertiser, possibly none, with the rates of its segments, (G,)."""
    q = prior[None]
    rates = pooled_rates(evidence.successes, evidence.trials, q, strength)
    certain = min(strength, _AS_GOOD_AS_INFINITE)
    win = win_curves(rates, evidence.trials + certain, evidence.form)
    return PooledCurve(
        evidence.edges,
        win[0],
        np.sqrt(win_variance(evidence, q, strength))[0],
        spend_curves(win, evidence)[0],
        evidence.pays == "bid" and bool(np.all(evidence.price == evidence.edges)),
        own_curves(evidence)[0],
        win_curves(q, np.ones_like(q), evidence.form)[0],
    )


def forecast_at(
    bid: float, supply: float, curve: PooledCurve, rates: Rates, noise: float
) -> dict[str, Any]:
    """Return the figures of a :class:`~coterie.ads.forecasts.forecast_figures.Forecast` at one bid.

    The spread of the impressions has three parts: what is not known of the curve, chance in the
    auctions, and what varies from day to day; N²·var W + N·W(1 − W) + (noise·N·W)².
    """
    win, spread, paid = (
        float(curve_at(part[None], curve.edges, [bid * _MICROS])[0, 0])
        for part in (curve.win, curve.spread, curve.paid)
    )
    mean = supply * win
    doubt = float(np.sqrt((supply * spread) ** 2 + supply * win * (1 - win) + (noise * mean) ** 2))
    low = max(mean - NINE_IN_TEN * doubt, 0.0)
    high = min(mean + NINE_IN_TEN * doubt, supply)
    # nobody pays more than the bid; the mean price of the bin it lies in may be above it
    each = min(paid / win / PER_UNIT, bid / 1000) if win > 0 else 0.0
    if curve.pays_bid and win > 0:
        each = bid / 1000
    clicks, clicks_interval = _rare(rates.click, rates.click_doubt, mean, doubt)
    return {
        "bid": float(bid),
        "supply": float(supply),
        "win_rate": win,
        "cost": each * 1000,
        "impressions": mean,
        "impressions_interval": (low, high),
        "spend": mean * each,
        "spend_interval": (low * each, high * each),
        "clicks": clicks,
        "clicks_interval": clicks_interval,
        "conversions": _rare(rates.conversion, rates.conversion_doubt, mean, doubt)[0],
    }


@dataclass(frozen=True)
class Choice:
    """How one source is used, and how well it did on the days it was chosen by."""

    source: str  # one of coterie.ads.segments.sources.SOURCES
    settings: tuple[tuple[str, Any], ...]  # the candidate's
    strength: float  # of pooling: infinity is the segment's curve alone, 0 the advertiser's
    error: float  # in the backtest; NaN where there was nothing to choose by
    noise: float  # what varies from day to day beyond chance, as a share of the forecast
    days: int  # how many days were forecast to choose


def _rare(
    rate: float | None, rate_doubt: float, impressions: float, doubt: float
) -> tuple[float | None, tuple[float, float] | None]:
    """Mean and interval of events that follow a share of the impressions."""
    if rate is None:
        return None, None
    mean = impressions * rate
    variance = mean + (doubt * rate) ** 2 + (impressions * rate_doubt) ** 2
    spread = NINE_IN_TEN * float(np.sqrt(variance))
    return mean, (max(mean - spread, 0.0), mean + spread)
