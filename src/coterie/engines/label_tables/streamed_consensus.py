"""Consensus of a table with too many distinct tuples: fit a sample, then sweep over all rows.

A sweep reads all rows, or all distinct tuples, and keeps only cluster tables N. Every row joins the
cluster with the largest gain at the threshold τ under the tables of the clustering G before; the
rows counted in their new clusters give the next tables and the cost of the new clustering,

    J_τ(G) = Σ_v α_v [2τ · #(together in G, not in v) + 2(1 − τ) · #(together in v, not in G)] / Σ α

over ordered pairs. The gains at τ lower this cost; at τ = ½ it is J. Counts are sums of integers,
so they depend neither on the order of the rows nor on how these are divided into batches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from coterie.consensus.base import assign_by_equal_votes, label_probabilities
from coterie.counts.cluster_tables import ClusterTables
from coterie.engines.label_tables.packed_keys import KeyLayout
from coterie.engines.label_tables.packed_table import TupleCounts
from coterie.engines.label_tables.table_outputs import TableOutput
from coterie.errors import InvalidParameterError
from coterie.labels.encode import MISSING, LabelMatrix
from coterie.labels.tuples import LabelTuples
from coterie.runtime.wording import short_repr

__all__ = [
    "AssignmentRule",
    "RowCoder",
    "RowPasses",
    "StreamedConsensus",
    "SweepCounts",
    "SweepResult",
    "fit_tuples",
    "sweep_until_converged",
    "threshold_cost",
]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class StreamedConsensus:
    """A fitted estimator and the rule that assigns all rows of a table to its clusters."""

    estimator: Any
    coder: RowCoder
    rule: AssignmentRule

    __repr__ = short_repr

    @classmethod
    def of(cls, estimator: Any, layout: KeyLayout) -> StreamedConsensus:
        """Return the rule of an estimator that was fitted on a sample."""
        tuples = estimator._tuples
        coder = RowCoder.of(layout, tuples, estimator._vocabulary)
        complete = estimator._tables.complete and not coder.leaves_some_missing
        tables = replace(estimator._tables, complete=complete)
        return cls(estimator, coder, AssignmentRule(tuples, tables, estimator.threshold_))

    def swept(
        self, passes: RowPasses, sample: TupleCounts, max_sweeps: int
    ) -> tuple[StreamedConsensus, SweepCounts, list[float]]:
        """Sweep over all rows; return the new rule, the counts of all rows, and the costs.

        The clusters after the sweeps are numbered by falling size and stored in the estimator.
        """
        count = partial(passes.count, self.coder)
        result = _by_falling_size(sweep_until_converged(count, self.rule, max_sweeps))
        _store(self.estimator, result, self.coder.codes_of_keys(sample.keys))
        return replace(self, rule=result.rule), result.counted, result.costs


class RowPasses(Protocol):
    """Passes over all rows of a table, where the rows are."""

    def count(self, coder: RowCoder, rule: AssignmentRule) -> SweepCounts:
        """Count all rows in the clusters that a rule assigns: one sweep."""

    def write(
        self, coder: RowCoder, rule: AssignmentRule, output: TableOutput, folder: Path
    ) -> None:
        """Write carried columns, label and margin of all rows."""


@dataclass(frozen=True, eq=False)
class RowCoder:
    """The map from packed rows to the indicator columns of a fitted consensus."""

    layout: KeyLayout
    codes_of: tuple[NDArray[Any], ...]  # per partition, the column of each digit; −1 is missing
    places: NDArray[np.int64]  # (V,), the column of the label tuples for each partition

    __repr__ = short_repr

    @classmethod
    def of(cls, layout: KeyLayout, tuples: LabelTuples, vocabulary: LabelMatrix) -> RowCoder:
        """Return the coder for tuples with the labels of a vocabulary; other labels are missing."""
        codes_of, start = [], 0
        for labels, known in zip(layout.labels, vocabulary.categories, strict=True):
            columns = np.full(len(labels) + 1, MISSING, dtype=tuples.codes.dtype)
            # both lists of labels are sorted
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

    def codes_of_keys(self, keys: Sequence[NDArray[np.int64]]) -> NDArray[Any]:
        """Return the indicator columns (n, V) of rows given by their keys."""
        return self.layout.unpacked(keys, self.codes_of, self.places)


@dataclass(frozen=True, eq=False)
class AssignmentRule:
    """A rule that assigns rows to clusters."""

    tuples: LabelTuples  # they define the indicator columns
    tables: ClusterTables  # counts of the current clusters, of all rows or of a sample
    threshold: float  # τ, the share of votes above which two points should be together

    def assign(self, codes: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return labels and margins of rows of indicator columns (n, V).

        A row that only partitions of weight 0 label follows those partitions, with margin 0.
        A row without any label gets −1.
        """
        labels, margin = self.tables.assign(codes, self.threshold)
        unweighted = (labels < 0) & (codes >= 0).any(axis=1)
        if unweighted.any():
            labels[unweighted] = assign_by_equal_votes(
                self.tables, codes, None, unweighted, self.threshold
            )
        return labels, margin

    def count(self, codes: NDArray[Any], weights: NDArray[np.float64] | None = None) -> SweepCounts:
        """Assign distinct rows, each with a weight, and count them."""
        labels, margin = self.assign(codes)
        weights = np.ones(len(codes)) if weights is None else weights
        rows = replace(self.tuples, codes=codes, weights=weights)
        tables = ClusterTables.of(rows, labels, self.tables.alpha, len(self.tables.size))
        # rows of other batches may have missing labels even if these have none
        tables = replace(tables, complete=self.tables.complete)
        return SweepCounts(tables, int(weights.sum()), float(margin @ weights))


