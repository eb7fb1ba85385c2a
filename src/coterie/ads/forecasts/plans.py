"""Plans: bids to be forecast, each for some auctions on a day; what came of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.ads.curves.landscapes import PER_UNIT, Evidence
from coterie.ads.forecasts.kernels import figures_of_plans
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.arrays import AnyArray, Bools, Floats, Ints

#: How the kernels know what a winner pays.
PAYS = {"price": 0, "own bid": 1, "bid": 2}


@dataclass(frozen=True)
class Plans:
    """Plans of Q advertisers; plan q has the items ``starts[q]`` to ``starts[q + 1]`` − 1."""

    rows: Ints  # (Q,), advertisers
    starts: Ints  # (Q + 1,)
    bids: Floats  # (N,), in currency units per thousand impressions
    counts: Floats  # (N,), auctions
    days: Ints  # (N,), indices into dates
    dates: AnyArray  # (H,), datetime64[D]

    def of_rows(self, advertisers: Bools) -> Plans:
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
        cells.bid[of_days] / number / 1e6,
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


def forecast_by_curves(win: Floats, evidence: Evidence, plans: Plans) -> tuple[Floats, Floats]:
    """Return mean impressions and spend of plans, (A,) each, by given curves (A, G) alone."""
    edges = evidence.edges.astype(np.float64)
    items = (plans.rows, plans.starts, plans.bids, plans.counts, np.zeros(len(plans.bids)))
    figures = figures_of_plans(
        items,
        np.tile([0.0, 0.0, 1.0], (len(plans.rows), 1)),
        (edges, np.log(edges), contiguous(evidence.price)),
        (contiguous(win, np.float32), np.zeros(win.shape, dtype=np.float32)),
        np.full((len(win), 4), np.nan),
        PAYS[pays_of(evidence)],
        (np.ones((2, 4, 2, 3)), 0.0, 1.0),
    )
    impressions, spend = np.zeros((2, len(win)))
    impressions[plans.rows], spend[plans.rows] = figures[:, [2, 5]].T
    return impressions, spend


def pays_of(evidence: Evidence) -> str:
    """Return what a winner pays: a key of :data:`PAYS`."""
    if evidence.pays == "price":
        return "price"
    return "own bid" if bool(np.all(evidence.price == evidence.edges)) else "bid"


def contiguous(array: Any, kind: Any = np.float64) -> AnyArray:
    """Return an array as the kernels take it, copied only if it must be."""
    return np.ascontiguousarray(array, dtype=kind)
