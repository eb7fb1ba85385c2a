"""Sweeps over all rows of a table with too many distinct tuples, whose sample was fitted.

A sweep reads all rows, or all distinct tuples, and keeps only cluster tables N. Every row joins the
cluster with the largest gain at the threshold τ under the tables of the clustering G before; the
rows counted in their new clusters give the next tables and the cost of the new clustering,

    J_τ(G) = Σ_v α_v [2τ · #(together in G, not in v) + 2(1 − τ) · #(together in v, not in G)] / Σ α

over ordered pairs. The gains at τ lower this cost; at τ = ½ it is J. Counts are sums of integers,
so they depend neither on the order of the rows nor on how these are divided into batches.

DuckDB streams the rows to this process in batches. Spark's executors sweep where the rows are: the
driver sends them the rule, and the sums of all partitions or the labelled rows, which Spark writes,
are queries without side effects. So a task that is lost with its executor is repeated and counted
once, and no row comes to the driver.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coterie.arrays import AnyArray, Floats, Ints
from coterie.consensus.base import assign_by_equal_votes, label_probabilities
from coterie.counts.cluster_tables import ClusterTables
from coterie.errors import InvalidParameterError, OutputError
from coterie.labels.encode import MISSING
from coterie.labels.tuples import LabelTuples
from coterie.tables.engines import engine_errors, spark_frame
from coterie.tables.keys import (
    COUNT_COLUMN,
    KeyLayout,
    PackedTable,
    TupleCounts,
    numbers,
    unpack,
)
from coterie.tables.outputs import PartWriter, TableOutput

_log = logging.getLogger(__name__)

_ROWS_A_BATCH = 1 << 16


def fit_tuples(estimator: Any, layout: KeyLayout, tuples: TupleCounts) -> Any:
    """Fit an estimator to the weighted tuples of a table."""
    matrix = layout.as_label_matrix(tuples.keys)
    for name, categories in zip(matrix.names, matrix.categories, strict=True):
        if not len(categories):
            raise InvalidParameterError(
                f"partition '{name}' labels so few rows that none of the {tuples.n_tuples:,} "
                "tuples in the sample has a label there; raise sample_size, or leave it out"
            )
    return estimator.fit(matrix, sample_weight=tuples.counts)


@dataclass(frozen=True, eq=False)
class AssignmentRule:
    """The rule that assigns packed rows to clusters, small enough to be sent to executors."""

    key_names: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]  # for each key, its partitions; the last is the lowest
    codes_of: tuple[AnyArray, ...]  # per partition, the indicator column of each digit; or −1
    places: Ints  # (V,), the column of the codes for each partition
    tuples: LabelTuples  # without rows; they define the indicator columns
    tables: ClusterTables  # counts of the current clusters, of all rows or of a sample
    threshold: float  # τ, the share of votes above which two points should be together

    @classmethod
    def of(cls, estimator: Any, layout: KeyLayout) -> AssignmentRule:
        """Return the rule of an estimator that was fitted on a sample; other labels are missing."""
        tuples, codes_of, start = estimator._tuples, [], 0
        for labels, known in zip(layout.labels, estimator._vocabulary.categories, strict=True):
            columns = np.full(len(labels) + 1, MISSING, dtype=tuples.codes.dtype)
            # both lists of labels are sorted
            columns[np.searchsorted(labels, known) + 1] = tuples.recode[start : start + len(known)]
            codes_of.append(columns)
            start += len(known)
        has_gaps = layout.has_missing or any((one[1:] == MISSING).any() for one in codes_of)
        tables = replace(estimator._tables, complete=estimator._tables.complete and not has_gaps)
        none = {name: getattr(tuples, name)[:0] for name in ("codes", "weights", "inverse")}
        places = np.argsort(tuples.partition_order)
        bare = replace(tuples, **none)
        return cls(
            layout.key_names, layout.groups, tuple(codes_of), places, bare, tables,
            estimator.threshold_,
        )  # fmt: skip

    def codes(self, keys: Sequence[Ints]) -> AnyArray:
        """Return the indicator columns (n, V) of rows given by their keys."""
        return unpack(keys, self.groups, self.codes_of, self.places)

    def assign(self, codes: AnyArray) -> tuple[Ints, Floats]:
        """Return labels and margins of rows of indicator columns (n, V).

        A row that only partitions of weight 0 label follows those partitions, with margin 0. A row
        without any label gets −1.
        """
        labels, margin = self.tables.assign(codes, self.threshold)
        unweighted = (labels < 0) & (codes >= 0).any(axis=1)
        if unweighted.any():
            labels[unweighted] = assign_by_equal_votes(
                self.tables, codes, None, unweighted, self.threshold
            )
        return labels, margin

    def count_codes(self, codes: AnyArray, weights: Floats) -> SweepCounts:
        """Assign rows, each with a weight, and count them."""
        labels, margin = self.assign(codes)
        rows = replace(self.tuples, codes=codes, weights=weights)
        tables = ClusterTables.of(rows, labels, self.tables.alpha, len(self.tables.size))
        # rows of other batches may have missing labels even if these have none
        tables = replace(tables, complete=self.tables.complete)
        return SweepCounts(tables, int(weights.sum()), float(margin @ weights))

    def count(self, batches: Iterable[pa.RecordBatch]) -> SweepCounts | None:
        """Assign the packed rows of some batches, and count them; None without batches."""
        counted = None
        for batch in batches:
            codes = self.codes([numbers(batch, name) for name in self.key_names])
            weights = np.ones(len(codes))
            if COUNT_COLUMN in batch.schema.names:
                weights = numbers(batch, COUNT_COLUMN).astype(np.float64)
            of_batch = self.count_codes(codes, weights)
            counted = of_batch if counted is None else counted + of_batch
        return counted

    def label(
        self, carried: Sequence[str], batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the carried columns, label and margin of every row."""
        for batch in batches:
            keys = [numbers(batch, name) for name in self.key_names]
            labels, margin = self.assign(self.codes(keys))
            columns = [batch[name] for name in carried]
            columns += [pa.array(labels.astype(np.int32)), pa.array(margin)]
            yield pa.RecordBatch.from_arrays(columns, [*carried, "label", "margin"])


