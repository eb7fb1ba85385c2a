"""Gathering: put the batches of cells that an engine returns together, without a second copy.

The engine sorts the cells, so that a batch has long runs of one advertiser and only the name of
each run is looked at. Every batch is stored in the types of :mod:`~coterie.ads.histograms.cells`.
Cells that an engine has sorted in another way, as a database with a collation may, are sorted here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.ads.histograms.cells import (
    COUNTS,
    BidCells,
    PriceCells,
    columns_of,
    index_type,
    keys_in_order,
    looked_up,
    narrow_counts,
    refuse_many_days,
    with_columns,
)
from coterie.errors import TableError

__all__ = ["gather_cells"]

Batches = Iterable[pa.RecordBatch]
_LONGEST_NAME = 1000
_BLOCK = 2_000_000


def gather_cells(
    bids: Batches, prices: Batches, n_bins: int, source: str
) -> tuple[NDArray[np.str_], NDArray[np.datetime64], BidCells, PriceCells]:
    """Index advertisers and days, and sort the cells by advertiser, day and bin.

    ``bids`` and ``prices`` have the columns ``advertiser_id``, ``day``, ``bin`` and the sums of the
    cells. They may be in any order; cells in the order of the result need the least memory. A
    missing sum is 0, and a missing Σ w² is Σ w. Rows without an advertiser or a day do not count.
    The advertisers and days of prices must be among those of bids.

    Returns
    -------
    advertisers, days, bids, prices
        See :class:`~coterie.ads.histograms.bid_histograms.BidHistograms`.

    Examples
    --------
    >>> import datetime
    >>> rows = {"advertiser_id": ["b", "a", None], "day": [datetime.date(2026, 3, 2)] * 3,
    ...         "bin": [0, 5, 1], "count": [1.0, 2.0, 3.0]}
    >>> advertisers, days, bids, _ = gather_cells(pa.table(rows).to_batches(), [], 6, "a log")
    >>> advertisers.tolist(), bids.bin.tolist(), bids.count.tolist()
    (['a', 'b'], [5, 0], [2, 1])
    """
    names, days = _Numbers(), _Numbers()
    columns = {
        BidCells: _columns(bids, BidCells, names, days, n_bins),
        PriceCells: _columns(prices, PriceCells, names, days, n_bins),
    }
    refuse_many_days(len(days.values), source)
    advertisers, advertiser_rank = names.sorted(lambda values: _text_array(values, source))
    dates, day_rank = days.sorted(lambda values: np.array(values, dtype="datetime64[D]"))
    shape = len(advertisers), len(dates), n_bins

    def cells_of(kind: Any) -> Any:
        of_kind = columns[kind]
        of_kind["advertiser"] = _renumbered(advertiser_rank, of_kind["advertiser"])
        of_kind["day"] = _renumbered(day_rank, of_kind["day"])
        return _in_order(kind(**of_kind), shape)

    return advertisers, dates, cells_of(BidCells), cells_of(PriceCells)


class _Numbers:
    """Numbers of values, in the order in which they first appear."""

    def __init__(self) -> None:
        self.values: dict[Any, int] = {}

    def of(self, values: Iterable[Any]) -> NDArray[np.int32]:
        known = self.values
        return np.array([known.setdefault(value, len(known)) for value in values], dtype=np.int32)

    def sorted(
        self, as_array: Callable[[list[Any]], NDArray[Any]]
    ) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Return the sorted values, and the place of each number among them."""
        values = as_array(list(self.values))
        order = np.argsort(values)
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order))
        return values[order], rank


