"""Daily measures: numbers per day, rates and means of each advertiser in two periods.

Each is a ratio Σx / Σy over the days of a period: bids per day, wins per bid, cost per win. Its
variance by chance per unit of y, relative to the square of the ratio r, is q/r for counts,
q·(1 − r)/r for shares, and q·cv² for means of amounts with coefficient of variation cv. q = Σw² /
Σw is 1 unless bids are weighted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.ads.decisions.comparison.period_changes import PeriodEstimate
from coterie.ads.histograms.bid_histograms import BidHistograms

__all__ = ["Measure", "day_effects", "measures_of", "period_estimate", "unbiased_changes"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: Relative variance of the amounts within a bin of the price grid, which is 2.4% wide.
_WITHIN_BIN = (0.024**2) / 12
#: Relative variance of an advertiser's days beyond chance, for the weights of advertisers.
_TYPICAL_VARIATION = 0.05


@dataclass(frozen=True)
class Measure:
    """A ratio x/y of A advertisers on D days."""

    kind: str  # "count", "share" or "mean"
    amount: Floats  # (A, D), x
    base: Floats  # (A, D), y
    weight: Floats  # (A,), q
    dispersion: Floats  # (A,), cv² of means, otherwise 0

    def sums(self, days: Indices) -> tuple[Floats, Floats]:
        """Return Σx and Σy over some days, (A,) each."""
        return self.amount[:, days].sum(axis=1), self.base[:, days].sum(axis=1)

    def ratio(self, days: Indices) -> Floats:
        """Return Σx / Σy over some days, (A,); NaN where Σy = 0."""
        amount, base = self.sums(days)
        return np.divide(amount, base, out=np.full(len(base), np.nan), where=base > 0)

    def of(self, rows: Indices) -> Measure:
        """Return the measure of some advertisers."""
        arrays = (self.amount, self.base, self.weight, self.dispersion)
        return Measure(self.kind, *(array[rows] for array in arrays))


def measures_of(histograms: BidHistograms) -> dict[str, Measure]:
    """Return the measures that a log has, by name; amounts in micros per thousand impressions."""
    count, square, bid, wins, cost, clicks = (
        histograms.daily(name) for name in ("count", "square", "bid", "wins", "cost", "clicks")
    )
    total = count.sum(axis=1)
    q = np.divide(square.sum(axis=1), total, out=np.ones(len(total)), where=total > 0)
    each, none = np.ones_like(count), np.zeros(len(total))
    measures = {
        "impressions": Measure("count", wins, each, q, none),
        "supply": Measure("count", count, each, q, none),
        "win_rate": Measure("share", wins, count, q, none),
        "mean_bid": Measure("mean", bid, count, q, _bid_dispersion(histograms)),
        "ecpm": Measure("mean", cost, wins, q, _price_dispersion(histograms)),
    }
    if clicks.any():
        measures["click_rate"] = Measure("count", clicks, wins, q, none)
    return measures


def day_effects(measure: Measure, days: Indices) -> tuple[Floats, Floats]:
    """Return the log effect of each of some days on all advertisers, and its variance, (D,) each.

    Advertisers are weighted by the inverse of the variance of a day, so that none decides alone.
    """
    amount, base = measure.amount[:, days], measure.base[:, days]
    number = base.sum(axis=1)
    # advertisers without events say nothing about days
    known = amount.sum(axis=1) > 0
    amount, base, number = amount[known], base[known], number[known]
    rate = amount.sum(axis=1) / number
    relative = _unit(measure, rate, known) * len(days) / number
    weight = 1.0 / ((relative + _TYPICAL_VARIATION) * rate)
    expected = rate[:, None] * base
    total = weight @ expected
    is_measured = total > 0
    total = np.where(is_measured, total, 1.0)
    # half an event where a day has none
    factor = np.maximum(weight @ amount, 0.5 * weight.max(initial=1.0)) / total
    factor = np.where(is_measured, factor, 1.0)
    error = (weight**2 @ (amount - expected * factor) ** 2) / (total * factor) ** 2
    return np.log(factor), np.where(is_measured, error, 1.0)


def period_estimate(
    measure: Measure, days: Indices, effects: Floats, share: Floats
) -> PeriodEstimate:
    """Return the logarithm of the ratio in the period of some days, with its residuals.

    Parameters
    ----------
    measure : Measure
    days : (D,) int array
    effects : (D,) array
        Common log effects of these days; they are taken out of the residuals.
    share : (A,) array
        Share of the period in the base of both periods. One event is divided between the periods
        by it, so that small numbers have a logarithm and their change has no bias.
    """
    amount, base = measure.amount[:, days], measure.base[:, days]
    added = np.zeros(len(share)) if measure.kind == "mean" else measure.weight * share
    number = base.sum(axis=1) + (2 * added if measure.kind == "share" else 0.0)
    rate = (amount.sum(axis=1) + added) / np.maximum(number, 1e-300)
    weight = base * np.exp(effects - effects.mean())
    scale = np.divide(number, weight.sum(axis=1), out=np.ones(len(number)), where=number > 0)
    weight = weight * scale[:, None]
    safe = np.maximum(rate, 1e-300)
    residual = amount / safe[:, None] - weight
    return PeriodEstimate(np.log(safe), _unit(measure, safe), weight, residual)


def unbiased_changes(measure: Measure, before: Indices, after: Indices) -> tuple[Floats, Floats]:
    """Return log changes whose mean is right, and their variances by chance, (A,) each.

    The logarithm of a small number is biased, which a mean over many advertisers would show. With
    sums x₁, y₁ before and x₂, y₂ after, the residual of a common change δ,

        ρ_a(δ) = (x₂·y₁ − x₁·y₂·e^δ) / (y₁ + y₂·e^δ),

    has the mean 0, however small the numbers. δ is estimated as Mantel and Haenszel do, and the
    change of an advertiser is δ + ρ_a(δ) / E[−ρ_a′(δ)]. The variance is infinite without events.
    """
    (x1, y1), (x2, y2) = measure.sums(before), measure.sums(after)
    known = x1 + x2 > 0
    rate = np.where(known, x1 + x2, 1.0) / (y1 + y2)
    size = y1 * y2 / (y1 + y2)
    unit = _unit(measure, rate)
    weight = known / ((unit + _TYPICAL_VARIATION * size) * rate * (y1 + y2))
    sums = float(weight @ (x2 * y1)), float(weight @ (x1 * y2))
    delta = float(np.log(sums[0] / sums[1])) if min(sums) > 0 else 0.0
    # the ratio halfway between the periods, so that their order does not matter
    half = np.exp(delta / 2)
    common = y1 / half + y2 * half
    rate = np.where(known, x1 + x2, 1.0) / common
    size = y1 * y2 / common
    residual = (x2 * y1 / half - x1 * y2 * half) / common
    change = delta + np.where(known, residual / (rate * size), 0.0)
    return change, np.where(known, _unit(measure, rate) / size, np.inf)


def _unit(measure: Measure, rate: Floats, rows: Any = slice(None)) -> Floats:
    """Return the relative variance by chance of one unit of the base, of some advertisers."""
    weight = measure.weight[rows]
    if measure.kind == "mean":
        return weight * measure.dispersion[rows]
    missing = np.clip(1.0 - rate, 0.0, 1.0) if measure.kind == "share" else 1.0
    return np.asarray(weight * missing / rate)


def _bid_dispersion(histograms: BidHistograms) -> Floats:
    cells = histograms.bids
    return _dispersion(cells.advertiser, cells.count, cells.bid, len(histograms.advertisers))


def _price_dispersion(histograms: BidHistograms) -> Floats:
    """Return cv² of the prices paid by each advertiser, (A,)."""
    n, bids, prices = len(histograms.advertisers), histograms.bids, histograms.prices
    if histograms.auction == "first" or histograms.revealed == "none":
        return _dispersion(bids.advertiser, bids.wins, bids.cost, n)
    paid = np.ones(len(prices.bin), dtype=bool)
    if histograms.revealed == "minimum":
        # prices of lost auctions are among them; no advertiser pays more than its highest bid
        highest = np.zeros(n, dtype=np.int64)
        np.maximum.at(highest, bids.advertiser, bids.bin)
        paid = prices.bin <= highest[prices.advertiser]
    return _dispersion(prices.advertiser[paid], prices.count[paid], prices.price[paid], n)


def _dispersion(row: Indices, number: Floats, amount: Floats, n: int) -> Floats:
    """Return the squared coefficient of variation of amounts by advertiser, (n,)."""
    used = number > 0
    row, number, amount = row[used], number[used], amount[used]
    zeroth, first, second = (
        np.bincount(row, values, n) for values in (number, amount, amount**2 / number)
    )
    mean_square = np.divide(first**2, zeroth, out=np.zeros(n), where=zeroth > 0)
    squared = np.divide(second, mean_square, out=np.ones(n), where=mean_square > 0) - 1.0
    return np.maximum(squared, 0.0) + _WITHIN_BIN
