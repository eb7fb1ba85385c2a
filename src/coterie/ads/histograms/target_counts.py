"""Target counts: sums of a log by advertiser, value of a dimension and bin, all days together.

A dimension is a column that the user names, such as device or country. Its values are possible
targets. The bins are four times as wide as those of the histograms: shifts of prices are found
from many auctions, whose places inside a bin average out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.ads.histograms.price_grid import price_grid
from coterie.ads.histograms.stored_days import Bytes, pack_columns, unpack_columns
from coterie.arrays import Floats, Ints
from coterie.errors import InvalidParameterError

#: Number of bins of the price grid in one bin of target counts.
BINS_TOGETHER = 4
#: A dimension keeps so many values, the most frequent ones; the rest is one value.
MOST_VALUES = 200
OTHER_VALUES, NO_VALUE = "(other)", "(none)"


@dataclass(frozen=True)
class TargetCells:
    """Sums over the auctions of one advertiser with one value in one bin; arrays of N cells.

    w is the weight of a bid, 1 unless the log is a weighted sample. Cells are sorted by their keys.
    """

    advertiser: Ints  # indices into advertisers, values and edges of the counts
    value: Ints
    bin: Ints
    # by bin of the bid
    bids: Floats  # Σ w
    squares: Floats  # Σ w²
    bid: Floats  # Σ w·bid
    wins: Floats  # Σ w over the bids that won
    cost: Floats  # Σ w·price over the bids that won
    clicks: Floats
    conversions: Floats
    # by bin of the price
    prices: Floats  # Σ w of the prices that the log reveals


@dataclass(frozen=True)
class TargetCounts:
    """Cells of a log by the values of its dimensions.

    Attributes
    ----------
    advertisers : (A,) array of str
        Sorted.
    edges : (G,) int64 array
        Upper edges of the bins, in micros.
    dimensions : list of str
    values : (V,) array of str
        The values of the first dimension, sorted, then those of the next.
    dimension : (V,) int64 array
        The dimension of each value, an index into ``dimensions``.
    cells : TargetCells
    revealed : {"paid", "minimum", "none"}
        What the prices are; see :class:`~coterie.ads.histograms.bid_histograms.BidHistograms`.
    """

    advertisers: NDArray[np.str_]
    edges: Ints
    dimensions: list[str]
    values: NDArray[np.str_]
    dimension: Ints
    cells: TargetCells
    revealed: str

    def totals(self, name: str) -> Floats:
        """Return one sum of the cells by advertiser and value, (A, V).

        Parameters
        ----------
        name : str
            A field of the cells, such as ``bids`` or ``wins``.
        """
        shape = len(self.advertisers), len(self.values)
        place = self.cells.advertiser * shape[1] + self.cells.value
        sums = np.bincount(place, getattr(self.cells, name), shape[0] * shape[1])
        return np.asarray(sums, dtype=np.float64).reshape(shape)

    def of_advertisers(self, advertisers: NDArray[np.str_]) -> TargetCounts:
        """Return the counts of other advertisers; one that was not counted has none.

        Parameters
        ----------
        advertisers : array of str
            Sorted ids.
        """
        place = np.searchsorted(advertisers, self.advertisers)
        place[place == len(advertisers)] = 0
        found = advertisers[place] == self.advertisers if len(advertisers) else place < 0
        kept = found[self.cells.advertiser]
        parts = {name: part[kept] for name, part in vars(self.cells).items()}
        parts["advertiser"] = place[parts["advertiser"]]
        return replace(self, advertisers=advertisers, cells=TargetCells(**parts))


def merge_targets(first: TargetCounts, second: TargetCounts) -> TargetCounts:
    """Add the counts of two logs with the same dimensions."""
    if sorted(first.dimensions) != sorted(second.dimensions):
        one, other = (", ".join(part.dimensions) or "none" for part in (first, second))
        raise InvalidParameterError(
            f"the dimensions of the model are {one} and those of the new log {other}; they must be "
            "the same"
        )
    if first.revealed != second.revealed:
        raise InvalidParameterError(
            f"the known prices of the model are {first.revealed!r} and those of the new log "
            f"{second.revealed!r}; they must be the same"
        )
    edges = price_grid(
        min(first.edges[0], second.edges[0]), max(first.edges[-1], second.edges[-1]), BINS_TOGETHER
    )
    advertisers, names = np.union1d(first.advertisers, second.advertisers), first.dimensions
    bids: Counter[tuple[int, str]] = Counter()  # by dimension and value
    of_each = []
    for part in (first, second):
        order = np.array([names.index(name) for name in part.dimensions], dtype=np.int64)
        pairs = list(zip(order[part.dimension].tolist(), part.values.tolist(), strict=True))
        for pair, n in zip(pairs, part.totals("bids").sum(axis=0).tolist(), strict=True):
            bids[pair] += n
        of_each.append((part.of_advertisers(advertisers), pairs))
    kept: list[tuple[int, str]] = []
    for d in range(len(names)):
        known = {value for number, value in bids if number == d}
        summaries = known & {OTHER_VALUES, NO_VALUE}
        # the most frequent first
        own = [value for _, value in sorted((-bids[d, one], one) for one in known - summaries)]
        summaries |= {OTHER_VALUES} if len(own) > MOST_VALUES else set()
        kept += [(d, value) for value in sorted({*own[:MOST_VALUES], *summaries})]
    number_of = {pair: v for v, pair in enumerate(kept)}
    moved = []
    for part, pairs in of_each:
        place = [number_of.get(pair, number_of.get((pair[0], OTHER_VALUES), -1)) for pair in pairs]
        moved.append(
            replace(
                part.cells,
                value=np.array(place, dtype=np.int64)[part.cells.value],
                bin=np.searchsorted(edges, part.edges)[part.cells.bin],
            )
        )
    joined = {
        field.name: np.concatenate([getattr(part, field.name) for part in moved])
        for field in fields(TargetCells)
    }
    dimension = np.array([d for d, _ in kept], dtype=np.int64)
    values = np.array([value for _, value in kept], dtype=str)
    cells = sum_cells(joined, (len(advertisers), len(values), len(edges)))
    return TargetCounts(advertisers, edges, names, values, dimension, cells, first.revealed)


def sum_cells(columns: dict[str, Any], shape: tuple[int, int, int]) -> TargetCells:
    """Return sorted cells from columns with repeated keys; columns that are missing are 0."""
    key = np.ravel_multi_index((columns["advertiser"], columns["value"], columns["bin"]), shape)
    found, index = np.unique(key, return_inverse=True)
    sums: list[Any] = [
        np.bincount(index, columns[field.name], len(found)).astype(np.float64)
        if field.name in columns
        else np.zeros(len(found))
        for field in fields(TargetCells)[3:]
    ]
    keys: list[Any] = list(np.unravel_index(found, shape))
    return TargetCells(*keys, *sums)


@dataclass(frozen=True)
class StoredTargets:
    """Target counts in a model: the cells as a Parquet file, and what they refer to."""

    cells: Bytes
    edges: Ints
    dimensions: list[str]
    values: NDArray[np.str_]
    dimension: Ints
    revealed: str


#: What stored targets and target counts have in common.
_COMMON = ("edges", "dimensions", "values", "dimension", "revealed")


def pack_targets(counts: TargetCounts) -> StoredTargets:
    """Pack target counts; the inverse of :func:`unpack_targets`."""
    common = {name: getattr(counts, name) for name in _COMMON}
    return StoredTargets(cells=pack_columns(vars(counts.cells)), **common)


def unpack_targets(stored: StoredTargets, advertisers: NDArray[np.str_]) -> TargetCounts:
    """Return the target counts; ``advertisers`` are those of the packed counts."""
    table, keys = unpack_columns(stored.cells), ("advertiser", "value", "bin")
    columns: list[Any] = [
        table[one.name].to_numpy().astype(np.int64 if one.name in keys else np.float64)
        for one in fields(TargetCells)
    ]
    common = {name: getattr(stored, name) for name in _COMMON}
    return TargetCounts(advertisers=advertisers, cells=TargetCells(*columns), **common)
