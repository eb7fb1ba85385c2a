"""Model warnings: what a user should know before trusting the forecasts of a model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coterie.ads.curves.day_levels import DayLevels
from coterie.ads.forecasts.calibration import Calibration
from coterie.ads.forecasts.fitted_market import Choice
from coterie.runtime.wording import percent

__all__ = ["PriceDrift", "model_warnings", "price_drift"]

#: Prices drift if their log level changes by more than this and this many standard errors.
_LEAST_CHANGE, _LEAST_ERRORS = 0.1, 4.0
#: A relative bias of the backtest above this is large.
_LARGE_BIAS = 0.15


class PriceDrift(NamedTuple):
    """A lasting change of all prices."""

    since: str  # the first day of the new level
    change: float  # as a share of the old level

    @property
    def sentence(self) -> str:
        """What happened, and what it means."""
        direction = "rose" if self.change > 0 else "fell"
        return (
            f"prices {direction} by {percent(abs(self.change))} from {self.since} on; forecasts "
            "follow the new level, and days before it count at that level"
        )


def price_drift(levels: DayLevels) -> PriceDrift | None:
    """Return the largest lasting change of the price level, if there is a clear one.

    The days are divided where the difference of the mean levels before and after is largest in
    units of its standard error. Weekdays alone do not make a change of 10%.

    Examples
    --------
    >>> from coterie.ads.curves.day_levels import fit_levels
    >>> days = np.datetime64("2026-03-02") + np.arange(14)
    >>> change = price_drift(fit_levels(days, np.where(np.arange(14) < 10, 0, 0.26), [1e-5] * 14))
    >>> change.since, round(change.change, 2)
    ('2026-03-12', 0.3)
    """
    values, best, largest = levels.values, None, 0.0
    for day in range(2, len(values) - 1):
        before, after = values[:day], values[day:]
        difference = float(after.mean() - before.mean())
        spread = np.concatenate([before - before.mean(), after - after.mean()])
        error = np.sqrt((spread**2).mean() * (1 / len(before) + 1 / len(after)) + 1e-8)
        if abs(difference) > _LEAST_CHANGE and abs(difference) / error > max(
            largest, _LEAST_ERRORS
        ):
            largest = abs(difference) / error
            best = PriceDrift(str(levels.days[day]), float(np.expm1(difference)))
    return best


def model_warnings(levels: DayLevels, choice: Choice, calibration: Calibration) -> list[str]:
    """Return the warnings about a fitted model, as sentences without a full stop."""
    found = []
    drift = price_drift(levels)
    if drift is not None:
        found.append(drift.sentence)
    elif abs(choice.bias) > max(_LARGE_BIAS, 3 * choice.bias_error):
        # a drift explains a bias of the last days
        direction = "above" if choice.bias > 0 else "below"
        found.append(
            f"forecasts of the last days were {percent(abs(choice.bias))} {direction} the actual "
            "values; check that the log has all bids, and its auction type"
        )
    if calibration.is_suspicious:
        found.append(
            f"intervals had to be widened by a factor of {calibration.inflation:.1f} to contain "
            "the last days; the log varies more from day to day than its auctions explain"
        )
    return found
