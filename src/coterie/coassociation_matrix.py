"""The co-association matrix: how often two points lie in one cluster.

    M_ij = Σ_v α_v [P_iv = P_jv] / Σ_v α_v [both i and j labelled in v]

with α the partition weights (1/V each unless given); 0 where no partition labels both,
and 1 on the diagonal. Over tuples it is (u, u); small integer counts where that is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie import coassociation_kernels as kernels
from coterie.devices import for_row_blocks, n_threads
from coterie.errors import InvalidParameterError
from coterie.label_tuples import LabelTuples, as_label_tuples

__all__ = [
    "TupleCoassociation",
    "check_partition_weights",
    "coassociation",
    "pairwise_lower_bound",
    "tuple_coassociation",
]

_NEGLIGIBLE = 1e-12
_SMALLEST = 1e-100


@dataclass(frozen=True)
class TupleCoassociation:
    """M over tuples: ``values * scale``, shape (u, u), with the tuples' weights (u,).

    ``values`` holds counts in one byte (or two) when all partitions weigh the same and no
    label is missing, floats otherwise.
    """

    values: NDArray[Any]
    scale: float
    weights: NDArray[np.float64]

    @property
    def n_tuples(self) -> int:
        """Number of tuples u."""
        return len(self.values)

    def dense(self) -> NDArray[np.float64]:
        """M as floats, shape (u, u)."""
        # dividing makes V of V votes exactly one, which multiplying by a rounded 1/V does not
        return self.values / np.rint(1.0 / self.scale)


def coassociation(P: Any, partition_weights: Any = None) -> NDArray[np.float64]:
    """Co-association matrix of n points, dense.

    Parameters
    ----------
    P : (n, V) labels, −1 missing
        Anything :class:`~coterie.RobustConsensus` takes.
    partition_weights : (V,) array, optional
        Weight of each partition; all equal by default.

    Returns
    -------
    M : (n, n) array in [0, 1]

    Examples
    --------
    >>> coassociation([[0, 0], [0, 1], [1, 1]])
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0.5],
           [0. , 0.5, 1. ]])
    """
    tuples = as_label_tuples(P)
    alpha = check_partition_weights(partition_weights, tuples.n_partitions)
    alpha = alpha[tuples.partition_order]
    M = tuple_coassociation(tuples, alpha).dense()
    # points that share a tuple without a vote in it are two points that no partition labels
    voiceless = ~((tuples.codes >= 0) & (alpha > 0)).any(axis=1)
    M[voiceless, voiceless] = 0.0
    M = M[np.ix_(tuples.inverse, tuples.inverse)]
    np.fill_diagonal(M, 1.0)
    return M


def tuple_coassociation(
    tuples: LabelTuples, partition_weights: NDArray[np.float64]
) -> TupleCoassociation:
    """Co-association of the distinct tuples; the weights are in the order of their columns.

    Partitions of weight 0 are left out.
    """
    used = np.flatnonzero(partition_weights > 0)
    alpha = partition_weights[used]
    turned = np.ascontiguousarray(tuples.codes[:, used].T)
    u = tuples.n_tuples
    if _is_counted(turned, alpha):
        counts = np.empty((u, u), dtype=_count_dtype(len(used)))
        for_row_blocks(lambda _, a, b: kernels.count_rows(turned, a, b, counts), u)
        return TupleCoassociation(counts, 1.0 / len(used), tuples.weights)
    same, both = np.empty((u, u)), np.empty((u, u))
    for_row_blocks(lambda _, a, b: kernels.weigh_rows(turned, alpha, a, b, same, both), u)
    np.divide(same, both, out=same, where=both > 0)
    np.fill_diagonal(same, 1.0)
    return TupleCoassociation(same, 1.0, tuples.weights)


def pairwise_lower_bound(tuples: LabelTuples, partition_weights: NDArray[np.float64]) -> float:
    """Σ_ij min(share together, share apart) ≤ J(G) for every partition G; O(u²·V), no matrix.

    >>> pairwise_lower_bound(as_label_tuples([[0, 0], [0, 1], [1, 1]]), np.ones(2))
    2.0
    """
    used = np.flatnonzero(partition_weights > 0)
    alpha = partition_weights[used] / partition_weights[used].sum()
    turned = np.ascontiguousarray(tuples.codes[:, used].T)
    parts = np.zeros(n_threads())

    u = tuples.n_tuples
    counted = _is_counted(turned, alpha)

    def add(block: int, start: int, stop: int) -> None:
        if counted:
            same = np.empty(u, dtype=_count_dtype(len(used)))
            total = kernels.bound_count_rows(turned, tuples.weights, start, stop, same)
            parts[block] = total / len(used)
        else:
            work = np.empty((2, u))
            parts[block] = kernels.bound_rows(turned, alpha, tuples.weights, start, stop, *work)

    for_row_blocks(add, u)
    return float(parts.sum())


def check_partition_weights(weights: Any, n_partitions: int) -> NDArray[np.float64]:
    """Weights as V non-negative floats, not all zero; ones when not given."""
    if weights is None:
        return np.ones(n_partitions)
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameterError(
            f"partition_weights={weights!r}: give one number a partition"
        ) from None
    if array.shape != (n_partitions,):
        raise InvalidParameterError(
            f"partition_weights has shape {array.shape}, one weight for each of the "
            f"{n_partitions} partitions is needed"
        )
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        v = int(np.argmax(wrong))
        raise InvalidParameterError(
            f"partition_weights[{v}] is {array[v]}; weights are finite and not negative"
        )
    if not array.any():
        raise InvalidParameterError("partition_weights are all zero; at least one must count")
    return _of_usable_size(array)


def _of_usable_size(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights whose sums and squares neither overflow nor vanish; the negligible ones are zero."""
    largest = weights.max()
    scaled = weights if _SMALLEST < largest < 1 / _SMALLEST else weights / largest
    return np.where(scaled < _NEGLIGIBLE * scaled.max(), 0.0, scaled)


def _is_counted(turned: NDArray[Any], alpha: NDArray[np.float64]) -> bool:
    """Whether whole-number counts say it all: equal weights and no missing label."""
    return bool(np.all(alpha == alpha[0]) and turned.min() >= 0)


def _count_dtype(n_partitions: int) -> np.dtype[Any]:
    """The smallest type that can count this far."""
    return np.min_scalar_type(n_partitions)
