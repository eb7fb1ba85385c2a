"""Contingency tables of all pairs of partitions at once, and what can be read off them.

With Z the (u, m) indicator of all clusters of all partitions and w the multiplicities,

    C = Zᵀ diag(w) Z,   shape (m, m),

holds the contingency table of partitions v and w in its block (v, w) and the cluster sizes on
its diagonal. One pass of O(u·V²) over the tuples gives the agreement of all pairs of
partitions, a bound on the objective and the ℓ2 relaxation; no matrix over points is needed. Where
partitions are soft, Z holds memberships: C is the same product, in fractions of points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.counts import coassociation_kernels as kernels
from coterie.counts import soft_kernels
from coterie.labels.tuples import LabelTuples
from coterie.runtime.devices import map_row_blocks

__all__ = [
    "PairCounts",
    "agreement_lower_bound",
    "all_contingencies",
    "count_pairs",
    "pair_counts",
    "soft_pair_counts",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PairCounts:
    """Pairs of points, counted for every pair (v, w) of partitions; all arrays are (V, V).

    Only points that have a label in both partitions count; pairs are ordered, i ≠ j.
    ``together`` are pairs together in both; ``in_row`` those together in v, ``in_column``
    those together in w; ``n_points`` is the number of points labelled in both.
    ``row_cubes`` and ``column_cubes`` are Σ_c n_c (n_c − 1)² over the clusters of v (of w):
    the moments the variance under chance needs.

    Of soft partitions a pair is together to the degree a_ij = ⟨π_iv, π_jv⟩, times the mass
    m_iw m_jw it has in the other. Then ``row_cubes`` is Σ_i (Σ_j a_ij)², ``row_squares`` Σ a_ij²
    (with labels that is ``in_row``), and ``n_pairs`` the mass of all pairs.
    """

    together: Array
    in_row: Array
    in_column: Array
    n_points: Array
    row_cubes: Array
    column_cubes: Array
    row_squares: Array | None = None
    column_squares: Array | None = None
    soft_pairs: Array | None = None

    @property
    def n_pairs(self) -> Array:
        """Pairs of points, i ≠ j, that both partitions label."""
        return self.n_points * (self.n_points - 1) if self.soft_pairs is None else self.soft_pairs

    @property
    def mirkin(self) -> Array:
        """Mirkin distance: ordered pairs together in one of the two and apart in the other."""
        return self.in_row + self.in_column - 2 * self.together


def all_contingencies(tuples: LabelTuples, row_weights: Array | None = None) -> Array:
    """C = Zᵀ diag(row_weights) Z, shape (m, m); the weights are the multiplicities if not given.

    >>> from coterie.labels.tuples import as_label_tuples
    >>> C = all_contingencies(as_label_tuples([[0, 0], [0, 1], [0, 1]]))
    >>> sorted(C.diagonal().tolist()), C.shape  # sizes of the three clusters
    ([1.0, 2.0, 3.0], (3, 3))
    """
    weights = tuples.weights if row_weights is None else row_weights
    m = tuples.n_columns

    def count(start: int, stop: int) -> Array:
        C = np.zeros((m, m))
        if tuples.memberships is None:
            kernels.add_contingencies(tuples.codes, weights, start, stop, C)
        else:
            soft_kernels.add_contingencies(
                tuples.codes, tuples.memberships, weights, start, stop, C
            )
        return C

    total: Array = reduce(np.add, map_row_blocks(count, tuples.n_tuples, max(20_000, m)))
    return total + np.triu(total, 1).T


def pair_counts(contingencies: Array, offsets: NDArray[np.int64]) -> PairCounts:
    """Count pairs of points from the contingency tables of all pairs of partitions."""
    starts = offsets[:-1]

    def block_sums(values: Array) -> Array:
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


def count_pairs(
    tuples: LabelTuples,
    contingencies: Array,
    row_weights: Array | None = None,
) -> PairCounts:
    """Count pairs of points of labels or of soft partitions.

    Parameters
    ----------
    tuples : u distinct tuples
    contingencies : (m, m)
        Their C of :func:`all_contingencies`.
    row_weights : (u,), optional
        The weights C was counted with, where they are not those of the tuples.
    """
    if tuples.memberships is None:
        return pair_counts(contingencies, tuples.offsets)
    weights = tuples.weights if row_weights is None else row_weights
    return soft_pair_counts(tuples, contingencies, weights)


def soft_pair_counts(tuples: LabelTuples, contingencies: Array, weights: Array) -> PairCounts:
    """Count pairs of soft partitions: sums over all pairs, less what the pairs i = j have in them.

    >>> from coterie.labels.tuples import as_label_tuples
    >>> tuples = as_label_tuples([np.array([[0.5, 0.5], [0.5, 0.5]]), np.eye(2)])
    >>> C = all_contingencies(tuples)
    >>> soft_pair_counts(tuples, C, tuples.weights).in_row[tuples.partition_order == 0]
    array([[1., 1.]])
    """
    starts, V = tuples.offsets[:-1], tuples.n_partitions
    mass, squares = tuples.mass, tuples.squares
    sizes = np.add.reduceat(contingencies, starts, axis=1)
    in_row = np.add.reduceat(sizes**2, starts, axis=0) - (weights[:, None] * squares).T @ mass**2
    Z = tuples.indicator(np.ones(V))
    cubes, row_squares = np.empty((2, V, V))
    for v in range(V):
        own = slice(tuples.offsets[v], tuples.offsets[v + 1])
        rows = Z[:, own]
        # with how many others a point is together, among those that the other partition has
        company = mass * (rows @ sizes[own] - squares[:, [v]] * mass)
        cubes[v] = weights @ company**2
        row_squares[v] = _squared_togetherness(rows, squares[:, v], mass, weights)
    n_points = (weights[:, None] * mass).T @ mass
    own_pairs = (weights[:, None] * mass**2).T @ mass**2
    squared = np.add.reduceat(np.add.reduceat(contingencies**2, starts, axis=0), starts, axis=1)
    return PairCounts(
        together=squared - (weights[:, None] * squares).T @ squares,
        in_row=in_row,
        in_column=in_row.T,
        n_points=n_points,
        row_cubes=cubes,
        column_cubes=cubes.T,
        row_squares=row_squares,
        column_squares=row_squares.T,
        soft_pairs=n_points**2 - own_pairs,
    )


def _squared_togetherness(
    rows: Any,
    squares: Array,
    mass: Array,
    weights: Array,
) -> Array:
    """Σ_{i≠j} (⟨π_i, π_j⟩ m_iw m_jw)² for every w, (V,); rows (u, K_v) are the π of one partition.

    Over all pairs it is the squared norm of Σ_i m_iw² π_i π_iᵀ, a matrix over clusters.
    """
    sums = np.empty(mass.shape[1])
    known: dict[bytes, float] = {}
    for w in range(mass.shape[1]):
        scale = weights * mass[:, w] ** 2
        key = scale.tobytes()
        if key not in known:
            product = (rows * scale[:, None]).T @ rows
            known[key] = float((product**2).sum() - scale * mass[:, w] ** 2 @ squares**2)
        sums[w] = known[key]
    return sums


def agreement_lower_bound(counts: PairCounts, partition_weights: Array) -> float:
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
