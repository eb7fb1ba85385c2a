"""Histogram cells: from the rows that engines give, in any order, to sorted arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.ads.histograms.bid_histograms import BidCells, PriceCells
from coterie.errors import TableError

__all__ = ["GatheredCells", "gather_cells"]

_PLACE = ("advertiser", "day", "bin")
_LONGEST_NAME = 1000


@dataclass(frozen=True)
class GatheredCells:
    """The cells of a log: see :class:`~coterie.ads.histograms.bid_histograms.BidHistograms`."""

    advertisers: NDArray[np.str_]
    days: NDArray[np.datetime64]
    bids: BidCells
    prices: PriceCells


def gather_cells(
    bids: pa.Table, prices: pa.Table | None, n_bins: int, source: str
) -> GatheredCells:
    """Number advertisers and days, and sort the cells by advertiser, day and bin.

    Parameters
    ----------
    bids, prices : Arrow tables
        With the columns ``advertiser_id``, ``day``, ``bin`` and the sums that the cells have; a
        sum that is missing is 0, and Σ w² is Σ w. Rows without an advertiser or a day do not
        count. Prices are those of advertisers and days that have bids.
    n_bins : int
    source : str
        Where the log is, for messages.

    Examples
    --------
    >>> import datetime
    >>> rows = {"advertiser_id": ["b", "a", None], "day": [datetime.date(2026, 3, 2)] * 3,
    ...         "bin": [0, 5, 1], "count": [1.0, 2.0, 3.0]}
    >>> found = gather_cells(pa.table(rows), None, 6, "a log")
    >>> found.advertisers.tolist(), found.bids.bin.tolist(), found.bids.count.tolist()
    (['a', 'b'], [5, 0], [2.0, 1.0])
    """
    of_bids = _counted(bids)
    of_prices = of_bids.slice(0, 0) if prices is None else _counted(prices)
    names = _sorted_names(of_bids["advertiser_id"], source)
    days = np.unique(_day_numbers(of_bids))

    def sorted_cells(cells: pa.Table, wanted: type[Any]) -> Any:
        place = pc.index_in(cells["advertiser_id"], pa.array(names)).to_numpy().astype(np.int64)
        place *= len(days)
        place += np.searchsorted(days, _day_numbers(cells))
        place *= n_bins
        place += cells["bin"].to_numpy()
        order = np.argsort(place)
        index = np.unravel_index(place[order], (len(names), len(days), n_bins))
        sums = {
            field.name: _sum(cells, field.name, order)
            for field in fields(wanted)
            if field.name not in _PLACE
        }
        return wanted(**dict(zip(_PLACE, index, strict=True)), **sums)

    return GatheredCells(
        advertisers=names,
        days=days.astype("datetime64[D]"),
        bids=sorted_cells(of_bids, BidCells),
        prices=sorted_cells(of_prices, PriceCells),
    )


def _counted(cells: pa.Table) -> pa.Table:
    """The cells of an advertiser and a day."""
    has_both = pc.and_(pc.not_equal(cells["advertiser_id"], ""), pc.is_valid(cells["day"]))
    # as a rule all have both, and a copy of millions of cells is saved
    all_have = pc.all(has_both, skip_nulls=False, min_count=0).as_py()
    return cells if all_have else cells.filter(has_both)


def _sum(cells: pa.Table, name: str, order: NDArray[np.int64]) -> NDArray[np.float64]:
    if name == "square" and name not in cells.column_names:
        name = "count"
    if name not in cells.column_names:
        return np.zeros(len(order))
    return np.take(cells[name].to_numpy().astype(np.float64, copy=False), order)


def _day_numbers(cells: pa.Table) -> NDArray[np.int32]:
    return cells["day"].cast(pa.date32()).cast(pa.int32()).to_numpy()


def _sorted_names(column: pa.ChunkedArray, source: str) -> NDArray[np.str_]:
    names = column.unique().to_pylist()
    longest = max(map(len, names), default=0)
    if longest > _LONGEST_NAME:
        raise TableError(
            f"{source}: an advertiser_id has {longest} characters; "
            f"{_LONGEST_NAME} is the most there may be"
        )
    return np.sort(np.array(names, dtype=str))
