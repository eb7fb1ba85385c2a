"""A packed label table in its engine: count or sample its tuples, read its rows in batches."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie.engines.label_tables.packed_keys import HASH_RANGE, KeyLayout
from coterie.engines.queries import engine_errors, fetch, stream
from coterie.errors import TableError
from coterie.runtime.short_reprs import short_repr

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["PackedTable", "TupleCounts"]

_CELLS_A_BATCH = 1 << 25
_MOST_ROWS = 1 << 20
_FEWEST_ROWS = 1 << 12


@dataclass(frozen=True, eq=False)
class TupleCounts:
    """Distinct label tuples in the order of their keys, which is the same in every engine."""

    keys: list[NDArray[np.int64]]  # one (u,) array per key
    counts: NDArray[np.int64]  # (u,), number of rows with each tuple
    share: float = 1.0  # of all possible tuples, how many were eligible; below 1 for a sample

    __repr__ = short_repr

    @property
    def n_tuples(self) -> int:
        """Number of tuples in this object, u."""
        return len(self.counts)

    @property
    def estimate(self) -> int:
        """Estimated number of distinct tuples in the table."""
        return round(self.n_tuples / self.share)


@dataclass(frozen=True, eq=False)
class PackedTable:
    """A label table in its engine, with its labels packed into keys."""

    rows: ir.Table  # the carried columns and the keys
    layout: KeyLayout
    n_rows: int
    carried: tuple[str, ...]  # columns to copy to the output
    put: Callable[[pa.Table], ir.Table]  # copies an Arrow table to the engine

    def count_tuples(self, at_most: int) -> TupleCounts | None:
        """Count all distinct tuples; return None if there are more than ``at_most``."""
        found = self._counts(self._keys(), at_most + 1)
        if found.n_tuples > at_most:
            return None
        self._check_row_count(int(found.counts.sum()))
        return found

    def sample_tuples(self, share: float) -> TupleCounts:
        """Count the tuples whose hash is in the lowest ``share`` of the range of hashes.

        A sampled tuple has all of its rows, and the sample depends on the labels only. The number
        of its tuples s, divided by ``share``, estimates the number of all tuples without bias and
        with a relative error of about 1/√s.
        """
        keys = self._keys()
        below = max(1, round(share * HASH_RANGE))
        found = self._counts(keys.filter(self.layout.key_hash(keys) < below))
        return replace(found, share=below / HASH_RANGE)

    def is_repetitive(self, n_rows: int) -> bool:
        """Return whether ``n_rows`` rows hold at most half as many distinct tuples."""
        some = self._keys().limit(n_rows)
        counted = some.group_by(list(some.columns)).agg(coterie_count=some.count())
        found = fetch(counted.aggregate(rows=counted.coterie_count.sum(), tuples=counted.count()))
        (numbers,) = found.to_pylist()
        return bool(numbers["tuples"] <= numbers["rows"] / 2)

    def labelled(self, tuples: TupleCounts, fitted: Any) -> ir.Table:
        """Join the labels and confidences of the tuples to the carried columns of every row."""
        names = [f"{name}_of_tuple" for name in self.layout.key_names]
        columns = dict(zip(names, tuples.keys, strict=True))
        columns |= {"label": fitted.labels_.astype(np.int32), "confidence": fitted.confidence_}
        same = list(zip(self.layout.key_names, names, strict=True))
        joined = self.rows.inner_join(self.put(pa.table(columns)), same)
        return joined.select(*self.carried, "label", "confidence")

    @contextlib.contextmanager
    def cached(self) -> Iterator[PackedTable]:
        """Keep the packed rows on the disks of Spark's workers while they are read repeatedly."""
        connection: Any = self.rows.get_backend()
        if connection.name != "pyspark":
            yield self
            return
        from pyspark import StorageLevel

        with engine_errors("pyspark cannot cache the table"):
            frame = connection._session.sql(connection.compile(self.rows))
            frame = frame.persist(StorageLevel.DISK_ONLY)
            name = f"coterie_kept_{uuid.uuid4().hex}"
            frame.createTempView(name)
        try:
            yield replace(self, rows=connection.table(name))
        finally:
            connection._session.catalog.dropTempView(name)
            frame.unpersist()

    def batches(self, carried: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """Yield batches of bounded size with the given columns and the keys, each row once."""
        n_found = 0
        for batch in self._portions([*carried, *self.layout.key_names]):
            n_found += batch.num_rows
            yield batch
        self._check_row_count(n_found)

    def _portions(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        cells = _CELLS_A_BATCH // len(self.layout.columns)
        rows_a_batch = max(_FEWEST_ROWS, min(_MOST_ROWS, cells))
        if self.rows.get_backend().name == "duckdb":
            yield from stream(self.rows.select(*columns), rows_a_batch)
            return
        # other engines have no batches of bounded size: ask for one class of row hashes at a time
        n_buckets = max(1, -(-self.n_rows // rows_a_batch))
        bucket_of = self._row_hash() % n_buckets
        for bucket in range(n_buckets):
            found = fetch(self.rows.filter(bucket_of == bucket).select(*columns))
            if found.num_rows:
                yield from found.combine_chunks().to_batches()

    def _row_hash(self) -> ir.IntegerColumn:
        """Return a number ≥ 0 for each row that depends on the content of the row only."""
        hashed = self.layout.key_hash(self.rows)
        if self.rows.get_backend().name != "pyspark":
            return hashed
        # one tuple may have many rows, which differ in their ids
        for name in self.rows.columns:
            if name not in self.layout.key_names:
                hashed = hashed + self.rows[name].hash().cast("int64") % HASH_RANGE + HASH_RANGE
        return hashed

    def _keys(self) -> ir.Table:
        return self.rows.select(*self.layout.key_names)

    def _counts(self, keys: ir.Table, limit: int | None = None) -> TupleCounts:
        counted = keys.group_by(list(keys.columns)).agg(coterie_count=keys.count())
        found = fetch(counted.limit(limit))
        columns = [found[name].to_numpy() for name in self.layout.key_names]
        order = np.lexsort(columns)
        counts = found["coterie_count"].to_numpy()
        return TupleCounts([column[order] for column in columns], counts[order])

    def _check_row_count(self, n_found: int) -> None:
        """Refuse to continue if packing lost or doubled rows, or if the table has changed."""
        if n_found != self.n_rows:
            raise TableError(
                f"the table had {self.n_rows:,} rows when its columns were read, and {n_found:,} "
                "when their labels were counted; either it is being written to, or the engine "
                "takes different labels for equal: write it to Parquet files and use these"
            )
