"""Choice of the solver: ADMM on the CPU, on a GPU or in parts, or least squares only.

ADMM stores a matrix over all pairs of tuples. The choice is made before this matrix is allocated. A
warning says if the requested device cannot be used.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.counts.coassociation import tuple_coassociation
from coterie.errors import DeviceFallbackWarning, MemoryFallbackWarning
from coterie.labels.tuples import LabelTuples
from coterie.relaxation.admm import required_bytes, robust_factor
from coterie.relaxation.divided_admm import divided_factor
from coterie.relaxation.gpu_admm import gpu_robust_factor, required_gpu_bytes
from coterie.relaxation.iteration import RobustRelaxation
from coterie.runtime.devices import available_memory, gpu_memory, gpu_obstacle, readable_bytes
from coterie.runtime.user_warnings import warn_user

__all__ = ["dispatch_relaxation", "least_squares_result"]

Array = NDArray[np.float64]

_log = logging.getLogger(__name__)

#: relaxation="auto" runs ADMM up to this many tuples.
_MOST_FOR_AUTO = 500
#: The CPU solves at most this many tuples without division.
_MOST_UNDIVIDED = 40_000
_PART_SIZE = 4_000
#: With device="auto" a GPU is looked for above this number of tuples.
_FEWEST_TO_DETECT_GPU = 2_000


def dispatch_relaxation(
    tuples: LabelTuples,
    partition_weights: Array,
    start: Array,
    *,
    relaxation: str,
    device: str,
    max_iter: int,
    tol: float,
    random_state: Any,
) -> tuple[RobustRelaxation, str]:
    """Compute the relaxation with the solver that fits the request and the memory.

    ``start`` (u, K) is the ℓ2 factor, which is also the result if ADMM does not run. ``relaxation``
    is "auto", "admm", "divided" or "l2", and ``device`` is "auto", "cpu" or "cuda". ``max_iter``
    and ``tol`` are parameters of ADMM; ``random_state`` seeds the division into parts. The second
    result says what ran: "cpu", "cuda", "parts", or "l2" for least squares only.

    >>> from coterie.labels.tuples import as_label_tuples
    >>> tuples = as_label_tuples([[0, 0], [0, 0], [1, 1], [1, 0]])
    >>> settings = dict(device="cpu", max_iter=50, tol=1e-3, random_state=0)
    >>> dispatch_relaxation(tuples, np.ones(2), np.eye(3)[:, :2], relaxation="admm", **settings)[1]
    'cpu'
    """
    place = _choose_place(tuples, partition_weights, start.shape[1], relaxation, device)
    if place == "l2":
        return least_squares_result(start), place
    if place != "cpu":  # robust_factor logs its own message
        _log.info("robust relaxation of %d tuples (%s)", tuples.n_tuples, place)
    steps: dict[str, Any] = {"max_iter": max_iter, "tol": tol}
    if place == "cuda":
        result = gpu_robust_factor(tuples.codes, partition_weights, tuples.weights, start, **steps)
    elif place == "parts":
        # divided_factor needs at least 4 K tuples in a part.
        steps |= {"part_size": max(_PART_SIZE, 4 * start.shape[1]), "random_state": random_state}
        result = divided_factor(tuples, partition_weights, start, **steps)
    else:
        result = robust_factor(tuple_coassociation(tuples, partition_weights), start, **steps)
    return result, place


def least_squares_result(factor: Array) -> RobustRelaxation:
    """Return the ℓ2 factor as a result of zero steps."""
    history: dict[str, list[float]] = {
        name: [] for name in ("objective", "primal_residual", "dual_residual", "mu")
    }
    return RobustRelaxation(factor, np.nan, history, 0, True)


def _choose_place(
    tuples: LabelTuples, partition_weights: Array, n_clusters: int, relaxation: str, device: str
) -> str:
    u = tuples.n_tuples
    if relaxation in ("l2", "divided"):
        return {"l2": "l2", "divided": "parts"}[relaxation]
    soft = tuples.memberships is not None
    too_slow = relaxation == "auto" and u > _MOST_FOR_AUTO
    instead = "least squares are used instead" if too_slow else "the CPU is used instead"
    counted = bool(np.ptp(partition_weights) == 0) and not tuples.has_missing and not soft
    if soft and device == "cuda":
        warn_user(
            f"device='cuda' needs labels, but these are memberships; {instead}",
            DeviceFallbackWarning,
        )
    needed = required_gpu_bytes(u, n_clusters, counted, tuples.n_partitions)
    if not soft and _can_use_gpu(u, needed, relaxation, device, instead):
        return "cuda"
    if relaxation == "auto":
        return "l2" if too_slow else "cpu"
    return "cpu" if _fits_in_memory(u, counted) else "parts"


def _can_use_gpu(u: int, needed: int, relaxation: str, device: str, instead: str) -> bool:
    """Return whether a GPU is useful, available and large enough; warn if it was requested."""
    requested = device == "cuda"
    detect = device == "auto" and relaxation == "admm" and u > _FEWEST_TO_DETECT_GPU
    if not requested and not detect:
        return False
    if obstacle := gpu_obstacle():
        if requested:
            warn_user(
                f"device='cuda' cannot be used: {obstacle}; {instead}",
                DeviceFallbackWarning,
            )
        return False
    free = gpu_memory()
    if needed > free and requested:
        warn_user(
            f"ADMM needs {readable_bytes(needed)} of GPU memory for {u:,} distinct label tuples, "
            f"but {readable_bytes(free)} are free; {instead}",
            MemoryFallbackWarning,
        )
    return needed <= free


def _fits_in_memory(u: int, counted: bool) -> bool:
    """Return whether the CPU can solve the problem without division; warn if not."""
    needed, free = required_bytes(u, counted), available_memory()
    if u <= _MOST_UNDIVIDED and needed <= free // 2:
        return True
    warn_user(
        f"ADMM needs {readable_bytes(needed)} for {u:,} distinct label tuples, but is limited to "
        f"{_MOST_UNDIVIDED:,} tuples and half of the free memory ({readable_bytes(free)}); it is "
        "solved in parts instead. Set relaxation='divided' to silence this warning, or 'l2' for "
        "least squares, which is much faster",
        MemoryFallbackWarning,
    )
    return False
