"""Day levels: how a quantity common to all advertisers moves from day to day.

The log level y_d of a day d, of prices or of supply, is modelled as

    y_d = walk_d + weekday_w(d) + day_d + error_d

with a random walk (standard deviation s_walk per day), a constant effect of each weekday (s_week),
independent daily noise (s_day), and the known error of measurement. All parts are normal, so the
level of any later day has a normal distribution given the days of the log. A weekday that the log
does not have adds the variance of weekdays; a day further ahead adds more of the walk.

The three standard deviations are not known. Forecasts are averages over a grid of them, weighted by
their likelihood and half-Cauchy priors. A week or less hardly separates weekdays, walk and noise,
and the average stays between them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["DayLevels", "fit_levels", "weekday_of"]

Floats = NDArray[np.float64]
Days = NDArray[np.datetime64]

#: Only the last days matter, and the work grows with their cube.
_MOST_DAYS = 84
_START_VARIANCE = 4.0
#: Variance below which no level is known.
_LEAST_VARIANCE = 1e-7
#: The grid of each standard deviation, in units of its prior's.
_FACTORS = np.array([0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 16.0])
#: Grid points with a smaller probability are left out.
_LEAST_WEIGHT = 0.005


@dataclass(frozen=True)
class DayLevels:
    """Levels of the days of a log, and which standard deviations of the parts are likely.

    ``values`` (D,) are measured log levels with variances ``errors`` (D,). ``parts`` (M, 3) are the
    standard deviations of walk, weekdays and daily noise, with probabilities ``weights`` (M,).
    """

    days: Days
    values: Floats
    errors: Floats
    parts: Floats
    weights: Floats

    def ahead(self, days: ArrayLike) -> tuple[Floats, Floats]:
        """Return means (H,) and covariance (H, H) of the log levels of some later days."""
        wanted = np.asarray(days, dtype="datetime64[D]")
        means = np.empty((len(self.parts), len(wanted)))
        covariance = np.zeros((len(wanted), len(wanted)))
        start, centre = self.days[0], float(self.values.mean())
        among, across, later = (
            _shared(first, second, start)
            for first, second in ((self.days, self.days), (wanted, self.days), (wanted, wanted))
        )
        for i, part in enumerate(self.parts.tolist()):
            # the normal distribution of these days, conditioned on the measured levels
            measured = _covariance(among, part) + np.diag(part[2] ** 2 + self.errors)
            cross = _covariance(across, part)
            gain = np.linalg.solve(measured, cross.T).T
            means[i] = centre + gain @ (self.values - centre)
            within = _covariance(later, part) - gain @ cross.T + part[2] ** 2 * np.eye(len(wanted))
            covariance += self.weights[i] * within
        mean = self.weights @ means
        between = means - mean
        return mean, covariance + (between * self.weights[:, None]).T @ between

    def one_day_ahead(self) -> tuple[Floats, Floats]:
        """Return mean and variance of each measured level, given the days before it, (D,) each.

        The variance includes the error of measurement. The first day has none before it, and is
        NaN. The standard deviations of the parts are those of all days.

        >>> days = np.datetime64("2026-03-02") + np.arange(3, dtype="timedelta64[D]")
        >>> mean, variance = fit_levels(days, [0.1, 0.1, 0.1], [1e-4] * 3).one_day_ahead()
        >>> mean.round(2).tolist(), bool(variance[2] < variance[1])
        ([nan, 0.1, 0.1], True)
        """
        found = np.full((2, len(self.days)), np.nan)
        for d in range(1, len(self.days)):
            before = replace(
                self, days=self.days[:d], values=self.values[:d], errors=self.errors[:d]
            )
            mean, covariance = before.ahead(self.days[d : d + 1])
            found[:, d] = mean[0], covariance[0, 0] + self.errors[d]
        return found[0], found[1]

    def typical(self) -> tuple[float, float]:
        """Return mean and variance of the log level of the next day, its weekday unknown."""
        mean, covariance = self.ahead(self.next_week())
        # an average week, and in the variance a day of it
        return float(mean.mean()), float(covariance.diagonal().mean() + mean.var())

    @property
    def has_weekday(self) -> NDArray[np.bool_]:
        """Whether each weekday from Monday is among the days of the log, (7,)."""
        return np.bincount(weekday_of(self.days), minlength=7) > 0

    def by_weekday(self) -> Floats:
        """Return the expected log levels of the next seven days, from Monday, (7,)."""
        week = self.next_week()
        return self.ahead(week)[0][np.argsort(weekday_of(week))]

    def next_week(self) -> Days:
        """Return the seven days after the log."""
        return self.days[-1] + np.arange(1, 8, dtype="timedelta64[D]")


def fit_levels(
    days: ArrayLike,
    values: ArrayLike,
    errors: ArrayLike,
    *,
    scales: tuple[float, float, float] = (0.003, 0.04, 0.015),
) -> DayLevels:
    """Estimate which standard deviations of walk, weekdays and daily noise are likely.

    Parameters
    ----------
    days, values, errors : (D,) array-like
        Days in order, measured log levels, and their variances.
    scales : (walk, week, day)
        Scales of the half-Cauchy priors.

    Examples
    --------
    Four weeks in which Sundays are lower:

    >>> days = np.datetime64("2026-03-02") + np.arange(28, dtype="timedelta64[D]")
    >>> levels = fit_levels(days, np.where(weekday_of(days) == 6, -0.3, 0.05), np.full(28, 1e-6))
    >>> mean, _ = levels.ahead(["2026-03-30", "2026-04-05"])
    >>> mean.round(2).tolist()
    [0.05, -0.3]
    """
    kept = slice(-_MOST_DAYS, None)
    found = np.asarray(days, dtype="datetime64[D]")[kept]
    level = np.asarray(values, dtype=np.float64)[kept]
    error = np.asarray(errors, dtype=np.float64)[kept] + _LEAST_VARIANCE
    grid = np.array(list(product(*(scale * _FACTORS for scale in scales))))
    shared = _shared(found, found, found[0])
    centred = level - level.mean()
    score = np.array(
        [_log_posterior(shared, centred, error, part, scales) for part in grid.tolist()]
    )
    weights = np.exp(score - score.max())
    likely = weights > _LEAST_WEIGHT * weights.sum()
    return DayLevels(found, level, error, grid[likely], weights[likely] / weights[likely].sum())


def weekday_of(days: ArrayLike) -> NDArray[np.int64]:
    """Return the weekday of each day, 0 for Monday … 6 for Sunday.

    >>> weekday_of(["2026-03-02", "2026-03-08"]).tolist()
    [0, 6]
    """
    # day 0 of numpy's calendar, 1970-01-01, was a Thursday
    return (np.asarray(days, dtype="datetime64[D]").astype(np.int64) + 3) % 7


def _shared(first: Days, second: Days, start: np.datetime64) -> tuple[Floats, NDArray[np.bool_]]:
    """Return what two lists of days share: the days of the walk, and whether the weekday."""
    a, b = ((days - start).astype(np.float64) for days in (first, second))
    # before the first day of the log the walk goes the other way
    is_same_side = np.sign(a)[:, None] == np.sign(b)[None, :]
    walked = is_same_side * np.minimum(np.abs(a)[:, None], np.abs(b)[None, :])
    return walked, weekday_of(first)[:, None] == weekday_of(second)[None, :]


def _covariance(shared: tuple[Floats, NDArray[np.bool_]], part: list[float]) -> Floats:
    """Return the covariance of walk and weekday effects between two lists of days."""
    walked, is_same_weekday = shared
    return _START_VARIANCE + part[0] ** 2 * walked + part[1] ** 2 * is_same_weekday


def _log_posterior(
    shared: tuple[Floats, NDArray[np.bool_]],
    centred: Floats,
    errors: Floats,
    part: list[float],
    scales: tuple[float, float, float],
) -> float:
    covariance = _covariance(shared, part) + np.diag(part[2] ** 2 + errors)
    _, log_determinant = np.linalg.slogdet(covariance)
    fit = centred @ np.linalg.solve(covariance, centred) + log_determinant
    prior = sum(np.log1p((s / scale) ** 2) for s, scale in zip(part, scales, strict=True))
    return -0.5 * float(fit) - float(prior)
