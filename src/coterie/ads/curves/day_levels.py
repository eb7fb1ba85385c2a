"""Day levels: how prices, or supply, move from day to day for all advertisers alike.

The log level y_d of a day d, of prices or of supply, is modelled as

    y_d = walk_d + weekday_w(d) + kind_k(d) + day_d + error_d

with a random walk (standard deviation s_walk per day), a constant effect of each weekday (s_week)
and of the weekend and the other days (s_kind), independent daily noise (s_day), and the known error
of measurement. Sunday is therefore expected to be like Saturday where the log has no Sunday. All
parts are normal, so the level of any later day has a normal distribution given the days of the
log. A weekday that the log does not have adds the variance of weekdays; a day further ahead adds
more of the walk.

The four standard deviations are not known. Forecasts are averages over a grid of them, weighted by
their likelihood and half-Cauchy priors. A week or less hardly separates weekdays, walk and noise,
and the average stays between them.

The level τ_d of prices is measured as a shift of log price: on day d, advertiser a wins at a bid b
with probability F_a(b·e^{−τ_d}). With F_a from all days, τ_d maximises the likelihood of the day's
auctions. Counts are then moved by −τ_d, the curves are fitted again, and the levels once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coterie.ads.curves.auction_counts import bids_per_weight, count_auctions, log_edges
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.arrays import Bools, Floats, Ints

Days = NDArray[np.datetime64]
#: Advertiser, day and bin of each cell.
Places = tuple[Ints, Ints, Ints]

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
#: Only the last days matter, and the work grows with their cube.
_MOST_DAYS = 84
_START_VARIANCE = 4.0
#: Variance below which no level is known.
_LEAST_VARIANCE = 1e-7
_SATURDAY = 5
#: The grid of each standard deviation, in units of its prior's.
_FACTORS = np.array([0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 16.0])
#: The grid of that of kinds of days, whose prior is that of weekdays.
_KIND_FACTORS = np.array([0.1, 1.0, 2.0, 4.0])
#: Grid points with a smaller probability, as a share of the largest, are left out.
_LEAST_WEIGHT = 0.02

#: Shifts that are tried in each round, around the level found before: first far, then near.
_STEPS = (np.linspace(-0.36, 0.36, 7), np.array([-0.06, 0.0, 0.06]), np.array([-0.03, 0.0, 0.03]))
#: The same for the own levels of advertisers, and the variance of their prior: it decides only for
#: advertisers with hardly any auctions.
_OWN_STEPS = (
    np.linspace(-1.2, 1.2, 9),
    np.linspace(-0.3, 0.3, 5),
    np.array([-0.06, 0.0, 0.06]),
    np.array([-0.03, 0.0, 0.03]),
)
_OWN_VARIANCE = 0.25
_TINY = 1e-7
#: Largest variance of a measured level, for a day with hardly any auctions.
_MOST_VARIANCE = 0.25


@dataclass(frozen=True)
class DayLevels:
    """Levels of the days of a log, and which standard deviations of the parts are likely.

    ``values`` (D,) are measured log levels with variances ``errors`` (D,). ``parts`` (M, 4) are the
    standard deviations of walk, weekdays, daily noise and kinds of days, with probabilities
    ``weights`` (M,).
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
    def has_weekday(self) -> Bools:
        """Whether each weekday from Monday is among the days of the log, (7,)."""
        return np.bincount(weekday_of(self.days), minlength=7) > 0

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

    Days (D,) are in order; ``scales`` are those of the half-Cauchy priors. In four weeks in which
    Sundays are lower:

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
    priors = *scales, scales[1]
    factors = _FACTORS, _FACTORS, _FACTORS, _KIND_FACTORS
    grid = np.array(list(product(*(s * f for s, f in zip(priors, factors, strict=True)))))
    shared = _shared(found, found, found[0])
    centred = level - level.mean()
    score = np.empty(len(grid))
    for i, part in enumerate(grid.tolist()):
        covariance = _covariance(shared, part) + np.diag(part[2] ** 2 + error)
        _, log_determinant = np.linalg.slogdet(covariance)
        fit = centred @ np.linalg.solve(covariance, centred) + log_determinant
        prior = sum(np.log1p((s / scale) ** 2) for s, scale in zip(part, priors, strict=True))
        score[i] = -0.5 * float(fit) - float(prior)
    weights = np.exp(score - score.max())
    likely = weights > _LEAST_WEIGHT
    return DayLevels(found, level, error, grid[likely], weights[likely] / weights[likely].sum())


