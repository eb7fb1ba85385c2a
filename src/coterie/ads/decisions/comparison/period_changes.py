"""Period changes: whether a quantity of each advertiser changed between two periods, or is noise.

A quantity θ is a logarithm: of a number per day, of a rate, of a price level. In a period its
estimate is the mean of the days with weights K_d, and the deviation of a day, R_d = K_d (θ_d − θ),
has the variance

    v·K_d + τ²·K_d²

by chance (v per unit of weight) and by variation from day to day (τ², common to all advertisers).
Both are estimated. The variances of one advertiser may still be larger than that by a factor c,
whose distribution over advertisers decides how heavy the tails of the test are: the estimate of
c is drawn to 1 by d₀ degrees of freedom (a moderated t statistic; Smyth 2004, Linear models and
empirical Bayes methods). A change that days have in common, such as a day with more traffic,
adds the variation of these common effects to the error of every advertiser.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.day_levels import weekday_of
from coterie.ads.decisions.comparison.compared_days import same_weekdays

__all__ = [
    "Changes",
    "DayVariation",
    "PeriodEstimate",
    "changes_between",
    "day_variation",
    "discoveries",
    "p_values",
    "typical_change",
]

Floats = NDArray[np.float64]
Days = NDArray[np.datetime64]

#: Number of days that the assumed variation between days counts as.
_ASSUMED_DAYS = 3.0
#: Advertisers with fewer chance events per day say nothing about the tails.
_FEWEST_EVENTS = 5.0
_HUBER, _SKEW, _HUBER_ROUNDS = 1.5, 4.0, 20


class PeriodEstimate(NamedTuple):
    """A quantity of A advertisers in a period of D days; see the symbols above."""

    value: Floats  # (A,), θ
    unit: Floats  # (A,), v
    weight: Floats  # (A, D), K
    residual: Floats  # (A, D), R, without effects common to all advertisers


class DayVariation(NamedTuple):
    """Variance of a change of effects common to all advertisers, and its degrees of freedom."""

    variance: float
    freedom: float


class Changes(NamedTuple):
    """Changes Δθ of A advertisers, (A,) each."""

    change: Floats
    own_variance: Floats  # without the variation of days common to all advertisers
    day_variance: Floats  # the part of it that is variation from day to day
    own_freedom: float
    variance: Floats
    freedom: Floats


def changes_between(
    before: PeriodEstimate, after: PeriodEstimate, days: DayVariation, assumed_variation: float
) -> Changes:
    """Return the changes from one period to another, with their variances.

    ``assumed_variation`` is τ² before any day is seen.
    """
    sides = (before, after)
    freedom = sum(side.weight.shape[1] - 1 for side in sides)
    tau2, effective = _variation(sides, freedom, assumed_variation)
    excess, prior_freedom = _excess(sides, freedom, tau2, effective)
    by_day = tau2 * (_day_share(before) + _day_share(after))
    own = (by_day + _chance(before) + _chance(after)) * excess
    own_freedom = prior_freedom + freedom
    total = own + days.variance
    # Satterthwaite's degrees of freedom of a sum of two estimated variances
    denominator = own**2 / own_freedom + days.variance**2 / days.freedom
    joint = np.divide(total**2, denominator, out=np.full(len(own), np.inf), where=denominator > 0)
    return Changes(after.value - before.value, own, by_day, own_freedom, total, joint)


def day_variation(
    effects: Sequence[Floats],
    errors: Sequence[Floats],
    dates: Sequence[Days],
    assumed: tuple[float, float],
) -> DayVariation:
    """Estimate the variance of the mean common effect of one period minus that of the other.

    Parameters
    ----------
    effects, errors : two (D,) arrays
        Log effects of the days of each period, and the variances of their measurement.
    dates : two (D,) datetime64 arrays
        Weekdays are only noise if the periods do not have the same ones.
    assumed : (weekdays, days)
        Standard deviations that are assumed before any day is seen.
    """
    balanced = same_weekdays(dates[0], dates[1])
    residual = np.concatenate([effect - effect.mean() for effect in effects])
    freedom = len(residual) - 2.0
    prior = assumed[1] ** 2 if balanced else assumed[0] ** 2 + assumed[1] ** 2
    if balanced:
        of_weekday = np.eye(7)[weekday_of(np.concatenate(dates))]
        number = of_weekday.sum(axis=0)
        residual = residual - of_weekday @ ((residual @ of_weekday) / np.maximum(number, 1))
        freedom = max(freedom - (np.count_nonzero(number) - 1), 0.0)
    total = _ASSUMED_DAYS + freedom
    square = (_ASSUMED_DAYS * prior + float(residual @ residual)) / total
    # errors of measurement are in the residuals, but not in the days themselves
    least = _ASSUMED_DAYS * prior / total
    square = max(square - float(np.concatenate(errors).mean()) * freedom / total, least)
    return DayVariation(square * sum(1.0 / len(effect) for effect in effects), total)


def typical_change(change: Floats, variance: Floats) -> tuple[float, float]:
    """Return the change of a typical advertiser and its variance: Huber's robust mean.

    The weights are the inverse of variance and heterogeneity together. An infinite variance is
    that of an advertiser that says nothing.

    Examples
    --------
    One advertiser that doubles does not move the market.

    >>> found, _ = typical_change(np.array([0.0, 0.01, -0.01, 0.0, 0.7]), np.full(5, 1e-4))
    >>> abs(found) < 0.01
    True
    """
    known = np.isfinite(variance)
    change, variance = change[known], variance[known]
    if not len(change):
        return 0.0, 0.0
    # the half that knows most says how unlike the advertisers are
    informed = variance <= np.median(variance)
    middle = float(np.median(change[informed]))
    spread = (1.4826 * float(np.median(np.abs(change[informed] - middle)))) ** 2
    scale2 = np.maximum(variance + max(spread - float(variance[informed].mean()), 0.0), 1e-12)
    weight = 1.0 / scale2
    # changes of small numbers are skewed: cutting off one side of them would be a bias
    furthest = (_HUBER + _SKEW * np.sqrt(variance)) * np.sqrt(scale2)
    for _ in range(_HUBER_ROUNDS):
        use = weight * np.minimum(1.0, furthest / np.maximum(np.abs(change - middle), 1e-12))
        middle = float(use @ change / use.sum())
    bounded = use**2 @ (change - middle) ** 2 / use.sum() ** 2
    return middle, float(max(bounded, 1.0 / weight.sum()))


def p_values(change: Floats, variance: Floats, freedom: Floats | float) -> Floats:
    """Return two-sided p-values of Student's t statistics, (A,); 1 for a variance of 0."""
    from scipy.stats import t

    error = np.sqrt(variance)
    z = np.divide(np.abs(change), error, out=np.zeros_like(error), where=error != 0)
    # beyond a million degrees of freedom it is the normal distribution, which scipy cannot say
    return np.asarray(2.0 * t.sf(z, np.minimum(freedom, 1e6)))


