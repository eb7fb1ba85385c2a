"""Auction counts: what the auctions of each advertiser reveal of its market, in bins of amounts.

Let F_a(x) be the probability that the smallest amount that wins an auction of advertiser a is at
most x. Every auction is one of three kinds of evidence on F_a:

=========  =======================================  ===========================
kind       known of the auction                     likelihood
=========  =======================================  ===========================
revealed   its price is in bin g                    F_a(e_g) − F_a(e_{g−1})
won        it was won at a bid in bin g, no more    F_a at the middle of bin g
lost       it was lost at a bid in bin g            1 − F_a at the middle
=========  =======================================  ===========================

A second-price log has revealed and lost auctions, a first-price log won and lost ones. A log with
the minimum to win reveals every auction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coterie.ads.histograms.bid_histograms import BidCells, BidHistograms, PriceCells
from coterie.arrays import Floats, Ints


@dataclass(frozen=True)
class AuctionCounts:
    """Numbers of auctions by advertiser and bin, (A, G) each; see the table above."""

    edges: Ints  # (G,), upper edges of the bins, in micros
    revealed: Floats
    won: Floats
    lost: Floats

    @property
    def total(self) -> Floats:
        """Number of auctions of each advertiser, (A,)."""
        return (self.revealed + self.won + self.lost).sum(axis=1)

    @property
    def reveals(self) -> bool:
        """Whether prices are known, rather than only which bids won."""
        return bool(self.revealed.any())


def count_auctions(
    histograms: BidHistograms,
    days: Sequence[int] | None = None,
    *,
    weights: ArrayLike | None = None,
    shifts: ArrayLike | None = None,
) -> AuctionCounts:
    """Count the auctions of some days, by default of all; their weights are 1 by default.

    ``shifts`` are the log price levels of these days, by default 0. Amounts are divided by the
    level, so that days of different levels can be added.
    """
    A, D, G = histograms.shape
    index = np.arange(D) if days is None else np.asarray(days, dtype=np.int64)
    weight, shift = np.zeros(D), np.zeros(D)
    weight[index] = 1.0 if weights is None else weights
    shift[index] = 0.0 if shifts is None else shifts
    places, scale = moved_along(histograms.edges, shift), bids_per_weight(histograms)

    def summed(cells: BidCells | PriceCells, name: str) -> Floats:
        """Sum weighted values by advertiser and bin, (A, G)."""
        used = weight[cells.day] > 0
        day, row = cells.day[used], cells.advertiser[used].astype(np.int64) * G
        values = getattr(cells, name)[used] * weight[day]
        sums = sums_between_bins(values, places[day, cells.bin[used]], G, row, A)
        return sums.reshape(A, G) * scale[:, None]

    bids = summed(histograms.bids, "count")
    wins = summed(histograms.bids, "wins")
    nothing, losses = np.zeros_like(bids), np.maximum(bids - wins, 0.0)
    if histograms.revealed == "none":
        return AuctionCounts(histograms.edges, nothing, wins, losses)
    prices = summed(histograms.prices, "count")
    lost = losses if histograms.revealed == "paid" else nothing
    return AuctionCounts(histograms.edges, prices, nothing, lost)


def bids_per_weight(histograms: BidHistograms) -> Floats:
    """Return Σw / Σw² of each advertiser, (A,): the weights of a sample count as (Σw)²/Σw² bids."""
    number, square = (histograms.daily(name).sum(axis=1) for name in ("count", "square"))
    return np.divide(number, square, out=np.zeros(len(number)), where=square > 0)


def log_edges(edges: Ints) -> Floats:
    """Return the logarithms of the lower edge of the first bin and of all upper edges, (G + 1,).

    The first bin is taken to be as wide as the second.
    """
    upper = np.log(edges.astype(np.float64))
    width = upper[1] - upper[0] if len(edges) > 1 else 0.024
    return np.concatenate([[upper[0] - width], upper])


def moved_along(edges: Ints, shift: Floats) -> Floats:
    """Return where the middle of each bin is after a move of −shift, as a fractional bin number.

    ``shift`` (…,) is in units of log amount; the result is (…, G), limited to the grid.
    """
    x = log_edges(edges)
    middle = (x[1:] + x[:-1]) / 2
    return np.interp(middle - np.asarray(shift)[..., None], middle, np.arange(len(middle)))


def sums_between_bins(
    values: Floats, at: Floats, n_bins: int, row: Any = 0, n_rows: int = 1
) -> Floats:
    """Sum values by bin, each divided between the two bins next to its fractional place ``at``.

    ``row`` is the place of bin 0 of each value's row in the flat result, (n_rows · n_bins,).
    """
    lower = at.astype(np.int64)
    upper, part = np.minimum(lower + 1, n_bins - 1), at - lower
    sums = np.zeros(n_rows * n_bins)
    sums += np.bincount((row + lower).ravel(), (values * (1 - part)).ravel(), len(sums))
    sums += np.bincount((row + upper).ravel(), (values * part).ravel(), len(sums))
    return sums