def weekday_of(days: ArrayLike) -> Ints:
    """Return the weekday of each day, 0 for Monday … 6 for Sunday.

    >>> weekday_of(["2026-03-02", "2026-03-08"]).tolist()
    [0, 6]
    """
    # day 0 of numpy's calendar, 1970-01-01, was a Thursday
    return (np.asarray(days, dtype="datetime64[D]").astype(np.int64) + 3) % 7


def day_weights(days: ArrayLike, half_life: float) -> Floats:
    """Return 2^(−age / half_life) of each day; the last day, and an infinite half-life, give 1.

    >>> day_weights(np.array(["2026-03-02", "2026-03-04"], "datetime64[D]"), 2.0).tolist()
    [0.5, 1.0]
    """
    numbers = np.asarray(days, dtype="datetime64[D]").astype(np.int64)
    age = numbers.max(initial=0) - numbers
    return np.asarray(0.5 ** (age / half_life), dtype=np.float64)


def _shared(first: Days, second: Days, start: np.datetime64) -> tuple[Floats, Bools, Bools]:
    """Return what two lists of days share: the days of the walk, the weekday and its kind."""
    a, b = ((days - start).astype(np.float64) for days in (first, second))
    # before the first day of the log the walk goes the other way
    is_same_side = np.sign(a)[:, None] == np.sign(b)[None, :]
    walked = is_same_side * np.minimum(np.abs(a)[:, None], np.abs(b)[None, :])
    one, other = weekday_of(first)[:, None], weekday_of(second)[None, :]
    return walked, one == other, (one >= _SATURDAY) == (other >= _SATURDAY)


def _covariance(shared: tuple[Floats, Bools, Bools], part: list[float]) -> Floats:
    """Return the covariance of walk and weekday effects between two lists of days."""
    (walked, is_same_weekday, is_same_kind), (walk, week, _, kind) = shared, part
    effects = week**2 * is_same_weekday + kind**2 * is_same_kind
    return _START_VARIANCE + walk**2 * walked + effects


def price_levels(histograms: BidHistograms, days: Sequence[int]) -> DayLevels:
    """Estimate the price level of each of some days, relative to their mean."""
    days = list(days)
    return fit_levels(histograms.days[days], *measured_levels(histograms, days))


def measured_levels(histograms: BidHistograms, days: Sequence[int]) -> tuple[Floats, Floats]:
    """Measure the price level of each of D days, relative to their mean: levels and variances."""
    days, scale, x = list(days), bids_per_weight(histograms), log_edges(histograms.edges)

    def places_at(shift: float) -> Callable[[Places, int], Floats]:
        places = np.interp(x - shift, x, np.arange(len(x)))
        return lambda at, side: places[at[2] + side]

    levels, errors = np.zeros(len(days)), np.full(len(days), _MOST_VARIANCE)
    for steps in _STEPS if len(days) > 1 else ():
        curves = level_curves(histograms, days, levels)
        for place, day in enumerate(days):
            cells = _cells_of_days(histograms, scale, [day])
            tried, scores = levels[place] + steps, []
            for shift in tried:
                terms = _terms(cells, curves, places_at(shift))
                scores.append(sum(number @ log for _, number, log in terms))
            found, [variance] = _highest(tried, np.array(scores)[:, None], 2)
            levels[place], errors[place] = found[0], min(variance, _MOST_VARIANCE)
        levels = levels - np.average(levels, weights=1.0 / errors)
    return levels, errors


def level_curves(histograms: BidHistograms, days: Sequence[int], levels: Floats) -> Floats:
    """Return F of each advertiser at level 0, (A, G + 1), at the edges of ``log_edges``."""
    # imported here because it is slow and forecasts do not need it
    from coterie.ads.curves.market_dictionary import general_posterior

    atoms, _, posterior = general_posterior(count_auctions(histograms, days, shifts=levels), 0)
    return np.asarray(posterior @ atoms)