@dataclass(frozen=True, eq=False)
class SweepCounts:
    """The tables of rows in their clusters, the number of rows, and the sum of their margins."""

    tables: ClusterTables
    n_rows: int
    margin: float

    def __add__(self, other: SweepCounts) -> SweepCounts:
        tables = replace(
            self.tables,
            table=self.tables.table + other.tables.table,
            present=self.tables.present + other.tables.present,
            size=self.tables.size + other.tables.size,
        )
        return SweepCounts(tables, self.n_rows + other.n_rows, self.margin + other.margin)


# ---- Passes over all rows


def count_rows(table: PackedTable, rule: AssignmentRule) -> SweepCounts:
    """Count all rows in the clusters that a rule assigns: one sweep."""
    counted = _count_on_spark(table, rule) if table.is_on_spark else rule.count(table.batches())
    table.check_row_count(0 if counted is None else counted.n_rows)
    assert counted is not None
    return counted


def write_labels(
    table: PackedTable, rule: AssignmentRule, output: TableOutput, folder: Path
) -> None:
    """Write carried columns, label and margin of all rows."""
    if table.is_on_spark:
        n_written = _write_on_spark(table, rule, output, folder)
    else:
        n_written, writer = 0, PartWriter(output, folder)
        for batch in rule.label(table.carried, table.batches(table.carried)):
            writer.write(batch)
            n_written += batch.num_rows
        writer.close()
    table.check_row_count(n_written)


def _count_on_spark(table: PackedTable, rule: AssignmentRule) -> SweepCounts:
    """Let the executors count, and Spark add up the m·K + K + 2 sums of all partitions."""
    m, K = rule.tables.table.shape
    with engine_errors("Spark cannot count the rows"):
        sums = spark_frame(table.read()).mapInArrow(
            partial(_partial_sums, rule), "place long, value double"
        )
        found = sums.groupBy("place").sum("value").toArrow()
    flat = np.zeros(m * K + K + 2)
    flat[found[0].to_numpy()] = found[1].to_numpy()
    counts, size = flat[: m * K].reshape(m, K), flat[m * K : -2]
    present = np.add.reduceat(counts, rule.tables.offsets[:-1], axis=0)
    tables = replace(rule.tables, table=counts, present=present, size=size)
    return SweepCounts(tables, round(flat[-2]), float(flat[-1]))


