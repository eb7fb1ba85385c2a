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
    KEYS,
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

    def cells_of(wanted: Any) -> Any:
        found = columns[wanted]
        found["advertiser"] = _renumbered(advertiser_rank, found["advertiser"])
        found["day"] = _renumbered(day_rank.astype(np.int16), found["day"])
        return _in_order(wanted(**found), shape)

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


def _columns(
    batches: Batches, wanted: type[Any], names: _Numbers, days: _Numbers, n_bins: int
) -> dict[str, NDArray[Any]]:
    """Return the columns of the cells, with numbers of names and days in order of appearance."""
    pieces: dict[str, list[NDArray[Any]]] = {name: [] for name in (*KEYS, *columns_of(wanted))}
    for batch in map(_with_keys, batches):
        if not len(batch):
            continue
        runs = _runs_of_names(batch["advertiser_id"])
        pieces["advertiser"].append(np.repeat(names.of(runs[0]), runs[1]))
        pieces["day"].append(_day_numbers(batch["day"], days))
        pieces["bin"].append(batch["bin"].to_numpy().astype(index_type(n_bins), copy=False))
        for name in columns_of(wanted):
            if name in batch.schema.names:
                values = batch[name].to_numpy(zero_copy_only=False)
                # a copy, because a view would keep the whole batch
                narrow = narrow_counts(values) if name in COUNTS else values
                pieces[name].append(narrow.copy() if narrow is values else narrow)
    return _joined(pieces)


def _joined(pieces: dict[str, list[NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Join the pieces of each column, and let go of them one column after another."""
    n = sum(map(len, pieces["bin"]))
    is_weighted = bool(pieces.get("square"))
    found = {}
    for name in list(pieces):
        parts = pieces.pop(name)
        if parts:
            found[name] = np.concatenate(parts)
        else:
            kind = np.int32 if name in COUNTS or name == "advertiser" else np.float64
            found[name] = np.zeros(n, dtype=np.int16 if name in {"day", "bin"} else kind)
    if "square" in found and not is_weighted:
        found["square"] = found["count"]
    return found


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


def _renumbered(rank: NDArray[Any], numbers: NDArray[Any]) -> NDArray[Any]:
    if numbers.dtype == rank.dtype and np.array_equal(rank, np.arange(len(rank))):
        return numbers
    return looked_up(rank, numbers)


def _with_keys(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the cells that have an advertiser and a day."""
    has_both = pc.and_(pc.not_equal(batch["advertiser_id"], ""), pc.is_valid(batch["day"]))
    # usually all have both, and filtering would copy them
    all_have = pc.all(has_both, skip_nulls=False, min_count=0).as_py()
    return batch if all_have else batch.filter(has_both)


def _day_numbers(column: pa.Array, days: _Numbers) -> NDArray[np.int32]:
    since = column.cast(pa.date32()).cast(pa.int32()).to_numpy().astype(np.int64)
    first = int(since.min())
    since -= first
    met = np.flatnonzero(np.bincount(since))
    number = np.empty(int(met[-1]) + 1, dtype=np.int32)
    number[met] = days.of((met + first).tolist())
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
