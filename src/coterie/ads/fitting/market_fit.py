"""Market fit: the curves of all advertisers of some days, at a common price level.

The steps: the price level of each day, the auctions of all days at level 0, the dictionary of
curves with the segments as its groups, and the curve of each advertiser completed by its own
auctions, with the masses of prices put back (:mod:`coterie.ads.curves.price_readings`). A lasting
change of the level is a drift of prices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.auction_counts import AuctionCounts, count_auctions
from coterie.ads.curves.day_levels import DayLevels, day_weights, price_levels
from coterie.ads.curves.landscapes import evidence_of
from coterie.ads.curves.market_dictionary import MarketDictionary, fit_dictionary
from coterie.ads.curves.price_readings import censored_at_masses
from coterie.ads.curves.shrinkage import SEGMENT_STRENGTH, complete_curves, pooled_rates
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.arrays import Floats, Ints
from coterie.runtime.wording import percent

Curves = NDArray[np.float32]

#: Prices drift if their log level changes by more than this and this many standard errors.
_LEAST_CHANGE, _LEAST_ERRORS = 0.1, 4.0
#: Variance of ε, the error of shape: in simulated markets 0.01 to 0.025.
_SHAPE = 0.015
#: A share has no larger deviation.
_MOST_SPREAD = 0.5


@dataclass(frozen=True)
class MarketFit:
    """A dictionary fitted to some days, and what it says of each advertiser."""

    histograms: BidHistograms
    days: list[int]
    levels: DayLevels  # of prices
    segments: Ints  # (A,), −1 for none
    dictionary: MarketDictionary
    counts: AuctionCounts  # at level 0, days weighted by age
    half_life: float
    mass_shares: Floats  # (K + 1, M), h of each segment, and of all; see price_readings

    def with_half_life(self, half_life: float) -> MarketFit:
        """Return the curves by the same atoms, with days weighted by their age."""
        counts = _counts(self.histograms, self.days, self.levels, half_life)
        return replace(self, counts=counts, half_life=half_life)

    def of_others(self, histograms: BidHistograms, segments: Ints) -> MarketFit:
        """Return what the same dictionary says of other advertisers, on the same days."""
        counts = _counts(histograms, self.days, self.levels, self.half_life)
        return replace(self, histograms=histograms, segments=segments, counts=counts)

    @cached_property
    def prior(self) -> tuple[Floats, Floats]:
        """Mean and variance of the curves under the dictionary's posterior, (A, G + 1) each."""
        parents = self.histograms.parents
        return self.dictionary.curves(
            self.dictionary.posterior(self.counts, self.segments, parents)
        )

    def curves(self, strength: float) -> tuple[Curves, Curves]:
        """Return W at the upper edges of the bins and its standard deviation, (A, G) each."""
        win, variance = complete_curves(self.counts, *self.prior, strength)
        self._put_masses_back(win, variance, *self._own_mass_shares)
        return win.astype(np.float32), np.sqrt(variance).astype(np.float32)

    def segment_curves(self) -> tuple[Floats, Floats]:
        """Return W of a new advertiser of each segment or any, and its deviation, (K + 1, G)."""
        mean, variance = (part[:, 1:] for part in self.dictionary.curves(self.dictionary.weights))
        self._put_masses_back(mean, variance, self.mass_shares, np.zeros_like(self.mass_shares))
        return mean, np.sqrt(variance)

    @cached_property
    def _own_mass_shares(self) -> tuple[Floats, Floats]:
        """h of each mass and advertiser, and its variance, (A, M) each."""
        at, among = _mass_counts(self.histograms, self.days)
        shares = pooled_rates(at, among, self.mass_shares[self.segments], SEGMENT_STRENGTH)
        return shares, shares * (1.0 - shares) / (among + SEGMENT_STRENGTH + 1.0)

    def _put_masses_back(
        self, win: Floats, variance: Floats, shares: Floats, of_shares: Floats
    ) -> None:
        for k, g in enumerate(_mass_bins(self.histograms).tolist()):
            stays, left = 1.0 - shares[:, k : k + 1], 1.0 - win[:, g:]
            variance[:, g:] = variance[:, g:] * stays**2 + left**2 * of_shares[:, k : k + 1]
            win[:, g:] = 1.0 - left * stays


