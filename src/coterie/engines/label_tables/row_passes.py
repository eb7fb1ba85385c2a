"""Passes over the rows of a table in this process: one query, read in batches of bounded size."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie.engines.label_tables.executor_scoring import COUNT_COLUMN
from coterie.engines.label_tables.packed_table import PackedTable
from coterie.engines.label_tables.streamed_consensus import AssignmentRule, RowCoder, SweepCounts
from coterie.engines.label_tables.table_outputs import PartWriter, TableOutput
from coterie.runtime.wording import short_repr

__all__ = ["BatchPasses"]


@dataclass(frozen=True, eq=False)
class BatchPasses:
    """Passes over the rows of any engine that Ibis reads in batches."""

    table: PackedTable

    __repr__ = short_repr

    def count(self, coder: RowCoder, rule: AssignmentRule) -> SweepCounts:
        """Count all rows in the clusters that a rule assigns: one sweep."""
        counted = None
        for batch in self.table.batches():
            weights = None
            if self.table.is_grouped:
                weights = _numbers(batch, COUNT_COLUMN).astype(np.float64)
            of_batch = rule.count(self._codes(coder, batch), weights)
            counted = of_batch if counted is None else counted + of_batch
        self.table.check_row_count(0 if counted is None else counted.n_rows)
        assert counted is not None
        return counted

    def write(
        self, coder: RowCoder, rule: AssignmentRule, output: TableOutput, folder: Path
    ) -> None:
        """Write carried columns, label and margin of all rows."""
        n_written, carried = 0, self.table.carried
        writer = PartWriter(output, folder)
        for batch in self.table.batches(carried):
            labels, margin = rule.assign(self._codes(coder, batch))
            columns = {name: batch[name] for name in carried}
            columns["label"] = pa.array(labels.astype(np.int32))
            columns["margin"] = pa.array(margin)
            writer.write(pa.RecordBatch.from_pydict(columns))
            n_written += len(labels)
        writer.close()
        self.table.check_row_count(n_written)

    def _codes(self, coder: RowCoder, batch: pa.RecordBatch) -> NDArray[Any]:
        return coder.codes_of_keys([_numbers(batch, name) for name in coder.layout.key_names])


def _numbers(batch: pa.RecordBatch, name: str) -> NDArray[Any]:
    return np.asarray(batch[name].to_numpy(zero_copy_only=False))
