"""Exact compression: points with equal labels in all partitions become one weighted tuple.

Points i and j with ``P[i, :] == P[j, :]`` have equal rows in the co-association matrix, so every
method gives them the same label. Methods therefore work on the u ≤ n distinct tuples and their
weights, and expand the result to the points.

Tuples, partitions and clusters are sorted by colours (see :mod:`~coterie.labels.colours`).
Later steps break ties by this order, so results depend neither on the order of points and
partitions nor on the names of labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

import coterie.labels.kernels as kernels
from coterie.labels.colours import order_colours
from coterie.labels.distinct_labels import code_dtype
from coterie.labels.label_matrix import LabelMatrix, are_memberships, as_label_matrix
from coterie.labels.label_values import MISSING
from coterie.labels.soft_memberships import Memberships, as_memberships, slots_of
from coterie.runtime.devices import map_row_blocks
from coterie.runtime.wording import short_repr

__all__ = [
    "LabelTuples",
    "as_label_tuples",
    "compress_labels",
    "compress_memberships",
    "group_rows",
    "recoded_rows",
    "slot_keys",
    "tuples_of_groups",
]

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

#: A labelled mass from this value on counts as 1; the difference is rounding.
_WHOLE = 1 - 1e-9
_MIN_THREAD_ROWS = 4_096


@dataclass(frozen=True)
class LabelTuples:
    """The u distinct label tuples of n points in V partitions.

    The cluster indicator Z (u, m) has one row for each tuple and one column for each of the m
    clusters of all partitions: Z[a, codes[a, v]] = 1. Tuples of soft partitions have S slots
    instead of V labels. Then ``codes[a]`` holds the columns in which row a of Z is not zero,
    increasing, with −1 in unused slots at the end, and ``memberships[a]`` holds the values of Z.
    """

    codes: NDArray[Any]  # (u, V) or (u, S), int16 or int32, C-contiguous; −1 is missing
    offsets: Indices  # (V + 1,) first column of each partition; the last is m
    weights: Array  # (u,) number of points with this tuple, or the sum of their weights
    inverse: NDArray[Any]  # (n,) tuple of each point
    partition_order: Indices  # (V,) the user's partition of each column of codes
    recode: Indices  # (m,) column of cluster c of the user's partition v: [K_0 + … + K_{v-1} + c]
    memberships: Array | None = None  # (u, S), None for labels
    names: tuple[str, ...] | None = None  # of the user's partitions, (V,)

    __repr__ = short_repr

    @property
    def n_points(self) -> int:
        """Return the number of points n: the total weight, rounded."""
        return round(self.weights.sum())

    @property
    def n_tuples(self) -> int:
        """Return the number of distinct tuples u."""
        return int(self.codes.shape[0])

    @property
    def n_partitions(self) -> int:
        """Return the number of partitions V."""
        return len(self.offsets) - 1

    @property
    def n_columns(self) -> int:
        """Return the number of clusters of all partitions, m."""
        return int(self.offsets[-1])

    @property
    def n_labels(self) -> Indices:
        """Return the number of clusters K_v of each partition, (V,)."""
        return np.diff(self.offsets)

    @property
    def partition_names(self) -> tuple[str, ...]:
        """Return the name of the partition of each column of codes, or its number, (V,)."""
        order = self.partition_order
        return tuple(str(v) if self.names is None else self.names[v] for v in order.tolist())

    @property
    def partition_of(self) -> Indices:
        """Return the partition of each indicator column, (m,)."""
        return np.repeat(np.arange(self.n_partitions), self.n_labels)

    @cached_property
    def mass(self) -> Array:
        """Return the labelled mass of each tuple in each partition, (u, V): 0 or 1 for labels."""
        if self.memberships is None:
            return (self.codes >= 0).astype(np.float64)
        rows = np.broadcast_to(np.arange(self.n_tuples)[:, None], self.codes.shape)
        # unused slots have code −1, the last partition, and add their membership 0 to it
        cell = rows * self.n_partitions + self.partition_of[self.codes]
        mass = np.bincount(
            cell.ravel(), self.memberships.ravel(), self.n_tuples * self.n_partitions
        )
        return np.where(mass >= _WHOLE, 1.0, mass).reshape(self.n_tuples, self.n_partitions)

    @cached_property
    def squares(self) -> Array:
        """Return Σ_c π_c² of each tuple over the clusters of each partition, (u, V)."""
        if self.memberships is None:
            return self.mass
        return replace(self, memberships=self.memberships**2).mass

    @cached_property
    def has_missing(self) -> bool:
        """Return whether any tuple has a labelled mass below 1 in any partition."""
        if self.memberships is None:
            return bool(self.codes.min(initial=0) < 0)
        return bool(self.mass.min(initial=1.0) < _WHOLE)

    def has_weighted_label(self, partition_weights: Array) -> NDArray[np.bool_]:
        """Return which tuples have a label in a partition of positive weight, (u,)."""
        if self.memberships is None:
            return np.any((self.codes >= 0) & (partition_weights > 0), axis=1)
        return np.any(self.mass[:, partition_weights > 0] > 0, axis=1)

    def is_complete(self, partition_weights: Array) -> bool:
        """Return whether every partition of positive weight fully labels every tuple."""
        if self.memberships is None:
            return bool((self.codes[:, partition_weights > 0] >= 0).all())
        return bool(self.mass[:, partition_weights > 0].min(initial=1.0) >= _WHOLE)

    def expand(self, of_tuples: NDArray[Any]) -> NDArray[Any]:
        """Return values of the n points from values of the u tuples."""
        return of_tuples[self.inverse]

    def labels_of_partition(self, v: int) -> Indices:
        """Return the labels 0..K_v − 1 or −1 of the tuples in partition v, (u,).

        For a soft partition it is the cluster of largest membership, the first one on ties.
        """
        if self.memberships is not None:
            own = np.append(self.partition_of == v, False)[self.codes]
            best = np.argmax(np.where(own, self.memberships, 0.0), axis=1)[:, None]
            column = np.take_along_axis(self.codes, best, axis=1)[:, 0].astype(np.int64)
            return np.where(own.any(axis=1), column - self.offsets[v], MISSING)
        column = self.codes[:, v].astype(np.int64)
        return np.where(column == MISSING, MISSING, column - self.offsets[v])

    def indicator(self, values: NDArray[Any]) -> csr_array:
        """Return Z (u, m) as a sparse matrix, each entry multiplied by a value.

        ``values`` has one value for each partition, (V,), or for each tuple, (u, 1).

        >>> as_label_tuples([[0, 0], [0, 1]]).indicator(np.array([2, 3])).toarray().sum(axis=1)
        array([5, 5])
        """
        present = self.codes != MISSING
        rows, _ = np.nonzero(present)
        if self.memberships is not None:
            if values.ndim == 1:
                values = values[self.partition_of[self.codes]]
            values = values * self.memberships
        entries = np.broadcast_to(values, self.codes.shape)[present]
        return csr_array(
            (entries, (rows, self.codes[present])), shape=(self.n_tuples, self.n_columns)
        )

    def in_given_order(self, of_partitions: NDArray[Any]) -> NDArray[Any]:
        """Reorder values of the V partitions (first axis) to the user's order."""
        given = np.empty_like(of_partitions)
        given[self.partition_order] = of_partitions
        return given

    def columns_of(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Return the columns of Z, (n', V), of new rows with the codes of the user's matrix."""
        n_labels = self.in_given_order(self.n_labels)
        starts = np.cumsum(n_labels) - n_labels
        order, lookup = self.partition_order, self.recode.astype(self.codes.dtype)
        return recoded_rows(codes, np.arange(len(codes)), order, starts[order], lookup)

    def slots(self) -> tuple[NDArray[Any], Array]:
        """Return columns and memberships (u, S) of the tuples; those of labels are 1."""
        if self.memberships is not None:
            return self.codes, self.memberships
        return slots_of(self.indicator(np.ones(self.n_partitions)))

    def slots_of(self, soft: Memberships) -> tuple[NDArray[Any], Array]:
        """Return columns and memberships (n', S) of new points."""
        return slots_of(soft.shares[:, np.argsort(self.recode)])

    def subset(self, chosen: NDArray[Any], weights: Array | None = None) -> LabelTuples:
        """Return the chosen tuples (mask or indices) without points; ``weights`` are new ones."""
        return replace(
            self.without_points(),
            codes=self.codes[chosen],
            weights=self.weights[chosen] if weights is None else weights,
            memberships=None if self.memberships is None else self.memberships[chosen],
        )

    def restricted_to(self, partitions: NDArray[np.bool_]) -> tuple[LabelTuples, NDArray[Any]]:
        """Return the tuples of some partitions (a mask), and the new tuple of each old one.

        Dropping partitions can merge tuples.
        """
        if partitions.all():
            return self, np.arange(self.n_tuples)
        kept = np.repeat(partitions, self.n_labels)
        lookup = np.where(kept, np.cumsum(kept) - 1, MISSING)
        memberships = None
        if self.memberships is None:
            every, columns = np.arange(self.n_tuples), np.flatnonzero(partitions)
            codes = _reordered(self.codes, every, columns, lookup)
            first, group, weights = group_rows(codes, self.weights)
        else:
            codes, memberships = slots_of(self.indicator(np.ones(self.n_partitions))[:, kept])
            keys = slot_keys(codes, memberships)
            first, group, weights = group_rows(keys, self.weights)
            memberships = memberships[first]
        recode = lookup[self.recode]
        restricted = LabelTuples(
            codes[first],
            _offsets(self.n_labels[partitions]),
            weights,
            group[self.inverse],
            self.partition_order[partitions],
            recode[recode != MISSING],
            memberships,
            self.names,
        )
        return restricted, group

    def with_points_apart(
        self, points: NDArray[Any], row_weights: Array | None = None
    ) -> tuple[LabelTuples, Indices]:
        """Return tuples in which each of some points is a separate tuple, at the end.

        The second result are the old places of the first tuples; those without a point left are
        gone. ``row_weights`` (n,) are those of :func:`compress_labels`.
        """
        at, own = self.inverse[points], np.ones(len(points))
        own = own if row_weights is None else row_weights[points]
        left = np.bincount(self.inverse, minlength=self.n_tuples)
        left -= np.bincount(at, minlength=self.n_tuples)
        kept = np.flatnonzero(left)
        rest = self.weights - np.bincount(at, own, self.n_tuples)
        inverse = (np.cumsum(left > 0) - 1)[self.inverse].astype(self.inverse.dtype)
        inverse[points] = len(kept) + np.arange(len(points))
        chosen = np.append(kept, at)
        apart = self.subset(chosen, np.append(rest[kept], own))
        return replace(apart, inverse=inverse), kept

    def without_points(self) -> LabelTuples:
        """Return the tuples with an empty ``inverse``, to save memory."""
        return replace(self, inverse=np.empty(0, dtype=self.inverse.dtype))

    def without_compression(self) -> LabelTuples:
        """Return n tuples of weight one, one for each point."""
        n = len(self.inverse)
        return replace(self.subset(self.inverse, np.ones(n)), inverse=np.arange(n))


def compress_labels(matrix: LabelMatrix, row_weights: Array | None = None) -> LabelTuples:
    """Compress a label matrix to its distinct tuples, in time and memory linear in n·V.

    ``row_weights`` (n,) > 0 are one by default; a weight w has the effect of w equal rows.

    >>> tuples = compress_labels(as_label_matrix([[0, 5], [1, 5], [0, 5], [0, 6]]))
    >>> tuples.n_tuples, sorted(tuples.weights.tolist())
    (3, [1.0, 1.0, 2.0])
    >>> bool((tuples.expand(tuples.codes)[0] == tuples.expand(tuples.codes)[2]).all())
    True
    """
    first, inverse, weights = group_rows(matrix.codes, row_weights)
    tuples = tuples_of_groups(matrix.codes[first], matrix.n_labels, inverse, weights)
    return replace(tuples, names=matrix.names)


def compress_memberships(soft: Memberships, row_weights: Array | None = None) -> LabelTuples:
    """Compress soft partitions to their distinct rows, which are compared bit by bit.

    If all memberships are hard, the result has labels and no memberships.

    >>> soft = as_memberships([np.array([[0.9, 0.1], [0.5, 0.5], [0.9, 0.1]])])
    >>> tuples = compress_memberships(soft)
    >>> tuples.n_tuples, sorted(tuples.weights.tolist())
    (2, [1.0, 2.0])
    """
    if soft.is_hard:
        return compress_labels(soft.labels(), row_weights)
    codes, memberships = slots_of(soft.shares)
    first, inverse, weights = group_rows(slot_keys(codes, memberships), row_weights)
    tuples = _sorted(codes[first], _offsets(soft.n_labels), inverse, weights, memberships[first])
    return replace(tuples, names=soft.names)


def as_label_tuples(P: Any) -> LabelTuples:
    """Return label tuples; P are labels, membership matrices, or already label tuples."""
    if isinstance(P, LabelTuples):
        return P
    if are_memberships(P):
        return compress_memberships(as_memberships(P))
    return compress_labels(as_label_matrix(P))


def group_rows(
    rows: NDArray[Any], row_weights: Array | None = None
) -> tuple[Indices, NDArray[np.int32], Array]:
    """Return the first row of each group of equal rows, the group of each row, and its weight.

    >>> [x.tolist() for x in group_rows(np.array([[7, 1], [0, 0], [7, 1]]))]
    [[0, 1], [0, 1, 0], [2.0, 1.0]]
    """
    first, group, counts = kernels.group_equal_rows(np.ascontiguousarray(rows))
    if row_weights is None:
        return first, group, counts.astype(np.float64)
    return first, group, np.bincount(group, weights=row_weights).astype(np.float64)


def recoded_rows(
    codes: NDArray[Any],
    rows: NDArray[Any],
    columns: NDArray[Any],
    starts: NDArray[Any],
    lookup: NDArray[Any],
) -> NDArray[Any]:
    """Return ``lookup[starts[j] + codes[rows[i], columns[j]]]`` for all i, j; −1 stays −1.

    It reads the codes once, on all cores, without intermediate copies.

    >>> codes, lookup = np.array([[0, 1], [1, -1]], np.int8), np.array([5, 6, 7, 8], np.int16)
    >>> recoded_rows(codes, [1, 0], [1, 0], [0, 2], lookup).tolist()
    [[-1, 8], [6, 7]]
    """
    codes = np.ascontiguousarray(codes)
    rows, columns, starts = (np.asarray(x, dtype=np.int64) for x in (rows, columns, starts))
    recoded = np.empty((len(rows), len(columns)), dtype=lookup.dtype)
    map_row_blocks(
        lambda a, b: kernels.recode_rows(codes, rows, columns, starts, lookup, a, b, recoded),
        len(rows),
        at_least=_MIN_THREAD_ROWS,
    )
    return recoded


def slot_keys(codes: NDArray[Any], memberships: Array) -> NDArray[np.int64]:
    """Return integer rows (n, 2S), equal exactly where columns and memberships are equal."""
    return np.hstack([codes.astype(np.int64), memberships.view(np.int64)])


def tuples_of_groups(
    codes: NDArray[Any], n_labels: Indices, inverse: NDArray[Any], weights: Array
) -> LabelTuples:
    """Return the sorted label tuples, given the distinct rows.

    ``codes`` (u, V) are the distinct rows, with codes 0..K_v − 1 or −1; ``n_labels`` (V,) are
    the K_v; ``inverse`` (n,) is the distinct row of each point.
    """
    offsets = _offsets(n_labels)
    lookup = np.arange(offsets[-1], dtype=code_dtype(offsets[-1]))
    u, V = codes.shape
    columns = recoded_rows(codes, np.arange(u), np.arange(V), offsets[:-1], lookup)
    return _sorted(columns, offsets, inverse, weights)


def _offsets(n_labels: Indices) -> Indices:
    return np.concatenate([[0], np.cumsum(n_labels)])


def _sorted(
    codes: NDArray[Any],
    offsets: Indices,
    inverse: NDArray[Any],
    weights: Array,
    memberships: Array | None = None,
) -> LabelTuples:
    """Sort tuples, partitions and clusters by their colours."""
    tuple_colours, cluster_colours, partition_colours = order_colours(
        codes, offsets, weights, memberships
    )
    order = np.argsort(tuple_colours, kind="stable")
    partition_order = np.argsort(partition_colours, kind="stable")
    new_offsets = _offsets(np.diff(offsets)[partition_order])
    recode = np.empty(offsets[-1], dtype=np.int64)
    for place, v in enumerate(partition_order):
        own = slice(offsets[v], offsets[v + 1])
        by_colour = np.argsort(cluster_colours[own], kind="stable")
        recode[own][by_colour] = np.arange(new_offsets[place], new_offsets[place + 1])
    rank = np.empty(len(order), dtype=inverse.dtype)
    rank[order] = np.arange(len(order), dtype=inverse.dtype)
    if memberships is None:
        codes = _reordered(codes, order, partition_order, recode)
    else:
        codes, memberships = _reordered_slots(codes[order], memberships[order], recode)
    return LabelTuples(
        codes, new_offsets, weights[order], rank[inverse], partition_order, recode, memberships
    )


def _reordered(
    codes: NDArray[Any], order: Indices, partition_order: Indices, lookup: Indices
) -> NDArray[Any]:
    """Return codes with reordered rows and columns, and renumbered indicator columns."""
    no_shift = np.zeros(len(partition_order))
    return recoded_rows(codes, order, partition_order, no_shift, lookup.astype(codes.dtype))


def _reordered_slots(
    codes: NDArray[Any], memberships: Array, recode: Indices
) -> tuple[NDArray[Any], Array]:
    """Renumber the indicator columns of slots, and sort the slots of each row again."""
    last = len(recode)
    columns = np.append(recode, last)[codes]
    order = np.argsort(columns, axis=1, kind="stable")
    columns = np.take_along_axis(columns, order, axis=1)
    renumbered = np.where(columns == last, MISSING, columns).astype(codes.dtype)
    return renumbered, np.take_along_axis(memberships, order, axis=1)
