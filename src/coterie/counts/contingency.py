"""Contingency tables of all pairs of partitions, and the pair counts that follow from them.

With Z the (u, m) indicator of all clusters of all partitions and ω the weights of the tuples,

    C = Zᵀ diag(ω) Z,   shape (m, m),

block (v, w) of C is the contingency table of partitions v and w, and the diagonal of C holds the
cluster sizes. C is counted in O(u·V²). The agreement of partitions, a bound on the objective and
the ℓ2 relaxation follow from C, so no matrix over points is needed. For soft partitions Z holds
memberships, and C holds sums of products of memberships.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

import coterie.counts.kernels as kernels
from coterie.arrays import Floats, Ints
from coterie.errors import TooManyPointsError
from coterie.labels.tuples import LabelTuples
from coterie.runtime.devices import available_memory, map_row_blocks, n_threads, readable_bytes
from coterie.runtime.wording import short_repr

#: Tables (m, m) that are in memory together with one for each thread: their sum, and results.
_OTHER_TABLES = 3
_ALWAYS_ALLOWED = 10**8  # bytes; the free memory may be unknown


@dataclass(frozen=True)
class PairCounts:
    """Counts of pairs of points for every pair (v, w) of partitions; all arrays are (V, V).

    Pairs are ordered, i ≠ j, of points that both partitions label. Counts of pairs together in w
    are the transposes of those in v. For soft partitions a pair counts as together in v with the
    value a_ij = ⟨π_iv, π_jv⟩ m_iw m_jw, where m is the labelled mass.
    """

    together: Floats  # pairs together in v and in w
    in_row: Floats  # pairs together in v
    n_points: Floats  # points labelled in both
    # Σ_c n_c (n_c − 1)² over the clusters of v, or Σ_i (Σ_j a_ij)²: a moment that the variance of
    # agreement by chance needs
    row_cubes: Floats
    # Σ_i d_iv d_iw, with d_iv = Σ_j a_ij the number of other points with which v puts point i; the
    # variance of the agreement of groups of partitions needs it
    degree_products: Floats
    row_squares: Floats | None = None  # Σ a_ij², None for labels, where it equals in_row
    soft_pairs: Floats | None = None  # mass of all pairs, None for labels

    __repr__ = short_repr

    @property
    def n_pairs(self) -> Floats:
        """Return the number of pairs, i ≠ j, that both partitions label."""
        return self.n_points * (self.n_points - 1) if self.soft_pairs is None else self.soft_pairs

    @property
    def mirkin(self) -> Floats:
        """Return the Mirkin distance: ordered pairs together in one partition only."""
        return self.in_row + self.in_row.T - 2 * self.together


def all_contingencies(tuples: LabelTuples, row_weights: Floats | None = None) -> Floats:
    """Compute C = Zᵀ diag(ω) Z, shape (m, m); ω are the weights of the tuples by default.

    >>> from coterie.labels.tuples import as_label_tuples
    >>> C = all_contingencies(as_label_tuples([[0, 0], [0, 1], [0, 1]]))
    >>> sorted(C.diagonal().tolist()), C.shape  # sizes of the three clusters
    ([1.0, 2.0, 3.0], (3, 3))
    """
    weights = tuples.weights if row_weights is None else row_weights
    m = tuples.n_columns
    # in a block of fewer than m rows, the (m, m) array would cost more than the counting
    at_least = max(20_000, m)
    n_tables = _OTHER_TABLES + min(n_threads(), max(1, tuples.n_tuples // at_least))
    needed, free = n_tables * 8 * m**2, available_memory()
    if needed > max(free, _ALWAYS_ALLOWED):
        largest = int(np.argmax(tuples.n_labels))
        raise TooManyPointsError(
            f"the {tuples.n_partitions:,} partitions have {m:,} clusters in all, and the "
            f"contingency tables of all pairs need about {readable_bytes(needed)}, but "
            f"{readable_bytes(free)} are free; partition '{tuples.partition_names[largest]}' has "
            f"the most clusters, {tuples.n_labels[largest]:,}: leave it out if it names the rows, "
            "or use fewer partitions"
        )

    def count(start: int, stop: int) -> Floats:
        C, shares = np.zeros((m, m)), tuples.memberships
        if shares is None:
            kernels.add_contingencies(tuples.codes, weights, start, stop, C)
        else:
            kernels.add_soft_contingencies(tuples.codes, shares, weights, start, stop, C)
        return C

    total: Floats = reduce(np.add, map_row_blocks(count, tuples.n_tuples, at_least))
    return total + np.triu(total, 1).T


def count_pairs(
    tuples: LabelTuples, contingencies: Floats, row_weights: Floats | None = None
) -> PairCounts:
    """Count pairs of points for every pair of partitions, given C of :func:`all_contingencies`.

    ``row_weights`` (u,) are the weights with which C was counted, by default those of the tuples.
    """
    if tuples.memberships is not None:
        weights = tuples.weights if row_weights is None else row_weights
        return _count_soft_pairs(tuples, contingencies, weights)
    starts = tuples.offsets[:-1]
    # sizes[c, w] is the size of cluster c among the points that partition w labels, (m, V)
    sizes = np.add.reduceat(contingencies, starts, axis=1)
    # number of other points in each cluster, (m,)
    others = contingencies.diagonal() - 1
    return PairCounts(
        together=_block_sums(contingencies * (contingencies - 1), starts),
        in_row=np.add.reduceat(sizes * (sizes - 1), starts, axis=0),
        n_points=_block_sums(contingencies, starts),
        row_cubes=np.add.reduceat(sizes * (sizes - 1) ** 2, starts, axis=0),
        degree_products=_block_sums(others[:, None] * contingencies * others, starts),
    )


def jaccard_similarity(contingencies: Floats, offsets: Ints) -> Floats:
    """Return |c ∩ d| / |c ∪ d| of all base clusters, over points with both labels, (m, m)."""
    # size of c among the points that the partition of d labels, (m, V) and (m, m)
    labelled = np.add.reduceat(contingencies, offsets[:-1], axis=1)
    sizes = np.repeat(labelled, np.diff(offsets), axis=1)
    union = sizes + sizes.T - contingencies
    similarity = np.zeros_like(contingencies)
    return np.divide(contingencies, union, out=similarity, where=union > 0)


def agreement_lower_bound(counts: PairCounts, partition_weights: Floats) -> float:
    """Return a lower bound of J(G) for every clustering G, from distances between partitions.

    Let α be the weights, with sum one, and y_vw ≥ 0 with Σ_w y_vw ≤ α_v. Mirkin's distance d
    satisfies d(v, G) + d(w, G) ≥ d(v, w). Multiply by y_vw and sum over all pairs v < w:
    J(G) = Σ_v α_v d(v, G) ≥ Σ_{v<w} y_vw d(v, w). Here y_vw = α_v α_w / (1 − min α).
    """
    alpha = partition_weights / partition_weights.sum()
    used = alpha[alpha > 0]
    if len(used) < 2:
        return 0.0
    y = np.outer(alpha, alpha) / (1 - used.min())
    return float((np.triu(y, 1) * counts.mirkin).sum())


def _block_sums(values: Floats, starts: Ints) -> Floats:
    """Sum an (m, m) matrix over the block of each pair of partitions, (V, V)."""
    return np.add.reduceat(np.add.reduceat(values, starts, axis=0), starts, axis=1)


def _count_soft_pairs(tuples: LabelTuples, contingencies: Floats, weights: Floats) -> PairCounts:
    """Count pairs of soft partitions: sums over all pairs, minus the terms with i = j."""
    starts, V = tuples.offsets[:-1], tuples.n_partitions
    mass, squares = tuples.mass, tuples.squares
    sizes = np.add.reduceat(contingencies, starts, axis=1)
    Z = tuples.indicator(np.ones(V))
    cubes, row_squares = np.empty((2, V, V))
    own_degrees = np.empty_like(mass)
    for v in range(V):
        own = slice(tuples.offsets[v], tuples.offsets[v + 1])
        rows = Z[:, own]
        # Σ_j a_ij over the other points j, times the mass of both in each partition w, (u, V)
        degrees = mass * (rows @ sizes[own] - squares[:, [v]] * mass)
        cubes[v] = weights @ degrees**2
        own_degrees[:, v] = rows @ (weights @ rows) - squares[:, v]
        # Σ_ij a_ij² is the squared norm of the (K_v, K_v) matrix Σ_i m_iw² π_i π_iᵀ
        known: dict[bytes, float] = {}
        for w in range(V):
            scale = weights * mass[:, w] ** 2
            key = scale.tobytes()  # equal for all partitions without missing mass
            if key not in known:
                product = (rows * scale[:, None]).T @ rows
                own_squares = scale * mass[:, w] ** 2 @ squares[:, v] ** 2
                known[key] = float((product**2).sum() - own_squares)
            row_squares[v, w] = known[key]
    n_points = (weights[:, None] * mass).T @ mass
    own_pairs = (weights[:, None] * mass**2).T @ mass**2
    return PairCounts(
        together=_block_sums(contingencies**2, starts) - (weights[:, None] * squares).T @ squares,
        in_row=np.add.reduceat(sizes**2, starts) - (weights[:, None] * squares).T @ mass**2,
        n_points=n_points,
        row_cubes=cubes,
        degree_products=(weights[:, None] * own_degrees).T @ own_degrees,
        row_squares=row_squares,
        soft_pairs=n_points**2 - own_pairs,
    )