def own_levels(
    histograms: BidHistograms, curves: Floats, common: Floats, days: Ints
) -> tuple[Floats, Floats, Floats]:
    """Estimate each advertiser's own price level in the period of some of the D days of a log.

    On day d advertiser a wins at a bid b with probability F_a(b·e^{−τ_d−s_a}), with ``curves``
    F (A, G + 1) and ``common`` levels τ (D,). s_a maximises the likelihood L of the advertiser's
    auctions in the period, with a wide normal prior around 0. Return s (A,), its information
    −d²L/ds² with that of the prior (A,), and dL/ds of the auctions of each day at s, (A, days).
    """
    A, D, x = len(curves), len(common), log_edges(histograms.edges)
    cells = _cells_of_days(histograms, bids_per_weight(histograms), days)

    def scores(own: Floats) -> Floats:
        """Return the log-likelihoods (A, days) at own levels (A,)."""

        def places(at: Places, side: int) -> Floats:
            row, day, bins = at
            return np.interp(x[bins + side] - common[day] - own[row], x, np.arange(len(x)))

        total = np.zeros(A * D)
        for (row, day, _), number, log in _terms(cells, curves, places):
            total += np.bincount(row * D + day, number * log, A * D)
        return total.reshape(A, D)[:, days]

    level = np.zeros(A)
    for steps in _OWN_STEPS:
        tried = [level + step for step in steps]
        found = np.stack([scores(s).sum(axis=1) - s**2 / (2 * _OWN_VARIANCE) for s in tried])
        level = level + _highest(steps, found, 1)[0]
    below, here, above = (scores(level + step) for step in _OWN_STEPS[-1])
    width = _OWN_STEPS[-1][-1]
    bend = (2 * here - below - above).sum(axis=1) / width**2
    return level, np.maximum(bend, 0.0) + 1 / _OWN_VARIANCE, (above - below) / 2 / width


class _Cells(NamedTuple):
    """Auctions by cell: won and lost by bin of the bid, revealed by that of the price.

    The kinds are those of :mod:`~coterie.ads.curves.auction_counts`.
    """

    bids: Places
    won: Floats | None  # None where prices are revealed
    lost: Floats
    prices: Places
    revealed: Floats


def _cells_of_days(histograms: BidHistograms, scale: Floats, days: Sequence[int] | Ints) -> _Cells:
    """Return the auctions of some days; ``scale`` (A,) is that of ``bids_per_weight``."""
    cells, prices = histograms.bids, histograms.prices
    chosen = np.isin(np.arange(len(histograms.days)), days)
    bids, priced = chosen[cells.day], chosen[prices.day]
    bid_at = cells.advertiser[bids], cells.day[bids], cells.bin[bids]
    price_at = prices.advertiser[priced], prices.day[priced], prices.bin[priced]
    wins, number = cells.wins[bids] * scale[bid_at[0]], prices.count[priced] * scale[price_at[0]]
    lost = cells.count[bids] * scale[bid_at[0]] - wins
    lost = lost if histograms.revealed != "minimum" else np.zeros_like(wins)
    won = wins if histograms.revealed == "none" else None
    return _Cells(bid_at, won, lost, price_at, number)


def _terms(
    cells: _Cells, curves: Floats, places: Callable[[Places, int], Floats]
) -> list[tuple[Places, Floats, Floats]]:
    """Return cells, numbers and log probabilities of auctions of each kind, under moved curves.

    ``places`` says where the lower (0) and upper (1) edges of cells are on the curves (A, G + 1) of
    level 0, as fractional numbers of edges.
    """

    def at_edges(at: Places) -> tuple[Floats, Floats]:
        """Return the curves at the lower and the upper edge of each cell."""
        found = []
        for side in (0, 1):
            place = places(at, side)
            below = np.minimum(place.astype(np.int64), curves.shape[1] - 2)
            part = place - below
            found.append(curves[at[0], below] * (1 - part) + curves[at[0], below + 1] * part)
        return found[0], found[1]

    lower, upper = at_edges(cells.bids)
    middle = np.clip((lower + upper) / 2, _TINY, 1 - _TINY)
    lost = cells.bids, cells.lost, np.log1p(-middle)
    if cells.won is not None:
        return [lost, (cells.bids, cells.won, np.log(middle))]
    lower, upper = at_edges(cells.prices)
    return [lost, (cells.prices, cells.revealed, np.log(np.maximum(upper - lower, _TINY)))]


def _highest(steps: Floats, scores: Floats, reach: int) -> tuple[Floats, Floats]:
    """Return where a parabola through the best step and its neighbours is highest, and 1/bend.

    ``scores`` are (S, …) at S equal steps. The parabola is followed for ``reach`` steps; where it
    does not bend down, the best step is returned, and infinity.
    """
    best = np.clip(scores.argmax(axis=0), 1, len(steps) - 2)
    left, top, right = (
        np.take_along_axis(scores, (best + side)[None], axis=0)[0] for side in (-1, 0, 1)
    )
    width, bend = steps[1] - steps[0], 2 * top - left - right
    is_bent = bend > 0
    move = np.divide(width / 2 * (right - left), bend, out=np.zeros_like(bend), where=is_bent)
    variance = np.divide(width**2, bend, out=np.full_like(bend, np.inf), where=is_bent)
    return steps[best] + np.clip(move, -reach * width, reach * width), variance
