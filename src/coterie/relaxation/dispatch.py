"""Where the relaxation is computed: on the CPU, on a GPU, in parts, or as least squares instead.

The ADMM holds a matrix over all pairs of tuples. Which machine can hold it, and what is done where
none can, is decided here, before anything large is allocated, and said.
"""

from __future__ import annotations

import logging
import warnings
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

__all__ = ["dispatch_relaxation", "least_squares_result"]

Array = NDArray[np.float64]

_log = logging.getLogger(__name__)

#: "auto" relaxes up to so many tuples; on the CPU at most so many are relaxed undivided.
_MOST_RELAXED_SOON = 500
_MOST_UNDIVIDED = 40_000
_PART_SIZE = 4_000
#: From here on a GPU is quicker: where it was asked for, and where it must be looked for first.
_FEWEST_ON_GPU = 400
_FEWEST_TO_LOOK_FOR_GPU = 2_000


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
    """Relax on the device asked for, or where it fits.

    Parameters
    ----------
    tuples : u distinct tuples
    partition_weights : (V,)
    start : (u, K)
        The ℓ2 factor: what comes back where nothing else is wanted or possible.
    relaxation : {"auto", "admm", "divided", "l2"}
    device : {"auto", "cpu", "cuda"}
    max_iter, tol, random_state
        Of the ADMM; the last deals the tuples into parts.

    Examples
    --------
    >>> from coterie.labels.tuples import as_label_tuples
    >>> tuples = as_label_tuples([[0, 0], [0, 0], [1, 1], [1, 0]])
    >>> settings = dict(device="cpu", max_iter=50, tol=1e-3, random_state=0)
    >>> dispatch_relaxation(tuples, np.ones(2), np.eye(3)[:, :2], relaxation="admm", **settings)[1]
    'cpu'
    """
    where = _place(tuples, partition_weights, start.shape[1], relaxation, device)
    if where == "l2":
        return least_squares_result(start), where
    if where != "cpu":  # which tells more of itself
        _log.info("robust relaxation of %d tuples (%s)", tuples.n_tuples, where)
    steps: dict[str, Any] = {"max_iter": max_iter, "tol": tol}
    if where == "cuda":
        found = gpu_robust_factor(tuples.codes, partition_weights, tuples.weights, start, **steps)
    elif where == "parts":
        # a part must be able to hold every cluster
        size = max(_PART_SIZE, 4 * start.shape[1])
        found = divided_factor(
            tuples, partition_weights, start, part_size=size, random_state=random_state, **steps
        )
    else:
        found = robust_factor(tuple_coassociation(tuples, partition_weights), start, **steps)
    return found, where


def least_squares_result(factor: Array) -> RobustRelaxation:
    """The ℓ2 factor in place of the robust one: no steps, no history."""
    history: dict[str, list[float]] = {
        name: [] for name in ("objective", "primal_residual", "dual_residual", "mu")
    }
    return RobustRelaxation(factor, np.nan, history, 0, True)


def _place(
    tuples: LabelTuples, partition_weights: Array, n_clusters: int, relaxation: str, device: str
) -> str:
    """Which of "cpu", "cuda", "parts" and "l2" it is to be; a fallback is told by a warning."""
    u = tuples.n_tuples
    if relaxation in ("l2", "divided"):
        return {"l2": "l2", "divided": "parts"}[relaxation]
    soft = tuples.memberships is not None
    late = relaxation == "auto" and u > _MOST_RELAXED_SOON
    instead = "least squares take its place" if late else "the CPU takes its place"
    counted = bool(np.ptp(partition_weights) == 0) and not tuples.has_missing and not soft
    if soft and device == "cuda":
        warnings.warn(
            f"device='cuda' is for labels, and these are memberships; {instead}",
            DeviceFallbackWarning,
            stacklevel=7,
        )
    needed = required_gpu_bytes(u, n_clusters, counted, tuples.n_partitions)
    if not soft and _on_gpu(u, needed, relaxation, device, instead):
        return "cuda"
    if relaxation == "auto":
        return "l2" if late else "cpu"
    return "cpu" if _fits(u, counted) else "parts"


def _on_gpu(u: int, needed: int, relaxation: str, device: str, instead: str) -> bool:
    """Whether a GPU is wanted, there, and large enough."""
    wanted = device == "cuda" and u > _FEWEST_ON_GPU
    looked_for = device == "auto" and relaxation == "admm" and u > _FEWEST_TO_LOOK_FOR_GPU
    if not wanted and not looked_for:
        return False
    if obstacle := gpu_obstacle():
        if wanted:
            warnings.warn(
                f"device='cuda' cannot be used: {obstacle}; {instead}",
                DeviceFallbackWarning,
                stacklevel=8,
            )
        return False
    free = gpu_memory()
    if needed > free and wanted:
        warnings.warn(
            f"the ADMM would need {readable_bytes(needed)} of the GPU for {u:,} distinct label "
            f"tuples ({readable_bytes(free)} are free): {instead}",
            MemoryFallbackWarning,
            stacklevel=8,
        )
    return needed <= free


def _fits(u: int, counted: bool) -> bool:
    """Whether the CPU can hold the ADMM's state undivided; if not, say so."""
    needed, free = required_bytes(u, counted), available_memory()
    if u <= _MOST_UNDIVIDED and needed <= free // 2:
        return True
    warnings.warn(
        f"the ADMM would need {readable_bytes(needed)} for {u:,} distinct label tuples "
        f"({readable_bytes(free)} are free; at most {_MOST_UNDIVIDED:,} tuples and half of the "
        "free memory are used): it is solved in parts instead. Set relaxation='divided' to "
        "choose that yourself, or 'l2' for least squares, which is much quicker",
        MemoryFallbackWarning,
        stacklevel=8,
    )
    return False
