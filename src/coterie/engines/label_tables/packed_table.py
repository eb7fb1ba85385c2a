"""A packed label table in its engine: count or sample its tuples, read rows in batches."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie.engines.label_tables.executor_scoring import COUNT_COLUMN, batches_of_low_hash
from coterie.engines.label_tables.packed_keys import HASH_RANGE, KeyLayout
from coterie.engines.label_tables.spark_frames import count_keys_of_low_hash
from coterie.engines.queries import LocalTables, fetch, stream
from coterie.errors import TableError
from coterie.runtime.wording import short_repr

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
    is_grouped: bool = False  # the rows are distinct tuples, with the number of rows of each

    def count_tuples(self, at_most: int) -> TupleCounts | None:
        """Count all distinct tuples; return None if there are more than ``at_most``."""
        tuples = self._in_order(fetch(_counted(self._keys()).limit(at_most + 1)))
        if tuples.n_tuples > at_most:
            return None
        self.check_row_count(int(tuples.counts.sum()))
        return tuples

    def sample_tuples(self, share: float) -> TupleCounts:
        """Count the tuples whose hash is in the lowest ``share`` of the range of hashes.

        A sampled tuple has all of its rows, and the sample depends on the labels only. The number
        of its tuples s, divided by ``share``, estimates the number of all tuples without bias and
        with a relative error of about 1/√s.
        """
        keys = self._keys()
        below = max(1, round(share * HASH_RANGE))
        if keys.get_backend().name == "pyspark":
            counted = count_keys_of_low_hash(keys, self.layout, below)
        elif keys.get_backend().name == "sqlite":
            counted = _counted_here(keys, self.layout, below)
        else:
            counted = fetch(_counted(keys.filter(self.layout.key_hash(keys) < below)))
        return replace(self._in_order(counted), share=below / HASH_RANGE)

    def is_repetitive(self, n_rows: int) -> bool:
        """Return whether ``n_rows`` rows hold at most half as many distinct tuples."""
        some = self._keys().limit(n_rows)
        counted = _counted(some)
        found = fetch(counted.aggregate(rows=counted[COUNT_COLUMN].sum(), tuples=counted.count()))
        (numbers,) = found.to_pylist()
        return bool(numbers["tuples"] <= numbers["rows"] / 2)

    def labelled(self, tuples: TupleCounts, fitted: Any) -> ir.Table:
        """Join the labels and margins of the tuples to the carried columns of every row."""
        names = [f"{name}_of_tuple" for name in self.layout.key_names]
        columns = dict(zip(names, tuples.keys, strict=True))
        columns |= {"label": fitted.labels_.astype(np.int32), "margin": fitted.margin_}
        same = list(zip(self.layout.key_names, names, strict=True))
        joined = self.rows.inner_join(self.put(pa.table(columns)), same)
        return joined.select(*self.carried, "label", "margin")

    @contextlib.contextmanager
    def grouped(self, local: LocalTables) -> Iterator[PackedTable]:
        """Keep all distinct tuples with their counts in the engine while they are read repeatedly.

        The table that is yielded has the same rows.
        """
        with local.kept(_counted(self._keys())) as tuples:
            yield replace(self, rows=tuples, carried=(), is_grouped=True)

    def read(self, carried: Sequence[str] = ()) -> ir.Table:
        """Return the query of given columns, keys and, of grouped rows, counts."""
        counts = [COUNT_COLUMN] if self.is_grouped else []
        return self.rows.select(*carried, *self.layout.key_names, *counts)

    def batches(self, carried: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """Yield the rows of :meth:`read` in batches of bounded size, each row once."""
        cells = _CELLS_A_BATCH // len(self.layout.columns)
        return stream(self.read(carried), max(_FEWEST_ROWS, min(_MOST_ROWS, cells)))

    def check_row_count(self, n_found: int) -> None:
        """Refuse to continue if packing lost or doubled rows, or if the table has changed."""
        if n_found != self.n_rows:
            raise TableError(
                f"the table had {self.n_rows:,} rows when its columns were read, and {n_found:,} "
                "when their labels were counted; either it is being written to, or the engine "
                "takes different labels for equal: write it to Parquet files and use these"
            )

    def _keys(self) -> ir.Table:
        return self.rows.select(*self.layout.key_names)

    def _in_order(self, table: pa.Table) -> TupleCounts:
        columns = [table[name].to_numpy() for name in self.layout.key_names]
        order = np.lexsort(columns)
        counts = table[COUNT_COLUMN].to_numpy()
        return TupleCounts([column[order] for column in columns], counts[order])


def _counted_here(keys: ir.Table, layout: KeyLayout, below: int) -> pa.Table:
    """Count the distinct keys whose hash is below a bound, by NumPy.

    Ibis writes remainders for SQLite as its function MOD, which computes with floats and so loses
    digits of large integers.
    """
    read = stream(keys, _MOST_ROWS)
    rows = batches_of_low_hash(layout.hash_factors, HASH_RANGE, below, read)
    some = pa.Table.from_batches(rows, keys.schema().to_pyarrow())
    counted = some.group_by(list(layout.key_names)).aggregate([([], "count_all")])
    return counted.rename_columns({"count_all": COUNT_COLUMN})


def _counted(keys: ir.Table) -> ir.Table:
    return keys.group_by(list(keys.columns)).agg(**{COUNT_COLUMN: keys.count()})
