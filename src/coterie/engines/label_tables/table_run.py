"""One run over a packed table: count its tuples, fit them or a sample, and label every row."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie.engines.label_tables.packed_keys import KeyLayout
from coterie.engines.label_tables.streamed_consensus import StreamedConsensus, fit_sample
from coterie.engines.label_tables.streamed_rows import StreamedRows
from coterie.engines.label_tables.table_outputs import PartWriter, TableOutput
from coterie.engines.label_tables.table_result import TableConsensus
from coterie.engines.label_tables.tuple_groups import (
    TupleCounts,
    are_repetitive,
    count_tuples,
    sample_tuples,
)

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["PackedTable", "TableRun"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class PackedTable:
    """A label table in its engine, ready to be counted.

    Attributes
    ----------
    rows : ibis table
        The carried columns and the keys.
    layout : :class:`~coterie.engines.label_tables.packed_keys.KeyLayout`
    n_rows : int
    carried : tuple of str
    put : callable
        Brings a table that is here to the engine.
    """

    rows: ir.Table
    layout: KeyLayout
    n_rows: int
    carried: tuple[str, ...]
    put: Callable[[pa.Table], ir.Table]

    def labelled(self, tuples: TupleCounts, fitted: Any) -> ir.Table:
        """Carried columns, label and confidence of every row, by a join on its keys."""
        names = [f"{name}_of_tuple" for name in self.layout.key_names]
        columns = dict(zip(names, tuples.keys, strict=True))
        columns |= {"label": fitted.labels_.astype(np.int32), "confidence": fitted.confidence_}
        same = list(zip(self.layout.key_names, names, strict=True))
        joined = self.rows.inner_join(self.put(pa.table(columns)), same)
        return joined.select(*self.carried, "label", "confidence")


@dataclass(eq=False)
class TableRun:
    """Settings of a run, its output, and its stages with their times.

    Attributes
    ----------
    estimator : consensus function
        It is fitted by the run.
    max_tuples, sample_size, max_sweeps : int
        As in :func:`~coterie.engines.label_tables.consensus_table`.
    output : :class:`~coterie.engines.label_tables.table_outputs.TableOutput`, optional
    seconds : dict of str to float
    """

    estimator: Any
    max_tuples: int
    sample_size: int
    max_sweeps: int
    output: TableOutput | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def stage(self, name: str, told: str, *values: Any) -> Iterator[None]:
        """Log a line, and take the time of what is done."""
        _log.info(told, *values)
        started = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - started

    def consensus(self, table: PackedTable, *, engine_is_ours: bool) -> TableConsensus:
        """Group, fit and write, by the way that the number of tuples allows."""
        place = contextlib.nullcontext() if self.output is None else self.output.unfinished()
        with place as folder:
            if folder is not None and engine_is_ours:
                _spill_into(folder, table)
            with self.stage("group", "counting the tuples of %d rows", table.n_rows):
                tuples, are_all = self._counted(table)
            way = self._by_tuples if are_all else self._streamed
            result = way(table, tuples, folder)
        if self.output is None:
            return result
        return replace(result, out=self.output.path, bytes_written=self.output.size())

    def _counted(self, table: PackedTable) -> tuple[TupleCounts, bool]:
        """All tuples, or a sample of them where there are too many; which of the two."""
        layout, keys = table.layout, table.rows.select(*table.layout.key_names)
        share = min(1.0, self.sample_size / table.n_rows)
        sample = None
        if table.n_rows > self.max_tuples and not are_repetitive(keys, self.sample_size):
            sample = sample_tuples(keys, layout, share)
        if sample is None or sample.estimate <= self.max_tuples:
            tuples = count_tuples(keys, layout, self.max_tuples, table.n_rows)
            if tuples is not None:
                return tuples, True
        if sample is None:
            sample = sample_tuples(keys, layout, share)
        enough = min(1.0, self.sample_size / max(sample.estimate, self.max_tuples))
        if enough > 2 * sample.share:
            sample = sample_tuples(keys, layout, enough)
        return sample, False

    def _by_tuples(
        self, table: PackedTable, tuples: TupleCounts, folder: Path | None
    ) -> TableConsensus:
        with self.stage("fit", "consensus of %d tuples", tuples.n_tuples):
            fitted = fit_sample(self.estimator, table.layout, tuples)
        if folder is not None and self.output is not None:
            with self.stage("write", "writing %d rows", table.n_rows):
                labelled = table.labelled(tuples, fitted)
                self.output.write(labelled, labelled.get_backend(), folder)
        sizes = np.bincount(fitted.labels_, weights=tuples.counts)
        return self._result("tuples", table, tuples, sizes)

    def _streamed(
        self, table: PackedTable, sample: TupleCounts, folder: Path | None
    ) -> TableConsensus:
        with self.stage("fit", "consensus of a sample of %d tuples", sample.n_tuples):
            fitted = fit_sample(self.estimator, table.layout, sample)
            consensus = StreamedConsensus.of(fitted, table.layout)
        with StreamedRows(table.rows, table.layout, table.n_rows).kept() as rows:
            with self.stage("sweeps", "sweeping over %d rows", table.n_rows):
                consensus, counted, costs = consensus.swept(rows, sample, self.max_sweeps)
            result = self._result("streamed", table, sample, counted.size)
            if folder is not None and self.output is not None:
                with self.stage("write", "writing %d rows", table.n_rows):
                    writer = PartWriter(self.output, folder)
                    confidence = consensus.label_rows(rows, table.carried, writer.write)
                    writer.close()
                result = replace(result, mean_confidence=confidence)
        return replace(result, sweeps=tuple(costs))

    def _result(
        self,
        path: Literal["tuples", "streamed"],
        table: PackedTable,
        tuples: TupleCounts,
        sizes: NDArray[Any],
    ) -> TableConsensus:
        number = "at most" if path == "tuples" else "more than"
        fitted = self.estimator
        return TableConsensus(
            estimator=fitted,
            path=path,
            reason=f"{number} max_tuples={self.max_tuples:,} distinct tuples",
            engine=table.rows.get_backend().name,
            source="",
            partitions=tuple(column.name for column in table.layout.columns),
            n_rows=table.n_rows,
            n_tuples=tuples.estimate,
            n_tuples_exact=tuples.share == 1,
            n_fitted=tuples.n_tuples,
            sizes=sizes.astype(np.int64),
            n_unplaced=table.n_rows - int(sizes.sum()),
            mean_confidence=float(np.average(fitted.confidence_, weights=tuples.counts)),
            objective=float(fitted.objective_),
            partition_agreement=fitted.partition_agreement_,
            seconds=self.seconds,
        )


def _spill_into(folder: Path, table: PackedTable) -> None:
    """Let DuckDB put what memory does not hold beside the output, where it is cleared away."""
    connection: Any = table.rows.get_backend()
    if connection.name == "duckdb":
        with contextlib.suppress(Exception):  # one that is in use already stays where it is
            connection.settings["temp_directory"] = str(folder / "spill")
