"""Target effects: what each value of a dimension changes for each advertiser, fitted to a log.

A value v changes four things for an advertiser: the share of its auctions, its log price level by
a shift, and its rates of clicks and of conversions per impression by factors. Each is pooled
(:mod:`coterie.ads.targets.pooled_effects`): own evidence, completed by the segments', completed by
those of all advertisers.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.ads.histograms.target_counts import StoredTargets, TargetCounts, pack_targets
from coterie.ads.targets.pooled_effects import Pooled, pool_factors, pool_shifts
from coterie.ads.targets.price_shifts import shift_likelihood
from coterie.errors import InvalidParameterError

__all__ = ["EffectsOfOne", "Market", "TargetEffects", "fit_targets"]

Floats = NDArray[np.float64]
Curves = NDArray[np.float32]
Indices = NDArray[np.int64]

#: Variance of the prior under which shifts are first looked for.
_WIDE = 0.25
_LEAST_SHARE = 1e-6
#: No effect is larger; the checks of models have the same limits.
_RANGE = (-10.0, 1e3)
_MOST_NAMED = 8

_LOG = logging.getLogger("coterie")


class Market(NamedTuple):
    """What is known of the advertisers without their targets."""

    edges: Indices  # (G,), in micros
    win: Curves  # (A, G), win curves at a common price level
    shares: Floats  # (A, K + 1), of the segments; the last is no segment in particular
    click_rate: Floats | None  # (A,), per impression; None if the log has no clicks
    conversion_rate: Floats | None


class EffectsOfOne(NamedTuple):
    """Means and standard deviations of the effects of V values on one advertiser, (2, V) each.

    The deviation of a share or factor is relative: that of its logarithm.
    """

    share: Floats
    shift: Floats
    click: Floats
    conversion: Floats

    def of(self, columns: Indices) -> EffectsOfOne:
        """Return the effects of some values."""
        return EffectsOfOne(*(part[:, columns] for part in self))


@dataclass(frozen=True)
class TargetEffects:
    """Effects of V values on A advertisers, and on new advertisers of K segments, or of none.

    Of each array, [0] are means and [1] standard deviations; those of shares and factors are
    relative to the mean.
    """

    dimensions: list[str]
    values: NDArray[np.str_]  # (V,)
    dimension: Indices  # (V,), indices into dimensions
    share: Curves  # (2, A, V), of the auctions; of each dimension they sum to 1
    shift: Curves  # (2, A, V), of the log price level
    click: Curves  # (2, A, V), factor of the click rate
    conversion: Curves  # (2, A, V), factor of the conversion rate
    segment_share: Curves  # (2, K + 1, V)
    segment_shift: Curves
    segment_click: Curves
    segment_conversion: Curves
    counts: StoredTargets | None  # to which later days are added

    def columns(self, dimension: str) -> Indices:
        """Return the indices of the values of a dimension; refuse one that is not known."""
        if dimension not in self.dimensions:
            known = ", ".join(self.dimensions)
            raise InvalidParameterError(
                f"dimension={dimension!r}: the dimensions of the model are {known}"
            )
        return np.flatnonzero(self.dimension == self.dimensions.index(dimension))

    def chosen(self, where: Mapping[str, str]) -> dict[str, int]:
        """Return, for each dimension of a choice, the place of the value among its values.

        >>> effects = TargetEffects(["device"], np.array(["phone", "tv"]), np.zeros(2, int),
        ...                         *[np.zeros((2, 1, 2), np.float32)] * 8, None)
        >>> effects.chosen({"device": "tv"})
        {'device': 1}
        """
        if not isinstance(where, Mapping):
            raise InvalidParameterError(
                f"where={where!r}: give a value for each dimension, as in "
                f"{{'{self.dimensions[0]}': '{self.values[0]}'}}"
            )
        found = {}
        for dimension, value in where.items():
            names = self.values[self.columns(dimension)].tolist()
            if str(value) not in names:
                some = ", ".join(names[:_MOST_NAMED]) + " …" * (len(names) > _MOST_NAMED)
                raise InvalidParameterError(
                    f"where: {dimension} has no value {str(value)!r}; its values are {some}"
                )
            found[dimension] = names.index(str(value))
        return found

    def of_row(self, row: int) -> EffectsOfOne:
        """Return the effects on an advertiser of the log."""
        parts: list[Any] = [self.share, self.shift, self.click, self.conversion]
        return EffectsOfOne(*(part[:, row].astype(np.float64) for part in parts))

    def of_new(self, shares: Floats) -> EffectsOfOne:
        """Return the effects on a new advertiser with shares (K + 1,) in the segments."""
        share, click, conversion = (
            _mixed_factors(shares, part)
            for part in (self.segment_share, self.segment_click, self.segment_conversion)
        )
        mean = shares @ self.segment_shift[0]
        variance = shares @ (self.segment_shift[1].astype(np.float64) ** 2)
        variance += shares @ (self.segment_shift[0] - mean) ** 2
        return EffectsOfOne(share, np.stack([mean, np.sqrt(variance)]), click, conversion)


def fit_targets(counts: TargetCounts, market: Market) -> TargetEffects:
    """Fit the effects of all values."""
    A, V = len(counts.advertisers), len(counts.values)
    K = market.shares.shape[1]
    own = {name: np.ones((2, A, V), np.float32) for name in EffectsOfOne._fields}
    new = {name: np.ones((2, K, V), np.float32) for name in EffectsOfOne._fields}
    bids, wins, clicks, conversions = (
        counts.totals(name) for name in ("bids", "wins", "clicks", "conversions")
    )
    for number, dimension in enumerate(counts.dimensions):
        _LOG.info("Fitting the effects of %s", dimension)
        columns = np.flatnonzero(counts.dimension == number)
        fitted = {
            "share": _shares(bids[:, columns], market.shares),
            "shift": _shifts(counts, market, columns),
            "click": _rates(clicks, wins, market.click_rate, columns, market.shares),
            "conversion": _rates(conversions, wins, market.conversion_rate, columns, market.shares),
        }
        for name, pooled in fitted.items():
            own[name][:, :, columns] = np.clip([pooled.mean, pooled.sd], *_RANGE)
            new[name][:, :, columns] = np.clip([pooled.segment_mean, pooled.segment_sd], *_RANGE)
    parts: dict[str, Any] = own | {f"segment_{name}": part for name, part in new.items()}
    return TargetEffects(
        dimensions=counts.dimensions,
        values=counts.values,
        dimension=counts.dimension,
        counts=pack_targets(counts),
        **parts,
    )


def _shares(bids: Floats, shares: Floats) -> Pooled:
    """Return the shares of the values of one dimension; rows sum to 1."""
    overall = bids.sum(axis=0) / max(bids.sum(), 1.0)
    total = bids.sum(axis=1, keepdims=True)
    pooled = pool_factors(bids, total * overall, shares)
    mean, of_new = (
        np.maximum(overall * part, _LEAST_SHARE) for part in (pooled.mean, pooled.segment_mean)
    )
    mean /= mean.sum(axis=1, keepdims=True)
    of_new /= of_new.sum(axis=1, keepdims=True)
    # shares sum to 1: a share near 1 is known better than its number alone says
    return pooled._replace(
        mean=mean,
        sd=pooled.sd * np.sqrt(1 - mean),
        segment_mean=of_new,
        segment_sd=pooled.segment_sd * np.sqrt(1 - of_new),
    )


def _shifts(counts: TargetCounts, market: Market, columns: Indices) -> Pooled:
    """Return the shifts of the values of one dimension.

    The likelihood is replaced by a normal one where it matters: first around its own mode, then
    around the mode under the pooled prior.
    """
    found = shift_likelihood(counts, market.win, market.edges, columns)
    shape = len(counts.advertisers), len(columns)
    row, column = found.advertiser, np.searchsorted(columns, found.value)
    mean, variance = np.zeros(len(row)), np.full(len(row), _WIDE)
    for _ in range(2):
        mode, spread = found.mode(mean, variance)
        information = np.maximum(1 / spread - 1 / variance, 0.0)
        x, h = np.zeros(shape), np.zeros(shape)
        h[row, column] = information
        x[row, column] = np.divide(
            mode / spread - mean / variance,
            information,
            out=np.zeros_like(mode),
            where=information > 0,
        )
        # an error of the curve itself moves all values of an advertiser alike
        x -= (h * x).sum(axis=1, keepdims=True) / np.maximum(h.sum(axis=1, keepdims=True), 1e-9)
        pooled = pool_shifts(x, h, market.shares)
        prior_variance = np.maximum(market.shares @ pooled.segment_sd**2, 1e-5)
        mean = (market.shares @ pooled.segment_mean)[row, column]
        variance = prior_variance[row, column]
    return pooled


def _rates(
    events: Floats, wins: Floats, rate: Floats | None, columns: Indices, shares: Floats
) -> Pooled:
    """Return the factors of a rate; 1 if the log has no such events."""
    if rate is None:
        own, new = np.ones((len(wins), len(columns))), np.ones((shares.shape[1], len(columns)))
        return Pooled(own, 0 * own, new, 0 * new, 0.0, 0.0)
    return pool_factors(events[:, columns], wins[:, columns] * rate[:, None], shares)


def _mixed_factors(shares: Floats, segments: Curves) -> Floats:
    """Return mean and relative deviation of a mixture of segments, (2, V)."""
    each, deviation = segments.astype(np.float64)
    mean = shares @ each
    variance = shares @ ((each * deviation) ** 2 + (each - mean) ** 2)
    return np.stack([mean, np.sqrt(variance) / np.maximum(mean, 1e-300)])
