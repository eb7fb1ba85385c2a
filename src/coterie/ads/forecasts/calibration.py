"""Calibration: how wide intervals must be, by how forecasts of earlier days came out.

A forecast states a mean and a standard deviation of impressions, spend, clicks and conversions.
The standardised errors r = (actual − mean) / sd of the backtest show what the deviations leave
out. The factors z of the ends of an interval of level L are the quantiles of −r and r at
(1 + L)/2, among forecasts of similar size, but at least the normal ones. A small sample is
completed by normal quantiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from coterie.ads.forecasts.kernels import SIZES
from coterie.arrays import Floats

#: Factors z, the probability beyond each end, and its normal quantile.
IntervalFactors = tuple[Floats, float, float]

#: The levels of intervals that are offered.
LEVELS = (0.5, 0.8, 0.9, 0.95)
TARGETS = ("impressions", "spend", "clicks", "conversions")
#: So many normal errors complete each sample.
_NORMAL_ERRORS = 30
#: Width, in powers of ten of the mean, of the window of forecasts of similar size.
_WINDOW = 1.0
_MOST_FACTOR = 12.0
#: Intervals that are so many times wider than stated deviations ask for a warning.
_SUSPICIOUS = 2.0


@dataclass(frozen=True)
class Calibration:
    """Factors z, (4 levels, 2 modes, 4 targets, 2 sides, 3 sizes); see the kernels."""

    factors: Floats
    forecasts: int  # number of forecasts that were compared

    def interval_factors(self, level: float) -> IntervalFactors:
        """Return what the kernels need for intervals of one level; its factors are (2, 4, 2, 3)."""
        factors = np.ascontiguousarray(self.factors[LEVELS.index(level)])
        tail = (1.0 - level) / 2
        return factors, tail, float(-ndtri(tail))

    @property
    def inflation(self) -> float:
        """By how much intervals of impressions with given supply were widened at most, at 90%."""
        return float(self.factors[LEVELS.index(0.9), 0, 0].mean(axis=0).max() / ndtri(0.95))

    @property
    def is_suspicious(self) -> bool:
        """Whether errors were so much larger than expected that the model may not fit."""
        return self.inflation > _SUSPICIOUS


def calibrate(errors: Sequence[tuple[Floats, Floats]]) -> Calibration:
    """Return the factors for standardised errors.

    For each mode and target, mode by mode, ``errors`` has the (N,) means that decide the size of a
    forecast, and the (N,) errors. Without any, the factors are normal. Errors three times
    as large as stated give three times the factors:

    >>> wide = 3 * ndtri((np.arange(4000) + 0.5) / 4000)
    >>> found = calibrate([(np.full(4000, 30.0), wide)] * 8)
    >>> found.interval_factors(0.9)[0][0, 0, 1, 1].round(1), found.is_suspicious
    (np.float64(4.9), True)
    """
    factors = np.empty((len(LEVELS), 2, len(TARGETS), 2, len(SIZES)))
    errors = errors or [(np.zeros(0), np.zeros(0))] * 8
    upper = (1 + np.array(LEVELS)) / 2
    normal, few = ndtri(upper), ndtri((np.arange(_NORMAL_ERRORS) + 0.5) / _NORMAL_ERRORS)
    for place, (means, error) in enumerate(errors):
        mode, target = divmod(place, len(TARGETS))
        size = np.log10(np.maximum(means, 1e-9))
        for s, centre in enumerate(SIZES):
            # smaller and larger forecasts count with the nearest size
            near = np.clip(size, SIZES[0], SIZES[-1])
            sample = error[np.abs(near - centre) <= _WINDOW / 2]
            if s > 0:
                # a common error of a day moves all of them to one side; the next may move back
                sample = np.concatenate([sample, -sample])
            if s == 0 and TARGETS[target] != "spend":
                # quantiles of small counts are steps: the root mean square of all errors but the
                # largest 2% says how wide they are
                squares = np.sort(sample**2)[: int(0.98 * len(sample))]
                mean = (squares.sum() + _NORMAL_ERRORS) / (len(squares) + _NORMAL_ERRORS)
                ends = np.stack([normal * min(np.sqrt(mean), 3.0)] * 2)
            else:
                ends = np.quantile(np.concatenate([sample, few]), [1 - upper, upper]) * [[-1], [1]]
            # chance alone needs normal factors, even if deviations of curves were too wide
            factors[:, mode, target, :, s] = np.clip(ends, normal, _MOST_FACTOR).T
    n = max(len(error) for _, error in errors)
    return Calibration(factors, n)