@dataclass(frozen=True, eq=False)
class SweepCounts:
    """The tables of rows in their clusters, the number of rows, and their summed margin."""

    tables: ClusterTables
    n_rows: int
    margin: float

    __repr__ = short_repr

    def __add__(self, other: SweepCounts) -> SweepCounts:
        """Return the counts of the rows of both."""
        tables = replace(
            self.tables,
            table=self.tables.table + other.tables.table,
            present=self.tables.present + other.tables.present,
            size=self.tables.size + other.tables.size,
        )
        n_rows, margin = self.n_rows + other.n_rows, self.margin + other.margin
        return SweepCounts(tables, n_rows, margin)


@dataclass(frozen=True, eq=False)
class SweepResult:
    """The best rule found, the counts of all rows under it, and J_τ after each sweep."""

    rule: AssignmentRule
    counted: SweepCounts
    costs: list[float]


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
    for sweep in range(max_sweeps):
        _log.info("sweep %d over all rows", sweep + 1)
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


def _by_falling_size(result: SweepResult) -> SweepResult:
    """Sort the clusters by falling size and drop empty ones."""
    size = result.counted.tables.size
    order = np.argsort(-size, kind="stable")[: int((size > 0).sum())]
    rule = replace(result.rule, tables=_columns(result.rule.tables, order))
    counted = replace(result.counted, tables=_columns(result.counted.tables, order))
    return replace(result, rule=rule, counted=counted)


def _columns(tables: ClusterTables, order: NDArray[np.int64]) -> ClusterTables:
    return replace(
        tables,
        table=np.ascontiguousarray(tables.table[:, order]),
        present=np.ascontiguousarray(tables.present[:, order]),
        size=tables.size[order],
    )


def _store(estimator: Any, result: SweepResult, fitted: NDArray[Any]) -> None:
    """Store the clusters of all rows in the estimator, so that it predicts what is written."""
    tuples, counted = estimator._tuples, result.counted.tables
    tables = result.rule.tables
    labels, estimator.margin_ = result.rule.assign(fitted)
    estimator.confidence_ = label_probabilities(tables, fitted, None, labels)
    estimator.labels_ = labels.astype(np.int32)
    estimator._tuple_labels = result.rule.assign(tuples.codes)[0]
    estimator._tables = tables
    estimator.n_clusters_ = len(counted.size)
    estimator.objective_ = counted.objective()
    estimator.partition_agreement_ = tuples.in_given_order(counted.agreement())
    if hasattr(estimator, "lower_bound_"):
        # the bound of the sample is not a bound for all rows
        estimator.lower_bound_ = estimator.gap_ = float("nan")
