"""Too many distinct tuples to fit: a consensus of a sample of them, then sweeps over all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie.counts.cluster_tables import ClusterTables
from coterie.engines.label_tables.packed_keys import KeyLayout
from coterie.engines.label_tables.streamed_rows import RowCoder, StreamedRows
from coterie.engines.label_tables.streamed_sweeps import Placing, SweptPlacing, sweep_until_settled
from coterie.engines.label_tables.tuple_groups import TupleCounts
from coterie.errors import InvalidParameterError

__all__ = ["StreamedConsensus", "fit_sample"]

Batch = Any


@dataclass(frozen=True, eq=False)
class StreamedConsensus:
    """A fitted estimator, and the rule by which it places all rows of a table.

    Attributes
    ----------
    estimator : fitted consensus function
    coder : :class:`~coterie.engines.label_tables.streamed_rows.RowCoder`
    placing : :class:`~coterie.engines.label_tables.streamed_sweeps.Placing`
    """

    estimator: Any
    coder: RowCoder
    placing: Placing

    @classmethod
    def of(cls, estimator: Any, layout: KeyLayout) -> StreamedConsensus:
        """The rule of an estimator fitted on a sample."""
        tuples = estimator._tuples
        coder = RowCoder.of(layout, tuples, estimator._vocabulary)
        complete = estimator._tables.complete and not coder.leaves_some_missing
        tables = replace(estimator._tables, complete=complete)
        return cls(estimator, coder, Placing(tuples, tables, estimator.threshold_))

    def swept(
        self, rows: StreamedRows, sample: TupleCounts, max_sweeps: int
    ) -> tuple[StreamedConsensus, ClusterTables, list[float]]:
        """Sweep over all rows; also the tables of all rows, and J_τ after each sweep.

        The estimator takes over the clusters as the sweeps left them, numbered by falling size.
        """

        def batches() -> Iterator[NDArray[Any]]:
            return (self.coder.codes(batch) for batch in rows.batches())

        found = _by_falling_size(sweep_until_settled(batches, self.placing, max_sweeps))
        _adopt(self.estimator, found, self.coder.codes_of_keys(sample.keys))
        return replace(self, placing=found.placing), found.counted, found.costs

    def label_rows(
        self,
        rows: StreamedRows,
        carried: Sequence[str],
        write: Callable[[pa.RecordBatch], None],
    ) -> float:
        """Write the carried columns, label and confidence of all rows; their mean confidence."""
        total, n = 0.0, 0
        for batch in rows.batches(carried):
            labels, confidence = self.placing.place(self.coder.codes(batch))
            columns = {name: batch[name] for name in carried}
            columns["label"] = pa.array(labels.astype(np.int32))
            columns["confidence"] = pa.array(confidence)
            write(pa.RecordBatch.from_pydict(columns))
            total, n = total + float(confidence.sum()), n + len(labels)
        return total / n


def fit_sample(estimator: Any, layout: KeyLayout, sample: TupleCounts) -> Any:
    """Fit an estimator to weighted tuples of a table."""
    matrix = layout.as_label_matrix(sample.keys)
    for name, categories in zip(matrix.names, matrix.categories, strict=True):
        if not len(categories):
            raise InvalidParameterError(
                f"partition '{name}' labels so few rows that none of the {sample.n_tuples:,} "
                "tuples in the sample has a label there; raise sample_size, or leave it out"
            )
    return estimator.fit(matrix, sample_weight=sample.counts)


def _by_falling_size(found: SweptPlacing) -> SweptPlacing:
    """The same clusters, the largest first and empty ones left out."""
    size = found.counted.size
    order = np.argsort(-size, kind="stable")[: int((size > 0).sum())]
    placing = replace(found.placing, tables=_columns(found.placing.tables, order))
    return replace(found, placing=placing, counted=_columns(found.counted, order))


def _columns(tables: ClusterTables, order: NDArray[np.int64]) -> ClusterTables:
    return replace(
        tables,
        table=np.ascontiguousarray(tables.table[:, order]),
        present=np.ascontiguousarray(tables.present[:, order]),
        size=tables.size[order],
    )


def _adopt(estimator: Any, found: SweptPlacing, fitted: NDArray[Any]) -> None:
    """Give the estimator the clusters of all rows, so that it predicts what is written."""
    tuples, counted = estimator._tuples, found.counted
    labels, estimator.confidence_ = found.placing.place(fitted)
    estimator.labels_ = labels.astype(np.int32)
    estimator._tuple_labels = found.placing.place(tuples.codes)[0]
    estimator._tables = found.placing.tables
    estimator.n_clusters_ = len(counted.size)
    estimator.objective_ = counted.objective()
    estimator.partition_agreement_ = tuples.in_given_order(counted.agreement())
    if hasattr(estimator, "lower_bound_"):
        # that of the sample bounds nothing else
        estimator.lower_bound_ = estimator.gap_ = float("nan")
