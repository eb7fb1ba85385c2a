"""Curves of all advertisers as one table, in parts: Arrow IPC or Parquet."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coterie.ads.decisions.bulk_tables import curve_table
from coterie.ads.forecasts.profiles import shown_grid
from coterie.ads.service.served_model import ServedModel

__all__ = ["MEDIA", "Parts", "written"]

#: Media types by the name of the format.
MEDIA = {
    "arrow": "application/vnd.apache.arrow.stream",
    "parquet": "application/vnd.apache.parquet",
}
#: The cost of each part, and what makes it.
Parts = Iterator[tuple[int, Callable[[], bytes]]]
_ADVERTISERS_TOGETHER = 8
#: So many advertisers make a record batch, or a row group.
_ADVERTISERS_WRITTEN = 1_024


def written(
    served: ServedModel, kind: Literal["arrow", "parquet"], segment: int | None = None
) -> Parts:
    """Yield the parts of the table of curves; each is to be made before the next is taken.

    Parameters
    ----------
    served : ServedModel
    kind : {"arrow", "parquet"}
    segment : int, optional
        Only the advertisers of this segment.
    """
    model, sink = served.model, _Sink()
    rows = np.arange(len(served.names))
    if segment is not None:
        rows = np.flatnonzero(model.labels_ == segment)
    # the bids of the charts
    grid = shown_grid(model.edges_)
    bins = np.searchsorted(model.edges_, grid[grid > 0])
    table = curve_table(model, bins, {"model_version": served.version.version})
    writer: Any = (
        pa.ipc.new_stream(sink, table.schema)
        if kind == "arrow"
        else pq.ParquetWriter(sink, table.schema)
    )
    gathered: list[pa.RecordBatch] = []

    def write(last: bool) -> bytes:
        if gathered:
            writer.write_table(pa.Table.from_batches(gathered).combine_chunks())
            gathered.clear()
        if last:
            writer.close()
        return sink.taken()

    def add(some: NDArray[np.int64]) -> bytes:
        gathered.append(table.batch(some))
        enough = len(gathered) * _ADVERTISERS_TOGETHER >= _ADVERTISERS_WRITTEN
        return write(last=False) if enough else b""

    for first in range(0, len(rows), _ADVERTISERS_TOGETHER):
        some = rows[first : first + _ADVERTISERS_TOGETHER]
        yield len(some) * table.width, partial(add, some)
    yield 1, partial(write, last=True)


class _Sink(io.RawIOBase):
    """A file whose content is taken away while it is written; Parquet needs its true position."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self._parts.append(bytes(part))
        self._position += len(self._parts[-1])
        return len(self._parts[-1])

    def tell(self) -> int:
        return self._position

    def taken(self) -> bytes:
        found = b"".join(self._parts)
        self._parts.clear()
        return found
