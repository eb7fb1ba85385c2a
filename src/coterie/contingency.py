"""Contingency tables of all pairs of partitions at once, and what can be read off them.

With Z the (u, m) indicator of all clusters of all partitions and w the multiplicities,

    C = Zᵀ diag(w) Z,   shape (m, m),

holds the contingency table of partitions v and w in its block (v, w) and the cluster sizes on
its diagonal. One pass of O(u·V²) over the tuples gives the agreement of all pairs of
partitions, a bound on the objective and the ℓ2 relaxation; no matrix over points is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie import coassociation_kernels as kernels
from coterie.devices import for_row_blocks, n_threads
from coterie.label_tuples import LabelTuples

__all__ = [
    "PairCounts",
    "agreement_lower_bound",
    "all_contingencies",
    "pair_counts",
]


@dataclass(frozen=True)
class PairCounts:
    """Pairs of points, counted for every pair (v, w) of partitions; all arrays are (V, V).

    Only points that have a label in both partitions count; pairs are ordered, i ≠ j.
    ``together`` are pairs together in both; ``in_row`` those together in v, ``in_column``
    those together in w; ``n_points`` is the number of points labelled in both.
    ``row_cubes`` and ``column_cubes`` are Σ_c n_c (n_c − 1)² over the clusters of v (of w):
    the moments the variance under chance needs.
    """

    together: NDArray[np.float64]
    in_row: NDArray[np.float64]
    in_column: NDArray[np.float64]
    n_points: NDArray[np.float64]
    row_cubes: NDArray[np.float64]
    column_cubes: NDArray[np.float64]

    @property
    def mirkin(self) -> NDArray[np.float64]:
        """Mirkin distance: ordered pairs together in one of the two and apart in the other."""
        return self.in_row + self.in_column - 2 * self.together


def all_contingencies(
    tuples: LabelTuples, row_weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """C = Zᵀ diag(row_weights) Z, shape (m, m); the weights are the multiplicities if not given.

    >>> from coterie.label_tuples import as_label_tuples
    >>> C = all_contingencies(as_label_tuples([[0, 0], [0, 1], [0, 1]]))
    >>> sorted(C.diagonal().tolist()), C.shape  # sizes of the three clusters
    ([1.0, 2.0, 3.0], (3, 3))
    """
    weights = tuples.weights if row_weights is None else row_weights
    m = tuples.n_columns
    parts: list[Any] = [None] * n_threads()

    def count(block: int, start: int, stop: int) -> None:
        parts[block] = np.zeros((m, m))
        kernels.add_contingencies(tuples.codes, weights, start, stop, parts[block])

    for_row_blocks(count, tuples.n_tuples, at_least=max(20_000, m))
    total: NDArray[np.float64] = parts[0]
    for part in parts[1:]:
        if part is not None:
            total += part
    return total + np.triu(total, 1).T


def pair_counts(contingencies: NDArray[np.float64], offsets: NDArray[np.int64]) -> PairCounts:
    """Count pairs of points from the contingency tables of all pairs of partitions."""
    starts = offsets[:-1]

    def block_sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.add.reduceat(np.add.reduceat(values, starts, axis=0), starts, axis=1)

    # cluster sizes among the points that the other partition labels too: (m, V) and its mirror
    sizes = np.add.reduceat(contingencies, starts, axis=1)
    pairs = np.add.reduceat(sizes * (sizes - 1), starts, axis=0)
    cubes = np.add.reduceat(sizes * (sizes - 1) ** 2, starts, axis=0)
    return PairCounts(
        together=block_sums(contingencies * (contingencies - 1)),
        in_row=pairs,
        in_column=pairs.T,
        n_points=block_sums(contingencies),
        row_cubes=cubes,
        column_cubes=cubes.T,
    )


def agreement_lower_bound(counts: PairCounts, partition_weights: NDArray[np.float64]) -> float:
    """A bound below J(G) for every partition G, from the distances between the partitions.

    Mirkin's distance d obeys the triangle inequality, d(v, G) + d(w, G) ≥ d(v, w). Summed with
    non-negative y_vw such that Σ_w y_vw ≤ α_v (α the weights, summing to one), it gives
    J(G) = Σ_v α_v d(v, G) ≥ Σ_{v<w} y_vw d(v, w). Here y_vw = α_v α_w / (1 − min α).
    """
    alpha = partition_weights / partition_weights.sum()
    used = alpha[alpha > 0]
    if len(used) < 2:
        return 0.0
    y = np.outer(alpha, alpha) / (1 - used.min())
    return float((np.triu(y, 1) * counts.mirkin).sum())
