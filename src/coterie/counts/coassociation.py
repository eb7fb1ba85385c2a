"""The co-association matrix: how often two points lie in one cluster.

    M_ij = Σ_v α_v [P_iv = P_jv] / Σ_v α_v [both i and j labelled in v]

with α the partition weights (1/V each unless given); 0 where no partition labels both,
and 1 on the diagonal. Over tuples it is (u, u); small integer counts where that is exact. Of soft
partitions, with π_iv (K_v,) the memberships of point i and m_iv their sum,

    M_ij = Σ_v α_v ⟨π_iv, π_jv⟩ / Σ_v α_v m_iv m_jv,

on the diagonal as elsewhere: a point is as much together with itself as with another point of the
same memberships, so that points of equal rows stay interchangeable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.counts import coassociation_kernels as kernels
from coterie.counts import soft_kernels
from coterie.errors import InvalidParameterError
from coterie.labels.tuples import LabelTuples, as_label_tuples
from coterie.runtime.devices import map_row_blocks

__all__ = [
    "TupleCoassociation",
    "check_partition_weights",
    "coassociation",
    "coassociation_bytes",
    "pairwise_lower_bound",
    "self_coassociation",
    "tuple_coassociation",
]

_NEGLIGIBLE = 1e-12
_SINGLE_PRECISION_ABOVE = 4000
_SMALLEST = 1e-100


@dataclass(frozen=True)
class TupleCoassociation:
    """M over tuples: ``values * scale``, shape (u, u), with the tuples' weights (u,).

    ``values`` holds counts in one byte (or two) when all partitions weigh the same and no
    label is missing, floats otherwise: of 8 bytes up to 4,000 tuples, of 4 above.
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
        return np.divide(self.values, np.rint(1.0 / self.scale), dtype=np.float64)


def coassociation(P: Any, partition_weights: Any = None) -> NDArray[np.float64]:
    """Co-association matrix of n points, dense.

    Parameters
    ----------
    P : (n, V) labels, −1 missing, or list of V membership matrices (n, K_v)
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
    voiceless = ~tuples.has_weighted_label(alpha)
    itself = M.diagonal().copy()
    M[voiceless, voiceless] = 0.0
    M = M[np.ix_(tuples.inverse, tuples.inverse)]
    np.fill_diagonal(M, itself[tuples.inverse])
    return M


def tuple_coassociation(
    tuples: LabelTuples, partition_weights: NDArray[np.float64]
) -> TupleCoassociation:
    """Co-association of the distinct tuples; the weights are in the order of their columns.

    Partitions of weight 0 are left out.
    """
    if tuples.memberships is not None:
        return _soft_coassociation(tuples, partition_weights)
    used = np.flatnonzero(partition_weights > 0)
    alpha = partition_weights[used]
    turned = np.ascontiguousarray(tuples.codes[:, used].T)
    u = tuples.n_tuples
    if _is_counted(turned, alpha):
        counts = np.empty((u, u), dtype=_count_dtype(len(used)))
        narrow = _narrowed(turned)
        map_row_blocks(lambda a, b: kernels.count_rows(narrow, a, b, counts), u)
        return TupleCoassociation(counts, 1.0 / len(used), tuples.weights)
    shares = np.empty((u, u), dtype=_share_dtype(u))

    def divide(start: int, stop: int) -> None:
        same, both = np.empty((2, u))
        kernels.share_rows(turned, alpha, start, stop, same, both, shares)

    map_row_blocks(divide, u)
    np.fill_diagonal(shares, 1.0)
    return TupleCoassociation(shares, 1.0, tuples.weights)


def self_coassociation(
    tuples: LabelTuples, partition_weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The diagonal of M over tuples, (u,): 1 of labels, and where no partition labels a tuple.

    >>> self_coassociation(as_label_tuples([np.array([[0.5, 0.5], [1.0, 0.0]])]), np.ones(1)).min()
    np.float64(0.5)
    """
    if tuples.memberships is None:
        return np.ones(tuples.n_tuples)
    together, pairs = tuples.squares @ partition_weights, tuples.mass**2 @ partition_weights
    return np.divide(together, pairs, out=np.ones_like(pairs), where=pairs > 0)


