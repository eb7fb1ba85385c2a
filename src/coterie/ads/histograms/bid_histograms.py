"""Bid histograms: counts of bids and prices by advertiser and day, on one grid of bids.

A log of any length is summarised by two small tables of cells, one by bid and one by price, which
all later stages use instead of the log. Amounts are in micros of the currency per thousand
impressions (CPM), as in the log.

If advertisers have few bids, most cells hold one row, and a log of 10⁸ rows has almost as many
cells. They therefore have the smallest types: 40 bytes for a cell of bids and 20 for one of prices.

===========================  ==========================================================
advertiser                   int32
day, bin                     int16; int32 if there are more than 32,767 of them
numbers of bids and events   int32 if all are whole and below 2³¹, otherwise float64
sums of amounts              float64
===========================  ==========================================================

Without weights Σ w² is Σ w, and both are one array. Whole numbers rather than float32, because
their sums do not round. Sums of amounts stay float64: float32 would round amounts above 2²⁴ micros,
17 currency units, and two logs put together would no longer be the log of both.

Cells are sorted by advertiser. Those of some advertisers are therefore slices, and sums over many
cells are made in blocks of whole advertisers: the memory needed does not grow with the cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coterie.arrays import AnyArray, Bools, Floats, Ints
from coterie.errors import InvalidParameterError, TableError
from coterie.runtime.wording import short_repr

KEYS = ("advertiser", "day", "bin")
#: The sums that are numbers of bids or events, and whole without weights.
COUNTS = ("count", "square", "wins", "clicks", "conversions")

_BLOCK = 2_000_000
_MOST_SHORT = np.iinfo(np.int16).max
_MOST_INT = np.iinfo(np.int32).max


@dataclass(frozen=True)
class BidCells:
    """Sums over the bids of one advertiser, on one day, in one bin of the bid; arrays of N cells.

    w is the weight of a bid, 1 unless the log is a weighted sample. Cells are sorted by advertiser,
    day and bin.
    """

    advertiser: AnyArray  # indices into advertisers, days and edges of the histograms
    day: AnyArray
    bin: AnyArray
    count: AnyArray  # Σ w
    square: AnyArray  # Σ w²
    bid: Floats  # Σ w·bid
    wins: AnyArray  # Σ w over the bids that won
    cost: Floats  # Σ w·price over the bids that won
    clicks: AnyArray  # Σ w over the bids that won and were clicked
    conversions: AnyArray  # Σ w over the bids that won and led to a conversion


@dataclass(frozen=True)
class PriceCells:
    """Sums over the prices of one advertiser, on one day, in one bin of the price; M cells."""

    advertiser: AnyArray  # indices as in BidCells, and sorted as there
    day: AnyArray
    bin: AnyArray
    count: AnyArray  # Σ w
    price: Floats  # Σ w·price


Cells = TypeVar("Cells", BidCells, PriceCells)


def bin_of(values: ArrayLike, edges: Ints) -> Ints:
    """Return the bin g of each value, edges[g−1] < value ≤ edges[g]; the last has no upper limit.

    ``edges`` (G,) are increasing upper edges.
    """
    return np.minimum(np.searchsorted(edges, np.asarray(values), side="left"), len(edges) - 1)


@dataclass(frozen=True)
class DenseCounts:
    """Sums of the cells of some days: one row per advertiser, one column per bin, (A, G)."""

    edges: Ints  # (G,), upper edges of the bins, in micros
    # by bin of the bid, as in BidCells
    bids: Floats
    squares: Floats
    bid: Floats
    wins: Floats
    cost: Floats
    # by bin of the price: number and sum
    prices: Floats
    price: Floats
    clicks: Floats  # (A,)
    conversions: Floats  # (A,)

    @property
    def observations(self) -> Floats:
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
    masses : (K,) int64 array
        Prices of many auctions, in micros, each alone in its bin; see
        :mod:`coterie.ads.curves.price_readings`.
    """

    advertisers: NDArray[np.str_]
    days: NDArray[np.datetime64]
    edges: Ints
    auction: str
    revealed: str
    bids: BidCells
    prices: PriceCells
    currency: str = ""
    unit: str = "advertiser"
    masses: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))

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

        def by_bin(cells: BidCells | PriceCells, name: str) -> Floats:
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

    def daily(self, name: str) -> Floats:
        """Return one sum of :class:`BidCells` by advertiser and day, (A, D).

        Parameters
        ----------
        name : str
            A field of the cells, such as ``count``, ``wins`` or ``cost``.
        """
        return summed(self.bids, name, "day", self.shape[:2])


# ---- Cells


