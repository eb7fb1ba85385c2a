"""The robust relaxation of any number of tuples: in one piece on the CPU or a GPU, or in parts.

    min ‖M − F Fᵀ‖₁,   F (u, K),   M (u, u) the co-association of u weighted tuples

:func:`dispatch_relaxation` chooses. If the (u, u) matrix does not fit in memory,
:func:`divided_factor` solves the problem in parts:

1. Tuples are distributed over P parts of similar composition. A tuple of very many points is in
   every part, with 1/P of its weight.
2. Each part p is solved by :func:`~coterie.relaxation.admm.robust_factor`. It starts from the rows
   G_p of the start G, the ℓ2 factor of all tuples.
3. A factor is unique only up to a rotation. So the factor F_p is rotated by the orthogonal R_p that
   minimises ‖S (F_p R − G_p)‖_F, S = diag(√w) (Procrustes problem).
4. The rotated rows T fit the pairs within parts too closely. So F_θ = G + θ (T − G), 0 ≤ θ ≤ 1, is
   chosen with the smallest objective on a sample of pairs from all parts.

Time is linear in u, and memory is that of one part. M is exact in the parts and in the sample, even
with weights and missing labels.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import qr
from sklearn.utils import check_random_state

from coterie.arrays import AnyArray, Floats
from coterie.counts.coassociation import TupleCoassociation, self_coassociation, tuple_coassociation
from coterie.errors import DeviceFallbackWarning, MemoryFallbackWarning
from coterie.labels.tuples import LabelTuples
from coterie.relaxation.admm import (
    MAX_ITER,
    TOL,
    RobustRelaxation,
    least_squares_result,
    required_bytes,
    robust_factor,
)
from coterie.relaxation.gpu import gpu_robust_factor, required_gpu_bytes
from coterie.runtime.devices import available_memory, gpu_memory, gpu_obstacle, readable_bytes
from coterie.runtime.messages import warn_user
from coterie.runtime.sampling import evenly_spaced_points
from coterie.runtime.wording import short_repr

_log = logging.getLogger(__name__)

#: relaxation="auto" runs ADMM up to this many tuples.
_MOST_FOR_AUTO = 500
#: The CPU solves at most this many tuples without division.
_MOST_UNDIVIDED = 40_000
#: With device="auto" a GPU is looked for above this number of tuples.
_FEWEST_TO_DETECT_GPU = 2_000

_PART_SIZE = 4_000
#: A tuple of more than this many times n/part_size points is in every part.
_HEAVY = 4.0
#: ``part_size`` is at least this many times K. Parts have at least 3/8 of it: more than K tuples.
_SMALLEST_PART = 4
_MOST_SAMPLED = 4_000
_STEPS = np.linspace(0.0, 1.0, 11)
_ROWS_PER_BLOCK = 256


def dispatch_relaxation(
    tuples: LabelTuples,
    partition_weights: Floats,
    start: Floats,
    *,
    relaxation: str,
    device: str,
    max_iter: int,
    tol: float,
    random_state: Any,
) -> RobustRelaxation:
    """Compute the relaxation with the solver that fits the request and the memory.

    ``start`` (u, K) is the ℓ2 factor, which is also the result if ADMM does not run. ``relaxation``
    is "auto", "admm", "divided" or "l2", and ``device`` is "auto", "cpu" or "cuda". ``max_iter``
    and ``tol`` are parameters of ADMM; ``random_state`` seeds the division into parts.
    """
    k = start.shape[1]
    place = _choose_solver(tuples, partition_weights, k, relaxation, device)
    if place == "l2":
        return least_squares_result(start)
    if place != "cpu":  # robust_factor logs its own message
        _log.info("robust relaxation of %d tuples (%s)", tuples.n_tuples, place)
    steps: dict[str, Any] = {"max_iter": max_iter, "tol": tol}
    if place == "cuda":
        return gpu_robust_factor(tuples.codes, partition_weights, tuples.weights, start, **steps)
    if place == "parts":
        steps |= {"part_size": max(_PART_SIZE, _SMALLEST_PART * k), "random_state": random_state}
        return divided_factor(tuples, partition_weights, start, **steps)
    return robust_factor(tuple_coassociation(tuples, partition_weights), start, **steps)


def _choose_solver(
    tuples: LabelTuples, partition_weights: Floats, k: int, relaxation: str, device: str
) -> str:
    """Return the solver: "cpu", "cuda", "parts" or "l2"; warn if it is not what was asked for.

    The choice is made before a matrix over all pairs of tuples is allocated.
    """
    if relaxation in ("l2", "divided"):
        return {"l2": "l2", "divided": "parts"}[relaxation]
    u, soft = tuples.n_tuples, tuples.memberships is not None
    counted = bool(np.ptp(partition_weights) == 0) and not tuples.has_missing and not soft
    too_slow = relaxation == "auto" and u > _MOST_FOR_AUTO
    requested = device == "cuda"
    worthwhile = device == "auto" and relaxation == "admm" and u > _FEWEST_TO_DETECT_GPU
    if requested or (worthwhile and not soft):
        needed = required_gpu_bytes(u, k, counted, tuples.n_partitions)
        category: type[Warning] = DeviceFallbackWarning
        if soft:
            reason = "device='cuda' needs labels, but these are memberships"
        elif obstacle := gpu_obstacle():
            reason = f"device='cuda' cannot be used: {obstacle}"
        elif needed > (free := gpu_memory()):
            category = MemoryFallbackWarning
            reason = (
                f"ADMM needs {readable_bytes(needed)} of GPU memory for {u:,} distinct label "
                f"tuples, but {readable_bytes(free)} are free"
            )
        else:
            return "cuda"
        if requested:
            instead = "least squares are used" if too_slow else "the CPU is used"
            warn_user(f"{reason}; {instead} instead", category)
    if relaxation == "auto":
        return "l2" if too_slow else "cpu"
    needed, free = required_bytes(u, counted), available_memory()
    if u <= _MOST_UNDIVIDED and needed <= free // 2:
        return "cpu"
    warn_user(
        f"ADMM needs {readable_bytes(needed)} for {u:,} distinct label tuples, but is limited to "
        f"{_MOST_UNDIVIDED:,} tuples and half of the free memory ({readable_bytes(free)}); it is "
        "solved in parts instead. Set relaxation='divided' to silence this warning, or 'l2' for "
        "least squares, which is much faster",
        MemoryFallbackWarning,
    )
    return "parts"


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
    partition_weights: Floats,
    start: Floats,
    *,
    part_size: int = _PART_SIZE,
    max_iter: int = MAX_ITER,
    tol: float = TOL,
    random_state: Any = None,
) -> DividedRelaxation:
    """Minimise ‖M − F Fᵀ‖₁ over F (u, K) part by part, in time linear in u.

    Parts are solved one after the other: each uses all cores, and only one is in memory.
    ``start`` (u, K) is the ℓ2 factor. ``part_size``, at least 4 K, is the largest number of tuples
    in a part, and of points in the sample (at most 4,000). ``random_state`` seeds the distribution
    of similar tuples over parts.
    """
    u, weights = tuples.n_tuples, tuples.weights
    if u <= part_size:
        M = tuple_coassociation(tuples, partition_weights)
        whole = robust_factor(M, start, max_iter=max_iter, tol=tol)
        return DividedRelaxation(**{**vars(whole), "place": "parts"})

    parts, part_weights = _divide(weights, start, part_size, check_random_state(random_state))
    # rows (u, K): the mean of the rotated rows of each tuple over the parts that have it
    solved, rows, times = [], np.zeros(start.shape), np.zeros(u)
    for p, (part, own_weights) in enumerate(zip(parts, part_weights, strict=True)):
        _log.info("robust relaxation of part %d of %d: %d tuples", p + 1, len(parts), len(part))
        M = tuple_coassociation(tuples.subset(part, own_weights), partition_weights)
        solution = robust_factor(M, start[part], max_iter=max_iter, tol=tol)
        # rotated to be as near as possible to the start
        left, _, right = np.linalg.svd((solution.factor * own_weights[:, None]).T @ start[part])
        rows[part] += solution.factor @ (left @ right)
        times[part] += 1
        solved.append(solution)
    rows /= times[:, None]

    n_sampled = min(part_size, _MOST_SAMPLED)
    objectives = _sampled_objectives(tuples, partition_weights, start, rows, n_sampled)
    best = int(np.argmin(objectives))
    factor = start + _STEPS[best] * (rows - start)
    # rotated so that its columns are orthogonal over points, largest first
    _, axes = np.linalg.eigh((factor * weights[:, None]).T @ factor)
    slowest = max(solved, key=lambda solution: solution.n_iter)
    return DividedRelaxation(
        factor @ axes[:, ::-1],
        float(objectives[best]),
        slowest.history,
        slowest.n_iter,
        all(solution.converged for solution in solved),
        "parts",
        len(parts),
        float(_STEPS[best]),
    )


def _divide(
    weights: Floats, start: Floats, part_size: int, rng: np.random.RandomState
) -> tuple[list[AnyArray], list[Floats]]:
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


def _sampled_objectives(
    tuples: LabelTuples, partition_weights: Floats, start: Floats, rows: Floats, n_sampled: int
) -> Floats:
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


def l1_distance(M: TupleCoassociation, factor: Floats) -> float:
    """Return ‖M − F Fᵀ‖₁ over points, computed by blocks of rows."""
    total = 0.0
    for first in range(0, len(factor), _ROWS_PER_BLOCK):
        block = slice(first, first + _ROWS_PER_BLOCK)
        gap = M.values[block] * M.scale - factor[block] @ factor.T
        total += float(M.weights[block] @ np.abs(gap) @ M.weights)
    return total


def _pairs_of_different_tuples(weights: Floats) -> float:
    return float(weights.sum() ** 2 - weights @ weights)
