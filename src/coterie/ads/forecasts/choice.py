"""What a backtest chose: which source of curves, how strongly pooled, and how far off it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["NINE_IN_TEN", "Choice"]

#: Half the width, in standard deviations, of the intervals that are to hold nine in ten.
NINE_IN_TEN = 1.6448536269514722


@dataclass(frozen=True)
class Choice:
    """How one source is used, and how well it did on the days it was chosen by.

    Attributes
    ----------
    source : str
        One of :data:`~coterie.ads.segments.sources.SOURCES`.
    settings : tuple of (str, value) pairs
        The candidate's.
    strength : float
        The pooling strength: infinity is the segment's curve alone, 0 the advertiser's.
    error : float
        In the backtest; NaN where there was nothing to choose by.
    noise : float
        What varies from day to day beyond chance, as a share of the forecast.
    days : int
        How many days were forecast to choose.
    """

    source: str
    settings: tuple[tuple[str, Any], ...]
    strength: float
    error: float
    noise: float
    days: int
