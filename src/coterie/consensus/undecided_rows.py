"""Labels of rows that have labels only in partitions of weight 0: those partitions decide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.counts.cluster_tables import ClusterTables
from coterie.labels.tuples import LabelTuples

__all__ = ["assign_by_equal_votes", "label_undecided_tuples"]

Array = NDArray[np.float64]


def label_undecided_tuples(
    tuples: LabelTuples, labels: NDArray[np.int64], partition_weights: Array, threshold: float
) -> NDArray[np.int64]:
    """Return labels (u,) in which tuples without a weighted label are labelled by the others."""
    if not tuples.has_missing:
        return labels
    decided = tuples.has_weighted_label(partition_weights)
    if decided.all():
        return labels
    labels = np.where(decided, labels, -1)
    tables = ClusterTables.of(tuples, labels, partition_weights)
    labels[~decided] = assign_by_equal_votes(
        tables, tuples.codes, tuples.memberships, ~decided, threshold
    )
    return labels


def assign_by_equal_votes(
    tables: ClusterTables,
    codes: NDArray[Any],
    memberships: Array | None,
    rows: NDArray[np.bool_],
    threshold: float,
) -> NDArray[np.int64]:
    """Return the labels of some rows if every partition has weight 1."""
    equal = replace(tables, alpha=np.ones_like(tables.alpha))
    chosen = None if memberships is None else memberships[rows]
    return equal.assign(codes[rows], threshold, memberships=chosen)[0]
