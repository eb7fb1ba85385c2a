"""Camps of partitions: groups of partitions that agree. The largest camp decides.

The agreement of two partitions is their adjusted Rand index. Its standard deviation if the labels
of one partition are randomly permuted is known in closed form. The score of a pair is the index
divided by this deviation. Average linkage on the scores, cut at four, gives the camps. A partition
that agrees with no other is a camp of one. Only the largest camp keeps its vote. If several camps
are equally large, no rule can tell which is right: all of them vote, and the result is tied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from coterie.counts.contingency import PairCounts, all_contingencies, count_pairs
from coterie.labels.numbering import renumber_by_size
from coterie.labels.tuples import as_label_tuples
from coterie.runtime.sampling import sample_multiplicities

__all__ = ["Dissent", "chance_scores", "find_camps", "partition_agreement"]

Array = NDArray[np.float64]

#: Partitions agree if their score is at least this number of standard deviations.
CUT = 4.0
#: Least deviation: even with millions of points an index below CUT × 0.0025 = 0.01 is chance.
LEAST_DEVIATION = 0.0025
#: Largest deviation: even with few points an index above CUT × 0.05 = 0.2 is agreement.
MOST_DEVIATION = 0.05
_FEWEST_COMMON = 4  # the moments divide by (n − 2)(n − 3)
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Dissent:
    """Agreement and camps of V partitions.

    Attributes
    ----------
    agreement : (V, V)
        Adjusted Rand index of every pair of partitions.
    scores : (V, V)
        The index divided by its standard deviation under chance.
    groups : (V,) int
        Camp of each partition; 0 is the largest, or one of the largest.
    weights : (V,)
        1 for partitions that decide, 0 for the others.
    tied : bool
        Whether several camps are equally large; then all of them decide.
    """

    agreement: Array
    scores: Array
    groups: NDArray[np.int64]
    weights: Array
    tied: bool

    @property
    def dissenters(self) -> NDArray[np.int64]:
        """Partitions that do not decide."""
        return np.flatnonzero(self.weights == 0)

    def reordered(self, place: NDArray[np.int64]) -> Dissent:
        """Return the result for partitions in another order: ``place[v]`` becomes number v."""
        return Dissent(
            self.agreement[np.ix_(place, place)],
            self.scores[np.ix_(place, place)],
            self.groups[place],
            self.weights[place],
            self.tied,
        )

    def in_words(self, names: Any = None) -> str:
        """Describe in one sentence which partitions decide and which dissent."""
        V, camps = len(self.groups), np.bincount(self.groups)
        if V == 1:
            return "one partition: nothing to agree on"
        if len(camps) == 1:
            return f"all {V} partitions agree beyond chance"
        if self.tied and camps[0] == 1:
            return f"no two of the {V} partitions agree beyond chance, so all of them vote"
        if self.tied:
            n_tied = int((camps == camps[0]).sum())
            return (
                f"{n_tied} camps of {camps[0]} partitions agree only among themselves; "
                "no rule can tell which is right, so all of them vote"
            )
        out = [str(names[v]) if names is not None else str(v) for v in self.dissenters]
        shown = ", ".join(out[:10]) + (", …" if len(out) > 10 else "")
        others = "no two of them agree"
        if camps[1] > 1:
            others = f"the largest camp among them has {camps[1]}"
        return f"{camps[0]} of {V} partitions decide; {len(out)} dissent ({shown}): {others}"


def partition_agreement(P: Any, max_points: int = 100_000, random_state: Any = 0) -> Dissent:
    """Compute agreement and camps of partitions from a sample of at most ``max_points`` points.

    Examples
    --------
    >>> from coterie import planted_partitions
    >>> P, _ = planted_partitions([60, 40], 5, 2, 0.1, random_state=0)
    >>> partition_agreement(P).groups.tolist()
    [0, 0, 0, 1, 1]
    """
    tuples = as_label_tuples(P)
    weights = sample_multiplicities(tuples.weights, max_points, random_state)
    counts = count_pairs(tuples, all_contingencies(tuples, weights), weights)
    return find_camps(counts).reordered(np.argsort(tuples.partition_order))


def find_camps(counts: PairCounts, cut: float = CUT) -> Dissent:
    """Find the camps of partitions from the pair counts of all pairs of partitions."""
    agreement, scores = chance_scores(counts)
    V = len(scores)
    groups = np.zeros(V, dtype=np.int64)
    if V > 1:
        # linkage needs distances ≥ 0: a score s becomes top − s
        top = max(float(scores.max()), cut)
        distance = top - scores
        np.fill_diagonal(distance, 0.0)
        tree = linkage(squareform(distance, checks=False), method="average")
        groups = renumber_by_size(fcluster(tree, top - cut, criterion="distance"))
    sizes = np.bincount(groups)
    largest = sizes == sizes[0]
    return Dissent(
        agreement, scores, groups, largest[groups].astype(np.float64), bool(largest.sum() > 1)
    )


def chance_scores(counts: PairCounts) -> tuple[Array, Array]:
    """Compute adjusted Rand index and score of every pair of partitions, both (V, V).

    The score is the index divided by its standard deviation under chance. Let a_ij = 1 if the first
    partition puts the points i ≠ j together, b_ij = 1 if the second does, and Γ = Σ a_ij b_ij. If
    the n points of one partition are randomly permuted, the moments of Γ are (Mantel 1967, with
    falling factorials n_(k))

        E Γ  = A₀ B₀ / n_(2)
        E Γ² = 2 A₁ B₁ / n_(2) + 4 (A₂ − A₁)(B₂ − B₁) / n_(3)
               + (A₀² + 2 A₁ − 4 A₂)(B₀² + 2 B₁ − 4 B₂) / n_(4),

    A₀ = Σ a_ij, A₁ = Σ a_ij², A₂ = Σ_i (Σ_j a_ij)², and B likewise. For labels A₁ = A₀. For soft
    partitions a_ij = ⟨π_i, π_j⟩, and the moments are exact if no mass is missing. A partition with
    one cluster or with n clusters scores 0 with all others. Two partitions with fewer than four
    common points cannot show disagreement; their score is ``CUT``.
    """
    n, a0, b0 = counts.n_points, counts.in_row, counts.in_row.T
    a1 = a0 if counts.row_squares is None else counts.row_squares
    b1 = a1.T
    a2, b2 = counts.row_cubes, counts.row_cubes.T
    n2 = np.maximum(counts.n_pairs, 1.0)
    n3, n4 = n2 * np.maximum(n - 2, 1.0), n2 * np.maximum((n - 2) * (n - 3), 1.0)
    mean = a0 * b0 / n2
    square = (
        2 * a1 * b1 / n2
        + 4 * (a2 - a1) * (b2 - b1) / n3
        + (a0**2 + 2 * a1 - 4 * a2) * (b0**2 + 2 * b1 - 4 * b2) / n4
    )
    # with 10⁸ points rounding can make this difference negative
    variance = np.maximum(square - mean**2, 0.0)
    span = (a0 + b0) / 2 - mean
    informative = _varies(a0, a1, n2) & _varies(b0, b1, n2) & (span > 0)
    safe = np.where(span > 0, span, 1.0)
    agreement = np.where(span > 0, (counts.together - mean) / safe, (counts.mirkin == 0) * 1.0)
    deviation = np.clip(np.sqrt(variance) / safe, LEAST_DEVIATION, MOST_DEVIATION)
    scores = np.where(informative, agreement / deviation, 0.0)
    return agreement, np.where(n < _FEWEST_COMMON, CUT, scores)


def _varies(total: Array, squares: Array, n_pairs: Array) -> NDArray[np.bool_]:
    """Return whether a_ij is not constant, from Σ a_ij and Σ a_ij²."""
    varies: NDArray[np.bool_] = squares * n_pairs - total**2 > _ROUNDING * total**2
    return varies & (total > 0)