def discoveries(p: Floats, rate: float) -> NDArray[np.bool_]:
    """Return which hypotheses Benjamini and Hochberg reject at a false discovery rate.

    NaN is no hypothesis.

    Examples
    --------
    >>> discoveries(np.array([0.001, 0.04, np.nan, 0.9]), 0.1).tolist()
    [True, True, False, False]
    """
    from scipy.stats import false_discovery_control

    is_rejected = np.zeros(len(p), dtype=bool)
    tested = ~np.isnan(p)
    if tested.any():
        is_rejected[tested] = false_discovery_control(p[tested]) <= rate
    return is_rejected


def _chance(side: PeriodEstimate) -> Floats:
    """Return the variance of the estimate of a period by chance, (A,)."""
    return side.unit / np.maximum(side.weight.sum(axis=1), 1e-300)


def _day_share(side: PeriodEstimate) -> Floats:
    """Return Σ K² / (Σ K)² of a period, (A,): how much variation from day to day averages out."""
    total = np.maximum(side.weight.sum(axis=1), 1e-300)
    return np.asarray((side.weight**2).sum(axis=1) / total**2)


def _variation(
    sides: tuple[PeriodEstimate, ...], freedom: int, assumed: float
) -> tuple[float, float]:
    """Return τ² and the effective number of degrees of freedom it was estimated with."""
    square, chance, size, expected = (np.zeros(len(sides[0].value)) for _ in range(4))
    for side in sides:
        n = side.weight.shape[1]
        if n < 2:
            continue
        by_chance = side.unit * side.weight.sum(axis=1)
        square += (side.residual**2).sum(axis=1) * n / (n - 1)
        chance += by_chance
        size += (side.weight**2).sum(axis=1)
        expected += by_chance + assumed * (side.weight**2).sum(axis=1)
    known = size > 0
    if not known.any():
        return assumed, _ASSUMED_DAYS
    own = (square[known] - chance[known]) / size[known]
    # small numbers say little: their share of variation in the variance is small
    trust = freedom * (assumed * size[known] / expected[known]) ** 2
    used = own <= np.quantile(own, 0.98)
    total = float(trust[used].sum())
    weighted = max(float(trust[used] @ own[used]), 0.0)
    tau2 = (weighted + _ASSUMED_DAYS * assumed) / (total + _ASSUMED_DAYS)
    return tau2, total + _ASSUMED_DAYS


def _excess(
    sides: tuple[PeriodEstimate, ...], freedom: int, tau2: float, effective: float
) -> tuple[Floats, float]:
    """Return the factor c of each advertiser's variances, (A,), and d₀."""
    n = len(sides[0].value)
    if freedom < 1:
        return np.ones(n), effective
    ratio, events = np.zeros(n), np.full(n, np.inf)
    for side in sides:
        variance = side.unit[:, None] * side.weight + tau2 * side.weight**2
        ratio += np.divide(
            side.residual**2, variance, out=np.zeros_like(variance), where=variance > 0
        ).sum(axis=1)
        mean = side.weight.mean(axis=1)
        events = np.minimum(
            events, np.divide(mean, side.unit, out=np.full(n, np.inf), where=side.unit > 0)
        )
    ratio /= freedom
    known = ratio[events >= _FEWEST_EVENTS]
    prior = np.inf
    if len(known) > 1:
        # the variance of F-distributed ratios of mean 1, solved for d₀
        spread = float(known.var(ddof=1)) * freedom
        prior = (4 * spread + 2 * freedom - 4) / (spread - 2) if spread > 2 else np.inf
    prior = min(max(prior, 4.0), effective)
    return (prior + freedom * ratio) / (prior + freedom), prior
