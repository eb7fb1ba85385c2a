"""The robust relaxation in parts, for problems whose (u, u) matrix does not fit in memory.

    min ‖M − F Fᵀ‖₁,   F (u, K),   M (u, u) the co-association of u weighted tuples

1. Tuples are distributed over P parts of similar composition. A tuple of very many points is in
   every part, with 1/P of its weight.
2. Each part p is solved by :func:`~coterie.relaxation.admm.robust_factor`. It starts from the rows
   G_p of the start G, the ℓ2 factor of all tuples.
3. A factor is unique only up to a rotation. So the factor F_p is rotated by the orthogonal R_p that
   minimises ‖S (F_p R − G_p)‖_F, S = diag(√w) (Procrustes problem).
4. The rotated rows T fit the pairs within parts too closely. So F_θ = G + θ (T − G), 0 ≤ θ ≤ 1, is
   chosen with the smallest objective on a sample of pairs from all parts.

Time is linear in u, and memory is that of one part. M is exact in the parts and in the sample, also
with weights and missing labels.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from sklearn.utils import check_random_state

from coterie.counts.coassociation import TupleCoassociation, self_coassociation, tuple_coassociation
from coterie.errors import InvalidParameterError
from coterie.labels.tuples import LabelTuples
from coterie.relaxation.admm import robust_factor
from coterie.relaxation.iteration import RobustRelaxation
from coterie.runtime.sampling import evenly_spaced_points
from coterie.runtime.short_reprs import short_repr

__all__ = ["DividedRelaxation", "divided_factor", "l1_distance"]

Matrix = NDArray[np.float64]
Indices = NDArray[np.intp]

_log = logging.getLogger(__name__)

#: A tuple of more than this many times n/part_size points is in every part.
_HEAVY = 4.0
#: ``part_size`` is at least this many times K. Parts have at least 3/8 of it: more than K tuples.
_SMALLEST_PART = 4
_MOST_SAMPLED = 4000
_STEPS = np.linspace(0.0, 1.0, 11)
_ROWS_PER_BLOCK = 256


@dataclass
class DividedRelaxation(RobustRelaxation):
    """Result of the divided relaxation.

    With several parts, ``objective`` is estimated on a sample of pairs, ``n_iter`` and ``history``
    are those of the part with the most steps, and ``converged`` says whether all parts converged.
    """

    n_parts: int = 1  # P
    theta: float = 1.0  # θ; near 0 the parts were too small, or their factors disagree

    __repr__ = short_repr


def divided_factor(
    tuples: LabelTuples,
    partition_weights: Matrix,
    start: Matrix,
    *,
    part_size: int = 4000,
    max_iter: int = 300,
    tol: float = 1e-3,
    random_state: Any = None,
) -> DividedRelaxation:
    """Minimise ‖M − F Fᵀ‖₁ over F (u, K) part by part, in time linear in u.

    Parts are solved one after the other: each uses all cores, and only one is in memory.

    ``start`` (u, K) is the ℓ2 factor. ``part_size``, at least 4 K, is the largest number of tuples
    in a part, and of points in the sample (at most 4,000). If u ≤ ``part_size``, there is one part,
    and the result is that of :func:`~coterie.relaxation.admm.robust_factor`, which also describes
    ``max_iter`` and ``tol``. ``random_state`` seeds the distribution of similar tuples over parts.

    >>> from coterie.labels.tuples import as_label_tuples
    >>> from coterie.ensembles.planted import planted_partitions
    >>> from coterie.relaxation.least_squares import least_squares_factor
    >>> P, _ = planted_partitions([60, 40], 8, n_bad=0, noise=0.5, random_state=0)
    >>> tuples, equal = as_label_tuples(P), np.ones(8)
    >>> start = least_squares_factor(tuples, equal, 2)
    >>> found = divided_factor(tuples, equal, start, part_size=40, random_state=0)
    >>> found.n_parts, found.factor.shape == start.shape, found.converged
    (2, True, True)
    """
    _check_shapes(tuples, start, part_size)
    if tuples.n_tuples <= part_size:
        M = tuple_coassociation(tuples, partition_weights)
        whole = robust_factor(M, start, max_iter=max_iter, tol=tol)
        return DividedRelaxation(**vars(whole))
    parts, part_weights = _divide(
        tuples.weights, start, part_size, check_random_state(random_state)
    )
    solved = []
    for p, (part, weights) in enumerate(zip(parts, part_weights, strict=True)):
        _log.info("robust relaxation of part %d of %d: %d tuples", p + 1, len(parts), len(part))
        M = tuple_coassociation(tuples.subset(part, weights), partition_weights)
        solution = robust_factor(M, start[part], max_iter=max_iter, tol=tol)
        solved.append(replace(solution, factor=_rotated(solution.factor, start[part], weights)))
    rows = _mean_rows(parts, [solution.factor for solution in solved], len(start))
    n_sampled = min(part_size, _MOST_SAMPLED)
    objectives = _sampled_objectives(tuples, partition_weights, start, rows, n_sampled)
    best = int(np.argmin(objectives))
    slowest = max(solved, key=lambda solution: solution.n_iter)
    return DividedRelaxation(
        _sorted_by_eigenvalue(start + _STEPS[best] * (rows - start), tuples.weights),
        float(objectives[best]),
        slowest.history,
        slowest.n_iter,
        all(solution.converged for solution in solved),
        len(parts),
        float(_STEPS[best]),
    )


def l1_distance(M: TupleCoassociation, factor: Matrix) -> float:
    """Return ‖M − F Fᵀ‖₁ over points, computed by blocks of rows.

    >>> M = TupleCoassociation(np.eye(2), 1.0, np.array([3.0, 1.0]))
    >>> l1_distance(M, np.array([[1.0], [0.0]]))
    1.0
    """
    total = 0.0
    for first in range(0, len(factor), _ROWS_PER_BLOCK):
        block = slice(first, first + _ROWS_PER_BLOCK)
        gap = M.values[block] * M.scale - factor[block] @ factor.T
        total += float(M.weights[block] @ np.abs(gap) @ M.weights)
    return total


def _check_shapes(tuples: LabelTuples, start: Matrix, part_size: int) -> None:
    if start.ndim != 2 or len(start) != tuples.n_tuples:
        raise InvalidParameterError(
            f"start has shape {start.shape}; give one row for each of the {tuples.n_tuples} tuples"
        )
    least = _SMALLEST_PART * start.shape[1]
    if part_size < min(least, tuples.n_tuples):
        raise InvalidParameterError(
            f"part_size={part_size}: with K = {start.shape[1]} it must be at least {least} "
            f"to divide {tuples.n_tuples} tuples"
        )


def _divide(
    weights: Matrix, start: Matrix, part_size: int, rng: np.random.RandomState
) -> tuple[list[Indices], list[Matrix]]:
    """Return the tuples of each part, increasing, and their weights in it.

    Heavy tuples, fewer than part_size/4, are in every part. The others are sorted by stratum,
    weight and a random number, and distributed in turn. A pivoted QR of the start selects K pivot
    tuples; the stratum of a tuple is its most similar pivot.
    """
    heavy = weights > _HEAVY * weights.sum() / part_size
    light = np.flatnonzero(~heavy)
    pivots = qr(start.T, mode="r", pivoting=True)[1][: start.shape[1]]
    stratum = np.argmax(start[light] @ start[pivots].T, axis=1)
    order = light[np.lexsort((rng.permutation(len(light)), -weights[light], stratum))]
    n_parts = -(-len(light) // (part_size - int(heavy.sum())))
    parts = [
        np.sort(np.concatenate([order[p::n_parts], np.flatnonzero(heavy)])) for p in range(n_parts)
    ]
    shares = np.where(heavy, weights / n_parts, weights)
    return parts, [shares[part] for part in parts]


def _rotated(factor: Matrix, target: Matrix, weights: Matrix) -> Matrix:
    """Rotate the factor to be as near as possible to ``target``."""
    left, _, right = np.linalg.svd((factor * weights[:, None]).T @ target)
    return factor @ (left @ right)


def _mean_rows(parts: Sequence[Indices], factors: Sequence[Matrix], n_tuples: int) -> Matrix:
    """Return the mean of the rows of each tuple over the parts, (u, K)."""
    rows = np.zeros((n_tuples, factors[0].shape[1]))
    n_parts = np.zeros(n_tuples)
    for part, factor in zip(parts, factors, strict=True):
        rows[part] += factor
        n_parts[part] += 1
    return rows / n_parts[:, None]


def _sampled_objectives(
    tuples: LabelTuples, partition_weights: Matrix, start: Matrix, rows: Matrix, n_sampled: int
) -> Matrix:
    """Estimate ‖M − F_θ F_θᵀ‖₁ for each θ from the pairs of evenly spaced points.

    Sampled pairs of different tuples are scaled up; all pairs within a tuple are counted.
    """
    chosen, counts = evenly_spaced_points(tuples.weights, n_sampled)
    M = tuple_coassociation(tuples.subset(chosen, counts), partition_weights)
    sampled = _pairs_of_different_tuples(counts)
    # If one tuple has nearly all points, the sample can lack pairs of different tuples.
    scale = _pairs_of_different_tuples(tuples.weights) / sampled if sampled else 0.0
    diagonal = self_coassociation(tuples, partition_weights)
    estimates = []
    for theta in _STEPS:
        factor = start + theta * (rows - start)
        within = np.abs(diagonal - np.einsum("ak,ak->a", factor, factor))
        between = l1_distance(M, factor[chosen]) - counts**2 @ within[chosen]
        estimates.append(scale * between + tuples.weights**2 @ within)
    return np.array(estimates)


def _pairs_of_different_tuples(weights: Matrix) -> float:
    return float(weights.sum() ** 2 - weights @ weights)


def _sorted_by_eigenvalue(factor: Matrix, weights: Matrix) -> Matrix:
    """Rotate the factor so that its columns are orthogonal over points, largest first."""
    _, axes = np.linalg.eigh((factor * weights[:, None]).T @ factor)
    return factor @ axes[:, ::-1]
