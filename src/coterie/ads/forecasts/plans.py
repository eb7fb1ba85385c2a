"""Plans: which bids are to be forecast, how many auctions each is for, and on which day."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.landscapes import PER_UNIT
from coterie.ads.histograms.bid_histograms import BidHistograms

__all__ = ["Outcome", "Plans", "outcome_of", "plans_of"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
_MICROS = 1e6


@dataclass(frozen=True)
class Plans:
    """Plans of Q advertisers; plan q has the items ``starts[q]`` to ``starts[q + 1]`` − 1."""

    rows: Indices  # (Q,), advertisers
    starts: Indices  # (Q + 1,)
    bids: Floats  # (N,), in currency units per thousand impressions
    counts: Floats  # (N,), auctions
    days: Indices  # (N,), indices into dates
    dates: NDArray[np.datetime64]  # (H,)

    def of_rows(self, advertisers: NDArray[np.bool_]) -> Plans:
        """Return the plans of some advertisers, given by a mask of all."""
        chosen = advertisers[self.rows]
        numbers = np.diff(self.starts)
        items = np.repeat(chosen, numbers)
        return Plans(
            self.rows[chosen],
            np.concatenate([[0], np.cumsum(numbers[chosen])]),
            self.bids[items],
            self.counts[items],
            self.days[items],
            self.dates,
        )

    @property
    def supplies(self) -> Floats:
        """Auctions of each plan, (Q,)."""
        return np.add.reduceat(np.append(self.counts, 0.0), self.starts[:-1])

    @property
    def day_shares(self) -> Floats:
        """Share of each day in the auctions of each plan, (Q, H)."""
        plan = np.repeat(np.arange(len(self.rows)), np.diff(self.starts))
        n_days = len(self.dates)
        by_day = np.bincount(plan * n_days + self.days, self.counts, len(self.rows) * n_days)
        by_day = by_day.reshape(-1, n_days)
        return by_day / np.maximum(by_day.sum(axis=1, keepdims=True), 1e-300)


@dataclass(frozen=True)
class Outcome:
    """Sums by advertiser, (A,) each; spend in currency units."""

    impressions: Floats
    spend: Floats
    clicks: Floats
    conversions: Floats


def plans_of(histograms: BidHistograms, days: list[int]) -> Plans:
    """Return the bids made on some days as plans, one for each advertiser that bid.

    A cell of the histograms is one item, at its mean bid.
    """
    cells = histograms.bids
    of_days = np.flatnonzero(np.isin(cells.day, days) & (cells.count > 0))
    rows, starts = np.unique(cells.advertiser[of_days], return_index=True)
    number = cells.count[of_days].astype(np.float64)
    return Plans(
        rows.astype(np.int64),
        np.append(starts, len(of_days)).astype(np.int64),
        cells.bid[of_days] / number / _MICROS,
        number,
        np.searchsorted(days, cells.day[of_days]).astype(np.int64),
        histograms.days[days],
    )


def outcome_of(histograms: BidHistograms, days: list[int]) -> Outcome:
    """Return what was won, paid, clicked and converted on some days."""
    wins, cost, clicks, conversions = (
        histograms.daily(name)[:, days].sum(axis=1)
        for name in ("wins", "cost", "clicks", "conversions")
    )
    return Outcome(wins, cost / PER_UNIT, clicks, conversions)
