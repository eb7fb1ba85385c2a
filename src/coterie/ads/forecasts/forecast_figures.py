"""Forecast figures: what a forecast consists of, and checks of bids, supplies and days."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import date
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coterie.ads.curves.day_levels import WEEKDAYS, DayLevels, weekday_of
from coterie.arrays import Floats
from coterie.errors import InvalidParameterError

#: What is said if both are given.
SUPPLY_OR_DAY = "give the supply or the day, not both"

#: What is said if no bid is given: any default would be wrong in some currency.
NO_BID = "bid is missing; give it per thousand impressions (CPM)"

#: A forecast is for at most so many days.
MOST_DAYS = 366

#: The largest supply, in auctions: no figure overflows up to here.
MOST_SUPPLY = 1e15

#: The figures of a forecast, in the order of columns.
FIELDS = (
    "win_rate",
    "cost",
    "impressions",
    "impressions_low",
    "impressions_high",
    "spend",
    "spend_low",
    "spend_high",
    "clicks",
    "clicks_low",
    "clicks_high",
    "conversions",
    "conversions_low",
    "conversions_high",
)


#: Where the means of the targets are; the ends of their intervals follow.
COLUMNS = {name: FIELDS.index(name) for name in ("impressions", "spend", "clicks", "conversions")}


@dataclass(frozen=True)
class Forecast:
    """What to expect of one advertiser at one bid; money in units of currency.

    Attributes
    ----------
    advertiser : str
        Empty where only a text was given.
    bid : float
        Per thousand impressions (CPM).
    supply : float
        Auctions.
    win_rate, cost : float
        The share of auctions won, and what a thousand impressions cost (eCPM).
    impressions, spend, clicks, conversions : float
        Means; the last two None where the log has none.
    impressions_interval, spend_interval, clicks_interval, conversions_interval : (low, high)
        Ends of the intervals; None where the log has no such events.
    level : float
        Of the intervals: the share of actual values that they should contain.
    segment : str
        The name of the segment with the largest share; empty where there is none.
    curve : {"pooled", "text", "global"}
        Where the curve came from: own bids completed by the segment's; the segments of similar
        texts; all advertisers.
    why : str
        What it is based on.
    currency : str
        Of all amounts; empty where the log has none.
    model_version : str
        Of the model of a service, as its answers name it; otherwise empty. It is not compared.
    """

    advertiser: str
    bid: float
    supply: float
    win_rate: float
    cost: float
    impressions: float
    impressions_interval: tuple[float, float]
    spend: float
    spend_interval: tuple[float, float]
    clicks: float | None
    clicks_interval: tuple[float, float] | None
    conversions: float | None
    conversions_interval: tuple[float, float] | None
    level: float
    segment: str
    curve: str
    why: str
    currency: str = ""
    model_version: str = field(default="", compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the forecast as plain values for JSON."""
        return asdict(self)


def bids_between(start: float, stop: float, step: float, most: int) -> list[float]:
    """Return the bids from one to another in steps, both ends included; none if over ``most``.

    >>> bids_between(1.0, 2.0, 0.5, 10), bids_between(1.0, 2.0, 0.5, 2)
    ([1.0, 1.5, 2.0], [])
    """
    number = number_between(start, stop, step, most)
    return [float(f"{start + i * step:.12g}") for i in range(number)]


def number_between(start: float, stop: float, step: float, most: int) -> int:
    """Return the number of bids of :func:`bids_between` without making them; 0 if too many.

    >>> number_between(1.0, 2.0, 0.5, 10), number_between(1.0, 1e9, 1e-9, 10)
    (3, 0)
    """
    # the last one counts even if a rounding error misses it
    steps = (stop - start) / step + 1e-9
    return int(steps) + 1 if steps < most else 0


def checked_bids(bid: ArrayLike) -> Floats:
    """Return the bids as an array, (B,); refuses what is no bid.

    >>> checked_bids(2.5).tolist()
    [2.5]
    """
    try:
        bids = np.atleast_1d(np.asarray(bid, dtype=np.float64))
    except (TypeError, ValueError):
        bids = np.array([np.nan])
    if bids.ndim != 1 or not bids.size or not np.isfinite(bids).all() or (bids <= 0).any():
        raise InvalidParameterError(
            f"bid={bid!r}: bids must be numbers above 0, in units of currency per thousand "
            "impressions (CPM)"
        )
    return bids


def checked_bid(bid: Any) -> float:
    """Return one bid; refuses what is none.

    >>> checked_bid(2)
    2.0
    """
    bids = checked_bids(bid)
    if np.ndim(bid):
        raise InvalidParameterError(f"bid={bid!r}: give one bid")
    return float(bids[0])


def checked_supply(supply: Any) -> float:
    """Return the number of auctions; refuses what is none.

    >>> checked_supply(1e6)
    1000000.0
    """
    if isinstance(supply, Real) and 0 <= float(supply) <= MOST_SUPPLY:
        return float(supply) + 0.0  # −0 is 0
    raise InvalidParameterError(
        f"supply={supply!r}: it must be a number of auctions, from 0 to {MOST_SUPPLY:g}"
    )


def checked_day(day: Any, days: Any) -> date | None:
    """Return the first day to forecast, or None; refuses what is no date or number of days.

    >>> checked_day("2026-03-09", 7)
    datetime.date(2026, 3, 9)
    """
    is_whole = isinstance(days, Integral) and not isinstance(days, bool)
    if not is_whole or not 1 <= int(days) <= MOST_DAYS:
        raise InvalidParameterError(
            f"days={days!r}: it must be a whole number from 1 to {MOST_DAYS}"
        )
    if day is None:
        return None
    try:
        return date.fromisoformat(str(day))
    except ValueError as error:
        raise InvalidParameterError(f"day={day!r}: it must be a date as in 2026-03-09") from error


def describe_days(levels: DayLevels, first: date | None, days: int, expected: bool) -> str:
    """Return the end of a sentence about a forecast: which days it is for.

    ``expected`` says whether the supply is that of these days, and not given.
    """
    if first is None:
        when, weekdays = "an average day", set(range(7))
        if days > 1:
            last = int(weekday_of(levels.days[-1:])[0])
            when = f"the {days} days after the log"
            weekdays = {(last + 1 + i) % 7 for i in range(min(days, 7))}
    else:
        when = str(first) if days == 1 else f"the {days} days from {first}"
        weekdays = {(first.weekday() + i) % 7 for i in range(min(days, 7))}
    sentence = f"; {'supply and prices' if expected else 'prices'} of {when}"
    unseen = [WEEKDAYS[day] for day in sorted(weekdays) if not levels.has_weekday[day]]
    if unseen:
        sentence += f"; the log has no {' or '.join(unseen)}, so other weekdays stand in"
    return sentence
