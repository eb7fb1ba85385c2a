"""Demand: the bids of some days, and the wins and spend that curves predict for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coterie.ads.curves.landscapes import Evidence, spend_curves
from coterie.ads.histograms.bid_histograms import BidHistograms

__all__ = ["Demand", "Outcome", "demand_of", "expected_outcome", "outcome_of"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Demand:
    """Bids of some days, in N cells of one advertiser and one bin each."""

    advertiser: NDArray[np.int64]
    bin: NDArray[np.int64]
    count: Floats  # number of bids
    within: Floats  # position of their mean in the bin, 0 at the lower edge, 1 at the upper
    n_advertisers: int


@dataclass(frozen=True)
class Outcome:
    """Impressions and spend by advertiser, (A,) each."""

    impressions: Floats
    spend: Floats  # in micros per thousand impressions
    spread: Floats | None = None  # standard deviation of forecast impressions


def demand_of(histograms: BidHistograms, days: ArrayLike) -> Demand:
    """Return the bids of some days, given by index into ``histograms.days``."""
    counts = histograms.dense(days)
    advertiser, at = np.nonzero(counts.bids > 0)
    number = counts.bids[advertiser, at]
    mean = counts.bid[advertiser, at] / number
    lower = np.where(at > 0, histograms.edges[at - 1], 0)
    within = np.clip((mean - lower) / (histograms.edges[at] - lower), 0.0, 1.0)
    return Demand(advertiser, at, number, within, len(histograms.advertisers))


def outcome_of(histograms: BidHistograms, days: ArrayLike) -> Outcome:
    """Return the impressions won and the spend of some days."""
    index = np.asarray(days, dtype=np.int64)
    return Outcome(
        histograms.daily("wins")[:, index].sum(axis=1),
        histograms.daily("cost")[:, index].sum(axis=1),
    )


def expected_outcome(
    demand: Demand, win: Floats, evidence: Evidence, variance: Floats | None = None
) -> Outcome:
    """Compute the expected impressions and spend of a demand from win curves (A, G).

    Impressions are Σ n·W(b) and spend is Σ n·C(b) over the cells. With the posterior ``variance``
    of W the variance of the impressions is (Σ n·sd(W))² + Σ n·W·(1 − W): the errors of one
    advertiser's curve are taken as fully correlated, and the auctions as independent. ``evidence``
    gives the cost of a win.
    """
    won = demand.count * _in_cells(win, demand)
    paid = demand.count * _in_cells(spend_curves(win, evidence), demand)
    impressions, spend = _by_advertiser(won, demand), _by_advertiser(paid, demand)
    if variance is None:
        return Outcome(impressions, spend)
    rate = won / demand.count
    curve_error = _by_advertiser(demand.count * _in_cells(np.sqrt(variance), demand), demand)
    auction_variance = _by_advertiser(won * (1 - rate), demand)
    return Outcome(impressions, spend, np.sqrt(curve_error**2 + auction_variance))


def _in_cells(curves: Floats, demand: Demand) -> Floats:
    """Interpolate the curves at the mean bid of each cell, (N,)."""
    high = curves[demand.advertiser, demand.bin]
    low = np.where(demand.bin > 0, curves[demand.advertiser, demand.bin - 1], 0.0)
    return low + demand.within * (high - low)


def _by_advertiser(values: Floats, demand: Demand) -> Floats:
    sums = np.bincount(demand.advertiser, values, demand.n_advertisers)
    return np.asarray(sums, dtype=np.float64)