def fit_market(
    histograms: BidHistograms,
    days: list[int],
    segments: Ints,
    n_segments: int,
    *,
    half_life: float = np.inf,
) -> MarketFit:
    """Fit the dictionary to some days; ``segments`` (A,) are the groups of its prior, −1: none."""
    levels = price_levels(censored_at_masses(histograms), days)
    counts = _counts(histograms, days, levels, half_life)
    dictionary = fit_dictionary(counts, segments, n_segments)
    groups = np.eye(n_segments + 1)[segments]
    groups[:, -1] = 1.0
    at, among = (groups.T @ part for part in _mass_counts(histograms, days))
    of_all = at[-1] / np.maximum(among[-1], 1.0)
    shares = pooled_rates(at, among, of_all, SEGMENT_STRENGTH)
    return MarketFit(histograms, days, levels, segments, dictionary, counts, half_life, shares)


@dataclass(frozen=True)
class Widening:
    """By how much the deviations of curves are widened.

    The variance of a curve becomes κ² times as large. Added are those of an advertiser's own log
    price level and of the shape of its curve, which moves it by ε·d² at a bid d away from the mean
    bid, in logarithms. Bids around the mean pin level and slope there, so no backtest shows ε. A
    price that is revealed pins the shape, too: those paid below the mean bid, all if it is the
    minimum to win.
    """

    curve: float = 1.0  # κ²
    level: float = 0.0

    def of(self, win: Curves, spread: Curves, histograms: BidHistograms, bid: Floats) -> Curves:
        """Return the widened deviations of curves (A, G) of advertisers with mean bids (A,)."""
        edges, place = histograms.edges, np.log(histograms.edges)
        far = np.nan_to_num(place - np.log(np.where(bid > 0, bid, np.nan))[:, None])
        least = {"none": -np.inf, "paid": 0.0, "minimum": np.inf}[histograms.revealed]
        shape = np.where(far > least, _SHAPE * far**4, 0.0)
        variance = self.curve * spread**2
        # no level moves a mass: curves without their jumps, and without the bins of these
        at, smooth = _mass_bins(histograms), win.copy()
        for g in at.tolist():
            smooth[:, g:] -= win[:, g : g + 1] - win[:, g - 1 : g]
        kept = np.delete(np.arange(len(edges)), at - 1)
        if len(kept) > 1:
            slope = np.gradient(smooth[:, kept], place[kept], axis=1)
            slope = slope[:, np.searchsorted(kept, np.arange(len(edges)))]
            variance += (self.level + shape) * slope**2
        return np.minimum(np.sqrt(variance), _MOST_SPREAD).astype(np.float32)


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

    >>> from coterie.ads.curves.day_levels import fit_levels
    >>> days = np.datetime64("2026-03-02") + np.arange(14)
    >>> change = price_drift(fit_levels(days, np.where(np.arange(14) < 10, 0, 0.26), [1e-5] * 14))
    >>> change.since, round(change.change, 2)
    ('2026-03-12', 0.3)
    """
    values, best, largest = levels.values, None, _LEAST_ERRORS
    for day in range(2, len(values) - 1):
        before, after = values[:day], values[day:]
        difference = float(after.mean() - before.mean())
        spread = np.concatenate([before - before.mean(), after - after.mean()])
        error = np.sqrt((spread**2).mean() * (1 / len(before) + 1 / len(after)) + 1e-8)
        if abs(difference) > _LEAST_CHANGE and abs(difference) / error > largest:
            largest = abs(difference) / error
            best = PriceDrift(str(levels.days[day]), float(np.expm1(difference)))
    return best


def _counts(
    histograms: BidHistograms, days: list[int], levels: DayLevels, half_life: float
) -> AuctionCounts:
    # only the last days have a level; older ones are taken as the oldest of them
    shifts = np.concatenate(
        [np.repeat(levels.values[:1], len(days) - len(levels.values)), levels.values]
    )
    weights = day_weights(histograms.days[days], half_life)
    return count_auctions(censored_at_masses(histograms), days, weights=weights, shifts=shifts)


def _mass_bins(histograms: BidHistograms) -> Ints:
    return np.searchsorted(histograms.edges, histograms.masses)


def _mass_counts(histograms: BidHistograms, days: list[int]) -> tuple[Floats, Floats]:
    """Return the auctions of each advertiser at each mass, and those not below it, (A, M)."""
    if not len(histograms.masses):
        return (np.zeros((len(histograms.advertisers), 0)),) * 2
    evidence, bins = evidence_of(histograms, days), _mass_bins(histograms)
    return evidence.successes[:, bins], evidence.trials[:, bins]
