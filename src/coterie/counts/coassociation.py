"""The co-association matrix: the share of partitions in which two points are in one cluster.

    M_ij = Σ_v α_v [P_iv = P_jv] / Σ_v α_v [both i and j labelled in v]

with α the partition weights, equal by default. M_ij is 0 if no partition labels both points. The
diagonal is 1. For soft partitions, with π_iv (K_v,) the memberships of point i and m_iv their sum,

    M_ij = Σ_v α_v ⟨π_iv, π_jv⟩ / Σ_v α_v m_iv m_jv.

This also defines the diagonal, so that M_ii = M_ij if i and j have equal memberships.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import coterie.counts.kernels as kernels
from coterie.arrays import AnyArray, Floats
from coterie.errors import InvalidParameterError
from coterie.labels.tuples import LabelTuples, as_label_tuples
from coterie.runtime.devices import map_row_blocks
from coterie.runtime.wording import short_repr

#: Weights below this fraction of the largest weight are set to zero.
_NEGLIGIBLE = 1e-12
#: If the largest weight is outside 1e-100 … 1e100, weights are rescaled: their squares would
#: overflow or underflow.
_SMALLEST = 1e-100
#: Above this many tuples, entries of M have 4 bytes instead of 8.
_SINGLE_PRECISION_ABOVE = 4000


@dataclass(frozen=True)
class TupleCoassociation:
    """The matrix M over tuples: ``values * scale``, shape (u, u), with the tuples' weights (u,).

    ``values`` holds counts in one or two bytes if all partitions have the same weight and no label
    is missing. Otherwise it holds floats, of 8 bytes up to 4,000 tuples and of 4 bytes above.
    """

    values: AnyArray
    scale: float
    weights: Floats

    __repr__ = short_repr

    @property
    def n_tuples(self) -> int:
        """Return the number of tuples u."""
        return len(self.values)

    def dense(self) -> Floats:
        """Return M as floats, shape (u, u)."""
        # V votes divided by V are exactly one; multiplied by a rounded 1/V they may not be
        return np.divide(self.values, np.rint(1.0 / self.scale), dtype=np.float64)


def coassociation(P: Any, partition_weights: Any = None) -> Floats:
    """Compute the dense co-association matrix of n points.

    Parameters
    ----------
    P : (n, V) labels, −1 missing, or list of V membership matrices (n, K_v)
        As for :class:`~coterie.RobustConsensus`.
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
    M = labelled_coassociation(tuples, alpha)[np.ix_(tuples.inverse, tuples.inverse)]
    np.fill_diagonal(M, self_coassociation(tuples, alpha)[tuples.inverse])
    return M


def labelled_coassociation(tuples: LabelTuples, partition_weights: Floats) -> Floats:
    """Return M over tuples, dense (u, u), with zeros for tuples without a weighted label."""
    M = tuple_coassociation(tuples, partition_weights).dense()
    # the diagonal is 1, but two different points of such a tuple are together in no partition
    unlabelled = ~tuples.has_weighted_label(partition_weights)
    M[unlabelled, unlabelled] = 0.0
    return M


def tuple_coassociation(tuples: LabelTuples, partition_weights: Floats) -> TupleCoassociation:
    """Compute M over tuples; the weights (V,) are in the order of the columns of the codes."""
    u = tuples.n_tuples
    codes, alpha, soft = _kernel_arrays(tuples, partition_weights)
    narrow = None if soft else _countable(codes, alpha)
    if narrow is not None:
        counts = np.empty((u, u), dtype=np.min_scalar_type(len(alpha)))
        map_row_blocks(lambda a, b: kernels.count_rows(narrow, a, b, counts), u)
        return TupleCoassociation(counts, 1.0 / len(alpha), tuples.weights)
    shares = np.empty((u, u), dtype=float_dtype(u))
    share_rows: Any = kernels.share_soft_rows if soft else kernels.share_rows
    map_row_blocks(lambda a, b: share_rows(codes, alpha, a, b, *np.empty((2, u)), shares), u)
    unlabelled = ~tuples.has_weighted_label(partition_weights)
    shares[unlabelled, unlabelled] = 1.0
    return TupleCoassociation(shares, 1.0, tuples.weights)