def compact(cells: Cells) -> Cells:
    """Return cells in the smallest types; columns that have them already are not copied."""

    def narrowed(name: str, values: AnyArray) -> AnyArray:
        if name in COUNTS:
            return narrow_counts(values)
        if name not in KEYS:
            return values.astype(np.float64, copy=False)
        largest = int(values.max(initial=0))
        return values.astype(np.int32 if name == "advertiser" else index_type(largest), copy=False)

    columns = dict(vars(cells))
    square = columns.pop("square", None)
    is_count = square is not None and (
        square is columns["count"] or np.array_equal(square, columns["count"])
    )
    columns = {name: narrowed(name, values) for name, values in columns.items()}
    if square is not None:
        columns["square"] = columns["count"] if is_count else narrow_counts(square)
    return type(cells)(**columns)


def index_type(largest: int) -> type[np.int16] | type[np.int32]:
    """Return the type of indices of days or bins; the index after the largest fits, too."""
    return np.int16 if largest < _MOST_SHORT else np.int32


def narrow_counts(values: AnyArray) -> AnyArray:
    """Return numbers as int32 if all are whole and below 2³¹, otherwise as float64."""
    if values.dtype == np.int32:
        return values
    blocks = (values[start : start + _BLOCK] for start in range(0, len(values), _BLOCK))
    fits = all(
        bool(np.all((block == np.floor(block)) & (np.abs(block) <= _MOST_INT))) for block in blocks
    )
    return values.astype(np.int32 if fits else np.float64, copy=False)


def with_columns(cells: Cells, change: Callable[[AnyArray], AnyArray], **new: Any) -> Cells:
    """Return cells whose columns are changed, each array once; ``new`` columns are given."""
    done: dict[int, AnyArray] = {}
    columns = dict(new)
    for name, values in vars(cells).items():
        if name not in columns:
            if id(values) not in done:
                done[id(values)] = change(values)
            columns[name] = done[id(values)]
    return type(cells)(**columns)


def of_advertisers(cells: Cells, rows: Ints) -> Cells:
    """Return the cells of some advertisers, by increasing numbers, numbered anew.

    Those of consecutive advertisers are views.
    """
    # of the type of the column, because another would copy all of it
    numbers = rows.astype(np.int32)
    starts = np.searchsorted(cells.advertiser, numbers, side="left")
    ends = np.searchsorted(cells.advertiser, numbers, side="right")
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        part = slice(int(starts[0]), int(ends[-1]))
        return with_columns(
            cells, lambda values: values[part], advertiser=cells.advertiser[part] - numbers[0]
        )
    sizes = ends - starts
    shift = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
    at = np.arange(len(shift)) + shift
    row = np.repeat(np.arange(len(rows), dtype=np.int32), sizes)
    return with_columns(cells, lambda values: values[at], advertiser=row)


def looked_up(table: AnyArray, index: AnyArray) -> AnyArray:
    """Return ``table[index]``; the index is converted to 64 bits a block at a time."""
    found = np.empty(len(index), dtype=table.dtype)
    for start in range(0, len(index), _BLOCK):
        found[start : start + _BLOCK] = table[index[start : start + _BLOCK]]
    return found


def summed(
    cells: BidCells | PriceCells,
    name: str,
    by: str | None,
    shape: tuple[int, int],
    days: Bools | None = None,
) -> Floats:
    """Sum one column by advertiser and another key, "day" or "bin", or None for no other.

    ``days`` (D,) is a mask of the days that count; by default all do.
    """
    n_rows, n = shape
    sums = np.zeros(n_rows * n)
    advertiser, values = cells.advertiser, getattr(cells, name)
    start = 0
    while start < len(advertiser):
        # about _BLOCK cells of whole advertisers, from the first to the last
        first, last = advertiser[start], advertiser[min(start + _BLOCK, len(advertiser)) - 1]
        block = slice(start, int(np.searchsorted(advertiser, last, side="right")))
        place = (advertiser[block].astype(np.int64) - first) * n
        if by is not None:
            place += getattr(cells, by)[block]
        part = values[block]
        if days is not None:
            used = days[cells.day[block]]
            place, part = place[used], part[used]
        here = slice(int(first) * n, (int(last) + 1) * n)
        sums[here] = np.bincount(place, part, here.stop - here.start)
        start = block.stop
    return sums.reshape(shape)


def keys_in_order(cells: BidCells | PriceCells, shape: tuple[int, int, int]) -> Ints:
    """Return one number for each cell, (N,), which increases with advertiser, day and bin."""
    _, n_days, n_bins = shape
    key = cells.advertiser.astype(np.int64)
    for column, n in ((cells.day, n_days), (cells.bin, n_bins)):
        key *= n
        key += column
    return key


def run_starts(values: AnyArray) -> Ints:
    """Return where runs of equal values start."""
    changed = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return np.flatnonzero(changed)


def refuse_many_days(n_days: int, source: str) -> None:
    """Refuse a log of more days than a model can hold, which dates read wrongly may give."""
    if n_days > _MOST_SHORT:
        raise TableError(
            f"{source}: it has {n_days:,} different days, and {_MOST_SHORT:,} are the limit; check "
            "how its dates are written"
        )


def columns_of(kind: type[Any]) -> list[str]:
    """Return the names of the sums of a kind of cells."""
    return [one.name for one in fields(kind) if one.name not in KEYS]
