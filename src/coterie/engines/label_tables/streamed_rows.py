"""The rows of a packed table, a bounded number at a time, as codes that cluster tables take."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie.engines.label_tables.packed_keys import HASH_RANGE, KeyLayout
from coterie.engines.label_tables.tuple_groups import check_all_there
from coterie.engines.queries import engine_errors, fetch, stream
from coterie.labels.label_matrix import MISSING, LabelMatrix
from coterie.labels.tuples import LabelTuples

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["RowCoder", "StreamedRows"]

_CELLS_A_BATCH = 1 << 25
_MOST_ROWS = 1 << 20
_FEWEST_ROWS = 1 << 12


@dataclass(frozen=True, eq=False)
class RowCoder:
    """Indicator columns of packed rows under a fitted consensus.

    Attributes
    ----------
    layout : :class:`~coterie.engines.label_tables.packed_keys.KeyLayout`
    codes_of : tuple of V arrays
        The indicator column of each digit of a partition, −1 for none.
    places : (V,) int
        Which column of the tuples each partition is.
    """

    layout: KeyLayout
    codes_of: tuple[NDArray[Any], ...]
    places: NDArray[np.int64]

    @classmethod
    def of(cls, layout: KeyLayout, tuples: LabelTuples, vocabulary: LabelMatrix) -> RowCoder:
        """The coder to the columns of tuples whose labels are those of a vocabulary.

        Labels that the vocabulary lacks count as missing.
        """
        codes_of, start = [], 0
        for labels, known in zip(layout.labels, vocabulary.categories, strict=True):
            columns = np.full(len(labels) + 1, MISSING, dtype=tuples.codes.dtype)
            # both are sorted
            digits = np.searchsorted(labels, known) + 1
            columns[digits] = tuples.recode[start : start + len(known)]
            codes_of.append(columns)
            start += len(known)
        return cls(layout, tuple(codes_of), np.argsort(tuples.partition_order))

    @property
    def leaves_some_missing(self) -> bool:
        """Whether a row may have a missing label."""
        unknown = any((columns[1:] == MISSING).any() for columns in self.codes_of)
        return unknown or self.layout.has_missing

    def codes(self, batch: pa.RecordBatch) -> NDArray[Any]:
        """Indicator columns (n, V) of a batch with its keys."""
        keys = [batch[name].to_numpy(zero_copy_only=False) for name in self.layout.key_names]
        return self.codes_of_keys(keys)

    def codes_of_keys(self, keys: Sequence[NDArray[np.int64]]) -> NDArray[Any]:
        """Indicator columns (n, V) of rows by their keys."""
        return self.layout.unpacked(keys, self.codes_of, self.places)


class StreamedRows:
    """The rows of a packed table, to be read several times.

    Parameters
    ----------
    packed : ibis table
        Columns carried through, and keys.
    layout : :class:`~coterie.engines.label_tables.packed_keys.KeyLayout`
    n_rows : int
    """

    def __init__(self, packed: ir.Table, layout: KeyLayout, n_rows: int) -> None:
        self._packed, self._layout, self._n_rows = packed, layout, n_rows
        cells = _CELLS_A_BATCH // len(layout.columns)
        self.rows_a_batch = max(_FEWEST_ROWS, min(_MOST_ROWS, cells))
        self._n_buckets = max(1, -(-n_rows // self.rows_a_batch))

    @contextlib.contextmanager
    def kept(self) -> Iterator[StreamedRows]:
        """Keep the packed rows on the workers' disks for as long as they are read again."""
        if self._packed.get_backend().name != "pyspark":
            yield self
            return
        from pyspark import StorageLevel

        connection: Any = self._packed.get_backend()
        with engine_errors("pyspark cannot keep the table"):
            frame = connection._session.sql(connection.compile(self._packed))
            frame = frame.persist(StorageLevel.DISK_ONLY)
            name = f"coterie_kept_{uuid.uuid4().hex}"
            frame.createTempView(name)
        original, self._packed = self._packed, connection.table(name)
        try:
            yield self
        finally:
            self._packed = original
            connection._session.catalog.dropTempView(name)
            frame.unpersist()

    def batches(self, carried: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """Batches of carried columns and keys, each row once.

        Where the engine is not DuckDB, those of one batch have hashes in one class: on Spark of
        the whole row, elsewhere of its labels, so that rows alike in these come together.
        """
        n_found = 0
        for batch in self._portions([*carried, *self._layout.key_names]):
            n_found += batch.num_rows
            yield batch
        check_all_there(n_found, self._n_rows)

    def _portions(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if self._packed.get_backend().name == "duckdb":
            yield from stream(self._packed.select(*columns), self.rows_a_batch)
            return
        # other engines give no bounded batches: ask for rows by a share of their hashes
        bucket_of = self._row_hash() % self._n_buckets
        for bucket in range(self._n_buckets):
            found = fetch(self._packed.filter(bucket_of == bucket).select(*columns))
            if found.num_rows:
                yield from found.combine_chunks().to_batches()

    def _row_hash(self) -> ir.IntegerColumn:
        """A number ≥ 0 of each row, which depends on nothing but what is in it."""
        hashed = self._layout.key_hash(self._packed)
        if self._packed.get_backend().name != "pyspark":
            return hashed
        # one tuple may have any number of rows, which differ in their ids
        for name in self._packed.columns:
            if name not in self._layout.key_names:
                hashed = hashed + self._packed[name].hash().cast("int64") % HASH_RANGE + HASH_RANGE
        return hashed