def coassociation_bytes(n_tuples: int, counted: bool = True) -> int:
    """Memory of M over u tuples: ``counted`` where weights are equal and no label is missing.

    Counts are taken to fit a byte, as they do up to 255 partitions.

    >>> coassociation_bytes(40_000), coassociation_bytes(40_000, counted=False)
    (1600000000, 6400000000)
    """
    return n_tuples * n_tuples * (1 if counted else _share_dtype(n_tuples).itemsize)


def pairwise_lower_bound(tuples: LabelTuples, partition_weights: NDArray[np.float64]) -> float:
    """Σ_ij min(share together, share apart) ≤ J(G) for every partition G; O(u²·V), no matrix.

    Where partitions are soft, over pairs of different points, as J is.

    >>> pairwise_lower_bound(as_label_tuples([[0, 0], [0, 1], [1, 1]]), np.ones(2))
    2.0
    """
    if tuples.memberships is not None:
        return _soft_lower_bound(tuples, partition_weights)
    used = np.flatnonzero(partition_weights > 0)
    alpha = partition_weights[used] / partition_weights[used].sum()
    turned = np.ascontiguousarray(tuples.codes[:, used].T)
    u = tuples.n_tuples
    counted = _is_counted(turned, alpha)
    narrow = _narrowed(turned) if counted else turned

    def add(start: int, stop: int) -> float:
        if counted:
            same = np.empty(u, dtype=_count_dtype(len(used)))
            total = kernels.bound_count_rows(narrow, tuples.weights, start, stop, same)
            return float(total / len(used))
        work = np.empty((2, u))
        return float(kernels.bound_rows(turned, alpha, tuples.weights, start, stop, *work))

    return sum(map_row_blocks(add, u))


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


def _soft_coassociation(
    tuples: LabelTuples, partition_weights: NDArray[np.float64]
) -> TupleCoassociation:
    u = tuples.n_tuples
    turned, mass = _turned_roots(tuples, partition_weights)
    shares = np.empty((u, u), dtype=_share_dtype(u))

    def divide(start: int, stop: int) -> None:
        same, both = np.empty((2, u))
        soft_kernels.share_rows(turned, mass, start, stop, same, both, shares)

    map_row_blocks(divide, u)
    silent = ~tuples.has_weighted_label(partition_weights)
    shares[silent, silent] = 1.0
    return TupleCoassociation(shares, 1.0, tuples.weights)


def _soft_lower_bound(tuples: LabelTuples, partition_weights: NDArray[np.float64]) -> float:
    u = tuples.n_tuples
    turned, mass = _turned_roots(tuples, partition_weights / partition_weights.sum())

    def add(start: int, stop: int) -> float:
        work = np.empty((2, u))
        return float(soft_kernels.bound_rows(turned, mass, tuples.weights, start, stop, *work))

    return sum(map_row_blocks(add, u))


def _turned_roots(
    tuples: LabelTuples, alpha: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """√α_v π (m, u) and √α_v m_v (V, u), whose products with themselves are symmetric exactly."""
    root = np.sqrt(alpha)
    turned = np.ascontiguousarray(tuples.indicator(root).toarray().T)
    return turned, np.ascontiguousarray((tuples.mass * root).T)


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


def _share_dtype(n_tuples: int) -> np.dtype[Any]:
    """Four bytes where eight would be many."""
    return np.dtype(np.float32 if n_tuples > _SINGLE_PRECISION_ABOVE else np.float64)


def _narrowed(turned: NDArray[Any]) -> NDArray[Any]:
    """Codes counted from 0 in each partition, as small as they go: more at once in a register.

    >>> _narrowed(np.array([[3, 4], [7, 5]], dtype=np.int32))
    array([[0, 1],
           [2, 0]], dtype=uint8)
    """
    from_zero = turned - turned.min(axis=1, keepdims=True)
    return from_zero.astype(np.min_scalar_type(int(from_zero.max())))
