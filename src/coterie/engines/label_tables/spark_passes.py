"""Passes over the rows of a Spark table on its executors.

The driver sends the placing rule (:class:`~.executor_scoring.RowScorer`) with the code that applies
it. A sweep returns m·K + K + 2 sums that Spark adds up over all partitions, and labelled rows are
written by Spark: no row of the table comes to the driver. Both passes are queries of Spark without
side effects, so a task that is lost with its executor is repeated and counted once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coterie.engines.label_tables.executor_scoring import (
    PLACE_COLUMN,
    VALUE_COLUMN,
    RowScorer,
    count_batches,
    label_batches,
    n_counts,
)
from coterie.engines.label_tables.packed_table import PackedTable
from coterie.engines.label_tables.spark_frames import mapped, spark_frame
from coterie.engines.label_tables.streamed_consensus import AssignmentRule, RowCoder, SweepCounts
from coterie.engines.label_tables.table_outputs import TableOutput
from coterie.engines.queries import engine_errors
from coterie.errors import OutputError
from coterie.runtime.wording import short_repr

__all__ = ["SparkPasses", "row_scorer", "sweep_counts"]


@dataclass(frozen=True, eq=False)
class SparkPasses:
    """Passes over the rows of a Spark table."""

    table: PackedTable

    __repr__ = short_repr

    def count(self, coder: RowCoder, rule: AssignmentRule) -> SweepCounts:
        """Count all rows in the clusters that a rule assigns: one sweep."""
        scorer = row_scorer(coder, rule)
        with engine_errors("Spark cannot count the rows"):
            counts = mapped(
                spark_frame(self.table.read()),
                partial(count_batches, scorer),
                f"{PLACE_COLUMN} long, {VALUE_COLUMN} double",
            )
            found = counts.groupBy(PLACE_COLUMN).sum(VALUE_COLUMN).toArrow()
        sums = np.zeros(n_counts(scorer))
        sums[found[0].to_numpy()] = found[1].to_numpy()
        self.table.check_row_count(round(sums[-2]))
        return sweep_counts(sums, rule)

    def write(
        self, coder: RowCoder, rule: AssignmentRule, output: TableOutput, folder: Path
    ) -> None:
        """Let Spark write carried columns, label and margin of all rows."""
        from pyspark.sql.types import DoubleType, IntegerType, StructType

        carried, place = self.table.carried, output.rows_in(folder).absolute()
        # Spark cannot map columns whose names have dots
        safe = tuple(f"carried_{i}" for i in range(len(carried)))
        frame = spark_frame(self.table.read(carried)).toDF(*safe, *self.table.layout.key_names)
        schema = StructType([frame.schema[name] for name in safe])
        schema = schema.add("label", IntegerType()).add("margin", DoubleType())
        label = partial(label_batches, row_scorer(coder, rule), safe)
        with engine_errors(f"cannot write {output.path}", OutputError):
            rows = mapped(frame, label, schema).toDF(*carried, "label", "margin")
            rows.write.parquet(place.as_uri())
        parts = place.rglob("*.parquet")
        self.table.check_row_count(sum(pq.read_metadata(part).num_rows for part in parts))


def row_scorer(coder: RowCoder, rule: AssignmentRule) -> RowScorer:
    """Return a placing rule as arrays for the executors."""
    tables, layout = rule.tables, coder.layout
    m, n_labels = len(tables.table), np.diff(tables.offsets)
    starts = np.concatenate([[0], np.cumsum(layout.radices)])
    keys = tuple(
        (
            name,
            tuple(
                (int(layout.radices[v]), int(starts[v]), int(coder.places[v])) for v in group[::-1]
            ),
        )
        for name, group in zip(layout.key_names, layout.groups, strict=True)
    )
    lookup = np.concatenate(coder.codes_of).astype(np.intp)
    lookup[lookup < 0] = m

    def scorer(alpha: NDArray[np.float64]) -> RowScorer:
        def extended(rows: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.vstack([np.repeat(alpha, n_labels)[:, None] * rows, np.zeros_like(rows[:1])])

        return RowScorer(
            keys=keys,
            lookup=lookup,
            offsets=tables.offsets,
            votes=extended(tables.table),
            pairs=extended(np.repeat(tables.present, n_labels, axis=0)),
            alpha=alpha,
            size=tables.size,
            complete=tables.complete,
            threshold=rule.threshold,
        )

    weighted = scorer(tables.alpha)
    if tables.alpha.all():
        return weighted
    return replace(weighted, unweighted=scorer(np.ones_like(tables.alpha)))


def sweep_counts(sums: NDArray[np.float64], rule: AssignmentRule) -> SweepCounts:
    """Return the sums of all partitions as tables."""
    K = len(rule.tables.size)
    table, size = sums[: -2 - K].reshape(-1, K), sums[-2 - K : -2]
    present = np.add.reduceat(table, rule.tables.offsets[:-1], axis=0)
    tables = replace(rule.tables, table=table, present=present, size=size)
    return SweepCounts(tables, round(sums[-2]), float(sums[-1]))
