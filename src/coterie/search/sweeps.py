"""Sweeps of the discrete search on all cores: proposed together, decided one by one.

A sweep gives every tuple the chance to move to the cluster where it gains most. Which tuples may
gain at all is found in parallel, for a block of them at a time, against the tables as they were
before the block. Those few then move one after the other, each only if it gains in the
tables as they are by then. So the score rises with every move, as if all were done in turn, and a
sweep that moves nothing proves that no single move gains. Blocks depend on the tuples
and on what moved before, never on the number of threads, and so does the result.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.counts import cluster_kernels as kernels
from coterie.counts import soft_kernels
from coterie.counts.cluster_tables import ClusterTables
from coterie.labels.tuples import LabelTuples
from coterie.runtime.devices import map_row_blocks

__all__ = ["sweep"]

#: Tuples in the first block, in the largest one, and in the share of one thread.
_FIRST_BLOCK = 1 << 12
_LARGEST_BLOCK = 1 << 17
_LEAST_OF_A_THREAD = 1 << 12
#: Where more than this share of a block moves, the next is small, and its tuples are looked at in
#: turn: the answer to which of them are restless would be soon out of date, and of little use.
_MANY = 1 / 4


def sweep(
    tuples: LabelTuples, labels: NDArray[np.int64], tables: ClusterTables, threshold: float
) -> int:
    """Move every tuple that gains, to where it gains most; the number that moved.

    The gain of tuple a (weight w_a) in cluster b is Σ_v α_v (N[c_av, b] − τ present_v[b]) over the
    partitions that label a, less its own part (1 − τ) w_a Σ_v α_v where b is its cluster. On a
    tie it stays. Tuples of soft partitions, whose kinds are seldom many, are looked at in turn.

    Parameters
    ----------
    tuples : u distinct label tuples
    labels : (u,), −1 for none
        Changed in place.
    tables : of these labels
        Changed in place.
    threshold : τ

    Examples
    --------
    >>> from coterie.labels.tuples import as_label_tuples
    >>> tuples = as_label_tuples([[0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 0]])
    >>> labels = np.full(4, -1)
    >>> tables = ClusterTables.of(tuples, labels, np.ones(3), 2)
    >>> sweep(tuples, labels, tables, 0.5) >= 4, sweep(tuples, labels, tables, 0.5)
    (True, 0)
    """
    if tuples.memberships is not None:
        return int(
            soft_kernels.move_rows(
                tuples.codes, tuples.memberships, tuples.partition_of, tuples.weights,
                tables.alpha, threshold, labels, tables.table, tables.present, tables.size,
            )
        )  # fmt: skip
    u, moved = tuples.n_tuples, 0
    restless = np.ones(u, dtype=np.bool_)
    smallest = block = max(_FIRST_BLOCK, tuples.n_columns)
    start, share = 0, 0.0 if u > smallest else 1.0
    while start < u:
        stop = min(start + block, u)
        if share <= _MANY:
            _mark_restless(tuples, labels, tables, threshold, start, stop, restless)
        here = kernels.move_rows(
            tuples.codes, tuples.weights, tables.alpha, threshold, tables.complete, start, stop,
            restless, labels, tables.table, tables.present, tables.size,
        )  # fmt: skip
        share = here / (stop - start)
        block = smallest if share > _MANY else min(2 * block, max(smallest, _LARGEST_BLOCK))
        moved, start = moved + here, stop
    return moved


def _mark_restless(
    tuples: LabelTuples,
    labels: NDArray[np.int64],
    tables: ClusterTables,
    threshold: float,
    start: int,
    stop: int,
    restless: NDArray[np.bool_],
) -> None:
    """Write which of the tuples start..stop may gain by a move, the tables unchanged."""
    scores = _scores(tables, threshold)
    # a gain, at most the size of the largest cluster, suffers V + 1 roundings, as does the weight
    # of the partitions: three times that, of half an epsilon each, lie between two gains
    roundings = 2 * (len(tables.alpha) + 2)
    doubt = np.float32(roundings * np.finfo(np.float32).eps * tables.size.max())
    own_part = np.float32(1.0 - threshold)

    def mark(a: int, b: int) -> None:
        kernels.find_restless(
            tuples.codes, tuples.weights, labels, scores, own_part, doubt, start + a, start + b,
            restless,
        )  # fmt: skip

    map_row_blocks(mark, stop - start, at_least=_LEAST_OF_A_THREAD)


def _scores(tables: ClusterTables, threshold: float) -> NDArray[np.float32]:
    """Gains by base cluster and cluster, (m + 1, K + 1), as :func:`find_restless` takes them.

    Weights of partitions are made to sum to one, so that no weight is out of range.
    """
    n_labels = np.diff(tables.offsets)
    m, K = tables.table.shape
    scores = np.zeros((m + 1, K + 1), dtype=np.float32)
    alpha = np.repeat(tables.alpha / tables.alpha.sum(), n_labels)
    expected = np.repeat(threshold * tables.present, n_labels, axis=0)
    scores[:-1, :-1] = alpha[:, None] * (tables.table - expected)
    scores[:-1, -1] = alpha
    return scores