def self_coassociation(tuples: LabelTuples, partition_weights: Floats) -> Floats:
    """Return the diagonal of M over tuples, (u,): 1 for labels and for unlabelled tuples."""
    if tuples.memberships is None:
        return np.ones(tuples.n_tuples)
    together, pairs = tuples.squares @ partition_weights, tuples.mass**2 @ partition_weights
    return np.divide(together, pairs, out=np.ones_like(pairs), where=pairs > 0)


def pairwise_lower_bound(tuples: LabelTuples, partition_weights: Floats) -> float:
    """Return Σ_ij min(share together, share apart), a lower bound of J(G) for every clustering G.

    It takes O(u²·V) time and stores no matrix. For soft partitions the sum is over i ≠ j, as in J.
    """
    u, weights = tuples.n_tuples, tuples.weights
    codes, alpha, soft = _kernel_arrays(tuples, partition_weights / partition_weights.sum())
    narrow = None if soft else _countable(codes, alpha)
    bound_rows: Any = kernels.bound_soft_rows if soft else kernels.bound_rows

    def add(start: int, stop: int) -> float:
        if narrow is not None:
            counts = np.empty(u, dtype=np.min_scalar_type(len(alpha)))
            return float(
                kernels.bound_count_rows(narrow, weights, start, stop, counts) / len(alpha)
            )
        return float(bound_rows(codes, alpha, weights, start, stop, *np.empty((2, u))))

    return sum(map_row_blocks(add, u))


def check_partition_weights(weights: Any, n_partitions: int) -> Floats:
    """Return V non-negative weights, not all zero; ones if ``weights`` is None."""
    if weights is None:
        return np.ones(n_partitions)
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameterError(
            f"partition_weights={weights!r} are not numbers; give one number for each partition"
        ) from None
    if array.shape != (n_partitions,):
        raise InvalidParameterError(
            f"partition_weights has shape {array.shape}; give one weight for each of the "
            f"{n_partitions} partitions"
        )
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        v = int(np.argmax(wrong))
        raise InvalidParameterError(
            f"partition_weights[{v}] is {array[v]}; weights must be finite and not negative"
        )
    largest = array.max()
    if largest == 0:
        raise InvalidParameterError("partition_weights are all zero; give one a positive weight")
    scaled = array if _SMALLEST < largest < 1 / _SMALLEST else array / largest
    return np.where(scaled < _NEGLIGIBLE * scaled.max(), 0.0, scaled)


def _kernel_arrays(tuples: LabelTuples, weights: Floats) -> tuple[AnyArray, Floats, bool]:
    """Return the two arrays that the kernels need, and whether partitions are soft.

    For labels: codes (V', u) and weights (V',) of the partitions of positive weight. For soft
    partitions: √α_v π (m, u) and √α_v m_v (V, u). With square roots in both factors, products are
    exactly symmetric.
    """
    if tuples.memberships is None:
        used = np.flatnonzero(weights > 0)
        return np.ascontiguousarray(tuples.codes[:, used].T), weights[used], False
    root = np.sqrt(weights)
    transposed = np.ascontiguousarray(tuples.indicator(root).toarray().T)
    return transposed, np.ascontiguousarray((tuples.mass * root).T), True


def _countable(codes: AnyArray, alpha: Floats) -> AnyArray | None:
    """Return narrow codes (V, u) if M is a count divided by V, else None.

    It is one if weights are equal and no label is missing. The kernels count labels and partitions
    in two bytes at most. The codes are from 0 in the smallest type: more of them fit in a vector
    register.
    """
    labels = int(np.ptp(codes, axis=1).max()) if codes.size else 0
    few = max(labels, len(alpha)) <= np.iinfo(np.uint16).max
    if not (few and np.all(alpha == alpha[0]) and codes.min() >= 0):
        return None
    from_zero = codes - codes.min(axis=1, keepdims=True)
    return from_zero.astype(np.min_scalar_type(int(from_zero.max())))


def float_dtype(n_tuples: int) -> np.dtype[Any]:
    """Return the type of matrices of all pairs of tuples."""
    return np.dtype(np.float32 if n_tuples > _SINGLE_PRECISION_ABOVE else np.float64)