class _Column:
    """An array that grows at its end; what is not yet used takes no memory.

    Pieces that are joined at the end would take as much again, because the allocator keeps small
    arrays that are freed.
    """

    def __init__(self, kind: Any) -> None:
        self._held, self._n = np.empty(0, dtype=kind), 0

    def append(self, values: NDArray[Any]) -> None:
        end = self._n + len(values)
        kind = np.promote_types(self._held.dtype, values.dtype)
        if end > len(self._held) or kind != self._held.dtype:
            grown = np.empty(max(end, 3 * len(self._held) // 2), dtype=kind)
            grown[: self._n] = self._held[: self._n]
            self._held = grown
        self._held[self._n : end] = values
        self._n = end

    def array(self, n: int) -> NDArray[Any]:
        """Return the array; zeros if nothing was appended."""
        return self._held[:n] if self._n else np.zeros(n, dtype=self._held.dtype)


def _columns(
    batches: Batches, kind: type[Any], names: _Numbers, days: _Numbers, n_bins: int
) -> dict[str, NDArray[Any]]:
    """Return the columns of the cells, with numbers of names and days in order of appearance."""
    sums = columns_of(kind)
    types: dict[str, Any] = {"advertiser": np.int32, "day": np.int16, "bin": index_type(n_bins)}
    types |= {name: np.int32 if name in COUNTS else np.float64 for name in sums}
    columns = {name: _Column(dtype) for name, dtype in types.items()}
    n, is_weighted = 0, False
    for batch in map(_with_keys, batches):
        if not len(batch):
            continue
        n += len(batch)
        runs = _runs_of_names(batch["advertiser_id"])
        columns["advertiser"].append(np.repeat(names.of(runs[0]), runs[1]))
        columns["day"].append(_day_numbers(batch["day"], days))
        columns["bin"].append(batch["bin"].to_numpy().astype(types["bin"], copy=False))
        for name in sums:
            if name in batch.schema.names:
                values = batch[name].to_numpy(zero_copy_only=False)
                columns[name].append(narrow_counts(values) if name in COUNTS else values)
                is_weighted |= name == "square"
    arrays = {name: column.array(n) for name, column in columns.items()}
    if "square" in arrays and not is_weighted:
        arrays["square"] = arrays["count"]
    return arrays


def _in_order(cells: Any, shape: tuple[int, int, int]) -> Any:
    """Return cells sorted by their keys; those that are sorted already are not copied."""
    if _is_sorted(cells, shape):
        return cells
    order = np.argsort(keys_in_order(cells, shape))
    return with_columns(cells, lambda values: values[order])


def _is_sorted(cells: Any, shape: tuple[int, int, int]) -> bool:
    for start in range(0, len(cells.bin), _BLOCK):
        # with the first cell of the next block
        part = slice(start, start + _BLOCK + 1)
        columns = {name: values[part] for name, values in vars(cells).items()}
        key = keys_in_order(type(cells)(**columns), shape)
        if not np.all(key[1:] > key[:-1]):
            return False
    return True


def _renumbered(rank: NDArray[np.int32], numbers: NDArray[Any]) -> NDArray[Any]:
    if np.array_equal(rank, np.arange(len(rank))):
        return numbers
    return looked_up(rank.astype(numbers.dtype), numbers)


def _with_keys(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the cells that have an advertiser and a day."""
    has_both = pc.and_(pc.not_equal(batch["advertiser_id"], ""), pc.is_valid(batch["day"]))
    # usually all have both, and filtering would copy them
    all_have = pc.all(has_both, skip_nulls=False, min_count=0).as_py()
    return batch if all_have else batch.filter(has_both)


def _day_numbers(column: pa.Array, days: _Numbers) -> NDArray[np.int16] | NDArray[np.int32]:
    since = column.cast(pa.date32()).cast(pa.int32()).to_numpy().astype(np.int64)
    first = int(since.min())
    since -= first
    met = np.flatnonzero(np.bincount(since))
    found = days.of((met + first).tolist())
    number = np.empty(int(met[-1]) + 1, dtype=index_type(len(days.values)))
    number[met] = found
    return number[since]


def _runs_of_names(column: pa.Array) -> tuple[list[str], NDArray[np.int64]]:
    """Return the names of runs of equal names, and the length of each run."""
    runs = pc.run_end_encode(column, run_end_type=pa.int64())
    return runs.values.to_pylist(), np.diff(runs.run_ends.to_numpy(), prepend=0)


def _text_array(names: list[str], source: str) -> NDArray[np.str_]:
    longest = max(map(len, names), default=0)
    if longest > _LONGEST_NAME:
        raise TableError(
            f"{source}: an advertiser_id has {longest} characters; the limit is {_LONGEST_NAME}"
        )
    return np.array(names, dtype=str)
