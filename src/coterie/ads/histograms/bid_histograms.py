"""Bid histograms: counts of bids and prices by advertiser and day, on one grid of bids.

A log of any length is summarised by two small tables of cells, one by bid and one by price, which
all later stages use instead of the log. Amounts are in micros of the currency per thousand
impressions (CPM), as in the log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coterie.ads.histograms.cells import (
    BidCells,
    PriceCells,
    looked_up,
    of_advertisers,
    run_starts,
    summed,
    with_columns,
)
from coterie.errors import InvalidParameterError
from coterie.runtime.wording import short_repr

__all__ = ["BidCells", "BidHistograms", "DenseCounts", "PriceCells", "bin_of"]


def bin_of(values: ArrayLike, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bin g of each value, edges[g−1] < value ≤ edges[g]; the last has no upper limit.

    ``edges`` (G,) are increasing upper edges.

    Examples
    --------
    >>> bin_of([1, 10, 11, 99], np.array([10, 20, 30])).tolist()
    [0, 0, 1, 2]
    """
    return np.minimum(np.searchsorted(edges, np.asarray(values), side="left"), len(edges) - 1)


@dataclass(frozen=True)
class DenseCounts:
    """Sums of the cells of some days: one row per advertiser, one column per bin, (A, G)."""

    edges: NDArray[np.int64]  # (G,), upper edges of the bins, in micros
    # by bin of the bid, as in BidCells
    bids: NDArray[np.float64]
    squares: NDArray[np.float64]
    bid: NDArray[np.float64]
    wins: NDArray[np.float64]
    cost: NDArray[np.float64]
    # by bin of the price: number and sum
    prices: NDArray[np.float64]
    price: NDArray[np.float64]
    clicks: NDArray[np.float64]  # (A,)
    conversions: NDArray[np.float64]  # (A,)

    @property
    def observations(self) -> NDArray[np.float64]:
        """Effective number of bids, (Σw)² / Σw², (A,); 0 for an advertiser without bids."""
        total, square = self.bids.sum(axis=1), self.squares.sum(axis=1)
        return np.divide(total**2, square, out=np.zeros_like(total), where=square > 0)


@dataclass(frozen=True)
class BidHistograms:
    """The cells of a whole log.

    Attributes
    ----------
    advertisers : (A,) array of str
        Sorted.
    days : (D,) datetime64[D] array
        Sorted; the days with at least one bid.
    edges : (G,) int64 array
        Upper edges of the bins, in micros, increasing.
    auction : {"second", "first"}
        The price of a win: the minimum to win, or the bid.
    revealed : {"paid", "minimum", "none"}
        What the price cells count: prices paid by winners, or the minimum to win of every bid,
        won or lost; nothing if the price equals the bid (first price).
    bids : BidCells
    prices : PriceCells
    currency : str
        ISO 4217, empty if the log has none.
    unit : {"advertiser", "campaign"}
        What ``advertisers`` are; a campaign is named ``ADVERTISER/CAMPAIGN``.
    """

    advertisers: NDArray[np.str_]
    days: NDArray[np.datetime64]
    edges: NDArray[np.int64]
    auction: str
    revealed: str
    bids: BidCells
    prices: PriceCells
    currency: str = ""
    unit: str = "advertiser"

    __repr__ = short_repr

    @property
    def parents(self) -> NDArray[np.str_] | None:
        """The advertiser of each campaign, (A,); None if the units are advertisers."""
        if self.unit == "advertiser":
            return None
        return np.array([name.rpartition("/")[0] for name in self.advertisers.tolist()])

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of advertisers, days and bins."""
        return len(self.advertisers), len(self.days), len(self.edges)

    def dense(self, days: ArrayLike | None = None) -> DenseCounts:
        """Sum the cells of some days.

        Parameters
        ----------
        days : array-like of int, optional
            Indices into ``days``; by default all.
        """
        chosen = np.zeros(len(self.days), dtype=bool)
        index = np.arange(len(self.days)) if days is None else np.asarray(days, dtype=np.int64)
        if index.size and (index.min() < 0 or index.max() >= len(self.days)):
            raise InvalidParameterError(
                f"days: indices must be from 0 to {len(self.days) - 1}, got {index.tolist()}"
            )
        chosen[index] = True
        a, _, g = self.shape
        # most often all days are chosen, and then no cell is left out
        days_used = None if chosen.all() else chosen

        def by_bin(cells: BidCells | PriceCells, name: str) -> NDArray[np.float64]:
            return summed(cells, name, "bin", (a, g), days_used)

        bids = by_bin(self.bids, "count")
        is_weighted = self.bids.square is not self.bids.count
        clicks, conversions = (
            summed(self.bids, name, None, (a, 1), days_used)[:, 0]
            for name in ("clicks", "conversions")
        )
        return DenseCounts(
            edges=self.edges,
            bids=bids,
            squares=by_bin(self.bids, "square") if is_weighted else bids,
            bid=by_bin(self.bids, "bid"),
            wins=by_bin(self.bids, "wins"),
            cost=by_bin(self.bids, "cost"),
            prices=by_bin(self.prices, "count"),
            price=by_bin(self.prices, "price"),
            clicks=clicks,
            conversions=conversions,
        )

    def for_days(self, days: ArrayLike) -> BidHistograms:
        """Return the histograms of some days, and of the advertisers that bid then.

        This is what counting a log of these days alone gives, but for unused bins.

        Parameters
        ----------
        days : array-like of int
            Indices of days.
        """
        index = np.unique(np.asarray(days, dtype=np.int64))
        day = np.full(len(self.days), -1, dtype=self.bids.day.dtype)
        day[index] = np.arange(len(index))
        chosen = day >= 0
        bidding = self.bids.advertiser[chosen[self.bids.day]]
        present = bidding[run_starts(bidding)]
        row = np.full(len(self.advertisers), -1, dtype=np.int32)
        row[present] = np.arange(len(present))

        def of_days(cells: Any) -> Any:
            used = chosen[cells.day]
            return with_columns(
                cells,
                lambda values: values[used],
                advertiser=looked_up(row, cells.advertiser[used]),
                day=looked_up(day, cells.day[used]),
            )

        return replace(
            self,
            advertisers=self.advertisers[present],
            days=self.days[index],
            bids=of_days(self.bids),
            prices=of_days(self.prices),
        )

    def for_advertisers(self, rows: ArrayLike) -> BidHistograms:
        """Return the histograms of some advertisers on all days.

        The time needed depends on their cells alone, not on those of the whole log. The cells of
        consecutive advertisers are views.

        Parameters
        ----------
        rows : array-like of int
            Increasing indices of advertisers.
        """
        index = np.asarray(rows, dtype=np.int64)
        increasing = index.ndim == 1 and bool(np.all(np.diff(index) > 0))
        inside = increasing and (not index.size or 0 <= index[0] <= index[-1] < self.shape[0])
        if not inside:
            raise InvalidParameterError(
                f"rows: they must be increasing indices from 0 to {self.shape[0] - 1}"
            )
        return replace(
            self,
            advertisers=self.advertisers[index],
            bids=of_advertisers(self.bids, index),
            prices=of_advertisers(self.prices, index),
        )

    def daily(self, name: str) -> NDArray[np.float64]:
        """Return one sum of :class:`BidCells` by advertiser and day, (A, D).

        Parameters
        ----------
        name : str
            A field of the cells, such as ``count``, ``wins`` or ``cost``.
        """
        return summed(self.bids, name, "day", self.shape[:2])
