"""Sweeps over more rows than memory holds: batch by batch, only cluster tables are kept.

From tables N of a clustering G, every row joins the cluster of largest gain at the threshold τ;
counting the rows where they went gives new tables and the cost of the new clustering,

    J_τ(G) = Σ_v α_v [2τ · #(together in G, not in v) + 2(1 − τ) · #(together in v, not in G)] / Σ α

over ordered pairs: what the gains at τ lower, and J itself where τ = ½. A sweep reads each row
once, and its result depends on neither the size nor the order of the batches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.counts.cluster_tables import ClusterTables
from coterie.labels.tuples import LabelTuples

__all__ = ["Placing", "SweptPlacing", "count_placed", "disagreement", "sweep_until_settled"]

Batches = Iterable[NDArray[Any]]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Placing:
    """A rule that puts rows into clusters.

    Attributes
    ----------
    tuples : :class:`~coterie.labels.tuples.LabelTuples`
        The indicator columns, whose order rows of codes are in.
    tables : :class:`~coterie.counts.cluster_tables.ClusterTables`
        Counts of the clusters as they are; they may be of a sample.
    threshold : float
        τ, the share of votes from which two points should be together.
    """

    tuples: LabelTuples
    tables: ClusterTables
    threshold: float

    def place(self, codes: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Labels and confidences of rows of indicator columns (n, V).

        Rows that only partitions without a vote label follow these, with confidence 0; a row
        without any label gets −1.
        """
        labels, confidence = self.tables.assign(codes, self.threshold)
        voiceless = (labels < 0) & (codes >= 0).any(axis=1)
        if voiceless.any():
            everyone = replace(self.tables, alpha=np.ones_like(self.tables.alpha))
            rows = np.ascontiguousarray(codes[voiceless])
            labels[voiceless] = everyone.assign(rows, self.threshold)[0]
        return labels, confidence

    def count(self, codes: NDArray[Any], labels: NDArray[np.int64]) -> ClusterTables:
        """Tables of rows in their clusters."""
        rows = replace(self.tuples, codes=codes, weights=np.ones(len(codes)))
        counted = ClusterTables.of(rows, labels, self.tables.alpha, len(self.tables.size))
        # other rows may lack labels that these have
        return replace(counted, complete=self.tables.complete)


@dataclass(frozen=True, eq=False)
class SweptPlacing:
    """The best rule found, what it counts, and how the cost fell.

    Attributes
    ----------
    placing : Placing
    counted : :class:`~coterie.counts.cluster_tables.ClusterTables`
        Of all rows, where ``placing`` puts them.
    costs : list of float
        J_τ after each sweep that was made; that of ``placing`` is the least.
    """

    placing: Placing
    counted: ClusterTables
    costs: list[float]


def count_placed(batches: Batches, placing: Placing) -> ClusterTables:
    """One sweep: the tables of all rows, where a rule puts them."""
    counted = None
    for codes in batches:
        of_batch = placing.count(codes, placing.place(codes)[0])
        counted = of_batch if counted is None else _sum(counted, of_batch)
    assert counted is not None
    return counted


def sweep_until_settled(
    batches: Callable[[], Batches], placing: Placing, max_sweeps: int = 3, tol: float = 1e-4
) -> SweptPlacing:
    """Sweep while the cost J_τ falls by more than a share ``tol``, at most ``max_sweeps`` times.

    Parameters
    ----------
    batches : callable
        Gives the rows, in batches of indicator columns (n_b, V), anew for every sweep.
    placing : Placing
        Where to begin.

    Returns
    -------
    SweptPlacing
        Its J_τ is never above that of the clustering the first rule gives.
    """
    costs: list[float] = []
    best: tuple[Placing, ClusterTables] | None = None
    for sweep in range(max_sweeps):
        _log.info("sweep %d over all rows", sweep + 1)
        counted = count_placed(batches(), placing)
        costs.append(disagreement(counted, placing.threshold))
        least = min(costs[:-1], default=np.inf)
        if costs[-1] < least:
            best = placing, counted
        if best is None or costs[-1] >= least * (1 - tol):
            break
        placing = replace(placing, tables=counted)
    assert best is not None
    return SweptPlacing(*best, costs)


def disagreement(counted: ClusterTables, threshold: float) -> float:
    """J_τ of the clustering that was counted."""
    both, label, cluster = counted.pairs_within()
    costs = 2 * threshold * (cluster - both) + 2 * (1 - threshold) * (label - both)
    return float(costs @ counted.alpha / counted.alpha.sum())


def _sum(one: ClusterTables, other: ClusterTables) -> ClusterTables:
    return replace(
        one,
        table=one.table + other.table,
        present=one.present + other.present,
        size=one.size + other.size,
    )