def _partial_sums(
    rule: AssignmentRule, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield table, sizes, number of rows and sum of margins of a partition, where they are not 0.

    Runs on an executor.
    """
    counted = rule.count(batches)
    if counted is not None:
        tables = counted.tables
        rest = np.array([counted.n_rows, counted.margin])
        flat = np.concatenate([tables.table.ravel(), tables.size, rest])
        places = np.flatnonzero(flat)
        yield from pa.table({"place": places, "value": flat[places]}).to_batches(_ROWS_A_BATCH)


def _write_on_spark(
    table: PackedTable, rule: AssignmentRule, output: TableOutput, folder: Path
) -> int:
    from pyspark.sql.types import DoubleType, IntegerType, StructType

    place = output.rows_in(folder).absolute()
    # Spark cannot map columns whose names have dots
    safe = tuple(f"carried_{i}" for i in range(len(table.carried)))
    frame = spark_frame(table.read(table.carried)).toDF(*safe, *rule.key_names)
    schema = StructType([frame.schema[name] for name in safe])
    schema = schema.add("label", IntegerType()).add("margin", DoubleType())
    with engine_errors(f"cannot write {output.path}", OutputError):
        rows = frame.mapInArrow(partial(rule.label, safe), schema)
        rows.toDF(*table.carried, "label", "margin").write.parquet(place.as_uri())
    return sum(pq.read_metadata(part).num_rows for part in place.rglob("*.parquet"))


# ---- Sweeping


@dataclass(frozen=True, eq=False)
class SweepResult:
    """The best rule found, the counts of all rows under it, and J_τ after each sweep."""

    rule: AssignmentRule
    counted: SweepCounts
    costs: list[float]


def sweep(
    estimator: Any, rule: AssignmentRule, table: PackedTable, sample: TupleCounts, max_sweeps: int
) -> SweepResult:
    """Sweep over all rows, and store their clusters, by falling size, in the fitted estimator."""
    result = sweep_until_converged(partial(count_rows, table), rule, max_sweeps)
    size = result.counted.tables.size
    order = np.argsort(-size, kind="stable")[: int((size > 0).sum())]
    rule = replace(result.rule, tables=_columns(result.rule.tables, order))
    counted = replace(result.counted, tables=_columns(result.counted.tables, order))

    # the estimator predicts what is written
    codes = rule.codes(sample.keys)
    labels, estimator.margin_ = rule.assign(codes)
    estimator.confidence_ = label_probabilities(rule.tables, codes, None, labels)
    estimator.labels_ = labels.astype(np.int32)
    estimator._tuple_labels = rule.assign(estimator._tuples.codes)[0]
    estimator._tables = rule.tables
    estimator.n_clusters_ = len(counted.tables.size)
    estimator.objective_ = counted.tables.objective()
    agreement = counted.tables.agreement()
    estimator.partition_agreement_ = estimator._tuples.in_given_order(agreement)
    if hasattr(estimator, "lower_bound_"):
        # the bound of the sample is not a bound for all rows
        estimator.lower_bound_ = estimator.gap_ = float("nan")
    return SweepResult(rule, counted, result.costs)


def sweep_until_converged(
    count: Callable[[AssignmentRule], SweepCounts],
    rule: AssignmentRule,
    max_sweeps: int = 3,
    tol: float = 1e-4,
) -> SweepResult:
    """Sweep while J_τ falls by more than a share ``tol``, at most ``max_sweeps`` times.

    ``count`` is one sweep: it counts all rows in the clusters that a rule assigns. J_τ of the
    result is at most that of the clustering by ``rule``.
    """
    costs: list[float] = []
    best: tuple[AssignmentRule, SweepCounts] | None = None
    for number in range(max_sweeps):
        _log.info("sweep %d over all rows", number + 1)
        counted = count(rule)
        costs.append(threshold_cost(counted.tables, rule.threshold))
        least = min(costs[:-1], default=np.inf)
        if costs[-1] < least:
            best = rule, counted
        if best is None or costs[-1] >= least * (1 - tol):
            break
        rule = replace(rule, tables=counted.tables)
    assert best is not None
    return SweepResult(*best, costs)


def threshold_cost(counted: ClusterTables, threshold: float) -> float:
    """Return J_τ of the clustering that was counted."""
    both, label, cluster = counted.pairs_within()
    costs = 2 * threshold * (cluster - both) + 2 * (1 - threshold) * (label - both)
    return float(costs @ counted.alpha / counted.alpha.sum())


def _columns(tables: ClusterTables, order: NDArray[np.intp]) -> ClusterTables:
    return replace(
        tables,
        table=np.ascontiguousarray(tables.table[:, order]),
        present=np.ascontiguousarray(tables.present[:, order]),
        size=tables.size[order],
    )
