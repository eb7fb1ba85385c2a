"""Supply: the expected number of auctions per day, and shrunk rates of clicks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coterie.ads.histograms.bid_histograms import BidHistograms

__all__ = [
    "Supply",
    "describe_supply",
    "expected_supply",
    "shrunk_shares",
    "supply_of",
    "weekday_of",
]

Floats = NDArray[np.float64]
_LARGEST_CONCENTRATION = 1e6


@dataclass(frozen=True)
class Supply:
    """Auctions per day."""

    level: Floats  # (A,), mean bids per day since the first bid, adjusted for weekdays
    weekday: Floats  # (7,), factors from Monday, mean 1 over the weekdays in the log, else 1
    seen: NDArray[np.bool_]  # (7,), whether the log has that weekday


def weekday_of(days: ArrayLike) -> NDArray[np.int64]:
    """Return the weekday of each day, 0 for Monday … 6 for Sunday.

    >>> weekday_of(["2026-03-02", "2026-03-08"]).tolist()
    [0, 6]
    """
    # day 0 of numpy's calendar, 1970-01-01, was a Thursday
    return (np.asarray(days, dtype="datetime64[D]").astype(np.int64) + 3) % 7


def supply_of(histograms: BidHistograms) -> Supply:
    """Estimate the level of each advertiser and the common factors of weekdays.

    The factor of a weekday is the mean number of bids on its days over the mean of all weekdays,
    counting the advertisers that bid on the first day.
    """
    daily = histograms.daily("count")
    weekday = weekday_of(histograms.days)
    started = np.cumsum(daily, axis=1) > 0
    steady = started[:, 0] if len(histograms.days) else np.zeros(len(daily), dtype=bool)
    total = daily[steady].sum(axis=0) if steady.any() else daily.sum(axis=0)
    seen = np.bincount(weekday, minlength=7) > 0
    mean = np.bincount(weekday, total, 7) / np.maximum(np.bincount(weekday, minlength=7), 1)
    factor = np.ones(7)
    if mean[seen].sum() > 0:
        factor[seen] = np.maximum(mean[seen] / mean[seen].mean(), 1e-3)
    expected = (started * factor[weekday]).sum(axis=1)
    level = np.divide(daily.sum(axis=1), expected, out=np.zeros(len(daily)), where=expected > 0)
    return Supply(level, factor, seen)


def expected_supply(supply: Supply, advertiser: int, day: str | None = None) -> float:
    """Return the expected auctions of an advertiser on a day, or on an average day.

    Raises ValueError if ``day`` is not a date.
    """
    factor = 1.0
    if day is not None:
        factor = float(supply.weekday[date.fromisoformat(str(day)).weekday()])
    return float(supply.level[advertiser]) * factor


def describe_supply(supply: Supply, day: date | None) -> str:
    """Return the end of a sentence about a forecast: the day whose supply it uses.

    >>> describe_supply(Supply(np.ones(1), np.ones(7), np.ones(7, dtype=bool)), date(2026, 3, 9))
    '; supply of 2026-03-09'
    """
    if day is None:
        return "; supply of an average day"
    if supply.seen[day.weekday()]:
        return f"; supply of {day}"
    return f"; supply of an average day, because {day} is a weekday that is not in the log"


def shrunk_shares(successes: Floats, trials: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Shrink the rate of a rare event of each advertiser towards that of its segments.

    Successes (A,) among trials (A,), for example clicks among impressions, are beta-binomial. The
    mean is the rate p of the advertiser's segments, by its shares (A, K) in them; the concentration
    M is common and fitted by maximum likelihood. Returns the shrunk rates (successes + M·p) /
    (trials + M) and their effective numbers of trials, M + trials.

    Examples
    --------
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
