"""Cells: sums over the bids or prices of an advertiser, a day and a bin, in the smallest types.

If advertisers have few bids, most cells hold one row, and a log of 10⁸ rows has almost as many
cells. A cell of bids takes 40 bytes and one of prices 20.

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

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from coterie.errors import TableError

__all__ = [
    "COUNTS",
    "KEYS",
    "BidCells",
    "PriceCells",
    "columns_of",
    "compact",
    "index_type",
    "keys_in_order",
    "looked_up",
    "narrow_counts",
    "of_advertisers",
    "refuse_many_days",
    "run_starts",
    "summed",
    "with_columns",
]

Indices = NDArray[Any]
Counts = NDArray[Any]
Floats = NDArray[np.float64]

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

    advertiser: Indices  # indices into advertisers, days and edges of the histograms
    day: Indices
    bin: Indices
    count: Counts  # Σ w
    square: Counts  # Σ w²
    bid: Floats  # Σ w·bid
    wins: Counts  # Σ w over the bids that won
    cost: Floats  # Σ w·price over the bids that won
    clicks: Counts  # Σ w over the bids that won and were clicked
    conversions: Counts  # Σ w over the bids that won and led to a conversion


@dataclass(frozen=True)
class PriceCells:
    """Sums over the prices of one advertiser, on one day, in one bin of the price; M cells."""

    advertiser: Indices  # indices as in BidCells, and sorted as there
    day: Indices
    bin: Indices
    count: Counts  # Σ w
    price: Floats  # Σ w·price


Cells = TypeVar("Cells", BidCells, PriceCells)


class _Block(NamedTuple):
    """Some whole advertisers, from the first to the last + 1, and their cells."""

    first: int
    end: int
    cells: slice


def compact(cells: Cells) -> Cells:
    """Return cells in the smallest types; columns that have them already are not copied.

    >>> one = np.ones(1)
    >>> found = compact(PriceCells(*np.zeros((3, 1), int), count=one, price=one))
    >>> [array.dtype.name for array in vars(found).values()]
    ['int32', 'int16', 'int16', 'int32', 'float64']
    """

    def narrowed(name: str, values: NDArray[Any]) -> NDArray[Any]:
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


def narrow_counts(values: NDArray[Any]) -> Counts:
    """Return numbers as int32 if all are whole and below 2³¹, otherwise as float64.

    >>> narrow_counts(np.array([1.0, 2.0])).dtype.name, narrow_counts(np.array([0.5])).dtype.name
    ('int32', 'float64')
    """
    if values.dtype == np.int32:
        return values
    fits = all(
        bool(np.all((block == np.floor(block)) & (np.abs(block) <= _MOST_INT)))
        for block in _blocks_of(values)
    )
    return values.astype(np.int32 if fits else np.float64, copy=False)


def with_columns(cells: Cells, change: Callable[[NDArray[Any]], NDArray[Any]], **new: Any) -> Cells:
    """Return cells whose columns are changed, each array once; ``new`` columns are given."""
    done: dict[int, NDArray[Any]] = {}
    columns = dict(new)
    for name, values in vars(cells).items():
        if name not in columns:
            if id(values) not in done:
                done[id(values)] = change(values)
            columns[name] = done[id(values)]
    return type(cells)(**columns)


def of_advertisers(cells: Cells, rows: NDArray[np.int64]) -> Cells:
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


def looked_up(table: NDArray[Any], index: Indices) -> NDArray[Any]:
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
    days: NDArray[np.bool_] | None = None,
) -> Floats:
    """Sum one column by advertiser and another key, "day" or "bin", or None for no other.

    ``days`` (D,) is a mask of the days that count; by default all do.
    """
    n_rows, n = shape
    sums = np.zeros(n_rows * n)
    values = getattr(cells, name)
    for block in _advertiser_blocks(cells.advertiser):
        place = (cells.advertiser[block.cells].astype(np.int64) - block.first) * n
        if by is not None:
            place += getattr(cells, by)[block.cells]
        part = values[block.cells]
        if days is not None:
            used = days[cells.day[block.cells]]
            place, part = place[used], part[used]
        here = slice(block.first * n, block.end * n)
        sums[here] = np.bincount(place, part, (block.end - block.first) * n)
    return sums.reshape(shape)


def keys_in_order(cells: BidCells | PriceCells, shape: tuple[int, int, int]) -> NDArray[np.int64]:
    """Return one number for each cell, (N,), which increases with advertiser, day and bin."""
    _, n_days, n_bins = shape
    key = cells.advertiser.astype(np.int64)
    for column, n in ((cells.day, n_days), (cells.bin, n_bins)):
        key *= n
        key += column
    return key


def run_starts(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return where runs of equal values start.

    >>> run_starts(np.array([3, 3, 5, 7, 7])).tolist()
    [0, 2, 3]
    """
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
    return [field.name for field in fields(kind) if field.name not in KEYS]


def _blocks_of(values: NDArray[Any]) -> Iterator[NDArray[Any]]:
    return (values[start : start + _BLOCK] for start in range(0, len(values), _BLOCK))


def _advertiser_blocks(advertiser: Indices) -> Iterator[_Block]:
    """Cut sorted cells into blocks of about ``_BLOCK`` cells of whole advertisers."""
    start = 0
    while start < len(advertiser):
        last = advertiser[min(start + _BLOCK, len(advertiser)) - 1]
        end = int(np.searchsorted(advertiser, last, side="right"))
        yield _Block(int(advertiser[start]), int(last) + 1, slice(start, end))
        start = end
