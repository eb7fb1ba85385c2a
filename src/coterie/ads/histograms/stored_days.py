"""Stored days: histograms and texts packed into a model, so that later days can be added to it.

The cells are kept as compressed Parquet, less than ten bytes per cell, and are packed and unpacked
a group of rows at a time. Because all logs share the price grid, the days of a model and those of
a new log can be put together without reading the old log again, and give exactly the histograms
that counting both logs would give.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from numpy.typing import NDArray

from coterie.ads.histograms.bid_histograms import (
    KEYS,
    BidCells,
    BidHistograms,
    PriceCells,
    columns_of,
    compact,
    index_type,
    keys_in_order,
    looked_up,
    refuse_many_days,
)
from coterie.ads.histograms.price_grid import on_price_grid, price_grid
from coterie.arrays import Ints
from coterie.errors import InvalidParameterError, ModelFileError

#: What logs whose days are put together must have in common.
KIND_OF_LOG = {
    "auction": "auction type",
    "revealed": "kind of known prices",
    "currency": "currency",
    "unit": "unit",
}

Bytes = NDArray[np.uint8]
_GROUP_ROWS = 1_000_000


@dataclass(frozen=True)
class StoredDays:
    """Parquet files of the bid cells, the price cells and the texts; and what cells refer to."""

    bids: Bytes
    prices: Bytes
    texts: Bytes
    edges: Ints
    days: NDArray[np.datetime64]
    auction: str
    revealed: str
    currency: str
    unit: str


def pack_days(histograms: BidHistograms, texts: Mapping[str, str]) -> StoredDays:
    """Pack histograms and the texts of their advertisers; the inverse of :func:`unpack_days`."""
    names = histograms.advertisers
    written = {
        "advertiser": pa.array(names, pa.string()),
        "text": pa.array([texts.get(str(name), "") for name in names], pa.string()),
    }
    cells = []
    for part in (histograms.bids, histograms.prices):
        columns = dict(vars(part))
        if columns.get("square") is columns["count"]:  # without weights Σ w² is Σ w
            columns.pop("square", None)
        cells.append(pack_columns(columns))
    texts_packed = pack_columns(written)
    return StoredDays(bids=cells[0], prices=cells[1], texts=texts_packed, **_common(histograms))


def unpack_days(stored: StoredDays) -> tuple[BidHistograms, dict[str, str]]:
    """Return the histograms and the texts."""
    texts = unpack_columns(stored.texts).to_pydict()
    histograms = BidHistograms(
        advertisers=np.array(texts["advertiser"], dtype=str),
        bids=_unpacked_cells(BidCells, stored.bids),
        prices=_unpacked_cells(PriceCells, stored.prices),
        **_common(stored),
    )
    return histograms, dict(zip(texts["advertiser"], texts["text"], strict=True))


def _common(part: BidHistograms | StoredDays) -> dict[str, Any]:
    """Return what histograms and stored days have in common."""
    names = ("edges", "days", "auction", "revealed", "currency", "unit")
    return {name: getattr(part, name) for name in names}


def stored_wins(stored: StoredDays, n_advertisers: int) -> dict[str, sp.csr_array]:
    """Return the sums of ``wins`` and ``cost`` by advertiser and bin of the bid, (A, G).

    Cells of other advertisers or bins are refused.
    """
    shape = n_advertisers, len(stored.edges)
    try:
        file = _opened(stored.bids)
        # a file that claims more is not read at all
        if file.metadata.num_rows > n_advertisers * len(stored.days) * len(stored.edges):
            raise ModelFileError("the model stores more cells than it can have; make it again")
        table = file.read(["advertiser", "bin", "wins", "cost"])
    except (pa.ArrowInvalid, OSError) as error:
        raise ModelFileError(
            "the days stored in the model cannot be read; make it again"
        ) from error
    places = [table[name].to_numpy().astype(np.int64) for name in ("advertiser", "bin")]
    for place, size in zip(places, shape, strict=True):
        if len(place) and not (place.min() >= 0 and place.max() < size):
            raise ModelFileError("the days stored in the model do not fit it; make it again")
    return {
        name: sp.csr_array((table[name].to_numpy().astype(np.float64), tuple(places)), shape=shape)
        for name in ("wins", "cost")
    }


def merge_histograms(first: BidHistograms, second: BidHistograms) -> BidHistograms:
    """Put the days of two logs together.

    The logs must have the same auction type, kind of prices and currency, and no day in common.
    Together they may have as many days as one log.
    """
    first, second = on_price_grid(first), on_price_grid(second)
    for name, label in KIND_OF_LOG.items():
        one, other = getattr(first, name), getattr(second, name)
        if one != other and one and other:
            raise InvalidParameterError(
                f"the {label} of the model is {one!r} and that of the new log {other!r}; they must "
                "be the same: fit another model to the new log"
            )
    common = np.intersect1d(first.days, second.days)
    if len(common):
        raise InvalidParameterError(
            f"the model already has {common[0]}"
            + (f" and {len(common) - 1} other days of the new log" if len(common) > 1 else "")
            + "; give a log of new days only"
        )
    advertisers = np.union1d(first.advertisers, second.advertisers)
    days = np.union1d(first.days, second.days)
    refuse_many_days(len(days), "the model and the new log together")
    edges = price_grid(min(first.edges[0], second.edges[0]), max(first.edges[-1], second.edges[-1]))
    keys = advertisers, days, edges
    parts = [first, second]
    return BidHistograms(
        *keys,
        first.auction,
        first.revealed,
        _joined([(part, part.bids) for part in parts], keys),
        _joined([(part, part.prices) for part in parts], keys),
        first.currency or second.currency,
        first.unit,
    )


def pack_columns(columns: Mapping[str, Any]) -> Bytes:
    """Return columns as a compressed Parquet file."""
    types = {name: _narrow_type(values) for name, values in columns.items()}
    number = max(map(len, columns.values()), default=0)
    sink = pa.BufferOutputStream()
    writer: pq.ParquetWriter | None = None
    for start in range(0, max(number, 1), _GROUP_ROWS):
        part = {name: values[start : start + _GROUP_ROWS] for name, values in columns.items()}
        for name, kind in types.items():
            if kind is not None:
                part[name] = part[name].astype(kind, copy=False)
        table = pa.table(part)
        writer = writer or pq.ParquetWriter(sink, table.schema, compression="zstd")
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return np.frombuffer(sink.getvalue(), dtype=np.uint8)


def unpack_columns(content: Bytes) -> pa.Table:
    """Return the columns of a packed table."""
    return _opened(content).read()


def _opened(content: Bytes) -> pq.ParquetFile:
    return pq.ParquetFile(pa.BufferReader(pa.py_buffer(np.ascontiguousarray(content))))


def _unpacked_cells(kind: Any, content: Bytes) -> Any:
    file = _opened(content)
    columns: dict[str, Any] = {}
    for name in (*KEYS, *columns_of(kind)):
        if name in file.schema_arrow.names:
            groups = range(file.num_row_groups)
            read = (file.read_row_group(group, columns=[name])[name] for group in groups)
            columns[name] = np.concatenate([part.to_numpy() for part in read])
    if "square" in columns_of(kind):
        columns.setdefault("square", columns["count"])
    return compact(kind(**columns))


def _joined(parts: list[tuple[BidHistograms, Any]], keys: tuple[Any, Any, Any]) -> Any:
    """Return the cells of several logs by other advertisers, days and edges, sorted by them."""
    advertisers, days, edges = keys
    shape = len(advertisers), len(days), len(edges)
    moved, places = [], []
    for part, cells in parts:
        row = np.searchsorted(advertisers, part.advertisers).astype(np.int32)
        day = np.searchsorted(days, part.days).astype(np.int16)
        place = np.searchsorted(edges, part.edges).astype(index_type(len(edges)))
        renumbered = replace(
            cells,
            advertiser=looked_up(row, cells.advertiser),
            day=looked_up(day, cells.day),
            bin=looked_up(place, cells.bin),
        )
        moved.append(renumbered)
        places.append(keys_in_order(renumbered, shape))
    # stable, which is fast on sorted parts
    order = np.argsort(np.concatenate(places), kind="stable")
    columns = {
        name: np.concatenate([getattr(one, name) for one in moved])[order]
        for name in vars(moved[0])
    }
    return compact(type(moved[0])(**columns))


def _narrow_type(values: Any) -> Any:
    """Return the smallest type that holds whole numbers; Parquet stores them in less."""
    if not (isinstance(values, np.ndarray) and values.dtype.kind in "if" and values.size):
        return None
    least, most = values.min(), values.max()
    if not (0 <= least and most < 2**63):
        return None
    for start in range(0, len(values), _GROUP_ROWS):
        part = values[start : start + _GROUP_ROWS]
        if part.dtype.kind == "f" and not np.array_equal(part, np.floor(part)):
            return None
    return np.min_scalar_type(int(most))
