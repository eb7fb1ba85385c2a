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

from coterie.errors import InvalidParameterError

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
class BidCells:
    """Sums over the bids of one advertiser, on one day, in one bin of the bid; arrays of N cells.

    w is the weight of a bid, 1 unless the log is a weighted sample.
    """

    advertiser: NDArray[np.int64]  # indices into advertisers, days and edges of the histograms
    day: NDArray[np.int64]
    bin: NDArray[np.int64]
    count: NDArray[np.float64]  # Σ w
    square: NDArray[np.float64]  # Σ w²
    bid: NDArray[np.float64]  # Σ w·bid
    wins: NDArray[np.float64]  # Σ w over the bids that won
    cost: NDArray[np.float64]  # Σ w·price over the bids that won
    clicks: NDArray[np.float64]  # Σ w over the bids that won and were clicked
    conversions: NDArray[np.float64]  # Σ w over the bids that won and led to a conversion


@dataclass(frozen=True)
class PriceCells:
    """Sums over the prices of one advertiser, on one day, in one bin of the price; M cells."""

    advertiser: NDArray[np.int64]  # indices as in BidCells
    day: NDArray[np.int64]
    bin: NDArray[np.int64]
    count: NDArray[np.float64]  # Σ w
    price: NDArray[np.float64]  # Σ w·price


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

        def summed(cells: BidCells | PriceCells, name: str) -> NDArray[np.float64]:
            kept = chosen[cells.day]
            place = cells.advertiser[kept] * g + cells.bin[kept]
            return _sums(place, getattr(cells, name)[kept], a * g).reshape(a, g)

        def by_advertiser(name: str) -> NDArray[np.float64]:
            kept = chosen[self.bids.day]
            return _sums(self.bids.advertiser[kept], getattr(self.bids, name)[kept], a)

        return DenseCounts(
            edges=self.edges,
            bids=summed(self.bids, "count"),
            squares=summed(self.bids, "square"),
            bid=summed(self.bids, "bid"),
            wins=summed(self.bids, "wins"),
            cost=summed(self.bids, "cost"),
            prices=summed(self.prices, "count"),
            price=summed(self.prices, "price"),
            clicks=by_advertiser("clicks"),
            conversions=by_advertiser("conversions"),
        )

    def for_days(self, days: ArrayLike) -> BidHistograms:
        """Return the histograms of some days, given by index, and of the advertisers that bid then.

        This is what counting a log of these days alone gives, but for unused bins.
        """
        index = np.unique(np.asarray(days, dtype=np.int64))
        day = np.full(len(self.days), -1)
        day[index] = np.arange(len(index))
        present = np.unique(self.bids.advertiser[day[self.bids.day] >= 0])
        row = np.full(len(self.advertisers), -1)
        row[present] = np.arange(len(present))

        def kept(cells: Any) -> Any:
            some = day[cells.day] >= 0
            parts = {name: part[some] for name, part in vars(cells).items()}
            parts |= {"advertiser": row[parts["advertiser"]], "day": day[parts["day"]]}
            return type(cells)(**parts)

        return replace(
            self,
            advertisers=self.advertisers[present],
            days=self.days[index],
            bids=kept(self.bids),
            prices=kept(self.prices),
        )

    def for_advertisers(self, rows: ArrayLike) -> BidHistograms:
        """Return the histograms of some advertisers, given by increasing indices, on all days."""
        index = np.asarray(rows, dtype=np.int64)
        row = np.full(len(self.advertisers), -1, dtype=np.int64)
        row[index] = np.arange(len(index))

        def kept(cells: Any) -> Any:
            some = row[cells.advertiser] >= 0
            parts = {name: part[some] for name, part in vars(cells).items()}
            return type(cells)(**parts | {"advertiser": row[parts["advertiser"]]})

        return replace(
            self,
            advertisers=self.advertisers[index],
            bids=kept(self.bids),
            prices=kept(self.prices),
        )

    def daily(self, name: str) -> NDArray[np.float64]:
        """Return one sum of :class:`BidCells` by advertiser and day, (A, D)."""
        a, d, _ = self.shape
        place = self.bids.advertiser * d + self.bids.day
        return _sums(place, getattr(self.bids, name), a * d).reshape(a, d)


def _sums(place: NDArray[np.int64], values: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    # bincount of an empty array gives integers
    return np.asarray(np.bincount(place, values, n), dtype=np.float64)
