"""Compared days: the two periods of a comparison, from two models or from one."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.day_levels import weekday_of
from coterie.ads.forecasts.fitted_market import FittedMarket
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.ads.histograms.stored_days import merge_histograms, unpack_days
from coterie.errors import InvalidParameterError

__all__ = ["ComparedDays", "Period", "days_of_models", "days_of_periods", "same_weekdays"]

Indices = NDArray[np.int64]
Days = NDArray[np.datetime64]
Mask = NDArray[np.bool_]
#: The first and the last day, as dates or texts such as 2026-03-02.
Period = tuple[str | date, str | date]

#: What the logs of two models must have in common, by attribute.
_SAME_KIND = {
    "auction": "auction type",
    "revealed": "kind of known prices",
    "currency": "currency",
    "unit": "unit",
}

#: Sums of a day by which it is known again.
_SUMS = ("count", "bid", "wins", "cost", "clicks")


class ComparedDays(NamedTuple):
    """A log, and indices of the days of the two periods in it.

    The days of the log need not be sorted, and a date of two different logs is there twice.
    """

    histograms: BidHistograms
    before: Indices
    after: Indices

    @property
    def sides(self) -> tuple[Indices, Indices]:
        """The days of both periods."""
        return self.before, self.after

    @property
    def union(self) -> Indices:
        """The days of either period."""
        return np.union1d(self.before, self.after)

    @property
    def dates(self) -> tuple[Days, Days]:
        """The dates of both periods."""
        return self.histograms.days[self.before], self.histograms.days[self.after]


def days_of_models(before: FittedMarket, after: FittedMarket) -> tuple[ComparedDays, list[str]]:
    """Put the days of two models into one log, and return it with notes.

    Days that are the same in both models are left out, unless a model has no others. A day that
    both models have with different bids is there twice: once before and once after.
    """
    first, last = _days_of(before, "before"), _days_of(after, "after")
    _refuse_other_kind(first, last)
    common = np.intersect1d(first.days, last.days)
    same = common[_are_same(first, last, common)]
    others = [np.flatnonzero(~np.isin(log.days, same)) for log in (first, last)]
    if not any(map(len, others)):
        days = np.arange(len(first.days))
        return ComparedDays(first, days, days), ["both models have the same days"]
    before_part, after_part = (
        log.for_days(days) if len(days) else log
        for days, log in zip(others, (first, last), strict=True)
    )
    notes = _notes(len(same), len(common) - len(same))
    return _one_after_the_other(before_part, after_part), notes


def days_of_periods(model: FittedMarket, before: Period, after: Period) -> ComparedDays:
    """Return the days of two periods of a model; refuse periods with a common day."""
    histograms = _days_of(model, "model")
    first, last = (
        _days_between(histograms, period, name)
        for name, period in (("before", before), ("after", after))
    )
    common = np.intersect1d(first, last)
    if len(common):
        raise InvalidParameterError(
            f"both periods have {histograms.days[common[0]]}; give periods without common days"
        )
    return ComparedDays(histograms, first, last)


def same_weekdays(first: Days, last: Days) -> bool:
    """Return whether all weekdays have the same share in two periods.

    >>> week = np.datetime64("2026-03-02") + np.arange(7)
    >>> same_weekdays(week, week + 7), same_weekdays(week[:4], week[4:])
    (True, False)
    """
    shares = [np.bincount(weekday_of(days), minlength=7) / len(days) for days in (first, last)]
    return bool(np.allclose(shares[0], shares[1]))


def _days_of(model: FittedMarket, name: str) -> BidHistograms:
    model.refuse_unfitted()
    stored = getattr(model, "stored_days_", None)
    if stored is None:
        raise InvalidParameterError(
            f"{name}: this model keeps no days, so that it cannot be compared; fit it again"
        )
    return unpack_days(stored)[0]


def _are_same(first: BidHistograms, last: BidHistograms, days: Days) -> Mask:
    """Return for each of some days of two logs whether all advertisers have the same sums."""
    names = np.union1d(first.advertisers, last.advertisers)
    same = np.ones(len(days), dtype=bool)
    for name in _SUMS:
        sums = np.zeros((2, len(names), len(days)))
        for side, log in zip(sums, (first, last), strict=True):
            rows = np.searchsorted(names, log.advertisers)
            side[rows] = log.daily(name)[:, np.searchsorted(log.days, days)]
        # sums of weights depend a little on the order of the bids
        same &= np.isclose(sums[0], sums[1], rtol=1e-9).all(axis=0)
    return same


def _one_after_the_other(first: BidHistograms, last: BidHistograms) -> ComparedDays:
    """Put two logs together, all days of the first before those of the last; dates may repeat."""
    dates = np.concatenate([first.days, last.days])
    later = first.days[-1] + np.timedelta64(1, "D") - last.days[0]
    merged = replace(merge_histograms(first, replace(last, days=last.days + later)), days=dates)
    return ComparedDays(merged, *np.split(np.arange(len(dates)), [len(first.days)]))


def _notes(same: int, different: int) -> list[str]:
    """Return what was done with the days that both models have."""
    notes = []
    if same:
        notes.append(
            f"{same} of the days {'is' if same == 1 else 'are'} in both models and "
            f"{'says' if same == 1 else 'say'} nothing about a change; each model is compared by "
            "its other days, if it has any"
        )
    if different:
        days = "1 day has" if different == 1 else f"{different} days have"
        notes.append(
            f"{days} other bids in one model than in the other; the models are of different logs, "
            "and such days are compared with each other"
        )
    return notes


def _days_between(histograms: BidHistograms, period: Period, name: str) -> Indices:
    """Return the indices of the days of a period."""
    written = ":".join(map(str, period))
    try:
        start, end = (np.datetime64(date.fromisoformat(str(day)), "D") for day in period)
    except ValueError:
        raise InvalidParameterError(
            f"{name}={written}: a period has two dates, as in 2026-03-02 and 2026-03-05"
        ) from None
    if start > end:
        raise InvalidParameterError(
            f"{name}={written}: the first day is after the last; give the first day first"
        )
    days = np.flatnonzero((histograms.days >= start) & (histograms.days <= end))
    if not len(days):
        raise InvalidParameterError(
            f"{name}={written}: the model has no day in this period; it has days from "
            f"{histograms.days[0]} to {histograms.days[-1]}"
        )
    return days


def _refuse_other_kind(first: BidHistograms, last: BidHistograms) -> None:
    for name, term in _SAME_KIND.items():
        one, other = getattr(first, name), getattr(last, name)
        if one != other:
            raise InvalidParameterError(
                f"the {term} of the model before is {one!r} and that of the model after {other!r}; "
                "only models of logs of the same kind can be compared"
            )
